//! The store of a cache node: a slab of entries under a hash index, bounded by weight, with expiry.
//!
//! The product runs it.
//!
//! INVARIANT: the weights of all entries together never exceed the limit. Weights are bytes, the store's own tables
//! included, or 1 per entry where a simulator counts entries.
//! INVARIANT: an entry is never handed out when it is older than its [`Expiry`] says.
//! Which entry is evicted is decided by a [`Replace`] policy.

use crate::replace::{Policy, Replace};
use farol_base::Timestamp;
use hashbrown::HashTable;
use std::time::Duration;

/// An entry heavier than this share of the limit is not kept: it would drive out too many others.
const WEIGHT_SHARE_MAX: u64 = 8;

/// How long entries may be handed out: a TTL, and a grace period for those of another generation.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// At most so long after they were made.
    pub ttl: Duration,
    /// An entry of another generation than the present one, at most so long after it was made.
    pub grace: Duration,
}

impl Expiry {
    /// For ever: entries that do not age, as in simulations.
    pub const NEVER: Expiry = Expiry { ttl: Duration::MAX, grace: Duration::MAX };

    /// Whether something made then, in that generation, may still be handed out.
    pub fn allows(&self, made: Timestamp, generation: u64, now: &Now) -> bool {
        // A clock that was set back makes an entry's age unknown: it counts as too old.
        let known = made <= now.time;
        let age = now.time.since(made);
        known && age < self.ttl && (generation == now.generation || age < self.grace)
    }
}

/// The time and generation at which something is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    pub time: Timestamp,
    /// The state of what answers are made from; another number, another state.
    pub generation: u64,
}

/// Something kept.
#[derive(Clone, Debug)]
pub struct Entry<K, V> {
    pub hash: u64,
    pub key: K,
    pub value: V,
    pub weight: u32,
    pub made: Timestamp,
    pub generation: u64,
}

/// An entry on its way to another store, with its rank among all where it was: 0 is the best, 1 behind the last.
#[derive(Clone, Debug)]
pub struct Ranked<K, V> {
    pub rank: f64,
    /// Whether it was asked for since it came there.
    pub asked: bool,
    pub entry: Entry<K, V>,
}

/// What came of looking something up.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, V> {
    Hit(&'a V),
    /// It was here, and is too old; it is removed.
    Expired,
    Miss,
}

/// Entries up to a limit.
pub struct Store<K, V> {
    index: HashTable<u32>,
    slots: Vec<Option<Entry<K, V>>>,
    /// By slot: whether it was asked for since it came. Half of all queries are never asked again.
    asked: Vec<bool>,
    free: Vec<u32>,
    policy: Box<dyn Replace>,
    expiry: Expiry,
    /// What each entry weighs beside what it is said to weigh.
    overhead: u32,
    weight: u64,
    limit: u64,
    evicted: u64,
}

impl<K, V> Store<K, V> {
    /// Bytes that the tables need for each entry: the slot, its place in the index, what policies keep of it (W-TinyLFU most:
    /// 24 bytes and 32 of its sketch); twice, because tables grow by doubling.
    pub const OVERHEAD: u32 = 2 * (std::mem::size_of::<Option<Entry<K, V>>>() as u32 + 8 + 56);

    /// A store for weights in bytes.
    pub fn of_bytes(limit: u64, policy: Policy, expiry: Expiry) -> Store<K, V> {
        Store::new(limit, policy, expiry, Self::OVERHEAD)
    }

    /// A store for `limit` entries, each of weight 1, which do not age.
    pub fn of_entries(limit: u64, policy: Policy) -> Store<K, V> {
        Store::new(limit, policy, Expiry::NEVER, 0)
    }

