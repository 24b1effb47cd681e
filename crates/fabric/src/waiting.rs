//! Waiting, in a thread of any kind, for what runs in a runtime of our own.

use std::future::Future;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Runs a future there and waits for it here, up to `limit`; it works inside other runtimes too, which `block_on` does
/// not. `None` where it took too long, and was ended.
pub fn wait_for<T: Send + 'static>(
    runtime: &Runtime,
    limit: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        // Nobody waits any more where this fails.
        let _ = sender.send(future.await);
    });
    match receiver.recv_timeout(limit) {
        Ok(value) => Some(value),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            task.abort();
            None
        }
    }
}
