//! Answers people: the engine behind the pages of `farol_front`.

mod explain;
mod flight_board;
mod result_cache;
mod ring_cache;
mod rules;

pub use result_cache::ResultCache;
pub use ring_cache::{AskIndex, RingCache};
pub use rules::RuleFiles;

use crate::archive::Interpreter;
use crate::archive::page_orders::PageOrder;
use crate::clicks::ClickCounts;
use crate::config::Config;
use crate::handles::cluster::ClusterFace;
use crate::handles::crawl::{CrawlHandle, CrawlSnapshot};
use crate::handles::federation::FederationFace;
use crate::handles::index::{IndexAccess, RulesInForce};
use crate::handles::order::{HostAnswer, HostLine, Inspect, Order};
use crate::handles::queries::Queries;
use crate::handles::samples::Samples;
use crate::page_set::PageSet;
use crate::seed::read_seed;
use farol_base::query::{Answer, Request};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Clock, Host, SystemClock, Timestamp};
use farol_front::{
    BrokenList, CacheStatus, ClusterOrder, ClusterStatus, Command, CrawlStatus, DiskStatus, Engine,
    EngineError, FederationOrder, FederationStatus, History, HostDetail, HostList, HostRow, IndexStatus,
    PageDetail, QueryStatus, RingStatus, RobotsTry, Settings, Status, StoredCopy,
};
use farol_links::Links;
use farol_parse::robots::{Robots, Verdict};
use farol_parse::{PageInput, Wants};
use farol_store::pages::{ArchiveReader, Exchange};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Hands an order to whoever carries it out.
pub type Orders = Arc<dyn Fn(Order) -> anyhow::Result<()> + Send + Sync>;

/// How long a question to the crawl may wait for its turn.
const ASK_MAX: Duration = Duration::from_secs(3);

/// The engine that runs in this process, as the pages ask it.
pub struct LiveEngine {
    pub config: Arc<Config>,
    pub index: Arc<dyn IndexAccess>,
    pub queries: Arc<Queries>,
    pub samples: Samples,
    pub rules: RuleFiles,
    /// `None` where answers are not kept.
    pub cache: Option<ResultCache>,
    /// The way to the cluster's cache nodes; while there are none, this process keeps answers by itself.
    pub ring: Option<RingCache>,
    pub archive: ArchiveReader,
    pub links: Arc<Mutex<Links>>,
    pub interpreter: Interpreter,
    pub clicks: Arc<ClickCounts>,
    /// `None` where no crawl runs in this process.
    pub crawl: Option<CrawlHandle>,
    /// The cluster that this process is a member of, if it is.
    pub cluster: Option<ClusterFace>,
    /// What is shared with engines of other owners, if anything is.
    pub federation: Option<FederationFace>,
    /// Takes questions and orders, whether a crawl runs or not.
    pub orders: Orders,
    pub started: Timestamp,
    /// The crawl as it was before this process.
    pub last_snapshot: CrawlSnapshot,
    pub disk_path: PathBuf,
}

/// The pages' settings, from the config.
pub fn settings(config: &Config, admin_token: String, crawls: bool) -> Settings {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
    Settings {
        name: config.identity.name.clone(),
        operator: config.identity.operator.clone(),
        contact: config.identity.contact.clone(),
        user_agent: config.user_agent(),
        public_url: text(&config.identity.public_url),
        names: config.serve.names.clone(),
        admin_token: Some(admin_token),
        rate_per_minute: config.serve.rate_per_minute,
        trust_forwarded: config.serve.trust_forwarded,
        results_per_page: config.serve.results_per_page,
        admin_read_only: !crawls,
        clicks: config.serve.clicks,
        // Half is the crawl's, and what is left the stores' and the index's.
        connections_max: crate::process::files_max() / 4,
        ..Settings::default()
    }
}

impl LiveEngine {
    fn snapshot(&self) -> CrawlSnapshot {
        match &self.crawl {
            Some(crawl) => crawl.snapshot(),
            None => self.last_snapshot.clone(),
        }
    }

    fn crawl(&self) -> Result<&CrawlHandle, EngineError> {
        self.crawl
            .as_ref()
            .ok_or_else(|| EngineError::Unavailable("no crawler runs in this process".to_string()))
    }

