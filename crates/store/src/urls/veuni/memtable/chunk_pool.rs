//! Memory for what comes in, kept for the next that comes.
//!
//! What was taken once is not given back to the system and asked for again. And whoever finds URLs should not wait while
//! the system makes memory for the first time, which takes it some milliseconds for each megabyte on a machine that is one
//! of many on its hardware: a thread of the store's does that before it is needed.

use crate::urls::veuni::memtable::SortKey;
use farol_base::sync::Mutex;
use std::sync::{Arc, MutexGuard};

/// Memory is taken in blocks of this size: nothing is ever moved as a memtable grows.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Memory for sorting up to so many notes, 8 MiB, is kept.
const SORT_BUFFER_MAX: usize = 256 << 10;

/// Memory that no memtable uses now.
#[derive(Clone, Debug, Default)]
pub struct ChunkPool(Arc<Mutex<PoolState>>);

#[derive(Debug, Default)]
struct PoolState {
    chunks: Vec<Vec<u8>>,
    /// Chunks that there are, here and with memtables; and how many of them are kept.
    allocated: usize,
    allocated_max: usize,
    sorted: Vec<Vec<SortKey>>,
    /// Somebody is making more chunks.
    is_growing: bool,
}

impl ChunkPool {
    /// Keeps memory as long as there are no more bytes than so many in all, with memtables or here.
    pub fn with_limit(bytes: u64) -> ChunkPool {
        let state =
            PoolState { allocated_max: (bytes / CHUNK_BYTES as u64) as usize, ..PoolState::default() };
        ChunkPool(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.0.lock()
    }

    /// A chunk of so many bytes at least, whatever stands in them.
    pub fn chunk(&self, bytes: usize) -> Vec<u8> {
        if bytes > CHUNK_BYTES {
            return vec![0; bytes];
        }
        let mut state = self.state();
        state.chunks.pop().unwrap_or_else(|| {
            state.allocated += 1;
            vec![0; CHUNK_BYTES]
        })
    }

    /// Takes chunks back, however much was cut off behind what stood in them.
    pub fn recycle(&self, chunks: impl IntoIterator<Item = Vec<u8>>) {
        let mut state = self.state();
        for mut chunk in chunks.into_iter().filter(|chunk| chunk.capacity() == CHUNK_BYTES) {
            if state.allocated > state.allocated_max {
                state.allocated -= 1;
            } else {
                chunk.resize(CHUNK_BYTES, 0);
                state.chunks.push(chunk);
            }
        }
    }

    /// Whether there are fewer chunks than so many bytes, and nobody makes more. Who is told so does, with
    /// [`prefault`](Spare::grow).
    pub fn try_start_growing(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let is_short = !state.is_growing && ((state.chunks.len() * CHUNK_BYTES) as u64) < bytes;
        state.is_growing |= is_short;
        is_short
    }

    /// Makes so many bytes more of chunks.
    pub fn prefault(&self, bytes: u64) {
        for _ in 0..bytes / CHUNK_BYTES as u64 {
            // The system makes memory when something is written there.
            let chunk = vec![u8::MAX; CHUNK_BYTES];
            let mut state = self.state();
            state.allocated += 1;
            state.chunks.push(chunk);
        }
        self.state().is_growing = false;
    }

    /// Bytes of all chunks that there are, with memtables and here.
    #[cfg(test)]
    pub fn allocated_bytes(&self) -> u64 {
        (self.state().allocated * CHUNK_BYTES) as u64
    }

    /// Empty memory for sorting.
    pub fn take_sort_buffer(&self) -> Vec<SortKey> {
        self.state().sorted.pop().unwrap_or_default()
    }

    /// Takes memory for sorting back.
    pub fn recycle_sort_buffer(&self, mut keys: Vec<SortKey>) {
        if keys.capacity() <= SORT_BUFFER_MAX {
            keys.clear();
            self.state().sorted.push(keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_made_ahead_once() {
        let chunk_pool = ChunkPool::with_limit(4 * CHUNK_BYTES as u64);
        assert!(chunk_pool.try_start_growing(1) && !chunk_pool.try_start_growing(1));
        chunk_pool.prefault(3 * CHUNK_BYTES as u64);
        assert!(!chunk_pool.try_start_growing(3 * CHUNK_BYTES as u64));
        let mut taken: Vec<Vec<u8>> = (0..3).map(|_| chunk_pool.chunk(100)).collect();
        assert!(taken.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
        assert_eq!(chunk_pool.state().chunks.len(), 0);
        // One that is larger than usual is not kept.
        taken.push(chunk_pool.chunk(CHUNK_BYTES + 1));
        taken[0].truncate(1);
        chunk_pool.recycle(taken.drain(..));
        assert_eq!(chunk_pool.state().chunks.len(), 3);
        assert!(chunk_pool.state().chunks.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
        // What was made beyond the limit goes back to the system.
        taken.extend((0..7).map(|_| chunk_pool.chunk(100)));
        chunk_pool.recycle(taken);
        let state = chunk_pool.state();
        assert_eq!((state.chunks.len(), state.allocated), (4, 4));
    }
}
