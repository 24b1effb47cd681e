//! By response time: so many fast hosts for each slow one, so that slow ones neither bucket nor starve.

use super::{HostFacts, HostOrder};
use std::sync::atomic::{AtomicU64, Ordering};

/// Mixes fast and slow hosts in a set ratio.
#[derive(Debug)]
pub struct Response {
    /// Slower than this on average counts as slow.
    pub slow_millis: u64,
    /// Fast hosts for each slow one.
    pub fast_per_slow: u64,
    fast: AtomicU64,
    slow: AtomicU64,
}

impl Response {
    pub fn new(slow_millis: u64, fast_per_slow: u64) -> Response {
        Response { slow_millis, fast_per_slow, fast: AtomicU64::new(0), slow: AtomicU64::new(0) }
    }
}

impl HostOrder for Response {
    fn key(&self, host: &HostFacts<'_>) -> Option<u64> {
        // Each kind counts its own; a slow one's number is stretched so that it falls behind its share of fast ones.
        if host.download_millis > self.slow_millis {
            let number = self.slow.fetch_add(1, Ordering::Relaxed);
            Some((number + 1).saturating_mul(self.fast_per_slow.max(1)))
        } else {
            Some(self.fast.fetch_add(1, Ordering::Relaxed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_fast_servers_for_each_slow_one() {
        let policy = Response::new(100, 3);
        let mut hosts: Vec<(Option<u64>, usize, bool)> = (0..16)
            .map(|at| {
                let slow = at < 4;
                let download_millis = if slow { 500 } else { 5 };
                (policy.key(&HostFacts { download_millis, ..HostFacts::default() }), at, slow)
            })
            .collect();
        hosts.sort();
        let slow: Vec<usize> = (0..16).filter(|at| hosts[*at].2).collect();
        assert_eq!(slow, [3, 7, 11, 15]);
    }
}
