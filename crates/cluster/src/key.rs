//! Names of the values that nodes share.

use crate::order::OrderId;
use crate::{NodeId, NodeNo, ShardId};
use std::fmt;

/// A key of the shared tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What the cluster is; written once, when it is made.
    Cluster,
    /// The leader's lease.
    Leader,
    /// A node's record; written by the node, and by the leader only to bury it.
    Node(NodeId),
    /// Which number each node has; the leader's.
    Numbers,
    /// The shard map; the leader's.
    Shards,
    /// Who crawls what; the leader's.
    Route,
    /// What the last plan of the routing table was, and what is known; the leader's.
    Plan,
    /// Somebody wants a plan now; written by anybody.
    PlanWish,
    /// Who ranks, and which ranks are the newest; the leader's.
    Ranks,
    /// Which cache node owns what; the leader's.
    Ring,
    /// Which questions several cache nodes answer; the leader's.
    Hot,
    /// How the cache service fares, for people; the leader's.
    Caches,
    /// Grows when answers may have changed; the leader's.
    State,
    /// The newest snapshot of a shard; its keeper's.
    Snapshot(ShardId),
    /// The newest backup of an agent; the agent's.
    Backup(NodeNo),
    /// Who brings a dead agent's backup to its heirs; the leader's, until the one who was named says that it is done.
    Undertake(NodeNo),
    /// What an operator wants done; written by anybody, deleted by the leader once it is taken.
    Order(OrderId),
}

impl Key {
    /// Reads what [`fmt::Display`] writes; `None` for keys of other versions.
    pub fn parse(key: &str) -> Option<Key> {
        let number = |text: &str| text.parse().ok().filter(|number: &u32| number.to_string() == text);
        let no = |text: &str| number(text).and_then(|number| u16::try_from(number).ok()).map(NodeNo);
        match key {
            "cluster" => Some(Key::Cluster),
            "leader" => Some(Key::Leader),
            "table.numbers" => Some(Key::Numbers),
            "table.shards" => Some(Key::Shards),
            "table.route" => Some(Key::Route),
            "table.plan" => Some(Key::Plan),
            "plan.wish" => Some(Key::PlanWish),
            "table.ranks" => Some(Key::Ranks),
            "table.ring" => Some(Key::Ring),
            "table.hot" => Some(Key::Hot),
            "table.caches" => Some(Key::Caches),
            "state" => Some(Key::State),
            _ => match key.split_once('.')? {
                ("node", id) => NodeId::parse(id).map(Key::Node),
                ("snap", shard) => number(shard).map(ShardId).map(Key::Snapshot),
                ("back", agent) => no(agent).map(Key::Backup),
                ("undertake", agent) => no(agent).map(Key::Undertake),
                ("order", id) => OrderId::parse(id).map(Key::Order),
                _ => None,
            },
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Cluster => f.write_str("cluster"),
            Key::Leader => f.write_str("leader"),
            Key::Node(id) => write!(f, "node.{id}"),
            Key::Numbers => f.write_str("table.numbers"),
            Key::Shards => f.write_str("table.shards"),
            Key::Route => f.write_str("table.route"),
            Key::Plan => f.write_str("table.plan"),
            Key::PlanWish => f.write_str("plan.wish"),
            Key::Ranks => f.write_str("table.ranks"),
            Key::Ring => f.write_str("table.ring"),
            Key::Hot => f.write_str("table.hot"),
            Key::Caches => f.write_str("table.caches"),
            Key::State => f.write_str("state"),
            Key::Snapshot(shard) => write!(f, "snap.{shard}"),
            Key::Backup(no) => write!(f, "back.{no}"),
            Key::Undertake(no) => write!(f, "undertake.{no}"),
            Key::Order(id) => write!(f, "order.{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let keys = [
            (Key::Cluster, "cluster"),
            (Key::Leader, "leader"),
            (Key::Node(NodeId(0)), "node.0000000000000"),
            (Key::Numbers, "table.numbers"),
            (Key::Shards, "table.shards"),
            (Key::Route, "table.route"),
            (Key::Plan, "table.plan"),
            (Key::PlanWish, "plan.wish"),
            (Key::Ranks, "table.ranks"),
            (Key::Ring, "table.ring"),
            (Key::Hot, "table.hot"),
            (Key::Caches, "table.caches"),
            (Key::State, "state"),
            (Key::Snapshot(ShardId(7)), "snap.7"),
            (Key::Backup(NodeNo(3)), "back.3"),
            (Key::Undertake(NodeNo(65_535)), "undertake.65535"),
            (Key::Order(OrderId(0)), "order.0000000000000"),
        ];
        for (key, text) in keys {
            assert_eq!(key.to_string(), text);
            assert_eq!(Key::parse(text), Some(key));
        }
        for other in [
            "",
            "node",
            "node.",
            "node.x",
            "snap.07",
            "snap.-1",
            "table.rout",
            "back.x",
            "back.65536",
            "undertake.",
            "orders",
            "order.A",
        ] {
            assert_eq!(Key::parse(other), None, "{other:?}");
        }
    }
}
