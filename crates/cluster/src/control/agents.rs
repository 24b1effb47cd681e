//! From records of agents to the next epoch of the routing table, and to who buries the dead.

use super::Control;
use super::table::Table;
use crate::route::{AgentAtHand, Epoch, Proposal, RouteSituation, UndertakeRecord, plan, undertaker};
use crate::{Key, Monotonic, NodeNo, NodeState, Role, Write};
use farol_base::fingerprint::hash64;
use std::collections::BTreeMap;

impl Control {
    /// A better table for the next epoch, from whoever measures; a later one replaces it. It is forgotten when the lease is
    /// lost.
    pub fn propose(&mut self, proposal: Proposal) {
        self.proposal = Some(proposal);
    }

    pub(super) fn plan_route(&mut self, term: u64, now: Monotonic) -> Option<Write> {
        let cluster = self.cluster.as_ref()?;
        if !self.route.is_free() {
            return None;
        }
        let told = self.nodes.values().map(|node| node.value.seen.epoch).max().unwrap_or_default();
        let is_buried = |table: &Table<UndertakeRecord>| {
            table.get().filter(|named| named.done).map(|named| (named.no, named.incarnation))
        };
        let situation = RouteSituation {
            agents: self.agents(now),
            proposal: self.proposal.clone(),
            told,
            // Nothing is decided upon a node whose burial is under way, nor while a deposed leader may still be busy.
            may_change: (self.candidacy.is_settled(now) || !self.rules.dead_waited)
                && self.burials.is_empty(),
            seed: hash64(cluster.id.as_bytes()),
            buried: self.undertakers.values().filter_map(is_buried).collect(),
            settles_at_once: !self.rules.released_first,
            drops_unheard: !self.rules.unheard_kept,
        };
        let mut record = plan(self.route.get(), &situation)?;
        let table_before = self.route.get().and_then(|known| known.newest.table.clone());
        if record.newest.table != table_before {
            self.proposal = None;
        }
        record.term = term;
        Some(self.route.replace(record))
    }

    /// Names an undertaker for each dead agent that has left a backup.
    pub(super) fn plan_undertakers(&mut self, term: u64, now: Monotonic) -> Vec<Write> {
        let Some(route) = self.route.get().cloned() else { return Vec::new() };
        let agents = self.agents(now);
        let mut writes = Vec::new();
        for bequest in &route.bequests {
            let key = Key::Undertake(bequest.no);
            let table = self.undertakers.entry(bequest.no).or_insert_with(|| Table::new(key));
            if !table.is_free() {
                continue;
            }
            if let Some(named) = undertaker(bequest, table.get(), &route, &agents) {
                writes.push(table.replace(UndertakeRecord { term, ..named }));
            }
        }
        writes
    }

    fn agents(&self, now: Monotonic) -> BTreeMap<NodeNo, AgentAtHand> {
        let mut agents = BTreeMap::new();
        for watched in self.nodes.values() {
            let record = &watched.value;
            let Some(no) = record.no.filter(|_| record.roles.contains(&Role::Crawl)) else { continue };
            let is_silent = !self.rules.burial_first && self.silence(watched, now) >= self.times.dead_ms;
            let agent = AgentAtHand {
                incarnation: record.incarnation,
                state: if is_silent { NodeState::Dead } else { record.state },
                capacity: record.capacity,
                released: record.report.released,
                pages: record.report.agent.pages,
                has_backup: self.backups.contains(&no),
            };
            agents.insert(no, agent);
        }
        agents
    }

    /// The greatest epoch that anybody has told; for tests and people.
    pub fn epoch(&self) -> Option<Epoch> {
        self.route.get().map(|route| route.epoch())
    }
}
