//! A crawler that does not know how often pages change: it starts from nothing and learns.

use super::repository::Repository;
use super::schedule::{PageOfServer, Schedule};
use super::world::{Crawler, Seen};
use farol_frontier::revisit::Change;
use farol_frontier::revisit::allocate::Page;
use farol_frontier::revisit::estimate::{Evidence, Prior, signal};

const DAY: f64 = 86_400.0;

/// A schedule with what it believes of servers.
pub struct Learning {
    schedule: Schedule,
    starts: Vec<usize>,
    server_of: Vec<u32>,
    /// By page; empty where rates are known.
    evidence: Vec<Evidence>,
    priors: Vec<Prior>,
    whole: Prior,
    rebalance_at: f64,
    /// Prices are found again after so many days; the first times sooner.
    period: f64,
}

/// What a visit is thought to be worth before there is a price.
const PRICE_FIRST: f64 = DAY;

impl Learning {
    /// Knows everything.
    pub fn knowing(repository: &Repository, channel: f64) -> Learning {
        Learning::new(repository, channel, |page| *page)
    }

    /// Knows nothing but weights.
    pub fn from_nothing(repository: &Repository, channel: f64) -> Learning {
        let change = Prior::default().belief(&Evidence::default()).change(PRICE_FIRST);
        let mut learning = Learning::new(repository, channel, |page| Page { change, ..*page });
        learning.evidence = vec![Evidence::default(); repository.pages.len()];
        learning.priors = vec![Prior::default(); repository.delays.len()];
        learning
    }

    fn new(repository: &Repository, channel: f64, known: impl Fn(&Page) -> Page) -> Learning {
        let mut schedule = Schedule::new(channel);
        let mut server_of = Vec::with_capacity(repository.pages.len());
        for (s, delay) in repository.delays.iter().enumerate() {
            let phase = (s as f64 * 0.618_033_988_749_894_9).fract();
            let server = schedule.add_server(*delay, phase);
            for page in repository.server(s) {
                schedule.add_page(server, known(page), None);
                server_of.push(server);
            }
        }
        let mut learning = Learning {
            schedule,
            starts: repository.starts.clone(),
            server_of,
            evidence: Vec::new(),
            priors: Vec::new(),
            whole: Prior::default(),
            rebalance_at: DAY,
            period: DAY,
        };
        learning.rebalance();
        learning
    }

    fn rebalance(&mut self) {
        // Weights were checked when the repository was read, so there is nothing that could be refused.
        let _ = self.schedule.rebalance();
    }

    /// What is believed of a page, at the price of its server, and whether it is worth a probe.
    fn believed(&self, server: usize, page: usize, weight: f32) -> (Change, Option<f64>) {
        let price = self.schedule.server(server as u32).map_or(PRICE_FIRST, |server| server.price().0);
        let price = price / f64::from(weight).max(1e-6);
        let belief = self.priors[server].belief(&self.evidence[page]);
        (belief.change(price), belief.probe(price))
    }

    fn learn_priors(&mut self) {
        self.whole = self.whole.fit(self.evidence.iter(), &Prior::default());
        for server in 0..self.priors.len() {
            let pages = self.starts[server]..self.starts[server + 1];
            self.priors[server] = self.priors[server].fit(self.evidence[pages.clone()].iter(), &self.whole);
            let Some(known) = self.schedule.server(server as u32) else { continue };
            let weights = known.pages().iter().map(|page| page.weight);
            let changes: Vec<Change> =
                pages.zip(weights).map(|(page, weight)| self.believed(server, page, weight).0).collect();
            let mut changes = changes.into_iter();
            self.schedule.update(server as u32, |page| page.change = changes.next().unwrap_or(page.change));
        }
    }
}

impl Crawler for Learning {
    fn next(&mut self) -> Option<(f64, usize)> {
        loop {
            let at = self.schedule.next_at();
            if !self.priors.is_empty() && at.is_none_or(|at| at >= self.rebalance_at) {
                self.learn_priors();
                self.rebalance();
                self.period = (self.period * 1.5).min(30.0 * DAY);
                self.rebalance_at += self.period;
                if at.is_none() && self.rebalance_at > 1e10 {
                    return None;
                }
                continue;
            }
            let at = at?;
            if let Some(turn) = self.schedule.take(at) {
                return Some((at, self.starts[turn.server as usize] + turn.page as usize));
            }
        }
    }

    fn seen(&mut self, page: usize, seen: &Seen) {
        let server = self.server_of[page];
        let turn = PageOfServer { server, page: (page - self.starts[server as usize]) as u32 };
        let Some(mut known) = self.schedule.page(turn) else { return };
        let mut probe = None;
        let told = signal::last_modified(seen.at, seen.before, seen.modified, seen.changed);
        if let (false, Some(told)) = (self.priors.is_empty(), told) {
            self.evidence[page].observe(seen.before.map_or(0.0, |before| seen.at - before), told);
            (known.change, probe) = self.believed(server as usize, page, known.weight);
        }
        self.schedule.visited(turn, seen.at, known, probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisit::repository::RepositoryConfig;
    use crate::revisit::world::{Chance, crawl};
    use farol_base::Seeded;

    const YEAR: f64 = 365.25 * DAY;

    /// Fresh time in the second of two years.
    fn second_year(repository: &Repository, mut crawler: Learning, dated: f64) -> f64 {
        let mut world = Chance { pages: &repository.pages, dated, random: Seeded::new(7) };
        let (fresh, _) = crawl(&mut world, &mut crawler, 2.0 * YEAR, 2);
        fresh.sums[1]
    }

    #[test]
    fn after_a_year_learnt_rates_are_nearly_as_good_as_known_ones() {
        for seed in [1, 2] {
            let config = RepositoryConfig { pages: 1_500, servers: 12, exponent: 1.5, delay: 60.0, seed };
            let repository = Repository::made(&config);
            // A visit a week.
            let channel = 1_500.0 * 52.0 / YEAR;
            let known = second_year(&repository, Learning::knowing(&repository, channel), 0.0);
            for dated in [0.0, 0.5] {
                let learnt = second_year(&repository, Learning::from_nothing(&repository, channel), dated);
                assert!(learnt > 0.97 * known, "{:.4} of it, {dated} dated, seed {seed}", learnt / known);
            }
        }
    }
}
