//! The partition experiments [Exposto08 §5.2]: who should download what, and what it is worth.
//!
//! [`Web`] makes a space with the thesis' counts; `strategies` gives its hosts to robots; `model` is the thesis'
//! algebra, `crawl` its simulator. `thesis` runs both over all numbers of robots and prints the thesis' figures beside
//! ours; `extras` looks at what the thesis left open: link locality, preference factors, agents that join, growth,
//! look-ups, and real graphs; `plan` tries settings on the product's own plan.

mod crawl;
mod extras;
mod graphs;
mod growing;
mod input;
mod model;
mod plan;
mod plot;
mod probes;
mod strategies;
mod thesis;
mod web;

pub use crate::input::read_text;
pub use crawl::{CrawlOutcome, Crew, Params, Politeness, crawl};
pub use graphs::{Shape, grown_graph};
pub use growing::{Events, GrowingOutcome, grow};
pub use input::{Cities, Input, read_graph};
pub use model::{Flow, Model};
pub use plan::PlanInputs;
pub use strategies::{Strategy, Weights, assign, assign_again, both, matched, placed_space};
pub use web::{Web, WebCounts, made_cities};

use crate::Error;
use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// The thesis' figures: algebraic model and simulator, over all numbers of robots.
    Thesis,
    /// How the saving depends on link locality and on balance.
    Locality,
    /// How the saving depends on the preference factors.
    Preference,
    /// An agent joins: what moves, and what it costs.
    Join,
    /// Larger and larger graphs: time and memory.
    Growth,
    /// A crawl that grows with the product's planner in the loop, beside the same crawl by hash.
    Growing,
    /// Look-ups a second in a routing table.
    Lookup,
    /// The graphs given with --graph: all strategies.
    Graph,
    /// How well unmeasured round-trip times are guessed, and how many probes are enough; wants --cities and --pings.
    Rtt,
    /// The product's plan for graphs of `farol export graph`, with units, senses, --slack, --seed, --blocks and --traces
    /// that `farol partition plan` does not offer.
    Plan,
}

/// How to measure it.
#[derive(Clone, Debug, clap::Args)]
pub struct PartitionArgs {
    #[arg(value_enum, default_value = "thesis")]
    pub experiments: Vec<Experiment>,
    #[command(flatten)]
    pub counts: WebCounts,
    #[command(flatten)]
    pub inputs: PlanInputs,
    /// Numbers of robots.
    #[arg(long, value_delimiter = ',', default_value = "2,3,4,6,8,10,15,20,25,30")]
    pub agents: Vec<usize>,
    /// Graphs: `.adj`, host links `.tsv`, or lists of edges; for `plan` files of `farol export graph`; plain, `.gz` or
    /// `.zst`.
    #[arg(long)]
    pub graph: Vec<PathBuf>,
    /// Cities with their places: `city,latitude,longitude,population`. Without it cities are made up.
    #[arg(long, alias = "geo", requires = "pings")]
    pub cities: Option<PathBuf>,
    /// Round-trip times between those cities.
    #[arg(long, alias = "rtt", requires = "cities")]
    pub pings: Option<PathBuf>,
    /// How much more than its share of pages an agent may get.
    #[arg(long, default_value_t = 0.05)]
    pub slack: f64,
    /// Preference factors of links and of distances.
    #[arg(long, value_delimiter = ',', default_value = "4,1")]
    pub preference: Vec<f64>,
    /// Sizes of graphs for `growth`: vertices in millions; ten edges for each.
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.5,1,2,5")]
    pub millions: Vec<f64>,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Writes the numbers of `thesis` to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draws the curves of `thesis`.
    #[arg(long)]
    pub plot: Option<PathBuf>,
}

impl PartitionArgs {
    fn weights(&self) -> Weights {
        Weights {
            links: self.preference.first().copied().unwrap_or(1.0),
            distance: self.preference.get(1).copied().unwrap_or(1.0),
            slack: self.slack,
            seed: self.seed,
        }
    }

    fn read_cities(&self) -> Result<Cities, Error> {
        match (&self.cities, &self.pings) {
            (Some(cities), Some(pings)) => {
                Cities::read(&read_text(cities)?, &read_text(pings)?).map_err(Error::Input)
            }
            _ => Ok(made_cities(self.seed)),
        }
    }

    fn web(&self) -> Result<Web, Error> {
        let counts = &self.counts;
        if counts.hosts < 2 || counts.urls < counts.hosts + counts.densest || counts.links < counts.urls {
            let what = "it needs two hosts, a page for each beside the densest's, and as many links as pages";
            return Err(Error::Input(format!("the Web is too small: {what}")));
        }
        Ok(Web::make(counts, self.read_cities()?, self.seed))
    }

    fn robots(&self) -> Result<Vec<usize>, Error> {
        let known = self.agents.iter().all(|k| (1..=1000).contains(k));
        let given = known && !self.agents.is_empty();
        if given {
            Ok(self.agents.clone())
        } else {
            Err(Error::Input("--agents wants numbers from 1 to 1000".to_string()))
        }
    }
}

/// Runs the experiments, and prints their tables as they are done.
pub fn run(args: &PartitionArgs) -> Result<(), Error> {
    for experiment in &args.experiments {
        match experiment {
            Experiment::Thesis => thesis::run(args)?,
            Experiment::Locality => extras::locality(args)?,
            Experiment::Preference => extras::preference(args)?,
            Experiment::Join => extras::join(args)?,
            Experiment::Growth => extras::growth(args)?,
            Experiment::Growing => growing::run(args)?,
            Experiment::Lookup => extras::lookup(args)?,
            Experiment::Graph => extras::graphs(args)?,
            Experiment::Rtt => extras::round_trips(args)?,
            Experiment::Plan => plan::run(args)?,
        }
    }
    Ok(())
}

fn said(error: farol_partition::Error) -> Error {
    Error::Input(error.to_string())
}
