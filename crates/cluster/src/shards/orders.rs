//! What operators' orders do to the shard map.

use super::plan::Situation;
use super::{ReplicaEntry, ReplicaState, ShardEntry, ShardMap, ShardState};
use crate::order::Order;
use crate::{NodeId, ShardId};

/// Most replicas that a shard may have.
const COPIES_MAX: u32 = 16;

/// Carries an order out as far as the map goes; the planner does the rest.
///
/// # Errors
/// A sentence on why it cannot be done.
pub fn take_order(map: &mut ShardMap, order: &Order, situation: &Situation) -> Result<(), String> {
    match order {
        Order::Drain { node } => drain(map, *node, situation),
        Order::Remove { node } => remove(map, *node, situation),
        Order::Move { shard, from, to } => {
            check_taker(*to, situation)?;
            let shard = serving(map, *shard)?;
            check_free(shard, *to)?;
            if shard.replica(*from).is_none() {
                return Err(format!("node {from} has no replica of shard {}", shard.id));
            }
            shard.transfer(*from, *to);
            Ok(())
        }
        Order::AddReplica { shard, node } => add_replica(map, *shard, *node, situation),
        Order::Split { shard } => split(map, *shard, situation),
        Order::Rebalance => {
            map.rebalance = true;
            Ok(())
        }
        Order::Replicas { copies } => {
            if !(1..=COPIES_MAX).contains(copies) {
                return Err(format!("a shard has 1 to {COPIES_MAX} replicas, not {copies}"));
            }
            map.copies = *copies;
            map.shards.iter_mut().for_each(|shard| shard.extra = 0);
            Ok(())
        }
    }
}

fn drain(map: &mut ShardMap, node: NodeId, situation: &Situation) -> Result<(), String> {
    match situation.nodes.get(&node) {
        None => Err(format!("there is no node {node}")),
        Some(known) if known.is_gone => Err(format!("node {node} is gone already")),
        Some(known) if known.controls && !others_lead(map, node, situation) => {
            Err(format!("node {node} is the last that may lead: start another with the role control first"))
        }
        Some(known) => {
            map.leaving.insert(node, known.incarnation);
            Ok(())
        }
    }
}

fn others_lead(map: &ShardMap, than: NodeId, situation: &Situation) -> bool {
    let mut others = situation.nodes.iter().filter(|(id, _)| **id != than);
    others.any(|(id, node)| {
        let leaves = node.leaves || map.leaving.get(id) == Some(&node.incarnation);
        node.controls && !node.is_gone && !leaves
    })
}

fn remove(map: &mut ShardMap, node: NodeId, situation: &Situation) -> Result<(), String> {
    if situation.nodes.get(&node).is_some_and(|node| !node.is_gone) {
        return Err(format!(
            "node {node} is alive: drain it instead, or stop it and wait until it is taken for dead"
        ));
    }
    map.leaving.remove(&node);
    for shard in &mut map.shards {
        shard.replicas.retain(|replica| replica.node != node);
    }
    Ok(())
}

fn serving(map: &mut ShardMap, id: ShardId) -> Result<&mut ShardEntry, String> {
    let shard = map.shards.iter_mut().find(|shard| shard.id == id);
    let shard = shard.ok_or_else(|| format!("there is no shard {id}"))?;
    match shard.state {
        ShardState::Serving => Ok(shard),
        ShardState::Retired => Err(format!("shard {id} was split; its halves have taken over")),
        _ => Err(format!("shard {id} is being split; wait until its halves serve")),
    }
}

fn check_taker(node: NodeId, situation: &Situation) -> Result<(), String> {
    match situation.nodes.get(&node) {
        Some(known) if known.may_take => Ok(()),
        Some(_) => Err(format!("node {node} takes no replicas: it must be up, and have the role index")),
        None => Err(format!("there is no node {node}")),
    }
}

fn check_free(shard: &ShardEntry, node: NodeId) -> Result<(), String> {
    match shard.replica(node) {
        Some(_) => Err(format!("node {node} has a replica of shard {} already", shard.id)),
        None => Ok(()),
    }
}

fn add_replica(
    map: &mut ShardMap,
    id: ShardId,
    node: Option<NodeId>,
    situation: &Situation,
) -> Result<(), String> {
    let copies = map.copies;
    let shard = serving(map, id)?;
    if let Some(node) = node {
        check_taker(node, situation)?;
        check_free(shard, node)?;
        shard.replicas.push(ReplicaEntry { node, state: ReplicaState::Joining });
    }
    let takers = situation.nodes.values().filter(|node| node.may_take).count();
    if (copies + shard.extra) as usize >= takers {
        shard.replicas.retain(|replica| Some(replica.node) != node);
        return Err(format!("shard {id} has a replica on every node already: add a node first"));
    }
    shard.extra += 1;
    Ok(())
}

fn split(map: &mut ShardMap, id: ShardId, situation: &Situation) -> Result<(), String> {
    let (first, second) = (ShardId(map.next), ShardId(map.next + 1));
    let shard = serving(map, id)?;
    if shard.from == shard.to {
        return Err(format!("shard {id} has room for a single page"));
    }
    let can_divide = |replica: &&ReplicaEntry| {
        let may_take = situation.nodes.get(&replica.node).is_some_and(|node| node.may_take);
        replica.state == ReplicaState::Serving && may_take
    };
    let replicas: Vec<ReplicaEntry> = shard
        .replicas
        .iter()
        .filter(can_divide)
        .map(|replica| ReplicaEntry { node: replica.node, state: ReplicaState::Joining })
        .collect();
    if replicas.is_empty() {
        return Err(format!("shard {id} has no replica that serves: wait until one does"));
    }
    let last = shard.from + (shard.to - shard.from) / 2;
    let half = |half, from, to| ShardEntry {
        id: half,
        from,
        to,
        state: ShardState::Forming { parent: id },
        replicas: replicas.clone(),
        extra: shard.extra,
        keeper: None,
        born_of: Some(id),
    };
    let halves = [half(first, shard.from, last), half(second, last + 1, shard.to)];
    shard.state = ShardState::Splitting { into: [first, second], closed: None };
    map.shards.extend(halves);
    map.next += 2;
    Ok(())
}
