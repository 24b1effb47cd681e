//! Memory for what comes in, kept for the next that comes.
//!
//! What was taken once is not given back to the system and asked for again. And whoever finds URLs should not wait while
//! the system makes memory for the first time, which takes it some milliseconds for each megabyte on a machine that is one
//! of many on its hardware: a thread of the store's does that before it is needed.

use crate::urls::veuni::memtable::Sorted;
use farol_base::sync::Mutex;
use std::sync::{Arc, MutexGuard};

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
    /// Chunks that there are, here and with stages; and how many of them are kept.
    made: usize,
    made_max: usize,
    sorted: Vec<Vec<Sorted>>,
    /// Somebody is making more chunks.
    is_growing: bool,
}

impl Spare {
    /// Keeps memory as long as there are no more bytes than so many in all, with stages or here.
    pub fn up_to(bytes: u64) -> Spare {
        let kept = Kept { made_max: (bytes / CHUNK_BYTES as u64) as usize, ..Kept::default() };
        Spare(Arc::new(Mutex::new(kept)))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    /// A chunk of so many bytes at least, whatever stands in them.
    pub fn chunk(&self, bytes: usize) -> Vec<u8> {
        if bytes > CHUNK_BYTES {
            return vec![0; bytes];
        }
        let mut kept = self.kept();
        kept.chunks.pop().unwrap_or_else(|| {
            kept.made += 1;
            vec![0; CHUNK_BYTES]
        })
    }

    /// Takes chunks back, however much was cut off behind what stood in them.
    pub fn give(&self, chunks: impl IntoIterator<Item = Vec<u8>>) {
        let mut kept = self.kept();
        for mut chunk in chunks.into_iter().filter(|chunk| chunk.capacity() == CHUNK_BYTES) {
            if kept.made > kept.made_max {
                kept.made -= 1;
            } else {
                chunk.resize(CHUNK_BYTES, 0);
                kept.chunks.push(chunk);
            }
        }
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
            let chunk = vec![u8::MAX; CHUNK_BYTES];
            let mut kept = self.kept();
            kept.made += 1;
            kept.chunks.push(chunk);
        }
        self.kept().is_growing = false;
    }

    /// Bytes of all chunks that there are, with stages and here.
    #[cfg(test)]
    pub fn made_bytes(&self) -> u64 {
        (self.kept().made * CHUNK_BYTES) as u64
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
        let spare = Spare::up_to(4 * CHUNK_BYTES as u64);
        assert!(spare.wants_to_grow(1) && !spare.wants_to_grow(1));
        spare.grow(3 * CHUNK_BYTES as u64);
        assert!(!spare.wants_to_grow(3 * CHUNK_BYTES as u64));
        let mut taken: Vec<Vec<u8>> = (0..3).map(|_| spare.chunk(100)).collect();
        assert!(taken.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
        assert_eq!(spare.kept().chunks.len(), 0);
        // One that is larger than usual is not kept.
        taken.push(spare.chunk(CHUNK_BYTES + 1));
        taken[0].truncate(1);
        spare.give(taken.drain(..));
        assert_eq!(spare.kept().chunks.len(), 3);
        assert!(spare.kept().chunks.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
        // What was made beyond the limit goes back to the system.
        taken.extend((0..7).map(|_| spare.chunk(100)));
        spare.give(taken);
        let kept = spare.kept();
        assert_eq!((kept.chunks.len(), kept.made), (4, 4));
    }
}
