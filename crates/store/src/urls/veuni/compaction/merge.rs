//! Merges what came in into a bucket: the old file and the runs go in, one new file or more come out.
//!
//! Everything streams: of a host, only what came in for it and its pre-scheduled URLs are in memory at once, of
//! its remaining ones a block at a time, so that a host with a hundred million URLs needs no more than another.
//! A bucket that would grow too large comes out as several, cut between hosts.

use crate::Error;
use crate::urls::veuni::bucket::{
    BucketFile, BucketId, BucketWriter, Cursor, EntryRange, HostMeta, UrlEntry,
};
use crate::urls::veuni::codec::{due_of, put_visits, state_byte, state_of, visits_of};
use crate::urls::veuni::compaction::delta::{DeltaEntry, HostDelta};
use crate::urls::veuni::compaction::entry_buf::EntryBuf;
use crate::urls::veuni::dispatch::url_order::{Candidate, UrlOrder};
use crate::urls::veuni::memtable::Event;
use crate::urls::veuni::run::RunReader;
use crate::urls::{Record, State};
use farol_base::HostHash;
use farol_base::Timestamp;
use farol_base::disk::Disk;
use std::cell::RefCell;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Limits of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct BucketLimits {
    pub bytes: u64,
    pub hosts: u64,
    /// URLs of a host that are pre-scheduled.
    pub prescheduled: usize,
}

/// What a merge needs.
pub struct Compaction {
    pub disk: Arc<dyn Disk>,
    /// Of the first file that comes out.
    pub id: BucketId,
    pub old: Option<Arc<BucketFile>>,
    /// What came in, the oldest first.
    pub runs: Vec<RunReader>,
    /// Its bytes, near enough.
    pub run_bytes: u64,
    pub policy: Arc<dyn UrlOrder>,
    pub now: Timestamp,
    pub limits: BucketLimits,
    /// Numbers of further buckets.
    pub next_number: Arc<AtomicU32>,
}

/// Merges; on an error nothing is left behind.
pub fn merge(job: Compaction) -> Result<Vec<Arc<BucketFile>>, Error> {
    let disk = job.disk.clone();
    let mut outputs = SplitWriter::new(&job)?;
    let mut merge = Merger::new(job, SCRATCH.take());
    let merged = merge.run(&mut outputs);
    SCRATCH.set(
        Some(merge.scratch)
            .filter(|scratch| scratch.delta.capacity_bytes() <= SCRATCH_BYTES)
            .unwrap_or_default(),
    );
    match merged.and_then(|()| outputs.close()) {
        Ok(()) => Ok(outputs.done),
        Err(error) => {
            if let Some(writer) = outputs.open.take() {
                writer.abandon();
            }
            for bucket in outputs.done {
                // It is no part of the store; opening again would remove it as well.
                let _ = disk.remove(&bucket.file);
            }
            Err(error)
        }
    }
}

/// The files that come out.
struct SplitWriter {
    disk: Arc<dyn Disk>,
    id: BucketId,
    next_number: Arc<AtomicU32>,
    open: Option<BucketWriter>,
    done: Vec<Arc<BucketFile>>,
    /// Bytes and hosts at which the next file is begun.
    part: Option<(u64, u64)>,
    last_hash: HostHash,
}

impl SplitWriter {
    fn new(job: &Compaction) -> Result<SplitWriter, Error> {
        let old = job.old.as_ref().map_or((0, 0), |old| (old.bytes, old.totals.hosts));
        let (bytes, hosts) = (old.0 + job.run_bytes, old.1);
        let parts = (bytes / job.limits.bytes.max(1)).max(hosts / job.limits.hosts.max(1)) + 1;
        // Parts are made half full at least, so that they do not split again at once.
        let part = (parts > 1)
            .then(|| ((bytes / parts).max(job.limits.bytes / 2), (hosts / parts).max(job.limits.hosts / 2)));
        let open = Some(BucketWriter::create(job.disk.clone(), job.id)?);
        Ok(SplitWriter {
            disk: job.disk.clone(),
            id: job.id,
            next_number: job.next_number.clone(),
            open,
            done: Vec::new(),
            part,
            last_hash: job.id.from,
        })
    }

