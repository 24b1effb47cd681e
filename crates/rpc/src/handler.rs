//! What a node provides: a [`Handler`] that answers verbs, and what it is told about each call.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::RpcError;

/// A future on the heap, so that traits can return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Answers calls.
///
/// The future is dropped when the caller goes away or the deadline passes. Work that must not run on the
/// runtime's threads (the disk, more than a few microseconds of computing) goes through
/// [`CallContext::blocking`].
pub trait Handler: Send + Sync + 'static {
    /// Answers `verb` with the body of an answer.
    fn call<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>>;
}

/// What is known of a call besides its verb and body.
///
/// It holds the call's place among those in work: the place is free again when the context is dropped. Not before,
/// even if the caller has gone: a blocking thread that still works is still work.
#[derive(Debug)]
pub struct CallContext {
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// What joins this call with others of the same question, if the caller said.
    pub trace: Option<String>,
    /// Who calls.
    pub peer: Caller,
    /// Version of the wire format that the caller speaks.
    pub wire: u16,
    /// Set when nobody waits for the answer any more.
    pub stop: Stop,
    pub(crate) _place: Option<OwnedSemaphorePermit>,
}

impl CallContext {
    /// Time that is left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Runs `work` on a blocking thread. It should look at [`CallContext::stop`] now and then; its place among
    /// the calls in work is kept until it returns.
    ///
    /// # Errors
    /// [`RpcError::Failed`] where `work` panics, besides its own.
    pub async fn blocking<T: Send + 'static>(
        self,
        work: impl FnOnce(&CallContext) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        tokio::task::spawn_blocking(
            move || if self.stop.is_set() { Err(RpcError::TimedOut) } else { work(&self) },
        )
        .await
        .unwrap_or_else(|error| Err(RpcError::Failed(format!("the call broke off: {error}"))))
    }
}

/// The node at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// Its node id. Under TLS it is the one in its certificate, on plain loopback what it says of itself.
    pub node: Option<String>,
}

/// Tells work on another thread that nobody waits for it any more.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether to stop; cheap enough for inner loops.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for crates that know nothing of calls.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets the flag when it is dropped: at the end of a call, whatever the end.
#[derive(Debug, Default)]
pub(crate) struct StopOnDrop(pub Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}
