//! `/admin/page`: why a page is found or not, who links to it, when it is visited; and what can be done about it.

use super::access::Admin;
use super::dashboard::{class_of, host_state};
use super::page;
use crate::failure::Failure;
use crate::pages::{PagePath, href};
use crate::params::{Params, link};
use crate::shared::Shared;
use crate::text::reasons::{failure, outcome, scope_reason, trap};
use crate::text::{Texts, Visitor, fill, format};
use crate::{LinkedFrom, PageDetail, PageVerdict, PageVisit, RobotsTry, VerdictKind};
use axum::extract::State;
use axum::response::Response;
use farol_base::CanonicalUrl;
use farol_base::status::ScopeReason;
use maud::{Markup, html};
use std::sync::Arc;

/// Rows shown of each list.
const ROWS_MAX: usize = 100;

pub(crate) async fn show(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let typed = params.text("url");
    let url = if typed.is_empty() { None } else { Some(url_of(typed)?) };
    let detail = match url {
        Some(url) => Some(shared.ask(move |engine| engine.explain(&url)).await??),
        None => None,
    };
    let removed = match &detail {
        None => shared.ask(|engine| engine.removed_pages()).await??,
        Some(_) => Vec::new(),
    };
    let shown = detail.as_ref().map_or(typed, |detail| detail.url.as_str());
    let content = html! {
        section.wide {
            h1 { (texts.explain) }
            form.filter method="get" action="/admin/page" {
                label.grow { (texts.page_address) input type="text" inputmode="url" name="url" required maxlength="4096" value=(shown) placeholder="https://example.org/page"; }
                @if visitor.chosen { input type="hidden" name="hl" value=(visitor.hl()); }
                button type="submit" { (texts.look_up) }
            }
            @match &detail {
                Some(detail) => (explained(&admin, detail, typed, &visitor)),
                None => {
                    p.quiet { (texts.explain_text) }
                    @if !removed.is_empty() { (removals(&admin, &removed, &visitor)) }
                }
            }
        }
    };
    let here = PagePath { path: "/admin/page", params: params.without("hl").collect() };
    Ok(page(&shared, &visitor, Some(&admin), texts.explain, here, content))
}

/// Reads an address that somebody typed; the scheme may be missing.
pub(crate) fn url_of(text: &str) -> Result<CanonicalUrl, Failure> {
    let whole = if text.contains("://") { text.to_string() } else { format!("https://{text}") };
    CanonicalUrl::parse(&whole)
        .map_err(|error| Failure::invalid(format!("{text:?} cannot be looked up: {error}")))
}

/// Why a page is found or not, as a sentence.
pub(crate) fn said(page: &PageDetail, texts: &Texts) -> String {
    let PageVerdict { kind, detail } = &page.verdict;
    let text = match kind {
        VerdictKind::Found => texts.why_found,
        VerdictKind::Removed => texts.why_removed,
        VerdictKind::HostRemoved => texts.why_host_removed,
        VerdictKind::OutOfScope => texts.why_out_of_scope,
        VerdictKind::Robots => texts.why_robots,
        VerdictKind::Trap => texts.why_trap,
        VerdictKind::Unknown => texts.why_unknown,
        VerdictKind::Waiting => texts.why_waiting,
        VerdictKind::Paused => texts.why_paused,
        VerdictKind::HostFailing => texts.why_host_failing,
        VerdictKind::NoAnswer => texts.why_no_answer,
        VerdictKind::Gone => texts.why_gone,
        VerdictKind::Redirect => texts.why_redirect,
        VerdictKind::AllowedAgain => texts.why_allowed_again,
        VerdictKind::NoIndex => texts.why_noindex,
        VerdictKind::Expired => texts.why_expired,
        VerdictKind::Canonical => texts.why_canonical,
        VerdictKind::NotText => texts.why_not_text,
        VerdictKind::Empty => texts.why_empty,
        VerdictKind::List => texts.why_list,
        VerdictKind::NotYet => texts.why_not_yet,
    };
    let failed = |what: String, failures: u32| match failures {
        ..=1 => what,
        _ => fill(texts.failures_in_row, &[("what", &what), ("count", &failures.to_string())]),
    };
    let detail = match kind {
        VerdictKind::OutOfScope => scope_reason(&ScopeReason::read(detail), texts),
        VerdictKind::Trap => trap(detail, texts).to_string(),
        VerdictKind::HostFailing => {
            let host = page.url.host();
            let what = match failure(detail, texts) {
                "" => host.to_string(),
                what => format!("{host}, {what}"),
            };
            failed(what, page.host_failures)
        }
        VerdictKind::NoAnswer => failed(failure(detail, texts).to_string(), page.failures),
        _ => detail.clone(),
    };
    fill(text, &[("detail", &detail)])
}

