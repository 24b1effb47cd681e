//! Numbers about the engine, as plain values: of this moment, of the recent past, and per host.
//!
//! Nothing here is `Serialize`; what goes over the wire are the twins in `api`.

use crate::Histogram;
pub use farol_base::status::{EngineState, Freshness, RecentVisit, SeedReport, SeedState, SeedSummary};
use farol_base::{Host, Language, Timestamp};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The engine at this moment.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The product's version.
    pub version: String,
    /// What the engine is doing.
    pub state: EngineState,
    /// What the state means here and now, in one sentence ("no room on /data: 12 MB left"); may be empty.
    pub message: String,
    /// When these numbers were taken.
    pub now: Timestamp,
    /// Time since the process started.
    pub uptime: Duration,
    /// The crawler.
    pub crawl: CrawlStatus,
    /// Where the crawl starts, and what came of that.
    pub seeds: Arc<SeedSummary>,
    /// The index.
    pub index: IndexStatus,
    /// Bytes on disk.
    pub disk: DiskStatus,
    /// Questions answered.
    pub queries: QueryStatus,
    /// Memory of the process that is in RAM.
    pub memory_bytes: u64,
    /// How fresh the index is; `None` where it is not known yet.
    pub freshness: Option<Freshness>,
    /// The cache of answers; `None` where there is none.
    pub cache: Option<CacheStatus>,
}

/// The crawler at this moment. Counts are since the data folder was made unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct CrawlStatus {
    /// Pages fetched.
    pub pages_fetched: u64,
    /// Over the last few seconds.
    pub pages_per_second: f64,
    /// Since this process started.
    pub pages_per_second_mean: f64,
    /// Bytes fetched.
    pub bytes_fetched: u64,
    /// Pages waiting to be fetched.
    pub queue: u64,
    /// URLs known.
    pub urls_known: u64,
    /// Memory of the robots.txt rules of hosts that are being visited.
    pub robots_bytes: u64,
    /// Hosts of which it is remembered what they look like, to tell endless ones.
    pub shapes: u64,
    /// Texts that are remembered, to tell copies.
    pub texts: u64,
    /// Visits under way.
    pub visits: u64,
    /// Connections to crawled servers that are open.
    pub connections: u64,
    /// Memory of pages that are being received.
    pub body_bytes: u64,
    /// Times that a host was put off because its domain or address had its share of the places.
    pub hosts_sent_away: u64,
    /// How many hosts are in each state (a word in lower case), in the order in which to show them.
    pub hosts: Vec<(String, u64)>,
    /// How many answers had each HTTP status code.
    pub status_codes: Vec<(u16, u64)>,
    /// How many fetches failed without an answer, by kind (`timeout`, `dns`, `refused_by_robots`, …).
    pub errors: Vec<(String, u64)>,
}

/// The index at this moment.
#[derive(Clone, Debug, Default)]
pub struct IndexStatus {
    /// The state of the index that answers; grows with each commit.
    pub generation: u64,
    /// Pages that can be found.
    pub documents: u64,
    /// Pages taken in since the data folder was made, again when they changed.
    pub pages_indexed: u64,
    /// Pages that can be found, by language, the most frequent first.
    pub languages: Vec<(Language, u64)>,
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskStatus {
    /// Of the archive of fetched pages.
    pub archive_bytes: u64,
    /// Of the index.
    pub index_bytes: u64,
    /// Of the URL store.
    pub urls_bytes: u64,
    /// Of the link store.
    pub links_bytes: u64,
    /// Room left where the data folder is, where it is known.
    pub free_bytes: Option<u64>,
}

/// Questions answered by this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryStatus {
    /// All of them.
    pub total: u64,
    /// Over the last few seconds.
    pub per_second: f64,
    /// Time taken by half of the recent questions at most.
    pub p50: Duration,
    /// Time taken by 99 % of the recent questions at most.
    pub p99: Duration,
    /// Times of all of them.
    pub times: Histogram,
}

