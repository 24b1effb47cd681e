//! One visit: ask the server, read the answer, pack it for the archive.
//!
//! Runs on the crawler's runtime, many at a time. It decides nothing: what the answer means for the crawl is
//! decided by the core, which gets everything ready to be written.

use crate::archive::interpret::{Interpreted, Interpreter, PageOutcome};
use farol_base::random::mix;
use farol_base::{Clock, PagePosition, Seeded, SystemClock, Timestamp};
use farol_fetch::{FetchError, Fetcher, Request, Response};
use farol_frontier::{Lease, Task};
use farol_store::pages::{ArchiveReader, Encoded, Encoder, Exchange, PayloadDigest, RevisitOf};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
    /// Rest between two requests of one visit.
    pub pause: Duration,
    /// Where record ids start; each visit takes the next one.
    pub ids: AtomicU64,
}

/// A visit that is over.
pub struct Visited {
    pub lease: Lease,
    pub brought: Result<Box<Answer>, FetchError>,
    pub took: Duration,
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
    /// Where the host was connected to and how long that took, about one round trip; `None` on a kept connection.
    pub connected: Option<(IpAddr, Duration)>,
}

impl Visitor {
    /// Makes the visit that the lease allows. `previous` is where the page's last copy is kept.
    pub async fn visit(&self, lease: Lease, previous: Option<PagePosition>) -> Visited {
        let begun = Instant::now();
        let brought = match lease.task() {
            Task::Robots => self.ask_robots(&lease).await,
            Task::Page(_) => self.ask_page(&lease, previous).await,
        };
        Visited { lease, brought: brought.map(Box::new), took: begun.elapsed() }
    }

    async fn ask_robots(&self, lease: &Lease) -> Result<Answer, FetchError> {
        let url = match lease.host().url("/robots.txt") {
            Ok(url) => url,
            // A host is made from a URL, so it always has a robots.txt address.
            Err(_) => unreachable!("{} has no URLs", lease.host()),
        };
        let request = Request {
            url: url.clone(),
            etag: None,
            last_modified: None,
            body_bytes_max: Some(ROBOTS_BYTES_MAX),
            address: Some(lease.address()),
        };
        let followed = self.fetcher.get_following(request, ROBOTS_HOPS_MAX, self.pause).await?;
        // Behind a redirect it may be another host's connection; this host's own is the first.
        let (connected, response) = (followed.connected, followed.response);
        let (body, retry_after) = (response.body.to_vec(), response.retry_after);
        let mut exchange = exchange_of(&url, response, SystemClock.now());
        // Archived under the address that was asked, wherever redirects led: it is this host's rules.
        exchange.metadata.push(("via".to_string(), lease.host().to_string()));
        Ok(Answer { robots: Some(body), connected, ..self.answer(exchange, 0, retry_after) })
    }

    async fn ask_page(&self, lease: &Lease, previous: Option<PagePosition>) -> Result<Answer, FetchError> {
        let Task::Page(page) = lease.task() else { unreachable!("only pages come here") };
        // A copy that cannot be read is no reason not to visit: the page is then fetched anew.
        let kept = previous.and_then(|at| self.archive.read(at).ok()).filter(|kept| kept.url == page.url);
        let kept_header = |name| kept.as_ref().and_then(|kept| kept.header(name)).map(String::from);
        let request = Request {
            url: page.url.clone(),
            etag: kept_header("etag"),
            last_modified: kept_header("last-modified"),
            body_bytes_max: None,
            address: Some(lease.address()),
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
            PageOutcome::Page(page) if page.document.is_some() => "indexed",
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
fn exchange_of(url: &farol_base::CanonicalUrl, response: Response, fetched: Timestamp) -> Exchange {
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
