//! The repository of the experiment: servers of power-law size, pages that change as pages were seen to change.
//!
//! WEBBASE itself is not to be had. This one has its counts (14.5 million pages on 5,462 servers); everything else is
//! made, and the report says so:
//!
//! - *Sizes*: Pareto, cut at the size that gives the wanted number of pages. Exponent 0.25 makes many servers of a few
//!   pages and puts most pages on a few hundred large ones.
//! - *Changes*: as a study saw them, and pages of a server are alike; see [`farol_synthetic::rates`].
//! - *Delay*: the P of \[Souza10\] is not known to us. With 60 s RANDOM comes to 0.84–0.89 of the bound, near
//!   its figures.

use super::tables::Table;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::Change;
use farol_frontier::revisit::allocate::{Page, Server};
use farol_synthetic::rates;

/// What a made repository is like.
#[derive(Clone, Debug, clap::Args)]
pub struct RepositoryConfig {
    /// Pages in all.
    #[arg(long, default_value_t = 14_500_000)]
    pub pages: u64,
    /// Servers.
    #[arg(long, default_value_t = 5_462)]
    pub servers: u64,
    /// Exponent of the sizes of servers: P(more than x pages) ~ x^-exponent.
    #[arg(long, default_value_t = 0.25)]
    pub exponent: f64,
    /// Least seconds between two requests to a server.
    #[arg(long, default_value_t = 60.0)]
    pub delay: f64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Pages by server. 12 bytes a page.
#[derive(Clone, Debug)]
pub struct Repository {
    pub pages: Vec<Page>,
    /// First page of each server, and the number of pages at the end.
    pub starts: Vec<usize>,
    pub delays: Vec<f64>,
}

impl Repository {
    pub fn made(config: &RepositoryConfig) -> Repository {
        let mut random = Seeded::new(config.seed);
        let mut pages = Vec::with_capacity(config.pages as usize);
        let mut starts = vec![0];
        for size in sizes(config) {
            let home = rates::class(random.unit());
            for _ in 0..size {
                let own = if random.unit() < 0.5 { home } else { rates::class(random.unit()) };
                // Who never changes has no draw of its own.
                let place = if rates::between(own, 0.0).is_finite() { random.unit() } else { 0.0 };
                let rate = 1.0 / rates::between(own, place);
                pages.push(Page { change: Change::known(rate).unwrap_or(Change::NEVER), weight: 1.0 });
            }
            starts.push(pages.len());
        }
        let delays = vec![config.delay; starts.len() - 1];
        Repository { pages, starts, delays }
    }

    /// From a table of rates, weights and servers.
    pub fn read(table: &Table, delay: f64) -> Repository {
        let mut repository = Repository { pages: Vec::new(), starts: vec![0], delays: Vec::new() };
        for pages in table.servers.values() {
            repository.pages.extend(pages.iter().copied());
            repository.starts.push(repository.pages.len());
            repository.delays.push(delay);
        }
        repository
    }

    pub fn servers(&self) -> Vec<Server<'_>> {
        let delays = self.delays.iter().enumerate();
        delays.map(|(s, delay)| Server { delay: *delay, pages: self.server(s) }).collect()
    }

    pub fn server(&self, s: usize) -> &[Page] {
        &self.pages[self.starts[s]..self.starts[s + 1]]
    }

    /// The most visits per second that all servers bear.
    pub fn channel_max(&self) -> f64 {
        self.delays.iter().map(|delay| 1.0 / delay).sum()
    }

    /// Every `step`-th server by size: a repository of the same kind, smaller.
    pub fn every(&self, step: usize) -> Repository {
        let mut by_size: Vec<usize> = (0..self.delays.len()).collect();
        by_size.sort_by_key(|s| self.starts[s + 1] - self.starts[*s]);
        let mut some = Repository { pages: Vec::new(), starts: vec![0], delays: Vec::new() };
        for s in by_size.into_iter().skip(step / 2).step_by(step) {
            some.pages.extend_from_slice(self.server(s));
            some.starts.push(some.pages.len());
            some.delays.push(self.delays[s]);
        }
        some
    }
}

/// Sizes of servers at even quantiles of the cut Pareto distribution, so that chance has no part in the largest.
fn sizes(config: &RepositoryConfig) -> Vec<u64> {
    let at = |cut: f64| -> Vec<u64> {
        let quantile = |k: u64| (k as f64 + 0.5) / config.servers as f64;
        let size = |q: f64| (1.0 - q * (1.0 - cut.powf(-config.exponent))).powf(-1.0 / config.exponent);
        (0..config.servers).map(|k| (size(quantile(k)).round() as u64).max(1)).collect()
    };
    let (mut low, mut high) = (1.0f64, config.pages as f64 * 100.0);
    for _ in 0..80 {
        let cut = (low * high).sqrt();
        if at(cut).iter().sum::<u64>() < config.pages { low = cut } else { high = cut }
    }
    let mut sizes = at(high);
    // The largest takes what rounding left.
    let rest: u64 = sizes.iter().rev().skip(1).sum();
    if let Some(largest) = sizes.last_mut() {
        *largest = config.pages.saturating_sub(rest).max(1);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_repository_has_the_counts_and_classes_it_should() {
        let config = RepositoryConfig { pages: 200_000, servers: 100, exponent: 0.25, delay: 60.0, seed: 3 };
        let repository = Repository::made(&config);
        assert_eq!((repository.pages.len(), repository.delays.len()), (200_000, 100));
        let never = repository.pages.iter().filter(|page| page.change.rate() == 0.0).count();
        // Kinship makes a hundred servers few draws.
        assert!((0.05..0.30).contains(&(never as f64 / 200_000.0)), "{never} never change");
        let largest = (0..100).map(|s| repository.server(s).len()).max();
        let smallest = (0..100).map(|s| repository.server(s).len()).min();
        assert!(largest > Some(10_000) && smallest < Some(10), "{smallest:?} to {largest:?}");
        let half = repository.every(2);
        assert_eq!(half.delays.len(), 50);
    }
}
