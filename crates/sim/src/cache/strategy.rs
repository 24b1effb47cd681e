//! Ways to choose the node that is asked: the mechanisms of \[Gomez14\], its baselines, and today's practice.
//!
//! The thesis' own mechanisms and ours are a front and a leader (`routed.rs`), the product's code. The others are
//! here: modulo,
//! broadcast, the matrix of partitions × replicas, virtual nodes, consistent hashing with bounded loads
//! \[Mirrokni18\], and the less loaded of two hashed nodes. Those that look at loads see them exactly and at
//! once, which flatters them.

use super::routed::Routed;
use farol_base::random::mix;
use farol_base::{Random, Seeded, Timestamp};
use farol_cache::balance::{Balancer, RangeOf, Rid};
use farol_cache::failover::FailoverCopies;
use farol_cache::front::FrontRules;
use farol_cache::lead::{BalanceRules, HotRules, LeaderRules, Scheme};
use farol_cache::{Ring, burst};
use std::time::Duration;

/// Virtual nodes per node.
const VIRTUAL: u16 = 100;
/// Bounded loads: at most so much above the mean; HAProxy's usual factor.
const BOUND: f64 = 1.25;

/// Which strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StrategyKind {
    /// Consistent hashing, fixed equal ranges.
    Plain,
    Modulo,
    Broadcast,
    /// So many partitions, the rest are replicas, each answer at once in all of its partition.
    Matrix(usize),
    /// The same, with what is new copied to the other replicas so many seconds apart [Gomez14 §7.4].
    Copying(usize, u16),
    Virtual,
    Bounded(f64),
    TwoChoices,
    /// Mechanisms of the thesis.
    Thesis(Mechanisms),
    /// The same with our changes.
    Ours,
}

/// Mechanisms by name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mechanisms {
    pub hot: bool,
    pub balance: bool,
    pub bursts: bool,
    pub protect: bool,
}

impl StrategyKind {
    pub const D: StrategyKind =
        StrategyKind::Thesis(Mechanisms { hot: true, balance: false, bursts: false, protect: false });
    pub const B: StrategyKind =
        StrategyKind::Thesis(Mechanisms { hot: false, balance: true, bursts: false, protect: false });
    pub const DB: StrategyKind =
        StrategyKind::Thesis(Mechanisms { hot: true, balance: true, bursts: false, protect: false });
    pub const DBR: StrategyKind =
        StrategyKind::Thesis(Mechanisms { hot: true, balance: true, bursts: true, protect: false });
    pub const DBRF: StrategyKind =
        StrategyKind::Thesis(Mechanisms { hot: true, balance: true, bursts: true, protect: true });
    pub const PLAIN_F: StrategyKind =
        StrategyKind::Thesis(Mechanisms { hot: false, balance: false, bursts: false, protect: true });

    /// Bounded loads with the usual factor.
    pub const BOUNDED: StrategyKind = StrategyKind::Bounded(BOUND);

    pub fn name(self) -> String {
        match self {
            StrategyKind::Plain => "CH".to_string(),
            StrategyKind::Modulo => "modulo".to_string(),
            StrategyKind::Broadcast => "broadcast".to_string(),
            StrategyKind::Matrix(partitions) => format!("PD{partitions}"),
            StrategyKind::Copying(partitions, secs) => {
                format!("PD{partitions}, copying each {} min", f64::from(secs) / 60.0)
            }
            StrategyKind::Virtual => format!("virtual nodes ({VIRTUAL})"),
            StrategyKind::Bounded(bound) => format!("bounded loads ({bound})"),
            StrategyKind::TwoChoices => "two choices".to_string(),
            StrategyKind::Ours => "ours".to_string(),
            StrategyKind::Thesis(Mechanisms { hot: false, balance: false, protect: true, .. }) => {
                "CH+F".to_string()
            }
            StrategyKind::Thesis(on) => {
                let names = [(on.hot, "D"), (on.balance, "B"), (on.bursts, "R"), (on.protect, "F")];
                names.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect::<Vec<_>>().join("+")
            }
        }
    }

    /// Seconds between two rounds in which replicas copy what is new to each other.
    pub fn copies_every(self) -> Option<f64> {
        if let StrategyKind::Copying(_, secs) = self { Some(f64::from(secs.max(1))) } else { None }
    }

