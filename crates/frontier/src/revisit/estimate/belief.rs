//! What is believed of a page's rate: weights on a grid of rates from once in 20 years to once in 2 minutes.
//!
//! A belief is made when it is needed and not stored. What the schedule stores is [`Belief::change`], two numbers that
//! say the same about the one interval that matters: at which the next visit is worth the price.

use super::Evidence;
use crate::revisit::Change;
use std::sync::LazyLock;

/// Rates of the grid: each 1.65 times the one before.
pub(super) const RATES: usize = 32;

/// The slowest: once in 20 years.
const SLOWEST: f64 = 1.0 / (20.0 * 365.25 * 86_400.0);

/// √e.
const RATIO: f64 = 1.648_721_270_700_128_2;

/// Weights of the rates, which sum up to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Belief(pub(super) [f64; RATES]);

const fn grid() -> [f64; RATES] {
    let (mut rates, mut k) = ([SLOWEST; RATES], 1);
    while k < RATES {
        rates[k] = rates[k - 1] * RATIO;
        k += 1;
    }
    rates
}

static GRID: [f64; RATES] = grid();

pub(super) fn rate(k: usize) -> f64 {
    GRID[k]
}

impl Belief {
    /// What follows from the weights of a prior and from evidence.
    pub(super) fn new(prior: &[f32; RATES], evidence: &Evidence) -> Belief {
        let weight = |k: usize| f64::from(prior[k]).max(1e-30).ln() + evidence.log_likelihood(rate(k));
        let logs: [f64; RATES] = std::array::from_fn(weight);
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weights = logs.map(|log| (log - most).exp());
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        Belief(weights)
    }

    fn mean(&self, f: impl Fn(f64) -> f64) -> f64 {
        let mut sum = 0.0;
        let mut rate = SLOWEST;
        for weight in self.0 {
            if weight > 1e-12 {
                sum += weight * f(rate);
            }
            rate *= RATIO;
        }
        sum
    }

    /// Median changes per second.
    pub fn rate(&self) -> f64 {
        let mut left = 0.5;
        let found = self.0.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        rate(found.unwrap_or(RATES - 1))
    }

    /// Probability that a copy of this age is still true.
    pub fn fresh(&self, age: f64) -> f64 {
        self.mean(|rate| (-rate * age).exp())
    }

    /// Expected time that a copy stays true within `interval` after the visit.
    pub fn gain(&self, interval: f64) -> f64 {
        self.mean(|rate| -(-rate * interval).exp_m1() / rate)
    }

    /// The interval after which the next visit is worth `price`, at most a hundred years.
    pub fn interval_at(&self, price: f64) -> f64 {
        let (mut low, mut high) = (1.0f64, INTERVAL_MAX);
        // As if the median were known.
        let rate = self.rate();
        let mut interval =
            (2.0 * price / rate).sqrt().max(1.0 / rate.max(1.0)).clamp(low * 1.01, high * 0.99);
        for _ in 0..60 {
            let (index, slope) = self.index_and_slope(interval);
            if index < price {
                low = interval
            } else {
                high = interval
            }
            // Newton in logarithms, within a bracket.
            let step = (price / index).ln() * index / (interval * slope);
            let newton = interval * step.exp();
            let inside = newton > low && newton < high;
            let next = if inside { newton } else { (low * high).sqrt() };
            if (next / interval - 1.0).abs() < 1e-6 || high / low < 1.0 + 1e-6 {
                return next;
            }
            interval = next;
        }
        interval
    }

    /// What a visit at this age is worth.
    pub fn index(&self, age: f64) -> f64 {
        self.index_and_slope(age).0
    }

    /// What a visit at this age is worth, and how fast that grows.
    fn index_and_slope(&self, age: f64) -> (f64, f64) {
        let (mut index, mut slope) = (0.0, 0.0);
        let mut rate = SLOWEST;
        for weight in self.0 {
            if weight > 1e-12 {
                let x = rate * age;
                let e = (-x).exp();
                index +=
                    weight * if x < 1e-3 { age * x * (0.5 - x / 3.0) } else { (1.0 - e * (1.0 + x)) / rate };
                slope += weight * x * e;
            }
            rate *= RATIO;
        }
        (index, slope)
    }

    /// The change process that agrees with this belief where it matters: at the age at which the next visit is worth
    /// `price` a copy is as likely to be true, and has been true for as long. So that is when it is due, and the
    /// freshness that is expected until then is right.
    pub fn change(&self, price: f64) -> Change {
        let interval = self.interval_at(price.max(1.0));
        let fresh = self.fresh(interval).max(1e-12);
        let ratio = self.gain(interval) / interval / fresh;
        // (e^x − 1)/x = ratio.
        let (mut low, mut high) = (1e-9, 60.0);
        for _ in 0..50 {
            let middle: f64 = 0.5 * (low + high);
            if middle.exp_m1() < ratio * middle { low = middle } else { high = middle }
        }
        let x = 0.5 * (low + high);
        Change::believed(x / interval, (fresh * x.exp()).min(1.0)).unwrap_or(Change::NEVER)
    }
}

