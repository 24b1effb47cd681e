//! A front's part: counts each question, names its node, and knows by its own calls which nodes answer.
//!
//! It follows the ring and the hot queries that the leader publishes ([`crate::tables`]) and decides alone only what
//! cannot wait: whom to pass over, and what to spread at once. With the same tables all fronts name the same node. If
//! leader and network are gone, it goes on with what it has.
//!
//! Two sets of rules: [`FrontRules::thesis`] as in [Gomez14 §4.3], and [`FrontRules::ours`], in which a hot query goes to
//! the node that was sent least, a query that grows quickly is hot at once, what one node fetched for a hot query is
//! given to all that serve it, and a query that was never asked before is not looked up: it would miss anywhere. Only its
//! answer goes to its owner.
//!
//! INVARIANT: one question, one node; a spare is asked only where that one refuses.
//! INVARIANT: an older table never replaces a newer one.
//! INVARIANT: nothing is inserted at a node that does not answer.

use crate::balance::DensityDelta;
use crate::health::{Failure, Health, HealthRules, judge_slow};
use crate::hot::{Choice, Degree, HotTable, Sequence, SpaceSaving, TALLIES_MAX};
use crate::ring::{NodeId, Ring};
use crate::rotating_bloom::RotatingBloom;
use crate::tables::{Epoch, FrontId, FrontReport, HOT_MAX, HotDoc, NodeTally, RingDoc};
use farol_base::Timestamp;
use farol_base::random::mix;
use std::collections::BTreeMap;
use std::time::Duration;

/// The monitor counts by minutes.
pub const MINUTE: Duration = Duration::from_secs(60);
/// Of the questions that a slow node owns it is sent one in so many.
const SLOW_SHARE: u64 = 10;
/// How often nodes are compared.
const COMPARED_EVERY: Duration = Duration::from_secs(1);
/// Queries raised at once that one report names.
const RAISED_MAX: usize = 100;

/// Rules of a front.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrontRules {
    /// Counters of the monitor; 0: nothing is counted, and nothing is hot.
    pub counters: usize,
    pub choice: Choice,
    pub sequence: Sequence,
    /// Whether a node that had to fetch a hot answer gives it to all others that serve the query.
    pub give_at_once: bool,
    /// Queries remembered, so that new ones are known; 0: none. Where several fronts report nobody skips a lookup: what is
    /// new to one may be known to another.
    pub remembered: usize,
    pub health: HealthRules,
}

impl FrontRules {
    /// Owners, and nothing else.
    pub fn plain() -> FrontRules {
        FrontRules { counters: 0, ..FrontRules::thesis() }
    }

    pub fn thesis() -> FrontRules {
        FrontRules {
            counters: 10_000,
            choice: Choice::RoundRobin,
            sequence: Sequence::Random,
            give_at_once: false,
            remembered: 0,
            health: HealthRules::default(),
        }
    }

    /// What we run. Eight million queries remembered are 20 MB.
    pub fn ours() -> FrontRules {
        FrontRules {
            choice: Choice::LeastSent,
            give_at_once: true,
            remembered: 8_000_000,
            ..FrontRules::thesis()
        }
    }
}

/// Where a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub node: NodeId,
    /// Who is asked once if that one refuses: the next clockwise, which has its copies.
    pub spare: Option<NodeId>,
    pub hot: bool,
    /// It was never asked before: there is nothing to look up, only an answer to insert at `node`.
    pub is_new: bool,
}

#[derive(Default)]
struct Known {
    health: Health,
    /// In this minute, for [`Choice::LeastSent`].
    lately: u64,
    sent: u64,
    owned: u64,
    late: u64,
    refused: u64,
    capacity: u32,
    /// Of the questions that it owns; every tenth counts while it is slow.
    turn: u64,
}

