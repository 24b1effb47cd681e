//! `/admin/hosts`: the hosts, filtered and page by page.

use super::access::Admin;
use super::dashboard::host_state;
use super::{page, pager};
use crate::HostRow;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::{Params, link};
use crate::shared::Shared;
use crate::text::{Visitor, counted, fill, format};
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
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let number = params.number("page", 1, 1..=usize::MAX)?.min(FIRST_MAX / PAGE);
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
        link("/admin/hosts", [("filter", &*filter), ("state", &state), ("page", &page), ("hl", visitor.hl())])
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
                @if visitor.chosen { input type="hidden" name="hl" value=(visitor.hl()); }
                button type="submit" { (texts.filter) }
            }
            p.summary role="status" {
                @let total = list.total as u64;
                @let template = counted(total, texts.hosts_found_one, texts.hosts_found);
                (fill(template, &[("count", &format::number(total, visitor.locale))]))
            }
            @if !list.rows.is_empty() { (table(&list.rows, &visitor)) }
            (pager(number, number * PAGE < list.total, texts, to))
        }
    };
    let here = PagePath { path: "/admin/hosts", params: params.without("hl").collect() };
    Ok(page(&shared, &visitor, Some(&admin), texts.hosts, here, content))
}

/// Filter and state that were asked for, cut to a length that makes sense.
pub(crate) fn conditions(params: &Params) -> (String, String) {
    let cut = |text: &str| text[..text.floor_char_boundary(FILTER_BYTES_MAX)].to_string();
    (cut(params.text("filter")), cut(params.text("state")))
}

fn table(rows: &[HostRow], visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    html! {
        div.scroll.cards tabindex="0" role="region" aria-label=(texts.hosts) {
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
                                a href=(link("/admin/host", [("host", row.host.as_str()), ("hl", visitor.hl())])) { (row.host) }
                            }
                            td data-label=(texts.state) { (host_state(&row.state, texts)) }
                            td.number data-label=(texts.fetched) { (format::number(row.pages_fetched, locale)) }
                            td.number data-label=(texts.freshness) {
                                (row.freshness.map_or("–".into(), |known| format::percent(known.fresh, locale)))
                            }
                            td.number data-label=(texts.queue) { (format::number(row.queue, locale)) }
                            td.number data-label=(texts.errors) { (format::number(row.errors, locale)) }
                            td.number data-label=(texts.delay) { (format::span(row.delay, locale)) }
                            td data-label=(texts.next_visit) {
                                (row.next_visit.map_or("–".into(), |at| format::moment(at, locale)))
                            }
                        }
                    }
                }
            }
        }
    }
}
