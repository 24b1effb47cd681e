//! Runs whichever of four ways hits most: W-TinyLFU with a small, a middling or an endless window (which is LRU), or
//! S3-FIFO. Each is tried out on a sample of the keys all the time.
//!
//! No policy is best everywhere (`docs/results/cache.md`): LRU is where people ask the same again within minutes, a small
//! window where strangers flood the cache, S3-FIFO where favourites change. So each way has a *shadow*: a store of hashes
//! without answers, for a share of the keys and with the same share of the room, a miniature simulation \[Waldspurger17\].
//! What one shadow hits and another misses is counted. A way that is ahead of the one that is run by more than chance takes
//! over.
//!
//! Between windows nothing moves but a border. Between W-TinyLFU and S3-FIFO entries move in the order in which they would
//! have gone, some with each request, so nobody waits for it; the sketch counts on and says which of them have proven
//! themselves.
//!
//! INVARIANT: a shadow has at most as many entries as it may: when it has more, half of the keys leave the sample.
//! INVARIANT: the same requests give the same choices: a key's hash says whether it is in the sample.

use super::{Replace, S3Fifo, TinyLfu};
use crate::chunks::Chunks;
use crate::store::{Entry, Store};
use farol_base::Timestamp;
use farol_base::random::mix;

/// Most entries of a shadow: 4 shadows × 2,048 × 160 bytes = 1.25 MiB.
const SHADOW_ENTRIES: usize = 2048;
/// Bytes of an entry in all shadows, about, tables that have just doubled included.
const ENTRY_BYTES: u64 = 4 * 160;
/// Where room is in bytes, shadows take at most this part of it, but have at least so many entries.
const SHADOWS_SHARE: u64 = 32;
const SHADOW_ENTRIES_MIN: u64 = 64;
/// Requests of the sample between two looks at who is ahead.
const LOOK_EVERY: u32 = 64;
/// So many deviations ahead is more than chance …
const SURE: f64 = 2.5;
/// … and so many hits for each entry of a shadow more than a mood: right after a cache is full, LRU is ahead for a while.
const LEAD: f64 = 0.03;
/// Counts are halved after so many requests for each entry of a shadow.
const FADE_AFTER: usize = 32;
/// Entries that follow a takeover with each request.
const MOVED_EACH: usize = 32;
/// What is run until something is known: LRU in caches of up to so many entries, S3-FIFO in those of more than so many.
const SMALL: usize = 512;
const LARGE: usize = 2048;

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// W-TinyLFU with a window of this share.
    Window(f64),
    S3Fifo,
}

const WAYS: [Way; 4] = [Way::Window(0.02), Way::Window(0.25), Way::Window(1.0), Way::S3Fifo];
/// Their places in [`WAYS`].
const MIDDLING: usize = 1;
const LRU: usize = 2;
const S3_FIFO: usize = 3;

/// Four ways, one of which is run.
pub struct Adaptive {
    tiny_lfu: TinyLfu,
    s3_fifo: S3Fifo,
    entries: Chunks<Placed>,
    limit: u64,
    /// The place of the way that is run.
    run: usize,
    /// Some entries are still in the policy that was run before.
    is_moving: bool,
    /// Something had to go: until then all ways are alike.
    is_full: bool,
    trial: Trial,
}

#[derive(Clone, Copy, Default)]
struct Placed {
    hash: u64,
    weight: u32,
    in_s3_fifo: bool,
}

impl Adaptive {
    /// For a store of so many entries.
    pub fn of_entries(limit: u64) -> Adaptive {
        Adaptive::new(limit, SHADOW_ENTRIES)
    }

    /// For a store of so many bytes, of which the shadows take a small part.
    pub fn of_bytes(limit: u64) -> Adaptive {
        let fit = (limit / SHADOWS_SHARE / ENTRY_BYTES).max(SHADOW_ENTRIES_MIN);
        Adaptive::new(limit, SHADOW_ENTRIES.min(usize::try_from(fit).unwrap_or(SHADOW_ENTRIES)))
    }

    fn new(limit: u64, entries_max: usize) -> Adaptive {
        let mut new = Adaptive {
            tiny_lfu: TinyLfu::new(limit),
            s3_fifo: S3Fifo::new(limit),
            entries: Chunks::default(),
            limit,
            run: MIDDLING,
            is_moving: false,
            is_full: false,
            trial: Trial::new(limit, entries_max),
        };
        new.run(MIDDLING);
        new
    }

    fn runs_s3_fifo(&self) -> bool {
        self.run == S3_FIFO
    }

