//! What came in for a block and is in no file of it yet: in memory, in the order in which it came.
//!
//! Noting something is one append; sorting, and putting together what came for one URL, is left to whoever writes it to
//! a file. The log has it all as well, so nothing is lost with the process. Takes 6 bytes per note besides the URL.

pub mod chunk_pool;
mod sort;

pub use sort::{Sorted, StageReader, head_of};

use crate::urls::Visit;
use crate::urls::veuni::codec::{Bytes, Misfit, put, put_visit, visit_of};
use crate::urls::veuni::memtable::chunk_pool::Spare;
use crate::urls::veuni::run::Item;
use farol_base::fingerprint::hash64;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Timestamp};
use hashbrown::HashTable;

/// Depth, bytes of the host with what the note is, bytes of the path; then, where there is an event, its bytes. The server's
/// hash is made again from its name where it is needed: memory is dearer.
const HEAD_BYTES: usize = 2 + 2 + 2;
const EVENT_HEAD_BYTES: usize = 2;

/// In the highest bits of a host's length, which no host's name reaches.
const FORGET: u16 = 1 << 15;
const HAS_EVENT: u16 = 1 << 14;
const HOST_BYTES: u16 = HAS_EVENT - 1;

/// What happened to a URL, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A page said that it changed then.
    Hint(Timestamp),
    Visit(Visit),
}

const HINT: u8 = 1;
const VISIT: u8 = 2;

impl Event {
    /// Reads an event, of which the first byte says what it is.
    pub fn read(bytes: &mut Bytes<'_>, kind: u8) -> Result<Event, Misfit> {
        match kind {
            HINT => Ok(Event::Hint(Timestamp::from_millis(bytes.number()?))),
            VISIT => Ok(Event::Visit(visit_of(bytes)?)),
            _ => Err("an unknown event"),
        }
    }
}

/// What came in for one block.
#[derive(Debug)]
pub struct Stage {
    head: Head,
    /// Chunks that are full, before the open one.
    full: Vec<Vec<u8>>,
    spare: Spare,
    /// The hash of a server's name.
    hash: fn(&[u8]) -> u64,
    /// Where the notes of a URL are; made when the first is asked for.
    index: Mutex<Index>,
    event: Vec<u8>,
    /// Notes of visits.
    visits: Vec<Place>,
}

/// All that a note of a found URL changes, in one line of the processor's cache: what comes in goes to hundreds of blocks in
/// turn, and with several lines for each it would find none of them near.
#[derive(Debug)]
#[repr(align(64))]
struct Head {
    /// The chunk that is being filled, and how many bytes of it are. It is as long as it will be: so what stands behind these can
    /// be brought near before it is written.
    open: Vec<u8>,
    used: usize,
    /// Notes, and their bytes.
    len: usize,
    bytes: u64,
    first_batch: u64,
    is_urgent: bool,
}

#[derive(Debug, Default)]
struct Index {
    places: HashTable<(u64, Place)>,
    /// Notes before this place are in it.
    upto: Place,
}

/// Where a note is: chunk, offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    chunk: u32,
    offset: u32,
}

/// Something that came in.
#[derive(Clone, Copy, Debug)]
struct Note<'a> {
    is_forget: bool,
    /// Depth at which it was found; `u16::MAX` where it was not.
    depth: u16,
    host: &'a [u8],
    path: &'a [u8],
    /// As [`Event::read`] reads it; empty where there is none.
    event: &'a [u8],
    end: u32,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let open = std::mem::take(&mut self.head.open);
        self.spare.give(self.full.drain(..).chain([open]));
    }
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::new(Spare::default())
    }
}

impl Stage {
    /// An empty stage that takes its memory from there.
    pub fn new(spare: Spare) -> Stage {
        let head =
            Head { open: Vec::new(), used: 0, len: 0, bytes: 0, first_batch: u64::MAX, is_urgent: false };
        Stage {
            head,
            full: Vec::new(),
            spare,
            hash: hash64,
            index: Mutex::default(),
            event: Vec::new(),
            visits: Vec::new(),
        }
    }

