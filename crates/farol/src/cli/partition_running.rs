//! `farol partition plan --running`: what the planner of a running cluster would do now, and why; nothing is published.

use super::Place;
use super::cluster::place::Joining;
use crate::cluster::door::Door;
use crate::cluster::orders::plan_record;
use crate::config::Config;
use crate::graph::known;
use crate::graph::tables::TableStore;
use crate::progress::{counted, grouped};
use anyhow::{Context, Result, bail, ensure};
use farol_base::{Clock, SystemClock};
use farol_cluster::record::read;
use farol_cluster::{Key, NodeRecord, RouteRecord};
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use farol_partition::RoutingTable;
use farol_partition::replan::{Decision, Gain, Trigger, Why};
use farol_partition::table::binary;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// An agent, with its pages by the table in force and by the plan.
struct AgentLoad {
    name: String,
    capacity: f64,
    now: u64,
    then: u64,
}

/// What was found out.
pub struct RunningPlan {
    epoch: u64,
    hosts: u64,
    addresses: u64,
    links: u64,
    /// Why a plan is due; `None` where none is.
    due: Option<String>,
    is_published: bool,
    why: Why,
    gain: Gain,
    loads: Vec<AgentLoad>,
    /// From, to, pages.
    moves: Vec<(String, String, u64)>,
    pub table: Option<RoutingTable>,
}

/// Plans from what lies in the cluster's tables and in shared storage.
pub fn plan(place: &Place, joining: &Joining) -> Result<RunningPlan> {
    let mut config = settings(place)?;
    joining.apply(&mut config, &place.data)?;
    ensure!(
        !config.cluster.blobs.is_empty(),
        "no shared storage is named: set blobs under [cluster] as the nodes have it, or name their settings with --config"
    );
    let door = Door::connect(&config)?;
    door.enter()?;
    let blobs = Arc::new(Blobs::open(&config.cluster.blobs)?);
    let nodes = door.nodes()?;
    let key = Key::Route.to_string();
    let Some((value, _)) = door.fabric.get(&key)? else {
        bail!("there is no routing table yet: no agent is up, or nobody leads");
    };
    let route: RouteRecord = read(&key, &value)?;
    let record = plan_record(&*door.fabric)?.unwrap_or_default();
    let (mut planner, _) = known::planner(&config.partition, &blobs, &record)?;
    planner.set_places(known::places(&config)?);
    known::traces(&config)?.iter().for_each(|trace| planner.add_trace(trace));
    let files = TableStore::new(Some(blobs.clone()), None);
    planner.install(known::in_force(&route, &files).with_context(|| files.trouble())?);
    planner.set_agents(known::agents(nodes.iter(), &route));
    known::set_sources(&mut planner, nodes.iter());
    planner.set_rules(known::rules(&config.partition.rules()?, nodes.iter()))?;
    let now = SystemClock.now();
    known::take_reports(&mut planner, &blobs, now, &|_| false)?;
    let due = planner.due(now).map(|trigger| trigger.text());
    let before: Vec<(String, u64)> =
        planner.loads().into_iter().map(|(name, pages)| (name.to_string(), pages)).collect();
    let (hosts, links) = (planner.atlas().hosts().len() as u64, planner.atlas().links() as u64);
    let job = planner.job_for(now, Trigger::Ordered);
    let decision = job.run()?;
    let capacities: BTreeMap<String, f64> = known::agents(nodes.iter(), &route)
        .into_iter()
        .map(|agent| (agent.name, agent.connections))
        .collect();
    let name = |no: &String| name_of(&nodes, no);
    let (mut moves, mut then): (Vec<_>, BTreeMap<&String, i128>) = (Vec::new(), BTreeMap::new());
    if let Decision::Publish { moves: all, .. } = &decision {
        for ((from, to), pages) in &all.between {
            moves.push((from.as_ref().map_or("(gone)".to_string(), name), name(to), *pages));
            *then.entry(to).or_default() += i128::from(*pages);
            if let Some(from) = from {
                *then.entry(from).or_default() -= i128::from(*pages);
            }
        }
    }
    moves.sort_by_key(|(.., pages)| std::cmp::Reverse(*pages));
    let load = |(no, pages): &(String, u64)| AgentLoad {
        name: name(no),
        capacity: capacities.get(no).copied().unwrap_or(0.0),
        now: *pages,
        then: u64::try_from(i128::from(*pages) + then.get(no).copied().unwrap_or(0)).unwrap_or(0),
    };
    let (gain, why) = match &decision {
        Decision::Publish { gain, why, .. } | Decision::Keep { gain, why } => (*gain, *why),
    };
    Ok(RunningPlan {
        epoch: route.epoch().0,
        hosts,
        addresses: job.addresses() as u64,
        links,
        due,
        is_published: matches!(decision, Decision::Publish { .. }),
        why,
        gain,
        loads: before.iter().map(load).collect(),
        moves,
        table: match decision {
            Decision::Publish { table, .. } => Some(table),
            Decision::Keep { .. } => None,
        },
    })
}

