//! Least frequently used, counted while in the cache; among equals the least recently used goes.

use super::Replace;
use super::links::{Links, List, NONE};
use std::collections::BTreeMap;

/// Evicts what was asked for least.
#[derive(Default)]
pub struct Lfu {
    links: Links,
    uses: Vec<u64>,
    /// Entries by how often they were used.
    classes: BTreeMap<u64, List>,
}

impl Lfu {
    fn put(&mut self, slot: u32, uses: u64) {
        self.uses[slot as usize] = uses;
        self.links.push_front(self.classes.entry(uses).or_default(), slot, 0);
    }

    fn take(&mut self, slot: u32) -> u64 {
        let uses = self.uses[slot as usize];
        if let Some(class) = self.classes.get_mut(&uses) {
            self.links.unlink(class, slot, 0);
            if class.len == 0 {
                self.classes.remove(&uses);
            }
        }
        uses
    }
}

impl Replace for Lfu {
    fn insert(&mut self, slot: u32, _hash: u64, _weight: u32) {
        if self.uses.len() <= slot as usize {
            self.uses.resize(slot as usize + 1, 0);
        }
        self.put(slot, 1);
    }

    fn hit(&mut self, slot: u32) {
        let uses = self.take(slot);
        self.put(slot, uses.saturating_add(1));
    }

    fn evict(&mut self) -> Option<u32> {
        let (_, class) = self.classes.first_key_value()?;
        let victim = class.tail;
        debug_assert_ne!(victim, NONE);
        self.take(victim);
        Some(victim)
    }

    fn remove(&mut self, slot: u32) {
        self.take(slot);
    }

    fn top(&self, count: usize) -> Vec<u32> {
        self.classes.values().rev().flat_map(|class| self.links.iter(class)).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_goes_first_and_the_oldest_among_equals() {
        let mut lfu = Lfu::default();
        (0..4).for_each(|slot| lfu.insert(slot, 0, 1));
        (0..3).for_each(|_| lfu.hit(2));
        lfu.hit(0);
        assert_eq!(lfu.top(2), [2, 0]);
        assert_eq!(
            [lfu.evict(), lfu.evict(), lfu.evict(), lfu.evict()],
            [Some(1), Some(3), Some(0), Some(2)]
        );
    }
}
