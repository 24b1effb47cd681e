//! The result cache's experiments [Gomez14 ch. 4 to 7]: the product's own ring, router and nodes under
//! streams of queries with the published statistics, or under a real log.
//!
//! [`stream`] makes queries, `farol_cache::trace` reads them; [`world`] runs a service of nodes over them, [`strategy`] holds the
//! ways to choose a node, [`service`] says what waiting costs. `tables` and its neighbours print what the thesis
//! prints, its figures beside ours.

pub mod balancers;
mod beside;
pub mod burst;
pub mod bursts;
mod day;
pub mod lossy;
pub mod nodes;
mod plot;
mod protection;
mod report;
mod routed;
pub mod service;
mod stalls;
pub mod strategy;
pub mod stream;
mod tables;
pub mod world;

use farol_cache::replace::Policy;
use std::path::PathBuf;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct CacheArgs {
    /// Tables of [Gomez14 ch. 4 to 7] to print (4.5, 5.2, 5.3, 5.4, 5.8, 6, 6.6, 7.1, 7.4), and our own: flash,
    /// failures, day, joins, beside, nodes, policies, speed, stalls, hostile, lossy.
    #[arg(long, value_delimiter = ',', default_value = "4.5,5.8,6,7.1,flash")]
    pub tables: Vec<String>,
    /// Measured queries of each run, in millions.
    #[arg(long, default_value_t = 12.0)]
    pub queries: f64,
    /// Queries before measuring begins, in millions.
    #[arg(long, default_value_t = 8.0)]
    pub warm_up: f64,
    /// Entries of each node.
    #[arg(long, default_value_t = 100_000)]
    pub entries: u64,
    /// Replacement policy of the nodes: lru, lfu, sdc, s3fifo, tinylfu or adaptive; the product's unless it is said. The thesis argues
    /// with LRU.
    #[arg(long)]
    pub policy: Option<String>,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seeds in all, from `--seed` on, for `7.4`, `day`, `beside` and `lossy`.
    #[arg(long, default_value_t = 10)]
    pub seeds: u64,
    /// Runs at a time.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Hours that `day` measures, after half as many.
    #[arg(long, default_value_t = 24.0)]
    pub hours: f64,
    /// Only strategies whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// A real stream instead of made ones, for `policies` and for whole services (which ask it at the rate of the thesis'
    /// logs): a query log (see `farol cache analyse --help`) or a cache trace `time,object,size`; plain or .zst.
    #[arg(long)]
    pub input: Option<PathBuf>,
    /// The queries of `--input`.
    #[arg(skip)]
    pub log: Option<std::sync::Arc<[u64]>>,
    /// For table 6: a series of counts as `timestamp,value` lines, on which the detector is run.
    #[arg(long)]
    pub series: Vec<PathBuf>,
    #[command(flatten)]
    pub setting: balancers::Setting,
    #[command(flatten)]
    pub beside: beside::BesideArgs,
    /// Writes all outcomes as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draws the hottest node's load over time.
    #[arg(long)]
    pub plot: Option<PathBuf>,
}

impl CacheArgs {
    fn policy(&self) -> Result<Policy, crate::Error> {
        let Some(name) = &self.policy else { return Ok(Policy::default()) };
        Policy::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Policy::ALL.iter().map(|policy| policy.name()).collect();
            crate::Error::Input(format!("there is no policy {name:?}; known are {}", known.join(", ")))
        })
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Runs the experiments and prints their tables.
pub fn run(args: &CacheArgs) -> Result<(), crate::Error> {
    if !(args.queries > 0.0 && args.queries < 1e5 && args.warm_up >= 0.0 && args.warm_up < 1e5) {
        return Err(crate::Error::Input(
            "--queries and --warm-up are millions of queries, above 0".to_string(),
        ));
    }
    let policy = args.policy()?;
    let mut args = args.clone();
    if args.input.is_some() {
        args.log = Some(nodes::lines(&args)?.iter().map(|line| line.query).collect());
    }
    let args = &args;
    let mut report = report::CacheReport::default();
    for table in &args.tables {
        match table.as_str() {
            "4.5" => tables::table_4_5(args, policy, &mut report),
            "5.2" => balancers::table_5_2(args, policy, &mut report, 1_000_000),
            "5.3" => balancers::table_5_2(args, policy, &mut report, 10_000),
            "5.4" => balancers::table_5_4(args, policy, &mut report),
            "5.8" => tables::table_5_8(args, policy, &mut report),
            "failures" => tables::failures(args, policy, &mut report),
            "day" => day::table(args, policy, &mut report),
            "beside" => beside::table(args, policy, &mut report),
            "stalls" => stalls::table(args),
            "joins" => tables::joins(args, policy, &mut report),
            "nodes" => tables::by_nodes(args, policy, &mut report),
            "6" => bursts::tables(args)?,
            "6.6" => tables::events(args, policy, &mut report),
            "flash" => tables::flash(args, policy, &mut report),
            "7.1" => nodes::table_7_1(args),
            "7.4" => protection::table_7_4(args, policy, &mut report),
            "policies" => nodes::policies(args)?,
            "speed" => nodes::speed(args, policy),
            "hostile" => nodes::hostile(),
            "lossy" => lossy::table(args.seeds, args.seed)?,
            other => {
                return Err(crate::Error::Input(format!(
                    "there is no table {other:?}; known are 4.5, 5.2, 5.3, 5.4, 5.8, 6, 6.6, 7.1, 7.4, flash, failures, joins, \
                     beside, nodes, policies, speed, hostile, lossy, day, stalls"
                )));
            }
        }
    }
    if let Some(path) = &args.json {
        std::fs::write(path, report.json()).map_err(crate::Error::file("write", path))?;
    }
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::draw(&report)).map_err(crate::Error::file("write", path))?;
    }
    Ok(())
}
