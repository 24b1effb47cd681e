//! What operators want done with the cluster. Anybody may place an order; the leader takes each exactly once.
//!
//! An order is a key of its own. The leader writes its effect and its id into the shard map in one step, and then
//! deletes the key; where the deletion gets lost, the id in the map says that it was taken. The map also says why an
//! order was refused.

use crate::record::{RECORD_VERSION, write};
use crate::{Key, NodeId, Revision, ShardId, Write};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Name of an order: random, so that nobody has to ask which are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

impl OrderId {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<OrderId> {
        NodeId::parse(text).map(|id| OrderId(id.0))
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NodeId(self.0).fmt(f)
    }
}

impl Serialize for OrderId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OrderId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrderId, D::Error> {
        let text = String::deserialize(deserializer)?;
        OrderId::parse(&text).ok_or_else(|| de::Error::custom(format!("{text:?} is no id of an order")))
    }
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A node gives its work away and leaves.
    Drain { node: NodeId },
    /// A node that is lost for good: its replicas are given up, also those that nobody else has.
    Remove { node: NodeId },
    /// A replica goes from one node to another.
    Move { shard: ShardId, from: NodeId, to: NodeId },
    /// One more replica, on this node or wherever is best.
    AddReplica { shard: ShardId, node: Option<NodeId> },
    /// A shard becomes two.
    Split { shard: ShardId },
    /// Replicas are spread anew over all nodes.
    Rebalance,
    /// Every shard gets so many replicas.
    Replicas { copies: u32 },
}

/// The value of an order's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    pub v: u16,
    pub order: Order,
}

/// An order that the leader has taken, as the shard map remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOrder {
    pub id: OrderId,
    /// Why nothing was done, a sentence; `None` where it was.
    pub refused: Option<String>,
}

/// The write that places an order. Whether it was taken is in [`ShardMap::taken`](crate::ShardMap::taken).
pub fn place(id: OrderId, order: Order) -> Write {
    let value = write(&OrderRecord { v: RECORD_VERSION, order });
    Write { key: Key::Order(id).to_string(), value: Some(value), expected: Revision::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::read;

    #[test]
    fn orders_are_read_as_they_were_placed() {
        let (node, shard) = (NodeId(5), ShardId(2));
        let orders = [
            (Order::Drain { node }, r#"{"drain":{"node":"000000000000a"}}"#),
            (Order::Remove { node }, r#"{"remove":{"node":"000000000000a"}}"#),
            (
                Order::Move { shard, from: node, to: NodeId(0) },
                r#"{"move":{"shard":2,"from":"000000000000a","to":"0000000000000"}}"#,
            ),
            (Order::AddReplica { shard, node: None }, r#"{"add-replica":{"shard":2,"node":null}}"#),
            (Order::Split { shard }, r#"{"split":{"shard":2}}"#),
            (Order::Rebalance, r#""rebalance""#),
            (Order::Replicas { copies: 3 }, r#"{"replicas":{"copies":3}}"#),
        ];
        for (order, json) in orders {
            assert_eq!(serde_json::to_string(&order).unwrap(), json);
            let placed = place(OrderId(9), order.clone());
            assert_eq!(placed.expected, Revision::NONE);
            let record: OrderRecord = read(&placed.key, placed.value.as_deref().unwrap()).unwrap();
            assert_eq!(record.order, order);
        }
    }
}
