//! What the planner of the routing table says, as `/api/v1/cluster` tells it; and the lever to have it plan now.

use super::commands::{Body, Done, DoneWire, Nothing};
use super::finite;
use crate::admin::access::Admin;
use crate::admin::cluster::carry_out;
use crate::shared::Shared;
use crate::{ClusterOrder, ClusterPlan, LastPlan, PlanGain, PlanOutcome};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
pub(super) struct PlanWire {
    last: Option<LastPlanWire>,
    hosts: u64,
    pages: u64,
    links: u64,
    addresses: u64,
    round_trips: Vec<RttSourceWire>,
    refused: Vec<RefusedAgentWire>,
    outcomes: Vec<OutcomeWire>,
    epochs: Vec<EpochWire>,
    places: Vec<PlaceWire>,
    trouble: String,
}

#[derive(Serialize)]
struct LastPlanWire {
    number: u64,
    at: String,
    trigger: String,
    published: bool,
    why: String,
    expected: GainWire,
    moves: Vec<MoveWire>,
    took_seconds: f64,
}

#[derive(Serialize)]
struct GainWire {
    exchange_before: f64,
    exchange_after: f64,
    rtt_before_ms: Option<f64>,
    rtt_after_ms: Option<f64>,
    pages: u64,
    pages_moved: u64,
    load_before: f64,
    load_after: f64,
}

#[derive(Serialize)]
struct MoveWire {
    from: Option<String>,
    to: String,
    pages: u64,
}

#[derive(Serialize)]
struct RttSourceWire {
    source: String,
    pairs: u64,
}

#[derive(Serialize)]
struct RefusedAgentWire {
    agent: String,
    why: String,
    count: u64,
}

#[derive(Serialize)]
struct OutcomeWire {
    version: u64,
    at: String,
    expected: GainWire,
    links: u64,
    forwarded: u64,
    exchange_measured: Option<f64>,
}

#[derive(Serialize)]
struct EpochWire {
    epoch: u64,
    at: String,
    why: String,
}

#[derive(Serialize)]
struct PlaceWire {
    node: String,
    north: f64,
    east: f64,
    pages: u64,
}

fn gain(gain: &PlanGain) -> GainWire {
    GainWire {
        exchange_before: finite(gain.exchange_before),
        exchange_after: finite(gain.exchange_after),
        rtt_before_ms: gain.rtt_before.map(finite),
        rtt_after_ms: gain.rtt_after.map(finite),
        pages: gain.pages,
        pages_moved: gain.pages_moved,
        load_before: finite(gain.load_before),
        load_after: finite(gain.load_after),
    }
}

pub(super) fn wire(plan: ClusterPlan) -> PlanWire {
    let last = |last: LastPlan| LastPlanWire {
        number: last.number,
        at: last.at.to_string(),
        trigger: last.trigger,
        published: last.is_published,
        why: last.why,
        expected: gain(&last.gain),
        moves: last.moves.into_iter().map(|(from, to, pages)| MoveWire { from, to, pages }).collect(),
        took_seconds: last.took.as_secs_f64(),
    };
    let outcome = |one: PlanOutcome| OutcomeWire {
        version: one.version,
        at: one.at.to_string(),
        expected: gain(&one.expected),
        exchange_measured: one.measured().map(finite),
        links: one.links,
        forwarded: one.forwarded,
    };
    let refused = |(agent, why, count)| RefusedAgentWire { agent, why, count };
    PlanWire {
        last: plan.last.map(last),
        hosts: plan.hosts,
        pages: plan.pages,
        links: plan.links,
        addresses: plan.addresses,
        round_trips: plan.times.into_iter().map(|(source, pairs)| RttSourceWire { source, pairs }).collect(),
        refused: plan.refused.into_iter().map(refused).collect(),
        outcomes: plan.outcomes.into_iter().map(outcome).collect(),
        epochs: plan
            .epochs
            .into_iter()
            .map(|past| EpochWire { epoch: past.epoch, at: past.at.to_string(), why: past.why })
            .collect(),
        places: plan
            .cells
            .into_iter()
            .map(|cell| PlaceWire { node: cell.node, north: cell.north, east: cell.east, pages: cell.pages })
            .collect(),
        trouble: plan.trouble,
    }
}

pub(crate) async fn replan(_: Admin, State(shared): State<Arc<Shared>>, _: Body<Nothing>) -> Done {
    Ok(Json(DoneWire { done: carry_out(&shared, ClusterOrder::Replan).await?? }))
}
