//! A fetch from its host's permit to its answer; each stage with its limit of time.

use crate::connection::{Connection, Connector};
use crate::decode::{Decoder, Encoding, Progress};
use crate::names::Names;
use crate::pool::{HostPermit, Pool};
use crate::request::Template;
use crate::response::{archive_head, is_redirect, retry_after};
use crate::usage::{BodyRoom, Meter, NoRoom, Usage};
use crate::{Error, FetchConfig, FetchError, Request, Response, Stage, tls};
use bytes::Bytes;
use farol_base::{CanonicalUrl, Host, Truncated};
use hyper::Version;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

/// Addresses of one host that are tried before giving up.
const ADDRESSES_TRIED_MAX: usize = 3;

/// Fetches pages. Clones share connections, names and limits.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
}

struct Inner {
    config: FetchConfig,
    template: Template,
    names: Names,
    connector: Connector,
    pool: Arc<Pool<Connection>>,
    meter: Arc<Meter>,
    reaper_runs: AtomicBool,
}

impl Fetcher {
    /// Sets up a fetcher; opens nothing yet.
    ///
    /// # Errors
    ///
    /// A header that cannot be sent, a limit that makes fetching impossible, or a damaged root certificate.
    pub fn new(config: FetchConfig) -> Result<Fetcher, Error> {
        let at_least =
            |key, value: u64, min| if value < min { Err(Error::Limit { key, min }) } else { Ok(()) };
        at_least("head_bytes_max", config.head_bytes_max as u64, 8192)?;
        at_least("dns_lookups_max", config.dns_lookups_max as u64, 1)?;
        let meter = Meter::new(config.large_bodies_bytes_max);
        let connector = Connector {
            meter: meter.clone(),
            tls: tls::client_config(&config)?,
            connect_timeout: config.connect_timeout,
            total_timeout: config.total_timeout,
            head_bytes_max: config.head_bytes_max,
        };
        Ok(Fetcher {
            inner: Arc::new(Inner {
                template: Template::new(&config)?,
                names: Names::new(&config),
                connector,
                pool: Pool::new(config.idle_connections_max, config.idle_timeout),
                meter,
                reaper_runs: AtomicBool::new(false),
                config,
            }),
        })
    }

    /// Finds the address of a host that the next request to it would use.
    ///
    /// # Errors
    ///
    /// [`FetchError::Dns`] where there is none, [`FetchError::Guard`] where it must not be asked.
    pub async fn resolve(&self, host: &Host) -> Result<IpAddr, FetchError> {
        let addresses = self.inner.names.route(host, None).await?;
        Ok(addresses[0].ip())
    }

    /// Finds all addresses of a host that may be asked, in the order in which they would be; there is one at least.
    ///
    /// # Errors
    ///
    /// As [`Fetcher::resolve`].
    pub async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, FetchError> {
        let addresses = self.inner.names.route(host, None).await?;
        Ok(addresses.into_iter().map(|address| address.ip()).collect())
    }

    /// Where a host's name says that it is, as the data of a LOC record [RFC 1876]; `None` where it does not say.
    pub async fn location(&self, host: &Host) -> Option<Vec<u8>> {
        self.inner.names.location(host).await
    }