/// Settings as the nodes have them: of the folder of `farol cluster up`, those that it gives its nodes.
fn settings(place: &Place) -> Result<Config> {
    let of_nodes = place.data.join("node.toml");
    if place.config.is_none() && of_nodes.exists() {
        return Config::read(&of_nodes);
    }
    place.settings()
}

fn name_of(nodes: &[NodeRecord], no: &String) -> String {
    let node = nodes.iter().find(|node| node.no.is_some_and(|own| own.to_string() == *no));
    node.map_or_else(|| no.clone(), |node| node.name.clone())
}

/// For people.
pub fn explained(plan: &RunningPlan) -> String {
    let mut out = format!(
        "Routing table {}: {} at {} addresses, {} between hosts; {}.\n\n{:<20} {:>12} {:>8} {:>14} {:>8}\n",
        plan.epoch,
        counted(plan.hosts, "host"),
        grouped(plan.addresses),
        counted(plan.links, "link"),
        counted(plan.loads.len() as u64, "agent"),
        "agent",
        "pages now",
        "load",
        "pages planned",
        "load"
    );
    let capacity: f64 = plan.loads.iter().map(|load| load.capacity).sum();
    let share = |pages: u64, load: &AgentLoad, all: u64| {
        100.0 * pages as f64 * capacity / (all.max(1) as f64 * load.capacity.max(f64::MIN_POSITIVE))
    };
    let (now, then) = plan.loads.iter().fold((0, 0), |sum, load| (sum.0 + load.now, sum.1 + load.then));
    for load in &plan.loads {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<20} {:>12} {:>6.0} % {:>14} {:>6.0} %",
            load.name,
            grouped(load.now),
            share(load.now, load, now),
            grouped(load.then),
            share(load.then, load, then)
        );
    }
    let gain = &plan.gain;
    let _ = writeln!(
        out,
        "\nLinks to another agent: {:.1} % now, {:.1} % by the plan. Pages that would move: {} of {}.",
        100.0 * gain.exchange_before,
        100.0 * gain.exchange_after,
        grouped(gain.moved_named + gain.moved_hashed + gain.orphaned),
        grouped(gain.pages)
    );
    if let (Some(before), Some(after)) = (gain.rtt_before, gain.rtt_after) {
        let _ = writeln!(out, "Round trip of a page: {before:.1} ms now, {after:.1} ms by the plan.");
    }
    for (from, to, pages) in plan.moves.iter().take(20) {
        let _ = writeln!(out, "  {from} → {to}: {}", counted(*pages, "page"));
    }
    let said = if plan.is_published { "It would be published" } else { "It would not be published" };
    let _ = writeln!(out, "\n{said}: {}.", plan.why.text());
    let _ = match &plan.due {
        Some(due) => writeln!(out, "A plan is due: {due}."),
        None => writeln!(out, "No plan is due; `farol cluster replan` orders one."),
    };
    out
}

pub fn json(plan: &RunningPlan) -> Result<String> {
    let agents: Vec<_> = plan
        .loads
        .iter()
        .map(|load| {
            serde_json::json!({
                "name": load.name, "capacity": load.capacity, "pages": load.now, "pages_planned": load.then,
            })
        })
        .collect();
    let moves: Vec<_> = plan
        .moves
        .iter()
        .map(|(from, to, pages)| serde_json::json!({ "from": from, "to": to, "pages": pages }))
        .collect();
    let gain = &plan.gain;
    let answer = serde_json::json!({
        "epoch": plan.epoch,
        "hosts": plan.hosts,
        "addresses": plan.addresses,
        "links": plan.links,
        "agents": agents,
        "due": plan.due,
        "publish": plan.is_published,
        "why": plan.why.text(),
        "exchange_before": gain.exchange_before,
        "exchange_after": gain.exchange_after,
        "rtt_before_ms": gain.rtt_before,
        "rtt_after_ms": gain.rtt_after,
        "pages": gain.pages,
        "pages_moved": gain.moved_named + gain.moved_hashed + gain.orphaned,
        "moves": moves,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&answer)?))
}

/// Writes the table, where there would be one.
pub fn write_table(plan: &RunningPlan, path: &Path) -> Result<()> {
    let table = plan.table.as_ref().context("no table is written: the one in force would stay")?;
    std::fs::write(path, binary::write(table)).with_context(|| format!("cannot write to {}", path.display()))
}
