//! URLs of a bucket, as they are stored in one block of its file.
//!
//! A block holds consecutive URLs, of one host or of many. Stored in columns, like with like, which is what
//! compresses:
//!
//! ```text
//! number of URLs
//! length, front coding: per URL the bytes shared with the path before it, and the bytes of its own
//! length, the paths' own bytes, one after the other
//! one byte per URL: its state
//! length, depths
//! per visited URL: length, what its visits left behind
//! ```
//! The first path of a block and the first of a host share nothing, so reading can begin at either.

use crate::urls::veuni::codec::{due_of, shared_bytes, state_of, visits_of};
use crate::urls::{Record, State};
use farol_base::Timestamp;
use farol_base::codec::{DecodeError, Decoder, put_varint};
use std::ops::Range;

/// A block is closed when its raw bytes reach this: about two thousand URLs.
const RAW_BYTES: usize = 64 << 10;

/// A URL of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlEntry<'a> {
    /// Path and query.
    pub path: &'a [u8],
    pub depth: u16,
    /// [`state_byte`](crate::urls::veuni::codec::state_byte); 0 = never visited.
    pub state: u8,
    /// What its visits left behind; empty where there were none.
    pub visits: &'a [u8],
}

impl UrlEntry<'_> {
    /// All that is known of the URL.
    pub fn record(&self) -> Result<Record, DecodeError> {
        let state = state_of(self.state)?;
        if state == State::Known {
            return Ok(Record { depth: self.depth, ..Record::default() });
        }
        visits_of(self.visits, state, self.depth)
    }

    /// When the URL can be drawn: at once before its first visit.
    pub fn ready(&self) -> Result<Timestamp, DecodeError> {
        if self.state == 0 { Ok(Timestamp::EPOCH) } else { due_of(self.visits) }
    }
}

/// Builds a block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    count: u32,
    coding: Vec<u8>,
    own: Vec<u8>,
    states: Vec<u8>,
    depths: Vec<u8>,
    visits: Vec<u8>,
    before: Vec<u8>,
    /// Number of URLs and front coding, as they are handed over.
    front: Vec<u8>,
}

impl BlockBuilder {
    pub fn len(&self) -> u32 {
        self.count
    }

    pub fn is_full(&self) -> bool {
        self.coding.len() + self.own.len() + self.states.len() + self.depths.len() + self.visits.len()
            >= RAW_BYTES
    }

    /// Adds a URL; `first` of its host.
    pub fn push(&mut self, entry: &UrlEntry<'_>, first: bool) {
        let shared = if first || self.count == 0 { 0 } else { shared_bytes(&self.before, entry.path) };
        put_varint(&mut self.coding, shared as u64);
        put_varint(&mut self.coding, (entry.path.len() - shared) as u64);
        self.own.extend_from_slice(&entry.path[shared..]);
        self.states.push(entry.state);
        put_varint(&mut self.depths, u64::from(entry.depth));
        if entry.state != 0 {
            put_varint(&mut self.visits, entry.visits.len() as u64);
            self.visits.extend_from_slice(entry.visits);
        }
        self.before.truncate(shared);
        self.before.extend_from_slice(&entry.path[shared..]);
        self.count += 1;
    }

    /// Gives the URL that was added last, which must not be visited, the state and the visits of this one.
    #[cfg(test)]
    pub fn replace_last(&mut self, entry: &UrlEntry<'_>) {
        self.states.pop();
        self.states.push(entry.state);
        put_varint(&mut self.visits, entry.visits.len() as u64);
        self.visits.extend_from_slice(entry.visits);
    }

    /// Hands over the block, in parts of like bytes, and begins the next.
    pub fn finish<T>(&mut self, take: impl FnOnce([&[u8]; 4]) -> T) -> T {
        self.front.clear();
        put_varint(&mut self.front, u64::from(self.count));
        put_varint(&mut self.front, self.coding.len() as u64);
        self.front.extend_from_slice(&self.coding);
        put_varint(&mut self.front, self.own.len() as u64);
        put_varint(&mut self.states, self.depths.len() as u64);
        self.states.extend_from_slice(&self.depths);
        let taken = take([&self.front, &self.own, &self.states, &self.visits]);
        self.count = 0;
        for column in [&mut self.coding, &mut self.own, &mut self.states, &mut self.depths, &mut self.visits]
        {
            column.clear();
        }
        taken
    }
}

/// The position in each column.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnOffsets {
    index: u32,
    coding: usize,
    own: usize,
    depths: usize,
    visits: usize,
}

