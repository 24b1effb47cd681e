//! Targets whose anchor texts changed since somebody last asked.
//!
//! A bounded set in the order of arrival. When it is full, newcomers are forgotten: their pages get the new texts
//! when they are next fetched themselves. Nothing of it survives the process.

use crate::sources::Seed;
use std::collections::{HashSet, VecDeque};

pub(crate) struct Dirty {
    queue: VecDeque<u64>,
    waiting: HashSet<u64, Seed>,
    max: usize,
}

impl Dirty {
    pub(crate) fn new(max: usize) -> Dirty {
        Dirty { queue: VecDeque::new(), waiting: HashSet::default(), max }
    }

    pub(crate) fn mark(&mut self, target: u64) {
        if self.queue.len() < self.max && self.waiting.insert(target) {
            self.queue.push_back(target);
        }
    }

    pub(crate) fn take(&mut self, limit: usize) -> Vec<u64> {
        let taken: Vec<u64> = self.queue.drain(..limit.min(self.queue.len())).collect();
        for target in &taken {
            self.waiting.remove(target);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_in_order_and_never_too_many() {
        let mut dirty = Dirty::new(3);
        for target in [5, 6, 5, 7, 8] {
            dirty.mark(target);
        }
        assert_eq!(dirty.take(2), [5, 6]);
        dirty.mark(5);
        assert_eq!(dirty.take(10), [7, 5]);
        assert_eq!(dirty.take(10), Vec::<u64>::new());
    }
}
