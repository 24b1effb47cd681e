//! Plans the revisits of a crawler whose pages are in a URL store: due times with their records, and here only sums. The
//! product runs it.
//!
//! The simulator's `Schedule` has every page in memory. A crawler keeps its pages in a URL store that hands them out when
//! they are due. All that is left to know is the price of a visit, and for that it is
//! enough to know how many pages of each kind there are, host by host. After each visit [`RevisitPlanner::visited`] says when
//! the next one is worth the price; as pages and beliefs move, [`RevisitPlanner::rebalance`] finds the prices again, by the same
//! allocation. A page keeps its due time until its next visit: nobody's phase is reset.
//!
//! Memory: some 250 bytes per host, nothing per page; 8 bytes per page with its record ([`PageBelief`]).
//! INVARIANT: what a page belief says of its page is in the sums, once, as visited at the record's last visit.
//!
//! Times are seconds of one clock. Does not know URLs, nor hosts but by their hash.

mod page_belief;
mod sums;

pub use page_belief::{PageBelief, Quantised};

use super::Freshness;
use super::allocate::{self, Error, Server};
use super::estimate::{Belief, Evidence, Observed, Prior};
use farol_base::HostHash;
use std::collections::HashMap;
use sums::Sums;

/// Intervals shrink by the factor e for each four visits per page that were allowed and not made, and grow likewise. More
/// makes a crawl's first weeks swing; less leaves more unspent.
const EASE: f64 = 0.25;

/// No more is made up for than so many visits per page: a crawl that stood still does not storm its hosts afterwards.
const UNSPENT_MAX: f64 = 4.0;

/// What a page's first visit takes from the budget: time begins to count for it with that visit, and its next one comes
/// about an interval later. Without it pages are visited too soon at first, with a half too late.
const FIRST_VISIT: f64 = 0.25;

/// A page that is unchanged although that was less likely than this is believed to have changed its ways: so much of the
/// changes that were seen is remembered. In pages that keep their ways it happens once in twenty visits, and is made good
/// by the next change.
const SURPRISE: f64 = 0.05;
const REMEMBERED: f32 = 0.25;

/// What one visit counts in a host's mean lateness: a memory of some thirty.
const LATE_WEIGHT: f64 = 1.0 / 32.0;

/// Bounds and shares of a planner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannerConfig {
    /// Seconds between two visits of a page, on average over all: sets the channel.
    pub mean: f64,
    /// No page is visited more often than this.
    pub least: f64,
    /// Nor less often, given up or not.
    pub longest: f64,
    /// Part of what a host bears that is left for pages never visited, while there are such.
    pub discovery: f64,
}

/// What is believed of the pages of a crawler, and what a visit must be worth.
#[derive(Clone, Debug)]
pub struct RevisitPlanner {
    rules: PlannerConfig,
    hosts: HashMap<HostHash, HostPlan>,
    whole: Sums,
    /// What is believed of pages of hosts that nobody knows.
    prior: Prior,
    /// The same at the last rebalancing, when hosts took it over.
    prior_then: Prior,
    price: f64,
    /// Visits that were allowed and not made, less those that were made beyond; see [`RevisitPlanner::spend`].
    unspent: f64,
    /// The latest instant seen; infinitely long ago before the first.
    now: f64,
    /// Visits since the last rebalancing.
    moved: u64,
}

#[derive(Clone, Debug)]
struct HostPlan {
    delay: f64,
    prior: Prior,
    sums: Sums,
    /// Its own price, where its pages ask for more than it bears.
    price: Option<f64>,
    /// Seconds from when a visit is due to when it is made, lately, in the mean.
    late: f64,
}

/// A visit that found a page.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub host: HostHash,
    /// Least seconds between two requests of the host.
    pub delay: f64,
    pub now: f64,
    /// When this visit was due, where it was asked for here and somebody was there to make it.
    pub due: Option<f64>,
    /// What was remembered of the page, and when it was visited last; `None` at the first visit.
    pub before: Option<(PageBelief, f64)>,
    /// What this visit tells of the time since.
    pub observed: Option<Observed>,
    pub weight: f64,
}

/// What follows from a visit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    pub page_belief: PageBelief,
    pub due: f64,
}

/// Why a page is visited when it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// Changes per second that are believed in.
    pub rate: f64,
    pub weight: f64,
    /// Probability that the copy is true now.
    pub fresh: f64,
    /// What a visit now is worth, and what it must be worth: seconds of freshness of a page of weight 1.
    pub worth: f64,
    pub price: f64,
    /// Whether the price is the host's own, because it bears no more visits.
    pub saturated: bool,
    /// Seconds between visits at this price, within the bounds.
    pub interval: f64,
    /// Visits that saw a change, as far as they are remembered.
    pub changes: f64,
}

