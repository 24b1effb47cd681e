//! The world: agents with their clocks, the tables, the logs, and the order in which things happen.

use super::checkers::{HoldChecker, newest_route};
use super::crawler::{AgentMessage, CrawlDisk, HoldCrawler};
use super::web::SmallWeb;
use super::{HoldAblation, chaos};
use crate::cluster::checkers::Violation;
use crate::cluster::kv::Kv;
use crate::cluster::node::{Clock, Loop};
use farol_base::random::{Random, Seeded, mix};
use farol_cluster::record::{NodeRecord, read};
use farol_cluster::{
    Control, Key, Member, MemberDisk, NodeId, NodeNo, NodeReport, Phase, Revision, Role, Rules, Times, Write,
    WriteOutcome,
};
use farol_partition::RoutingTable;
use farol_partition::hold::Ticket;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A client of the tables gives up after this.
const TIMEOUT: u64 = 5_000;
/// Every loop looks around this often, by its own clock.
const TICK: u64 = 400;
/// Events that a failure prints.
const LOG_MAX: usize = 200;

/// Something that happens at an instant.
#[derive(Debug)]
pub enum HoldEvent {
    Tick {
        node: usize,
        generation: u64,
    },
    Arrive {
        node: usize,
        generation: u64,
        side: Loop,
        write: Write,
        answer_ms: Option<u64>,
    },
    Outcome {
        node: usize,
        generation: u64,
        side: Loop,
        key: String,
        outcome: WriteOutcome,
    },
    /// A server has answered.
    Answer {
        node: usize,
        generation: u64,
        ticket: Ticket,
        request: u64,
    },
    Start {
        node: usize,
    },
    /// A frozen process goes on.
    Wake {
        node: usize,
        generation: u64,
    },
    Trouble,
}

/// A running process.
#[derive(Debug)]
pub struct HoldProcess {
    pub member: Member,
    control: Control,
    heard: [u64; 2],
    busy: [bool; 2],
    queue: VecDeque<Write>,
    pub crawler: Option<HoldCrawler>,
    /// The checker's number of each request under way.
    pub(super) open: BTreeMap<Ticket, u64>,
}

/// A folder on a machine, and what runs on it.
#[derive(Debug)]
pub struct HoldNode {
    pub id: NodeId,
    pub clock: Clock,
    pub member: MemberDisk,
    pub disk: CrawlDisk,
    pub process: Option<HoldProcess>,
    pub generation: u64,
    pub paused_until: u64,
    pub cut_until: u64,
    pub is_over: bool,
    /// It is to leave.
    pub drains: bool,
    pub(super) backed_up: u64,
}

/// Everything there is.
pub struct HoldWorld {
    pub random: Seeded,
    pub now: u64,
    pub nodes: Vec<HoldNode>,
    pub kv: Kv,
    pub web: SmallWeb,
    pub(super) logs: BTreeMap<NodeNo, Vec<AgentMessage>>,
    /// Files of tables by name.
    pub files: BTreeMap<String, RoutingTable>,
    /// Backups by the agent's number.
    pub backups: BTreeMap<NodeNo, CrawlDisk>,
    /// Of a thousand requests to the tables, so many are lost; as many answers and appends.
    pub lost: u64,
    pub away_until: u64,
    pub slow_until: u64,
    pub checker: HoldChecker,
    pub ablation: Option<HoldAblation>,
    pub log: VecDeque<String>,
    pub burials: u64,
    pub refetched: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    pending: BTreeMap<u64, HoldEvent>,
    next: u64,
}

impl HoldWorld {
    pub fn new(seed: u64, ablation: Option<HoldAblation>) -> HoldWorld {
        let mut random = Seeded::new(mix(seed ^ 0x401D_5EED));
        let web = SmallWeb::new(&mut random);
        HoldWorld {
            random,
            now: 0,
            nodes: Vec::new(),
            kv: Kv::new(ablation == Some(HoldAblation::Cas)),
            web,
            logs: BTreeMap::new(),
            files: BTreeMap::new(),
            backups: BTreeMap::new(),
            lost: 0,
            away_until: 0,
            slow_until: 0,
            checker: HoldChecker::default(),
            ablation,
            log: VecDeque::new(),
            burials: 0,
            refetched: 0,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            next: 0,
        }
    }

