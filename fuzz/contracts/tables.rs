//! Any text as the files that an operator hands to `farol partition` and `farol cache`: a graph of hosts, a
//! list of agents, a table of places, a trace of queries.
//!
//! Contract: reading fails with an error that names the line, or gives something that says the same after it
//! was written and read again.

use farol_partition::exported::{Exported, read_agents};
use farol_partition::geo::GeoTable;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for graph in [text.to_string(), format!("farol-graph\t1\n{text}")] {
        let Ok(graph) = Exported::read(&graph) else { continue };
        let written = graph.write();
        let again = Exported::read(&written).expect("what was written can be read");
        assert_eq!(again.write(), written);
        let mut both = again.clone();
        both.add(&graph);
        assert!(both.servers.len() <= 2 * graph.servers.len());
    }
    let _ = read_agents(text);
    if let Ok(table) = GeoTable::read(text, &HashMap::new()) {
        let _ = table.find(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let _ = farol_cache::trace::Trace::read(text);
}
