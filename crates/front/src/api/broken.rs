//! `/api/v1/broken`: links that lead nowhere, with the pages that have them.

use super::instant;
use super::page::{LinkedFromWire, linked_from};
use crate::admin::access::Admin;
use crate::admin::hosts::{FIRST_MAX, conditions};
use crate::failure::Failure;
use crate::params::Params;
use crate::shared::Shared;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

/// Pages that a program may ask for at once.
const COUNT_MAX: usize = 500;

#[derive(Serialize)]
pub(crate) struct BrokenWire {
    total: usize,
    first: usize,
    pages: Vec<BrokenPageWire>,
}

#[derive(Serialize)]
struct BrokenPageWire {
    url: String,
    status: Option<u16>,
    last_visit: String,
    linked_from: LinkedFromWire,
}

pub(crate) async fn broken(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<Json<BrokenWire>, Failure> {
    let first = params.number("first", 0, 0..=FIRST_MAX)?;
    let count = params.number("count", 50, 1..=COUNT_MAX)?;
    let (filter, _) = conditions(&params);
    let list = shared.ask(move |engine| engine.broken(&filter, first, count)).await??;
    let pages = list.rows.into_iter().take(count).map(|row| BrokenPageWire {
        url: row.url.to_string(),
        status: row.status,
        last_visit: instant(row.last_visit),
        linked_from: linked_from(row.linked_from),
    });
    Ok(Json(BrokenWire { total: list.total, first, pages: pages.collect() }))
}
