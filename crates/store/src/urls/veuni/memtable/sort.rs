//! A memtable sorted by host and path: on its way into a run, or straight into a compaction.

use super::{EntryPtr, Memtable, VISIT};
use crate::Error;
use crate::urls::veuni::compaction::delta::HostDelta;
use crate::urls::veuni::memtable::chunk_pool::ChunkPool;
use crate::urls::veuni::prefetch;
use crate::urls::veuni::run::RunBuilder;
use farol_base::HostHash;
use farol_base::codec::DecodeError;
use std::sync::Arc;

/// Entries that are prefetched at a time.
const PREFETCH_ENTRIES: usize = 32;
/// Bytes of an entry that are prefetched: its head, and most of its URL.
const PREFETCH_BYTES: usize = 64;

/// Sort keys in order; their buffer goes back to the pool.
#[derive(Debug)]
struct SortedEntries {
    entries: Vec<SortKey>,
    chunk_pool: ChunkPool,
}

impl Drop for SortedEntries {
    fn drop(&mut self) {
        self.chunk_pool.recycle_sort_buffer(std::mem::take(&mut self.entries));
    }
}

impl Memtable {
    /// Writes everything as a run: hosts in the order of their hashes, their URLs in that of their paths.
    pub fn write(&self, run: &mut RunBuilder<'_>) -> Result<(), Error> {
        let mut sorted = self.sorted();
        let (sorted, mut at) = (&mut sorted.entries[..], 0);
        let mut near = 0;
        while at < sorted.len() {
            self.prefetch_entries(sorted, at, &mut near);
            let end = self.end_of_host(sorted, at);
            let entries = &sorted[at..end];
            run.begin(entries[0].hash(), self.host(&entries[0]), self.tombstone_of(entries).is_some());
            self.each_url(entries, |path, depth, visit_first, events| {
                run.push(path, depth, visit_first, events)
            })?;
            run.end()?;
            at = end;
        }
        Ok(())
    }

    /// All entries by host and path; those of one path in the order in which they came.
    fn sorted(&self) -> SortedEntries {
        let mut sorted = self.chunk_pool.take_sort_buffer();
        sorted.reserve(self.head.len);
        for (ptr, entry) in self.entries(EntryPtr::default()) {
            sorted.push(SortKey::of((self.hash)(entry.host), entry.path, ptr));
        }
        // First by one large number, which compares without a branch; then what is equal in it.
        sorted.sort_unstable_by_key(|entry| entry.key);
        for same in sorted.chunk_by_mut(|a, b| a.key == b.key).filter(|same| same.len() > 1) {
            same.sort_unstable_by(|a, b| {
                let paths = || self.path(a.ptr).cmp(self.path(b.ptr));
                a.more.cmp(&b.more).then_with(paths).then_with(|| a.ptr.cmp(&b.ptr))
            });
        }
        SortedEntries { entries: sorted, chunk_pool: self.chunk_pool.clone() }
    }

    /// Prefetches the entries from `at` on, where that lies beyond those that were: up to `near`.
    fn prefetch_entries(&self, sorted: &[SortKey], at: usize, near: &mut usize) {
        if at >= *near {
            *near = sorted.len().min(at + PREFETCH_ENTRIES);
            prefetch(sorted[at..*near].iter().map(|entry| {
                let bytes = &self.chunk(entry.ptr.chunk)[entry.ptr.offset as usize..];
                &bytes[..bytes.len().min(PREFETCH_BYTES)]
            }));
        }
    }

