//! Starts the background work that is due, and takes in what was done: memtables are flushed to level-0 runs,
//! and buckets are compacted.
//!
//! Runs at every flush. Nothing is moved that the WAL does not have, so a batch never arrives in part.

use super::choose::{self, BucketLoad, CrawlDemand, FlushChoice};
use super::merge::{BucketLimits, Compaction, compact};
use super::workers::Job;
use crate::Error;
use crate::urls::veuni::bucket::{Backoff, Bucket, BucketContent, BucketFile, BucketId, BucketState, Damage};
use crate::urls::veuni::engine::{BucketListener, Engine};
use crate::urls::veuni::manifest::{self, ManifestEntry};
use crate::urls::veuni::run::{Run, RunReader, write_run};
use crate::urls::veuni::wal;
use farol_base::HostHash;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A bucket is left alone for this long after a job that failed.
const BACKOFF_AFTER_ERROR: Duration = Duration::from_secs(1);
/// Buckets up to this size are compacted on the caller's thread: it takes a few milliseconds.
const INLINE_BYTES: u64 = 256 << 10;
/// When the memtables are full, this part of their memory is freed.
const FREED_SHARE: u64 = 8;
/// When the pool has less than this part of the memtables' memory, as much is pre-faulted.
const PREFAULT_SHARE: u64 = 16;
/// A small store is kept in this many buckets at least, so that several are compacted at once and none takes
/// long.
const BUCKETS_MIN: u64 = 16;
/// But no bucket is split for that below this size.
const SMALL_BUCKET_BYTES: u64 = 2 << 20;
/// The WAL goes on in a new segment at this size.
const WAL_SEGMENT_BYTES: u64 = 32 << 20;

/// What a job did, to the bucket with this number.
pub enum JobDone {
    Compacted { number: u32, result: Result<Vec<Arc<BucketFile>>, Error>, took: Duration },
    Flushed { number: u32, flushed_seqno: u64, result: Result<Run, Error> },
}

impl Engine {
    /// Takes in finished jobs, starts those that are due, and stalls the caller where too much is pending.
    pub fn maintain(&mut self, listener: &mut dyn BucketListener) -> Result<(), Error> {
        self.poll_jobs(listener);
        self.take_failed_reads(listener);
        self.clear_error();
        let in_memory = self.memtable_bytes();
        if in_memory > self.options.memtable_bytes {
            self.flush_memtables(listener);
        }
        self.prefault_chunks(in_memory);
        self.compact_early(listener);
        self.compact_level0(listener);
        while self.workers.running > 0 && self.must_stall() {
            self.wait_for_job(listener);
            self.compact_level0(listener);
        }
        if self.must_stall()
            && let Some(error) = self.last_error.take()
        {
            return Err(error);
        }
        if self.wal.last_bytes() > WAL_SEGMENT_BYTES {
            self.wal.roll();
        }
        self.drop_wal_segments();
        Ok(())
    }

    /// Buckets that a look-up could not read stand still from now on.
    fn take_failed_reads(&mut self, listener: &mut dyn BucketListener) {
        let failed = std::mem::take(&mut *self.failed_reads.lock());
        for (number, error) in failed {
            if let Some(at) = self.bucket_numbered(number) {
                self.on_read_failed(at, error, listener);
            }
        }
    }

    /// Lets jobs be tried again, a while after one failed.
    fn clear_error(&mut self) {
        let failed_recently = |bucket: &Bucket| {
            bucket.backoff.took == BACKOFF_AFTER_ERROR && bucket.backoff.since.elapsed() < bucket.backoff.took
        };
        if self.last_error.is_some() && !self.buckets.iter().any(failed_recently) {
            self.last_error = None;
        }
    }

    /// Has the pool of chunks grow on a thread of its own, once memtables fill up.
    fn prefault_chunks(&mut self, in_memory: u64) {
        let ready = self.options.memtable_bytes / PREFAULT_SHARE;
        if self.workers.has_threads() && in_memory > ready && self.chunk_pool.try_start_growing(ready) {
            let chunk_pool = self.chunk_pool.clone();
            // A few times in a store's life. Where there is no thread to be had, memory comes when it is needed.
            let prefault = move || chunk_pool.prefault(ready);
            let _ = std::thread::Builder::new().name("urls-prefault".to_string()).spawn(prefault);
        }
    }