/// The cache of answers at this moment. Counts are since this process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Questions answered from the cache.
    pub hits: u64,
    /// Questions that the index was asked.
    pub misses: u64,
    /// Of these, because the answer was too old or of an earlier state of the index.
    pub expired: u64,
    /// Questions that waited for somebody else's answer to the same question.
    pub shared: u64,
    /// Answers in the cache.
    pub answers: u64,
    /// Memory of the answers in the cache.
    pub bytes: u64,
    /// Memory that the cache may use.
    pub bytes_max: u64,
    /// Answers given up for others.
    pub evicted: u64,
    /// What was asked most in the last ten minutes, with how often, the most first.
    pub hot: Vec<(String, u64)>,
}

impl CacheStatus {
    /// Share of questions that the index was not asked, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        let spared = self.hits.saturating_add(self.shared);
        spared as f64 / spared.saturating_add(self.misses).max(1) as f64
    }
}

/// The recent past as samples at equal steps, oldest first.
///
/// Charts show the newest 1,024 samples; at two seconds a step that is the last half hour.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Time between two samples.
    pub step: Duration,
    /// The samples, oldest first.
    pub samples: Vec<Sample>,
}

/// One step of the past. Rates are means over the step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The end of the step.
    pub at: Timestamp,
    /// Pages fetched per second.
    pub pages_per_second: f64,
    /// Answers per second by class: 2xx, 3xx, 4xx, 5xx, and fetches without an answer.
    pub outcomes_per_second: [f64; 5],
    /// Pages waiting to be fetched.
    pub queue: u64,
    /// Pages that can be found.
    pub index_documents: u64,
    /// Bytes of the index on disk.
    pub index_bytes: u64,
    /// Questions answered per second.
    pub queries_per_second: f64,
    /// Median time that recent questions took.
    pub query_p50: Duration,
    /// 99th percentile of the time that recent questions took.
    pub query_p99: Duration,
    /// At the end of the step; `None` where it was not known yet.
    pub freshness: Option<Freshness>,
}

/// A stretch of the list of hosts.
#[derive(Clone, Debug, Default)]
pub struct HostList {
    /// How many hosts match.
    pub total: usize,
    /// Those of this stretch.
    pub rows: Vec<HostRow>,
}

/// A host in a list.
#[derive(Clone, Debug)]
pub struct HostRow {
    /// The host.
    pub host: Host,
    /// The same words as in [`CrawlStatus::hosts`].
    pub state: String,
    /// Pages fetched from it.
    pub pages_fetched: u64,
    /// Its pages waiting to be fetched.
    pub queue: u64,
    /// Its fetches that failed.
    pub errors: u64,
    /// Time between two requests.
    pub delay: Duration,
    /// When it is asked next, where that is known.
    pub next_visit: Option<Timestamp>,
    /// Of its pages; `None` where it is not known yet.
    pub freshness: Option<Freshness>,
}

/// Everything known of a host.
#[derive(Clone, Debug)]
pub struct HostDetail {
    /// The host.
    pub host: Host,
    /// The same words as in [`CrawlStatus::hosts`].
    pub state: String,
    /// What robots.txt says to us, in one sentence.
    pub robots_verdict: String,
    /// When robots.txt was last read.
    pub robots_fetched: Option<Timestamp>,
    /// robots.txt as it was read; empty where there is none.
    pub robots_rules: String,
    /// Time between two requests.
    pub delay: Duration,
    /// What the site itself asks for.
    pub crawl_delay: Option<Duration>,
    /// The IP address that its name has, where it is known.
    pub address: Option<IpAddr>,
    /// When it is asked next, where that is known.
    pub next_visit: Option<Timestamp>,
    /// Its URLs that are known.
    pub pages_known: u64,
    /// Pages fetched from it.
    pub pages_fetched: u64,
    /// Its pages that were indexed.
    pub pages_indexed: u64,
    /// Its pages waiting to be fetched.
    pub queue: u64,
    /// Bytes fetched from it.
    pub bytes_fetched: u64,
    /// Of its pages; `None` where it is not known yet.
    pub freshness: Option<Freshness>,
    /// Failures by kind.
    pub errors: Vec<(String, u64)>,
    /// The last visits, newest first.
    pub visits: Vec<RecentVisit>,
}

/// What robots.txt says of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsTry {
    /// Whether we may fetch the page.
    pub allowed: bool,
    /// The rule that decided, as it is written; `None` where no rule matches.
    pub rule: Option<String>,
}
