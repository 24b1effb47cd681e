//! The revisit experiment [Souza10 §5.5]: how fresh each rule keeps a repository.
//!
//! `allocate` and `select` hold the rules that the product's are compared with, [`Schedule`] one that has every page in
//! memory, `theorems` what \[Souza10\] proves, `corrected` the yardstick of the product's estimator.
//! [`Repository`] is made or read from a [`Table`]; `farol_frontier::revisit` allocates the channel; `policies` runs
//! the rules whose servers are independent, and [`measure`] says how fresh their pages are. Rules that learn or share
//! the channel (`intervals`, `learning`) crawl a smaller repository of the same kind, or a [`History`] of real pages.
//! `ideal` says what the best of all learners could reach. [`run`] does all of it and writes the tables; `plot` draws them over
//! time, `channel` looks at peaks.

pub mod allocate;
mod channel;
pub mod corrected;
mod history;
mod ideal;
mod intervals;
mod learning;
mod measure;
mod planned;
mod plot;
mod policies;
mod replay;
mod report;
mod repository;
mod schedule;
pub mod select;
mod tables;
pub mod theorems;
mod world;

pub use history::History;
pub use measure::{Bins, Measured, Window, measure};
pub use repository::{Repository, RepositoryConfig};
pub use schedule::{PageOfServer, Schedule};
pub use tables::Table;

use std::fmt::Write as _;
use std::path::PathBuf;

const YEAR: f64 = 365.25 * 86_400.0;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug, clap::Args)]
pub struct RevisitArgs {
    /// A table of pages (rate_per_day, weight, server) or a history of changes (unix_time, kind, document), with
    /// tabs between the fields, plain or .zst. Without it a repository is made.
    #[arg(long)]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub repository: RepositoryConfig,
    /// Channels, as shares of what all servers bear.
    #[arg(long, value_delimiter = ',', default_value = "0.01,0.1,0.9")]
    pub channel: Vec<f64>,
    /// Simulated years.
    #[arg(long, default_value_t = 6.0)]
    pub years: f64,
    /// How many of its longest intervals a server is run, if the years are longer; then it counts as steady.
    #[arg(long, default_value_t = 14.0)]
    pub cycles: f64,
    /// Most visits of a rule that are simulated, in millions; where it would make more, each server is run for less of
    /// its time, and then counts as steady.
    #[arg(long, default_value_t = 100.0)]
    pub visits: f64,
    /// Rules that learn or share the channel run on every so many-th server.
    #[arg(long, default_value_t = 80)]
    pub sample: usize,
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Writes freshness over time as an SVG.
    #[arg(long)]
    pub plot: Option<PathBuf>,
    /// Only finds the allocation and checks it.
    #[arg(long)]
    pub allocate_only: bool,
    /// Only says what the best of all learners could reach: one that is told how many pages have which rate, and may
    /// use all visits of one, two or four years to find out which ones.
    #[arg(long)]
    pub ideal: bool,
    /// With --ideal: how often it looks at a page after the first visit, at most. One more takes three times as long.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub looks: u8,
}

/// Runs the experiment and prints its tables as they are done.
pub fn run(args: &RevisitArgs) -> Result<(), crate::Error> {
    let repository = match &args.input {
        None => Repository::made(&args.repository),
        Some(path) => {
            let text = crate::input::read_text(path)?;
            if text.starts_with(History::HEADER) {
                let history = History::read(&text).map_err(crate::Error::Input)?;
                println!("{}", replay::report(&history, args));
                return Ok(());
            }
            Repository::read(&Table::read(&text).map_err(crate::Error::Input)?, args.repository.delay)
        }
    };
    let mut panels = Vec::new();
    println!("{}", report::heading(&repository, args));
    for share in &args.channel {
        let mut said = String::new();
        let panel = report::channel(&repository, *share, args, &mut said)
            .map_err(|error| crate::Error::Input(error.to_string()))?;
        println!("{said}");
        panels.push(panel);
    }
    if let Some(path) = &args.plot {
        let drawing = plot::svg(&panels, args.years);
        std::fs::write(path, drawing).map_err(crate::Error::file("write", path))?;
    }
    Ok(())
}

/// A row of a Markdown table; also told at once, for tables take their time.
fn row(out: &mut String, cells: &[String]) {
    tracing::info!("{}", cells.join(" | "));
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
