//! `/admin/hosts`: the hosts, filtered and page by page.

use super::access::Admin;
use super::dashboard::host_state;
use super::page;
use crate::HostRow;
use crate::failure::Failure;
use crate::pages::Here;
use crate::params::{Params, link};
use crate::shared::Shared;
use crate::text::{Reader, fill, format};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

/// Hosts on a page.
const PAGE: usize = 50;
/// Longest filter, in bytes: host names have at most 253.
pub(crate) const FILTER_BYTES_MAX: usize = 300;
/// Highest number of a first host that is asked for.
pub(crate) const FIRST_MAX: usize = 100_000_000;

pub(crate) async fn list(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    reader: Reader,
    params: Params,
) -> Result<Response, Failure> {
    let texts = reader.texts();
    let number = params.number("page", 1, 1, FIRST_MAX / PAGE);
    let (filter, state) = conditions(&params);
    let asked = (filter.clone(), state.clone());
    let (list, states) = shared
        .ask(move |engine| {
            let state = Some(&*asked.1).filter(|state| !state.is_empty());
            (engine.hosts(&asked.0, state, (number - 1) * PAGE, PAGE), engine.status().crawl.hosts)
        })
        .await?;
    let to = |page: usize| {
        let page = page.to_string();
        link("/admin/hosts", [("filter", &*filter), ("state", &state), ("page", &page), ("hl", reader.hl())])
    };
    let content = html! {
        section.wide {
            h1 { (texts.hosts) }
            form.filter method="get" action="/admin/hosts" {
                label { (texts.filter_name) input type="search" name="filter" value=(filter) maxlength="253"; }
                label {
                    (texts.state)
                    select name="state" {
                        option value="" { (texts.any_state) }
                        @for (name, _) in states.iter().take(32) {
                            option value=(name) selected[*name == state] { (host_state(name, texts)) }
                        }
                    }
                }
                @if reader.chosen { input type="hidden" name="hl" value=(reader.hl()); }
                button type="submit" { (texts.filter) }
            }
            p.summary role="status" {
                (fill(texts.hosts_found, &[("count", &format::number(list.total as u64, reader.tongue))]))
            }
            @if !list.rows.is_empty() { (table(&list.rows, &reader)) }
            nav.pages aria-label=(texts.pagination) {
                @if number > 1 { a rel="prev" href=(to(number - 1)) { "‹ " (texts.previous) } }
                @if number > 1 || number * PAGE < list.total {
                    span.current aria-current="page" { (number) }
                }
                @if number * PAGE < list.total { a rel="next" href=(to(number + 1)) { (texts.next) " ›" } }
            }
        }
    };
    let here = Here { path: "/admin/hosts", params: params.without("hl").collect() };
    Ok(page(&shared, &reader, Some(&admin), texts.hosts, here, content))
}

/// Filter and state that were asked for, cut to a length that makes sense.
pub(crate) fn conditions(params: &Params) -> (String, String) {
    let cut = |text: &str| text[..text.floor_char_boundary(FILTER_BYTES_MAX)].to_string();
    (cut(params.text("filter")), cut(params.text("state")))
}

fn table(rows: &[HostRow], reader: &Reader) -> Markup {
    let (texts, tongue) = (reader.texts(), reader.tongue);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(texts.hosts) {
            table {
                thead {
                    tr {
                        th scope="col" { (texts.host) }
                        th scope="col" { (texts.state) }
                        th.number scope="col" { (texts.fetched) }
                        th.number scope="col" { (texts.freshness) }
                        th.number scope="col" { (texts.queue) }
                        th.number scope="col" { (texts.errors) }
                        th.number scope="col" { (texts.delay) }
                        th scope="col" { (texts.next_visit) }
                    }
                }
                tbody {
                    @for row in rows.iter().take(PAGE) {
                        tr {
                            th scope="row" {
                                a href=(link("/admin/host", [("host", row.host.as_str()), ("hl", reader.hl())])) { (row.host) }
                            }
                            td { (host_state(&row.state, texts)) }
                            td.number { (format::number(row.pages_fetched, tongue)) }
                            td.number { (row.freshness.map_or("–".into(), |known| format::percent(known.fresh, tongue))) }
                            td.number { (format::number(row.queue, tongue)) }
                            td.number { (format::number(row.errors, tongue)) }
                            td.number { (format::span(row.delay, tongue)) }
                            td { (row.next_visit.map_or("–".into(), |at| format::moment(at, tongue))) }
                        }
                    }
                }
            }
        }
    }
}
