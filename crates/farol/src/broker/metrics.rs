//! Counters of the broker, and what it knows of replicas, in Prometheus' text format.

use super::RemoteIndex;
use farol_rpc::metrics::Side;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What became of questions.
#[derive(Default)]
pub struct BrokerCounters {
    pub questions: AtomicU64,
    /// Answered without some shard.
    pub partial: AtomicU64,
    /// Not answered at all.
    pub failed: AtomicU64,
}

impl RemoteIndex {
    /// All numbers of the broker and of its calls, to stand behind others.
    pub fn metrics_text(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_metrics(&mut page);
        page.push_str(&self.caller.client().metrics().snapshot().text(Side::Client));
        page
    }

    fn write_metrics(&self, to: &mut String) -> std::fmt::Result {
        let mut counter = |name: &str, help: &str, value: u64| {
            write!(to, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n")
        };
        let counters = &self.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (asks, hedges) = self.book.lock().asks_and_hedges();
        counter("farol_broker_questions_total", "Questions put to the shards.", count(&counters.questions))?;
        let help = "Questions answered without some shard.";
        counter("farol_broker_partial_total", help, count(&counters.partial))?;
        counter("farol_broker_failed_total", "Questions that no shard answered.", count(&counters.failed))?;
        counter("farol_broker_asks_total", "Shards asked, the first replica of each.", asks)?;
        let help = "Calls made besides one that took long; 5 % of the asks at most.";
        counter("farol_broker_hedges_total", help, hedges)?;
        let table = self.table();
        let (book, now) = (self.book.lock(), Instant::now());
        let views: Vec<_> =
            table.peers.iter().filter_map(|(no, peer)| Some((peer, book.view(*no, now)?))).collect();
        let name = "farol_broker_replica_passed_over";
        writeln!(to, "# HELP {name} 1 while a node is not asked, because it failed.\n# TYPE {name} gauge")?;
        for (peer, view) in &views {
            let passed_over = u8::from(view.passed_over.is_some());
            writeln!(to, "{name}{{node=\"{}\"}} {passed_over}", peer.node)?;
        }
        let name = "farol_broker_replica_calls";
        writeln!(to, "# HELP {name} Calls to a node that are under way.\n# TYPE {name} gauge")?;
        for (peer, view) in &views {
            writeln!(to, "{name}{{node=\"{}\"}} {}", peer.node, view.under_way)?;
        }
        Ok(())
    }
}