    pub fn schedule(&mut self, at: u64, event: HoldEvent) {
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

    fn happen(&mut self, event: HoldEvent) -> Result<(), Violation> {
        // What reaches a frozen process waits until it goes on.
        if let HoldEvent::Tick { node, generation }
        | HoldEvent::Wake { node, generation }
        | HoldEvent::Outcome { node, generation, .. }
        | HoldEvent::Answer { node, generation, .. } = &event
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
            HoldEvent::Tick { node, generation } => {
                let rate = self.nodes[node].clock.rate;
                self.schedule(self.now + TICK * 1_000_000 / rate, HoldEvent::Tick { node, generation });
                self.turn(node)
            }
            HoldEvent::Wake { node, .. } => self.close_overdue(node),
            HoldEvent::Arrive { node, generation, side, write, answer_ms } => {
                self.arrive(node, generation, side, write, answer_ms)
            }
            HoldEvent::Outcome { node, side, key, outcome, .. } => self.answered(node, side, &key, outcome),
            HoldEvent::Answer { node, ticket, request, .. } => self.fetched(node, ticket, request),
            HoldEvent::Start { node } => {
                self.start(node);
                Ok(())
            }
            HoldEvent::Trouble => {
                chaos::trouble(self);
                Ok(())
            }
        }
    }