impl RevisitPlanner {
    pub fn new(rules: PlannerConfig) -> RevisitPlanner {
        RevisitPlanner {
            rules,
            hosts: HashMap::new(),
            whole: Sums::default(),
            prior: Prior::default(),
            prior_then: Prior::default(),
            // As if all pages were alike: the first rebalancing knows better.
            price: Prior::default().belief(&Evidence::default()).index(rules.mean),
            unspent: 0.0,
            now: f64::NEG_INFINITY,
            moved: 0,
        }
    }

    /// Takes in a page as its record has it, when a crawler begins.
    pub fn recall(&mut self, host: HostHash, delay: f64, page_belief: &PageBelief, last: f64, now: f64) {
        self.put(host, delay, page_belief.entry, last, now);
        let plan = self.host(host, delay);
        let pages = plan.sums.pages() as u32;
        plan.prior.nudge(&Evidence::default(), &page_belief.evidence, pages);
        self.prior.nudge(&Evidence::default(), &page_belief.evidence, self.whole.pages() as u32);
    }

    /// A page was visited and is there: says when it is worth another visit, and what to remember.
    pub fn visited(&mut self, seen: &Seen) -> Planned {
        let Seen { host, delay, now, due, before, observed, weight } = *seen;
        self.moved += 1;
        self.spend(now, before.is_some());
        let mut evidence = before.map_or_else(Evidence::default, |(page_belief, _)| page_belief.evidence);
        if let Some((page_belief, last)) = before {
            self.take(host, page_belief.entry, last, now);
        }
        let price = self.price_of(host);
        let plan = self.host(host, delay);
        plan.delay = delay;
        if let Some(due) = due {
            plan.late += ((now - due).max(0.0) - plan.late) * LATE_WEIGHT;
        }
        let late = plan.late;
        if let Some(observed) = observed {
            let (old, elapsed) = (evidence, before.map_or(0.0, |(_, last)| now - last));
            // A page that stays as it is for so long that nobody would have believed it has changed its ways.
            if observed == Observed::Unchanged && plan.prior.belief(&evidence).fresh(elapsed) < SURPRISE {
                evidence.changes *= REMEMBERED;
            }
            evidence.observe(elapsed, observed);
            let pages = plan.sums.pages() as u32 + 1;
            plan.prior.nudge(&old, &evidence, pages);
            self.prior.nudge(&old, &evidence, self.whole.pages() as u32 + 1);
        }
        let belief = self.belief(host, &evidence);
        let worth = worth_of(price, weight);
        let page_belief = PageBelief { evidence, entry: Quantised::of(belief.change(worth), weight) };
        self.put(host, delay, page_belief.entry, now, now);
        // Visits that come late in the mean are asked for sooner, so that the channel is used as planned.
        let interval = self.interval(host, &belief, worth);
        let sooner = interval - late.min(interval / 2.0);
        Planned { page_belief, due: now + sooner.max(self.rules.least) }
    }

    /// A page is gone, or could not be had: it is no longer counted. Says what to remember.
    pub fn lost(&mut self, host: HostHash, page_belief: PageBelief, last: f64, now: f64) -> PageBelief {
        self.take(host, page_belief.entry, last, now);
        PageBelief { entry: Quantised::default(), ..page_belief }
    }

    /// Forgets a host.
    pub fn forget(&mut self, host: HostHash) {
        if let Some(plan) = self.hosts.remove(&host) {
            self.whole.take_all(&plan.sums);
        }
    }

    /// Whether so much has moved since the last rebalancing that it is time for another.
    pub fn is_unbalanced(&self) -> bool {
        let pages = self.whole.pages();
        self.moved as f64 > (pages / 50.0).max(20.0)
    }

    /// Finds the prices again. `waiting` pages were never visited and want to be.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed then.
    pub fn rebalance(&mut self, waiting: u64) -> Result<(), Error> {
        let pages = self.whole.pages();
        if pages == 0.0 {
            // Visits have no price where there is nobody to visit; the first pages would not be visited again.
            return Ok(());
        }
        let channel = pages / self.rules.mean;
        // With little to discover, little is left for it: a day's worth of the channel counts as much.
        let wanted = waiting as f64 / (channel * 86_400.0).max(1.0);
        let discovery = self.rules.discovery * wanted.min(1.0);
        let kinds: Vec<(HostHash, f64, Vec<allocate::Page>)> =
            self.hosts.iter().map(|(host, plan)| (*host, plan.delay, plan.sums.as_pages())).collect();
        let servers: Vec<Server<'_>> = kinds
            .iter()
            .map(|(_, delay, pages)| Server { delay: delay / (1.0 - discovery).max(0.01), pages })
            .collect();
        let best = allocate::polite(&servers, channel)?;
        (self.price, self.moved) = (best.price, 0);
        for plan in self.hosts.values_mut() {
            plan.prior.follow(&self.prior_then, &self.prior, plan.sums.pages() as u32);
        }
        self.prior_then = self.prior.clone();
        for ((host, _, _), level) in kinds.iter().zip(&best.levels) {
            if let Some(plan) = self.hosts.get_mut(host) {
                // A host without a page that visits could help has no price of its own: its next page may be one.
                let is_its_own = level.low > best.price * 1.000_001 && level.low.is_finite();
                plan.price = is_its_own.then_some(level.low);
            }
        }
        Ok(())
    }

