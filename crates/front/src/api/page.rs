//! `/api/v1/page`: what is known of a page, why it is found or not, and why it is visited when it is; and
//! `/api/v1/removed-pages`.

use super::{finite, instant};
use crate::admin::access::Admin;
use crate::admin::page_detail::{said, url_of};
use crate::failure::Failure;
use crate::params::Params;
use crate::shared::Shared;
use crate::text::Locale;
use crate::text::reasons::scope_reason;
use crate::{LinkedFrom, PageDetail, VerdictKind};
use axum::Json;
use axum::extract::State;
use farol_base::CanonicalUrl;
use farol_base::status::ScopeReason;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

#[derive(Serialize)]
pub(crate) struct PageWire {
    url: String,
    verdict: VerdictWire,
    state: Option<&'static str>,
    is_seed: bool,
    depth: Option<u16>,
    removed_by: Option<String>,
    out_of_scope: Option<String>,
    robots: Option<RobotsWire>,
    host: HostStateWire,
    moved_to: Option<String>,
    indexed: bool,
    title: String,
    language: Option<String>,
    same_text: Vec<String>,
    similar: Vec<String>,
    linked_from: LinkedFromWire,
    log: Vec<PageVisitWire>,
    log_is_whole: bool,
    visits: u32,
    failures: u32,
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

#[derive(Serialize)]
struct VerdictWire {
    code: &'static str,
    message: String,
    detail: String,
}

#[derive(Serialize)]
struct RobotsWire {
    allowed: bool,
    rule: Option<String>,
}

#[derive(Serialize)]
struct HostStateWire {
    host: String,
    state: Option<String>,
    wakes: Option<String>,
    failures: u32,
}

#[derive(Serialize)]
pub(super) struct LinkedFromWire {
    pages: u64,
    links: Vec<LinkWire>,
}

#[derive(Serialize)]
struct LinkWire {
    url: String,
    text: String,
    nofollow: bool,
}

#[derive(Serialize)]
struct PageVisitWire {
    at: String,
    status: Option<u16>,
    outcome: String,
    bytes: u64,
}

#[derive(Serialize)]
pub(crate) struct RemovedWire {
    pages: Vec<String>,
}

pub(crate) async fn page(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<Json<PageWire>, Failure> {
    let url = url_of(params.text("url"))?;
    let detail = shared.ask(move |engine| engine.explain(&url)).await??;
    Ok(Json(wire(detail)))
}

/// What the operator has removed.
pub(crate) async fn removed(
    _: Admin,
    State(shared): State<Arc<Shared>>,
) -> Result<Json<RemovedWire>, Failure> {
    let pages = shared.ask(|engine| engine.removed_pages()).await??;
    Ok(Json(RemovedWire { pages }))
}

pub(super) fn linked_from(links: LinkedFrom) -> LinkedFromWire {
    let links_shown = links.links.into_iter().map(|link| LinkWire {
        url: link.url.to_string(),
        text: link.text,
        nofollow: link.nofollow,
    });
    LinkedFromWire { pages: links.pages, links: links_shown.collect() }
}

fn wire(detail: PageDetail) -> PageWire {
    let seconds = |time: Duration| finite(time.as_secs_f64());
    let texts = |urls: Vec<CanonicalUrl>| urls.iter().map(ToString::to_string).collect();
    let (plan, english) = (detail.plan, Locale::English.texts());
    let message = said(&detail, english);
    let about = match detail.verdict.kind {
        VerdictKind::OutOfScope => scope_reason(&ScopeReason::read(&detail.verdict.detail), english),
        _ => detail.verdict.detail,
    };
    let log = detail.log.into_iter().map(|visit| PageVisitWire {
        at: instant(visit.at),
        status: visit.status,
        outcome: visit.outcome,
        bytes: visit.bytes,
    });
    PageWire {
        verdict: VerdictWire { code: detail.verdict.kind.code(), message, detail: about },
        state: detail.state,
        is_seed: detail.is_seed,
        depth: detail.depth,
        removed_by: detail.removed_by,
        out_of_scope: detail.out_of_scope.map(|why| scope_reason(&why, english)),
        robots: detail.robots.map(|tried| RobotsWire { allowed: tried.allowed, rule: tried.rule }),
        host: HostStateWire {
            host: detail.url.host().to_string(),
            state: detail.host_state,
            wakes: detail.host_wakes.map(instant),
            failures: detail.host_failures,
        },
        url: detail.url.to_string(),
        moved_to: detail.moved_to.map(|url| url.to_string()),
        indexed: detail.is_indexed,
        title: detail.title,
        language: detail.language.map(|language| language.code().to_string()),
        same_text: texts(detail.twins),
        similar: texts(detail.similar),
        linked_from: linked_from(detail.linked_from),
        log: log.collect(),
        log_is_whole: detail.log_is_whole,
        visits: detail.visits,
        failures: detail.failures,
        last_visit: detail.last_visit.map(instant),
        last_change: detail.last_change.map(instant),
        next_visit: detail.due.map(instant),
        changes: finite(plan.changes),
        changes_per_day: finite(plan.changes_per_day),
        weight: finite(plan.weight),
        fresh: finite(plan.fresh),
        worth_seconds: seconds(plan.worth),
        price_seconds: seconds(plan.price),
        host_is_full: plan.host_is_full,
        interval_seconds: seconds(plan.interval),
    }
}
