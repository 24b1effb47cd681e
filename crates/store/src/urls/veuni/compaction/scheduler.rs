//! Moves what came in to where it belongs: memtables into level-0 runs, and those into buckets.
//!
//! Called at every flush. Nothing moves that the log does not have, so a batch never arrives in part.

use crate::Error;
use crate::urls::veuni::bucket::{BucketFile, BucketId};
use crate::urls::veuni::compaction::merge::{BucketLimits, Compaction, compact};
use crate::urls::veuni::compaction::workers::Job;
use crate::urls::veuni::dispatch::active::ActiveBucket;
use crate::urls::veuni::manifest::{self, ManifestEntry};
use crate::urls::veuni::memtable::Memtable;
use crate::urls::veuni::run::{Run, RunReader, append_run};
use crate::urls::veuni::{Backoff, Bucket, Damage, Veuni};
use farol_base::CanonicalUrl;
use farol_base::HostHash;
use farol_base::disk::Disk;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A bucket whose hosts have all run dry rests so many times as long as its merge took before the next one: merges
/// that the crawl asks for take a quarter of one thread's time at most.
const COMPACTION_BACKOFF_DRY: u32 = 3;
/// As above, while some of its hosts still have something.
const COMPACTION_BACKOFF: u32 = 8;
/// So long a bucket rests after a merge that failed.
const BACKOFF_AFTER_ERROR: Duration = Duration::from_secs(1);
/// Buckets up to this size are merged by whoever asks: it takes a few milliseconds.
const INLINE_BYTES: u64 = 256 << 10;
/// So much may always wait for one host, however little memory there is.
const ONE_HOST_MIN: u64 = 1 << 20;
/// This part of the memory for what comes in may always be filled by what waits for one host.
const ONE_HOST_SHARE: u64 = 4;
/// Once so many notes wait in memory, and are more than twice of what their bucket has, it is merged at once.
const EARLY_ENTRIES_MIN: u64 = 64 << 10;
/// When memory is full, this part of it is made free.
const FREED_SHARE: u64 = 8;
/// When less than this part of the memory for what comes in is at hand, as much is made.
const PREFAULT_SHARE: u64 = 16;
/// A note in memory takes so many times what it will take in a level-0 file.
const MEMTABLE_PER_RUN: u64 = 4;
/// Once more than this part of what may wait waits beyond that, several buckets are merged at once for it.
const BEHIND_SHARE: u64 = 16;
/// While the store is small it is kept in so many buckets at least, so that several are merged at once and none takes long.
const BUCKETS_MIN: u64 = 16;
/// But no bucket is split for that below this size.
const SMALL_BUCKET_BYTES: u64 = 2 << 20;
/// The log goes on in a new file at this size.
const WAL_SEGMENT_BYTES: u64 = 32 << 20;

/// What a job did.
pub enum JobDone {
    Compacted { number: u32, result: Result<Vec<Arc<BucketFile>>, Error>, took: Duration },
    Flushed { number: u32, flushed_seqno: u64, result: Result<Run, Error> },
}

