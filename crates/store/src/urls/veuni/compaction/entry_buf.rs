//! URLs of a server in memory, in the order of their paths: one text behind the other, without memory of its own for each.

use crate::urls::veuni::bucket::Entry;

/// Some of a server's URLs.
#[derive(Debug, Default)]
pub struct Few {
    bytes: Vec<u8>,
    entries: Vec<FewEntry>,
}

#[derive(Clone, Copy, Debug)]
struct FewEntry {
    start: u32,
    path: u32,
    visits: u32,
    depth: u16,
    state: u8,
    visited: bool,
}

impl Few {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a URL; `visited` since it was handed out.
    pub fn push(&mut self, entry: &Entry<'_>, visited: bool) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(entry.path);
        self.bytes.extend_from_slice(entry.visits);
        let (path, visits) = (entry.path.len() as u32, entry.visits.len() as u32);
        self.entries.push(FewEntry { start, path, visits, depth: entry.depth, state: entry.state, visited });
    }

    pub fn get(&self, at: usize) -> Entry<'_> {
        let entry = &self.entries[at];
        let middle = (entry.start + entry.path) as usize;
        Entry {
            path: &self.bytes[entry.start as usize..middle],
            visits: &self.bytes[middle..middle + entry.visits as usize],
            depth: entry.depth,
            state: entry.state,
        }
    }

    /// Whether it was visited since it was handed out.
    pub fn is_visited(&self, at: usize) -> bool {
        self.entries[at].visited
    }
}
