//! Crawlers side by side on the synthetic Web.
//!
//! One server process serves all; each crawler runs alone, for the same time, from an empty start. Pages are counted
//! by the server (HTML, status 200); CPU time and memory are the crawler's, never the server's. The Web has more
//! pages than any crawler reaches in the time, so that none ends early and idles.

use crate::peers::{self, Peer};
use crate::process::Running;
use crate::web::Web;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Binary of the engine.
    #[arg(long, default_value = "target/release/farol")]
    farol: PathBuf,
    /// Binary of the synthetic Web.
    #[arg(long, default_value = "target/release/farol-sim")]
    sim: PathBuf,
    /// Hosts of the synthetic Web.
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Pages of the synthetic Web.
    #[arg(long, default_value_t = 1_000_000)]
    pages: u64,
    /// Seed of the synthetic Web.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long each crawler runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only crawlers whose name has this in it; may be given more than once.
    #[arg(long)]
    only: Vec<String>,
    /// Folder for what peers need and write.
    #[arg(long, default_value = "target/bench")]
    folder: PathBuf,
    /// Markdown file for the table; none where it is empty.
    #[arg(long, default_value = "docs/results/crawlers.md")]
    output: PathBuf,
    /// Show what the crawlers print.
    #[arg(long)]
    show_output: bool,
}

/// What one crawler did.
struct Row {
    name: String,
    work: &'static str,
    pages: u64,
    wall: Duration,
    cpu: Duration,
    peak_rss_bytes: u64,
    server_cpu: Duration,
}

impl Row {
    fn per_second(&self) -> f64 {
        self.pages as f64 / self.wall.as_secs_f64().max(0.001)
    }

    fn per_cpu_second(&self) -> f64 {
        self.pages as f64 / self.cpu.as_secs_f64().max(0.001)
    }
}

pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    // Peers run in folders of their own, so paths must not depend on ours.
    let folder = args.folder.canonicalize()?;
    let farol = args.farol.canonicalize().unwrap_or(args.farol.clone());
    let web = Web::start(&args.sim, args.hosts, args.pages, args.seed)
        .with_context(|| format!("cannot serve the synthetic Web with {}", args.sim.display()))?;
    let mut rows = Vec::new();
    for mut peer in peers::all(&farol, &folder) {
        let name = peer.name();
        if !args.only.is_empty() && !args.only.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        if let Err(error) = peer.prepare() {
            eprintln!("{name} is left out: {error:#}");
            continue;
        }
        eprintln!("{name} crawls for {} s", args.seconds);
        rows.push(measure(args, &web, &*peer, &folder.join("crawl"))?);
    }
    if rows.is_empty() {
        bail!("no crawler was measured");
    }
    let table = table(args, &rows);
    println!("{table}");
    if !args.output.as_os_str().is_empty() {
        std::fs::write(&args.output, &table)
            .with_context(|| format!("cannot write {}", args.output.display()))?;
    }
    Ok(())
}

fn measure(args: &Args, web: &Web, peer: &dyn Peer, folder: &std::path::Path) -> Result<Row> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let pages_before = web.pages()?;
    let server_before = web.usage().cpu;
    let mut running = Running::start(&mut peer.command(web, folder), args.show_output)?;
    let ended = running.watch_until(Duration::from_secs(args.seconds))?;
    let usage = if ended { running.usage() } else { running.sample() };
    let wall = running.elapsed();
    let pages = web.pages()? - pages_before;
    let server_cpu = web.usage().cpu - server_before;
    if ended {
        eprintln!("  it ended by itself after {:.1} s", wall.as_secs_f64());
    }
    running.stop()?;
    let _ = std::fs::remove_dir_all(folder);
    let row = Row {
        name: peer.name(),
        work: peer.work(),
        pages,
        wall,
        cpu: usage.cpu,
        peak_rss_bytes: usage.peak_rss_bytes,
        server_cpu,
    };
    eprintln!("  {} pages, {:.0}/s, {:.0}/CPU-s", row.pages, row.per_second(), row.per_cpu_second());
    Ok(row)
}

fn table(args: &Args, rows: &[Row]) -> String {
    let mut text = String::new();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let _ = writeln!(
        text,
        "# Crawlers side by side\n\n\
         Synthetic Web: {} hosts, {} pages, seed {}, mean page 20 KB, about 50 links per page, no trouble. One server\n\
         process for all, each crawler alone for {} s from an empty start, no delay, robots.txt read, on {cores} cores\n\
         that the server shares ({}). Pages are counted by the server; CPU time and memory are the crawler's own.\n\n\
         ```\ncargo build --release -p farol -p farol-sim\n\
         cargo run --release --manifest-path bench/Cargo.toml -- crawlers --hosts {} --pages {} --seconds {}\n```\n",
        args.hosts,
        args.pages,
        args.seed,
        args.seconds,
        machine(),
        args.hosts,
        args.pages,
        args.seconds
    );
    let scrapy = rows.iter().find(|row| row.name.starts_with("Scrapy"));
    let times = |value: f64, of: Option<f64>| match of {
        Some(of) if of > 0.0 => format!("{:.1}×", value / of),
        _ => "–".to_string(),
    };
    text.push_str("| crawler | pages | pages/s | × Scrapy | pages/CPU-s | × Scrapy | CPU-s | peak RSS | server CPU-s |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {} | {:.0} | {} | {:.1} | {} MiB | {:.1} |",
            row.name,
            row.pages,
            row.per_second(),
            times(row.per_second(), scrapy.map(Row::per_second)),
            row.per_cpu_second(),
            times(row.per_cpu_second(), scrapy.map(Row::per_cpu_second)),
            row.cpu.as_secs_f64(),
            row.peak_rss_bytes >> 20,
            row.server_cpu.as_secs_f64(),
        );
    }
    text.push_str("\nWhat each does with a page:\n\n");
    for row in rows {
        let _ = writeln!(text, "- {}: {}", row.name, row.work);
    }
    text
}

/// The processor's name, as the system tells it.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        info.lines().find_map(|line| line.strip_prefix("model name")).and_then(|rest| rest.split_once(':'));
    name.map_or("unknown processor", |(_, name)| name.trim()).to_string()
}
