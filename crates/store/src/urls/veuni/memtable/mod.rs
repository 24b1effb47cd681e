//! Memtable: writes of a bucket that are in no file of it yet, in the order in which they came.
//!
//! A write is one append; sorting, and coalescing the entries of one URL, is left to the flush or the
//! compaction. The WAL has all of it as well, so nothing is lost with the process. Takes 6 bytes per entry
//! besides the URL.

pub mod chunk_pool;
mod sort;

pub use sort::{MemtableReader, SortKey, head_of};

use crate::urls::veuni::codec::{put_record, put_visit, record_of, visit_of};
use crate::urls::veuni::memtable::chunk_pool::ChunkPool;
use crate::urls::veuni::run::UrlDelta;
use crate::urls::{Record, Visit};
use farol_base::HostHash;
use farol_base::codec::{DecodeError, Decoder, put_varint};
use farol_base::fingerprint::hash64;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Timestamp};
use hashbrown::HashTable;
use std::collections::HashSet;

/// Depth, bytes of the host with the entry's kind, bytes of the path; then, where there is an event, its
/// bytes. The host's hash is computed again where it is needed: memory is dearer.
const HEAD_BYTES: usize = 2 + 2 + 2;
const EVENT_HEAD_BYTES: usize = 2;

/// In the highest bits of a host's length, which no host's name reaches.
const TOMBSTONE: u16 = 1 << 15;
const HAS_EVENT: u16 = 1 << 14;
const HOST_BYTES: u16 = HAS_EVENT - 1;

/// What happened to a URL, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A page said that it changed then.
    Hint(Timestamp),
    Visit(Visit),
    /// Another store knew this of it; the depth stands with the entry.
    Merge(Box<Record>),
}

const HINT: u8 = 1;
const VISIT: u8 = 2;
const MERGE: u8 = 3;

impl Event {
    /// Memory that an event takes once it is read, by the bytes that [`Event::read`] takes.
    pub fn memory_of(event: &[u8]) -> usize {
        let boxed = if event.first() == Some(&MERGE) { size_of::<Record>() } else { 0 };
        size_of::<Event>() + boxed
    }

    /// Reads an event, of which the first byte is its kind.
    pub fn read(bytes: &mut Decoder<'_>, kind: u8) -> Result<Event, DecodeError> {
        match kind {
            HINT => Ok(Event::Hint(Timestamp::from_millis(bytes.varint()?))),
            VISIT => Ok(Event::Visit(visit_of(bytes)?)),
            MERGE => Ok(Event::Merge(Box::new(record_of(bytes, u16::MAX)?))),
            _ => Err("an unknown event"),
        }
    }
}

/// The memtable of one bucket.
#[derive(Debug)]
pub struct Memtable {
    head: HotLine,
    /// Chunks that are full, before the open one.
    full: Vec<Vec<u8>>,
    chunk_pool: ChunkPool,
    /// The hash of a host's name.
    hash: fn(&[u8]) -> HostHash,
    /// Where the entries of a URL are; built at the first look-up.
    index: Mutex<UrlIndex>,
    event: Vec<u8>,
    /// Entries that are visits.
    visits: Vec<EntryPtr>,
    /// Hosts with tombstones or records of another store: no file from before these is right about them.
    overruled: HashSet<Box<str>>,
}

/// All that an entry of a found URL changes, in one cache line: writes go to hundreds of memtables
/// alternately, and with several lines for each they would miss the cache every time.
#[derive(Debug)]
#[repr(align(64))]
struct HotLine {
    /// The chunk that is being filled, and how many bytes of it are. It has its full length from the
    /// beginning, so that the slot of the next entry can be prefetched.
    open: Vec<u8>,
    used: usize,
    /// Entries, and their bytes.
    len: usize,
    bytes: u64,
    first_seqno: u64,
    blocks_activation: bool,
}

#[derive(Debug, Default)]
struct UrlIndex {
    ptrs: HashTable<(u64, EntryPtr)>,
    /// Entries before this one are in it.
    upto: EntryPtr,
}

/// Where an entry is: chunk, offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct EntryPtr {
    chunk: u32,
    offset: u32,
}

/// A write.
#[derive(Clone, Copy, Debug)]
struct MemEntry<'a> {
    is_tombstone: bool,
    /// Depth at which it was found; `u16::MAX` where it was not.
    depth: u16,
    host: &'a [u8],
    path: &'a [u8],
    /// As [`Event::read`] reads it; empty where there is none.
    event: &'a [u8],
    end: u32,
}

