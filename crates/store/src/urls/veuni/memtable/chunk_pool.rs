//! Pool of 64 KiB memtable chunks, pre-faulted on a background thread so that the caller never pays for page
//! faults.
//!
//! Chunks are recycled, not freed and allocated again. Page faults cost some milliseconds for each megabyte
//! on a virtual machine that shares its hardware.

use crate::urls::veuni::memtable::SortKey;
use farol_base::sync::Mutex;
use std::sync::{Arc, MutexGuard};

/// Size of a chunk: nothing is ever moved as a memtable grows.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Buffers for sorting up to this many entries, 8 MiB, are kept.
const SORT_BUFFER_MAX: usize = 256 << 10;

/// Chunks and buffers that no memtable uses now.
#[derive(Clone, Debug, Default)]
pub struct ChunkPool(Arc<Mutex<PoolState>>);

#[derive(Debug, Default)]
struct PoolState {
    chunks: Vec<Vec<u8>>,
    /// Chunks in the pool and with memtables; and how many of them are kept at most.
    allocated: usize,
    allocated_max: usize,
    sorted: Vec<Vec<SortKey>>,
    /// A thread is pre-faulting chunks.
    is_growing: bool,
}

impl ChunkPool {
    /// Recycles chunks as long as there are no more than this many bytes, with memtables and in the pool.
    pub fn with_limit(bytes: u64) -> ChunkPool {
        let state =
            PoolState { allocated_max: (bytes / CHUNK_BYTES as u64) as usize, ..PoolState::default() };
        ChunkPool(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.0.lock()
    }

    /// Takes a chunk of at least this many bytes, with any content.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes > CHUNK_BYTES {
            return vec![0; bytes];
        }
        let mut state = self.state();
        state.chunks.pop().unwrap_or_else(|| {
            state.allocated += 1;
            vec![0; CHUNK_BYTES]
        })
    }

    /// Takes chunks back, truncated or not.
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

    /// Whether the pool has fewer bytes than this, and no thread is pre-faulting. The caller that gets `true`
    /// must then [`prefault`](ChunkPool::prefault).
    pub fn try_start_growing(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let is_short = !state.is_growing && ((state.chunks.len() * CHUNK_BYTES) as u64) < bytes;
        state.is_growing |= is_short;
        is_short
    }

    /// Adds this many bytes of pre-faulted chunks.
    pub fn prefault(&self, bytes: u64) {
        for _ in 0..bytes / CHUNK_BYTES as u64 {
            // A page is faulted in when something is written to it.
            let chunk = vec![u8::MAX; CHUNK_BYTES];
            let mut state = self.state();
            state.allocated += 1;
            state.chunks.push(chunk);
        }
        self.state().is_growing = false;
    }

    /// Bytes of all chunks, with memtables and in the pool.
    #[cfg(test)]
    pub fn allocated_bytes(&self) -> u64 {
        (self.state().allocated * CHUNK_BYTES) as u64
    }

    /// Takes an empty buffer for sorting.
    pub fn take_sort_buffer(&self) -> Vec<SortKey> {
        self.state().sorted.pop().unwrap_or_default()
    }

    /// Takes a buffer for sorting back.
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
    fn chunks_are_recycled_and_pre_faulted_once() {
        let chunk_pool = ChunkPool::with_limit(4 * CHUNK_BYTES as u64);
        assert!(chunk_pool.try_start_growing(1) && !chunk_pool.try_start_growing(1));
        chunk_pool.prefault(3 * CHUNK_BYTES as u64);
        assert!(!chunk_pool.try_start_growing(3 * CHUNK_BYTES as u64));
        let mut taken: Vec<Vec<u8>> = (0..3).map(|_| chunk_pool.take(100)).collect();
        assert!(taken.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
        assert_eq!(chunk_pool.state().chunks.len(), 0);
        // One that is larger than usual is not kept.
        taken.push(chunk_pool.take(CHUNK_BYTES + 1));
        taken[0].truncate(1);
        chunk_pool.recycle(taken.drain(..));
        assert_eq!(chunk_pool.state().chunks.len(), 3);
        assert!(chunk_pool.state().chunks.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
        // What was made beyond the limit goes back to the system.
        taken.extend((0..7).map(|_| chunk_pool.take(100)));
        chunk_pool.recycle(taken);
        let state = chunk_pool.state();
        assert_eq!((state.chunks.len(), state.allocated), (4, 4));
    }
}