impl Belief {
    /// Where it is worth finding out more: how soon after this visit to look again, sooner than the price says.
    ///
    /// A page that has changed at every visit may be fast, and not worth any, or just faster than it was visited. As long
    /// as its visits are so far apart that they tell nothing, that stays open and costs visits for ever. So it is looked
    /// at again when it is as likely to have changed as not, which tells most.
    pub fn probe(&self, price: f64) -> Option<f64> {
        let price = price.max(1.0);
        let interval = self.interval_at(price);
        // What could be had per second if the rate were known, less what is had: both net of what visits cost.
        let missed = self.mean(|rate| best_fresh(rate * price)) - self.fresh(interval);
        let pays_within = (PROBE_PAYS_WITHIN * interval).min(PROBE_PAYS_WITHIN_SECS);
        if missed * pays_within < PROBE_VISITS * price {
            return None;
        }
        let (mut low, mut high) = (1.0, interval);
        for _ in 0..24 {
            let middle = f64::sqrt(low * high);
            if self.fresh(middle) > 0.5 { low = middle } else { high = middle }
        }
        Some(high)
    }
}

/// Freshness at the moment of a visit of a page that is visited at the best interval, where the price is `y` mean times
/// between changes: e^(−x) with 1 − e^(−x)(1 + x) = y. It is also what the page yields per second, net of its visits.
fn best_fresh(y: f64) -> f64 {
    static TABLE: LazyLock<[f64; STEPS + 1]> = LazyLock::new(|| {
        std::array::from_fn(|k| {
            let y = (k as f64 / STEPS as f64).powi(2);
            let (mut low, mut high) = (0.0f64, 60.0);
            for _ in 0..60 {
                let x = 0.5 * (low + high);
                if 1.0 - (-x).exp() * (1.0 + x) < y { low = x } else { high = x }
            }
            if k == STEPS { 0.0 } else { (-low).exp() }
        })
    });
    const STEPS: usize = 256;
    if y >= 1.0 {
        return 0.0;
    }
    // In steps of the root: near 0 it falls as fast as that.
    let at = y.max(0.0).sqrt() * STEPS as f64;
    let k = (at as usize).min(STEPS - 1);
    TABLE[k] + (TABLE[k + 1] - TABLE[k]) * (at - k as f64)
}

/// To find out costs so many visits, and must pay within so many intervals, and within two years: rates do not last. With
/// 20 intervals 4 % of the freshness that known rates give is still missing after a year of a visit a week; with 40, 1 %; with
/// 160, 2 %. At 20 visits a year 2.5 % are missing with two years, 4.3 % with one, 4.8 % where interval alone counts.
const PROBE_VISITS: f64 = 3.0;
const PROBE_PAYS_WITHIN: f64 = 40.0;
const PROBE_PAYS_WITHIN_SECS: f64 = 2.0 * 365.25 * 86_400.0;

/// A hundred years.
const INTERVAL_MAX: f64 = 100.0 * 365.25 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::super::{Observed, Prior};
    use super::*;

    const DAY: f64 = 86_400.0;

    #[test]
    fn the_change_agrees_where_it_matters() {
        let mut evidence = Evidence::default();
        for price in [0.2 * DAY, 2.0 * DAY, 20.0 * DAY] {
            let belief = Prior::default().belief(&evidence);
            let change = belief.change(price);
            let interval = belief.interval_at(price);
            let given_up = interval > 0.99 * INTERVAL_MAX;
            assert!(
                given_up || (change.interval_at(price) / interval - 1.0).abs() < 1e-3,
                "{change:?} at {price}"
            );
            assert!((change.gain(interval) / belief.gain(interval) - 1.0).abs() < 1e-3);
            assert!((change.fresh(interval) - belief.fresh(interval)).abs() < 1e-3);
            evidence.observe(9.0 * DAY, Observed::Changed);
            evidence.observe(4.0 * DAY, Observed::Unchanged);
        }
    }

    #[test]
    fn a_page_that_always_changes_is_looked_at_sooner_and_then_hardly_ever() {
        // A visit must be worth two days.
        let (price, prior) = (2.0 * DAY, Prior::default());
        let mut evidence = Evidence::default();
        let mut intervals = Vec::new();
        while intervals.len() < 60 {
            let belief = prior.belief(&evidence);
            let interval = belief.probe(price).unwrap_or(belief.interval_at(price));
            intervals.push(interval / DAY);
            if interval > 365.0 * DAY {
                break;
            }
            evidence.observe(interval, Observed::Changed);
        }
        assert!(intervals[1] < intervals[0], "{intervals:?}");
        assert!(intervals.len() < 12, "{intervals:?}");
        // One that does not change is visited ever less, but never given up within reason.
        let mut evidence = Evidence::default();
        let mut before = 0.0;
        for _ in 0..30 {
            let interval = prior.belief(&evidence).interval_at(price);
            assert!(interval >= before && interval < 3_000.0 * DAY, "{} days", interval / DAY);
            before = interval;
            evidence.observe(interval, Observed::Unchanged);
        }
    }

    #[test]
    fn the_best_freshness_is_what_is_left_after_paying() {
        for y in [1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999] {
            let change = Change::believed(1.0 / DAY, 1.0).unwrap();
            let price = y * DAY;
            let interval = change.interval_at(price);
            let net = (change.gain(interval) - price) / interval;
            assert!((best_fresh(y) - net).abs() < 2e-3, "{y}: {} and {net}", best_fresh(y));
        }
        assert_eq!((best_fresh(0.0), best_fresh(1.0), best_fresh(f64::INFINITY)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn beliefs_come_to_the_rate_that_was() {
        let mut evidence = Evidence::default();
        // Two of three visits, five days apart, saw a change: λ = ln 3 / 5 days.
        (0..90).for_each(|k| {
            evidence.observe(5.0 * DAY, if k % 3 == 0 { Observed::Unchanged } else { Observed::Changed })
        });
        let rate = Prior::default().belief(&evidence).rate() * 5.0 * DAY;
        assert!((rate / 3.0f64.ln()).ln().abs() < 0.3, "{rate}");
    }
}
