//! The shard map: which pages each shard has, and which nodes have a replica of it.
//!
//! Shards are ranges of page ids, which are hashes of URLs. A replica is added as `Joining`, becomes `Serving` once it
//! has all that the others have, and is `Leaving` while others take its place. A shard that is split goes on serving
//! while its halves form; then it is retired, and forgotten a little later.
//!
//! INVARIANT: the shards that are read tile the space of page ids, and so do those that are written.

mod orders;
mod plan;
mod spread;

pub use orders::take_order;
pub use plan::{PlacedNode, Situation, plan};

use crate::order::{OrderId, TakenOrder};
use crate::record::{RECORD_VERSION, ReplicaMark};
use crate::{ArchivePosition, NodeId, NodeNo, ShardId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A half waits so long for its parent's replica to read its log to the end.
const DIVIDE_AFTER_MS: u64 = 20_000;

/// Which pages each shard has, and who has replicas of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMap {
    pub v: u16,
    /// Grows with every change.
    pub version: u64,
    /// Term of the leader that wrote it.
    pub term: u64,
    /// Replicas that each shard is to have.
    pub copies: u32,
    /// The next id that is given to a shard.
    pub next: u32,
    pub shards: Vec<ShardEntry>,
    /// Nodes that were ordered to leave, with the incarnation that the order was for.
    #[serde(default)]
    pub leaving: BTreeMap<NodeId, u64>,
    /// Replicas are to be spread anew.
    #[serde(default)]
    pub rebalance: bool,
    /// Orders that were taken; the newest last.
    #[serde(default)]
    pub taken: Vec<TakenOrder>,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    pub id: ShardId,
    /// First page.
    pub from: u64,
    /// Last page.
    pub to: u64,
    pub state: ShardState,
    pub replicas: Vec<ReplicaEntry>,
    /// Replicas it is to have beyond those of all shards.
    #[serde(default)]
    pub extra: u32,
    /// Who uploads snapshots.
    pub keeper: Option<NodeId>,
    /// The shard that it is a half of.
    pub born_of: Option<ShardId>,
}

/// What happens to a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardState {
    Serving,
    /// It is written, and made out of its parent.
    Forming {
        parent: ShardId,
    },
    /// It is read, and no more written: its halves are.
    Splitting {
        into: [ShardId; 2],
        /// Where its log ends, for each agent; `None` while somebody may write to it.
        closed: Option<BTreeMap<NodeNo, ArchivePosition>>,
    },
    /// Fronts that have not seen the newest map may still ask for it.
    Retired,
}

/// A node's replica of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaEntry {
    pub node: NodeId,
    pub state: ReplicaState,
}

/// What a replica is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaState {
    /// It is being filled.
    Joining,
    /// It may be asked.
    Serving,
    /// It may be asked, and goes once others can take its place.
    Leaving,
}

impl ShardEntry {
    /// Whether questions go to it.
    pub fn is_read(&self) -> bool {
        matches!(self.state, ShardState::Serving | ShardState::Splitting { .. })
    }

    /// Whether documents go to its log.
    pub fn is_written(&self) -> bool {
        matches!(self.state, ShardState::Serving | ShardState::Forming { .. })
    }

    /// Nothing is under way with it.
    pub fn is_settled(&self) -> bool {
        let serves = |replica: &ReplicaEntry| replica.state == ReplicaState::Serving;
        self.state == ShardState::Retired
            || self.state == ShardState::Serving && self.replicas.iter().all(serves)
    }

    pub fn replica(&self, node: NodeId) -> Option<ReplicaState> {
        self.replicas.iter().find(|replica| replica.node == node).map(|replica| replica.state)
    }

    /// Whether a half may be made out of a replica with this mark, which has been asked for so long: best once it has
    /// read all that agents wrote. What it lacks of a log that has lost its end, agents send to the halves.
    pub fn may_divide(&self, mark: &ReplicaMark, waited_ms: u64) -> bool {
        let ShardState::Splitting { closed: Some(closed), .. } = &self.state else { return false };
        let has = |(agent, end): (&NodeNo, &ArchivePosition)| {
            mark.from.get(agent).map(|mark| mark.position).unwrap_or_default() >= *end
        };
        waited_ms >= DIVIDE_AFTER_MS || closed.iter().all(has)
    }

