//! The world: nodes with their clocks, the tables, the logs, shared storage, and the order in which things happen.

use super::checkers::{Violation, WriteChecker, broken};
use super::documents::{Log, ReplicaDisk, sent_of};
use super::kv::Kv;
use super::node::{Loop, Node, Process};
use super::{Ablation, chaos};
use farol_base::PagePosition;
use farol_base::random::{Random, Seeded, mix};
use farol_cluster::{
    Control, Key, Member, NodeReport, Phase, Revision, Role, Rules, ShardId, Times, Write, WriteOutcome,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A client of the tables gives up after this.
const TIMEOUT: u64 = 5_000;
/// Threads of membership look around this often, by their own clock.
const TICK: u64 = 400;
/// Events that a failure prints.
const LOG_MAX: usize = 200;

/// Something that happens at an instant.
#[derive(Debug)]
pub enum Incident {
    Tick {
        node: usize,
        generation: u64,
    },
    /// A write reaches the tables.
    Arrive {
        node: usize,
        generation: u64,
        side: Loop,
        write: Write,
        issued: u64,
        answer_ms: Option<u64>,
    },
    /// What came of a write reaches its writer.
    Outcome {
        node: usize,
        generation: u64,
        side: Loop,
        key: String,
        outcome: WriteOutcome,
    },
    /// A replica asks an agent to send again.
    Ask {
        node: usize,
        generation: u64,
        shard: ShardId,
        from: PagePosition,
    },
    Start {
        node: usize,
    },
    Trouble,
    /// Operators give up what is lost for good.
    GiveUp,
    Trim,
}

/// How the ways to the tables fare.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// The tables answer nobody.
    pub away_until: u64,
    /// Everything takes up to eight seconds.
    pub slow_until: u64,
    /// Of a thousand requests, so many are lost; as many answers.
    pub lost: u64,
    /// Of a thousand writes of a leader, so many are caught by a pause of the process.
    pub caught: u64,
}

/// Everything there is.
pub struct ClusterWorld {
    pub random: Seeded,
    pub now: u64,
    pub nodes: Vec<Node>,
    /// Boot id of each machine.
    pub boots: Vec<u64>,
    pub kv: Kv,
    pub logs: BTreeMap<ShardId, Log>,
    pub snapshots: BTreeMap<ShardId, ReplicaDisk>,
    pub weather: Weather,
    pub checker: WriteChecker,
    pub ablation: Option<Ablation>,
    /// Orders waited for the trouble to end.
    pub has_orders: bool,
    /// No new pages from here on.
    pub crawl_until: u64,
    pub log: VecDeque<String>,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    pending: BTreeMap<u64, Incident>,
    next: u64,
}

impl ClusterWorld {
    pub fn new(seed: u64, ablation: Option<Ablation>) -> ClusterWorld {
        ClusterWorld {
            random: Seeded::new(mix(seed ^ 0xC1A5_7E12)),
            now: 0,
            nodes: Vec::new(),
            boots: Vec::new(),
            kv: Kv::new(ablation == Some(Ablation::Cas)),
            logs: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            weather: Weather::default(),
            checker: WriteChecker::default(),
            ablation,
            has_orders: false,
            crawl_until: u64::MAX,
            log: VecDeque::new(),
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            next: 0,
        }
    }

