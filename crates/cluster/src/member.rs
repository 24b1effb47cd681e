//! A node's membership: takes its record, renews it, and knows when it may act.
//!
//! A record that another machine holds is waited out, because a copied folder has the same name. Whoever meets another
//! incarnation of itself, or its own burial, stops at once and begins anew.
//!
//! INVARIANT: at most one incarnation of a node is active at a time, whatever gets lost, and no version that was told
//! to the cluster falls.

use crate::lease::{Heard, Holder, Watched};
use crate::reads::Reads;
use crate::record::{ClusterRecord, NumberTable, RankTable, Seen, StateRecord, read, write};
use crate::route::RouteRecord;
use crate::{
    Key, Monotonic, NodeId, NodeNo, NodeRecord, NodeReport, NodeState, Revision, Rules, ShardMap, Times,
    Write, WriteOutcome, version,
};
use farol_base::random::{Random, Seeded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a member must find again after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberDisk {
    pub incarnation: u64,
    /// The cluster it belongs to, once it has seen one.
    pub cluster: Option<String>,
    pub no: Option<NodeNo>,
    pub seen: Seen,
}

/// Where a member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It reads its record, or takes it.
    Starting,
    /// Another machine holds its record.
    Waiting,
    /// It waits for its number.
    Joining,
    Up,
    /// It gives its work away.
    Draining,
    Left,
    /// It cannot be a member of this cluster; a sentence on why.
    Refused(String),
}

/// A node's membership.
#[derive(Debug)]
pub struct Member {
    profile: NodeRecord,
    disk: MemberDisk,
    times: Times,
    rules: Rules,
    random: Seeded,
    holder: Holder,
    /// The record as the tables have it.
    own: Option<Watched<NodeRecord>>,
    /// The write under way.
    in_flight: Option<(Revision, NodeRecord)>,
    phase: Phase,
    is_to_drain: bool,
    /// The cluster's record was seen.
    is_in_cluster: bool,
    peers: BTreeMap<NodeId, Peer>,
    shards: Option<ShardMap>,
    route: Option<(RouteRecord, Revision)>,
    ranks: Option<RankTable>,
    report: NodeReport,
    trouble: Option<String>,
    reads: Reads,
    clock: Monotonic,
}

/// What a newcomer must know of another node.
#[derive(Debug)]
struct Peer {
    name: String,
    program: String,
    wire: (u16, u16),
    is_gone: bool,
}

