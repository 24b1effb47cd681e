//! The planner that `farol` runs, on the lab's worlds: pages are visited when they are due, and nothing is in memory
//! of a page but when that is and what its record would hold.

use super::repository::Repository;
use super::world::{Crawler, Seen};
use farol_base::HostHash;
use farol_frontier::revisit::estimate::signal;
use farol_frontier::revisit::planner::{self, PageBelief, PlannerConfig, RevisitPlanner};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const DAY: f64 = 86_400.0;

/// `crawl.revisit_min` and `crawl.revisit_max` as they are where nobody sets them. The longest interval is longer where
/// the mean is.
const LEAST: f64 = DAY / 4.0;
const LONGEST: f64 = 60.0 * DAY;
const LONGEST_IN_MEANS: f64 = 4.0;

/// A crawler whose pages wait in a store.
pub struct PlannedCrawler {
    planner: RevisitPlanner,
    server_of: Vec<u32>,
    delays: Vec<f64>,
    free_at: Vec<f64>,
    beliefs: Vec<Option<PageBelief>>,
    /// Pages by when they are due, in milliseconds.
    due: BinaryHeap<Reverse<(u64, usize)>>,
}

impl PlannedCrawler {
    /// Finds the pages in turn at the pace of the channel, and knows nothing else of them.
    pub fn new(repository: &Repository, channel: f64) -> PlannedCrawler {
        let pages = repository.pages.len();
        let mean = pages as f64 / channel;
        let longest = LONGEST.max(LONGEST_IN_MEANS * mean);
        let servers = repository.delays.len();
        let server_of = (0..servers)
            .flat_map(|s| std::iter::repeat_n(s as u32, repository.starts[s + 1] - repository.starts[s]));
        PlannedCrawler {
            planner: RevisitPlanner::new(PlannerConfig { mean, least: LEAST, longest, discovery: 0.3 }),
            server_of: server_of.collect(),
            delays: repository.delays.clone(),
            free_at: vec![0.0; servers],
            beliefs: vec![None; pages],
            due: (0..pages).map(|page| Reverse(((page as f64 / channel * 1000.0) as u64, page))).collect(),
        }
    }
}

impl Crawler for PlannedCrawler {
    fn next(&mut self) -> Option<(f64, usize)> {
        loop {
            let Reverse((due, page)) = self.due.pop()?;
            let (due, server) = (due as f64 / 1000.0, self.server_of[page] as usize);
            if due < self.free_at[server] {
                self.due.push(Reverse(((self.free_at[server] * 1000.0).ceil() as u64, page)));
                continue;
            }
            self.free_at[server] = due + self.delays[server];
            return Some((due, page));
        }
    }

    fn seen(&mut self, page: usize, seen: &Seen) {
        if self.planner.is_unbalanced() {
            // Weights and delays were checked when the repository was read.
            let _ = self.planner.rebalance(0);
        }
        let server = self.server_of[page];
        let before = self.beliefs[page].zip(seen.before);
        let observed = signal::last_modified(seen.at, seen.before, seen.modified, seen.changed);
        let planned = self.planner.visited(&planner::Seen {
            host: HostHash(u64::from(server)),
            delay: self.delays[server as usize],
            now: seen.at,
            due: None,
            before,
            observed: before.and(observed),
            weight: 1.0,
        });
        // As it would come back from a disk.
        self.beliefs[page] = Some(PageBelief::from_bytes(planned.page_belief.to_bytes()));
        self.due.push(Reverse(((planned.due * 1000.0) as u64, page)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisit::history::History;
    use crate::revisit::intervals::{Intervals, Peer};
    use crate::revisit::world::{Replay, crawl};
    use farol_base::{Random, Seeded};

    const YEARS: f64 = 3.0 * 365.25 * DAY;

    /// Instants of changes, `rate` a day in the mean, between two days.
    fn changes(random: &mut Seeded, rate: f64, from: f64, upto: f64) -> Vec<f64> {
        let mut at = from * DAY;
        let next = |at: f64, random: &mut Seeded| at - (1.0 - random.unit()).ln() / rate * DAY;
        let mut all = Vec::new();
        loop {
            at = next(at, random);
            if at > (upto * DAY).min(YEARS) {
                return all;
            }
            all.push(at);
        }
    }

    fn history(changes: Vec<Vec<f64>>) -> History {
        let starts = (0..=10).map(|server| server * changes.len() / 10).collect();
        History { changes, starts, lasts: YEARS, begins: 0.0 }
    }

    /// Pages that change twice a day for two months, and then no more.
    fn early() -> History {
        let mut random = Seeded::new(4);
        history((0..100).map(|_| changes(&mut random, 2.0, 0.0, 60.0)).collect())
    }

    /// Those, pages that change at any rate from daily to yearly, pages that never do, and pages that change for a month
    /// of each year.
    fn mixed() -> History {
        let mut random = Seeded::new(5);
        let page = |number: usize| match number % 4 {
            0 => changes(&mut random, 2.0, 0.0, 60.0),
            1 => {
                let rate = 365f64.powf(-random.unit());
                changes(&mut random, rate, 0.0, f64::INFINITY)
            }
            2 => Vec::new(),
            _ => (0..3)
                .flat_map(|year| {
                    let from = 365.25 * (f64::from(year) + 0.9 * (number as f64 / 100.0));
                    changes(&mut random, 1.0, from, from + 30.0)
                })
                .collect(),
        };
        history((0..100).map(page).collect())
    }

    /// Notes when each page was visited last.
    struct Noted<C> {
        crawler: C,
        last: Vec<f64>,
    }

    impl<C: Crawler> Crawler for Noted<C> {
        fn next(&mut self) -> Option<(f64, usize)> {
            self.crawler.next()
        }

        fn seen(&mut self, page: usize, seen: &Seen) {
            self.last[page] = seen.at;
            self.crawler.seen(page, seen);
        }
    }

    #[test]
    fn the_budget_is_spent_no_page_is_given_up_and_none_of_it_is_worse_than_taking_turns() {
        for (name, history) in [("early", early()), ("mixed", mixed())] {
            let repository = history.repository(1.0);
            let pages = history.changes.len();
            for days in [60.0, 14.0, 3.0] {
                let channel = pages as f64 / (days * DAY);
                let ours = PlannedCrawler::new(&repository, channel);
                let mut ours = Noted { crawler: ours, last: vec![0.0; pages] };
                let (fresh, visits) = crawl(&mut Replay(&history), &mut ours, YEARS, 1);
                let mut turns = Intervals::new(Peer::RoundRobin, &repository, channel, |_| false);
                let (fresh_turns, _) = crawl(&mut Replay(&history), &mut turns, YEARS, 1);
                let share = |sum: f64| sum / YEARS / pages as f64;
                let (fresh, fresh_turns) = (share(fresh.sums[0]), share(fresh_turns.sums[0]));
                let spent = visits as f64 / (channel * YEARS);
                let oldest = ours.last.iter().copied().fold(f64::INFINITY, f64::min);
                let told =
                    format!("{name}, {days} days: {fresh:.4} beside {fresh_turns:.4}, {spent:.3} spent");
                println!("{told}, none unseen for more than {:.0} days", (YEARS - oldest) / DAY);
                assert!(fresh >= fresh_turns - 0.0005, "{told}");
                assert!((0.98..1.04).contains(&spent), "{told}");
                let longest = LONGEST.max(LONGEST_IN_MEANS * days * DAY);
                assert!(YEARS - oldest <= longest + DAY, "{told}: {} days", (YEARS - oldest) / DAY);
            }
        }
    }
}
