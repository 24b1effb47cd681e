//! VEUNI: every URL known exactly once, in constant memory, at a cost that does not grow with what is known.
//!
//! After W. F. Henrique, "Verificação de unicidade de URLs em coletores de páginas Web" (UFMG, 2011), and beyond it.
//! Servers are spread over *blocks* by the hash of their names. A block is a file that is only ever rewritten whole,
//! one block at a time, off the path of whoever fetches:
//!
//! ```text
//! found, visited ─► log (one batch per flush) and stage (in memory, per block)
//!                        │ memory is full               │ the crawl needs URLs of this block
//!                        ▼                              ▼
//!                   pending file ──────────────────► merge ─► new block ─► hosts_due, draw
//! ```
//! - A block is bounded by bytes and servers; one that grows too large comes out of its merge as several, and no
//!   other block moves. So a merge costs the same however many URLs are known.
//! - The blocks in turn hand out their servers' pre-scheduled URLs. When they run dry the next block is merged.
//! - Whether a URL is new is settled when its block is merged, exactly, by its text.
//! - A page that is due again within the hour of its visit waits in memory, not for a merge.
//!
//! PROMISE: as [`UrlStore`]; what was noted comes up after the flush that follows. A damaged file is named, and only
//! its block's servers stand still. A full disk in the middle of a merge leaves the old block as it is.
//! INVARIANT: block + pending runs + log batches beyond `upto` = everything noted, at any moment of a crash.
//!
//! Memory: the stage ([`VeuniOptions::memory`], at most half as much again where writing it lags behind), [`VeuniOptions::lately`], URLs that are out, those
//! that are due soon (23 MB at most), the hosts of the blocks in turn, 8 bytes per two thousand URLs and 16 bytes per 64 servers. The paths of a server are never in memory
//! at once.

mod block_frame;
mod bucket;
mod bucket_index;
mod codec;
mod compaction;
mod dispatch;
mod lookup;
mod manifest;
mod memtable;
mod recovery;
mod repair;
mod run;
mod seen_cache;
mod wal;

#[cfg(test)]
mod tests;

use super::{Counts, Drawn, Found, HostCounts, Record, UrlStore, Visit, Walk};
use crate::Error;
use bucket::BlockFile;
use bucket_index::Routes;
use compaction::obsolete_files::Broom;
use compaction::workers::Jobs;
use dispatch::active::Turn;
use dispatch::due_queue::Soon;
use dispatch::host_order::{Fifo, Schedule};
use dispatch::in_flight::Out;
use dispatch::url_order::{Breadth, Redistribution};
use farol_base::disk::Disk;
use farol_base::fingerprint::{SeededHasher, hash64};
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use manifest::Listed;
use memtable::Stage;
use memtable::chunk_pool::Spare;
use run::Run;
use seen_cache::{Lately, Print};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};
use wal::Log;

pub use dispatch::{host_order, url_order};
pub use lookup::Damage;

/// A batch that grows beyond this is written before the next call adds to it, while it is still in the processor's
/// cache: some 7,000 URLs.
const BATCH_BYTES_MAX: usize = 512 << 10;

/// How the store is kept.
#[derive(Clone, Debug)]
pub struct VeuniOptions {
    /// Memory for what came in and stands in no other file than the log. Default: 64 MiB, some 800,000 URLs.
    pub memory: u64,
    /// Memory for recognising URLs that were found lately. Default: 64 MiB, some 7 million URLs.
    pub lately: u64,
    /// A block larger than this is split, in a small store sooner. Default: 32 MiB, some 2 million URLs.
    pub block_bytes: u64,
    /// A block with more servers than this is split. Default: 100,000, as in the thesis.
    pub block_servers: u64,
    /// URLs of a server that may be handed out between two merges. Default: 1,000, as in the thesis.
    pub prescheduled: usize,
    /// Pending files, with what will go there from memory, may be this large for each byte of blocks before blocks are
    /// merged to shrink them. Default: 0.75.
    pub pending_share: f64,
    /// Pending files may always be this large together. Default: 128 MiB.
    pub pending_min: u64,
    /// Blocks whose servers are handed out at a time; of smaller ones as many more. Default: 4.
    pub turns: usize,
    /// Threads that write and merge; of several one only writes. 0 = whoever calls, which is what tests want. Default: 1.
    pub threads: usize,
    pub redistribution: Arc<dyn Redistribution>,
    pub schedule: Arc<dyn Schedule>,
}

impl Default for VeuniOptions {
    fn default() -> VeuniOptions {
        VeuniOptions {
            memory: 64 << 20,
            lately: 64 << 20,
            block_bytes: 32 << 20,
            block_servers: 100_000,
            prescheduled: 1000,
            pending_share: 0.75,
            pending_min: 128 << 20,
            turns: 4,
            threads: 1,
            redistribution: Arc::new(Breadth),
            schedule: Arc::new(Fifo),
        }
    }
}