    fn ask<T>(&self, question: impl FnOnce(std::sync::mpsc::SyncSender<T>) -> Inspect) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        (self.orders)(Order::Inspect(question(reply))).ok()?;
        answer.recv_timeout(ASK_MAX).ok()
    }

    fn order_pages(&self, order: fn(PageSet) -> PageOrder, pages: &str) -> Result<String, EngineError> {
        let pages = PageSet::read(pages).map_err(EngineError::Invalid)?;
        let (reply, answer) = sync_channel(1);
        let unavailable = |error: anyhow::Error| EngineError::Unavailable(format!("{error:#}"));
        (self.orders)(Order::Pages(order(pages), reply)).map_err(unavailable)?;
        answer.recv_timeout(ASK_MAX).map_err(|_| EngineError::Busy)?.map_err(EngineError::Invalid)
    }

    fn cache_status(&self) -> Option<CacheStatus> {
        match self.ring.as_ref().filter(|ring| ring.is_there()) {
            Some(ring) => Some(ring.status()),
            None => self.cache.as_ref().map(ResultCache::status),
        }
    }

    fn host_answer(&self, host: &Host) -> Option<HostAnswer> {
        self.ask(|reply| Inspect::Host { host: host.clone(), reply })?
    }
}

/// Asks the index, on whatever thread.
fn ask_index(index: Arc<dyn IndexAccess>, request: Request, rules: RulesInForce) -> AskIndex {
    Arc::new(move || {
        index
            .search(&request, &rules)
            .map_err(|error| EngineError::Unavailable(format!("the index cannot answer: {error}")))
    })
}

impl Engine for LiveEngine {
    fn search(&self, request: &Request) -> Result<Answer, EngineError> {
        let begun = Instant::now();
        let rules = self.rules.now();
        if let Some(ring) = self.ring.as_ref().filter(|ring| ring.is_there()) {
            let ask = ask_index(self.index.clone(), request.clone(), rules.clone());
            let answer = ring.answer(request, &rules, self.index.state(), &ask);
            self.queries.took(begun.elapsed());
            return answer;
        }
        // An answer by other rules is another answer.
        let with_rules = |state: u64| farol_base::random::mix(state ^ rules.version);
        let ask = || {
            let answer = self.index.search(request, &rules);
            let (answer, made_from) = answer
                .map_err(|error| EngineError::Unavailable(format!("the index cannot answer: {error}")))?;
            Ok((answer, with_rules(made_from)))
        };
        let answer = match &self.cache {
            Some(cache) => cache.answer(request, with_rules(self.index.state()), ask),
            None => ask().map(|(answer, _)| answer),
        };
        self.queries.took(begun.elapsed());
        answer
    }

    fn suggest(&self, prefix: &str, count: usize) -> Vec<String> {
        self.index.suggest(prefix, count)
    }

    fn clicked(&self, url: &CanonicalUrl) {
        // Only what can be found can be opened.
        if self.config.serve.clicks
            && let Ok(Some(_)) = self.index.document(url)
            && let Err(error) = self.clicks.note(url.id(), SystemClock.now())
        {
            tracing::warn!(%error, "clicks could not be written");
        }
    }

