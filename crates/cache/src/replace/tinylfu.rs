//! W-TinyLFU: a small window for what is new, and a main part that only lets in what is asked for more often than
//! what would have to go \[Einziger17\].
//!
//! The main part is a segmented LRU. Entries differ in size, so uses *per byte* are compared: that is what room is
//! worth. The share of the window follows the stream, as in \[Einziger18\]: it grows while growing it brings hits.

use super::Replace;
use super::links::{Links, List, NONE};
use super::sketch::Sketch;
use crate::chunks::Chunks;

/// Share of the window at the start, and the least.
const WINDOW_SHARE: f64 = 0.01;
/// The window is never larger than this share.
const WINDOW_SHARE_MAX: f64 = 0.8;
/// Share of the main part that is kept for entries asked for again.
const PROTECTED_SHARE: f64 = 0.8;
/// First step of the window's share, and the least that is worth trying.
const STEP: f64 = 0.06;
const STEP_MIN: f64 = 0.005;
/// A change of the hit rate larger than this begins with large steps again.
const RESTART: f64 = 0.05;
/// Lookups per entry between two steps.
const PERIOD: u64 = 10;

/// A window that is told another share gets there in so many evictions at most.
const WINDOW_STEPS: u64 = 256;

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

#[derive(Clone, Copy, Default)]
struct Segmented {
    hash: u64,
    weight: u32,
    /// The list that it is in.
    part: u8,
}

/// Window, probation, protected, and a sketch of frequencies.
pub struct TinyLfu {
    links: Links,
    lists: [List; 3],
    entries: Chunks<Segmented>,
    sketch: Sketch,
    limit: u64,
    window_max: u64,
    protected_max: u64,
    climb: Climb,
}

/// Looks for the window's best share.
struct Climb {
    share: f64,
    step: f64,
    lookups: u64,
    hits: u64,
    /// Lookups until the next step.
    period: u64,
    rate_before: Option<f64>,
}

impl Climb {
    /// The end of a period: a step on where the last one brought hits, back where it cost some. What may be chance
    /// brought nothing, and a window that brings nothing shrinks.
    fn step(&mut self) {
        let n = self.lookups as f64;
        let rate = self.hits as f64 / n;
        (self.lookups, self.hits) = (0, 0);
        let Some(before) = self.rate_before.replace(rate) else { return };
        let change = rate - before;
        // Three deviations of the difference of two counts.
        let chance = 3.0 * (2.0 * rate * (1.0 - rate) / n).sqrt();
        if change.abs() >= RESTART {
            self.step = STEP.copysign(change * self.step);
        } else if change.abs() > chance {
            self.step = (0.9 * self.step).copysign(change * self.step);
        } else {
            self.step = -(0.5 * self.step.abs());
        }
        if self.step.abs() >= STEP_MIN {
            self.share = (self.share + self.step).clamp(WINDOW_SHARE, WINDOW_SHARE_MAX);
        }
    }
}

impl TinyLfu {
    pub fn new(limit: u64) -> TinyLfu {
        let climb =
            Climb { share: WINDOW_SHARE, step: STEP, lookups: 0, hits: 0, period: 640, rate_before: None };
        let mut new = TinyLfu {
            links: Links::default(),
            lists: [List::default(); 3],
            entries: Chunks::default(),
            sketch: Sketch::new(64),
            limit,
            window_max: 0,
            protected_max: 0,
            climb,
        };
        new.divide();
        new
    }

    /// With a window of this share, which stays.
    pub(super) fn with_window(limit: u64, share: f64) -> TinyLfu {
        let mut new = TinyLfu::new(limit);
        new.set_window(share);
        new.divide();
        new
    }

    /// Shares the room out anew.
    fn divide(&mut self) {
        self.share_out(self.window_wanted());
    }

    fn window_wanted(&self) -> u64 {
        ((self.limit as f64 * self.climb.share) as u64).max(1)
    }

    fn share_out(&mut self, window_max: u64) {
        self.window_max = window_max;
        self.protected_max = (self.limit.saturating_sub(self.window_max) as f64 * PROTECTED_SHARE) as u64;
    }

    /// Counts a request while another policy is run.
    pub(super) fn count(&mut self, hash: u64) {
        self.sketch.add(hash);
    }

    /// Takes this share for its window from now on, step by step, and looks for no better one.
    pub(super) fn set_window(&mut self, share: f64) {
        self.climb.period = u64::MAX;
        self.climb.share = share.clamp(0.0, 1.0);
    }

    /// How often a hash was asked for lately, about.
    pub(super) fn estimate(&self, hash: u64) -> u32 {
        self.sketch.estimate(hash)
    }

