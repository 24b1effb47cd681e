//! The cluster as whoever asks it sees it: which shards there are, who serves them, and where.

use crate::broker::table::{ServedShard, ServingTable, TableSource};
use crate::handles::cluster::{ClusterHandle, ClusterView};
use crate::wire::WIRE;
use farol_base::sync::Mutex;
use farol_cluster::record::Role;
use farol_cluster::{NodeRecord, version};
use farol_query::scatter::{ReplicaNo, ShardNo};
use farol_rpc::Peer;
use std::sync::Arc;
use std::time::Duration;

/// A replica that knows of a gap is asked last.
const LAG_UNKNOWN: Duration = Duration::from_secs(3600);

/// Gives the table as it stands now; the same one while nothing in it changes.
pub fn source(cluster: Arc<ClusterHandle>) -> TableSource {
    let known: Mutex<(Option<Arc<ClusterView>>, Arc<ServingTable>)> = Mutex::default();
    Arc::new(move || {
        let view = cluster.view();
        let mut known = known.lock();
        if known.0.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &view)) {
            let table = table_of(&view);
            if *known.1 != table {
                known.1 = Arc::new(table);
            }
            known.0 = Some(view);
        }
        known.1.clone()
    })
}

/// What the newest tables say.
fn table_of(view: &ClusterView) -> ServingTable {
    let Some(map) = &view.shards else { return ServingTable::default() };
    let there = || view.nodes.values().filter(|node| !node.state.is_gone());
    let shards = map
        .read()
        .map(|entry| {
            let mut shard = ServedShard {
                id: ShardNo(entry.id.0),
                pages: entry.from..=entry.to,
                replicas: Vec::new(),
                documents: 0,
                bytes: 0,
            };
            for node in entry.asked().filter_map(|id| there().find(|node| node.id == id)) {
                let (Some(no), Some(report)) = (number(node), node.report.replicas.get(&entry.id)) else {
                    continue;
                };
                shard.replicas.push((no, report.lag_ms.map_or(LAG_UNKNOWN, Duration::from_millis)));
                shard.documents = shard.documents.max(report.documents);
                shard.bytes = shard.bytes.max(report.bytes);
            }
            shard
        })
        .collect();
    ServingTable {
        map: map.version,
        state: view.state.as_ref().map_or(0, |state| state.version),
        shards,
        peers: there().filter_map(|node| Some((number(node)?, peer(node)?))).collect(),
        agents: there().filter(|node| node.roles.contains(&Role::Crawl)).filter_map(number).collect(),
    }
}

fn number(node: &NodeRecord) -> Option<ReplicaNo> {
    node.no.map(|no| ReplicaNo(u32::from(no.0)))
}

/// How a node is called; `None` where it speaks no version that this one does.
pub fn peer(node: &NodeRecord) -> Option<Peer> {
    let wire = version::common(WIRE, node.wire)?;
    Some(Peer { node: node.id.to_string(), address: node.rpc, wire })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_cluster::record::ReplicaReport;
    use farol_cluster::{NodeId, NodeNo, NodeState, ReplicaEntry, ReplicaState, ShardId, ShardMap};

    #[test]
    fn who_serves_and_is_there_is_asked() {
        let node = |id: u64, state| {
            let mut node = NodeRecord::new(NodeId(id), "n", format!("127.0.0.1:{id}").parse().unwrap());
            (node.no, node.state) = (Some(NodeNo(id as u16)), state);
            node.report.replicas.insert(ShardId(0), ReplicaReport { documents: id, ..Default::default() });
            node
        };
        let mut foreign = node(4, NodeState::Up);
        foreign.wire = (7, 9);
        let nodes = [node(1, NodeState::Up), node(2, NodeState::Dead), node(3, NodeState::Up), foreign];
        let mut map = ShardMap::new(2, 3);
        let replica = |id, state| ReplicaEntry { node: NodeId(id), state };
        map.shards[0].replicas = vec![
            replica(1, ReplicaState::Leaving),
            replica(2, ReplicaState::Serving),
            replica(3, ReplicaState::Joining),
        ];
        let mut view = ClusterView::new(NodeId(1));
        assert_eq!(table_of(&view), ServingTable::default());
        view.nodes = nodes.iter().map(|node| (node.id, node.clone())).collect();
        view.shards = Some(Arc::new(map));
        let table = table_of(&view);
        assert_eq!(table.shards.len(), 2);
        assert_eq!(table.shards[0].replicas, [(ReplicaNo(1), LAG_UNKNOWN)]);
        assert_eq!(table.shards[0].documents, 1);
        assert_eq!(table.shards[1].replicas, []);
        assert_eq!(table.peers.keys().copied().collect::<Vec<_>>(), [ReplicaNo(1), ReplicaNo(3)]);
    }
}
