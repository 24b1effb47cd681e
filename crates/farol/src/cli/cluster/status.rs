//! `farol cluster status`: how the cluster is doing, read from its tables, so that it works while no front answers.

use super::place::ClusterPlace;
use crate::cluster::door::Door;
use crate::handles::cluster::ClusterView;
use crate::handles::cluster_status::status_of;
use crate::progress::{counted, grouped, size};
use anyhow::Result;
use farol_cluster::record::{LeaderRecord, RankTable, StateRecord, read};
use farol_cluster::{Key, NodeId, NodeRecord};
use farol_fabric::Fabric;
use farol_front::{ClusterReplica, ClusterStatus, NodeState, cluster_json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct ClusterStatusArgs {
    #[command(flatten)]
    place: ClusterPlace,
    /// As JSON, as /api/v1/cluster tells it
    #[arg(long)]
    json: bool,
    /// Again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

pub fn run(args: &ClusterStatusArgs) -> Result<ExitCode> {
    let config = args.place.settings()?;
    let door = Door::connect(&config)?;
    let told = super::super::run::told_to_end()?;
    let mut seen = Seen::default();
    loop {
        door.enter()?;
        let status = seen.look(&door)?;
        let text = match args.json {
            true => format!("{}\n", serde_json::to_string_pretty(&cluster_json(status.clone()))?),
            false => table(&status, args.watch),
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

/// Revisions of nodes' records and when each was first seen: how old a record is, by this clock alone.
#[derive(Default)]
pub struct Seen(BTreeMap<NodeId, (u64, Instant)>);

impl Seen {
    /// The tables as they are now.
    pub fn look(&mut self, door: &Door) -> Result<ClusterStatus> {
        let mut view = ClusterView::new(NodeId(0));
        for (key, value, revision) in door.fabric.list("")? {
            match Key::parse(&key) {
                Some(Key::Node(id)) => {
                    if let Ok(record) = read::<NodeRecord>(&key, &value) {
                        let seen = self.0.entry(id).or_insert((revision.0, Instant::now()));
                        if seen.0 != revision.0 {
                            *seen = (revision.0, Instant::now());
                        }
                        view.heard.insert(id, seen.1);
                        view.nodes.insert(id, record);
                    }
                }
                Some(Key::Leader) => {
                    let leader = read::<LeaderRecord>(&key, &value).ok();
                    view.leader = leader.map(|leader| leader.with_term(revision.0));
                }
                Some(Key::Cluster) => view.cluster = read(&key, &value).ok(),
                Some(Key::Snapshot(shard)) => {
                    view.snapshots.extend(read(&key, &value).ok().map(|snapshot| (shard, snapshot)));
                }
                Some(Key::Shards) => view.shards = read(&key, &value).ok().map(Arc::new),
                Some(Key::Route) => view.route = read(&key, &value).ok().map(Arc::new),
                Some(Key::Plan) => view.plan = read(&key, &value).ok().map(Arc::new),
                Some(Key::Ranks) => view.ranks = read::<RankTable>(&key, &value).ok(),
                Some(Key::State) => view.state = read::<StateRecord>(&key, &value).ok(),
                _ => {}
            }
        }
        let mut status = status_of(&door.name, &view, &door.fabric.state());
        // Whoever asks here is no node.
        status.me.clear();
        Ok(status)
    }
}

/// A screen of text; ages only where they were watched.
fn table(status: &ClusterStatus, has_ages: bool) -> String {
    let mut out = String::new();
    let leader = status.leader.as_ref().map_or_else(
        || "nobody".to_string(),
        |leader| format!("{}, term {}", status.name_of(&leader.node), leader.term),
    );
    let pages = status.summary().pages;
    // Writing to a String cannot fail.
    let _ =
        writeln!(out, "cluster      {}\nleader       {leader}\npages        {}", status.name, grouped(pages));
    let mut rows = vec![
        vec!["NODE", "NO", "STATE", "AGE", "ROLES", "ADDRESS", "FREE"]
            .into_iter()
            .map(String::from)
            .collect(),
    ];
    for node in status.nodes.iter().filter(|node| node.state != NodeState::Left) {
        rows.push(vec![
            if node.name.is_empty() { node.id.clone() } else { node.name.clone() },
            node.no.map_or("-".to_string(), |no| no.to_string()),
            node.state.code().to_string(),
            if has_ages { format!("{} s", node.age.as_secs()) } else { "-".to_string() },
            node.roles.join(","),
            node.address.map_or("-".to_string(), |address| address.to_string()),
            node.free_bytes.map_or("-".to_string(), size),
        ]);
    }
    columns(&mut out, &rows);
    let mut rows =
        vec![vec!["SHARD", "STATE", "PAGES", "SNAPSHOT", "REPLICAS"].into_iter().map(String::from).collect()];
    for shard in &status.shards {
        let replicas: Vec<String> = shard
            .replicas
            .iter()
            .map(|replica| replica_text(replica, status.name_of(&replica.node), shard.pages))
            .collect();
        rows.push(vec![
            shard.id.to_string(),
            shard.state.code().to_string(),
            grouped(shard.pages),
            shard.snapshot_age.map_or("-".to_string(), |age| format!("{} min ago", age.as_secs() / 60)),
            if replicas.is_empty() { "none".to_string() } else { replicas.join(", ") },
        ]);
    }
    columns(&mut out, &rows);
    for log in &status.logs {
        let limit = if log.bytes_max > 0 {
            format!(" of {}, {:.0}%", size(log.bytes_max), log.fill() * 100.0)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "log          {}: {}, {}{limit}",
            log.name,
            counted(log.messages, "message"),
            size(log.bytes)
        );
    }
    for server in &status.servers {
        let _ = writeln!(
            out,
            "NATS         {} {}",
            server.address,
            if server.is_reached { &*server.version } else { "out of reach" }
        );
    }
    let _ = writeln!(out);
    if status.warnings.is_empty() {
        let _ = writeln!(out, "All is well.");
    }
    for warning in &status.warnings {
        let _ = writeln!(out, "! {}\n  {}", warning.text, warning.advice);
    }
    out
}

/// A replica in a few words: its node, and what sets it apart from one that answers and lacks nothing.
fn replica_text(replica: &ClusterReplica, name: &str, pages: u64) -> String {
    let mut text = name.to_string();
    if replica.state != farol_front::ReplicaState::Serving {
        let _ = write!(text, " ({})", replica.state.code());
    }
    if replica.pages < pages {
        let _ = write!(text, " -{}", grouped(pages - replica.pages));
    }
    if replica.lag >= Duration::from_secs(2) {
        let _ = write!(text, " {} s behind", replica.lag.as_secs());
    }
    text
}

/// Rows with each column as wide as its widest cell.
pub fn columns(out: &mut String, rows: &[Vec<String>]) {
    let _ = writeln!(out);
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
            let _ =
                if at + 1 == row.len() { writeln!(out, "{cell}") } else { write!(out, "{cell:<width$}  ") };
        }
    }
}
