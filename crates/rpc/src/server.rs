//! The answering side: accepts connections, admits calls, and hands them to a [`Handler`].

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::admission::Admission;
use crate::error::from_status;
use crate::handler::StopOnDrop;
use crate::metrics::{CallMeter, Ended, Metrics};
use crate::wire::{self, LEFT_HEADER, NODE_HEADER, TRACE_HEADER};
use crate::{CallContext, CallError, Caller, Handler, Limits, Peer, RpcError, ServeError, TlsSettings, tls};

/// Pause after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves calls on `listener` until the [`Server`] is drained or dropped. Must be called within a tokio runtime.
///
/// # Errors
/// Where the address is not loopback's and there is no TLS, or the listener is of no use.
pub fn serve(
    listener: TcpListener,
    tls: Option<TlsSettings>,
    handler: Arc<dyn Handler>,
    limits: Limits,
) -> Result<Server, ServeError> {
    let address = listener.local_addr()?;
    if tls.is_none() && !address.ip().is_loopback() {
        return Err(ServeError::PlainBeyondLoopback(address));
    }
    let (phase, follow) = watch::channel(Phase::Serving);
    let shared = Arc::new(ServerState {
        acceptor: tls.map(|tls| TlsAcceptor::from(tls.server)),
        handler,
        admission: Admission::new(limits.in_work, limits.waiting),
        limits,
        metrics: Arc::new(Metrics::default()),
    });
    tokio::spawn(accept(listener, shared.clone(), follow));
    Ok(Server { address, shared, phase })
}

/// A server that runs; dropping it closes its connections at once.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<ServerState>,
    phase: watch::Sender<Phase>,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its counters, which may be held for longer than the server.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.shared.metrics.clone()
    }

    /// Calls to it from its own process, without a connection. `node` is what callers name it.
    pub fn here(&self, node: String) -> Here {
        Here { shared: self.shared.clone(), address: self.address, node }
    }

    /// Calls in work and waiting.
    pub fn load(&self) -> (usize, usize) {
        self.shared.admission.load()
    }

    /// Accepts nothing new, finishes what is under way, and closes. After `grace` what is left is cut off; answers
    /// whether all was finished.
    pub async fn drain(self, grace: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        // Each connection holds a receiver: none left means none open.
        tokio::time::timeout(grace, self.phase.closed()).await.is_ok()
    }
}

/// Calls to a server of the same process: admitted, counted and cancelled as all others are, but for the network.
#[derive(Clone, Debug)]
pub struct Here {
    shared: Arc<ServerState>,
    address: SocketAddr,
    node: String,
}

impl Here {
    /// Whether calls to this peer are answered here.
    pub fn is(&self, peer: &Peer) -> bool {
        peer.node == self.node
    }

