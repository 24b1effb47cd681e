//! VEUNI: every URL known exactly once, in constant memory, at a cost that does not grow with what is known.
//!
//! After W. F. Henrique, "Verificação de unicidade de URLs em coletores de páginas Web" (UFMG, 2011), and beyond it.
//! Hosts are spread over *buckets* by the hash of their names. A bucket is a file that is only ever rewritten whole,
//! one bucket at a time, off the path of whoever fetches:
//!
//! ```text
//! found, visited ─► log (one batch per flush) and memtable (in memory, per bucket)
//!                        │ memory is full               │ the crawl needs URLs of this bucket
//!                        ▼                              ▼
//!                   level-0 file ──────────────────► merge ─► new bucket ─► hosts_due, draw
//! ```
//! - A bucket is bounded by bytes and hosts; one that grows too large comes out of its merge as several, and no
//!   other bucket moves. So a merge costs the same however many URLs are known.
//! - The buckets in turn hand out their hosts' pre-scheduled URLs. When they run dry the next bucket is merged.
//! - Whether a URL is new is settled when its bucket is merged, exactly, by its text.
//! - A page that is due again within the hour of its visit waits in memory, not for a merge.
//!
//! PROMISE: as [`UrlStore`]; what was noted comes up after the flush that follows. A damaged file is named, and only
//! its bucket's hosts stand still. A full disk in the middle of a merge leaves the old bucket as it is.
//! INVARIANT: bucket + pending runs + log batches beyond `flushed_seqno` = everything noted, at any moment of a crash.
//!
//! Memory: the memtable ([`VeuniOptions::memtable_bytes`], at most half as much again where writing it lags behind), [`VeuniOptions::seen_cache`], URLs that are out, those
//! that are due soon (23 MB at most), the hosts of the buckets in turn, 8 bytes per two thousand URLs and 16 bytes per 64 hosts. The paths of a host are never in memory
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
use bucket::BucketFile;
use bucket_index::BucketIndex;
use compaction::obsolete_files::ObsoleteFiles;
use compaction::workers::Workers;
use dispatch::active::ActiveBucket;
use dispatch::due_queue::DueQueue;
use dispatch::host_order::{Fifo, HostOrder};
use dispatch::in_flight::InFlight;
use dispatch::url_order::{Breadth, UrlOrder};
use farol_base::HostHash;
use farol_base::disk::Disk;
use farol_base::fingerprint::SeededHasher;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use manifest::ManifestEntry;
use memtable::Memtable;
use memtable::chunk_pool::ChunkPool;
use run::Run;
use seen_cache::{Fingerprint, SeenCache};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};
use wal::Wal;

pub use dispatch::{host_order, url_order};
pub use lookup::Damage;

/// A batch that grows beyond this is written before the next call adds to it, while it is still in the processor's
/// cache: some 7,000 URLs.
const BATCH_BYTES_MAX: usize = 512 << 10;

/// How the store is kept.
#[derive(Clone, Debug)]
pub struct VeuniOptions {
    /// Memory for what came in and stands in no other file than the log. Default: 64 MiB, some 800,000 URLs.
    pub memtable_bytes: u64,
    /// Memory for recognising URLs that were found lately. Default: 64 MiB, some 7 million URLs.
    pub seen_cache: u64,
    /// A bucket larger than this is split, in a small store sooner. Default: 32 MiB, some 2 million URLs.
    pub bucket_bytes: u64,
    /// A bucket with more hosts than this is split. Default: 100,000, as in the thesis.
    pub bucket_hosts: u64,
    /// URLs of a host that may be handed out between two merges. Default: 1,000, as in the thesis.
    pub prescheduled: usize,
    /// Pending files, with what will go there from memory, may be this large for each byte of buckets before buckets are
    /// merged to shrink them. Default: 0.75.
    pub level0_share: f64,
    /// Pending files may always be this large together. Default: 128 MiB.
    pub level0_min: u64,
    /// Buckets whose hosts are handed out at a time; of smaller ones as many more. Default: 4.
    pub active_buckets_max: usize,
    /// Threads that write and merge; of several one only writes. 0 = whoever calls, which is what tests want. Default: 1.
    pub threads: usize,
    pub url_order: Arc<dyn UrlOrder>,
    pub host_order: Arc<dyn HostOrder>,
}

impl Default for VeuniOptions {
    fn default() -> VeuniOptions {
        VeuniOptions {
            memtable_bytes: 64 << 20,
            seen_cache: 64 << 20,
            bucket_bytes: 32 << 20,
            bucket_hosts: 100_000,
            prescheduled: 1000,
            level0_share: 0.75,
            level0_min: 128 << 20,
            active_buckets_max: 4,
            threads: 1,
            url_order: Arc::new(Breadth),
            host_order: Arc::new(Fifo),
        }
    }
}

