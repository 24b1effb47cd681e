//! Serves the pages on a socket, with limits for clients that hold connections and give nothing.
//!
//! Limits, with their sums:
//! - [`CONNECTIONS_MAX`] connections at a time, or fewer where the settings say so, of which one address has at most
//!   [`CONNECTIONS_PER_ADDRESS_MAX`]; loopback addresses (a proxy, or the operator) have no limit of their own. Each holds
//!   at most [`BUFFER_BYTES_MAX`] of what it sent: 512 × 32 KiB = 16 MiB, and one descriptor of those that crawl and index
//!   share.
//! - a request's head comes within [`HEAD_TIME_MAX`], and a connection that is kept for another request waits no longer
//!   than that; the body and the answer have the middleware's deadline;
//! - a client that takes nothing of its answer for [`WRITE_TIME_MAX`] is given up.
//!
//! Connections beyond the limits are closed at once, and counted.

use crate::shared::Shared;
use crate::{Engine, Settings};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use farol_base::sync::Mutex;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tower::ServiceExt;

/// Connections at a time. A page with its style sheet takes one or two; 512 serve some hundred visitors a second.
pub const CONNECTIONS_MAX: usize = 512;
/// Connections of one address. A browser opens six; many people may share one address behind a router.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 64;
/// Longest wait for a request's head, the first or the next on the same connection.
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// Longest time in which a client takes nothing of its answer.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest head, and most that is read ahead of a body. Our own limit for a URL is a quarter of it.
const BUFFER_BYTES_MAX: usize = 32 * 1024;
/// Rest after the system had no descriptor left for a connection.
const ACCEPT_REST: Duration = Duration::from_millis(200);

/// Answers on a socket until the task is dropped.
pub async fn serve(listener: TcpListener, engine: Arc<dyn Engine>, settings: Settings) {
    let (router, shared) = crate::build(engine, settings);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client may have gone already; a lack of descriptors passes.
            Err(error) => {
                tracing::debug!(%error, "a connection could not be taken");
                sleep(ACCEPT_REST).await;
                continue;
            }
        };
        let Some(place) = Connections::admit(&shared, peer.ip().to_canonical()) else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            converse(stream, peer, router).await;
            drop(place);
        });
    }
}

/// Serves one connection to its end.
async fn converse(stream: TcpStream, peer: SocketAddr, router: Router) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream)), service);
    // However a connection ends, there is nobody left to tell.
    let _ = connection.await;
}

/// Who is connected.
pub(crate) struct Connections {
    max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
    refused: AtomicU64,
}

/// A connection's place among the open ones; given back when dropped.
struct ConnectionPlace {
    shared: Arc<Shared>,
    client: IpAddr,
}

impl Connections {
    pub fn new(max: usize) -> Connections {
        Connections { max: max.clamp(1, CONNECTIONS_MAX), open: Mutex::default(), refused: AtomicU64::new(0) }
    }

    /// Connections that may be open.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Connections open now, and those refused so far.
    pub fn counts(&self) -> (usize, u64) {
        (self.open.lock().values().sum(), self.refused.load(Ordering::Relaxed))
    }

    fn admit(shared: &Arc<Shared>, client: IpAddr) -> Option<ConnectionPlace> {
        let connections = &shared.connections;
        if connections.take(client) {
            return Some(ConnectionPlace { shared: shared.clone(), client });
        }
        connections.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn take(&self, client: IpAddr) -> bool {
        let mut open = self.open.lock();
        let total: usize = open.values().sum();
        let own = open.get(&client).copied().unwrap_or(0);
        let fits = total < self.max && (own < CONNECTIONS_PER_ADDRESS_MAX || client.is_loopback());
        if fits {
            open.insert(client, own + 1);
        }
        fits
    }

    fn give_back(&self, client: IpAddr) {
        let mut open = self.open.lock();
        if let Some(own) = open.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                open.remove(&client);
            }
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.shared.connections.give_back(self.client);
    }
}

/// A stream whose writes fail when nothing of them is taken for [`WRITE_TIME_MAX`].
struct WriteTimeout<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    fn new(stream: S) -> WriteTimeout<S> {
        WriteTimeout { stream, stalled: None }
    }

    /// Passes on what a write came to, or the end of our patience with it.
    fn watch<T>(&mut self, result: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIME_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(result, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn one_address_cannot_take_every_place() {
        let connections = Connections::new(usize::MAX);
        let [stranger, other, here] =
            ["203.0.113.9", "203.0.113.10", "127.0.0.1"].map(|ip| ip.parse().unwrap());
        for _ in 0..CONNECTIONS_PER_ADDRESS_MAX {
            assert!(connections.take(stranger));
        }
        assert!(!connections.take(stranger) && connections.take(other));
        let taken = CONNECTIONS_PER_ADDRESS_MAX + 1;
        for _ in taken..CONNECTIONS_MAX {
            assert!(connections.take(here));
        }
        assert!(!connections.take(here) && !connections.take(other));
        connections.give_back(stranger);
        assert!(connections.take(here));
    }

    async fn start() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::new(Fake::default()), Settings::default()));
        address
    }

    /// Lets the paused clock run while the other side's packets arrive in real time.
    async fn closes(stream: &mut TcpStream) -> bool {
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        tokio::time::timeout(4 * HEAD_TIME_MAX, read).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_slow_and_idle_clients_are_let_go() {
        let address = start().await;
        for words in [
            "",
            "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(words.as_bytes()).await.unwrap();
            assert!(closes(&mut stream).await, "{words:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(1024);
        let mut ours = WriteTimeout::new(ours);
        let error = ours.write_all(&[0; 4096]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