impl Drop for Memtable {
    fn drop(&mut self) {
        let open = std::mem::take(&mut self.head.open);
        self.chunk_pool.recycle(self.full.drain(..).chain([open]));
    }
}

impl Default for Memtable {
    fn default() -> Memtable {
        Memtable::new(ChunkPool::default())
    }
}

impl Memtable {
    /// An empty memtable that takes its memory from there.
    pub fn new(chunk_pool: ChunkPool) -> Memtable {
        let head = HotLine {
            open: Vec::new(),
            used: 0,
            len: 0,
            bytes: 0,
            first_seqno: u64::MAX,
            blocks_activation: false,
        };
        Memtable {
            head,
            full: Vec::new(),
            chunk_pool,
            hash: |host| HostHash(hash64(host)),
            index: Mutex::default(),
            event: Vec::new(),
            visits: Vec::new(),
            overruled: HashSet::new(),
        }
    }

    /// An empty one of its kind.
    fn another(&self) -> Memtable {
        let mut another = Memtable::new(self.chunk_pool.clone());
        another.hash = self.hash;
        another
    }

    /// Takes its entries, and leaves it empty.
    pub fn take(&mut self) -> Memtable {
        let empty = self.another();
        std::mem::replace(self, empty)
    }

    pub fn is_empty(&self) -> bool {
        self.head.len == 0
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.head.len
    }

    /// Memory in use, but for the end of the last chunk.
    pub fn bytes(&self) -> u64 {
        self.head.bytes
    }

    /// Sequence number of the WAL's batch that has its first entry.
    pub fn first_seqno(&self) -> u64 {
        self.head.first_seqno
    }

    /// The next entry is in this batch of the WAL.
    pub fn in_batch(&mut self, batch: u64) -> &mut Memtable {
        self.head.first_seqno = self.head.first_seqno.min(batch);
        self
    }

    /// Whether it has entries without which the bucket must not be active: visits, tombstones.
    pub fn blocks_activation(&self) -> bool {
        self.head.blocks_activation
    }

    /// The slot of the next entry, if it is of a URL of this many bytes.
    pub fn slot_for(&self, url_bytes: usize) -> &[u8] {
        let rest = &self.head.open[self.head.used..];
        &rest[..rest.len().min(HEAD_BYTES + url_bytes)]
    }

    /// Adds a URL that was found.
    pub fn found(&mut self, host: &str, path: &str, depth: u16, hint: Option<Timestamp>) {
        let event = self.event_of(hint);
        self.push(false, depth, [host.as_bytes(), path.as_bytes()], host.len(), &event);
        self.event = event;
    }

    /// As above, of a URL in one text.
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
            put_varint(&mut event, hint.as_millis());
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

    /// Adds what another store knew of a visited URL.
    pub fn imported(&mut self, host: &str, path: &str, record: &Record) {
        let mut event = std::mem::take(&mut self.event);
        event.clear();
        event.push(MERGE);
        put_record(&mut event, record);
        self.push(false, record.depth, [host.as_bytes(), path.as_bytes()], host.len(), &event);
        self.event = event;
    }

    /// Adds a tombstone: all that was known of the host is deleted.
    pub fn delete_host(&mut self, host: &str) {
        self.push(true, u16::MAX, [host.as_bytes()], host.len(), &[]);
    }

