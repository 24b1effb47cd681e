//! `/admin`: what the engine is doing, in numbers and charts.
//!
//! The charts are drawn here, once, for everybody: `/admin/live` is the changing part of the page by itself, which
//! the script puts in place every two seconds. Without scripts the whole page reloads every ten.

use super::access::Admin;
use super::cluster::summary_line;
use super::page;
use crate::chart::{Chart, SAMPLES_MAX, Series, bars};
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::link;
use crate::shared::Shared;
use crate::text::seeds::{moved, sentence};
use crate::text::{Locale, Texts, Visitor, counted, fill, format};
use crate::{ClusterSummary, EngineState, Freshness, History, Sample, SeedReport, SeedSummary, Status};
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use std::sync::Arc;

/// Rows shown of lists that the engine hands over.
const ROWS_MAX: usize = 12;

pub(crate) async fn show(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let (status, history, cluster) =
        shared.ask(|engine| (engine.status(), engine.history(), engine.cluster())).await?;
    let cluster = cluster.map(|cluster| cluster.summary());
    let content = html! {
        h1.unseen { (texts.dashboard) }
        div id="live" data-live=(link("/admin/live", [("hl", visitor.hl())])) {
            (board(&status, &history, cluster.as_ref(), &visitor))
        }
        @if shared.settings.admin_read_only {
            p.quiet { (texts.read_only) }
        } @else {
            (levers(&admin, &status, &visitor))
        }
    };
    let here = PagePath { path: "/admin", ..PagePath::default() };
    Ok(page(&shared, &visitor, Some(&admin), texts.dashboard, here, content))
}

/// The part of the dashboard that changes.
pub(crate) async fn live(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
) -> Result<Response, Failure> {
    let (status, history, cluster) =
        shared.ask(|engine| (engine.status(), engine.history(), engine.cluster())).await?;
    let cluster = cluster.map(|cluster| cluster.summary());
    Ok(Html(board(&status, &history, cluster.as_ref(), &visitor).into_string()).into_response())
}

fn levers(admin: &Admin, status: &Status, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let to = |path: &str| link(path, [("hl", visitor.hl())]);
    let paused = status.state == EngineState::Paused;
    html! {
        section.levers aria-label=(texts.levers) {
            form.card method="post" action=(to(if paused { "/admin/resume" } else { "/admin/pause" })) {
                h2 { (texts.crawling) }
                p.quiet { (if paused { texts.resume_text } else { texts.pause_text }) }
                (admin.field())
                button type="submit" { (if paused { texts.resume } else { texts.pause }) }
            }
            form.card method="post" action=(to("/admin/seed")) {
                h2 { label for="seed" { (texts.add_seed) } }
                p.quiet { (texts.add_seed_text) }
                (admin.field())
                div.row {
                    input type="url" id="seed" name="url" required maxlength="2048" placeholder="https://example.org/";
                    button type="submit" { (texts.add) }
                }
            }
            form.card method="get" action="/admin/remove" {
                h2 { label for="gone" { (texts.remove_host) } }
                p.quiet { (texts.remove_host_text) }
                @if visitor.chosen { input type="hidden" name="hl" value=(visitor.hl()); }
                div.row {
                    input type="text" id="gone" name="host" required maxlength="2048" placeholder="https://example.org";
                    button.danger type="submit" { (texts.remove) "…" }
                }
            }
        }
    }
}

fn board(status: &Status, history: &History, cluster: Option<&ClusterSummary>, visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    html! {
        (state_line(status, visitor))
        @if let Some(cluster) = cluster { (summary_line(cluster, visitor)) }
        (seeds(&status.seeds, visitor))
        (tiles(status, texts, locale))
        div.charts {
            @for chart in charts(history, texts, locale) { (chart.draw()) }
            (lists(status, visitor))
        }
    }
}

fn state_line(status: &Status, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    html! {
        p class={ "state " (status.state.code()) } {
            span.lamp aria-hidden="true" {}
            strong { (state_name(status.state, texts)) }
            @if !status.message.is_empty() { span dir="auto" { (status.message) } }
            span.quiet {
                (texts.uptime) " " (format::span(status.uptime, visitor.locale)) " · " (texts.version) " " (status.version)
            }
        }
    }
}

/// Seeds that somebody should look at, and those that lead elsewhere; nothing where all is as expected.
fn seeds(summary: &SeedSummary, visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    let worth_telling = |report: &&SeedReport| report.state.is_trouble() || report.leads_to.is_some();
    let told: Vec<&SeedReport> = summary.reports.iter().filter(worth_telling).take(ROWS_MAX).collect();
    let troubled = usize::try_from(summary.troubled()).unwrap_or(usize::MAX);
    let left = troubled.saturating_sub(told.iter().filter(|report| report.state.is_trouble()).count());
    if told.is_empty() {
        return html! {};
    }
    html! {
        section.card.seeds {
            h2 {
                (texts.seeds) " "
                span.quiet { (fill(texts.seeds_fine, &[("count", &format::number(summary.fine, locale))])) }
            }
            ul {
                @for report in told {
                    li class=(if report.state.is_trouble() { "trouble" } else { "moved" }) {
                        span.lamp aria-hidden="true" {}
                        div {
                            p { a href=(report.url) rel="noreferrer" dir="ltr" { (report.url) } }
                            @if report.state.is_trouble() || report.leads_to.is_none() {
                                p { (sentence(report, texts)) }
                            }
                            @if let Some(moved) = moved(report, texts) { p.quiet { (moved) } }
                        }
                    }
                }
                @if left > 0 { li.quiet { (fill(texts.seeds_more, &[("count", &format::number(left as u64, locale))])) } }
            }
        }
    }
}

