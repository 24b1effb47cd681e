//! A cache service in a computer's memory: the product's nodes and router, driven by a stream of queries.
//!
//! Discrete events in the order of time: queries, and between them beats (waiting times), minutes (D, R), balancing
//! (B), protection rounds (F), failures with the time until they are noticed, and nodes that join. Policies are really
//! executed; only costs are reckoned ([`super::service`]).

use super::service::{BEAT, Costs, Station, Times};
use super::strategy::{RoutingStrategy, StrategyKind, Tuning, timestamp};
use super::stream::Asked;
use farol_base::{Seeded, Timestamp};
use farol_cache::burst::Event;
use farol_cache::failover::FailoverCopies;
use farol_cache::node::{CacheNode, NodeLookup, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::store::{Entry, Expiry, Now, Ranked};
use farol_cache::{NodeId, Ring};

/// Six heartbeats of 1.2 s are missed before a node counts as gone [Gomez14 §1.6].
const NOTICED_AFTER: f64 = 7.2;

/// A change of the service.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// These nodes fail at once.
    Fail(Vec<u16>),
    /// A node comes, empty, with this number.
    Join(u16),
}

/// What is run.
pub struct Plan {
    pub kind: StrategyKind,
    pub nodes: u16,
    pub entries: u64,
    pub policy: Policy,
    pub costs: Costs,
    /// Seconds that are not measured.
    pub warm_up: f64,
    /// Changes by their second.
    pub changes: Vec<(f64, Change)>,
    pub tuning: Tuning,
    /// Share that is protected, where the strategy protects; `None` takes its own.
    pub protected: Option<f64>,
    pub seed: u64,
}

impl Plan {
    pub fn new(kind: StrategyKind, nodes: u16, entries: u64) -> Plan {
        Plan {
            kind,
            nodes,
            entries,
            policy: Policy::Lru,
            costs: Costs::default(),
            warm_up: 0.0,
            changes: Vec::new(),
            tuning: Tuning::default(),
            protected: None,
            seed: 1,
        }
    }
}

/// One measured minute.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    /// When it ended, in seconds.
    pub at: f64,
    /// Offered load of each live node over its capacity.
    pub loads: Vec<f64>,
    pub hits: u64,
    pub asked: u64,
}

impl Minute {
    /// The hottest node's load over the mean.
    pub fn hottest(&self) -> f64 {
        let mean = self.loads.iter().sum::<f64>() / self.loads.len().max(1) as f64;
        if mean > 0.0 { self.loads.iter().copied().fold(0.0, f64::max) / mean } else { 1.0 }
    }
}

/// What came of a run.
pub struct ServiceOutcome {
    pub name: String,
    pub times: Times,
    pub hits: u64,
    pub adopted: u64,
    pub asked: u64,
    /// Lookups given up because a node was overloaded or gone.
    pub given_up: u64,
    pub minutes: Vec<Minute>,
    /// Nodes that were full in some minute.
    pub saturated: usize,
    /// Share of the circle that changed owner.
    pub moved: f64,
    /// How often B looked at the loads, and how often it moved borders.
    pub calls: u64,
    pub moving_calls: u64,
    /// Entries that went with their range to another node.
    pub carried: u64,
    /// Mean loads of the nodes alive at the end, capped at 1 minute by minute.
    pub node_loads: Vec<f64>,
    pub index_load: f64,
    pub front_load: f64,
    /// Loads by beat of ten seconds: time and hottest over mean.
    pub beats: Vec<(f64, f64)>,
    /// Bursts declared: second and query's hash.
    pub bursts: Vec<(f64, u64)>,
}

impl ServiceOutcome {
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.asked.max(1) as f64
    }

    /// Mean of the minutes' mean load over greatest load; loads beyond 1 count as 1, as utilisation does.
    pub fn efficiency_capped(&self) -> f64 {
        self.mean_of(|minute| {
            let capped: Vec<f64> = minute.loads.iter().map(|load| load.min(1.0)).collect();
            farol_cache::balance::efficiency(&capped)
        })
    }

    /// The same with loads as they are offered.
    pub fn efficiency(&self) -> f64 {
        self.mean_of(|minute| farol_cache::balance::efficiency(&minute.loads))
    }

    /// Mean over the minutes of the hottest node's load over the mean.
    pub fn hottest(&self) -> f64 {
        self.mean_of(Minute::hottest)
    }

    fn mean_of(&self, value: impl Fn(&Minute) -> f64) -> f64 {
        self.minutes.iter().map(value).sum::<f64>() / self.minutes.len().max(1) as f64
    }
}

