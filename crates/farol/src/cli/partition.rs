//! `farol partition plan`: which agent should crawl which hosts, and why; from files, or of a running cluster.

use super::cluster::place::Joining;
use super::input::read_text;
use super::{Place, partition_running};
use crate::folder::Folder;
use crate::progress::{counted, grouped};
use anyhow::{Context, Result, bail};
use farol_partition::exported::read_agents;
use farol_partition::geo::GeoTable;
use farol_partition::table::binary;
use farol_partition::{Agent, Exported, RoutingPlan, RoutingPlanner, svg};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct PartitionArgs {
    #[command(subcommand)]
    command: PartitionCommand,
}

#[derive(clap::Subcommand)]
enum PartitionCommand {
    /// Compute a routing table from what a crawl knows, and explain it
    #[command(after_help = PLAN_HELP)]
    Plan(PlanArgs),
}

const PLAN_HELP: &str = "Examples:
  farol partition plan --agents 4                   four equal agents, by links alone
  farol partition plan --agents agents.txt --geo dbip-city-lite.csv --svg plan.svg
  farol partition plan --running --data farol-cluster       what a running cluster would do now
  farol partition plan --agents 5 --graph here.tsv --graph there.tsv --before old.table -o new.table

A list of agents has lines NAME [CONNECTIONS [LATITUDE LONGITUDE]]. Agents that have exported a
graph under their name bring their own round-trip times. What matters 0 is left out.";

