//! What shards behind calls cost in CPU, and hedging. Nothing is decided here but that answers are the same: the figures
//! are printed, for `docs/results/shards.md`:
//!
//! ```text
//! cargo nextest run -p farol --bins --run-ignored only --no-capture -E 'test(desk::tests::costs)'
//! ```

use super::merged::four_on_one;
use super::world::{World, in_shards, pages_of, questions, request, searcher_of, shown};
use crate::broker::RemoteIndex;
use crate::handles::index::{IndexAccess, RulesInForce};
use bytes::Bytes;
use farol_rpc::{BoxFuture, CallContext, Handler, RpcError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// CPU of all threads of this process, which does nothing else meanwhile.
fn cpu() -> Duration {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        sum += text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
    }
    Duration::from_nanos(sum)
}

/// CPU per question, in microseconds, the median of five rounds.
fn per_question(rounds: usize, lines: &[String], mut ask: impl FnMut(&str)) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let begun = cpu();
            lines.iter().for_each(|line| ask(line));
            (cpu() - begun).as_secs_f64() * 1e6 / lines.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

fn ask(front: &RemoteIndex, line: &str) {
    let (answer, _) = front.search(&request(line), &RulesInForce::default()).unwrap();
    assert!(!answer.shards.is_some_and(|shards| shards.is_partial()), "{line}");
}

#[test]
#[ignore = "prints figures"]
fn four_shards_over_calls_against_one_index() {
    let (world, pages) = four_on_one(20_000);
    let (whole, dir) = searcher_of(&pages);
    let alone = World::of(Duration::from_secs(20), whole.clone(), vec![vec![(1, whole)]], vec![dir]);
    let lines = questions();
    let (remote, own) = (world.front(None), world.front(Some(1)));
    for line in &lines {
        let (answer, _) = remote.search(&request(line), &RulesInForce::default()).unwrap();
        assert_eq!(shown(&answer), shown(&world.ask_whole(line)), "{line}");
    }
    let one = per_question(5, &lines, |line| drop(world.ask_whole(line)));
    let one_remote = per_question(5, &lines, |line| ask(&alone.index, line));
    let four = per_question(5, &lines, |line| ask(&remote, line));
    let four_own = per_question(5, &lines, |line| ask(&own, line));
    println!("CPU per question of {} pages, {} questions, counts remembered:", pages.len(), lines.len());
    println!("  one index in process           {one:8.0} µs");
    println!("  one shard over loopback calls  {one_remote:8.0} µs, ratio {:.2}", one_remote / one);
    println!("  four shards over loopback calls{four:8.0} µs, ratio {:.2}", four / one);
    println!("  four shards of the own node    {four_own:8.0} µs, ratio {:.2}", four_own / one);
}

/// Every twentieth call takes long: before its work, as where a disk or a queue holds it up, or after it.
struct Stumbling {
    desk: Arc<dyn Handler>,
    calls: AtomicU64,
    before: bool,
}

const EVERY: u64 = 20;
const STUMBLE: Duration = Duration::from_millis(60);

impl Handler for Stumbling {
    fn call<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        let stumbles = self.calls.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1;
        Box::pin(async move {
            if stumbles && self.before {
                tokio::time::sleep(STUMBLE).await;
            }
            let answer = self.desk.call(verb, body, context).await;
            if stumbles && !self.before {
                tokio::time::sleep(STUMBLE).await;
            }
            answer
        })
    }
}

/// CPU per question with replicas that stumble, hedges and asks.
fn hedged(replicas: u32, before: bool, lines: &[String]) -> (f64, u64, u64) {
    let pages = pages_of(7, 10_000);
    let (whole, dir) = searcher_of(&pages);
    let mut dirs = vec![dir];
    let served = in_shards(&pages, 2)
        .iter()
        .map(|own| {
            let (searcher, dir) = searcher_of(own);
            dirs.push(dir);
            (1..=replicas).map(|node| (node, searcher.clone())).collect()
        })
        .collect();
    let world = World::of(Duration::from_secs(20), whole, served, dirs);
    for node in 1..=replicas {
        let desk = world.desks[node as usize - 1].clone();
        world.serve(node, Arc::new(Stumbling { desk, calls: AtomicU64::new(u64::from(node) * 7), before }));
    }
    lines.iter().for_each(|line| ask(&world.index, line));
    let time = per_question(7, lines, |line| ask(&world.index, line));
    let text = world.index.metrics_text();
    let number = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    (time, number("farol_broker_asks_total"), number("farol_broker_hedges_total"))
}

#[test]
#[ignore = "prints figures"]
fn what_hedging_costs() {
    let lines = questions();
    for (before, when) in [(true, "before their work"), (false, "after their work")] {
        // A shard with one replica is never hedged.
        let (off, ..) = hedged(1, before, &lines);
        let (on, asks, hedges) = hedged(2, before, &lines);
        println!(
            "one call in {EVERY} takes {STUMBLE:?} longer {when}: CPU per question {off:.0} µs without hedging, {on:.0} µs \
             with, {:+.1} %; {hedges} hedges of {asks} asks, {:.1} %",
            100.0 * (on / off - 1.0),
            100.0 * hedges as f64 / asks as f64,
        );
    }
}
