//! Compaction of one bucket: its old file, its level-0 runs and its sealed memtable are merged into a new
//! file, or several.
//!
//! Everything streams. In memory at once are, of one host, its deltas, its pre-scheduled URLs and one block
//! of its remaining ones: a host with a hundred million URLs needs no more than another. A bucket that would
//! grow too large is split between hosts.

use super::join::{load_range, merge_join, merge_ordered};
use super::split_writer::SplitWriter;
use crate::Error;
use crate::urls::veuni::bucket::{
    BucketFile, BucketId, BucketWriter, Cursor, EntryError, EntryRange, HostMeta, UrlEntry,
};
use crate::urls::veuni::compaction::delta::HostDelta;
use crate::urls::veuni::compaction::entry_buf::EntryBuf;
use crate::urls::veuni::dispatch::url_order::{UrlOrder, entry_key};
use crate::urls::veuni::run::RunReader;
use farol_base::disk::Disk;
use farol_base::{HostHash, Timestamp};
use std::cell::RefCell;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// When a bucket is split, and what it pre-schedules.
#[derive(Clone, Copy, Debug)]
pub struct BucketLimits {
    pub bytes: u64,
    pub hosts: u64,
    /// URLs of a host that are pre-scheduled.
    pub prescheduled: usize,
}

/// What a compaction needs.
pub struct Compaction {
    pub disk: Arc<dyn Disk>,
    /// Of the first output file.
    pub id: BucketId,
    pub old: Option<Arc<BucketFile>>,
    /// Sorted runs, the oldest first; the memtable is the last.
    pub runs: Vec<RunReader>,
    /// Their bytes once merged, roughly.
    pub run_bytes: u64,
    pub policy: Arc<dyn UrlOrder>,
    pub now: Timestamp,
    pub limits: BucketLimits,
    /// Numbers for the buckets that a split adds.
    pub next_number: Arc<AtomicU32>,
}

/// Compacts; on an error nothing is left behind.
pub fn compact(job: Compaction) -> Result<Vec<Arc<BucketFile>>, Error> {
    let mut output = SplitWriter::new(&job)?;
    let mut merger = Merger::new(job, SCRATCH.take());
    let merged = merger.run(&mut output);
    let is_small = merger.scratch.delta.capacity_bytes() <= SCRATCH_BYTES;
    SCRATCH.set(if is_small { merger.scratch } else { Scratch::default() });
    output.finish(merged)
}

/// Merges host by host.
struct Merger {
    job: Compaction,
    /// Two cursors, so that most blocks are decompressed once: one for the remaining URLs of large hosts, one
    /// for everything else.
    remaining: Option<Cursor>,
    others: Option<Cursor>,
    scratch: Scratch,
}

/// Buffers for one host. A thread keeps them for its next compaction, unless a huge host made them large.
#[derive(Debug, Default)]
struct Scratch {
    delta: HostDelta,
    /// Per delta: whether it was applied to a URL of `loaded`.
    taken: Vec<bool>,
    /// The smaller of the host's two ranges, in memory.
    loaded: EntryBuf,
    /// URLs that will be pre-scheduled: they follow the remaining ones.
    chosen: EntryBuf,
    visits: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Deltas that take more memory than this are not kept: some 200,000 URLs of one host. `loaded` and `chosen`
/// never have more than are pre-scheduled.
const SCRATCH_BYTES: usize = 16 << 20;

impl Merger {
    fn new(job: Compaction, scratch: Scratch) -> Merger {
        let cursor = |ahead| job.old.as_ref().map(|old| old.cursor(ahead));
        let (remaining, others) = (cursor(1 << 20), cursor(512 << 10));
        Merger { job, remaining, others, scratch }
    }

    fn run(&mut self, output: &mut SplitWriter) -> Result<(), Error> {
        let mut old = self.job.old.as_ref().map(|old| old.hosts());
        let mut stored = next(&mut old)?;
        // The next hash of each run. There may be a hundred runs, and most lack most hosts.
        let hash_of = |run: &RunReader| run.peek().map(|(hash, _)| hash);
        let mut hashes: Vec<Option<HostHash>> = self.job.runs.iter().map(hash_of).collect();
        let mut host = String::new();
        loop {
            let in_bucket_hash = stored.as_ref().map(|meta| meta.hash);
            let Some(hash) = hashes.iter().flatten().copied().chain(in_bucket_hash).min() else {
                return Ok(());
            };
            let at_hash = |at: &usize| hashes[*at] == Some(hash);
            let in_runs = (0..hashes.len()).filter(at_hash).filter_map(|at| self.job.runs[at].peek());
            let in_bucket = stored.iter().map(|meta| (meta.hash, &*meta.host));
            let first = in_runs.chain(in_bucket).filter(|(of, _)| *of == hash).map(|(_, host)| host).min();
            host.clear();
            host.push_str(first.unwrap_or_default());
            self.scratch.delta.clear();
            for (run, next) in self.job.runs.iter_mut().zip(&mut hashes) {
                if *next == Some(hash) && run.peek().is_some_and(|(_, name)| name == host) {
                    run.read_host(&mut self.scratch.delta)?;
                    *next = hash_of(run);
                }
            }
            let is_stored = stored.as_ref().is_some_and(|meta| meta.hash == hash && meta.host == host);
            let meta = if is_stored { std::mem::replace(&mut stored, next(&mut old)?) } else { None };
            let writer = output.writer(hash)?;
            writer.begin(hash, &host);
            self.merge_host(meta.filter(|_| !self.scratch.delta.tombstone), writer)?;
            writer.end()?;
        }
    }