    pub fn schedule(&mut self, at: u64, event: Incident) {
        self.next += 1;
        self.events.push(Reverse((at.max(self.now), self.next)));
        self.pending.insert(self.next, event);
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:>9} ms  {}", self.now, text()));
    }

    pub fn chance(&mut self, of_a_thousand: u64) -> bool {
        self.random.below(1000) < of_a_thousand
    }

    /// Between the two, the second included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.random.below(to - from + 1)
    }

    /// Lets everything happen up to an instant.
    pub fn run(&mut self, until: u64) -> Result<(), Violation> {
        while let Some(Reverse((at, number))) = self.events.peek().copied() {
            if at > until {
                break;
            }
            self.events.pop();
            self.now = at;
            if let Some(event) = self.pending.remove(&number) {
                self.happen(event)?;
            }
        }
        self.now = until;
        Ok(())
    }

    fn happen(&mut self, event: Incident) -> Result<(), Violation> {
        // What reaches a stopped process waits until it goes on.
        if let Incident::Tick { node, generation }
        | Incident::Outcome { node, generation, .. }
        | Incident::Ask { node, generation, .. } = &event
        {
            let place = &self.nodes[*node];
            if place.generation != *generation || place.process.is_none() {
                return Ok(());
            }
            if place.paused_until > self.now {
                let at = place.paused_until;
                self.schedule(at, event);
                return Ok(());
            }
        }
        match event {
            Incident::Tick { node, generation } => {
                let rate = self.nodes[node].clock.rate;
                self.schedule(self.now + TICK * 1_000_000 / rate, Incident::Tick { node, generation });
                self.turn(node)
            }
            Incident::Arrive { node, generation, side, write, issued, answer_ms } => {
                self.arrive(node, generation, side, write, issued, answer_ms)
            }
            Incident::Outcome { node, side, key, outcome, .. } => self.answered(node, side, &key, outcome),
            Incident::Ask { node, shard, from, .. } => {
                if let Some(process) = &mut self.nodes[node].process {
                    process.agent.asked_again(shard, from);
                }
                Ok(())
            }
            Incident::Start { node } => {
                self.start(node);
                Ok(())
            }
            Incident::Trouble => {
                chaos::trouble(self);
                Ok(())
            }
            Incident::GiveUp => {
                chaos::give_up(self);
                Ok(())
            }
            Incident::Trim => {
                self.trim();
                self.schedule(self.now + 30_000, Incident::Trim);
                Ok(())
            }
        }
    }

    /// Starts a process on a folder, where none runs.
    pub fn start(&mut self, node: usize) {
        let seed = self.random.next_u64();
        let boot = self.boots[self.nodes[node].machine];
        let ablation = self.ablation;
        let mut rules = Rules::default();
        let mut times = Times::default();
        match ablation {
            Some(Ablation::Lease) => rules.lease_checked = false,
            Some(Ablation::Dead) => times.dead_ms = times.hold_ms * 6 / 10,
            Some(Ablation::Burial) => rules.burial_first = false,
            Some(Ablation::Silence) => rules.silence_anew = false,
            Some(Ablation::Incarnation) => rules.incarnation_conflict = false,
            Some(Ablation::Cas | Ablation::Gap) | None => {}
        }
        let at = self.now;
        let place = &mut self.nodes[node];
        if place.process.is_some() || place.is_over {
            return;
        }
        place.generation += 1;
        let now = place.clock.now(at);
        let incarnation = place.disk.member.incarnation + 1;
        let control = place
            .roles
            .contains(&Role::Control)
            .then(|| Control::new(place.id, incarnation, times, rules, !seed, now));
        let member = Member::start(place.profile(boot), place.disk.member.clone(), times, rules, seed, now);
        place.process = Some(Process {
            member,
            control,
            heard: [0; 2],
            busy: [false; 2],
            queue: VecDeque::new(),
            seen: Default::default(),
            agent: Default::default(),
            replicas: BTreeMap::new(),
            births: BTreeMap::new(),
            unwanted: BTreeMap::new(),
        });
        let generation = place.generation;
        self.note(|| format!("node {node} starts"));
        self.schedule(at + 1, Incident::Tick { node, generation });
    }

    /// Ends a process as `kill -9` does.
    pub fn kill(&mut self, node: usize) {
        if self.nodes[node].process.take().is_some() {
            self.note(|| format!("node {node} is killed"));
        }
    }

    pub(super) fn is_reached(&self, node: usize) -> bool {
        self.now >= self.weather.away_until && self.now >= self.nodes[node].cut_until
    }

    pub(super) fn latency(&mut self) -> u64 {
        let is_slow = self.now < self.weather.slow_until;
        if is_slow && self.chance(500) { self.between(50, 8_000) } else { self.between(1, 40) }
    }

    /// One look around of everything that runs on a node.
    fn turn(&mut self, node: usize) -> Result<(), Violation> {
        if self.is_reached(node) {
            self.listen(node);
        }
        self.report(node);
        self.member_turn(node)?;
        self.control_turn(node)?;
        self.document_turn(node);
        self.check_twins(node)
    }

    /// Both threads hear what has changed, and read what they must.
    fn listen(&mut self, node: usize) {
        let lag = if self.chance(100) { self.between(0, 6_000) } else { 0 };
        let as_of = self.now.saturating_sub(lag);
        let lost = self.weather.lost;
        let now = self.nodes[node].clock.now(self.now);
        for side in [Loop::Member, Loop::Control] {
            let Some(process) = &mut self.nodes[node].process else { return };
            if process.busy[side as usize] || (side == Loop::Control && !process.queue.is_empty()) {
                continue;
            }
            let (news, upto) = self.kv.news(process.heard[side as usize], as_of);
            process.heard[side as usize] = upto;
            for (key, version) in news {
                let revision = Revision(version.revision);
                match (side, &mut process.control) {
                    (Loop::Member, _) => process.member.heard(key, version.value.as_deref(), revision, now),
                    (Loop::Control, Some(control)) => {
                        control.heard(key, version.value.as_deref(), revision, now)
                    }
                    (Loop::Control, None) => {}
                }
            }
            let wanted = match (side, &mut process.control) {
                (Loop::Member, _) => process.member.wants(),
                (Loop::Control, Some(control)) => control.wants(),
                (Loop::Control, None) => Vec::new(),
            };
            for key in wanted {
                if self.random.below(1000) < lost {
                    continue;
                }
                let found = self.kv.get(&key, as_of);
                let revision = found.map_or(Revision::NONE, |version| Revision(version.revision));
                let value = found.and_then(|version| version.value.as_deref());
                match (side, &mut process.control) {
                    (Loop::Member, _) => process.member.heard(&key, value, revision, now),
                    (Loop::Control, Some(control)) => control.heard(&key, value, revision, now),
                    (Loop::Control, None) => {}
                }
            }
        }
    }

    fn report(&mut self, node: usize) {
        let (at, place) = (self.now, &mut self.nodes[node]);
        let Some(process) = &mut place.process else { return };
        let replicas = process.replicas.iter().filter_map(|(shard, replica)| {
            Some((*shard, replica.report(place.disk.replicas.get(shard)?, at)))
        });
        let is_agent = place.roles.contains(&Role::Crawl);
        let sent = if is_agent { sent_of(&place.disk.agent) } else { BTreeMap::new() };
        // Hosts are not simulated here: nothing is ever under way that was lost.
        let released = process.member.route().map(|route| route.epoch()).unwrap_or_default();
        process.member.report(NodeReport {
            replicas: replicas.collect(),
            sent,
            released,
            ..NodeReport::default()
        });
    }

    fn member_turn(&mut self, node: usize) -> Result<(), Violation> {
        let at = self.now;
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return Ok(()) };
        let shards = process.member.shards().map_or(0, |map| map.version);
        process.seen.check(shards, process.member.ranks().map_or(0, |ranks| ranks.version))?;
        if process.busy[Loop::Member as usize] {
            return Ok(());
        }
        if *process.member.phase() == Phase::Left {
            place.is_over = true;
            self.note(|| format!("node {node} has left"));
            self.nodes[node].process = None;
            return Ok(());
        }
        if let Some(write) = process.member.tick(now).pop() {
            place.disk.member = process.member.disk().clone();
            process.busy[Loop::Member as usize] = true;
            self.send(node, Loop::Member, write);
        }
        Ok(())
    }

    fn control_turn(&mut self, node: usize) -> Result<(), Violation> {
        let at = self.now;
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return Ok(()) };
        let Some(control) = &mut process.control else { return Ok(()) };
        if process.busy[Loop::Control as usize] || !process.queue.is_empty() {
            return Ok(());
        }
        process.queue.extend(control.tick(now));
        self.control_send(node)
    }

    /// The next thing that the leader has decided, if its lease is valid still.
    fn control_send(&mut self, node: usize) -> Result<(), Violation> {
        loop {
            let at = self.now;
            let place = &mut self.nodes[node];
            let now = place.clock.now(at);
            let Some(process) = &mut place.process else { return Ok(()) };
            let Some(control) = &mut process.control else { return Ok(()) };
            let Some(write) = process.queue.pop_front() else { return Ok(()) };
            let is_lease = write.key == Key::Leader.to_string();
            let term = control.term(now);
            if !is_lease && term.is_none() {
                control.wrote(&write.key, WriteOutcome::Conflict, now);
                continue;
            }
            process.busy[Loop::Control as usize] = true;
            if let Some(term) = term.filter(|_| !is_lease) {
                self.checker.issued(term)?;
                if self.random.below(1000) < self.weather.caught {
                    let until = at + self.between(5_000, 60_000);
                    self.nodes[node].paused_until = until.max(self.nodes[node].paused_until);
                    self.note(|| {
                        format!("node {node} is stopped until {until} while it writes {}", write.key)
                    });
                }
            }
            self.send(node, Loop::Control, write);
            return Ok(());
        }
    }

    /// A write goes out; where the process is stopped at this very instant, once it goes on.
    fn send(&mut self, node: usize, side: Loop, write: Write) {
        let issued = self.now;
        let leaves = self.now.max(self.nodes[node].paused_until);
        let (there, back) = (self.latency(), self.latency());
        let generation = self.nodes[node].generation;
        let is_lost = self.chance(self.weather.lost);
        let is_answer_lost = self.chance(self.weather.lost);
        let key = write.key.clone();
        if is_lost {
            self.unknown(node, generation, side, key, leaves);
            return;
        }
        let answers = !is_answer_lost && there + back < TIMEOUT;
        if !answers {
            self.unknown(node, generation, side, key, leaves);
        }
        let answer_ms = answers.then_some(back);
        self.schedule(leaves + there, Incident::Arrive { node, generation, side, write, issued, answer_ms });
    }

    fn unknown(&mut self, node: usize, generation: u64, side: Loop, key: String, from: u64) {
        let outcome = WriteOutcome::Unknown;
        self.schedule(from + TIMEOUT, Incident::Outcome { node, generation, side, key, outcome });
    }

    fn arrive(
        &mut self,
        node: usize,
        generation: u64,
        side: Loop,
        write: Write,
        issued: u64,
        answer_ms: Option<u64>,
    ) -> Result<(), Violation> {
        if !self.is_reached(node) {
            if answer_ms.is_some() {
                self.unknown(node, generation, side, write.key, self.now);
            }
            return Ok(());
        }
        let outcome = self.kv.apply(&write, self.now);
        if let WriteOutcome::Written(revision) = outcome {
            self.note(|| format!("node {node} {} = revision {}{}", write.key, revision.0, told(&write)));
            self.checker.applied(&self.kv, &write, self.now, issued)?;
        }
        if let Some(back) = answer_ms {
            let key = write.key;
            self.schedule(self.now + back, Incident::Outcome { node, generation, side, key, outcome });
        }
        Ok(())
    }

    fn answered(
        &mut self,
        node: usize,
        side: Loop,
        key: &str,
        outcome: WriteOutcome,
    ) -> Result<(), Violation> {
        let (at, place) = (self.now, &mut self.nodes[node]);
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return Ok(()) };
        process.busy[side as usize] = false;
        match (side, &mut process.control) {
            (Loop::Member, _) => {
                process.member.wrote(key, outcome, now);
                self.check_twins(node)
            }
            (Loop::Control, Some(control)) => {
                control.wrote(key, outcome, now);
                self.control_send(node)
            }
            (Loop::Control, None) => Ok(()),
        }
    }

    /// Of one node, one incarnation is active at most.
    fn check_twins(&self, node: usize) -> Result<(), Violation> {
        let id = self.nodes[node].id;
        let active = self.nodes.iter().filter(|other| other.id == id && other.is_active(self.now)).count();
        if active > 1 {
            return broken("one incarnation", format!("node {id} is active {active} times"));
        }
        Ok(())
    }
}

/// What a write says, in few words.
fn told(write: &Write) -> String {
    let value =
        write.value.as_deref().and_then(|value| serde_json::from_slice::<serde_json::Value>(value).ok());
    let Some(value) = value else { return " (deleted)".to_string() };
    let fields = ["term", "version", "state", "incarnation", "node", "order"];
    let told = fields.iter().filter(|field| !value[**field].is_null() && !value[**field].is_object());
    told.map(|field| format!(" {field} {}", value[*field])).collect()
}
