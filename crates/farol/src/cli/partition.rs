//! `farol partition plan`: which agent should crawl which hosts, and why.

use super::Place;
use super::input::read_text;
use crate::folder::Folder;
use crate::progress::grouped;
use anyhow::{Context, Result, bail};
use farol_partition::exported::read_agents;
use farol_partition::geo::GeoTable;
use farol_partition::objective::{Geography, Links, Objective, Plan, Planner, RoundTrips, Sense, Wish};
use farol_partition::rtt::{Routes, read_traces};
use farol_partition::split::{FREE, Incremental, Multilevel, hash};
use farol_partition::table::{Builder, Placed, Route, Router, RoutingTable, Unknown, binary};
use farol_partition::{Agent, Block, Exported, Measure, Space, Unit, svg};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
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
  farol partition plan --agents 5 --graph here.tsv --graph there.tsv --before old.table --output new.table

A list of agents has lines NAME [CONNECTIONS [LATITUDE LONGITUDE]]. Agents that have exported a graph under their name
bring their own round-trip times.";

#[derive(clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    place: Place,
    /// How many agents, or a file that lists them
    #[arg(long, value_name = "K|FILE")]
    agents: String,
    /// Files of `farol export graph`, one per agent [default: what the data folder knows]
    #[arg(long, value_name = "FILE")]
    graph: Vec<PathBuf>,
    /// What has one owner: an address with all its hosts, or each host by itself
    #[arg(long, value_enum, default_value = "address")]
    unit: UnitKind,
    /// How much more than its share of pages an agent may get
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    slack: f64,
    /// How much links between agents matter
    #[arg(long, value_name = "P", default_value_t = 4.0)]
    links: f64,
    /// How much round-trip times matter
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    rtt: f64,
    /// How much distances on the globe matter
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    distance: f64,
    /// Distances as weights, to the letter of [Exposto08 ch. 5]: the farthest agent wins; for comparison
    #[arg(long)]
    literal: bool,
    /// Where addresses are: a CSV table of DB-IP, GeoLite2 or IP2Location
    #[arg(long, value_name = "FILE")]
    geo: Option<PathBuf>,
    /// Traceroutes, each after a line `from ADDRESS`; agents are those whose name is that address
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    /// Address blocks as registries assign them, one per line
    #[arg(long, value_name = "FILE")]
    blocks: Option<PathBuf>,
    /// The table in force: little is moved from it
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// URLs that no entry knows: `hash` them to some agent, or `hold` them until the next table
    #[arg(long, value_enum, default_value = "hash")]
    unknown: UnknownKind,
    /// Write the routing table to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the plan: a map where places are known, parts and their links otherwise
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum UnitKind {
    Address,
    Host,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum UnknownKind {
    Hash,
    Hold,
}

/// A plan for every host.
struct Planned {
    space: Space,
    part: Vec<u32>,
    before: Option<Vec<u32>>,
    table: RoutingTable,
}

pub fn run(args: &PartitionArgs) -> Result<ExitCode> {
    let PartitionCommand::Plan(args) = &args.command;
    let planned = plan(args)?;
    let text = if args.json { json(&planned)? } else { explained(&planned) };
    std::io::stdout().write_all(text.as_bytes())?;
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes).with_context(|| format!("cannot write to {}", path.display()))
    };
    if let Some(path) = &args.output {
        write(path, &binary::write(&planned.table))?;
    }
    if let Some(path) = &args.svg {
        write(path, svg::draw(&planned.space, &planned.part).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &PlanArgs) -> Result<Planned> {
    let agents = agents(&args.agents)?;
    let mut graph = graph(args)?;
    if graph.servers.is_empty() {
        bail!("no host is known yet; crawl first, or name a graph with --graph FILE");
    }
    if let Some(path) = &args.geo {
        super::host_graph::locate(&mut graph, &read_geo(path)?);
    }
    let mut space = graph.space(agents);
    if let Some(path) = &args.traces {
        add_traces(&mut space, &read_text(path)?)
            .with_context(|| format!("cannot use the traceroutes of {}", path.display()))?;
    }
    let old = match &args.before {
        None => None,
        Some(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            Some(binary::read(&bytes).with_context(|| format!("{} is no routing table", path.display()))?)
        }
    };
    let unit = match args.unit {
        UnitKind::Address => Unit::Address,
        UnitKind::Host => Unit::Host,
    };
    let (units, map) = space.by(unit);
    let before = old.as_ref().map(|old| owners_before(&space, old));
    let plan = split(
        args,
        &units,
        before.as_ref().map(|before| by_unit(before, &map, &space, units.servers.len())),
    )?;
    let part: Vec<u32> = map.iter().map(|unit| plan.split.part[*unit as usize]).collect();
    let table = table(args, &space, &part, old.map_or(1, |old| old.version + 1))?;
    Ok(Planned { space, part, before, table })
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

fn split(args: &PlanArgs, units: &Space, before: Option<Vec<u32>>) -> Result<Plan> {
    let sense = if args.literal { Sense::Literal } else { Sense::Affinity };
    let rtt = RoundTrips { sense, ..RoundTrips::default() };
    let geo = Geography { sense, ..Geography::default() };
    let objectives: [(&dyn Objective, f64); 3] =
        [(&Links, args.links), (&rtt, args.rtt), (&geo, args.distance)];
    let wishes = objectives.map(|(objective, preference)| Wish { objective, preference });
    let search = Multilevel { seed: args.seed, cycles: 1, ..Multilevel::default() };
    let planner = Planner { search, slack: args.slack, ..Planner::default() };
    Ok(match before {
        None => planner.plan(units, &wishes)?,
        Some(before) => {
            planner.replan(units, &wishes, &before, &Incremental { search, ..Incremental::default() })?
        }
    })
}

/// Who owns each host by the table in force, by the numbers of today's agents.
fn owners_before(space: &Space, old: &RoutingTable) -> Vec<u32> {
    let router = Router::new(old);
    let number = |name: &String| space.agents.iter().position(|agent| agent.name == *name);
    let numbers: Vec<Option<usize>> = old.destinations.iter().map(number).collect();
    let owner = |server: &farol_partition::Server| match router.route_host(&server.name, server.address) {
        Route::To(owner) => numbers.get(owner as usize).copied().flatten().map_or(FREE, |agent| agent as u32),
        Route::Hold => FREE,
    };
    space.servers.iter().map(owner).collect()
}

/// The owner before of each unit: whoever had most of its pages.
fn by_unit(before: &[u32], map: &[u32], space: &Space, units: usize) -> Vec<u32> {
    let k = space.parts();
    let mut pages = vec![0u64; units * k];
    for (s, owner) in before.iter().enumerate().filter(|(_, owner)| **owner != FREE) {
        pages[map[s] as usize * k + *owner as usize] += space.servers[s].pages.max(1);
    }
    let most = |row: &[u64]| {
        let best = row.iter().enumerate().max_by_key(|(_, pages)| **pages);
        best.filter(|(_, pages)| **pages > 0).map_or(FREE, |(owner, _)| owner as u32)
    };
    pages.chunks_exact(k).map(most).collect()
}

fn table(args: &PlanArgs, space: &Space, part: &[u32], version: u64) -> Result<RoutingTable> {
    let mut builder = Builder::default();
    if let Some(path) = &args.blocks {
        for line in
            read_text(path)?.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let block: Block = line.parse().with_context(|| format!("cannot use {}", path.display()))?;
            builder.registered.push(block);
        }
    }
    let placed: Vec<Placed<'_>> = space
        .servers
        .iter()
        .zip(part)
        .map(|(server, owner)| Placed {
            host: &server.name,
            address: server.address,
            pages: server.pages,
            owner: *owner,
        })
        .collect();
    let unknown = match args.unknown {
        UnknownKind::Hash => Unknown::Hash,
        UnknownKind::Hold => Unknown::Hold,
    };
    let names = space.agents.iter().map(|agent| agent.name.clone()).collect();
    Ok(builder.build(names, &placed, version, unknown)?)
}

fn add_traces(space: &mut Space, text: &str) -> Result<()> {
    let mut routes = Routes::default();
    read_traces(text)?.iter().for_each(|trace| routes.add(trace));
    let k = space.parts();
    space.rtt.resize(space.servers.len() * k, f32::NAN);
    for j in 0..k {
        let Ok(source) = space.agents[j].name.parse::<IpAddr>() else { continue };
        let times = routes.from(source);
        for (s, server) in space.servers.iter().enumerate() {
            let time = server.address.and_then(|address| times.get(&address));
            let unknown = space.rtt[s * k + j].is_nan();
            if let Some(time) = time.filter(|_| unknown) {
                space.rtt[s * k + j] = *time as f32;
            }
        }
    }
    Ok(())
}

/// Reads a table of places.
pub fn read_geo(path: &Path) -> Result<GeoTable> {
    GeoTable::read(&read_text(path)?, &Default::default())
        .with_context(|| format!("cannot use the places of {}", path.display()))
}

/// Pages that would change hands, and all whose owner is known.
fn moved(planned: &Planned) -> Option<(u64, u64)> {
    let before = planned.before.as_ref()?;
    let (mut moved, mut known) = (0, 0);
    for (s, server) in planned.space.servers.iter().enumerate().filter(|(s, _)| before[*s] != FREE) {
        known += server.pages;
        moved += if before[s] == planned.part[s] { 0 } else { server.pages };
    }
    Some((moved, known))
}

fn by_hash(space: &Space) -> Measure {
    let k = space.parts();
    space.measure(&space.servers.iter().map(|server| hash::of_text(&server.name, k)).collect::<Vec<u32>>())
}

fn explained(planned: &Planned) -> String {
    let (space, measure) = (&planned.space, planned.space.measure(&planned.part));
    let hash = by_hash(space);
    let millis = |value: f64| if value.is_finite() { format!("{value:.1}") } else { "–".to_string() };
    let mut out = format!(
        "{} hosts, {} pages, {} links between hosts; {} agents.\n\n{:<20} {:>8} {:>12} {:>8} {:>12} {:>10}\n",
        grouped(space.servers.len() as u64),
        grouped(measure.pages.iter().sum()),
        grouped(measure.links),
        space.agents.len(),
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
    let table = &planned.table;
    let _ = writeln!(
        out,
        "\nRouting table, version {}: {} blocks of addresses, {} hosts by name, {} bytes.",
        table.version,
        grouped(table.blocks.len() as u64),
        grouped(table.hosts.len() as u64),
        grouped(binary::write(table).len() as u64)
    );
    if let Some((moved, known)) = moved(planned) {
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

fn json(planned: &Planned) -> Result<String> {
    let (space, measure) = (&planned.space, planned.space.measure(&planned.part));
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
        .zip(&planned.part)
        .map(|(server, owner)| (server.name.clone(), space.agents[*owner as usize].name.clone().into()))
        .collect();
    let answer = serde_json::json!({
        "agents": agents,
        "exchange": measure.exchange(),
        "exchange_by_hash": by_hash(space).exchange(),
        "rtt_ms": number(measure.rtt_mean),
        "overload": measure.overload,
        "pages_moved": moved(planned).map(|(moved, _)| moved),
        "table": {
            "version": planned.table.version,
            "blocks": planned.table.blocks.len(),
            "hosts": planned.table.hosts.len(),
        },
        "owners": owners,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&answer)?))
}
