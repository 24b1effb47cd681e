//! A cache node: its own entries (`cache`), and copies of its predecessor's best ones (`copies`).
//!
//! Algorithm 6 of [Gomez14 §7.3]: what is asked for and stands only in `copies` is adopted into `cache` at
//! once, because copies of a dead node last until the next round. Both stores together have the room that one node
//! without failover copies would have: (1-α)N + αN.
//!
//! INVARIANT: one node answers one question with one look at each store; it never asks another node.

use crate::replace::Policy;
use crate::ring::NodeId;
use crate::store::{Entry, Expiry, Lookup, Now, Ranked, Store};

/// How a node is built.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Room for both stores: bytes, or entries where `in_entries`.
    pub limit: u64,
    /// Count entries instead of bytes, and let nothing age: for simulations.
    pub in_entries: bool,
    /// α: the share of the room that is kept for copies, from 0 to 0.5.
    pub copies_share: f64,
    pub policy: Policy,
    pub expiry: Expiry,
}

/// A copy that a neighbour sent.
#[derive(Clone, Debug)]
struct Copy<V> {
    value: V,
    source: NodeId,
    round: u64,
}

/// What a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLookup<V> {
    /// From its own entries.
    Hit(V),
    /// From a neighbour's copies, and its own from now on.
    Adopted(V),
    Miss,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hits: u64,
    /// Of these, answered from copies.
    pub adopted: u64,
    pub misses: u64,
    /// Of these, because the answer was too old.
    pub old: u64,
    pub inserted: u64,
    /// Answers that were not kept: too heavy, or not admitted.
    pub refused: u64,
}

impl Counts {
    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }

    /// Share of lookups that found an answer; 0 where nothing was asked.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.lookups().max(1) as f64
    }
}

/// A node.
pub struct CacheNode<K, V> {
    cache: Store<K, V>,
    copies: Store<K, Copy<V>>,
    expiry: Expiry,
    in_entries: bool,
    counts: Counts,
}

impl<K: Eq + Clone, V: Clone> CacheNode<K, V> {
    pub fn new(options: &NodeOptions) -> CacheNode<K, V> {
        let share = if options.copies_share.is_nan() { 0.0 } else { options.copies_share.clamp(0.0, 0.5) };
        let copies = (options.limit as f64 * share).round() as u64;
        let own = options.limit - copies;
        let (cache, copies) = match options.in_entries {
            true => (Store::of_entries(own, options.policy), Store::of_entries(copies, options.policy)),
            false => (
                Store::of_bytes(own, options.policy, options.expiry),
                Store::of_bytes(copies, options.policy, options.expiry),
            ),
        };
        let (in_entries, counts) = (options.in_entries, Counts::default());
        let expiry = if in_entries { Expiry::NEVER } else { options.expiry };
        CacheNode { cache, copies, expiry, in_entries, counts }
    }

    /// `LOOKUP`.
    pub fn lookup(&mut self, hash: u64, key: &K, now: &Now) -> NodeLookup<V> {
        match self.cache.get(hash, key, now) {
            Lookup::Hit(value) => {
                self.counts.hits += 1;
                return NodeLookup::Hit(value.clone());
            }
            Lookup::Expired => self.counts.old += 1,
            Lookup::Miss => {}
        }
        let Some(copy) = self.copies.peek(hash, key) else {
            self.counts.misses += 1;
            return NodeLookup::Miss;
        };
        if !self.expiry.allows(copy.made, copy.generation, now) {
            self.counts.misses += 1;
            self.copies.remove(hash, key);
            return NodeLookup::Miss;
        }
        let adopted = Entry {
            hash,
            key: key.clone(),
            value: copy.value.value.clone(),
            weight: self.bare(copy.weight, Store::<K, Copy<V>>::OVERHEAD),
            made: copy.made,
            generation: copy.generation,
        };
        let value = adopted.value.clone();
        self.cache.insert(adopted);
        self.counts.hits += 1;
        self.counts.adopted += 1;
        NodeLookup::Adopted(value)
    }

    /// What an entry weighed before a store added its own tables.
    fn bare(&self, weight: u32, overhead: u32) -> u32 {
        if self.in_entries { weight } else { weight.saturating_sub(overhead) }
    }

