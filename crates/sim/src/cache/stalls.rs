//! How long a lookup waits while a node of a million entries copies its best, hands a range over and clears up.
//!
//! One thread asks at a pace, another does one step after another, without a pause: the locks are the node's own. Steps are
//! timed by the processor time of their thread, because on a busy machine the longest ones by the clock are those that were
//! interrupted; lookups by the clock, beside those with nothing else going on.

use super::CacheArgs;
use super::report::{head, row};
use farol_base::random::mix;
use farol_base::{Random, Seeded};
use farol_cache::freshness::{CLOCK_BEGINS, Now};
use farol_cache::node::{HandOver, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::shards::ShardedNode;
use farol_cache::store::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ENTRIES: u64 = 1_000_000;
const STEP: usize = 256;
const ASKED: u64 = 50_000;
/// Between two lookups: 5,000 a second.
const PAUSE: Duration = Duration::from_micros(200);

/// What goes on beside the lookups.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Round,
    HandOver,
    TakeOver,
    ClearUp,
}

/// The table.
pub fn table(args: &CacheArgs) {
    let options = NodeOptions { copies_share: 0.05, ..NodeOptions::of_entries(ENTRIES, Policy::default()) };
    let node: ShardedNode<u64, [u64; 8]> = ShardedNode::new(&options);
    let entry =
        |key: u64| Entry { hash: mix(key), key, value: [key; 8], weight: 1, made: CLOCK_BEGINS, state: 0 };
    let mut slowest = Duration::ZERO;
    for key in 0..ENTRIES {
        let begun = worked();
        node.shard(mix(key)).insert(entry(key));
        slowest = slowest.max(worked().saturating_sub(begun));
    }
    println!(
        "{} entries in {} shards; the slowest insert while they filled up: {:.3} ms\n",
        node.len().0,
        node.shards(),
        1e3 * slowest.as_secs_f64()
    );
    head(
        "Lookups at 5,000 a second while one thread works on all shards without a pause",
        &[
            "beside",
            "steps",
            "longest step, ms of work",
            "lookups: p50, µs",
            "p99, µs",
            "p99.9, µs",
            "longest, ms",
        ],
    );
    let now = Now { time: CLOCK_BEGINS, need: 0 };
    for (name, beside) in [
        ("nothing", Beside::Nothing),
        ("rounds of failover copies", Beside::Round),
        ("hand-over of half the range", Beside::HandOver),
        ("taking it over again", Beside::TakeOver),
        ("clearing up", Beside::ClearUp),
    ] {
        let done = AtomicBool::new(false);
        let mut times: Vec<Duration> = Vec::with_capacity(ASKED as usize);
        let (steps, longest) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&node, beside, &done, entry));
            let mut random = Seeded::new(args.seed);
            for _ in 0..ASKED {
                let key = random.below(ENTRIES);
                let begun = Instant::now();
                let found = node.shard(mix(key)).lookup(mix(key), &key, &now, false).found();
                times.push(begun.elapsed());
                std::hint::black_box(found);
                std::thread::sleep(PAUSE);
            }
            done.store(true, Ordering::Relaxed);
            worker.join().unwrap_or_default()
        });
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64();
        row(&[
            name.to_string(),
            steps.to_string(),
            format!("{:.3}", 1e3 * longest.as_secs_f64()),
            format!("{:.1}", 1e6 * at(0.5)),
            format!("{:.1}", 1e6 * at(0.99)),
            format!("{:.1}", 1e6 * at(0.999)),
            format!("{:.3}", 1e3 * at(1.0)),
        ]);
    }
    println!();
}

/// Processor time of this thread.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Steps until the lookups are done; how many, and the longest while it held a lock.
fn work(
    node: &ShardedNode<u64, [u64; 8]>,
    beside: Beside,
    done: &AtomicBool,
    entry: impl Fn(u64) -> Entry<u64, [u64; 8]>,
) -> (u64, Duration) {
    let (mut steps, mut longest, mut number) = (0u64, Duration::ZERO, 0usize);
    while !done.load(Ordering::Relaxed) {
        if matches!(beside, Beside::Nothing) {
            std::thread::sleep(PAUSE);
            continue;
        }
        number += 1;
        let (mut round, mut walk) = (node.numbered(number).begin_round(0.05), HandOver::default());
        loop {
            let mut shard = node.numbered(number);
            let begun = worked();
            let goes_on = match beside {
                Beside::Nothing => false,
                Beside::Round => {
                    std::hint::black_box(shard.step_round(&mut round, STEP, CLOCK_BEGINS));
                    !round.is_done()
                }
                Beside::HandOver => {
                    std::hint::black_box(shard.step_hand_over(&mut walk, STEP, |hash, _| hash >> 63 == 0));
                    !walk.is_done()
                }
                Beside::TakeOver => {
                    for key in (0..STEP as u64).map(|i| (steps * STEP as u64 + i) % ENTRIES) {
                        if mix(key) as usize % node.shards() == number % node.shards() {
                            shard.take_over(farol_cache::store::Proven { uses: 1, entry: entry(key) });
                        }
                    }
                    false
                }
                Beside::ClearUp => {
                    shard.clear_up(CLOCK_BEGINS, STEP);
                    false
                }
            };
            longest = longest.max(worked().saturating_sub(begun));
            drop(shard);
            steps += 1;
            if !goes_on || done.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    (steps, longest)
}