/// One bucket, and what came in for it.
#[derive(Debug)]
struct Bucket {
    number: u32,
    generation: u64,
    /// Smallest hash that belongs here; the next bucket's is the first that does not.
    from: HostHash,
    /// Its file, where it can be read.
    file: Option<Arc<BucketFile>>,
    /// Whether there is a file; one that is damaged stays until it is repaired.
    has_file: bool,
    /// It was emptied because it was damaged, and somebody is filling it again.
    rebuilding: bool,
    /// Batches of the log up to this one are in its files.
    flushed_seqno: u64,
    memtable: Memtable,
    /// What is on its way into a file.
    immutable: Option<Arc<Memtable>>,
    runs: Vec<Run>,
    is_busy: bool,
    active: Option<ActiveBucket>,
    /// Hosts of it that somebody holds.
    leased_hosts: usize,
    /// It comes to its turn as soon as it is merged.
    activate_after_merge: bool,
    /// When it is worth another turn as it is, since the last one ended.
    next_activation: Option<Timestamp>,
    /// The time as of its last merge.
    merged: Timestamp,
    backoff: Backoff,
    damage: Option<Damage>,
}

/// When a bucket was merged last, and how long that took.
#[derive(Debug)]
struct Backoff {
    since: Instant,
    took: Duration,
}

impl Bucket {
    fn new(number: u32, generation: u64, from: HostHash) -> Bucket {
        Bucket {
            number,
            generation,
            from,
            file: None,
            has_file: false,
            rebuilding: false,
            flushed_seqno: 0,
            memtable: Memtable::default(),
            immutable: None,
            runs: Vec::new(),
            is_busy: false,
            active: None,
            leased_hosts: 0,
            activate_after_merge: false,
            next_activation: None,
            merged: Timestamp::EPOCH,
            backoff: Backoff { since: Instant::now(), took: Duration::ZERO },
            damage: None,
        }
    }

    fn listed(&self) -> ManifestEntry {
        let Bucket { number, generation, from, has_file, rebuilding, .. } = *self;
        ManifestEntry { number, generation, from, has_file, rebuilding }
    }

    /// Where runs for this generation of the bucket wait.
    fn level0_file(&self) -> String {
        format!("pending-{:06}-{:08}", self.number, self.generation)
    }

    fn level0_bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.bytes)
    }

    fn known(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.totals.known)
    }

    /// Whether something came in without which the bucket must not be handed out.
    fn blocks_activation(&self) -> bool {
        let immutable = self.immutable.as_ref().is_some_and(|memtable| memtable.blocks_activation());
        self.memtable.blocks_activation() || immutable || self.runs.iter().any(|run| run.blocks_activation)
    }

    /// Whether something came in that is not in the bucket yet.
    fn has_pending(&self) -> bool {
        !self.memtable.is_empty() || !self.runs.is_empty() || self.immutable.is_some()
    }
}

/// The URL store.
#[derive(Debug)]
pub struct Veuni {
    disk: Arc<dyn Disk>,
    options: VeuniOptions,
    wal: Wal,
    /// In the order of their hashes; the first begins at 0.
    buckets: Vec<Bucket>,
    chunk_pool: ChunkPool,
    bucket_index: BucketIndex,
    next_number: Arc<AtomicU32>,
    jobs: Workers,
    obsolete_files: ObsoleteFiles,
    in_flight: InFlight,
    due_queue: DueQueue,
    leased_hosts: HashSet<Host, SeededHasher>,
    /// Of these, those for which a turn that began since has something.
    newly_ready: HashSet<Host>,
    /// URLs that were asked for of the last host.
    last_limit: usize,
    /// Bucket whose turn came last.
    last_activated: usize,
    /// The latest time that somebody told.
    now: Timestamp,
    seen_cache: SeenCache,
    /// What upkeep could not do, until it can.
    last_error: Option<Error>,
}

/// URLs that are checked at a time: far apart in memory, so that waiting for one does not delay the next. What is fetched for
/// so many, 192 bytes each, fits into the processor's nearest cache.
const CHECKED_AT_A_TIME: usize = 128;

/// Has the processor fetch texts that lie far apart, all at once, before they are read one by one. It fetches 64 bytes around
/// each that is looked at here, so three do for most URLs; looking at as many as each has would be a guess at each.
fn prefetch<'a>(texts: impl Iterator<Item = &'a [u8]>) {
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
    /// The bucket of a host.
    fn bucket_of(&self, hash: HostHash) -> usize {
        self.bucket_index.bucket_of(hash)
    }

    /// Notes where buckets begin, after there are others.
    fn rebuild_bucket_index(&mut self) {
        self.bucket_index = BucketIndex::new(self.buckets.iter().map(|bucket| bucket.from));
    }

    /// Where to note, in memory, what this batch of the log has for a host.
    fn memtable_of(&mut self, host: &str, batch: u64) -> &mut Memtable {
        let at = self.bucket_of(HostHash::of(host));
        self.buckets[at].memtable.in_batch(batch)
    }

    /// Writes a batch that has become very large.
    fn make_room(&mut self) -> Result<(), Error> {
        self.wal.check_usable()?;
        if self.wal.batch.len() >= BATCH_BYTES_MAX { UrlStore::flush(self) } else { Ok(()) }
    }
}

