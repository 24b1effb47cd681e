//! A whole cluster in one thread from one seed: the product's own state machines, with tables, logs, clocks and machines
//! that do what they do at the worst time.
//!
//! [`world`] is what happens when; [`kv`] the shared tables, [`documents`] the way of pages from archives to replicas,
//! [`node`] disks, clocks and processes, [`chaos`] what goes wrong. [`checkers`] look at every write, [`outcome`] at the
//! end. A rule that is switched off ([`Ablation`]) must be caught, or rule or checker is worth nothing.

pub mod chaos;
pub mod checkers;
pub mod documents;
pub mod kv;
pub mod node;
pub mod outcome;
mod pages;
pub mod world;

use checkers::Violation;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use world::ClusterWorld;

/// A rule to switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ablation {
    /// A leader does not look at its lease before each write.
    Lease,
    /// Tables are written whatever revision they have.
    Cas,
    /// Silence is taken for death before a lease has surely ended.
    Dead,
    /// Replicas are taken away from who is silent without burying them first.
    Burial,
    /// Who begins to lead counts silences from before.
    Silence,
    /// A node that meets another incarnation of itself goes on.
    Incarnation,
    /// A replica takes a batch whatever it lacks before it.
    Gap,
}

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterArgs {
    /// Clusters to run, one for each seed.
    #[arg(long, default_value_t = 200)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub from: u64,
    /// Switches a rule off, and stops at the first seed that notices.
    #[arg(long, value_enum)]
    pub ablate: Option<Ablation>,
    /// Threads, each with its own seeds.
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Writes the outcome as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What one seed came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunCounts {
    /// Seeds that were run.
    pub seeds: u64,
    /// Writes to the tables.
    pub writes: u64,
    /// Terms that were taken.
    pub terms: u64,
    /// Versions of shard maps.
    pub maps: u64,
    /// Pages that were crawled.
    pub pages: u64,
    /// Nodes that were buried.
    pub burials: u64,
}

/// A seed that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub at: u64,
    pub violation: Violation,
    pub log: Vec<String>,
}

/// Runs one cluster.
///
/// # Errors
/// The first promise that was broken, with the events before it.
pub fn simulate(seed: u64, ablation: Option<Ablation>) -> Result<RunCounts, Box<Failure>> {
    let mut world = ClusterWorld::new(seed, ablation);
    chaos::build(&mut world);
    let outcome = world.run(chaos::CONVERGED).and_then(|()| match outcome::check_converged(&world) {
        Err(_) if world.has_orders => {
            world.run(chaos::ORDERED).and_then(|()| outcome::check_converged(&world))
        }
        checked => checked,
    });
    let since = world.now;
    let outcome = outcome
        .and_then(|()| world.run(since + chaos::QUIET))
        .and_then(|()| outcome::check_quiet(&world, since));
    match outcome {
        Ok(()) => Ok(count(&world)),
        Err(violation) => {
            let mut log: Vec<String> = world.log.iter().cloned().collect();
            log.extend(outcome::describe(&world));
            Err(Box::new(Failure { seed, at: world.now, violation, log }))
        }
    }
}

fn count(world: &ClusterWorld) -> RunCounts {
    let of_state = |state: &str| {
        let nodes = world.kv.keys("node.").map(|key| world.kv.history(key));
        let needle = format!("\"state\":\"{state}\"");
        let has = |value: &[u8]| value.windows(needle.len()).any(|part| part == needle.as_bytes());
        nodes.flatten().filter(|version| version.value.as_deref().is_some_and(has)).count() as u64
    };
    let leader = world.kv.history("leader");
    let takes = |version: &&kv::Version| {
        let value = version.value.as_deref().unwrap_or_default();
        farol_cluster::record::read::<farol_cluster::record::LeaderRecord>("leader", value)
            .is_ok_and(|record| record.term == 0)
    };
    RunCounts {
        seeds: 1,
        writes: world.kv.revision(),
        terms: leader.iter().filter(takes).count() as u64,
        maps: world.kv.history("table.shards").len() as u64,
        pages: world.nodes.iter().map(|node| node.disk.agent.archive.len() as u64).sum(),
        burials: of_state("dead"),
    }
}

impl RunCounts {
    fn add(&mut self, other: &RunCounts) {
        self.seeds += other.seeds;
        self.writes += other.writes;
        self.terms += other.terms;
        self.maps += other.maps;
        self.pages += other.pages;
        self.burials += other.burials;
    }
}