fn explained(admin: &Admin, detail: &PageDetail, typed: &str, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    html! {
        section.card.verdict {
            p dir="auto" {
                strong class=(if detail.is_indexed { "good" } else { "bad" }) { (said(detail, texts)) }
            }
            @if typed != detail.url.as_str() {
                p.quiet { (texts.canonical_form) " " a href=(href(&detail.url)) rel="noreferrer noopener nofollow" { (detail.url) } }
            }
            @if !detail.title.is_empty() { p dir="auto" { (detail.title) } }
            (addresses(texts.similar_known, &detail.similar, visitor))
            div.row { (levers(admin, detail, visitor)) }
        }
        (facts(detail, visitor))
        (addresses(texts.same_text, &detail.twins, visitor))
        (linked_from(&detail.linked_from, visitor))
        @if !detail.log.is_empty() { (log(&detail.log, visitor)) }
        @if !detail.log_is_whole { p.quiet { (texts.log_cut) } }
    }
}

fn levers(admin: &Admin, detail: &PageDetail, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let lever = |path: &str, url: &str, class: &str, name: &str| {
        html! {
            form method="post" action=(link(path, [("hl", visitor.hl())])) {
                (admin.field())
                input type="hidden" name="url" value=(url);
                button class=[(!class.is_empty()).then_some(class)] type="submit" { (name) }
            }
        }
    };
    html! {
        @match &detail.removed_by {
            Some(order) => (lever("/admin/page/restore", order, "", texts.put_back)),
            None => {
                (lever("/admin/page/refetch", detail.url.as_str(), "", texts.refetch))
                (lever("/admin/page/remove", detail.url.as_str(), "danger", texts.remove))
            }
        }
        a.button href=(link("/admin/host", [("host", detail.url.host().as_str()), ("hl", visitor.hl())])) { (texts.host) }
    }
}

fn facts(detail: &PageDetail, visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    let moment = |at: Option<_>| at.map_or("–".to_string(), |at| format::moment(at, locale));
    let number = |value: u32| format::number(value.into(), locale);
    let robots = match &detail.robots {
        None => "–".to_string(),
        Some(RobotsTry { allowed, rule }) => {
            let word = if *allowed { texts.allowed } else { texts.refused };
            rule.as_ref().map_or(word.to_string(), |rule| format!("{word}: {rule}"))
        }
    };
    let depth = match (detail.is_seed, detail.depth) {
        (true, _) => texts.is_seed.to_string(),
        (false, depth) => depth.map_or("–".to_string(), |depth| format::number(depth.into(), locale)),
    };
    let host = detail.host_state.as_deref().map_or("–", |state| host_state(state, texts)).to_string();
    let interval = match detail.plan.interval.is_zero() {
        true => "–".to_string(),
        false => format::span(detail.plan.interval, locale),
    };
    let facts = [
        (texts.visits, number(detail.visits)),
        (texts.last_visit, moment(detail.last_visit)),
        (texts.last_change, moment(detail.last_change)),
        (texts.next_visit, moment(detail.due)),
        (texts.visited_every, interval),
        (
            texts.page_language,
            detail.language.map_or("–".to_string(), |language| language.code().to_string()),
        ),
        ("robots.txt", robots),
        (texts.distance, depth),
        (texts.host, host),
        (texts.host_wakes, moment(detail.host_wakes)),
    ];
    html! {
        dl.tiles.small {
            @for (name, value) in facts { div { dt { (name) } dd dir="auto" { (value) } } }
            @if let Some(to) = &detail.moved_to {
                div { dt { (texts.moved_to) } dd { (about(to, visitor)) } }
            }
        }
    }
}

/// A link to what is known of a page.
pub(super) fn about(url: &CanonicalUrl, visitor: &Visitor) -> Markup {
    html! { a href=(link("/admin/page", [("url", url.as_str()), ("hl", visitor.hl())])) { (url) } }
}

