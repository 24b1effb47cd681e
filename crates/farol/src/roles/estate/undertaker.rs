//! Brings what dead agents had to their heirs, where the leader has named this agent for it.
//!
//! Their backup is opened in a folder of its own; its hosts go as parcels, without rights, to whoever is to have them; URLs
//! that had waited for other agents, and what lies in the dead agent's log behind its backup, find their way through this
//! agent's crawl. When all of it has arrived that is said, and heirs wait no longer.
//!
//! INVARIANT: it is said only when every receiver has told that it has everything. Each step may happen twice.

use super::EstateSources;
use crate::archive::Incoming;
use crate::exchange::orders::{CrawlOrder, read as read_order};
use crate::exchange::packer::keep_when_there_is_room;
use crate::handles::order::Order;
use crate::handover::backup::AgentManifest;
use crate::handover::import::ParcelBatch;
use crate::handover::pace::{Pace, Pacer};
use crate::handover::undertake::{Estate, ParcelSinks};
use crate::wire::freight::{Freight, pack_parcel, read as read_freight};
use crate::wire::parcel::{ParcelId, unpack};
use anyhow::{Context, Result, bail};
use farol_base::{CanonicalUrl, Host};
use farol_cluster::record::{read, write};
use farol_cluster::route::{BackupRecord, Bequest, UndertakeRecord};
use farol_cluster::{Key, NodeNo};
use farol_fabric::{Revision, Seq, Topic};
use farol_partition::hold::Destination;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often it is looked whether somebody is to be buried.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Rest after what failed.
const REST: Duration = Duration::from_secs(10);
/// Batches of the log that are read in one go, and how long is waited for more of them.
const READ_MAX: usize = 64;
const READ_WAIT: Duration = Duration::from_millis(500);
/// Things that the crawl is given before it is waited for.
const GIVEN_MAX: u64 = 64;

pub fn run(sources: &EstateSources, stop: &AtomicBool) {
    let mut failed: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK_EVERY);
        if failed.is_some_and(|at| at.elapsed() < REST) {
            continue;
        }
        match look(sources, stop) {
            Ok(()) => {
                failed = None;
                sources.board.complain("undertaker", "");
            }
            Err(_) if stop.load(Ordering::SeqCst) => return,
            Err(error) => {
                failed = Some(Instant::now());
                let text = format!("what a lost agent had cannot be brought to others yet: {error:#}");
                sources.board.complain("undertaker", &text);
            }
        }
    }
}

/// Buries whom this agent was named for.
fn look(sources: &EstateSources, stop: &AtomicBool) -> Result<()> {
    let Some(route) = sources.cluster.view().route.clone() else { return Ok(()) };
    for bequest in &route.bequests {
        let key = Key::Undertake(bequest.no).to_string();
        let Some((value, revision)) = sources.fabric.get(&key)? else { continue };
        let named: UndertakeRecord = read(&key, &value)?;
        let me = sources.rights.me();
        let is_mine = (named.by, named.by_incarnation) == (me.no, me.incarnation)
            && named.incarnation == bequest.incarnation
            && !named.done;
        // By an older table hosts would go to the dead.
        let is_time = sources.rights.epoch() >= route.epoch() && sources.rights.is_leased();
        if !is_mine || !is_time {
            continue;
        }
        let begun = Instant::now();
        let mut burial = Burial { sources, stop, given: 0, sent: BTreeMap::new() };
        let hosts = burial.bury(bequest)?;
        burial.wait()?;
        say_done(sources, &key, named, revision)?;
        tracing::warn!(
            "what agent {} had is with its heirs: {hosts} hosts in {} s",
            bequest.no,
            begun.elapsed().as_secs()
        );
    }
    Ok(())
}

fn say_done(sources: &EstateSources, key: &str, named: UndertakeRecord, revision: Revision) -> Result<()> {
    let record = UndertakeRecord { done: true, ..named };
    // Where somebody else was named meanwhile that one does it again, which does no harm.
    sources
        .fabric
        .set(key, &write(&record), revision)
        .map(drop)
        .context("the tables do not take that it is done")
}

/// One dead agent.
struct Burial<'a> {
    sources: &'a EstateSources,
    stop: &'a AtomicBool,
    /// Things that the crawl was given since it was last waited for.
    given: u64,
    /// The last batch for each heir.
    sent: BTreeMap<NodeNo, u64>,
}

