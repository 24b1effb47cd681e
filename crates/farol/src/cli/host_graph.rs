//! What the crawl knows of hosts, put together: pages from the URL store, links from the link store, addresses and
//! round-trip times from the hosts' table.

use crate::archive::hosts::HostRow;
use crate::archive::open_urls;
use crate::fabric::{LocalTables, Table, Tables};
use crate::folder::Folder;
use anyhow::{Context, Result};
use farol_base::{Clock, HostHash, SystemClock};
use farol_links::{Links, LinksOptions};
use farol_partition::geo::GeoTable;
use farol_partition::{Agent, Exported, Server};
use farol_store::urls::UrlStore;
use std::collections::HashMap;
use std::time::Duration;

/// Round-trip times count for so long.
const WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

/// Reads the graph of a folder that nobody writes to. `agent` is what this crawler is called.
pub fn read(folder: &Folder, agent: &str) -> Result<Exported> {
    let mut urls = open_urls(folder)?;
    urls.compact_all().context("cannot bring the URL store up to date")?;
    let hosts = urls.hosts(0, usize::MAX, "");
    let mut graph = Exported { agents: vec![Agent::named(agent)], ..Exported::default() };
    let tables = LocalTables::open(&folder.tables())?;
    let rows: HashMap<String, HostRow> = tables
        .scan(Table::Hosts)?
        .into_iter()
        .filter_map(|(host, row)| Some((host, serde_json::from_slice(&row).ok()?)))
        .collect();
    let now = SystemClock.now();
    let mut numbers: HashMap<HostHash, u32> = HashMap::new();
    for (host, counts) in &hosts {
        let number = graph.servers.len() as u32;
        let row = rows.get(host.as_str());
        numbers.insert(host.hash(), number);
        graph.servers.push(Server {
            name: host.to_string(),
            address: row.and_then(|row| row.address),
            pages: counts.known,
            position: None,
        });
        if let Some((millis, _)) = row.and_then(|row| row.round_trips().median(now, WINDOW)) {
            graph.rtt.push((number, 0, millis));
        }
    }
    let links = Links::open(crate::disk::at(&folder.links())?, LinksOptions::default())
        .with_context(|| format!("cannot open the link graph in {}", folder.links().display()))?;
    // Links to hosts that are not crawled say nothing about who should crawl what.
    let known = |host: HostHash| numbers.get(&host).copied();
    graph.links = links
        .host_links()?
        .filter_map(|(from, to, count)| {
            Some((known(from)?, known(to)?, u32::try_from(count).unwrap_or(u32::MAX)))
        })
        .collect();
    Ok(graph)
}

/// Says where hosts are, by their addresses.
pub fn locate(graph: &mut Exported, table: &GeoTable) {
    for server in &mut graph.servers {
        let located = server.address.and_then(|address| table.find(address));
        server.position = located.and_then(|located| located.position).or(server.position);
    }
}
