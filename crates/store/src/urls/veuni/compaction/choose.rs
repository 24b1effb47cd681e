//! What to flush, compact or activate next, and when a writer must wait: pure functions of what the buckets
//! hold.
//!
//! Each takes what it goes by and returns its choice; [`scheduler`](super::scheduler) and
//! [`dispatch`](crate::urls::veuni::dispatch) carry it out.

use farol_base::Timestamp;
use std::time::Duration;

/// Below this, entries in memory start no compaction by themselves.
const EARLY_ENTRIES_MIN: u64 = 64 << 10;
/// An entry in memory takes this many times what it will take in a level-0 run.
const MEMTABLE_PER_RUN: u64 = 4;
/// Once the backlog exceeds its limit by this part of it, several buckets are compacted at once.
const BEHIND_SHARE: u64 = 16;
/// The deltas of one host may always take this much memory when they are merged, however small the memtables
/// are.
const ONE_HOST_MIN: u64 = 1 << 20;
/// They may always take this part of the memtables' memory.
const ONE_HOST_SHARE: u64 = 4;
/// A bucket whose hosts have all run dry is left alone for this many times its last compaction: compactions
/// that the crawl asks for take a quarter of one thread's time at most.
const COMPACTION_BACKOFF_DRY: u32 = 3;
/// As above, while some of its hosts still have something.
const COMPACTION_BACKOFF: u32 = 8;

/// What is chosen by, of one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct BucketLoad {
    pub is_busy: bool,
    pub is_damaged: bool,
    /// Entries in the memtable.
    pub entries: u64,
    pub memtable_bytes: u64,
    pub sealed_bytes: u64,
    pub has_runs: bool,
    pub level0_bytes: u64,
    /// URLs in the bucket's file, and its bytes.
    pub known: u64,
    pub bytes: u64,
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct PendingLimits {
    /// Memory of all memtables.
    pub memtable_bytes: u64,
    /// Level-0 runs may be this large for each byte of buckets, and always this large together.
    pub level0_share: f64,
    pub level0_min: u64,
}

impl PendingLimits {
    /// Bytes of level-0 runs beyond which buckets are compacted.
    fn level0_max(&self, bucket_bytes: u64) -> u64 {
        self.level0_min.max((bucket_bytes as f64 * self.level0_share) as u64)
    }
}

/// What the threads that compact could do now.
#[derive(Clone, Copy, Debug)]
pub struct CompactorState {
    pub is_compacting: bool,
    pub can_queue: bool,
}

/// The most that memtables may take, with those that are sealed.
pub fn memtable_bytes_max(memtable_bytes: u64) -> u64 {
    memtable_bytes * 3 / 2
}

/// A bucket that has next to nothing beside its memtable: a crawl that has just begun is about to ask for it,
/// and less than half as much is rewritten as was written.
pub fn early(loads: impl Iterator<Item = BucketLoad>) -> Option<usize> {
    let is_due = |load: BucketLoad| {
        load.entries >= EARLY_ENTRIES_MIN
            && load.entries > 2 * load.known
            && !load.is_busy
            && !load.is_damaged
            && !load.has_runs
    };
    loads.map(is_due).position(|is_due| is_due)
}

/// Where more is pending than may be, the bucket whose level-0 runs are largest beside its file; of equal
/// ones the last. One compaction at a time where that suffices.
pub fn largest_level0(
    loads: impl Iterator<Item = BucketLoad> + Clone,
    limits: &PendingLimits,
    compactors: CompactorState,
) -> Option<usize> {
    let (mut backlog, mut in_memory, mut bytes) = (0, 0, 0);
    for load in loads.clone() {
        backlog += if load.is_busy { 0 } else { load.level0_bytes };
        in_memory += load.memtable_bytes;
        bytes += load.bytes;
    }
    let (backlog, max) = (backlog + in_memory / MEMTABLE_PER_RUN, limits.level0_max(bytes));
    // Two at once would take twice as long each, and the WAL keeps all that is written meanwhile.
    let is_behind = backlog > max + max / BEHIND_SHARE;
    let has_room = if is_behind { compactors.can_queue } else { !compactors.is_compacting };
    if backlog <= max || !has_room {
        return None;
    }
    loads
        .enumerate()
        .filter(|(_, load)| !load.is_busy && !load.is_damaged && load.has_runs)
        .max_by_key(|(_, load)| load.level0_bytes * 1024 / load.bytes.max(1))
        .map(|(at, _)| at)
}

/// Write stall: whether the producer must wait until a job has made room.
pub fn must_stall(loads: impl Iterator<Item = BucketLoad>, limits: &PendingLimits) -> bool {
    let (mut in_memory, mut level0, mut bytes) = (0, 0, 0);
    for load in loads {
        in_memory += load.memtable_bytes + load.sealed_bytes;
        level0 += load.level0_bytes;
        bytes += load.bytes;
    }
    in_memory > memtable_bytes_max(limits.memtable_bytes) || level0 > limits.level0_max(bytes) * 3 / 2
}