struct ServiceWorld<'a> {
    plan: &'a Plan,
    strategy: RoutingStrategy,
    nodes: Vec<CacheNode<u64, ()>>,
    stations: Vec<Station>,
    index: Station,
    front: Station,
    /// By node: whether it answers.
    alive: Vec<bool>,
    /// This beat: hits, misses, given up, by node.
    beat: Vec<[u64; 3]>,
    /// This minute: requests, by node.
    minute: Vec<u32>,
    minute_hits: u64,
    ever_full: Vec<bool>,
    load_sums: Vec<f64>,
    copies: Option<FailoverCopies>,
    round: u64,
    /// The ring that entries lie by, where they travel with their ranges.
    ring: Option<Ring>,
    random: Seeded,
    outcome: ServiceOutcome,
    index_beats: (f64, f64, u64),
}

/// When regular events happen next.
struct Deadlines {
    beat: f64,
    minute: f64,
    balance: f64,
    measure: f64,
    round: f64,
    next: f64,
}

/// Runs a strategy on a stream.
pub fn run(mut plan: Plan, stream: impl Iterator<Item = Asked>) -> ServiceOutcome {
    let tuning = std::mem::take(&mut plan.tuning);
    let (balance_every, measured_over) = match plan.kind {
        StrategyKind::Ours => (60.0, 60.0),
        _ => (tuning.balance_every.as_secs_f64(), tuning.measured_over.as_secs_f64()),
    };
    // Loads of the whole period need no event: balancing counts anew by itself.
    let first_measure =
        if measured_over < balance_every { balance_every - measured_over } else { f64::INFINITY };
    let mut changes: Vec<(f64, Change)> = plan.changes.clone();
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let strategy = RoutingStrategy::new(plan.kind, plan.nodes, plan.seed, tuning);
    let mut world = ServiceWorld::new(&plan, strategy);
    let round_every = world.copies.map_or(f64::INFINITY, |copies| copies.every.as_secs_f64());
    let mut deadlines = Deadlines {
        beat: BEAT,
        minute: 60.0,
        balance: balance_every,
        measure: first_measure,
        round: round_every,
        next: 0.0,
    };
    // Failed nodes are noticed later.
    let mut noticed: Vec<(f64, u16)> = Vec::new();
    for asked in stream {
        while asked.at >= deadlines.next {
            if asked.at >= deadlines.beat {
                world.end_beat(deadlines.beat);
                deadlines.beat += BEAT;
            }
            if asked.at >= deadlines.minute {
                world.end_minute(deadlines.minute);
                deadlines.minute += 60.0;
            }
            if asked.at >= deadlines.balance {
                world.balance();
                deadlines.balance += balance_every;
            }
            if asked.at >= deadlines.measure {
                world.measure();
                deadlines.measure += balance_every;
            }
            if asked.at >= deadlines.round {
                world.protect();
                deadlines.round += round_every;
            }
            while changes.last().is_some_and(|(at, _)| asked.at >= *at) {
                match changes.pop() {
                    Some((at, Change::Fail(nodes))) => {
                        for node in nodes {
                            world.fail(node);
                            noticed.push((at + NOTICED_AFTER, node));
                        }
                    }
                    Some((_, Change::Join(node))) => world.join(node),
                    None => {}
                }
            }
            let due: Vec<u16> =
                noticed.iter().filter(|(at, _)| asked.at >= *at).map(|(_, node)| *node).collect();
            noticed.retain(|(at, _)| asked.at < *at);
            if !due.is_empty() {
                world.strategy.down(&due);
            }
            world.carry();
            let others =
                changes.last().map(|(at, _)| *at).into_iter().chain(noticed.iter().map(|(at, _)| *at));
            deadlines.next =
                [deadlines.beat, deadlines.minute, deadlines.balance, deadlines.measure, deadlines.round]
                    .into_iter()
                    .chain(others)
                    .fold(f64::INFINITY, f64::min);
        }
        world.ask(&asked);
    }
    world.finish()
}