    /// Starts a process on a folder, where none runs.
    pub fn start(&mut self, node: usize) {
        let seed = self.random.next_u64();
        let mut rules = Rules::default();
        let mut times = Times::default();
        match self.ablation {
            Some(HoldAblation::Settle) => rules.released_first = false,
            Some(HoldAblation::Burial) => rules.burial_first = false,
            Some(HoldAblation::Dead) => times.dead_ms = times.hold_ms * 6 / 10,
            Some(HoldAblation::Unheard) => rules.unheard_kept = false,
            Some(HoldAblation::Waited) => rules.dead_waited = false,
            Some(HoldAblation::Leader) => rules.lease_checked = false,
            _ => {}
        }
        let at = self.now;
        let place = &mut self.nodes[node];
        if place.process.is_some() || place.is_over {
            return;
        }
        place.generation += 1;
        let now = place.clock.now(at);
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9000 + node as u16));
        let mut profile = NodeRecord::new(place.id, &format!("n{node}"), address);
        profile.roles = [Role::Crawl, Role::Control].into();
        profile.machine = node as u64;
        profile.folder = node as u64;
        let incarnation = place.member.incarnation + 1;
        let member = Member::start(profile, place.member.clone(), times, rules, seed, now);
        let control = Control::new(place.id, incarnation, times, rules, !seed, now);
        place.process = Some(HoldProcess {
            member,
            control,
            heard: [0; 2],
            busy: [false; 2],
            queue: VecDeque::new(),
            crawler: None,
            open: BTreeMap::new(),
        });
        let generation = place.generation;
        self.note(|| format!("node {node} starts"));
        self.schedule(at + 1, HoldEvent::Tick { node, generation });
    }

    /// Ends a process as `kill -9` does.
    pub fn kill(&mut self, node: usize) {
        if self.nodes[node].process.take().is_some() {
            self.checker.ended(node);
            self.note(|| format!("node {node} is killed"));
        }
    }

    /// Freezes a process.
    pub fn freeze(&mut self, node: usize, until: u64) {
        let place = &mut self.nodes[node];
        place.paused_until = place.paused_until.max(until);
        let (at, generation) = (place.paused_until, place.generation);
        self.schedule(at, HoldEvent::Wake { node, generation });
        self.note(|| format!("node {node} is frozen until {at}"));
    }

    pub(super) fn is_reached(&self, node: usize) -> bool {
        self.now >= self.away_until && self.now >= self.nodes[node].cut_until
    }

    fn latency(&mut self) -> u64 {
        let is_slow = self.now < self.slow_until;
        if is_slow && self.chance(500) { self.between(50, 8_000) } else { self.between(1, 40) }
    }

    /// One look around of everything that runs on a node.
    fn turn(&mut self, node: usize) -> Result<(), Violation> {
        if self.is_reached(node) {
            self.listen(node);
        }
        self.hold(node)?;
        self.report(node);
        self.member_turn(node);
        self.control_turn(node);
        Ok(())
    }

    /// Both threads hear what has changed, and read what they must.
    fn listen(&mut self, node: usize) {
        let lag = if self.chance(100) { self.between(0, 6_000) } else { 0 };
        let as_of = self.now.saturating_sub(lag);
        let now = self.nodes[node].clock.now(self.now);
        for side in [Loop::Member, Loop::Control] {
            let Some(process) = &mut self.nodes[node].process else { return };
            if process.busy[side as usize] || (side == Loop::Control && !process.queue.is_empty()) {
                continue;
            }
            let (news, upto) = self.kv.news(process.heard[side as usize], as_of);
            process.heard[side as usize] = upto;
            for (key, version) in news {
                let (value, revision) = (version.value.as_deref(), Revision(version.revision));
                match side {
                    Loop::Member => process.member.heard(key, value, revision, now),
                    Loop::Control => process.control.heard(key, value, revision, now),
                }
            }
            let wanted = match side {
                Loop::Member => process.member.wants(),
                Loop::Control => process.control.wants(),
            };
            for key in wanted {
                if self.random.below(1000) < self.lost {
                    continue;
                }
                let found = self.kv.get(&key, as_of);
                let revision = found.map_or(Revision::NONE, |version| Revision(version.revision));
                let value = found.and_then(|version| version.value.as_deref());
                match side {
                    Loop::Member => process.member.heard(&key, value, revision, now),
                    Loop::Control => process.control.heard(&key, value, revision, now),
                }
            }
        }
    }

    fn report(&mut self, node: usize) {
        let place = &mut self.nodes[node];
        let Some(process) = &mut place.process else { return };
        let is_done = process.crawler.as_ref().is_none_or(|crawler| crawler.holder.is_empty_handed());
        let released = process.crawler.as_ref().map(|crawler| crawler.holder.released()).unwrap_or_default();
        let mut report = NodeReport { released, ..NodeReport::default() };
        report.busy = !(is_done && place.disk.hosts.is_empty() && place.disk.is_all_told());
        report.expects.insert("parcels".to_string(), place.disk.numbers.all().clone());
        report.agent.pages = place.disk.hosts.values().map(|store| store.pages.len() as u64).sum();
        process.member.report(report);
    }

    fn member_turn(&mut self, node: usize) {
        let at = self.now;
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return };
        if process.busy[Loop::Member as usize] {
            return;
        }
        if *process.member.phase() == Phase::Left {
            place.is_over = true;
            place.process = None;
            self.checker.ended(node);
            self.note(|| format!("node {node} has left"));
            return;
        }
        if place.drains {
            process.member.drain(now);
        }
        if let Some(write) = process.member.tick(now).pop() {
            place.member = process.member.disk().clone();
            process.busy[Loop::Member as usize] = true;
            self.send(node, Loop::Member, write);
        }
    }

    fn control_turn(&mut self, node: usize) {
        let at = self.now;
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return };
        if process.busy[Loop::Control as usize] || !process.queue.is_empty() {
            return;
        }
        process.queue.extend(process.control.tick(now));
        self.control_send(node);
    }

    /// The next thing that the leader has decided, if its lease is valid still.
    fn control_send(&mut self, node: usize) {
        let place = &mut self.nodes[node];
        let now = place.clock.now(self.now);
        let Some(process) = &mut place.process else { return };
        while let Some(write) = process.queue.pop_front() {
            let is_lease = write.key == Key::Leader.to_string();
            if !is_lease && process.control.term(now).is_none() {
                process.control.wrote(&write.key, WriteOutcome::Conflict, now);
                continue;
            }
            process.busy[Loop::Control as usize] = true;
            self.send(node, Loop::Control, write);
            return;
        }
    }

    fn send(&mut self, node: usize, side: Loop, write: Write) {
        // A process may be frozen between looking at its lease and writing.
        if side == Loop::Control && self.lost > 0 && self.chance(4) {
            let until = self.now + self.between(5_000, 60_000);
            self.freeze(node, until);
        }
        let leaves = self.now.max(self.nodes[node].paused_until);
        let (there, back) = (self.latency(), self.latency());
        let generation = self.nodes[node].generation;
        let (is_lost, is_answer_lost) = (self.chance(self.lost), self.chance(self.lost));
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
        self.schedule(leaves + there, HoldEvent::Arrive { node, generation, side, write, answer_ms });
    }

    fn unknown(&mut self, node: usize, generation: u64, side: Loop, key: String, from: u64) {
        let outcome = WriteOutcome::Unknown;
        self.schedule(from + TIMEOUT, HoldEvent::Outcome { node, generation, side, key, outcome });
    }

    fn arrive(
        &mut self,
        node: usize,
        generation: u64,
        side: Loop,
        write: Write,
        answer_ms: Option<u64>,
    ) -> Result<(), Violation> {
        if !self.is_reached(node) {
            if answer_ms.is_some() {
                self.unknown(node, generation, side, write.key, self.now);
            }
            return Ok(());
        }
        let outcome = self.kv.apply(&write, self.now);
        if let WriteOutcome::Written(_) = outcome {
            self.checker.applied(&write)?;
            self.tell_write(node, &write);
        }
        if let Some(back) = answer_ms {
            let key = write.key;
            self.schedule(self.now + back, HoldEvent::Outcome { node, generation, side, key, outcome });
        }
        Ok(())
    }

    fn tell_write(&mut self, node: usize, write: &Write) {
        let value = write.value.as_deref().unwrap_or_default();
        match Key::parse(&write.key) {
            Some(Key::Route) => {
                let Some(route) = newest_route(&self.kv) else { return };
                let (epoch, settled, why) = (route.epoch(), route.settled, route.why);
                self.note(|| format!("node {node} writes epoch {epoch} settled {settled}: {why}"));
            }
            Some(Key::Node(id)) => {
                let Ok(record) = read::<NodeRecord>(&write.key, value) else { return };
                if record.id != self.nodes[node].id || record.state.is_gone() {
                    self.burials += u64::from(record.id == id && record.id != self.nodes[node].id);
                    self.note(|| format!("node {node} writes that {} is {:?}", record.name, record.state));
                }
            }
            Some(Key::Undertake(no)) => self.note(|| format!("node {node} names an undertaker for {no}")),
            _ => {}
        }
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
        match side {
            Loop::Member => process.member.wrote(key, outcome, now),
            Loop::Control => {
                process.control.wrote(key, outcome, now);
                self.control_send(node);
            }
        }
        Ok(())
    }
}

