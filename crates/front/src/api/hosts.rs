//! `/api/v1/hosts` and `/api/v1/host`.

use super::{Count, FreshnessWire, counts, freshness, instant};
use crate::admin::access::Admin;
use crate::admin::{commands, hosts as page};
use crate::failure::Failure;
use crate::params::Params;
use crate::shared::Shared;
use crate::{HostDetail, HostRow};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

/// Hosts that a program may ask for at once.
const COUNT_MAX: usize = 500;

#[derive(Serialize)]
pub(crate) struct HostsWire {
    total: usize,
    first: usize,
    hosts: Vec<HostRowWire>,
}

#[derive(Serialize)]
struct HostRowWire {
    host: String,
    state: String,
    pages_fetched: u64,
    queue: u64,
    errors: u64,
    delay_seconds: f64,
    next_visit: Option<String>,
    freshness: Option<FreshnessWire>,
}

pub(crate) async fn hosts(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<Json<HostsWire>, Failure> {
    let first = params.number("first", 0, 0..=page::FIRST_MAX)?;
    let count = params.number("count", 50, 1..=COUNT_MAX)?;
    let (filter, state) = page::conditions(&params);
    let list = shared.ask(move |engine| {
        let state = Some(&*state).filter(|state| !state.is_empty());
        engine.hosts(&filter, state, first, count)
    });
    let list = list.await?;
    let hosts = list.rows.into_iter().take(count).map(row).collect();
    Ok(Json(HostsWire { total: list.total, first, hosts }))
}

fn row(row: HostRow) -> HostRowWire {
    HostRowWire {
        host: row.host.to_string(),
        state: row.state,
        pages_fetched: row.pages_fetched,
        queue: row.queue,
        errors: row.errors,
        delay_seconds: row.delay.as_secs_f64(),
        next_visit: row.next_visit.map(instant),
        freshness: row.freshness.map(freshness),
    }
}

#[derive(Serialize)]
pub(crate) struct HostWire {
    host: String,
    state: String,
    robots_verdict: String,
    robots_fetched: Option<String>,
    robots_rules: String,
    delay_seconds: f64,
    crawl_delay_seconds: Option<f64>,
    address: Option<String>,
    next_visit: Option<String>,
    pages_known: u64,
    pages_fetched: u64,
    pages_indexed: u64,
    queue: u64,
    bytes_fetched: u64,
    freshness: Option<FreshnessWire>,
    errors: Vec<Count>,
    visits: Vec<VisitWire>,
}

#[derive(Serialize)]
struct VisitWire {
    at: String,
    url: String,
    status: Option<u16>,
    outcome: String,
    took_ms: f64,
    bytes: u64,
}

pub(crate) async fn host(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<Json<HostWire>, Failure> {
    let host = commands::host(params.text("host"))?;
    let asked = host.clone();
    let detail = shared.ask(move |engine| engine.host(&asked)).await?;
    let detail = detail.ok_or_else(|| Failure::not_found(format!("the host {host} is not known")))?;
    Ok(Json(wire(detail)))
}

fn wire(detail: HostDetail) -> HostWire {
    let visits = detail.visits.into_iter().take(COUNT_MAX).map(|visit| VisitWire {
        at: instant(visit.at),
        url: visit.url.to_string(),
        status: visit.status,
        outcome: visit.outcome,
        took_ms: visit.took.as_secs_f64() * 1e3,
        bytes: visit.bytes,
    });
    HostWire {
        host: detail.host.to_string(),
        state: detail.state,
        robots_verdict: detail.robots_verdict,
        robots_fetched: detail.robots_fetched.map(instant),
        robots_rules: detail.robots_rules,
        delay_seconds: detail.delay.as_secs_f64(),
        crawl_delay_seconds: detail.crawl_delay.map(|delay| delay.as_secs_f64()),
        address: detail.address.map(|address| address.to_string()),
        next_visit: detail.next_visit.map(instant),
        pages_known: detail.pages_known,
        pages_fetched: detail.pages_fetched,
        pages_indexed: detail.pages_indexed,
        queue: detail.queue,
        bytes_fetched: detail.bytes_fetched,
        freshness: detail.freshness.map(freshness),
        errors: counts(&detail.errors),
        visits: visits.collect(),
    }
}
