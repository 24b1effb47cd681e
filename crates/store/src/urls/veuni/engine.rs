//! The storage half of the store: WAL, memtables, level-0 runs, buckets and their compaction.
//!
//! Knows which URLs are known, and nothing of leases, of hosts that are due, or of URLs in flight. Those are
//! the matter of [`dispatch`](super::dispatch), which reads bucket files, asks for compactions, and is told
//! through [`BucketListener`] when a bucket is replaced.

use super::bucket::Bucket;
use super::bucket_index::BucketIndex;
use super::compaction::choose::{CompactorState, PendingLimits};
use super::compaction::obsolete_files::ObsoleteFiles;
use super::compaction::workers::Workers;
use super::memtable::Memtable;
use super::memtable::chunk_pool::ChunkPool;
use super::seen_cache::{Fingerprint, SeenCache};
use super::wal::Wal;
use super::{VeuniOptions, prefetch};
use crate::Error;
use crate::urls::{Found, Record, Visit};
use farol_base::disk::Disk;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, HostHash, Timestamp};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// URLs that are checked at a time. They are scattered in memory, so all are prefetched before the first is
/// read: 192 bytes for each of them fit into L1.
const CHECKED_AT_A_TIME: usize = 128;
/// A batch that grows beyond this is written before the next call adds to it, while it is still in the CPU's
/// cache: some 7,000 URLs.
const BATCH_BYTES_MAX: usize = 512 << 10;

/// Hears of buckets that are no longer what they were.
pub trait BucketListener {
    /// A compaction replaced a bucket by `parts`, in the order of their hashes; the first keeps its number.
    /// Returns the parts (by their index) that could not be read.
    fn replaced(&mut self, number: u32, parts: &[Bucket]) -> Vec<(usize, Error)>;

    /// A file of the bucket is damaged.
    fn damaged(&mut self, number: u32);

    /// A damaged bucket was emptied.
    fn emptied(&mut self, number: u32);
}

/// Everything that is known, on disk and in memory.
#[derive(Debug)]
pub struct Engine {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: VeuniOptions,
    pub(super) wal: Wal,
    /// In the order of their hashes; the first begins at 0.
    pub(super) buckets: Vec<Bucket>,
    pub(super) bucket_index: BucketIndex,
    /// Number of the next bucket that a split makes.
    pub(super) next_number: Arc<AtomicU32>,
    pub(super) chunk_pool: ChunkPool,
    pub(super) seen_cache: SeenCache,
    pub(super) workers: Workers,
    pub(super) obsolete_files: ObsoleteFiles,
    /// The latest time that the caller reported.
    pub(super) now: Timestamp,
    /// Why the last background job failed, until the next may be tried.
    pub(super) last_error: Option<Error>,
    /// Numbers of buckets that look-ups could not read, until the next flush takes notice.
    pub(super) failed_reads: Mutex<Vec<(u32, Error)>>,
}

