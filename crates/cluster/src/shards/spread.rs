//! Where replicas go: apart by zone and by machine first, then to whoever bears least.

use super::plan::PlacedNode;
use super::{ReplicaState, ShardEntry, ShardMap, ShardState};
use crate::{NodeId, ShardId};
use farol_base::random::mix;
use std::collections::{BTreeMap, BTreeSet};

/// How many replicas share a zone, and how many a machine.
type Crowding = (usize, usize);

/// How much each node bears: its replicas, apart from those that leave and those of retired shards.
pub struct Loads<'a> {
    nodes: &'a BTreeMap<NodeId, PlacedNode>,
    replicas: BTreeMap<NodeId, u64>,
}

impl<'a> Loads<'a> {
    pub fn of(map: &ShardMap, nodes: &'a BTreeMap<NodeId, PlacedNode>) -> Loads<'a> {
        let mut replicas: BTreeMap<NodeId, u64> = BTreeMap::new();
        for shard in map.shards.iter().filter(|shard| shard.state != ShardState::Retired) {
            for replica in shard.replicas.iter().filter(|replica| replica.state != ReplicaState::Leaving) {
                *replicas.entry(replica.node).or_default() += 1;
            }
        }
        Loads { nodes, replicas }
    }

    pub fn add(&mut self, node: NodeId) {
        *self.replicas.entry(node).or_default() += 1;
    }

    pub fn remove(&mut self, node: NodeId) {
        self.replicas.entry(node).and_modify(|replicas| *replicas = replicas.saturating_sub(1));
    }

    /// What a node would bear with so many replicas more, by its capacity.
    pub fn with(&self, node: NodeId, more: u64) -> u64 {
        let capacity = self.nodes.get(&node).map_or(100, |node| u64::from(node.capacity.max(1)));
        (self.replicas.get(&node).copied().unwrap_or(0) + more) * 1_000_000 / capacity
    }

    /// The best of these nodes for another replica of a shard whose others are on `others`.
    pub fn best(
        &self,
        shard: ShardId,
        candidates: impl Iterator<Item = NodeId>,
        others: &[NodeId],
    ) -> Option<NodeId> {
        // Ties are broken by a draw that is the same for every leader.
        let draw = |node: NodeId| mix(node.0 ^ mix(u64::from(shard.0)));
        candidates.min_by_key(|node| (self.crowding(*node, others), self.with(*node, 1), draw(*node)))
    }

    fn crowding(&self, node: NodeId, others: &[NodeId]) -> Crowding {
        let Some(place) = self.nodes.get(&node) else { return (0, 0) };
        let others = others.iter().filter(|other| **other != node).filter_map(|other| self.nodes.get(other));
        let (mut zone, mut machine) = (0, 0);
        for other in others {
            zone += usize::from(other.zone == place.zone);
            machine += usize::from(other.machine == place.machine);
        }
        (zone, machine)
    }
}

/// One replica that goes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub shard: ShardId,
    pub from: NodeId,
    pub to: NodeId,
}

/// What to move so that replicas are apart and loads even: at most one replica of each shard; none where all is well.
pub fn transfers(map: &ShardMap, nodes: &BTreeMap<NodeId, PlacedNode>) -> Vec<Transfer> {
    let mut loads = Loads::of(map, nodes);
    let mut moved = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(transfer) = apart(map, nodes, &loads, &moved).or_else(|| even(map, nodes, &loads, &moved))
    {
        moved.insert(transfer.shard);
        loads.remove(transfer.from);
        loads.add(transfer.to);
        found.push(transfer);
    }
    found
}

fn takers<'a>(
    shard: &'a ShardEntry,
    nodes: &'a BTreeMap<NodeId, PlacedNode>,
) -> impl Iterator<Item = NodeId> + 'a {
    nodes.iter().filter(|(id, node)| node.may_take && shard.replica(**id).is_none()).map(|(id, _)| *id)
}

fn others_of(shard: &ShardEntry, than: NodeId) -> Vec<NodeId> {
    shard.replicas.iter().map(|replica| replica.node).filter(|node| *node != than).collect()
}

/// A replica that would share its zone or machine with fewer others elsewhere.
fn apart(
    map: &ShardMap,
    nodes: &BTreeMap<NodeId, PlacedNode>,
    loads: &Loads<'_>,
    moved: &BTreeSet<ShardId>,
) -> Option<Transfer> {
    for shard in map.shards.iter().filter(|shard| !moved.contains(&shard.id)) {
        for replica in &shard.replicas {
            let others = others_of(shard, replica.node);
            let now = loads.crowding(replica.node, &others);
            if let Some(to) = loads.best(shard.id, takers(shard, nodes), &others)
                && loads.crowding(to, &others) < now
            {
                return Some(Transfer { shard: shard.id, from: replica.node, to });
            }
        }
    }
    None
}

/// A replica of a node that bears much, for one that would bear less with it.
fn even(
    map: &ShardMap,
    nodes: &BTreeMap<NodeId, PlacedNode>,
    loads: &Loads<'_>,
    moved: &BTreeSet<ShardId>,
) -> Option<Transfer> {
    let mut best: Option<(u64, Transfer)> = None;
    for shard in map.shards.iter().filter(|shard| !moved.contains(&shard.id)) {
        for replica in &shard.replicas {
            let others = others_of(shard, replica.node);
            let now = loads.crowding(replica.node, &others);
            for to in takers(shard, nodes).filter(|to| loads.crowding(*to, &others) <= now) {
                let gain = loads.with(replica.node, 0).saturating_sub(loads.with(to, 1));
                if gain > 0 && best.is_none_or(|(most, _)| gain > most) {
                    best = Some((gain, Transfer { shard: shard.id, from: replica.node, to }));
                }
            }
        }
    }
    best.map(|(_, transfer)| transfer)
}