    fn policy(&mut self, s3_fifo: bool) -> &mut dyn Replace {
        if s3_fifo { &mut self.s3_fifo } else { &mut self.tiny_lfu }
    }

    /// Another way takes over.
    fn run(&mut self, way: usize) {
        let before = self.runs_s3_fifo();
        self.run = way;
        if let Way::Window(share) = WAYS[way] {
            self.tiny_lfu.set_window(share);
        }
        self.is_moving |= before != self.runs_s3_fifo();
    }

    fn choose(&mut self) {
        if !self.is_moving
            && let Some(better) = self.trial.better_than(self.run)
        {
            self.run(better);
        }
    }

    /// Some entries follow a takeover, those first that would have gone first.
    fn follow(&mut self) {
        if !self.is_moving {
            return;
        }
        let s3_fifo = self.runs_s3_fifo();
        for _ in 0..MOVED_EACH {
            let Some(slot) = self.policy(!s3_fifo).evict() else {
                self.is_moving = false;
                if !s3_fifo {
                    // Its tables are not needed any more, and what its ghost remembers will be old.
                    self.s3_fifo = S3Fifo::new(self.limit);
                }
                return;
            };
            let placed = &mut self.entries[slot as usize];
            placed.in_s3_fifo = s3_fifo;
            let Placed { hash, weight, .. } = *placed;
            if s3_fifo {
                let seen = self.tiny_lfu.estimate(hash);
                self.s3_fifo.insert_seen(slot, hash, weight, seen);
            } else {
                self.tiny_lfu.insert_proven(slot, hash, weight);
            }
        }
    }

    fn take(&mut self, slot: u32, hash: u64, weight: u32, is_proven: bool) {
        if self.entries.len() <= slot as usize {
            self.entries.grow_to(slot as usize + 1);
            self.tiny_lfu.fit(self.entries.len());
        }
        let in_s3_fifo = self.runs_s3_fifo();
        self.entries[slot as usize] = Placed { hash, weight, in_s3_fifo };
        match is_proven {
            true => self.policy(in_s3_fifo).insert_proven(slot, hash, weight),
            false => self.policy(in_s3_fifo).insert(slot, hash, weight),
        }
        self.trial.give(hash, weight);
    }
}

impl Replace for Adaptive {
    fn insert(&mut self, slot: u32, hash: u64, weight: u32) {
        self.take(slot, hash, weight, false);
    }

    fn insert_proven(&mut self, slot: u32, hash: u64, weight: u32) {
        self.take(slot, hash, weight, true);
    }

    fn hit(&mut self, slot: u32) {
        let Placed { hash, weight, in_s3_fifo } = self.entries[slot as usize];
        if in_s3_fifo {
            self.tiny_lfu.count(hash);
        }
        self.policy(in_s3_fifo).hit(slot);
        self.follow();
        if self.trial.ask(hash) {
            self.trial.give(hash, weight);
            self.choose();
        }
    }

    fn reweigh(&mut self, slot: u32, weight: u32) {
        let placed = &mut self.entries[slot as usize];
        placed.weight = weight;
        let Placed { hash, in_s3_fifo, .. } = *placed;
        self.policy(in_s3_fifo).reweigh(slot, weight);
        self.trial.reweigh(hash, weight);
    }

    fn miss(&mut self, hash: u64) {
        self.tiny_lfu.count(hash);
        self.follow();
        if self.trial.ask(hash) {
            self.choose();
        }
    }

    fn evict(&mut self) -> Option<u32> {
        if !self.is_full {
            self.is_full = true;
            match self.entries.len() {
                ..=SMALL => self.run(LRU),
                entries if entries > LARGE => self.run(S3_FIFO),
                _ => {}
            }
        }
        self.follow();
        let s3_fifo = self.runs_s3_fifo();
        self.policy(s3_fifo).evict().or_else(|| self.policy(!s3_fifo).evict())
    }

    fn remove(&mut self, slot: u32) {
        let Placed { hash, in_s3_fifo, .. } = self.entries[slot as usize];
        self.policy(in_s3_fifo).remove(slot);
        self.trial.remove(hash);
    }

    /// What did not follow a takeover yet is better than what did.
    fn top(&self, count: usize) -> Vec<u32> {
        let of = |s3_fifo: bool| if s3_fifo { self.s3_fifo.top(count) } else { self.tiny_lfu.top(count) };
        let mut best = of(!self.runs_s3_fifo());
        best.extend(of(self.runs_s3_fifo()));
        best.truncate(count);
        best
    }

    fn resize(&mut self, limit: u64) {
        self.limit = limit;
        self.s3_fifo.resize(limit);
        self.tiny_lfu.resize(limit);
        self.trial.resize(limit);
    }
}