    /// Appends an entry; the texts, one after the other, are the URL, whose first `host_bytes` are its host.
    fn push<const N: usize>(
        &mut self,
        is_tombstone: bool,
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
                empty if empty.is_empty() => self.chunk_pool.recycle([empty]),
                full => self.full.push(full),
            }
            self.head.open = self.chunk_pool.take(bytes);
        }
        let head = &mut self.head;
        let (is_visit, is_merge) = (event.first() == Some(&VISIT), event.first() == Some(&MERGE));
        if is_tombstone || is_merge {
            // The host comes first, in a text of its own.
            let host = std::str::from_utf8(texts[0]).unwrap_or_default();
            if !self.overruled.contains(host) {
                self.overruled.insert(host.into());
            }
        }
        head.blocks_activation |= is_tombstone || is_visit || is_merge;
        head.len += 1;
        head.bytes += bytes as u64;
        if is_visit {
            self.visits.push(EntryPtr { chunk: self.full.len() as u32, offset: head.used as u32 });
        }
        let mut rest = &mut head.open[head.used..head.used + bytes];
        head.used += bytes;
        let mut put = |bytes: &[u8]| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            rest = after;
        };
        let marks = (u16::from(is_tombstone) * TOMBSTONE) | (u16::from(!event.is_empty()) * HAS_EVENT);
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

    fn entry(&self, ptr: EntryPtr) -> MemEntry<'_> {
        entry_at(self.chunk(ptr.chunk), ptr.offset)
    }

    /// The path alone, for comparisons.
    fn path(&self, ptr: EntryPtr) -> &[u8] {
        self.entry(ptr).path
    }

    /// All entries from one on, in the order in which they came.
    fn entries(&self, from: EntryPtr) -> impl Iterator<Item = (EntryPtr, MemEntry<'_>)> {
        let mut ptr = from;
        std::iter::from_fn(move || {
            if ptr.offset as usize >= self.chunk(ptr.chunk).len() {
                if ptr.chunk as usize >= self.full.len() {
                    return None;
                }
                ptr = EntryPtr { chunk: ptr.chunk + 1, offset: 0 };
            }
            let (here, entry) = (ptr, self.entry(ptr));
            ptr.offset = entry.end;
            Some((here, entry))
        })
    }

    /// The delta of a URL, as a run would have it; and whether its host has a tombstone.
    pub fn get(&self, hash: HostHash, host: &str, path: &str) -> (bool, Option<UrlDelta>) {
        let mut index = self.index.lock();
        let UrlIndex { ptrs, upto } = &mut *index;
        for (ptr, entry) in self.entries(*upto) {
            let hash = url_hash((self.hash)(entry.host), entry.path);
            ptrs.insert_unique(hash, (hash, ptr), |it| it.0);
            *upto = EntryPtr { chunk: ptr.chunk, offset: entry.end };
        }
        let of_url = |path: &[u8]| -> Vec<EntryPtr> {
            let hash = url_hash(hash, path);
            ptrs.iter_hash(hash).filter(|it| it.0 == hash).map(|it| it.1).collect()
        };
        let tombstones = of_url(&[]).into_iter().filter(|ptr| {
            let entry = self.entry(*ptr);
            entry.is_tombstone && entry.host == host.as_bytes()
        });
        let tombstone = tombstones.max();
        let mut ptrs = of_url(path.as_bytes());
        ptrs.retain(|ptr| {
            let entry = self.entry(*ptr);
            Some(*ptr) > tombstone
                && !entry.is_tombstone
                && entry.path == path.as_bytes()
                && entry.host == host.as_bytes()
        });
        ptrs.sort_unstable();
        let delta = (!ptrs.is_empty()).then(|| {
            let coalesced = self.coalesced(&ptrs);
            let read = |event: &[u8]| {
                let mut bytes = Decoder::of(event);
                bytes.byte().and_then(|kind| Event::read(&mut bytes, kind)).ok()
            };
            let events = coalesced.events.into_iter().filter_map(read).collect();
            UrlDelta { depth: coalesced.depth, visit_first: coalesced.visit_first, events }
        });
        (tombstone.is_some(), delta)
    }

    /// URLs that were visited, by host and path; one that was visited twice comes twice.
    pub fn visited_urls(&self) -> impl Iterator<Item = String> {
        let entries = self.visits.iter().map(|ptr| self.entry(*ptr));
        entries.map(|entry| String::from_utf8_lossy(&[entry.host, entry.path].concat()).into_owned())
    }

    /// Hosts that no file from before these entries is right about.
    pub fn overruled_hosts(&self) -> impl Iterator<Item = &str> {
        self.overruled.iter().map(|host| &**host)
    }

    /// Copies the entries of some hosts, in their order, behind those of an earlier memtable.
    pub fn copy_hosts(&self, is_wanted: impl Fn(&[u8]) -> bool, into: &mut Memtable) {
        let wanted = self.entries(EntryPtr::default()).filter(|(_, entry)| is_wanted(entry.host));
        wanted.for_each(|(_, entry)| into.push_entry(&entry));
    }

    /// Coalesces the entries of one URL, in their order.
    fn coalesced(&self, ptrs: &[EntryPtr]) -> Coalesced<'_> {
        let mut coalesced = Coalesced { depth: u16::MAX, visit_first: false, events: Vec::new() };
        for (at, ptr) in ptrs.iter().enumerate() {
            let entry = self.entry(*ptr);
            coalesced.depth = coalesced.depth.min(entry.depth);
            if !entry.event.is_empty() {
                coalesced.visit_first |= at == 0 && entry.event[0] == VISIT;
                coalesced.events.push(entry.event);
            }
        }
        coalesced
    }

    /// Partitions its entries by hash range, in one pass: a memtable for those before the first of these
    /// hashes, then one for those from each of them on.
    pub fn partition_at(mut self, splits: &[HostHash]) -> Vec<Memtable> {
        if splits.is_empty() {
            return vec![self];
        }
        let mut parts: Vec<Memtable> = (0..=splits.len()).map(|_| self.another()).collect();
        let open = self.take_open();
        // A chunk is recycled once its entries are partitioned: nothing is in memory twice.
        for chunk in std::mem::take(&mut self.full).into_iter().chain([open]) {
            let mut offset = 0;
            while (offset as usize) < chunk.len() {
                let entry = entry_at(&chunk, offset);
                let hash = (self.hash)(entry.host);
                parts[splits.partition_point(|from| *from <= hash)].push_entry(&entry);
                offset = entry.end;
            }
            self.chunk_pool.recycle([chunk]);
        }
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            part.head.first_seqno = self.head.first_seqno;
        }
        parts
    }

    /// Appends the entries of a memtable that is later than this one.
    pub fn extend(&mut self, later: &Memtable) {
        later.entries(EntryPtr::default()).for_each(|(_, entry)| self.push_entry(&entry));
        self.in_batch(later.head.first_seqno);
    }

    fn push_entry(&mut self, entry: &MemEntry<'_>) {
        self.push(entry.is_tombstone, entry.depth, [entry.host, entry.path], entry.host.len(), entry.event);
    }
}

