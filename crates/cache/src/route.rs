//! The front's part: counts each question, names its node, and runs hot-key replication, rebalancing and burst detection
//! at their own pace.
//!
//! One router stands for the whole front [Gomez14 §1.2]; with several fronts each may count its own share, because
//! degrees do not change under sampling, and one of them publishes the ring.
//!
//! Two sets of rules: [`RouterRules::thesis`], and [`RouterRules::ours`], which differs in these. Hot queries are all
//! those that stay resident on every node by themselves, and each goes to the node that was sent least, so they level
//! what chance leaves uneven; so does a query that was never asked before, which misses anywhere. A query that grows
//! beyond a share of a node's load is hot at once, not at the end of the minute. And borders are set by measured
//! density, in one go, also right after a node came or went.

use crate::balance::{Balancer, Controller, Density, Loads, RangeOf, Rid, Spread};
use crate::burst::online::nodes_for;
use crate::burst::{self, Detector, Event};
use crate::hot::{Choice, Degree, HotTable, Sequence, SpaceSaving, degrees};
use crate::ring::{NodeId, Ring};
use crate::rotating_bloom::RotatingBloom;
use farol_base::Timestamp;
use std::time::Duration;

/// Share of the density that is kept from one balancing to the next: a memory of about five rounds.
const DENSITY_KEEP: f32 = 0.8;

/// Which queries are hot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// The top `k` whose count exceeds the dynamic capacity, on as many nodes as that asks for (Algorithm 2).
    TopK(usize),
    /// Everything asked at least this often per node and interval, on all nodes; and at once, within the interval,
    /// what has been asked this share of a node's mean load.
    Resident { per_node_min: f64, at_once: f64 },
}

/// Rules of hot-key replication (D).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotRules {
    pub counters: usize,
    pub scheme: Scheme,
    pub choice: Choice,
    pub sequence: Sequence,
    /// `A`: how long a degree outlasts its need, per step.
    pub ageing: Duration,
    pub hot_max: usize,
    /// Whether a node that had to fetch the answer gives it to all others that serve the query.
    pub give_at_once: bool,
}

/// Rules of rebalancing (B).
pub struct BalanceRules {
    pub balancer: Box<dyn Balancer>,
    /// `T_load`.
    pub efficiency_min: f64,
    /// Place borders by measured density instead of assuming it even.
    pub measured: bool,
    /// Where it is assumed: over whose range.
    pub range: RangeOf,
    /// Balance at once when a node comes or goes.
    pub on_change: bool,
}

/// What a router does beside finding owners.
#[derive(Default)]
pub struct RouterRules {
    pub hot: Option<HotRules>,
    pub balance: Option<BalanceRules>,
    pub bursts: Option<burst::Rules>,
    /// Queries never asked before go to the node that was sent least; so many others are remembered. 0: they go to their
    /// owners.
    pub remembered: usize,
}

impl HotRules {
    pub fn thesis() -> HotRules {
        HotRules {
            counters: 10_000,
            scheme: Scheme::TopK(25),
            choice: Choice::RoundRobin,
            sequence: Sequence::Random,
            ageing: Duration::from_secs(180),
            hot_max: 1000,
            give_at_once: false,
        }
    }

    pub fn ours() -> HotRules {
        HotRules {
            scheme: Scheme::Resident { per_node_min: 0.15, at_once: 0.03 },
            choice: Choice::LeastSent,
            hot_max: 1500,
            give_at_once: true,
            ..HotRules::thesis()
        }
    }
}

impl RouterRules {
    /// All three as \[Gomez14\] has them.
    pub fn thesis() -> RouterRules {
        RouterRules {
            hot: Some(HotRules::thesis()),
            balance: Some(BalanceRules {
                balancer: Box::new(Rid { threshold: 0.08 }),
                efficiency_min: 0.95,
                measured: false,
                range: RangeOf::Donor,
                on_change: false,
            }),
            bursts: Some(burst::Rules::default()),
            remembered: 0,
        }
    }

    /// What we run.
    pub fn ours() -> RouterRules {
        RouterRules {
            hot: Some(HotRules::ours()),
            balance: Some(BalanceRules {
                // Ballast, more than half of all, fills what is left.
                balancer: Box::new(Spread { slack: 0.06 }),
                efficiency_min: 0.92,
                measured: true,
                range: RangeOf::Donor,
                on_change: true,
            }),
            bursts: Some(burst::Rules::default()),
            remembered: 8_000_000,
        }
    }
}

