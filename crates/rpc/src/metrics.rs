//! Counters of calls, per verb, as plain numbers for whoever shows them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use farol_base::sync::RwLock;

/// Upper ends of the time buckets, in microseconds; one more bucket takes what is longer.
pub const BUCKETS_US: [u64; 13] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000];

/// Verbs that are counted apart. Names come from the network: what is beyond is counted together, as `other`.
const VERBS_MAX: usize = 64;

/// Counters of a client or a server.
#[derive(Debug, Default)]
pub struct Metrics {
    verbs: RwLock<BTreeMap<String, Arc<VerbCounters>>>,
    pub(crate) connections_open: AtomicUsize,
    pub(crate) connections_refused: AtomicU64,
}

impl Metrics {
    /// All numbers as they stand.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let verbs = self.verbs.read();
        MetricsSnapshot {
            verbs: verbs.iter().map(|(verb, counters)| (verb.clone(), counters.snapshot())).collect(),
            connections_open: self.connections_open.load(Ordering::Relaxed),
            connections_refused: self.connections_refused.load(Ordering::Relaxed),
        }
    }

    /// Starts counting one call. What becomes of it is told to the meter; one that is dropped without a word was
    /// cancelled.
    pub(crate) fn meter(&self, verb: &str) -> CallMeter {
        CallMeter { counters: self.counters(verb), started: Instant::now(), ended: Ended::Cancelled }
    }

    fn counters(&self, verb: &str) -> Arc<VerbCounters> {
        if let Some(counters) = self.verbs.read().get(verb) {
            return counters.clone();
        }
        let mut verbs = self.verbs.write();
        let verb = if verbs.len() < VERBS_MAX || verbs.contains_key(verb) { verb } else { "other" };
        verbs.entry(verb.to_string()).or_default().clone()
    }
}

/// [`Metrics`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Calls by verb.
    pub verbs: BTreeMap<String, VerbSnapshot>,
    /// Connections that are open; servers only.
    pub connections_open: usize,
    /// Connections that were refused: no or a foreign certificate, no HTTP/2, too many; servers only.
    pub connections_refused: u64,
}

/// Which end of calls was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that asks.
    Client,
    /// The one that answers.
    Server,
}

impl MetricsSnapshot {
    /// The numbers in Prometheus' text format (0.0.4), to stand behind others.
    pub fn text(&self, side: Side) -> String {
        let mut page = String::new();
        let name = match side {
            Side::Client => "farol_rpc_client",
            Side::Server => "farol_rpc_server",
        };
        // Writing to a String cannot fail.
        let _ = self.write(name, side, &mut page);
        page
    }

    fn write(&self, name: &str, side: Side, to: &mut String) -> std::fmt::Result {
        let title = |to: &mut String, what: &str, kind: &str, help: &str| {
            write!(to, "# HELP {name}_{what} {help}\n# TYPE {name}_{what} {kind}\n")
        };
        title(to, "calls_total", "counter", "Calls between nodes that ended, by verb and end.")?;
        for (verb, calls) in &self.verbs {
            let not_answered = calls.errors + calls.busy + calls.cancelled;
            let ends = [
                ("answered", calls.calls.saturating_sub(not_answered)),
                ("error", calls.errors),
                ("busy", calls.busy),
                ("cancelled", calls.cancelled),
            ];
            for (end, count) in ends {
                writeln!(to, "{name}_calls_total{{verb=\"{verb}\",end=\"{end}\"}} {count}")?;
            }
        }
        title(to, "seconds", "histogram", "Time of calls between nodes that were answered.")?;
        for (verb, calls) in &self.verbs {
            let mut below = 0;
            for (count, end) in calls.buckets.iter().zip(&BUCKETS_US) {
                below += count;
                let end = *end as f64 / 1e6;
                writeln!(to, "{name}_seconds_bucket{{verb=\"{verb}\",le=\"{end}\"}} {below}")?;
            }
            let all: u64 = calls.buckets.iter().sum();
            writeln!(to, "{name}_seconds_bucket{{verb=\"{verb}\",le=\"+Inf\"}} {all}")?;
            writeln!(to, "{name}_seconds_sum{{verb=\"{verb}\"}} {}", calls.sum_us as f64 / 1e6)?;
            writeln!(to, "{name}_seconds_count{{verb=\"{verb}\"}} {all}")?;
        }
        if side == Side::Server {
            title(to, "connections", "gauge", "Connections of other nodes that are open.")?;
            writeln!(to, "{name}_connections {}", self.connections_open)?;
            title(
                to,
                "connections_refused_total",
                "counter",
                "Connections refused: strangers, or too many.",
            )?;
            writeln!(to, "{name}_connections_refused_total {}", self.connections_refused)?;
        }
        Ok(())
    }
}