    /// Nodes that may be asked.
    pub fn asked(&self) -> impl Iterator<Item = NodeId> + '_ {
        let may_be = |replica: &&ReplicaEntry| replica.state != ReplicaState::Joining;
        self.replicas.iter().filter(may_be).map(|replica| replica.node)
    }
}

impl ShardMap {
    /// A map of equal ranges without replicas.
    pub fn new(shards: u32, copies: u32) -> ShardMap {
        let shards = shards.max(1);
        let start = |i: u32| ((u128::from(i) << 64) / u128::from(shards)) as u64;
        let entry = |i: u32| ShardEntry {
            id: ShardId(i),
            from: start(i),
            to: if i + 1 == shards { u64::MAX } else { start(i + 1) - 1 },
            state: ShardState::Serving,
            replicas: Vec::new(),
            extra: 0,
            keeper: None,
            born_of: None,
        };
        ShardMap {
            v: RECORD_VERSION,
            version: 0,
            term: 0,
            copies: copies.max(1),
            next: shards,
            shards: (0..shards).map(entry).collect(),
            leaving: BTreeMap::new(),
            rebalance: false,
            taken: Vec::new(),
        }
    }

    pub fn shard(&self, id: ShardId) -> Option<&ShardEntry> {
        self.shards.iter().find(|shard| shard.id == id)
    }

    /// Shards that a node has a replica of.
    pub fn replicas_of(&self, node: NodeId) -> impl Iterator<Item = &ShardEntry> {
        self.shards.iter().filter(move |shard| shard.replica(node).is_some())
    }

    /// Shards that together answer a question.
    pub fn read(&self) -> impl Iterator<Item = &ShardEntry> {
        self.shards.iter().filter(|shard| shard.is_read())
    }

    /// Shards that documents go to.
    pub fn written(&self) -> impl Iterator<Item = &ShardEntry> {
        self.shards.iter().filter(|shard| shard.is_written())
    }

    /// Whether an order was taken, and what came of it.
    pub fn taken(&self, id: OrderId) -> Option<&TakenOrder> {
        self.taken.iter().find(|taken| taken.id == id)
    }

    /// Checks what must hold of every map.
    ///
    /// # Errors
    /// A sentence on what is wrong.
    pub fn check(&self) -> Result<(), String> {
        tiles(self.read()).map_err(|what| format!("shards that are read: {what}"))?;
        tiles(self.written()).map_err(|what| format!("shards that are written: {what}"))?;
        for (i, shard) in self.shards.iter().enumerate() {
            if self.shards[..i].iter().any(|other| other.id == shard.id) || shard.id.0 >= self.next {
                return Err(format!("the id of shard {} was given twice", shard.id));
            }
            for (i, replica) in shard.replicas.iter().enumerate() {
                if shard.replicas[..i].iter().any(|other| other.node == replica.node) {
                    return Err(format!("node {} has two replicas of shard {}", replica.node, shard.id));
                }
            }
        }
        Ok(())
    }
}

fn tiles<'a>(shards: impl Iterator<Item = &'a ShardEntry>) -> Result<(), String> {
    let mut ranges: Vec<(u64, u64)> = shards.map(|shard| (shard.from, shard.to)).collect();
    ranges.sort_unstable();
    let mut next = Some(0);
    for (from, to) in ranges {
        if next != Some(from) || to < from {
            return Err(format!("page {from} follows {next:?}"));
        }
        next = to.checked_add(1);
    }
    match next {
        None => Ok(()),
        Some(page) => Err(format!("nobody has page {page}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_map_tiles_the_space() {
        for shards in [0, 1, 2, 3, 7, 64, 1000] {
            let map = ShardMap::new(shards, 2);
            assert_eq!(map.shards.len(), shards.max(1) as usize);
            map.check().unwrap();
            let widths = map.shards.iter().map(|shard| shard.to - shard.from);
            assert!(widths.clone().max().unwrap() - widths.min().unwrap() <= 1);
        }
    }

    #[test]
    fn holes_overlaps_and_twins_are_found() {
        let mut map = ShardMap::new(3, 1);
        map.shards.remove(1);
        assert!(map.check().unwrap_err().contains("page"));
        let mut map = ShardMap::new(3, 1);
        map.shards[0].to += 1;
        assert!(map.check().is_err());
        let mut map = ShardMap::new(2, 1);
        let replica = ReplicaEntry { node: NodeId(1), state: ReplicaState::Serving };
        map.shards[0].replicas = vec![replica, replica];
        assert!(map.check().unwrap_err().contains("two replicas"));
    }
}