    /// The protection that goes with it.
    pub fn copies(self) -> Option<FailoverCopies> {
        match self {
            StrategyKind::Thesis(Mechanisms { protect: true, .. }) => Some(FailoverCopies::thesis()),
            StrategyKind::Ours => Some(FailoverCopies::default()),
            _ => None,
        }
    }
}

/// What of a strategy can be set from outside.
pub struct Tuning {
    /// Requests that a node bears per second.
    pub node_rate: f64,
    pub balancer: Box<dyn Balancer>,
    pub efficiency_min: f64,
    /// Over whose range load is taken to be even.
    pub range: RangeOf,
    pub balance_every: Duration,
    /// How long before each balancing loads are measured.
    pub measured_over: Duration,
    /// `k` of D.
    pub top: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            node_rate: 50.0,
            balancer: Box::new(Rid { threshold: 0.08 }),
            efficiency_min: 0.95,
            range: RangeOf::Donor,
            balance_every: Duration::from_secs(300),
            measured_over: Duration::from_secs(300),
            top: 25,
        }
    }
}

/// A strategy at work.
pub enum RoutingStrategy {
    Routed(Box<Routed>),
    Modulo { alive: Vec<u16> },
    Broadcast { alive: Vec<u16> },
    Matrix { replicas: Vec<Vec<u16>>, random: Seeded, at_once: bool },
    Points { points: Vec<(u64, u16)>, bound: Option<f64>, load: Loads },
    TwoChoices { alive: Vec<u16>, load: Loads },
}

/// Requests by node, old ones fading.
pub struct Loads {
    counts: Vec<f64>,
    total: f64,
    alive: f64,
}

impl Loads {
    fn new(nodes: u16) -> Loads {
        Loads { counts: vec![0.0; usize::from(nodes)], total: 0.0, alive: f64::from(nodes) }
    }

    fn add(&mut self, node: u16) {
        self.counts[usize::from(node)] += 1.0;
        self.total += 1.0;
    }

    fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2.0);
        self.total /= 2.0;
    }

    fn lose(&mut self, node: u16) {
        self.total -= std::mem::take(&mut self.counts[usize::from(node)]);
        self.alive -= 1.0;
    }

    fn gain(&mut self, node: u16) {
        if self.counts.len() <= usize::from(node) {
            self.counts.resize(usize::from(node) + 1, 0.0);
        }
        self.alive += 1.0;
    }
}

impl RoutingStrategy {
    pub fn new(kind: StrategyKind, nodes: u16, seed: u64, tuning: Tuning) -> RoutingStrategy {
        let ring = Ring::equal(nodes);
        let over = tuning.measured_over.min(tuning.balance_every);
        let capacity = tuning.node_rate * over.as_secs_f64();
        let routed = |front, leader, ours| {
            RoutingStrategy::Routed(Box::new(Routed::new(nodes, seed, front, leader, ours)))
        };
        match kind {
            StrategyKind::Plain => routed(FrontRules::plain(), LeaderRules::default(), false),
            StrategyKind::Thesis(on) => {
                let front = if on.hot || on.bursts { FrontRules::thesis() } else { FrontRules::plain() };
                let hot = HotRules { scheme: Scheme::TopK(tuning.top), ..HotRules::thesis() };
                let balance = BalanceRules {
                    balancer: tuning.balancer,
                    efficiency_min: tuning.efficiency_min,
                    range: tuning.range,
                    every: tuning.balance_every,
                    measured_over: over,
                    capacity,
                    ..BalanceRules::thesis()
                };
                let leader = LeaderRules {
                    hot: on.hot.then_some(hot),
                    bursts: on.bursts.then(burst::Rules::default),
                    balance: on.balance.then_some(balance),
                };
                routed(front, leader, false)
            }
            StrategyKind::Ours => routed(FrontRules::ours(), LeaderRules::ours(), true),
            StrategyKind::Modulo => RoutingStrategy::Modulo { alive: (0..nodes).collect() },
            StrategyKind::Broadcast => RoutingStrategy::Broadcast { alive: (0..nodes).collect() },
            StrategyKind::Matrix(partitions) | StrategyKind::Copying(partitions, _) => {
                let mut replicas = vec![Vec::new(); partitions.clamp(1, usize::from(nodes.max(1)))];
                let count = replicas.len();
                (0..nodes).for_each(|node| replicas[usize::from(node) % count].push(node));
                let at_once = kind.copies_every().is_none();
                RoutingStrategy::Matrix { replicas, random: Seeded::new(seed ^ 77), at_once }
            }
            StrategyKind::Virtual | StrategyKind::Bounded(_) => {
                let mut points: Vec<(u64, u16)> =
                    ring.nodes().flat_map(|node| virtual_points(node.0)).collect();
                points.sort_unstable();
                let bound = if let StrategyKind::Bounded(bound) = kind { Some(bound) } else { None };
                RoutingStrategy::Points { points, bound, load: Loads::new(nodes) }
            }
            StrategyKind::TwoChoices => {
                RoutingStrategy::TwoChoices { alive: (0..nodes).collect(), load: Loads::new(nodes) }
            }
        }
    }