fn tiles(status: &Status, texts: &Texts, locale: Locale) -> Markup {
    let (crawl, index, disk, queries) = (&status.crawl, &status.index, &status.disk, &status.queries);
    let number = |value| format::number(value, locale);
    let rate = |value| format!("{}/s", format::decimal(value, locale));
    let hosts: u64 = crawl.hosts.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
    let disk_sum = [disk.archive_bytes, disk.index_bytes, disk.urls_bytes, disk.links_bytes];
    let disk_sum = disk_sum.into_iter().fold(0, u64::saturating_add);
    let free = disk.free_bytes.map(|free| format!("{} {}", format::bytes(free, locale), texts.free));
    let known = status.freshness.as_ref();
    let cache = status.cache.as_ref();
    let if_known = |write: &dyn Fn(&Freshness) -> String| known.map_or("–".to_string(), write);
    let tiles = [
        (texts.fetched, number(crawl.pages_fetched), format::bytes(crawl.bytes_fetched, locale)),
        (
            texts.speed,
            rate(crawl.pages_per_second),
            format!("{} {}", texts.mean, rate(crawl.pages_per_second_mean)),
        ),
        (
            texts.queue,
            number(crawl.queue),
            fill(
                counted(crawl.urls_known, texts.urls_known_one, texts.urls_known),
                &[("count", &number(crawl.urls_known))],
            ),
        ),
        (texts.hosts, number(hosts), String::new()),
        (
            texts.searchable,
            number(index.documents),
            format!("{} {}", texts.generation, number(index.generation)),
        ),
        (
            texts.freshness,
            if_known(&|known| format::percent(known.fresh, locale)),
            known.map_or(String::new(), |known| {
                let template = counted(known.pages, texts.freshness_pages_one, texts.freshness_pages);
                fill(template, &[("count", &number(known.pages))])
            }),
        ),
        (
            texts.age,
            if_known(&|known| format::span(known.age, locale)),
            known.map_or(String::new(), |_| texts.age_text.to_string()),
        ),
        (texts.queries, number(queries.total), rate(queries.per_second)),
        (
            texts.latency,
            format::span(queries.p50, locale),
            format!("p99 {}", format::span(queries.p99, locale)),
        ),
        (
            texts.cache,
            cache.map_or("–".to_string(), |cache| format::percent(cache.hit_rate(), locale)),
            cache.map_or(String::new(), |cache| {
                let (count, bytes) = (number(cache.answers), format::bytes(cache.bytes, locale));
                let template = counted(cache.answers, texts.cache_answers_one, texts.cache_answers);
                fill(template, &[("count", &count), ("bytes", &bytes)])
            }),
        ),
        (texts.disk, format::bytes(disk_sum, locale), free.unwrap_or_default()),
        (texts.memory, format::bytes(status.memory_bytes, locale), String::new()),
    ];
    html! {
        dl.tiles {
            @for (name, value, more) in tiles {
                div { dt { (name) } dd { (value) } @if !more.is_empty() { dd.quiet { (more) } } }
            }
        }
    }
}

