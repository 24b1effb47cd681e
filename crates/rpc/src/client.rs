//! The asking side: calls with a deadline, on connections that are kept.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use farol_base::sync::Mutex;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use crate::connection::PeerConnections;
use crate::error::from_status;
use crate::metrics::{Ended, Metrics};
use crate::wire::{self, BODY_BYTES_MAX, LEFT_HEADER, NODE_HEADER, SENTENCE_BYTES_MAX, TRACE_HEADER};
use crate::{CallError, TlsSettings};

/// Peers that are remembered before those without connections are forgotten.
const PEERS_MAX: usize = 256;

/// A node that can be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its node id; under TLS its certificate must have this name.
    pub node: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Version of the wire format that both sides speak.
    pub wire: u16,
}

impl Peer {
    /// A node that speaks version 1.
    pub fn new(node: impl Into<String>, address: SocketAddr) -> Peer {
        Peer { node: node.into(), address, wire: 1 }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", self.node, self.address)
    }
}

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// What the node says it is. Under TLS it must be the certificate's name, so leave it to [`TlsSettings`].
    pub node: Option<String>,
    /// Required beyond loopback.
    pub tls: Option<TlsSettings>,
    /// Longest time for connecting, TLS and all; a call's own deadline may be shorter.
    pub connect_max: Duration,
    /// Pause between two keep-alive pings, and how long their answer may take: a cut connection is noticed after
    /// the sum of both.
    pub ping: Duration,
    /// Bytes of a request and of an answer.
    pub body_bytes_max: usize,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            node: None,
            tls: None,
            connect_max: Duration::from_millis(500),
            ping: Duration::from_secs(1),
            body_bytes_max: BODY_BYTES_MAX,
        }
    }
}

/// Calls peers; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    settings: Arc<ClientSettings>,
    runtime: Handle,
    node: Option<HeaderValue>,
    peers: Mutex<HashMap<(String, SocketAddr), Arc<PeerConnections>>>,
    metrics: Metrics,
}

impl Client {
    /// A client whose connections live on `runtime`.
    pub fn new(settings: ClientSettings, runtime: Handle) -> Client {
        let node = settings.tls.as_ref().map(TlsSettings::node).or(settings.node.as_deref());
        let node = node.and_then(|node| HeaderValue::from_str(node).ok());
        Client(Arc::new(ClientState {
            settings: Arc::new(settings),
            runtime,
            node,
            peers: Mutex::default(),
            metrics: Metrics::default(),
        }))
    }

