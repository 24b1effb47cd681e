//! The next epoch, from what the leader knows of agents. It has a fixed point: where nothing changes outside, nothing is
//! written.

use super::{
    AGENTS_MAX, Bequest, Epoch, Proposal, RouteMember, RouteRecord, RouteStep, STEPS_MAX, UndertakeRecord,
};
use crate::record::RECORD_VERSION;
use crate::{NodeNo, NodeState};
use std::collections::{BTreeMap, BTreeSet};

/// An agent as its record tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAtHand {
    pub incarnation: u64,
    pub state: NodeState,
    /// How much it can bear, compared with others.
    pub capacity: u32,
    pub released: Epoch,
    /// How much it bears.
    pub pages: u64,
    pub has_backup: bool,
}

/// What the planner goes by.
#[derive(Clone, Debug, Default)]
pub struct RouteSituation {
    /// Nodes that are agents, or were, by number; those that were never heard are missing.
    pub agents: BTreeMap<NodeNo, AgentAtHand>,
    pub proposal: Option<Proposal>,
    /// The greatest epoch that any node has told.
    pub told: Epoch,
    /// Whether more than settling may be done.
    pub may_change: bool,
    /// Of the consistent hash, where there is no table yet.
    pub seed: u64,
    /// Dead agents whose backups have arrived.
    pub buried: BTreeSet<(NodeNo, u64)>,
    /// Ablation: epochs are settled as they are written.
    pub settles_at_once: bool,
    /// Ablation: members that were never heard are dropped.
    pub drops_unheard: bool,
}

/// The record to write; `None` where the present one stands.
pub fn plan(known: Option<&RouteRecord>, situation: &RouteSituation) -> Option<RouteRecord> {
    let Some(known) = known else { return first(situation) };
    let mut record = known.clone();
    let has_released = |(no, member): (&NodeNo, &RouteMember)| {
        let agent = situation.agents.get(no);
        agent.is_some_and(|agent| {
            agent.incarnation == member.incarnation
                && !agent.state.is_gone()
                && agent.released >= known.epoch()
        })
    };
    if !record.settled && (situation.settles_at_once || record.newest.members.iter().all(has_released)) {
        (record.settled, record.before) = (true, Vec::new());
    }
    record.bequests.retain(|bequest| !situation.buried.contains(&(bequest.no, bequest.incarnation)));
    if situation.may_change {
        record = next_epoch(&record, situation).unwrap_or(record);
    }
    (record != *known).then_some(record)
}

/// The first epoch: nobody has anything yet, so that there is nothing to release, unless the tables were lost.
fn first(situation: &RouteSituation) -> Option<RouteRecord> {
    let members = newcomers(&BTreeMap::new(), situation);
    let newest = RouteStep { epoch: Epoch(situation.told.0 + 1), members, table: None };
    (situation.may_change && !newest.members.is_empty()).then(|| RouteRecord {
        v: RECORD_VERSION,
        term: 0,
        settled: situation.told == Epoch(0),
        why: sentence("joined", newest.members.keys()),
        newest,
        before: Vec::new(),
        seed: situation.seed,
        bequests: Vec::new(),
    })
}

