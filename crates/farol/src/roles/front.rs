//! Answers people: the engine behind the pages of `farol_front`.

use crate::config::Config;
use crate::roles::cacher::Cacher;
use crate::roles::clicks::ClickBook;
use crate::roles::control::{Queries, Ranks, Samples};
use crate::roles::crawler::Line;
use crate::roles::crawler::orders::{HostAnswer, HostLine, Order, PageAnswer, Question};
use crate::roles::crawler::reading::header;
use crate::roles::crawler::view::View;
use crate::roles::indexer::Progress;
use farol_base::query::{Answer, Request};
use farol_base::{CanonicalUrl, Clock, Host, SystemClock, Timestamp};
use farol_front::{
    Command, CrawlStatus, DiskStatus, Engine, EngineError, History, HostDetail, HostList, HostRow,
    IndexStatus, PageDetail, QueryStatus, RobotsTry, Settings, Status, StoredCopy, Visit,
};
use farol_parse::robots::{Robots, Verdict};
use farol_parse::{PageInput, Wants};
use farol_store::pages::ArchiveReader;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// How long a question to the crawl may wait for its turn.
const ASK_MAX: Duration = Duration::from_secs(3);

/// Everything that answers need.
pub struct Desk {
    pub config: Arc<Config>,
    pub index: Arc<Progress>,
    pub ranks: Arc<Ranks>,
    pub queries: Arc<Queries>,
    pub samples: Samples,
    /// `None` where answers are not kept.
    pub cache: Option<Cacher>,
    pub archive: ArchiveReader,
    pub clicks: Arc<ClickBook>,
    /// `None` where no crawl runs in this process.
    pub crawl: Option<Line>,
    pub started: Timestamp,
    /// The crawl as it was before this process.
    pub left: View,
    pub disk_path: PathBuf,
}

/// The pages' settings, from the config.
pub fn settings(config: &Config, crawls: bool) -> Settings {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
    Settings {
        name: config.identity.name.clone(),
        operator: config.identity.operator.clone(),
        contact: config.identity.contact.clone(),
        user_agent: config.user_agent(),
        public_url: text(&config.identity.public_url),
        admin_token: text(&config.serve.admin_token),
        rate_per_minute: config.serve.rate_per_minute,
        trust_forwarded: config.serve.trust_forwarded,
        results_per_page: config.serve.results_per_page,
        admin_read_only: !crawls,
        clicks: config.serve.clicks,
        ..Settings::default()
    }
}

impl Desk {
    fn view(&self) -> View {
        match &self.crawl {
            Some(crawl) => crawl.view(),
            None => self.left.clone(),
        }
    }

    fn crawl(&self) -> Result<&Line, EngineError> {
        self.crawl
            .as_ref()
            .ok_or_else(|| EngineError::Unavailable("no crawler runs in this process".to_string()))
    }

    fn ask<T>(&self, question: impl FnOnce(std::sync::mpsc::SyncSender<T>) -> Question) -> Option<T> {
        let (reply, answer) = sync_channel(1);
        self.crawl.as_ref()?.order(Order::Ask(question(reply))).ok()?;
        answer.recv_timeout(ASK_MAX).ok()
    }

    fn host_answer(&self, host: &Host) -> Option<HostAnswer> {
        self.ask(|reply| Question::Host { host: host.clone(), reply })?
    }
}

impl Engine for Desk {
    fn search(&self, request: &Request) -> Result<Answer, EngineError> {
        let begun = Instant::now();
        let searcher = self.index.searcher();
        // Read before the ranks themselves: an answer is then never taken for newer than it is.
        let ranks = self.ranks.version();
        let ask = || {
            let answer = searcher.search(request, &self.ranks.now());
            let answer = answer
                .map_err(|error| EngineError::Unavailable(format!("the index cannot answer: {error}")))?;
            let made_from = state_of(answer.generation, ranks);
            Ok((answer, made_from))
        };
        let answer = match &self.cache {
            Some(cache) => cache.answer(request, state_of(searcher.generation(), ranks), ask),
            None => ask().map(|(answer, _)| answer),
        };
        self.queries.took(begun.elapsed());
        answer
    }

    fn suggest(&self, prefix: &str, count: usize) -> Vec<String> {
        self.index.searcher().suggest(prefix, count)
    }