    fn merge_host(&mut self, meta: Option<HostMeta>, writer: &mut BucketWriter) -> Result<(), Error> {
        self.scratch.delta.sort();
        let ranges = meta.as_ref().map(|meta| (meta.remaining, meta.prescheduled));
        let (remaining, prescheduled) = ranges.unwrap_or_default();
        self.scratch.chosen.clear();
        let all = remaining.len + prescheduled.len + self.scratch.delta.len() as u64;
        if all <= self.job.limits.prescheduled as u64 {
            self.merge_small(&remaining, &prescheduled, writer)?;
        } else {
            self.merge_large(&remaining, &prescheduled, meta.is_none(), writer)?;
        }
        let chosen = &self.scratch.chosen;
        let pushed = (0..chosen.len()).try_for_each(|at| writer.push(&chosen.get(at), true));
        pushed.map_err(|error| located(&self.others, error))
    }

    /// All URLs of a small host are pre-scheduled, but for those that are never visited again.
    fn merge_small(
        &mut self,
        remaining: &EntryRange,
        prescheduled: &EntryRange,
        writer: &mut BucketWriter,
    ) -> Result<(), Error> {
        self.load_range(remaining)?;
        // What was pre-scheduled can be drawn, and so can what was just found: only a visit ends that.
        let all_stay = remaining.len == 0 && !self.scratch.delta.has_events();
        let chosen = &mut self.scratch.chosen;
        let sources = (
            &mut self.others,
            prescheduled,
            &self.scratch.loaded,
            &self.scratch.delta,
            &self.scratch.taken[..],
        );
        merge_ordered(sources, &mut self.scratch.visits, &mut |entry, _| {
            if all_stay {
                // A file of ours has none here that is never due. Of another's it stays, and is never drawn.
                return writer.push(entry, true);
            }
            if entry.ready()? == Timestamp::NEVER {
                return writer.push(entry, false);
            }
            chosen.push(entry, false);
            Ok(())
        })
        .map_err(|error| located(&self.others, error))
    }

    /// Of a large host the pre-scheduled URLs are in memory, and the remaining ones stream past them.
    fn merge_large(
        &mut self,
        remaining: &EntryRange,
        prescheduled: &EntryRange,
        new_host: bool,
        writer: &mut BucketWriter,
    ) -> Result<(), Error> {
        let left = self.load_range(prescheduled)?;
        let limit = if self.job.policy.is_due(left) { self.threshold(remaining, new_host)? } else { None };
        let (job, chosen) = (&self.job, &mut self.scratch.chosen);
        let sources = (
            &mut self.remaining,
            remaining,
            &self.scratch.loaded,
            &self.scratch.delta,
            &self.scratch.taken[..],
        );
        merge_ordered(sources, &mut self.scratch.visits, &mut |entry, stays| {
            // With a limit all URLs are chosen from anew; without, what is pre-scheduled and unvisited stays so.
            let is_chosen = match &limit {
                None => stays,
                Some((limit, path)) => {
                    key_of(job, entry, new_host)?.is_some_and(|key| (key, entry.path) <= (*limit, &path[..]))
                }
            };
            if !is_chosen {
                return writer.push(entry, false);
            }
            chosen.push(entry, false);
            Ok(())
        })
        .map_err(|error| located(&self.remaining, error))
    }

    /// Loads the URLs of a range; returns how many of them can still be drawn.
    fn load_range(&mut self, range: &EntryRange) -> Result<u64, Error> {
        let Scratch { delta, taken, loaded, visits, .. } = &mut self.scratch;
        load_range(&mut self.others, range, delta, (loaded, taken), visits, self.job.now)
    }