impl Veuni {
    /// Takes in what jobs did, and starts those that are due.
    pub(in crate::urls::veuni) fn maintain(&mut self) -> Result<(), Error> {
        self.poll_jobs()?;
        self.clear_error();
        let buffered: u64 = self.memtable_bytes();
        if buffered > self.options.memtable_bytes {
            self.flush_memtables()?;
        }
        self.prefault_chunks(buffered);
        self.compact_early()?;
        self.compact_level0()?;
        // Whoever brings more than can be put away waits.
        while self.jobs.running > 0 && self.must_stall() {
            self.wait_for_job()?;
            self.compact_level0()?;
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

    /// Tries again, a while after something went wrong.
    fn clear_error(&mut self) {
        let seen_cache = |bucket: &Bucket| {
            bucket.backoff.took == BACKOFF_AFTER_ERROR && bucket.backoff.since.elapsed() < bucket.backoff.took
        };
        if self.last_error.is_some() && !self.buckets.iter().any(seen_cache) {
            self.last_error = None;
        }
    }

    /// Has memory made for what comes in next, once much comes.
    fn prefault_chunks(&mut self, buffered: u64) {
        let ready = self.options.memtable_bytes / PREFAULT_SHARE;
        if self.jobs.has_threads() && buffered > ready && self.chunk_pool.try_start_growing(ready) {
            let chunk_pool = self.chunk_pool.clone();
            // A few times in a store's life. Where there is no thread to be had, memory comes when it is needed.
            let prefault = move || chunk_pool.prefault(ready);
            let _ = std::thread::Builder::new().name("urls-spare".to_string()).spawn(prefault);
        }
    }

    fn memtable_bytes(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.memtable.bytes()).sum()
    }

    fn level0_total(&self) -> (u64, u64) {
        self.buckets
            .iter()
            .fold((0, 0), |(pending, all), bucket| (pending + bucket.level0_bytes(), all + bucket.bytes()))
    }

    fn level0_max(&self) -> u64 {
        let (_, all) = self.level0_total();
        self.options.level0_min.max((all as f64 * self.options.level0_share) as u64)
    }

    /// A bucket larger than this is split.
    fn bucket_bytes(&self) -> u64 {
        let (_, all) = self.level0_total();
        (all / BUCKETS_MIN).max(SMALL_BUCKET_BYTES).min(self.options.bucket_bytes)
    }

    /// What waits and nobody merges, wherever it waits, in bytes of level-0 runs.
    fn backlog_bytes(&self) -> u64 {
        let idle = self.buckets.iter().filter(|bucket| !bucket.is_busy);
        idle.map(Bucket::level0_bytes).sum::<u64>() + self.memtable_bytes() / MEMTABLE_PER_RUN
    }

    fn must_stall(&self) -> bool {
        let immutable: u64 = self
            .buckets
            .iter()
            .filter_map(|bucket| bucket.immutable.as_ref())
            .map(|memtable| memtable.bytes())
            .sum();
        let (pending, _) = self.level0_total();
        self.memtable_bytes() + immutable > memtable_bytes_max(self.options.memtable_bytes)
            || pending > self.level0_max() * 3 / 2
    }

    /// Takes in what jobs did.
    pub(in crate::urls::veuni) fn poll_jobs(&mut self) -> Result<(), Error> {
        while let Some(done) = self.jobs.take(false) {
            self.on_job_done(done)?;
        }
        Ok(())
    }

    /// Waits until a job is done; `false` where none is under way.
    pub(in crate::urls::veuni) fn wait_for_job(&mut self) -> Result<bool, Error> {
        match self.jobs.take(true) {
            Some(done) => self.on_job_done(done).map(|()| true),
            None => Ok(false),
        }
    }

    fn on_job_done(&mut self, done: JobDone) -> Result<(), Error> {
        match done {
            JobDone::Compacted { number, result, took } => {
                let Some(at) = self.buckets.iter().position(|bucket| bucket.number == number) else {
                    return Ok(());
                };
                self.buckets[at].is_busy = false;
                match result.and_then(|files| self.install(at, files)) {
                    Ok(()) => self.buckets[at].backoff = Backoff { since: Instant::now(), took },
                    Err(error) => self.on_job_failed(at, error),
                }
                self.drop_wal_segments();
                Ok(())
            }
            JobDone::Flushed { number, flushed_seqno, result } => {
                let Some(at) = self.buckets.iter().position(|bucket| bucket.number == number) else {
                    return Ok(());
                };
                let bucket = &mut self.buckets[at];
                bucket.is_busy = false;
                match result {
                    Ok(run) => {
                        bucket.runs.push(run);
                        bucket.flushed_seqno = flushed_seqno;
                        bucket.immutable = None;
                    }
                    Err(error) => self.on_job_failed(at, error),
                }
                Ok(())
            }
        }
    }

    /// What was on its way stays in memory, and is tried again later.
    pub(in crate::urls::veuni) fn on_job_failed(&mut self, at: usize, error: Error) {
        let bucket = &mut self.buckets[at];
        if let Some(immutable) = bucket.immutable.take() {
            let later = bucket.memtable.take();
            // The job has ended, so nobody else has it.
            bucket.memtable = Arc::into_inner(immutable).unwrap_or_default();
            bucket.memtable.extend(&later);
        }
        bucket.backoff = Backoff { since: Instant::now(), took: BACKOFF_AFTER_ERROR };
        if let Error::Damaged { file, offset, what } = &error {
            let hosts = bucket.file.as_ref().map_or(0, |file| file.totals.hosts);
            tracing::error!(bucket = bucket.number, hosts, error = %error,
                "a block of the URL store is damaged; its servers stand still until `farol check --repair`");
            bucket.damage = Some(Damage { file: file.clone(), offset: *offset, what: what.clone(), hosts });
            bucket.active = None;
        } else {
            tracing::warn!(bucket = bucket.number, error = %error, "the URL store waits with a merge");
            self.last_error = Some(error);
        }
    }

    /// Puts the files that came out of a merge in the place of the bucket.
    fn install(&mut self, at: usize, files: Vec<Arc<BucketFile>>) -> Result<(), Error> {
        let mut list: Vec<ManifestEntry> = self.buckets[..at].iter().map(Bucket::listed).collect();
        let (from, rebuilding) = (self.buckets[at].from, self.buckets[at].rebuilding);
        list.extend(files.iter().enumerate().map(|(part, file)| ManifestEntry {
            number: file.id.number,
            generation: file.id.generation,
            from: if part == 0 { from } else { file.id.from },
            has_file: true,
            rebuilding,
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
        // It is in the new files. What came since may need its memory.
        old.immutable = None;
        let old_files = [old.file.as_ref().map(|file| file.file.clone()), Some(old.level0_file())];
        let was_in_turn = old.active.is_some() || old.activate_after_merge;
        let splits: Vec<HostHash> = files.iter().skip(1).map(|file| file.id.from).collect();
        let memtables = old.memtable.take().partition_at(&splits);
        let count = files.len();
        let mut parts: Vec<Bucket> = Vec::with_capacity(count);
        for ((file, memtable), from) in files.into_iter().zip(memtables).zip([from].into_iter().chain(splits))
        {
            let mut bucket = Bucket::new(file.id.number, file.id.generation, from);
            bucket.memtable = memtable;
            bucket.flushed_seqno = file.id.flushed_seqno;
            bucket.merged = self.now;
            bucket.file = Some(file);
            (bucket.has_file, bucket.rebuilding) = (true, rebuilding);
            parts.push(bucket);
        }
        self.buckets.splice(at..=at, parts);
        self.rebuild_bucket_index();
        for file in old_files.into_iter().flatten() {
            self.obsolete_files.remove(file, None);
        }
        self.count_leased(at..at + count);
        // A bucket in turn stays so, with what is new.
        if was_in_turn {
            for part in at..at + count {
                self.activate(part);
            }
        }
        Ok(())
    }

    /// Writes what is in memory to the level-0 runs, bucket by bucket, until there is room again: what waited longest
    /// goes first, so that each bucket gathers a long run and the log stays short.
    fn flush_memtables(&mut self) -> Result<(), Error> {
        let ready = |bucket: &&Bucket| !bucket.is_busy && !bucket.memtable.is_empty();
        let mut waiting: Vec<(u64, u32)> = (self.buckets.iter().filter(ready))
            .map(|bucket| (bucket.memtable.first_seqno(), bucket.number))
            .collect();
        waiting.sort_unstable();
        let (mut buffered, room) = (self.memtable_bytes(), self.options.memtable_bytes / FREED_SHARE);
        for (_, number) in waiting {
            if buffered + room <= self.options.memtable_bytes || !self.wal.batch.is_empty() {
                break;
            }
            // Merging a bucket may have made more of them.
            let Some(at) = self.buckets.iter().position(|bucket| bucket.number == number) else { continue };
            // What a damaged bucket keeps counts as written: the others are not emptied for it over and over.
            buffered -= self.buckets[at].memtable.bytes();
            self.flush_memtable(at)?;
        }
        Ok(())
    }

    /// Writes what is in memory of a bucket to its level-0 file, or merges it where it is much for its bucket, or where so
    /// much waits for one host that a merge could not hold it: what came in for a host is in memory at once.
    fn flush_memtable(&mut self, at: usize) -> Result<(), Error> {
        let bucket = &self.buckets[at];
        let for_one: u64 = bucket.runs.iter().map(|run| run.largest).sum();
        // A merge for the sake of memory should not rewrite far more than came in; but memory has an end.
        let memory = self.options.memtable_bytes;
        let for_one_max = bucket.bytes().clamp(memory / ONE_HOST_SHARE, memory).max(ONE_HOST_MIN);
        let is_much = bucket.memtable.len() as u64 * 2 >= bucket.known() || for_one >= for_one_max;
        match &bucket.damage {
            None if is_much => self.start_compaction(at)?,
            // Nothing is written behind a damage: what stands there would be cut off.
            Some(damage) if damage.file == bucket.level0_file() => {}
            _ => self.start_flush(at),
        }
        Ok(())
    }

    fn start_flush(&mut self, at: usize) {
        let flushed_seqno = self.wal.next_seqno - 1;
        let disk = self.disk.clone();
        let bucket = &mut self.buckets[at];
        let (number, file, offset) = (bucket.number, bucket.level0_file(), bucket.level0_bytes());
        let memtable = Arc::new(bucket.memtable.take());
        bucket.immutable = Some(memtable.clone());
        bucket.is_busy = true;
        let wal = self.wal.segment_files();
        let job = move || {
            let result = crate::urls::veuni::wal::sync(&*disk, &wal)
                .and_then(|()| write_run(&*disk, &file, &memtable, flushed_seqno, offset));
            drop(memtable);
            JobDone::Flushed { number, flushed_seqno, result }
        };
        self.jobs.start(Job::Flush(Box::new(job)));
    }

    /// Merges a bucket with all that came in for it.
    pub(in crate::urls::veuni) fn start_compaction(&mut self, at: usize) -> Result<(), Error> {
        let flushed_seqno = self.wal.next_seqno - 1;
        let (disk, now, next_number) = (self.disk.clone(), self.now, self.next_number.clone());
        let policy = self.options.url_order.clone();
        let limits = BucketLimits {
            bytes: self.bucket_bytes(),
            hosts: self.options.bucket_hosts,
            prescheduled: self.options.prescheduled,
        };
        let bucket = &mut self.buckets[at];
        let memtable = Arc::new(bucket.memtable.take());
        bucket.immutable = Some(memtable.clone());
        bucket.is_busy = true;
        let (number, old, pending) = (bucket.number, bucket.file.clone(), bucket.level0_file());
        let id = BucketId { number, generation: bucket.generation + 1, from: bucket.from, flushed_seqno };
        let offsets: Vec<Vec<u64>> =
            bucket.runs.iter().map(|run| run.index.iter().map(|(_, offset)| *offset).collect()).collect();
        // Paths shrink to about a fifth on their way into a bucket.
        let run_bytes = bucket.level0_bytes() / 2 + memtable.bytes() / 5;
        let short = bucket.bytes() + bucket.level0_bytes() + memtable.bytes() < INLINE_BYTES;
        let wal = self.wal.segment_files();
        let job = move || {
            let start = Instant::now();
            let work = || {
                // A power cut must not leave a part of a batch: first the log, then what follows from it.
                crate::urls::veuni::wal::sync(&*disk, &wal)?;
                let mut runs = Vec::with_capacity(offsets.len() + 1);
                for offsets in offsets {
                    runs.push(RunReader::file(disk.clone(), &pending, offsets)?);
                }
                runs.push(RunReader::memtable(memtable.clone()));
                compact(Compaction { disk, id, old, runs, run_bytes, policy, now, limits, next_number })
            };
            let result = work();
            drop(memtable);
            JobDone::Compacted { number, result, took: start.elapsed() }
        };
        self.jobs.start(if short { Job::CompactInline(Box::new(job)) } else { Job::Compact(Box::new(job)) });
        if short { self.poll_jobs() } else { Ok(()) }
    }

    /// Merges buckets that have next to nothing beside what is in memory: a crawl that has just begun will soon ask for it,
    /// and it costs little, as less than half as much is rewritten as came in.
    fn compact_early(&mut self) -> Result<(), Error> {
        let is_due = |bucket: &Bucket| {
            let entries = bucket.memtable.len() as u64;
            entries >= EARLY_ENTRIES_MIN
                && entries > 2 * bucket.known()
                && !bucket.is_busy
                && bucket.damage.is_none()
                && bucket.runs.is_empty()
        };
        while self.last_error.is_none()
            && self.wal.batch.is_empty()
            && self.jobs.has_idle_compactor()
            && let Some(at) = self.buckets.iter().position(is_due)
        {
            self.start_compaction(at)?;
        }
        Ok(())
    }

    /// Merges buckets whose level-0 runs are large, the largest first, one at a time where that suffices.
    fn compact_level0(&mut self) -> Result<(), Error> {
        while self.last_error.is_none() {
            let (waiting, max) = (self.backlog_bytes(), self.level0_max());
            // Two at once would take twice as long each, and the log keeps all that comes in meanwhile.
            let has_pending = waiting > max + max / BEHIND_SHARE;
            let has_room =
                if has_pending { self.jobs.can_queue_compaction() } else { !self.jobs.is_compacting() };
            if waiting <= max || !has_room || !self.wal.batch.is_empty() {
                return Ok(());
            }
            let worst = (0..self.buckets.len())
                .filter(|at| {
                    let bucket = &self.buckets[*at];
                    !bucket.is_busy && bucket.damage.is_none() && !bucket.runs.is_empty()
                })
                .max_by_key(|at| self.buckets[*at].level0_bytes() * 1024 / self.buckets[*at].bytes().max(1));
            let Some(worst) = worst else { return Ok(()) };
            self.start_compaction(worst)?;
        }
        Ok(())
    }

    /// Merges everything that came in, and waits for it.
    pub(in crate::urls::veuni) fn drain_compactions(&mut self) -> Result<(), Error> {
        self.last_error = None;
        loop {
            self.poll_jobs()?;
            let behind = (0..self.buckets.len()).find(|at| {
                let bucket = &self.buckets[*at];
                bucket.has_pending() && !bucket.is_busy && bucket.damage.is_none()
            });
            if let Some(error) = self.last_error.take() {
                while self.wait_for_job()? {}
                return Err(error);
            }
            match behind {
                Some(at) if self.jobs.can_queue_compaction() => self.start_compaction(at)?,
                _ if self.wait_for_job()? => {}
                _ => break,
            }
        }
        // All of it has found its place.
        self.wal.roll();
        self.drop_wal_segments();
        self.obsolete_files.wait();
        Ok(())
    }

    /// Removes files of the log that nobody needs.
    fn drop_wal_segments(&mut self) {
        let memtables = self.buckets.iter().flat_map(|bucket| {
            [
                bucket.memtable.first_seqno(),
                bucket.immutable.as_ref().map_or(u64::MAX, |memtable| memtable.first_seqno()),
            ]
        });
        let needed = memtables.min().unwrap_or(u64::MAX);
        for (file, successor) in self.wal.drop_segments_below(needed.min(self.wal.next_seqno)) {
            self.obsolete_files.remove(file, Some(successor));
        }
    }

    /// Whether a bucket may be merged because the crawl asks for it.
    pub(in crate::urls::veuni) fn may_compact(&self, at: usize) -> bool {
        // With nothing handed out at all there is nothing better to do.
        if !self.jobs.has_threads() || self.leased_hosts.is_empty() {
            return self.last_error.is_none();
        }
        let bucket = &self.buckets[at];
        let factor = if bucket.leased_hosts == 0 { COMPACTION_BACKOFF_DRY } else { COMPACTION_BACKOFF };
        bucket.backoff.since.elapsed() >= bucket.backoff.took * factor
    }

    /// Hands a bucket's hosts out from now on.
    pub(in crate::urls::veuni) fn activate(&mut self, at: usize) {
        let bucket = &mut self.buckets[at];
        let Some(file) = &bucket.file else { return };
        match ActiveBucket::of(file, &*self.options.host_order) {
            Ok(mut active) => {
                // What was visited while the bucket was being merged stands in it as if it were not.
                for url in bucket.memtable.visited_urls() {
                    if let Ok(url) = CanonicalUrl::from_stored(&url) {
                        active.skip(&url);
                    }
                }
                bucket.active = Some(active);
                bucket.next_activation = None;
            }
            Err(error) => self.on_job_failed(at, error),
        }
    }
}

/// The most that may wait in memory, with what is on its way into files.
pub(in crate::urls::veuni) fn memtable_bytes_max(memory: u64) -> u64 {
    memory * 3 / 2
}

pub(in crate::urls::veuni) fn write_run(
    disk: &dyn Disk,
    file: &str,
    memtable: &Memtable,
    flushed_seqno: u64,
    offset: u64,
) -> Result<Run, Error> {
    let len = |disk: &dyn Disk| disk.len(file).map_err(Error::io("look at", file));
    let cut = |disk: &dyn Disk| match len(disk)? {
        Some(len) if len > offset => disk.truncate(file, offset).map_err(Error::io("cut", file)),
        _ => Ok(()),
    };
    // An earlier attempt may have left something.
    cut(disk)?;
    let appended = append_run(disk, file, memtable, flushed_seqno, offset);
    let written = appended.and_then(|run| disk.sync(file).map_err(Error::io("sync", file)).map(|()| run));
    if written.is_err() {
        cut(disk)?;
    }
    written
}
