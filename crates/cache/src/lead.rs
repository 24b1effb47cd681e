//! The leader's part of a cache service: what must be decided once, for all fronts.
//!
//! It hears beats of nodes and reports of fronts, and publishes two tables ([`crate::tables`]): who owns what, and what is
//! hot. Nobody waits for it: while there is no leader, routing, local failover and protection go on with the last tables.
//!
//! | decision | from | when |
//! |---|---|---|
//! | who is dead | six beats missed, or refused by most fronts for two seconds | all within 300 ms together |
//! | who joins, and where | its first beat; at its old end, else in the middle of a random range | the same |
//! | what is hot, on how many nodes | the sum of the fronts' minutes | each minute; a query that a front raised: at once |
//! | what bursts | the same sum | each minute |
//! | where borders are | the sum of what fronts counted along the circle, or sent | each period, and after a change |
//!
//! INVARIANT: what it publishes has a growing epoch; the ring tiles the circle.
//! INVARIANT: no borders move before one whole period of reports was heard, whoever led before.
//! INVARIANT: loads are what fronts sent; what a node says of itself moves nothing.

use crate::balance::{Balancer, Controller, Density, Loads, RangeOf, Rid, Spread};
use crate::burst::online::nodes_for;
use crate::burst::{self, Detector, Event};
use crate::hot::{Ageing, Degree, Summary, TALLIES_MAX, degrees};
use crate::members::{Fronts, Members};
use crate::ring::{NodeId, Ring};
use crate::tables::{Beat, BurstNews, Epoch, FrontReport, HOT_MAX, HotDoc, HotKey, RingDoc, RingNode};
use farol_base::{Random, Seeded, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Share of the density that is kept from one balancing to the next: a memory of about five rounds.
const DENSITY_KEEP: f32 = 0.8;
/// Interval of hot queries and bursts.
const MINUTE: Duration = Duration::from_secs(60);
/// Changes of membership within this time make one epoch: borders that move once move less.
const TOGETHER: Duration = Duration::from_millis(300);
/// The least count at which a query is hot at once.
const AT_ONCE_MIN: f64 = 20.0;

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
    pub scheme: Scheme,
    /// `A`: how long a degree outlasts its need, per step.
    pub ageing: Duration,
    pub hot_max: usize,
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
    pub every: Duration,
    /// How long before each balancing loads are counted; the whole time between two where it is as long or longer.
    pub measured_over: Duration,
    /// Requests that a node bears while loads are measured: makes loads of counts.
    pub capacity: f64,
}

/// What a leader decides.
#[derive(Default)]
pub struct LeaderRules {
    pub hot: Option<HotRules>,
    pub balance: Option<BalanceRules>,
    pub bursts: Option<burst::Rules>,
}

impl HotRules {
    pub fn thesis() -> HotRules {
        HotRules { scheme: Scheme::TopK(25), ageing: Duration::from_secs(180), hot_max: 1000 }
    }

    pub fn ours() -> HotRules {
        HotRules {
            scheme: Scheme::Resident { per_node_min: 0.15, at_once: 0.03 },
            hot_max: HOT_MAX,
            ..HotRules::thesis()
        }
    }
}

impl BalanceRules {
    pub fn thesis() -> BalanceRules {
        BalanceRules {
            balancer: Box::new(Rid { threshold: 0.08 }),
            efficiency_min: 0.95,
            measured: false,
            range: RangeOf::Donor,
            on_change: false,
            every: Duration::from_secs(300),
            measured_over: Duration::from_secs(300),
            capacity: 1.0,
        }
    }

    pub fn ours() -> BalanceRules {
        BalanceRules {
            balancer: Box::new(Spread { slack: 0.05 }),
            efficiency_min: 0.94,
            measured: true,
            on_change: true,
            every: Duration::from_secs(60),
            measured_over: Duration::from_secs(60),
            ..BalanceRules::thesis()
        }
    }
}

impl LeaderRules {
    /// All three as \[Gomez14\] has them.
    pub fn thesis() -> LeaderRules {
        LeaderRules {
            hot: Some(HotRules::thesis()),
            balance: Some(BalanceRules::thesis()),
            bursts: Some(burst::Rules::default()),
        }
    }

    /// What we run.
    pub fn ours() -> LeaderRules {
        LeaderRules {
            hot: Some(HotRules::ours()),
            balance: Some(BalanceRules::ours()),
            bursts: Some(burst::Rules::default()),
        }
    }
}

