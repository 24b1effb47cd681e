//! URLs of a host in memory, in the order of their paths: one text after the other, without an allocation for
//! each.

use crate::urls::veuni::bucket::UrlEntry;

/// Some of a host's URLs.
#[derive(Debug, Default)]
pub struct EntryBuf {
    bytes: Vec<u8>,
    entries: Vec<EntrySlot>,
}

#[derive(Clone, Copy, Debug)]
struct EntrySlot {
    start: u32,
    path: u32,
    visits: u32,
    depth: u16,
    state: u8,
    visited: bool,
}

impl EntryBuf {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a URL; `visited` since it was drawn.
    pub fn push(&mut self, entry: &UrlEntry<'_>, visited: bool) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(entry.path);
        self.bytes.extend_from_slice(entry.visits);
        let (path, visits) = (entry.path.len() as u32, entry.visits.len() as u32);
        self.entries.push(EntrySlot { start, path, visits, depth: entry.depth, state: entry.state, visited });
    }

    pub fn get(&self, at: usize) -> UrlEntry<'_> {
        let entry = &self.entries[at];
        let middle = (entry.start + entry.path) as usize;
        UrlEntry {
            path: &self.bytes[entry.start as usize..middle],
            visits: &self.bytes[middle..middle + entry.visits as usize],
            depth: entry.depth,
            state: entry.state,
        }
    }

    /// Whether it was visited since it was drawn.
    pub fn is_visited(&self, at: usize) -> bool {
        self.entries[at].visited
    }
}
