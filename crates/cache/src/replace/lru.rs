//! Least recently used: the yardstick, and what \[Gomez14\] argues with (§4.1).

use super::Replace;
use super::links::{Links, List, NONE};

/// Evicts what was not asked for longest.
#[derive(Default)]
pub struct Lru {
    links: Links,
    list: List,
}

impl Replace for Lru {
    fn insert(&mut self, slot: u32, _hash: u64, _weight: u32) {
        self.links.push_front(&mut self.list, slot, 0);
    }

    fn hit(&mut self, slot: u32) {
        self.links.refresh(&mut self.list, slot);
    }

    fn evict(&mut self) -> Option<u32> {
        let victim = self.list.tail;
        (victim != NONE).then(|| {
            self.links.unlink(&mut self.list, victim, 0);
            victim
        })
    }

    fn remove(&mut self, slot: u32) {
        self.links.unlink(&mut self.list, slot, 0);
    }

    fn top(&self, count: usize) -> Vec<u32> {
        self.links.iter(&self.list).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let mut lru = Lru::default();
        (0..3).for_each(|slot| lru.insert(slot, 0, 1));
        lru.hit(0);
        assert_eq!(lru.top(2), [0, 2]);
        assert_eq!([lru.evict(), lru.evict(), lru.evict(), lru.evict()], [Some(1), Some(2), Some(0), None]);
    }
}
