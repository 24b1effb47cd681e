//! Makes backups of this agent.

use super::EstateSources;
use crate::exchange::ExchangeDesk;
use crate::handles::order::Order;
use crate::handover::backup::{AgentManifest, Moment, RememberedHosts, SinceBackup, deletable, pointer_to};
use anyhow::{Context, Result, anyhow, bail};
use farol_cluster::record::{read, write};
use farol_cluster::route::BackupRecord;
use farol_cluster::{Key, NodeNo};
use farol_fabric::{Lost, Revision};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often it is looked whether a backup is due.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Rest after a backup that failed.
const REST: Duration = Duration::from_secs(5);
/// Batches of the outbox that are read at a time.
const BATCHES: usize = 64;

/// The newest backup, and the one before it.
#[derive(Default)]
struct Kept {
    newest: Option<AgentManifest>,
    before: Option<AgentManifest>,
}

pub fn run(sources: &EstateSources, stop: &AtomicBool) {
    let mut kept: Option<Kept> = None;
    // The first one is made at once.
    let mut begun: Option<Instant> = None;
    let mut archive_bytes = 0;
    let mut failed: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK_EVERY);
        if failed.is_some_and(|at| at.elapsed() < REST) {
            continue;
        }
        let known = match &mut kept {
            Some(known) => known,
            None => match read_kept(sources) {
                Ok(known) => kept.insert(known),
                Err(error) => {
                    complain(sources, &error);
                    failed = Some(Instant::now());
                    continue;
                }
            },
        };
        let bytes = sources.crawl.snapshot().archive_bytes;
        let since = SinceBackup {
            time: begun.map_or(sources.rules.every, |begun| begun.elapsed()),
            archive_bytes: bytes.saturating_sub(archive_bytes),
            batches: new_batches(&sources.desk),
            is_wanted: sources.gate.is_wanted(),
        };
        if !sources.rules.is_due(&since) || !sources.rights.is_leased() {
            continue;
        }
        begun = Some(Instant::now());
        let number = sources.gate.begin();
        match back_up(sources, known, stop) {
            Ok(()) => {
                archive_bytes = bytes;
                failed = None;
                sources.gate.done(number);
                sources.board.complain("backup", "");
            }
            Err(_) if stop.load(Ordering::SeqCst) => return,
            Err(error) => {
                sources.gate.failed();
                complain(sources, &error);
                failed = Some(Instant::now());
            }
        }
    }
}

fn complain(sources: &EstateSources, error: &anyhow::Error) {
    let text = format!(
        "this agent has no newer backup: {error:#}; until it has one, what it finds is found again if it is lost, and hosts \
         wait to be handed over"
    );
    sources.board.complain("backup", &text);
}

/// Batches that were taken in and that no backup holds.
fn new_batches(desk: &ExchangeDesk) -> u64 {
    let backed_up = desk.backed_up.lock().clone();
    let received = desk.received.lock();
    let new =
        |(from, number): (&NodeNo, &u64)| number - backed_up.get(from).copied().unwrap_or(0).min(*number);
    received.iter().map(new).sum()
}

fn pointer(sources: &EstateSources) -> Result<(Option<BackupRecord>, Revision)> {
    let key = Key::Backup(sources.me).to_string();
    Ok(match sources.fabric.get(&key)? {
        Some((value, revision)) => (Some(read(&key, &value)?), revision),
        None => (None, Revision::NONE),
    })
}

/// What an earlier process of this agent has left; where it cannot be read everything is uploaded anew.
fn read_kept(sources: &EstateSources) -> Result<Kept> {
    let (Some(pointer), _) = pointer(sources)? else { return Ok(Kept::default()) };
    let manifest = |name: &str| match AgentManifest::read(&sources.blobs, name) {
        Ok(manifest) => Some(manifest),
        Err(error) => {
            tracing::warn!(error = %format!("{error:#}"), "an earlier backup cannot be read");
            None
        }
    };
    let newest = manifest(&pointer.manifest);
    let before = pointer.before.as_deref().and_then(manifest);
    if let Some(newest) = &newest {
        *sources.desk.backed_up.lock() = senders(newest);
    }
    Ok(Kept { newest, before })
}

