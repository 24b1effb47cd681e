//! W-TinyLFU: a small window for what is new, and a main part that only lets in what is asked for more often than
//! what would have to go (Einziger, Friedman and Manes, "TinyLFU", ACM TOS 2017).
//!
//! The main part is a segmented LRU. Entries differ in size, so uses *per byte* are compared: that is what room is
//! worth. The share of the window follows the stream, as in Einziger, Eytan, Friedman and Manes, "Adaptive software cache
//! management" (2018): it grows while growing it brings hits.

use super::Replace;
use super::links::{Links, List, NONE};
use super::sketch::Sketch;

/// Share of the window at the start.
const WINDOW_SHARE: f64 = 0.01;
/// The window is never larger than this share.
const WINDOW_SHARE_MAX: f64 = 0.8;
/// Share of the main part that is kept for entries asked for again.
const PROTECTED_SHARE: f64 = 0.8;
/// First step of the window's share, and what is left of a step after each.
const STEP: f64 = 0.0625;
const STEP_DECAY: f64 = 0.98;
/// A change of the hit rate larger than this begins with large steps again.
const RESTART: f64 = 0.05;
/// Lookups per entry between two steps.
const PERIOD: u64 = 10;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Window,
    Probation,
    Protected,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    weight: u32,
    part: Part,
}

/// Window, probation, protected, and a sketch of frequencies.
pub struct TinyLfu {
    links: Links,
    window: List,
    probation: List,
    protected: List,
    entries: Vec<Entry>,
    sketch: Sketch,
    limit: u64,
    climb: Climb,
}

/// Looks for the window's best share.
struct Climb {
    share: f64,
    step: f64,
    lookups: u64,
    hits: u64,
    rate_before: Option<f64>,
}

impl Climb {
    fn window_max(&self, limit: u64) -> u64 {
        ((limit as f64 * self.share) as u64).max(1)
    }

    fn looked(&mut self, hit: bool, entries: usize) {
        self.lookups += 1;
        self.hits += u64::from(hit);
        if self.lookups < PERIOD * entries.max(64) as u64 {
            return;
        }
        let rate = self.hits as f64 / self.lookups as f64;
        (self.lookups, self.hits) = (0, 0);
        let Some(before) = self.rate_before.replace(rate) else { return };
        if rate < before {
            self.step = -self.step;
        }
        if (rate - before).abs() >= RESTART {
            self.step = STEP.copysign(self.step);
        } else {
            self.step *= STEP_DECAY;
        }
        self.share = (self.share + self.step).clamp(WINDOW_SHARE, WINDOW_SHARE_MAX);
    }
}

impl TinyLfu {
    pub fn new(limit: u64) -> TinyLfu {
        TinyLfu {
            links: Links::default(),
            window: List::default(),
            probation: List::default(),
            protected: List::default(),
            entries: Vec::new(),
            sketch: Sketch::new(64),
            limit,
            climb: Climb { share: WINDOW_SHARE, step: STEP, lookups: 0, hits: 0, rate_before: None },
        }
    }

    fn list(&mut self, part: Part) -> &mut List {
        match part {
            Part::Window => &mut self.window,
            Part::Probation => &mut self.probation,
            Part::Protected => &mut self.protected,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let mut list = *self.list(entry.part);
        self.links.unlink(&mut list, slot, entry.weight);
        *self.list(entry.part) = list;
    }

    fn place(&mut self, slot: u32, part: Part) {
        let entry = &mut self.entries[slot as usize];
        entry.part = part;
        let weight = entry.weight;
        let mut list = *self.list(part);
        self.links.push_front(&mut list, slot, weight);
        *self.list(part) = list;
    }

    fn protected_max(&self) -> u64 {
        let main = self.limit.saturating_sub(self.climb.window_max(self.limit));
        (main as f64 * PROTECTED_SHARE) as u64
    }

    /// Uses per byte of one entry against another's, without dividing.
    fn is_worth_more(&self, one: &Entry, other: &Entry) -> bool {
        let worth = |entry: &Entry, room: u32| u64::from(self.sketch.estimate(entry.hash)) * u64::from(room);
        worth(one, other.weight) > worth(other, one.weight)
    }
}

impl Replace for TinyLfu {
    fn insert(&mut self, slot: u32, hash: u64, weight: u32) {
        if self.entries.len() <= slot as usize {
            self.entries.resize(slot as usize + 1, Entry::default());
            self.sketch.fit(self.entries.len());
        }
        self.entries[slot as usize] = Entry { hash, weight, part: Part::Window };
        self.place(slot, Part::Window);
    }

    fn hit(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        self.sketch.add(entry.hash);
        let held = self.window.len + self.probation.len + self.protected.len;
        self.climb.looked(true, held);
        match entry.part {
            Part::Window => self.links.refresh(&mut self.window, slot),
            Part::Protected => self.links.refresh(&mut self.protected, slot),
            Part::Probation => {
                self.unlink(slot);
                self.place(slot, Part::Protected);
                let most = self.protected_max();
                while self.protected.weight > most && self.protected.len > 1 {
                    let oldest = self.protected.tail;
                    self.unlink(oldest);
                    self.place(oldest, Part::Probation);
                }
            }
        }
    }

    fn miss(&mut self, hash: u64) {
        self.sketch.add(hash);
        let held = self.window.len + self.probation.len + self.protected.len;
        self.climb.looked(false, held);
    }

    fn evict(&mut self) -> Option<u32> {
        let mut candidate = NONE;
        let window_max = self.climb.window_max(self.limit);
        let mut victim = [self.probation.tail, self.protected.tail].into_iter().find(|slot| *slot != NONE);
        while self.window.weight > window_max {
            candidate = self.window.tail;
            self.unlink(candidate);
            self.place(candidate, Part::Probation);
            victim = victim.or(Some(candidate));
        }
        let mut gone = match victim {
            Some(victim) => victim,
            None if self.window.tail != NONE => self.window.tail,
            None => return None,
        };
        if candidate != NONE && candidate != gone {
            let (new, old) = (self.entries[candidate as usize], self.entries[gone as usize]);
            if !self.is_worth_more(&new, &old) {
                gone = candidate;
            }
        }
        self.unlink(gone);
        Some(gone)
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
    }

    fn top(&self, count: usize) -> Vec<u32> {
        let lists = [&self.protected, &self.probation, &self.window];
        lists.into_iter().flat_map(|list| self.links.iter(list)).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;

    #[test]
    fn a_flood_of_strangers_does_not_drive_friends_out() {
        let mut cache = TinyLfu::new(100);
        (0..100u32).for_each(|slot| {
            cache.miss(mix(u64::from(slot)));
            cache.insert(slot, mix(u64::from(slot)), 1);
        });
        for _ in 0..3 {
            (0..90).for_each(|slot| cache.hit(slot));
        }
        for stranger in 1000..2000u64 {
            cache.miss(mix(stranger));
            cache.insert(100, mix(stranger), 1);
            let gone = cache.evict().unwrap();
            if gone != 100 {
                // The stranger took this slot's place; give it back for the next one.
                assert!(gone >= 90, "a friend was given up");
                cache.remove(100);
                cache.insert(gone, mix(u64::from(gone)), 1);
            }
        }
        assert!(cache.top(100).iter().filter(|slot| **slot < 90).count() == 90);
    }
}
