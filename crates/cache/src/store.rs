//! The store of a cache node: a slab of entries under a hash index, bounded by weight.
//!
//! The product runs it. It keeps and orders; how old an answer may be is the node's to say ([`crate::freshness`]).
//!
//! INVARIANT: the weights of all entries together never exceed the limit. Weights are bytes, to which the store adds what
//! its own tables cost *here* (another program's tables cost something else), or 1 per entry where a simulator counts
//! entries.
//! INVARIANT: of two answers under one key the newer one stays, in whichever order they come.
//! INVARIANT: work over many entries goes in steps of as many slots as the caller says ([`Store::walk`],
//! [`Store::sweep`]); nothing else looks at more than a few.
//!
//! Which entry is evicted is decided by a [`Replace`] policy.

use crate::chunks::Chunks;
use crate::replace::{Policy, Replace};
use farol_base::Timestamp;
use farol_base::random::mix;
use hashbrown::HashTable;

/// An entry heavier than this share of the limit is not kept: it would drive out too many others.
const WEIGHT_SHARE_MAX: u64 = 8;
/// Parts of the index: a tenth of a millisecond is enough to make one of some thousands of slots anew.
const INDEX_PARTS: usize = 32;
/// Uses are counted to here.
pub const USES_MAX: u8 = 15;

/// Where a hash stands in tables. Keys of one shard have the low bits of their hashes in common and keys of one node the
/// high ones, and tables take either.
fn placed(hash: u64) -> u64 {
    mix(hash)
}

/// By bits that the table itself does not take.
fn part(placed: u64) -> usize {
    (placed >> 40) as usize % INDEX_PARTS
}

/// Something kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<K, V> {
    pub hash: u64,
    pub key: K,
    pub value: V,
    /// What it weighs by itself, without the tables of any store.
    pub weight: u32,
    /// By the clock of whoever holds it.
    pub made: Timestamp,
    /// The state of what answers are made from; a greater number is a later state.
    pub state: u64,
}

impl<K, V> Entry<K, V> {
    /// What decides which of two answers is newer.
    fn stamp(&self) -> (u64, Timestamp) {
        (self.state, self.made)
    }
}

/// An entry on its way to another store, with what it was worth where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven<K, V> {
    /// How often it was asked for lately, from 0 to [`USES_MAX`].
    pub uses: u8,
    pub entry: Entry<K, V>,
}

/// What one step over the slots did.
#[derive(Debug)]
pub struct Step<T> {
    /// Where the next step begins; `None` at the end.
    pub next: Option<usize>,
    pub found: Vec<T>,
}

/// Entries up to a limit.
pub struct Store<K, V> {
    /// Slots by hash, in parts: one that doubles holds nobody up.
    index: Box<[HashTable<u32>]>,
    slots: Chunks<Option<Entry<K, V>>>,
    /// By slot: how often it was asked for since it came, halved by each round that looks at it. Half of all queries are
    /// never asked again.
    uses: Chunks<u8>,
    /// How many entries have each number of uses.
    by_uses: [usize; USES_MAX as usize + 1],
    free: Vec<u32>,
    policy: Box<dyn Replace>,
    /// What each entry weighs beside what it is said to weigh.
    overhead: u32,
    weight: u64,
    limit: u64,
    evicted: u64,
}

impl<K, V> Store<K, V> {
    /// Bytes that the tables need for each entry: the slot, its place in the index, what policies keep of it (the adaptive one
    /// most: 16 bytes, 32 of S3-FIFO's or W-TinyLFU's and 32 of its sketch); twice, because tables grow by doubling.
    pub const OVERHEAD: u32 = 2 * (std::mem::size_of::<Option<Entry<K, V>>>() as u32 + 8 + 80);

    /// A store for weights in bytes.
    pub fn of_bytes(limit: u64, policy: Policy) -> Store<K, V> {
        Store::new(limit, policy.of_bytes(limit), Self::OVERHEAD)
    }

    /// A store for `limit` entries, each of weight 1.
    pub fn of_entries(limit: u64, policy: Policy) -> Store<K, V> {
        Store::new(limit, policy.of_entries(limit), 0)
    }

    /// The same with a policy that has no name of its own.
    pub(crate) fn run_by(limit: u64, policy: Box<dyn Replace>) -> Store<K, V> {
        Store::new(limit, policy, 0)
    }

