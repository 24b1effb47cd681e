//! Whole services, small: the specs' checks of order, failures and joins.

use super::*;
use crate::cache::service::{LOOKUPS, WORK};
use crate::cache::stream::{Stream, StreamConfig};

/// Three hundred queries a second for forty minutes; nodes bear as much less.
fn small(kind: StrategyKind, nodes: u16, changes: Vec<(f64, Change)>) -> ServiceOutcome {
    small_with(|_| (), 0, kind, nodes, changes)
}

/// The same as the thesis measures: LRU, and loads of lookups alone.
fn small_as_published(top: u64, kind: StrategyKind, nodes: u16) -> ServiceOutcome {
    let published = |plan: &mut Plan| {
        plan.policy = Policy::Lru;
        plan.costs = Costs { insert: 0.0, node_rate: plan.costs.node_rate / WORK, ..plan.costs };
    };
    small_with(published, top, kind, nodes, Vec::new())
}

/// The same with another setting, without the most frequent queries.
fn small_with(
    set: impl FnOnce(&mut Plan),
    top: u64,
    kind: StrategyKind,
    nodes: u16,
    changes: Vec<(f64, Change)>,
) -> ServiceOutcome {
    const RATE: f64 = 300.0;
    let node_rate = LOOKUPS * RATE / 770.0;
    let pace = 25.0 * RATE / 770.0;
    let costs =
        Costs { node_rate: node_rate * WORK, pace, index_rate: 520.0 * RATE / 770.0, ..Costs::default() };
    let tuning = Tuning { node_rate, ..Tuning::default() };
    let mut plan = Plan { changes, warm_up: 900.0, costs, tuning, ..Plan::new(kind, nodes, 2_000) };
    set(&mut plan);
    let stream = Stream::new(StreamConfig { rate: RATE, ..StreamConfig::default() });
    run(plan, stream.take_while(|asked| asked.at < 2400.0).filter(|asked| asked.query >= top))
}

#[test]
fn mechanisms_rank_as_in_the_thesis() {
    // 20 nodes; CH, matrix and D.
    let [plain, pd10, pd5, pd4, d] = [
        StrategyKind::Plain,
        StrategyKind::Matrix(10),
        StrategyKind::Matrix(5),
        StrategyKind::Matrix(4),
        StrategyKind::D,
    ]
    .map(|kind| small_as_published(0, kind, 20));
    let efficiencies = [&plain, &pd10, &pd5, &pd4].map(ServiceOutcome::efficiency);
    assert!(efficiencies.is_sorted(), "{efficiencies:?}");
    assert!(d.efficiency() > pd10.efficiency(), "{}", d.efficiency());
    let hits = [&pd4, &pd5, &pd10, &plain].map(ServiceOutcome::hit_rate);
    assert!(hits.is_sorted() && d.hit_rate() >= plain.hit_rate() - 0.002, "{hits:?} {}", d.hit_rate());
    assert!([&plain, &pd10, &pd5, &pd4].iter().all(|other| d.times.mean() < other.times.mean()));
}

#[test]
fn five_failures_hurt_plain_hashing_and_not_us() {
    let changes = || vec![(1500.0, Change::Fail(vec![2, 7, 13, 21, 28]))];
    let plain = small(StrategyKind::Plain, 30, changes());
    let ours = small(StrategyKind::Ours, 30, changes());
    let whole = small(StrategyKind::Ours, 30, Vec::new());
    assert!(ours.times.mean() < 0.9 * plain.times.mean(), "{} {}", ours.times.mean(), plain.times.mean());
    assert!(
        ours.efficiency() > 0.9 && plain.efficiency() < 0.7,
        "{} {}",
        ours.efficiency(),
        plain.efficiency()
    );
    assert!(ours.times.mean() < 1.05 * whole.times.mean());
    assert!(ours.carried > 0 && ours.given_up > 0);
}

