//! Judges a crawl by the request log of the synthetic Web.
//!
//! The log is read in the order in which requests arrived. Each host, each address and each URL has a small
//! `rules` state that knows what may come next; whatever else comes is counted in a [`Report`], with examples.
//! What should have been asked for and never was is found by walking the world.
//!
//! INVARIANT: a crawler that keeps the rules is never accused: where clocks and networks leave doubt, the benefit
//! is the crawler's ([`CheckRules::slack`]).

mod report;
mod rules;

pub use report::{Finding, Offence, Report};

use crate::{Entry, Page, Place, Served, Walk, World};
use rules::{Asked, Robots, Turn};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// What counts as an offence.
#[derive(Clone, Debug)]
pub struct CheckRules {
    /// Least time from the start of one request to the start of the next, per host and per address. A host's own
    /// Crawl-delay counts where it is longer.
    pub delay_min: Duration,
    /// Doubt that is the crawler's: requests may come earlier than the delay by this much, and a request may start
    /// this long before the end of an answer that was not taken whole.
    pub slack: Duration,
    /// Longest use of a robots.txt (RFC 9309 §2.4 says 24 hours).
    pub robots_age_max: Duration,
    /// A URL may be asked for again, without a condition, after this long.
    pub revisit_min: Duration,
    /// Where the crawl started and how far it was meant to go.
    pub walk: Walk,
    /// Whether the crawl was meant to be complete: pages never asked for are then an offence.
    pub complete: bool,
    /// Pages of endless places that may be asked for; no limit where it is `None`.
    pub traps_max: Option<u64>,
    /// Repeated requests that are forgiven: what was in flight when a crawler was killed.
    pub doubles_max: u64,
}

impl Default for CheckRules {
    fn default() -> CheckRules {
        CheckRules {
            delay_min: Duration::ZERO,
            slack: Duration::from_millis(20),
            robots_age_max: Duration::from_secs(24 * 3600),
            revisit_min: Duration::from_secs(3600),
            walk: Walk::default(),
            complete: false,
            traps_max: None,
            doubles_max: 0,
        }
    }
}

/// Checks a log against the world that was crawled.
///
/// Takes memory for all entries, about 250 bytes each: a log of four million requests needs 1 GB.
pub fn check(world: &World, log: impl Iterator<Item = Entry>, rules: &CheckRules) -> Report {
    let mut entries: Vec<Entry> = log.collect();
    entries.sort_by_key(|entry| entry.start_us);
    let mut judge = Judge {
        world,
        rules,
        report: Report::new(rules.doubles_max, rules.traps_max),
        hosts: HashMap::new(),
        addresses: HashMap::new(),
        asked: HashMap::new(),
        pages: BTreeSet::new(),
    };
    for entry in &entries {
        judge.take(entry);
    }
    judge.look_for_the_forgotten();
    judge.report.requests = entries.len() as u64;
    judge.report.hosts = judge.hosts.len() as u64;
    let first = entries.first().map_or(0, |entry| entry.start_us);
    let last = entries.iter().map(|entry| entry.end_us).max().unwrap_or(first);
    judge.report.took = Duration::from_micros(last.saturating_sub(first));
    judge.report
}

struct Judge<'a> {
    world: &'a World,
    rules: &'a CheckRules,
    report: Report,
    hosts: HashMap<String, HostState>,
    addresses: HashMap<IpAddr, Turn>,
    /// Last request for each URL, by the fingerprint of host and path.
    asked: HashMap<u64, Asked>,
    /// Pages asked for, by ordinal.
    pages: BTreeSet<u64>,
}

struct HostState {
    number: Option<u32>,
    turn: Turn,
    robots: Robots,
}

impl Judge<'_> {
    fn take(&mut self, entry: &Entry) {
        *self.report.served.entry(entry.served).or_default() += 1;
        *self.report.statuses.entry(entry.status).or_default() += 1;
        self.report.bytes += entry.bytes;
        let (world, rules) = (self.world, self.rules);
        let state = self.hosts.entry(entry.host.clone()).or_insert_with(|| {
            let number = world.host_number(&entry.host);
            let robots = Robots::new(number.map(|host| world.rules(host)).unwrap_or_default());
            HostState { number, turn: Turn::default(), robots }
        });

        let delay = rules.delay_min.max(state.robots.crawl_delay());
        for offence in state.turn.take(entry, delay, rules.slack) {
            self.report.add(offence.of_host(), || describe(entry));
        }
        // Behind a proxy all hosts share one address, which is then nobody's.
        if !entry.proxied {
            let turn = self.addresses.entry(entry.address).or_default();
            for offence in turn.take(entry, rules.delay_min, rules.slack) {
                if let Some(offence) = offence.of_address() {
                    self.report.add(offence, || format!("{} at {}", describe(entry), entry.address));
                }
            }
        }
        if let Some(offence) = state.robots.take(entry, rules.robots_age_max) {
            self.report.add(offence, || describe(entry));
        }
        if let Some(number) = state.number
            && let Place::Page(page) = world.locate(number, &entry.path)
        {
            self.pages.insert(world.ordinal(page));
        }

        let url = farol_base::fingerprint::hash64(format!("{}{}", entry.host, entry.path).as_bytes());
        let again = Asked::of(entry);
        if let Some(before) = self.asked.insert(url, again)
            && before.forbids(entry, rules.revisit_min)
        {
            self.report.add(Offence::DoubleFetch, || describe(entry));
        }
        if entry.served == Served::Trap {
            self.report.add(Offence::TrapPage, || describe(entry));
        }
    }

    fn look_for_the_forgotten(&mut self) {
        let reachable = self.world.reachable(&self.rules.walk);
        self.report.reachable = reachable.count();
        self.report.reached =
            self.pages.iter().filter(|ordinal| reachable.contains(**ordinal)).count() as u64;
        if self.rules.complete {
            for ordinal in reachable.ordinals().filter(|ordinal| !self.pages.contains(ordinal)) {
                let page: Page = self.world.page_at(ordinal);
                self.report.add(Offence::NeverFetched, || self.world.url(page));
            }
        }
    }
}

fn describe(entry: &Entry) -> String {
    format!(
        "{}.{:06} http://{}{}",
        entry.start_us / 1_000_000,
        entry.start_us % 1_000_000,
        entry.host,
        entry.path
    )
}

#[cfg(test)]
mod tests;
