//! The price of a visit at which the pages of one server ask for a given number of visits.
//!
//! At level m, page i is visited so often that one more visit is worth m. The demand of all pages falls as m grows;
//! the level for a demand is found by Newton in logarithms, where the demand is nearly a straight line of slope −½,
//! within a bracket.

use super::Page;

/// A price of visits. Usually one number. Where pages change many times between visits, freshness is linear in the
/// frequency, and the last bits of the price decide between much and nothing: then pages get a mean of the
/// frequencies at two neighbouring prices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    pub low: f64,
    high: f64,
    /// How much of the frequency at `low` is in the mean.
    share: f64,
}

impl Level {
    pub fn exactly(at: f64) -> Level {
        Level { low: at, high: at, share: 1.0 }
    }

    /// Visits per second of a page at this level.
    pub fn frequency(&self, page: &Page) -> f64 {
        if self.share >= 1.0 {
            return page.frequency_at(self.low);
        }
        self.share * page.frequency_at(self.low) + (1.0 - self.share) * page.frequency_at(self.high)
    }
}

/// Demand and its logarithmic slope, of any number of pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    pub visits: f64,
    /// `d visits / d ln level`; not positive.
    pub slope: f64,
}

impl Demand {
    /// What every `step`-th page asks for at this level, times `step`.
    pub(super) fn of(pages: &[Page], level: f64, step: usize) -> Demand {
        let mut demand = Demand::default();
        for page in pages.iter().step_by(step) {
            if page.weight <= 0.0 {
                continue;
            }
            let (interval, slope) = page.change.interval_and_slope(level / page.weight());
            if interval == f64::INFINITY {
                continue;
            }
            demand.visits += 1.0 / interval;
            if slope > 0.0 {
                demand.slope -= level / (page.weight() * interval * interval * slope);
            }
        }
        Demand { visits: demand.visits * step as f64, slope: demand.slope * step as f64 }
    }

    pub(super) fn add(&mut self, other: Demand) {
        self.visits += other.visits;
        self.slope += other.slope;
    }
}

/// A level at which these pages certainly do not ask for more than `target` in all.
pub(super) fn upper<'a>(pages: impl Iterator<Item = &'a Page>, target: f64) -> f64 {
    let mut sum = 0.0;
    for page in pages.filter(|page| page.is_active()) {
        // index(T) ≤ λT²/2, so f ≤ sqrt(wλ/2m).
        sum += (page.weight() * page.change.rate() / 2.0).sqrt();
    }
    (sum / target) * (sum / target)
}

/// Where to look for a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// Where to begin.
    pub start: f64,
    /// At this level the demand is certainly not too great.
    pub upper: f64,
    /// How exact the demand must be, relatively.
    pub tolerance: f64,
}

impl Search {
    /// The same search, exactly, from what a rough one found.
    pub(super) fn again(self, found: Level) -> Search {
        let start = if found.low > 0.0 { found.low.min(self.upper) } else { self.upper };
        Search { start, tolerance: TOLERANCE, ..self }
    }
}

const TOLERANCE: f64 = 1e-10;

/// Finds the level at which `demand` is `target`.
pub(super) fn solve(search: Search, target: f64, mut demand: impl FnMut(f64) -> Demand) -> Level {
    let (mut low, mut high) = (0.0, search.upper);
    let mut at = search.start;
    let (mut at_low, mut at_high) = (f64::INFINITY, 0.0);
    for round in 0..200 {
        let here = demand(at);
        if (here.visits - target).abs() <= search.tolerance * target {
            return Level::exactly(at);
        }
        if here.visits > target {
            (low, at_low) = (at, here.visits);
        } else {
            (high, at_high) = (at, here.visits);
        }
        let newton = at * ((target / here.visits).ln() * here.visits / here.slope).exp();
        let inside = newton > low && newton < high;
        let middle = if low > 0.0 { (low * high).sqrt() } else { high / 16.0 };
        // Newton from far above may creep; every fourth step halves the bracket for certain.
        at = if inside && round % 4 != 3 { newton } else { middle };
        if !(at > low && at < high) {
            break;
        }
    }
    if at_low.is_infinite() || at_low <= target {
        return Level::exactly(if low > 0.0 { low } else { high });
    }
    Level { low, high, share: ((target - at_high) / (at_low - at_high)).clamp(0.0, 1.0) }
}

/// The level at which the pages of one server ask for `target` visits a second.
pub fn level_for(pages: &[Page], target: f64) -> Level {
    let upper = upper(pages.iter(), target);
    let mut search = Search { start: upper, upper, tolerance: 1e-3 };
    // Few pages tell nearly where it is.
    let step = pages.len() / SAMPLE + 1;
    if step > 1 {
        search = search.again(solve(search, target, |level| Demand::of(pages, level, step)));
    }
    solve(Search { tolerance: TOLERANCE, ..search }, target, |level| Demand::of(pages, level, 1))
}

/// Pages that are looked at for a first guess.
pub(super) const SAMPLE: usize = 2_000;

/// Whether any page here is worth a visit.
pub(super) fn useful(pages: &[Page]) -> bool {
    pages.iter().any(Page::is_active)
}
