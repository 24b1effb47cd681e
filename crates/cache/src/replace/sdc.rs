//! SDC: a static part for what proved popular, an LRU for the rest \[Fagni06\].
//!
//! In the paper the static part is filled from an old log. Here it learns by itself: every so many lookups the
//! entries that were asked for most often since the last time become the static part, up to half of the limit.

use super::Replace;
use super::links::{Links, List, NONE};

/// Share of the limit that the static part may take.
const STATIC_SHARE: f64 = 0.5;
/// The static part is chosen anew after so many lookups per entry.
const PERIOD: u64 = 10;

/// A static and a dynamic part.
pub struct Sdc {
    links: Links,
    fixed: List,
    recent: List,
    entries: Vec<Cached>,
    static_max: u64,
    lookups: u64,
}

#[derive(Clone, Copy, Default)]
struct Cached {
    weight: u32,
    uses: u32,
    fixed: bool,
}

impl Sdc {
    pub fn new(limit: u64) -> Sdc {
        Sdc {
            links: Links::default(),
            fixed: List::default(),
            recent: List::default(),
            entries: Vec::new(),
            static_max: (limit as f64 * STATIC_SHARE) as u64,
            lookups: 0,
        }
    }

    fn looked(&mut self) {
        self.lookups += 1;
        if self.lookups >= PERIOD * (self.fixed.len + self.recent.len).max(64) as u64 {
            self.lookups = 0;
            self.choose();
        }
    }

    /// Chooses the static part anew: the most used entries that fit.
    fn choose(&mut self) {
        let mut all: Vec<u32> = self.links.iter(&self.fixed).chain(self.links.iter(&self.recent)).collect();
        // Newest first among equals, as they stand in the lists.
        all.sort_by_key(|slot| std::cmp::Reverse(self.entries[*slot as usize].uses));
        let mut room = self.static_max;
        for slot in all {
            let entry = &mut self.entries[slot as usize];
            let fixed = entry.uses > 1 && u64::from(entry.weight) <= room;
            if fixed {
                room -= u64::from(entry.weight);
            }
            entry.uses /= 2;
            if fixed != entry.fixed {
                let weight = entry.weight;
                entry.fixed = fixed;
                let (from, to) = match fixed {
                    true => (&mut self.recent, &mut self.fixed),
                    false => (&mut self.fixed, &mut self.recent),
                };
                self.links.unlink(from, slot, weight);
                self.links.push_front(to, slot, weight);
            }
        }
    }

    fn unlink(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let list = if entry.fixed { &mut self.fixed } else { &mut self.recent };
        self.links.unlink(list, slot, entry.weight);
    }
}

impl Replace for Sdc {
    fn insert(&mut self, slot: u32, _hash: u64, weight: u32) {
        if self.entries.len() <= slot as usize {
            self.entries.resize(slot as usize + 1, Cached::default());
        }
        self.entries[slot as usize] = Cached { weight, uses: 1, fixed: false };
        self.links.push_front(&mut self.recent, slot, weight);
    }

    fn hit(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.uses = entry.uses.saturating_add(1);
        if !entry.fixed {
            self.links.refresh(&mut self.recent, slot);
        }
        self.looked();
    }

    fn reweigh(&mut self, slot: u32, weight: u32) {
        let entry = &mut self.entries[slot as usize];
        let before = std::mem::replace(&mut entry.weight, weight);
        Links::reweigh(if entry.fixed { &mut self.fixed } else { &mut self.recent }, before, weight);
    }

    fn miss(&mut self, _hash: u64) {
        self.looked();
    }

    fn evict(&mut self) -> Option<u32> {
        let victim = [self.recent.tail, self.fixed.tail].into_iter().find(|slot| *slot != NONE)?;
        self.unlink(victim);
        Some(victim)
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
    }

    fn top(&self, count: usize) -> Vec<u32> {
        self.links.iter(&self.fixed).chain(self.links.iter(&self.recent)).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proved_popular_outlives_a_flood() {
        let mut sdc = Sdc::new(100);
        (0..100).for_each(|slot| sdc.insert(slot, 0, 1));
        for _ in 0..40 {
            (0..30).for_each(|slot| sdc.hit(slot));
        }
        // A flood of new entries takes the place of those that were never asked for again.
        let gone: Vec<u32> = (0..70).filter_map(|_| sdc.evict()).collect();
        assert!(gone.iter().all(|slot| *slot >= 30), "{gone:?}");
        assert!(sdc.top(30).iter().all(|slot| *slot < 30));
    }
}
