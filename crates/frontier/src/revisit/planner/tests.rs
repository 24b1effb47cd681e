//! The planner on small worlds of pages that change.

use super::*;
use crate::revisit::{History, Interval, RevisitPolicy, Visited};
use farol_base::{Random, Seeded, Timestamp};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

const RULES: PlannerConfig =
    PlannerConfig { mean: 8.0 * DAY, least: HOUR, longest: 100.0 * DAY, discovery: 0.3 };

struct LivePage {
    host: u64,
    rate: f64,
    /// When it changes next, and whether our copy is what it is.
    changes: f64,
    is_true: bool,
    last: f64,
}

/// Pages on hosts that change at very different rates, and how fresh a rule keeps them.
struct World {
    pages: Vec<LivePage>,
    random: Seeded,
}

/// Told of page, instant and whether the page had changed, says when to come again.
type Rule<'a> = &'a mut dyn FnMut(usize, &LivePage, f64, Option<bool>) -> f64;

/// What came of a run, over its second half.
#[derive(Debug)]
struct Run {
    truly_fresh: f64,
    believed: f64,
    visits_per_day: f64,
}

impl World {
    fn new(pages: usize, hosts: u64) -> World {
        let mut random = Seeded::new(8);
        let page = |number: usize| {
            let rate = 10f64.powf(-0.5 - 3.0 * random.unit()) / (0.25 * DAY);
            LivePage { host: number as u64 % hosts, rate, changes: 0.0, is_true: false, last: 0.0 }
        };
        let pages = (0..pages).map(page).collect();
        World { pages, random }
    }

    /// Pages as a study of the Web saw them: a quarter changes once a day to once an hour, and 46 % not once in a month.
    fn studied(pages: usize, hosts: u64) -> World {
        // Share of pages, least and greatest days between changes.
        let classes = [(0.23, 1.0 / 24.0, 1.0), (0.15, 1.0, 7.0), (0.16, 7.0, 30.0), (0.46, 30.0, 3_000.0)];
        let mut world = World::new(pages, hosts);
        for page in &mut world.pages {
            let mut left = world.random.unit();
            let found = classes.iter().find(|(share, _, _)| {
                left -= share;
                left < 0.0
            });
            let (_, least, greatest) = found.copied().unwrap_or(classes[3]);
            page.rate = 1.0 / (DAY * least * f64::powf(greatest / least, world.random.unit()));
        }
        world
    }

    /// Runs `days`.
    fn run(mut self, days: f64, visit: Rule<'_>, believed: &mut dyn FnMut(f64) -> f64) -> Run {
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        for (number, page) in self.pages.iter_mut().enumerate() {
            page.changes = -(1.0 - self.random.unit()).ln() / page.rate;
            queue.push(Reverse(((self.random.unit() * DAY * 1000.0) as u64, number)));
        }
        let (mut sampled, mut run) = (0.0, Run { truly_fresh: 0.0, believed: 0.0, visits_per_day: 0.0 });
        let (mut samples, half) = (0.0, days / 2.0 * DAY);
        while let Some(Reverse((at, number))) = queue.pop() {
            let now = at as f64 / 1000.0;
            if now > days * DAY {
                break;
            }
            if now - sampled > DAY && now > half {
                sampled = now;
                self.forward(now);
                let fresh = self.pages.iter().filter(|page| page.is_true).count();
                run.truly_fresh += fresh as f64 / self.pages.len() as f64;
                run.believed += believed(now);
                samples += 1.0;
            }
            run.visits_per_day += f64::from(u8::from(now > half)) / (days / 2.0);
            self.forward_one(number, now);
            let page = &mut self.pages[number];
            let changed = (page.last > 0.0).then_some(!page.is_true);
            let next = visit(number, page, now, changed);
            (page.is_true, page.last) = (true, now);
            queue.push(Reverse(((next * 1000.0) as u64, number)));
        }
        (run.truly_fresh, run.believed) = (run.truly_fresh / samples, run.believed / samples);
        run
    }

    fn forward(&mut self, now: f64) {
        (0..self.pages.len()).for_each(|number| self.forward_one(number, now));
    }

    fn forward_one(&mut self, number: usize, now: f64) {
        let page = &mut self.pages[number];
        while page.changes < now {
            page.is_true = false;
            page.changes += -(1.0 - self.random.unit()).ln() / page.rate;
        }
    }
}

fn planned_world(pages: usize, hosts: u64, delay: f64, days: f64) -> (Run, RevisitPlanner) {
    planned_late(pages, hosts, delay, days, 0.0)
}