impl Member {
    /// A node that has just started with its folder locked. `seed` must differ between processes.
    pub fn start(
        profile: NodeRecord,
        disk: MemberDisk,
        times: Times,
        rules: Rules,
        seed: u64,
        now: Monotonic,
    ) -> Member {
        Member {
            profile,
            disk,
            times,
            rules,
            random: Seeded::new(seed),
            holder: Holder::new(times, now),
            own: None,
            in_flight: None,
            phase: Phase::Starting,
            is_to_drain: false,
            is_in_cluster: false,
            peers: BTreeMap::new(),
            shards: None,
            route: None,
            ranks: None,
            report: NodeReport::default(),
            trouble: None,
            reads: Reads::default(),
            clock: now,
        }
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Its number, once the leader has given it one.
    pub fn no(&self) -> Option<NodeNo> {
        self.disk.no
    }

    /// Whether it may act for the cluster.
    pub fn is_active(&self, now: Monotonic) -> bool {
        matches!(self.phase, Phase::Up | Phase::Draining) && self.holder.is_valid(now)
    }

    /// Until when it may act for the cluster, as far as is known; `None` where it may not.
    pub fn active_until(&self) -> Option<Monotonic> {
        matches!(self.phase, Phase::Up | Phase::Draining).then(|| self.holder.valid_until()).flatten()
    }

    /// The incarnation that it is, or was last.
    pub fn incarnation(&self) -> u64 {
        self.disk.incarnation
    }

    /// Who crawls what, as it has seen it last.
    pub fn route(&self) -> Option<&RouteRecord> {
        self.route.as_ref().map(|(route, _)| route)
    }

    /// The newest shard map it has seen.
    pub fn shards(&self) -> Option<&ShardMap> {
        self.shards.as_ref()
    }

    pub fn ranks(&self) -> Option<&RankTable> {
        self.ranks.as_ref()
    }

    /// What is wrong and what to do about it, a sentence.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What must be on disk before a write goes out.
    pub fn disk(&self) -> &MemberDisk {
        &self.disk
    }

    /// What it tells of itself with the next renewal.
    pub fn report(&mut self, report: NodeReport) {
        if report.released > self.report.released {
            // Somebody may wait for it.
            self.holder.hurry();
        }
        self.report = report;
    }

    /// It gives its work away, and leaves once others have it.
    pub fn drain(&mut self, _now: Monotonic) {
        self.is_to_drain = true;
        self.holder.hurry();
    }

    /// Keys to read now.
    pub fn wants(&mut self) -> Vec<String> {
        let mut wanted = Vec::new();
        if self.holder.is_in_doubt() {
            wanted.push(self.key());
        }
        if !self.is_in_cluster {
            wanted.push(Key::Cluster.to_string());
        }
        self.reads.due(wanted, self.clock)
    }

    /// A key's value, as it was read or as a watch told it; `None` where there is no such key.
    pub fn heard(&mut self, key: &str, value: Option<&[u8]>, revision: Revision, now: Monotonic) {
        match (Key::parse(key), value) {
            (Some(Key::Node(id)), value) if id == self.profile.id => self.hear_own(key, value, revision, now),
            (Some(Key::Node(id)), Some(value)) => {
                let Ok(record) = read::<NodeRecord>(key, value) else { return };
                let is_gone = record.state.is_gone();
                let peer = Peer { name: record.name, program: record.program, wire: record.wire, is_gone };
                self.peers.insert(id, peer);
            }
            (Some(Key::Cluster), Some(value)) => match read::<ClusterRecord>(key, value) {
                Ok(record) => self.meet_cluster(&record),
                Err(error) => self.trouble = Some(error.to_string()),
            },
            (Some(Key::Numbers), Some(value)) => {
                let Ok(table) = read::<NumberTable>(key, value) else { return };
                if table.version >= self.disk.seen.numbers {
                    self.disk.seen.numbers = table.version;
                    self.disk.no = table.numbers.get(&self.profile.id).copied().or(self.disk.no);
                }
                self.disk.seen.term = self.disk.seen.term.max(table.term);
            }
            (Some(Key::Shards), Some(value)) => {
                let Ok(map) = read::<ShardMap>(key, value) else { return };
                let known = self.shards.as_ref().map(|map| map.version);
                if map.version >= self.disk.seen.shards && known.is_none_or(|known| map.version > known) {
                    self.disk.seen.shards = map.version;
                    self.disk.seen.term = self.disk.seen.term.max(map.term);
                    self.shards = Some(map);
                }
            }
            (Some(Key::Route), Some(value)) => {
                let Ok(route) = read::<RouteRecord>(key, value) else { return };
                let is_news = self.route.as_ref().is_none_or(|(_, known)| revision > *known);
                if is_news && route.epoch() >= self.disk.seen.epoch {
                    self.disk.seen.epoch = route.epoch();
                    self.disk.seen.term = self.disk.seen.term.max(route.term);
                    self.route = Some((route, revision));
                }
            }
            (Some(Key::Ranks), Some(value)) => {
                let Ok(table) = read::<RankTable>(key, value) else { return };
                let known = self.ranks.as_ref().map(|table| table.version);
                if table.version >= self.disk.seen.ranks && known.is_none_or(|known| table.version > known) {
                    self.disk.seen.ranks = table.version;
                    self.ranks = Some(table);
                }
            }
            (Some(Key::State), Some(value)) => {
                let Ok(state) = read::<StateRecord>(key, value) else { return };
                self.disk.seen.state = self.disk.seen.state.max(state.version);
            }
            _ => {}
        }
    }

    /// What to write now; saved first is [`Member::disk`].
    pub fn tick(&mut self, now: Monotonic) -> Vec<Write> {
        self.clock = now;
        match self.phase {
            Phase::Refused(_) | Phase::Left => Vec::new(),
            Phase::Starting | Phase::Waiting => self.take_record(now).into_iter().collect(),
            Phase::Joining | Phase::Up | Phase::Draining => self.renew(now).into_iter().collect(),
        }
    }

    /// What came of a write.
    pub fn wrote(&mut self, key: &str, outcome: WriteOutcome, now: Monotonic) {
        if key != self.key() {
            return;
        }
        let Some((expected, record)) = self.in_flight.take() else { return };
        self.holder.wrote(expected, outcome);
        if let WriteOutcome::Written(revision) = outcome
            && revision == self.holder.revision()
        {
            self.hold(record, revision, now);
        }
    }

    fn key(&self) -> String {
        Key::Node(self.profile.id).to_string()
    }

    fn meet_cluster(&mut self, record: &ClusterRecord) {
        self.is_in_cluster = true;
        match &self.disk.cluster {
            Some(known) if *known != record.id => {
                self.refuse(format!(
                    "this folder belongs to cluster {known}, and the tables are those of cluster {}: use another \
                     folder, or the servers of its own cluster",
                    record.id
                ));
            }
            _ => self.disk.cluster = Some(record.id.clone()),
        }
    }

    fn refuse(&mut self, why: String) {
        self.holder.lose();
        self.trouble = Some(why.clone());
        self.phase = Phase::Refused(why);
    }

    fn hear_own(&mut self, key: &str, value: Option<&[u8]>, revision: Revision, now: Monotonic) {
        let Some(value) = value else {
            self.holder.heard(None, Revision::NONE);
            return;
        };
        let record = match read::<NodeRecord>(key, value) {
            Ok(record) => record,
            Err(error) => {
                self.trouble = Some(error.to_string());
                return;
            }
        };
        let is_mine = record.incarnation == self.disk.incarnation && !matches!(record.state, NodeState::Dead);
        match self.holder.heard(is_mine.then_some(record.nonce), revision) {
            Heard::Nothing => {}
            Heard::Ours => self.hold(record, revision, now),
            Heard::Foreign => {
                let is_member = !matches!(self.phase, Phase::Starting | Phase::Waiting);
                if is_member && !matches!(self.phase, Phase::Refused(_) | Phase::Left) {
                    if self.rules.incarnation_conflict {
                        self.holder.lose();
                        self.phase = Phase::Starting;
                    } else {
                        self.holder.overlook(now);
                    }
                }
                self.own = Some(Watched { value: record, revision, since: now });
            }
        }
    }

    /// Its own write is in the tables.
    fn hold(&mut self, record: NodeRecord, revision: Revision, now: Monotonic) {
        self.trouble = None;
        self.phase = match record.state {
            NodeState::Joining => Phase::Joining,
            NodeState::Up => Phase::Up,
            NodeState::Draining => Phase::Draining,
            NodeState::Left => {
                self.holder.lose();
                Phase::Left
            }
            NodeState::Dead => Phase::Starting,
        };
        self.own = Some(Watched { value: record, revision, since: now });
    }

    fn take_record(&mut self, now: Monotonic) -> Option<Write> {
        if !self.is_in_cluster {
            self.trouble = Some(
                match self.disk.cluster {
                    Some(_) => "the servers have lost the tables of the cluster: run `farol cluster repair`",
                    None => "there is no cluster here yet: run `farol cluster init` once",
                }
                .to_string(),
            );
            return None;
        }
        if !self.holder.is_free() {
            return None;
        }
        for peer in self.peers.values().filter(|peer| !peer.is_gone) {
            if let Err(why) = version::check(self.profile.wire, &peer.name, &peer.program, peer.wire) {
                self.refuse(why);
                return None;
            }
        }
        if let Some(own) = &self.own {
            let record = &own.value;
            let is_here = record.machine == self.profile.machine && record.folder == self.profile.folder;
            let silence = now.since(own.since);
            if !record.state.is_gone() && !is_here && silence < self.times.dead_ms {
                let text = format!(
                    "node {} was active a moment ago as {:?} at {}, on another machine or in a copy of this folder; \
                     waiting until it is silent for {} s",
                    record.id,
                    record.name,
                    record.rpc,
                    self.times.dead_ms / 1000
                );
                (self.phase, self.trouble) = (Phase::Waiting, Some(text));
                return None;
            }
            self.disk.incarnation = self.disk.incarnation.max(record.incarnation);
        }
        self.disk.incarnation += 1;
        Some(self.write_record(NodeState::Joining, now))
    }

    fn renew(&mut self, now: Monotonic) -> Option<Write> {
        if !self.holder.is_free() {
            return None;
        }
        let map = self.shards.as_ref();
        let incarnation = self.disk.incarnation;
        // An order holds for the incarnation it was given for: later ones may be needed again.
        let is_ordered = map.is_some_and(|map| map.leaving.get(&self.profile.id) == Some(&incarnation));
        let told = self.own.as_ref().map(|own| own.value.state);
        let state = match (self.is_to_drain || is_ordered, self.disk.no) {
            (true, _) if told == Some(NodeState::Draining) && self.is_relieved() => NodeState::Left,
            (true, _) => NodeState::Draining,
            (false, Some(_)) => NodeState::Up,
            (false, None) => NodeState::Joining,
        };
        if told == Some(state) && !self.holder.is_due(now) {
            return None;
        }
        if state == NodeState::Left {
            // Whoever reads that it has left may take its name at once: so it stops before it says so.
            self.holder.lose();
        }
        Some(self.write_record(state, now))
    }

    /// Nobody needs it any more.
    fn is_relieved(&self) -> bool {
        let has_replicas =
            self.shards.as_ref().is_some_and(|map| map.replicas_of(self.profile.id).next().is_some());
        !has_replicas && !self.report.busy && !self.has_hosts()
    }

    /// Whether hosts are its own that others could take.
    fn has_hosts(&self) -> bool {
        let (Some(route), Some(no)) = (self.route(), self.disk.no) else { return false };
        let others = route.owners().filter(|owner| *owner != no).count();
        let owns = |step: &crate::route::RouteStep| {
            step.members
                .get(&no)
                .is_some_and(|member| member.incarnation == self.disk.incarnation && member.share > 0)
        };
        others > 0 && route.steps().any(owns)
    }

    fn write_record(&mut self, state: NodeState, now: Monotonic) -> Write {
        let nonce = self.random.next_u64();
        let record = NodeRecord {
            no: self.disk.no,
            incarnation: self.disk.incarnation,
            nonce,
            state,
            seen: self.disk.seen,
            report: self.report.clone(),
            ..self.profile.clone()
        };
        let expected = self.holder.send(nonce, now);
        let value = Some(write(&record));
        self.in_flight = Some((expected, record));
        Write { key: self.key(), value, expected }
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
