//! Counters of a front's calls to cache nodes, in Prometheus' text format.

use super::client::RingClient;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

impl RingClient {
    /// All numbers, to stand behind others.
    pub fn metrics_text(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_metrics(&mut page);
        page
    }

    fn write_metrics(&self, to: &mut String) -> std::fmt::Result {
        let counters = &self.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, help, counter) in [
            ("hits", "Lookups that a cache node answered.", &counters.hits),
            ("stale", "Of the hits, answers of a superseded state, within the grace.", &counters.stale),
            ("adopted", "Of the hits, answers from failover copies.", &counters.adopted),
            ("misses", "Lookups that found nothing.", &counters.misses),
            ("new", "Questions not looked up, because nobody had asked them before.", &counters.new),
            ("refused", "Calls that a cache node refused.", &counters.refused),
            ("late", "Lookups that were not answered in time.", &counters.late),
            ("busy", "Calls that a cache node was too busy for.", &counters.busy),
            ("spare", "Lookups made at the successor of a node that refused.", &counters.spare),
            ("inserted", "Answers handed to cache nodes.", &counters.inserted),
            ("not_inserted", "Answers that could not be handed in.", &counters.not_inserted),
        ] {
            let name = format!("farol_ring_{name}_total");
            write!(to, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {}\n", count(counter))?;
        }
        let name = "farol_ring_node_open";
        writeln!(to, "# HELP {name} 1 while this front asks a cache node, 0 while it passes it over.")?;
        writeln!(to, "# TYPE {name} gauge")?;
        for (node, is_open) in self.nodes() {
            writeln!(to, "{name}{{node=\"{}\"}} {}", node.0, u8::from(is_open))?;
        }
        Ok(())
    }
}
