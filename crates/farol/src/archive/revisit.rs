//! When pages are visited again: what visits bring goes into the planner, and due times come out.
//!
//! The rules are in `farol_frontier::revisit`; this turns records and clocks into what they want. Pages that are there
//! follow the planner (or the interval rule, where the operator prefers it); pages that are gone or cannot be had, and
//! addresses that are no pages, follow the interval rule.

use crate::config::{Config, RevisitKind};
use anyhow::Result;
use farol_base::status::Freshness;
use farol_base::{CanonicalUrl, Host, Timestamp};
use farol_frontier::revisit::estimate::signal;
use farol_frontier::revisit::planner::{PageBelief, Planned, PlannerConfig, Reason, RevisitPlanner, Seen};
use farol_frontier::revisit::{Freshness as FreshnessSum, History, Interval, RevisitPolicy, Visited};
use farol_store::urls::{Record, State, UrlStore, VisitOutcome, Walk};
use std::time::{Duration, Instant};

/// Prices are found again at most this often.
const REBALANCE_EVERY: Duration = Duration::from_secs(2);

/// Plans revisits.
pub struct Revisits {
    kind: RevisitKind,
    interval: Interval,
    rules: PlannerConfig,
    planner: RevisitPlanner,
    delay_min: Duration,
    /// Seconds of the planner in one of the clock.
    speed: f64,
    rebalanced: Instant,
    /// When this process began to visit.
    began: Option<Timestamp>,
}

/// A visit, as far as the next one is concerned.
pub struct Facts<'a> {
    pub url: &'a CanonicalUrl,
    pub now: Timestamp,
    pub before: Option<&'a Record>,
    pub outcome: VisitOutcome,
    pub changed: bool,
    /// A page rather than a list of addresses.
    pub is_page: bool,
    /// As the server says.
    pub modified: Option<Timestamp>,
    /// What the host asks for between two requests, where it does.
    pub delay: Option<Duration>,
    /// How well linked the page is, from 0 to 1.
    pub rank: f32,
    /// How many times as much it counts because people open it.
    pub clicks: f64,
}

/// The page most linked to counts eight times as much as one that nobody links to; clicks come on top.
fn weight_of(facts: &Facts<'_>) -> f64 {
    (3.0 * f64::from(facts.rank.clamp(0.0, 1.0))).exp2() * facts.clicks
}

impl Revisits {
    pub fn new(config: &Config) -> Revisits {
        let crawl = &config.crawl;
        let rules = PlannerConfig {
            mean: crawl.revisit_mean.get().as_secs_f64().max(1.0),
            least: crawl.revisit_min.get().as_secs_f64().max(1.0),
            longest: crawl.revisit_max.get().as_secs_f64().max(1.0),
            discovery: crawl.discovery.clamp(0.0, 0.9),
        };
        Revisits {
            kind: crawl.revisit,
            interval: Interval {
                first: crawl.revisit_first.get(),
                least: crawl.revisit_min.get(),
                longest: crawl.revisit_max.get(),
                ..Interval::default()
            },
            rules,
            planner: RevisitPlanner::new(rules),
            delay_min: crawl.delay_min.get(),
            speed: crawl.revisit_clock.max(1e-3),
            rebalanced: Instant::now(),
            began: None,
        }
    }

    fn secs(&self, at: Timestamp) -> f64 {
        at.as_millis() as f64 / 1000.0 * self.speed
    }

    fn after(&self, now: Timestamp, secs: f64) -> Timestamp {
        let secs = Duration::try_from_secs_f64(secs.max(0.0) / self.speed);
        secs.map_or(Timestamp::NEVER, |secs| now + secs)
    }

    /// Reads what the records of visited pages say, as when a crawl begins, and shows each to `also`.
    pub fn recall(
        &mut self,
        urls: &mut dyn UrlStore,
        now: Timestamp,
        also: &mut dyn FnMut(&Host, &str, &Record),
    ) -> Result<()> {
        self.began = Some(now);
        let mut planner = RevisitPlanner::new(self.rules);
        let counts = urls.counts();
        if counts.collected + counts.unmerged > 0 {
            urls.compact_all()?;
            let (delay, now) = (self.delay_min.as_secs_f64() * self.speed, self.secs(now));
            urls.walk(Walk::Visited, &mut |host, path, record| {
                let (memo, last) = (PageBelief::from_bytes(record.memo), self.secs(record.last_visit));
                planner.recall(host.hash(), delay, &memo, last, now);
                also(host, path, record);
            })?;
        }
        self.planner = planner;
        self.rebalance(urls.counts().waiting);
        Ok(())
    }