impl Burial<'_> {
    /// Sends everything on its way; how many hosts that were.
    fn bury(&mut self, bequest: &Bequest) -> Result<u64> {
        let sources = self.sources;
        let key = Key::Backup(bequest.no).to_string();
        let (value, _) = sources.fabric.get(&key)?.context("its backup is not told of any more")?;
        let pointer: BackupRecord = read(&key, &value)?;
        let manifest = AgentManifest::read(&sources.blobs, &pointer.manifest)?;
        let at = sources.estates.join(bequest.no.to_string());
        remove(&at)?;
        let mut estate = Estate::open(&sources.blobs, &manifest, &at, &sources.config, &self.seeds()?)?;
        tracing::warn!("agent {} is gone: its backup {} is open", bequest.no, manifest.number);
        if estate.replayed > 0 {
            tracing::info!("{} answers of its archive were read beyond its store", estate.replayed);
        }
        let rights = sources.rights.clone();
        let owner_of = |host: &Host, address| match rights.heir(host, address) {
            Destination::Here => Some(rights.me().no),
            Destination::To(to) => Some(to),
        };
        let parcel = ParcelId { epoch: rights.epoch().0, attempt: attempt(), from: rights.me().no.0 };
        let mut pacer = Pacer::new(Pace::default());
        let sent = estate.hand_out(parcel, &owner_of, &mut pacer, self)?;
        drop(estate);
        remove(&at)?;
        manifest.waiting_urls(&sources.blobs, &mut |body| self.give(Incoming::Urls(body)))?;
        self.read_log(bequest.no, &manifest)?;
        Ok(sent.hosts)
    }

    /// The crawl's seeds, which its scope depends on, as everybody was told.
    fn seeds(&self) -> Result<Vec<CanonicalUrl>> {
        let mut seeds = BTreeSet::new();
        for number in 1.. {
            let Some(order) = read_order(&*self.sources.fabric, number)? else { break };
            match order {
                CrawlOrder::Seeds(texts) => seeds.extend(texts),
                CrawlOrder::Moved { to, .. } => drop(seeds.insert(to)),
                _ => {}
            }
        }
        Ok(seeds.iter().filter_map(|text| CanonicalUrl::parse(text).ok()).collect())
    }

    /// What came for the dead agent behind its backup.
    fn read_log(&mut self, dead: NodeNo, manifest: &AgentManifest) -> Result<()> {
        let numbers: BTreeMap<u64, u64> = manifest.numbers.iter().copied().collect();
        let (topic, mut after) = (Topic::Urls(dead.0), Seq(0));
        loop {
            let read = self.sources.fabric.read(&topic, after, READ_MAX, READ_WAIT)?;
            if read.items.is_empty() {
                return Ok(());
            }
            for (seq, bytes) in read.items {
                after = seq;
                let Ok((head, freight)) = read_freight(&bytes) else { continue };
                if head.number <= numbers.get(&u64::from(head.from)).copied().unwrap_or(0) {
                    continue;
                }
                match freight {
                    Ok(Freight::Urls(body)) => self.give(Incoming::Urls(body))?,
                    Ok(Freight::Parcel(envelope)) => {
                        match ParcelBatch::open(envelope, Some(&self.sources.blobs)) {
                            Ok(parcel) => self.give(Incoming::Parcel(parcel))?,
                            Err(error) if error.is_away() => return Err(error.into()),
                            // Its giver still has the host, and finds another agent for it.
                            Err(error) => {
                                tracing::info!(%error, "a host on its way to a dead agent is left out")
                            }
                        }
                    }
                    // Words on rights are void, and what cannot be read was counted by its sender's number.
                    Ok(Freight::Notes(_)) | Err(_) => {}
                }
            }
        }
    }

    /// Hands something to this agent's crawl.
    fn give(&mut self, freight: Incoming) -> Result<()> {
        self.sources.crawl.order(Order::Orphaned(freight))?;
        self.given += 1;
        if self.given >= GIVEN_MAX { self.settle() } else { Ok(()) }
    }

    /// Waits until the crawl has made durable what it was given.
    fn settle(&mut self) -> Result<()> {
        let (reply, answer) = sync_channel(1);
        self.sources.crawl.order(Order::Settle(reply))?;
        loop {
            match answer.recv_timeout(READ_WAIT) {
                Ok(()) => {
                    self.given = 0;
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::SeqCst) => {}
                Err(_) => bail!("the crawl has ended"),
            }
        }
    }

    /// Waits until all receivers have told that they have everything.
    fn wait(&mut self) -> Result<()> {
        self.settle()?;
        // What the crawl passed on is in outboxes as well.
        let awaited = self.sources.desk.outboxes.lock().kept();
        loop {
            let waiting: Vec<NodeNo> = {
                let boxes = self.sources.desk.outboxes.lock();
                let is_open = |(to, upto): &(&NodeNo, &u64)| !boxes.has_taken(**to, **upto);
                awaited.iter().filter(is_open).map(|(to, _)| *to).collect()
            };
            if let Some(gone) = waiting.iter().find(|to| !self.sources.rights.is_member(**to))
                && self.sent.contains_key(gone)
            {
                bail!("agent {gone}, one of the heirs, is gone as well; it is done again");
            }
            if waiting.iter().all(|to| !self.sources.rights.is_member(*to)) {
                return Ok(());
            }
            if self.stop.load(Ordering::SeqCst) {
                bail!("this process ends");
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl ParcelSinks for Burial<'_> {
    fn send(&mut self, to: NodeNo, batch: Vec<u8>) -> Result<()> {
        let sources = self.sources;
        if to == sources.rights.me().no {
            let parcel = ParcelBatch::open(unpack(&batch)?, Some(&sources.blobs))?;
            return self.give(Incoming::Parcel(parcel));
        }
        let epoch = sources.rights.epoch().0;
        let number = keep_when_there_is_room(&sources.desk, to, epoch, &pack_parcel(&batch), self.stop)?;
        self.sent.insert(to, number);
        sources.desk.counters.hosts_sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(self.sources.blobs.put(name, bytes)?)
    }
}

/// Of two attempts the later one counts, also where it is another process's.
fn attempt() -> u64 {
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let now = farol_base::Clock::now(&farol_base::SystemClock).as_millis();
    now.max(ATTEMPTS.fetch_max(now, Ordering::SeqCst) + 1)
}

fn remove(at: &std::path::Path) -> Result<()> {
    match std::fs::remove_dir_all(at) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", at.display()))
        }
        _ => Ok(()),
    }
}
