//! A cache service in a computer's memory: the product's nodes, front and leader, driven by a stream of queries.
//!
//! Discrete events in the order of time: queries, and between them seconds (beats of nodes, reports, the leader's
//! decisions, failover copies and hand-overs on their way), longer beats (waiting times), minutes of measurement,
//! failures and nodes that join. Policies are really executed; only costs are reckoned ([`super::service`]), and every
//! request that a node serves is one: lookups, inserts, copies and what is handed over.

use super::routed::Control;
use super::service::{BEAT, Costs, Station, Times};
use super::strategy::{RoutingStrategy, StrategyKind, Tuning, timestamp};
use super::stream::Asked;
use farol_base::Timestamp;
use farol_cache::copies::RoundMark;
use farol_cache::failover::{FailoverCopies, Round};
use farol_cache::freshness::Now;
use farol_cache::node::{CacheNode, HandOver, NodeLookup, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::store::{Entry, Proven};
use farol_cache::{NodeId, Ring};

/// Six heartbeats of 1.2 s are missed before a node counts as gone [Gomez14 §1.6]; as the leader has it.
const NOTICED_AFTER: f64 = 7.2;
/// Slots that a hand-over or a round of copies looks at in one step, as in the product.
const STEP: usize = 256;
/// Bytes of an answer.
const ENTRY_BYTES: f64 = 4096.0;

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
            policy: Policy::default(),
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
    /// Queries known to be new, which were not looked up.
    pub skipped: u64,
    /// Requests that nodes served beside lookups.
    pub inserts: u64,
    pub copied: u64,
    /// All work that came to nodes while it was measured, a lookup being 1.
    pub work: f64,
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
    /// Beats, reports and tables while it was measured; those of strategies that have none are not made up.
    pub control: Control,
}

impl ServiceOutcome {
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.asked.max(1) as f64
    }

    /// What nodes had to do for a query in the mean, a lookup being 1: inserts, copies and hand-overs counted.
    pub fn work_per_query(&self) -> f64 {
        let asked: u64 = self.minutes.iter().map(|minute| minute.asked).sum();
        self.work / asked.max(1) as f64
    }

    /// Control messages and their bytes in a second.
    pub fn control_per_second(&self) -> (f64, f64) {
        let secs = 60.0 * self.minutes.len().max(1) as f64;
        (self.control.messages as f64 / secs, self.control.bytes as f64 / secs)
    }

    /// Answers that went from node to node, copies and hand-overs, in GB of the real traffic.
    pub fn carried_gb(&self, sample: f64) -> f64 {
        (self.copied + self.carried) as f64 * sample * ENTRY_BYTES / 1e9
    }

    /// Efficiency with the loads of so many minutes as one: where a part of the traffic is run, chance within a minute is
    /// greater.
    pub fn efficiency_over(&self, minutes: usize) -> f64 {
        let efficiency = |group: &[Minute]| {
            let mut loads = vec![0.0; group[0].loads.len()];
            for minute in group.iter().filter(|minute| minute.loads.len() == group[0].loads.len()) {
                loads.iter_mut().zip(&minute.loads).for_each(|(sum, load)| *sum += load);
            }
            farol_cache::balance::efficiency(&loads)
        };
        let groups = self.minutes.chunks(minutes.max(1));
        let count = groups.len().max(1) as f64;
        groups.map(efficiency).sum::<f64>() / count
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
    /// This beat: hits, misses, given up, waited for in vain, by node.
    beat: Vec<[u64; 4]>,
    /// This beat: queries that went to the index without a lookup.
    beat_skipped: u64,
    /// This minute: work, by node; queries, and those that hit.
    minute: Vec<f64>,
    minute_asked: u64,
    minute_hits: u64,
    ever_full: Vec<bool>,
    load_sums: Vec<f64>,
    copies: Option<FailoverCopies>,
    /// By node: what it sends to others.
    sending: Vec<Sending>,
    /// The last ring that hand-overs were begun for, where entries travel with their ranges.
    ring: Option<Ring>,
    outcome: ServiceOutcome,
    index_beats: (f64, f64, u64),
}

/// What a node sends to others, at its pace.
#[derive(Default)]
struct Sending {
    /// A hand-over, and the ring by which its entries lie.
    hand_over: Option<(Ring, HandOver)>,
    round: Option<Round<u64, ()>>,
    rounds: u64,
    /// Where replicas copy to each other: what came since the last round, and what is on its way.
    fresh: Vec<(u64, u64)>,
    leaving: Vec<(u64, u64)>,
    next_round: f64,
}

/// When regular events happen next.
struct Deadlines {
    second: f64,
    beat: f64,
    minute: f64,
    next: f64,
}

