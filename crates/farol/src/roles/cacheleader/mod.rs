//! The leader of the cache service: hears beats and reports, lets [`Leader`] decide, and publishes what it decides.
//!
//! It runs beside every candidate for the cluster's leadership and works while its node leads. Tables are written by
//! compare-and-set on the revision that was read, with the term inside: whoever was deposed and does not know finds another
//! revision, or is overwritten by a later term. Nobody waits for it.

mod status;
mod table;

use crate::handles::cluster::ClusterHandle;
use crate::ring::records::{read_hot, read_ring, write_hot, write_ring};
use crate::ring::{AskedQuery, BEATS, REPORTS};
use crate::wire::v1::cache::{WireBeat, WireReport};
use farol_base::Timestamp;
use farol_cache::NodeId;
use farol_cache::freshness::CLOCK_BEGINS;
use farol_cache::lead::{Leader, LeaderRules, Publish};
use farol_cache::tables::{FrontReport, HotDoc, RingDoc};
use farol_cluster::{Key, NodeState, Role};
use farol_fabric::{Fabric, Hearing};
use status::ServiceStatus;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use table::PublishedTable;

/// How often the leader is asked what is due.
const TICK: Duration = Duration::from_millis(100);
/// How often the table for people is written.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// What the leader of the cache service needs.
pub struct CacheLeaderParts {
    pub fabric: Arc<dyn Fabric>,
    pub cluster: Arc<ClusterHandle>,
    /// What it decides by.
    pub rules: Box<dyn Fn() -> LeaderRules + Send>,
    /// The same in words.
    pub rules_told: String,
}

/// The running candidate.
pub struct RunningCacheLeader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl RunningCacheLeader {
    pub fn start(parts: CacheLeaderParts) -> std::io::Result<RunningCacheLeader> {
        let stop = Arc::<AtomicBool>::default();
        let stops = stop.clone();
        let thread = std::thread::Builder::new().name("cache leader".to_string()).spawn(move || {
            let begun = Instant::now();
            let mut work = Candidate { parts, begun, lead: None };
            while !stops.load(Ordering::SeqCst) {
                work.step();
            }
        })?;
        Ok(RunningCacheLeader { stop, thread })
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        // What broke it was told where it happened.
        let _ = self.thread.join();
    }
}

struct Candidate {
    parts: CacheLeaderParts,
    begun: Instant,
    lead: Option<Lead>,
}

/// A leadership under way.
struct Lead {
    term: u64,
    leader: Leader<AskedQuery>,
    beats: Hearing,
    reports: Hearing,
    ring: PublishedTable<RingDoc>,
    hot: PublishedTable<HotDoc>,
    status: ServiceStatus,
    told: Instant,
    /// Cache nodes that are there, and those that give their work away.
    members: BTreeSet<NodeId>,
    leaving: BTreeSet<NodeId>,
}

impl Candidate {
    fn now(&self) -> Timestamp {
        CLOCK_BEGINS + self.begun.elapsed()
    }

    fn step(&mut self) {
        let Some(term) = self.term() else {
            self.lead = None;
            return std::thread::sleep(TICK);
        };
        if self.lead.as_ref().is_none_or(|lead| lead.term != term) {
            // Heard from here on; what the last leader published is where this one begins.
            self.lead = self.begin(term);
        }
        let now = self.now();
        let Some(lead) = &mut self.lead else { return std::thread::sleep(TICK) };
        lead.see_members(&self.parts.cluster, now);
        lead.hear(now);
        for publish in lead.leader.tick(now) {
            lead.status.published(&publish, lead.leader.ring());
            match publish {
                Publish::Ring(doc) => lead.ring.want(doc),
                Publish::Hot(doc) => lead.hot.want(doc),
                Publish::Burst(news) => tracing::info!(
                    query = news.key.as_ref().map_or("", |query| &query.shown),
                    severity = news.severity,
                    "a question bursts"
                ),
            }
        }
        let fabric = &*self.parts.fabric;
        let is_deposed = lead.ring.write(fabric, term) | lead.hot.write(fabric, term);
        if lead.told.elapsed() >= STATUS_EVERY {
            lead.told = Instant::now();
            lead.status.tell(fabric, &lead.leader, term);
        }
        if is_deposed {
            tracing::info!(term, "another leads the cache service");
            self.lead = None;
            std::thread::sleep(TICK);
        }
    }

