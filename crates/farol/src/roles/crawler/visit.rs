//! One visit: ask the server, read the answer, pack it for the archive.
//!
//! Runs on the crawler's runtime, many at a time. It decides nothing: what the answer means for the crawl is
//! decided by the core, which gets everything ready to be written.

use super::under_way::Brought;
use crate::archive::interpret::{Interpreted, Interpreter, PageOutcome};
use farol_base::random::mix;
use farol_base::{
    CanonicalUrl, Clock, Host, PagePosition, Scheduled, Seeded, SystemClock, Timestamp, Truncated,
};
use farol_fetch::{FetchError, Fetcher, Request, Response};
use farol_frontier::{Lease, Task};
use farol_store::pages::{ArchiveReader, Encoded, Encoder, Exchange, PayloadDigest, RevisitOf};
use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Redirects of a robots.txt that are followed (RFC 9309, section 2.3.1.2 asks for at least five).
const ROBOTS_HOPS_MAX: u8 = 5;

thread_local! {
    /// Compression needs some hundred kilobytes of state, which each thread makes once.
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
}

/// What a visit needs, shared by all of them.
pub struct Visitor {
    pub fetcher: Fetcher,
    pub interpreter: Interpreter,
    pub archive: ArchiveReader,
    pub compression: u32,
    /// Where record ids start; each visit takes the next one.
    pub ids: AtomicU64,
}

/// What a visit may do: a copy of its lease, which stays with the core.
pub struct VisitPlan {
    host: Host,
    task: Task,
    address: IpAddr,
}

impl VisitPlan {
    pub fn of(lease: &Lease) -> VisitPlan {
        VisitPlan { host: lease.host().clone(), task: lease.task().clone(), address: lease.address() }
    }
}

/// A visit that is over.
pub struct Visited {
    /// Its number among those under way.
    pub id: u64,
    pub brought: Brought,
    pub took: Duration,
}

/// Why a visit brought no answer.
#[derive(Debug)]
pub enum NoAnswer {
    Fetch(FetchError),
    /// It panicked.
    BrokeDown,
    /// The agent may not ask, or not any more.
    NoRight,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Fetch(error) => error.fmt(f),
            NoAnswer::NoRight => f.write_str("not asked: it is not this agent's to ask now"),
            NoAnswer::BrokeDown => {
                f.write_str("reading it broke down, which is a fault of Farol: please report it")
            }
        }
    }
}

impl NoAnswer {
    /// A short label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            NoAnswer::Fetch(error) => error.kind(),
            NoAnswer::BrokeDown => "broke_down",
            NoAnswer::NoRight => "no_right",
        }
    }

    /// Whether the same visit may well succeed later. What broke down once will do so again.
    pub fn is_transient(&self) -> bool {
        match self {
            NoAnswer::Fetch(error) => error.is_transient(),
            NoAnswer::BrokeDown => false,
            NoAnswer::NoRight => true,
        }
    }
}

impl Visited {
    /// Takes the records for the archive out; `None` where there is nothing to archive.
    pub fn take_encoded(&mut self) -> Option<Encoded> {
        self.brought.as_mut().ok()?.encoded.take()
    }
}

/// What a server answered.
pub struct Answer {
    pub status: u16,
    pub fetched: Timestamp,
    pub bytes: u64,
    pub retry_after: Option<Duration>,
    /// Records for the archive; `None` where the server only asks us to come back later.
    pub encoded: Option<Encoded>,
    pub interpreted: Interpreted,
    /// The answer's body, for a robots.txt.
    pub robots: Option<Vec<u8>>,
    /// Where a robots.txt is instead.
    pub moved: Option<CanonicalUrl>,
    /// A robots.txt that did not come whole: it may forbid more than what came, so it says nothing.
    pub is_cut: bool,
    /// Where the host was connected to and how long that took, about one round trip; `None` on a kept connection.
    pub connected: Option<(IpAddr, Duration)>,
}

impl Visitor {
    /// Makes a visit. `previous` is where the page's last copy is kept.
    pub async fn visit(&self, plan: &VisitPlan, previous: Option<PagePosition>) -> Brought {
        let answer = match &plan.task {
            Task::Robots => self.ask_robots(plan, &plan.host, None, 0).await,
            Task::MovedRobots(moved) => {
                self.ask_robots(plan, &moved.of, Some(moved.url.clone()), moved.hops).await
            }
            Task::Page(page) => self.ask_page(plan, page, previous).await,
        };
        answer.map(Box::new).map_err(NoAnswer::Fetch)
    }