fn next_epoch(record: &RouteRecord, situation: &RouteSituation) -> Option<RouteRecord> {
    let present = &record.newest.members;
    let mut members = BTreeMap::new();
    let (mut dropped, mut leaving) = (Vec::new(), Vec::new());
    let mut bequests = record.bequests.clone();
    for (no, member) in present {
        let Some(agent) = situation.agents.get(no) else {
            // A new leader may not have heard it yet, and still it may be busy.
            if !situation.drops_unheard {
                members.insert(*no, *member);
            }
            continue;
        };
        if agent.incarnation == member.incarnation && !agent.state.is_gone() {
            let share = if agent.state == NodeState::Draining { 0 } else { agent.capacity.max(1) };
            leaving.extend((share == 0 && member.share > 0).then_some(*no));
            members.insert(*no, RouteMember { share, ..*member });
            continue;
        }
        dropped.push(*no);
        // Who has left has handed all over, and who has come back brings it along.
        if agent.state == NodeState::Dead && agent.incarnation == member.incarnation && agent.has_backup {
            let steps = record.steps().filter(|step| step.has(*no, member.incarnation)).cloned().collect();
            bequests.push(Bequest { no: *no, incarnation: member.incarnation, steps });
        }
    }
    let came = newcomers(&members, situation);
    let joined: Vec<NodeNo> = came.keys().copied().collect();
    members.extend(came);
    // The last agent has nobody to give anything to.
    if !members.is_empty() && members.values().all(|member| member.share == 0) {
        for (no, member) in &mut members {
            member.share = present.get(no).map_or(1, |before| before.share.max(1));
        }
    }
    let owners: BTreeSet<NodeNo> =
        members.iter().filter(|(_, member)| member.share > 0).map(|(no, _)| *no).collect();
    let proposal = situation.proposal.as_ref();
    let proposal =
        proposal.filter(|proposal| proposal.members == owners && proposal.table != record.newest.table);
    if members == *present && proposal.is_none() {
        return None;
    }
    // The dead and their former selves release nothing: no epoch with them in it is ever settled.
    if !record.settled && dropped.is_empty() {
        return None;
    }
    let mut before: Vec<RouteStep> = record.steps().cloned().collect();
    if before.len() > STEPS_MAX {
        before.clear();
    }
    let proposal = proposal.filter(|_| record.settled);
    let table = proposal.map_or_else(|| record.newest.table.clone(), |proposal| proposal.table.clone());
    let why = [
        sentence("joined", joined.iter()),
        sentence("is to leave", leaving.iter()),
        sentence("is gone", dropped.iter().filter(|no| !members.contains_key(no))),
        proposal.map(|proposal| proposal.why.clone()).unwrap_or_default(),
    ];
    bequests.retain(|bequest| !members.contains_key(&bequest.no));
    Some(RouteRecord {
        settled: members.is_empty(),
        before: if members.is_empty() { Vec::new() } else { before },
        newest: RouteStep { epoch: Epoch(record.epoch().max(situation.told).0 + 1), members, table },
        bequests,
        why: why.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "),
        ..record.clone()
    })
}

/// Agents that are ready and no members yet.
fn newcomers(
    members: &BTreeMap<NodeNo, RouteMember>,
    situation: &RouteSituation,
) -> BTreeMap<NodeNo, RouteMember> {
    let ready = situation
        .agents
        .iter()
        .filter(|(no, agent)| agent.state == NodeState::Up && !members.contains_key(no));
    let room = AGENTS_MAX.saturating_sub(members.len());
    ready
        .take(room)
        .map(|(no, agent)| {
            (*no, RouteMember { incarnation: agent.incarnation, share: agent.capacity.max(1) })
        })
        .collect()
}

fn sentence<'a>(what: &str, agents: impl Iterator<Item = &'a NodeNo>) -> String {
    let agents: Vec<String> = agents.map(|no| no.to_string()).collect();
    match agents.len() {
        0 => String::new(),
        1 => format!("agent {} {what}", agents[0]),
        _ => format!("agents {} {}", agents.join(", "), what.replace("is ", "are ")),
    }
}

/// Who brings a dead agent's backup to its heirs; `None` where whoever was named goes on.
pub fn undertaker(
    bequest: &Bequest,
    named: Option<&UndertakeRecord>,
    record: &RouteRecord,
    agents: &BTreeMap<NodeNo, AgentAtHand>,
) -> Option<UndertakeRecord> {
    let is_there = |no: &NodeNo, incarnation| {
        let is_up = agents.get(no).is_some_and(|agent| {
            agent.incarnation == incarnation && matches!(agent.state, NodeState::Up | NodeState::Draining)
        });
        record.newest.has(*no, incarnation) && is_up
    };
    let named = named.filter(|named| named.incarnation == bequest.incarnation);
    if named.is_some_and(|named| named.done || is_there(&named.by, named.by_incarnation)) {
        return None;
    }
    let able =
        agents.iter().filter(|(no, agent)| agent.state == NodeState::Up && is_there(no, agent.incarnation));
    let (by, agent) = able.min_by_key(|(no, agent)| {
        // Per capacity, in whole numbers: a thousand pages count for one where capacity is usual.
        (agent.pages.saturating_mul(100) / u64::from(agent.capacity.max(1)), **no)
    })?;
    Some(UndertakeRecord {
        v: RECORD_VERSION,
        term: 0,
        no: bequest.no,
        incarnation: bequest.incarnation,
        by: *by,
        by_incarnation: agent.incarnation,
        done: false,
    })
}