/// The entries of one URL as one.
struct Coalesced<'a> {
    depth: u16,
    visit_first: bool,
    events: Vec<&'a [u8]>,
}

/// The entry that begins at an offset of a chunk.
fn entry_at(chunk: &[u8], offset: u32) -> MemEntry<'_> {
    let bytes = &chunk[offset as usize..];
    let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let marks = number(2);
    let (host, path) = (usize::from(marks & HOST_BYTES), usize::from(number(4)));
    let has_event = marks & HAS_EVENT != 0;
    let event = if has_event { usize::from(number(HEAD_BYTES)) } else { 0 };
    let start = HEAD_BYTES + usize::from(has_event) * EVENT_HEAD_BYTES;
    let rest = &bytes[start..start + host + path + event];
    MemEntry {
        is_tombstone: marks & TOMBSTONE != 0,
        depth: number(0),
        host: &rest[..host],
        path: &rest[host..host + path],
        event: &rest[host + path..],
        end: offset + (start + rest.len()) as u32,
    }
}

fn url_hash(host_hash: HostHash, path: &[u8]) -> u64 {
    hash64(path) ^ host_hash.0.rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_url_are_coalesced() {
        // Another host with the same hash, and another hash with the same path.
        let mut memtable = Memtable::default();
        memtable.hash = |host| HostHash(if host == b"http://f" { 2 } else { 1 });
        memtable.found("http://h", "/a", 3, None);
        memtable.found("http://h", "/a", 2, None);
        memtable.found("http://h", "/a", 9, Some(Timestamp::EPOCH));
        memtable.found("http://g", "/a", 1, None);
        memtable.found("http://f", "/a", 1, None);
        memtable.in_batch(4);
        let (tombstone, delta) = memtable.get(HostHash(1), "http://h", "/a");
        assert!(!tombstone);
        let hinted = UrlDelta { depth: 2, visit_first: false, events: vec![Event::Hint(Timestamp::EPOCH)] };
        assert_eq!(delta, Some(hinted));
        memtable.delete_host("http://h");
        assert_eq!(memtable.get(HostHash(1), "http://h", "/a"), (true, None));
        assert!(memtable.get(HostHash(1), "http://g", "/a").1.is_some());
        memtable.found("http://h", "/a", 7, None);
        assert_eq!(memtable.get(HostHash(1), "http://h", "/a").1.map(|delta| delta.depth), Some(7));
        let [first, other, none] = &memtable.partition_at(&[2, 3].map(HostHash))[..] else {
            panic!("three parts")
        };
        assert_eq!((first.len(), other.len(), none.len()), (6, 1, 0));
        assert!(
            first.get(HostHash(1), "http://h", "/a").0
                && first.blocks_activation()
                && !other.blocks_activation()
        );
        assert_eq!((other.first_seqno(), none.first_seqno()), (4, u64::MAX));
    }
}