    fn stored_copy(&self, url: &CanonicalUrl) -> Result<Option<StoredCopy>, EngineError> {
        let trouble =
            |error: String| EngineError::Unavailable(format!("the stored copy cannot be read: {error}"));
        // Only what can be found can be shown: pages that were removed stay in the archive, unseen.
        let document = self.index.document(url).map_err(trouble)?;
        let Some(document) = document else { return Ok(None) };
        if let Some(source) = document.source {
            return Ok(Some(StoredCopy {
                url: document.url,
                fetched: document.fetched,
                content_type: String::new(),
                charset: None,
                body: Vec::new(),
                archive: true,
                source: Some(source),
            }));
        }
        let exchange = match &self.cluster {
            Some(cluster) => (cluster.copy)(url, document.position).map_err(trouble)?,
            None => {
                let archived = self.archive.read(document.position);
                archived.map_err(|error| trouble(error.to_string()))?.exchange()
            }
        };
        Ok(exchange.map(|exchange| copy_of(&exchange, &self.config.crawl.agent)))
    }

    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let now = SystemClock.now();
        let uptime = now.since(self.started);
        let newest = self.samples.newest();
        let index = self.index.summary();
        let (p50, p99) = self.queries.percentiles();
        let since = snapshot.totals.pages.saturating_sub(self.last_snapshot.totals.pages) as f64;
        Status {
            version: env!("CARGO_PKG_VERSION").to_string(),
            state: snapshot.state,
            message: [snapshot.message, index.trouble]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
            now,
            uptime,
            crawl: CrawlStatus {
                pages_fetched: snapshot.totals.pages,
                pages_per_second: newest.pages_per_second,
                pages_per_second_mean: since / uptime.as_secs_f64().max(1.0),
                bytes_fetched: snapshot.totals.bytes,
                queue: snapshot.queue,
                urls_known: snapshot.urls_known,
                robots_bytes: snapshot.robots_bytes,
                shapes: snapshot.shapes,
                texts: snapshot.texts,
                visits: snapshot.visits,
                connections: snapshot.connections,
                body_bytes: snapshot.body_bytes,
                hosts_sent_away: snapshot.hosts_sent_away,
                hosts: snapshot.hosts,
                status_codes: snapshot.totals.codes.into_iter().collect(),
                errors: snapshot.totals.errors.into_iter().collect(),
            },
            seeds: snapshot.seeds,
            index: IndexStatus {
                generation: index.generation,
                documents: index.documents,
                pages_indexed: index.pages,
                languages: index.languages,
            },
            disk: DiskStatus {
                archive_bytes: snapshot.archive_bytes,
                index_bytes: index.bytes,
                urls_bytes: snapshot.urls_bytes,
                links_bytes: snapshot.links_bytes,
                free_bytes: crate::disk::free_bytes(&self.disk_path),
            },
            queries: QueryStatus {
                total: self.queries.total(),
                per_second: newest.queries_per_second,
                p50,
                p99,
                times: self.queries.times(),
            },
            memory_bytes: crate::process::memory_bytes(),
            freshness: snapshot.freshness,
            cache: self.cache_status(),
        }
    }

    fn history(&self) -> History {
        self.samples.history()
    }

    fn hosts(&self, filter: &str, state: Option<&str>, first: usize, count: usize) -> HostList {
        let (filter, state) = (filter.to_string(), state.map(String::from));
        let answer = self.ask(|reply| Inspect::Hosts { filter, state, first, count, reply });
        let (total, lines) = answer.unwrap_or_default();
        HostList { total, rows: lines.iter().map(row).collect() }
    }

    fn host(&self, host: &Host) -> Option<HostDetail> {
        let HostAnswer { line, row: known, recent, robots } = self.host_answer(host)?;
        let row = row(&line);
        let read = known.robots_fetched_ms > 0;
        let verdict = match (read, known.robots_status) {
            (false, _) => "robots.txt has not been read yet".to_string(),
            (true, 200..=299) => match Robots::parse(&robots, &self.config.crawl.agent).verdict("/") {
                Verdict::Allowed { .. } => "robots.txt lets us in".to_string(),
                Verdict::Refused { rule } => format!("robots.txt keeps us out: {rule}"),
            },
            (true, status) => format!("there is no robots.txt (status {status}), so everything is allowed"),
        };
        let pages_indexed = self.index.pages_of_host(host);
        Some(HostDetail {
            host: host.clone(),
            state: row.state,
            robots_verdict: verdict,
            robots_fetched: read.then(|| Timestamp::from_millis(known.robots_fetched_ms)),
            robots_rules: String::from_utf8_lossy(&robots).into_owned(),
            delay: row.delay,
            crawl_delay: known.crawl_delay_ms.map(Duration::from_millis),
            address: line.view.as_ref().and_then(|view| view.address),
            next_visit: row.next_visit,
            pages_known: line.counts.known,
            pages_fetched: line.counts.collected,
            pages_indexed,
            queue: row.queue,
            bytes_fetched: known.bytes_fetched,
            freshness: row.freshness,
            errors: known.errors.into_iter().collect(),
            visits: recent,
        })
    }

    fn try_robots(&self, url: &CanonicalUrl) -> Option<RobotsTry> {
        let answer = self.host_answer(&url.host())?;
        if answer.row.robots_fetched_ms == 0 {
            return None;
        }
        let robots = Robots::parse(&answer.robots, &self.config.crawl.agent);
        Some(match robots.verdict(url.path_and_query()) {
            Verdict::Allowed { rule } => RobotsTry { allowed: true, rule },
            Verdict::Refused { rule } => RobotsTry { allowed: false, rule: Some(rule) },
        })
    }

    fn explain(&self, url: &CanonicalUrl) -> Result<PageDetail, EngineError> {
        // The agent whose page it is has what was fetched and what is planned.
        match self.cluster.as_ref().and_then(|cluster| (cluster.explain)(url)) {
            Some(page) => Ok(page),
            None => self.explain_page(url),
        }
    }

    fn broken(&self, filter: &str, first: usize, count: usize) -> Result<BrokenList, EngineError> {
        self.broken_pages(filter, first, count)
    }

    fn removed_pages(&self) -> Result<Vec<String>, EngineError> {
        let removed = self.ask(|reply| Inspect::RemovedPages { reply }).ok_or(EngineError::Busy)?;
        Ok(removed.iter().map(ToString::to_string).collect())
    }

    fn command(&self, command: Command) -> Result<String, EngineError> {
        let (order, done) = match command {
            Command::Pause => (Order::Pause, "Crawling is paused; searching goes on.".to_string()),
            Command::Resume => (Order::Resume, "Crawling goes on.".to_string()),
            Command::AddSeed(text) => {
                let url = read_seed(&text).map_err(EngineError::Invalid)?;
                let done = format!("{url} is a seed now and will be visited soon.");
                (Order::AddSeed(url), done)
            }
            Command::RemoveHost(host) => {
                let done =
                    format!("{host} is being removed: its pages leave the index, and it is visited no more.");
                (Order::RemoveHost(host), done)
            }
            Command::Refetch(pages) => return self.order_pages(PageOrder::Refetch, &pages),
            Command::RemovePages(pages) => return self.order_pages(PageOrder::Remove, &pages),
            Command::RestorePages(pages) => return self.order_pages(PageOrder::Restore, &pages),
        };
        // In a cluster the crawl is that of all agents, whether this node is one or not.
        let given = match &self.cluster {
            Some(_) => (self.orders)(order),
            None => self.crawl()?.order(order),
        };
        given.map_err(|error| EngineError::Unavailable(error.to_string()))?;
        Ok(done)
    }

    fn cluster(&self) -> Option<ClusterStatus> {
        self.cluster.as_ref().map(|cluster| (cluster.status)())
    }

    fn ring(&self) -> Option<RingStatus> {
        self.cluster.as_ref().and_then(|cluster| (cluster.ring)())
    }

    fn metrics_text(&self) -> String {
        let cluster = self.cluster.as_ref().map_or_else(String::new, |cluster| (cluster.metrics)());
        let federation = self.federation.as_ref().map_or_else(String::new, |face| (face.metrics)());
        cluster + &federation
    }

    fn federation(&self) -> Option<FederationStatus> {
        self.federation.as_ref().map(|face| (face.status)())
    }

    fn federation_order(&self, order: FederationOrder) -> Result<String, EngineError> {
        match &self.federation {
            Some(face) => (face.order)(order),
            None => Err(EngineError::Unavailable(
                "this engine shares nothing: set enabled = true under [federation] and start it again"
                    .to_string(),
            )),
        }
    }

    fn cluster_order(&self, order: ClusterOrder) -> Result<String, EngineError> {
        match &self.cluster {
            Some(cluster) => (cluster.order)(order),
            None => Err(EngineError::Unavailable("this process is not a member of a cluster".to_string())),
        }
    }
}

