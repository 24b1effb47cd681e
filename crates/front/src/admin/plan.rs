//! Who crawls what, on the cluster's page: a map of agents and their pages, what the last plans promised and brought, the
//! versions of the routing table with their reasons, and the lever to plan now.

use super::access::Admin;
use super::cluster::carry_out;
use super::page;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::{FormParams, link};
use crate::shared::Shared;
use crate::text::{Texts, Visitor, fill, format};
use crate::world::{self, Disc, Pin};
use crate::{ClusterOrder, ClusterPlan, ClusterStatus, LastPlan, PlanGain, PlanOutcome};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

/// Rows shown of each list.
const ROWS_MAX: usize = 40;
/// Colours of charts and maps.
const CLASSES: [&str; 5] = ["a", "b", "c", "d", "e"];

pub(crate) async fn replan(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    admin.check(&form)?;
    let texts = visitor.texts();
    let done = carry_out(&shared, ClusterOrder::Replan).await??;
    let content = html! {
        section.done role="status" {
            h1 { (texts.done) }
            p dir="auto" { (done) }
            p { a.button href=(link("/admin/cluster", [("hl", visitor.hl())])) { (texts.back_cluster) } }
        }
    };
    let here = PagePath { path: "/admin/cluster", ..PagePath::default() };
    Ok(page(&shared, &visitor, Some(&admin), texts.done, here, content))
}

/// The section of the cluster's page.
pub(super) fn section(cluster: &ClusterStatus, visitor: &Visitor, admin: &Admin) -> Markup {
    let Some(plan) = &cluster.plan else { return html! {} };
    let shown = ShownPlan { cluster, plan, visitor };
    let texts = visitor.texts();
    html! {
        h2 #plan { (texts.cluster_plan) }
        (shown.map())
        (shown.known())
        form.inline method="post" action=(link("/admin/cluster/replan", [("hl", visitor.hl())])) {
            (admin.field())
            button type="submit" { (texts.plan_now) }
        }
        @if !plan.trouble.is_empty() { p.bad dir="auto" { (plan.trouble) } }
        @if let Some(last) = &plan.last { (shown.last(last)) }
        (shown.outcomes())
        (shown.epochs())
        (shown.refused())
    }
}

struct ShownPlan<'a> {
    cluster: &'a ClusterStatus,
    plan: &'a ClusterPlan,
    visitor: &'a Visitor,
}

