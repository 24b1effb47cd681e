//! Memory for what comes in, kept for the next that comes.
//!
//! What was taken once is not given back to the system and asked for again. And whoever finds URLs should not wait while
//! the system makes memory for the first time, which takes it some milliseconds for each megabyte on a machine that is one
//! of many on its hardware: a thread of the store's does that before it is needed.

use super::stage::Sorted;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory is taken in pieces of this size: nothing is ever moved as a stage grows.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Memory for sorting up to so many notes, 8 MiB, is kept.
const SORTED_KEPT: usize = 256 << 10;

/// Memory that no stage uses now.
#[derive(Clone, Debug, Default)]
pub struct Spare(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    chunks: Vec<Vec<u8>>,
    sorted: Vec<Vec<Sorted>>,
    /// Somebody is making more chunks.
    is_growing: bool,
}

impl Spare {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty chunk with room for so many bytes at least.
    pub fn chunk(&self, bytes: usize) -> Vec<u8> {
        let kept = if bytes <= CHUNK_BYTES { self.kept().chunks.pop() } else { None };
        kept.unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES.max(bytes)))
    }

    /// Takes chunks back.
    pub fn give(&self, chunks: &mut Vec<Vec<u8>>) {
        let usual = chunks.drain(..).filter(|chunk| chunk.capacity() == CHUNK_BYTES);
        let empty = usual.map(|mut chunk| {
            chunk.clear();
            chunk
        });
        self.kept().chunks.extend(empty);
    }

    /// Whether there are fewer chunks than so many bytes, and nobody makes more. Who is told so does, with
    /// [`grow`](Spare::grow).
    pub fn wants_to_grow(&self, bytes: u64) -> bool {
        let mut kept = self.kept();
        let is_short = !kept.is_growing && ((kept.chunks.len() * CHUNK_BYTES) as u64) < bytes;
        kept.is_growing |= is_short;
        is_short
    }

    /// Makes so many bytes more of chunks.
    pub fn grow(&self, bytes: u64) {
        for _ in 0..bytes / CHUNK_BYTES as u64 {
            // The system makes memory when something is written there.
            let mut chunk = vec![u8::MAX; CHUNK_BYTES];
            chunk.clear();
            self.kept().chunks.push(chunk);
        }
        self.kept().is_growing = false;
    }

    /// Empty memory for sorting.
    pub fn for_sorting(&self) -> Vec<Sorted> {
        self.kept().sorted.pop().unwrap_or_default()
    }

    /// Takes memory for sorting back.
    pub fn give_sorted(&self, mut notes: Vec<Sorted>) {
        if notes.capacity() <= SORTED_KEPT {
            notes.clear();
            self.kept().sorted.push(notes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_made_ahead_once() {
        let spare = Spare::default();
        assert!(spare.wants_to_grow(1) && !spare.wants_to_grow(1));
        spare.grow(3 * CHUNK_BYTES as u64);
        assert!(!spare.wants_to_grow(3 * CHUNK_BYTES as u64));
        let mut taken: Vec<Vec<u8>> = (0..3).map(|_| spare.chunk(100)).collect();
        assert!(taken.iter().all(|chunk| chunk.is_empty() && chunk.capacity() == CHUNK_BYTES));
        assert_eq!(spare.kept().chunks.len(), 0);
        // One that is larger than usual is not kept.
        taken.push(spare.chunk(CHUNK_BYTES + 1));
        taken[0].push(1);
        spare.give(&mut taken);
        assert_eq!(spare.kept().chunks.len(), 3);
        assert!(spare.kept().chunks.iter().all(Vec::is_empty));
    }
}