    fn new(limit: u64, policy: Policy, expiry: Expiry, overhead: u32) -> Store<K, V> {
        Store {
            index: HashTable::new(),
            slots: Vec::new(),
            asked: Vec::new(),
            free: Vec::new(),
            policy: policy.make(limit),
            expiry,
            overhead,
            weight: 0,
            limit,
            evicted: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
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

    /// The most important entries, best first.
    pub fn top(&self, count: usize) -> impl Iterator<Item = &Entry<K, V>> {
        self.policy.top(count).into_iter().filter_map(|slot| self.slots[slot as usize].as_ref())
    }

    /// All slots, best first: those that were asked for since they came, then the others, both in the policy's order.
    fn by_proof(&self) -> Vec<u32> {
        let (asked, others): (Vec<u32>, Vec<u32>) =
            self.policy.top(usize::MAX).into_iter().partition(|slot| self.asked[*slot as usize]);
        [asked, others].concat()
    }

    /// The most important entries by what they have proven, best first.
    pub fn top_proven(&self, count: usize) -> impl Iterator<Item = &Entry<K, V>> {
        self.by_proof().into_iter().take(count).filter_map(|slot| self.slots[slot as usize].as_ref())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        while let Some(slot) = self.policy.evict() {
            self.forget(slot);
        }
    }

    fn forget(&mut self, slot: u32) -> Option<Entry<K, V>> {
        let entry = self.slots[slot as usize].take()?;
        if let Ok(found) = self.index.find_entry(entry.hash, |known| *known == slot) {
            found.remove();
        }
        self.weight -= u64::from(entry.weight);
        self.free.push(slot);
        Some(entry)
    }

    /// Takes out every entry that this is true of.
    pub fn remove_if(&mut self, mut is: impl FnMut(&Entry<K, V>) -> bool) -> Vec<Entry<K, V>> {
        let gone: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|slot| self.slots[*slot as usize].as_ref().is_some_and(&mut is))
            .collect();
        gone.into_iter()
            .filter_map(|slot| {
                self.policy.remove(slot);
                self.forget(slot)
            })
            .collect()
    }
}

impl<K: Eq, V> Store<K, V> {
    fn find(&self, hash: u64, key: &K) -> Option<u32> {
        let slots = &self.slots;
        self.index
            .find(hash, |slot| {
                slots[*slot as usize].as_ref().is_some_and(|entry| entry.hash == hash && entry.key == *key)
            })
            .copied()
    }

    /// Looks an entry up; it counts as asked for.
    pub fn get(&mut self, hash: u64, key: &K, now: &Now) -> Lookup<'_, V> {
        let Some(slot) = self.find(hash, key) else {
            self.policy.miss(hash);
            return Lookup::Miss;
        };
        let allowed = self.slots[slot as usize]
            .as_ref()
            .is_some_and(|entry| self.expiry.allows(entry.made, entry.generation, now));
        if !allowed {
            self.policy.remove(slot);
            self.forget(slot);
            self.policy.miss(hash);
            return Lookup::Expired;
        }
        self.policy.hit(slot);
        self.asked[slot as usize] = true;
        match &self.slots[slot as usize] {
            Some(entry) => Lookup::Hit(&entry.value),
            None => Lookup::Miss,
        }
    }

    /// Looks an entry up without counting it.
    pub fn peek(&self, hash: u64, key: &K) -> Option<&Entry<K, V>> {
        self.find(hash, key).and_then(|slot| self.slots[slot as usize].as_ref())
    }

    /// Changes what is kept of an entry, without a word on its importance.
    pub fn peek_mut(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let slot = self.find(hash, key)?;
        self.slots[slot as usize].as_mut().map(|entry| &mut entry.value)
    }

    /// Takes an entry in, or puts it in the place of an older one of the same key. Others may have to go, or the
    /// entry itself is given up at once: the policy decides. Answers whether it was kept.
    pub fn insert(&mut self, entry: Entry<K, V>) -> bool {
        self.insert_as(entry, None)
    }

    /// Takes in entries that stood elsewhere, each among those that are here according to its rank there: the worst of both
    /// go. What is important here stays so, and what nobody asked for there is soon gone here, too.
    pub fn merge(&mut self, others: Vec<Ranked<K, V>>) {
        if others.is_empty() {
            return;
        }
        let mut all = self.ranked(|_| true);
        all.extend(others);
        all.sort_by(|a, b| b.rank.total_cmp(&a.rank));
        for Ranked { entry, asked, .. } in all {
            self.insert_as(entry, Some(asked));
        }
    }

    /// Takes out those that this is true of, each with its rank among all, the best first.
    pub fn ranked(&mut self, mut is: impl FnMut(&Entry<K, V>) -> bool) -> Vec<Ranked<K, V>> {
        let order = self.by_proof();
        let all = order.len().max(1) as f64;
        let mut out = Vec::new();
        for (place, slot) in order.into_iter().enumerate() {
            if self.slots[slot as usize].as_ref().is_some_and(&mut is) {
                self.policy.remove(slot);
                let (rank, overhead) = (place as f64 / all, self.overhead);
                let asked = self.asked[slot as usize];
                out.extend(self.forget(slot).map(|entry| Ranked {
                    rank,
                    asked,
                    entry: Entry { weight: entry.weight - overhead, ..entry },
                }));
            }
        }
        out
    }

