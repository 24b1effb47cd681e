//! Our partitioner beside METIS: links only, the same balance, the same graphs, one after the other in one thread.

use anyhow::{Context, Result};
use farol_partition::Graph;
use farol_partition::split::{Balance, Loads, Multilevel, Problem};
use farol_sim::partition::{Cities, read_graph};
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Graphs, in the formats of `farol-sim partition`; without any, made ones are split.
    #[arg(long)]
    graph: Vec<PathBuf>,
    /// Numbers of parts.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32")]
    parts: Vec<usize>,
    /// Largest load over the fair one.
    #[arg(long, default_value_t = 0.03)]
    slack: f64,
    /// Seeds; cuts and times are means over them.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Vertices weigh what their pages are, instead of 1.
    #[arg(long)]
    pages: bool,
    /// Efforts of our method to compare: trials, bisections grown, passes, patience, coarsest, cycles. Ours by default.
    #[arg(long, value_name = "T,G,P,W,C,V")]
    effort: Vec<String>,
    /// Cities and pings, as for `farol-sim partition`: agents and servers are put there, and both objectives compared.
    #[arg(long, requires = "pings")]
    cities: Option<PathBuf>,
    #[arg(long)]
    pings: Option<PathBuf>,
    /// Also writes the graphs to this folder as METIS and KaHIP read them, for `bench/with_kahip.py`.
    #[arg(long)]
    write: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut graphs = Vec::new();
    for path in &args.graph {
        let input = read_graph(path).with_context(|| format!("cannot read {}", path.display()))?;
        graphs.push((input.name, input.graph, input.pages));
    }
    if graphs.is_empty() {
        for (name, vertices, edges) in [("made, 100,000 vertices", 100_000, 1_000_000)] {
            let graph = farol_sim::partition::grown_graph(vertices, edges, 1);
            let pages = vec![1; graph.vertices()];
            graphs.push((name.to_string(), graph, pages));
        }
    }
    if let Some(folder) = &args.write {
        std::fs::create_dir_all(folder)?;
        for (name, graph, _) in &graphs {
            let path = folder.join(format!("{}.graph", name.replace([' ', ','], "-")));
            write(graph, &path).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    println!(
        "| graph | vertices | edges | k | METIS cut | ours | ours / METIS | METIS overload | ours | METIS s | ours s | ours / METIS |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (name, graph, pages) in &graphs {
        for k in &args.parts {
            let loads = if args.pages { Loads::pages(pages.clone()) } else { Loads::equal(graph.vertices()) };
            let balance = Balance::equal(&loads, *k, args.slack)?;
            let mut metis = Sums::default();
            for seed in 1..=args.seeds {
                let clock = Instant::now();
                let part = metis_kway(graph, &loads, *k, args.slack, seed)?;
                metis.add(graph, &loads, *k, &part, clock.elapsed().as_secs_f64());
            }
            for effort in efforts(args)? {
                let mut ours = Sums::default();
                for seed in 1..=args.seeds {
                    let clock = Instant::now();
                    let split =
                        Multilevel { seed, ..effort }.split(&Problem::new(graph, &loads, &balance))?;
                    ours.add(graph, &loads, *k, &split.part, clock.elapsed().as_secs_f64());
                }
                let said =
                    if args.effort.is_empty() { String::new() } else { format!(" {}", name_of(&effort)) };
                println!(
                    "| {name}{said} | {} | {} | {k} | {:.0} | {:.0} | {:.3} | {:.3} | {:.3} | {:.2} | {:.2} | {:.2} |",
                    graph.vertices(),
                    graph.edges(),
                    metis.cut / args.seeds as f64,
                    ours.cut / args.seeds as f64,
                    ours.cut / metis.cut.max(1.0),
                    metis.overload,
                    ours.overload,
                    metis.secs / args.seeds as f64,
                    ours.secs / args.seeds as f64,
                    ours.secs / metis.secs,
                );
            }
        }
    }
    if let (Some(cities), Some(pings)) = (&args.cities, &args.pings) {
        let text = |path: &PathBuf| farol_sim::partition::read_text(path);
        let cities = Cities::read(&text(cities)?, &text(pings)?).map_err(anyhow::Error::msg)?;
        both_objectives(args, &graphs, &cities)?;
    }
    Ok(())
}

/// What `--effort` says.
fn efforts(args: &Args) -> Result<Vec<Multilevel>> {
    if args.effort.is_empty() {
        return Ok(vec![Multilevel::default()]);
    }
    let read = |text: &String| {
        let numbers: Vec<usize> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [trials, grown, passes, patience, coarsest, cycles] = numbers[..] else {
            anyhow::bail!("--effort {text}: six numbers are wanted");
        };
        Ok(Multilevel { trials, grown, passes, patience, coarsest, cycles, ..Multilevel::default() })
    };
    args.effort.iter().map(read).collect()
}

fn name_of(effort: &Multilevel) -> String {
    let Multilevel { trials, grown, passes, patience, coarsest, cycles, .. } = effort;
    format!("{trials},{grown},{passes},{patience},{coarsest},{cycles}")
}

#[derive(Default)]
struct Sums {
    cut: f64,
    overload: f64,
    secs: f64,
}

impl Sums {
    fn add(&mut self, graph: &Graph, loads: &Loads, k: usize, part: &[u32], secs: f64) {
        self.cut += graph.cut(part) as f64;
        let parts = &loads.by_part(part, k)[0];
        let fair = loads.total(0) as f64 / k as f64;
        self.overload = self.overload.max(parts.iter().copied().max().unwrap_or(0) as f64 / fair);
        self.secs += secs;
    }
}

/// METIS' k-way method with its defaults but for balance and seed.
/// The text form of METIS: vertices from 1 on, each edge at both ends, with its weight.
fn write(graph: &Graph, path: &std::path::Path) -> Result<()> {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    writeln!(out, "{} {} 001", graph.vertices(), graph.edges())?;
    for vertex in 0..graph.vertices() {
        for arc in graph.arcs(vertex) {
            write!(out, "{} {} ", arc.to + 1, arc.weight)?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

pub fn metis_kway(graph: &Graph, loads: &Loads, k: usize, slack: f64, seed: u64) -> Result<Vec<u32>> {
    let (offsets, arcs) = graph.rows();
    let xadj: Vec<i32> = offsets.iter().map(|offset| *offset as i32).collect();
    let adjncy: Vec<i32> = arcs.iter().map(|arc| arc.to as i32).collect();
    let weights: Vec<i32> = arcs.iter().map(|arc| arc.weight as i32).collect();
    let pages: Vec<i32> = (0..graph.vertices()).map(|v| loads.first(v).min(i32::MAX as u64) as i32).collect();
    let mut part = vec![0i32; graph.vertices()];
    metis::Graph::new(1, k as i32, &xadj, &adjncy)
        .map_err(|error| anyhow::anyhow!("METIS refuses the graph: {error}"))?
        .set_vwgt(&pages)
        .set_adjwgt(&weights)
        .set_option(metis::option::UFactor((slack * 1000.0).round() as i32))
        .set_option(metis::option::Seed(seed as i32))
        .part_kway(&mut part)
        .map_err(|error| anyhow::anyhow!("METIS failed: {error}"))?;
    Ok(part.into_iter().map(|part| part as u32).collect())
}

/// METIS on links alone, and ours on links and round-trip times: both numbers of both.
fn both_objectives(args: &Args, graphs: &[(String, Graph, Vec<u64>)], cities: &Cities) -> Result<()> {
    println!(
        "\n| graph | k | cut: METIS | ours | ours / METIS | RTT per page, ms: METIS | METIS, parts given to the best agents | ours | overload: METIS | ours |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (name, graph, pages) in graphs {
        for k in &args.parts {
            let space = farol_sim::partition::placed_space(graph, pages, cities, *k, 1);
            let loads = Loads::pages(pages.clone());
            let metis = metis_kway(graph, &loads, *k, args.slack, 1)?;
            let matched = farol_sim::partition::matched(&space, &metis);
            let ours = farol_sim::partition::both(&space, args.slack, 1)?;
            let (metis, matched, ours) =
                (space.measure(&metis), space.measure(&matched), space.measure(&ours));
            println!(
                "| {name} | {k} | {} | {} | {:.3} | {:.1} | {:.1} | {:.1} | {:.3} | {:.3} |",
                metis.links_cut,
                ours.links_cut,
                ours.links_cut as f64 / metis.links_cut.max(1) as f64,
                metis.rtt_mean,
                matched.rtt_mean,
                ours.rtt_mean,
                metis.overload,
                ours.overload,
            );
        }
    }
    Ok(())
}
