//! A node's membership, and the leader's work where it leads: carries what `farol_cluster` decides to the tables.
//!
//! Two threads, so that a leader's many writes never keep a node's own lease waiting. Each follows all tables, hands
//! what it hears to its state machine, and does the writes that come out, by compare-and-set.
//!
//! INVARIANT: what a member must find again after a restart is on disk before the write that depends on it goes out.

use crate::handles::cluster::{ClusterHandle, ClusterView, ReportBoard};
use crate::handles::planner::PlannerDesk;
use anyhow::{Context, Result};
use farol_cluster::planned::{PlanRecord, PlanWish};
use farol_cluster::record::{LeaderRecord, StateRecord, read};
use farol_cluster::{
    Control, Key, Member, MemberDisk, Monotonic, NodeId, NodeRecord, Phase, Revision, Rules, Times, Write,
    WriteOutcome,
};
use farol_fabric::{Entry, Fabric, Lost, Seq, Topic, Watch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often state machines are asked what to do.
const TICK: Duration = Duration::from_millis(200);
/// How often the leader lets logs forget.
const TRIM_EVERY: Duration = Duration::from_secs(30);
/// How often the copy of the tables is written.
const COPY_EVERY: Duration = Duration::from_secs(10);
/// What the member remembers, in the data folder.
const DISK_FILE: &str = "member.json";

/// Time since boot, which goes on while the machine sleeps: what a lease is measured by. Where the system does not say,
/// time since the process began.
pub fn now() -> Monotonic {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let secs: Option<f64> = text.split(' ').next().and_then(|secs| secs.parse().ok());
    let millis = match secs {
        Some(secs) => (secs * 1000.0) as u64,
        None => u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    Monotonic::from_millis(millis)
}

/// What membership needs.
pub struct Membership {
    pub fabric: Arc<dyn Fabric>,
    /// What the node is; the state machine fills in the rest.
    pub profile: NodeRecord,
    pub folder: PathBuf,
    pub times: Times,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    /// Whether it may lead.
    pub controls: bool,
    /// Where the planner of the routing table leaves what it has worked out.
    pub planner: Arc<PlannerDesk>,
}

/// The running membership.
pub struct RunningMember {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningMember {
    pub fn start(membership: Membership) -> Result<RunningMember> {
        membership.times.check().map_err(anyhow::Error::msg)?;
        let stop = Arc::new(AtomicBool::new(false));
        let disk = read_disk(&membership.folder)?;
        let seed = farol_base::fingerprint::random_key();
        let mut threads = Vec::new();
        if membership.controls {
            let incarnation = disk.incarnation + 1;
            let control = Control::new(
                membership.profile.id,
                incarnation,
                membership.times,
                Rules::default(),
                !seed,
                now(),
            );
            let mut work = ControlLoop {
                fabric: membership.fabric.clone(),
                control,
                stop: stop.clone(),
                board: membership.board.clone(),
                planner: membership.planner.clone(),
            };
            threads.push(std::thread::Builder::new().name("leader".to_string()).spawn(move || work.run())?);
        }
        let member = Member::start(
            membership.profile.clone(),
            disk.clone(),
            membership.times,
            Rules::default(),
            seed,
            now(),
        );
        let view = ClusterView::new(membership.profile.id);
        let mut work = MemberLoop { membership, member, saved: disk, view, stop: stop.clone() };
        threads.push(std::thread::Builder::new().name("member".to_string()).spawn(move || work.run())?);
        Ok(RunningMember { stop, threads })
    }

    /// Ends at once; the lease runs out by itself unless the node has left before.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

fn read_disk(folder: &Path) -> Result<MemberDisk> {
    let path = folder.join(DISK_FILE);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} cannot be read; delete it together with node.id to join as a new node",
                path.display()
            )
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(MemberDisk::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_disk(folder: &Path, disk: &MemberDisk) -> Result<()> {
    let path = folder.join(DISK_FILE);
    let new = folder.join(format!("{DISK_FILE}.new"));
    std::fs::write(&new, serde_json::to_vec(disk)?)?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, &path)?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}

/// Does a write; what came of it.
fn carry_out(fabric: &dyn Fabric, write: &Write) -> WriteOutcome {
    let expected = farol_fabric::Revision(write.expected.0);
    let done = match &write.value {
        Some(value) => fabric.set(&write.key, value, expected),
        None => fabric.delete(&write.key, expected).map(|()| farol_fabric::Revision(0)),
    };
    match done {
        Ok(revision) => WriteOutcome::Written(Revision(revision.0)),
        Err(Lost::Conflict) => WriteOutcome::Conflict,
        Err(Lost::Unknown(why)) => {
            tracing::debug!(key = write.key, why, "nobody knows whether it was written");
            WriteOutcome::Unknown
        }
    }
}

/// Everything that has changed since the last time, waiting a little for the first.
fn news(watch: &Watch) -> Vec<Entry> {
    let mut entries: Vec<Entry> = watch.next(TICK).into_iter().collect();
    while let Some(entry) = watch.next(Duration::ZERO) {
        entries.push(entry);
    }
    entries
}

struct MemberLoop {
    membership: Membership,
    member: Member,
    saved: MemberDisk,
    view: ClusterView,
    stop: Arc<AtomicBool>,
}

impl MemberLoop {
    fn run(&mut self) {
        let fabric = self.membership.fabric.clone();
        let watch = fabric.watch("");
        let mut copied = Instant::now();
        while !self.stop.load(Ordering::SeqCst) {
            for entry in news(&watch) {
                self.membership.cluster.copy.hear(&entry.key, entry.value.clone(), entry.revision.0);
                self.hear(&entry.key, entry.value.as_deref(), Revision(entry.revision.0));
            }
            if copied.elapsed() >= COPY_EVERY {
                copied = Instant::now();
                self.save_copy();
            }
            for key in self.member.wants() {
                match fabric.get(&key) {
                    Ok(Some((value, revision))) => self.hear(&key, Some(&value), Revision(revision.0)),
                    Ok(None) => self.hear(&key, None, Revision(0)),
                    Err(_) => {}
                }
            }
            self.membership.board.complain("tables", &fabric_trouble(&*fabric));
            self.member.report(self.membership.board.report());
            if self.membership.cluster.is_to_drain()
                && !matches!(self.member.phase(), Phase::Draining | Phase::Left)
            {
                self.member.drain(now());
            }
            for write in self.member.tick(now()) {
                if let Err(error) = self.save() {
                    let text = format!("cannot write down its membership: {error:#}; make room on the disk");
                    self.membership.board.complain("member", &text);
                    continue;
                }
                let outcome = carry_out(&*fabric, &write);
                self.member.wrote(&write.key, outcome, now());
            }
            self.publish();
        }
        self.save_copy();
    }

    /// Nothing waits for it: another node has one, too.
    fn save_copy(&self) {
        if let Err(error) = self.membership.cluster.copy.save(&self.membership.folder) {
            tracing::warn!("the copy of the tables cannot be written: {error:#}");
        }
    }

    fn save(&mut self) -> Result<()> {
        if self.saved != *self.member.disk() {
            write_disk(&self.membership.folder, self.member.disk())?;
            self.saved = self.member.disk().clone();
            self.membership.board.complain("member", "");
        }
        Ok(())
    }

    fn hear(&mut self, key: &str, value: Option<&[u8]>, revision: Revision) {
        self.member.heard(key, value, revision, now());
        let view = &mut self.view;
        match (Key::parse(key), value) {
            (Some(Key::Node(id)), Some(value)) => {
                keep(&mut view.nodes, id, key, value);
                view.heard.insert(id, Instant::now());
            }
            (Some(Key::Node(id)), None) => {
                view.nodes.remove(&id);
                view.heard.remove(&id);
            }
            (Some(Key::Leader), value) => {
                let leader = value.and_then(|value| read::<LeaderRecord>(key, value).ok());
                view.leader = leader.map(|leader| leader.with_term(revision.0));
            }
            (Some(Key::Plan), value) => {
                view.plan = value.and_then(|value| read::<PlanRecord>(key, value).ok()).map(Arc::new);
            }
            (Some(Key::PlanWish), Some(value)) => {
                view.plan_wish = read::<PlanWish>(key, value).map_or(view.plan_wish, |wish| wish.nonce);
            }
            (Some(Key::Cluster), Some(value)) => view.cluster = read(key, value).ok(),
            (Some(Key::Snapshot(shard)), Some(value)) => {
                if let Ok(snapshot) = read(key, value) {
                    view.snapshots.insert(shard, snapshot);
                }
            }
            (Some(Key::Snapshot(shard)), None) => drop(view.snapshots.remove(&shard)),
            (Some(Key::State), Some(value)) => {
                let state: Option<StateRecord> = read(key, value).ok();
                let known = view.state.as_ref().map_or(0, |state| state.version);
                view.state = state.filter(|state| state.version >= known).or(view.state.take());
            }
            _ => {}
        }
    }

    fn publish(&mut self) {
        let (member, view) = (&self.member, &mut self.view);
        view.no = member.no();
        view.incarnation = member.incarnation();
        view.phase = member.phase().clone();
        view.is_active = member.is_active(now());
        view.active_until = member.active_until();
        view.trouble = member.trouble().map(str::to_string);
        view.ranks = member.ranks().cloned();
        if view.shards.as_deref() != member.shards() {
            view.shards = member.shards().cloned().map(Arc::new);
        }
        if view.route.as_deref() != member.route() {
            view.route = member.route().cloned().map(Arc::new);
        }
        self.membership.cluster.set(view.clone());
    }
}

fn keep(nodes: &mut BTreeMap<NodeId, NodeRecord>, id: NodeId, key: &str, value: &[u8]) {
    match read(key, value) {
        Ok(record) => drop(nodes.insert(id, record)),
        Err(sentence) => tracing::debug!("{sentence}"),
    }
}

fn fabric_trouble(fabric: &dyn Fabric) -> String {
    let state = fabric.state();
    match (state.connected, state.trouble) {
        (_, Some(trouble)) => trouble,
        (false, None) => {
            "the tables of the cluster are out of reach: search goes on, crawling waits".to_string()
        }
        (true, None) => String::new(),
    }
}

struct ControlLoop {
    fabric: Arc<dyn Fabric>,
    control: Control,
    stop: Arc<AtomicBool>,
    board: Arc<ReportBoard>,
    planner: Arc<PlannerDesk>,
}

impl ControlLoop {
    fn run(&mut self) {
        let watch = self.fabric.watch("");
        let mut trimmed = Instant::now();
        while !self.stop.load(Ordering::SeqCst) {
            for entry in news(&watch) {
                self.control.heard(&entry.key, entry.value.as_deref(), Revision(entry.revision.0), now());
            }
            for key in self.control.wants() {
                match self.fabric.get(&key) {
                    Ok(Some((value, revision))) => {
                        self.control.heard(&key, Some(&value), Revision(revision.0), now());
                    }
                    Ok(None) => self.control.heard(&key, None, Revision(0), now()),
                    Err(_) => {}
                }
            }
            self.planner.set_term(self.control.term(now()).unwrap_or(0));
            if let Some(proposal) = self.planner.take() {
                self.control.propose(proposal);
            }
            // One at a time: the lease is looked at again before each, as time passes with every write.
            let writes = self.control.tick(now());
            for write in writes {
                let is_lease = write.key == Key::Leader.to_string();
                let outcome = match is_lease || self.control.term(now()).is_some() {
                    true => carry_out(&*self.fabric, &write),
                    false => WriteOutcome::Conflict,
                };
                self.control.wrote(&write.key, outcome, now());
            }
            if trimmed.elapsed() >= TRIM_EVERY {
                trimmed = Instant::now();
                self.trim();
            }
            self.board.complain("leader", self.control.trouble().unwrap_or_default());
        }
        self.planner.set_term(0);
        // Whoever comes next need not wait for the lease to run out.
        self.control.resign(now());
        for write in self.control.tick(now()) {
            let outcome = carry_out(&*self.fabric, &write);
            self.control.wrote(&write.key, outcome, now());
        }
    }

    fn trim(&self) {
        for trim in self.control.trims(now()) {
            if let Err(away) = self.fabric.trim(&Topic::Docs(trim.shard.0), Seq(trim.upto)) {
                tracing::debug!(%away, "a log is not trimmed");
            }
        }
    }
}
