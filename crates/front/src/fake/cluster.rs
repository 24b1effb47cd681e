//! A made-up cluster: four nodes of which one has died, three shards of which one is answered by nobody.

use super::HOSTILE_TITLE;
use crate::{
    ClusterAgent, ClusterLeader, ClusterLog, ClusterNode, ClusterPlan, ClusterReplica, ClusterRoute,
    ClusterShard, ClusterStatus, ClusterWarning, FabricServer, LastPlan, NodeState, PlanCell, PlanEpoch,
    PlanGain, PlanOutcome, ReplicaState, ShardState,
};
use farol_base::Timestamp;
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
            position: Some((38.72, -9.14)),
            capacity: 100,
            planned_pages: 1_902_000,
            balance: Some(1.04),
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
        plan: Some(plan()),
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

fn plan() -> ClusterPlan {
    let at = |hours: u64| Timestamp::from_secs(1_790_000_000 + 3600 * hours);
    let gain = PlanGain {
        exchange_before: 0.742,
        exchange_after: 0.183,
        rtt_before: Some(81.4),
        rtt_after: Some(40.2),
        pages: 1_902_000,
        pages_moved: 1_204_118,
        load_before: 1.31,
        load_after: 1.04,
    };
    let epoch = |epoch, why: &str| PlanEpoch { epoch, at: at(epoch), why: why.to_string() };
    ClusterPlan {
        last: Some(LastPlan {
            number: 4,
            at: at(6),
            trigger: "the crawl has grown by 24 %".into(),
            is_published: true,
            why: "what it saves pays for what it moves".into(),
            gain,
            moves: vec![(None, "b6c1m9".into(), 4_118), (Some("n4d2k7".into()), "b6c1m9".into(), 1_200_000)],
            took: Duration::from_millis(840),
        }),
        hosts: 4_302,
        pages: 1_902_000,
        links: 88_104,
        addresses: 1_204,
        times: vec![("measured".into(), 1_004), ("unknown".into(), 200)],
        refused: vec![("quartzo".into(), "the host belongs to another agent".into(), 17)],
        outcomes: vec![PlanOutcome {
            version: 6,
            at: at(6),
            expected: gain,
            links: 410_000,
            forwarded: 81_180,
        }],
        epochs: vec![epoch(5, "agent 2 joined"), epoch(6, "it saves"), epoch(7, HOSTILE_TITLE)],
        cells: vec![
            PlanCell { node: "b6c1m9".into(), north: 37.5, east: -7.5, pages: 900_000 },
            PlanCell { node: "n4d2k7".into(), north: -22.5, east: -42.5, pages: 41_000 },
        ],
        trouble: String::new(),
    }
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