/// One block, and what came in for it.
#[derive(Debug)]
struct Block {
    number: u32,
    generation: u64,
    /// Smallest hash that belongs here; the next block's is the first that does not.
    from: u64,
    /// Its file, where it can be read.
    file: Option<Arc<BlockFile>>,
    /// Whether there is a file; one that is damaged stays until it is repaired.
    has_file: bool,
    /// It was emptied because it was damaged, and somebody is filling it again.
    rebuilding: bool,
    /// Batches of the log up to this one are in its files.
    upto: u64,
    stage: Stage,
    /// What is on its way into a file.
    frozen: Option<Arc<Stage>>,
    runs: Vec<Run>,
    is_busy: bool,
    turn: Option<Turn>,
    /// Hosts of it that somebody holds.
    held: usize,
    /// It comes to its turn as soon as it is merged.
    wants_turn: bool,
    /// When it is worth another turn as it is, since the last one ended.
    resume: Option<Timestamp>,
    /// The time as of its last merge.
    merged: Timestamp,
    rest: Rest,
    damage: Option<Damage>,
}

/// When a block was merged last, and how long that took.
#[derive(Debug)]
struct Rest {
    since: Instant,
    took: Duration,
}

impl Block {
    fn new(number: u32, generation: u64, from: u64) -> Block {
        Block {
            number,
            generation,
            from,
            file: None,
            has_file: false,
            rebuilding: false,
            upto: 0,
            stage: Stage::default(),
            frozen: None,
            runs: Vec::new(),
            is_busy: false,
            turn: None,
            held: 0,
            wants_turn: false,
            resume: None,
            merged: Timestamp::EPOCH,
            rest: Rest { since: Instant::now(), took: Duration::ZERO },
            damage: None,
        }
    }

    fn listed(&self) -> Listed {
        let Block { number, generation, from, has_file, rebuilding, .. } = *self;
        Listed { number, generation, from, has_file, rebuilding }
    }

    /// Where runs for this generation of the block wait.
    fn pending_file(&self) -> String {
        format!("pending-{:06}-{:08}", self.number, self.generation)
    }

    fn pending_bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.bytes)
    }

    fn known(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.totals.known)
    }

    /// Whether something came in without which the block must not be handed out.
    fn is_urgent(&self) -> bool {
        let frozen = self.frozen.as_ref().is_some_and(|stage| stage.is_urgent());
        self.stage.is_urgent() || frozen || self.runs.iter().any(|run| run.is_urgent)
    }

    /// Whether something came in that is not in the block yet.
    fn is_behind(&self) -> bool {
        !self.stage.is_empty() || !self.runs.is_empty() || self.frozen.is_some()
    }
}

/// The URL store.
#[derive(Debug)]
pub struct Veuni {
    disk: Arc<dyn Disk>,
    options: VeuniOptions,
    log: Log,
    /// In the order of their hashes; the first begins at 0.
    blocks: Vec<Block>,
    spare: Spare,
    routes: Routes,
    numbers: Arc<AtomicU32>,
    jobs: Jobs,
    broom: Broom,
    out: Out,
    soon: Soon,
    held: HashSet<Host, SeededHasher>,
    /// Of these, those for which a turn that began since has something.
    woken: HashSet<Host>,
    /// URLs that were asked for of the last host.
    asked: usize,
    /// Block whose turn came last.
    last_turn: usize,
    /// The latest time that somebody told.
    now: Timestamp,
    lately: Lately,
    /// What upkeep could not do, until it can.
    trouble: Option<Error>,
}

/// URLs that are checked at a time: far apart in memory, so that waiting for one does not delay the next. What is fetched for
/// so many, 192 bytes each, fits into the processor's nearest cache.
const CHECKED_AT_A_TIME: usize = 128;

/// Has the processor fetch texts that lie far apart, all at once, before they are read one by one. It fetches 64 bytes around
/// each that is looked at here, so three do for most URLs; looking at as many as each has would be a guess at each.
fn touch<'a>(texts: impl Iterator<Item = &'a [u8]>) {
    let byte = |text: &[u8], at: usize| text.get(at).copied().unwrap_or(0);
    let three =
        |text: &[u8]| byte(text, 0) ^ byte(text, text.len() / 2) ^ byte(text, text.len().wrapping_sub(1));
    std::hint::black_box(texts.fold(0, |all, text| all ^ three(text)));
}

fn split(url: &CanonicalUrl) -> (&str, &str) {
    let text = url.as_str();
    text.split_at(url.host_str().len())
}

impl Veuni {
    /// The block of a server.
    fn route(&self, hash: u64) -> usize {
        self.routes.of(hash)
    }