    /// Calls `verb` of `peer` and waits for the answer until `deadline`. Dropping the future cancels the call on the
    /// other side as well.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call<Req, Resp>(
        &self,
        peer: &Peer,
        verb: &str,
        request: &Req,
        deadline: Instant,
    ) -> Result<Resp, CallError>
    where
        Req: Serialize + ?Sized,
        Resp: DeserializeOwned,
    {
        self.call_traced(peer, verb, request, deadline, None).await
    }

    /// As [`Client::call`], with a text that joins this call with others of the same question.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_traced<Req, Resp>(
        &self,
        peer: &Peer,
        verb: &str,
        request: &Req,
        deadline: Instant,
        trace: Option<&str>,
    ) -> Result<Resp, CallError>
    where
        Req: Serialize + ?Sized,
        Resp: DeserializeOwned,
    {
        let body = wire::encode(request).map_err(|error| {
            CallError::Refused(format!("the request for {verb} cannot be written: {error}"))
        })?;
        let answer = self.call_bytes(peer, verb, body, deadline, trace).await?;
        wire::decode(&answer).map_err(|error| damaged(peer, verb, &error))
    }

    /// As [`Client::call_traced`], with bodies that are encoded already.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_bytes(
        &self,
        peer: &Peer,
        verb: &str,
        body: Bytes,
        deadline: Instant,
        trace: Option<&str>,
    ) -> Result<Bytes, CallError> {
        let mut meter = self.0.metrics.meter(verb);
        let exchange = self.exchange(peer, verb, body, deadline, trace);
        let answer = match tokio::time::timeout_at(deadline.into(), exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::TimedOut { peer: peer.to_string() }),
        };
        meter.ended = match &answer {
            Ok(_) => Ended::Answered,
            Err(CallError::Busy(_)) => Ended::Busy,
            Err(_) => Ended::Error,
        };
        answer
    }

    /// Counters of calls made.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The same for threads that are none of the runtime's.
    pub fn blocking(&self) -> CallerHandle {
        CallerHandle { client: self.clone() }
    }

    async fn exchange(
        &self,
        peer: &Peer,
        verb: &str,
        body: Bytes,
        deadline: Instant,
        trace: Option<&str>,
    ) -> Result<Bytes, CallError> {
        let bytes_max = self.0.settings.body_bytes_max;
        if body.len() > bytes_max {
            let bytes = body.len();
            return Err(CallError::Refused(format!(
                "the request for {verb} has {bytes} bytes, {bytes_max} at most are sent: send it in parts"
            )));
        }
        let unreachable = |why: String| CallError::Unreachable { peer: peer.to_string(), why };
        let connections = self.connections(peer);
        let mut again = true;
        loop {
            let checkout = connections.checkout(peer, &self.0.settings, &self.0.runtime).await;
            let mut checkout = checkout.map_err(unreachable)?;
            let request = self.request(peer, verb, body.clone(), deadline, trace)?;
            match checkout.sender().try_send_request(request).await {
                Ok(response) => return self.read(peer, verb, response).await,
                Err(mut error) => {
                    connections.forget(&checkout);
                    // A connection that was closed while it was idle: the request was never sent.
                    if error.take_message().is_some() && again {
                        again = false;
                        continue;
                    }
                    return Err(unreachable(with_causes(error.error())));
                }
            }
        }
    }

    fn request(
        &self,
        peer: &Peer,
        verb: &str,
        body: Bytes,
        deadline: Instant,
        trace: Option<&str>,
    ) -> Result<Request<Full<Bytes>>, CallError> {
        let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis();
        if left_ms == 0 {
            return Err(CallError::TimedOut { peer: peer.to_string() });
        }
        let mut request = Request::post(format!("http://{}/v{}/{verb}", peer.address, peer.wire))
            .header(LEFT_HEADER, left_ms.to_string());
        if let Some(trace) = trace {
            request = request.header(TRACE_HEADER, trace);
        }
        if let Some(node) = &self.0.node {
            request = request.header(NODE_HEADER, node);
        }
        request
            .body(Full::new(body))
            .map_err(|error| CallError::Refused(format!("{verb} cannot be called: {error}")))
    }

    async fn read(&self, peer: &Peer, verb: &str, response: Response<Incoming>) -> Result<Bytes, CallError> {
        let (head, body) = response.into_parts();
        let ok = head.status == StatusCode::OK;
        let bytes_max = if ok { self.0.settings.body_bytes_max } else { SENTENCE_BYTES_MAX };
        match Limited::new(body, bytes_max).collect().await {
            Ok(read) if ok => Ok(read.to_bytes()),
            Ok(read) => {
                let sentence = String::from_utf8_lossy(&read.to_bytes()).into_owned();
                Err(from_status(head.status, &peer.to_string(), sentence))
            }
            Err(error) if error.is::<LengthLimitError>() => {
                Err(damaged(peer, verb, &format!("it has more than {bytes_max} bytes")))
            }
            Err(error) => {
                Err(CallError::Unreachable { peer: peer.to_string(), why: with_causes(error.as_ref()) })
            }
        }
    }

    fn connections(&self, peer: &Peer) -> Arc<PeerConnections> {
        let mut peers = self.0.peers.lock();
        if peers.len() >= PEERS_MAX {
            // Who waits for or uses a connection holds the Arc besides.
            peers.retain(|_, connections| Arc::strong_count(connections) > 1 || !connections.is_idle());
        }
        peers.entry((peer.node.clone(), peer.address)).or_default().clone()
    }
}

/// A [`Client`] for plain threads.
#[derive(Clone, Debug)]
pub struct CallerHandle {
    client: Client,
}

impl CallerHandle {
    /// As [`Client::call`], blocking.
    ///
    /// # Errors
    /// See [`CallError`].
    ///
    /// # Panics
    /// On a thread of a tokio runtime, which must not block.
    pub fn call<Req, Resp>(
        &self,
        peer: &Peer,
        verb: &str,
        request: &Req,
        deadline: Instant,
    ) -> Result<Resp, CallError>
    where
        Req: Serialize + ?Sized,
        Resp: DeserializeOwned,
    {
        self.block_on(self.client.call(peer, verb, request, deadline))
    }

    /// Waits for anything that is made of calls, such as [`gather`](fn@crate::gather).
    ///
    /// # Panics
    /// On a thread of a tokio runtime, which must not block.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.client.0.runtime.block_on(future)
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

fn damaged(peer: &Peer, verb: &str, why: &dyn fmt::Display) -> CallError {
    CallError::Damaged { peer: peer.to_string(), verb: verb.to_string(), why: why.to_string() }
}

/// An error with its causes: hyper's own words say only that something went wrong.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