impl UrlStore for Veuni {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        self.make_room()?;
        let batch = self.wal.next_seqno;
        for found in found.chunks(CHECKED_AT_A_TIME) {
            prefetch(found.iter().map(|found| found.url.as_str().as_bytes()));
            let mut fingerprints = [Fingerprint::default(); CHECKED_AT_A_TIME];
            for (fingerprint, Found { url, .. }) in fingerprints.iter_mut().zip(found) {
                *fingerprint = self.seen_cache.fingerprint(url.as_str());
            }
            self.seen_cache.prefetch(&fingerprints[..found.len()]);
            // Those that are noted, each with its bucket.
            let (mut noted, mut count) = ([(0, 0); CHECKED_AT_A_TIME], 0);
            for (at, (fingerprint, Found { url, depth, hint })) in
                fingerprints.into_iter().zip(found).enumerate()
            {
                if hint.is_none() && self.seen_cache.contains_at(fingerprint, *depth) {
                    continue;
                }
                self.seen_cache.insert(fingerprint, *depth);
                noted[count] = (at, self.bucket_of(url.host_hash()));
                count += 1;
            }
            prefetch(
                noted[..count].iter().map(|(at, bucket)| {
                    self.buckets[*bucket].memtable.slot_for(found[*at].url.as_str().len())
                }),
            );
            for (at, bucket) in &noted[..count] {
                let Found { url, depth, hint } = &found[*at];
                if let Some(hint) = hint {
                    let (host, path) = split(url);
                    self.due_queue.hint(host, path, *hint);
                }
                self.buckets[*bucket].memtable.in_batch(batch).found_url(url, *depth, *hint);
                self.wal.batch.found(url, *depth, *hint);
            }
        }
        Ok(())
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.make_room()?;
        let (host, path) = split(url);
        self.memtable_of(host, self.wal.next_seqno).visited(host, path, visit);
        self.wal.batch.visited(host, path, visit);
        self.complete(url, visit);
        Ok(())
    }

    fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Result<Drawn, Error> {
        self.draw_urls(host, limit, now)
    }

    fn release(&mut self, urls: &[CanonicalUrl]) -> Result<(), Error> {
        for url in urls {
            self.release_url(url);
        }
        Ok(())
    }

    fn hosts_due(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Host>, Error> {
        self.due_hosts(now, limit)
    }

    fn newly_ready(&mut self) -> Vec<Host> {
        self.newly_ready.drain().collect()
    }

    fn release_host(&mut self, host: &Host) {
        self.end_lease(host);
    }

    fn next_host_due(&mut self) -> Option<Timestamp> {
        self.next_due_host()
    }

    fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        self.lookup(url)
    }

    fn knows(&self, url: &CanonicalUrl) -> bool {
        self.seen_cache.contains(self.seen_cache.fingerprint(url.as_str()))
            || self.in_flight.get(url).is_some()
    }

    fn delete_host(&mut self, host: &Host) -> Result<u64, Error> {
        self.forget(host)
    }

    fn host_counts(&self, host: &Host) -> Option<HostCounts> {
        let hash = host.hash();
        let file = self.buckets[self.bucket_of(hash)].file.as_ref()?;
        // A damaged bucket is told of by whoever merges or checks it.
        file.host_meta(hash, host.as_str()).ok().flatten().map(|(_, meta)| meta.counts)
    }

    fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        self.list_hosts(first, count, filter)
    }

    fn counts(&self) -> Counts {
        self.totals()
    }

    fn walk(&self, which: Walk, take: &mut dyn FnMut(&Host, &str, &Record)) -> Result<(), Error> {
        self.walk_buckets(which, take)
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        UrlStore::flush(self)?;
        self.drain_compactions()
    }

    fn wait(&mut self) -> Result<bool, Error> {
        self.wait_for_job()
    }

    fn rebuilt(&mut self) -> Result<(), Error> {
        self.end_rebuilding()
    }

    fn watermark(&self) -> PagePosition {
        self.wal.marked.unwrap_or(self.wal.watermark)
    }

    fn mark(&mut self, upto: PagePosition) -> Result<(), Error> {
        self.wal.marked = Some(upto);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.wal.write()?;
        self.maintain()
    }

    fn sync(&mut self) -> Result<(), Error> {
        UrlStore::flush(self)?;
        self.wal.sync()
    }
}
