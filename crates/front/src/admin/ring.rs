//! `/admin/ring`: the cache nodes of the cluster and their ranges, what is hot, what bursts, and how the ring changed.
//!
//! Where the process is a member of no cluster, or the cluster has no cache nodes, there is no such page.

use super::access::Admin;
use super::page;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::shared::Shared;
use crate::text::{Texts, Visitor, fill, format};
use crate::{RingBurst, RingChange, RingHot, RingMember, RingStatus};
use axum::extract::State;
use axum::response::Response;
use farol_base::Timestamp;
use maud::{Markup, html};
use std::sync::Arc;

/// Rows shown of each list; `/api/v1/ring` tells all.
const ROWS_MAX: usize = 1000;
/// Measures of the picture of the ring.
const RADIUS: f64 = 84.0;
const BAND: f64 = 26.0;
const SIDE: f64 = 220.0;
/// Shades that neighbours are told apart by.
const SHADES: usize = 4;

pub(crate) async fn show(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let ring = of(&shared).await?;
    let shown = ShownRing { ring: &ring, visitor: &visitor };
    let content = html! {
        section.wide.cluster {
            h1 { (texts.ring) }
            (shown.tiles())
            div.ring-picture {
                (shown.picture())
                (shown.legend())
            }
            (shown.nodes())
            (shown.hot())
            (shown.bursts())
            (shown.changes())
        }
    };
    let here = PagePath { path: "/admin/ring", ..PagePath::default() };
    Ok(page(&shared, &visitor, Some(&admin), texts.ring, here, content))
}

/// The service, or the sentence that there is none.
pub(crate) async fn of(shared: &Shared) -> Result<RingStatus, Failure> {
    let ring = shared.ask(|engine| engine.ring()).await?;
    ring.ok_or_else(|| {
        Failure::not_found("this cluster has no cache nodes; start one with `farol node --roles cache`")
    })
}

struct ShownRing<'a> {
    ring: &'a RingStatus,
    visitor: &'a Visitor,
}