    /// Asks for the robots.txt of a host, where it should be or where it was `moved` to. One hop: where it was moved on,
    /// the host there has its own turn.
    async fn ask_robots(
        &self,
        plan: &VisitPlan,
        of: &Host,
        moved: Option<CanonicalUrl>,
        hops: u8,
    ) -> Result<Answer, FetchError> {
        let url = match of.url("/robots.txt") {
            Ok(url) => url,
            // A host is made from a URL, so it always has a robots.txt address.
            Err(_) => unreachable!("{of} has no URLs"),
        };
        let request = Request {
            url: moved.unwrap_or_else(|| url.clone()),
            etag: None,
            last_modified: None,
            body_bytes_max: Some(ROBOTS_BYTES_MAX),
            address: Some(plan.address),
        };
        let mut response = self.fetcher.get(request).await?;
        let (body, retry_after, connected) =
            (response.body.to_vec(), response.retry_after, connected(&response));
        // RFC 9309, section 2.3.1.2: beyond so many redirects the file counts as missing.
        let moved = response.location.take().filter(|_| hops < ROBOTS_HOPS_MAX);
        // Cut at its limit of length it is read as far as that goes (section 2.5); cut by anything else it may lack its
        // most important lines, and is asked for again later.
        let is_cut = (200..300).contains(&response.status)
            && matches!(response.truncated, Some(Truncated::Time | Truncated::Disconnect));
        let mut exchange = exchange_of(&url, response, SystemClock.now());
        // Archived under the address that was asked, wherever redirects led: it is this host's rules.
        exchange.metadata.push(("via".to_string(), plan.host.to_string()));
        let answer = self.answer(exchange, 0, retry_after);
        let encoded = answer.encoded.filter(|_| moved.is_none() && !is_cut);
        Ok(Answer { robots: Some(body), encoded, moved, is_cut, connected, ..answer })
    }

    async fn ask_page(
        &self,
        plan: &VisitPlan,
        page: &Scheduled,
        previous: Option<PagePosition>,
    ) -> Result<Answer, FetchError> {
        // A copy that cannot be read is no reason not to visit: the page is then fetched anew.
        let kept = previous.and_then(|at| self.archive.read(at).ok()?.exchange());
        let kept = kept.filter(|kept| kept.url == page.url);
        let kept_header = |name| kept.as_ref().and_then(|kept| kept.header(name)).map(String::from);
        let request = Request {
            url: page.url.clone(),
            etag: kept_header("etag"),
            last_modified: kept_header("last-modified"),
            body_bytes_max: None,
            address: Some(plan.address),
        };
        let response = self.fetcher.get(request).await?;
        let (retry_after, connected) = (response.retry_after, connected(&response));
        let mut exchange = exchange_of(&page.url, response, SystemClock.now());
        if let Some(kept) = kept {
            let same =
                exchange.status == 304 || (exchange.status == kept.status && exchange.body == kept.body);
            exchange.revisit_of = same
                .then(|| RevisitOf { fetched: kept.fetched, digest: Some(PayloadDigest::of(&kept.body)) });
        }
        exchange.metadata.push(("hopsFromSeed".to_string(), page.depth.to_string()));
        Ok(Answer { connected, ..self.answer(exchange, page.depth, retry_after) })
    }

    /// Reads and packs; the costly part of a visit.
    fn answer(&self, exchange: Exchange, depth: u16, retry_after: Option<Duration>) -> Answer {
        let interpreted = self.interpreter.interpret(&exchange, depth);
        let comes_back = exchange.status == 429 || exchange.status >= 500;
        let encoded = (!comes_back).then(|| {
            let mut ids = Seeded::new(mix(self.ids.fetch_add(1, Ordering::Relaxed)));
            ENCODER.with_borrow_mut(|kept| {
                let encoder = kept.get_or_insert_with(|| Encoder::new(self.compression));
                encoder.encode(&exchange, &mut ids)
            })
        });
        Answer {
            status: exchange.status,
            fetched: exchange.fetched,
            bytes: exchange.body.len() as u64,
            retry_after,
            encoded,
            interpreted,
            robots: None,
            moved: None,
            is_cut: false,
            connected: None,
        }
    }
}

/// RFC 9309, section 2.5: at least 500 kibibytes are read.
pub const ROBOTS_BYTES_MAX: u64 = 500 << 10;

impl Answer {
    /// Whether the server asks to be left alone for a while.
    pub fn is_throttled(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    pub fn is_server_error(&self) -> bool {
        self.status >= 500
    }

    /// Short words for the dashboard.
    pub fn outcome(&self) -> &'static str {
        match &self.interpreted.outcome {
            _ if self.is_throttled() => "asked to wait",
            _ if self.is_server_error() => "server error",
            _ if self.is_cut => "cut off, asked for again later",
            _ if self.moved.is_some() => "robots.txt is elsewhere",
            PageOutcome::Page(page) if page.document.is_ok() => "indexed",
            PageOutcome::Page(_) => "not for the index",
            PageOutcome::List => "addresses",
            PageOutcome::Redirect => "redirect",
            PageOutcome::NotModified => "unchanged",
            PageOutcome::Gone => "gone",
            PageOutcome::Robots(_) => "robots.txt",
        }
    }
}

fn connected(response: &Response) -> Option<(IpAddr, Duration)> {
    Some((response.address.ip(), response.connect?))
}

/// The exchange as it is archived. Of the head, the fetcher reads what fetching needs and passes on the bytes; they are
/// parsed when the answer is interpreted, so that a page read live and the same page read again from the archive come
/// out the same.
fn exchange_of(url: &CanonicalUrl, response: Response, fetched: Timestamp) -> Exchange {
    Exchange {
        url: url.clone(),
        fetched,
        address: Some(response.address.ip()),
        status: response.status,
        request_head: response.request_head,
        response_head: response.response_head,
        body: response.body,
        truncated: response.truncated,
        protocol: response.protocol.into(),
        revisit_of: None,
        metadata: vec![("fetchTimeMs".to_string(), response.total.as_millis().to_string())],
    }
}
