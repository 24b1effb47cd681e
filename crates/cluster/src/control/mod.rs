//! The leader's work: numbers for nodes, burials, the shard map, who crawls what, who ranks, orders.
//!
//! Every candidate hears everything all the time; only the one whose lease is valid writes. What is decided is one
//! value each, with the leader's term in it, by compare-and-set on the revision that it was decided upon.
//!
//! INVARIANT: nothing is written under a lease that is not valid, and a version never falls: it follows the greatest
//! that any node has told.

mod agents;
mod planning;
mod table;

use crate::leader::Candidacy;
use crate::lease::Watched;
use crate::order::{OrderId, OrderRecord};
use crate::reads::Reads;
use crate::record::{
    ClusterRecord, NumberTable, RECORD_VERSION, RankTable, RecordError, ReplicaMark, StateRecord, read, write,
};
use crate::route::{Proposal, RouteRecord, UndertakeRecord};
use crate::snapshot::SnapshotPointer;
use crate::{
    Key, Monotonic, NodeId, NodeNo, NodeRecord, NodeState, Revision, Role, Rules, ShardId, ShardMap, Times,
    Write, WriteOutcome,
};
use farol_base::fingerprint::hash64;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;

/// Nodes that ever had a number; beyond, the table of numbers would not fit a key.
const NODES_MAX: usize = 4096;
/// Plans are made this often.
const PLAN_EVERY_MS: u64 = 500;

/// A log may forget everything up to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub shard: ShardId,
    pub upto: u64,
}

/// A candidate, and the leader's work where it leads.
#[derive(Debug)]
pub struct Control {
    candidacy: Candidacy,
    times: Times,
    rules: Rules,
    cluster: Option<ClusterRecord>,
    cluster_trouble: Option<String>,
    nodes: BTreeMap<NodeId, Watched<NodeRecord>>,
    burials: BTreeMap<NodeId, NodeRecord>,
    numbers: Table<NumberTable>,
    shards: Table<ShardMap>,
    route: Table<RouteRecord>,
    /// By the number of the dead.
    undertakers: BTreeMap<NodeNo, Table<UndertakeRecord>>,
    /// Agents that have backups.
    backups: BTreeSet<NodeNo>,
    proposal: Option<Proposal>,
    ranks: Table<RankTable>,
    state: Table<StateRecord>,
    snapshots: BTreeMap<ShardId, Watched<ReplicaMark>>,
    orders: BTreeMap<OrderId, PlacedOrder>,
    planning: planning::Memory,
    planned: Option<Monotonic>,
    state_written: Option<Monotonic>,
    trouble: Option<String>,
    reads: Reads,
    clock: Monotonic,
}

/// An order's key.
#[derive(Debug)]
struct PlacedOrder {
    /// What is wanted, or why it cannot be read.
    order: Result<OrderRecord, String>,
    revision: Revision,
    is_deleting: bool,
}

impl Control {
    /// `seed` must differ between processes.
    pub fn new(
        id: NodeId,
        incarnation: u64,
        times: Times,
        rules: Rules,
        seed: u64,
        now: Monotonic,
    ) -> Control {
        Control {
            candidacy: Candidacy::new(id, incarnation, times, rules, seed, now),
            times,
            rules,
            cluster: None,
            cluster_trouble: None,
            nodes: BTreeMap::new(),
            burials: BTreeMap::new(),
            numbers: Table::new(Key::Numbers),
            shards: Table::new(Key::Shards),
            route: Table::new(Key::Route),
            undertakers: BTreeMap::new(),
            backups: BTreeSet::new(),
            proposal: None,
            ranks: Table::new(Key::Ranks),
            state: Table::new(Key::State),
            snapshots: BTreeMap::new(),
            orders: BTreeMap::new(),
            planning: planning::Memory::default(),
            planned: None,
            state_written: None,
            trouble: None,
            reads: Reads::default(),
            clock: now,
        }
    }

    /// Its term, while its lease is valid. To be looked at again right before each write.
    pub fn term(&self, now: Monotonic) -> Option<u64> {
        self.candidacy.term(now)
    }

    /// What is wrong and what to do about it, a sentence.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// It leads no more; the next tick says so.
    pub fn resign(&mut self, _now: Monotonic) {
        self.candidacy.resign();
    }

