//! An array that grows without moving what it holds: a chunk is added, nothing is copied.
//!
//! A `Vec` that doubles copies all it has. In a node of a million entries that held up whoever waited for the shard for
//! milliseconds.

use std::ops::{Index, IndexMut};

/// Elements of a chunk.
const CHUNK: usize = 1024;

/// Elements by number.
pub(crate) struct Chunks<T> {
    chunks: Vec<Box<[T]>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Default> Chunks<T> {
    /// Has at least so many elements; those that are new are empty.
    pub fn grow_to(&mut self, len: usize) {
        while self.chunks.len() * CHUNK < len {
            self.chunks.push(std::iter::repeat_with(T::default).take(CHUNK).collect());
        }
        self.len = self.len.max(len);
    }
}

impl<T> Chunks<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().take(self.len)
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays_where_it_is() {
        let mut chunks: Chunks<u64> = Chunks::default();
        assert_eq!((chunks.len(), chunks.iter().count()), (0, 0));
        chunks.grow_to(3);
        chunks[2] = 7;
        let place: *const u64 = &chunks[2];
        chunks.grow_to(5000);
        chunks.grow_to(10);
        assert!(std::ptr::eq(place, &chunks[2]));
        assert_eq!((chunks.len(), chunks[2], chunks[4999], chunks.iter().sum::<u64>()), (5000, 7, 0, 7));
    }
}
