//! A crawler that does not know how often pages change: it starts from nothing and learns.

use super::repository::Repository;
use super::world::Crawler;
use farol_frontier::revisit::allocate::Page;
use farol_frontier::revisit::estimate::{Observed, Prior, bayes};
use farol_frontier::revisit::{Schedule, Turn};

const DAY: f64 = 86_400.0;

/// A schedule with what it believes of servers.
pub struct Learning {
    schedule: Schedule,
    starts: Vec<usize>,
    server_of: Vec<u32>,
    /// By server; empty where rates are known.
    priors: Vec<Prior>,
    whole: Prior,
    rebalance_at: f64,
    /// Prices are found again after so many days; the first times sooner.
    period: f64,
    pub rebalances: u32,
}

impl Learning {
    /// Knows everything.
    pub fn knowing(repository: &Repository, channel: f64) -> Learning {
        Learning::new(repository, channel, Vec::new(), |page| *page)
    }

    /// Knows nothing but weights.
    pub fn from_nothing(repository: &Repository, channel: f64) -> Learning {
        let priors = vec![Prior::default(); repository.delays.len()];
        Learning::new(repository, channel, priors, |page| Page { change: Prior::default().page(), ..*page })
    }

    fn new(
        repository: &Repository,
        channel: f64,
        priors: Vec<Prior>,
        known: impl Fn(&Page) -> Page,
    ) -> Learning {
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
            priors,
            whole: Prior::default(),
            rebalance_at: DAY,
            period: DAY,
            rebalances: 0,
        };
        learning.rebalance();
        learning
    }

    fn rebalance(&mut self) {
        self.rebalances += 1;
        // Weights were checked when the repository was read, so there is nothing that could be refused.
        let _ = self.schedule.rebalance();
    }

    fn learn_priors(&mut self) {
        let schedule = &self.schedule;
        let pages =
            |server: usize| schedule.server(server as u32).into_iter().flat_map(|server| server.pages());
        let all = (0..self.priors.len()).flat_map(pages).map(|page| &page.change);
        self.whole = Prior::fit(all, &Prior::default()).unwrap_or(self.whole);
        for server in 0..self.priors.len() {
            let pages = self.schedule.server(server as u32).into_iter().flat_map(|server| server.pages());
            let old = self.priors[server];
            let Some(new) = Prior::fit(pages.map(|page| &page.change), &self.whole) else { continue };
            self.priors[server] = new;
            self.schedule.update(server as u32, |page| page.change = old.moved(&new, page.change));
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
                self.period = (self.period * 1.5).min(20.0 * DAY);
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

    fn seen(&mut self, page: usize, at: f64, elapsed: Option<f64>, changed: bool) {
        let server = self.server_of[page];
        let turn = Turn { server, page: (page - self.starts[server as usize]) as u32 };
        let Some(mut known) = self.schedule.page(turn) else { return };
        if let (false, Some(elapsed)) = (self.priors.is_empty(), elapsed) {
            let observed = if changed { Observed::Changed } else { Observed::Unchanged };
            known.change = bayes::observe(known.change, elapsed, observed);
        }
        self.schedule.visited(turn, at, known);
    }
}