impl ShownRing<'_> {
    fn texts(&self) -> &'static Texts {
        self.visitor.texts()
    }

    fn number(&self, value: u64) -> String {
        format::number(value, self.visitor.locale)
    }

    fn percent(&self, share: f64) -> String {
        format::percent(share, self.visitor.locale)
    }

    fn rate(&self, per_second: f64) -> String {
        format!("{} / s", format::decimal(per_second, self.visitor.locale))
    }

    fn on_ring(&self) -> impl Iterator<Item = &RingMember> {
        self.ring.nodes.iter().filter(|node| node.is_on_ring)
    }

    fn tiles(&self) -> Markup {
        let texts = self.texts();
        let load: f64 = self.on_ring().map(|node| node.per_second).sum();
        let epoch = [
            ("term", &*self.number(self.ring.term)),
            ("ring", &*self.number(self.ring.version)),
            ("hot", &*self.number(self.ring.hot_version)),
        ];
        let tiles = [
            (texts.ring_nodes, self.number(self.on_ring().count() as u64), String::new()),
            (texts.ring_hit_rate, self.percent(self.ring.hit_rate), texts.cluster_minute.to_string()),
            (texts.ring_efficiency, self.percent(self.ring.efficiency), texts.ring_efficiency_is.to_string()),
            (texts.ring_load, self.rate(load), texts.cluster_minute.to_string()),
            (texts.ring_fronts, self.number(self.ring.fronts), String::new()),
            (texts.cluster_epoch, String::new(), fill(texts.ring_epochs, &epoch)),
        ];
        html! {
            dl.tiles.small {
                @for (name, value, more) in tiles {
                    div {
                        dt { (name) }
                        @if !value.is_empty() { dd { (value) } }
                        @if !more.is_empty() { dd.quiet { (more) } }
                    }
                }
            }
        }
    }

    /// The circle with each node's range, clockwise from the top.
    fn picture(&self) -> Markup {
        let view = format!("0 0 {SIDE} {SIDE}");
        let (center, width) = (SIDE / 2.0, BAND);
        html! {
            svg.ring viewBox=(view) width=(SIDE) height=(SIDE) role="img" aria-label=(self.texts().ring) {
                @for (place, node) in self.on_ring().enumerate() {
                    @let class = format!("range shade-{}", place % SHADES);
                    @let name = format!("{}: {}", name_of(node), self.percent(node.share));
                    @if node.share > 0.999 {
                        circle class=(class) cx=(center) cy=(center) r=(RADIUS) fill="none" stroke-width=(width) {
                            title { (name) }
                        }
                    } @else {
                        path class=(class) d=(arc(node.end - node.share, node.end)) fill="none" stroke-width=(width) {
                            title { (name) }
                        }
                    }
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            ul.ring-legend {
                @for (place, node) in self.on_ring().take(ROWS_MAX).enumerate() {
                    li {
                        span class={ "swatch shade-" (place % SHADES) } aria-hidden="true" {} " "
                        span { (name_of(node)) } " " span.quiet { (self.percent(node.share)) }
                    }
                }
            }
        }
    }

    fn columns(&self) -> [&'static str; 9] {
        let texts = self.texts();
        [
            texts.cluster_share,
            texts.ring_load,
            texts.ring_hit_rate,
            texts.ring_lookups,
            texts.ring_adopted,
            texts.ring_inserts,
            texts.ring_answers,
            texts.ring_memory,
            texts.cluster_heard,
        ]
    }

    fn nodes(&self) -> Markup {
        let texts = self.texts();
        html! {
            h2 { (texts.ring_nodes) }
            div.scroll.cards tabindex="0" role="region" aria-label=(texts.ring_nodes) {
                table {
                    thead {
                        tr {
                            th scope="col" { (texts.cluster_node) }
                            th scope="col" { (texts.state) }
                            @for name in self.columns() { th.number scope="col" { (name) } }
                        }
                    }
                    tbody { @for node in self.ring.nodes.iter().take(ROWS_MAX) { (self.node(node)) } }
                }
            }
        }
    }

    fn node(&self, node: &RingMember) -> Markup {
        let (texts, locale) = (self.texts(), self.visitor.locale);
        let (class, state) = match (node.is_on_ring, node.is_asked) {
            (false, _) => ("left", texts.ring_off),
            (true, Some(false)) => ("warned", texts.ring_passed_over),
            (true, _) => ("up", texts.ring_on),
        };
        let values = [
            self.percent(node.share),
            self.rate(node.per_second),
            self.percent(node.hit_rate),
            self.number(node.lookups),
            self.number(node.adopted),
            self.number(node.inserts),
            self.number(node.entries),
            format::bytes(node.bytes, locale),
            fill(texts.cluster_ago, &[("time", &format::span(node.silent, locale))]),
        ];
        html! {
            tr {
                th scope="row" { (name_of(node)) }
                td data-label=(texts.state) {
                    span class={ "member " (class) } { span.lamp aria-hidden="true" {} " " (state) }
                }
                @for (name, value) in self.columns().into_iter().zip(values) {
                    td.number data-label=(name) { (value) }
                }
            }
        }
    }

    fn hot(&self) -> Markup {
        let texts = self.texts();
        html! {
            h2 { (texts.ring_hot) }
            @if self.ring.hot.is_empty() { p.quiet { (texts.ring_hot_none) } } @else {
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.ring_hot) {
                    table {
                        thead {
                            tr {
                                th scope="col" { (texts.ring_question) }
                                th.number scope="col" { (texts.cluster_minute) }
                                th.number scope="col" { (texts.ring_degree) }
                                th scope="col" { (texts.ring_burst) }
                            }
                        }
                        tbody { @for hot in self.ring.hot.iter().take(ROWS_MAX) { (self.hot_row(hot)) } }
                    }
                }
            }
        }
    }

    fn hot_row(&self, hot: &RingHot) -> Markup {
        let texts = self.texts();
        html! {
            tr {
                th scope="row" dir="auto" { (hot.text) }
                td.number data-label=(texts.cluster_minute) { (self.number(hot.count)) }
                td.number data-label=(texts.ring_degree) { (self.number(hot.nodes)) }
                td data-label=(texts.ring_burst) { (self.severity(hot.severity)) }
            }
        }
    }

    fn severity(&self, severity: u8) -> String {
        match severity {
            0 => "–".to_string(),
            some => format!("{} / {}", self.number(u64::from(some)), self.number(4)),
        }
    }

    fn bursts(&self) -> Markup {
        html! {
            @if !self.ring.bursts.is_empty() {
                h2 { (self.texts().ring_bursts) }
                ul.events { @for burst in self.ring.bursts.iter().take(ROWS_MAX) { li { (self.burst(burst)) } } }
            }
        }
    }

    fn burst(&self, burst: &RingBurst) -> Markup {
        let texts = self.texts();
        let what = match burst.severity {
            0 => texts.ring_burst_ended.to_string(),
            some => fill(texts.ring_burst_severity, &[("severity", &self.severity(some))]),
        };
        html! {
            (self.when(burst.at)) " " bdi { (burst.text) } " " span.quiet { (what) }
        }
    }

    fn changes(&self) -> Markup {
        html! {
            @if !self.ring.changes.is_empty() {
                h2 { (self.texts().ring_changes) }
                ul.events { @for change in self.ring.changes.iter().take(ROWS_MAX) { li { (self.change(change)) } } }
            }
        }
    }

    fn change(&self, change: &RingChange) -> Markup {
        let texts = self.texts();
        let moved = fill(
            texts.ring_moved,
            &[("ring", &self.number(change.version)), ("share", &self.percent(change.moved))],
        );
        html! {
            (self.when(change.at)) " " (moved)
            @if !change.joined.is_empty() { " · " (fill(texts.ring_joined, &[("nodes", &change.joined.join(", "))])) }
            @if !change.left.is_empty() { " · " (fill(texts.ring_left, &[("nodes", &change.left.join(", "))])) }
        }
    }

    fn when(&self, at: Timestamp) -> Markup {
        html! { time.quiet datetime=(at) { (format::moment(at, self.visitor.locale)) } }
    }
}

fn name_of(node: &RingMember) -> String {
    if node.name.is_empty() { format!("#{}", node.no) } else { node.name.clone() }
}

/// A piece of the circle between two shares of it, clockwise from the top.
fn arc(from: f64, to: f64) -> String {
    let point = |share: f64| {
        let angle = share * std::f64::consts::TAU;
        (SIDE / 2.0 + RADIUS * angle.sin(), SIDE / 2.0 - RADIUS * angle.cos())
    };
    let ((x0, y0), (x1, y1)) = (point(from), point(to));
    let large = u8::from(to - from > 0.5);
    format!("M{x0:.2} {y0:.2}A{RADIUS} {RADIUS} 0 {large} 1 {x1:.2} {y1:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_drawn_clockwise_from_the_top() {
        assert_eq!(arc(0.0, 0.25), "M110.00 26.00A84 84 0 0 1 194.00 110.00");
        assert!(arc(0.25, 1.0).contains(" 0 1 1 110.00 26.00"));
        // A range that goes over the top begins before it.
        assert!(arc(-0.25, 0.25).starts_with("M26.00 110.00"));
    }
}