fn charts<'a>(history: &History, texts: &'a Texts, locale: Locale) -> Vec<Chart<'a>> {
    let samples = &history.samples[history.samples.len().saturating_sub(SAMPLES_MAX)..];
    let series = |name: &'a str, class: &'static str, value: &dyn Fn(&Sample) -> f64| Series {
        name,
        class,
        values: samples.iter().map(value).collect(),
    };
    let chart =
        |title: &'a str, stacked: bool, write: fn(f64, Locale) -> String, series: Vec<Series<'a>>| Chart {
            title,
            series,
            stacked,
            write,
            locale,
            from: samples.first().map(|sample| sample.at),
            to: samples.last().map(|sample| sample.at),
            empty: texts.no_samples,
        };
    let outcome = |name, class, i: usize| series(name, class, &move |sample| sample.outcomes_per_second[i]);
    let count: fn(f64, Locale) -> String = |value, locale| format::number(value.max(0.0) as u64, locale);
    let size: fn(f64, Locale) -> String = |value, locale| format::bytes(value.max(0.0) as u64, locale);
    let time: fn(f64, Locale) -> String = |value, locale| {
        format::span(std::time::Duration::try_from_secs_f64(value).unwrap_or_default(), locale)
    };
    // At first nobody knows how fresh the index is: the line is the newest stretch without a gap.
    let known = samples.rsplit(|sample| sample.freshness.is_none()).next().unwrap_or_default();
    let fresh = Series {
        name: texts.freshness,
        class: "a",
        values: known.iter().filter_map(|sample| Some(sample.freshness?.fresh)).collect(),
    };
    vec![
        chart(
            texts.chart_speed,
            false,
            format::decimal,
            vec![series(texts.fetched, "a", &|s| s.pages_per_second)],
        ),
        chart(
            texts.chart_outcomes,
            true,
            format::decimal,
            vec![
                outcome("2xx", "a", 0),
                outcome("3xx", "b", 1),
                outcome("4xx", "c", 2),
                outcome("5xx", "d", 3),
                outcome(texts.no_answer, "e", 4),
            ],
        ),
        chart(texts.chart_queue, false, count, vec![series(texts.queue, "b", &|s| s.queue as f64)]),
        chart(
            texts.chart_documents,
            false,
            count,
            vec![series(texts.searchable, "a", &|s| s.index_documents as f64)],
        ),
        chart(texts.chart_index, false, size, vec![series(texts.disk_index, "b", &|s| s.index_bytes as f64)]),
        Chart {
            from: known.first().map(|sample| sample.at),
            ..chart(texts.chart_freshness, false, format::percent, vec![fresh])
        },
        chart(
            texts.chart_queries,
            false,
            format::decimal,
            vec![series(texts.queries, "c", &|s| s.queries_per_second)],
        ),
        chart(
            texts.chart_latency,
            false,
            time,
            vec![
                series("p99", "d", &|s| s.query_p99.as_secs_f64()),
                series("p50", "a", &|s| s.query_p50.as_secs_f64()),
            ],
        ),
    ]
}

fn lists(status: &Status, visitor: &Visitor) -> Markup {
    let (texts, locale) = (visitor.texts(), visitor.locale);
    let hosts_by_state = status.crawl.hosts.iter().take(ROWS_MAX).map(|(state, count)| {
        let to = link("/admin/hosts", [("state", &**state), ("hl", visitor.hl())]);
        (html! { a href=(to) { (host_state(state, texts)) } }, *count, "a")
    });
    let mut codes = status.crawl.status_codes.clone();
    codes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let codes = codes.iter().take(ROWS_MAX).map(|(code, count)| (html! { (code) }, *count, class_of(*code)));
    let mut errors = status.crawl.errors.clone();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let errors =
        errors.iter().take(ROWS_MAX).map(|(kind, count)| (html! { (kind.replace('_', " ")) }, *count, "e"));
    let languages = status.index.languages.iter().take(ROWS_MAX);
    let languages = languages.map(|(language, count)| (html! { (language.code()) }, *count, "b"));
    let disk = &status.disk;
    let disk = [
        (texts.disk_archive, disk.archive_bytes),
        (texts.disk_index, disk.index_bytes),
        (texts.disk_urls, disk.urls_bytes),
        (texts.disk_links, disk.links_bytes),
    ];
    let disk = disk.into_iter().map(|(name, bytes)| (html! { (name) }, bytes, "b"));
    let hot = status.cache.iter().flat_map(|cache| cache.hot.iter()).take(ROWS_MAX);
    let hot = hot.map(|(query, count)| {
        let to = link("/search", [("q", &**query), ("hl", visitor.hl())]);
        (html! { a href=(to) dir="auto" { (query) } }, *count, "c")
    });
    html! {
        @if status.cache.is_some() {
            (bars(texts.hot_queries, hot, format::number, locale, texts.none_yet))
        }
        (bars(texts.hosts_by_state, hosts_by_state, format::number, locale, texts.none_yet))
        (bars(texts.status_codes, codes, format::number, locale, texts.none_yet))
        (bars(texts.errors, errors, format::number, locale, texts.none_yet))
        (bars(texts.languages, languages, format::number, locale, texts.none_yet))
        (bars(texts.disk, disk, format::bytes, locale, texts.none_yet))
    }
}

/// The colour of a status code: that of its class in the chart of outcomes.
pub(crate) fn class_of(code: u16) -> &'static str {
    match code {
        200..300 => "a",
        300..400 => "b",
        400..500 => "c",
        _ => "d",
    }
}

fn state_name(state: EngineState, texts: &Texts) -> &'static str {
    match state {
        EngineState::Crawling => texts.state_crawling,
        EngineState::Idle => texts.state_idle,
        EngineState::Paused => texts.state_paused,
        EngineState::DiskFull => texts.state_disk_full,
        EngineState::Serving => texts.state_serving,
        EngineState::Stopping => texts.state_stopping,
        EngineState::Failed => texts.state_failed,
    }
}

/// A host's state in the visitor's locale; words that we do not know stay as they are.
pub(crate) fn host_state<'a>(state: &'a str, texts: &Texts) -> &'a str {
    match state {
        "resolving" => texts.host_resolving,
        "waiting" => texts.host_waiting,
        "leased" => texts.host_leased,
        "resting" => texts.host_resting,
        "refilling" => texts.host_refilling,
        "sleeping" => texts.host_sleeping,
        "unreachable" => texts.host_unreachable,
        "refused" => texts.host_refused,
        other => other,
    }
}