/// Calls of one verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbSnapshot {
    /// Calls that ended, however.
    pub calls: u64,
    /// Calls that ended with an error other than being busy.
    pub errors: u64,
    /// Calls that were told to come later.
    pub busy: u64,
    /// Calls whose caller went away.
    pub cancelled: u64,
    /// Sum of the times of answered calls, in microseconds.
    pub sum_us: u64,
    /// How many answered calls took at most [`BUCKETS_US`], each call in one bucket; the last one has no end.
    pub buckets: [u64; BUCKETS_US.len() + 1],
}

#[derive(Debug, Default)]
struct VerbCounters {
    calls: AtomicU64,
    errors: AtomicU64,
    busy: AtomicU64,
    cancelled: AtomicU64,
    sum_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
}

impl VerbCounters {
    fn snapshot(&self) -> VerbSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        VerbSnapshot {
            calls: read(&self.calls),
            errors: read(&self.errors),
            busy: read(&self.busy),
            cancelled: read(&self.cancelled),
            sum_us: read(&self.sum_us),
            buckets: std::array::from_fn(|at| read(&self.buckets[at])),
        }
    }

    fn answered(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.buckets[BUCKETS_US.partition_point(|end| *end < us)].fetch_add(1, Ordering::Relaxed);
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered,
    Error,
    Busy,
    Cancelled,
}

/// Counts one call when it is dropped.
pub(crate) struct CallMeter {
    counters: Arc<VerbCounters>,
    started: Instant,
    pub ended: Ended,
}

impl Drop for CallMeter {
    fn drop(&mut self) {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        count(&self.counters.calls);
        match self.ended {
            Ended::Answered => self.counters.answered(self.started.elapsed()),
            Ended::Error => drop(count(&self.counters.errors)),
            Ended::Busy => drop(count(&self.counters.busy)),
            Ended::Cancelled => drop(count(&self.counters.cancelled)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_in_one_bucket() {
        let counters = VerbCounters::default();
        for us in [0, 250, 251, 2_500_000, 2_500_001] {
            counters.answered(Duration::from_micros(us));
        }
        let buckets = counters.snapshot().buckets;
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 1));
    }

    #[test]
    fn the_text_has_each_call_once_and_buckets_that_add_up() {
        let metrics = Metrics::default();
        for ended in [Ended::Answered, Ended::Answered, Ended::Busy, Ended::Error] {
            metrics.meter("search").ended = ended;
        }
        drop(metrics.meter("search"));
        let text = metrics.snapshot().text(Side::Client);
        for line in [
            "farol_rpc_client_calls_total{verb=\"search\",end=\"answered\"} 2",
            "farol_rpc_client_calls_total{verb=\"search\",end=\"error\"} 1",
            "farol_rpc_client_calls_total{verb=\"search\",end=\"busy\"} 1",
            "farol_rpc_client_calls_total{verb=\"search\",end=\"cancelled\"} 1",
            "farol_rpc_client_seconds_bucket{verb=\"search\",le=\"2.5\"} 2",
            "farol_rpc_client_seconds_bucket{verb=\"search\",le=\"+Inf\"} 2",
            "farol_rpc_client_seconds_count{verb=\"search\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("connections"), "a client counts none");
        let server = metrics.snapshot().text(Side::Server);
        assert!(server.contains("farol_rpc_server_connections 0\n"), "{server}");
    }

    #[test]
    fn names_from_the_network_do_not_fill_memory() {
        let metrics = Metrics::default();
        for verb in 0..1000 {
            metrics.meter(&format!("verb-{verb}")).ended = Ended::Error;
        }
        let verbs = metrics.snapshot().verbs;
        assert_eq!((verbs.len(), verbs["other"].errors), (VERBS_MAX + 1, 1000 - VERBS_MAX as u64));
    }
}
