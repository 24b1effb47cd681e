//! What a stage has, by server and path: on its way into a run, or straight into a block.

use super::{Place, Stage, VISIT};
use crate::Error;
use crate::urls::veuni::codec::Misfit;
use crate::urls::veuni::compaction::delta::Incoming;
use crate::urls::veuni::memtable::chunk_pool::Spare;
use crate::urls::veuni::run::RunBuilder;
use crate::urls::veuni::touch;
use std::sync::Arc;

/// Notes that are brought near at a time.
const AT_A_TIME: usize = 32;
/// So much of a note is read at least: its head, and most of its URL.
const NEAR_BYTES: usize = 64;

/// Notes in order, in memory that is kept for the next.
#[derive(Debug)]
struct InOrder {
    notes: Vec<Sorted>,
    spare: Spare,
}

impl Drop for InOrder {
    fn drop(&mut self) {
        self.spare.give_sorted(std::mem::take(&mut self.notes));
    }
}

impl Stage {
    /// Writes everything as a run: servers in the order of their hashes, their URLs in that of their paths.
    pub fn write(&self, run: &mut RunBuilder<'_>) -> Result<(), Error> {
        let mut sorted = self.sorted();
        let (sorted, mut at) = (&mut sorted.notes[..], 0);
        let mut near = 0;
        while at < sorted.len() {
            self.bring_near(sorted, at, &mut near);
            let end = self.end_of_server(sorted, at);
            let notes = &sorted[at..end];
            run.begin(notes[0].hash(), self.host(&notes[0]), self.is_void(notes).is_some());
            self.each_url(notes, |path, depth, visit_first, events| {
                run.push(path, depth, visit_first, events)
            })?;
            run.end()?;
            at = end;
        }
        Ok(())
    }

    /// All notes by server and path; those of one path in the order in which they came.
    fn sorted(&self) -> InOrder {
        let mut sorted = self.spare.for_sorting();
        sorted.reserve(self.head.len);
        for (place, note) in self.notes(Place::default()) {
            sorted.push(Sorted::of((self.hash)(note.host), note.path, place));
        }
        // First by one large number, which the processor compares without guessing; then what is equal in it.
        sorted.sort_unstable_by_key(|note| note.key);
        for same in sorted.chunk_by_mut(|a, b| a.key == b.key).filter(|same| same.len() > 1) {
            same.sort_unstable_by(|a, b| {
                let paths = || self.path(a.place).cmp(self.path(b.place));
                a.more.cmp(&b.more).then_with(paths).then_with(|| a.place.cmp(&b.place))
            });
        }
        InOrder { notes: sorted, spare: self.spare.clone() }
    }

    /// Brings the notes from `at` on into the processor's cache, where those up to `near` are not all.
    fn bring_near(&self, sorted: &[Sorted], at: usize, near: &mut usize) {
        if at >= *near {
            *near = sorted.len().min(at + AT_A_TIME);
            touch(sorted[at..*near].iter().map(|note| {
                let bytes = &self.chunk(note.place.chunk)[note.place.offset as usize..];
                &bytes[..bytes.len().min(NEAR_BYTES)]
            }));
        }
    }

    /// Where the notes of the server end that begin at `at`.
    fn end_of_server(&self, sorted: &mut [Sorted], at: usize) -> usize {
        let hash = sorted[at].hash();
        let of_hash = sorted[at..].iter().take_while(|it| it.hash() == hash).count();
        let host = |it: &Sorted| self.note(it.place).host;
        let first = host(&sorted[at]);
        let of_host = sorted[at..at + of_hash].iter().take_while(|it| host(it) == first).count();
        if of_host == of_hash {
            return at + of_hash;
        }
        // Two names with one hash: hardly ever.
        sorted[at..at + of_hash].sort_by(|a, b| host(a).cmp(host(b)));
        let first = host(&sorted[at]);
        at + sorted[at..at + of_hash].iter().take_while(|it| host(it) == first).count()
    }

    fn host(&self, note: &Sorted) -> &str {
        // Only whole texts went in.
        std::str::from_utf8(self.note(note.place).host).unwrap_or_default()
    }