    /// The writer for a host, a new one where the last is full.
    fn writer(&mut self, hash: HostHash) -> Result<&mut BucketWriter, Error> {
        let full = self.part.is_some_and(|(bytes, hosts)| {
            self.open.as_ref().is_some_and(|open| open.bytes() >= bytes || open.hosts() >= hosts)
        });
        if (full && hash != self.last_hash) || self.open.is_none() {
            self.close()?;
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            let id = BucketId { number, generation: 0, from: hash, flushed_seqno: self.id.flushed_seqno };
            self.open = Some(BucketWriter::create(self.disk.clone(), id)?);
        }
        self.last_hash = hash;
        self.open.as_mut().ok_or(Error::Poisoned { store: "the URL store" })
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some(writer) = self.open.take() {
            let file = writer.file().to_string();
            let bucket = writer.finish().inspect_err(|_| {
                // What was written of it helps nobody.
                let _ = self.disk.remove(&file);
            })?;
            self.done.push(Arc::new(bucket));
        }
        Ok(())
    }
}

struct Merger {
    job: Compaction,
    /// Goes through the remaining URLs of large hosts, and through everything else: so each block is mostly read once.
    remaining: Option<Cursor>,
    others: Option<Cursor>,
    scratch: Scratch,
}

/// Room for one host. A thread keeps it for its next merge, unless a huge host made it large.
#[derive(Debug, Default)]
struct Scratch {
    delta: HostDelta,
    /// Of `delta`, those whose URL is among the few.
    taken: Vec<bool>,
    loaded: EntryBuf,
    chosen: EntryBuf,
    visits: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A desk on which more than this came in is not kept: some 200,000 URLs of one host. The few and the chosen are never more than
/// are pre-scheduled.
const SCRATCH_BYTES: usize = 16 << 20;

impl Merger {
    fn new(job: Compaction, scratch: Scratch) -> Merger {
        let cursor = |ahead| job.old.as_ref().map(|old| old.cursor(ahead));
        let (remaining, others) = (cursor(1 << 20), cursor(512 << 10));
        Merger { job, remaining, others, scratch }
    }

    fn run(&mut self, outputs: &mut SplitWriter) -> Result<(), Error> {
        let mut old = self.job.old.as_ref().map(|old| old.hosts());
        let mut stored = next(&mut old)?;
        // The hash at which each run stands. There may be a hundred runs, and most lack most hosts.
        let hash_of = |run: &RunReader| run.peek().map(|(hash, _)| hash);
        let mut hashes: Vec<Option<HostHash>> = self.job.runs.iter().map(hash_of).collect();
        let mut host = String::new();
        loop {
            let of_block = stored.as_ref().map(|meta| meta.hash);
            let Some(hash) = hashes.iter().flatten().copied().chain(of_block).min() else { return Ok(()) };
            let at_hash = |at: &usize| hashes[*at] == Some(hash);
            let in_runs = (0..hashes.len()).filter(at_hash).filter_map(|at| self.job.runs[at].peek());
            let in_block = stored.iter().map(|meta| (meta.hash, &*meta.host));
            let first = in_runs.chain(in_block).filter(|(of, _)| *of == hash).map(|(_, host)| host).min();
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
            let writer = outputs.writer(hash)?;
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
        (0..self.scratch.chosen.len()).try_for_each(|at| writer.push(&self.scratch.chosen.get(at), true))
    }

    /// All URLs of a small host are pre-scheduled, but for those that are never visited again.
    fn merge_small(
        &mut self,
        remaining: &EntryRange,
        prescheduled: &EntryRange,
        writer: &mut BucketWriter,
    ) -> Result<(), Error> {
        self.load_range(remaining)?;
        // What was pre-scheduled can be handed out, and what was found now too: only a visit can end that.
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
                debug_assert_ne!(ready(entry)?, Timestamp::NEVER);
                return writer.push(entry, true);
            }
            if ready(entry)? == Timestamp::NEVER {
                return writer.push(entry, false);
            }
            chosen.push(entry, false);
            Ok(())
        })
    }

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
    }

    /// Brings the URLs of a group into memory, with what came in for them, and says how many of them can still be
    /// handed out.
    fn load_range(&mut self, range: &EntryRange) -> Result<u64, Error> {
        self.scratch.loaded.clear();
        self.scratch.taken.clear();
        self.scratch.taken.resize(self.scratch.delta.len(), false);
        let Some(cursor) = self.others.as_mut().filter(|_| range.len > 0) else { return Ok(0) };
        cursor.seek(range.at)?;
        let (mut at, mut left) = (0, 0);
        for _ in 0..range.len {
            let entry = cursor.advance()?;
            while at < self.scratch.delta.len() && self.scratch.delta.get(at).path < entry.path {
                at += 1;
            }
            let start = at;
            while at < self.scratch.delta.len() && self.scratch.delta.get(at).path == entry.path {
                self.scratch.taken[at] = true;
                at += 1;
            }
            let delta = &self.scratch.delta;
            let visited = (start..at)
                .any(|at| delta.get(at).events.iter().any(|event| matches!(event, Event::Visit(_))));
            let loaded = &mut self.scratch.loaded;
            apply(
                Some(entry),
                (start..at).map(|at| delta.get(at)),
                &mut self.scratch.visits,
                &mut |entry| {
                    loaded.push(entry, visited);
                    Ok(())
                },
            )?;
            let now = loaded.get(loaded.len() - 1);
            left += u64::from(!visited && ready(&now)? <= self.job.now);
        }
        Ok(left)
    }

    /// The key and path up to which URLs are chosen.
    fn threshold(&mut self, range: &EntryRange, new_host: bool) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let cap = self.job.limits.prescheduled;
        let mut best: BinaryHeap<(u64, Vec<u8>)> = BinaryHeap::with_capacity(cap + 1);
        let job = &self.job;
        let mut offer = |entry: &UrlEntry<'_>| -> Result<(), Error> {
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
        (0..self.scratch.loaded.len()).try_for_each(|at| offer(&self.scratch.loaded.get(at)))?;
        merge_join(
            &mut self.remaining,
            range,
            &self.scratch.delta,
            &self.scratch.taken,
            &mut self.scratch.visits,
            &mut offer,
        )?;
        Ok(best.into_iter().max())
    }
}

