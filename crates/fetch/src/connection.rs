//! One connection to a server: opening it, one question and answer at a time, and whether it can serve again.
//!
//! HTTP/1 is driven by the caller that waits for the answer, without a task of its own: a crawler has thousands of
//! connections, each with one request at a time. HTTP/2 must answer its peer at any time, so each such
//! connection has a task, which ends with the connection and at the latest after [`AGE_MAX`] and one request.

use crate::request::RequestBody;
use crate::usage::{Meter, OpenConnection};
use crate::{FetchError, Stage, tls};
use bytes::Bytes;
use farol_base::{CanonicalUrl, Host};
use hyper::Version;
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection is not used again after this time.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Read buffer of a connection at most; it fits the size of what comes, usually 32 KiB for pages of 20 KB.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How much of a body an HTTP/2 server may send ahead of its reader.
const WINDOW_BYTES: u32 = 1 << 20;

/// Opens connections.
pub(crate) struct Connector {
    pub tls: Arc<rustls::ClientConfig>,
    pub connect_timeout: Duration,
    pub total_timeout: Duration,
    pub head_bytes_max: usize,
    pub meter: Arc<Meter>,
}

pub(crate) struct Connection {
    link: Link,
    address: SocketAddr,
    opened: Instant,
    /// Counts it as open.
    _open: Arc<OpenConnection>,
}

enum Link {
    Http1 {
        sender: http1::SendRequest<RequestBody>,
        /// `None` once the connection has ended.
        driver: Option<Box<http1::Connection<TokioIo<Stream>, RequestBody>>>,
    },
    Http2 {
        sender: http2::SendRequest<RequestBody>,
    },
}

impl Connector {
    /// Opens a connection to an address that the guard has passed; tells also how long TCP took.
    pub async fn open(
        &self,
        url: &CanonicalUrl,
        host: &Host,
        address: SocketAddr,
        deadline: Instant,
    ) -> Result<(Connection, Duration), FetchError> {
        let late = |stage| FetchError::Timeout { url: url.clone(), stage };
        let (start, open) = (Instant::now(), self.meter.connection());
        let tcp = timeout_at(deadline.min(start + self.connect_timeout), TcpStream::connect(address))
            .await
            .map_err(|_| late(Stage::Connect))?
            .and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp))
            .map_err(|source| FetchError::Connect { host: host.clone(), address, source })?;
        let connect = start.elapsed();
        let http_error = |source| FetchError::from_http(url, self.head_bytes_max, source);
        if !host.is_tls() {
            let link = self.http1(Stream::Plain(tcp)).await.map_err(http_error)?;
            return Ok((Connection { link, address, opened: start, _open: open }, connect));
        }
        let tls_error = |source| FetchError::Tls { host: host.clone(), source };
        let name = tls::server_name(host.name()).ok_or_else(|| {
            tls_error(io::Error::new(io::ErrorKind::InvalidData, "the host is no valid name"))
        })?;
        let handshake = TlsConnector::from(self.tls.clone()).connect(name, tcp);
        let stream = timeout_at(deadline.min(Instant::now() + self.connect_timeout), handshake)
            .await
            .map_err(|_| late(Stage::Tls))?
            .map_err(tls_error)?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = Stream::Secure(Box::new(stream));
        let link = match is_http2 {
            true => {
                timeout_at(deadline, self.http2(stream, open.clone())).await.map_err(|_| late(Stage::Tls))?
            }
            false => self.http1(stream).await,
        };
        Ok((Connection { link: link.map_err(http_error)?, address, opened: start, _open: open }, connect))
    }

    async fn http1(&self, stream: Stream) -> hyper::Result<Link> {
        // Many servers are older than the rules; where reading them leniently is safe for a client, do so.
        let (sender, driver) = http1::Builder::new()
            .title_case_headers(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .max_buf_size(BUFFER_BYTES_MAX.max(self.head_bytes_max))
            .max_header_size(self.head_bytes_max)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Link::Http1 { sender, driver: Some(Box::new(driver)) })
    }

    async fn http2(&self, stream: Stream, open: Arc<OpenConnection>) -> hyper::Result<Link> {
        let executor = BoundedTasks { lifetime: AGE_MAX + self.total_timeout };
        let (sender, driver) = http2::Builder::new(executor.clone())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(self.head_bytes_max.try_into().unwrap_or(u32::MAX))
            .handshake(TokioIo::new(stream))
            .await?;
        hyper::rt::Executor::execute(&executor, async move {
            let _open = open;
            if let Err(error) = driver.await {
                tracing::debug!(%error, "an HTTP/2 connection ended");
            }
        });
        Ok(Link::Http2 { sender })
    }
}

impl Connection {
    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn version(&self) -> Version {
        match self.link {
            Link::Http1 { .. } => Version::HTTP_11,
            Link::Http2 { .. } => Version::HTTP_2,
        }
    }

    /// Whether another request may be sent. A server can still close the connection in the same moment.
    pub fn is_usable(&mut self) -> bool {
        if self.opened.elapsed() >= AGE_MAX {
            return false;
        }
        // One look at the socket tells whether the server has closed it, or sent what nobody asked for.
        self.drive(&mut Context::from_waker(Waker::noop()));
        match &self.link {
            Link::Http1 { sender, driver } => driver.is_some() && sender.is_ready(),
            Link::Http2 { sender } => sender.is_ready(),
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn send(
        &mut self,
        request: hyper::Request<RequestBody>,
    ) -> hyper::Result<hyper::Response<Incoming>> {
        match &mut self.link {
            Link::Http2 { sender } => sender.send_request(request).await,
            Link::Http1 { sender, driver } => {
                let mut answer = pin!(sender.send_request(request));
                poll_fn(|cx| {
                    poll_driver(driver, cx);
                    answer.as_mut().poll(cx)
                })
                .await
            }
        }
    }

    /// Waits for the next piece of a body; `None` at its end.
    pub async fn piece(&mut self, body: &mut Incoming) -> Option<hyper::Result<Bytes>> {
        poll_fn(|cx| {
            let mut driven = false;
            loop {
                match Pin::new(&mut *body).poll_frame(cx) {
                    // Trailers are no part of the page.
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                        Err(_trailers) => continue,
                    },
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Pending if driven => return Poll::Pending,
                    Poll::Pending => {
                        self.drive(cx);
                        driven = true;
                    }
                }
            }
        })
        .await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Link::Http1 { driver, .. } = &mut self.link {
            poll_driver(driver, cx);
        }
    }
}

/// Moves an HTTP/1 connection on. Its errors reach the caller that waits for the answer or its body.
fn poll_driver(
    driver: &mut Option<Box<http1::Connection<TokioIo<Stream>, RequestBody>>>,
    cx: &mut Context<'_>,
) {
    if let Some(running) = driver
        && Pin::new(&mut **running).poll(cx).is_ready()
    {
        *driver = None;
    }
}

/// Runs the tasks of an HTTP/2 connection, and ends each after a time.
#[derive(Clone)]
struct BoundedTasks {
    lifetime: Duration,
}

impl<F> hyper::rt::Executor<F> for BoundedTasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        let lifetime = self.lifetime;
        tokio::spawn(async move {
            let _ = timeout(lifetime, task).await;
        });
    }
}

/// A byte stream, plain or secure.
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Stream::Secure(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Secure(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Secure(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Secure(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Secure(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Secure(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