    /// The node for a query, and whether it is looked up there at all.
    pub fn node(&mut self, hash: u64, query: u64, at: f64) -> Option<(u16, bool)> {
        if let RoutingStrategy::Routed(routed) = self {
            return routed.route(hash, query, at);
        }
        self.hashed(hash).map(|node| (node, true))
    }

    fn hashed(&mut self, hash: u64) -> Option<u16> {
        match self {
            RoutingStrategy::Routed(_) => None,
            RoutingStrategy::Modulo { alive } | RoutingStrategy::Broadcast { alive } => {
                (!alive.is_empty()).then(|| alive[(hash % alive.len() as u64) as usize])
            }
            RoutingStrategy::Matrix { replicas, random, .. } => {
                let count = replicas.len() as u64;
                // A partition without a replica is the next one's.
                let of = |i: u64| (((hash % count) + i) % count) as usize;
                let partition = (0..count).map(of).find(|at| !replicas[*at].is_empty())?;
                let nodes = &replicas[partition];
                Some(nodes[random.below(nodes.len() as u64) as usize])
            }
            RoutingStrategy::Points { points, bound, load } => {
                let len = points.len();
                if len == 0 {
                    return None;
                }
                let start = points.partition_point(|(point, _)| *point < hash);
                let most =
                    bound.map_or(f64::INFINITY, |bound| (bound * (load.total + 1.0) / load.alive).ceil());
                let fits = |i: &usize| load.counts[usize::from(points[*i % len].1)] < most;
                let at = (start..start + len).find(fits).unwrap_or(start);
                let node = points[at % len].1;
                load.add(node);
                Some(node)
            }
            RoutingStrategy::TwoChoices { alive, load } => {
                // Rendezvous hashing: the two best live nodes of a query stay the same while they live.
                let (mut first, mut second) = ((0, None), (0, None));
                for node in alive.iter() {
                    let rank = mix(hash ^ mix(u64::from(*node) + 1));
                    if rank >= first.0 {
                        (second, first) = (first, (rank, Some(*node)));
                    } else if rank >= second.0 {
                        second = (rank, Some(*node));
                    }
                }
                let one = first.1?;
                let other = second.1.unwrap_or(one);
                let count = |node: u16| load.counts[usize::from(node)];
                let node = if count(other) < count(one) { other } else { one };
                load.add(node);
                Some(node)
            }
        }
    }

    /// Nodes that get an answer after a miss at one of them.
    pub fn given_to(&self, hash: u64, node: u16, at: f64) -> Vec<u16> {
        match self {
            RoutingStrategy::Routed(routed) => routed.given_to(hash, node, at),
            // The consistency protocol of the matrix, without delay.
            RoutingStrategy::Matrix { at_once: true, .. } => {
                let mut nodes = self.replicas(node);
                nodes.push(node);
                nodes
            }
            _ => vec![node],
        }
    }