#[test]
fn with_failures_we_are_ahead_of_replicas_and_of_plain_hashing() {
    // PR < PD*, PR < CH. PD* < CH needs caches that are warm after millions of queries: in
    // this short run the misses of replicas alone are more than the index bears. It is in the results.
    let changes = || vec![(1500.0, Change::Fail(vec![2, 7, 13, 21, 28]))];
    let time = |kind| small(kind, 30, changes()).times.mean();
    let ours = time(StrategyKind::Ours);
    assert!(ours < time(StrategyKind::Plain));
    for partitions in [15, 10, 6, 5] {
        let matrix = time(StrategyKind::Matrix(partitions));
        assert!(ours < matrix, "PD{partitions}: {ours} {matrix}");
    }
}

#[test]
fn every_balancer_levels_what_hot_queries_leave() {
    use farol_cache::balance::{Balancer, Dem, Direct, Gde, Gradient, Reach, Rid, Sid};
    const RATE: f64 = 300.0;
    let node_rate = RATE / 20.0 / 0.62;
    let most_loaded = |kind: StrategyKind, balancer: Box<dyn Balancer>| {
        let tuning = Tuning { node_rate, balancer, ..Tuning::default() };
        // Loads of lookups alone, which is what borders and hot queries can level.
        let costs = Costs { node_rate, insert: 0.0, index_rate: 520.0 * RATE / 770.0, ..Costs::default() };
        let policy = Policy::Lru;
        let plan = Plan { warm_up: 900.0, costs, tuning, policy, ..Plan::new(kind, 20, 2_000) };
        let stream = Stream::new(StreamConfig { rate: RATE, ..StreamConfig::default() });
        let outcome = run(plan, stream.take_while(|asked| asked.at < 2400.0));
        outcome.node_loads.into_iter().fold(0.0, f64::max)
    };
    // Hot-key replication alone (D) leaves 0.651 of plain hashing's 0.829: beside plain hashing it would pass for a
    // balancer itself. So what counts is what a balancer takes off that: to 0.875 (GDE) to 0.923 (RID) of it.
    let plain = most_loaded(StrategyKind::Plain, Box::new(Direct));
    let alone = most_loaded(StrategyKind::D, Box::new(Direct));
    assert!(alone < 0.85 * plain, "{alone} beside {plain}");
    let threshold = 0.02;
    let balancers: [Box<dyn Balancer>; 6] = [
        Box::new(Rid { threshold }),
        Box::new(Sid { threshold }),
        Box::new(Direct),
        Box::new(Gradient::default()),
        Box::new(Dem::new(Reach::Sweep)),
        Box::new(Gde::new(Reach::Sweep)),
    ];
    for balancer in balancers {
        let name = balancer.name();
        let most = most_loaded(StrategyKind::DB, balancer);
        assert!(most < 0.95 * alone, "{name}: {most} beside {alone} of hot-key replication alone");
        assert!(most < 0.85 * plain, "{name}: {most} beside {plain} of plain hashing");
    }
}

#[test]
fn plain_hashing_suffers_from_more_nodes_and_from_the_head() {
    let efficiency = |top, nodes| small_as_published(top, StrategyKind::Plain, nodes).efficiency();
    let falling = [5, 10, 20, 40].map(|nodes| efficiency(0, nodes));
    assert!(falling.is_sorted_by(|fewer, more| fewer > more), "{falling:?}");
    let without = efficiency(100, 20);
    assert!(1.0 - without < 0.5 * (1.0 - falling[2]), "{without} {falling:?}");
}

#[test]
fn a_node_that_joins_gets_its_share() {
    let joins = vec![(1200.0, Change::Join(20)), (1200.0, Change::Join(21))];
    let ours = small(StrategyKind::Ours, 20, joins);
    let last = ours.minutes.last().unwrap();
    assert_eq!(last.loads.len(), 22);
    assert!(last.hottest() < 1.1, "{:?}", last.loads);
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let one = small(StrategyKind::DBRF, 10, Vec::new());
    let two = small(StrategyKind::DBRF, 10, Vec::new());
    assert_eq!((one.hits, one.asked, one.times.mean()), (two.hits, two.asked, two.times.mean()));
}
