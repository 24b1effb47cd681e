//! Orders of an operator: placed in the tables, taken by the leader, and what came of them.

use super::door::Door;
use anyhow::{Result, bail};
use farol_cluster::order::{Order, OrderId, place};
use farol_cluster::planned::{PlanRecord, PlanWish};
use farol_cluster::record::{RECORD_VERSION, read, write};
use farol_cluster::{Key, NodeRecord, ShardMap};
use farol_fabric::{Fabric, Lost, Revision};
use std::time::{Duration, Instant};

/// A leader takes an order at once; a new one is there after this.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The shard map, as the leader last wrote it.
pub fn shard_map(fabric: &dyn Fabric) -> Result<Option<ShardMap>> {
    let key = Key::Shards.to_string();
    let Some((value, _)) = fabric.get(&key)? else { return Ok(None) };
    Ok(Some(read(&key, &value)?))
}

/// What the planner of the routing table told last.
pub fn plan_record(fabric: &dyn Fabric) -> Result<Option<PlanRecord>> {
    let key = Key::Plan.to_string();
    let Some((value, _)) = fabric.get(&key)? else { return Ok(None) };
    Ok(Some(read(&key, &value)?))
}

/// Wishes for a plan now; answers what the planner calls this wish.
pub fn wish_for_plan(fabric: &dyn Fabric) -> Result<u64> {
    let random = getrandom::u64().map_err(|_| anyhow::anyhow!("the system has no random numbers"))?;
    // JSON readers elsewhere keep 53 bits.
    let wish = PlanWish { v: RECORD_VERSION, nonce: (random >> 11).max(1) };
    let key = Key::PlanWish.to_string();
    let expected = fabric.get(&key)?.map_or(Revision::NONE, |(_, revision)| revision);
    match fabric.set(&key, &write(&wish), expected) {
        Ok(_) => Ok(wish.nonce),
        Err(Lost::Conflict) => {
            bail!("somebody else ordered a plan at the same moment; look at `farol cluster agents`")
        }
        Err(Lost::Unknown(why)) => {
            bail!("nobody knows whether the plan was ordered ({why}); look at `farol cluster agents`")
        }
    }
}

/// Places an order and waits until the leader has taken it; an error says why it was refused.
pub fn give(door: &Door, order: Order) -> Result<()> {
    let id = OrderId(getrandom::u64().map_err(|_| anyhow::anyhow!("the system has no random numbers"))?);
    place_order(&*door.fabric, id, order)?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let taken = shard_map(&*door.fabric)?.and_then(|map| map.taken(id).cloned());
        match taken {
            Some(taken) => match taken.refused {
                Some(why) => bail!("the leader refused: {}", with_names(why, &door.nodes()?)),
                None => return Ok(()),
            },
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
    bail!("nobody has taken the order: there is no leader now; it is taken as soon as there is one")
}

/// The leader names nodes by their ids, people by their names.
fn with_names(sentence: String, nodes: &[NodeRecord]) -> String {
    nodes.iter().fold(sentence, |text, node| text.replace(&format!("node {}", node.id), &node.name))
}

/// Places an order, whatever becomes of it.
pub fn place_order(fabric: &dyn Fabric, id: OrderId, order: Order) -> Result<()> {
    let write = place(id, order);
    let value = write.value.unwrap_or_default();
    match fabric.set(&write.key, &value, Revision::NONE) {
        // Its id is random: whoever has it already is this order.
        Ok(_) | Err(Lost::Conflict) => Ok(()),
        Err(Lost::Unknown(why)) => {
            bail!("nobody knows whether the order was placed ({why}); look at `farol cluster status`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_cluster::NodeId;

    #[test]
    fn people_read_names() {
        let node = NodeRecord::new(NodeId(7), "node-2", "127.0.0.1:1".parse().unwrap());
        let said = format!("node {} is alive", NodeId(7));
        assert_eq!(with_names(said, &[node]), "node-2 is alive");
    }
}
