//! `/api/v1/ring`: the cache service of the cluster.

use super::{finite, instant};
use crate::admin::access::Admin;
use crate::admin::ring::of;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::{RingBurst, RingChange, RingHot, RingMember, RingStatus};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct RingWire {
    term: u64,
    version: u64,
    hot_version: u64,
    told: Option<String>,
    fronts: u64,
    efficiency: f64,
    hit_rate: f64,
    nodes: Vec<RingMemberWire>,
    hot: Vec<RingHotWire>,
    bursts: Vec<RingBurstWire>,
    changes: Vec<RingChangeWire>,
}

#[derive(Serialize)]
struct RingMemberWire {
    no: u16,
    name: String,
    on_ring: bool,
    asked: Option<bool>,
    share: f64,
    end: f64,
    per_second: f64,
    hit_rate: f64,
    lookups: u64,
    hits: u64,
    adopted: u64,
    inserts: u64,
    protects: u64,
    handed: u64,
    entries: u64,
    bytes: u64,
    busy: f64,
    silent_seconds: f64,
}

#[derive(Serialize)]
struct RingHotWire {
    text: String,
    nodes: u64,
    count: u64,
    severity: u8,
}

#[derive(Serialize)]
struct RingBurstWire {
    at: String,
    text: String,
    severity: u8,
}

#[derive(Serialize)]
struct RingChangeWire {
    at: String,
    version: u64,
    joined: Vec<String>,
    left: Vec<String>,
    moved: f64,
}

pub(crate) async fn ring(_: Admin, State(shared): State<Arc<Shared>>) -> Result<Json<RingWire>, Failure> {
    Ok(Json(wire(of(&shared).await?)))
}

/// The service as `/api/v1/ring` tells it, for commands that do without a front.
pub fn ring_json(ring: RingStatus) -> serde_json::Value {
    serde_json::to_value(wire(ring)).unwrap_or_default()
}

fn wire(ring: RingStatus) -> RingWire {
    RingWire {
        term: ring.term,
        version: ring.version,
        hot_version: ring.hot_version,
        told: ring.told.map(instant),
        fronts: ring.fronts,
        efficiency: finite(ring.efficiency),
        hit_rate: finite(ring.hit_rate),
        nodes: ring.nodes.into_iter().map(member).collect(),
        hot: ring.hot.into_iter().map(hot).collect(),
        bursts: ring.bursts.into_iter().map(burst).collect(),
        changes: ring.changes.into_iter().map(change).collect(),
    }
}

fn member(node: RingMember) -> RingMemberWire {
    RingMemberWire {
        no: node.no,
        name: node.name,
        on_ring: node.is_on_ring,
        asked: node.is_asked,
        share: finite(node.share),
        end: finite(node.end),
        per_second: finite(node.per_second),
        hit_rate: finite(node.hit_rate),
        lookups: node.lookups,
        hits: node.hits,
        adopted: node.adopted,
        inserts: node.inserts,
        protects: node.protects,
        handed: node.handed,
        entries: node.entries,
        bytes: node.bytes,
        busy: finite(node.busy),
        silent_seconds: node.silent.as_secs_f64(),
    }
}

fn hot(hot: RingHot) -> RingHotWire {
    RingHotWire { text: hot.text, nodes: hot.nodes, count: hot.count, severity: hot.severity }
}

fn burst(burst: RingBurst) -> RingBurstWire {
    RingBurstWire { at: instant(burst.at), text: burst.text, severity: burst.severity }
}

fn change(change: RingChange) -> RingChangeWire {
    RingChangeWire {
        at: instant(change.at),
        version: change.version,
        joined: change.joined,
        left: change.left,
        moved: finite(change.moved),
    }
}