    /// How fresh everything is believed to be, and how many pages that are.
    pub fn freshness(&self, now: f64) -> (u64, Freshness) {
        (self.whole.pages() as u64, self.whole.freshness(now))
    }

    /// How fresh one host is believed to be.
    pub fn host_freshness(&self, host: HostHash, now: f64) -> Option<(u64, Freshness)> {
        let sums = &self.hosts.get(&host)?.sums;
        Some((sums.pages() as u64, sums.freshness(now)))
    }

    /// Why a page is visited when it is.
    pub fn explain(&self, host: HostHash, page_belief: &PageBelief, last: f64, now: f64) -> Reason {
        let belief = self.belief(host, &page_belief.evidence);
        let (price, entry) = (self.price_of(host), page_belief.entry);
        let weight = entry.weight();
        let change = entry.page().change;
        Reason {
            rate: belief.rate(),
            weight,
            fresh: change.fresh((now - last).max(0.0)),
            worth: weight * change.index((now - last).max(0.0)),
            price,
            saturated: self.hosts.get(&host).is_some_and(|plan| plan.price.is_some()),
            interval: self.interval(host, &belief, worth_of(price, weight)),
            changes: f64::from(page_belief.evidence.changes),
        }
    }

    fn belief(&self, host: HostHash, evidence: &Evidence) -> Belief {
        self.hosts.get(&host).map_or(&self.prior, |plan| &plan.prior).belief(evidence)
    }

    /// Seconds until the next visit is worth so much, or sooner where it is worth finding out more; within the bounds.
    fn interval(&self, host: HostHash, belief: &Belief, worth: f64) -> f64 {
        // A host that bears no more is not asked for more, whatever is left of the budget.
        let is_full = self.hosts.get(&host).is_some_and(|plan| plan.price.is_some());
        let ease = if is_full { self.ease().max(1.0) } else { self.ease() };
        let mut interval = belief.interval_at(worth).min(self.rules.longest);
        // A page that is not worth the price, and of which the copy will be wrong: it is visited as often as the mean page,
        // rather than given up, because it may change its ways. Where the price is right, there are few of them.
        if !is_full && belief.fresh(interval) < 0.5 {
            interval = interval.min(self.rules.mean);
        }
        // Finding out is paid for by what is left, not on credit.
        if self.unspent >= 0.0
            && let Some(soon) = belief.probe(worth)
        {
            interval = interval.min(soon);
        }
        (interval * ease).min(self.rules.longest).max(self.rules.least)
    }

    /// Keeps account of the budget: what time has brought, and what a visit takes.
    ///
    /// The sums say what pages ask for only roughly: beliefs move between two visits, intervals have ends, pages are
    /// probed. So what is left of the budget shortens the intervals that the price gives, for as long as some is.
    fn spend(&mut self, now: f64, again: bool) {
        let pages = self.whole.pages();
        // Nobody was there in the meantime where more than the longest interval has passed.
        let elapsed = (now - self.now).clamp(0.0, self.rules.longest);
        if self.now.is_finite() {
            self.unspent += pages / self.rules.mean * elapsed;
        }
        self.now = self.now.max(now);
        self.unspent -= if again { 1.0 } else { FIRST_VISIT };
        let most = UNSPENT_MAX * pages;
        self.unspent = self.unspent.clamp(-most, most);
    }

    /// What intervals are to be multiplied by so that the budget is spent.
    fn ease(&self) -> f64 {
        (-EASE * self.unspent / self.whole.pages().max(1.0)).exp()
    }

    fn price_of(&self, host: HostHash) -> f64 {
        self.hosts.get(&host).and_then(|plan| plan.price).unwrap_or(self.price)
    }

    fn host(&mut self, host: HostHash, delay: f64) -> &mut HostPlan {
        // What has moved since comes with the next rebalancing.
        let whole = &self.prior_then;
        self.hosts.entry(host).or_insert_with(|| HostPlan::new(delay, whole.clone()))
    }

    fn put(&mut self, host: HostHash, delay: f64, entry: Quantised, last: f64, now: f64) {
        if entry.weight != 0 {
            self.host(host, delay).sums.add(entry, last, now);
            self.whole.add(entry, last, now);
        }
    }

    fn take(&mut self, host: HostHash, entry: Quantised, last: f64, now: f64) {
        if entry.weight != 0 {
            if let Some(plan) = self.hosts.get_mut(&host) {
                plan.sums.take(entry, last, now);
            }
            self.whole.take(entry, last, now);
        }
    }
}

/// What a visit must be worth as if the page had weight 1.
fn worth_of(price: f64, weight: f64) -> f64 {
    price / weight.max(1e-6)
}

impl HostPlan {
    fn new(delay: f64, prior: Prior) -> HostPlan {
        HostPlan { delay, prior, sums: Sums::default(), price: None, late: 0.0 }
    }
}

#[cfg(test)]
mod tests;