/// Finds nodes for questions.
pub struct FrontRouter<K> {
    id: FrontId,
    incarnation: u64,
    rules: FrontRules,
    ring: Ring,
    ring_epoch: Epoch,
    seed: u64,
    hot: HotTable,
    hot_epoch: Epoch,
    fronts: u16,
    at_once: u32,
    /// By node; BTreeMap, so that ties are broken alike on every machine.
    nodes: BTreeMap<NodeId, Known>,
    monitor: SpaceSaving<K>,
    density: DensityDelta,
    seen: Option<RotatingBloom>,
    raised: Vec<(u64, u32)>,
    minute_ends: Timestamp,
    compared: Timestamp,
    reports: u64,
    reported: Timestamp,
    has_news: bool,
}

impl<K: Eq + Clone> FrontRouter<K> {
    pub fn new(id: FrontId, incarnation: u64, rules: FrontRules, now: Timestamp) -> FrontRouter<K> {
        FrontRouter {
            id,
            incarnation,
            ring: Ring::equal(0),
            ring_epoch: Epoch::default(),
            seed: 0,
            hot: HotTable::new(rules.sequence, HOT_MAX),
            hot_epoch: Epoch::default(),
            fronts: 1,
            at_once: 0,
            nodes: BTreeMap::new(),
            monitor: SpaceSaving::new(rules.counters),
            density: DensityDelta::default(),
            seen: (rules.remembered > 0).then(|| RotatingBloom::new(rules.remembered)),
            raised: Vec::new(),
            minute_ends: now + MINUTE,
            compared: now,
            reports: 0,
            reported: now,
            has_news: false,
            rules,
        }
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// How new the ring is.
    pub fn epoch(&self) -> Epoch {
        self.ring_epoch
    }

    /// The seed of keys' hashes.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Takes a newer ring over; `false` where it is not newer, or not whole.
    pub fn install_ring(&mut self, doc: &RingDoc) -> bool {
        if doc.epoch <= self.ring_epoch || doc.check().is_err() {
            return false;
        }
        (self.ring, self.ring_epoch, self.seed) = (doc.ring.clone(), doc.epoch, doc.seed);
        self.nodes.retain(|node, _| doc.ring.contains(*node));
        for node in &doc.nodes {
            self.nodes.entry(node.id).or_default().capacity = node.capacity;
        }
        self.hot.refit(&self.ring);
        true
    }

    /// Takes newer hot queries over.
    pub fn install_hot(&mut self, doc: &HotDoc, now: Timestamp) -> bool {
        if doc.epoch <= self.hot_epoch || doc.check().is_err() {
            return false;
        }
        (self.hot_epoch, self.fronts, self.at_once) = (doc.epoch, doc.fronts.max(1), doc.at_once);
        let degrees: Vec<Degree> = doc.hot.iter().map(|hot| hot.degree).collect();
        self.hot.install(&degrees, &self.ring, now);
        true
    }

    /// The node for a question; `None` where no node answers: then the index is asked.
    pub fn route(&mut self, hash: u64, key: &K, now: Timestamp) -> Option<Route> {
        self.end_intervals(now);
        self.count(hash, key, now);
        let is_new = match &mut self.seen {
            Some(seen) => !seen.insert(hash) && self.fronts == 1,
            None => false,
        };
        if let Some(node) = self.pick_hot(hash, now) {
            return Some(self.send(node, hash, now, true, false));
        }
        let node = self.owner(hash, now)?;
        self.density.count(hash);
        if let Some(known) = self.nodes.get_mut(&node) {
            known.owned += 1;
        }
        Some(self.send(node, hash, now, false, is_new))
    }

    fn count(&mut self, hash: u64, key: &K, now: Timestamp) {
        if self.rules.counters == 0 {
            return;
        }
        let (count, error) = self.monitor.offer(hash, key);
        // Each front sees its part. What may be others' does not count: a flood of strangers raises all counts alike.
        let mark = (self.at_once / u32::from(self.fronts)).max(1);
        if self.at_once > 0 && count - error >= mark && !self.hot.contains(hash) {
            let degree = Degree { hash, nodes: self.ring.len() };
            self.hot.raise(degree, &self.ring, now);
            if self.raised.len() < RAISED_MAX {
                self.raised.push((hash, count - error));
                self.has_news = true;
            }
        }
    }

    fn pick_hot(&mut self, hash: u64, now: Timestamp) -> Option<NodeId> {
        let (nodes, salt) = (&self.nodes, self.id.0);
        self.hot.pick(hash, self.rules.choice, |node| {
            let known =
                nodes.get(&node).filter(|known| known.health.is_open(now) && !known.health.is_slow)?;
            // By what it bears; among equals each front begins elsewhere.
            let load = known.lately * 1_000_000 / u64::from(known.capacity.max(1));
            Some(load << 10 | mix(salt ^ u64::from(node.0)) & 1023)
        })
    }

    /// The owner of a point, or the next node clockwise that answers.
    fn owner(&mut self, hash: u64, now: Timestamp) -> Option<NodeId> {
        let mut slow = None;
        for node in self.ring.from_point(hash) {
            let Some(known) = self.nodes.get_mut(&node) else { continue };
            if !known.health.is_open(now) {
                continue;
            }
            if known.health.is_slow {
                known.turn += 1;
                if !known.turn.is_multiple_of(SLOW_SHARE) {
                    slow = slow.or(Some(node));
                    continue;
                }
            }
            return Some(node);
        }
        slow
    }

    fn send(&mut self, node: NodeId, hash: u64, now: Timestamp, hot: bool, is_new: bool) -> Route {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.lately += 1;
            known.sent += 1;
            known.health.asked(now, &self.rules.health);
        }
        // The successor of a dead node has its copies; where this is hot, any other that serves it has the answer.
        let after = self.ring.from_point(hash).skip_while(|other| !hot && *other != node);
        let open = |other: &NodeId| self.nodes.get(other).is_some_and(|known| known.health.is_open(now));
        let spare = after.filter(|other| *other != node).find(open);
        Route { node, spare, hot, is_new }
    }

