//! The product's nodes, fronts and leaders over a network that loses, doubles and delays, with processes that crash and
//! clocks that differ; and what must hold whatever happens.
//!
//! Checked after every step: a ring that anybody has tiles the circle; epochs that a reader takes never fall, and one epoch
//! is one ring everywhere; nobody is given an answer beyond its TTL or its grace by the truth, give or take what messages
//! were under way; a node keeps to its memory. And in the end, when the network is whole again: all who live are on the
//! ring, all fronts have the same ring, and what was inserted is found.

use super::report::{head, row};
use farol_base::random::mix;
use farol_base::{Random, Seeded, Timestamp};
use farol_cache::copies::RoundMark;
use farol_cache::failover::{FailoverCopies, Round};
use farol_cache::freshness::{CLOCK_BEGINS, Expiry, Now, made};
use farol_cache::front::{FrontRouter, FrontRules};
use farol_cache::health::Failure;
use farol_cache::lead::{Leader, LeaderRules, Publish};
use farol_cache::lease::Turn;
use farol_cache::node::{HandOver, NodeLookup, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::store::{Entry, Proven};
use farol_cache::tables::{Beat, Epoch, FrontId, FrontReport, HotDoc, RingDoc};
use farol_cache::{CacheNode, NodeId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// Milliseconds of trouble, and of quiet after it, in which all must settle: whom fronts could not reach is let in again
/// after five minutes at the latest.
const TROUBLE: u64 = 90_000;
const QUIET: u64 = 400_000;
/// A step of the run; and since a lookup and its answer take a step each, what counts as late.
const STEP: u64 = 50;
const LATE: u64 = 5 * STEP;
/// The longest way of a message.
const DELAY_MAX: u64 = 1_000;
const TTL: u64 = 40_000;
const GRACE: u64 = 15_000;
/// Hops that an entry makes in its life, each with a delay that its age does not know of; and what a front may lag behind.
const SLACK: u64 = 8 * DELAY_MAX;
const MEMORY: u64 = 60_000;
const KEYS: u64 = 200;

/// An answer, as the truth knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Truth {
    key: u64,
    made: u64,
    state: u64,
}

/// What travels: an entry without its clock.
#[derive(Clone, Debug)]
struct Sent {
    truth: Truth,
    age: Duration,
    state: u64,
    uses: u8,
    weight: u32,
}

#[derive(Clone, Debug)]
enum Message {
    Lookup {
        front: usize,
        key: u64,
        need: u64,
        asked: u64,
    },
    /// `None`: nothing found. Answers are checked where they arrive.
    Reply {
        node: usize,
        key: u64,
        asked: u64,
        found: Option<Truth>,
        leads: bool,
    },
    Insert(Sent),
    Protect {
        mark: RoundMark,
        last: bool,
        entries: Vec<Sent>,
    },
    HandOver(Vec<Sent>),
    Beat(NodeId, Beat),
    Report(Box<FrontReport<u64>>),
    Ring(Box<RingDoc>),
    Hot(Box<HotDoc>),
    State(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Node(usize),
    Front(usize),
    Leader(usize),
}

struct NodeProcess {
    node: CacheNode<u64, Truth>,
    ring: Option<RingDoc>,
    incarnation: u64,
    alive: bool,
    skew: u64,
    rounds: u64,
    round: Option<Round<u64, Truth>>,
    hand_over: Option<(RingDoc, HandOver)>,
}

struct FrontProcess {
    router: FrontRouter<u64>,
    incarnation: u64,
    state: u64,
    epochs: Epoch,
    skew: u64,
    waiting: BTreeMap<u64, (usize, u64)>,
}

struct Network {
    random: Seeded,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    messages: BTreeMap<u64, (Seat, Message)>,
    sent: u64,
    loss: f64,
    nodes: Vec<NodeProcess>,
    fronts: Vec<FrontProcess>,
    /// Each with its clock's skew; the first ones are deposed and do not know.
    leaders: Vec<(Leader<u64>, u64)>,
    term: u64,
    /// What is stored, fenced by its epoch.
    stored: (Option<RingDoc>, Option<HotDoc>),
    /// When each state began.
    states: Vec<u64>,
    rings: BTreeMap<Epoch, Vec<(u64, NodeId)>>,
    pub counts: LossyCounts,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossyCounts {
    pub asked: u64,
    pub hits: u64,
    pub crashes: u64,
    pub epochs: u64,
    /// The greatest age of an answer beyond the TTL, and of a superseded one beyond the grace, in milliseconds.
    pub over_ttl: u64,
    pub over_grace: u64,
}

fn options() -> NodeOptions {
    let expiry = Expiry { ttl: Duration::from_millis(TTL), grace: Duration::from_millis(GRACE) };
    let silence_max = Duration::from_secs(20);
    NodeOptions { copies_share: 0.2, silence_max, ..NodeOptions::of_bytes(MEMORY, Policy::default(), expiry) }
}

fn clock(skew: u64, now: u64) -> Timestamp {
    CLOCK_BEGINS + Duration::from_millis(skew + now)
}

impl Network {
    fn new(seed: u64) -> Network {
        let mut random = Seeded::new(mix(seed ^ 0x1057));
        let (nodes, fronts) = (3 + random.below(6) as usize, 1 + random.below(3) as usize);
        let node = |random: &mut Seeded| NodeProcess {
            node: CacheNode::new(&options()),
            ring: None,
            incarnation: 1,
            alive: true,
            skew: random.below(7_200_000),
            rounds: 0,
            round: None,
            hand_over: None,
        };
        let nodes = (0..nodes).map(|_| node(&mut random)).collect();
        let fronts = (0..fronts).map(|number| front(number, 1, random.below(7_200_000), 0)).collect();
        let skew = random.below(7_200_000);
        let leader = Leader::new(LeaderRules::ours(), 1, seed, clock(skew, 0));
        Network {
            loss: 0.3 * random.unit(),
            random,
            now: 0,
            queue: BinaryHeap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            nodes,
            fronts,
            leaders: vec![(leader, skew)],
            term: 1,
            stored: (None, None),
            states: vec![0],
            rings: BTreeMap::new(),
            counts: LossyCounts::default(),
        }
    }

    /// Sends: lost, doubled, late.
    fn send(&mut self, to: Seat, message: Message) {
        let copies = if self.random.unit() < self.loss { self.random.below(2) * 2 } else { 1 };
        for _ in 0..copies {
            let usual = self.random.unit() < 0.9 || self.now >= TROUBLE;
            let delay = self.random.below(if usual { 20 } else { DELAY_MAX });
            self.sent += 1;
            self.queue.push(Reverse((self.now + delay, self.sent)));
            self.messages.insert(self.sent, (to, message.clone()));
        }
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            if self.now >= TROUBLE {
                self.loss = 0.0;
                let settled =
                    if self.now.is_multiple_of(5_000) { self.settled() } else { Err(String::new()) };
                if settled.is_ok() || self.now >= TROUBLE + QUIET {
                    return settled;
                }
            }
            self.now += STEP;
            while let Some(Reverse((_, number))) =
                self.queue.peek().copied().filter(|due| due.0.0 <= self.now)
            {
                self.queue.pop();
                if let Some((to, message)) = self.messages.remove(&number) {
                    self.take(to, message)?;
                }
            }
            self.step()?;
        }
    }

    /// What everybody does by themselves, and what befalls them.
    fn step(&mut self) -> Result<(), String> {
        let now = self.now;
        if now < TROUBLE {
            self.trouble();
        }
        for number in 0..self.fronts.len() {
            self.ask(number);
            let due = {
                let front = &self.fronts[number];
                front.router.report_is_due(clock(front.skew, now), Duration::from_secs(2))
            };
            if due {
                let report = {
                    let front = &mut self.fronts[number];
                    front.router.report(clock(front.skew, now))
                };
                (0..self.leaders.len()).for_each(|leader| {
                    self.send(Seat::Leader(leader), Message::Report(Box::new(report.clone())))
                });
            }
        }
        for number in 0..self.nodes.len() {
            if self.nodes[number].alive {
                self.tend(number);
            }
        }
        for number in 0..self.leaders.len() {
            let (leader, skew) = &mut self.leaders[number];
            let published = leader.tick(clock(*skew, now));
            published.into_iter().for_each(|one| self.publish(one));
        }
        // Who watches the tables hears of them, and reads them again now and then.
        if now.is_multiple_of(1_000) {
            self.tell_tables();
        }
        self.check()
    }

    fn trouble(&mut self) {
        let dice = self.random.unit();
        let node = self.random.below(self.nodes.len() as u64) as usize;
        if dice < 0.004 {
            let process = &mut self.nodes[node];
            process.alive = !process.alive;
            if process.alive {
                // A new start: empty, by another clock.
                process.incarnation += 1;
                (process.node, process.ring, process.rounds) = (CacheNode::new(&options()), None, 0);
                (process.round, process.hand_over) = (None, None);
                process.skew = self.random.below(7_200_000);
            }
            self.counts.crashes += 1;
        } else if dice < 0.005 {
            let number = self.random.below(self.fronts.len() as u64) as usize;
            let incarnation = self.fronts[number].incarnation + 1;
            let new = front(number, incarnation, self.random.below(7_200_000), self.now);
            // Without the state a front asks no cache: to need nothing would be to take anything.
            self.fronts[number] = FrontProcess { state: self.states.len() as u64 - 1, ..new };
            self.counts.crashes += 1;
        } else if dice < 0.0055 {
            // Another leads; the one before may live on for a while.
            if let Some(ring) = &self.stored.0 {
                self.term += 1;
                let skew = self.random.below(7_200_000);
                let hot = self.stored.1.as_ref();
                let new = Leader::resume(LeaderRules::ours(), self.term, ring, hot, clock(skew, self.now));
                self.leaders.push((new, skew));
                if self.leaders.len() > 2 || self.random.unit() < 0.5 {
                    self.leaders.remove(0);
                }
            }
        } else if dice < 0.05 {
            self.states.push(self.now);
        }
    }

    /// A leader's write is refused where something newer is stored.
    fn publish(&mut self, one: Publish<u64>) {
        match one {
            Publish::Ring(doc) if self.stored.0.as_ref().is_none_or(|stored| doc.epoch > stored.epoch) => {
                self.counts.epochs += 1;
                self.stored.0 = Some(doc);
                self.tell_tables();
            }
            Publish::Hot(doc) if self.stored.1.as_ref().is_none_or(|stored| doc.epoch > stored.epoch) => {
                self.stored.1 = Some(doc);
            }
            _ => {}
        }
    }

    fn tell_tables(&mut self) {
        let state = self.states.len() as u64 - 1;
        let (ring, hot) = (self.stored.0.clone(), self.stored.1.clone());
        for number in 0..self.fronts.len() {
            ring.iter().for_each(|doc| self.send(Seat::Front(number), Message::Ring(Box::new(doc.clone()))));
            hot.iter().for_each(|doc| self.send(Seat::Front(number), Message::Hot(Box::new(doc.clone()))));
            // What the state is, fronts read until they have it: this is the bound that the grace rests on.
            self.fronts[number].state = self.fronts[number].state.max(state);
            self.send(Seat::Front(number), Message::State(state));
        }
        for number in 0..self.nodes.len() {
            ring.iter().for_each(|doc| self.send(Seat::Node(number), Message::Ring(Box::new(doc.clone()))));
        }
    }

    fn ask(&mut self, number: usize) {
        let key = (self.random.unit().powi(2) * KEYS as f64) as u64;
        let front = &mut self.fronts[number];
        let now = clock(front.skew, self.now);
        // Who was not answered in time was late, or refused: a dead node refuses.
        let late: Vec<u64> = front
            .waiting
            .iter()
            .filter(|(_, (_, at))| self.now > at + LATE)
            .map(|(asked, _)| *asked)
            .collect();
        for asked in late {
            if let Some((node, _)) = front.waiting.remove(&asked) {
                let why = if self.nodes[node].alive { Failure::Late } else { Failure::Refused };
                front.router.failed(NodeId(node as u16), why, now);
            }
        }
        self.counts.asked += 1;
        let Some(route) = front.router.route(mix(key), &key, now) else { return };
        let (node, asked) = (usize::from(route.node.0), self.counts.asked);
        if route.is_new {
            self.insert(number, key, node);
            return;
        }
        front.waiting.insert(asked, (node, self.now));
        let need = front.state;
        self.send(Seat::Node(node), Message::Lookup { front: number, key, need, asked });
    }

    /// The index answers; the answer goes where the front says.
    fn insert(&mut self, number: usize, key: u64, node: usize) {
        let front = &self.fronts[number];
        // As new as the front knows: the index it asks may lag as it does.
        let truth = Truth { key, made: self.now, state: front.state };
        let to = front.router.given_to(mix(key), NodeId(node as u16), clock(front.skew, self.now));
        let weight = 50 + (mix(key ^ truth.made) % 900) as u32;
        for to in to {
            let sent = Sent { truth, age: Duration::ZERO, state: truth.state, uses: 0, weight };
            self.send(Seat::Node(usize::from(to.0)), Message::Insert(sent));
        }
    }

    /// A node beats, copies its best, hands over what it lost, and clears up.
    fn tend(&mut self, number: usize) {
        let process = &mut self.nodes[number];
        let now = clock(process.skew, self.now);
        let id = NodeId(number as u16);
        process.node.clear_up(now, 32);
        let mut out: Vec<(Seat, Message)> = Vec::new();
        if self.now.is_multiple_of(1_200) {
            let beat = Beat { incarnation: process.incarnation, capacity: 1000, ..Beat::default() };
            out.extend((0..self.leaders.len()).map(|leader| (Seat::Leader(leader), Message::Beat(id, beat))));
        }
        let copies = FailoverCopies::default();
        if (self.now + 700 * number as u64).is_multiple_of(10_000) {
            process.rounds += 1;
            process.round = Some(copies.begin(&process.node));
        }
        let mark = RoundMark { source: id, incarnation: process.incarnation, round: process.rounds };
        let ring = process.ring.as_ref().map(|doc| doc.ring.clone());
        if let (Some(round), Some(ring)) = (&mut process.round, &ring) {
            let step = round.step(&mut process.node, 16, now);
            let last = step.is_none();
            let mut by_keeper: BTreeMap<NodeId, Vec<Sent>> = BTreeMap::new();
            if let Some(keeper) = ring.successor(id).filter(|_| last) {
                by_keeper.insert(keeper, Vec::new());
            }
            for entry in step.into_iter().flatten() {
                for keeper in copies.keepers(ring, id, entry.hash) {
                    by_keeper.entry(keeper).or_default().push(sent(&entry, 1, now));
                }
            }
            let message = |(keeper, entries): (NodeId, Vec<Sent>)| {
                (Seat::Node(usize::from(keeper.0)), Message::Protect { mark, last, entries })
            };
            out.extend(by_keeper.into_iter().map(message));
            if last {
                process.round = None;
            }
        }
        if let (Some((from, mut walk)), Some(ring)) = (process.hand_over.take(), &ring) {
            let given = process.node.step_hand_over(&mut walk, 16, |hash, source| match source {
                Some(source) => !ring.contains(source) && ring.owner(hash) != Some(id),
                None => from.ring.owner(hash) == Some(id) && ring.owner(hash) != Some(id),
            });
            for one in given {
                if let Some(to) = ring.owner(one.entry.hash) {
                    let entries = vec![sent(&one.entry, one.uses, now)];
                    out.push((Seat::Node(usize::from(to.0)), Message::HandOver(entries)));
                }
            }
            process.hand_over = (!walk.is_done()).then_some((from, walk));
        }
        out.into_iter().for_each(|(to, message)| self.send(to, message));
    }

    fn take(&mut self, to: Seat, message: Message) -> Result<(), String> {
        match to {
            Seat::Node(number) => self.node_takes(number, message),
            Seat::Front(number) => return self.front_takes(number, message),
            Seat::Leader(number) => {
                let Some((leader, skew)) = self.leaders.get_mut(number) else { return Ok(()) };
                let now = clock(*skew, self.now);
                match message {
                    Message::Beat(node, beat) => leader.beat(node, &beat, now),
                    Message::Report(report) => leader.report(*report, now),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn node_takes(&mut self, number: usize, message: Message) {
        let process = &mut self.nodes[number];
        if !process.alive {
            return;
        }
        let now = clock(process.skew, self.now);
        match message {
            Message::Lookup { front, key, need, asked } => {
                let lookup = process.node.lookup(mix(key), &key, &Now { time: now, need }, true);
                let leads = matches!(lookup, NodeLookup::Miss(Turn::Lead(_)) | NodeLookup::Stale(_, Some(_)));
                let found = lookup.found().map(|found| found.value);
                self.send(Seat::Front(front), Message::Reply { node: number, key, asked, found, leads });
            }
            Message::Insert(sent) => {
                if let Some(one) = read(&sent, now) {
                    process.node.insert(one.entry);
                }
            }
            Message::Protect { mark, last, entries } => {
                for one in entries.iter().filter_map(|sent| read(sent, now)) {
                    process.node.keep_copy(mark, one.entry, now);
                }
                if last {
                    process.node.round_done(mark, now);
                }
            }
            Message::HandOver(entries) => {
                for one in entries.iter().filter_map(|sent| read(sent, now)) {
                    process.node.take_over(one);
                }
            }
            Message::Ring(doc) if process.ring.as_ref().is_none_or(|known| doc.epoch > known.epoch) => {
                if let Some(before) = process.ring.replace(*doc)
                    && process.hand_over.is_none()
                {
                    process.hand_over = Some((before, HandOver::default()));
                }
            }
            _ => {}
        }
    }

    fn front_takes(&mut self, number: usize, message: Message) -> Result<(), String> {
        let front = &mut self.fronts[number];
        let now = clock(front.skew, self.now);
        match message {
            Message::Ring(doc) => {
                let known = self.rings.entry(doc.epoch).or_insert_with(|| doc.ring.ends().to_vec());
                if known != doc.ring.ends() {
                    return Err(format!("two rings have the epoch {:?}", doc.epoch));
                }
                front.router.install_ring(&doc);
            }
            Message::Hot(doc) => {
                front.router.install_hot(&doc, now);
            }
            Message::State(state) => front.state = front.state.max(state),
            Message::Reply { node, key, asked, found, leads } => {
                if front.waiting.remove(&asked).is_some() {
                    front.router.answered(NodeId(node as u16), Duration::from_millis(1));
                }
                if let Some(truth) = found {
                    self.counts.hits += 1;
                    self.judge(&truth, key)?;
                }
                if leads {
                    self.insert(number, key, node);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An answer that somebody was given, by the truth.
    fn judge(&mut self, truth: &Truth, key: u64) -> Result<(), String> {
        let age = self.now - truth.made;
        let superseded = self.states.get(truth.state as usize + 1).map_or(0, |since| self.now - since);
        self.counts.over_ttl = self.counts.over_ttl.max(age.saturating_sub(TTL));
        self.counts.over_grace = self.counts.over_grace.max(superseded.saturating_sub(GRACE));
        if truth.key != key || age > TTL + SLACK || superseded > GRACE + SLACK {
            return Err(format!(
                "{key} was given {truth:?} at {}: {age} ms old, superseded for {superseded} ms",
                self.now
            ));
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        for (number, front) in self.fronts.iter_mut().enumerate() {
            let ring = front.router.ring();
            let widths: f64 = (0..ring.len()).map(|place| ring.width(place)).sum();
            if !ring.is_empty() && (widths - 1.0).abs() > 1e-6 {
                return Err(format!("front {number} has a ring with holes: {:?}", ring.ends()));
            }
            let epoch = front.router.epoch();
            if epoch < front.epochs {
                return Err(format!("front {number} went back from {:?} to {epoch:?}", front.epochs));
            }
            front.epochs = epoch;
        }
        match self.nodes.iter().position(|process| process.node.weight() > MEMORY) {
            Some(number) => Err(format!("node {number} keeps {}", self.nodes[number].node.weight())),
            None => Ok(()),
        }
    }

    /// After the quiet.
    fn settled(&mut self) -> Result<(), String> {
        let Some(stored) = &self.stored.0 else { return Err("no ring was ever published".to_string()) };
        for (number, front) in self.fronts.iter().enumerate() {
            if front.router.ring() != &stored.ring {
                return Err(format!("front {number} has another ring than is stored"));
            }
        }
        for (number, process) in self.nodes.iter().enumerate() {
            if stored.ring.contains(NodeId(number as u16)) != process.alive {
                return Err(format!("node {number}: alive {}, on the ring it is not so", process.alive));
            }
        }
        Ok(())
    }
}

fn front(number: usize, incarnation: u64, skew: u64, now: u64) -> FrontProcess {
    let rules = FrontRules { counters: 64, remembered: 200, ..FrontRules::ours() };
    FrontProcess {
        router: FrontRouter::new(FrontId(number as u64), incarnation, rules, clock(skew, now)),
        incarnation,
        state: 0,
        epochs: Epoch::default(),
        skew,
        waiting: BTreeMap::new(),
    }
}

fn sent(entry: &Entry<u64, Truth>, uses: u8, now: Timestamp) -> Sent {
    Sent { truth: entry.value, age: now.since(entry.made), state: entry.state, uses, weight: entry.weight }
}

fn read(sent: &Sent, now: Timestamp) -> Option<Proven<u64, Truth>> {
    let (key, made) = (sent.truth.key, made(sent.age, now)?);
    let entry =
        Entry { hash: mix(key), key, value: sent.truth, weight: sent.weight, made, state: sent.state };
    Some(Proven { uses: sent.uses, entry })
}

/// One run from its seed; a sentence where something did not hold.
pub fn play(seed: u64) -> Result<LossyCounts, String> {
    let mut network = Network::new(seed);
    network.run().map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    Ok(network.counts)
}

/// So many seeds.
pub fn table(seeds: u64, first: u64) -> Result<(), crate::Error> {
    let (mut all, mut most) = (LossyCounts::default(), LossyCounts::default());
    for seed in first..first + seeds {
        let one = play(seed).map_err(crate::Error::Input)?;
        all.asked += one.asked;
        all.hits += one.hits;
        all.crashes += one.crashes;
        all.epochs += one.epochs;
        most.over_ttl = most.over_ttl.max(one.over_ttl);
        most.over_grace = most.over_grace.max(one.over_grace);
    }
    head(
        "Nodes, fronts and leaders over a network that loses, doubles and delays",
        &[
            "seeds",
            "queries",
            "hits",
            "crashes",
            "epochs",
            "most beyond the TTL, ms",
            "most beyond the grace, ms",
            "broken promises",
        ],
    );
    let cells = [seeds, all.asked, all.hits, all.crashes, all.epochs, most.over_ttl, most.over_grace, 0];
    row(&cells.map(|cell| cell.to_string()));
    println!();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_network_does_promises_hold() {
        let (mut hits, mut crashes) = (0, 0);
        for seed in 0..60 {
            let tally = play(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
            hits += tally.hits;
            crashes += tally.crashes;
        }
        assert!(hits > 10_000 && crashes > 100, "{hits} {crashes}");
    }
}