    /// An empty one of its kind.
    fn another(&self) -> Stage {
        let mut another = Stage::new(self.spare.clone());
        another.hash = self.hash;
        another
    }

    /// Leaves an empty stage behind.
    pub fn take(&mut self) -> Stage {
        let empty = self.another();
        std::mem::replace(self, empty)
    }

    pub fn is_empty(&self) -> bool {
        self.head.len == 0
    }

    /// Notes in it.
    pub fn len(&self) -> usize {
        self.head.len
    }

    /// Memory in use, but for the end of the last chunk.
    pub fn bytes(&self) -> u64 {
        self.head.bytes
    }

    /// Number of the log's batch that the first of it stands in.
    pub fn first_batch(&self) -> u64 {
        self.head.first_batch
    }

    /// What comes next stands in this batch of the log.
    pub fn in_batch(&mut self, batch: u64) -> &mut Stage {
        self.head.first_batch = self.head.first_batch.min(batch);
        self
    }

    /// Whether there is something among it without which the block must not be handed out: visits, forgotten hosts.
    pub fn is_urgent(&self) -> bool {
        self.head.is_urgent
    }

    /// Where the next note will stand, if it is of a URL of so many bytes.
    pub fn place_for(&self, url_bytes: usize) -> &[u8] {
        let rest = &self.head.open[self.head.used..];
        &rest[..rest.len().min(HEAD_BYTES + url_bytes)]
    }

    /// Notes that a URL was found.
    pub fn found(&mut self, host: &str, path: &str, depth: u16, hint: Option<Timestamp>) {
        let event = self.event_of(hint);
        self.push(false, depth, [host.as_bytes(), path.as_bytes()], host.len(), &event);
        self.event = event;
    }

    /// As above, of a URL in one piece.
    pub fn found_url(&mut self, url: &CanonicalUrl, depth: u16, hint: Option<Timestamp>) {
        let (text, host_bytes) = ([url.as_str().as_bytes()], url.host_str().len());
        if hint.is_none() {
            return self.push(false, depth, text, host_bytes, &[]);
        }
        let event = self.event_of(hint);
        self.push(false, depth, text, host_bytes, &event);
        self.event = event;
    }

    /// A hint as an event, in memory that is used over and over.
    fn event_of(&mut self, hint: Option<Timestamp>) -> Vec<u8> {
        let mut event = std::mem::take(&mut self.event);
        event.clear();
        if let Some(hint) = hint {
            event.push(HINT);
            put(&mut event, hint.as_millis());
        }
        event
    }

    pub fn visited(&mut self, host: &str, path: &str, visit: &Visit) {
        let mut event = std::mem::take(&mut self.event);
        event.clear();
        event.push(VISIT);
        put_visit(&mut event, visit);
        self.push(false, u16::MAX, [host.as_bytes(), path.as_bytes()], host.len(), &event);
        self.event = event;
    }

    /// Voids all that was known of a server.
    pub fn forget(&mut self, host: &str) {
        self.push(true, u16::MAX, [host.as_bytes()], host.len(), &[]);
    }