    /// The key and path up to which URLs are chosen.
    fn threshold(&mut self, range: &EntryRange, new_host: bool) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let cap = self.job.limits.prescheduled;
        let mut best: BinaryHeap<(u64, Vec<u8>)> = BinaryHeap::with_capacity(cap + 1);
        let job = &self.job;
        let mut offer = |entry: &UrlEntry<'_>| -> Result<(), EntryError> {
            let Some(key) = key_of(job, entry, new_host)? else { return Ok(()) };
            if best.len() < cap {
                best.push((key, entry.path.to_vec()));
            } else if let Some(mut worst) = best.peek_mut()
                && (key, entry.path) < (worst.0, &*worst.1)
            {
                worst.0 = key;
                worst.1.clear();
                worst.1.extend_from_slice(entry.path);
            }
            Ok(())
        };
        let offered = (0..self.scratch.loaded.len()).try_for_each(|at| offer(&self.scratch.loaded.get(at)));
        let joined = offered.and_then(|()| {
            let Scratch { delta, taken, visits, .. } = &mut self.scratch;
            merge_join(&mut self.remaining, range, delta, taken, visits, &mut offer)
        });
        joined.map_err(|error| located(&self.remaining, error))?;
        Ok(best.into_iter().max())
    }
}

fn next(
    hosts: &mut Option<impl Iterator<Item = Result<HostMeta, Error>>>,
) -> Result<Option<HostMeta>, Error> {
    hosts.as_mut().and_then(Iterator::next).transpose()
}

/// The policy's key of a URL; `None` where it is not visited again.
fn key_of(job: &Compaction, entry: &UrlEntry<'_>, new_host: bool) -> Result<Option<u64>, EntryError> {
    Ok(entry_key(&*job.policy, entry, job.now, new_host)?)
}

/// An error of a join, with the offset of the block that was read last.
fn located(cursor: &Option<Cursor>, error: EntryError) -> Error {
    match cursor {
        Some(cursor) => cursor.locate(error),
        None => error.in_memory(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::urls::veuni::codec::put_due;
    use crate::urls::veuni::dispatch::url_order::Breadth;
    use crate::urls::veuni::memtable::Memtable;
    use farol_base::codec::put_varint;
    use farol_base::disk::Mem;

    /// A compaction of a bucket for which nothing was written.
    fn job(disk: &Arc<dyn Disk>, old: &Arc<BucketFile>, prescheduled: usize) -> Compaction {
        Compaction {
            disk: disk.clone(),
            id: BucketId { generation: 8, ..old.id },
            old: Some(old.clone()),
            runs: vec![RunReader::memtable(Arc::new(Memtable::default()))],
            run_bytes: 0,
            policy: Arc::new(Breadth),
            now: Timestamp::from_secs(9),
            limits: BucketLimits { bytes: 1 << 30, hosts: 1 << 30, prescheduled },
            next_number: Arc::new(AtomicU32::new(4)),
        }
    }

    #[test]
    fn a_url_that_is_never_due_does_no_harm_among_those_to_be_drawn() {
        let disk: Arc<dyn Disk> = Arc::new(Mem::new());
        let id = BucketId { number: 3, generation: 7, from: HostHash(0), flushed_seqno: 1 };
        let mut writer = BucketWriter::create(disk.clone(), id).unwrap();
        writer.begin(HostHash::of("http://h"), "http://h");
        // Last visit at 0, never due, changed at no known time, one visit, no failure, no download, no position.
        let mut visits = Vec::new();
        put_varint(&mut visits, 0);
        put_due(&mut visits, Timestamp::NEVER, Timestamp::EPOCH);
        visits.extend([0, 1, 0, 0, 0]);
        writer.push(&UrlEntry { path: b"/a", depth: 1, state: 1, visits: &visits }, true).unwrap();
        writer.end().unwrap();
        let old = Arc::new(writer.finish().unwrap());
        assert!(compact(job(&disk, &old, 100)).is_ok());
    }

    #[test]
    fn an_entry_that_cannot_be_decoded_is_named_with_its_file_and_offset() {
        let disk: Arc<dyn Disk> = Arc::new(Mem::new());
        let id = BucketId { number: 3, generation: 7, from: HostHash(0), flushed_seqno: 1 };
        let mut writer = BucketWriter::create(disk.clone(), id).unwrap();
        let hash = HostHash::of("http://h");
        writer.begin(hash, "http://h");
        // Whole blocks before the one with the bad entry.
        let paths: Vec<String> =
            (0..9_000).map(|page| format!("/{page:06}/{}", "x".repeat(page % 50))).collect();
        for path in &paths {
            writer.push(&UrlEntry { path: path.as_bytes(), depth: 1, state: 0, visits: &[] }, true).unwrap();
        }
        let bad = UrlEntry { path: b"/z", depth: 1, state: 1, visits: &[0xFF; 3] };
        writer.push_unchecked(&bad).unwrap();
        writer.end().unwrap();
        let old = Arc::new(writer.finish().unwrap());
        assert!(old.blocks() > 2);
        let last_block = old.blocks[old.blocks() - 1];
        for prescheduled in [100, 100_000] {
            match compact(job(&disk, &old, prescheduled)) {
                Err(Error::Damaged { file, offset, .. }) => {
                    assert_eq!((&*file, offset), ("block-000003-00000007", last_block));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(disk.list().unwrap(), ["block-000003-00000007"]);
        }
    }
}
