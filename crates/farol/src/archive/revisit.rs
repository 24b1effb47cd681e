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
    /// The least time between two requests to the host, where it is known; otherwise the operator's setting counts.
    pub pace: Option<Duration>,
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
            rebalanced: Instant::now(),
            began: None,
        }
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
            let (delay, now) = (self.delay_min.as_secs_f64(), secs(now));
            urls.walk(Walk::Visited, &mut |host, path, record| {
                let (page_belief, last) = (PageBelief::from_bytes(record.memo), secs(record.last_visit));
                planner.recall(host.hash(), delay, &page_belief, last, now);
                also(host, path, record);
            })?;
        }
        self.planner = planner;
        self.rebalance(urls.counts().waiting);
        Ok(())
    }

    /// Says when a page is visited next, and what to remember of it.
    pub fn visited(&mut self, facts: &Facts<'_>) -> ([u8; 8], Timestamp) {
        let now = secs(facts.now);
        let host = facts.url.host_hash();
        let seen_before = facts.before.filter(|record| record.visits > 0);
        let before = seen_before.map(|record| (PageBelief::from_bytes(record.memo), secs(record.last_visit)));
        let is_there = matches!(facts.outcome, VisitOutcome::Page | VisitOutcome::Unchanged) && facts.is_page;
        if !is_there {
            let memo = before.map(|(memo, last)| self.planner.lost(host, memo, last, now).to_bytes());
            return (memo.unwrap_or_default(), self.by_interval(facts));
        }
        let observed = match (seen_before, before) {
            // After a miss nobody knows since when it is as it is.
            (Some(record), _) if record.state != State::Collected || record.failures > 0 => None,
            (_, before) => {
                let last = before.map(|(_, last)| last);
                signal::last_modified(now, last, facts.modified.map(secs), facts.changed)
            }
        };
        let delay = facts.pace.unwrap_or_default().max(self.delay_min).as_secs_f64();
        // What came due while nobody was there says nothing of how late visits are.
        let due = seen_before.map(|record| record.due);
        let due = due.filter(|due| self.began.is_some_and(|began| *due >= began)).map(secs);
        let seen = Seen { host, delay, now, due, before, observed, weight: weight_of(facts) };
        let Planned { page_belief, due } = self.planner.visited(&seen);
        let due = match self.kind {
            RevisitKind::Optimal => after(facts.now, due - now),
            RevisitKind::Interval => self.by_interval(facts),
        };
        (page_belief.to_bytes(), due)
    }

    fn by_interval(&self, facts: &Facts<'_>) -> Timestamp {
        let visits = facts.before.map_or(0, |record| record.visits);
        let missed = matches!(facts.outcome, VisitOutcome::Gone | VisitOutcome::Failed);
        let since = |record: &Record| facts.now.since(record.last_visit);
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
        self.interval.next_visit(facts.now, &history)
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
        shown(self.planner.freshness(secs(now)))
    }

    pub fn host_freshness(&self, host: &Host, now: Timestamp) -> Option<Freshness> {
        shown(self.planner.host_freshness(host.hash(), secs(now))?)
    }

    /// Why a page is visited when it is.
    pub fn explain(&self, url: &CanonicalUrl, record: &Record, now: Timestamp) -> Reason {
        let memo = PageBelief::from_bytes(record.memo);
        self.planner.explain(url.host_hash(), &memo, secs(record.last_visit), secs(now))
    }
}

/// An instant as the planner counts it.
fn secs(at: Timestamp) -> f64 {
    at.as_millis() as f64 / 1000.0
}

fn after(now: Timestamp, secs: f64) -> Timestamp {
    let secs = Duration::try_from_secs_f64(secs.max(0.0));
    secs.map_or(Timestamp::NEVER, |secs| now + secs)
}