    /// Appends a note; the texts, one after the other, are the URL, whose first `host_bytes` are its host.
    fn push<const N: usize>(
        &mut self,
        is_forget: bool,
        depth: u16,
        texts: [&[u8]; N],
        host_bytes: usize,
        event: &[u8],
    ) {
        debug_assert!(host_bytes <= usize::from(HOST_BYTES));
        let event_head = if event.is_empty() { 0 } else { EVENT_HEAD_BYTES };
        let text_bytes: usize = texts.iter().map(|text| text.len()).sum();
        let bytes = HEAD_BYTES + event_head + text_bytes + event.len();
        if self.head.open.len() - self.head.used < bytes {
            match self.take_open() {
                empty if empty.is_empty() => self.spare.give([empty]),
                full => self.full.push(full),
            }
            self.head.open = self.spare.chunk(bytes);
        }
        let head = &mut self.head;
        let is_visit = event.first() == Some(&VISIT);
        head.is_urgent |= is_forget || is_visit;
        head.len += 1;
        head.bytes += bytes as u64;
        if is_visit {
            self.visits.push(Place { chunk: self.full.len() as u32, offset: head.used as u32 });
        }
        let mut rest = &mut head.open[head.used..head.used + bytes];
        head.used += bytes;
        let mut put = |bytes: &[u8]| {
            let (here, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            rest = behind;
        };
        let marks = (u16::from(is_forget) * FORGET) | (u16::from(!event.is_empty()) * HAS_EVENT);
        let numbers = [depth, host_bytes as u16 | marks, (text_bytes - host_bytes) as u16];
        put(numbers.map(u16::to_le_bytes).as_flattened());
        if !event.is_empty() {
            put(&(event.len() as u16).to_le_bytes());
        }
        texts.iter().for_each(|text| put(text));
        put(event);
    }

    /// The chunk that is open, as far as it is filled.
    fn take_open(&mut self) -> Vec<u8> {
        let mut open = std::mem::take(&mut self.head.open);
        open.truncate(std::mem::take(&mut self.head.used));
        open
    }

    fn chunk(&self, number: u32) -> &[u8] {
        self.full.get(number as usize).map_or(&self.head.open[..self.head.used], |chunk| chunk)
    }

    fn note(&self, place: Place) -> Note<'_> {
        note_at(self.chunk(place.chunk), place.offset)
    }

    /// The path alone, for comparisons.
    fn path(&self, place: Place) -> &[u8] {
        self.note(place).path
    }

    /// All notes from a place on, in the order in which they came.
    fn notes(&self, from: Place) -> impl Iterator<Item = (Place, Note<'_>)> {
        let mut place = from;
        std::iter::from_fn(move || {
            if place.offset as usize >= self.chunk(place.chunk).len() {
                if place.chunk as usize >= self.full.len() {
                    return None;
                }
                place = Place { chunk: place.chunk + 1, offset: 0 };
            }
            let (here, note) = (place, self.note(place));
            place.offset = note.end;
            Some((here, note))
        })
    }

    /// What came in for a URL, as a run would have it; and whether what is known of its server is void.
    pub fn get(&self, hash: u64, host: &str, path: &str) -> (bool, Option<Item>) {
        let mut index = self.index.lock();
        let Index { places, upto } = &mut *index;
        for (place, note) in self.notes(*upto) {
            let hash = url_hash((self.hash)(note.host), note.path);
            places.insert_unique(hash, (hash, place), |it| it.0);
            *upto = Place { chunk: place.chunk, offset: note.end };
        }
        let of_url = |path: &[u8]| -> Vec<Place> {
            let hash = url_hash(hash, path);
            places.iter_hash(hash).filter(|it| it.0 == hash).map(|it| it.1).collect()
        };
        let forgets = of_url(&[]).into_iter().filter(|place| {
            let note = self.note(*place);
            note.is_forget && note.host == host.as_bytes()
        });
        let forgotten = forgets.max();
        let mut places = of_url(path.as_bytes());
        places.retain(|place| {
            let note = self.note(*place);
            Some(*place) > forgotten
                && !note.is_forget
                && note.path == path.as_bytes()
                && note.host == host.as_bytes()
        });
        places.sort_unstable();
        let item = (!places.is_empty()).then(|| {
            let together = self.together(&places);
            let read = |event: &[u8]| {
                let mut bytes = Bytes::of(event);
                bytes.byte().and_then(|kind| Event::read(&mut bytes, kind)).ok()
            };
            let events = together.events.into_iter().filter_map(read).collect();
            Item { depth: together.depth, visit_first: together.visit_first, events }
        });
        (forgotten.is_some(), item)
    }

    /// URLs that were visited, by host and path; one that was visited twice comes twice.
    pub fn visited_urls(&self) -> impl Iterator<Item = String> {
        let notes = self.visits.iter().map(|place| self.note(*place));
        notes.map(|note| String::from_utf8_lossy(&[note.host, note.path].concat()).into_owned())
    }