impl Engine {
    /// Learns the caller's time.
    pub fn tell_time(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The bucket of a host.
    pub fn bucket_of(&self, hash: HostHash) -> usize {
        self.bucket_index.bucket_of(hash)
    }

    /// The number of a host's bucket.
    pub fn bucket_number(&self, hash: HostHash) -> u32 {
        self.buckets[self.bucket_of(hash)].number
    }

    /// The bucket with a number.
    pub fn bucket_numbered(&self, number: u32) -> Option<usize> {
        self.buckets.iter().position(|bucket| bucket.number == number)
    }

    /// Whether the batch is empty: nothing may be compacted in which a batch would be in part.
    pub fn is_flushed(&self) -> bool {
        self.wal.batch.is_empty()
    }

    pub(super) fn rebuild_bucket_index(&mut self) {
        self.bucket_index = BucketIndex::new(self.buckets.iter().map(|bucket| bucket.from));
    }

    pub(super) fn pending_limits(&self) -> PendingLimits {
        let VeuniOptions { memtable_bytes, level0_share, level0_min, .. } = self.options;
        PendingLimits { memtable_bytes, level0_share, level0_min }
    }

    pub(super) fn compactors(&self) -> CompactorState {
        CompactorState {
            is_compacting: self.workers.is_compacting(),
            can_queue: self.workers.can_queue_compaction(),
        }
    }

    /// The memtable of a host, for an entry of this batch of the WAL.
    pub(super) fn memtable_of(&mut self, host: &str, seqno: u64) -> &mut Memtable {
        let at = self.bucket_of(HostHash::of(host));
        self.buckets[at].memtable.in_batch(seqno)
    }

    /// Makes sure that the batch can be added to, and writes one that has become very large.
    pub fn make_room(&mut self, listener: &mut dyn BucketListener) -> Result<(), Error> {
        self.wal.check_usable()?;
        if self.wal.batch.len() >= BATCH_BYTES_MAX { self.flush(listener) } else { Ok(()) }
    }

    /// Adds URLs to the WAL's batch and to their memtables, unless the seen cache has them; hints go to
    /// `on_hint` too.
    pub fn found(&mut self, found: &[Found], mut on_hint: impl FnMut(&CanonicalUrl, Timestamp)) {
        let seqno = self.wal.next_seqno;
        for found in found.chunks(CHECKED_AT_A_TIME) {
            prefetch(found.iter().map(|found| found.url.as_str().as_bytes()));
            let mut fingerprints = [Fingerprint::default(); CHECKED_AT_A_TIME];
            for (fingerprint, Found { url, .. }) in fingerprints.iter_mut().zip(found) {
                *fingerprint = self.seen_cache.fingerprint(url.as_str());
            }
            self.seen_cache.prefetch(&fingerprints[..found.len()]);
            // Those that are written, each with its bucket.
            let (mut written, mut count) = ([(0, 0); CHECKED_AT_A_TIME], 0);
            for (at, (fingerprint, Found { url, depth, hint })) in
                fingerprints.into_iter().zip(found).enumerate()
            {
                if hint.is_none() && self.seen_cache.contains_at(fingerprint, *depth) {
                    continue;
                }
                self.seen_cache.insert(fingerprint, *depth);
                written[count] = (at, self.bucket_of(url.host_hash()));
                count += 1;
            }
            prefetch(
                written[..count].iter().map(|(at, bucket)| {
                    self.buckets[*bucket].memtable.slot_for(found[*at].url.as_str().len())
                }),
            );
            for (at, bucket) in &written[..count] {
                let Found { url, depth, hint } = &found[*at];
                if let Some(hint) = hint {
                    on_hint(url, *hint);
                }
                self.buckets[*bucket].memtable.in_batch(seqno).found_url(url, *depth, *hint);
                self.wal.batch.found(url, *depth, *hint);
            }
        }
    }

    /// Adds a visit to the WAL's batch and to its memtable.
    pub fn visited(&mut self, host: &str, path: &str, visit: &Visit) {
        self.memtable_of(host, self.wal.next_seqno).visited(host, path, visit);
        self.wal.batch.visited(host, path, visit);
    }

    /// Adds what another store knew of a visited URL to the WAL's batch and to its memtable.
    pub fn imported(&mut self, host: &str, path: &str, record: &Record) {
        self.memtable_of(host, self.wal.next_seqno).imported(host, path, record);
        self.wal.batch.imported(host, path, record);
    }

    /// Adds tombstones for hosts: all that was written of them before is deleted.
    pub fn delete_hosts<'a>(&mut self, hosts: impl Iterator<Item = &'a str>) {
        for host in hosts {
            self.memtable_of(host, self.wal.next_seqno).delete_host(host);
            self.wal.batch.delete_host(host);
        }
        self.seen_cache.clear();
    }

    /// Whether the URL was written recently. "No" means nothing.
    pub fn was_seen(&self, url: &CanonicalUrl) -> bool {
        self.seen_cache.contains(self.seen_cache.fingerprint(url.as_str()))
    }

    /// Writes the batch to the WAL, and starts the background work that is due.
    pub fn flush(&mut self, listener: &mut dyn BucketListener) -> Result<(), Error> {
        self.wal.write()?;
        self.maintain(listener)
    }
}