fn row(line: &HostLine) -> HostRow {
    let counts = &line.counts;
    HostRow {
        host: line.host.clone(),
        state: line.state(),
        pages_fetched: counts.collected,
        queue: counts.known.saturating_sub(counts.collected + counts.gone + counts.refused + counts.failed),
        errors: line.errors,
        delay: line.view.as_ref().map_or(Duration::ZERO, |view| view.delay),
        next_visit: line.view.as_ref().and_then(|view| view.wakes),
        freshness: line.freshness,
    }
}

/// What is shown of an archived page, and whether it may be.
fn copy_of(exchange: &Exchange, agent: &str) -> StoredCopy {
    let content_type = exchange.header("content-type").unwrap_or_default();
    let tags: Vec<_> = exchange.headers("x-robots-tag").collect();
    let tags: Vec<&str> = tags.iter().map(|tag| tag.as_ref()).collect();
    let parsed = farol_parse::page(&PageInput {
        url: &exchange.url,
        content_type: Some(&content_type),
        body: &exchange.body,
        robots_tags: &tags,
        agent,
        wants: Wants::LinksOnly,
    });
    StoredCopy {
        url: exchange.url.clone(),
        fetched: exchange.fetched,
        content_type: content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
        charset: Some(parsed.charset.to_string()),
        archive: !parsed.noarchive,
        source: None,
        body: exchange.body.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_and_the_page_itself_may_forbid_a_stored_copy() {
        let check = |fields: &str, body: &'static str, want: bool| {
            let copy = copy_of(
                &Exchange {
                    url: CanonicalUrl::parse("http://a.org/").unwrap(),
                    fetched: Timestamp::from_secs(1),
                    address: None,
                    status: 200,
                    request_head: Vec::new(),
                    response_head: format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\r\n")
                        .into_bytes(),
                    body: body.into(),
                    truncated: None,
                    protocol: String::new(),
                    revisit_of: None,
                    metadata: Vec::new(),
                },
                "farol",
            );
            assert_eq!((copy.archive, copy.content_type.as_str()), (want, "text/html"), "{fields}{body}");
        };
        check("", "text", true);
        check("X-Robots-Tag: noarchive\r\n", "text", false);
        check("X-Robots-Tag: nosnippet\r\nX-Robots-Tag: noarchive\r\n", "text", false);
        check("X-Robots-Tag: nosnippet\r\nx-robots-tag: otherbot: noarchive\r\n", "text", true);
        check("", "<meta name=robots content=noarchive>", false);
    }
}
