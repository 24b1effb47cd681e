//! `/api/v1/cluster`, and the lever for its nodes.

use super::commands::{Body, Done, DoneWire};
use super::finite;
use super::plan::{self, PlanWire};
use crate::admin::access::Admin;
use crate::admin::cluster::{carry_out, node_id, of};
use crate::failure::Failure;
use crate::shared::Shared;
use crate::{ClusterAgent, ClusterNode, ClusterOrder, ClusterReplica, ClusterShard, ClusterStatus};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[derive(Serialize)]
pub(crate) struct ClusterWire {
    name: String,
    me: String,
    leader: Option<LeaderWire>,
    nodes: Vec<NodeWire>,
    shards: Vec<ShardWire>,
    agents: Vec<AgentWire>,
    route: Option<RouteWire>,
    plan: Option<PlanWire>,
    logs: Vec<LogWire>,
    servers: Vec<ServerWire>,
    sync_always: Option<bool>,
    warnings: Vec<WarningWire>,
    tables: Vec<TableWire>,
}

#[derive(Serialize)]
struct LeaderWire {
    node: String,
    term: u64,
}

#[derive(Serialize)]
struct NodeWire {
    id: String,
    no: Option<u16>,
    name: String,
    state: &'static str,
    roles: Vec<String>,
    zone: String,
    address: Option<String>,
    version: String,
    wire_least: u16,
    wire_greatest: u16,
    silent_seconds: f64,
    load: f64,
    free_bytes: Option<u64>,
    trouble: Vec<String>,
}

#[derive(Serialize)]
struct ShardWire {
    id: u32,
    share: f64,
    state: &'static str,
    pages: u64,
    replicas: Vec<ReplicaWire>,
    keeper: Option<String>,
    snapshot_age_seconds: Option<f64>,
}

#[derive(Serialize)]
struct ReplicaWire {
    node: String,
    state: &'static str,
    lag_seconds: f64,
    mark: u64,
    pages: u64,
}

#[derive(Serialize)]
struct AgentWire {
    node: String,
    place: String,
    position: Option<(f64, f64)>,
    capacity: u32,
    planned_pages: u64,
    balance: Option<f64>,
    hosts: u64,
    pages: u64,
    pages_minute: u64,
    urls_sent: u64,
    urls_received: u64,
    outbox_bytes: u64,
    hosts_leaving: u64,
    hosts_coming: u64,
    epoch: u64,
    released: u64,
}

#[derive(Serialize)]
struct RouteWire {
    epoch: u64,
    settled: bool,
    why: String,
}

#[derive(Serialize)]
struct LogWire {
    name: String,
    messages: u64,
    bytes: u64,
    bytes_max: u64,
}

#[derive(Serialize)]
struct ServerWire {
    name: String,
    address: String,
    version: String,
    reached: bool,
}

#[derive(Serialize)]
struct WarningWire {
    text: String,
    advice: String,
}

#[derive(Serialize)]
struct TableWire {
    name: String,
    version: u64,
}

pub(crate) async fn cluster(
    _: Admin,
    State(shared): State<Arc<Shared>>,
) -> Result<Json<ClusterWire>, Failure> {
    Ok(Json(wire(of(&shared).await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeIdWire {
    node: String,
}

pub(crate) async fn drain(_: Admin, State(shared): State<Arc<Shared>>, Body(body): Body<NodeIdWire>) -> Done {
    let order = ClusterOrder::Drain(node_id(&body.node)?);
    Ok(Json(DoneWire { done: carry_out(&shared, order).await?? }))
}

/// A cluster as `/api/v1/cluster` tells it, for commands that do without a front.
pub fn cluster_json(cluster: ClusterStatus) -> serde_json::Value {
    serde_json::to_value(wire(cluster)).unwrap_or_default()
}

fn wire(cluster: ClusterStatus) -> ClusterWire {
    let log = |log: crate::ClusterLog| LogWire {
        name: log.name,
        messages: log.messages,
        bytes: log.bytes,
        bytes_max: log.bytes_max,
    };
    let server = |server: crate::FabricServer| ServerWire {
        name: server.name,
        address: server.address,
        version: server.version,
        reached: server.is_reached,
    };
    ClusterWire {
        name: cluster.name,
        me: cluster.me,
        leader: cluster.leader.map(|leader| LeaderWire { node: leader.node, term: leader.term }),
        nodes: cluster.nodes.into_iter().map(node).collect(),
        shards: cluster.shards.into_iter().map(shard).collect(),
        agents: cluster.agents.into_iter().map(agent).collect(),
        route: cluster.route.map(|route| RouteWire {
            epoch: route.epoch,
            settled: route.is_settled,
            why: route.why,
        }),
        plan: cluster.plan.map(plan::wire),
        logs: cluster.logs.into_iter().map(log).collect(),
        servers: cluster.servers.into_iter().map(server).collect(),
        sync_always: cluster.sync_always,
        warnings: cluster
            .warnings
            .into_iter()
            .map(|warning| WarningWire { text: warning.text, advice: warning.advice })
            .collect(),
        tables: cluster.maps.into_iter().map(|(name, version)| TableWire { name, version }).collect(),
    }
}

fn node(node: ClusterNode) -> NodeWire {
    NodeWire {
        id: node.id,
        no: node.no,
        name: node.name,
        state: node.state.code(),
        roles: node.roles,
        zone: node.zone,
        address: node.address.map(|address| address.to_string()),
        version: node.version,
        wire_least: node.wire.0,
        wire_greatest: node.wire.1,
        silent_seconds: node.age.as_secs_f64(),
        load: finite(node.load),
        free_bytes: node.free_bytes,
        trouble: node.trouble,
    }
}

fn agent(agent: ClusterAgent) -> AgentWire {
    AgentWire {
        node: agent.node,
        place: agent.place,
        position: agent.position,
        capacity: agent.capacity,
        planned_pages: agent.planned_pages,
        balance: agent.balance.map(finite),
        hosts: agent.hosts,
        pages: agent.pages,
        pages_minute: agent.pages_minute,
        urls_sent: agent.urls_sent,
        urls_received: agent.urls_received,
        outbox_bytes: agent.outbox,
        hosts_leaving: agent.hosts_leaving,
        hosts_coming: agent.hosts_coming,
        epoch: agent.epoch,
        released: agent.released,
    }
}

fn shard(shard: ClusterShard) -> ShardWire {
    let replica = |replica: ClusterReplica| ReplicaWire {
        node: replica.node,
        state: replica.state.code(),
        lag_seconds: replica.lag.as_secs_f64(),
        mark: replica.mark,
        pages: replica.pages,
    };
    ShardWire {
        id: shard.id,
        share: finite(shard.share),
        state: shard.state.code(),
        pages: shard.pages,
        replicas: shard.replicas.into_iter().map(replica).collect(),
        keeper: shard.keeper,
        snapshot_age_seconds: shard.snapshot_age.as_ref().map(Duration::as_secs_f64),
    }
}