/// Every visit is made so many seconds after it was due.
fn planned_late(pages: usize, hosts: u64, delay: f64, days: f64, late: f64) -> (Run, RevisitPlanner) {
    planned(World::new(pages, hosts), RULES, delay, days, late)
}

fn planned(world: World, rules: PlannerConfig, delay: f64, days: f64, late: f64) -> (Run, RevisitPlanner) {
    let mut beliefs: Vec<Option<PageBelief>> = vec![None; world.pages.len()];
    let planner = std::cell::RefCell::new(RevisitPlanner::new(rules));
    let run = world.run(
        days,
        &mut |number, page, now, changed| {
            let mut planner = planner.borrow_mut();
            if planner.is_unbalanced() {
                planner.rebalance(0).unwrap();
            }
            let observed =
                changed.map(|changed| if changed { Observed::Changed } else { Observed::Unchanged });
            let before = beliefs[number].map(|page_belief| (page_belief, page.last));
            let due = before.map(|_| now - late);
            let planned = planner.visited(&Seen {
                host: HostHash(page.host),
                delay,
                now,
                due,
                before,
                observed,
                weight: 1.0,
            });
            // As it would come back from a disk.
            beliefs[number] = Some(PageBelief::from_bytes(planned.page_belief.to_bytes()));
            planned.due + late
        },
        &mut |now| {
            let (_, freshness) = planner.borrow().freshness(now);
            freshness.fresh / freshness.weight
        },
    );
    (run, planner.into_inner())
}

fn by_interval(world: World, rule: &Interval, days: f64) -> Run {
    let mut next = |_: usize, page: &LivePage, now: f64, changed: Option<bool>| {
        let visited = match changed {
            None => Visited::New,
            Some(true) => Visited::Changed,
            Some(false) => Visited::Unchanged,
        };
        let since_last = changed.map(|_| Duration::from_secs_f64(now - page.last));
        let at = Timestamp::from_millis((now * 1000.0) as u64);
        rule.next_visit(at, &History { visited, since_last, misses: 0 }).as_millis() as f64 / 1000.0
    };
    world.run(days, &mut next, &mut |_| 0.0)
}

#[test]
fn within_days_it_is_fresher_than_an_interval_rule_with_the_same_visits() {
    let (pages, days) = (3_000, 10.0);
    let rule = Interval {
        first: Duration::from_secs(3600),
        least: Duration::from_secs(600),
        longest: Duration::from_secs(60 * 86_400),
        ..Interval::default()
    };
    let theirs = by_interval(World::studied(pages, 30), &rule, days);
    let mean = pages as f64 / theirs.visits_per_day * DAY;
    let rules = PlannerConfig { mean, least: 600.0, longest: 60.0 * DAY, discovery: 0.3 };
    let (ours, _) = planned(World::studied(pages, 30), rules, 1.0, days, 0.0);
    assert!((ours.truly_fresh - ours.believed).abs() < 0.03, "{ours:?}");
    assert!(ours.visits_per_day < 1.02 * theirs.visits_per_day, "{ours:?} beside {theirs:?}");
    assert!(ours.truly_fresh > theirs.truly_fresh + 0.02, "{ours:?} beside {theirs:?}");
}

#[test]
fn the_first_pages_of_a_crawl_are_visited_again_like_others() {
    let mut planner = RevisitPlanner::new(RULES);
    planner.rebalance(1).unwrap();
    let seen = Seen {
        host: HostHash(1),
        delay: 1.0,
        now: DAY,
        due: None,
        before: None,
        observed: None,
        weight: 1.0,
    };
    let first = planner.visited(&seen);
    let days = (first.due - DAY) / DAY;
    assert!(days < 16.0, "{days} days, twice the mean");
    // A host all of whose pages are given up, or never change: the next one may be otherwise.
    let page_belief =
        PageBelief { entry: Quantised::of(super::super::Change::NEVER, 1.0), ..first.page_belief };
    planner.recall(HostHash(2), 1.0, &page_belief, DAY, DAY);
    planner.rebalance(0).unwrap();
    let next = planner.visited(&Seen { host: HostHash(2), ..seen });
    assert!((next.due - DAY) / DAY < 50.0, "{} days", (next.due - DAY) / DAY);
}