fn next(
    hosts: &mut Option<impl Iterator<Item = Result<HostMeta, Error>>>,
) -> Result<Option<HostMeta>, Error> {
    hosts.as_mut().and_then(Iterator::next).transpose()
}

type EmitEntry<'a> = &'a mut dyn FnMut(&UrlEntry<'_>) -> Result<(), Error>;
/// A group and who reads it, the few of the other group, and what came in, of which some is with the few already.
type MergeSources<'a> = (&'a mut Option<Cursor>, &'a EntryRange, &'a EntryBuf, &'a HostDelta, &'a [bool]);

/// Goes through all URLs of a host in the order of their paths, each once; says of each whether it is one of the few
/// and was not visited.
fn merge_ordered(
    (cursor, range, loaded, delta, taken): MergeSources<'_>,
    visits: &mut Vec<u8>,
    emit: &mut dyn FnMut(&UrlEntry<'_>, bool) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut before = 0;
    merge_join(cursor, range, delta, taken, visits, &mut |entry| {
        while before < loaded.len() && loaded.get(before).path < entry.path {
            emit(&loaded.get(before), !loaded.is_visited(before))?;
            before += 1;
        }
        emit(entry, false)
    })?;
    (before..loaded.len()).try_for_each(|at| emit(&loaded.get(at), !loaded.is_visited(at)))
}

/// Goes through a group of a host's URLs and what came in, in the order of their paths, each URL once.
fn merge_join(
    cursor: &mut Option<Cursor>,
    range: &EntryRange,
    delta: &HostDelta,
    taken: &[bool],
    visits: &mut Vec<u8>,
    emit: EmitEntry<'_>,
) -> Result<(), Error> {
    let mut at = 0;
    // What came in for one URL, but for those that are taken.
    let end_of_path = |at: usize| {
        let mut end = at + 1;
        while end < delta.len() && delta.get(end).path == delta.get(at).path {
            end += 1;
        }
        end
    };
    let mut left = range.len;
    if let Some(cursor) = cursor.as_mut().filter(|_| left > 0) {
        cursor.seek(range.at)?;
        while left > 0 {
            left -= 1;
            let entry = cursor.advance()?;
            let mut deltas = 0..0;
            while at < delta.len() {
                if taken[at] {
                    at += 1;
                    continue;
                }
                let order = delta.get(at).path.cmp(entry.path);
                if order == std::cmp::Ordering::Greater {
                    break;
                }
                let end = end_of_path(at);
                if order == std::cmp::Ordering::Equal {
                    deltas = at..end;
                    at = end;
                    break;
                }
                apply(None, (at..end).map(|at| delta.get(at)), visits, emit)?;
                at = end;
            }
            apply(Some(entry), deltas.map(|at| delta.get(at)), visits, emit)?;
        }
    }
    while at < delta.len() {
        if taken[at] {
            at += 1;
            continue;
        }
        let end = end_of_path(at);
        apply(None, (at..end).map(|at| delta.get(at)), visits, emit)?;
        at = end;
    }
    Ok(())
}

/// What becomes of a URL with all that came in for it.
fn apply<'a>(
    stored: Option<UrlEntry<'_>>,
    deltas: impl Iterator<Item = DeltaEntry<'a>> + Clone,
    visits: &mut Vec<u8>,
    emit: EmitEntry<'_>,
) -> Result<(), Error> {
    let quiet = deltas.clone().all(|deltas| deltas.events.is_empty());
    let found = deltas.clone().map(|deltas| deltas.depth).min();
    match (stored, quiet) {
        (Some(entry), true) => {
            let depth = found.map_or(entry.depth, |found| found.min(entry.depth));
            emit(&UrlEntry { depth, ..entry })
        }
        (None, true) => {
            let mut deltas = deltas;
            let Some(first) = deltas.next() else { return Ok(()) };
            emit(&UrlEntry { path: first.path, depth: found.unwrap_or(0), state: 0, visits: &[] })
        }
        (stored, false) => {
            let Some(first) = deltas.clone().next() else { return Ok(()) };
            let mut record = match &stored {
                Some(entry) => record_of(entry)?,
                None => {
                    Record { depth: if first.visit_first { 0 } else { first.depth }, ..Record::default() }
                }
            };
            deltas.for_each(|deltas| apply_events(&mut record, deltas.depth, deltas.events));
            visits.clear();
            let state = state_byte(record.state);
            if state != 0 {
                put_visits(visits, &record);
            }
            emit(&UrlEntry { path: first.path, depth: record.depth, state, visits })
        }
    }
}