    /// `INSERT`: an answer that the index gave after a miss here. Answers whether it was kept.
    pub fn insert(&mut self, entry: Entry<K, V>) -> bool {
        let kept = self.cache.insert(entry);
        self.counts.inserted += u64::from(kept);
        self.counts.refused += u64::from(!kept);
        kept
    }

    /// `PROTECT`: a copy of one of a neighbour's best entries.
    pub fn keep_copy(&mut self, source: NodeId, round: u64, entry: Entry<K, V>) {
        let Entry { hash, key, value, made, generation, .. } = entry;
        let weight = self.bare(entry.weight, Store::<K, V>::OVERHEAD);
        match self.copies.peek_mut(hash, &key) {
            Some(copy) => *copy = Copy { value, source, round },
            None => {
                let value = Copy { value, source, round };
                self.copies.insert(Entry { hash, key, value, weight, made, generation });
            }
        }
    }

    /// These have sent everything of a round. Their copies of earlier rounds go; those of others, who may be
    /// dead, last one round longer.
    pub fn round_done(&mut self, sources: &[NodeId], round: u64) {
        self.copies.remove_if(|entry| {
            let copy = &entry.value;
            let last = if sources.contains(&copy.source) { copy.round } else { copy.round + 1 };
            last < round
        });
    }

    /// The best entries, a share of all that there is room for; what a round of failover copies sends.
    pub fn top(&self, share: f64) -> impl Iterator<Item = &Entry<K, V>> {
        self.cache.top(self.count_of(share))
    }

    /// The same, with those first that were asked for since they came.
    pub fn top_proven(&self, share: f64) -> impl Iterator<Item = &Entry<K, V>> {
        self.cache.top_proven(self.count_of(share))
    }

    fn count_of(&self, share: f64) -> usize {
        (self.cache.len() as f64 * share.clamp(0.0, 1.0)).round() as usize
    }

    /// `HAND OVER`: takes out what belongs to other nodes now that borders have moved, and of the copies those whose node is
    /// gone; `moves` is told an entry's hash and whose copy it is.
    pub fn hand_over(&mut self, mut moves: impl FnMut(u64, Option<NodeId>) -> bool) -> Vec<Ranked<K, V>> {
        let mut given = self.cache.ranked(|entry| moves(entry.hash, None));
        let copies = self.copies.ranked(|entry| moves(entry.hash, Some(entry.value.source)));
        // Copies were the best of their node.
        let room = self.cache.limit().max(1) as f64;
        let share = self.copies.limit() as f64 / room;
        given.extend(copies.into_iter().map(|copy| Ranked {
            rank: copy.rank * share,
            asked: true,
            entry: Entry {
                hash: copy.entry.hash,
                key: copy.entry.key,
                value: copy.entry.value.value,
                weight: copy.entry.weight,
                made: copy.entry.made,
                generation: copy.entry.generation,
            },
        }));
        given
    }

    /// Takes in what another node handed over, among its own by what it was worth there. It has been admitted once.
    pub fn take_over(&mut self, given: Vec<Ranked<K, V>>) {
        self.cache.merge(given);
    }

    /// Forgets everything, as a crash does.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.copies.clear();
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Entries and copies.
    pub fn len(&self) -> (usize, usize) {
        (self.cache.len(), self.copies.len())
    }

    pub fn is_empty(&self) -> bool {
        self.cache.is_empty() && self.copies.is_empty()
    }

    /// Weight of everything kept, at most the limit.
    pub fn weight(&self) -> u64 {
        self.cache.weight() + self.copies.weight()
    }

    /// Own entries given up for room so far.
    pub fn evicted(&self) -> u64 {
        self.cache.evicted()
    }

    /// Room for own entries and for copies.
    pub fn limits(&self) -> (u64, u64) {
        (self.cache.limit(), self.copies.limit())
    }

