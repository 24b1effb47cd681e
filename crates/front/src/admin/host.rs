//! `/admin/host`: everything known of one host.

use super::access::Admin;
use super::commands;
use super::dashboard::{class_of, host_state};
use super::page;
use crate::chart::bars;
use crate::failure::Failure;
use crate::pages::{PagePath, href};
use crate::params::{Params, link};
use crate::shared::Shared;
use crate::text::reasons::outcome;
use crate::text::{Visitor, format};
use crate::{HostDetail, RecentVisit, RobotsTry};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

/// Longest robots.txt shown, in bytes; the crawler itself reads 500 KiB.
const RULES_BYTES_MAX: usize = 64 * 1024;
/// Visits shown.
const VISITS_MAX: usize = 50;

pub(crate) async fn show(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let host = commands::host(params.text("host"))?;
    let path = params.text("path").to_string();
    let asked = (host.clone(), path.clone());
    let found = shared.ask(move |engine| {
        let (host, path) = asked;
        let tried = host.url(&path).ok().filter(|_| path.starts_with('/'));
        let tried = tried.and_then(|url| engine.try_robots(&url));
        engine.host(&host).map(|detail| (detail, tried))
    });
    let (detail, tried) =
        found.await?.ok_or_else(|| Failure::not_found(format!("the host {host} is not known")))?;
    let content = html! {
        section.wide {
            div.head {
                h1 { (host) }
                @if !shared.settings.admin_read_only {
                    @let to = link("/admin/remove", [("host", host.as_str()), ("hl", visitor.hl())]);
                    a.button.danger href=(to) { (texts.remove) "…" }
                }
            }
            (facts(&detail, &visitor))
            (bars(
                texts.errors,
                detail.errors.iter().take(12).map(|(kind, count)| (html! { (kind.replace('_', " ")) }, *count, "e")),
                format::number,
                visitor.locale,
                texts.none_yet,
            ))
            (robots(&detail, &path, tried.as_ref(), &visitor))
            @if !detail.visits.is_empty() { (visits(&detail.visits, &visitor)) }
        }
    };
    let here = PagePath { path: "/admin/host", params: params.without("hl").collect() };
    Ok(page(&shared, &visitor, Some(&admin), host.as_str(), here, content))
}

fn facts(detail: &HostDetail, visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    let number = |value| format::number(value, locale);
    let moment = |at: Option<_>| at.map_or("–".to_string(), |at| format::moment(at, locale));
    let known = detail.freshness.as_ref();
    let facts = [
        (texts.state, host_state(&detail.state, texts).to_string()),
        (texts.next_visit, moment(detail.next_visit)),
        (texts.delay, format::span(detail.delay, locale)),
        (texts.crawl_delay, detail.crawl_delay.map_or("–".into(), |delay| format::span(delay, locale))),
        (texts.address, detail.address.map_or("–".into(), |address| address.to_string())),
        (texts.urls_known_title, number(detail.pages_known)),
        (texts.fetched, number(detail.pages_fetched)),
        (texts.searchable, number(detail.pages_indexed)),
        (texts.queue, number(detail.queue)),
        (texts.bytes_fetched, format::bytes(detail.bytes_fetched, locale)),
        (texts.freshness, known.map_or("–".into(), |known| format::percent(known.fresh, locale))),
        (texts.age, known.map_or("–".into(), |known| format::span(known.age, locale))),
    ];
    html! { dl.tiles.small { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

fn robots(detail: &HostDetail, path: &str, tried: Option<&RobotsTry>, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let rules = &detail.robots_rules[..detail.robots_rules.floor_char_boundary(RULES_BYTES_MAX)];
    html! {
        section.card {
            h2 { "robots.txt" }
            p dir="auto" { (detail.robots_verdict) }
            @if let Some(at) = detail.robots_fetched {
                p.quiet { (texts.robots_read) " " (format::moment(at, visitor.locale)) }
            }
            form.filter method="get" action="/admin/host" {
                input type="hidden" name="host" value=(detail.host);
                @if visitor.chosen { input type="hidden" name="hl" value=(visitor.hl()); }
                label { (texts.try_path) input type="text" name="path" value=(path) placeholder="/private/page.html" maxlength="2048"; }
                button type="submit" { (texts.try_it) }
            }
            @if !path.is_empty() {
                p role="status" {
                    @match tried {
                        Some(RobotsTry { allowed, rule }) => {
                            strong class=(if *allowed { "good" } else { "bad" }) { (if *allowed { texts.allowed } else { texts.refused }) }
                            @if let Some(rule) = rule { " " code { (rule) } } @else { " " span.quiet { (texts.no_rule) } }
                        }
                        None => (texts.no_verdict),
                    }
                }
            }
            @if rules.is_empty() { p.quiet { (texts.no_robots) } } @else {
                details { summary { (texts.show_rules) } pre tabindex="0" { code { (rules) } } }
            }
        }
    }
}

fn visits(visits: &[RecentVisit], visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    html! {
        h2 { (texts.last_visits) }
        div.scroll tabindex="0" role="region" aria-label=(texts.last_visits) {
            table {
                thead {
                    tr {
                        th scope="col" { (texts.when) }
                        th scope="col" { (texts.page) }
                        th.number scope="col" { (texts.status) }
                        th scope="col" { (texts.outcome) }
                        th.number scope="col" { (texts.took) }
                        th.number scope="col" { (texts.size) }
                    }
                }
                tbody {
                    @for visit in visits.iter().take(VISITS_MAX) {
                        tr {
                            td { (format::instant(visit.at, locale)) }
                            td.long { a href=(href(&visit.url)) rel="noreferrer noopener nofollow" { (visit.url.path_and_query()) } }
                            td.number {
                                @if let Some(status) = visit.status { span class={ "code " (class_of(status)) } { (status) } } @else { "–" }
                            }
                            td { (outcome(&visit.outcome, texts)) }
                            td.number { (format::span(visit.took, locale)) }
                            td.number { (format::bytes(visit.bytes, locale)) }
                        }
                    }
                }
            }
        }
    }
}
