//! Merges what came in into a block: the old file and the runs go in, one new file or more come out.
//!
//! Everything streams: of a server, only what came in for it and its pre-scheduled URLs are in memory at once, of
//! its remaining ones a piece at a time, so that a server with a hundred million URLs needs no more than another.
//! A block that would grow too large comes out as several, cut between servers.

use crate::Error;
use crate::urls::veuni::bucket::{BlockFile, BlockId, BlockWriter, Cursor, Entry, Group, Server};
use crate::urls::veuni::codec::{due_of, put_visits, state_byte, state_of, visits_of};
use crate::urls::veuni::compaction::delta::{Came, Incoming};
use crate::urls::veuni::compaction::entry_buf::Few;
use crate::urls::veuni::dispatch::url_order::{Candidate, Redistribution};
use crate::urls::veuni::memtable::Event;
use crate::urls::veuni::run::RunReader;
use crate::urls::{Record, State};
use farol_base::Timestamp;
use farol_base::disk::Disk;
use std::cell::RefCell;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Limits of a block.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub bytes: u64,
    pub servers: u64,
    /// URLs of a server that are pre-scheduled.
    pub prescheduled: usize,
}

/// What a merge needs.
pub struct Plan {
    pub disk: Arc<dyn Disk>,
    /// Of the first file that comes out.
    pub id: BlockId,
    pub old: Option<Arc<BlockFile>>,
    /// What came in, the oldest first.
    pub runs: Vec<RunReader>,
    /// Its bytes, near enough.
    pub run_bytes: u64,
    pub policy: Arc<dyn Redistribution>,
    pub now: Timestamp,
    pub limits: Limits,
    /// Numbers of further blocks.
    pub numbers: Arc<AtomicU32>,
}

/// Merges; on an error nothing is left behind.
pub fn merge(plan: Plan) -> Result<Vec<Arc<BlockFile>>, Error> {
    let disk = plan.disk.clone();
    let mut outputs = Outputs::new(&plan)?;
    let mut merge = Merge::new(plan, DESK.take());
    let merged = merge.run(&mut outputs);
    DESK.set(Some(merge.desk).filter(|desk| desk.incoming.room() <= DESK_BYTES).unwrap_or_default());
    match merged.and_then(|()| outputs.close()) {
        Ok(()) => Ok(outputs.done),
        Err(error) => {
            if let Some(writer) = outputs.open.take() {
                writer.abandon();
            }
            for block in outputs.done {
                // It is no part of the store; opening again would remove it as well.
                let _ = disk.remove(&block.file);
            }
            Err(error)
        }
    }
}

/// The files that come out.
struct Outputs {
    disk: Arc<dyn Disk>,
    id: BlockId,
    numbers: Arc<AtomicU32>,
    open: Option<BlockWriter>,
    done: Vec<Arc<BlockFile>>,
    /// Bytes and servers at which the next file is begun.
    part: Option<(u64, u64)>,
    last_hash: u64,
}

impl Outputs {
    fn new(plan: &Plan) -> Result<Outputs, Error> {
        let old = plan.old.as_ref().map_or((0, 0), |old| (old.bytes, old.totals.servers));
        let (bytes, servers) = (old.0 + plan.run_bytes, old.1);
        let parts = (bytes / plan.limits.bytes.max(1)).max(servers / plan.limits.servers.max(1)) + 1;
        // Parts are made half full at least, so that they do not split again at once.
        let part = (parts > 1).then(|| {
            ((bytes / parts).max(plan.limits.bytes / 2), (servers / parts).max(plan.limits.servers / 2))
        });
        let open = Some(BlockWriter::create(plan.disk.clone(), plan.id)?);
        Ok(Outputs {
            disk: plan.disk.clone(),
            id: plan.id,
            numbers: plan.numbers.clone(),
            open,
            done: Vec::new(),
            part,
            last_hash: plan.id.from,
        })
    }

    /// The writer for a server, a new one where the last is full.
    fn writer(&mut self, hash: u64) -> Result<&mut BlockWriter, Error> {
        let full = self.part.is_some_and(|(bytes, servers)| {
            self.open.as_ref().is_some_and(|open| open.bytes() >= bytes || open.servers() >= servers)
        });
        if (full && hash != self.last_hash) || self.open.is_none() {
            self.close()?;
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let id = BlockId { number, generation: 0, from: hash, upto: self.id.upto };
            self.open = Some(BlockWriter::create(self.disk.clone(), id)?);
        }
        self.last_hash = hash;
        self.open.as_mut().ok_or(Error::Poisoned { store: "the URL store" })
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some(writer) = self.open.take() {
            let file = writer.file().to_string();
            let block = writer.finish().inspect_err(|_| {
                // What was written of it helps nobody.
                let _ = self.disk.remove(&file);
            })?;
            self.done.push(Arc::new(block));
        }
        Ok(())
    }
}

