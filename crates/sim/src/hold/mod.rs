//! Agents that own hosts, in one thread from one seed: the product's leader, members and [`Holder`]s, a small Web whose
//! names lead to different addresses by place and by time, and everything going wrong.
//!
//! [`world`] is what happens when, `turn` what a node does in one turn, [`crawler`] what stands around a holder, [`web`] what is asked, [`chaos`] what goes wrong.
//! [`checkers`] look at every request, and at the end every page must be known and visited. A rule that is switched off ([`HoldAblation`]) must
//! be caught, or rule or checker is worth nothing.
//!
//! [`Holder`]: farol_partition::hold::Holder

pub mod chaos;
pub mod checkers;
pub mod crawler;
mod turn;
pub mod web;
pub mod world;

use crate::cluster::checkers::{Violation, broken};
use checkers::newest_route;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use world::HoldWorld;

/// A rule to switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HoldAblation {
    /// R1: agents ask without a lease, and requests outlive it.
    Lease,
    /// R2: a new incarnation goes on with what the one before was given.
    Incarnation,
    /// R3: agents connect to whatever address DNS tells them.
    Address,
    /// R4: what a table gives is used at once.
    Right,
    /// R4: a right counts under any epoch.
    Epoch,
    /// R5: rights are passed on and epochs released while requests are under way.
    Drain,
    /// R6: epochs are settled as they are written.
    Settle,
    /// R7: silent members are dropped without burying them.
    Burial,
    /// R7: silence is taken for death before a lease has surely ended.
    Dead,
    /// R8: undertakers send rights.
    Undertaker,
    /// R9: heirs do not wait for what the dead had.
    Luggage,
    /// Luggage leaves before what was found on its pages is in a backup.
    Backup,
    /// Hosts are asked by whoever resolves them, not by their home's word.
    Home,
    /// Hosts change their asker as often as DNS likes.
    Hops,
    /// Filters hold only for hosts that a plan has seen.
    Filter,
    /// Whoever has given an address up asks there still.
    Pin,
    /// A new leader drops members that it has not heard yet.
    Unheard,
    /// A new leader decides at once.
    Waited,
    /// A leader does not look at its lease before each write.
    Leader,
    /// Tables are written whatever revision they have.
    Cas,
}

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct HoldArgs {
    /// Clusters to run, one for each seed.
    #[arg(long, default_value_t = 200)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub from: u64,
    /// Switches a rule off, and stops at the first seed that notices.
    #[arg(long, value_enum)]
    pub ablate: Option<HoldAblation>,
    /// Threads, each with its own seeds.
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Writes the outcome as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What seeds came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoldCounts {
    pub seeds: u64,
    /// Requests to servers.
    pub requests: u64,
    /// Times that another agent asked a host than before.
    pub moves: u64,
    pub epochs: u64,
    pub burials: u64,
    pub pages: u64,
    /// Pages that were visited as new more than once.
    pub refetched: u64,
}

impl HoldCounts {
    fn add(&mut self, other: &HoldCounts) {
        self.seeds += other.seeds;
        self.requests += other.requests;
        self.moves += other.moves;
        self.epochs += other.epochs;
        self.burials += other.burials;
        self.pages += other.pages;
        self.refetched += other.refetched;
    }
}

/// A seed that broke a promise.
#[derive(Clone, Debug)]
pub struct HoldFailure {
    pub seed: u64,
    pub at: u64,
    pub violation: Violation,
    pub log: Vec<String>,
}

/// Runs one cluster.
///
/// # Errors
/// The first promise that was broken, with the events before it.
pub fn simulate(seed: u64, ablation: Option<HoldAblation>) -> Result<HoldCounts, Box<HoldFailure>> {
    let mut world = HoldWorld::new(seed, ablation);
    chaos::build(&mut world);
    match world.run(chaos::CONVERGED).and_then(|()| check_end(&mut world)) {
        Ok(()) => Ok(HoldCounts {
            seeds: 1,
            requests: world.checker.requests,
            moves: world.checker.moves,
            epochs: newest_route(&world.kv).map_or(0, |route| route.epoch().0),
            burials: world.burials,
            pages: world.web.pages.len() as u64,
            refetched: world.refetched,
        }),
        Err(violation) => {
            let mut log: Vec<String> = world.log.iter().cloned().collect();
            log.extend(world.nodes.iter().enumerate().map(|(i, node)| node.describe(i)));
            Err(Box::new(HoldFailure { seed, at: world.now, violation, log }))
        }
    }
}

/// Everything is settled, nobody waits for a backup, and every page was visited.
fn check_end(world: &mut HoldWorld) -> Result<(), Violation> {
    let Some(route) = newest_route(&world.kv) else { return broken("converges", "there is no table") };
    if !route.settled || !route.bequests.is_empty() {
        let (epoch, settled) = (route.epoch(), route.settled);
        return broken(
            "converges",
            format!("epoch {epoch} is settled {settled}, and {} backups are awaited", route.bequests.len()),
        );
    }
    let all = |node: &world::HoldNode| !node.is_over && !node.drains;
    if route.newest.members.len() != world.nodes.iter().filter(|node| all(node)).count() {
        return broken("converges", format!("{:?} are members", route.newest.members.keys()));
    }
    let mut visited: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut known: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, node) in world.nodes.iter().enumerate().filter(|(_, node)| !node.is_over) {
        for (page, is_visited) in node.disk.hosts.values().flat_map(|store| &store.pages) {
            known.insert(*page, i);
            if *is_visited {
                visited.entry(*page).or_default().push(i);
            }
        }
    }
    for page in 0..world.web.pages.len() {
        let host = world.web.pages[page];
        let is_linked = page == 0 || visited.keys().any(|parent| world.web.links[*parent].contains(&page));
        if !known.contains_key(&page) && is_linked {
            let text = world::describe(&world.nodes, host);
            world.note(|| text);
            return broken("no lost URL", format!("page {page} of host {host} is known to nobody"));
        }
        if !visited.contains_key(&page) {
            let text = world::describe(&world.nodes, host);
            world.note(|| text);
            return broken("converges", format!("page {page} of host {host} was not visited by anybody"));
        }
    }
    Ok(())
}