impl<'a> ServiceWorld<'a> {
    fn new(plan: &'a Plan, mut strategy: RoutingStrategy) -> ServiceWorld<'a> {
        let mut copies = plan.kind.copies();
        if let (Some(copies), Some(share)) = (&mut copies, plan.protected) {
            copies.share = share;
        }
        let ring =
            strategy.router().filter(|_| plan.kind == StrategyKind::Ours).map(|router| router.ring().clone());
        let costs = &plan.costs;
        let station = |rate: f64, patience: f64| Station::new(rate, patience, costs.sample);
        let count = usize::from(plan.nodes);
        let mut world = ServiceWorld {
            plan,
            strategy,
            nodes: Vec::new(),
            stations: vec![station(costs.node_rate, costs.patience_ms); count],
            index: station(costs.index_rate, 1000.0),
            front: station(costs.front_rate, 1000.0),
            alive: vec![true; count],
            beat: vec![[0; 3]; count],
            minute: vec![0; count],
            minute_hits: 0,
            ever_full: vec![false; count],
            load_sums: vec![0.0; count],
            copies,
            round: 0,
            ring,
            random: Seeded::new(plan.seed ^ 0x5EED),
            outcome: ServiceOutcome {
                name: plan.kind.name(),
                times: Times::default(),
                hits: 0,
                adopted: 0,
                asked: 0,
                given_up: 0,
                minutes: Vec::new(),
                saturated: 0,
                moved: 0.0,
                calls: 0,
                moving_calls: 0,
                carried: 0,
                node_loads: Vec::new(),
                index_load: 0.0,
                front_load: 0.0,
                beats: Vec::new(),
                bursts: Vec::new(),
            },
            index_beats: (0.0, 0.0, 0),
        };
        (0..count).for_each(|_| {
            let node = world.new_node();
            world.nodes.push(node);
        });
        world
    }

    fn new_node(&self) -> CacheNode<u64, ()> {
        CacheNode::new(&NodeOptions {
            limit: self.plan.entries,
            in_entries: true,
            copies_share: self.copies.map_or(0.0, |copies| copies.share),
            policy: self.plan.policy,
            expiry: Expiry::NEVER,
        })
    }

    fn ask(&mut self, asked: &Asked) {
        let hash = asked.hash();
        self.front.arrive();
        let Some(number) = self.strategy.node(hash, asked.query, asked.at) else { return };
        let node = usize::from(number);
        self.minute[node] += 1;
        if self.alive[node] {
            for other in self.strategy.also_ask() {
                if *other != number {
                    self.stations[usize::from(*other)].arrive();
                    self.minute[usize::from(*other)] += 1;
                }
            }
        }
        let served = self.stations[node].arrive() && self.alive[node];
        if !served {
            self.beat[node][2] += 1;
            self.index.arrive();
            return;
        }
        let now = Now::default();
        match self.nodes[node].lookup(hash, &asked.query, &now) {
            NodeLookup::Hit(()) => self.beat[node][0] += 1,
            NodeLookup::Adopted(()) => {
                self.beat[node][0] += 1;
                self.outcome.adopted += 1;
            }
            NodeLookup::Miss => {
                self.beat[node][1] += 1;
                self.index.arrive();
                let entry = Entry {
                    hash,
                    key: asked.query,
                    value: (),
                    weight: 1,
                    made: Timestamp::EPOCH,
                    generation: 0,
                };
                for to in self.strategy.given_to(hash, number) {
                    if self.alive[usize::from(to)] {
                        self.nodes[usize::from(to)].insert(entry.clone());
                    }
                }
            }
        }
    }

    fn end_beat(&mut self, at: f64) {
        let costs = self.plan.costs;
        let index = self.index.beat();
        let front = self.front.beat();
        let measured = at > self.plan.warm_up;
        let (mut most, mut sum, mut count) = (0.0f64, 0.0, 0.0);
        for node in 0..self.nodes.len() {
            let beat = self.stations[node].beat();
            let [hits, misses, given_up] = std::mem::take(&mut self.beat[node]);
            if self.alive[node] {
                (most, sum, count) = (most.max(beat.load), sum + beat.load, count + 1.0);
            }
            self.minute_hits += hits;
            if !measured {
                continue;
            }
            let hit_ms = costs.hit_ms + front.wait_ms + beat.wait_ms.min(costs.patience_ms);
            let miss_ms = hit_ms + costs.index_ms + index.wait_ms;
            let times = &mut self.outcome.times;
            times.add(hit_ms, hits);
            times.add_tailed(miss_ms, costs.index_tail_ms, misses);
            let lost_ms = costs.hit_ms + costs.patience_ms + costs.index_ms + index.wait_ms;
            times.add_tailed(lost_ms, costs.index_tail_ms, given_up);
            self.outcome.hits += hits;
            self.outcome.asked += hits + misses + given_up;
            self.outcome.given_up += given_up;
        }
        if measured {
            self.outcome.beats.push((at, if sum > 0.0 { most * count / sum } else { 1.0 }));
            self.index_beats.0 += index.load;
            self.index_beats.1 += front.load;
            self.index_beats.2 += 1;
        }
        self.strategy.beat();
    }

    fn end_minute(&mut self, at: f64) {
        let room = self.plan.costs.node_rate * 60.0;
        let counts = std::mem::replace(&mut self.minute, vec![0; self.nodes.len()]);
        let hits = std::mem::take(&mut self.minute_hits);
        if at > self.plan.warm_up {
            let mut minute = Minute { at, hits, ..Minute::default() };
            for (node, count) in counts.iter().enumerate() {
                minute.asked += u64::from(*count);
                if self.alive[node] {
                    let load = f64::from(*count) / room;
                    minute.loads.push(load);
                    self.ever_full[node] |= load >= 1.0;
                    self.load_sums[node] += load.min(1.0);
                }
            }
            self.outcome.minutes.push(minute);
        }
        if let Some(router) = self.strategy.router() {
            let events = router.minute(timestamp(at));
            let begun = events.into_iter().filter_map(|event| match event {
                Event::Begins { hash, .. } => Some((at, hash)),
                Event::Ends { .. } => None,
            });
            self.outcome.bursts.extend(begun);
        }
    }

    fn balance(&mut self) {
        let Some(router) = self.strategy.router() else { return };
        let moved = router.balance();
        self.outcome.moved += moved;
        self.outcome.calls += 1;
        self.outcome.moving_calls += u64::from(moved > 0.0);
    }

    fn measure(&mut self) {
        if let Some(router) = self.strategy.router() {
            router.measure();
        }
    }

    /// Where borders have moved, our design lets entries travel with them.
    fn carry(&mut self) {
        let Some(before) = &self.ring else { return };
        let Some(router) = self.strategy.router() else { return };
        let after = router.ring().clone();
        if before.version() == after.version() {
            return;
        }
        let mut moving: Vec<Vec<Ranked<u64, ()>>> = vec![Vec::new(); self.nodes.len()];
        for node in after.nodes().filter(|node| before.contains(*node)) {
            let given = self.nodes[usize::from(node.0)].hand_over(|hash, source| match source {
                // Copies of a node that is gone belong to whoever has its range now.
                Some(source) => !after.contains(source),
                // Hot queries are at home everywhere; only what this node owned moves.
                None => before.owner(hash) == Some(node) && after.owner(hash) != Some(node),
            });
            for one in given {
                if let Some(to) = after.owner(one.entry.hash) {
                    moving[usize::from(to.0)].push(one);
                }
            }
        }
        for (node, given) in self.nodes.iter_mut().zip(moving) {
            self.outcome.carried += given.len() as u64;
            node.take_over(given);
        }
        self.ring = Some(after);
    }

    fn protect(&mut self) {
        let Some(copies) = self.copies else { return };
        let Some(router) = self.strategy.router() else { return };
        let ring = router.ring().clone();
        self.round += 1;
        let sending: Vec<NodeId> = ring.nodes().filter(|node| self.alive[usize::from(node.0)]).collect();
        for node in &sending {
            for entry in copies.round(&self.nodes[usize::from(node.0)], 256).into_iter().flatten() {
                for keeper in copies.keepers(&ring, *node, entry.hash) {
                    self.nodes[usize::from(keeper.0)].keep_copy(*node, self.round, entry.clone());
                }
            }
        }
        for keeper in &sending {
            self.nodes[usize::from(keeper.0)].round_done(&sending, self.round);
        }
    }

    fn fail(&mut self, node: u16) {
        if let Some(alive) = self.alive.get_mut(usize::from(node)) {
            *alive = false;
            self.nodes[usize::from(node)] = self.new_node();
            self.stations[usize::from(node)].clear();
        }
    }

    fn join(&mut self, node: u16) {
        let at = usize::from(node);
        while self.nodes.len() <= at {
            let node = self.new_node();
            self.nodes.push(node);
            let costs = &self.plan.costs;
            self.stations.push(Station::new(costs.node_rate, costs.patience_ms, costs.sample));
            self.alive.push(false);
            self.beat.push([0; 3]);
            self.minute.push(0);
            self.ever_full.push(false);
            self.load_sums.push(0.0);
        }
        if !self.alive[at] {
            self.alive[at] = true;
            self.nodes[at] = self.new_node();
            self.strategy.up(node, &mut self.random);
        }
    }

    fn finish(mut self) -> ServiceOutcome {
        let minutes = self.outcome.minutes.len().max(1) as f64;
        let alive = (0..self.nodes.len()).filter(|node| self.alive[*node]);
        self.outcome.node_loads = alive.map(|node| self.load_sums[node] / minutes).collect();
        self.outcome.saturated = self.ever_full.iter().filter(|full| **full).count();
        let beats = self.index_beats.2.max(1) as f64;
        (self.outcome.index_load, self.outcome.front_load) =
            (self.index_beats.0 / beats, self.index_beats.1 / beats);
        self.outcome
    }
}

#[cfg(test)]
mod tests;
