//! The rules of the table whose servers do not know of each other: each server is run alone, in any order.

use super::allocate::{Allocation, Share};
use super::measure::{Measured, Window, measure};
use super::repository::Repository;
use super::select::{Delayed, Drawn, Punctual};
use farol_base::random::mix;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::Spaced;
use farol_frontier::revisit::allocate::Page;
use farol_frontier::revisit::select::{Merge, Timetable, Visit};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How pages and instants are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Punctual,
    Merge,
    Delayed,
    Random,
}

/// What came of a rule on a whole repository. Shares are of the pages that change.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Freshness over the whole time from a stale start.
    pub mean: f64,
    /// Freshness in the second half.
    pub steady: f64,
    /// Standard error of `steady`.
    pub error: f64,
    /// Freshness by bin.
    pub curve: Vec<f64>,
    pub visits: u64,
    /// Least time between two requests to a server, as a share of its delay.
    pub gap_least: f64,
    /// Share of servers that were not run to the end, but until they were steady.
    pub cut: f64,
}

/// A timetable of any rule.
pub enum AnyTimetable {
    Punctual(Box<Punctual>),
    Merge(Spaced<Merge>),
    Random(Spaced<Drawn<Seeded>>),
    Delayed(Delayed),
}

impl Timetable for AnyTimetable {
    fn next(&mut self) -> Option<Visit> {
        match self {
            AnyTimetable::Punctual(table) => table.next(),
            AnyTimetable::Merge(table) => table.next(),
            AnyTimetable::Random(table) => table.next(),
            AnyTimetable::Delayed(table) => table.next(),
        }
    }
}

/// The timetable of one server under a rule, and its visits per second.
pub fn table(
    repository: &Repository,
    allocation: &Allocation,
    s: usize,
    policy: Policy,
    seed: u64,
) -> (AnyTimetable, f64) {
    let (pages, share) = (repository.server(s), &allocation.shares[s]);
    let frequencies = || -> Vec<f64> { pages.iter().map(|page| share.frequency(page)).collect() };
    let (rate, delay) = (allocation.rates[s], repository.delays[s]);
    let mut random = Seeded::new(mix(seed ^ mix(s as u64)));
    let table = match (policy, share) {
        (Policy::Punctual, Share::Level(level)) => {
            // A page that never changes is fresh from the start here, and needs no first visit.
            let idle =
                |page: &Page| if page.change.rate() > 0.0 { *page } else { Page { weight: 0.0, ..*page } };
            let pages = pages.iter().map(idle).collect();
            AnyTimetable::Punctual(Box::new(Punctual::with_pages(
                pages,
                delay,
                level.low,
                rate,
                random.unit(),
            )))
        }
        (Policy::Delayed, _) => AnyTimetable::Delayed(Delayed::new(&frequencies(), delay, &mut random)),
        (Policy::Random, _) => {
            let phase = random.unit();
            AnyTimetable::Random(Spaced::new(Drawn::new(&frequencies(), random), rate, phase))
        }
        (Policy::Merge | Policy::Punctual, _) => {
            let merge = Merge::new(&frequencies(), &mut random);
            AnyTimetable::Merge(Spaced::new(merge, rate, random.unit()))
        }
    };
    (table, rate)
}

/// How much of each server is run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub horizon: f64,
    pub bins: usize,
    /// How many of its longest intervals a server is run; the second half counts as steady.
    pub cycles: f64,
    /// Most visits to all servers together; where it would be more, each is run for less of its time.
    pub visits: f64,
    pub threads: usize,
    pub seed: u64,
}

/// Visits to a server that are simulated at least, where the horizon allows.
const VISITS_MIN: f64 = 4_000.0;

/// Runs a rule over all servers.
pub fn run(repository: &Repository, allocation: &Allocation, policy: Policy, effort: &Effort) -> Outcome {
    let rate = |s: usize| allocation.rates[s];
    let planned = each(repository.delays.len(), effort.threads, |s| {
        let span = effort.cycles * slowest(repository.server(s), &allocation.shares[s]);
        span.min(effort.horizon) * rate(s)
    });
    // RANDOM's intervals differ most, so it is the last to be steady; its visits are the cheapest.
    let visits = if policy == Policy::Random { 4.0 * effort.visits } else { effort.visits };
    let share = (visits / planned.iter().sum::<f64>().max(1.0)).min(1.0);
    let all = each(repository.delays.len(), effort.threads, |s| {
        let (mut table, rate) = table(repository, allocation, s, policy, effort.seed);
        let visits_max = (share * planned[s] + VISITS_MIN) as u64;
        let window = Window { horizon: effort.horizon, bins: effort.bins, visits_max };
        measure(repository.server(s), &mut table, rate, &window)
    });
    sum(repository, all, effort.bins)
}

/// Does something for each server, on several threads.
fn each<T: Send>(servers: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let s = next.fetch_add(1, Ordering::Relaxed);
            if s >= servers {
                return done;
            }
            done.push((s, work(s)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(some)).collect();
        let mut all = some();
        all.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()));
        all
    });
    all.sort_by_key(|(s, _)| *s);
    all.into_iter().map(|(_, done)| done).collect()
}

/// An interval that is longer than those of the pages that make 99.8 % of the freshness.
fn slowest(pages: &[Page], share: &Share) -> f64 {
    let fresh = |page: &Page| {
        let frequency = share.frequency(page);
        (1.0 / frequency, f64::from(page.weight) * page.change.freshness(frequency))
    };
    let mut all: Vec<(f64, f64)> =
        pages.iter().map(fresh).filter(|(interval, _)| interval.is_finite()).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut left = 0.998 * all.iter().map(|(_, fresh)| fresh).sum::<f64>();
    let found = all.iter().find(|(_, fresh)| {
        left -= fresh;
        left <= 0.0
    });
    found.map_or(0.0, |(interval, _)| *interval)
}

fn sum(repository: &Repository, all: Vec<Measured>, bins: usize) -> Outcome {
    let mut sum = Outcome {
        mean: 0.0,
        steady: 0.0,
        error: 0.0,
        curve: vec![0.0; bins],
        visits: 0,
        gap_least: f64::INFINITY,
        cut: 0.0,
    };
    let mut weight = 0.0;
    for (one, delay) in all.iter().zip(&repository.delays) {
        weight += one.weight;
        sum.steady += one.steady;
        sum.error += one.variance;
        sum.visits += one.visits;
        sum.cut += f64::from(u8::from(one.cut)) / all.len() as f64;
        sum.gap_least = sum.gap_least.min(one.gap_least / delay);
        sum.curve.iter_mut().zip(&one.bins).for_each(|(sum, bin)| *sum += bin);
    }
    sum.curve.iter_mut().for_each(|bin| *bin /= weight);
    sum.mean = sum.curve.iter().sum::<f64>() / bins as f64;
    Outcome { steady: sum.steady / weight, error: sum.error.sqrt() / weight, ..sum }
}
