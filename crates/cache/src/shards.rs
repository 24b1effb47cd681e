//! A large node as several small ones, each behind an own lock.
//!
//! The ring takes the high bits of a hash, shards the low ones, so each shard gets the same part of a node's range. What
//! looks at many entries (rounds, hand-overs, clearing up, a table that doubles) holds up one shard of some thousands of
//! entries, never the node.
//!
//! INVARIANT: a key is in one shard, always the same one.

use crate::node::{CacheNode, Counts, NodeOptions};
use farol_base::sync::Mutex;
use std::sync::MutexGuard;

/// Entries of a shard, about: all of them are looked at in a millisecond or two, and steps look at fewer.
const SHARD_ENTRIES: u64 = 16_384;
/// What an entry weighs with a page of ten results, about, where a node's room is in bytes.
const ENTRY_BYTES: u64 = 4_096;
const SHARDS_MAX: u64 = 256;

/// A node in shards.
pub struct ShardedNode<K, V> {
    shards: Box<[Mutex<CacheNode<K, V>>]>,
}

impl<K: Eq + Clone, V: Clone> ShardedNode<K, V> {
    /// As many shards as the room asks for: one up to 64 MiB or 16,384 entries.
    pub fn new(options: &NodeOptions) -> ShardedNode<K, V> {
        let entries = if options.in_entries { options.limit } else { options.limit / ENTRY_BYTES };
        let count = entries.div_ceil(SHARD_ENTRIES).clamp(1, SHARDS_MAX).next_power_of_two();
        let each = NodeOptions { limit: options.limit / count, ..*options };
        ShardedNode { shards: (0..count).map(|_| Mutex::new(CacheNode::new(&each))).collect() }
    }

    /// The shard of a hash. Whoever holds it holds up those with other keys of it alone.
    pub fn shard(&self, hash: u64) -> MutexGuard<'_, CacheNode<K, V>> {
        self.shards[hash as usize & (self.shards.len() - 1)].lock()
    }

    /// All shards, one after another.
    pub fn each(&self) -> impl ExactSizeIterator<Item = MutexGuard<'_, CacheNode<K, V>>> {
        self.shards.iter().map(Mutex::lock)
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The shard with a number below [`ShardedNode::shards`].
    pub fn numbered(&self, number: usize) -> MutexGuard<'_, CacheNode<K, V>> {
        self.shards[number % self.shards.len()].lock()
    }

    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.each().for_each(|shard| sum.add(&shard.counts()));
        sum
    }

    /// Entries and copies.
    pub fn len(&self) -> (usize, usize) {
        self.each().fold((0, 0), |sum, shard| (sum.0 + shard.len().0, sum.1 + shard.len().1))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    pub fn weight(&self) -> u64 {
        self.each().map(|shard| shard.weight()).sum()
    }

    /// Room for entries and copies together.
    pub fn limit(&self) -> u64 {
        self.each().map(|shard| shard.limits().0 + shard.limits().1).sum()
    }

    pub fn evicted(&self) -> u64 {
        self.each().map(|shard| shard.evicted()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::{Expiry, Now};
    use crate::replace::Policy;
    use crate::store::Entry;
    use farol_base::random::{Random, Seeded, mix};

    #[test]
    fn shards_follow_the_room() {
        let count = |options: &NodeOptions| ShardedNode::<u64, ()>::new(options).shards();
        assert_eq!(
            [1, 16_384, 16_385, 1_000_000].map(|limit| count(&NodeOptions::of_entries(limit, Policy::Lru))),
            [1, 1, 2, 64]
        );
        let bytes = |limit| NodeOptions::of_bytes(limit, Policy::Lru, Expiry::NEVER);
        assert_eq!([64 << 20, 4 << 30, 1 << 50].map(|limit| count(&bytes(limit))), [1, 64, 256]);
    }

    #[test]
    fn a_sharded_node_hits_about_as_often_as_a_whole_one() {
        let options = NodeOptions::of_entries(60_000, Policy::S3Fifo);
        let sharded: ShardedNode<u64, ()> = ShardedNode::new(&options);
        let mut whole: CacheNode<u64, ()> = CacheNode::new(&options);
        let (mut random, now) = (Seeded::new(1), Now::default());
        for _ in 0..600_000 {
            let key = (random.unit() * (3_000_000f64).ln()).exp() as u64;
            let hash = mix(key);
            let new = || Entry { hash, key, value: (), weight: 1, made: now.time, state: 0 };
            if whole.lookup(hash, &key, &now, false).found().is_none() {
                whole.insert(new());
            }
            let mut shard = sharded.shard(hash);
            if shard.lookup(hash, &key, &now, false).found().is_none() {
                shard.insert(new());
            }
        }
        assert_eq!(sharded.shards(), 4);
        let (one, other) = (sharded.counts().hit_rate(), whole.counts().hit_rate());
        assert!((one - other).abs() < 0.005, "{one} {other}");
        assert!(sharded.weight() <= 60_000 && sharded.len().0 as u64 == sharded.weight());
    }
}