    /// Where a server was forgotten last, among its notes: what stands before is void.
    fn is_void(&self, notes: &[Sorted]) -> Option<Place> {
        // Without a path they come first.
        let forgets = notes.iter().map(|it| it.place).take_while(|place| self.note(*place).is_forget);
        forgets.max()
    }

    /// Hands over a server's URLs, each once: path, depth, whether it was visited first, events.
    fn each_url<E>(
        &self,
        notes: &[Sorted],
        mut take: impl FnMut(&[u8], u16, bool, &[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let void = self.is_void(notes);
        let (mut places, mut at, mut near) = (Vec::new(), 0, AT_A_TIME);
        for of_path in notes.chunk_by(|a, b| a.is_like(b) && self.path(a.place) == self.path(b.place)) {
            self.bring_near(notes, at, &mut near);
            at += of_path.len();
            if let [only] = of_path {
                let note = self.note(only.place);
                if Some(only.place) > void && !note.is_forget {
                    let visit_first = note.event.first() == Some(&VISIT);
                    let events = &[note.event][..usize::from(!note.event.is_empty())];
                    take(note.path, note.depth, visit_first, events)?;
                }
                continue;
            }
            let live = of_path.iter().map(|it| it.place).filter(|place| Some(*place) > void);
            places.clear();
            places.extend(live.filter(|place| !self.note(*place).is_forget));
            if let Some(first) = places.first() {
                let together = self.together(&places);
                take(self.path(*first), together.depth, together.visit_first, &together.events)?;
            }
        }
        Ok(())
    }
}

/// Reads a stage server by server, in order.
#[derive(Debug)]
pub struct StageReader {
    stage: Arc<Stage>,
    sorted: InOrder,
    at: usize,
    end: usize,
    /// Notes up to here are in the processor's cache.
    near: usize,
}

impl StageReader {
    pub fn new(stage: Arc<Stage>) -> StageReader {
        let mut reader = StageReader { sorted: stage.sorted(), stage, at: 0, end: 0, near: 0 };
        reader.find_end();
        reader
    }

    /// Hash and host of the next server.
    pub fn peek(&self) -> Option<(u64, &str)> {
        let first = self.sorted.notes.get(self.at)?;
        Some((first.hash(), self.stage.host(first)))
    }

    /// Adds the URLs of the next server to what came in before.
    pub fn read_server(&mut self, into: &mut Incoming) -> Result<(), Misfit> {
        let notes = &self.sorted.notes[self.at..self.end];
        if self.stage.is_void(notes).is_some() {
            into.forget();
        }
        self.stage.each_url(notes, |path, depth, visit_first, events| {
            into.push(path, depth, visit_first, events)
        })?;
        self.at = self.end;
        self.find_end();
        Ok(())
    }

    /// Finds where the next server ends.
    fn find_end(&mut self) {
        if self.at < self.sorted.notes.len() {
            self.stage.bring_near(&self.sorted.notes, self.at, &mut self.near);
            self.end = self.stage.end_of_server(&mut self.sorted.notes, self.at);
        }
    }
}

/// A note on its way into a run.
#[derive(Debug)]
pub struct Sorted {
    /// The server's hash, then the first bytes of the path.
    key: u128,
    /// The path's next bytes. With those of the key they settle most comparisons without looking at it.
    more: u64,
    place: Place,
}

impl Sorted {
    fn of(server: u64, path: &[u8], place: Place) -> Sorted {
        let key = u128::from(server) << 64 | u128::from(head_of(path));
        Sorted { key, more: head_of(path.get(8..).unwrap_or_default()), place }
    }

    fn hash(&self) -> u64 {
        (self.key >> 64) as u64
    }

    /// Whether the paths begin alike, of one server.
    fn is_like(&self, other: &Sorted) -> bool {
        self.key == other.key && self.more == other.more
    }
}

pub fn head_of(path: &[u8]) -> u64 {
    let mut head = [0; 8];
    // All paths begin with a slash.
    let rest = path.get(1..).unwrap_or_default();
    let count = rest.len().min(8);
    head[..count].copy_from_slice(&rest[..count]);
    u64::from_be_bytes(head)
}