    fn clicked(&self, url: &CanonicalUrl) {
        // Only what can be found can be opened.
        if self.config.serve.clicks
            && let Ok(Some(_)) = self.index.searcher().document(url)
            && let Err(error) = self.clicks.note(url.id(), SystemClock.now())
        {
            tracing::warn!(%error, "clicks could not be written");
        }
    }

    fn stored_copy(&self, url: &CanonicalUrl) -> Result<Option<StoredCopy>, EngineError> {
        let trouble =
            |error: String| EngineError::Unavailable(format!("the stored copy cannot be read: {error}"));
        // Only what can be found can be shown: pages that were removed stay in the archive, unseen.
        let document = self.index.searcher().document(url).map_err(|error| trouble(error.to_string()))?;
        let Some(document) = document else { return Ok(None) };
        let exchange = self.archive.read(document.position).map_err(|error| trouble(error.to_string()))?;
        let content_type = header(&exchange.response_head, "content-type").unwrap_or_default();
        let tags: Vec<String> =
            header(&exchange.response_head, "x-robots-tag").map(String::from).into_iter().collect();
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let parsed = farol_parse::page(&PageInput {
            url,
            content_type: Some(&content_type),
            body: &exchange.body,
            robots_tags: &tags,
            agent: &self.config.crawl.agent,
            wants: Wants::LinksOnly,
        });
        Ok(Some(StoredCopy {
            url: url.clone(),
            fetched: exchange.fetched,
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
            charset: Some(parsed.charset.to_string()),
            archive: !parsed.noarchive,
            body: exchange.body.to_vec(),
        }))
    }

    fn status(&self) -> Status {
        let view = self.view();
        let now = SystemClock.now();
        let uptime = now.since(self.started);
        let newest = self.samples.newest();
        let searcher = self.index.searcher();
        let (p50, p99) = self.queries.percentiles();
        let since = view.totals.pages.saturating_sub(self.left.totals.pages) as f64;
        let trouble = self.index.trouble.lock().clone();
        Status {
            version: env!("CARGO_PKG_VERSION").to_string(),
            state: view.state,
            message: [view.message, trouble]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
            now,
            uptime,
            crawl: CrawlStatus {
                pages_fetched: view.totals.pages,
                pages_per_second: newest.pages_per_second,
                pages_per_second_mean: since / uptime.as_secs_f64().max(1.0),
                bytes_fetched: view.totals.bytes,
                queue: view.queue,
                urls_known: view.urls_known,
                hosts: view.hosts,
                status_codes: view.totals.codes.into_iter().collect(),
                errors: view.totals.errors.into_iter().collect(),
            },
            index: IndexStatus {
                generation: searcher.generation(),
                documents: searcher.documents(),
                pages_indexed: self.index.pages.load(std::sync::atomic::Ordering::Relaxed),
                languages: searcher.languages(),
            },
            disk: DiskStatus {
                archive_bytes: view.archive_bytes,
                index_bytes: searcher.bytes_on_disk(),
                urls_bytes: view.urls_bytes,
                links_bytes: view.links_bytes,
                free_bytes: crate::disk::free_bytes(&self.disk_path),
            },
            queries: QueryStatus {
                total: self.queries.total(),
                per_second: newest.queries_per_second,
                p50,
                p99,
            },
            memory_bytes: crate::process::memory_bytes(),
            freshness: view.freshness,
            cache: self.cache.as_ref().map(Cacher::status),
        }
    }

    fn history(&self) -> History {
        self.samples.history()
    }

    fn hosts(&self, filter: &str, state: Option<&str>, first: usize, count: usize) -> HostList {
        let (filter, state) = (filter.to_string(), state.map(String::from));
        let answer = self.ask(|reply| Question::Hosts { filter, state, first, count, reply });
        let (total, lines) = answer.unwrap_or_default();
        HostList { total, rows: lines.iter().map(row).collect() }
    }

