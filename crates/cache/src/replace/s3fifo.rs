//! S3-FIFO: three queues, no list to touch on a hit \[Yang23\].
//!
//! New entries pass through a small queue, a tenth of the room. Those asked for more than once since they came move to the
//! main queue; the others leave, and a *ghost* remembers their hash for a while: who comes back goes to the main queue at
//! once.

use super::Replace;
use super::links::{Links, List, NONE};
use crate::chunks::Chunks;

/// Share of the small queue.
const SMALL_SHARE: f64 = 0.1;
/// Uses that are counted.
const USES_MAX: u8 = 3;
/// So many uses take an entry from the small queue to the main one, as in the paper. After one use alone (as it was here
/// for long) it costs a point of hits in small caches: one repetition within minutes is no sign of another.
const PROMOTED_AT: u8 = 2;
/// So many used entries are passed over for one victim, then the next one goes all the same: nobody waits for more.
const ROUNDS_MAX: usize = 4096;
/// Entries of a bucket of the ghost.
const WAYS: usize = 4;

/// Two queues and a ghost.
pub struct S3Fifo {
    links: Links,
    small: List,
    main: List,
    entries: Chunks<Queued>,
    small_max: u64,
    ghost: Ghost,
}

#[derive(Clone, Copy, Default)]
struct Queued {
    hash: u64,
    weight: u32,
    uses: u8,
    main: bool,
}

fn small_share(limit: u64) -> u64 {
    ((limit as f64 * SMALL_SHARE) as u64).max(1)
}

impl S3Fifo {
    pub fn new(limit: u64) -> S3Fifo {
        S3Fifo {
            links: Links::default(),
            small: List::default(),
            main: List::default(),
            entries: Chunks::default(),
            small_max: small_share(limit),
            ghost: Ghost::default(),
        }
    }

    fn note(&mut self, slot: u32, hash: u64, weight: u32) {
        if self.entries.len() <= slot as usize {
            self.entries.grow_to(slot as usize + 1);
        }
        self.entries[slot as usize] = Queued { hash, weight, uses: 0, main: false };
    }

    /// Takes in an entry that was asked for about so often, behind none of those taken in before.
    pub(super) fn insert_seen(&mut self, slot: u32, hash: u64, weight: u32, seen: u32) {
        self.note(slot, hash, weight);
        // The first request brought it.
        let uses = seen.saturating_sub(1).min(u32::from(USES_MAX)) as u8;
        if uses < PROMOTED_AT {
            self.entries[slot as usize].uses = uses;
            self.links.push_front(&mut self.small, slot, weight);
        } else {
            self.promote(slot);
        }
    }

    fn promote(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.main = true;
        let weight = entry.weight;
        self.links.push_front(&mut self.main, slot, weight);
    }

    /// A victim of the small queue; those used often enough since they came move on.
    fn evict_small(&mut self) -> Option<u32> {
        while self.small.tail != NONE {
            let slot = self.small.tail;
            let entry = self.entries[slot as usize];
            self.links.unlink(&mut self.small, slot, entry.weight);
            if entry.uses < PROMOTED_AT {
                self.ghost.add(entry.hash, self.main.len + self.small.len);
                return Some(slot);
            }
            self.entries[slot as usize].uses = 0;
            self.promote(slot);
        }
        None
    }

    /// A victim of the main queue; those used get another round, at most three.
    fn evict_main(&mut self) -> Option<u32> {
        let mut rounds = 0;
        while self.main.tail != NONE {
            let slot = self.main.tail;
            let entry = &mut self.entries[slot as usize];
            let weight = entry.weight;
            self.links.unlink(&mut self.main, slot, weight);
            if entry.uses == 0 || rounds == ROUNDS_MAX {
                return Some(slot);
            }
            rounds += 1;
            entry.uses -= 1;
            self.links.push_front(&mut self.main, slot, weight);
        }
        None
    }
}