/// Runs seeds on several threads; with a rule switched off, until one notices.
fn run_seeds(args: &HoldArgs) -> (HoldCounts, Vec<HoldFailure>) {
    let threads = args.threads.clamp(1, 64);
    let lowest = AtomicU64::new(u64::MAX);
    let (mut total, mut failures) = (HoldCounts::default(), Vec::new());
    std::thread::scope(|scope| {
        let work = |first: u64| {
            let (mut counts, mut failed) = (HoldCounts::default(), Vec::new());
            for seed in (args.from + first..args.from + args.seeds).step_by(threads as usize) {
                if args.ablate.is_some() && seed > lowest.load(Ordering::Relaxed) {
                    break;
                }
                match simulate(seed, args.ablate) {
                    Ok(run) => counts.add(&run),
                    Err(failure) => {
                        lowest.fetch_min(seed, Ordering::Relaxed);
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
pub fn run(args: &HoldArgs) -> Result<bool, crate::Error> {
    let began = std::time::Instant::now();
    let (counts, failures) = run_seeds(args);
    let seconds = began.elapsed().as_secs_f64();
    write_json(args, &counts, &failures, seconds)?;
    let first = failures.first();
    if let Some(rule) = args.ablate {
        match first {
            Some(failure) => println!(
                "| {rule:?} | caught by `{}` | after {} seeds | {} |",
                failure.violation.checker,
                failure.seed - args.from + 1,
                failure.violation.what
            ),
            None => println!("| {rule:?} | NOT CAUGHT | in {} seeds | |", counts.seeds),
        }
        return Ok(first.is_some());
    }
    if let Some(failure) = first {
        println!("seed {} at {} ms, the last events:", failure.seed, failure.at);
        failure.log.iter().for_each(|line| println!("{line}"));
        println!("seed {}: {}: {}", failure.seed, failure.violation.checker, failure.violation.what);
    }
    println!(
        "| seeds | requests | moves of hosts | epochs | burials | pages | fetched again | violations | seconds |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {seconds:.0} |",
        counts.seeds,
        counts.requests,
        counts.moves,
        counts.epochs,
        counts.burials,
        counts.pages,
        counts.refetched,
        failures.len()
    );
    let mut by_checker: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for failure in &failures {
        by_checker.entry(failure.violation.checker).or_default().push(failure.seed);
    }
    for (checker, seeds) in &by_checker {
        println!("{checker}: {} seeds, the first {:?}", seeds.len(), &seeds[..seeds.len().min(8)]);
    }
    Ok(failures.is_empty())
}

fn write_json(
    args: &HoldArgs,
    counts: &HoldCounts,
    failures: &[HoldFailure],
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
mod tests;
