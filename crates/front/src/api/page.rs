//! `/api/v1/page`: what is known of a page, and why it is visited when it is.

use super::{finite, instant};
use crate::PageDetail;
use crate::admin::access::Admin;
use crate::failure::Failure;
use crate::params::Params;
use crate::shared::Shared;
use axum::Json;
use axum::extract::State;
use farol_base::CanonicalUrl;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

#[derive(Serialize)]
pub(crate) struct PageWire {
    url: String,
    visits: u32,
    last_visit: Option<String>,
    last_change: Option<String>,
    next_visit: Option<String>,
    changes: f64,
    changes_per_day: f64,
    weight: f64,
    fresh: f64,
    worth_seconds: f64,
    price_seconds: f64,
    host_is_full: bool,
    interval_seconds: f64,
}

pub(crate) async fn page(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<Json<PageWire>, Failure> {
    let text = params.text("url");
    let url = CanonicalUrl::parse(text)
        .map_err(|error| Failure::invalid(format!("{text:?} cannot be looked up: {error}")))?;
    let asked = url.clone();
    let detail = shared.ask(move |engine| engine.explain(&asked)).await?;
    let detail = detail
        .ok_or_else(|| Failure::not_found(format!("the page {url} is not known to a running crawler")))?;
    Ok(Json(wire(detail)))
}

fn wire(detail: PageDetail) -> PageWire {
    let seconds = |time: Duration| finite(time.as_secs_f64());
    PageWire {
        url: detail.url.to_string(),
        visits: detail.visits,
        last_visit: detail.last_visit.map(instant),
        last_change: detail.last_change.map(instant),
        next_visit: detail.due.map(instant),
        changes: finite(detail.changes),
        changes_per_day: finite(detail.changes_per_day),
        weight: finite(detail.weight),
        fresh: finite(detail.fresh),
        worth_seconds: seconds(detail.worth),
        price_seconds: seconds(detail.price),
        host_is_full: detail.host_is_full,
        interval_seconds: seconds(detail.interval),
    }
}
