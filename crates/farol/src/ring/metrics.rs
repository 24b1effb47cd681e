//! Counters of a front's calls to cache nodes, in Prometheus' text format.

use super::client::RingClient;
use super::records::{CachesRecord, NodeLine};
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
        match self.caches() {
            Some(told) => write_nodes(to, &told),
            None => Ok(()),
        }
    }
}

/// What the leader told of the nodes, which answer nobody but fronts.
fn write_nodes(to: &mut String, told: &CachesRecord) -> std::fmt::Result {
    let name = "farol_cache_ring_efficiency";
    let help = "Mean over greatest load of the cache nodes in the last minute.";
    writeln!(to, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {}", told.efficiency)?;
    let name = "farol_cache_ring_hot_questions";
    writeln!(to, "# HELP {name} Questions that several nodes answer, of those that are shown.")?;
    writeln!(to, "# TYPE {name} gauge\n{name} {}", told.hot.len())?;
    type Of = fn(&NodeLine) -> u64;
    let rows: [(&str, &str, &str, Of); 8] = [
        ("lookups_total", "counter", "Lookups at a cache node since it started.", |node| node.lookups),
        ("hits_total", "counter", "Lookups that found an answer.", |node| node.hits),
        ("adopted_total", "counter", "Of the hits, answers from failover copies.", |node| node.adopted),
        ("inserts_total", "counter", "Answers handed in.", |node| node.inserts),
        ("protects_total", "counter", "Batches of copies taken in.", |node| node.protects),
        ("handed_total", "counter", "Batches of former owners' answers taken in.", |node| node.handed),
        ("answers", "gauge", "Answers that a cache node keeps.", |node| node.entries),
        ("bytes", "gauge", "Memory of the answers that a cache node keeps.", |node| node.bytes),
    ];
    for (name, kind, help, of) in rows {
        let name = format!("farol_cache_node_{name}");
        writeln!(to, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        for node in &told.nodes {
            writeln!(to, "{name}{{node=\"{}\"}} {}", node.no, of(node))?;
        }
    }
    Ok(())
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