    /// As [`Client::call_bytes`](crate::Client::call_bytes). Dropping the future cancels the call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_bytes(
        &self,
        verb: &str,
        body: Bytes,
        deadline: Instant,
        trace: Option<&str>,
    ) -> Result<Bytes, CallError> {
        let mut meter = self.shared.metrics.meter(verb);
        let call = AdmittedCall {
            verb,
            wire: *self.shared.limits.wire.end(),
            deadline: deadline.min(Instant::now() + self.shared.limits.deadline_max),
            trace: trace.map(str::to_string),
            peer: Caller { address: self.address, node: Some(self.node.clone()) },
        };
        let answered = call.answered(&self.shared, std::future::ready(Ok(body))).await;
        let answered = finish(&mut meter, answered, self.shared.limits.body_bytes_max);
        answered.map_err(|error| from_status(error.status(), &self.node, error.to_string()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Closed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Draining,
    Closed,
}

/// What all connections share.
struct ServerState {
    acceptor: Option<TlsAcceptor>,
    handler: Arc<dyn Handler>,
    admission: Admission,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl ServerState {
    fn refuse_connection(&self, address: SocketAddr, why: &dyn std::fmt::Display) {
        self.metrics.connections_refused.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%address, error = %why, "a connection from no node of this cluster was refused");
    }
}

async fn accept(listener: TcpListener, shared: Arc<ServerState>, mut follow: watch::Receiver<Phase>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = follow.wait_for(|phase| *phase > Phase::Serving) => return,
        };
        match accepted {
            Ok((stream, address)) => {
                if shared.metrics.connections_open.load(Ordering::Relaxed) >= shared.limits.connections_max {
                    shared.refuse_connection(address, &"too many connections are open");
                    continue;
                }
                shared.metrics.connections_open.fetch_add(1, Ordering::Relaxed);
                let (shared, follow) = (shared.clone(), follow.clone());
                tokio::spawn(async move {
                    let _open = OpenConnection(shared.metrics.clone());
                    handshake(stream, address, shared, follow).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct OpenConnection(Arc<Metrics>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Settles who calls, then serves the connection.
async fn handshake(
    stream: TcpStream,
    address: SocketAddr,
    shared: Arc<ServerState>,
    follow: watch::Receiver<Phase>,
) {
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = shared.acceptor.clone() else {
        return connection(stream, Identity::plain(address), shared, follow).await;
    };
    match tokio::time::timeout(shared.limits.handshake_max, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let identity = Identity::certified(address, certificate.map(|found| found.clone().into_owned()));
            connection(stream, identity, shared, follow).await;
        }
        Ok(Err(error)) => shared.refuse_connection(address, &error),
        Err(_) => shared.refuse_connection(address, &"no TLS handshake in time"),
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    identity: Identity,
    shared: Arc<ServerState>,
    mut follow: watch::Receiver<Phase>,
) {
    let (address, called) = (identity.address, Arc::new(AtomicBool::new(false)));
    let identity = Arc::new(identity);
    let service = service_fn({
        let (shared, called) = (shared.clone(), called.clone());
        move |request| {
            called.store(true, Ordering::Relaxed);
            let (shared, identity) = (shared.clone(), identity.clone());
            async move { Ok::<_, std::convert::Infallible>(answer(&shared, &identity, request).await) }
        }
    });
    let ping = shared.limits.ping;
    let admitted = u32::try_from(shared.limits.in_work + shared.limits.waiting).unwrap_or(u32::MAX);
    let window = wire::STREAM_WINDOW.saturating_mul(admitted.saturating_add(16)).clamp(1 << 20, 1 << 30);
    let mut serving = pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(ping)
            .keep_alive_timeout(ping)
            .initial_stream_window_size(wire::STREAM_WINDOW)
            .initial_connection_window_size(window)
            .max_concurrent_streams(wire::STREAMS_MAX)
            // Hedging resets streams all the time, some before they are looked at; the default of 20 would close
            // the connection on a peer that does nothing wrong.
            .max_pending_accept_reset_streams(wire::STREAMS_MAX as usize)
            .max_local_error_reset_streams(None)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut first_call_until = pin!(tokio::time::sleep(shared.limits.handshake_max));
    let (mut draining, mut waiting) = (false, true);
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                return match ended {
                    Err(error) if !called.load(Ordering::Relaxed) => shared.refuse_connection(address, &error),
                    Err(error) => tracing::debug!(%address, %error, "a connection broke"),
                    Ok(()) => (),
                };
            }
            phase = follow.wait_for(|phase| *phase == Phase::Closed || (!draining && *phase == Phase::Draining)) => {
                if !phase.is_ok_and(|phase| *phase == Phase::Draining) {
                    return;
                }
                draining = true;
                serving.as_mut().graceful_shutdown();
            }
            () = first_call_until.as_mut(), if waiting => {
                waiting = false;
                if !called.load(Ordering::Relaxed) {
                    return shared.refuse_connection(address, &"no call in time");
                }
            }
        }
    }
}

/// Who is at the other end of a connection.
struct Identity {
    address: SocketAddr,
    secure: bool,
    certificate: Option<CertificateDer<'static>>,
    /// The name that was found in the certificate, so that it is looked for once.
    proven: OnceLock<String>,
}

impl Identity {
    fn plain(address: SocketAddr) -> Identity {
        Identity { address, secure: false, certificate: None, proven: OnceLock::new() }
    }

    fn certified(address: SocketAddr, certificate: Option<CertificateDer<'static>>) -> Identity {
        Identity { address, secure: true, certificate, proven: OnceLock::new() }
    }

    /// Checks what a call says of its sender against the certificate.
    fn caller(&self, claimed: Option<&str>) -> Result<Caller, RpcError> {
        let caller = Caller { address: self.address, node: claimed.map(str::to_string) };
        let Some(node) = claimed.filter(|_| self.secure) else { return Ok(caller) };
        if self.proven.get().is_some_and(|proven| proven == node) {
            return Ok(caller);
        }
        if self.certificate.as_ref().is_some_and(|certificate| tls::is_named(certificate, node)) {
            let _ = self.proven.set(node.to_string());
            return Ok(caller);
        }
        Err(RpcError::Refused(format!(
            "the caller says it is node {node}, but its certificate is not that node's: make one with `farol cluster \
             certs`"
        )))
    }
}

/// Answers one request, with an error's sentence where there is no answer.
async fn answer(
    shared: &ServerState,
    identity: &Identity,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let (verb, answered) = match wire::split_path(head.uri.path()) {
        _ if head.method != Method::POST => {
            ("none", Err(RpcError::Refused("calls are made with POST".to_string())))
        }
        None => ("none", Err(RpcError::Refused("calls go to /v<version>/<verb>".to_string()))),
        Some((wire, verb)) => (verb, Ok(wire)),
    };
    let mut meter = shared.metrics.meter(verb);
    let answered = match answered {
        Ok(wire) => call(shared, identity, verb, wire, &head.headers, body).await,
        Err(error) => Err(error),
    };
    let answered = finish(&mut meter, answered, shared.limits.body_bytes_max);
    let (status, body) = match answered {
        Ok(bytes) => (StatusCode::OK, bytes),
        Err(error) => (error.status(), Bytes::from(error.to_string())),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

/// Counts what became of a call, and keeps back an answer that is too long.
fn finish(
    meter: &mut CallMeter,
    answered: Result<Bytes, RpcError>,
    bytes_max: usize,
) -> Result<Bytes, RpcError> {
    let answered = answered.and_then(|bytes| {
        let fits = bytes.len() <= bytes_max;
        let sentence = || format!("the answer has {} bytes, {bytes_max} at most are sent", bytes.len());
        if fits { Ok(bytes) } else { Err(RpcError::Refused(sentence())) }
    });
    meter.ended = match &answered {
        Ok(_) => Ended::Answered,
        Err(RpcError::Busy(_)) => Ended::Busy,
        Err(_) => Ended::Error,
    };
    answered
}

async fn call(
    shared: &ServerState,
    identity: &Identity,
    verb: &str,
    wire: u16,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Bytes, RpcError> {
    let limits = &shared.limits;
    if !limits.wire.contains(&wire) {
        return Err(RpcError::WrongVersion(format!(
            "version {wire} of the wire format was asked for, {} to {} are spoken here: upgrade the older node",
            limits.wire.start(),
            limits.wire.end()
        )));
    }
    let peer = identity.caller(text(headers, NODE_HEADER))?;
    let left = text(headers, LEFT_HEADER).and_then(|left| left.parse().ok()).map(Duration::from_millis);
    let deadline = Instant::now() + left.unwrap_or(limits.deadline_max).min(limits.deadline_max);
    if body.size_hint().lower() > limits.body_bytes_max as u64 {
        return Err(too_large(limits.body_bytes_max));
    }

    let trace = text(headers, TRACE_HEADER).map(str::to_string);
    let call = AdmittedCall { verb, wire, deadline, trace, peer };
    call.answered(shared, read_body(body, limits.body_bytes_max)).await
}

/// A call that may be made.
struct AdmittedCall<'a> {
    verb: &'a str,
    wire: u16,
    deadline: Instant,
    trace: Option<String>,
    peer: Caller,
}

impl AdmittedCall<'_> {
    /// Waits for a place, then for the answer.
    async fn answered(
        self,
        shared: &ServerState,
        body: impl Future<Output = Result<Bytes, RpcError>>,
    ) -> Result<Bytes, RpcError> {
        let AdmittedCall { verb, wire, deadline, trace, peer } = self;
        let place = shared.admission.admit(deadline).await?;
        let started = Instant::now();
        let stop = StopOnDrop::default();
        let context = CallContext { deadline, trace, peer, wire, stop: stop.0.clone(), _place: Some(place) };
        let work = async { shared.handler.call(verb, body.await?, context).await };
        let answered =
            tokio::time::timeout_at(deadline.into(), work).await.unwrap_or(Err(RpcError::TimedOut));
        shared.admission.worked(started.elapsed());
        answered
    }
}

async fn read_body(body: Incoming, bytes_max: usize) -> Result<Bytes, RpcError> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(error) => Err(RpcError::Refused(format!("the request broke off: {error}"))),
    }
}

fn too_large(bytes_max: usize) -> RpcError {
    RpcError::TooLarge(format!("the request has more than {bytes_max} bytes: send it in parts"))
}

/// A header's text, if it is short enough to be ours.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|text| text.len() <= wire::TEXT_BYTES_MAX)
}