/// Something to tell everybody.
#[derive(Clone, Debug, PartialEq)]
pub enum Publish<K> {
    Ring(RingDoc),
    Hot(HotDoc),
    /// For people.
    Burst(BurstNews<K>),
}

/// Decides.
pub struct Leader<K> {
    rules: LeaderRules,
    epoch: Epoch,
    seed: u64,
    ring: Ring,
    members: Members,
    fronts: Fronts<K>,
    /// Where nodes that went had their ends.
    old_ends: BTreeMap<NodeId, u64>,
    ageing: Ageing,
    detector: Option<Detector>,
    density: Density,
    /// By node: sent and owned, since loads are measured.
    loads: BTreeMap<NodeId, (u64, u64)>,
    at_once: u32,
    /// When changes of membership that are due will be made.
    changes_at: Option<Timestamp>,
    minute_ends: Timestamp,
    balance_at: Timestamp,
    /// When loads are counted anew before the next balancing; `None` once they are.
    measure_at: Option<Timestamp>,
    ring_changed: bool,
    hot_changed: Option<Timestamp>,
    moved: f64,
    balanced: (u64, u64),
    random: Seeded,
}

impl<K: Eq + Clone> Leader<K> {
    /// The first leader of a service. `seed`: of keys' hashes, secret, and of its own choices.
    pub fn new(rules: LeaderRules, term: u64, seed: u64, now: Timestamp) -> Leader<K> {
        let hot = rules.hot.unwrap_or(HotRules::thesis());
        let mut leader = Leader {
            epoch: Epoch { term, version: 0 },
            seed,
            ring: Ring::equal(0),
            members: Members::default(),
            fronts: Fronts::default(),
            old_ends: BTreeMap::new(),
            ageing: Ageing::new(hot.ageing, hot.hot_max.min(HOT_MAX)),
            detector: rules.bursts.map(Detector::new),
            density: Density::default(),
            loads: BTreeMap::new(),
            at_once: 0,
            changes_at: None,
            minute_ends: now + MINUTE,
            balance_at: now,
            measure_at: None,
            ring_changed: false,
            hot_changed: None,
            moved: 0.0,
            balanced: (0, 0),
            random: Seeded::new(seed ^ term),
            rules,
        };
        leader.next_balance(now);
        leader
    }

    fn next_balance(&mut self, now: Timestamp) {
        let times = self.rules.balance.as_ref().map(|balance| (balance.every, balance.measured_over));
        let (every, over) = times.unwrap_or((MINUTE, MINUTE));
        self.balance_at = now + every;
        self.measure_at = (over < every).then(|| self.balance_at - over);
    }

    /// A leader after another: it begins with what that one published last.
    pub fn resume(
        rules: LeaderRules,
        term: u64,
        ring: &RingDoc,
        hot: Option<&HotDoc>,
        now: Timestamp,
    ) -> Leader<K> {
        let mut leader = Leader::new(rules, term, ring.seed, now);
        leader.ring = ring.ring.clone();
        for node in &ring.nodes {
            leader.members.resume(node, now);
        }
        if let Some(hot) = hot {
            leader.at_once = hot.at_once;
            hot.hot.iter().for_each(|hot| leader.ageing.raise(hot.degree, now));
        }
        (leader.ring_changed, leader.hot_changed) = (true, Some(now));
        leader
    }

    /// A node is alive. One that the ring does not have joins.
    pub fn beat(&mut self, node: NodeId, beat: &Beat, now: Timestamp) {
        let restarted = self.members.beat(node, beat, now);
        if restarted && self.ring.contains(node) {
            // At its old end, empty: others learn that its copies are of an earlier life.
            self.ring_changed = true;
        }
        if !self.ring.contains(node) {
            self.schedule(now);
        }
    }

    /// A node says that it goes.
    pub fn leave(&mut self, node: NodeId, now: Timestamp) {
        self.members.leave(node);
        self.schedule(now);
    }

    /// Takes a front's report in; one that came before, or is older than one that came, is passed over.
    pub fn report(&mut self, report: FrontReport<K>, now: Timestamp) {
        let Some(sums) = self.fronts.take(&report, now) else { return };
        for (node, (sent, owned)) in sums {
            let known = self.loads.entry(node).or_default();
            (known.0, known.1) = (known.0.saturating_add(sent), known.1.saturating_add(owned));
        }
        self.density.add(&report.density);
        if matches!(self.rules.hot, Some(HotRules { scheme: Scheme::Resident { .. }, .. })) {
            for (hash, _) in &report.raised {
                self.ageing.raise(Degree { hash: *hash, nodes: self.ring.len() }, now);
                self.hot_changed = self.hot_changed.or(Some(now));
            }
        }
        if let Some(minute) = report.minute
            && minute.check().is_ok()
        {
            self.fronts.keep_minute(report.front, minute, now);
        }
    }