    /// Fetches a page: one hop, redirects are answers.
    ///
    /// Waits for earlier requests to the same host. Dropping the future ends the request.
    ///
    /// # Errors
    ///
    /// There is an error only where no head of an answer came.
    pub async fn get(&self, request: Request) -> Result<Response, FetchError> {
        let inner = &*self.inner;
        let host = request.url.host();
        let mut permit = self.permit(&request.url, &host).await?;
        let start = Instant::now();
        let deadline = start + inner.config.total_timeout;
        let is_wanted = |kept: &Connection| request.address.is_none_or(|ip| ip == kept.address().ip());
        if let Some(mut kept) = permit.take_idle().filter(is_wanted)
            && kept.is_usable()
        {
            match inner.exchange(&mut kept, &request, None, start, deadline).await {
                Ok(response) => {
                    self.end(permit, kept, &response);
                    return Ok(response);
                }
                // The server closed it just as we wrote. Asking again is safe: GET changes nothing.
                Err(FetchError::Closed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let (mut connection, connect) = inner.connect(&request, &host, deadline).await?;
        let response = inner.exchange(&mut connection, &request, Some(connect), start, deadline).await?;
        self.end(permit, connection, &response);
        Ok(response)
    }

    /// What fetching uses at this moment.
    pub fn usage(&self) -> Usage {
        self.inner.meter.usage()
    }

    async fn permit(&self, url: &CanonicalUrl, host: &Host) -> Result<HostPermit<Connection>, FetchError> {
        let pool = &self.inner.pool;
        if let Some(permit) = pool.try_acquire(host) {
            return Ok(permit);
        }
        let waited = timeout(self.inner.config.total_timeout, pool.acquire(host)).await;
        waited.map_err(|_| FetchError::Timeout { url: url.clone(), stage: Stage::Permit })
    }

    /// Releases a permit; keeps its connection where it is in good order.
    fn end(&self, permit: HostPermit<Connection>, mut connection: Connection, response: &Response) {
        if response.truncated.is_some() || !connection.is_usable() {
            return;
        }
        permit.keep(connection);
        if !self.inner.reaper_runs.swap(true, Ordering::Relaxed) {
            let pool = Arc::downgrade(&self.inner.pool);
            let pause =
                (self.inner.config.idle_timeout / 2).clamp(Duration::from_millis(50), Duration::from_secs(5));
            // One task for all connections, for as long as the fetcher lives.
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(pause).await;
                    let Some(pool) = pool.upgrade() else { return };
                    pool.reap(std::time::Instant::now());
                }
            });
        }
    }
}

impl Inner {
    /// Opens a connection to the first of the host's addresses that accepts one.
    async fn connect(
        &self,
        request: &Request,
        host: &Host,
        deadline: Instant,
    ) -> Result<(Connection, Duration), FetchError> {
        let addresses = match timeout_at(deadline, self.names.route(host, request.address)).await {
            Ok(addresses) => addresses?,
            Err(_) => return Err(FetchError::Timeout { url: request.url.clone(), stage: Stage::Dns }),
        };
        let mut last = None;
        for address in addresses.into_iter().take(ADDRESSES_TRIED_MAX) {
            let mut opened = self.connector.open(&request.url, host, address, deadline).await;
            if matches!(&opened, Err(FetchError::Connect { source, .. }) if is_out_of_files(source)) {
                tracing::warn!("no more files can be opened: half of the idle connections are closed");
                self.pool.halve();
                opened = self.connector.open(&request.url, host, address, deadline).await;
            }
            match opened {
                Ok(opened) => return Ok(opened),
                Err(
                    error @ (FetchError::Connect { .. } | FetchError::Timeout { stage: Stage::Connect, .. }),
                ) => {
                    self.names.demote(host, address.ip());
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| FetchError::Dns {
            host: host.clone(),
            transient: false,
            reason: "it has no address".to_string(),
        }))
    }

    /// One question and its answer.
    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &Request,
        connect: Option<Duration>,
        start: Instant,
        deadline: Instant,
    ) -> Result<Response, FetchError> {
        let (message, request_head) = self.template.write(request, connection.version())?;
        let sent = Instant::now();
        let mut alarm = pin!(sleep_until(deadline.min(sent + self.config.first_byte_timeout)));
        let (head, mut incoming) = match unless(alarm.as_mut(), connection.send(message)).await {
            Some(Ok(answer)) => answer.into_parts(),
            Some(Err(source)) => {
                return Err(FetchError::from_http(&request.url, self.config.head_bytes_max, source));
            }
            None => return Err(FetchError::Timeout { url: request.url.clone(), stage: Stage::Head }),
        };
        let first_byte = sent.elapsed();

        let encodings = head.headers.get_all(header::CONTENT_ENCODING).iter().map(as_text);
        let encoding = Encoding::parse(encodings);
        let bytes_max = request.body_bytes_max.unwrap_or(self.config.body_bytes_max);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let bytes_hint = incoming.size_hint().exact().map_or(0, |bytes| bytes.min(1 << 30) as usize);
        let mut decoder = Decoder::new(encoding, bytes_max, bytes_hint);
        let mut room = self.meter.body(bytes_max);
        let stopped =
            self.read_body(connection, &mut incoming, &mut decoder, alarm, &mut room, deadline).await;
        if stopped == Some(Stopped::NoRoom) {
            return Err(FetchError::NoRoom { url: request.url.clone() });
        }
        let (mut body, decoded, progress) = decoder.finish();
        if body.capacity() > body.len() + body.len() / 2 {
            body.shrink_to_fit();
        }
        let truncated = match (stopped, progress) {
            (Some(Stopped::Cut(why)), _) => Some(why),
            (_, Progress::More) => None,
            (_, Progress::Full) => Some(Truncated::Length),
            (_, Progress::Damaged) => Some(Truncated::Disconnect),
        };

        let status = head.status.as_u16();
        let reason = match head.extensions.get::<hyper::ext::ReasonPhrase>() {
            Some(reason) => reason.as_bytes(),
            None => head.status.canonical_reason().unwrap_or("").as_bytes(),
        };
        let response_head = archive_head(status, reason, &head.headers, body.len(), decoded);
        let location = head.headers.get(header::LOCATION).filter(|_| is_redirect(status)).map(as_text);
        let wait = head.headers.get(header::RETRY_AFTER).map(as_text);
        Ok(Response {
            status,
            location: location.and_then(|reference| request.url.join(reference.trim()).ok()),
            retry_after: wait.and_then(|value| retry_after(&value, SystemTime::now())),
            body: Bytes::from(body),
            truncated,
            request_head,
            response_head,
            protocol: protocol(head.version),
            address: connection.address(),
            connect,
            first_byte,
            total: start.elapsed(),
        })
    }