    fn host(&self, host: &Host) -> Option<HostDetail> {
        let HostAnswer { line, note, recent, robots } = self.host_answer(host)?;
        let row = row(&line);
        let read = note.robots_fetched_ms > 0;
        let verdict = match (read, note.robots_status) {
            (false, _) => "robots.txt has not been read yet".to_string(),
            (true, 200..=299) => match Robots::parse(&robots, &self.config.crawl.agent).verdict("/") {
                Verdict::Allowed { .. } => "robots.txt lets us in".to_string(),
                Verdict::Refused { rule } => format!("robots.txt keeps us out: {rule}"),
            },
            (true, status) => format!("there is no robots.txt (status {status}), so everything is allowed"),
        };
        let indexed = farol_query::read(&format!("site:{}", host.name())).query;
        let counted = Request { query: indexed, first: 0, count: 1, language: None };
        let pages_indexed =
            self.index.searcher().search(&counted, &farol_index::NoRanks).map_or(0, |answer| answer.total);
        Some(HostDetail {
            host: host.clone(),
            state: row.state,
            robots_verdict: verdict,
            robots_fetched: read.then(|| Timestamp::from_millis(note.robots_fetched_ms)),
            robots_rules: String::from_utf8_lossy(&robots).into_owned(),
            delay: row.delay,
            crawl_delay: note.crawl_delay_ms.map(Duration::from_millis),
            address: line.view.as_ref().and_then(|view| view.address),
            next_visit: row.next_visit,
            pages_known: line.counts.known,
            pages_fetched: line.counts.collected,
            pages_indexed: pages_indexed as u64,
            queue: row.queue,
            bytes_fetched: note.bytes_fetched,
            freshness: row.freshness,
            errors: note.errors.into_iter().collect(),
            visits: recent
                .into_iter()
                .map(|recent| Visit {
                    at: recent.at,
                    url: recent.url,
                    status: recent.status,
                    outcome: recent.outcome,
                    took: recent.took,
                    bytes: recent.bytes,
                })
                .collect(),
        })
    }

    fn try_robots(&self, url: &CanonicalUrl) -> Option<RobotsTry> {
        let answer = self.host_answer(&url.host())?;
        if answer.note.robots_fetched_ms == 0 {
            return None;
        }
        let robots = Robots::parse(&answer.robots, &self.config.crawl.agent);
        Some(match robots.verdict(url.path_and_query()) {
            Verdict::Allowed { rule } => RobotsTry { allowed: true, rule },
            Verdict::Refused { rule } => RobotsTry { allowed: false, rule: Some(rule) },
        })
    }

    fn explain(&self, url: &CanonicalUrl) -> Option<PageDetail> {
        let PageAnswer { record, reason } =
            self.ask(|reply| Question::Page { url: url.clone(), reply })??;
        let secs = |secs: f64| Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX);
        let visited = record.visits > 0;
        Some(PageDetail {
            url: url.clone(),
            visits: record.visits,
            last_visit: visited.then_some(record.last_visit),
            last_change: (record.last_change > Timestamp::EPOCH).then_some(record.last_change),
            due: (visited && record.due != Timestamp::NEVER).then_some(record.due),
            changes: reason.changes,
            changes_per_day: reason.rate * 86_400.0,
            weight: reason.weight,
            fresh: reason.fresh,
            worth: secs(reason.worth),
            price: secs(reason.price),
            host_is_full: reason.saturated,
            interval: secs(reason.interval),
        })
    }

    fn command(&self, command: Command) -> Result<String, EngineError> {
        let crawl = self.crawl()?;
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
        };
        crawl.order(order).map_err(|error| EngineError::Unavailable(error.to_string()))?;
        Ok(done)
    }
}

/// One number for what answers are made from: the index's state and the ranks'.
fn state_of(generation: u64, ranks: u64) -> u64 {
    farol_base::random::mix(generation) ^ ranks
}

/// Reads a seed as people type it: the scheme may be missing.
pub fn read_seed(text: &str) -> Result<CanonicalUrl, String> {
    let text = text.trim();
    let full = if text.contains("://") { text.to_string() } else { format!("https://{text}") };
    let url = CanonicalUrl::parse(&full).map_err(|error| format!("{text:?} cannot be a seed: {error}"))?;
    let name = url.host().name().to_string();
    if !name.contains('.') && !name.starts_with('[') && name != "localhost" && !text.contains("://") {
        return Err(format!(
            "{text:?} cannot be a seed: write a whole address, such as https://docs.example.org"
        ));
    }
    Ok(url)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_as_people_type_them() {
        assert_eq!(read_seed(" docs.example.org/x ").unwrap().as_str(), "https://docs.example.org/x");
        assert_eq!(read_seed("http://h/").unwrap().as_str(), "http://h/");
        assert!(read_seed("hello").unwrap_err().contains("https://docs.example.org"));
        assert!(read_seed("ftp://x.org/").unwrap_err().contains("http and https"));
        assert!(read_seed("").is_err());
    }
}
