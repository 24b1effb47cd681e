//! What a node of whatever roles tells Prometheus: on a listener of its own (`cluster.metrics`), and behind what a front
//! tells at its `/metrics`.

use super::Refusal;
use crate::handles::cache_node::CacheShelf;
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::cluster_status::role_name;
use crate::roles::front::LiveEngine;
use anyhow::Result;
use bytes::Bytes;
use farol_cluster::record::Role;
use farol_rpc::metrics::{Metrics, Side};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::{Display, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Whoever scrapes has one connection, or two.
const CONNECTIONS_MAX: usize = 16;
/// A connection on which nothing is asked is closed after this.
const HEAD_MAX: Duration = Duration::from_secs(120);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a node's numbers are read from. What comes later is filled in when it is there.
pub struct NodeMetrics {
    pub name: String,
    pub roles: BTreeSet<Role>,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    /// Of the calls that this node makes.
    pub client: farol_rpc::Client,
    pub begun: Instant,
    /// Of the calls that it answers.
    pub server: OnceLock<Arc<Metrics>>,
    pub shelf: OnceLock<Arc<CacheShelf>>,
    /// Where the node crawls or answers people. It holds these numbers itself.
    pub engine: OnceLock<Weak<LiveEngine>>,
}

impl NodeMetrics {
    /// Everything that this node knows.
    pub fn text(&self) -> String {
        match self.engine.get().and_then(Weak::upgrade) {
            // Which tells the node's own, too.
            Some(engine) => farol_front::metrics_text(&*engine),
            None => self.node_text() + &self.client.metrics().snapshot().text(Side::Client),
        }
    }

    /// What every node has: membership, replicas, sender, ranker, cache, calls answered.
    pub fn node_text(&self) -> String {
        let mut page = Page(String::with_capacity(8 << 10));
        self.membership(&mut page);
        self.replicas(&mut page);
        self.sender(&mut page);
        self.ranker(&mut page);
        self.cache(&mut page);
        let server = self.server.get().map(|metrics| metrics.snapshot().text(Side::Server));
        page.0 + &server.unwrap_or_default()
    }

    fn membership(&self, page: &mut Page) {
        let (view, board) = (self.cluster.view(), &self.board);
        let roles: Vec<&str> = self.roles.iter().map(|role| role_name(*role)).collect();
        page.metric("farol_member_info", "gauge", "1, with what this node is as labels.");
        let (no, roles) = (view.no.map_or_else(String::new, |no| no.to_string()), roles.join(","));
        let labels =
            [("name", &*self.name), ("no", &no), ("roles", &roles), ("version", env!("CARGO_PKG_VERSION"))];
        page.sample("farol_member_info", &labels, 1);
        page.one(
            "farol_member_active",
            "gauge",
            "1 while this node may act: its lease is valid.",
            u8::from(view.is_active),
        );
        page.one(
            "farol_member_uptime_seconds",
            "gauge",
            "Time since it was started.",
            self.begun.elapsed().as_secs(),
        );
        page.one(
            "farol_member_memory_bytes",
            "gauge",
            "Memory of the process that is in RAM.",
            crate::process::memory_bytes(),
        );
        let troubles = board.report().trouble.len() + usize::from(view.trouble.is_some());
        page.one(
            "farol_member_troubles",
            "gauge",
            "Sentences on what is wrong with it, as `farol cluster status` shows them.",
            troubles,
        );
        page.metric("farol_dead_batches_total", "counter", "Batches of a log that could not be read.");
        for (topic, count) in board.dead.counts() {
            page.sample("farol_dead_batches_total", &[("log", &topic.to_string())], count);
        }
        page.one(
            "farol_dead_batches_kept",
            "gauge",
            "Batches that could not be read and lie in the folder `dead`.",
            board.dead.kept(),
        );
    }

    fn replicas(&self, page: &mut Page) {
        if !self.roles.contains(&Role::Index) {
            return;
        }
        let replicas = self.board.replicas.lock().clone();
        let mut each =
            |name: &str, help: &str, of: &dyn Fn(&farol_cluster::record::ReplicaReport) -> Option<f64>| {
                page.metric(name, "gauge", help);
                for (shard, value) in replicas.iter().filter_map(|(shard, report)| Some((shard, of(report)?)))
                {
                    page.sample(name, &[("shard", &shard.to_string())], value);
                }
            };
        each("farol_replica_pages", "Pages in a replica of this node.", &|report| {
            Some(report.documents as f64)
        });
        each("farol_replica_bytes", "Bytes of a replica on disk.", &|report| Some(report.bytes as f64));
        each(
            "farol_replica_mark",
            "Number of the last batch of its log that it has made durable.",
            &|report| Some(report.mark.seq as f64),
        );
        each(
            "farol_replica_lag_seconds",
            "How long ago it had all that its log holds; nothing while it has not.",
            &|report| Some(report.lag_ms? as f64 / 1000.0),
        );
        let ahead = self.board.pages_ahead.load(Ordering::Relaxed);
        page.one(
            "farol_pages_ahead_total",
            "counter",
            "Pages passed over because they are dated more than a day ahead.",
            ahead,
        );
    }

    fn sender(&self, page: &mut Page) {
        let Some(sender) = self.board.sender.lock().clone() else { return };
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        page.one(
            "farol_sender_batches_total",
            "counter",
            "Batches of pages and links that logs took.",
            read(&sender.batches),
        );
        page.one("farol_sender_bytes_total", "counter", "Bytes of these, packed.", read(&sender.bytes));
        page.one(
            "farol_sender_logs_behind",
            "gauge",
            "Logs that are filled from the archive.",
            read(&sender.behind),
        );
        let waits = u8::from(!sender.trouble.lock().is_empty());
        page.one("farol_sender_waits", "gauge", "1 while a log takes nothing.", waits);
    }

    fn ranker(&self, page: &mut Page) {
        let Some(ranker) = *self.board.ranker.lock() else { return };
        page.one("farol_ranker_pages", "gauge", "Pages whose links this ranker knows.", ranker.pages);
        page.one("farol_ranker_links", "gauge", "Links on them.", ranker.links);
        page.one("farol_ranker_bytes", "gauge", "Bytes of the graph on disk.", ranker.bytes);
        let help = "Pages whose anchor texts wait to be told to their shards.";
        page.one("farol_ranker_anchors_waiting", "gauge", help, ranker.anchors_waiting);
        page.one(
            "farol_ranker_mark",
            "gauge",
            "Number of the last batch of links that is durable.",
            ranker.mark,
        );
        page.one("farol_ranker_busy", "gauge", "1 while ranks are computed.", u8::from(ranker.is_ranking));
        let version = self.board.ranks.lock().as_ref().map_or(0, |ranks| ranks.version);
        page.one("farol_ranker_version", "gauge", "Version of the ranks that it uploaded last.", version);
    }

    fn cache(&self, page: &mut Page) {
        let Some(shelf) = self.shelf.get() else { return };
        let beat = shelf.beat();
        page.one(
            "farol_cache_own_lookups_total",
            "counter",
            "Questions that fronts looked up here.",
            beat.lookups,
        );
        page.one("farol_cache_own_hits_total", "counter", "Of these, answers found.", beat.hits);
        page.one(
            "farol_cache_own_adopted_total",
            "counter",
            "Answers found among another node's copies.",
            beat.adopted,
        );
        page.one("farol_cache_own_misses_total", "counter", "Questions without a kept answer.", beat.misses);
        page.one("farol_cache_own_inserts_total", "counter", "Answers handed in.", beat.inserts);
        page.one(
            "farol_cache_own_refused_total",
            "counter",
            "Requests refused because there were too many.",
            beat.refused,
        );
        page.one("farol_cache_own_entries", "gauge", "Answers that are kept.", beat.entries);
        page.one("farol_cache_own_bytes", "gauge", "Bytes that they take.", beat.bytes);
        page.one(
            "farol_cache_own_busy_ratio",
            "gauge",
            "How busy the node is, 0 to 1.",
            f64::from(beat.busy) / 1000.0,
        );
    }
}

struct Page(String);

impl Page {
    // Writing into a string cannot fail.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }
}

/// Listens where the settings say; a refusal says what to change.
pub fn bind(address: Option<SocketAddr>) -> Result<Option<std::net::TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = std::net::TcpListener::bind(address).map_err(|error| {
        Refusal::of(format!(
            "cannot listen on {address} for Prometheus ({error}); choose another with --metrics or metrics under [cluster]"
        ))
    })?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

/// Answers at `/metrics` and `/healthz` until the runtime ends. Must be called within it.
pub fn serve(listener: std::net::TcpListener, metrics: Arc<NodeMetrics>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Who finds no place is let go at once.
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let metrics = metrics.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| answer(metrics.clone(), request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_MAX)
                    .serve_connection(TokioIo::new(stream), service);
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "whoever scrapes has gone");
                }
                drop(place);
            });
        }
    });
    Ok(())
}

async fn answer(
    metrics: Arc<NodeMetrics>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let text = tokio::task::spawn_blocking(move || metrics.text()).await;
            text.map_or((StatusCode::INTERNAL_SERVER_ERROR, String::new()), |text| (StatusCode::OK, text))
        }
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "ok\n".to_string()),
        _ => (StatusCode::NOT_FOUND, "here are /metrics and /healthz\n".to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