    /// Makes the sketch large enough for so many entries.
    pub(super) fn fit(&mut self, entries: usize) {
        self.sketch.fit(entries);
    }

    fn note(&mut self, slot: u32, hash: u64, weight: u32) {
        if self.entries.len() <= slot as usize {
            self.entries.grow_to(slot as usize + 1);
            self.fit(self.entries.len());
        }
        self.entries[slot as usize] = Segmented { hash, weight, part: WINDOW };
    }

    fn looked(&mut self, hash: u64, hit: bool) {
        self.sketch.add(hash);
        self.climb.lookups += 1;
        self.climb.hits += u64::from(hit);
        if self.climb.lookups >= self.climb.period {
            self.climb.step();
            let held: usize = self.lists.iter().map(|list| list.len).sum();
            self.climb.period = PERIOD * held.max(64) as u64;
            self.divide();
        }
    }

    fn unlink(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        self.links.unlink(&mut self.lists[usize::from(entry.part)], slot, entry.weight);
    }

    fn place(&mut self, slot: u32, part: u8) {
        let entry = &mut self.entries[slot as usize];
        entry.part = part;
        self.links.push_front(&mut self.lists[usize::from(part)], slot, entry.weight);
    }

    fn tail(&self, part: u8) -> Option<u32> {
        let tail = self.lists[usize::from(part)].tail;
        (tail != NONE).then_some(tail)
    }

    /// Uses per byte of one entry against another's, without dividing.
    fn is_worth_more(&self, one: &Segmented, other: &Segmented) -> bool {
        let worth =
            |entry: &Segmented, room: u32| u64::from(self.sketch.estimate(entry.hash)) * u64::from(room);
        worth(one, other.weight) > worth(other, one.weight)
    }
}

impl Replace for TinyLfu {
    fn insert(&mut self, slot: u32, hash: u64, weight: u32) {
        self.note(slot, hash, weight);
        self.place(slot, WINDOW);
    }

    /// It need not pass through the window.
    fn insert_proven(&mut self, slot: u32, hash: u64, weight: u32) {
        self.note(slot, hash, weight);
        self.place(slot, PROBATION);
    }

    fn hit(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        self.looked(entry.hash, true);
        if entry.part != PROBATION {
            self.links.refresh(&mut self.lists[usize::from(entry.part)], slot);
            return;
        }
        self.unlink(slot);
        self.place(slot, PROTECTED);
        while self.lists[usize::from(PROTECTED)].weight > self.protected_max
            && let Some(oldest) = self.tail(PROTECTED)
            && oldest != slot
        {
            self.unlink(oldest);
            self.place(oldest, PROBATION);
        }
    }

    fn reweigh(&mut self, slot: u32, weight: u32) {
        let entry = &mut self.entries[slot as usize];
        let before = std::mem::replace(&mut entry.weight, weight);
        Links::reweigh(&mut self.lists[usize::from(entry.part)], before, weight);
    }

    fn miss(&mut self, hash: u64) {
        self.looked(hash, false);
    }

    fn evict(&mut self) -> Option<u32> {
        let wanted = self.window_wanted();
        if wanted != self.window_max {
            // What falls out of a window that shrinks is moved in this call: so a little at a time.
            let step = (self.limit / WINDOW_STEPS).max(1);
            self.share_out(wanted.clamp(self.window_max.saturating_sub(step), self.window_max + step));
        }
        let mut candidate = None;
        while self.lists[usize::from(WINDOW)].weight > self.window_max
            && let Some(oldest) = self.tail(WINDOW)
        {
            self.unlink(oldest);
            self.place(oldest, PROBATION);
            candidate = Some(oldest);
        }
        // Where many came at once, the newest of them competes with the oldest.
        let oldest = self.tail(PROBATION).filter(|oldest| candidate != Some(*oldest));
        let victim = oldest.or_else(|| self.tail(PROTECTED));
        let gone = match (victim, candidate) {
            (Some(victim), Some(candidate)) => {
                let (new, old) = (self.entries[candidate as usize], self.entries[victim as usize]);
                if self.is_worth_more(&new, &old) { victim } else { candidate }
            }
            (victim, candidate) => victim.or(candidate).or_else(|| self.tail(WINDOW))?,
        };
        self.unlink(gone);
        Some(gone)
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
    }

    fn top(&self, count: usize) -> Vec<u32> {
        let order = [PROTECTED, PROBATION, WINDOW];
        order.iter().flat_map(|part| self.links.iter(&self.lists[usize::from(*part)])).take(count).collect()
    }

    fn resize(&mut self, limit: u64) {
        self.limit = limit;
        self.divide();
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