    /// Notes where blocks begin, after there are others.
    fn mark_routes(&mut self) {
        self.routes = Routes::new(self.blocks.iter().map(|block| block.from));
    }

    /// Where to note, in memory, what this batch of the log has for a server.
    fn stage_of(&mut self, host: &str, batch: u64) -> &mut Stage {
        let at = self.route(hash64(host.as_bytes()));
        self.blocks[at].stage.in_batch(batch)
    }

    /// Writes a batch that has become very large.
    fn make_room(&mut self) -> Result<(), Error> {
        self.log.ready()?;
        if self.log.batch.len() >= BATCH_BYTES_MAX { UrlStore::flush(self) } else { Ok(()) }
    }
}

impl UrlStore for Veuni {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        self.make_room()?;
        let batch = self.log.next;
        for found in found.chunks(CHECKED_AT_A_TIME) {
            touch(found.iter().map(|found| found.url.as_str().as_bytes()));
            let mut prints = [Print::default(); CHECKED_AT_A_TIME];
            for (print, Found { url, .. }) in prints.iter_mut().zip(found) {
                *print = self.lately.print(url.as_str());
            }
            self.lately.touch(&prints[..found.len()]);
            // Those that are noted, each with its block.
            let (mut noted, mut count) = ([(0, 0); CHECKED_AT_A_TIME], 0);
            for (at, (print, Found { url, depth, hint })) in prints.into_iter().zip(found).enumerate() {
                if hint.is_none() && self.lately.has_at(print, *depth) {
                    continue;
                }
                self.lately.remember(print, *depth);
                noted[count] = (at, self.route(hash64(url.host_str().as_bytes())));
                count += 1;
            }
            touch(
                noted[..count]
                    .iter()
                    .map(|(at, block)| self.blocks[*block].stage.place_for(found[*at].url.as_str().len())),
            );
            for (at, block) in &noted[..count] {
                let Found { url, depth, hint } = &found[*at];
                if let Some(hint) = hint {
                    let (host, path) = split(url);
                    self.soon.hint(host, path, *hint);
                }
                self.blocks[*block].stage.in_batch(batch).found_url(url, *depth, *hint);
                self.log.batch.found(url, *depth, *hint);
            }
        }
        Ok(())
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.make_room()?;
        let (host, path) = split(url);
        self.stage_of(host, self.log.next).visited(host, path, visit);
        self.log.batch.visited(host, path, visit);
        self.came_back(url, visit);
        Ok(())
    }

    fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Result<Drawn, Error> {
        self.hand_out(host, limit, now)
    }

    fn release(&mut self, urls: &[CanonicalUrl]) -> Result<(), Error> {
        for url in urls {
            self.take_back(url);
        }
        Ok(())
    }

    fn hosts_due(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Host>, Error> {
        self.hosts_ready(now, limit)
    }

    fn woken(&mut self) -> Vec<Host> {
        self.woken.drain().collect()
    }

    fn let_go(&mut self, host: &Host) {
        self.end_hold(host);
    }

    fn next_host_due(&mut self) -> Option<Timestamp> {
        self.next_ready()
    }

    fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        self.look_up(url)
    }

    fn knows(&self, url: &CanonicalUrl) -> bool {
        self.lately.has(self.lately.print(url.as_str())) || self.out.get(url).is_some()
    }

    fn forget_host(&mut self, host: &Host) -> Result<u64, Error> {
        self.forget(host)
    }

    fn host_counts(&self, host: &Host) -> Option<HostCounts> {
        let hash = hash64(host.as_str().as_bytes());
        let file = self.blocks[self.route(hash)].file.as_ref()?;
        // A damaged block is told of by whoever merges or checks it.
        file.server(hash, host.as_str()).ok().flatten().map(|(_, server)| server.counts)
    }

    fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        self.list_hosts(first, count, filter)
    }

    fn counts(&self) -> Counts {
        self.sums()
    }

    fn walk(&self, which: Walk, take: &mut dyn FnMut(&Host, &str, &Record)) -> Result<(), Error> {
        self.walk_blocks(which, take)
    }

    fn settle(&mut self) -> Result<(), Error> {
        UrlStore::flush(self)?;
        self.merge_all()
    }

    fn wait(&mut self) -> Result<bool, Error> {
        self.wait_for_a_job()
    }

    fn rebuilt(&mut self) -> Result<(), Error> {
        self.end_rebuilding()
    }

    fn watermark(&self) -> PagePosition {
        self.log.marked.unwrap_or(self.log.watermark)
    }

    fn mark(&mut self, upto: PagePosition) -> Result<(), Error> {
        self.log.marked = Some(upto);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.log.write()?;
        self.upkeep()
    }

    fn sync(&mut self) -> Result<(), Error> {
        UrlStore::flush(self)?;
        self.log.sync()
    }
}