/// Runs a strategy on a stream.
pub fn run(mut plan: Plan, stream: impl Iterator<Item = Asked>) -> ServiceOutcome {
    let tuning = std::mem::take(&mut plan.tuning);
    let mut changes: Vec<(f64, Change)> = plan.changes.clone();
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let strategy = RoutingStrategy::new(plan.kind, plan.nodes, plan.seed, tuning);
    let mut world = ServiceWorld::new(&plan, strategy);
    let mut deadlines = Deadlines { second: 1.0, beat: BEAT, minute: 60.0, next: 0.0 };
    // Failed nodes are noticed later.
    let mut noticed: Vec<(f64, u16)> = Vec::new();
    for asked in stream {
        while asked.at >= deadlines.next {
            if asked.at >= deadlines.second {
                world.second(deadlines.second);
                deadlines.second += 1.0;
            }
            if asked.at >= deadlines.beat {
                world.end_beat(deadlines.beat);
                deadlines.beat += BEAT;
            }
            if asked.at >= deadlines.minute {
                world.end_minute(deadlines.minute);
                deadlines.minute += 60.0;
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
            let others =
                changes.last().map(|(at, _)| *at).into_iter().chain(noticed.iter().map(|(at, _)| *at));
            deadlines.next = [deadlines.second, deadlines.beat, deadlines.minute]
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
            strategy.routed().filter(|_| plan.kind == StrategyKind::Ours).map(|routed| routed.ring().clone());
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
            beat: vec![[0; 4]; count],
            beat_skipped: 0,
            minute: vec![0.0; count],
            minute_asked: 0,
            minute_hits: 0,
            ever_full: vec![false; count],
            load_sums: vec![0.0; count],
            copies,
            sending: Vec::new(),
            ring,
            outcome: ServiceOutcome {
                name: plan.kind.name(),
                times: Times::default(),
                hits: 0,
                adopted: 0,
                asked: 0,
                given_up: 0,
                skipped: 0,
                inserts: 0,
                copied: 0,
                work: 0.0,
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
                control: Control::default(),
            },
            index_beats: (0.0, 0.0, 0),
        };
        for number in 0..count {
            let node = world.new_node();
            world.nodes.push(node);
            world.sending.push(world.new_sending(number, 0.0));
        }
        world
    }

    /// Rounds of different nodes begin at different times.
    fn new_sending(&self, number: usize, at: f64) -> Sending {
        let every = self.copies.map_or(f64::INFINITY, |copies| copies.every.as_secs_f64());
        let part = (number % 16) as f64 / 16.0;
        Sending { next_round: at + every * (0.5 + part / 2.0), ..Sending::default() }
    }

    fn new_node(&self) -> CacheNode<u64, ()> {
        let copies_share = self.copies.map_or(0.0, |copies| copies.share);
        CacheNode::new(&NodeOptions {
            copies_share,
            ..NodeOptions::of_entries(self.plan.entries, self.plan.policy)
        })
    }

    /// Whether a node served a request of so much work in time.
    fn serves(&mut self, node: usize, work: f64) -> bool {
        self.minute[node] += work;
        self.stations[node].arrive(work) && self.alive[node]
    }

    fn ask(&mut self, asked: &Asked) {
        let hash = asked.hash();
        self.front.arrive(1.0);
        self.minute_asked += 1;
        let Some((number, is_looked_up)) = self.strategy.node(hash, asked.query, asked.at) else {
            self.beat_skipped += 1;
            self.index.arrive(1.0);
            return;
        };
        let node = usize::from(number);
        if !is_looked_up {
            self.beat_skipped += 1;
            self.index.arrive(1.0);
            self.give(asked, hash, number);
            return;
        }
        if self.alive[node] {
            for other in self.strategy.also_ask().to_vec() {
                if other != number {
                    self.serves(usize::from(other), 1.0);
                }
            }
        }
        if !self.serves(node, 1.0) {
            let passed_over = !self.alive[node]
                && self.strategy.routed().is_some_and(|routed| routed.failed(number, asked.at));
            self.beat[node][if passed_over { 3 } else { 2 }] += 1;
            self.index.arrive(1.0);
            return;
        }
        let now = Now { time: timestamp(asked.at), need: 0 };
        match self.nodes[node].lookup(hash, &asked.query, &now, false) {
            NodeLookup::Adopted(_) => {
                self.beat[node][0] += 1;
                self.outcome.adopted += 1;
            }
            NodeLookup::Miss(_) => {
                self.beat[node][1] += 1;
                self.index.arrive(1.0);
                self.give(asked, hash, number);
            }
            NodeLookup::Hit(_) | NodeLookup::Stale(..) => self.beat[node][0] += 1,
        }
    }

    /// An answer goes to the node that did not have it, and to others that serve the query. Each insert is work.
    fn give(&mut self, asked: &Asked, hash: u64, number: u16) {
        let insert = self.plan.costs.insert;
        for to in self.strategy.given_to(hash, number, asked.at) {
            self.outcome.inserts += 1;
            if self.serves(usize::from(to), insert) {
                if self.plan.kind.copies_every().is_some() {
                    self.sending[usize::from(to)].fresh.push((hash, asked.query));
                }
                let key = asked.query;
                let made = Timestamp::EPOCH;
                self.nodes[usize::from(to)].insert(Entry { hash, key, value: (), weight: 1, made, state: 0 });
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
            let [hits, misses, given_up, late] = std::mem::take(&mut self.beat[node]);
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
            let late_ms = costs.hit_ms + costs.deadline_ms + costs.index_ms + index.wait_ms;
            times.add_tailed(late_ms, costs.index_tail_ms, late);
            self.outcome.hits += hits;
            self.outcome.asked += hits + misses + given_up + late;
            self.outcome.given_up += given_up + late;
        }
        let skipped = std::mem::take(&mut self.beat_skipped);
        if measured {
            let ms = costs.hit_ms + front.wait_ms + costs.index_ms + index.wait_ms;
            self.outcome.times.add_tailed(ms, costs.index_tail_ms, skipped);
            self.outcome.asked += skipped;
            self.outcome.skipped += skipped;
            self.outcome.beats.push((at, if sum > 0.0 { most * count / sum } else { 1.0 }));
            self.index_beats.0 += index.load;
            self.index_beats.1 += front.load;
            self.index_beats.2 += 1;
        }
        self.strategy.beat();
    }

    fn end_minute(&mut self, at: f64) {
        let room = self.plan.costs.node_rate * 60.0;
        let counts = std::mem::replace(&mut self.minute, vec![0.0; self.nodes.len()]);
        let (hits, asked) = (std::mem::take(&mut self.minute_hits), std::mem::take(&mut self.minute_asked));
        if at <= self.plan.warm_up {
            return;
        }
        let mut minute = Minute { at, hits, asked, ..Minute::default() };
        for (node, work) in counts.iter().enumerate() {
            self.outcome.work += work;
            if self.alive[node] {
                let load = work / room;
                minute.loads.push(load);
                self.ever_full[node] |= load >= 1.0;
                self.load_sums[node] += load.min(1.0);
            }
        }
        self.outcome.minutes.push(minute);
    }

    /// What happens every second: nodes and front speak with the leader; copies and entries travel.
    fn second(&mut self, at: f64) {
        if let Some(routed) = self.strategy.routed() {
            let news = routed.tick(at, &self.alive);
            self.outcome.bursts.extend(news.iter().filter(|one| one.severity > 0).map(|one| (at, one.hash)));
            let (all, of_node) = routed.take_control();
            if at > self.plan.warm_up {
                self.outcome.control.messages += all.messages;
                self.outcome.control.bytes += all.bytes;
            }
            // As much as batches of entries of the same size, and real ones: not each of a hundred, as queries are.
            let batches = of_node.messages as f64 + of_node.bytes as f64 / ENTRY_BYTES;
            let work = batches * self.plan.costs.transfer / self.plan.costs.sample;
            for node in 0..self.nodes.len() {
                if self.alive[node] {
                    self.serves(node, work);
                }
            }
        }
        self.begin_hand_overs();
        for node in 0..self.nodes.len() {
            if self.alive[node] {
                self.send(node, at);
            }
        }
    }

    /// Where borders have moved, our design lets entries travel with them.
    fn begin_hand_overs(&mut self) {
        let Some(before) = &self.ring else { return };
        let Some(after) = self.strategy.routed().map(|routed| routed.ring()) else { return };
        if before == after {
            return;
        }
        for node in after.nodes().filter(|node| before.contains(*node)) {
            let sending = &mut self.sending[usize::from(node.0)];
            // One that is under way begins again, from the ring that it began with.
            let (from, _) = sending.hand_over.take().unwrap_or((before.clone(), HandOver::default()));
            sending.hand_over = Some((from, HandOver::default()));
        }
        self.ring = Some(after.clone());
    }

    /// What a node sends in one second, at most as much as the pace allows.
    fn send(&mut self, node: usize, at: f64) {
        let mut room = self.plan.costs.pace;
        if self.sending[node].hand_over.is_some()
            && let Some(ring) = self.ring.take()
            && let Some((from, mut walk)) = self.sending[node].hand_over.take()
        {
            let me = NodeId(node as u16);
            while room > 0.0 && !walk.is_done() {
                let given = self.nodes[node].step_hand_over(&mut walk, STEP, |hash, source| match source {
                    // Copies of a node that is gone belong to whoever has its range now.
                    Some(source) => !ring.contains(source) && ring.owner(hash) != Some(me),
                    // Hot queries are at home everywhere; only what this node owned moves.
                    None => from.owner(hash) == Some(me) && ring.owner(hash) != Some(me),
                });
                for one in given {
                    room -= 1.0;
                    self.hand_over(node, one, &ring);
                }
            }
            self.sending[node].hand_over = (!walk.is_done()).then_some((from, walk));
            self.ring = Some(ring);
        }
        self.copy_to_replicas(node, at, &mut room);
        self.protect(node, at, room);
    }

    /// What is new goes to the other replicas, in rounds.
    fn copy_to_replicas(&mut self, node: usize, at: f64, room: &mut f64) {
        let Some(every) = self.plan.kind.copies_every() else { return };
        let others = self.strategy.replicas(node as u16);
        let sending = &mut self.sending[node];
        if at % every < 1.0 {
            let fresh = std::mem::take(&mut sending.fresh);
            sending.leaving.extend(fresh);
        }
        while *room > 0.0
            && let Some((hash, key)) = self.sending[node].leaving.pop()
        {
            for to in &others {
                *room -= 1.0;
                self.outcome.copied += 1;
                let transfer = self.plan.costs.transfer;
                self.serves(node, transfer);
                if self.serves(usize::from(*to), transfer) {
                    let made = Timestamp::EPOCH;
                    let entry = Entry { hash, key, value: (), weight: 1, made, state: 0 };
                    self.nodes[usize::from(*to)].insert(entry);
                }
            }
        }
    }

    fn hand_over(&mut self, from: usize, given: Proven<u64, ()>, ring: &Ring) {
        let transfer = self.plan.costs.transfer;
        let Some(to) = ring.owner(given.entry.hash).map(|to| usize::from(to.0)) else { return };
        self.outcome.carried += 1;
        self.serves(from, transfer);
        if self.serves(to, transfer) {
            self.nodes[to].take_over(given);
        }
    }

    /// A node's part of its round of failover copies.
    fn protect(&mut self, node: usize, at: f64, mut room: f64) {
        let Some(copies) = self.copies else { return };
        let now = timestamp(at);
        self.nodes[node].clear_up(now, STEP);
        if at >= self.sending[node].next_round && self.sending[node].round.is_none() {
            let round = copies.begin(&self.nodes[node]);
            let sending = &mut self.sending[node];
            sending.next_round += copies.every.as_secs_f64();
            (sending.round, sending.rounds) = (Some(round), sending.rounds + 1);
        }
        let Some(mut round) = self.sending[node].round.take() else { return };
        let Some(ring) = self.strategy.routed().map(|routed| routed.ring().clone()) else { return };
        let id = NodeId(node as u16);
        let mark = RoundMark { source: id, incarnation: 1, round: self.sending[node].rounds };
        while room > 0.0 {
            let Some(step) = round.step(&mut self.nodes[node], STEP.min(room.ceil() as usize), now) else {
                self.nodes.iter_mut().for_each(|keeper| keeper.round_done(mark, now));
                return;
            };
            for entry in step {
                for keeper in copies.keepers(&ring, id, entry.hash) {
                    room -= 1.0;
                    self.outcome.copied += 1;
                    let transfer = self.plan.costs.transfer;
                    self.serves(node, transfer);
                    if self.serves(usize::from(keeper.0), transfer) {
                        self.nodes[usize::from(keeper.0)].keep_copy(mark, entry.clone(), now);
                    }
                }
            }
        }
        self.sending[node].round = Some(round);
    }

    fn fail(&mut self, node: u16) {
        if let Some(alive) = self.alive.get_mut(usize::from(node)) {
            *alive = false;
            self.nodes[usize::from(node)] = self.new_node();
            self.sending[usize::from(node)] = Sending { next_round: f64::INFINITY, ..Sending::default() };
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
            self.beat.push([0; 4]);
            self.minute.push(0.0);
            self.sending.push(Sending::default());
            self.ever_full.push(false);
            self.load_sums.push(0.0);
        }
        if !self.alive[at] {
            self.alive[at] = true;
            self.nodes[at] = self.new_node();
            let every = self.copies.map_or(f64::INFINITY, |copies| copies.every.as_secs_f64());
            self.sending[at].next_round = every.max(self.sending[0].next_round);
            self.strategy.up(node);
        }
    }

    fn finish(mut self) -> ServiceOutcome {
        if let Some(routed) = self.strategy.routed() {
            self.outcome.moved = routed.leader().moved();
            (self.outcome.calls, self.outcome.moving_calls) = routed.leader().balanced();
        }
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
