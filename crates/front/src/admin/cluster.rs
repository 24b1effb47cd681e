//! `/admin/cluster`: nodes, shards, logs and servers, what needs a look, and the lever to have a node leave.
//!
//! Where the process is a member of no cluster there is no such page.

use super::access::Admin;
use super::page;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::{FormParams, Params, link};
use crate::shared::Shared;
use crate::text::{Texts, Visitor, fill, format};
use crate::{
    ClusterAgent, ClusterNode, ClusterOrder, ClusterReplica, ClusterShard, ClusterStatus, ClusterSummary,
    EngineError, NodeState, ReplicaState, ShardState,
};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;

/// Rows shown of each list; a cluster has tens of nodes, and `/api/v1/cluster` tells all.
const ROWS_MAX: usize = 1000;
/// Longest name of a node that is passed on, in bytes; ours have 13.
const NODE_BYTES_MAX: usize = 64;

pub(crate) async fn show(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let cluster = of(&shared).await?;
    let has_ring = shared.ask(|engine| engine.ring().is_some()).await?;
    let shown = Shown { cluster: &cluster, visitor: &visitor };
    let content = html! {
        section.wide.cluster {
            h1 { (texts.cluster) " " (cluster.name) }
            (shown.warnings())
            (shown.tiles())
            @if has_ring { p { a href=(link("/admin/ring", [("hl", visitor.hl())])) { (texts.ring) " ›" } } }
            (shown.nodes())
            (shown.agents())
            (super::plan::section(&cluster, &visitor, &admin))
            (shown.shards())
            (shown.logs())
            (shown.servers())
        }
    };
    let here = PagePath { path: "/admin/cluster", ..PagePath::default() };
    Ok(page(&shared, &visitor, Some(&admin), texts.cluster, here, content))
}

/// Asks once more before a node goes.
pub(crate) async fn confirm_drain(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let cluster = of(&shared).await?;
    let id = node_id(params.text("node"))?;
    let node = cluster.node(&id).ok_or_else(|| Failure::not_found(format!("no node has the id {id}")))?;
    let here = PagePath { path: "/admin/cluster/drain", params: vec![("node", &*id)] };
    let content = html! {
        section.confirm {
            h1 { (fill(texts.drain_question, &[("node", cluster.name_of(&node.id))])) }
            p { (texts.drain_text) }
            form method="post" action=(link("/admin/cluster/drain", [("hl", visitor.hl())])) {
                (admin.field())
                input type="hidden" name="node" value=(node.id);
                button.danger type="submit" { (texts.drain) }
                a.button href=(link("/admin/cluster", [("hl", visitor.hl())])) { (texts.cancel) }
            }
        }
    };
    Ok(page(&shared, &visitor, Some(&admin), texts.drain, here, content))
}

pub(crate) async fn drain(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    admin.check(&form)?;
    let texts = visitor.texts();
    let done = carry_out(&shared, ClusterOrder::Drain(node_id(form.text("node"))?)).await??;
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

/// The cluster, or the sentence that there is none.
pub(crate) async fn of(shared: &Shared) -> Result<ClusterStatus, Failure> {
    let cluster = shared.ask(|engine| engine.cluster()).await?;
    cluster.ok_or_else(|| Failure::not_found("this process is not a member of a cluster"))
}

/// A node's id as somebody sent it, of a length that makes sense.
pub(crate) fn node_id(text: &str) -> Result<String, Failure> {
    match text.len() {
        0 => Err(Failure::invalid("node: the id of a node is needed")),
        1..=NODE_BYTES_MAX => Ok(text.to_string()),
        _ => Err(Failure::invalid("node: it is too long")),
    }
}

/// Has an order carried out and gives the engine's sentence about it.
pub(crate) async fn carry_out(
    shared: &Shared,
    order: ClusterOrder,
) -> Result<Result<String, EngineError>, Failure> {
    tracing::info!(?order, "an operator's order to the cluster");
    shared.ask(move |engine| engine.cluster_order(order)).await
}

/// The cluster in a line, for the dashboard.
pub(super) fn summary_line(cluster: &ClusterSummary, visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let number = |value| format::number(value, visitor.locale);
    let values = [
        ("up", &*number(cluster.nodes_up)),
        ("nodes", &*number(cluster.nodes)),
        ("answered", &*number(cluster.shards_answered)),
        ("shards", &*number(cluster.shards)),
    ];
    let is_whole = cluster.shards_answered == cluster.shards && cluster.warnings == 0;
    html! {
        p class={ "state member " (if is_whole { "up" } else { "warned" }) } {
            span.lamp aria-hidden="true" {}
            a href=(link("/admin/cluster", [("hl", visitor.hl())])) { (texts.cluster) " " (cluster.name) }
            span { (fill(texts.cluster_line, &values)) }
            @if cluster.warnings > 0 {
                span.quiet { (texts.cluster_warnings) ": " (number(cluster.warnings)) }
            }
        }
    }
}

struct Shown<'a> {
    cluster: &'a ClusterStatus,
    visitor: &'a Visitor,
}

