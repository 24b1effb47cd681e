//! Failover copies alone, as in [Gomez14 §7.4]: five nodes, one dies and comes back empty, later another.
//!
//! The thesis runs 100 million queries on real machines; here it is a part of the traffic (`--traffic`), with failures at
//! the same parts of the run: 15 and 16 %, 60 and 65 %.

use super::CacheArgs;
use super::report::{CacheReport, head, row};
use super::service::{Costs, WORK};
use super::strategy::{StrategyKind, Tuning};
use super::stream::StreamConfig;
use super::tables::{Wanted, course, make, spread};
use super::world::{Change, Plan, ServiceOutcome};
use farol_cache::replace::Policy;

const NODES: u16 = 5;
/// Failures and re-insertions as parts of the run, and who.
const COURSE: [(f64, f64, u16); 2] = [(0.15, 0.16, 1), (0.60, 0.65, 3)];
/// Load in the mean, inserts counted.
const LOAD: f64 = 0.5;

fn wanted(args: &CacheArgs, policy: Policy, kind: StrategyKind, seed: u64, fails: bool) -> Wanted {
    let part = args.setting.share();
    let rate = StreamConfig::default().rate * part;
    let (warm_up, seconds) = course(args, rate, args.warm_up * 1e6 / rate, args.queries * 1e6 / rate);
    let measured = seconds - warm_up;
    let node_rate = rate / f64::from(NODES) / LOAD;
    let costs = Costs::default();
    let costs = Costs {
        node_rate: node_rate * WORK,
        pace: costs.pace * part,
        index_rate: 10.0 * rate,
        front_rate: 2.0 * rate,
        sample: costs.sample / part,
        ..costs
    };
    let changes = |(dies, back, node): (f64, f64, u16)| {
        let at = |share: f64| warm_up + measured * share;
        [(at(dies), Change::Fail(vec![node])), (at(back), Change::Join(node))]
    };
    let plan = Plan {
        policy,
        costs,
        warm_up,
        changes: if fails { COURSE.into_iter().flat_map(changes).collect() } else { Vec::new() },
        tuning: Tuning { node_rate, ..Tuning::default() },
        seed,
        ..Plan::new(kind, NODES, args.entries)
    };
    let stream = StreamConfig { seed, rate, ..StreamConfig::default() };
    Wanted { label: kind.name(), plan, stream, log: args.log.clone(), seconds }
}

/// Hits from a failure until the node is back and as long again, in both failures, per cent.
fn hits_around_failures(outcome: &ServiceOutcome) -> f64 {
    let (first, last) = match (outcome.minutes.first(), outcome.minutes.last()) {
        (Some(first), Some(last)) => (first.at, last.at),
        _ => return 0.0,
    };
    let at = |share: f64| first + (last - first) * share;
    let is_near = |time: f64| {
        COURSE.iter().any(|(dies, back, _)| time > at(*dies) && time <= at(2.0 * back - dies) + 60.0)
    };
    let near = outcome.minutes.iter().filter(|minute| is_near(minute.at));
    let (hits, asked) = near.fold((0, 0), |sum, minute| (sum.0 + minute.hits, sum.1 + minute.asked));
    100.0 * hits as f64 / (asked as f64).max(1.0)
}

/// The table.
pub fn table_7_4(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    head(
        &format!(
            "§7.4: {NODES} nodes × {} entries, {:.2} M queries at {} of the traffic; one dies at 15 % and is back at 16 %, another at 60 and 65 %; {} seeds, mean ± deviation (least–most)",
            args.entries,
            args.log.as_ref().map_or(args.queries, |log| log.len() as f64 * 2.0 / 3e6),
            args.setting.traffic,
            args.seeds
        ),
        &[
            "strategy",
            "failures",
            "hits, %",
            "hits near the failures, %",
            "adopted, ‰ of queries",
            "mean, ms",
            "work per query",
            "carried from node to node, GB",
            "given up, ‰",
            "thesis: hits",
        ],
    );
    // Figure 7.4c: one partition of five replicas, all of which have a copy of what is new after 1 or 10 minutes.
    let kinds = [
        (StrategyKind::Plain, "46"),
        (StrategyKind::PLAIN_F, "47.2"),
        (StrategyKind::Copying(1, 60), ""),
        (StrategyKind::Copying(1, 600), ""),
        (StrategyKind::Ours, ""),
    ];
    for (kind, thesis) in kinds.into_iter().filter(|(kind, _)| args.wants(&kind.name())) {
        for fails in [false, true] {
            let seeds = args.seed..args.seed + args.seeds.max(1);
            let runs = seeds.map(|seed| wanted(args, policy, kind, seed, fails)).collect();
            let runs: Vec<ServiceOutcome> =
                make(runs, args.threads).into_iter().map(|(_, outcome)| outcome).collect();
            let of =
                |value: &dyn Fn(&ServiceOutcome) -> f64| spread(&runs.iter().map(value).collect::<Vec<_>>());
            let thousandth = |count: u64, of: u64| 1000.0 * count as f64 / of.max(1) as f64;
            row(&[
                kind.name(),
                if fails { "2" } else { "0" }.to_string(),
                of(&|outcome| 100.0 * outcome.hit_rate()),
                of(&hits_around_failures),
                of(&|outcome| thousandth(outcome.adopted, outcome.asked)),
                of(&|outcome| outcome.times.mean()),
                of(&ServiceOutcome::work_per_query),
                of(&|outcome| outcome.carried_gb(Costs::default().sample / args.setting.share())),
                of(&|outcome| thousandth(outcome.given_up, outcome.asked)),
                if fails { thesis } else { "" }.to_string(),
            ]);
            report.runs.extend(runs.into_iter().map(|outcome| ("7.4".to_string(), outcome)));
        }
    }
    println!();
}
