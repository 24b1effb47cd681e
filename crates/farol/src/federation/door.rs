//! The door for other engines: a listener of its own, with its own limits, for `/federation/v1/`.
//!
//! INVARIANT: no more than [`BODY_BYTES_MAX`] of a request are read, no more than [`CONNECTIONS_MAX`] connections are open,
//! and each wait has an end.

use super::tls::engine_of;
use anyhow::Result;
use bytes::Bytes;
use farol_base::sync::Mutex;
use farol_federation::agreement::EngineId;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Longest body of a request. Packets come in pieces; the longest letter is half a megabyte, in base64 two thirds.
pub const BODY_BYTES_MAX: usize = (1 << 20) + 4096;
/// Connections at a time; 256 × 1 MiB of body = 256 MiB at the very worst.
pub const CONNECTIONS_MAX: usize = 256;
/// Requests of one address: so many at once, and so many a second after that. Behind a proxy all share one.
const BURST: f64 = 400.0;
const PER_SECOND: f64 = 100.0;
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// A connection on which nothing is asked is closed after this.
const IDLE_MAX: Duration = Duration::from_secs(120);
const BODY_MAX: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A request of another engine.
pub struct Asked {
    pub method: Method,
    /// What follows `/federation/v1/`.
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whose certificate the connection showed.
    pub end: Option<EngineId>,
}

/// What it is told.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub body: Bytes,
    pub headers: Vec<(HeaderName, String)>,
}

impl Reply {
    /// A sentence or a small JSON text.
    pub fn text(status: StatusCode, text: impl Into<String>) -> Reply {
        let text: String = text.into();
        Reply { status, body: text.into(), headers: Vec::new() }
    }

    /// Come back later.
    pub fn later(status: StatusCode, text: &str, after: Duration) -> Reply {
        let secs = after.as_secs().max(1).to_string();
        Reply { headers: vec![(RETRY_AFTER, secs)], ..Reply::text(status, text) }
    }

    /// The same with one more header.
    pub fn with(mut self, name: HeaderName, value: impl ToString) -> Reply {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// Answers requests.
pub type Answering = Arc<dyn Fn(Asked) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// Counts what is refused here, by reason.
pub type Counting = Arc<dyn Fn(&'static str) + Send + Sync>;

struct DoorState {
    acceptor: Option<TlsAcceptor>,
    answering: Answering,
    counting: Counting,
    open: AtomicUsize,
    rates: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

/// Opens the door; it closes with the runtime. Without `tls` a proxy stands before it.
pub fn open(listener: TcpListener, tls: Option<Arc<ServerConfig>>, answering: Answering, counting: Counting) {
    let state = Arc::new(DoorState {
        acceptor: tls.map(TlsAcceptor::from),
        answering,
        counting,
        open: AtomicUsize::new(0),
        rates: Mutex::default(),
    });
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    if state.open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                        tracing::debug!(%address, "too many engines are connected");
                        (state.counting)("door_full");
                        continue;
                    }
                    state.open.fetch_add(1, Ordering::Relaxed);
                    let state = state.clone();
                    tokio::spawn(async move {
                        let _open = OpenDoor(state.clone());
                        if let Err(error) = enter(stream, address.ip(), state).await {
                            tracing::debug!(%address, "a connection of another engine: {error:#}");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of another engine could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
}

struct OpenDoor(Arc<DoorState>);

impl Drop for OpenDoor {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn enter(stream: TcpStream, from: IpAddr, state: Arc<DoorState>) -> Result<()> {
    stream.set_nodelay(true)?;
    let Some(acceptor) = &state.acceptor else {
        return serve(stream, false, from, None, state).await;
    };
    let stream = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await??;
    let connection = stream.get_ref().1;
    let is_h2 = connection.alpn_protocol() == Some(b"h2");
    let end = connection.peer_certificates().and_then(|chain| chain.first()).and_then(engine_of);
    serve(stream, is_h2, from, end, state).await
}

async fn serve<S>(
    stream: S,
    is_h2: bool,
    from: IpAddr,
    end: Option<EngineId>,
    state: Arc<DoorState>,
) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let last = Arc::new(Mutex::new(Instant::now()));
    let service = service_fn({
        let last = last.clone();
        move |request| {
            *last.lock() = Instant::now();
            let state = state.clone();
            async move { Ok::<_, Infallible>(answer(&state, from, end, request).await) }
        }
    });
    let idle = async {
        loop {
            let since = last.lock().elapsed();
            if since >= IDLE_MAX {
                return;
            }
            tokio::time::sleep(IDLE_MAX - since).await;
        }
    };
    let io = TokioIo::new(stream);
    let serving: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> = if is_h2 {
        let mut http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        http2.timer(TokioTimer::new()).max_concurrent_streams(16).max_header_list_size(1 << 20);
        Box::pin(http2.serve_connection(io, service))
    } else {
        let mut http1 = hyper::server::conn::http1::Builder::new();
        // A letter that allows a request may be some kilobytes, in a header.
        http1.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_MAX).max_buf_size(64 << 10);
        Box::pin(http1.serve_connection(io, service))
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = idle => Ok(()),
    }
}

async fn answer(
    state: &DoorState,
    from: IpAddr,
    end: Option<EngineId>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let reply = match read(state, from, end, request).await {
        Ok(asked) => (state.answering)(asked).await,
        Err(reply) => reply,
    };
    let kind = match reply.body.first() {
        Some(b'{' | b'[') => "application/json",
        Some(b'F') if reply.body.starts_with(b"FAROLIDX") => "application/vnd.farol.packet",
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

async fn read(
    state: &DoorState,
    from: IpAddr,
    end: Option<EngineId>,
    request: Request<Incoming>,
) -> Result<Asked, Reply> {
    if !state.may_ask(from) {
        (state.counting)("door_too_many_requests");
        let text = "too many requests come from this address; send fewer";
        return Err(Reply::later(StatusCode::TOO_MANY_REQUESTS, text, Duration::from_secs(1)));
    }
    let (head, body) = request.into_parts();
    let Some(path) = head.uri.path().strip_prefix("/federation/v1/") else {
        return Err(Reply::text(StatusCode::NOT_FOUND, "engines are asked at /federation/v1/"));
    };
    let too_large = || {
        (state.counting)("door_too_large");
        let text = format!("the body has more than {BODY_BYTES_MAX} bytes; send it in pieces");
        Reply::text(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    let body = match collected {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_large()),
        Ok(Err(_)) => {
            (state.counting)("door_broken_off");
            return Err(Reply::text(StatusCode::BAD_REQUEST, "the body broke off; send it again"));
        }
        Err(_) => {
            (state.counting)("door_too_slow");
            return Err(Reply::text(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"));
        }
    };
    Ok(Asked {
        method: head.method,
        path: path.to_string(),
        query: head.uri.query().unwrap_or_default().to_string(),
        headers: head.headers,
        body,
        end,
    })
}

impl DoorState {
    /// Takes one request of an address into account.
    fn may_ask(&self, from: IpAddr) -> bool {
        let now = Instant::now();
        let mut rates = self.rates.lock();
        if rates.len() >= ADDRESSES_MAX {
            let whole = Duration::from_secs_f64(BURST / PER_SECOND);
            rates.retain(|_, (_, last)| now.duration_since(*last) < whole);
            if rates.len() >= ADDRESSES_MAX {
                return rates.contains_key(&from);
            }
        }
        let (left, last) = rates.entry(from).or_insert((BURST, now));
        *left = (*left + now.duration_since(*last).as_secs_f64() * PER_SECOND).min(BURST);
        *last = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }
}
