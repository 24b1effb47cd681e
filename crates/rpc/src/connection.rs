//! Connections to one peer: one for most, a second when many calls are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use farol_base::sync::Mutex;
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use crate::{ClientSettings, Peer, tls, wire};

/// Calls under way on a connection from which on a second one is made.
const CALLS_PER_CONNECTION: usize = 64;
/// Connections to one peer.
const CONNECTIONS_MAX: usize = 2;

/// A connection that calls are made on.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    under_way: Arc<AtomicUsize>,
}

impl Connection {
    fn load(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    fn is(&self, other: &Connection) -> bool {
        Arc::ptr_eq(&self.under_way, &other.under_way)
    }

    /// Takes the connection for a call, which counts until what is returned is dropped.
    fn checkout(&self) -> Checkout {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Checkout(self.clone())
    }
}

/// A connection with one call on it.
#[derive(Debug)]
pub(crate) struct Checkout(Connection);

impl Checkout {
    pub fn sender(&mut self) -> &mut SendRequest<Full<Bytes>> {
        &mut self.0.sender
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How an attempt to connect ended; `None` while it is under way.
type Attempt = watch::Receiver<Option<Result<Connection, String>>>;

/// All connections to one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerConnections(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    open: Vec<Connection>,
    opening: Option<Attempt>,
}

impl PeerConnections {
    /// A connection for one call. Waits only where there is none; all who wait share one attempt and its outcome.
    pub async fn checkout(
        self: &Arc<Self>,
        peer: &Peer,
        settings: &Arc<ClientSettings>,
        runtime: &Handle,
    ) -> Result<Checkout, String> {
        let mut attempt = {
            let mut lines = self.0.lock();
            lines.open.retain(|connection| !connection.sender.is_closed());
            let free = lines.open.iter().find(|connection| connection.load() < CALLS_PER_CONNECTION);
            if let Some(free) = free {
                return Ok(free.checkout());
            }
            let attempt = match &lines.opening {
                Some(attempt) => Some(attempt.clone()),
                None if lines.open.len() < CONNECTIONS_MAX => {
                    let attempt = self.clone().open(peer.clone(), settings.clone(), runtime);
                    lines.opening = Some(attempt.clone());
                    Some(attempt)
                }
                None => None,
            };
            match (lines.open.iter().min_by_key(|connection| connection.load()), attempt) {
                (Some(least), _) => return Ok(least.checkout()),
                (None, Some(attempt)) => attempt,
                (None, None) => return Err("there is no connection".to_string()),
            }
        };
        let outcome = attempt.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match outcome {
            Ok(Some(Ok(connection))) => Ok(connection.checkout()),
            Ok(Some(Err(why))) => Err(why),
            _ => Err("connecting was broken off".to_string()),
        }
    }

    /// Takes a connection out that failed a call.
    pub fn forget(&self, failed: &Checkout) {
        self.0.lock().open.retain(|connection| !connection.is(&failed.0));
    }

    /// Whether nothing would be lost by forgetting the peer.
    pub fn is_idle(&self) -> bool {
        let lines = self.0.lock();
        lines.opening.is_none() && lines.open.iter().all(|connection| connection.sender.is_closed())
    }

    /// Connects in a task of its own: a caller that gives up takes nothing away from those who wait with it.
    fn open(self: Arc<Self>, peer: Peer, settings: Arc<ClientSettings>, runtime: &Handle) -> Attempt {
        let (tell, attempt) = watch::channel(None);
        runtime.spawn(async move {
            let connect_max = settings.connect_max;
            let outcome = match tokio::time::timeout(connect_max, connect(&peer, &settings)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(format!("no connection within {} ms", connect_max.as_millis())),
            };
            let mut lines = self.0.lock();
            lines.opening = None;
            lines.open.extend(outcome.as_ref().ok().cloned());
            drop(lines);
            tell.send_replace(Some(outcome));
        });
        attempt
    }
}

async fn connect(peer: &Peer, settings: &ClientSettings) -> Result<Connection, String> {
    // Looked at before anything is sent: not even a connection is made in plain text beyond loopback.
    if settings.tls.is_none() && !peer.address.ip().is_loopback() {
        return Err("calls beyond loopback need TLS: set tls_ca, tls_cert and tls_key".to_string());
    }
    let stream = TcpStream::connect(peer.address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let Some(secure) = &settings.tls else { return speak(stream, settings.ping).await };
    let name = tls::server_name(&peer.node).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(secure.client.clone());
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    speak(stream, settings.ping).await
}

async fn speak<S>(stream: S, ping: Duration) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(ping)
        .keep_alive_timeout(ping)
        .keep_alive_while_idle(true)
        .initial_max_send_streams(wire::STREAMS_MAX as usize)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a peer broke");
        }
    });
    Ok(Connection { sender, under_way: Arc::default() })
}