    fn loads(&self) -> impl Iterator<Item = BucketLoad> + Clone {
        self.buckets.iter().map(Bucket::load)
    }

    fn memtable_bytes(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.memtable.bytes()).sum()
    }

    fn must_stall(&self) -> bool {
        choose::must_stall(self.loads(), &self.pending_limits())
    }

    /// A bucket larger than this is split.
    fn bucket_bytes_max(&self) -> u64 {
        let all: u64 = self.buckets.iter().map(Bucket::bytes).sum();
        (all / BUCKETS_MIN).max(SMALL_BUCKET_BYTES).min(self.options.bucket_bytes)
    }

    /// Takes in what jobs did.
    pub fn poll_jobs(&mut self, listener: &mut dyn BucketListener) {
        while let Some(done) = self.workers.take(false) {
            self.on_job_done(done, listener);
        }
    }

    /// Waits until a job is done; `false` where none is under way.
    pub fn wait_for_job(&mut self, listener: &mut dyn BucketListener) -> bool {
        let Some(done) = self.workers.take(true) else { return false };
        self.on_job_done(done, listener);
        true
    }

    fn on_job_done(&mut self, done: JobDone, listener: &mut dyn BucketListener) {
        match done {
            JobDone::Compacted { number, result, took } => {
                let Some(at) = self.bucket_numbered(number) else { return };
                match result.and_then(|files| self.install(at, files, listener)) {
                    Ok(()) => self.buckets[at].backoff = Backoff::from_now(took),
                    Err(error) => self.on_job_failed(at, error, listener),
                }
                self.drop_wal_segments();
            }
            JobDone::Flushed { number, flushed_seqno, result } => {
                let Some(at) = self.bucket_numbered(number) else { return };
                match result {
                    Ok(run) => {
                        let bucket = &mut self.buckets[at];
                        bucket.runs.push(run);
                        bucket.flushed_seqno = flushed_seqno;
                        bucket.state.end();
                    }
                    Err(error) => self.on_job_failed(at, error, listener),
                }
            }
        }
    }

    /// A job has ended with an error: its entries go back to the memtable, and are tried again later.
    fn on_job_failed(&mut self, at: usize, error: Error, listener: &mut dyn BucketListener) {
        let bucket = &mut self.buckets[at];
        if let Some(sealed) = bucket.state.end() {
            let later = bucket.memtable.take();
            // The job has ended, so nobody else has it.
            bucket.memtable = Arc::into_inner(sealed).unwrap_or_default();
            bucket.memtable.extend(&later);
        }
        self.on_read_failed(at, error, listener);
    }

    /// A bucket could not be read, by a job or by the dispatcher. Where it is damaged its hosts stand still;
    /// a job that is under way goes on, and keeps its memtable.
    pub fn on_read_failed(&mut self, at: usize, error: Error, listener: &mut dyn BucketListener) {
        let bucket = &mut self.buckets[at];
        bucket.backoff = Backoff::from_now(BACKOFF_AFTER_ERROR);
        let (number, hosts) = (bucket.number, bucket.hosts());
        if error.is_damage() {
            if bucket.damage.is_none() {
                tracing::error!(bucket = number, hosts, error = %error,
                    "a bucket of the URL store is damaged; its hosts stand still until `farol check --repair`");
                bucket.damage = Some(Damage::of(error, &bucket.file_name(), hosts));
            }
            listener.damaged(number);
        } else {
            tracing::warn!(bucket = number, error = %error, "the URL store waits with a compaction");
            self.last_error = Some(error);
        }
    }

    /// Puts the output of a compaction in the place of its bucket.
    fn install(
        &mut self,
        at: usize,
        files: Vec<Arc<BucketFile>>,
        listener: &mut dyn BucketListener,
    ) -> Result<(), Error> {
        let mut list: Vec<ManifestEntry> = self.buckets[..at].iter().map(Bucket::listed).collect();
        let (from, is_rebuilding) = (self.buckets[at].from, self.buckets[at].is_rebuilding);
        list.extend(files.iter().enumerate().map(|(part, file)| ManifestEntry {
            number: file.id.number,
            generation: file.id.generation,
            from: if part == 0 { from } else { file.id.from },
            has_file: true,
            rebuilding: is_rebuilding,
        }));
        list.extend(self.buckets[at + 1..].iter().map(Bucket::listed));
        if let Err(error) = manifest::write(&*self.disk, &list, self.next_number.load(Ordering::Relaxed)) {
            for file in &files {
                // It is no part of the store; opening again would remove it as well.
                let _ = self.disk.remove(&file.file);
            }
            return Err(error);
        }
        let old = &mut self.buckets[at];
        // The sealed memtable is in the new files: its chunks may serve again at once.
        old.state.end();
        let number = old.number;
        let old_files = [old.file().map(|file| file.file.clone()), Some(old.level0_file())];
        let splits: Vec<HostHash> = files.iter().skip(1).map(|file| file.id.from).collect();
        let memtables = old.memtable.take().partition_at(&splits);
        let count = files.len();
        let mut parts: Vec<Bucket> = Vec::with_capacity(count);
        for ((file, memtable), from) in files.into_iter().zip(memtables).zip([from].into_iter().chain(splits))
        {
            let mut bucket = Bucket::new(file.id.number, file.id.generation, from);
            bucket.memtable = memtable;
            bucket.flushed_seqno = file.id.flushed_seqno;
            bucket.compacted_at = self.now;
            bucket.content = BucketContent::File(file);
            bucket.is_rebuilding = is_rebuilding;
            parts.push(bucket);
        }
        self.buckets.splice(at..=at, parts);
        self.rebuild_bucket_index();
        for file in old_files.into_iter().flatten() {
            self.obsolete_files.remove(file, None);
        }
        for (part, error) in listener.replaced(number, &self.buckets[at..at + count]) {
            self.on_read_failed(at + part, error, listener);
        }
        Ok(())
    }

    /// Flushes memtables until there is room again, those with the oldest entries first: each bucket so
    /// gathers a long run, and the WAL stays short.
    fn flush_memtables(&mut self, listener: &mut dyn BucketListener) {
        let ready = |bucket: &&Bucket| !bucket.is_busy() && !bucket.memtable.is_empty();
        let mut oldest: Vec<(u64, u32)> = (self.buckets.iter().filter(ready))
            .map(|bucket| (bucket.memtable.first_seqno(), bucket.number))
            .collect();
        oldest.sort_unstable();
        let memory = self.options.memtable_bytes;
        let (mut in_memory, room) = (self.memtable_bytes(), memory / FREED_SHARE);
        for (_, number) in oldest {
            if in_memory + room <= memory || !self.is_flushed() {
                break;
            }
            // A compaction may have split buckets meanwhile.
            let Some(at) = self.bucket_numbered(number) else { continue };
            // What a damaged bucket keeps counts as freed: the others are not emptied for it over and over.
            in_memory -= self.buckets[at].memtable.bytes();
            self.flush_memtable(at, listener);
        }
    }

    fn flush_memtable(&mut self, at: usize, listener: &mut dyn BucketListener) {
        let bucket = &self.buckets[at];
        let largest_host: u64 = bucket.runs.iter().map(|run| run.largest).sum();
        let level0_file = bucket.level0_file();
        let is_level0_damaged = bucket.damage.as_ref().is_some_and(|damage| damage.file == level0_file);
        let memory = self.options.memtable_bytes;
        match choose::flush_or_compact(&bucket.load(), largest_host, memory, is_level0_damaged) {
            FlushChoice::Compact => self.start_compaction(at, listener),
            FlushChoice::Flush => self.start_flush(at),
            FlushChoice::Hold => {}
        }
    }

    fn start_flush(&mut self, at: usize) {
        let flushed_seqno = self.wal.next_seqno - 1;
        let disk = self.disk.clone();
        let bucket = &mut self.buckets[at];
        let (number, file, offset) = (bucket.number, bucket.level0_file(), bucket.level0_bytes());
        let sealed = Arc::new(bucket.memtable.take());
        bucket.state = BucketState::Flushing(sealed.clone());
        let segments = self.wal.segment_files();
        let job = move || {
            let result = wal::sync(&*disk, &segments)
                .and_then(|()| write_run(&*disk, &file, &sealed, flushed_seqno, offset));
            drop(sealed);
            JobDone::Flushed { number, flushed_seqno, result }
        };
        self.workers.start(Job::Flush(Box::new(job)));
    }

    /// Compacts a bucket with all of its deltas.
    pub fn start_compaction(&mut self, at: usize, listener: &mut dyn BucketListener) {
        let flushed_seqno = self.wal.next_seqno - 1;
        let (disk, now, next_number) = (self.disk.clone(), self.now, self.next_number.clone());
        let policy = self.options.url_order.clone();
        let limits = BucketLimits {
            bytes: self.bucket_bytes_max(),
            hosts: self.options.bucket_hosts,
            prescheduled: self.options.prescheduled,
        };
        let bucket = &mut self.buckets[at];
        let sealed = Arc::new(bucket.memtable.take());
        bucket.state = BucketState::Compacting(sealed.clone());
        let (number, old, level0_file) = (bucket.number, bucket.file().cloned(), bucket.level0_file());
        let id = BucketId { number, generation: bucket.generation + 1, from: bucket.from, flushed_seqno };
        let offsets: Vec<Vec<u64>> = bucket.runs.iter().map(Run::blocks).collect();
        // Paths shrink to about a fifth on their way into a bucket.
        let run_bytes = bucket.level0_bytes() / 2 + sealed.bytes() / 5;
        let is_short = bucket.bytes() + bucket.level0_bytes() + sealed.bytes() < INLINE_BYTES;
        let segments = self.wal.segment_files();
        let job = move || {
            let start = Instant::now();
            let work = || {
                // A power cut must not leave a part of a batch: first the WAL, then what follows from it.
                wal::sync(&*disk, &segments)?;
                let mut runs = Vec::with_capacity(offsets.len() + 1);
                for offsets in offsets {
                    runs.push(RunReader::file(disk.clone(), &level0_file, offsets)?);
                }
                runs.push(RunReader::memtable(sealed.clone()));
                compact(Compaction { disk, id, old, runs, run_bytes, policy, now, limits, next_number })
            };
            let result = work();
            drop(sealed);
            JobDone::Compacted { number, result, took: start.elapsed() }
        };
        self.workers.start(if is_short {
            Job::CompactInline(Box::new(job))
        } else {
            Job::Compact(Box::new(job))
        });
        if is_short {
            self.poll_jobs(listener);
        }
    }

    fn compact_early(&mut self, listener: &mut dyn BucketListener) {
        while self.last_error.is_none()
            && self.is_flushed()
            && self.workers.has_idle_compactor()
            && let Some(at) = choose::early(self.loads())
        {
            self.start_compaction(at, listener);
        }
    }

    fn compact_level0(&mut self, listener: &mut dyn BucketListener) {
        while self.last_error.is_none()
            && self.is_flushed()
            && let Some(at) = choose::largest_level0(self.loads(), &self.pending_limits(), self.compactors())
        {
            self.start_compaction(at, listener);
        }
    }

    /// Whether a bucket may be compacted because the crawl asks for it.
    pub fn may_compact(&self, at: usize, demand: CrawlDemand) -> bool {
        let Backoff { since, took } = self.buckets[at].backoff;
        let (has_threads, has_failed) = (self.workers.has_threads(), self.last_error.is_some());
        choose::may_compact(demand, has_threads, has_failed, since.elapsed(), took)
            && self.workers.can_queue_compaction()
    }

    /// Flushes, compacts all buckets that have deltas, and waits for it.
    pub fn compact_all(&mut self, listener: &mut dyn BucketListener) -> Result<(), Error> {
        self.flush(listener)?;
        self.last_error = None;
        loop {
            self.poll_jobs(listener);
            let is_next =
                |bucket: &Bucket| bucket.has_pending() && !bucket.is_busy() && bucket.damage.is_none();
            let next = self.buckets.iter().position(is_next);
            if let Some(error) = self.last_error.take() {
                while self.wait_for_job(listener) {}
                return Err(error);
            }
            match next {
                Some(at) if self.workers.can_queue_compaction() => self.start_compaction(at, listener),
                _ if self.wait_for_job(listener) => {}
                _ => break,
            }
        }
        // All of it is in bucket files.
        self.wal.roll();
        self.drop_wal_segments();
        self.obsolete_files.wait();
        Ok(())
    }

    /// Deletes segments of the WAL whose entries are all in other files.
    fn drop_wal_segments(&mut self) {
        let memtables = self.buckets.iter().flat_map(|bucket| {
            let sealed = bucket.state.sealed().map_or(u64::MAX, |memtable| memtable.first_seqno());
            [bucket.memtable.first_seqno(), sealed]
        });
        let needed = memtables.min().unwrap_or(u64::MAX);
        for (file, successor) in self.wal.drop_segments_below(needed.min(self.wal.next_seqno)) {
            self.obsolete_files.remove(file, Some(successor));
        }
    }
}