    /// Says when a page is visited next, and what to remember of it.
    pub fn visited(&mut self, facts: &Facts<'_>) -> ([u8; 8], Timestamp) {
        let now = self.secs(facts.now);
        let host = facts.url.host_hash();
        let seen_before = facts.before.filter(|record| record.visits > 0);
        let before =
            seen_before.map(|record| (PageBelief::from_bytes(record.memo), self.secs(record.last_visit)));
        let is_there = matches!(facts.outcome, VisitOutcome::Page | VisitOutcome::Unchanged) && facts.is_page;
        if !is_there {
            let memo = before.map(|(memo, last)| self.planner.lost(host, memo, last, now).to_bytes());
            return (memo.unwrap_or_default(), self.by_interval(facts));
        }
        // In accelerated time, dates of other clocks mean nothing.
        let modified = facts.modified.filter(|_| self.speed == 1.0).map(|at| self.secs(at));
        let observed = match (seen_before, before) {
            // After a miss nobody knows since when it is as it is.
            (Some(record), _) if record.state != State::Collected || record.failures > 0 => None,
            (_, before) => signal::last_modified(now, before.map(|(_, last)| last), modified, facts.changed),
        };
        let delay = facts.delay.unwrap_or_default().max(self.delay_min).as_secs_f64() * self.speed;
        // What came due while nobody was there says nothing of how late visits are.
        let due = seen_before.map(|record| record.due);
        let due = due.filter(|due| self.began.is_some_and(|began| *due >= began)).map(|due| self.secs(due));
        let seen = Seen { host, delay, now, due, before, observed, weight: weight_of(facts) };
        let Planned { memo, due } = self.planner.visited(&seen);
        let due = match self.kind {
            RevisitKind::Optimal => self.after(facts.now, due - now),
            RevisitKind::Interval => self.by_interval(facts),
        };
        (memo.to_bytes(), due)
    }

    fn by_interval(&self, facts: &Facts<'_>) -> Timestamp {
        let visits = facts.before.map_or(0, |record| record.visits);
        let missed = matches!(facts.outcome, VisitOutcome::Gone | VisitOutcome::Failed);
        let since = |record: &Record| {
            let secs = self.speed * facts.now.since(record.last_visit).as_secs_f64();
            Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX)
        };
        let history = History {
            visited: match facts.outcome {
                VisitOutcome::Gone => Visited::Gone,
                VisitOutcome::Failed => Visited::Failed,
                _ if visits == 0 => Visited::New,
                _ if facts.changed => Visited::Changed,
                _ => Visited::Unchanged,
            },
            since_last: facts.before.filter(|_| visits > 0).map(since),
            misses: match facts.before {
                // The store counts failures in a row; a page gone before is gone at least once more.
                Some(record) if missed => {
                    u32::from(record.failures) + 1 + u32::from(record.state == State::Gone) * visits
                }
                _ => u32::from(missed),
            },
        };
        match self.interval.next_visit(facts.now, &history) {
            Timestamp::NEVER => Timestamp::NEVER,
            due => self.after(facts.now, due.since(facts.now).as_secs_f64()),
        }
    }

    pub fn forget(&mut self, host: &Host) {
        self.planner.forget(host.hash());
    }

    /// Finds prices again where enough has moved.
    pub fn keep_balance(&mut self, waiting: u64) {
        if self.planner.is_unbalanced() && self.rebalanced.elapsed() >= REBALANCE_EVERY {
            self.rebalance(waiting);
        }
    }

    fn rebalance(&mut self, waiting: u64) {
        self.rebalanced = Instant::now();
        if let Err(error) = self.planner.rebalance(waiting) {
            tracing::warn!(error = %error, "the price of visits stays as it is");
        }
    }

    /// How fresh everything is believed to be.
    pub fn freshness(&self, now: Timestamp) -> Option<Freshness> {
        self.shown(self.planner.freshness(self.secs(now)))
    }

    pub fn host_freshness(&self, host: &Host, now: Timestamp) -> Option<Freshness> {
        self.shown(self.planner.host_freshness(host.hash(), self.secs(now))?)
    }

    fn shown(&self, (pages, sum): (u64, FreshnessSum)) -> Option<Freshness> {
        (sum.weight > 0.0).then(|| Freshness {
            pages,
            fresh: (sum.fresh / sum.weight).clamp(0.0, 1.0),
            age: Duration::try_from_secs_f64(sum.age / sum.weight / self.speed).unwrap_or_default(),
        })
    }

    /// Why a page is visited when it is; times are of the clock.
    pub fn explain(&self, url: &CanonicalUrl, record: &Record, now: Timestamp) -> Reason {
        let memo = PageBelief::from_bytes(record.memo);
        let host = url.host_hash();
        let reason = self.planner.explain(host, &memo, self.secs(record.last_visit), self.secs(now));
        Reason {
            rate: reason.rate * self.speed,
            worth: reason.worth / self.speed,
            price: reason.price / self.speed,
            interval: reason.interval / self.speed,
            ..reason
        }
    }
}