    /// The term under which this node leads, as the tables have it.
    fn term(&self) -> Option<u64> {
        let view = self.parts.cluster.view();
        let leader = view.leader.as_ref().filter(|leader| !leader.resigned && leader.term > 0)?;
        let me = view.nodes.get(&view.me)?;
        (leader.node == view.me && leader.incarnation == me.incarnation).then_some(leader.term)
    }

    /// Takes the service over; `None` while the tables cannot be read, or while it has no nodes at all.
    fn begin(&self, term: u64) -> Option<Lead> {
        let view = self.parts.cluster.view();
        if !view.nodes.values().any(|node| node.roles.contains(&Role::Cache)) {
            return None;
        }
        let fabric = &*self.parts.fabric;
        let (beats, reports) = (fabric.hear(BEATS), fabric.hear(REPORTS));
        let ring = PublishedTable::read(fabric, Key::Ring, read_ring, write_ring)?;
        let hot = PublishedTable::read(fabric, Key::Hot, read_hot, write_hot)?;
        let (rules, now) = ((self.parts.rules)(), self.now());
        let leader = match ring.value() {
            Some(known) => Leader::resume(rules, term, known, hot.value(), now),
            None => Leader::new(rules, term, getrandom::u64().ok()?, now),
        };
        let status = ServiceStatus::new(leader.ring().clone(), &self.parts.rules_told);
        Some(Lead {
            term,
            leader,
            beats,
            reports,
            ring,
            hot,
            status,
            told: Instant::now(),
            members: BTreeSet::new(),
            leaving: BTreeSet::new(),
        })
    }
}

impl Lead {
    /// Who is a cache node of this cluster, and who goes.
    fn see_members(&mut self, cluster: &ClusterHandle, now: Timestamp) {
        let view = cluster.view();
        let caches = || view.nodes.values().filter(|node| node.roles.contains(&Role::Cache));
        let in_state = |is: fn(NodeState) -> bool| -> BTreeSet<NodeId> {
            caches().filter(|node| is(node.state)).filter_map(|node| Some(NodeId(node.no?.0))).collect()
        };
        self.members = in_state(|state| state == NodeState::Up);
        let leaving = in_state(|state| matches!(state, NodeState::Draining | NodeState::Left));
        for node in leaving.difference(&self.leaving) {
            self.leader.leave(*node, now);
        }
        self.leaving = leaving;
    }

    /// Takes in what was said since the last time, waiting a little for the first.
    fn hear(&mut self, now: Timestamp) {
        let mut wait = TICK;
        while let Some(bytes) = self.beats.next(wait) {
            wait = Duration::ZERO;
            // A stranger, or one that was buried, does not come onto the ring by beating.
            if let Ok((node, beat)) = postcard::from_bytes::<WireBeat>(&bytes).map(WireBeat::read)
                && self.members.contains(&node)
            {
                self.leader.beat(node, &beat, now);
                self.status.beat(node, &beat);
            }
        }
        while let Some(bytes) = self.reports.next(Duration::ZERO) {
            match read_report(&bytes) {
                Ok(report) => {
                    self.status.report(&report);
                    self.leader.report(report, now);
                }
                Err(error) => tracing::debug!(error, "a report of a front means nothing"),
            }
        }
    }
}

fn read_report(bytes: &[u8]) -> Result<FrontReport<AskedQuery>, String> {
    let wire: WireReport = postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
    wire.read(|hash, text| AskedQuery::new(hash, &text)).map_err(|error| error.to_string())
}