fn shown((pages, sum): (u64, FreshnessSum)) -> Option<Freshness> {
    (sum.weight > 0.0).then(|| Freshness {
        pages,
        fresh: (sum.fresh / sum.weight).clamp(0.0, 1.0),
        age: Duration::try_from_secs_f64(sum.age / sum.weight).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::replay::tests::exchange;
    use crate::archive::{ArchivedVisit, FollowerSet, Opened};
    use crate::fabric::Fabric;
    use crate::folder::Folder;
    use farol_base::{ContentHash, PagePosition};
    use farol_store::urls::{Naive, Visit};
    use farol_synthetic::{Page, WebConfig, World};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// A Web of 800 pages that change, crawled in simulated time.
    struct SimulatedCrawl {
        world: World,
        urls: Naive,
        hosts: Vec<SimulatedHost>,
    }

    #[derive(Clone)]
    struct SimulatedHost {
        /// Its pages by when they are due.
        due: BinaryHeap<Reverse<(Timestamp, Page)>>,
        /// When it may be asked next.
        free: Timestamp,
    }

    impl SimulatedHost {
        /// When its next visit can be made.
        fn next(&self) -> Timestamp {
            self.due.peek().map_or(Timestamp::NEVER, |Reverse((at, _))| *at.max(&self.free))
        }
    }

    const DELAY: Duration = Duration::from_secs(400);

    fn config(kind: RevisitKind) -> Config {
        let mut config = Config::default();
        let span = |text: &str| text.parse().unwrap();
        let crawl = &mut config.crawl;
        (crawl.revisit, crawl.revisit_mean, crawl.revisit_min) = (kind, span("600s"), span("600s"));
        (crawl.revisit_first, crawl.revisit_max, crawl.delay_min) = (span("1h"), span("1440h"), span("400s"));
        config
    }

    fn url_of(page: Page) -> CanonicalUrl {
        CanonicalUrl::parse(&format!("http://h{}/{}", page.host, page.number)).unwrap()
    }

    impl SimulatedCrawl {
        fn new() -> SimulatedCrawl {
            let config = WebConfig { hosts: 30, pages: 800, skew: 0.3, ..WebConfig::tame() };
            let world = World::new(WebConfig { change_rate: 3.0, ..config }).unwrap();
            let start = world.clock(Duration::ZERO);
            let host = SimulatedHost { due: BinaryHeap::new(), free: start };
            let mut hosts = vec![host; world.hosts() as usize];
            world.all_pages().for_each(|page| hosts[page.host as usize].due.push(Reverse((start, page))));
            SimulatedCrawl { world, urls: Naive::new(), hosts }
        }

        /// Makes all visits that are due before `end`, in their order.
        fn visit_until(&mut self, end: Timestamp, revisits: &mut Revisits) {
            loop {
                let soonest = self.hosts.iter_mut().min_by_key(|host| host.next()).unwrap();
                let now = soonest.next();
                if now >= end {
                    return;
                }
                let Some(Reverse((_, page))) = soonest.due.pop() else { unreachable!("it is due") };
                let (url, before) = (url_of(page), self.urls.get(&url_of(page)).unwrap());
                let content_hash = ContentHash::of(&self.world.version(page, now).number.to_be_bytes());
                let changed = before.as_ref().is_none_or(|record| record.content_hash != content_hash);
                if revisits.planner.is_unbalanced() {
                    revisits.rebalance(0);
                }
                let (before, outcome) = (before.as_ref(), VisitOutcome::Page);
                let (memo, due) = revisits.visited(&Facts {
                    url: &url,
                    now,
                    before,
                    outcome,
                    changed,
                    is_page: true,
                    modified: None,
                    pace: None,
                    rank: 0.0,
                    clicks: 1.0,
                });
                let position = Some(PagePosition::default());
                let download = Duration::ZERO;
                let visit = Visit { at: now, outcome, content_hash, changed, position, download, due, memo };
                self.urls.visited(&url, &visit).unwrap();
                soonest.due.push(Reverse((due, page)));
                soonest.free = now + DELAY;
            }
        }

        /// The share of pages that are at `now` what they were when they were visited last.
        fn truly_fresh(&self, now: Timestamp) -> f64 {
            let is_fresh = |page: &Page| {
                let seen = self.urls.get(&url_of(*page)).unwrap().unwrap().last_visit;
                self.world.version(*page, seen).number == self.world.version(*page, now).number
            };
            self.world.all_pages().filter(is_fresh).count() as f64 / self.world.pages() as f64
        }
    }

    /// Takes in a host's thirty pages, visited at this pace, and says whether it bears the revisits that they are worth.
    fn bears_thirty_pages(opened: &mut Opened, host: &str, pace: Option<Duration>) -> bool {
        let Opened { followers, interpreter, .. } = opened;
        for number in 0..30 {
            let exchange = exchange(&format!("http://{host}/{number}"), &format!("text {number}"));
            let visit = ArchivedVisit {
                url: &exchange.url,
                status: exchange.status,
                fetched: exchange.fetched,
                download: Duration::ZERO,
                position: PagePosition::default(),
                robots: None,
                pace,
                received: false,
            };
            followers.apply(&visit, interpreter.interpret(&exchange, 0), FollowerSet::ALL).unwrap();
        }
        followers.revisits.rebalance(0);
        let first = exchange(&format!("http://{host}/0"), "");
        let record = followers.urls.get(&first.url).unwrap().unwrap();
        !followers.revisits.explain(&first.url, &record, first.fetched).saturated
    }

    #[test]
    fn a_host_bears_what_the_pace_of_its_visits_allows() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        let fabric = Fabric::local(&folder.tables()).unwrap();
        let mut opened = crate::archive::open(&folder, &Config::default(), fabric, false).unwrap();
        // Thirty pages, each once a week, are one visit in 5.6 hours; the setting is a second.
        let hour = Duration::from_secs(3600);
        assert!(bears_thirty_pages(&mut opened, "replayed.org", None));
        assert!(bears_thirty_pages(&mut opened, "quick.org", Some(hour)));
        assert!(!bears_thirty_pages(&mut opened, "slow.org", Some(24 * hour)));
        // The host's last visit counts: it has the address for itself again.
        assert!(bears_thirty_pages(&mut opened, "slow.org", Some(hour)));
    }

    #[track_caller]
    fn check_said_is_true(kind: RevisitKind) {
        let (mut crawl, mut revisits) = (SimulatedCrawl::new(), Revisits::new(&config(kind)));
        let start = crawl.world.clock(Duration::ZERO);
        revisits.recall(&mut crawl.urls, start, &mut |_, _, _| ()).unwrap();
        let (mut said, mut truly, mut samples) = (0.0, 0.0, 0.0);
        // 33 hours, the last 11 of them measured every half hour.
        for half_hour in 1..=66 {
            let now = start + Duration::from_secs(1800 * half_hour);
            crawl.visit_until(now, &mut revisits);
            if half_hour > 44 {
                let freshness = revisits.freshness(now).unwrap();
                assert_eq!(freshness.pages, 800);
                said += freshness.fresh;
                truly += crawl.truly_fresh(now);
                samples += 1.0;
            }
        }
        let (said, truly) = (said / samples, truly / samples);
        assert!((said - truly).abs() < 0.05, "{kind:?}: it says {said}, the truth is {truly}");
        assert!((0.2..0.95).contains(&truly), "{kind:?}: {truly}");
        // What was learnt is there after a restart.
        let now = start + Duration::from_secs(1800 * 66);
        let before = revisits.freshness(now).unwrap();
        let mut again = Revisits::new(&config(kind));
        again.recall(&mut crawl.urls, now, &mut |_, _, _| ()).unwrap();
        let after = again.freshness(now).unwrap();
        assert_eq!(after.pages, before.pages);
        assert!((after.fresh - before.fresh).abs() < 0.01, "{kind:?}: {before:?}, then {after:?}");
    }

    #[test]
    fn what_is_said_of_freshness_is_true_with_planned_visits() {
        check_said_is_true(RevisitKind::Optimal);
    }

    #[test]
    fn what_is_said_of_freshness_is_true_with_the_interval_rule() {
        check_said_is_true(RevisitKind::Interval);
    }
}
