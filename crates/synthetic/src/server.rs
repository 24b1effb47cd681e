//! Serves a world, or another [`Site`], over HTTP on loopback: every host at its own address, and as a proxy.
//!
//! A name may be looked up as any address of 127.0.0.0/8: the listening socket takes them all, bound to the
//! loopback device so that nothing beyond this machine reaches it. Which name was meant is what the `Host` header
//! says.
//!
//! Limits: [`CONNECTIONS_MAX`] connections × (a page's buffer, about 64 KB + 8 KB) = 1.2 GB if all were in use at once
//! with large pages; heads of 16 KiB; [`IDLE_MAX`] without a request.

use super::answer::{Answer, Ask, Delivery, Served};
use super::config::WebConfig;
use super::deliver::{Outlet, Wish, now_us};
use super::log::{Entry, LogSink};
use super::request::{Head, Reading, read_head};
use super::world::World;
use farol_base::Timestamp;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Connections at one time; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 16_384;
/// A connection without a request for this long is closed.
pub const IDLE_MAX: Duration = Duration::from_secs(120);

/// What is served: the answer to every request, as a pure function.
pub trait Site: Send + Sync + 'static {
    /// Answers a request so long after the server was started.
    fn answer(&self, ask: &Ask<'_>, since: Duration, answer: &mut Answer);
    /// All hosts are below it.
    fn domain(&self) -> &str;
    /// Whether whole pages go out as gzip where the client takes it.
    fn compresses(&self) -> bool;
    /// What it is and where it starts, for somebody who asks for an address instead of a name.
    fn about(&self) -> String;
}

impl Site for World {
    fn answer(&self, ask: &Ask<'_>, since: Duration, answer: &mut Answer) {
        World::answer(self, ask, self.clock(since), answer);
    }

    fn domain(&self) -> &str {
        &self.config().domain
    }

    fn compresses(&self) -> bool {
        self.config().gzip
    }

    fn about(&self) -> String {
        format!(
            "A synthetic Web of {} hosts and {} pages, seed {}.\n\nIt starts at http://{}/",
            self.hosts(),
            self.pages(),
            self.config().seed,
            self.host_name(0)
        )
    }
}

/// A running synthetic Web. It stops when dropped.
#[derive(Debug)]
pub struct Server<S = World> {
    address: SocketAddr,
    whole_network: bool,
    shared: Arc<Shared<S>>,
    task: JoinHandle<()>,
}

/// What was served since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Requests of all kinds.
    pub requests: u64,
    /// Whole HTML pages with status 200, traps included.
    pub pages: u64,
    /// Pages of endless places.
    pub traps: u64,
    /// Bytes sent, heads included.
    pub bytes: u64,
    /// Connections accepted.
    pub connections: u64,
}

#[derive(Debug)]
struct Shared<S> {
    site: S,
    log: LogSink,
    started: Instant,
    started_us: u64,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    pages: AtomicU64,
    traps: AtomicU64,
    bytes: AtomicU64,
    connections: AtomicU64,
}

/// Starts to serve a world on a loopback address; port 0 takes a free one.
///
/// On Linux, an IPv4 address stands for all of 127.0.0.0/8 on that port.
///
/// # Errors
/// Where the configuration makes no sense, the address is not on loopback, or the port is taken.
pub async fn serve(config: WebConfig, listen: SocketAddr, log: LogSink) -> io::Result<Server> {
    let world = World::new(config).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    serve_site(world, listen, log).await
}

/// Starts to serve any site, as [`serve`] does a world.
///
/// # Errors
/// Where the address is not on loopback, or the port is taken.
pub async fn serve_site<S: Site>(site: S, listen: SocketAddr, log: LogSink) -> io::Result<Server<S>> {
    if !listen.ip().is_loopback() {
        let said =
            format!("{listen} is not on loopback; a synthetic Web is served on 127.0.0.1 or [::1] only");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
    }
    let (listener, whole_network) = bind(listen)?;
    let address = SocketAddr::new(listen.ip(), listener.local_addr()?.port());
    let counters = Counters::default();
    let shared = Arc::new(Shared { site, log, started: Instant::now(), started_us: now_us(), counters });
    let task = tokio::spawn(accept(listener, shared.clone()));
    Ok(Server { address, whole_network, shared, task })
}

impl Server {
    pub fn world(&self) -> &World {
        &self.shared.site
    }

    /// What the Web's clock shows now.
    pub fn clock(&self) -> Timestamp {
        self.shared.site.clock(self.shared.started.elapsed())
    }

    /// What it showed at an instant of the log, in microseconds since 1970.
    pub fn clock_at(&self, us: u64) -> Timestamp {
        self.shared.site.clock(Duration::from_micros(us.saturating_sub(self.shared.started_us)))
    }
}

impl<S: Site> Server<S> {
    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether every address of 127.0.0.0/8 is answered, not only [`Server::address`].
    pub fn whole_network(&self) -> bool {
        self.whole_network
    }

    pub fn log(&self) -> &LogSink {
        &self.shared.log
    }

    /// What was served so far.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// The value of `--resolve` with which a crawler finds the hosts: `*.web.test=127.0.0.0/8:8081`.
    pub fn resolve(&self) -> String {
        let domain = self.shared.site.domain();
        match self.whole_network {
            true => format!("*.{domain}=127.0.0.0/8:{}", self.address.port()),
            false => format!("*.{domain}={}", self.address),
        }
    }

    /// Stops serving, closes all connections and writes out the log.
    pub async fn stop(mut self) {
        self.task.abort();
        // An aborted task ends with an error that says so.
        let _ = (&mut self.task).await;
        if let Err(error) = self.shared.log.flush() {
            tracing::warn!(%error, "the request log cannot be written");
        }
    }
}