    /// The other replicas of a node's partition.
    pub fn replicas(&self, node: u16) -> Vec<u16> {
        match self {
            RoutingStrategy::Matrix { replicas, .. } => {
                let partition = replicas.iter().find(|nodes| nodes.contains(&node));
                partition.into_iter().flatten().copied().filter(|other| *other != node).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Nodes that are asked beside the one that answers.
    pub fn also_ask(&self) -> &[u16] {
        match self {
            RoutingStrategy::Broadcast { alive } => alive,
            _ => &[],
        }
    }

    pub fn beat(&mut self) {
        match self {
            RoutingStrategy::Points { load, .. } | RoutingStrategy::TwoChoices { load, .. } => load.fade(),
            _ => {}
        }
    }

    /// Nodes are known to be gone. (A leader hears it by itself, from beats that do not come.)
    pub fn down(&mut self, nodes: &[u16]) {
        nodes.iter().for_each(|node| self.down_one(*node));
    }

    fn down_one(&mut self, node: u16) {
        match self {
            RoutingStrategy::Routed(_) => {}
            RoutingStrategy::Modulo { alive } | RoutingStrategy::Broadcast { alive } => {
                alive.retain(|known| *known != node)
            }
            RoutingStrategy::Matrix { replicas, .. } => {
                replicas.iter_mut().for_each(|nodes| nodes.retain(|known| *known != node));
            }
            RoutingStrategy::Points { points, load, .. } => {
                points.retain(|(_, known)| *known != node);
                load.lose(node);
            }
            RoutingStrategy::TwoChoices { alive, load } => {
                alive.retain(|known| *known != node);
                load.lose(node);
            }
        }
    }

    /// A node comes.
    pub fn up(&mut self, node: u16) {
        match self {
            RoutingStrategy::Routed(_) => {}
            RoutingStrategy::Modulo { alive } | RoutingStrategy::Broadcast { alive } => alive.push(node),
            RoutingStrategy::Matrix { replicas, .. } => {
                if let Some(least) = replicas.iter_mut().min_by_key(|nodes| nodes.len()) {
                    least.push(node);
                }
            }
            RoutingStrategy::Points { points, load, .. } => {
                points.extend(virtual_points(node));
                points.sort_unstable();
                load.gain(node);
            }
            RoutingStrategy::TwoChoices { alive, load } => {
                alive.push(node);
                load.gain(node);
            }
        }
    }

    pub fn routed(&mut self) -> Option<&mut Routed> {
        match self {
            RoutingStrategy::Routed(routed) => Some(routed),
            _ => None,
        }
    }
}

/// Seconds of the simulation as an instant.
pub fn timestamp(at: f64) -> Timestamp {
    Timestamp::from_millis((at * 1000.0) as u64)
}

fn virtual_points(node: u16) -> impl Iterator<Item = (u64, u16)> {
    (0..VIRTUAL).map(move |i| (mix(mix(u64::from(node) + 1) ^ u64::from(i)), node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(kind: StrategyKind, queries: u64) -> (Vec<u32>, RoutingStrategy) {
        let mut strategy = RoutingStrategy::new(kind, 10, 1, Tuning::default());
        let mut counts = vec![0; 10];
        for query in 0..queries {
            counts[usize::from(strategy.node(mix(query), query, 1.0).unwrap().0)] += 1;
        }
        (counts, strategy)
    }

    #[test]
    fn all_strategies_use_all_nodes_and_none_that_is_gone() {
        for kind in [
            StrategyKind::Plain,
            StrategyKind::Modulo,
            StrategyKind::Matrix(5),
            StrategyKind::Virtual,
            StrategyKind::BOUNDED,
            StrategyKind::TwoChoices,
            StrategyKind::DB,
            StrategyKind::Ours,
        ] {
            let (counts, mut strategy) = spread(kind, 20_000);
            assert!(counts.iter().all(|count| *count > 1000), "{}: {counts:?}", kind.name());
            let mut alive = vec![true; 10];
            let live = |strategy: &mut RoutingStrategy, alive: &[bool], from: u64| {
                if let Some(routed) = strategy.routed() {
                    (from..from + 10).for_each(|second| drop(routed.tick(second as f64, alive)));
                }
            };
            live(&mut strategy, &alive, 1);
            alive[3] = false;
            live(&mut strategy, &alive, 11);
            strategy.down(&[3]);
            let ask = |strategy: &mut RoutingStrategy| {
                (0..5000u64)
                    .any(|query| strategy.node(mix(query), query, 30.0).is_some_and(|(node, _)| node == 3))
            };
            assert!(!ask(&mut strategy), "{}", kind.name());
            alive[3] = true;
            live(&mut strategy, &alive, 31);
            strategy.up(3);
            assert!(ask(&mut strategy), "{}", kind.name());
        }
    }

    #[test]
    fn bounds_hold_and_two_choices_level() {
        let (counts, _) = spread(StrategyKind::BOUNDED, 50_000);
        assert!(counts.iter().all(|count| *count <= 6300), "{counts:?}");
        let (counts, _) = spread(StrategyKind::TwoChoices, 50_000);
        assert!(counts.iter().all(|count| (4900..5100).contains(count)), "{counts:?}");
    }
}