impl ShownPlan<'_> {
    fn texts(&self) -> &'static Texts {
        self.visitor.texts()
    }

    fn number(&self, value: u64) -> String {
        format::number(value, self.visitor.locale)
    }

    fn percent(&self, share: f64) -> String {
        format::percent(share, self.visitor.locale)
    }

    fn millis(&self, value: Option<f64>) -> String {
        value
            .map_or("–".to_string(), |millis| format!("{} ms", self.number(millis.max(0.0).round() as u64)))
    }

    /// The colour of an agent: the same for all that is its own.
    fn class(&self, node: &str) -> &'static str {
        let at = self.cluster.agents.iter().position(|agent| agent.node == node);
        CLASSES[at.unwrap_or(0) % CLASSES.len()]
    }

    /// Only where something has a place.
    fn map(&self) -> Markup {
        let most = self.plan.cells.iter().map(|cell| cell.pages).max().unwrap_or(0).max(1);
        let discs: Vec<Disc> = self
            .plan
            .cells
            .iter()
            .map(|cell| Disc {
                north: cell.north,
                east: cell.east,
                size: cell.pages as f64 / most as f64,
                class: self.class(&cell.node),
                title: format!("{} · {}", self.cluster.name_of(&cell.node), self.number(cell.pages)),
            })
            .collect();
        let pins: Vec<Pin> = self
            .cluster
            .agents
            .iter()
            .filter_map(|agent| {
                let (north, east) = agent.position?;
                let name = self.cluster.name_of(&agent.node).to_string();
                Some(Pin { north, east, class: self.class(&agent.node), name })
            })
            .collect();
        html! {
            @if !discs.is_empty() || !pins.is_empty() { (world::draw(self.texts().plan_map, &discs, &pins)) }
        }
    }

    fn known(&self) -> Markup {
        let plan = self.plan;
        let values = [
            ("hosts", &*self.number(plan.hosts)),
            ("pages", &*self.number(plan.pages)),
            ("links", &*self.number(plan.links)),
        ];
        html! { p.quiet { (fill(self.texts().plan_known, &values)) } }
    }

    fn last(&self, last: &LastPlan) -> Markup {
        let texts = self.texts();
        let said = if last.is_published { texts.plan_published } else { texts.plan_kept };
        let gain = &last.gain;
        let change = |before: String, after: String| format!("{before} → {after}");
        let rows = [
            (
                texts.plan_exchange,
                change(self.percent(gain.exchange_before), self.percent(gain.exchange_after)),
            ),
            (texts.plan_rtt, change(self.millis(gain.rtt_before), self.millis(gain.rtt_after))),
            (texts.plan_load, change(self.percent(gain.load_before), self.percent(gain.load_after))),
            (texts.plan_moved, format!("{} / {}", self.number(gain.pages_moved), self.number(gain.pages))),
        ];
        html! {
            h3 { (texts.plan_last) }
            p dir="auto" {
                (format::moment(last.at, self.visitor.locale)) " · " (last.trigger) " · "
                (fill(said, &[("why", &last.why)]))
            }
            dl.tiles.small { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
            @if !last.moves.is_empty() {
                ul.quiet {
                    @for (from, to, pages) in last.moves.iter().take(ROWS_MAX) {
                        li {
                            (from.as_deref().map_or("–", |from| self.cluster.name_of(from))) " → "
                            (self.cluster.name_of(to)) ": " (self.number(*pages))
                        }
                    }
                }
            }
        }
    }

    fn expected(&self, gain: &PlanGain) -> String {
        self.percent(gain.exchange_after)
    }

    fn outcomes(&self) -> Markup {
        let texts = self.texts();
        let measured =
            |one: &PlanOutcome| one.measured().map_or("–".to_string(), |share| self.percent(share));
        html! {
            @if !self.plan.outcomes.is_empty() {
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.plan_exchange) {
                    table {
                        caption { (texts.plan_exchange) }
                        thead {
                            tr {
                                th scope="col" { (texts.cluster_epoch) }
                                th scope="col" { (texts.plan_when) }
                                th.number scope="col" { (texts.plan_before) }
                                th.number scope="col" { (texts.plan_expected) }
                                th.number scope="col" { (texts.plan_measured) }
                                th.number scope="col" { (texts.plan_moved) }
                            }
                        }
                        tbody {
                            @for one in self.plan.outcomes.iter().rev().take(ROWS_MAX) {
                                tr {
                                    th scope="row" { (self.number(one.version)) }
                                    td data-label=(texts.plan_when) { (format::moment(one.at, self.visitor.locale)) }
                                    td.number data-label=(texts.plan_before) { (self.percent(one.expected.exchange_before)) }
                                    td.number data-label=(texts.plan_expected) { (self.expected(&one.expected)) }
                                    td.number data-label=(texts.plan_measured) { (measured(one)) }
                                    td.number data-label=(texts.plan_moved) { (self.number(one.expected.pages_moved)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn epochs(&self) -> Markup {
        let texts = self.texts();
        html! {
            @if !self.plan.epochs.is_empty() {
                h3 { (texts.plan_epochs) }
                ol.timeline {
                    @for past in self.plan.epochs.iter().rev().take(ROWS_MAX) {
                        li {
                            span.quiet { (self.number(past.epoch)) " · " (format::moment(past.at, self.visitor.locale)) }
                            " " span dir="auto" { (past.why) }
                        }
                    }
                }
            }
        }
    }

    fn refused(&self) -> Markup {
        let texts = self.texts();
        html! {
            @if !self.plan.refused.is_empty() {
                h3 { (texts.plan_refused) }
                ul {
                    @for (agent, why, count) in self.plan.refused.iter().take(ROWS_MAX) {
                        li dir="auto" {
                            @if !agent.is_empty() { strong { (agent) } ": " }
                            (why) " (" (self.number(*count)) ")"
                        }
                    }
                }
            }
        }
    }
}
