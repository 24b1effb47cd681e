//! `/metrics` in Prometheus' text format (0.0.4), and `/healthz`.

use crate::admin::access::Admin;
use crate::failure::Failure;
use crate::request_metrics::Counts;
use crate::server::Connections;
use crate::shared::Shared;
use crate::{
    ClusterAgent, ClusterPlan, ClusterStatus, EngineState, Histogram, NodeState, ReplicaState, Status,
};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::fmt::{Display, Write};
use std::sync::Arc;

/// Says that requests are served; asks the engine nothing, so that a busy engine is not restarted for it.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

pub(crate) async fn show(_: Admin, State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let ask = |engine: &dyn crate::Engine| (engine.status(), engine.cluster(), engine.metrics_text());
    let (status, cluster, own) = shared.ask(move |engine| ask(engine)).await?;
    let text = write(&status, cluster.as_ref(), &shared.request_metrics.read(), &shared.connections) + &own;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// All numbers of an engine, without those of a server for people: for whoever tells them elsewhere.
pub fn metrics_text(engine: &dyn crate::Engine) -> String {
    let mut page = Page(String::with_capacity(16 * 1024));
    engine_numbers(&mut page, &engine.status());
    if let Some(status) = engine.cluster() {
        cluster(&mut page, &status);
    }
    page.0 + &engine.metrics_text()
}

fn write(
    status: &Status,
    in_cluster: Option<&ClusterStatus>,
    counts: &Counts,
    connections: &Connections,
) -> String {
    let (open, refused) = connections.counts();
    let mut page = Page(String::with_capacity(16 * 1024));
    engine_numbers(&mut page, status);
    if let Some(status) = in_cluster {
        cluster(&mut page, status);
    }
    page.gauge("farol_http_connections", "Connections of visitors that are open.", open);
    page.gauge("farol_http_connections_max", "Most that may be open.", connections.max());
    page.counter("farol_http_connections_refused_total", "Connections refused for lack of room.", refused);
    requests(&mut page, counts);
    page.0
}

fn engine_numbers(page: &mut Page, status: &Status) {
    page.metric("farol_info", "gauge", "1, with the version as label.");
    page.sample("farol_info", &[("version", &status.version)], 1);
    page.metric("farol_state", "gauge", "1 for the state that the engine is in, 0 for the others.");
    for state in EngineState::ALL {
        page.sample("farol_state", &[("state", state.code())], u8::from(state == status.state));
    }
    let (crawl, index, disk, queries) = (&status.crawl, &status.index, &status.disk, &status.queries);
    page.gauge("farol_uptime_seconds", "Time since the process started.", status.uptime.as_secs_f64());
    page.gauge("farol_memory_bytes", "Memory of the process that is in RAM.", status.memory_bytes);
    page.counter("farol_pages_fetched_total", "Pages fetched.", crawl.pages_fetched);
    page.counter("farol_bytes_fetched_total", "Bytes fetched.", crawl.bytes_fetched);
    page.gauge("farol_pages_per_second", "Pages fetched per second, recently.", crawl.pages_per_second);
    page.gauge("farol_queue_pages", "Pages waiting to be fetched.", crawl.queue);
    page.gauge("farol_urls_known", "URLs known.", crawl.urls_known);
    let help = "Memory of robots.txt rules of hosts that are being visited; 64 MiB at most.";
    page.gauge("farol_robots_bytes", help, crawl.robots_bytes);
    let help = "Hosts of which it is remembered what they look like, to tell endless ones; 20,000 at most.";
    page.gauge("farol_shape_hosts", help, crawl.shapes);
    let help = "Texts that are remembered, to tell copies within a host; 1,000,000 at most.";
    page.gauge("farol_shape_texts", help, crawl.texts);
    let help = "Connections to crawled servers that are open, idle ones included.";
    page.gauge("farol_crawl_connections", help, crawl.connections);
    page.gauge("farol_crawl_visits", "Visits under way.", crawl.visits);
    let help = "Memory of pages that are being received.";
    page.gauge("farol_crawl_body_bytes", help, crawl.body_bytes);
    let help = "Times that a host was put off because its domain or address had its share of the places.";
    page.counter("farol_hosts_sent_away_total", help, crawl.hosts_sent_away);
    page.metric("farol_hosts", "gauge", "Hosts by state.");
    for (state, count) in &crawl.hosts {
        page.sample("farol_hosts", &[("state", state)], count);
    }
    page.metric("farol_responses_total", "counter", "Answers of crawled servers by HTTP status code.");
    for (code, count) in &crawl.status_codes {
        page.sample("farol_responses_total", &[("code", &code.to_string())], count);
    }
    page.metric("farol_fetch_errors_total", "counter", "Fetches without an answer, by kind.");
    for (kind, count) in &crawl.errors {
        page.sample("farol_fetch_errors_total", &[("kind", kind)], count);
    }
    page.counter("farol_pages_indexed_total", "Pages taken into the index.", index.pages_indexed);
    page.gauge("farol_index_documents", "Pages that can be found.", index.documents);
    page.gauge("farol_index_generation", "State of the index that answers.", index.generation);
    page.metric("farol_index_language_documents", "gauge", "Pages that can be found, by language.");
    for (language, count) in &index.languages {
        page.sample("farol_index_language_documents", &[("language", language.code())], count);
    }
    if let Some(freshness) = &status.freshness {
        let help = "Expected share of the index that is still what the servers have.";
        page.gauge("farol_freshness_ratio", help, freshness.fresh);
        let help =
            "Mean time since copies in the index stopped being true, expected; 0 for those still true.";
        page.gauge("farol_age_seconds", help, freshness.age.as_secs_f64());
    }
    if let Some(cache) = &status.cache {
        page.counter("farol_cache_hits_total", "Questions answered from the cache.", cache.hits);
        page.counter("farol_cache_misses_total", "Questions that the index was asked.", cache.misses);
        page.counter("farol_cache_expired_total", "Answers found in the cache too old.", cache.expired);
        let help = "Questions that waited for the answer to the same question.";
        page.counter("farol_cache_shared_total", help, cache.shared);
        page.counter("farol_cache_evicted_total", "Answers given up for others.", cache.evicted);
        page.gauge("farol_cache_answers", "Answers in the cache.", cache.answers);
        page.gauge("farol_cache_bytes", "Memory of the answers in the cache.", cache.bytes);
        page.gauge("farol_cache_bytes_max", "Memory that the cache may use.", cache.bytes_max);
    }
    page.metric("farol_disk_bytes", "gauge", "Bytes on disk by use.");
    let uses = [
        ("archive", disk.archive_bytes),
        ("index", disk.index_bytes),
        ("urls", disk.urls_bytes),
        ("links", disk.links_bytes),
    ];
    for (name, bytes) in uses {
        page.sample("farol_disk_bytes", &[("use", name)], bytes);
    }
    if let Some(free) = disk.free_bytes {
        page.gauge("farol_disk_free_bytes", "Room left on the disk.", free);
    }
    page.counter("farol_queries_total", "Questions answered.", queries.total);
    page.gauge("farol_queries_per_second", "Questions answered per second, recently.", queries.per_second);
    page.metric("farol_query_seconds", "histogram", "Time taken by questions.");
    page.histogram("farol_query_seconds", &[], &queries.times);
}

/// The cluster as this node last heard of it: every node tells the same of the others, and its own lag of the news.
fn cluster(page: &mut Page, status: &ClusterStatus) {
    page.metric("farol_cluster_nodes", "gauge", "Nodes of the cluster by state.");
    for state in NodeState::ALL {
        let count = status.nodes.iter().filter(|node| node.state == state).count();
        page.sample("farol_cluster_nodes", &[("state", state.code())], count);
    }
    page.metric("farol_cluster_leader", "gauge", "1 for the node that plans for all.");
    if let Some(leader) = &status.leader {
        page.sample("farol_cluster_leader", &[("node", status.name_of(&leader.node))], 1);
    }
    page.gauge(
        "farol_cluster_term",
        "Grows with each leader.",
        status.leader.as_ref().map_or(0, |it| it.term),
    );
    page.gauge("farol_cluster_warnings", "Things to look at.", status.warnings.len());
    let nodes = || status.nodes.iter().filter(|node| node.state != NodeState::Left);
    page.metric("farol_node_silent_seconds", "gauge", "Time since a node was last heard of.");
    for node in nodes() {
        page.sample("farol_node_silent_seconds", &[("node", &node.name)], node.age.as_secs_f64());
    }
    page.metric("farol_node_load_ratio", "gauge", "Share of a node's processors that is in use.");
    for node in nodes().filter(|node| node.load.is_finite()) {
        page.sample("farol_node_load_ratio", &[("node", &node.name)], node.load);
    }
    page.metric("farol_node_free_bytes", "gauge", "Room left where a node's data folder is.");
    for (node, free) in nodes().filter_map(|node| Some((node, node.free_bytes?))) {
        page.sample("farol_node_free_bytes", &[("node", &node.name)], free);
    }
    shards(page, status);
    agents(page, status);
    page.metric("farol_log_bytes", "gauge", "Size of a log between nodes.");
    for log in &status.logs {
        page.sample("farol_log_bytes", &[("log", &log.name)], log.bytes);
    }
    page.metric("farol_log_bytes_max", "gauge", "What a log between nodes may take; it refuses more.");
    for log in &status.logs {
        page.sample("farol_log_bytes_max", &[("log", &log.name)], log.bytes_max);
    }
    page.metric("farol_fabric_server_up", "gauge", "1 for a server between nodes that answers.");
    for server in &status.servers {
        page.sample("farol_fabric_server_up", &[("server", &server.name)], u8::from(server.is_reached));
    }
    page.metric("farol_cluster_table_version", "gauge", "Version of a table that this node goes by.");
    for (table, version) in &status.maps {
        page.sample("farol_cluster_table_version", &[("table", table)], version);
    }
}

fn agents(page: &mut Page, status: &ClusterStatus) {
    if let Some(route) = &status.route {
        page.gauge("farol_route_epoch", "Version of the table by which agents share hosts.", route.epoch);
        let settled = u8::from(route.is_settled);
        page.gauge("farol_route_settled", "1 where all agents have released that version.", settled);
    }
    if let Some(plan) = &status.plan {
        planner(page, plan);
        page.metric("farol_agent_load_ratio", "gauge", "Pages of an agent's hosts over its share of all.");
        for (agent, load) in status.agents.iter().filter_map(|agent| Some((agent, agent.balance?))) {
            page.sample("farol_agent_load_ratio", &[("node", status.name_of(&agent.node))], load);
        }
    }
    type Value = fn(&ClusterAgent) -> u64;
    let gauges: [(&str, &str, Value); 6] = [
        ("farol_agent_hosts", "Hosts that an agent knows.", |agent| agent.hosts),
        ("farol_agent_pages", "Pages that an agent has.", |agent| agent.pages),
        ("farol_agent_urls_sent", "URLs that an agent has sent to others.", |agent| agent.urls_sent),
        ("farol_agent_urls_received", "URLs that an agent has got from others.", |agent| agent.urls_received),
        ("farol_agent_outbox_bytes", "What waits on an agent's disk for others.", |agent| agent.outbox),
        ("farol_agent_released_epoch", "Newest version of the table that an agent has released.", |agent| {
            agent.released
        }),
    ];
    for (name, help, value) in gauges {
        page.metric(name, "gauge", help);
        for agent in &status.agents {
            page.sample(name, &[("node", status.name_of(&agent.node))], value(agent));
        }
    }
}

fn planner(page: &mut Page, plan: &ClusterPlan) {
    page.gauge("farol_plan_hosts", "Hosts that agents have told the planner of.", plan.hosts);
    page.gauge("farol_plan_links", "Links between hosts that agents have told the planner of.", plan.links);
    page.metric("farol_plan_refused", "gauge", "What an agent told the planner and was not believed.");
    for (agent, why, count) in &plan.refused {
        page.sample("farol_plan_refused", &[("agent", agent), ("why", why)], count);
    }
    if let Some(last) = &plan.last {
        page.gauge("farol_plan_number", "Plans of the routing table so far.", last.number);
    }
    let Some(newest) = plan.outcomes.last() else { return };
    let expected = newest.expected.exchange_after;
    page.gauge(
        "farol_plan_exchange_expected_ratio",
        "Links to other agents that the table promised.",
        expected,
    );
    if let Some(measured) = newest.measured() {
        let help = "Links to other agents that agents have counted under the table.";
        page.gauge("farol_plan_exchange_measured_ratio", help, measured);
    }
}

fn shards(page: &mut Page, status: &ClusterStatus) {
    page.metric("farol_shard_replicas", "gauge", "Replicas that answer for a shard.");
    for shard in &status.shards {
        let serving = shard.replicas.iter().filter(|replica| replica.state == ReplicaState::Serving).count();
        page.sample("farol_shard_replicas", &[("shard", &shard.id.to_string())], serving);
    }
    let replicas = || {
        let shards = status.shards.iter().map(|shard| (shard.id.to_string(), &shard.replicas));
        shards.flat_map(|(id, replicas)| replicas.iter().map(move |replica| (id.clone(), replica)))
    };
    page.metric("farol_shard_lag_seconds", "gauge", "How far a replica is behind its shard's log.");
    for (shard, replica) in replicas() {
        let labels = [("shard", &*shard), ("node", status.name_of(&replica.node))];
        page.sample("farol_shard_lag_seconds", &labels, replica.lag.as_secs_f64());
    }
    page.metric("farol_shard_pages", "gauge", "Pages that can be found in a replica.");
    for (shard, replica) in replicas() {
        let labels = [("shard", &*shard), ("node", status.name_of(&replica.node))];
        page.sample("farol_shard_pages", &labels, replica.pages);
    }
}

fn requests(page: &mut Page, counts: &Counts) {
    page.metric("farol_http_requests_total", "counter", "Requests served, by route and status.");
    for ((route, status), count) in &counts.requests {
        let labels = [("route", *route), ("status", &status.to_string())];
        page.sample("farol_http_requests_total", &labels, count);
    }
    page.metric("farol_http_request_seconds", "histogram", "Time taken by requests, by route.");
    for (route, times) in &counts.times {
        page.histogram("farol_http_request_seconds", &[("route", route)], times);
    }
}

struct Page(String);

impl Page {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if i == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Histogram) {
        let ends = times.buckets().map(|(end, count)| (end.to_string(), count));
        for (end, count) in ends.chain([("+Inf".to_string(), times.count())]) {
            self.sample(&format!("{name}_bucket"), &[labels, &[("le", &end)]].concat(), count);
        }
        self.sample(&format!("{name}_sum"), labels, times.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), labels, times.count());
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, "counter", help);
        self.sample(name, &[], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page(String::new());
        page.sample("m", &[("a", "x\"y\\z\nw"), ("b", "")], 1.5);
        page.sample("n", &[], 2);
        assert_eq!(page.0, "m{a=\"x\\\"y\\\\z\\nw\",b=\"\"} 1.5\nn 2\n");
    }
}