    /// Nodes that an answer is given to which `node` did not have: all that serve the query where it is hot and our rules
    /// say so, otherwise the node that missed, whatever the ring says meanwhile. None that does not answer.
    pub fn given_to(&self, hash: u64, node: NodeId, now: Timestamp) -> Vec<NodeId> {
        let serving = self.hot.nodes(hash);
        let given: &[NodeId] = if self.rules.give_at_once && serving.contains(&node) {
            serving
        } else {
            std::slice::from_ref(&node)
        };
        let open = |node: &NodeId| self.nodes.get(node).is_some_and(|known| known.health.is_open(now));
        given.iter().copied().filter(open).collect()
    }

    /// How long a node is waited for.
    pub fn deadline(&self, node: NodeId) -> Duration {
        let rules = &self.rules.health;
        self.nodes.get(&node).map_or(rules.deadline_max, |known| known.health.deadline(rules))
    }

    pub fn answered(&mut self, node: NodeId, took: Duration) {
        if let Some(known) = self.nodes.get_mut(&node) {
            self.has_news |= known.health.refusing_since().is_some();
            known.health.answered(took);
        }
    }

    pub fn failed(&mut self, node: NodeId, why: Failure, now: Timestamp) {
        let Some(known) = self.nodes.get_mut(&node) else { return };
        let before = known.health.refusing_since();
        known.health.failed(why, now, &self.rules.health);
        self.has_news |= known.health.refusing_since() != before;
        match why {
            Failure::Refused => known.refused += 1,
            Failure::Late => known.late += 1,
            Failure::Busy => {}
        }
    }

