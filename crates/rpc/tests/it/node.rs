//! A server whose verbs do one simple thing each, and a client to call it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use farol_rpc::{
    BoxFuture, CallContext, Client, ClientSettings, Handler, Limits, Peer, RpcError, Server, TlsSettings,
    decode, encode, serve,
};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

/// What became of the calls that take long.
#[derive(Default)]
pub struct Verbs {
    pub started: AtomicUsize,
    /// Calls whose stop flag was seen by their blocking thread, or whose future was dropped.
    pub stopped: AtomicUsize,
    pub finished: AtomicUsize,
}

impl Handler for Verbs {
    fn call<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        Box::pin(async move {
            match verb {
                "echo" => Ok(body),
                "who" => Ok(encode(&(context.peer.node.clone(), context.trace.clone()))?),
                "left" => Ok(encode(&(context.left().as_millis() as u64))?),
                "zeros" => Ok(Bytes::from(vec![0; decode::<usize>(&body)?])),
                "fail" => Err(RpcError::Failed("the disk is gone".to_string())),
                "panic" => panic!("on purpose"),
                "sleep" => {
                    let ms = decode::<u64>(&body)?;
                    self.started.fetch_add(1, Ordering::SeqCst);
                    let _dropped = CountOnDrop(&self.stopped);
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    std::mem::forget(_dropped);
                    self.finished.fetch_add(1, Ordering::SeqCst);
                    Ok(encode(&ms)?)
                }
                _ => Err(RpcError::UnknownVerb(verb.to_string())),
            }
        })
    }
}

struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Works on a blocking thread until it is told to stop.
pub struct Worker(pub Arc<Verbs>);

impl Handler for Worker {
    fn call<'a>(
        &'a self,
        _: &'a str,
        _: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        let verbs = self.0.clone();
        Box::pin(context.blocking(move |context| {
            verbs.started.fetch_add(1, Ordering::SeqCst);
            while !context.stop.is_set() {
                std::thread::sleep(Duration::from_millis(1));
            }
            verbs.stopped.fetch_add(1, Ordering::SeqCst);
            Ok(Bytes::new())
        }))
    }
}

pub async fn node(handler: Arc<dyn Handler>, limits: Limits, tls: Option<TlsSettings>) -> (Server, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = serve(listener, tls, handler, limits).unwrap();
    let peer = Peer::new("a", server.address());
    (server, peer)
}

pub fn client() -> Client {
    Client::new(
        ClientSettings { node: Some("me".to_string()), ..ClientSettings::default() },
        Handle::current(),
    )
}

pub fn within(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// Waits until a counter has reached a value, ten seconds at most.
pub async fn reaches(counter: &AtomicUsize, value: usize) {
    let started = Instant::now();
    while counter.load(Ordering::SeqCst) < value {
        assert!(started.elapsed() < Duration::from_secs(10), "{}", counter.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
