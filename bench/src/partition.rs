//! Our partitioner beside METIS: links only, the same balance, the same graphs, one after the other in one thread.

use anyhow::{Context, Result};
use farol_partition::Graph;
use farol_partition::split::{Balance, Loads, Multilevel, Problem, Start};
use farol_sim::partition::{Cities, Shape, read_graph};
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Graphs, in the formats of `farol-sim partition`; without any, made ones are split.
    #[arg(long)]
    graph: Vec<PathBuf>,
    /// Shapes of made graphs, beside those of files.
    #[arg(long, value_enum, value_delimiter = ',')]
    made: Vec<Shape>,
    /// Vertices of a made graph.
    #[arg(long, default_value_t = 100_000)]
    vertices: usize,
    /// Numbers of parts.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32")]
    parts: Vec<usize>,
    /// Largest load over the fair one.
    #[arg(long, default_value_t = 0.03)]
    slack: f64,
    /// Seeds; cuts and times are means over them, with the least and the greatest cut beside.
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
    let shapes = if graphs.is_empty() && args.made.is_empty() { &Shape::ALL[..] } else { &args.made[..] };
    for shape in shapes {
        let graph = shape.make(args.vertices, 1);
        let pages = vec![1; graph.vertices()];
        graphs.push((shape.name().to_string(), graph, pages));
    }
    if let Some(folder) = &args.write {
        std::fs::create_dir_all(folder)?;
        for (name, graph, _) in &graphs {
            let path = folder.join(format!("{}.graph", name.replace([' ', ','], "-")));
            write(graph, &path).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    println!(
        "| graph | vertices | edges | k | method | cut | least–greatest | / the better METIS | overload | s | / METIS k-way's |"
    );
    println!("|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|");
    for (name, graph, pages) in &graphs {
        for k in &args.parts {
            race(args, name, graph, pages, *k)?;
        }
    }
    if let (Some(cities), Some(pings)) = (&args.cities, &args.pings) {
        let text = |path: &PathBuf| farol_sim::partition::read_text(path);
        let cities = Cities::read(&text(cities)?, &text(pings)?).map_err(anyhow::Error::msg)?;
        both_objectives(args, &graphs, &cities)?;
    }
    Ok(())
}

/// METIS twice and ours, one after the other.
fn race(args: &Args, name: &str, graph: &Graph, pages: &[u64], k: usize) -> Result<()> {
    let loads = if args.pages { Loads::pages(pages.to_vec()) } else { Loads::equal(graph.vertices()) };
    let balance = Balance::equal(&loads, k, args.slack)?;
    let run = |split: &dyn Fn(u64) -> Result<Vec<u32>>| -> Result<Sums> {
        let mut sums = Sums::default();
        for seed in 1..=args.seeds {
            let clock = Instant::now();
            let part = split(seed)?;
            sums.add(graph, &loads, k, &part, clock.elapsed().as_secs_f64());
        }
        Ok(sums)
    };
    let borne = &loads;
    let metis = |method| move |seed| metis(graph, borne, k, args.slack, seed, method);
    let (kway, recursive) = (run(&metis(Method::Kway))?, run(&metis(Method::Recursive))?);
    let (best, time) = (kway.cut().min(recursive.cut()).max(1.0), kway.secs());
    let show = |method: &str, sums: &Sums| {
        println!(
            "| {name} | {} | {} | {k} | {method} | {:.0} | {:.0}–{:.0} | {:.3} | {:.3} | {:.3} | {:.2} |",
            graph.vertices(),
            graph.edges(),
            sums.cut(),
            sums.cuts.iter().copied().fold(f64::INFINITY, f64::min),
            sums.cuts.iter().copied().fold(0.0, f64::max),
            sums.cut() / best,
            sums.overload,
            sums.secs(),
            sums.secs() / time
        );
    };
    show("METIS k-way", &kway);
    show("METIS recursive bisection", &recursive);
    for (said, effort) in efforts(args)? {
        let ours = |seed| Ok(Multilevel { seed, ..effort }.split(&Problem::new(graph, &loads, &balance))?.part);
        show(&said, &run(&ours)?);
    }
    Ok(())
}

/// What `--effort` says; without it ours, and what each of its starts is worth alone.
fn efforts(args: &Args) -> Result<Vec<(String, Multilevel)>> {
    if args.effort.is_empty() {
        let start = |start| Multilevel { start, ..Multilevel::default() };
        return Ok(vec![
            ("ours".to_string(), Multilevel::default()),
            ("ours, all parts at once".to_string(), start(Start::Coarsest)),
            ("ours, bisection alone".to_string(), start(Start::Bisection)),
        ]);
    }
    let read = |text: &String| {
        let numbers: Vec<usize> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [trials, grown, passes, patience, coarsest, cycles] = numbers[..] else {
            anyhow::bail!("--effort {text}: six numbers are wanted");
        };
        let effort =
            Multilevel { trials, grown, passes, patience, coarsest, cycles, ..Multilevel::default() };
        Ok((format!("ours {text}"), effort))
    };
    args.effort.iter().map(read).collect()
}

#[derive(Default)]
struct Sums {
    cuts: Vec<f64>,
    overload: f64,
    secs: f64,
}

impl Sums {
    fn add(&mut self, graph: &Graph, loads: &Loads, k: usize, part: &[u32], secs: f64) {
        self.cuts.push(graph.cut(part) as f64);
        let parts = &loads.by_part(part, k)[0];
        let fair = loads.total(0) as f64 / k as f64;
        self.overload = self.overload.max(parts.iter().copied().max().unwrap_or(0) as f64 / fair);
        self.secs += secs;
    }

    fn cut(&self) -> f64 {
        self.cuts.iter().sum::<f64>() / self.cuts.len().max(1) as f64
    }

    fn secs(&self) -> f64 {
        self.secs / self.cuts.len().max(1) as f64
    }
}

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

/// METIS' methods.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    Kway,
    Recursive,
}

/// METIS with its defaults but for balance and seed. Recursive bisection takes its slack anew at each halving, so that
/// each gets the root that makes all of them together the slack that is asked for.
fn metis(graph: &Graph, loads: &Loads, k: usize, slack: f64, seed: u64, method: Method) -> Result<Vec<u32>> {
    let (offsets, arcs) = graph.rows();
    let xadj: Vec<i32> = offsets.iter().map(|offset| *offset as i32).collect();
    let adjncy: Vec<i32> = arcs.iter().map(|arc| arc.to as i32).collect();
    let weights: Vec<i32> = arcs.iter().map(|arc| arc.weight as i32).collect();
    let pages: Vec<i32> = (0..graph.vertices()).map(|v| loads.first(v).min(i32::MAX as u64) as i32).collect();
    let mut part = vec![0i32; graph.vertices()];
    let slack = match method {
        Method::Kway => slack,
        Method::Recursive => (1.0 + slack).powf(1.0 / (k as f64).log2().ceil().max(1.0)) - 1.0,
    };
    let prepared = metis::Graph::new(1, k as i32, &xadj, &adjncy)
        .map_err(|error| anyhow::anyhow!("METIS refuses the graph: {error}"))?
        .set_vwgt(&pages)
        .set_adjwgt(&weights)
        .set_option(metis::option::UFactor(((slack * 1000.0).round() as i32).max(1)))
        .set_option(metis::option::Seed(seed as i32));
    match method {
        Method::Kway => prepared.part_kway(&mut part),
        Method::Recursive => prepared.part_recursive(&mut part),
    }
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
            let metis = metis(graph, &loads, *k, args.slack, 1, Method::Kway)?;
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