/// Runs seeds on several threads until one fails, where `stop` says so, or all are done.
fn run_seeds(args: &ClusterArgs) -> (RunCounts, Vec<Failure>) {
    let threads = args.threads.clamp(1, 64);
    let lowest = std::sync::atomic::AtomicU64::new(u64::MAX);
    let mut total = RunCounts::default();
    let mut failures = Vec::new();
    std::thread::scope(|scope| {
        let work = |first: u64| {
            let (mut counts, mut failed) = (RunCounts::default(), Vec::new());
            for seed in (args.from + first..args.from + args.seeds).step_by(threads as usize) {
                // With a rule switched off, only the first that notices is asked for.
                if args.ablate.is_some() && seed > lowest.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                match simulate(seed, args.ablate) {
                    Ok(run) => counts.add(&run),
                    Err(failure) => {
                        lowest.fetch_min(seed, std::sync::atomic::Ordering::Relaxed);
                        counts.seeds += 1;
                        failed.push(*failure);
                    }
                }
            }
            (counts, failed)
        };
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(move || work(first))).collect();
        for thread in running {
            if let Ok((counts, failed)) = thread.join() {
                total.add(&counts);
                failures.extend(failed);
            }
        }
    });
    failures.sort_by_key(|failure| failure.seed);
    (total, failures)
}

/// Runs what the arguments say and prints a table; whether all is as it should be.
///
/// # Errors
/// Where the outcome cannot be written.
pub fn run(args: &ClusterArgs) -> Result<bool, crate::Error> {
    let began = std::time::Instant::now();
    let (counts, failures) = run_seeds(args);
    let seconds = began.elapsed().as_secs_f64();
    if let Some(rule) = args.ablate {
        let caught = failures.first();
        match caught {
            Some(failure) => println!(
                "| {rule:?} | caught by `{}` | after {} seeds | {} |",
                failure.violation.checker,
                failure.seed - args.from + 1,
                failure.violation.what
            ),
            None => println!("| {rule:?} | NOT CAUGHT | in {} seeds | |", counts.seeds),
        }
        write_json(args, &counts, &failures, seconds)?;
        return Ok(caught.is_some());
    }
    if let Some(failure) = failures.first() {
        println!("seed {} at {} ms, the last events:", failure.seed, failure.at);
        failure.log.iter().for_each(|line| println!("{line}"));
    }
    let mut by_checker: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for failure in &failures {
        by_checker.entry(failure.violation.checker).or_default().push(failure.seed);
    }
    println!("| seeds | table writes | terms | shard maps | burials | pages | violations | seconds |");
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {seconds:.0} |",
        counts.seeds,
        counts.writes,
        counts.terms,
        counts.maps,
        counts.burials,
        counts.pages,
        failures.len()
    );
    for (checker, seeds) in &by_checker {
        println!("{checker}: {} seeds, the first {:?}", seeds.len(), &seeds[..seeds.len().min(8)]);
    }
    if let Some(failure) = failures.first() {
        println!("seed {}: {}: {}", failure.seed, failure.violation.checker, failure.violation.what);
    }
    write_json(args, &counts, &failures, seconds)?;
    Ok(failures.is_empty())
}

fn write_json(
    args: &ClusterArgs,
    counts: &RunCounts,
    failures: &[Failure],
    seconds: f64,
) -> Result<(), crate::Error> {
    let Some(path) = &args.json else { return Ok(()) };
    let failed: Vec<_> = failures
        .iter()
        .map(|failure| {
            serde_json::json!({
                "seed": failure.seed,
                "checker": failure.violation.checker,
                "what": failure.violation.what,
            })
        })
        .collect();
    let value =
        serde_json::json!({"ablated": args.ablate, "counts": counts, "failures": failed, "seconds": seconds});
    std::fs::write(path, format!("{value:#}\n")).map_err(crate::Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer runs: `farol-sim cluster --seeds 10000`.
    #[test]
    fn two_hundred_clusters_keep_every_promise() {
        let mut counts = RunCounts::default();
        for seed in 1..=200 {
            match simulate(seed, None) {
                Ok(run) => counts.add(&run),
                Err(failure) => panic!(
                    "{}\nseed {seed}: {}: {}",
                    failure.log.join("\n"),
                    failure.violation.checker,
                    failure.violation.what
                ),
            }
        }
        // Something must have gone on, or nothing was shown.
        assert!(counts.terms > 300 && counts.burials > 100 && counts.pages > 20_000, "{counts:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_cluster() {
        let run = |seed| simulate(seed, None).map_err(|failure| failure.violation);
        assert_eq!(run(3), run(3));
    }

    #[test]
    fn every_rule_is_missed_when_it_is_switched_off() {
        let check = |ablation, checkers: &[&str]| {
            let caught = (1..=2000).find_map(|seed| simulate(seed, Some(ablation)).err());
            let checker = caught.map(|failure| failure.violation.checker);
            assert!(checker.is_some_and(|checker| checkers.contains(&checker)), "{ablation:?}: {checker:?}");
        };
        check(Ablation::Lease, &["one leader"]);
        check(Ablation::Cas, &["fenced"]);
        check(Ablation::Dead, &["one leader", "one incarnation"]);
        check(Ablation::Burial, &["buried"]);
        check(Ablation::Silence, &["patient"]);
        check(Ablation::Incarnation, &["one incarnation"]);
        check(Ablation::Gap, &["no lost document"]);
    }
}