impl<S> Drop for Server<S> {
    fn drop(&mut self) {
        self.task.abort();
        let _ = self.shared.log.flush();
    }
}

/// Opens the listening socket, for all of 127.0.0.0/8 where the system can hold it to the loopback device.
fn bind(listen: SocketAddr) -> io::Result<(TcpListener, bool)> {
    let socket = Socket::new(Domain::for_address(listen), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    let whole_network = listen.is_ipv4() && bind_to_loopback_device(&socket);
    let address = match whole_network {
        true => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), listen.port()),
        false => listen,
    };
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok((TcpListener::from_std(socket.into())?, whole_network))
}

#[cfg(target_os = "linux")]
fn bind_to_loopback_device(socket: &Socket) -> bool {
    socket.bind_device(Some(b"lo")).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn bind_to_loopback_device(_: &Socket) -> bool {
    false
}

async fn accept<S: Site>(listener: TcpListener, shared: Arc<Shared<S>>) {
    let mut connections = JoinSet::new();
    let mut flush = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, peer)) if peer.ip().is_loopback() => {
                    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(talk(stream, shared.clone()));
                }
                Ok(_) => {}
                Err(error) => {
                    // Mostly "too many open files": connections that end make room.
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
            _ = flush.tick() => if let Err(error) = shared.log.flush() {
                tracing::warn!(%error, "the request log cannot be written");
            },
        }
    }
}

/// Answers the requests of one connection, one after another.
async fn talk<S: Site>(stream: TcpStream, shared: Arc<Shared<S>>) {
    // Bound to the loopback device, but a machine reaches its own outer addresses through it too.
    let Some(address) = stream.local_addr().ok().map(|local| local.ip()).filter(IpAddr::is_loopback) else {
        return;
    };
    let _ = stream.set_nodelay(true);
    let mut outlet = Outlet::new(stream);
    let mut answer = Answer::default();
    loop {
        match read_head(&outlet.input) {
            Reading::Partial => {
                let read = tokio::time::timeout(IDLE_MAX, outlet.stream.read_buf(&mut outlet.input)).await;
                if !matches!(read, Ok(Ok(1..))) {
                    return;
                }
            }
            Reading::Whole(head, taken) => {
                let start_us = now_us();
                let wish = Wish {
                    head_only: head.head_only,
                    keep_alive: head.keep_alive,
                    gzip: head.accepts_gzip && shared.site.compresses(),
                };
                let entry = shared.prepare(&head, start_us, address, &mut answer);
                bytes::Buf::advance(&mut outlet.input, taken);
                let sent = outlet.send(&answer, wish).await;
                shared.counters.add(&answer, sent.bytes);
                if let Some(mut entry) = entry {
                    (entry.status, entry.bytes) = (sent.status, sent.bytes);
                    (entry.end_us, entry.cut) = (sent.end_us, sent.cut);
                    shared.log.write(entry);
                }
                if !sent.keep {
                    return;
                }
            }
            Reading::Refused(status, why) => {
                let answer = Answer::new(status, "text/plain", why.as_bytes().to_vec());
                outlet.send(&answer, Wish { head_only: false, keep_alive: false, gzip: false }).await;
                return;
            }
        }
    }
}

impl<S: Site> Shared<S> {
    /// Makes the answer to a request, and its log entry as far as it is known.
    fn prepare(&self, head: &Head<'_>, start_us: u64, address: IpAddr, answer: &mut Answer) -> Option<Entry> {
        let name = head.host.rsplit_once(':').map_or(head.host, |(name, _)| name);
        if !head.proxied && (name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")) {
            *answer = self.own_page(head.path);
            return None;
        }
        let ask = Ask {
            host: head.host,
            path: head.path,
            if_none_match: head.if_none_match,
            if_modified_since: head.if_modified_since,
        };
        self.site.answer(&ask, self.started.elapsed(), answer);
        self.log.is_on().then(|| Entry {
            start_us,
            end_us: start_us,
            address,
            host: name.to_ascii_lowercase(),
            path: head.path.to_string(),
            status: answer.status,
            bytes: 0,
            served: answer.served,
            retry_after_secs: answer.retry_after_secs,
            conditional: head.if_none_match.is_some() || head.if_modified_since.is_some(),
            proxied: head.proxied,
            cut: false,
        })
    }

    /// The pages about this Web, for those who ask for an address instead of a name.
    fn own_page(&self, path: &str) -> Answer {
        let (status, content_type, body) = match path {
            "/counters" => (200, "application/json", serde_json::to_vec(&self.counters.read()).unwrap_or_default()),
            "/" => (
                200,
                "text/plain; charset=utf-8",
                format!(
                    "{}, asked for by that name at any address of 127.0.0.0/8 and this port, or through this port as \
                     an HTTP proxy.\nWhat was served so far: /counters\n",
                    self.site.about()
                )
                .into_bytes(),
            ),
            _ => (404, "text/plain", b"There is nothing here.\n".to_vec()),
        };
        Answer::new(status, content_type, body)
    }
}

impl Counters {
    fn add(&self, answer: &Answer, bytes: u64) {
        let own = answer.served == Served::Nothing && answer.status == 200;
        let page = answer.status == 200
            && answer.content_type.starts_with("text/html")
            && matches!(answer.delivery, Delivery::Whole | Delivery::Slow { .. });
        self.requests.fetch_add(u64::from(!own), Ordering::Relaxed);
        self.pages.fetch_add(u64::from(page), Ordering::Relaxed);
        self.traps.fetch_add(u64::from(answer.served == Served::Trap), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Counts {
        Counts {
            requests: self.requests.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
            traps: self.traps.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