    fn schedule(&mut self, now: Timestamp) {
        if self.changes_at.is_none() && self.members.has_changes(&self.ring, &self.fronts, now) {
            self.changes_at = Some(now + TOGETHER);
        }
    }

    /// When something is decided next from what fronts report.
    pub fn next_decision(&self) -> Timestamp {
        self.measure_at.unwrap_or(self.balance_at).min(self.balance_at).min(self.minute_ends)
    }

    /// What is due now. Call it several times a second.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Publish<K>> {
        self.fronts.forget_silent(now);
        self.schedule(now);
        if self.changes_at.is_some_and(|at| now >= at) {
            self.change(now);
        }
        let mut out = Vec::new();
        if now >= self.minute_ends {
            self.minute_ends = self.minute_ends.max(now - MINUTE) + MINUTE;
            out.extend(self.minute(now).into_iter().map(Publish::Burst));
        }
        if self.measure_at.take_if(|at| now >= *at).is_some() {
            self.loads.clear();
        }
        if now >= self.balance_at {
            let at = self.balance_at;
            self.balance();
            // From when it was due, so that being late does not add up.
            self.next_balance(at.max(now - MINUTE));
        }
        out.extend(self.publish(now));
        out
    }

    /// What has changed since it was published last.
    pub fn publish(&mut self, now: Timestamp) -> Vec<Publish<K>> {
        let mut out = Vec::new();
        if std::mem::take(&mut self.ring_changed) {
            self.epoch.version += 1;
            out.push(Publish::Ring(self.ring_doc()));
        }
        if self.hot_changed.take_if(|since| *since <= now).is_some() {
            self.epoch.version += 1;
            out.push(Publish::Hot(self.hot_doc()));
        }
        out
    }

    /// The ring as of the last publication, or as the next one will have it.
    pub fn ring_doc(&self) -> RingDoc {
        let mut nodes: Vec<RingNode> = self.ring.nodes().map(|node| self.members.listed(node)).collect();
        nodes.sort_unstable_by_key(|node| node.id);
        RingDoc { epoch: self.epoch, seed: self.seed, nodes, ring: self.ring.clone() }
    }

    pub fn hot_doc(&self) -> HotDoc {
        let severities: BTreeMap<u64, u8> = self.detector.iter().flat_map(Detector::bursts).collect();
        let severity = |hash: u64| severities.get(&hash).copied().unwrap_or(0);
        let all = self.ageing.all().into_iter().take(HOT_MAX);
        let hot = all.map(|degree| HotKey { degree, severity: severity(degree.hash) }).collect();
        HotDoc { epoch: self.epoch, fronts: self.fronts.count(), at_once: self.at_once, hot }
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Share of the circle that changed owner since the leader began, beyond what deaths and joins do by themselves.
    pub fn moved(&self) -> f64 {
        self.moved
    }

    /// How often it looked at the loads, and how often it moved borders.
    pub fn balanced(&self) -> (u64, u64) {
        self.balanced
    }

    /// Takes out who is gone and puts in who has come, all at once.
    fn change(&mut self, now: Timestamp) {
        self.changes_at = None;
        let gone = self.members.take_gone(&self.ring, &self.fronts, now);
        for node in &gone {
            if let Some(place) = self.ring.place(*node) {
                self.old_ends.insert(*node, self.ring.ends()[place].0);
                self.ring.leave(*node);
            }
        }
        let come = self.members.waiting(&self.ring, now);
        if self.ring.is_empty() {
            self.ring = Ring::even(&come);
        } else {
            for node in &come {
                let at_old = self.old_ends.remove(node).is_some_and(|end| self.ring.insert(*node, end));
                // A random point: wide ranges are halved more often than narrow ones.
                let victim = self.ring.owner(self.random.next_u64());
                if !at_old && let Some(victim) = victim {
                    self.ring.join(*node, victim);
                }
            }
        }
        while self.old_ends.len() > crate::ring::NODES_MAX {
            self.old_ends.pop_first();
        }
        if gone.is_empty() && come.is_empty() {
            return;
        }
        self.ring_changed = true;
        self.loads.retain(|node, _| self.ring.contains(*node));
        if self.rules.balance.as_ref().is_some_and(|balance| balance.on_change && balance.measured) {
            self.move_borders();
        }
    }

    /// The end of an interval of hot-key replication and burst detection: what is hot is decided anew. Answers how bursts
    /// went.
    pub fn minute(&mut self, now: Timestamp) -> Vec<BurstNews<K>> {
        let sum = self.fronts.minutes(TALLIES_MAX);
        let mut required = self.required(&sum);
        let mut news = Vec::new();
        let nodes = self.ring.len();
        if let Some(detector) = &mut self.detector {
            let sure = sum.tallies.iter().map(|tally| (tally.hash, tally.count - tally.error));
            for event in detector.step(sure) {
                let (hash, severity) = match event {
                    Event::Begins { hash, severity } => (hash, severity),
                    Event::Ends { hash } => (hash, 0),
                };
                let key = sum.tallies.iter().find(|tally| tally.hash == hash).map(|tally| tally.key.clone());
                news.push(BurstNews { at: now, hash, key, severity });
            }
            for (hash, severity) in detector.bursts() {
                let wanted = nodes_for(severity, nodes);
                match required.iter_mut().find(|degree| degree.hash == hash) {
                    Some(degree) => degree.nodes = degree.nodes.max(wanted),
                    // In front, so that there is room for it.
                    None => required.insert(0, Degree { hash, nodes: wanted }),
                }
            }
        }
        self.ageing.renew(&required, now);
        if let Some(HotRules { scheme: Scheme::Resident { at_once, .. }, .. }) = self.rules.hot {
            let mean = sum.seen as f64 / nodes.max(1) as f64;
            self.at_once = (mean * at_once).max(AT_ONCE_MIN) as u32;
        }
        self.hot_changed = Some(now);
        news
    }

    fn required(&self, sum: &Summary<K>) -> Vec<Degree> {
        let Some(rules) = self.rules.hot else { return Vec::new() };
        let nodes = self.ring.len();
        match rules.scheme {
            Scheme::TopK(k) => {
                let top: Vec<(u64, f64)> =
                    sum.tallies.iter().take(k).map(|tally| (tally.hash, f64::from(tally.count))).collect();
                degrees(&top, nodes)
            }
            Scheme::Resident { per_node_min, .. } => {
                let least = (per_node_min * nodes as f64).max(2.0);
                // What is surely asked so often: the rest of the count may be others'.
                sum.tallies
                    .iter()
                    .filter(|tally| f64::from(tally.count - tally.error) >= least)
                    .take(rules.hot_max)
                    .map(|tally| Degree { hash: tally.hash, nodes })
                    .collect()
            }
        }
    }

    /// The end of an interval of rebalancing. Answers how much of the circle changed owner.
    pub fn balance(&mut self) -> f64 {
        let moved = self.move_borders();
        self.balanced = (self.balanced.0 + 1, self.balanced.1 + u64::from(moved > 0.0));
        self.loads.clear();
        self.density.fade(DENSITY_KEEP);
        moved
    }

    fn move_borders(&mut self) -> f64 {
        let Some(rules) = &mut self.rules.balance else { return 0.0 };
        if self.density.total() <= 0.0 {
            return 0.0;
        }
        // The controller owns its balancer while it runs.
        let balancer = std::mem::replace(&mut rules.balancer, Box::new(Spread::default()));
        let mut controller =
            Controller { balancer, efficiency_min: rules.efficiency_min, range: rules.range };
        let (loads, capacity) = (&self.loads, rules.capacity.max(1e-9));
        let by_place = |count: fn(&(u64, u64)) -> u64| -> Vec<f64> {
            let of = |node: NodeId| loads.get(&node).map_or(0, count) as f64 / capacity;
            self.ring.nodes().map(of).collect()
        };
        let moved = if rules.measured {
            let range = |place: usize| self.density.load(self.ring.start(place), self.ring.ends()[place].0);
            let loads: Vec<f64> = (0..self.ring.len()).map(range).collect();
            controller
                .run(&mut self.ring, &Loads { total: &loads, owned: &loads, density: Some(&self.density) })
        } else {
            let (total, owned) = (by_place(|load| load.0), by_place(|load| load.1));
            controller.run(&mut self.ring, &Loads { total: &total, owned: &owned, density: None })
        };
        rules.balancer = controller.balancer;
        self.moved += moved;
        self.ring_changed |= moved > 0.0;
        moved
    }
}

#[cfg(test)]
mod tests;
