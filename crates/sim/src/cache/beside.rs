//! The simulator beside real processes: a small service under the same log, at the same rate, as `cargo xtask caches --only
//! beside` gives to eight of them.
//!
//! What has to be the same in both: one front (which alone looks up nothing that it has never seen), the log once through,
//! room for as many entries, no failover copies, nobody overloaded. Loads are lookups and inserts, which nodes of either
//! world count. What differs: where questions lie on the ring, as each cluster draws a seed of its own; the simulator's
//! front has one thing to do at a time, so nobody waits for somebody else's answer.

use super::CacheArgs;
use super::report::{CacheReport, head, percent, row};
use super::service::Costs;
use super::strategy::{StrategyKind, Tuning};
use super::stream::{Burst, StreamConfig};
use super::tables::{Wanted, make, spread};
use super::world::{Plan, ServiceOutcome};
use farol_cache::replace::Policy;

/// A service of any size.
#[derive(Clone, Debug, clap::Args)]
pub struct BesideArgs {
    /// Table `beside`: nodes.
    #[arg(long, default_value_t = 8)]
    pub nodes: u16,
    /// Table `beside`: queries a second.
    #[arg(long, default_value_t = 200.0)]
    pub rate: f64,
    /// Table `beside`: share of all that one new query has in the end.
    #[arg(long, default_value_t = 0.0)]
    pub flash: f64,
    /// Table `beside`: seconds until it comes, and until it has this share.
    #[arg(long, default_value_t = 60.0)]
    pub flash_after: f64,
    #[arg(long, default_value_t = 120.0)]
    pub flash_ramp: f64,
}

fn wanted(args: &CacheArgs, policy: Policy, kind: StrategyKind, seed: u64) -> Wanted {
    let service = &args.beside;
    let asked = args.log.as_ref().map_or(args.queries * 1e6, |log| log.len() as f64);
    let seconds = asked / service.rate;
    // Nobody is ever full.
    let most = 1e3 * service.rate;
    let costs =
        Costs { node_rate: most, index_rate: most, front_rate: most, sample: 1.0, ..Costs::default() };
    let bursts = (service.flash > 0.0).then_some(Burst {
        begins: service.flash_after,
        rises: service.flash_ramp.max(1e-3),
        stays: seconds,
        fades: 1.0,
        peak: service.flash,
        evenly: true,
    });
    let plan = Plan {
        policy,
        costs,
        warm_up: seconds / 2.0,
        tuning: Tuning { node_rate: most, ..Tuning::default() },
        protected: Some(0.0),
        seed,
        ..Plan::new(kind, service.nodes, args.entries)
    };
    let stream = StreamConfig {
        seed,
        rate: service.rate,
        bursts: bursts.into_iter().collect(),
        places: seed as u8,
        ..StreamConfig::default()
    };
    Wanted { label: kind.name(), plan, stream, log: args.log.clone(), seconds }
}

/// The second half of the run.
pub fn table(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let service = &args.beside;
    head(
        &format!(
            "{} nodes × {} entries, {} queries a second, the second half; {} places on the ring, mean ± deviation (least–most)",
            service.nodes, args.entries, service.rate, args.seeds
        ),
        &["strategy", "hits, %", "hottest / mean of lookups and inserts", "not looked up, %"],
    );
    for kind in [StrategyKind::Plain, StrategyKind::DBR, StrategyKind::Ours] {
        if !args.wants(&kind.name()) {
            continue;
        }
        let seeds = args.seed..args.seed + args.seeds.max(1);
        let runs = make(seeds.map(|seed| wanted(args, policy, kind, seed)).collect(), args.threads);
        let runs: Vec<ServiceOutcome> = runs.into_iter().map(|(_, outcome)| outcome).collect();
        let of = |value: &dyn Fn(&ServiceOutcome) -> f64| spread(&runs.iter().map(value).collect::<Vec<_>>());
        row(&[
            kind.name(),
            of(&|outcome| 100.0 * outcome.hit_rate()),
            of(&|outcome| 1.0 / outcome.efficiency_over(usize::MAX)),
            percent(
                runs.iter().map(|outcome| outcome.skipped as f64 / outcome.asked.max(1) as f64).sum::<f64>()
                    / runs.len().max(1) as f64,
            ),
        ]);
        report.runs.extend(runs.into_iter().map(|outcome| ("beside".to_string(), outcome)));
    }
    println!();
}