/// Who believes what about a host.
pub fn describe(nodes: &[HoldNode], host: usize) -> String {
    let mut text = format!("host {host}:");
    for (i, node) in nodes.iter().enumerate() {
        let Some(crawler) = node.process.as_ref().and_then(|process| process.crawler.as_ref()) else {
            continue;
        };
        let holder = &crawler.holder;
        let name = crawler.name(host);
        text += &format!(
            "\n  node {i} {:?} epoch {} released {} {:?} route {:?} store {:?}",
            holder.me(),
            holder.epoch(),
            holder.released(),
            holder.standing(name),
            holder.route(name),
            node.disk.hosts.get(&host).map(|store| (store.pages.len(), store.address)),
        );
    }
    text
}

impl HoldNode {
    pub fn new(id: NodeId, clock: Clock) -> HoldNode {
        HoldNode {
            id,
            clock,
            member: MemberDisk::default(),
            disk: CrawlDisk::default(),
            process: None,
            generation: 0,
            paused_until: 0,
            cut_until: 0,
            is_over: false,
            drains: false,
            backed_up: 0,
        }
    }

    pub(super) fn is_active(&self, at: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.member.is_active(self.clock.now(at)))
    }

    /// Where it stands, for whoever looks for the cause of a failure.
    pub fn describe(&self, node: usize) -> String {
        let process = self.process.as_ref();
        let phase = process.map(|process| process.member.phase());
        let crawler = process.and_then(|process| process.crawler.as_ref());
        let holder = crawler.map(|crawler| &crawler.holder);
        let me = holder.map(|holder| (holder.me(), holder.epoch(), holder.released()));
        let hands = holder.map(|holder| holder.is_empty_handed());
        let (over, drains, told) = (self.is_over, self.drains, self.disk.is_all_told());
        let hosts: Vec<usize> = self.disk.hosts.keys().copied().collect();
        format!(
            "node {node} {phase:?} {me:?} over {over} drains {drains} empty-handed {hands:?} told {told} hosts {hosts:?}"
        )
    }

    /// Whether it leads.
    pub fn control(&mut self, at: u64) -> Option<&mut Control> {
        let now = self.clock.now(at);
        let process = self.process.as_mut()?;
        process.control.term(now)?;
        Some(&mut process.control)
    }
}