impl Replace for S3Fifo {
    fn insert(&mut self, slot: u32, hash: u64, weight: u32) {
        self.note(slot, hash, weight);
        if self.ghost.take(hash) {
            self.promote(slot);
        } else {
            self.links.push_front(&mut self.small, slot, weight);
        }
    }

    fn insert_proven(&mut self, slot: u32, hash: u64, weight: u32) {
        self.note(slot, hash, weight);
        self.promote(slot);
    }

    fn hit(&mut self, slot: u32) {
        let uses = &mut self.entries[slot as usize].uses;
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn reweigh(&mut self, slot: u32, weight: u32) {
        let entry = &mut self.entries[slot as usize];
        let before = std::mem::replace(&mut entry.weight, weight);
        Links::reweigh(if entry.main { &mut self.main } else { &mut self.small }, before, weight);
    }

    fn evict(&mut self) -> Option<u32> {
        if self.small.weight > self.small_max || self.main.len == 0 {
            return self.evict_small().or_else(|| self.evict_main());
        }
        self.evict_main().or_else(|| self.evict_small())
    }

    fn remove(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let list = if entry.main { &mut self.main } else { &mut self.small };
        self.links.unlink(list, slot, entry.weight);
    }

    /// Main entries by their uses, then the small queue.
    fn top(&self, count: usize) -> Vec<u32> {
        let mut main: Vec<u32> = self.links.iter(&self.main).collect();
        main.sort_by_key(|slot| std::cmp::Reverse(self.entries[*slot as usize].uses));
        main.into_iter().chain(self.links.iter(&self.small)).take(count).collect()
    }

    fn resize(&mut self, limit: u64) {
        self.small_max = small_share(limit);
    }
}

/// Hashes of entries that left, as 32 bits and the time they left at; forgets by itself.
#[derive(Default)]
struct Ghost {
    buckets: Vec<[(u32, u32); WAYS]>,
    time: u32,
    /// How long a hash is remembered, in hashes.
    span: u32,
}

impl Ghost {
    fn add(&mut self, hash: u64, entries: usize) {
        let wanted = (entries / WAYS + 1).next_power_of_two().min(1 << 26);
        if self.buckets.len() < wanted {
            // What was remembered is lost; this happens while the cache fills up.
            self.buckets = vec![[(0, 0); WAYS]; wanted];
            self.time = 0;
        }
        self.span = u32::try_from(entries.max(1)).unwrap_or(u32::MAX);
        self.time = self.time.wrapping_add(1).max(1);
        let (at, mark) = self.place(hash);
        let (time, span) = (self.time, self.span);
        let bucket = &mut self.buckets[at];
        let oldest = (0..WAYS).max_by_key(|way| match bucket[*way] {
            (0, _) => u32::MAX,
            (_, then) => time.wrapping_sub(then).min(span + 1),
        });
        bucket[oldest.unwrap_or(0)] = (mark, time);
    }

    fn take(&mut self, hash: u64) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let (at, mark) = self.place(hash);
        for (known, then) in &mut self.buckets[at] {
            if *known == mark {
                *known = 0;
                return self.time.wrapping_sub(*then) <= self.span;
            }
        }
        false
    }

    fn place(&self, hash: u64) -> (usize, u32) {
        (hash as usize & (self.buckets.len() - 1), ((hash >> 32) as u32).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;

    #[test]
    fn who_comes_back_goes_to_the_main_queue() {
        let mut queue = S3Fifo::new(10);
        (0..10).for_each(|slot| queue.insert(slot, mix(u64::from(slot)), 1));
        assert_eq!(queue.evict(), Some(0), "never asked for again");
        queue.hit(1);
        queue.hit(1);
        queue.hit(2);
        assert_eq!(queue.evict(), Some(2), "1 was asked for twice and moved on, 2 once");
        queue.insert(0, mix(0), 1);
        assert!(queue.entries[0].main, "its ghost was remembered");
        assert_eq!(queue.top(1), [0]);
    }
}
