//! What a crawler meets: pages that change by chance, or as they really did.

use super::history::History;
use super::measure::Bins;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::allocate::Page;

/// Pages by number, and what a look at one tells.
pub trait World {
    fn pages(&self) -> usize;

    /// Accounts for a copy taken at `from` and held until `to`; says whether the page had changed by then.
    fn look(&mut self, page: usize, from: f64, to: f64, fresh: &mut Bins) -> bool;
}

/// Pages that change as Poisson processes. Fresh time is counted as expected, changes are drawn.
pub struct Chance<'a> {
    pub pages: &'a [Page],
    pub random: Seeded,
}

impl World for Chance<'_> {
    fn pages(&self) -> usize {
        self.pages.len()
    }

    fn look(&mut self, page: usize, from: f64, to: f64, fresh: &mut Bins) -> bool {
        let page = &self.pages[page];
        if page.change.rate() == 0.0 {
            return false;
        }
        fresh.add(page, from, to);
        self.random.unit() >= page.change.fresh(to - from)
    }
}

/// Pages that change as they did.
pub struct Replay<'a>(pub &'a History);

impl World for Replay<'_> {
    fn pages(&self) -> usize {
        self.0.changes.len()
    }

    fn look(&mut self, page: usize, from: f64, to: f64, fresh: &mut Bins) -> bool {
        let changes = &self.0.changes[page];
        let next =
            changes[changes.partition_point(|at| *at <= from)..].first().copied().unwrap_or(f64::INFINITY);
        fresh.add_plain(from, to.min(next));
        next <= to
    }
}

/// Decides whom to visit, and hears what came of it.
pub trait Crawler {
    /// The next visit.
    fn next(&mut self) -> Option<(f64, usize)>;

    /// What the visit saw. `elapsed` is the time since the one before, `None` at the first.
    fn seen(&mut self, page: usize, at: f64, elapsed: Option<f64>, changed: bool);
}

impl Crawler for Box<dyn Crawler> {
    fn next(&mut self) -> Option<(f64, usize)> {
        (**self).next()
    }

    fn seen(&mut self, page: usize, at: f64, elapsed: Option<f64>, changed: bool) {
        (**self).seen(page, at, elapsed, changed);
    }
}

/// Lets a crawler loose; gives fresh time by bin and the number of visits.
pub fn crawl(world: &mut impl World, crawler: &mut impl Crawler, horizon: f64, bins: usize) -> (Bins, u64) {
    let mut fresh = Bins::new(bins, horizon);
    let mut last = vec![f64::NAN; world.pages()];
    let mut visits = 0;
    while let Some((at, page)) = crawler.next()
        && at < horizon
    {
        visits += 1;
        let before = Some(last[page]).filter(|last| !last.is_nan());
        let changed = before.is_some_and(|before| world.look(page, before, at, &mut fresh));
        crawler.seen(page, at, before.map(|before| at - before), changed);
        last[page] = at;
    }
    for (page, last) in last.iter().enumerate().filter(|(_, last)| !last.is_nan()) {
        world.look(page, *last, horizon, &mut fresh);
    }
    (fresh, visits)
}