    /// Reads a body until its end or a limit; tells why it stopped early.
    async fn read_body(
        &self,
        connection: &mut Connection,
        incoming: &mut Incoming,
        decoder: &mut Decoder,
        mut alarm: Pin<&mut Sleep>,
        room: &mut BodyRoom,
        deadline: Instant,
    ) -> Option<Stopped> {
        let cut = |why| Some(Stopped::Cut(why));
        let bytes_max = room.bytes_max();
        let window = self.config.speed_window.max(Duration::from_millis(1));
        let bytes_per_window = (self.config.speed_min as f64 * window.as_secs_f64()) as usize;
        let mut window_start: Option<Instant> = None;
        let (mut bytes, mut window_bytes) = (0usize, 0usize);
        loop {
            match unless(alarm.as_mut(), connection.piece(incoming)).await {
                Some(Some(Ok(piece))) => {
                    bytes += piece.len();
                    window_bytes += piece.len();
                    let progress = decoder.write(&piece);
                    match room.holds(decoder.held_bytes(), deadline).await {
                        Ok(()) => {}
                        Err(NoRoom::Late) => return cut(Truncated::Time),
                        Err(NoRoom::Held) => return Some(Stopped::NoRoom),
                    }
                    match progress {
                        Progress::More if bytes > bytes_max => return cut(Truncated::Length),
                        // Pieces without pause, each next to nothing, ring no alarm either.
                        Progress::More if Instant::now() >= deadline => return cut(Truncated::Time),
                        Progress::More => {}
                        Progress::Full => return cut(Truncated::Length),
                        Progress::Damaged => return cut(Truncated::Disconnect),
                    }
                }
                Some(None) => return None,
                Some(Some(Err(_))) => return cut(Truncated::Disconnect),
                None => {
                    // The alarm first rings when the head's time is up; only then is the speed looked at, so
                    // that a fast page sets no second alarm.
                    let now = Instant::now();
                    let is_slow = window_start.is_some_and(|at| {
                        now.duration_since(at) >= window && window_bytes < bytes_per_window
                    });
                    if now >= deadline || is_slow {
                        return cut(Truncated::Time);
                    }
                    window_start = Some(now);
                    window_bytes = 0;
                    alarm.as_mut().reset(deadline.min(now + window));
                }
            }
        }
    }
}

/// Why a body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Cut(Truncated),
    NoRoom,
}

/// Waits for some work, or for the alarm: then `None`.
async fn unless<F: Future>(mut alarm: Pin<&mut Sleep>, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        // A timer rests while a task has used up its share of the thread. A server that sends without pause
        // could keep it at rest for ever, so the clock itself is asked too.
        Poll::Pending if Instant::now() >= alarm.deadline() => Poll::Ready(None),
        Poll::Pending => alarm.as_mut().poll(cx).map(|()| None),
    })
    .await
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "h2",
        Version::HTTP_10 => "http/1.0",
        _ => "http/1.1",
    }
}

/// A header's value; bytes that are no UTF-8 are replaced.
fn as_text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Whether the process or the system has no file descriptor left (EMFILE, ENFILE).
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