fn addresses(title: &str, urls: &[CanonicalUrl], visitor: &Visitor) -> Markup {
    html! {
        @if !urls.is_empty() {
            h2 { (title) }
            ul.addresses { @for url in urls.iter().take(ROWS_MAX) { li { (about(url, visitor)) } } }
        }
    }
}

fn linked_from(links: &LinkedFrom, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let count = format::number(links.pages, visitor.locale);
    html! {
        h2 { (texts.linked_from) }
        @if links.links.is_empty() { p.quiet { (texts.nobody_links) } } @else {
            p.summary { (fill(if links.pages == 1 { texts.linked_page } else { texts.linked_pages }, &[("count", &count)])) }
            div.scroll.cards tabindex="0" role="region" aria-label=(texts.linked_from) {
                table {
                    thead { tr { th scope="col" { (texts.page) } th scope="col" { (texts.link_text) } } }
                    tbody {
                        @for link in links.links.iter().take(ROWS_MAX) {
                            tr {
                                td.long data-label=(texts.page) { (about(&link.url, visitor)) }
                                td.long dir="auto" data-label=(texts.link_text) { (link.text) @if link.nofollow { " " span.quiet { "nofollow" } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn log(visits: &[PageVisit], visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    html! {
        h2 { (texts.last_visits) }
        div.scroll.cards tabindex="0" role="region" aria-label=(texts.last_visits) {
            table {
                thead {
                    tr {
                        th scope="col" { (texts.when) }
                        th.number scope="col" { (texts.status) }
                        th scope="col" { (texts.outcome) }
                        th.number scope="col" { (texts.size) }
                    }
                }
                tbody {
                    @for visit in visits.iter().take(ROWS_MAX) {
                        tr {
                            td data-label=(texts.when) { (format::instant(visit.at, locale)) }
                            td.number data-label=(texts.status) {
                                @if let Some(status) = visit.status { span class={ "code " (class_of(status)) } { (status) } } @else { "–" }
                            }
                            td data-label=(texts.outcome) { (outcome(&visit.outcome, texts)) }
                            td.number data-label=(texts.size) { (format::bytes(visit.bytes, locale)) }
                        }
                    }
                }
            }
        }
    }
}

/// What the operator has removed, each with a way back.
fn removals(admin: &Admin, removed: &[String], visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    html! {
        h2 { (texts.removed_pages) }
        div.scroll tabindex="0" role="region" aria-label=(texts.removed_pages) {
            table {
                tbody {
                    @for pages in removed.iter().take(ROWS_MAX) {
                        tr {
                            td.long { (pages) }
                            td.number {
                                form method="post" action=(link("/admin/page/restore", [("hl", visitor.hl())])) {
                                    (admin.field())
                                    input type="hidden" name="url" value=(pages);
                                    button type="submit" { (texts.put_back) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::fake::Fake;
    use crate::text::Locale;

    #[test]
    fn what_belongs_to_a_verdict_is_in_the_readers_language_as_well() {
        let url = CanonicalUrl::parse("http://a.org/x").unwrap();
        let mut page = Fake::default().explain(&url).unwrap();
        (page.host_failures, page.failures) = (3, 1);
        let mut check = |kind, detail: &str, locale: Locale, want: &str| {
            page.verdict = PageVerdict { kind, detail: detail.to_string() };
            let said = said(&page, locale.texts());
            assert!(said.ends_with(want), "{said}");
        };
        use VerdictKind::{HostFailing, NoAnswer, OutOfScope, Trap};
        let host = "http://a.org, nenhuma resposta a tempo (3 falhas seguidas)";
        check(HostFailing, "timeout", Locale::Brazilian, host);
        check(HostFailing, "", Locale::English, "http://a.org (3 failures in a row)");
        check(NoAnswer, "connect", Locale::French, "personne n’y répond");
        check(Trap, "calendar without end", Locale::Portuguese, "um calendário sem fim");
        check(
            OutOfScope,
            "around host",
            Locale::Spanish,
            "ninguna semilla responde por ella (crawl.scope es host)",
        );
        check(
            OutOfScope,
            "view lang:pt\nlang:es type:text/html",
            Locale::Catalan,
            "se sap: lang:es type:text/html",
        );
        check(OutOfScope, "pattern -/x/", Locale::English, "crawl.patterns leaves it out with -/x/");
    }
}