/// Reads the URLs of a block in order.
#[derive(Debug, Default)]
pub struct BlockReader {
    raw: Vec<u8>,
    count: u32,
    coding: Range<usize>,
    own: Range<usize>,
    states: usize,
    depths: Range<usize>,
    at: ColumnOffsets,
    /// A position before a host's first URL, to come back to.
    marked: ColumnOffsets,
    path: Vec<u8>,
    depth: u16,
    state: u8,
    current_visits: Range<usize>,
}

impl BlockReader {
    /// Opens a block from its raw bytes; `raw` gets the old buffer in exchange.
    pub fn open(&mut self, raw: &mut Vec<u8>) -> Result<(), DecodeError> {
        std::mem::swap(&mut self.raw, raw);
        (self.count, self.at) = (0, ColumnOffsets::default());
        self.path.clear();
        let all = self.raw.len();
        let mut bytes = Decoder::of(&self.raw);
        let count: u32 = bytes.varint_as()?;
        let ended = |bytes: &Decoder<'_>, len: usize| all - bytes.len() - len..all - bytes.len();
        let len = bytes.bytes()?.len();
        self.coding = ended(&bytes, len);
        let len = bytes.bytes()?.len();
        self.own = ended(&bytes, len);
        let len = bytes.take(count as usize)?.len();
        self.states = ended(&bytes, len).start;
        let len = bytes.bytes()?.len();
        self.depths = ended(&bytes, len);
        let visits_start = all - bytes.len();
        self.count = count;
        self.at = ColumnOffsets {
            index: 0,
            coding: self.coding.start,
            own: self.own.start,
            depths: self.depths.start,
            visits: visits_start,
        };
        self.marked = self.at;
        Ok(())
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    /// URLs read so far.
    pub fn index(&self) -> u32 {
        self.at.index
    }

    /// Remembers this position, before a host's first URL, as the one to which [`rewind`](Self::rewind) goes.
    pub fn mark(&mut self) {
        self.marked = self.at;
    }

    pub fn rewind(&mut self) {
        self.at = self.marked;
    }

    /// Reads one more URL; `false` at the end of the block.
    pub fn advance(&mut self) -> Result<bool, DecodeError> {
        let at = &mut self.at;
        if at.index >= self.count {
            return Ok(false);
        }
        let mut coding = Decoder::of(&self.raw[at.coding..self.coding.end]);
        let (shared, own): (usize, usize) = (coding.varint_as()?, coding.varint_as()?);
        at.coding = self.coding.end - coding.len();
        if shared > self.path.len() || own > self.own.end - at.own {
            return Err("a path that shares more than there is");
        }
        self.path.truncate(shared);
        self.path.extend_from_slice(&self.raw[at.own..at.own + own]);
        at.own += own;
        let mut depths = Decoder::of(&self.raw[at.depths..self.depths.end]);
        self.depth = depths.varint_as()?;
        at.depths = self.depths.end - depths.len();
        self.state = self.raw[self.states + at.index as usize];
        self.current_visits = 0..0;
        if self.state != 0 {
            let mut visits = Decoder::of(&self.raw[at.visits..]);
            let count = visits.bytes()?.len();
            at.visits = self.raw.len() - visits.len();
            self.current_visits = at.visits - count..at.visits;
        }
        at.index += 1;
        Ok(true)
    }

    /// The URL that was read last.
    pub fn entry(&self) -> UrlEntry<'_> {
        UrlEntry {
            path: &self.path,
            depth: self.depth,
            state: self.state,
            visits: &self.raw[self.current_visits.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn urls_come_back(mut urls in proptest::collection::vec(
            (proptest::collection::vec(97u8..100, 0..12), any::<u16>(), 0u8..3, proptest::collection::vec(any::<u8>(), 0..5)), 0..50,
        )) {
            urls.sort();
            let mut builder = BlockBuilder::default();
            for (at, (path, depth, state, visits)) in urls.iter_mut().enumerate() {
                if *state == 0 {
                    visits.clear();
                }
                builder.push(&UrlEntry { path, depth: *depth, state: *state, visits }, at % 7 == 0);
            }
            let mut raw = builder.finish(|parts| parts.concat());
            prop_assert_eq!(builder.len(), 0);
            let mut reader = BlockReader::default();
            reader.open(&mut raw).unwrap();
            prop_assert_eq!(reader.len() as usize, urls.len());
            for (path, depth, state, visits) in &urls {
                prop_assert!(reader.advance().unwrap());
                prop_assert_eq!(reader.entry(), UrlEntry { path, depth: *depth, state: *state, visits });
            }
            prop_assert!(!reader.advance().unwrap());
        }

        #[test]
        fn no_bytes_break_reading(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut reader = BlockReader::default();
            let mut raw = bytes;
            if reader.open(&mut raw).is_ok() {
                while let Ok(true) = reader.advance() {
                    let _ = reader.entry();
                }
            }
        }
    }
}