    /// `stood`: it stood elsewhere before, and whether it was asked for there.
    fn insert_as(&mut self, mut entry: Entry<K, V>, stood: Option<bool>) -> bool {
        let asked = stood.unwrap_or(false);
        entry.weight = entry.weight.saturating_add(self.overhead).max(1);
        if u64::from(entry.weight) > (self.limit / WEIGHT_SHARE_MAX).max(1) || self.limit == 0 {
            return false;
        }
        if let Some(slot) = self.find(entry.hash, &entry.key) {
            // What was made later wins; copies may arrive in any order.
            if self.slots[slot as usize].as_ref().is_some_and(|known| known.made > entry.made) {
                return false;
            }
            self.policy.remove(slot);
            self.forget(slot);
        }
        let (hash, weight) = (entry.hash, entry.weight);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.asked.push(false);
                (self.slots.len() - 1) as u32
            }
        };
        self.weight += u64::from(weight);
        self.slots[slot as usize] = Some(entry);
        self.asked[slot as usize] = asked;
        let slots = &self.slots;
        self.index
            .insert_unique(hash, slot, |slot| slots[*slot as usize].as_ref().map_or(0, |entry| entry.hash));
        match stood {
            Some(_) => self.policy.insert_proven(slot, hash, weight),
            None => self.policy.insert(slot, hash, weight),
        }
        let mut kept = true;
        while self.weight > self.limit {
            let Some(victim) = self.policy.evict() else { break };
            kept &= victim != slot;
            self.forget(victim);
            self.evicted += 1;
        }
        kept
    }

    pub fn remove(&mut self, hash: u64, key: &K) -> Option<Entry<K, V>> {
        let slot = self.find(hash, key)?;
        self.policy.remove(slot);
        self.forget(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn entry(key: u64, weight: u32, at: u64, generation: u64) -> Entry<u64, u64> {
        Entry { hash: mix(key), key, value: key, weight, made: Timestamp::from_secs(at), generation }
    }

    fn at(secs: u64, generation: u64) -> Now {
        Now { time: Timestamp::from_secs(secs), generation }
    }

    #[test]
    fn nothing_is_handed_out_beyond_its_life() {
        let expiry = Expiry { ttl: Duration::from_secs(100), grace: Duration::from_secs(10) };
        let check = |now: Now, want: Lookup<'_, u64>| {
            let mut store = Store::of_bytes(1 << 20, Policy::Lru, expiry);
            store.insert(entry(1, 10, 1000, 7));
            assert_eq!(store.get(mix(1), &1, &now), want, "{now:?}");
            // What was too old is gone, and its room is free.
            assert_eq!(store.weight() == 0, want == Lookup::Expired);
        };
        check(at(1000, 7), Lookup::Hit(&1));
        check(at(1099, 7), Lookup::Hit(&1));
        check(at(1100, 7), Lookup::Expired);
        check(at(1009, 8), Lookup::Hit(&1)); // Another generation, within its grace.
        check(at(1010, 8), Lookup::Expired);
        check(at(999, 7), Lookup::Expired); // The clock was set back.
    }

    #[test]
    fn a_later_answer_takes_the_place_of_an_earlier_one_and_not_the_other_way() {
        let mut store = Store::of_entries(10, Policy::Lru);
        store.insert(Entry { value: 5, ..entry(1, 1, 50, 0) });
        assert!(!store.insert(Entry { value: 4, ..entry(1, 1, 40, 0) }));
        assert!(store.insert(Entry { value: 6, ..entry(1, 1, 60, 0) }));
        assert_eq!(store.len(), 1);
        assert_eq!(store.get(mix(1), &1, &at(60, 0)), Lookup::Hit(&6));
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
        assert_eq!(store.get(9, &1, &at(0, 0)), Lookup::Hit(&1));
        assert_eq!(store.get(9, &2, &at(0, 0)), Lookup::Hit(&2));
        assert_eq!(store.get(9, &3, &at(0, 0)), Lookup::Miss);
        assert_eq!(store.remove(9, &1).map(|entry| entry.key), Some(1));
        assert_eq!(store.get(9, &1, &at(0, 0)), Lookup::Miss);
    }

    proptest! {
        /// Against a plain map: never more than the limit, never a wrong value, never something that was removed.
        #[test]
        fn areas_agree_with_a_map(ops in proptest::collection::vec((0u8..5, 0u64..60, 1u32..6), 0..400)) {
            for policy in Policy::ALL {
                let mut store = Store::of_entries(50, policy);
                let mut map: HashMap<u64, u64> = HashMap::new();
                for (number, (op, key, weight)) in ops.iter().enumerate() {
                    match op {
                        0 | 1 => {
                            let value = number as u64;
                            store.insert(Entry { value, ..entry(*key, *weight, number as u64, 0) });
                            map.insert(*key, value);
                        }
                        2 => {
                            store.remove(mix(*key), key);
                            map.remove(key);
                        }
                        _ => {
                            if let Lookup::Hit(value) = store.get(mix(*key), key, &at(1_000_000, 0)) {
                                prop_assert_eq!(Some(value), map.get(key));
                            }
                        }
                    }
                    prop_assert!(store.weight() <= 50);
                    prop_assert_eq!(store.iter().map(|entry| u64::from(entry.weight)).sum::<u64>(), store.weight());
                    prop_assert_eq!(store.iter().count(), store.len());
                }
            }
        }
    }
}