struct Merge {
    plan: Plan,
    /// Goes through the remaining URLs of large servers, and through everything else: so each piece is mostly read once.
    remaining: Option<Cursor>,
    others: Option<Cursor>,
    desk: Desk,
}

/// Room for one server. A thread keeps it for its next merge, unless a huge server made it large.
#[derive(Debug, Default)]
struct Desk {
    incoming: Incoming,
    /// Of `incoming`, those whose URL is among the few.
    taken: Vec<bool>,
    few: Few,
    chosen: Few,
    visits: Vec<u8>,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// A desk on which more than this came in is not kept: some 200,000 URLs of one server. The few and the chosen are never more than
/// are pre-scheduled.
const DESK_BYTES: usize = 16 << 20;

impl Merge {
    fn new(plan: Plan, desk: Desk) -> Merge {
        let cursor = |ahead| plan.old.as_ref().map(|old| old.cursor(ahead));
        let (remaining, others) = (cursor(1 << 20), cursor(512 << 10));
        Merge { plan, remaining, others, desk }
    }

    fn run(&mut self, outputs: &mut Outputs) -> Result<(), Error> {
        let mut old = self.plan.old.as_ref().map(|old| old.servers());
        let mut stored = next(&mut old)?;
        // The hash at which each run stands. There may be a hundred runs, and most lack most servers.
        let hash_of = |run: &RunReader| run.peek().map(|(hash, _)| hash);
        let mut hashes: Vec<Option<u64>> = self.plan.runs.iter().map(hash_of).collect();
        let mut host = String::new();
        loop {
            let of_block = stored.as_ref().map(|server| server.hash);
            let Some(hash) = hashes.iter().flatten().copied().chain(of_block).min() else { return Ok(()) };
            let at_hash = |at: &usize| hashes[*at] == Some(hash);
            let in_runs = (0..hashes.len()).filter(at_hash).filter_map(|at| self.plan.runs[at].peek());
            let in_block = stored.iter().map(|server| (server.hash, &*server.host));
            let first = in_runs.chain(in_block).filter(|(of, _)| *of == hash).map(|(_, host)| host).min();
            host.clear();
            host.push_str(first.unwrap_or_default());
            self.desk.incoming.clear();
            for (run, next) in self.plan.runs.iter_mut().zip(&mut hashes) {
                if *next == Some(hash) && run.peek().is_some_and(|(_, name)| name == host) {
                    run.read_server(&mut self.desk.incoming)?;
                    *next = hash_of(run);
                }
            }
            let is_stored = stored.as_ref().is_some_and(|server| server.hash == hash && server.host == host);
            let server = if is_stored { std::mem::replace(&mut stored, next(&mut old)?) } else { None };
            let writer = outputs.writer(hash)?;
            writer.begin(hash, &host);
            self.merge_server(server.filter(|_| !self.desk.incoming.forgotten), writer)?;
            writer.end()?;
        }
    }

    fn merge_server(&mut self, server: Option<Server>, writer: &mut BlockWriter) -> Result<(), Error> {
        self.desk.incoming.sort();
        let groups = server.as_ref().map(|server| (server.remaining, server.prescheduled));
        let (remaining, prescheduled) = groups.unwrap_or_default();
        self.desk.chosen.clear();
        let all = remaining.len + prescheduled.len + self.desk.incoming.len() as u64;
        if all <= self.plan.limits.prescheduled as u64 {
            self.merge_small(&remaining, &prescheduled, writer)?;
        } else {
            self.merge_large(&remaining, &prescheduled, server.is_none(), writer)?;
        }
        (0..self.desk.chosen.len()).try_for_each(|at| writer.push(&self.desk.chosen.get(at), true))
    }

