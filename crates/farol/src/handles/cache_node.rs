//! The cache node of this process: what it keeps, and what its roles may see of each other.

use crate::ring::tables::RingTables;
use crate::wire::v1::cache::{CacheHead, CacheTail, WireKept, WireSender};
use farol_base::Timestamp;
use farol_base::sync::Mutex;
use farol_cache::freshness::CLOCK_BEGINS;
use farol_cache::key::QueryKey;
use farol_cache::node::NodeOptions;
use farol_cache::shards::ShardedNode;
use farol_cache::tables::{Beat, RingDoc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are taken in from other nodes in a second, from all together: handing over is to disturb nobody.
pub const TAKEN_PER_SECOND: u32 = 10 << 20;

/// A cache node, for whoever answers for it and whoever tends it.
pub struct CacheShelf {
    pub node: ShardedNode<QueryKey, WireKept>,
    pub tables: Arc<RingTables>,
    pub me: ShelfName,
    /// Times are reckoned from here, by a clock that never goes back.
    begun: Instant,
    pub counters: ShelfCounters,
    /// How busy it is, per mille.
    pub busy: AtomicU16,
    /// The seed that the keys here were hashed under.
    seed: Mutex<Option<u64>>,
    taken: Mutex<TakenBytes>,
}

/// Which node of the ring it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShelfName {
    pub no: u16,
    pub incarnation: u64,
    /// What it bears beside the others; 1000 is usual.
    pub capacity: u32,
}

/// Requests that were served, besides those that the node counts itself.
#[derive(Debug, Default)]
pub struct ShelfCounters {
    pub inserts: AtomicU64,
    pub protects: AtomicU64,
    pub handed: AtomicU64,
    pub releases: AtomicU64,
    /// Entries that were taken in from other nodes, and given to them.
    pub entries_taken: AtomicU64,
    pub entries_given: AtomicU64,
    pub copies_sent: AtomicU64,
}

/// Bytes taken in during one second.
struct TakenBytes {
    since: Instant,
    bytes: u32,
}

impl CacheShelf {
    pub fn new(options: &NodeOptions, me: ShelfName, tables: Arc<RingTables>) -> CacheShelf {
        CacheShelf::since(options, me, tables, Instant::now())
    }

    /// One whose clock began at this instant. No two nodes' clocks agree, and nothing depends on it.
    pub fn since(
        options: &NodeOptions,
        me: ShelfName,
        tables: Arc<RingTables>,
        begun: Instant,
    ) -> CacheShelf {
        CacheShelf {
            node: ShardedNode::new(options),
            tables,
            me,
            begun,
            counters: ShelfCounters::default(),
            busy: AtomicU16::new(0),
            seed: Mutex::new(None),
            taken: Mutex::new(TakenBytes { since: Instant::now(), bytes: 0 }),
        }
    }

    pub fn now(&self) -> Timestamp {
        CLOCK_BEGINS + self.begun.elapsed()
    }

    /// The ring in force; `None` before the first. Under another seed than before, all that is kept is under names that
    /// nobody asks for: it goes.
    pub fn ring(&self) -> Option<Arc<RingDoc>> {
        let ring = self.tables.now().ring?;
        let mut seed = self.seed.lock();
        if seed.is_some_and(|seed| seed != ring.seed) {
            self.node.each().for_each(|mut shard| shard.clear());
        }
        *seed = Some(ring.seed);
        Some(ring)
    }

    pub fn head(&self, ring: &RingDoc) -> CacheHead {
        let from = WireSender::Node { id: self.me.no, incarnation: self.me.incarnation };
        CacheHead { ring: ring.epoch.into(), from }
    }

    pub fn tail(&self, ring: &RingDoc) -> CacheTail {
        CacheTail {
            node: self.me.no,
            incarnation: self.me.incarnation,
            ring: ring.epoch.into(),
            busy: self.busy.load(Ordering::Relaxed),
        }
    }

    /// What it says of itself.
    pub fn beat(&self) -> Beat {
        let counts = self.node.counts();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Beat {
            incarnation: self.me.incarnation,
            ring: self.tables.now().ring.map(|doc| doc.epoch).unwrap_or_default(),
            capacity: self.me.capacity,
            lookups: counts.lookups(),
            hits: counts.hits,
            adopted: counts.adopted,
            misses: counts.misses,
            inserts: count(&self.counters.inserts),
            refused: counts.refused,
            protects: count(&self.counters.protects),
            handed: count(&self.counters.handed),
            busy: self.busy.load(Ordering::Relaxed),
            bytes: self.node.weight(),
            entries: self.node.len().0 as u64,
        }
    }

    /// So many bytes were taken in; answers how many more are welcome in the next second.
    pub fn take_bytes(&self, bytes: usize) -> u32 {
        let mut taken = self.taken.lock();
        if taken.since.elapsed() >= Duration::from_secs(1) {
            *taken = TakenBytes { since: Instant::now(), bytes: 0 };
        }
        taken.bytes = taken.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        TAKEN_PER_SECOND.saturating_sub(taken.bytes)
    }
}
