//! The product's plan of a crawl's own graph, under settings that `farol partition plan` does not offer: units, the
//! sense of distances, slack, seeds, address blocks of registries, and round-trip times from traceroutes.

use super::{PartitionArgs, read_text, said};
use crate::Error;
use farol_partition::objective::Sense;
use farol_partition::rtt::{Routes, read_traces};
use farol_partition::table::binary;
use farol_partition::{Agent, Block, Exported, RoutingPlanner, Space, Unit};
use std::net::IpAddr;
use std::path::PathBuf;

/// Inputs of `plan` beside the graphs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlanInputs {
    /// Traceroutes for `plan`, each after a line `from ADDRESS`; these addresses are its agents.
    #[arg(long)]
    pub traces: Option<PathBuf>,
    /// Address blocks as registries assign them, one per line, for `plan`.
    #[arg(long)]
    pub blocks: Option<PathBuf>,
}

/// Plans for graphs of `farol export graph`, all of them together: one row per number of agents, unit and sense.
pub fn run(args: &PartitionArgs) -> Result<(), Error> {
    if args.graph.is_empty() {
        return Err(Error::Input("name graphs of `farol export graph` with --graph FILE".to_string()));
    }
    let mut graph = Exported::default();
    for path in &args.graph {
        let read = Exported::read(&read_text(path)?);
        graph.add(&read.map_err(|error| Error::Input(format!("{}: {error}", path.display())))?);
    }
    let registered = match &args.inputs.blocks {
        Some(path) => read_blocks(&read_text(path)?)?,
        None => Vec::new(),
    };
    let weights = args.weights();
    println!(
        "| agents | unit | sense | links to another agent | RTT per page, ms | overload | blocks | hosts by name | bytes |\n\
         |---:|---|---|---:|---:|---:|---:|---:|---:|"
    );
    for space in spaces(args, &graph)? {
        for (unit, sense) in [
            (Unit::Address, Sense::Affinity),
            (Unit::Address, Sense::Literal),
            (Unit::Host, Sense::Affinity),
            (Unit::Host, Sense::Literal),
        ] {
            let planner = RoutingPlanner {
                links: weights.links,
                round_trips: weights.distance,
                unit,
                sense,
                slack: weights.slack,
                registered: registered.clone(),
                seed: weights.seed,
                ..RoutingPlanner::default()
            };
            let plan = planner.plan(space.clone(), None).map_err(said)?;
            let measure = plan.measure();
            let known = measure.rtt_mean.is_finite();
            let rtt = if known { format!("{:.1}", measure.rtt_mean) } else { "–".to_string() };
            println!(
                "| {} | {unit:?} | {sense:?} | {:.1} % | {rtt} | {:.3} | {} | {} | {} |",
                space.parts(),
                100.0 * measure.exchange(),
                measure.overload,
                plan.table.blocks.len(),
                plan.table.hosts.len(),
                binary::write(&plan.table).len()
            );
        }
    }
    println!();
    Ok(())
}

/// The spaces to plan for. Agents are those who traced, or else those who exported the graphs where they are several,
/// or else as many as `--agents` says.
fn spaces(args: &PartitionArgs, graph: &Exported) -> Result<Vec<Space>, Error> {
    if let Some(path) = &args.inputs.traces {
        return Ok(vec![traced(graph, &read_text(path)?)?]);
    }
    if graph.agents.len() > 1 {
        return Ok(vec![graph.space(graph.agents.clone())]);
    }
    let numbered = |k: &usize| (1..=*k).map(|n| Agent::named(format!("agent {n}"))).collect();
    Ok(args.robots()?.iter().map(|k| graph.space(numbered(k))).collect())
}

/// A space whose agents are the sources of traceroutes, and whose unmeasured round-trip times come from them.
fn traced(graph: &Exported, text: &str) -> Result<Space, Error> {
    let traces = read_traces(text).map_err(said)?;
    let mut sources: Vec<IpAddr> = traces.iter().map(|trace| trace.source).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut routes = Routes::default();
    traces.iter().for_each(|trace| routes.add(trace));
    let mut space = graph.space(sources.iter().map(|source| Agent::named(source.to_string())).collect());
    let k = space.parts();
    space.rtt.resize(space.servers.len() * k, f32::NAN);
    for (j, source) in sources.iter().enumerate() {
        let times = routes.from(*source);
        for (s, server) in space.servers.iter().enumerate() {
            let time = server.address.and_then(|address| times.get(&address));
            let unknown = space.rtt[s * k + j].is_nan();
            if let Some(time) = time.filter(|_| unknown) {
                space.rtt[s * k + j] = *time as f32;
            }
        }
    }
    Ok(space)
}

fn read_blocks(text: &str) -> Result<Vec<Block>, Error> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.parse().map_err(said)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_partition::Server;

    #[test]
    fn those_who_traced_are_the_agents_and_bring_their_times() {
        let server = |address: &str| Server {
            name: format!("http://{address}"),
            address: address.parse().ok(),
            pages: 5,
            position: None,
        };
        let graph =
            Exported { servers: vec![server("192.0.2.9"), server("192.0.2.8")], ..Exported::default() };
        let traces = "from 198.51.100.1\ntraceroute to a (192.0.2.9), 30 hops max\n 1  192.0.2.9  7.5 ms\n\
                      from 198.51.100.2\ntraceroute to b (192.0.2.8), 30 hops max\n 1  192.0.2.8  3.0 ms\n";
        let space = traced(&graph, traces).unwrap();
        let names: Vec<&str> = space.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["198.51.100.1", "198.51.100.2"]);
        assert_eq!((space.rtt(0, 0), space.rtt(0, 1), space.rtt(1, 1)), (Some(7.5), None, Some(3.0)));
        assert!(traced(&graph, "1  192.0.2.9  7.5 ms\n").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn blocks_are_one_per_line_and_wrong_ones_are_named() {
        assert_eq!(read_blocks("# x\n192.0.2.0/24\n\n 2001:db8::/32 \n").unwrap().len(), 2);
        assert!(read_blocks("somewhere\n").unwrap_err().to_string().contains("somewhere"));
    }
}
