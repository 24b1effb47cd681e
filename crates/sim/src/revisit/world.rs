//! What a crawler meets: pages that change by chance, or as they really did.

use super::history::History;
use super::measure::Bins;
use farol_base::random::mix;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::allocate::Page;

/// Pages by number, and what a look at one tells.
pub trait World {
    fn pages(&self) -> usize;

    /// Accounts for a copy taken at `from` and held until `to`; says whether the page had changed by then.
    fn look(&mut self, page: usize, from: f64, to: f64, fresh: &mut Bins) -> bool;

    /// How long ago a page that has changed since `from` (ever, where there was no visit before) did so for the last
    /// time, if it says so.
    fn date(&mut self, _page: usize, _from: Option<f64>, _to: f64) -> Option<f64> {
        None
    }
}

/// Pages that change as Poisson processes. Fresh time is counted as expected, changes are drawn.
pub struct Chance<'a> {
    pub pages: &'a [Page],
    /// Share of the pages that say when they changed (Last-Modified), and are right.
    pub dated: f64,
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

    fn date(&mut self, page: usize, from: Option<f64>, to: f64) -> Option<f64> {
        let dated = mix(page as u64) as f64 / u64::MAX as f64;
        let rate = self.pages[page].change.rate();
        if dated >= self.dated || rate == 0.0 {
            return None;
        }
        // The time since the last of a Poisson process' events, given that there was one.
        let within = from.map_or(1.0, |from| -(-rate * (to - from)).exp_m1());
        Some(-(-self.random.unit() * within).ln_1p() / rate)
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

    /// What the visit saw.
    fn seen(&mut self, page: usize, seen: &Seen);
}

/// What a visit saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub at: f64,
    /// The visit before.
    pub before: Option<f64>,
    /// Whether the page has changed since; false at the first visit.
    pub changed: bool,
    /// When the page says that it last changed.
    pub modified: Option<f64>,
}

impl Crawler for Box<dyn Crawler> {
    fn next(&mut self) -> Option<(f64, usize)> {
        (**self).next()
    }

    fn seen(&mut self, page: usize, seen: &Seen) {
        (**self).seen(page, seen);
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
        let date = if changed || before.is_none() { world.date(page, before, at) } else { None };
        crawler.seen(page, &Seen { at, before, changed, modified: date.map(|ago| at - ago) });
        last[page] = at;
    }
    for (page, last) in last.iter().enumerate().filter(|(_, last)| !last.is_nan()) {
        world.look(page, *last, horizon, &mut fresh);
    }
    (fresh, visits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_frontier::revisit::Change;

    #[test]
    fn dates_are_those_of_the_last_change() {
        let pages = [Page { change: Change::known(0.5).unwrap(), weight: 1.0 }; 1_000];
        let mut world = Chance { pages: &pages, dated: 0.4, random: Seeded::new(3) };
        let mut mean = |from: Option<f64>| {
            let ago: Vec<f64> = (0..1_000).filter_map(|page| world.date(page, from, 10.0)).collect();
            assert!((350..450).contains(&ago.len()), "{} pages have a date", ago.len());
            assert!(ago.iter().all(|ago| *ago >= 0.0 && from.is_none_or(|from| *ago <= 10.0 - from)));
            ago.iter().sum::<f64>() / ago.len() as f64
        };
        // An exponential time of mean 2, and one that is known to be shorter than 2: 2 - 2/(e - 1).
        assert!((1.7..2.3).contains(&mean(None)));
        assert!((0.75..0.92).contains(&mean(Some(8.0))));
    }
}