/// Where a full memtable goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushChoice {
    /// Into a level-0 run.
    Flush,
    /// Straight into the bucket, with its runs.
    Compact,
    /// Nowhere: what follows a damage would be cut off with it.
    Hold,
}

/// Compacts where the memtable is much for its bucket, or where the runs have so much for one host that a
/// compaction could not hold it: the deltas of one host are in memory at once.
pub fn flush_or_compact(
    load: &BucketLoad,
    largest_host: u64,
    memtable_bytes: u64,
    is_level0_damaged: bool,
) -> FlushChoice {
    // A compaction for the sake of memory should not rewrite far more than was written; but memory has an end.
    let one_host_max = load.bytes.clamp(memtable_bytes / ONE_HOST_SHARE, memtable_bytes).max(ONE_HOST_MIN);
    let is_much = load.entries * 2 >= load.known || largest_host >= one_host_max;
    match (load.is_damaged, is_level0_damaged) {
        (false, _) if is_much => FlushChoice::Compact,
        (true, true) => FlushChoice::Hold,
        _ => FlushChoice::Flush,
    }
}

/// What the crawl has leased when it asks for a compaction.
#[derive(Clone, Copy, Debug)]
pub struct CrawlDemand {
    /// Whether any host of any bucket is leased: with none there is nothing better to do.
    pub any_leased: bool,
    /// Whether a host of this bucket is.
    pub bucket_leased: bool,
}

/// Whether a bucket may be compacted because the crawl asks for it, `since` its last compaction, which `took`
/// so long.
pub fn may_compact(
    demand: CrawlDemand,
    has_threads: bool,
    has_failed: bool,
    since: Duration,
    took: Duration,
) -> bool {
    if !has_threads || !demand.any_leased {
        return !has_failed;
    }
    since >= took * if demand.bucket_leased { COMPACTION_BACKOFF } else { COMPACTION_BACKOFF_DRY }
}

/// A sound bucket, to the dispatcher.
#[derive(Clone, Copy, Debug)]
pub struct ActivationView {
    pub is_active: bool,
    pub is_busy: bool,
    /// It has deltas; and among them such as must be merged before it is active.
    pub has_pending: bool,
    pub blocks_activation: bool,
    /// When its first pre-scheduled URL can be drawn, and its first remaining one.
    pub prescheduled_ready: Timestamp,
    pub remaining_ready: Timestamp,
    pub compacted_at: Timestamp,
}

/// What to do so that a bucket's hosts can be dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Nothing,
    /// As it is: no need to compact it first.
    Activate,
    /// Where it may be compacted now.
    Compact,
}

