//! Back-pressure: how many calls are in work, how many may wait, and who is told at once to go elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::RpcError;

/// Places for calls in work, with a bounded first-come queue before them.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    in_work_max: usize,
    waiting_max: usize,
    waiting: AtomicUsize,
    /// Smoothed time of a call in work, in microseconds.
    work_us: AtomicU64,
}

impl Admission {
    pub fn new(in_work_max: usize, waiting_max: usize) -> Admission {
        let in_work_max = in_work_max.max(1);
        let places = Arc::new(Semaphore::new(in_work_max));
        Admission {
            places,
            in_work_max,
            waiting_max,
            waiting: AtomicUsize::new(0),
            work_us: AtomicU64::new(0),
        }
    }

    /// A place among the calls in work, after a wait where there is none.
    ///
    /// Whoever would wait in vain is told at once that the node is busy: the queue is full, or as long as it is it
    /// will not have moved before the deadline. Whose time is over while waiting is dropped.
    pub async fn admit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, RpcError> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let ahead = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if ahead >= self.waiting_max {
            return Err(RpcError::Busy(format!(
                "this node has {} calls in work and {ahead} waiting: ask another, or later",
                self.in_work_max
            )));
        }
        let expected = self.expected_wait(ahead);
        if expected > deadline.saturating_duration_since(Instant::now()) {
            let ms = expected.as_millis();
            return Err(RpcError::Busy(format!(
                "this call would wait {ms} ms here, longer than its time: ask another"
            )));
        }
        match tokio::time::timeout_at(deadline.into(), self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) if Instant::now() < deadline => Ok(place),
            _ => Err(RpcError::TimedOut),
        }
    }

    /// Learns how long a call was in work.
    pub fn worked(&self, time: Duration) {
        let sample = u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 4);
        let old = self.work_us.load(Ordering::Relaxed);
        // A lost update between threads loses one of many samples.
        self.work_us.store(old - old / 8 + sample / 8, Ordering::Relaxed);
    }

    /// Calls in work and waiting.
    pub fn load(&self) -> (usize, usize) {
        let free = self.places.available_permits();
        (self.in_work_max.saturating_sub(free), self.waiting.load(Ordering::Relaxed))
    }

    fn expected_wait(&self, ahead: usize) -> Duration {
        let work_us = self.work_us.load(Ordering::Relaxed);
        Duration::from_micros(work_us.saturating_mul(ahead as u64 + 1) / self.in_work_max as u64)
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let admission = Arc::new(Admission::new(1, 1));
        let first = admission.admit(soon(1000)).await.unwrap();
        let second = tokio::spawn({
            let admission = admission.clone();
            async move { admission.admit(soon(1000)).await.map(drop) }
        });
        while admission.load() != (1, 1) {
            tokio::task::yield_now().await;
        }
        assert!(matches!(admission.admit(soon(1000)).await, Err(RpcError::Busy(_))));
        drop(first);
        assert_eq!(second.await.unwrap(), Ok(()));
        assert_eq!(admission.load(), (0, 0));
    }

    #[tokio::test]
    async fn whoever_would_wait_in_vain_hears_so_at_once() {
        let admission = Admission::new(2, 64);
        (0..64).for_each(|_| admission.worked(Duration::from_millis(400)));
        let _both = (admission.admit(soon(1000)).await.unwrap(), admission.admit(soon(1000)).await.unwrap());
        assert!(matches!(admission.admit(soon(100)).await, Err(RpcError::Busy(_))));
        assert!(matches!(admission.admit(soon(300)).await, Err(RpcError::TimedOut)));
    }
}