    fn new(limit: u64, policy: Box<dyn Replace>, overhead: u32) -> Store<K, V> {
        Store {
            index: (0..INDEX_PARTS).map(|_| HashTable::new()).collect(),
            slots: Chunks::default(),
            uses: Chunks::default(),
            by_uses: [0; USES_MAX as usize + 1],
            free: Vec::new(),
            policy,
            overhead,
            weight: 0,
            limit,
            evicted: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn weight(&self) -> u64 {
        self.weight
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Entries given up for room so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All entries, in no special order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<K, V>> {
        self.slots.iter().flatten()
    }

    /// The most important entries, best first, by the policy's order.
    pub fn top(&self, count: usize) -> impl Iterator<Item = &Entry<K, V>> {
        self.policy.top(count).into_iter().filter_map(|slot| self.slots[slot as usize].as_ref())
    }

    /// The least number of uses that at most so many entries have, and how many of the next lower number would still fit.
    pub fn mark_for(&self, count: usize) -> (u8, usize) {
        let mut room = count;
        for uses in (0..=USES_MAX).rev() {
            let here = self.by_uses[usize::from(uses)];
            if here > room {
                return (uses + 1, room);
            }
            room -= here;
        }
        (0, room)
    }

    /// Holds weights up to this from now on; others go at once where they are more.
    pub fn resize(&mut self, limit: u64) {
        self.limit = limit;
        self.policy.resize(limit);
        while self.weight > self.limit {
            let Some(victim) = self.policy.evict() else { break };
            self.forget(victim);
            self.evicted += 1;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        while let Some(slot) = self.policy.evict() {
            self.forget(slot);
        }
    }

    fn forget(&mut self, slot: u32) -> Option<Proven<K, V>> {
        let entry = self.slots[slot as usize].take()?;
        let place = placed(entry.hash);
        if let Ok(found) = self.index[part(place)].find_entry(place, |known| *known == slot) {
            found.remove();
        }
        self.weight -= self.full(entry.weight);
        let uses = std::mem::take(&mut self.uses[slot as usize]);
        self.by_uses[usize::from(uses)] -= 1;
        self.free.push(slot);
        Some(Proven { uses, entry })
    }

    /// What an entry weighs with the tables.
    fn full(&self, weight: u32) -> u64 {
        u64::from(weight.saturating_add(self.overhead).max(1))
    }

    fn set_uses(&mut self, slot: u32, uses: u8) {
        let known = &mut self.uses[slot as usize];
        self.by_uses[usize::from(*known)] -= 1;
        *known = uses.min(USES_MAX);
        self.by_uses[usize::from(*known)] += 1;
    }

    /// Looks at `budget` slots from one on, and lets their uses fade by half.
    pub fn walk<T>(
        &mut self,
        from: usize,
        budget: usize,
        mut see: impl FnMut(&Entry<K, V>, u8) -> Option<T>,
    ) -> Step<T> {
        let end = from.saturating_add(budget.max(1)).min(self.slots.len());
        let mut found = Vec::new();
        for slot in from..end {
            let Some(entry) = &self.slots[slot] else { continue };
            let uses = self.uses[slot];
            found.extend(see(entry, uses));
            // What was asked for once stays known as that: half of one use is one.
            self.set_uses(slot as u32, uses - uses / 2);
        }
        Step { next: (end < self.slots.len()).then_some(end), found }
    }

    /// Looks at `budget` slots from one on, and changes nothing.
    pub fn look<T>(
        &self,
        from: usize,
        budget: usize,
        mut see: impl FnMut(&Entry<K, V>, u8) -> Option<T>,
    ) -> Step<T> {
        let end = from.saturating_add(budget.max(1)).min(self.slots.len());
        let found = (from..end).filter_map(|at| see(self.slots[at].as_ref()?, self.uses[at])).collect();
        Step { next: (end < self.slots.len()).then_some(end), found }
    }

    /// Looks at `budget` slots from one on, and takes out those that this is true of.
    pub fn sweep(
        &mut self,
        from: usize,
        budget: usize,
        mut goes: impl FnMut(&Entry<K, V>) -> bool,
    ) -> Step<Proven<K, V>> {
        let end = from.saturating_add(budget.max(1)).min(self.slots.len());
        let mut found = Vec::new();
        for slot in from..end {
            if self.slots[slot].as_ref().is_some_and(&mut goes) {
                self.policy.remove(slot as u32);
                found.extend(self.forget(slot as u32));
            }
        }
        Step { next: (end < self.slots.len()).then_some(end), found }
    }
}

impl<K: Eq, V> Store<K, V> {
    fn find(&self, hash: u64, key: &K) -> Option<u32> {
        let (slots, place) = (&self.slots, placed(hash));
        self.index[part(place)]
            .find(place, |slot| {
                slots[*slot as usize].as_ref().is_some_and(|entry| entry.hash == hash && entry.key == *key)
            })
            .copied()
    }

    /// Looks an entry up; it counts as asked for.
    pub fn get(&mut self, hash: u64, key: &K) -> Option<&Entry<K, V>> {
        let Some(slot) = self.find(hash, key) else {
            self.policy.miss(placed(hash));
            return None;
        };
        self.policy.hit(slot);
        let uses = self.uses[slot as usize];
        if uses < USES_MAX {
            self.set_uses(slot, uses + 1);
        }
        self.slots[slot as usize].as_ref()
    }

    /// Looks an entry up without counting it.
    pub fn peek(&self, hash: u64, key: &K) -> Option<&Entry<K, V>> {
        self.find(hash, key).and_then(|slot| self.slots[slot as usize].as_ref())
    }

    /// Changes the value of an entry, without a word on its importance.
    pub fn peek_mut(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let slot = self.find(hash, key)?;
        self.slots[slot as usize].as_mut().map(|entry| &mut entry.value)
    }

    /// Takes an entry in, or puts it in the place of an older one of the same key. Others may have to go, or the
    /// entry itself is given up at once: the policy decides. Answers whether it was kept.
    pub fn insert(&mut self, entry: Entry<K, V>) -> bool {
        self.put(entry, None)
    }

    /// Takes in an entry that stood in another store. What was asked for there is taken in as proven; what nobody asked
    /// for again only where there is room: it is worth no more than what would have to go.
    pub fn take_over(&mut self, given: Proven<K, V>) -> bool {
        let Proven { uses, entry } = given;
        let has_room = self.weight + self.full(entry.weight) <= self.limit;
        if uses == 0 && !has_room && self.find(entry.hash, &entry.key).is_none() {
            return false;
        }
        self.put(entry, Some(uses))
    }

    /// `stood`: it stood elsewhere before, with so many uses.
    fn put(&mut self, entry: Entry<K, V>, stood: Option<u8>) -> bool {
        let full = self.full(entry.weight);
        if full > (self.limit / WEIGHT_SHARE_MAX).max(1) || self.limit == 0 {
            return false;
        }
        let weight = u32::try_from(full).unwrap_or(u32::MAX);
        let slot = match self.find(entry.hash, &entry.key) {
            Some(slot) => {
                if self.slots[slot as usize].as_ref().is_some_and(|known| known.stamp() > entry.stamp()) {
                    return false;
                }
                let before = self.slots[slot as usize].replace(entry).map_or(0, |known| known.weight);
                self.weight = self.weight - self.full(before) + full;
                self.policy.reweigh(slot, weight);
                slot
            }
            None => self.place(entry, full, stood),
        };
        let mut kept = true;
        while self.weight > self.limit {
            let Some(victim) = self.policy.evict() else { break };
            kept &= victim != slot;
            self.forget(victim);
            self.evicted += 1;
        }
        kept
    }

    /// Gives a new entry a slot.
    fn place(&mut self, entry: Entry<K, V>, full: u64, stood: Option<u8>) -> u32 {
        let (hash, weight) = (placed(entry.hash), u32::try_from(full).unwrap_or(u32::MAX));
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.grow_to(self.slots.len() + 1);
                self.uses.grow_to(self.slots.len());
                (self.slots.len() - 1) as u32
            }
        };
        let uses = stood.unwrap_or(0).min(USES_MAX);
        self.weight += full;
        self.slots[slot as usize] = Some(entry);
        self.uses[slot as usize] = uses;
        self.by_uses[usize::from(uses)] += 1;
        let slots = &self.slots;
        self.index[part(hash)].insert_unique(hash, slot, |slot| {
            slots[*slot as usize].as_ref().map_or(0, |entry| placed(entry.hash))
        });
        match uses {
            0 => self.policy.insert(slot, hash, weight),
            _ => self.policy.insert_proven(slot, hash, weight),
        }
        slot
    }

    pub fn remove(&mut self, hash: u64, key: &K) -> Option<Entry<K, V>> {
        let slot = self.find(hash, key)?;
        self.policy.remove(slot);
        self.forget(slot).map(|proven| proven.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn entry(key: u64, weight: u32, at: u64, state: u64) -> Entry<u64, u64> {
        Entry { hash: mix(key), key, value: key, weight, made: Timestamp::from_secs(at), state }
    }

    fn value(store: &mut Store<u64, u64>, key: u64) -> Option<u64> {
        store.get(mix(key), &key).map(|entry| entry.value)
    }

    #[test]
    fn the_newer_answer_stays_whichever_comes_first() {
        let check = |first: (u64, u64), second: (u64, u64), stays: u64| {
            let mut store = Store::of_entries(10, Policy::Lru);
            store.insert(Entry { value: 1, ..entry(7, 1, first.0, first.1) });
            assert_eq!(store.insert(Entry { value: 2, ..entry(7, 1, second.0, second.1) }), stays == 2);
            assert_eq!((store.len(), value(&mut store, 7)), (1, Some(stays)), "{first:?} {second:?}");
        };
        // When it was made, and of which state.
        check((50, 0), (40, 0), 1);
        check((50, 0), (60, 0), 2);
        check((50, 0), (50, 0), 2); // The same once more.
        check((50, 3), (60, 2), 1); // A later state counts for more than a later time.
        check((60, 2), (50, 3), 2);
    }

    #[test]
    fn an_answer_that_is_replaced_keeps_its_place_and_is_weighed_anew() {
        for policy in Policy::ALL {
            let mut store: Store<u64, u64> = Store::of_bytes(100_000, policy);
            store.insert(entry(1, 100, 1, 0));
            let before = store.weight();
            store.insert(entry(1, 5_000, 2, 0));
            assert_eq!(store.weight(), before + 4_900, "{}", policy.name());
            store.insert(entry(1, 10, 3, 0));
            assert_eq!(store.weight(), before - 90);
            store.remove(mix(1), &1);
            assert_eq!(store.weight(), 0);
        }
        // S3-FIFO gives up what nobody asked for; an answer that is made anew was asked for all the same.
        let mut store = Store::of_entries(10, Policy::S3Fifo);
        (0..10).for_each(|key| {
            store.insert(entry(key, 1, 0, 0));
        });
        (0..2).for_each(|_| assert_eq!(value(&mut store, 0), Some(0)));
        store.insert(entry(0, 1, 1, 1));
        (10..15).for_each(|key| {
            store.insert(entry(key, 1, 1, 1));
        });
        assert!(store.peek(mix(0), &0).is_some() && store.peek(mix(1), &1).is_none());
    }

    #[test]
    fn what_is_too_heavy_is_not_kept() {
        let mut store = Store::of_entries(80, Policy::TinyLfu);
        assert!(!store.insert(entry(1, 11, 0, 0)));
        assert!(store.insert(entry(1, 10, 0, 0)));
        let mut none: Store<u64, u64> = Store::of_entries(0, Policy::TinyLfu);
        assert!(!none.insert(entry(1, 1, 0, 0)));
        assert!(none.is_empty());
    }

    #[test]
    fn keys_with_one_hash_are_different_keys() {
        let mut store = Store::of_entries(10, Policy::S3Fifo);
        let same = |key: u64| Entry { hash: 9, ..entry(key, 1, 0, 0) };
        store.insert(same(1));
        store.insert(same(2));
        let mut get = |key: u64| store.get(9, &key).map(|entry| entry.key);
        assert_eq!([get(1), get(2), get(3)], [Some(1), Some(2), None]);
        assert_eq!(store.remove(9, &1).map(|entry| entry.key), Some(1));
        assert_eq!(store.get(9, &1), None);
    }

    #[test]
    fn what_was_asked_for_elsewhere_is_taken_over_and_the_rest_where_there_is_room() {
        let mut store = Store::of_entries(20, Policy::S3Fifo);
        (0..19).for_each(|key| {
            store.insert(entry(key, 1, 0, 0));
        });
        let given = |key: u64, uses: u8| Proven { uses, entry: entry(key, 1, 0, 0) };
        assert!(store.take_over(given(100, 0)), "there is room for one");
        assert!(!store.take_over(given(101, 0)));
        assert!(store.take_over(given(102, 3)), "somebody has to go for it");
        assert_eq!((store.len(), store.mark_for(1)), (20, (1, 0)));
        // An older answer does not replace a newer one, proven or not.
        store.insert(Entry { value: 9, ..entry(102, 1, 5, 5) });
        assert!(!store.take_over(given(102, 15)));
        assert_eq!(value(&mut store, 102), Some(9));
    }

    #[test]
    fn steps_over_slots_see_each_entry_once() {
        let mut store = Store::of_entries(1000, Policy::Lru);
        (0..500).for_each(|key| {
            store.insert(entry(key, 1, 0, 0));
        });
        for key in 0..40 {
            (0..=key).for_each(|_| assert_eq!(value(&mut store, key), Some(key)));
        }
        // Fifteen and more uses count as fifteen: 26 have these, and one each has less.
        assert_eq!(
            (store.mark_for(20), store.mark_for(30), store.mark_for(50)),
            ((16, 20), (11, 0), (1, 10))
        );
        let (mut from, mut seen, mut steps) = (Some(0), Vec::new(), 0);
        while let Some(at) = from {
            let step = store.walk(at, 64, |entry, uses| (uses > 0).then_some(entry.key));
            (from, steps) = (step.next, steps + 1);
            seen.extend(step.found);
        }
        assert_eq!((steps, seen), (8, (0..40).collect::<Vec<u64>>()));
        assert_eq!(store.mark_for(26), (8, 0), "uses fade by half");
        let step = store.sweep(0, usize::MAX, |entry| entry.key % 2 == 0);
        assert_eq!((step.found.len(), step.next, store.len(), store.weight()), (250, None, 250, 250));
    }

    #[test]
    fn keys_whose_hashes_have_bits_in_common_are_kept_as_well_as_others() {
        // As in one shard of 64: the low bits of all hashes are alike. The ghost of S3-FIFO and the sketch of W-TinyLFU had
        // a 64th of their places then, which cost up to 3.8 points of hits.
        for policy in [Policy::S3Fifo, Policy::TinyLfu, Policy::Adaptive] {
            let hits = |place: fn(u64) -> u64| {
                let mut store: Store<u64, ()> = Store::of_entries(1_000, policy);
                let mut random = farol_base::Seeded::new(1);
                (0..100_000)
                    .filter(|_| {
                        let key = (farol_base::Random::unit(&mut random) * 100_000f64.ln()).exp() as u64;
                        let hash = place(mix(key));
                        let is_hit = store.get(hash, &key).is_some();
                        if !is_hit {
                            let made = Timestamp::EPOCH;
                            store.insert(Entry { hash, key, value: (), weight: 1, made, state: 0 });
                        }
                        is_hit
                    })
                    .count()
            };
            let [one, other] = [hits(|hash| hash), hits(|hash| hash << 6 | 5)];
            assert!(one.abs_diff(other) < 500, "{}: {one} and {other} of 100,000", policy.name());
        }
    }

    proptest! {
        /// Against a plain map: never more than the limit, never a wrong value, never something that was removed.
        #[test]
        fn stores_agree_with_a_map(ops in proptest::collection::vec((0u8..6, 0u64..60, 1u32..6), 0..400)) {
            for policy in Policy::ALL {
                let mut store = Store::of_entries(50, policy);
                let mut map: HashMap<u64, u64> = HashMap::new();
                for (number, (op, key, weight)) in ops.iter().enumerate() {
                    let new = Entry { value: number as u64, ..entry(*key, *weight, number as u64, 0) };
                    match op {
                        0 | 1 => {
                            store.insert(new);
                            map.insert(*key, number as u64);
                        }
                        2 => {
                            store.remove(mix(*key), key);
                            map.remove(key);
                        }
                        3 => {
                            if store.take_over(Proven { uses: *weight as u8 - 1, entry: new }) {
                                map.insert(*key, number as u64);
                            }
                        }
                        _ => {
                            if let Some(value) = value(&mut store, *key) {
                                prop_assert_eq!(Some(&value), map.get(key));
                            }
                        }
                    }
                    prop_assert!(store.weight() <= 50);
                    prop_assert_eq!(store.iter().map(|entry| u64::from(entry.weight)).sum::<u64>(), store.weight());
                    prop_assert_eq!(store.iter().count(), store.len());
                    prop_assert_eq!(store.by_uses.iter().sum::<usize>(), store.len());
                }
            }
        }
    }
}