    /// Where the entries of the host end that begin at `at`.
    fn end_of_host(&self, sorted: &mut [SortKey], at: usize) -> usize {
        let hash = sorted[at].hash();
        let of_hash = sorted[at..].iter().take_while(|it| it.hash() == hash).count();
        let host = |it: &SortKey| self.entry(it.ptr).host;
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

    fn host(&self, entry: &SortKey) -> &str {
        // Only whole texts went in.
        std::str::from_utf8(self.entry(entry.ptr).host).unwrap_or_default()
    }

    /// The last tombstone among a host's entries: what precedes it is deleted.
    fn tombstone_of(&self, entries: &[SortKey]) -> Option<EntryPtr> {
        // Without a path they come first.
        let tombstones = entries.iter().map(|it| it.ptr).take_while(|ptr| self.entry(*ptr).is_tombstone);
        tombstones.max()
    }

    /// Hands over a host's URLs, each once: path, depth, whether it was visited first, events.
    fn each_url<E>(
        &self,
        entries: &[SortKey],
        mut take: impl FnMut(&[u8], u16, bool, &[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let deleted_upto = self.tombstone_of(entries);
        let (mut ptrs, mut at, mut near) = (Vec::new(), 0, PREFETCH_ENTRIES);
        for of_path in entries.chunk_by(|a, b| a.is_like(b) && self.path(a.ptr) == self.path(b.ptr)) {
            self.prefetch_entries(entries, at, &mut near);
            at += of_path.len();
            if let [only] = of_path {
                let entry = self.entry(only.ptr);
                if Some(only.ptr) > deleted_upto && !entry.is_tombstone {
                    let visit_first = entry.event.first() == Some(&VISIT);
                    let events = &[entry.event][..usize::from(!entry.event.is_empty())];
                    take(entry.path, entry.depth, visit_first, events)?;
                }
                continue;
            }
            let live = of_path.iter().map(|it| it.ptr).filter(|ptr| Some(*ptr) > deleted_upto);
            ptrs.clear();
            ptrs.extend(live.filter(|ptr| !self.entry(*ptr).is_tombstone));
            if let Some(first) = ptrs.first() {
                let coalesced = self.coalesced(&ptrs);
                take(self.path(*first), coalesced.depth, coalesced.visit_first, &coalesced.events)?;
            }
        }
        Ok(())
    }
}

/// Reads a memtable host by host, in order.
#[derive(Debug)]
pub struct MemtableReader {
    memtable: Arc<Memtable>,
    sorted: SortedEntries,
    at: usize,
    end: usize,
    /// Entries up to here were prefetched.
    near: usize,
}

impl MemtableReader {
    pub fn new(memtable: Arc<Memtable>) -> MemtableReader {
        let mut reader = MemtableReader { sorted: memtable.sorted(), memtable, at: 0, end: 0, near: 0 };
        reader.find_end();
        reader
    }

    /// Hash and host of the next host.
    pub fn peek(&self) -> Option<(HostHash, &str)> {
        let first = self.sorted.entries.get(self.at)?;
        Some((first.hash(), self.memtable.host(first)))
    }

    /// Adds the URLs of the next host to its deltas of older runs.
    pub fn read_host(&mut self, into: &mut HostDelta) -> Result<(), DecodeError> {
        let entries = &self.sorted.entries[self.at..self.end];
        if self.memtable.tombstone_of(entries).is_some() {
            into.set_tombstone();
        }
        self.memtable.each_url(entries, |path, depth, visit_first, events| {
            into.push(path, depth, visit_first, events)
        })?;
        self.at = self.end;
        self.find_end();
        Ok(())
    }

    /// Finds where the next host ends.
    fn find_end(&mut self) {
        if self.at < self.sorted.entries.len() {
            self.memtable.prefetch_entries(&self.sorted.entries, self.at, &mut self.near);
            self.end = self.memtable.end_of_host(&mut self.sorted.entries, self.at);
        }
    }
}

/// What an entry is sorted by.
#[derive(Debug)]
pub struct SortKey {
    /// The host's hash, then the first bytes of the path.
    key: u128,
    /// The path's next bytes. With those of the key they settle most comparisons without looking at it.
    more: u64,
    ptr: EntryPtr,
}

impl SortKey {
    fn of(host_hash: HostHash, path: &[u8], ptr: EntryPtr) -> SortKey {
        let key = u128::from(host_hash.0) << 64 | u128::from(head_of(path));
        SortKey { key, more: head_of(path.get(8..).unwrap_or_default()), ptr }
    }

    fn hash(&self) -> HostHash {
        HostHash((self.key >> 64) as u64)
    }

    /// Whether the paths begin alike, of one host.
    fn is_like(&self, other: &SortKey) -> bool {
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