#[derive(clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    place: Place,
    /// How many agents, or a file that lists them
    #[arg(long, value_name = "K|FILE", required_unless_present = "running")]
    agents: Option<String>,
    /// Of a cluster that runs: what its planner would do now, from what its agents have told
    #[arg(long, conflicts_with_all = ["agents", "graph", "geo", "before", "svg", "links", "rtt", "distance"])]
    running: bool,
    #[command(flatten)]
    joining: Joining,
    /// Files of `farol export graph`, one per agent [default: what the data folder knows]
    #[arg(long, value_name = "FILE")]
    graph: Vec<PathBuf>,
    /// Where addresses are: a CSV table of DB-IP, GeoLite2 or IP2Location
    #[arg(long, value_name = "FILE")]
    geo: Option<PathBuf>,
    /// The table in force: little is moved from it
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// How much links between agents matter
    #[arg(long, value_name = "P", default_value_t = 4.0)]
    links: f64,
    /// How much round-trip times matter
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    rtt: f64,
    /// How much distances on the globe matter
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    distance: f64,
    /// Write the routing table to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the plan: a map where places are known, parts and their links otherwise
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &PartitionArgs) -> Result<ExitCode> {
    let PartitionCommand::Plan(args) = &args.command;
    if args.running {
        let plan = partition_running::plan(&args.place, &args.joining)?;
        let text =
            if args.json { partition_running::json(&plan)? } else { partition_running::explained(&plan) };
        std::io::stdout().write_all(text.as_bytes())?;
        return args
            .output
            .as_ref()
            .map_or(Ok(()), |path| partition_running::write_table(&plan, path))
            .map(|()| ExitCode::SUCCESS);
    }
    let plan = plan(args)?;
    let text = if args.json { json(&plan)? } else { explained(&plan) };
    std::io::stdout().write_all(text.as_bytes())?;
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes).with_context(|| format!("cannot write to {}", path.display()))
    };
    if let Some(path) = &args.output {
        write(path, &binary::write(&plan.table))?;
    }
    if let Some(path) = &args.svg {
        write(path, svg::draw(&plan.space, &plan.part).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &PlanArgs) -> Result<RoutingPlan> {
    let agents = agents(args.agents.as_deref().unwrap_or_default())?;
    let mut graph = graph(args)?;
    if graph.servers.is_empty() {
        bail!("no host is known yet; crawl first, or name a graph with --graph FILE");
    }
    if let Some(path) = &args.geo {
        super::host_graph::locate(&mut graph, &read_geo(path)?);
    }
    let in_force = match &args.before {
        None => None,
        Some(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            Some(binary::read(&bytes).with_context(|| format!("{} is no routing table", path.display()))?)
        }
    };
    let planner = RoutingPlanner {
        links: args.links,
        round_trips: args.rtt,
        distance: args.distance,
        ..RoutingPlanner::default()
    };
    Ok(planner.plan(graph.space(agents), in_force.as_ref())?)
}

fn agents(text: &str) -> Result<Vec<Agent>> {
    match text.parse::<usize>() {
        Ok(0) => bail!("--agents 0: there must be at least one agent"),
        Ok(count) if count > 4096 => bail!("--agents {count}: more than 4,096 agents are not planned for"),
        Ok(count) => Ok((1..=count).map(|n| Agent::named(format!("agent {n}"))).collect()),
        Err(_) => {
            let path = Path::new(text);
            if !path.exists() {
                bail!("--agents {text}: neither a number nor a file that lists agents");
            }
            read_agents(&read_text(path)?).with_context(|| format!("cannot use {}", path.display()))
        }
    }
}

fn graph(args: &PlanArgs) -> Result<Exported> {
    if args.graph.is_empty() {
        let folder = Folder::open(&args.place.data)?;
        let _lock = folder.lock().context("the graph is read from a folder that nobody writes to")?;
        return super::host_graph::read(&folder, "here");
    }
    let mut all = Exported::default();
    for path in &args.graph {
        let read = Exported::read(&read_text(path)?);
        all.add(&read.with_context(|| format!("cannot use the graph {}", path.display()))?);
    }
    Ok(all)
}

/// Reads a table of places.
pub fn read_geo(path: &Path) -> Result<GeoTable> {
    GeoTable::read(&read_text(path)?, &Default::default())
        .with_context(|| format!("cannot use the places of {}", path.display()))
}

fn explained(plan: &RoutingPlan) -> String {
    let (space, measure) = (&plan.space, plan.measure());
    let hash = plan.measure_by_hash();
    let millis = |value: f64| if value.is_finite() { format!("{value:.1}") } else { "–".to_string() };
    let mut out = format!(
        "{}, {}, {} between hosts; {}.\n\n{:<20} {:>8} {:>12} {:>8} {:>12} {:>10}\n",
        counted(space.servers.len() as u64, "host"),
        counted(measure.pages.iter().sum(), "page"),
        counted(measure.links, "link"),
        counted(space.agents.len() as u64, "agent"),
        "agent",
        "hosts",
        "pages",
        "share",
        "links out",
        "RTT, ms"
    );
    let pages: u64 = measure.pages.iter().sum();
    for (j, agent) in space.agents.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<20} {:>8} {:>12} {:>6.1} % {:>12} {:>10}",
            agent.name,
            grouped(measure.servers[j]),
            grouped(measure.pages[j]),
            100.0 * measure.pages[j] as f64 / pages.max(1) as f64,
            grouped(measure.links_out[j]),
            millis(measure.rtt[j])
        );
    }
    let _ = writeln!(
        out,
        "\n{:<28} {:>10} {:>12}\n{:<28} {:>8.1} % {:>10.1} %\n{:<28} {:>10} {:>12}\n{:<28} {:>10.2} {:>12.2}",
        "",
        "this plan",
        "hash of host",
        "links to another agent",
        100.0 * measure.exchange(),
        100.0 * hash.exchange(),
        "RTT per page, ms",
        millis(measure.rtt_mean),
        millis(hash.rtt_mean),
        "largest over fair share",
        measure.overload,
        hash.overload
    );
    let table = &plan.table;
    let _ = writeln!(
        out,
        "\nRouting table, version {}: {} blocks of addresses, {} hosts by name, {} bytes.",
        table.version,
        grouped(table.blocks.len() as u64),
        grouped(table.hosts.len() as u64),
        grouped(binary::write(table).len() as u64)
    );
    if let Some((moved, known)) = plan.moved() {
        let _ = writeln!(
            out,
            "Compared with the table in force, {} of {} pages ({:.1} %) change hands.",
            grouped(moved),
            grouped(known),
            100.0 * moved as f64 / known.max(1) as f64
        );
    }
    out
}

fn json(plan: &RoutingPlan) -> Result<String> {
    let (space, measure) = (&plan.space, plan.measure());
    let number = |value: f64| value.is_finite().then_some(value);
    let agents: Vec<_> = space
        .agents
        .iter()
        .enumerate()
        .map(|(j, agent)| {
            serde_json::json!({
                "name": agent.name,
                "hosts": measure.servers[j],
                "pages": measure.pages[j],
                "links_out": measure.links_out[j],
                "rtt_ms": number(measure.rtt[j]),
            })
        })
        .collect();
    let owners: serde_json::Map<String, serde_json::Value> = space
        .servers
        .iter()
        .zip(&plan.part)
        .map(|(server, owner)| (server.name.clone(), space.agents[*owner as usize].name.clone().into()))
        .collect();
    let answer = serde_json::json!({
        "agents": agents,
        "exchange": measure.exchange(),
        "exchange_by_hash": plan.measure_by_hash().exchange(),
        "rtt_ms": number(measure.rtt_mean),
        "overload": measure.overload,
        "pages_moved": plan.moved().map(|(moved, _)| moved),
        "table": {
            "version": plan.table.version,
            "blocks": plan.table.blocks.len(),
            "hosts": plan.table.hosts.len(),
        },
        "owners": owners,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&answer)?))
}