    /// Keys to read now.
    pub fn wants(&mut self) -> Vec<String> {
        let mut wanted = Vec::new();
        if self.candidacy.is_in_doubt() {
            wanted.push(Key::Leader);
        }
        if self.candidacy.term(self.clock).is_some() {
            let tables = [
                (self.cluster.is_none(), Key::Cluster),
                (self.numbers.is_wanted(), self.numbers.key()),
                (self.shards.is_wanted(), self.shards.key()),
                (self.route.is_wanted(), self.route.key()),
                (self.ranks.is_wanted(), self.ranks.key()),
                (self.state.is_wanted(), self.state.key()),
            ];
            wanted.extend(tables.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, key)| key));
            let undertakers = self.undertakers.values();
            wanted.extend(undertakers.filter(|table| table.is_wanted()).map(|table| table.key()));
        }
        self.reads.due(wanted.iter().map(Key::to_string).collect(), self.clock)
    }

    /// A key's value, as it was read or as a watch told it; `None` where there is no such key.
    pub fn heard(&mut self, key: &str, value: Option<&[u8]>, revision: Revision, now: Monotonic) {
        let Some(parsed) = Key::parse(key) else { return };
        match parsed {
            Key::Leader => self.candidacy.heard(value, revision, now),
            Key::Cluster => match value.map(|value| read::<ClusterRecord>(key, value)) {
                Some(Ok(record)) => (self.cluster, self.cluster_trouble) = (Some(record), None),
                Some(Err(error)) => self.cluster_trouble = Some(error.to_string()),
                None => {}
            },
            Key::Node(id) => {
                let is_newer = self.nodes.get(&id).is_none_or(|known| revision > known.revision);
                if let Some(value) = value.filter(|_| is_newer)
                    && let Ok(record) = read::<NodeRecord>(key, value)
                {
                    self.nodes.insert(id, Watched { value: record, revision, since: now });
                }
            }
            Key::Numbers => hear(&mut self.numbers, key, value, revision, &mut self.trouble),
            Key::Shards => hear(&mut self.shards, key, value, revision, &mut self.trouble),
            Key::Route => hear(&mut self.route, key, value, revision, &mut self.trouble),
            Key::Undertake(no) => {
                let table = self.undertakers.entry(no).or_insert_with(|| Table::new(parsed));
                hear(table, key, value, revision, &mut self.trouble);
            }
            Key::Backup(no) => {
                if value.is_some() {
                    self.backups.insert(no);
                }
            }
            // The planner's own; see `Control::propose`.
            Key::Plan | Key::PlanWish => {}
            Key::Ranks => hear(&mut self.ranks, key, value, revision, &mut self.trouble),
            Key::State => hear(&mut self.state, key, value, revision, &mut self.trouble),
            Key::Snapshot(shard) => {
                let is_newer = self.snapshots.get(&shard).is_none_or(|known| revision > known.revision);
                if let Some(value) = value.filter(|_| is_newer)
                    && let Ok(pointer) = read::<SnapshotPointer>(key, value)
                {
                    self.snapshots.insert(shard, Watched { value: pointer.mark, revision, since: now });
                }
            }
            Key::Order(id) => match value {
                Some(value) => {
                    let order = read::<OrderRecord>(key, value).map_err(|error| error.to_string());
                    self.orders.entry(id).or_insert(PlacedOrder { order, revision, is_deleting: false });
                }
                None => drop(self.orders.remove(&id)),
            },
            // Written by the leader's process, and fenced by the term in them.
            Key::Ring | Key::Hot | Key::Caches => {}
        }
        let terms = [
            self.numbers.get().map(|table| table.term),
            self.shards.get().map(|map| map.term),
            self.route.get().map(|route| route.term),
            self.ranks.get().map(|table| table.term),
            self.state.get().map(|state| state.term),
        ];
        if self.candidacy.term(now).is_some_and(|term| terms.into_iter().flatten().any(|other| other > term))
        {
            self.candidacy.depose();
        }
    }

    /// What to write now. Before each, [`Control::term`] is to be looked at again; the lease itself needs no lease.
    pub fn tick(&mut self, now: Monotonic) -> Vec<Write> {
        self.clock = now;
        let mut writes: Vec<Write> = self.candidacy.tick(now).into_iter().collect();
        let Some(term) = self.candidacy.term(now) else {
            self.planning.forget();
            self.proposal = None;
            self.trouble = None;
            return writes;
        };
        let is_time = self.planned.is_none_or(|planned| now.since(planned) >= PLAN_EVERY_MS);
        if !is_time {
            return writes;
        }
        self.planned = Some(now);
        self.trouble = self.cluster_trouble.clone();
        writes.extend(self.give_numbers(term));
        writes.extend(self.bury(now));
        // Nothing is planned upon a node whose burial is under way.
        if self.candidacy.is_settled(now) && self.burials.is_empty() {
            writes.extend(self.plan_shards(term, now));
        }
        writes.extend(self.plan_route(term, now));
        writes.extend(self.plan_undertakers(term, now));
        writes.extend(self.plan_ranks(term));
        writes.extend(self.grow_state(term, now));
        writes.extend(self.delete_orders());
        writes
    }

    /// What came of a write.
    pub fn wrote(&mut self, key: &str, outcome: WriteOutcome, now: Monotonic) {
        match Key::parse(key) {
            Some(Key::Leader) => self.candidacy.wrote(outcome, now),
            Some(Key::Node(id)) => {
                let buried = self.burials.remove(&id);
                if let (Some(record), WriteOutcome::Written(revision)) = (buried, outcome) {
                    self.nodes.insert(id, Watched { value: record, revision, since: now });
                }
            }
            Some(Key::Numbers) => self.numbers.wrote(outcome),
            Some(Key::Shards) => self.shards.wrote(outcome),
            Some(Key::Route) => self.route.wrote(outcome),
            Some(Key::Undertake(no)) => {
                if let Some(table) = self.undertakers.get_mut(&no) {
                    table.wrote(outcome);
                }
            }
            Some(Key::Ranks) => self.ranks.wrote(outcome),
            Some(Key::State) => self.state.wrote(outcome),
            Some(Key::Order(id)) => {
                if matches!(outcome, WriteOutcome::Written(_)) {
                    self.orders.remove(&id);
                } else if let Some(order) = self.orders.get_mut(&id) {
                    order.is_deleting = false;
                }
            }
            Some(
                Key::Cluster
                | Key::Snapshot(_)
                | Key::Backup(_)
                | Key::Plan
                | Key::PlanWish
                | Key::Ring
                | Key::Hot
                | Key::Caches,
            )
            | None => {}
        }
    }

    /// Which logs may forget what: what the newest snapshot holds, and every replica that serves has.
    pub fn trims(&self, now: Monotonic) -> Vec<Trim> {
        let (Some(_), Some(map)) = (self.candidacy.term(now), self.shards.get()) else { return Vec::new() };
        let upto = |shard: &crate::ShardEntry| {
            let snapshot = &self.snapshots.get(&shard.id)?.value;
            let mut least = snapshot.seq;
            let mut serves = false;
            for node in shard.asked() {
                let node = self.nodes.get(&node)?;
                if node.value.state.is_gone() {
                    continue;
                }
                let mark = &node.value.report.replicas.get(&shard.id)?.mark;
                if mark.stream != snapshot.stream {
                    return None;
                }
                (least, serves) = (least.min(mark.seq), true);
            }
            (serves && least > 0).then_some(Trim { shard: shard.id, upto: least })
        };
        map.shards.iter().filter_map(upto).collect()
    }

    /// How long a node has been silent while this one could have heard it.
    fn silence(&self, node: &Watched<NodeRecord>, now: Monotonic) -> u64 {
        let since = match (self.rules.silence_anew, self.candidacy.since()) {
            (true, Some(leads)) => node.since.max(leads),
            (true, None) => now,
            (false, _) => node.since,
        };
        now.since(since)
    }

    /// Gives numbers to nodes that have none.
    fn give_numbers(&mut self, term: u64) -> Option<Write> {
        if !self.numbers.is_free() {
            return None;
        }
        let known = self.numbers.get();
        let mut numbers = known.map(|table| table.numbers.clone()).unwrap_or_default();
        let mut next = known.map_or(1, |table| table.next);
        let before = numbers.len();
        for (id, node) in self.nodes.iter().filter(|(_, node)| !node.value.state.is_gone()) {
            if numbers.contains_key(id) {
                continue;
            }
            if numbers.len() >= NODES_MAX {
                let name = &node.value.name;
                self.trouble = Some(format!(
                    "node {name} gets no number: {NODES_MAX} nodes have had one; start nodes with their old folders"
                ));
                break;
            }
            // A node that comes with a number from before has had it here: it is not given again either way.
            numbers.insert(*id, node.value.no.unwrap_or(NodeNo(next)));
            next = next.max(node.value.no.map_or(0, |no| no.0)).max(next) + 1;
        }
        if numbers.len() == before {
            return None;
        }
        let told = self.nodes.values().map(|node| node.value.seen.numbers).max();
        let version = known.map(|table| table.version).max(told).unwrap_or(0) + 1;
        Some(self.numbers.replace(NumberTable { v: RECORD_VERSION, version, term, next, numbers }))
    }

    /// Buries who has been silent for too long.
    fn bury(&mut self, now: Monotonic) -> Vec<Write> {
        let is_silent = |node: &Watched<NodeRecord>| {
            !node.value.state.is_gone()
                && self.silence(node, now) >= self.times.dead_ms
                && self.rules.burial_first
        };
        let silent = self.nodes.iter().filter(|(id, node)| is_silent(node) && !self.burials.contains_key(id));
        let graves: Vec<(NodeId, NodeRecord, Revision)> = silent
            .map(|(id, node)| {
                let record = NodeRecord { state: NodeState::Dead, ..node.value.clone() };
                (*id, record, node.revision)
            })
            .collect();
        let mut writes = Vec::new();
        for (id, record, expected) in graves {
            let value = Some(write(&record));
            self.burials.insert(id, record);
            writes.push(Write { key: Key::Node(id).to_string(), value, expected });
        }
        writes
    }

    /// Names the one node that ranks, and the newest ranks.
    fn plan_ranks(&mut self, term: u64) -> Option<Write> {
        if !self.ranks.is_free() {
            return None;
        }
        let known = self.ranks.get();
        let can_rank = |id: &NodeId| {
            let node = self.nodes.get(id).map(|node| &node.value);
            node.is_some_and(|node| node.state == NodeState::Up && node.roles.contains(&Role::Rank))
        };
        let is_there = |id: &NodeId| self.nodes.get(id).is_none_or(|node| !node.value.state.is_gone());
        let least = || self.nodes.keys().filter(|id| can_rank(id)).min_by_key(|id| self.nodes[id].value.no);
        let present = known.and_then(|table| table.node);
        let node = match present.filter(is_there) {
            // Whoever drains hands over once there is somebody else.
            Some(node) if can_rank(&node) => Some(node),
            Some(node) => least().copied().or(Some(node)),
            None => least().copied(),
        };
        let told = self.nodes.values().filter_map(|node| node.value.report.ranks.as_ref());
        let newest =
            told.chain(known.and_then(|table| table.ranks.as_ref())).max_by_key(|ranks| ranks.version);
        let ranks = newest.cloned();
        if known.map_or((None, None), |table| (table.node, table.ranks.clone())) == (node, ranks.clone()) {
            return None;
        }
        let seen = self.nodes.values().map(|node| node.value.seen.ranks).max();
        let version = known.map(|table| table.version).max(seen).unwrap_or(0) + 1;
        Some(self.ranks.replace(RankTable { v: RECORD_VERSION, version, term, node, ranks }))
    }

    /// Tells caches that answers may have changed.
    fn grow_state(&mut self, term: u64, now: Monotonic) -> Option<Write> {
        let is_time = self.state_written.is_none_or(|at| now.since(at) >= self.times.renew_ms);
        if !self.state.is_free() || !is_time {
            return None;
        }
        let map = self.shards.get()?;
        let mut marks = Vec::new();
        for shard in map.read() {
            let reports =
                shard.asked().filter_map(|id| self.nodes.get(&id)?.value.report.replicas.get(&shard.id));
            // One that lags behind the others answers otherwise, too, once it has caught up.
            let taken: Vec<(u64, &String)> =
                reports.map(|report| (report.mark.seq, &report.mark.stream)).collect();
            // A replica that takes up new ranks later answers otherwise from then on.
            let ranked_by: Vec<u64> =
                shard.asked().filter_map(|id| Some(self.nodes.get(&id)?.value.report.ranked_by)).collect();
            marks.push((shard.id, taken, ranked_by));
        }
        let ranks = self.ranks.get().and_then(|table| table.ranks.as_ref()).map(|ranks| ranks.version);
        let fingerprint = hash64(&write(&(marks, ranks)));
        let known = self.state.get();
        if known.is_some_and(|state| state.fingerprint == fingerprint) {
            return None;
        }
        let told = self.nodes.values().map(|node| node.value.seen.state).max();
        let version = known.map(|state| state.version).max(told).unwrap_or(0) + 1;
        self.state_written = Some(now);
        Some(self.state.replace(StateRecord { v: RECORD_VERSION, version, term, fingerprint }))
    }

    /// Deletes orders that the map says were taken.
    fn delete_orders(&mut self) -> Vec<Write> {
        let Some(map) = self.shards.get() else { return Vec::new() };
        let taken =
            self.orders.iter_mut().filter(|(id, order)| !order.is_deleting && map.taken(**id).is_some());
        taken
            .map(|(id, order)| {
                order.is_deleting = true;
                Write { key: Key::Order(*id).to_string(), value: None, expected: order.revision }
            })
            .collect()
    }
}

fn hear<T: Clone + serde::Serialize + DeserializeOwned>(
    table: &mut Table<T>,
    key: &str,
    value: Option<&[u8]>,
    revision: Revision,
    trouble: &mut Option<String>,
) {
    match value.map(|value| read::<T>(key, value)).transpose() {
        Ok(value) => table.heard(value, revision),
        // Never overwritten: whoever can read it must lead.
        Err(error @ (RecordError::Newer { .. } | RecordError::Damaged { .. })) => {
            *trouble = Some(error.to_string());
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
