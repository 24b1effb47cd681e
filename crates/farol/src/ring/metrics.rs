//! Counters of a front's calls to cache nodes, in Prometheus' text format.

use super::client::RingClient;
use std::fmt::Write;

impl RingClient {
    /// All numbers, to stand behind others.
    pub fn metrics_text(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_metrics(&mut page);
        page
    }

    fn write_metrics(&self, to: &mut String) -> std::fmt::Result {
        for (name, value) in self.counters.each() {
            let name_of_all = format!("farol_ring_{name}_total");
            let help = help(name);
            write!(to, "# HELP {name_of_all} {help}\n# TYPE {name_of_all} counter\n{name_of_all} {value}\n")?;
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

/// What a counter counts.
fn help(name: &str) -> &'static str {
    match name {
        "hits" => "Lookups that a cache node answered.",
        "stale" => "Of the hits, answers of a superseded state, within the grace.",
        "adopted" => "Of the hits, answers from failover copies.",
        "misses" => "Lookups that found nothing.",
        "new" => "Questions not looked up, because nobody had asked them before.",
        "refused" => "Calls that a cache node refused.",
        "late" => "Lookups that were not answered in time.",
        "busy" => "Calls that a cache node was too busy for.",
        "spare" => "Lookups made at the successor of a node that refused.",
        "inserted" => "Answers handed to cache nodes.",
        _ => "Answers that could not be handed in.",
    }
}