/// The four ways side by side on a sample of the keys.
struct Trial {
    shadows: [Store<(), ()>; WAYS.len()],
    /// Of the store itself.
    limit: u64,
    entries_max: usize,
    /// One key in 2 to this power is in the sample.
    halvings: u32,
    /// By way and other way: requests that the first one's shadow hit and the other's missed.
    ahead: [[f64; WAYS.len()]; WAYS.len()],
    /// Requests of the sample since counts were halved, and since they were looked at.
    unfaded: usize,
    unseen: u32,
}

impl Trial {
    fn new(limit: u64, entries_max: usize) -> Trial {
        let shadow = |way| {
            let policy: Box<dyn Replace> = match way {
                Way::Window(share) => Box::new(TinyLfu::with_window(limit, share)),
                Way::S3Fifo => Box::new(S3Fifo::new(limit)),
            };
            Store::run_by(limit, policy)
        };
        Trial {
            shadows: WAYS.map(shadow),
            limit,
            entries_max,
            halvings: 0,
            ahead: Default::default(),
            unfaded: 0,
            unseen: 0,
        }
    }

    /// By other bits than those that rings, shards and tables take.
    fn has(halvings: u32, hash: u64) -> bool {
        mix(hash ^ 0x5AD0_3E11).trailing_zeros() >= halvings
    }

    /// A request: counts who has it. Answers whether its key is in the sample.
    fn ask(&mut self, hash: u64) -> bool {
        if !Trial::has(self.halvings, hash) {
            return false;
        }
        let hits = self.shadows.each_mut().map(|shadow| shadow.get(hash, &()).is_some());
        for (ahead, one) in self.ahead.iter_mut().zip(hits) {
            for (count, other) in ahead.iter_mut().zip(hits) {
                *count += f64::from(u8::from(one && !other));
            }
        }
        self.unseen += 1;
        self.unfaded += 1;
        if self.unfaded >= FADE_AFTER * self.held().max(64) {
            self.unfaded = 0;
            self.ahead.iter_mut().flatten().for_each(|count| *count /= 2.0);
        }
        true
    }

    fn held(&self) -> usize {
        self.shadows[LRU].len()
    }

    /// An answer came, or was found where some shadow has none.
    fn give(&mut self, hash: u64, weight: u32) {
        if !Trial::has(self.halvings, hash) {
            return;
        }
        for shadow in &mut self.shadows {
            if shadow.peek(hash, &()).is_none() {
                shadow.insert(shadow_entry(hash, weight));
            }
        }
        while self.shadows.iter().any(|shadow| shadow.len() > self.entries_max) {
            self.halve();
        }
    }

    /// Half of the keys leave the sample, and with them half of the room.
    fn halve(&mut self) {
        self.halvings += 1;
        let halvings = self.halvings;
        for shadow in &mut self.shadows {
            shadow.sweep(0, usize::MAX, |entry| !Trial::has(halvings, entry.hash));
        }
        self.resize(self.limit);
    }

    fn resize(&mut self, limit: u64) {
        self.limit = limit;
        self.shadows.iter_mut().for_each(|shadow| shadow.resize(limit >> self.halvings.min(63)));
    }

    fn reweigh(&mut self, hash: u64, weight: u32) {
        if Trial::has(self.halvings, hash) {
            for shadow in &mut self.shadows {
                if shadow.peek(hash, &()).is_some() {
                    shadow.insert(shadow_entry(hash, weight));
                }
            }
        }
    }

    fn remove(&mut self, hash: u64) {
        if Trial::has(self.halvings, hash) {
            for shadow in &mut self.shadows {
                shadow.remove(hash, &());
            }
        }
    }

    /// Of the ways that are ahead of this one by more than chance, the one that is most.
    fn better_than(&mut self, run: usize) -> Option<usize> {
        if self.unseen < LOOK_EVERY {
            return None;
        }
        self.unseen = 0;
        let least = LEAD * self.held() as f64;
        let lead = |other: usize| {
            let (more, less) = (self.ahead[other][run], self.ahead[run][other]);
            let lead = more - less;
            (lead > least && lead > SURE * (more + less).sqrt()).then_some((other, lead))
        };
        (0..WAYS.len()).filter_map(lead).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(other, _)| other)
    }
}

fn shadow_entry(hash: u64, weight: u32) -> Entry<(), ()> {
    Entry { hash, key: (), value: (), weight, made: Timestamp::EPOCH, state: 0 }
}

#[cfg(test)]
mod tests;
