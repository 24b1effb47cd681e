//! `/api/v1/status` and `/api/v1/history`.

use super::{Count, FreshnessWire, counts, finite, freshness, instant};
use crate::admin::access::Admin;
use crate::chart::SAMPLES_MAX;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::{ClusterSummary, Sample, SeedReport, Status, seed_sentence};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct StatusWire {
    version: String,
    state: &'static str,
    message: String,
    now: String,
    uptime_seconds: f64,
    crawl: CrawlWire,
    seeds: SeedsWire,
    index: IndexWire,
    disk: DiskWire,
    queries: QueriesWire,
    memory_bytes: u64,
    freshness: Option<FreshnessWire>,
    cache: Option<CacheWire>,
    /// Only for a member of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterSummaryWire>,
}

#[derive(Serialize)]
struct ClusterSummaryWire {
    name: String,
    nodes: u64,
    nodes_up: u64,
    shards: u64,
    shards_answered: u64,
    lag_seconds: Option<f64>,
    warnings: u64,
}

#[derive(Serialize)]
struct CacheWire {
    hits: u64,
    misses: u64,
    expired: u64,
    shared: u64,
    hit_rate: f64,
    answers: u64,
    bytes: u64,
    bytes_max: u64,
    evicted: u64,
    hot: Vec<Count>,
}

#[derive(Serialize)]
struct CrawlWire {
    pages_fetched: u64,
    pages_per_second: f64,
    pages_per_second_mean: f64,
    bytes_fetched: u64,
    queue: u64,
    urls_known: u64,
    hosts: Vec<Count>,
    status_codes: Vec<Count>,
    errors: Vec<Count>,
}

#[derive(Serialize)]
struct SeedsWire {
    total: u64,
    fine: u64,
    waiting: u64,
    troubled: u64,
    seeds: Vec<SeedReportWire>,
}

#[derive(Serialize)]
struct SeedReportWire {
    url: String,
    leads_to: Option<String>,
    state: &'static str,
    detail: String,
    text: String,
    at: Option<String>,
}

#[derive(Serialize)]
struct IndexWire {
    generation: u64,
    documents: u64,
    pages_indexed: u64,
    languages: Vec<Count>,
}

#[derive(Serialize)]
struct DiskWire {
    archive_bytes: u64,
    index_bytes: u64,
    urls_bytes: u64,
    links_bytes: u64,
    free_bytes: Option<u64>,
}

#[derive(Serialize)]
struct QueriesWire {
    total: u64,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub(crate) async fn status(_: Admin, State(shared): State<Arc<Shared>>) -> Result<Json<StatusWire>, Failure> {
    let (status, cluster) = shared.ask(|engine| (engine.status(), engine.cluster())).await?;
    Ok(Json(wire(status, cluster.map(|cluster| cluster.summary()))))
}

fn wire(status: Status, cluster: Option<ClusterSummary>) -> StatusWire {
    let seeds = status.seeds;
    let (crawl, index, disk, queries) = (status.crawl, status.index, status.disk, status.queries);
    StatusWire {
        version: status.version,
        state: status.state.code(),
        message: status.message,
        now: instant(status.now),
        uptime_seconds: status.uptime.as_secs_f64(),
        crawl: CrawlWire {
            pages_fetched: crawl.pages_fetched,
            pages_per_second: finite(crawl.pages_per_second),
            pages_per_second_mean: finite(crawl.pages_per_second_mean),
            bytes_fetched: crawl.bytes_fetched,
            queue: crawl.queue,
            urls_known: crawl.urls_known,
            hosts: counts(&crawl.hosts),
            status_codes: counts(&crawl.status_codes),
            errors: counts(&crawl.errors),
        },
        seeds: SeedsWire {
            total: seeds.total,
            fine: seeds.fine,
            waiting: seeds.waiting,
            troubled: seeds.troubled(),
            seeds: seeds.reports.iter().map(seed).collect(),
        },
        index: IndexWire {
            generation: index.generation,
            documents: index.documents,
            pages_indexed: index.pages_indexed,
            languages: counts(&index.languages),
        },
        disk: DiskWire {
            archive_bytes: disk.archive_bytes,
            index_bytes: disk.index_bytes,
            urls_bytes: disk.urls_bytes,
            links_bytes: disk.links_bytes,
            free_bytes: disk.free_bytes,
        },
        queries: QueriesWire {
            total: queries.total,
            per_second: finite(queries.per_second),
            p50_ms: queries.p50.as_secs_f64() * 1e3,
            p99_ms: queries.p99.as_secs_f64() * 1e3,
        },
        memory_bytes: status.memory_bytes,
        freshness: status.freshness.map(freshness),
        cache: status.cache.map(|cache| CacheWire {
            hits: cache.hits,
            misses: cache.misses,
            expired: cache.expired,
            shared: cache.shared,
            hit_rate: cache.hit_rate(),
            answers: cache.answers,
            bytes: cache.bytes,
            bytes_max: cache.bytes_max,
            evicted: cache.evicted,
            hot: counts(&cache.hot),
        }),
        cluster: cluster.map(|cluster| ClusterSummaryWire {
            name: cluster.name,
            nodes: cluster.nodes,
            nodes_up: cluster.nodes_up,
            shards: cluster.shards,
            shards_answered: cluster.shards_answered,
            lag_seconds: cluster.lag.map(|lag| lag.as_secs_f64()),
            warnings: cluster.warnings,
        }),
    }
}

fn seed(report: &SeedReport) -> SeedReportWire {
    SeedReportWire {
        url: report.url.to_string(),
        leads_to: report.leads_to.as_ref().map(ToString::to_string),
        state: report.state.code(),
        detail: report.detail.clone(),
        text: seed_sentence(report),
        at: report.at.map(instant),
    }
}

#[derive(Serialize)]
pub(crate) struct HistoryWire {
    step_seconds: f64,
    samples: Vec<SampleWire>,
}

#[derive(Serialize)]
struct SampleWire {
    at: String,
    pages_per_second: f64,
    outcomes_per_second: OutcomesWire,
    queue: u64,
    index_documents: u64,
    index_bytes: u64,
    queries_per_second: f64,
    query_p50_ms: f64,
    query_p99_ms: f64,
    freshness: Option<FreshnessWire>,
}

#[derive(Serialize)]
struct OutcomesWire {
    s2xx: f64,
    s3xx: f64,
    s4xx: f64,
    s5xx: f64,
    no_answer: f64,
}

pub(crate) async fn history(
    _: Admin,
    State(shared): State<Arc<Shared>>,
) -> Result<Json<HistoryWire>, Failure> {
    let history = shared.ask(|engine| engine.history()).await?;
    let newest = history.samples.len().saturating_sub(SAMPLES_MAX);
    let samples = history.samples[newest..].iter().map(sample).collect();
    Ok(Json(HistoryWire { step_seconds: history.step.as_secs_f64(), samples }))
}

fn sample(sample: &Sample) -> SampleWire {
    let [s2xx, s3xx, s4xx, s5xx, no_answer] = sample.outcomes_per_second.map(finite);
    SampleWire {
        at: instant(sample.at),
        pages_per_second: finite(sample.pages_per_second),
        outcomes_per_second: OutcomesWire { s2xx, s3xx, s4xx, s5xx, no_answer },
        queue: sample.queue,
        index_documents: sample.index_documents,
        index_bytes: sample.index_bytes,
        queries_per_second: finite(sample.queries_per_second),
        query_p50_ms: sample.query_p50.as_secs_f64() * 1e3,
        query_p99_ms: sample.query_p99.as_secs_f64() * 1e3,
        freshness: sample.freshness.map(freshness),
    }
}