    /// Whether this key is in `cache`, in `copies`.
    pub fn holds(&self, hash: u64, key: &K) -> (bool, bool) {
        (self.cache.peek(hash, key).is_some(), self.copies.peek(hash, key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Timestamp;
    use farol_base::random::mix;
    use std::time::Duration;

    fn options(copies_share: f64) -> NodeOptions {
        NodeOptions {
            limit: 1000,
            in_entries: true,
            copies_share,
            policy: Policy::Lru,
            expiry: Expiry::NEVER,
        }
    }

    fn entry(key: u64) -> Entry<u64, u64> {
        Entry { hash: mix(key), key, value: key * 10, weight: 1, made: Timestamp::EPOCH, generation: 0 }
    }

    #[test]
    fn both_areas_share_the_room() {
        // Main capacity (1-α)N, protected αN.
        for (share, want) in
            [(0.0, (1000, 0)), (0.05, (950, 50)), (0.1, (900, 100)), (f64::NAN, (1000, 0)), (7.0, (500, 500))]
        {
            assert_eq!(CacheNode::<u64, u64>::new(&options(share)).limits(), want);
        }
    }

    #[test]
    fn a_copy_is_adopted_on_its_first_hit() {
        // The first lookup hits in `copies`, the second in `cache`.
        let mut node = CacheNode::new(&options(0.1));
        node.keep_copy(NodeId(3), 1, entry(5));
        let now = Now::default();
        assert_eq!(node.lookup(mix(5), &5, &now), NodeLookup::Adopted(50));
        assert_eq!(node.lookup(mix(5), &5, &now), NodeLookup::Hit(50));
        assert_eq!(node.lookup(mix(6), &6, &now), NodeLookup::Miss);
        assert_eq!(node.counts(), Counts { hits: 2, adopted: 1, misses: 1, ..Counts::default() });
    }

    #[test]
    fn copies_go_with_the_next_round_and_those_of_the_dead_one_later() {
        let mut node = CacheNode::new(&options(0.1));
        node.keep_copy(NodeId(1), 1, entry(1));
        node.keep_copy(NodeId(2), 1, entry(2));
        node.keep_copy(NodeId(1), 2, entry(3));
        node.round_done(&[NodeId(1)], 2);
        let held = |node: &CacheNode<u64, u64>, key: u64| node.holds(mix(key), &key).1;
        assert_eq!([1, 2, 3].map(|key| held(&node, key)), [false, true, true]);
        node.keep_copy(NodeId(1), 3, entry(3));
        node.round_done(&[NodeId(1)], 3);
        assert_eq!([1, 2, 3].map(|key| held(&node, key)), [false, false, true]);
    }

    #[test]
    fn copies_age_like_everything_else() {
        let expiry = Expiry { ttl: Duration::from_secs(10), grace: Duration::ZERO };
        let mut node =
            CacheNode::new(&NodeOptions { limit: 1 << 20, in_entries: false, expiry, ..options(0.1) });
        node.keep_copy(NodeId(1), 1, entry(1));
        let now = Now { time: Timestamp::from_secs(10), generation: 0 };
        assert_eq!(node.lookup(mix(1), &1, &now), NodeLookup::Miss);
        node.keep_copy(NodeId(1), 1, entry(1));
        assert_eq!(node.lookup(mix(1), &1, &Now { generation: 1, ..Now::default() }), NodeLookup::Miss);
    }

    #[test]
    fn a_range_is_handed_over_with_what_each_entry_is_worth() {
        let (mut old, mut new) = (CacheNode::new(&options(0.1)), CacheNode::new(&options(0.1)));
        let now = Now::default();
        (0..900).for_each(|key| {
            old.insert(entry(key));
            new.insert(entry(key + 1000));
        });
        old.lookup(mix(2), &2, &now);
        new.lookup(mix(1001), &1001, &now);
        old.keep_copy(NodeId(9), 1, entry(5000));
        old.keep_copy(NodeId(8), 1, entry(6000));
        // Of its own the even ones move, and the copies of the node that is gone.
        let given = old.hand_over(|hash, source| match source {
            Some(source) => source == NodeId(9),
            None => (0..900).filter(|key| key % 2 == 0).any(|key| mix(key) == hash),
        });
        assert_eq!(given.len(), 451);
        assert_eq!(given[0].entry.key, 2, "what was asked for again is worth most");
        new.take_over(given);
        // There is no room for both: the worst of both are gone.
        assert_eq!(new.len().0, 900);
        let held = |node: &CacheNode<u64, u64>, key: u64| node.holds(mix(key), &key).0;
        for key in [2, 5000, 898, 1001, 1899] {
            assert!(held(&new, key), "{key}");
        }
        assert!(!held(&new, 0) && !held(&new, 1000) && !held(&old, 2));
        assert!(held(&old, 899) && old.holds(mix(6000), &6000).1);
    }
}