    /// What came for one URL, from its notes in order.
    fn together(&self, places: &[Place]) -> Together<'_> {
        let mut together = Together { depth: u16::MAX, visit_first: false, events: Vec::new() };
        for (at, place) in places.iter().enumerate() {
            let note = self.note(*place);
            together.depth = together.depth.min(note.depth);
            if !note.event.is_empty() {
                together.visit_first |= at == 0 && note.event[0] == VISIT;
                together.events.push(note.event);
            }
        }
        together
    }

    /// Deals everything out by server, in one pass: a stage for those before the first of these hashes, then one for those
    /// from each of them on.
    pub fn deal(mut self, froms: &[u64]) -> Vec<Stage> {
        if froms.is_empty() {
            return vec![self];
        }
        let mut parts: Vec<Stage> = (0..=froms.len()).map(|_| self.another()).collect();
        let open = self.take_open();
        // A chunk serves again as soon as its notes are dealt out: nothing stands in memory twice.
        for chunk in std::mem::take(&mut self.full).into_iter().chain([open]) {
            let mut offset = 0;
            while (offset as usize) < chunk.len() {
                let note = note_at(&chunk, offset);
                let hash = (self.hash)(note.host);
                parts[froms.partition_point(|from| *from <= hash)].adopt(&note);
                offset = note.end;
            }
            self.spare.give([chunk]);
        }
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            part.head.first_batch = self.head.first_batch;
        }
        parts
    }

    /// Takes in what another stage, later than this one, has.
    pub fn append(&mut self, later: &Stage) {
        later.notes(Place::default()).for_each(|(_, note)| self.adopt(&note));
        self.in_batch(later.head.first_batch);
    }

    fn adopt(&mut self, note: &Note<'_>) {
        self.push(note.is_forget, note.depth, [note.host, note.path], note.host.len(), note.event);
    }
}

/// All that came for one URL.
struct Together<'a> {
    depth: u16,
    visit_first: bool,
    events: Vec<&'a [u8]>,
}

/// The note that begins at an offset of a chunk.
fn note_at(chunk: &[u8], offset: u32) -> Note<'_> {
    let bytes = &chunk[offset as usize..];
    let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let marks = number(2);
    let (host, path) = (usize::from(marks & HOST_BYTES), usize::from(number(4)));
    let has_event = marks & HAS_EVENT != 0;
    let event = if has_event { usize::from(number(HEAD_BYTES)) } else { 0 };
    let start = HEAD_BYTES + usize::from(has_event) * EVENT_HEAD_BYTES;
    let rest = &bytes[start..start + host + path + event];
    Note {
        is_forget: marks & FORGET != 0,
        depth: number(0),
        host: &rest[..host],
        path: &rest[host..host + path],
        event: &rest[host + path..],
        end: offset + (start + rest.len()) as u32,
    }
}

fn url_hash(server: u64, path: &[u8]) -> u64 {
    hash64(path) ^ server.rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_for_a_url_comes_together() {
        // Another host with the same hash, and another hash with the same path.
        let mut stage = Stage::default();
        stage.hash = |host| if host == b"http://f" { 2 } else { 1 };
        stage.found("http://h", "/a", 3, None);
        stage.found("http://h", "/a", 2, None);
        stage.found("http://h", "/a", 9, Some(Timestamp::EPOCH));
        stage.found("http://g", "/a", 1, None);
        stage.found("http://f", "/a", 1, None);
        stage.in_batch(4);
        let (forgotten, item) = stage.get(1, "http://h", "/a");
        assert!(!forgotten);
        let hinted = Item { depth: 2, visit_first: false, events: vec![Event::Hint(Timestamp::EPOCH)] };
        assert_eq!(item, Some(hinted));
        stage.forget("http://h");
        assert_eq!(stage.get(1, "http://h", "/a"), (true, None));
        assert!(stage.get(1, "http://g", "/a").1.is_some());
        stage.found("http://h", "/a", 7, None);
        assert_eq!(stage.get(1, "http://h", "/a").1.map(|item| item.depth), Some(7));
        let [first, other, none] = &stage.deal(&[2, 3])[..] else { panic!("three parts") };
        assert_eq!((first.len(), other.len(), none.len()), (6, 1, 0));
        assert!(first.get(1, "http://h", "/a").0 && first.is_urgent() && !other.is_urgent());
        assert_eq!((other.first_batch(), none.first_batch()), (4, u64::MAX));
    }
}