    /// All URLs of a small server are pre-scheduled, but for those that are never visited again.
    fn merge_small(
        &mut self,
        remaining: &Group,
        prescheduled: &Group,
        writer: &mut BlockWriter,
    ) -> Result<(), Error> {
        self.bring_in(remaining)?;
        // What was pre-scheduled can be handed out, and what was found now too: only a visit can end that.
        let all_stay = remaining.len == 0 && !self.desk.incoming.has_events();
        let chosen = &mut self.desk.chosen;
        let sources =
            (&mut self.others, prescheduled, &self.desk.few, &self.desk.incoming, &self.desk.taken[..]);
        in_order(sources, &mut self.desk.visits, &mut |entry, _| {
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
        remaining: &Group,
        prescheduled: &Group,
        new_server: bool,
        writer: &mut BlockWriter,
    ) -> Result<(), Error> {
        let left = self.bring_in(prescheduled)?;
        let limit = if self.plan.policy.is_due(left) { self.threshold(remaining, new_server)? } else { None };
        let (plan, chosen) = (&self.plan, &mut self.desk.chosen);
        let sources =
            (&mut self.remaining, remaining, &self.desk.few, &self.desk.incoming, &self.desk.taken[..]);
        in_order(sources, &mut self.desk.visits, &mut |entry, stays| {
            // With a limit all URLs are chosen from anew; without, what is pre-scheduled and unvisited stays so.
            let is_chosen = match &limit {
                None => stays,
                Some((limit, path)) => key_of(plan, entry, new_server)?
                    .is_some_and(|key| (key, entry.path) <= (*limit, &path[..])),
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
    fn bring_in(&mut self, group: &Group) -> Result<u64, Error> {
        self.desk.few.clear();
        self.desk.taken.clear();
        self.desk.taken.resize(self.desk.incoming.len(), false);
        let Some(cursor) = self.others.as_mut().filter(|_| group.len > 0) else { return Ok(0) };
        cursor.seek(group.at)?;
        let (mut at, mut left) = (0, 0);
        for _ in 0..group.len {
            let entry = cursor.advance()?;
            while at < self.desk.incoming.len() && self.desk.incoming.get(at).path < entry.path {
                at += 1;
            }
            let start = at;
            while at < self.desk.incoming.len() && self.desk.incoming.get(at).path == entry.path {
                self.desk.taken[at] = true;
                at += 1;
            }
            let incoming = &self.desk.incoming;
            let visited = (start..at)
                .any(|at| incoming.get(at).events.iter().any(|event| matches!(event, Event::Visit(_))));
            let few = &mut self.desk.few;
            apply(
                Some(entry),
                (start..at).map(|at| incoming.get(at)),
                &mut self.desk.visits,
                &mut |entry| {
                    few.push(entry, visited);
                    Ok(())
                },
            )?;
            let now = few.get(few.len() - 1);
            left += u64::from(!visited && ready(&now)? <= self.plan.now);
        }
        Ok(left)
    }

    /// The key and path up to which URLs are chosen.
    fn threshold(&mut self, group: &Group, new_server: bool) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let cap = self.plan.limits.prescheduled;
        let mut best: BinaryHeap<(u64, Vec<u8>)> = BinaryHeap::with_capacity(cap + 1);
        let plan = &self.plan;
        let mut offer = |entry: &Entry<'_>| -> Result<(), Error> {
            let Some(key) = key_of(plan, entry, new_server)? else { return Ok(()) };
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
        (0..self.desk.few.len()).try_for_each(|at| offer(&self.desk.few.get(at)))?;
        walk(
            &mut self.remaining,
            group,
            &self.desk.incoming,
            &self.desk.taken,
            &mut self.desk.visits,
            &mut offer,
        )?;
        Ok(best.into_iter().max())
    }
}

fn next(servers: &mut Option<impl Iterator<Item = Result<Server, Error>>>) -> Result<Option<Server>, Error> {
    servers.as_mut().and_then(Iterator::next).transpose()
}

type Put<'a> = &'a mut dyn FnMut(&Entry<'_>) -> Result<(), Error>;
/// A group and who reads it, the few of the other group, and what came in, of which some is with the few already.
type Sources<'a> = (&'a mut Option<Cursor>, &'a Group, &'a Few, &'a Incoming, &'a [bool]);

/// Goes through all URLs of a server in the order of their paths, each once; says of each whether it is one of the few
/// and was not visited.
fn in_order(
    (cursor, group, few, incoming, taken): Sources<'_>,
    visits: &mut Vec<u8>,
    put: &mut dyn FnMut(&Entry<'_>, bool) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut before = 0;
    walk(cursor, group, incoming, taken, visits, &mut |entry| {
        while before < few.len() && few.get(before).path < entry.path {
            put(&few.get(before), !few.is_visited(before))?;
            before += 1;
        }
        put(entry, false)
    })?;
    (before..few.len()).try_for_each(|at| put(&few.get(at), !few.is_visited(at)))
}

/// Goes through a group of a server's URLs and what came in, in the order of their paths, each URL once.
fn walk(
    cursor: &mut Option<Cursor>,
    group: &Group,
    incoming: &Incoming,
    taken: &[bool],
    visits: &mut Vec<u8>,
    put: Put<'_>,
) -> Result<(), Error> {
    let mut at = 0;
    // What came in for one URL, but for those that are taken.
    let group_at = |at: usize| {
        let mut end = at + 1;
        while end < incoming.len() && incoming.get(end).path == incoming.get(at).path {
            end += 1;
        }
        end
    };
    let mut left = group.len;
    if let Some(cursor) = cursor.as_mut().filter(|_| left > 0) {
        cursor.seek(group.at)?;
        while left > 0 {
            left -= 1;
            let entry = cursor.advance()?;
            let mut came = 0..0;
            while at < incoming.len() {
                if taken[at] {
                    at += 1;
                    continue;
                }
                let order = incoming.get(at).path.cmp(entry.path);
                if order == std::cmp::Ordering::Greater {
                    break;
                }
                let end = group_at(at);
                if order == std::cmp::Ordering::Equal {
                    came = at..end;
                    at = end;
                    break;
                }
                apply(None, (at..end).map(|at| incoming.get(at)), visits, put)?;
                at = end;
            }
            apply(Some(entry), came.map(|at| incoming.get(at)), visits, put)?;
        }
    }
    while at < incoming.len() {
        if taken[at] {
            at += 1;
            continue;
        }
        let end = group_at(at);
        apply(None, (at..end).map(|at| incoming.get(at)), visits, put)?;
        at = end;
    }
    Ok(())
}

/// What becomes of a URL with all that came in for it.
fn apply<'a>(
    stored: Option<Entry<'_>>,
    came: impl Iterator<Item = Came<'a>> + Clone,
    visits: &mut Vec<u8>,
    put: Put<'_>,
) -> Result<(), Error> {
    let quiet = came.clone().all(|came| came.events.is_empty());
    let found = came.clone().map(|came| came.depth).min();
    match (stored, quiet) {
        (Some(entry), true) => {
            let depth = found.map_or(entry.depth, |found| found.min(entry.depth));
            put(&Entry { depth, ..entry })
        }
        (None, true) => {
            let mut came = came;
            let Some(first) = came.next() else { return Ok(()) };
            put(&Entry { path: first.path, depth: found.unwrap_or(0), state: 0, visits: &[] })
        }
        (stored, false) => {
            let Some(first) = came.clone().next() else { return Ok(()) };
            let mut record = match &stored {
                Some(entry) => record_of(entry)?,
                None => {
                    Record { depth: if first.visit_first { 0 } else { first.depth }, ..Record::default() }
                }
            };
            came.for_each(|came| settle(&mut record, came.depth, came.events));
            visits.clear();
            let state = state_byte(record.state);
            if state != 0 {
                put_visits(visits, &record);
            }
            put(&Entry { path: first.path, depth: record.depth, state, visits })
        }
    }
}

/// Takes what came in into a record.
pub fn settle(record: &mut Record, depth: u16, events: &[Event]) {
    record.depth = record.depth.min(depth);
    for event in events {
        match event {
            Event::Hint(hint) if record.is_moved_by(*hint) => record.due = *hint,
            Event::Hint(_) => {}
            Event::Visit(visit) => record.visit(visit),
        }
    }
}

pub fn record_of(entry: &Entry<'_>) -> Result<Record, Error> {
    let state = state_of(entry.state).map_err(unreadable)?;
    if state == State::Known {
        return Ok(Record { depth: entry.depth, ..Record::default() });
    }
    visits_of(entry.visits, state, entry.depth).map_err(unreadable)
}

/// When a URL can be handed out: at once before its first visit.
pub fn ready(entry: &Entry<'_>) -> Result<Timestamp, Error> {
    if entry.state == 0 { Ok(Timestamp::EPOCH) } else { due_of(entry.visits).map_err(unreadable) }
}

/// The policy's key of a URL; `None` where it is not visited again.
fn key_of(plan: &Plan, entry: &Entry<'_>, new_server: bool) -> Result<Option<u64>, Error> {
    key(&*plan.policy, entry, plan.now, new_server)
}

/// As above, for whoever hands out.
pub fn key(
    policy: &dyn Redistribution,
    entry: &Entry<'_>,
    now: Timestamp,
    new_server: bool,
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
    Ok(Some(policy.key(&candidate, now, new_server)))
}

fn unreadable(what: &str) -> Error {
    Error::Damaged { file: "a block of the URL store".to_string(), offset: 0, what: what.to_string() }
}