/// The last batch of each agent that a backup holds.
fn senders(manifest: &AgentManifest) -> BTreeMap<NodeNo, u64> {
    let sender = |(from, number): &(u64, u64)| Some((NodeNo(u16::try_from(*from).ok()?), *number));
    manifest.numbers.iter().filter_map(sender).collect()
}

fn back_up(sources: &EstateSources, kept: &mut Kept, stop: &AtomicBool) -> Result<()> {
    let moment = take_moment(sources, stop)?;
    let mut waiting = WaitingUrls::of(&sources.desk);
    let mut rows = RememberedHosts::of(&*sources.tables);
    let last = kept.newest.as_ref();
    let manifest =
        moment.upload(sources.me, &sources.blobs, &sources.pages, last, &mut waiting, &mut rows)?;
    let (present, revision) = pointer(sources)?;
    let Some(record) = pointer_to(&manifest, present.as_ref()) else {
        // Another process with this folder's number has made one: this one goes on behind it.
        *kept = read_kept(sources)?;
        bail!("there is a newer one by somebody else");
    };
    let (key, value) = (Key::Backup(sources.me).to_string(), write(&record));
    match sources.fabric.set(&key, &value, revision) {
        Ok(_) => {}
        Err(Lost::Conflict) => bail!("somebody else has told of one just now"),
        Err(Lost::Unknown(why)) => match sources.fabric.get(&key)? {
            Some((written, _)) if written == value => {}
            _ => bail!("the tables do not answer: {why}"),
        },
    }
    *sources.desk.backed_up.lock() = senders(&manifest);
    tracing::info!(number = manifest.number, "backed up");
    kept.before = kept.newest.replace(manifest);
    if let Err(error) = clean(sources, kept) {
        tracing::info!(error = %format!("{error:#}"), "old files of backups stay for now");
    }
    Ok(())
}

/// Has the crawl name what there is at this moment.
fn take_moment(sources: &EstateSources, stop: &AtomicBool) -> Result<Moment> {
    let (reply, answer) = sync_channel(1);
    sources.crawl.order(Order::BackUp(reply))?;
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(moment) => return moment.map_err(|why| anyhow!(why)),
            Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::SeqCst) => {}
            Err(_) => bail!("the crawl has ended"),
        }
    }
}

/// Deletes what two manifests no longer name.
fn clean(sources: &EstateSources, kept: &Kept) -> Result<()> {
    let newest = kept.newest.as_ref().context("there is no backup")?;
    for kind in ["urls", "pages"] {
        let names = sources.blobs.list(&format!("{kind}/{}/", sources.me))?;
        for name in deletable(&names, newest, kept.before.as_ref()) {
            sources.blobs.delete(&name)?;
        }
    }
    Ok(())
}

/// Packed URLs that other agents have not told to have, a few at a time.
struct WaitingUrls<'a> {
    desk: &'a ExchangeDesk,
    receivers: Vec<NodeNo>,
    /// The next batch for the last of them.
    next: u64,
    read: VecDeque<Vec<u8>>,
}

impl WaitingUrls<'_> {
    fn of(desk: &ExchangeDesk) -> WaitingUrls<'_> {
        let receivers = desk.outboxes.lock().receivers();
        WaitingUrls { desk, receivers, next: 0, read: VecDeque::new() }
    }
}

impl Iterator for WaitingUrls<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            if let Some(packed) = self.read.pop_front() {
                return Some(Ok(packed));
            }
            let to = *self.receivers.last()?;
            match self.desk.outboxes.lock().waiting_urls(to, self.next, BATCHES) {
                Ok(batches) => match batches.last() {
                    Some((last, _)) => {
                        self.next = last + 1;
                        let packed = batches.into_iter().map(|(_, packed)| packed);
                        self.read.extend(packed.filter(|packed| !packed.is_empty()));
                    }
                    None => {
                        self.receivers.pop();
                        self.next = 0;
                    }
                },
                Err(error) => {
                    self.receivers.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
