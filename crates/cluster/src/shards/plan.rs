//! The next step of the shard map.
//!
//! Each call repairs what it can in one step: what is filled serves, what is superfluous leaves, what is missing is
//! added, splits go on. Called again with the same situation it comes to a map that it leaves as it is.
//!
//! INVARIANT: the last replica that can be asked is never given up by itself; only an operator's order does that.

use super::spread::{Loads, transfers};
use super::{ReplicaEntry, ReplicaState, ShardEntry, ShardMap, ShardState};
use crate::{ArchivePosition, NodeId, NodeNo, ShardId};
use std::collections::{BTreeMap, BTreeSet};

/// A node, as the planner sees it. One that is not known at all keeps what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedNode {
    pub no: Option<NodeNo>,
    pub incarnation: u64,
    /// It may lead.
    pub controls: bool,
    /// It may be given replicas.
    pub may_take: bool,
    /// It gives its replicas away.
    pub leaves: bool,
    /// It has left, or was buried.
    pub is_gone: bool,
    pub zone: String,
    pub machine: u64,
    pub capacity: u32,
}

/// What the planner must know beside the map.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    pub nodes: BTreeMap<NodeId, PlacedNode>,
    /// Replicas that have all that the others have.
    pub ready: BTreeSet<(ShardId, NodeId)>,
    /// Shards being split that nobody writes to any more, and where their logs end.
    pub closed: BTreeMap<ShardId, BTreeMap<NodeNo, ArchivePosition>>,
    /// Retired shards that nobody can ask any more.
    pub over: BTreeSet<ShardId>,
}

impl Situation {
    fn is_gone(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.is_gone)
    }

    fn leaves(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.leaves)
    }

    /// Whether a replica there will last, as far as is known.
    fn stays(&self, node: NodeId) -> bool {
        !self.is_gone(node) && !self.leaves(node)
    }
}

/// The map after the next step, with version and term as they were; `None` where there is nothing to do.
pub fn plan(map: &ShardMap, situation: &Situation) -> Option<ShardMap> {
    let mut next = map.clone();
    next.leaving.retain(|id, incarnation| {
        let node = situation.nodes.get(id);
        node.is_none_or(|node| node.incarnation <= *incarnation && !node.is_gone)
    });
    next.shards.retain(|shard| shard.state != ShardState::Retired || !situation.over.contains(&shard.id));
    for shard in &mut next.shards {
        promote(shard, situation);
        clear(shard, situation);
    }
    for at in 0..next.shards.len() {
        fill(&mut next, at, situation);
        relieve(&mut next, at, situation);
    }
    go_on_splitting(&mut next, situation);
    if next.rebalance {
        rebalance(&mut next, situation);
    }
    for shard in &mut next.shards {
        name_keeper(shard, situation);
    }
    (next != *map).then_some(next)
}

/// Replicas that were filled serve.
fn promote(shard: &mut ShardEntry, situation: &Situation) {
    for replica in &mut shard.replicas {
        let is_ready = situation.ready.contains(&(shard.id, replica.node));
        if replica.state == ReplicaState::Joining && is_ready && !situation.is_gone(replica.node) {
            replica.state = ReplicaState::Serving;
        }
    }
}

/// Replicas of nodes that are gone go, and those of nodes that leave give way.
fn clear(shard: &mut ShardEntry, situation: &Situation) {
    let others_serve = shard.asked().any(|node| !situation.is_gone(node));
    // A half may have nowhere else to form than where its parent leaves; it moves on once it serves.
    let is_forming = matches!(shard.state, ShardState::Forming { .. });
    let leaves = |node| !is_forming && situation.leaves(node);
    shard.replicas.retain(|replica| {
        let is_filling = replica.state == ReplicaState::Joining;
        match situation.is_gone(replica.node) {
            true => !is_filling && !others_serve,
            false => !(is_filling && leaves(replica.node)),
        }
    });
    for replica in &mut shard.replicas {
        if replica.state == ReplicaState::Serving && leaves(replica.node) {
            replica.state = ReplicaState::Leaving;
        }
    }
}

/// Nodes that may be given a replica of the shard, whether or not they have one.
fn eligible(map: &ShardMap, shard: &ShardEntry, situation: &Situation) -> Vec<NodeId> {
    let may_take = situation.nodes.iter().filter(|(_, node)| node.may_take).map(|(id, _)| *id);
    match &shard.state {
        // A half is made out of its parent's files; on nodes that leave only where nobody else has them.
        ShardState::Forming { parent } => {
            let parent = map.shard(*parent);
            let has_it =
                |id: &NodeId| parent.and_then(|parent| parent.replica(*id)) == Some(ReplicaState::Serving);
            let best: Vec<NodeId> = may_take.filter(has_it).collect();
            let asked = parent.into_iter().flat_map(ShardEntry::asked);
            let is_there = |id: &NodeId| situation.nodes.contains_key(id) && !situation.is_gone(*id);
            if best.is_empty() { asked.filter(is_there).collect() } else { best }
        }
        ShardState::Serving | ShardState::Splitting { .. } => may_take.collect(),
        ShardState::Retired => Vec::new(),
    }
}

/// Replicas that count: those that serve or will.
fn lasting(shard: &ShardEntry, situation: &Situation) -> Vec<NodeId> {
    let lasts =
        |replica: &&ReplicaEntry| replica.state != ReplicaState::Leaving && situation.stays(replica.node);
    shard.replicas.iter().filter(lasts).map(|replica| replica.node).collect()
}

/// Replicas that a shard is to have, where there are nodes enough.
fn wanted(map: &ShardMap, shard: &ShardEntry) -> usize {
    (map.copies + shard.extra) as usize
}

