//! `/admin/broken`: links that lead nowhere, page by page, with the pages that have them.

use super::access::Admin;
use super::dashboard::class_of;
use super::hosts::{FIRST_MAX, conditions};
use super::page_detail::about;
use super::{page, pager};
use crate::BrokenPage;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::{Params, link};
use crate::shared::Shared;
use crate::text::{Visitor, counted, fill, format};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

/// Broken addresses on a page.
const PAGE: usize = 50;
/// Pages shown that link to one of them.
const LINKS_MAX: usize = 5;

pub(crate) async fn list(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let number = params.number("page", 1, 1..=usize::MAX)?.min(FIRST_MAX / PAGE);
    let (filter, _) = conditions(&params);
    let asked = filter.clone();
    let list = shared.ask(move |engine| engine.broken(&asked, (number - 1) * PAGE, PAGE)).await??;
    let to = |page: usize| {
        let page = page.to_string();
        link("/admin/broken", [("filter", &*filter), ("page", &page), ("hl", visitor.hl())])
    };
    let count = format::number(list.total as u64, visitor.locale);
    let content = html! {
        section.wide {
            h1 { (texts.broken_links) }
            p.quiet { (texts.broken_text) }
            form.filter method="get" action="/admin/broken" {
                label { (texts.filter_name) input type="search" name="filter" value=(filter) maxlength="253"; }
                @if visitor.chosen { input type="hidden" name="hl" value=(visitor.hl()); }
                button type="submit" { (texts.filter) }
            }
            p.summary role="status" {
                @let template = counted(list.total as u64, texts.broken_found_one, texts.broken_found);
                (fill(template, &[("count", &count)]))
            }
            @if !list.rows.is_empty() { (table(&list.rows, &visitor)) }
            (pager(number, number * PAGE < list.total, texts, to))
        }
    };
    let here = PagePath { path: "/admin/broken", params: params.without("hl").collect() };
    Ok(page(&shared, &visitor, Some(&admin), texts.broken_links, here, content))
}

fn table(rows: &[BrokenPage], visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    html! {
        div.scroll.cards tabindex="0" role="region" aria-label=(texts.broken_links) {
            table {
                thead {
                    tr {
                        th.number scope="col" { (texts.status) }
                        th scope="col" { (texts.page) }
                        th scope="col" { (texts.linked_from) }
                        th scope="col" { (texts.last_visit) }
                    }
                }
                tbody {
                    @for row in rows.iter().take(PAGE) {
                        tr {
                            td.number data-label=(texts.status) {
                                @match row.status {
                                    Some(status) => span class={ "code " (class_of(status)) } { (status) },
                                    None => (texts.no_answer),
                                }
                            }
                            td.long data-label=(texts.page) { (about(&row.url, visitor)) }
                            td.long data-label=(texts.linked_from) { div { (links(row, visitor)) } }
                            td data-label=(texts.last_visit) { (format::moment(row.last_visit, locale)) }
                        }
                    }
                }
            }
        }
    }
}

fn links(row: &BrokenPage, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let shown = row.linked_from.links.len().min(LINKS_MAX) as u64;
    let more = row.linked_from.pages.saturating_sub(shown);
    html! {
        @if row.linked_from.links.is_empty() { span.quiet { (texts.nobody_links) } }
        @for link in row.linked_from.links.iter().take(LINKS_MAX) {
            div {
                (about(&link.url, visitor))
                @if !link.text.is_empty() { " " span.quiet dir="auto" { "“" (link.text) "”" } }
            }
        }
        @if more > 0 { div.quiet { (fill(texts.more_links, &[("count", &format::number(more, visitor.locale))])) } }
    }
}
