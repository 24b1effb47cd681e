//! Joins a host's stored URLs with its deltas, both sorted by path.

use crate::Error;
use crate::urls::Record;
use crate::urls::veuni::bucket::{Cursor, EntryError, EntryRange, UrlEntry};
use crate::urls::veuni::codec::{put_visits, state_byte};
use crate::urls::veuni::compaction::delta::{DeltaEntry, HostDelta};
use crate::urls::veuni::compaction::entry_buf::EntryBuf;
use crate::urls::veuni::memtable::Event;
use farol_base::Timestamp;
use std::cmp::Ordering;

/// Takes each URL that comes out of a join.
type EmitEntry<'a> = &'a mut dyn FnMut(&UrlEntry<'_>) -> Result<(), EntryError>;

/// A range of stored URLs with its cursor, the URLs of the other range, which are in memory, and the deltas,
/// of which some (`taken`) were applied to the latter.
pub type MergeSources<'a> = (&'a mut Option<Cursor>, &'a EntryRange, &'a EntryBuf, &'a HostDelta, &'a [bool]);

/// Loads the URLs of a range with their deltas applied, and marks the latter as taken; returns how many of these URLs
/// can still be drawn at `now`.
pub fn load_range(
    cursor: &mut Option<Cursor>,
    range: &EntryRange,
    delta: &HostDelta,
    (loaded, taken): (&mut EntryBuf, &mut Vec<bool>),
    visits: &mut Vec<u8>,
    now: Timestamp,
) -> Result<u64, Error> {
    loaded.clear();
    taken.clear();
    taken.resize(delta.len(), false);
    let Some(cursor) = cursor.as_mut().filter(|_| range.len > 0) else { return Ok(0) };
    cursor.seek(range.at)?;
    let (mut at, mut left) = (0, 0);
    for _ in 0..range.len {
        let entry = cursor.advance()?;
        while at < delta.len() && delta.get(at).path < entry.path {
            at += 1;
        }
        let start = at;
        while at < delta.len() && delta.get(at).path == entry.path {
            taken[at] = true;
            at += 1;
        }
        let is_visit = |event: &Event| matches!(event, Event::Visit(_) | Event::Merge(_));
        let visited = (start..at).any(|at| delta.get(at).events.iter().any(is_visit));
        apply(Some(entry), (start..at).map(|at| delta.get(at)), visits, &mut |entry| {
            loaded.push(entry, visited);
            Ok(())
        })
        .map_err(|error| cursor.locate(error))?;
        let ready = loaded.get(loaded.len() - 1).ready().map_err(|what| cursor.damaged(what))?;
        left += u64::from(!visited && ready <= now);
    }
    Ok(left)
}

/// Emits all URLs of a host in the order of their paths, each once; with each, whether it is one of those in
/// memory and was not visited.
pub fn merge_ordered(
    (cursor, range, loaded, delta, taken): MergeSources<'_>,
    visits: &mut Vec<u8>,
    emit: &mut dyn FnMut(&UrlEntry<'_>, bool) -> Result<(), EntryError>,
) -> Result<(), EntryError> {
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

/// Emits a range of a host's stored URLs joined with those deltas that are not `taken`, in the order of their
/// paths, each URL once.
pub fn merge_join(
    cursor: &mut Option<Cursor>,
    range: &EntryRange,
    delta: &HostDelta,
    taken: &[bool],
    visits: &mut Vec<u8>,
    emit: EmitEntry<'_>,
) -> Result<(), EntryError> {
    let mut at = 0;
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
                if order == Ordering::Greater {
                    break;
                }
                let end = end_of_path(at);
                if order == Ordering::Equal {
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

/// Emits a URL with all of its deltas applied; where none has events its visits are copied undecoded.
pub fn apply<'a>(
    stored: Option<UrlEntry<'_>>,
    deltas: impl Iterator<Item = DeltaEntry<'a>> + Clone,
    visits: &mut Vec<u8>,
    emit: EmitEntry<'_>,
) -> Result<(), EntryError> {
    let quiet = deltas.clone().all(|delta| delta.events.is_empty());
    let found = deltas.clone().map(|delta| delta.depth).min();
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
                Some(entry) => entry.record()?,
                None => {
                    Record { depth: if first.visit_first { 0 } else { first.depth }, ..Record::default() }
                }
            };
            deltas.for_each(|delta| apply_events(&mut record, delta.depth, delta.events));
            visits.clear();
            let state = state_byte(record.state);
            if state != 0 {
                put_visits(visits, &record);
            }
            emit(&UrlEntry { path: first.path, depth: record.depth, state, visits })
        }
    }
}

/// Applies a delta to a record.
pub fn apply_events(record: &mut Record, depth: u16, events: &[Event]) {
    record.depth = record.depth.min(depth);
    for event in events {
        match event {
            Event::Hint(hint) if record.is_moved_by(*hint) => record.due = *hint,
            Event::Hint(_) => {}
            Event::Visit(visit) => record.visit(visit),
            Event::Merge(other) => record.merge(other),
        }
    }
}
