//! `farol cache status`: the cache nodes of a cluster, read from its tables, so that it works while no front answers.

use crate::cli::cluster::place::ClusterPlace;
use crate::cli::cluster::status::columns;
use crate::cluster::door::Door;
use crate::handles::cluster::ClusterView;
use crate::handles::ring_status::ring_status_of;
use crate::progress::{counted, grouped, size};
use crate::ring::tables::RingTables;
use anyhow::{Result, bail};
use farol_base::{Clock, SystemClock};
use farol_cluster::record::read;
use farol_cluster::{Key, NodeId, NodeRecord};
use farol_fabric::Fabric;
use farol_front::{RingMember, RingStatus, ring_json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Lines of each list.
const LINES_MAX: usize = 10;

#[derive(clap::Args)]
pub struct CacheStatusArgs {
    #[command(flatten)]
    place: ClusterPlace,
    /// As JSON, as /api/v1/ring tells it
    #[arg(long)]
    json: bool,
    /// Again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

pub fn run(args: &CacheStatusArgs) -> Result<ExitCode> {
    let config = args.place.settings()?;
    let door = Door::connect(&config)?;
    let told = crate::cli::run::told_to_end()?;
    loop {
        door.enter()?;
        let Some(status) = look(&door)? else {
            bail!(
                "the cluster {} has no cache nodes, so each front keeps answers by itself; start some with \
                 `farol node --roles cache`",
                door.name
            );
        };
        let text = match args.json {
            true => format!("{}\n", serde_json::to_string_pretty(&ring_json(status))?),
            false => table(&status),
        };
        let mut out = std::io::stdout();
        if args.watch && !args.json {
            // Over what was there before.
            out.write_all(b"\x1b[H\x1b[2J")?;
        }
        out.write_all(text.as_bytes())?;
        out.flush()?;
        let looked = Instant::now();
        while args.watch && !told() && looked.elapsed() < WATCH_EVERY {
            std::thread::sleep(Duration::from_millis(50));
        }
        if !args.watch || told() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The tables as they are now.
fn look(door: &Door) -> Result<Option<RingStatus>> {
    let (mut view, tables) = (ClusterView::new(NodeId(0)), RingTables::default());
    for (key, value, _) in door.fabric.list("")? {
        match Key::parse(&key) {
            Some(Key::Node(id)) => {
                if let Ok(record) = read::<NodeRecord>(&key, &value) {
                    view.nodes.insert(id, record);
                }
            }
            Some(Key::Ring | Key::Hot | Key::Caches) => tables.hear(&key, &value),
            _ => {}
        }
    }
    Ok(ring_status_of(&tables.now(), &view, |_| None))
}

/// A screen of text.
fn table(status: &RingStatus) -> String {
    let mut out = String::new();
    let age = status.told.map(|told| SystemClock.now().since(told).as_secs());
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "ring         {} of term {}, hot questions {}\nfronts       {}\nhit rate     {:.1}% of the last minute's \
         lookups\nbalance      {:.1}% (mean over greatest load)\ntold         {}",
        status.version,
        status.term,
        status.hot_version,
        status.fronts,
        status.hit_rate * 100.0,
        status.efficiency * 100.0,
        age.map_or("not yet".to_string(), |age| format!("{age} s ago")),
    );
    let heads = [
        "NODE", "NO", "RING", "SHARE", "LOAD/S", "HITS", "LOOKUPS", "COPIES", "INSERTS", "ANSWERS", "MEMORY",
    ];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(status.nodes.iter().map(row));
    columns(&mut out, &rows);
    if !status.hot.is_empty() {
        let mut rows = vec![["HOT", "A MINUTE", "NODES", "BURST"].map(String::from).to_vec()];
        rows.extend(status.hot.iter().take(LINES_MAX).map(|hot| {
            let burst = if hot.severity == 0 { "-".to_string() } else { format!("{} of 4", hot.severity) };
            vec![shown(&hot.text), grouped(hot.count), hot.nodes.to_string(), burst]
        }));
        columns(&mut out, &rows);
    }
    let _ = writeln!(out);
    for burst in status.bursts.iter().take(LINES_MAX) {
        let what =
            if burst.severity == 0 { "is over".into() } else { format!("severity {}", burst.severity) };
        let _ = writeln!(out, "burst        {} {}: {what}", burst.at, shown(&burst.text));
    }
    for change in status.changes.iter().take(LINES_MAX) {
        let names = |what: &str, names: &[String]| match names.is_empty() {
            true => String::new(),
            false => format!(", {} {what}", names.join(" ")),
        };
        let _ = writeln!(
            out,
            "ring         {} {}: {:.1}% changed owner{}{}",
            change.at,
            change.version,
            change.moved * 100.0,
            names("joined", &change.joined),
            names("left", &change.left)
        );
    }
    let _ = writeln!(out, "{} on the ring", counted(on_ring(status), "cache node"));
    out
}

fn on_ring(status: &RingStatus) -> u64 {
    status.nodes.iter().filter(|node| node.is_on_ring).count() as u64
}

fn row(node: &RingMember) -> Vec<String> {
    vec![
        if node.name.is_empty() { "-".to_string() } else { node.name.clone() },
        node.no.to_string(),
        if node.is_on_ring { "on" } else { "off" }.to_string(),
        format!("{:.1}%", node.share * 100.0),
        format!("{:.1}", node.per_second),
        format!("{:.1}%", node.hit_rate * 100.0),
        grouped(node.lookups),
        grouped(node.adopted),
        grouped(node.inserts),
        grouped(node.entries),
        size(node.bytes),
    ]
}

/// A question on one line of a terminal: what somebody asked may hold anything.
fn shown(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
    if text.is_empty() { "-".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_front::RingHot;

    #[test]
    fn a_screen_has_each_node_and_no_control_characters_of_strangers() {
        let node =
            RingMember { name: "opal".into(), no: 3, is_on_ring: true, share: 0.5, ..Default::default() };
        let hot = RingHot { text: "a\u{1b}[2Jb".into(), nodes: 2, count: 30, severity: 2 };
        let status = RingStatus { nodes: vec![node], hot: vec![hot], version: 4, ..RingStatus::default() };
        let text = table(&status);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        for want in ["opal", "50.0%", "a[2Jb", "2 of 4", "1 cache node on the ring", "not yet"] {
            assert!(text.contains(want), "{want}: {text}");
        }
    }
}