/// A hot query as people may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotQuery<K> {
    pub key: K,
    pub count: u32,
    /// How much of the count may be others'.
    pub error: u32,
}

/// Finds nodes for questions.
pub struct Router<K> {
    ring: Ring,
    rules: RouterRules,
    monitor: SpaceSaving<K>,
    hot: HotTable,
    detector: Option<Detector>,
    density: Density,
    seen: Option<RotatingBloom>,
    /// Requests by node number: sent in this interval, sent and owned since loads are measured.
    sent: Vec<u32>,
    sent_since: Vec<u32>,
    owned_since: Vec<u32>,
    /// Count at which a query becomes hot within an interval.
    at_once: u32,
    /// Requests that a node bears while loads are measured; makes loads of counts.
    capacity: f64,
}

impl<K: Eq + Clone> Router<K> {
    /// `capacity`: requests that one node bears while its load is measured: from [`Router::measure`], or else from the last
    /// balancing, to the next balancing.
    pub fn new(ring: Ring, rules: RouterRules, capacity: f64) -> Router<K> {
        let hot = rules.hot.unwrap_or(HotRules::thesis());
        let slots = ring.nodes().map(|node| usize::from(node.0) + 1).max().unwrap_or(0);
        Router {
            monitor: SpaceSaving::new(hot.counters),
            hot: HotTable::new(hot.sequence, hot.ageing, hot.hot_max),
            detector: rules.bursts.map(Detector::new),
            density: Density::default(),
            seen: (rules.remembered > 0).then(|| RotatingBloom::new(rules.remembered)),
            sent: vec![0; slots],
            sent_since: vec![0; slots],
            owned_since: vec![0; slots],
            at_once: u32::MAX,
            capacity: if capacity > 0.0 { capacity } else { 1.0 },
            ring,
            rules,
        }
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The node that is asked; `None` only where there is no node.
    pub fn route(&mut self, hash: u64, key: &K, now: Timestamp) -> Option<NodeId> {
        if self.rules.hot.is_some() || self.detector.is_some() {
            let count = self.monitor.offer(hash, key);
            if count == self.at_once && !self.hot.contains(hash) {
                let degree = Degree { hash, nodes: self.ring.len() };
                self.hot.raise_now(degree, &self.ring, now);
            }
        }
        let choice = self.rules.hot.map_or(Choice::RoundRobin, |hot| hot.choice);
        let node = match self.hot.pick(hash, choice, &self.sent) {
            Some(node) => node,
            None if self.seen.as_mut().is_some_and(|seen| !seen.insert(hash)) => self.least_sent()?,
            None => {
                let owner = self.ring.owner(hash)?;
                if self.rules.balance.is_some() {
                    self.owned_since[usize::from(owner.0)] += 1;
                    self.density.add(hash);
                }
                owner
            }
        };
        self.sent[usize::from(node.0)] += 1;
        self.sent_since[usize::from(node.0)] += 1;
        Some(node)
    }

    fn least_sent(&self) -> Option<NodeId> {
        self.ring.nodes().min_by_key(|node| self.sent[usize::from(node.0)])
    }

    /// Nodes that an answer is given to which `node` did not have: where our rules spread the query, all that
    /// serve it, each of which would miss it once otherwise; its owner, where it is not hot; under
    /// the rules of [Gomez14 §4.3.3] the node that was asked, which is the owner or serves the query.
    pub fn given_to(&self, hash: u64, node: NodeId) -> Vec<NodeId> {
        let gives = self.rules.hot.is_some_and(|hot| hot.give_at_once);
        match self.hot.nodes(hash) {
            [] if self.seen.is_some() => self.ring.owner(hash).into_iter().collect(),
            serving if gives && serving.contains(&node) => serving.to_vec(),
            _ => vec![node],
        }
    }

    /// The end of an interval of hot-key replication and burst detection, one minute: what is hot is decided anew. Answers how bursts went.
    pub fn minute(&mut self, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        let mut required = self.required();
        if let Some(detector) = &mut self.detector {
            events = detector.step(self.monitor.iter().map(|counted| (counted.hash, counted.count)));
            let nodes = self.ring.len();
            for (hash, severity) in detector.bursts() {
                let wanted = nodes_for(severity, nodes);
                match required.iter_mut().find(|degree| degree.hash == hash) {
                    Some(degree) => degree.nodes = degree.nodes.max(wanted),
                    None => required.push(Degree { hash, nodes: wanted }),
                }
            }
        }
        let loads = self.by_place(&self.sent_since);
        self.hot.renew(&required, &self.ring, &loads, now);
        for event in &events {
            if let Event::Begins { hash, severity } = event {
                let degree = Degree { hash: *hash, nodes: nodes_for(*severity, self.ring.len()) };
                self.hot.raise_now(degree, &self.ring, now);
            }
        }
        if let Some(HotRules { scheme: Scheme::Resident { at_once, .. }, .. }) = self.rules.hot {
            let mean = self.monitor.seen() as f64 / self.ring.len().max(1) as f64;
            self.at_once = ((mean * at_once) as u32).max(20);
        }
        self.monitor.reset();
        self.sent.fill(0);
        events
    }

    fn required(&self) -> Vec<Degree> {
        let Some(rules) = self.rules.hot else { return Vec::new() };
        let nodes = self.ring.len();
        match rules.scheme {
            Scheme::TopK(k) => {
                let top: Vec<(u64, f64)> = self
                    .monitor
                    .iter()
                    .take(k)
                    .map(|counted| (counted.hash, f64::from(counted.count)))
                    .collect();
                degrees(&top, nodes)
            }
            Scheme::Resident { per_node_min, .. } => {
                let least = (per_node_min * nodes as f64).max(2.0);
                // What is surely asked so often: the rest of the count may be others'.
                self.monitor
                    .iter()
                    .filter(|counted| f64::from(counted.count - counted.error) >= least)
                    .take(rules.hot_max)
                    .map(|counted| Degree { hash: counted.hash, nodes })
                    .collect()
            }
        }
    }

    /// The end of an interval of rebalancing. Answers how much of the circle changed owner.
    pub fn balance(&mut self) -> f64 {
        let moved = self.move_borders(false);
        self.measure();
        self.density.fade(DENSITY_KEEP);
        moved
    }

    /// Counts loads anew, so that the next balancing sees what came from now on.
    pub fn measure(&mut self) {
        self.sent_since.fill(0);
        self.owned_since.fill(0);
    }

    fn move_borders(&mut self, at_once: bool) -> f64 {
        let Some(rules) = &mut self.rules.balance else { return 0.0 };
        // The controller owns its balancer while it runs.
        let balancer = std::mem::replace(&mut rules.balancer, Box::new(Spread::default()));
        let mut controller =
            Controller { balancer, efficiency_min: rules.efficiency_min, range: rules.range };
        let (measured, on_change) = (rules.measured, rules.on_change);
        let moved = if measured {
            let loads: Vec<f64> = (0..self.ring.len())
                .map(|place| self.density.load(self.ring.start(place), self.ring.ends()[place].0))
                .collect();
            let loads = Loads { total: &loads, owned: &loads, density: Some(&self.density) };
            if at_once && !on_change { 0.0 } else { controller.run(&mut self.ring, &loads) }
        } else if at_once {
            0.0
        } else {
            let (total, owned) = (self.by_place(&self.sent_since), self.by_place(&self.owned_since));
            controller.run(&mut self.ring, &Loads { total: &total, owned: &owned, density: None })
        };
        if let Some(rules) = &mut self.rules.balance {
            rules.balancer = controller.balancer;
        }
        if moved > 0.0 {
            self.hot.refit(&self.ring, &[]);
        }
        moved
    }

    /// Counts by place on the ring, as loads.
    fn by_place(&self, counts: &[u32]) -> Vec<f64> {
        self.ring.nodes().map(|node| f64::from(counts[usize::from(node.0)]) / self.capacity).collect()
    }

    /// Nodes are gone: their successors have their ranges, hot queries pass them over. Those that go at the same time are
    /// named together, because borders that move once move less. Answers how much of the circle changed owner beyond
    /// that.
    pub fn nodes_down(&mut self, nodes: &[NodeId]) -> f64 {
        let gone = nodes.iter().filter(|node| self.ring.leave(**node)).count();
        if gone == 0 {
            return 0.0;
        }
        self.hot.refit(&self.ring, &[]);
        self.move_borders(true)
    }

    /// A node comes: it gets half of another's range.
    pub fn node_up(&mut self, node: NodeId, victim: NodeId) -> f64 {
        let slots = usize::from(node.0) + 1;
        for counts in [&mut self.sent, &mut self.sent_since, &mut self.owned_since] {
            if counts.len() < slots {
                counts.resize(slots, 0);
            }
        }
        if !self.ring.join(node, victim) {
            return 0.0;
        }
        self.hot.refit(&self.ring, &[]);
        self.move_borders(true)
    }

    /// The most asked queries of this interval so far.
    pub fn top(&self, count: usize) -> Vec<HotQuery<K>> {
        let hot = |counted: crate::hot::Counted<'_, K>| HotQuery {
            key: counted.key.clone(),
            count: counted.count,
            error: counted.error,
        };
        self.monitor.iter().take(count).map(hot).collect()
    }

