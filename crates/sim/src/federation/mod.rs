//! `farol-sim federation`: agreements between engines of different owners, with everything going wrong.
//!
//! [`world`] runs the product's own books of agreements. A rule that is switched off must be caught by what it is there for,
//! or rule or check is worth nothing.

pub mod world;

use anyhow::Context;
use farol_federation::agreement::Rules;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;
use world::FederationWorld;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct FederationArgs {
    #[command(subcommand)]
    experiment: FederationExperiment,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum FederationExperiment {
    /// Runs worlds of three to six engines that agree, change, end, crash and fall silent.
    ///
    /// Exit code 1 means that a promise was broken, or that a rule that was switched off was not missed.
    Agreements(AgreementArgs),
}

/// Which worlds.
#[derive(Clone, Debug, clap::Args)]
pub struct AgreementArgs {
    /// Worlds to run, one for each seed.
    #[arg(long, default_value_t = 200)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub from: u64,
    /// Switches a rule off, and stops at the first seed that notices.
    #[arg(long, value_enum)]
    pub ablate: Option<RuleOff>,
    /// Threads, each with its own seeds.
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Writes the outcome as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// A rule to switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOff {
    /// Who finds itself in a path agrees all the same.
    OwnId,
    /// Who is relied on does not ask.
    Consent,
    /// Who is asking agrees to others meanwhile.
    Busy,
    /// A provider that has said that it is over is free at once.
    Bound,
    /// Paths are passed on however old they are.
    Horizon,
    /// Of two paths the one that came later counts.
    Numbered,
}

impl RuleOff {
    fn rules(this: Option<RuleOff>) -> Rules {
        let is_on = |rule| this != Some(rule);
        Rules {
            own_id: is_on(RuleOff::OwnId),
            consent: is_on(RuleOff::Consent),
            busy: is_on(RuleOff::Busy),
            bound: is_on(RuleOff::Bound),
            horizon: is_on(RuleOff::Horizon),
            numbered: is_on(RuleOff::Numbered),
        }
    }
}

/// What the worlds came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AgreementSums {
    /// Worlds that were run.
    pub worlds: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Agreements that were proposed.
    pub proposals: u64,
    /// Times that a part was left to another.
    pub activations: u64,
    /// Times that a part was taken back.
    pub takebacks: u64,
    /// Crashes.
    pub crashes: u64,
    /// Engine-seconds in which a part of a view was crawled by nobody that runs.
    pub orphan_secs: u64,
    /// Engine-seconds of parts in all.
    pub part_secs: u64,
    /// Seeds that broke a promise, with what was broken.
    pub broken: Vec<(u64, String)>,
}

impl AgreementSums {
    fn add(&mut self, seed: u64, rules: Rules) {
        let (counts, broken) = FederationWorld::new(seed, rules).run();
        self.worlds += 1;
        self.messages += counts.messages;
        self.proposals += counts.proposals;
        self.activations += counts.activations;
        self.takebacks += counts.takebacks;
        self.crashes += counts.crashes;
        self.orphan_secs += counts.orphan_secs;
        self.part_secs += counts.part_secs;
        self.broken.extend(broken.map(|broken| (seed, format!("{}, {}", broken.rule, broken.told))));
    }

    fn join(mut self, other: AgreementSums) -> AgreementSums {
        self.worlds += other.worlds;
        self.messages += other.messages;
        self.proposals += other.proposals;
        self.activations += other.activations;
        self.takebacks += other.takebacks;
        self.crashes += other.crashes;
        self.orphan_secs += other.orphan_secs;
        self.part_secs += other.part_secs;
        self.broken.extend(other.broken);
        self
    }
}

/// Runs the worlds of these seeds; with a rule switched off, until one notices.
pub fn agreements(args: &AgreementArgs) -> AgreementSums {
    let rules = RuleOff::rules(args.ablate);
    let threads = args.threads.max(1);
    std::thread::scope(|scope| {
        let share = |thread: u64| {
            scope.spawn(move || {
                let mut sums = AgreementSums::default();
                for seed in
                    (args.from..args.from + args.seeds).skip(thread as usize).step_by(threads as usize)
                {
                    sums.add(seed, rules);
                    if args.ablate.is_some() && !sums.broken.is_empty() {
                        break;
                    }
                }
                sums
            })
        };
        let running: Vec<_> = (0..threads).map(share).collect();
        let ended = running.into_iter().filter_map(|thread| thread.join().ok());
        ended.fold(AgreementSums::default(), AgreementSums::join)
    })
}

/// Runs an experiment; whether it went as it must.
pub fn run(args: &FederationArgs) -> anyhow::Result<bool> {
    let FederationExperiment::Agreements(args) = &args.experiment;
    let begun = Instant::now();
    let sums = agreements(args);
    println!(
        "worlds {}  messages {}  proposals {}  activations {}  taken back {}  crashes {}",
        sums.worlds, sums.messages, sums.proposals, sums.activations, sums.takebacks, sums.crashes
    );
    let share = 100.0 * sums.orphan_secs as f64 / sums.part_secs.max(1) as f64;
    println!(
        "crawled by nobody that runs: {} of {} engine-seconds ({share:.2} %)",
        sums.orphan_secs, sums.part_secs
    );
    for (seed, told) in sums.broken.iter().take(10) {
        println!("seed {seed}: {told}");
    }
    println!("{} broken, in {:.0?}", sums.broken.len(), begun.elapsed());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&sums)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(sums.broken.is_empty() == args.ablate.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(seeds: u64, ablate: Option<RuleOff>) -> AgreementArgs {
        AgreementArgs { seeds, from: 1, ablate, threads: 2, json: None }
    }

    #[test]
    fn nobody_is_left_without_a_crawler_and_both_sides_agree() {
        let sums = agreements(&args(6, None));
        assert_eq!(sums.broken, []);
        assert!(sums.activations > 40 && sums.takebacks > 5, "{sums:?}");
    }

    #[test]
    fn a_world_without_consent_goes_in_circles_and_is_caught() {
        let sums = agreements(&args(6, Some(RuleOff::Consent)));
        assert!(sums.broken.iter().any(|(_, told)| told.contains("a loop")), "{:?}", sums.broken);
    }
}