/// Adds what is missing.
fn fill(map: &mut ShardMap, at: usize, situation: &Situation) {
    if map.shards[at].state == ShardState::Retired {
        return;
    }
    if let ShardState::Forming { parent } = map.shards[at].state {
        let files: Vec<NodeId> = map
            .shard(parent)
            .iter()
            .flat_map(|parent| &parent.replicas)
            .map(|replica| replica.node)
            .collect();
        let can_form =
            |replica: &ReplicaEntry| replica.state != ReplicaState::Joining || files.contains(&replica.node);
        map.shards[at].replicas.retain(can_form);
    }
    let mut loads = Loads::of(map, &situation.nodes);
    let eligible = eligible(map, &map.shards[at], situation);
    let wanted = wanted(map, &map.shards[at]).min(eligible.len());
    let shard = &mut map.shards[at];
    let mut lasting = lasting(shard, situation);
    while lasting.len() < wanted {
        // Whoever was about to leave and may stay after all has it already.
        let back = shard
            .replicas
            .iter_mut()
            .find(|replica| replica.state == ReplicaState::Leaving && eligible.contains(&replica.node));
        let node = if let Some(replica) = back {
            replica.state = ReplicaState::Serving;
            replica.node
        } else {
            let free = eligible.iter().copied().filter(|node| shard.replica(*node).is_none());
            let Some(node) = loads.best(shard.id, free, &lasting) else { return };
            shard.replicas.push(ReplicaEntry { node, state: ReplicaState::Joining });
            node
        };
        loads.add(node);
        lasting.push(node);
    }
}

/// Lets go what is too much.
fn relieve(map: &mut ShardMap, at: usize, situation: &Situation) {
    let shard = &map.shards[at];
    if shard.state == ShardState::Retired {
        return;
    }
    let loads = Loads::of(map, &situation.nodes);
    let (wanted, eligible) = (wanted(map, shard), eligible(map, shard, situation));
    let mut lasting = lasting(shard, situation);
    let shard = &mut map.shards[at];
    while lasting.len() > wanted {
        let is_filling = |node: NodeId| shard.replica(node) == Some(ReplicaState::Joining);
        let most =
            lasting.iter().copied().max_by_key(|node| (is_filling(*node), loads.with(*node, 0), *node));
        let Some(most) = most else { break };
        lasting.retain(|node| *node != most);
        if is_filling(most) {
            shard.replicas.retain(|replica| replica.node != most);
        } else {
            let replica = shard.replicas.iter_mut().find(|replica| replica.node == most);
            replica.into_iter().for_each(|replica| replica.state = ReplicaState::Leaving);
        }
    }
    // A node that is away for a moment is no reason to do with fewer.
    let holders = lasting.len() + eligible.iter().filter(|node| !lasting.contains(node)).count();
    let serves = |node: &&NodeId| shard.replica(**node) == Some(ReplicaState::Serving);
    if lasting.iter().filter(serves).count() >= wanted.min(holders).max(1) {
        shard.replicas.retain(|replica| replica.state != ReplicaState::Leaving);
    }
}

/// Closes logs that nobody writes to, and lets halves that have formed take over.
fn go_on_splitting(map: &mut ShardMap, situation: &Situation) {
    for at in 0..map.shards.len() {
        let id = map.shards[at].id;
        // Where an operator has given up the last that had it, the halves are filled from the archives.
        let is_lost = map.shards[at].asked().next().is_none();
        let ShardState::Splitting { into, closed } = &mut map.shards[at].state else { continue };
        if closed.is_none() && !is_lost {
            *closed = situation.closed.get(&id).cloned();
            continue;
        }
        let into = *into;
        let has_formed = |half: &ShardId| {
            let replicas = map.shard(*half).map(|half| &half.replicas[..]).unwrap_or_default();
            replicas.iter().any(|replica| !situation.is_gone(replica.node))
                && replicas.iter().all(|replica| replica.state != ReplicaState::Joining)
        };
        if is_lost || into.iter().all(has_formed) {
            map.shards[at].state = ShardState::Retired;
            for half in map.shards.iter_mut().filter(|half| into.contains(&half.id)) {
                half.state = ShardState::Serving;
            }
        }
    }
}

/// Spreads replicas anew, one of each shard at a time.
fn rebalance(map: &mut ShardMap, situation: &Situation) {
    if !map.shards.iter().all(ShardEntry::is_settled) {
        return;
    }
    let found = transfers(map, &situation.nodes);
    map.rebalance = !found.is_empty();
    for transfer in found {
        let shard = map.shards.iter_mut().find(|shard| shard.id == transfer.shard);
        shard.into_iter().for_each(|shard| shard.transfer(transfer.from, transfer.to));
    }
}

impl ShardEntry {
    /// One replica comes, another goes once that is there.
    pub(super) fn transfer(&mut self, from: NodeId, to: NodeId) {
        self.replicas.retain(|replica| replica.node != from || replica.state != ReplicaState::Joining);
        for replica in self.replicas.iter_mut().filter(|replica| replica.node == from) {
            replica.state = ReplicaState::Leaving;
        }
        self.replicas.push(ReplicaEntry { node: to, state: ReplicaState::Joining });
    }
}

/// The keeper stays while it serves; then it is the node with the least number.
fn name_keeper(shard: &mut ShardEntry, situation: &Situation) {
    let serves =
        |node: &NodeId| shard.replica(*node) == Some(ReplicaState::Serving) && situation.stays(*node);
    let all = shard.replicas.iter().map(|replica| replica.node);
    let least = all.filter(serves).min_by_key(|id| (situation.nodes.get(id).and_then(|node| node.no), *id));
    let keeps = |node: &NodeId| shard.state != ShardState::Retired && serves(node);
    shard.keeper = shard.keeper.filter(keeps).or(least.filter(|_| shard.state != ShardState::Retired));
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