/// Takes what came in into a record.
pub fn apply_events(record: &mut Record, depth: u16, events: &[Event]) {
    record.depth = record.depth.min(depth);
    for event in events {
        match event {
            Event::Hint(hint) if record.is_moved_by(*hint) => record.due = *hint,
            Event::Hint(_) => {}
            Event::Visit(visit) => record.visit(visit),
        }
    }
}

pub fn record_of(entry: &UrlEntry<'_>) -> Result<Record, Error> {
    let state = state_of(entry.state).map_err(unreadable)?;
    if state == State::Known {
        return Ok(Record { depth: entry.depth, ..Record::default() });
    }
    visits_of(entry.visits, state, entry.depth).map_err(unreadable)
}

/// When a URL can be handed out: at once before its first visit.
pub fn ready(entry: &UrlEntry<'_>) -> Result<Timestamp, Error> {
    if entry.state == 0 { Ok(Timestamp::EPOCH) } else { due_of(entry.visits).map_err(unreadable) }
}

/// The policy's key of a URL; `None` where it is not visited again.
fn key_of(job: &Compaction, entry: &UrlEntry<'_>, new_host: bool) -> Result<Option<u64>, Error> {
    key(&*job.policy, entry, job.now, new_host)
}

/// As above, for whoever hands out.
pub fn key(
    policy: &dyn UrlOrder,
    entry: &UrlEntry<'_>,
    now: Timestamp,
    new_host: bool,
) -> Result<Option<u64>, Error> {
    let due = ready(entry)?;
    if due == Timestamp::NEVER {
        return Ok(None);
    }
    let candidate = Candidate {
        path_bytes: entry.path.len(),
        depth: entry.depth,
        due: (entry.state != 0).then_some(due),
    };
    Ok(Some(policy.key(&candidate, now, new_host)))
}

fn unreadable(what: &str) -> Error {
    Error::Damaged { file: "a block of the URL store".to_string(), offset: 0, what: what.to_string() }
}
