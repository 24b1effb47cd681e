//! A made-up cluster: four nodes of which one has died, three shards of which one is answered by nobody.

use super::HOSTILE_TITLE;
use crate::{
    ClusterAgent, ClusterLeader, ClusterLog, ClusterNode, ClusterReplica, ClusterRoute, ClusterShard,
    ClusterStatus, ClusterWarning, FabricServer, NodeState, ReplicaState, ShardState,
};
use std::time::Duration;

const GB: u64 = 1_000_000_000;

/// The cluster as its node `quartzo` sees it.
pub(super) fn cluster() -> ClusterStatus {
    ClusterStatus {
        name: "litoral".into(),
        me: "n4d2k7".into(),
        leader: Some(ClusterLeader { node: "b6c1m9".into(), term: 1_204 }),
        nodes: nodes(),
        shards: shards(),
        agents: vec![ClusterAgent {
            node: "b6c1m9".into(),
            place: "pt".into(),
            hosts: 4_210,
            pages: 1_880_402,
            pages_minute: 611,
            urls_sent: 90_211,
            urls_received: 71_003,
            outbox: 1_204_118,
            hosts_leaving: 3,
            hosts_coming: 0,
            epoch: 7,
            released: 6,
        }],
        route: Some(ClusterRoute { epoch: 7, is_settled: false, why: "agent 3 is to leave".into() }),
        logs: vec![
            ClusterLog { name: "docs.0".into(), messages: 18_221, bytes: 3 * GB, bytes_max: 4 * GB },
            ClusterLog { name: "docs.1".into(), messages: 902, bytes: 41_022_118, bytes_max: 4 * GB },
            ClusterLog { name: "docs.2".into(), messages: 30_115, bytes: 4 * GB - 1, bytes_max: 4 * GB },
            ClusterLog { name: "links".into(), messages: 7, bytes: 88_310, bytes_max: 4 * GB },
        ],
        servers: ["n1", "n2", "n3"]
            .into_iter()
            .zip(1..)
            .map(|(name, last)| FabricServer {
                name: name.into(),
                address: format!("192.0.2.{last}:4222"),
                version: if last == 3 { String::new() } else { "2.10.27".into() },
                is_reached: last != 3,
            })
            .collect(),
        sync_always: Some(false),
        warnings: vec![
            ClusterWarning {
                text: "No replica answers for shard 2; a third of the pages is not found.".into(),
                advice:
                    "Start turmalina again, or have another node take the shard: `farol cluster rebalance`."
                        .into(),
            },
            ClusterWarning {
                text: format!("The log docs.2 is full {HOSTILE_TITLE}"),
                advice: "It empties once a replica of shard 2 has read it.".into(),
            },
        ],
        maps: vec![("shards".into(), 17), ("ranks".into(), 4)],
    }
}

fn nodes() -> Vec<ClusterNode> {
    let node = |id: &str, no, name: &str, state, roles: &str, secs, load| ClusterNode {
        id: id.into(),
        no: Some(no),
        name: name.into(),
        state,
        roles: roles.split(' ').map(String::from).collect(),
        zone: ["norte", "sul"][usize::from(no % 2)].into(),
        address: format!("192.0.2.{}:7070", 10 + no).parse().ok(),
        version: env!("CARGO_PKG_VERSION").into(),
        wire: (1, 1),
        age: Duration::from_secs(secs),
        load,
        free_bytes: Some(u64::from(no) * 71 * GB),
        trouble: Vec::new(),
    };
    vec![
        node("b6c1m9", 1, "granito", NodeState::Up, "crawl control rank", 2, 0.71),
        ClusterNode {
            trouble: vec!["12 GB left on /data: <b>crawling</b> waits below 10 GB.".into()],
            ..node("n4d2k7", 2, "quartzo", NodeState::Up, "index front", 0, 0.32)
        },
        node("k0p3x5", 3, "basalto", NodeState::Draining, "index", 4, 0.18),
        node("z9q8r7", 4, "turmalina", NodeState::Dead, "index front", 5_400, 0.0),
        node("a1s2d3", 5, "ardósia", NodeState::Joining, "index", 1, 0.94),
    ]
}

fn shards() -> Vec<ClusterShard> {
    let replica = |node: &str, state, millis, pages| ClusterReplica {
        node: node.into(),
        state,
        lag: Duration::from_millis(millis),
        mark: pages / 9,
        pages,
    };
    let shard = |id, share, pages, replicas, snapshot_secs: u64| ClusterShard {
        id,
        share,
        state: ShardState::Serving,
        pages,
        replicas,
        keeper: Some("n4d2k7".into()),
        snapshot_age: Some(Duration::from_secs(snapshot_secs)),
    };
    vec![
        ClusterShard {
            state: ShardState::Splitting,
            ..shard(
                0,
                0.3402,
                56_410,
                vec![
                    replica("n4d2k7", ReplicaState::Serving, 400, 56_410),
                    replica("k0p3x5", ReplicaState::Leaving, 12_000, 56_101),
                    replica("a1s2d3", ReplicaState::Joining, 341_000, 20_118),
                ],
                312,
            )
        },
        shard(
            1,
            0.3301,
            55_902,
            vec![
                replica("n4d2k7", ReplicaState::Serving, 900, 55_902),
                replica("k0p3x5", ReplicaState::Serving, 2_300, 55_890),
            ],
            64,
        ),
        ClusterShard {
            keeper: None,
            snapshot_age: None,
            ..shard(2, 0.3297, 55_928, vec![replica("z9q8r7", ReplicaState::Leaving, 5_400_000, 55_928)], 0)
        },
    ]
}