    /// Hot queries at this moment.
    pub fn hot_queries(&self) -> usize {
        self.hot.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::{Random, Seeded, mix};

    /// Traffic of one minute: a query with a share, the rest even. Answers requests by node.
    fn minute(router: &mut Router<u64>, random: &mut Seeded, share: f64, now: Timestamp) -> Vec<u32> {
        let mut counts = vec![0; 40];
        for _ in 0..20_000 {
            let key = if random.unit() < share { 1 } else { 1000 + random.below(100_000) };
            counts[usize::from(router.route(mix(key), &key, now).unwrap().0)] += 1;
        }
        router.minute(now);
        counts
    }

    fn hottest(counts: &[u32], nodes: usize) -> f64 {
        f64::from(*counts.iter().max().unwrap()) / (f64::from(counts.iter().sum::<u32>()) / nodes as f64)
    }

    #[test]
    fn a_plain_router_asks_the_owner() {
        let mut router = Router::new(Ring::equal(5), RouterRules::default(), 1.0);
        for key in 0..1000u64 {
            let node = router.route(mix(key), &key, Timestamp::EPOCH);
            assert_eq!(node, router.ring().owner(mix(key)));
        }
        let mut none: Router<u64> = Router::new(Ring::equal(0), RouterRules::ours(), 1.0);
        assert_eq!(none.route(5, &5, Timestamp::EPOCH), None);
    }

    #[test]
    fn a_hot_query_is_served_by_several_nodes_from_the_next_minute_on() {
        let mut random = Seeded::new(1);
        let mut router = Router::new(
            Ring::equal(20),
            RouterRules { hot: Some(HotRules::thesis()), ..RouterRules::default() },
            1000.0,
        );
        let first = hottest(&minute(&mut router, &mut random, 0.2, Timestamp::from_secs(60)), 20);
        let second = hottest(&minute(&mut router, &mut random, 0.2, Timestamp::from_secs(120)), 20);
        assert!(first > 4.0 && second < 1.3, "{first} then {second}");
    }

    #[test]
    fn our_rules_spread_a_flash_within_the_minute() {
        let mut random = Seeded::new(2);
        let mut router = Router::new(Ring::equal(20), RouterRules::ours(), 1000.0);
        for number in 1..5 {
            minute(&mut router, &mut random, 0.0, Timestamp::from_secs(60 * number));
            router.balance();
        }
        let flash = hottest(&minute(&mut router, &mut random, 0.2, Timestamp::from_secs(300)), 20);
        assert!(flash < 1.15, "{flash}");
    }

    #[test]
    fn load_is_level_soon_after_nodes_are_gone() {
        let mut random = Seeded::new(3);
        let mut router = Router::new(Ring::equal(20), RouterRules::ours(), 1000.0);
        for number in 1..5 {
            minute(&mut router, &mut random, 0.1, Timestamp::from_secs(60 * number));
            router.balance();
        }
        assert!(router.nodes_down(&[3, 4, 11].map(NodeId)) > 0.0);
        assert_eq!(router.nodes_down(&[NodeId(3)]), 0.0);
        let counts = minute(&mut router, &mut random, 0.1, Timestamp::from_secs(300));
        assert!([3, 4, 11].iter().all(|node| counts[*node] == 0));
        assert!(hottest(&counts, 17) < 1.15, "{counts:?}");
        // They come back, and are used again.
        router.node_up(NodeId(3), NodeId(8));
        router.node_up(NodeId(25), NodeId(1));
        let counts = minute(&mut router, &mut random, 0.1, Timestamp::from_secs(360));
        assert!(counts[3] > 700 && counts[25] > 700 && hottest(&counts, 19) < 1.15, "{counts:?}");
    }
}