pub fn activation(view: &ActivationView, now: Timestamp) -> Activation {
    if !view.is_active && !view.blocks_activation && view.prescheduled_ready <= now {
        return Activation::Activate;
    }
    // What was due at the last compaction and was not chosen then is not chosen now either.
    let due_since = view.remaining_ready <= now && view.remaining_ready > view.compacted_at;
    if (view.has_pending || due_since) && !view.is_busy { Activation::Compact } else { Activation::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PendingLimits = PendingLimits { memtable_bytes: 8000, level0_share: 0.5, level0_min: 1000 };
    const IDLE: CompactorState = CompactorState { is_compacting: false, can_queue: true };

    fn load(level0_bytes: u64, bytes: u64) -> BucketLoad {
        BucketLoad { level0_bytes, bytes, has_runs: level0_bytes > 0, ..BucketLoad::default() }
    }

    fn worst(loads: &[BucketLoad], compactors: CompactorState) -> Option<usize> {
        largest_level0(loads.iter().copied(), &LIMITS, compactors)
    }

    #[test]
    fn nothing_is_compacted_before_the_backlog_exceeds_its_limit() {
        assert_eq!(worst(&[load(1000, 100)], IDLE), None);
        assert_eq!(worst(&[load(1001, 100)], IDLE), Some(0));
        // The share of what is stored counts where it is more.
        assert_eq!(worst(&[load(2000, 4000)], IDLE), None);
        assert_eq!(worst(&[load(2001, 4000)], IDLE), Some(0));
        // Entries in memory count as what they will take in a run.
        let in_memory = BucketLoad { memtable_bytes: 4004, ..BucketLoad::default() };
        assert_eq!(worst(&[in_memory], IDLE), None);
        assert_eq!(worst(&[in_memory, load(1, 1)], IDLE), Some(1));
    }

    #[test]
    fn the_largest_share_is_compacted_first_and_the_last_of_equal_ones() {
        assert_eq!(worst(&[load(900, 900), load(800, 400), load(700, 700)], IDLE), Some(1));
        assert_eq!(worst(&[load(900, 450), load(800, 400), load(700, 700)], IDLE), Some(1));
        let busy = BucketLoad { is_busy: true, ..load(2000, 100) };
        let damaged = BucketLoad { is_damaged: true, ..load(2000, 100) };
        assert_eq!(worst(&[busy, damaged, load(800, 400)], IDLE), Some(2));
        assert_eq!(worst(&[damaged], IDLE), None);
    }

    #[test]
    fn a_second_compaction_waits_unless_the_backlog_is_far_behind() {
        let one_runs = CompactorState { is_compacting: true, can_queue: true };
        let full = CompactorState { is_compacting: true, can_queue: false };
        assert_eq!(worst(&[load(1062, 100)], one_runs), None);
        assert_eq!(worst(&[load(1063, 100)], one_runs), Some(0));
        assert_eq!(worst(&[load(1063, 100)], full), None);
    }

    #[test]
    fn a_new_bucket_is_compacted_early() {
        let many = BucketLoad { entries: EARLY_ENTRIES_MIN, ..BucketLoad::default() };
        let choose = |loads: &[BucketLoad]| early(loads.iter().copied());
        assert_eq!(choose(&[BucketLoad { entries: EARLY_ENTRIES_MIN - 1, ..many }]), None);
        assert_eq!(choose(&[BucketLoad { known: EARLY_ENTRIES_MIN / 2, ..many }, many, many]), Some(1));
        for blocked in [
            BucketLoad { is_busy: true, ..many },
            BucketLoad { is_damaged: true, ..many },
            BucketLoad { has_runs: true, ..many },
        ] {
            assert_eq!(choose(&[blocked]), None);
        }
    }

    #[test]
    fn a_writer_stalls_half_as_much_again_beyond_either_limit() {
        let stalls = |load: BucketLoad| must_stall([load].into_iter(), &LIMITS);
        let in_memory = |memtable_bytes, sealed_bytes| BucketLoad {
            memtable_bytes,
            sealed_bytes,
            ..BucketLoad::default()
        };
        assert!(!stalls(in_memory(6000, 6000)) && stalls(in_memory(6000, 6001)));
        assert!(!stalls(load(1500, 10)) && stalls(load(1501, 10)));
        assert!(!stalls(load(3000, 4000)) && stalls(load(3001, 4000)));
    }

    #[test]
    fn a_memtable_goes_where_it_costs_least() {
        let memory = 64 << 20;
        let load = BucketLoad { entries: 10, known: 21, bytes: 32 << 20, ..BucketLoad::default() };
        assert_eq!(flush_or_compact(&load, 0, memory, false), FlushChoice::Flush);
        let much = BucketLoad { known: 20, ..load };
        assert_eq!(flush_or_compact(&much, 0, memory, false), FlushChoice::Compact);
        // One host may fill as much memory as its bucket has bytes.
        assert_eq!(flush_or_compact(&load, (32 << 20) - 1, memory, false), FlushChoice::Flush);
        assert_eq!(flush_or_compact(&load, 32 << 20, memory, false), FlushChoice::Compact);
        assert_eq!(flush_or_compact(&load, ONE_HOST_MIN - 1, 0, false), FlushChoice::Flush);
        let damaged = BucketLoad { is_damaged: true, ..much };
        assert_eq!(flush_or_compact(&damaged, 0, memory, false), FlushChoice::Flush);
        assert_eq!(flush_or_compact(&damaged, 0, memory, true), FlushChoice::Hold);
    }

    #[test]
    fn the_crawl_waits_for_multiples_of_the_last_compaction() {
        let demand = |any_leased, bucket_leased| CrawlDemand { any_leased, bucket_leased };
        let millis = Duration::from_millis;
        let may = |demand, since| may_compact(demand, true, true, millis(since), millis(10));
        assert!(!may(demand(true, false), 29) && may(demand(true, false), 30));
        assert!(!may(demand(true, true), 79) && may(demand(true, true), 80));
        // With nothing leased, or without threads, only an error makes it wait.
        assert!(!may(demand(false, false), 1000));
        assert!(may_compact(demand(false, false), true, false, millis(0), millis(10)));
        assert!(may_compact(demand(true, true), false, false, millis(0), millis(10)));
    }

    #[test]
    fn a_bucket_is_activated_as_it_is_or_compacted_first() {
        let at = Timestamp::from_secs;
        let view = ActivationView {
            is_active: false,
            is_busy: false,
            has_pending: false,
            blocks_activation: false,
            prescheduled_ready: Timestamp::NEVER,
            remaining_ready: Timestamp::NEVER,
            compacted_at: at(10),
        };
        let choose = |view: ActivationView| activation(&view, at(20));
        assert_eq!(choose(view), Activation::Nothing);
        let ready = ActivationView { prescheduled_ready: at(20), has_pending: true, ..view };
        assert_eq!(choose(ready), Activation::Activate);
        assert_eq!(choose(ActivationView { blocks_activation: true, ..ready }), Activation::Compact);
        assert_eq!(choose(ActivationView { is_active: true, ..ready }), Activation::Compact);
        assert_eq!(choose(ActivationView { is_active: true, is_busy: true, ..ready }), Activation::Nothing);
        // What became due since the last compaction is worth another; what was due before is not.
        for (remaining_ready, expected) in
            [(at(10), Activation::Nothing), (at(11), Activation::Compact), (at(21), Activation::Nothing)]
        {
            assert_eq!(choose(ActivationView { remaining_ready, ..view }), expected);
        }
    }
}
