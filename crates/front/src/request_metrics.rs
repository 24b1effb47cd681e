//! Request metrics: counts by route and status, and latency histograms.
//!
//! Limit: one row per route (and one for what matches none) and status code that we answer with:
//! about 40 × 12 rows at most, whatever clients send.

use crate::Histogram;
use crate::routes::Route;
use farol_base::sync::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct RequestMetrics {
    paths: Vec<&'static str>,
    counts: Mutex<Counts>,
}

#[derive(Clone, Default)]
pub(crate) struct Counts {
    /// Requests by route and status code.
    pub requests: BTreeMap<(&'static str, u16), u64>,
    /// Times by route.
    pub times: BTreeMap<&'static str, Histogram>,
}

impl RequestMetrics {
    pub fn new(routes: Vec<Route>) -> RequestMetrics {
        let mut paths: Vec<_> = routes.iter().map(|route| route.path).collect();
        paths.dedup();
        RequestMetrics { paths, counts: Mutex::default() }
    }

    pub fn count(&self, route: &str, status: u16, took: Duration) {
        let route = self.paths.iter().find(|path| **path == route).copied().unwrap_or("unmatched");
        let mut counts = self.counts.lock();
        *counts.requests.entry((route, status)).or_default() += 1;
        counts.times.entry(route).or_default().add(took);
    }

    pub fn read(&self) -> Counts {
        self.counts.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_share_a_row() {
        let request_metrics = RequestMetrics::new(vec![Route { method: "get", path: "/search" }]);
        request_metrics.count("/search", 200, Duration::from_millis(3));
        request_metrics.count("/search", 200, Duration::from_secs(9));
        for n in 0..100 {
            request_metrics.count(&format!("/made/up/{n}"), 404, Duration::ZERO);
        }
        let counts = request_metrics.read();
        let want = [(("/search", 200), 2), (("unmatched", 404), 100)];
        assert_eq!(counts.requests.into_iter().collect::<Vec<_>>(), want);
        assert_eq!((counts.times["/search"].count(), counts.times["unmatched"].count()), (2, 100));
    }
}