#[test]
fn it_says_how_fresh_it_is_and_beats_an_interval_rule() {
    let (ours, planner) = planned_world(600, 6, 1.0, 300.0);
    assert!((ours.truly_fresh - ours.believed).abs() < 0.03, "{ours:?}");
    // The channel is what was asked for.
    assert!((ours.visits_per_day / (600.0 / 8.0) - 1.0).abs() < 0.15, "{ours:?}");
    assert_eq!(planner.freshness(300.0 * DAY).0, 600);
    let rule = Interval {
        first: Duration::from_secs_f64(8.0 * DAY),
        least: Duration::from_secs(3600),
        longest: Duration::from_secs_f64(100.0 * DAY),
        ..Interval::default()
    };
    let theirs = by_interval(World::new(600, 6), &rule, 300.0);
    // The rule needs many times as many visits: per visit it is far behind.
    assert!(theirs.visits_per_day > 1.5 * ours.visits_per_day, "{ours:?} and {theirs:?}");
    assert!(
        ours.truly_fresh / ours.visits_per_day > 1.5 * theirs.truly_fresh / theirs.visits_per_day,
        "{ours:?} and {theirs:?}"
    );
}

#[test]
fn visits_that_come_late_are_asked_for_sooner() {
    let (late, _) = planned_late(600, 6, 1.0, 300.0, 0.5 * DAY);
    // The channel is used as planned all the same.
    assert!((late.visits_per_day / (600.0 / 8.0) - 1.0).abs() < 0.15, "{late:?}");
    assert!((late.truly_fresh - late.believed).abs() < 0.03, "{late:?}");
}

#[test]
fn a_host_that_bears_little_has_its_own_price() {
    // 300 pages on two hosts that take a request each every three hours: 8 a day, less than pages ask for.
    let (ours, planner) = planned_world(300, 2, 3.0 * HOUR, 200.0);
    assert!(ours.visits_per_day < 1.15 * 16.0, "{ours:?}");
    let reason = planner.explain(HostHash(0), &PageBelief::from_bytes([0; 8]), 0.0, DAY);
    assert!(reason.saturated && reason.price > planner.price, "{reason:?}");
    assert!((ours.truly_fresh - ours.believed).abs() < 0.04, "{ours:?}");
}

#[test]
fn what_records_say_makes_the_same_planner() {
    let (mut planner, mut records) = (RevisitPlanner::new(RULES), Vec::new());
    for number in 0..200u64 {
        let (host, now) = (HostHash(number % 5), number as f64 * 100.0);
        let seen = Seen {
            host,
            delay: 1.0,
            now,
            due: None,
            before: None,
            observed: Some(Observed::ChangedAgo(1e5)),
            weight: 2.0,
        };
        records.push((host, planner.visited(&seen).page_belief, now));
    }
    let mut again = RevisitPlanner::new(RULES);
    records
        .iter()
        .for_each(|(host, page_belief, last)| again.recall(*host, 1.0, page_belief, *last, 20_000.0));
    let (a, b) = (planner.freshness(30_000.0), again.freshness(30_000.0));
    assert_eq!(a.0, b.0);
    assert!((a.1.fresh - b.1.fresh).abs() < 1e-6 * a.1.fresh && (a.1.age - b.1.age).abs() < 1e-3 * a.1.age);
    let (host, page_belief, last) = records[7];
    let gone = again.lost(host, page_belief, last, 30_000.0);
    assert_eq!((again.freshness(0.0).0, gone.entry), (199, Quantised::default()));
    // What is not counted cannot be taken out twice.
    again.lost(host, gone, last, 30_000.0);
    assert_eq!(again.freshness(0.0).0, 199);
    again.forget(HostHash(3));
    assert_eq!((again.freshness(0.0).0, again.host_freshness(HostHash(3), 0.0)), (159, None));
}

#[test]
fn odd_worlds_have_answers() {
    let mut planner = RevisitPlanner::new(RULES);
    planner.rebalance(10).unwrap();
    assert_eq!(planner.freshness(5.0), (0, Freshness::default()));
    let seen = Seen {
        host: HostHash(1),
        delay: 0.0,
        now: 10.0,
        due: None,
        before: None,
        observed: None,
        weight: 0.0,
    };
    let planned = planner.visited(&seen);
    assert!((HOUR..=100.0 * DAY).contains(&(planned.due - 10.0)) && planned.page_belief.entry.weight == 0);
    let planned = planner.visited(&Seen { weight: f64::NAN, ..seen });
    assert!((HOUR..=100.0 * DAY).contains(&(planned.due - 10.0)), "{planned:?}");
    planner.rebalance(u64::MAX).unwrap();
}