    /// Whether a node may be asked now.
    pub fn is_open(&self, node: NodeId, now: Timestamp) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.health.is_open(now))
    }

    fn end_intervals(&mut self, now: Timestamp) {
        if now >= self.compared + COMPARED_EVERY {
            self.compared = now;
            judge_slow(self.nodes.values_mut().map(|known| &mut known.health), &self.rules.health);
        }
    }

    /// Whether a report is due: every `every`, and soon where a node has begun or ceased to refuse, or a query was raised.
    pub fn report_is_due(&self, now: Timestamp, every: Duration) -> bool {
        let since = now.since(self.reported);
        since >= every || (self.has_news && since >= COMPARED_EVERY)
    }

    /// What happened since the last report. A minute that has ended goes with it.
    pub fn report(&mut self, now: Timestamp) -> FrontReport<K> {
        let minute = (now >= self.minute_ends).then(|| {
            self.minute_ends = self.minute_ends.max(now - MINUTE) + MINUTE;
            let summary = self.monitor.summary(TALLIES_MAX);
            self.monitor.reset();
            self.nodes.values_mut().for_each(|known| known.lately = 0);
            summary
        });
        self.reports += 1;
        (self.reported, self.has_news) = (now, false);
        let tally = |(node, known): (&NodeId, &Known)| NodeTally {
            node: *node,
            sent: known.sent,
            owned: known.owned,
            late: known.late,
            refused: known.refused,
            refusing_ms: known
                .health
                .refusing_since()
                .map(|since| u32::try_from(now.since(since).as_millis()).unwrap_or(u32::MAX)),
        };
        FrontReport {
            front: self.id,
            incarnation: self.incarnation,
            number: self.reports,
            ring: self.ring_epoch,
            nodes: self.nodes.iter().map(tally).collect(),
            density: std::mem::take(&mut self.density),
            minute,
            raised: std::mem::take(&mut self.raised),
        }
    }

    /// The most asked queries of this minute so far, with what is sure of their counts.
    pub fn top(&self, count: usize) -> Vec<(K, u32)> {
        self.monitor
            .iter()
            .take(count)
            .map(|counted| (counted.key.clone(), counted.count - counted.error))
            .collect()
    }

    /// Hot queries at this moment.
    pub fn hot_queries(&self) -> usize {
        self.hot.len()
    }

    /// On how many nodes a query is served.
    pub fn degree(&self, hash: u64) -> usize {
        self.hot.nodes(hash).len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{HotKey, RingNode};
    use farol_base::random::{Random, Seeded};

    fn ring_doc(ring: Ring, version: u64) -> RingDoc {
        let mut ids: Vec<NodeId> = ring.nodes().collect();
        ids.sort_unstable();
        let nodes = ids.into_iter().map(|id| RingNode { id, incarnation: 1, capacity: 1000 }).collect();
        RingDoc { epoch: Epoch { term: 1, version }, seed: 7, nodes, ring }
    }

    fn hot_doc(version: u64, fronts: u16, at_once: u32, hot: &[(u64, usize)]) -> HotDoc {
        let hot = hot
            .iter()
            .map(|(hash, nodes)| HotKey { degree: Degree { hash: *hash, nodes: *nodes }, severity: 0 })
            .collect();
        HotDoc { epoch: Epoch { term: 1, version }, fronts, at_once, hot }
    }

    fn front(id: u64, rules: FrontRules, ring: Ring) -> FrontRouter<u64> {
        let mut front = FrontRouter::new(FrontId(id), 1, rules, Timestamp::EPOCH);
        assert!(front.install_ring(&ring_doc(ring, 1)));
        front
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn node(front: &mut FrontRouter<u64>, key: u64, now: Timestamp) -> Option<NodeId> {
        front.route(mix(key), &key, now).map(|route| route.node)
    }

    #[test]
    fn all_fronts_with_one_ring_ask_the_same_node() {
        // Numbers of nodes say nothing on their place, and may be any.
        let ring = Ring::even(&[5, 900, 65_535, 12].map(NodeId));
        let mut fronts = [1, 2].map(|id| front(id, FrontRules::plain(), ring.clone()));
        for key in 0..2_000u64 {
            let asked = fronts.each_mut().map(|front| front.route(mix(key), &key, at(0)).unwrap());
            assert_eq!((asked[0].node, asked[0].spare), (asked[1].node, asked[1].spare));
            assert_eq!(Some(asked[0].node), ring.owner(mix(key)));
            assert_eq!(asked[0].spare, ring.successor(asked[0].node));
        }
        let mut none: FrontRouter<u64> = FrontRouter::new(FrontId(3), 1, FrontRules::ours(), at(0));
        assert_eq!(none.route(5, &5, at(0)), None);
    }

    #[test]
    fn an_older_table_never_replaces_a_newer_one() {
        let mut front = front(1, FrontRules::plain(), Ring::equal(4));
        assert!(front.install_ring(&ring_doc(Ring::equal(5), 7)));
        for version in [7, 6, 1] {
            assert!(!front.install_ring(&ring_doc(Ring::equal(2), version)));
        }
        let mut deposed = ring_doc(Ring::equal(2), 900);
        deposed.epoch.term = 0;
        assert!(!front.install_ring(&deposed));
        let mut broken = ring_doc(Ring::equal(3), 8);
        broken.nodes.pop();
        assert!(!front.install_ring(&broken));
        assert_eq!((front.ring().len(), front.epoch()), (5, Epoch { term: 1, version: 7 }));
        assert!(front.install_hot(&hot_doc(3, 1, 0, &[(1, 2)]), at(0)));
        assert!(!front.install_hot(&hot_doc(3, 1, 0, &[]), at(0)));
        assert_eq!(front.hot_queries(), 1);
    }

    #[test]
    fn a_node_that_refuses_is_passed_over_and_its_successor_asked() {
        let mut front = front(1, FrontRules::plain(), Ring::equal(8));
        let key = (0..).find(|key| front.ring().owner(mix(*key)) == Some(NodeId(3))).unwrap();
        let first = front.route(mix(key), &key, at(0)).unwrap();
        assert_eq!((first.node, first.spare), (NodeId(3), Some(NodeId(4))));
        front.failed(NodeId(3), Failure::Refused, at(0));
        // Nobody was declared dead; the ring is what it was.
        let next = front.route(mix(key), &key, at(1)).unwrap();
        assert_eq!((next.node, next.spare), (NodeId(4), Some(NodeId(5))));
        assert!(front.given_to(mix(key), NodeId(3), at(1)).is_empty(), "nothing is inserted there");
        assert!(front.report_is_due(at(1_000), Duration::from_secs(10)), "the leader hears of it soon");
        let report = front.report(at(900));
        assert_eq!(report.nodes[3].refusing_ms, Some(900));
        // After a second one question goes there, and when it is answered all do.
        assert_eq!(node(&mut front, key, at(1_000)), Some(NodeId(3)));
        assert_eq!(node(&mut front, key, at(1_001)), Some(NodeId(4)));
        front.answered(NodeId(3), Duration::from_millis(1));
        assert_eq!(node(&mut front, key, at(1_002)), Some(NodeId(3)));
        // Where nobody answers there is no route, and no panic.
        (0..8).for_each(|number| front.failed(NodeId(number), Failure::Refused, at(2_000)));
        assert_eq!(node(&mut front, key, at(2_001)), None);
        // A node that is not on the ring.
        front.failed(NodeId(77), Failure::Refused, at(0));
        front.answered(NodeId(77), Duration::ZERO);
    }

    #[test]
    fn a_slow_node_is_sent_one_in_ten_until_it_recovers() {
        let mut front = front(1, FrontRules::thesis(), Ring::equal(4));
        front.install_hot(&hot_doc(1, 1, 0, &[(mix(1), 4)]), at(0));
        let ask = |front: &mut FrontRouter<u64>, from: u64| {
            let mut counts = [0u32; 4];
            for key in from..from + 4_000 {
                let node = node(front, if key % 2 == 0 { 1 } else { key }, at(key)).unwrap();
                counts[usize::from(node.0)] += 1;
                let millis = if node == NodeId(2) && from < 8_000 { 60 } else { 2 };
                front.answered(node, Duration::from_millis(millis));
            }
            counts
        };
        ask(&mut front, 1);
        let slow = ask(&mut front, 4_001);
        assert!((20..100).contains(&slow[2]) && slow[3] > 1_200, "{slow:?}");
        (0..20_000).for_each(|_| front.answered(NodeId(2), Duration::from_millis(2)));
        let well = ask(&mut front, 10_001);
        assert!(well[2] > 800, "{well:?}");
    }

    #[test]
    fn a_flash_is_spread_within_the_minute_and_strangers_are_not() {
        let rules = FrontRules { remembered: 0, ..FrontRules::ours() };
        let mut front = front(1, rules, Ring::equal(20));
        front.install_hot(&hot_doc(1, 1, 60, &[]), at(0));
        let mut random = Seeded::new(2);
        let mut counts = [0u32; 20];
        for i in 0..20_000u64 {
            let key = if random.unit() < 0.2 { 1 } else { 1_000 + random.below(100_000) };
            counts[usize::from(node(&mut front, key, at(i)).unwrap().0)] += 1;
        }
        assert!(*counts.iter().max().unwrap() < 1_250, "{counts:?}");
        assert_eq!((front.hot_queries(), front.report(at(20_000)).raised.len()), (1, 1));
        // A flood of strangers lifts every counter beyond the mark; nobody of them is hot, and a flash still is.
        let mut front = FrontRouter::new(FrontId(1), 1, FrontRules { counters: 100, ..rules }, at(0));
        front.install_ring(&ring_doc(Ring::equal(20), 1));
        front.install_hot(&hot_doc(1, 1, 60, &[]), at(0));
        (0..20_000u64).for_each(|key| {
            node(&mut front, 1_000 + key, at(0));
        });
        assert_eq!(front.hot_queries(), 0);
        (0..60).for_each(|_| {
            node(&mut front, 7, at(0));
        });
        assert_eq!(front.hot_queries(), 1);
    }

    #[test]
    fn with_several_fronts_each_acts_on_its_share() {
        let mut front = front(1, FrontRules::ours(), Ring::equal(20));
        let lookup =
            |front: &mut FrontRouter<u64>, key: u64| !front.route(mix(key), &key, at(0)).unwrap().is_new;
        assert!(!lookup(&mut front, 1) && lookup(&mut front, 1), "alone it knows what is new");
        front.install_hot(&hot_doc(1, 4, 400, &[]), at(0));
        assert!(lookup(&mut front, 2), "another front may have asked that");
        (0..99).for_each(|_| {
            node(&mut front, 7, at(0));
        });
        assert_eq!(front.hot_queries(), 0);
        node(&mut front, 7, at(0));
        assert_eq!(front.hot_queries(), 1);
    }

    #[test]
    fn answers_of_hot_queries_go_to_all_that_serve_them_and_others_to_who_missed() {
        let mut front = front(1, FrontRules::ours(), Ring::equal(5));
        front.install_hot(&hot_doc(1, 1, 0, &[(mix(1), 5)]), at(0));
        assert_eq!(front.given_to(mix(1), NodeId(3), at(0)).len(), 5);
        front.failed(NodeId(2), Failure::Refused, at(0));
        assert!(!front.given_to(mix(1), NodeId(3), at(0)).contains(&NodeId(2)));
        // Whatever the ring says: who missed gets it.
        assert_eq!(front.given_to(mix(2), NodeId(4), at(0)), [NodeId(4)]);
        assert_eq!((front.degree(mix(1)), front.degree(mix(2))), (5, 1));
    }

    #[test]
    fn a_report_has_each_thing_once_and_counts_from_the_start() {
        let mut front = front(9, FrontRules::thesis(), Ring::equal(3));
        (0..300u64).for_each(|key| {
            node(&mut front, key % 50, at(key));
        });
        let first = front.report(at(10_000));
        assert_eq!((first.front, first.number, first.minute.is_none()), (FrontId(9), 1, true));
        assert_eq!(first.nodes.iter().map(|tally| tally.sent).sum::<u64>(), 300);
        assert_eq!(first.density.counts().map(|(_, count)| u64::from(count)).sum::<u64>(), 300);
        node(&mut front, 1, at(60_000));
        let second = front.report(at(60_000));
        assert_eq!(second.nodes.iter().map(|tally| tally.sent).sum::<u64>(), 301);
        assert_eq!(second.density.counts().count(), 1);
        let minute = second.minute.unwrap();
        assert_eq!((minute.seen, minute.tallies.len(), minute.tallies[0].count), (301, 50, 7));
        assert!(front.report(at(70_000)).minute.is_none());
    }
}
