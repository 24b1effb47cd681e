//! How evenly the channel is used: requests of all servers in windows of time, against Lemma 5.10.
//!
//! The lemma is about elements at equal intervals with random phases. With equal intervals per server they are as many
//! as servers; where pages have instants of their own, as many as pages, and the lemma says little.

use super::allocate::Allocation;
use super::policies::{Policy, table};
use super::repository::Repository;
use super::theorems::excess_probability;
use farol_frontier::revisit::select::Timetable;

/// Requests per window.
#[derive(Clone, Debug)]
pub struct Use {
    pub mean: f64,
    pub deviation: f64,
    /// The fullest window, above the mean.
    pub peak: f64,
    /// Share of windows further above the mean than the lemma allows in 10 % of windows.
    pub beyond: f64,
}

/// Windows that are looked at, and their length in delays.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub count: usize,
    pub delays: f64,
    /// Seconds before the first.
    pub after: f64,
}

/// Counts requests of all servers under a rule.
pub fn watch(repository: &Repository, allocation: &Allocation, policy: Policy, windows: &Windows) -> Use {
    let length = windows.delays * repository.delays.first().copied().unwrap_or(1.0);
    let mut counts = vec![0u32; windows.count];
    for s in 0..repository.delays.len() {
        let (mut table, _) = table(repository, allocation, s, policy, 1);
        while let Some(visit) = table.next() {
            let window = (visit.at - windows.after) / length;
            if window >= windows.count as f64 {
                break;
            }
            if window >= 0.0 {
                counts[window as usize] += 1;
            }
        }
    }
    let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / counts.len() as f64;
    let variance =
        counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / counts.len() as f64;
    let peak = counts.iter().copied().max().map_or(0.0, f64::from) - mean;
    let allowed = excess_at(repository.delays.len() as f64, 0.1);
    let beyond = counts.iter().filter(|count| f64::from(**count) > mean + allowed).count();
    Use { mean, deviation: variance.sqrt(), peak, beyond: beyond as f64 / counts.len() as f64 }
}

/// The excess above the mean that Lemma 5.10 allows with this probability, for n elements at equal intervals.
pub fn excess_at(n: f64, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0 * n + 100.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if excess_probability(n, middle) > probability { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisit::allocate::polite;
    use crate::revisit::repository::RepositoryConfig;

    #[test]
    fn equal_intervals_stay_within_the_lemma() {
        let config = RepositoryConfig { pages: 20_000, servers: 200, exponent: 0.25, delay: 60.0, seed: 2 };
        let repository = Repository::made(&config);
        for share in [0.01, 0.1, 0.9] {
            let best = polite(&repository.servers(), share * repository.channel_max()).unwrap();
            let windows = Windows { count: 400, delays: 5.0, after: 1e6 };
            let seen = watch(&repository, &best, Policy::Merge, &windows);
            let expected = best.rates.iter().sum::<f64>() * 300.0;
            assert!((seen.mean / expected - 1.0).abs() < 0.02, "{} and {expected}", seen.mean);
            assert!(seen.beyond < 0.1 && seen.peak < excess_at(200.0, 1e-4), "{seen:?}");
        }
    }

    #[test]
    fn the_excess_undoes_the_probability() {
        assert!((excess_probability(5_462.0, excess_at(5_462.0, 0.1)) - 0.1).abs() < 1e-9);
        assert!((excess_at(5_462.0, 0.1) - 158.5).abs() < 3.0, "{}", excess_at(5_462.0, 0.1));
    }
}