impl<'a> Shown<'a> {
    fn texts(&self) -> &'static Texts {
        self.visitor.texts()
    }

    fn number(&self, value: u64) -> String {
        format::number(value, self.visitor.locale)
    }

    fn span(&self, value: Duration) -> String {
        // A lag or an age to the second is as true as it gets.
        let whole = if value < Duration::from_secs(1) { value } else { Duration::from_secs(value.as_secs()) };
        format::span(whole, self.visitor.locale)
    }

    fn ago(&self, value: Duration) -> String {
        fill(self.texts().cluster_ago, &[("time", &self.span(value))])
    }

    fn percent(&self, share: f64) -> String {
        format::percent(share, self.visitor.locale)
    }

    fn warnings(&self) -> Markup {
        let texts = self.texts();
        let warnings = &self.cluster.warnings;
        html! {
            @if warnings.is_empty() {
                p.state.member.up { span.lamp aria-hidden="true" {} span { (texts.cluster_fine) } }
            } @else {
                section.card.seeds {
                    h2 { (texts.cluster_warnings) }
                    ul {
                        @for warning in warnings.iter().take(ROWS_MAX) {
                            li.trouble {
                                span.lamp aria-hidden="true" {}
                                div {
                                    p dir="auto" { (warning.text) }
                                    @if !warning.advice.is_empty() { p.quiet dir="auto" { (warning.advice) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn tiles(&self) -> Markup {
        let texts = self.texts();
        let summary = self.cluster.summary();
        let of = |some: u64, all: u64| format!("{} / {}", self.number(some), self.number(all));
        let leader = self.cluster.leader.as_ref();
        let maps =
            self.cluster.maps.iter().map(|(name, version)| format!("{name} {}", self.number(*version)));
        let tiles = [
            (texts.cluster_nodes, of(summary.nodes_up, summary.nodes), texts.node_up.to_string()),
            (
                texts.cluster_leader,
                leader.map_or("–".into(), |leader| self.cluster.name_of(&leader.node).to_string()),
                leader.map_or(texts.cluster_no_leader.to_string(), |leader| {
                    fill(texts.cluster_term, &[("term", &self.number(leader.term))])
                }),
            ),
            (
                texts.cluster_shards,
                of(summary.shards_answered, summary.shards),
                texts.shard_serving.to_string(),
            ),
            (texts.searchable, self.number(summary.pages), String::new()),
            (texts.cluster_lag, summary.lag.map_or("–".into(), |lag| self.span(lag)), String::new()),
            (texts.cluster_maps, String::new(), maps.collect::<Vec<_>>().join(" · ")),
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

    fn nodes(&self) -> Markup {
        let texts = self.texts();
        html! {
            h2 { (texts.cluster_nodes) }
            div.scroll.cards tabindex="0" role="region" aria-label=(texts.cluster_nodes) {
                table {
                    thead {
                        tr {
                            th scope="col" { (texts.cluster_node) }
                            th scope="col" { (texts.state) }
                            th scope="col" { (texts.cluster_roles) }
                            th scope="col" { (texts.cluster_zone) }
                            th scope="col" { (texts.address) }
                            th scope="col" { (texts.cluster_version) }
                            th.number scope="col" { (texts.cluster_heard) }
                            th.number scope="col" { (texts.cluster_load) }
                            th.number scope="col" { (texts.cluster_room) }
                            th scope="col" { span.unseen { (texts.levers) } }
                        }
                    }
                    tbody { @for node in self.cluster.nodes.iter().take(ROWS_MAX) { (self.node(node)) } }
                }
            }
        }
    }

    fn node(&self, node: &ClusterNode) -> Markup {
        let texts = self.texts();
        let leads = self.cluster.leader.as_ref().is_some_and(|leader| leader.node == node.id);
        let has_gone = matches!(node.state, NodeState::Left | NodeState::Dead);
        let if_here = |value: String| if has_gone { "–".to_string() } else { value };
        let drain = link("/admin/cluster/drain", [("node", &*node.id), ("hl", self.visitor.hl())]);
        html! {
            tr {
                th scope="row" {
                    span title=(node.id) { (self.cluster.name_of(&node.id)) }
                    @if leads { " " span.badge { (texts.cluster_leader) } }
                    @if node.id == self.cluster.me { " " span.badge { (texts.cluster_this) } }
                    @for trouble in &node.trouble { div.bad dir="auto" { (trouble) } }
                }
                td data-label=(texts.state) {
                    span class={ "member " (node_class(node)) } {
                        span.lamp aria-hidden="true" {} " " (node_state(node.state, texts))
                    }
                }
                td data-label=(texts.cluster_roles) { (node.roles.join(", ")) }
                td data-label=(texts.cluster_zone) { (or_dash(&node.zone)) }
                td data-label=(texts.address) { (node.address.map_or("–".into(), |address| address.to_string())) }
                td data-label=(texts.cluster_version) { (or_dash(&node.version)) }
                td.number data-label=(texts.cluster_heard) { (self.ago(node.age)) }
                td.number data-label=(texts.cluster_load) { (if_here(self.percent(node.load))) }
                td.number data-label=(texts.cluster_room) {
                    (if_here(node.free_bytes.map_or("–".into(), |free| format::bytes(free, self.visitor.locale))))
                }
                td.lever {
                    @if node.state.can_drain() {
                        a.button href=(drain) aria-label={ (texts.drain) " " (node.name) } { (texts.drain) "…" }
                    }
                }
            }
        }
    }

    fn agents(&self) -> Markup {
        let texts = self.texts();
        let route = self.cluster.route.as_ref();
        html! {
            @if !self.cluster.agents.is_empty() {
                h2 { (texts.cluster_agents) }
                @if let Some(route) = route {
                    p.quiet dir="auto" {
                        (fill(texts.cluster_route, &[("epoch", &self.number(route.epoch)), ("why", &route.why)]))
                        @if !route.is_settled { " (" (texts.cluster_unsettled) ")" }
                    }
                }
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.cluster_agents) {
                    table {
                        thead {
                            tr {
                                th scope="col" { (texts.cluster_node) }
                                th scope="col" { (texts.cluster_place) }
                                @for name in self.agent_columns() { th.number scope="col" { (name) } }
                            }
                        }
                        tbody { @for agent in self.cluster.agents.iter().take(ROWS_MAX) { (self.agent(agent)) } }
                    }
                }
            }
        }
    }

    fn agent_columns(&self) -> [&'static str; 10] {
        let texts = self.texts();
        [
            texts.hosts,
            texts.cluster_pages,
            texts.plan_balance,
            texts.cluster_minute,
            texts.cluster_sent,
            texts.cluster_received,
            texts.cluster_outbox,
            texts.cluster_moving,
            texts.cluster_epoch,
            texts.cluster_released,
        ]
    }

    fn agent(&self, agent: &ClusterAgent) -> Markup {
        let values = [
            self.number(agent.hosts),
            self.number(agent.pages),
            agent.balance.map_or("–".to_string(), |balance| self.percent(balance)),
            self.number(agent.pages_minute),
            self.number(agent.urls_sent),
            self.number(agent.urls_received),
            format::bytes(agent.outbox, self.visitor.locale),
            format!("{} / {}", self.number(agent.hosts_leaving), self.number(agent.hosts_coming)),
            self.number(agent.epoch),
            self.number(agent.released),
        ];
        html! {
            tr {
                th scope="row" { span title=(agent.node) { (self.cluster.name_of(&agent.node)) } }
                td data-label=(self.texts().cluster_place) { (or_dash(&agent.place)) }
                @for (name, value) in self.agent_columns().into_iter().zip(values) {
                    td.number data-label=(name) { (value) }
                }
            }
        }
    }

    fn shards(&self) -> Markup {
        let texts = self.texts();
        html! {
            h2 { (texts.cluster_shards) }
            div.scroll.cards tabindex="0" role="region" aria-label=(texts.cluster_shards) {
                table {
                    thead {
                        tr {
                            th scope="col" { (texts.cluster_shard) }
                            th scope="col" { (texts.state) }
                            th.number scope="col" { (texts.cluster_share) }
                            th.number scope="col" { (texts.searchable) }
                            th scope="col" { (texts.cluster_replicas) }
                            th scope="col" { (texts.cluster_snapshot) }
                        }
                    }
                    tbody { @for shard in self.cluster.shards.iter().take(ROWS_MAX) { (self.shard(shard)) } }
                }
            }
        }
    }

    fn shard(&self, shard: &ClusterShard) -> Markup {
        let texts = self.texts();
        let keeper = shard.keeper.as_deref().map(|keeper| self.cluster.name_of(keeper));
        let is_silent = !shard.is_answered() && shard.state != ShardState::Retired;
        html! {
            tr {
                th scope="row" { (texts.cluster_shard) " " (shard.id) }
                td data-label=(texts.state) {
                    span class={ "member " (if is_silent { "dead" } else { shard_class(shard.state) }) } {
                        span.lamp aria-hidden="true" {} " "
                        (if is_silent { texts.cluster_unreached } else { shard_state(shard.state, texts) })
                    }
                }
                td.number data-label=(texts.cluster_share) { (self.percent(shard.share)) }
                td.number data-label=(texts.searchable) { (self.number(shard.pages)) }
                td.long data-label=(texts.cluster_replicas) {
                    ul.replicas { @for replica in shard.replicas.iter().take(ROWS_MAX) { li { (self.replica(replica)) } } }
                }
                td data-label=(texts.cluster_snapshot) {
                    span {
                        (shard.snapshot_age.map_or("–".into(), |age| self.ago(age)))
                        @if let Some(keeper) = keeper { " " span.quiet { "(" (keeper) ")" } }
                    }
                }
            }
        }
    }

    fn replica(&self, replica: &ClusterReplica) -> Markup {
        let texts = self.texts();
        let behind = fill(texts.cluster_behind, &[("time", &self.span(replica.lag))]);
        let (class, state) = match replica.state {
            ReplicaState::Joining => ("joining", texts.replica_joining),
            ReplicaState::Serving => ("up", texts.shard_serving),
            ReplicaState::Leaving => ("draining", texts.replica_leaving),
        };
        html! {
            span class={ "member " (class) } title=(state) {
                span.lamp aria-hidden="true" {} " "
                (self.cluster.name_of(&replica.node))
                @if replica.state != ReplicaState::Serving { ", " (state) }
                " " span.quiet { (behind) }
            }
        }
    }

    fn logs(&self) -> Markup {
        let (texts, locale) = (self.texts(), self.visitor.locale);
        html! {
            @if !self.cluster.logs.is_empty() {
                h2 { (texts.cluster_logs) }
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.cluster_logs) {
                    table {
                        thead {
                            tr {
                                th scope="col" { (texts.cluster_log) }
                                th.number scope="col" { (texts.cluster_messages) }
                                th.number scope="col" { (texts.size) }
                                th.number scope="col" { (texts.cluster_fill) }
                            }
                        }
                        tbody {
                            @for log in self.cluster.logs.iter().take(ROWS_MAX) {
                                @let (share, limit) = (self.percent(log.fill()), format::bytes(log.bytes_max, locale));
                                tr {
                                    th scope="row" { (log.name) }
                                    td.number data-label=(texts.cluster_messages) { (self.number(log.messages)) }
                                    td.number data-label=(texts.size) { (format::bytes(log.bytes, locale)) }
                                    td.number data-label=(texts.cluster_fill) {
                                        span.bad[log.fill() >= 0.8] {
                                            (fill(texts.cluster_limit, &[("share", &share), ("limit", &limit)]))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn servers(&self) -> Markup {
        let texts = self.texts();
        html! {
            @if !self.cluster.servers.is_empty() {
                h2 { (texts.cluster_servers) }
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.cluster_servers) {
                    table {
                        thead {
                            tr {
                                th scope="col" { (texts.cluster_server) }
                                th scope="col" { (texts.state) }
                                th scope="col" { (texts.address) }
                                th scope="col" { (texts.cluster_version) }
                            }
                        }
                        tbody {
                            @for server in self.cluster.servers.iter().take(ROWS_MAX) {
                                tr {
                                    th scope="row" { (server.name) }
                                    td data-label=(texts.state) {
                                        span class={ "member " (if server.is_reached { "up" } else { "dead" }) } {
                                            span.lamp aria-hidden="true" {} " "
                                            (if server.is_reached { texts.cluster_reached } else { texts.cluster_unreached })
                                        }
                                    }
                                    td data-label=(texts.address) { (server.address) }
                                    td data-label=(texts.cluster_version) { (or_dash(&server.version)) }
                                }
                            }
                        }
                    }
                }
            }
            @match self.cluster.sync_always {
                Some(true) => p.quiet { (texts.cluster_sync) },
                Some(false) => p.bad { (texts.cluster_no_sync) },
                None => {}
            }
        }
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// The colour of a node's lamp.
fn node_class(node: &ClusterNode) -> &'static str {
    match node.state {
        NodeState::Up if !node.trouble.is_empty() => "warned",
        state => state.code(),
    }
}

fn shard_class(state: ShardState) -> &'static str {
    match state {
        ShardState::Serving => "up",
        ShardState::Forming => "joining",
        ShardState::Splitting => "draining",
        ShardState::Retired => "left",
    }
}

fn node_state(state: NodeState, texts: &Texts) -> &'static str {
    match state {
        NodeState::Joining => texts.node_joining,
        NodeState::Up => texts.node_up,
        NodeState::Draining => texts.node_draining,
        NodeState::Left => texts.node_left,
        NodeState::Dead => texts.node_dead,
    }
}

fn shard_state(state: ShardState, texts: &Texts) -> &'static str {
    match state {
        ShardState::Serving => texts.shard_serving,
        ShardState::Forming => texts.shard_forming,
        ShardState::Splitting => texts.shard_splitting,
        ShardState::Retired => texts.shard_retired,
    }
}
