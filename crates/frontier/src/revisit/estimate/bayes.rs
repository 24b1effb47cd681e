//! A page's rate as a log-normal belief, updated by each visit in O(1).
//!
//! "Unchanged for a seconds" has likelihood e^(−λa), "changed within a seconds" 1 − e^(−λa), "last changed b seconds ago"
//! λe^(−λb). Each is multiplied with the belief on a grid of rates, and the log-normal with the same mean and variance of
//! the logarithm takes the place of the product (assumed density filtering).
//!
//! Gamma distributions would need no grid, but cannot say "fast, who knows how fast".

use super::Observed;
use crate::revisit::Change;

/// No belief is firmer, so that a page that changes its ways is noticed: about as firm as after 45 changes.
pub const SPREAD_MIN: f64 = 0.15;

/// What is known after a visit that came `elapsed` seconds after the one before.
///
/// An elapsed time that is none (0, negative, not a number) tells nothing, unless the page says when it changed.
pub fn observe(known: Change, elapsed: f64, observed: Observed) -> Change {
    let counts = elapsed > 0.0 && elapsed.is_finite();
    match observed {
        Observed::Unchanged if counts => learn(known, |rate| -rate * elapsed),
        Observed::Changed if counts => learn(known, |rate| (-(-rate * elapsed).exp_m1()).ln()),
        Observed::ChangedAgo(ago) if ago > 0.0 && ago.is_finite() => {
            learn(known, |rate| rate.ln() - rate * ago)
        }
        _ => known,
    }
}

/// Points of the grid, from 5 spreads below the median to 5 above.
const GRID: usize = 41;

/// Takes in an observation, given as the logarithm of its likelihood.
fn learn(known: Change, likelihood: impl Fn(f64) -> f64) -> Change {
    if !known.is_active() {
        return known;
    }
    let spread = known.spread().max(SPREAD_MIN);
    let z = |k: usize| (k as f64 / (GRID - 1) as f64 - 0.5) * 10.0;
    let weight = |k: usize| likelihood(known.rate() * (z(k) * spread).exp()) - z(k) * z(k) / 2.0;
    let weights: [f64; GRID] = std::array::from_fn(weight);
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !most.is_finite() {
        return known;
    }
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    for (k, weight) in weights.iter().enumerate() {
        let weight = (weight - most).exp();
        sum += weight;
        first += weight * z(k);
        second += weight * z(k) * z(k);
    }
    let mean = first / sum;
    let deviation = (second / sum - mean * mean).max(0.0).sqrt();
    let median = known.rate() * (mean * spread).exp();
    // Rates of less than once in 3,000 years or more than a million a second are as good as none or infinite.
    Change::believed(median.clamp(1e-11, 1e6), (deviation * spread).max(SPREAD_MIN)).unwrap_or(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};

    fn learn(rate: f64, visits: u32, seed: u64, mut interval: impl FnMut(&mut Seeded) -> f64) -> Change {
        let mut random = Seeded::new(seed);
        let mut known = Change::believed(1e-5, 2.5).unwrap();
        for _ in 0..visits {
            let elapsed = interval(&mut random);
            let changed = random.unit() < 1.0 - (-rate * elapsed).exp();
            known = observe(known, elapsed, if changed { Observed::Changed } else { Observed::Unchanged });
        }
        known
    }

    #[test]
    fn rates_are_learnt_from_irregular_visits() {
        for rate in [1e-6, 1e-5, 1e-4] {
            let mean = |visits| {
                let learnt = |seed| learn(rate, visits, seed, |random| -random.unit().ln() * 0.7 / rate);
                (0..200).map(|seed| learnt(seed).rate()).sum::<f64>() / 200.0
            };
            // The prior, ten times too slow or too fast, still pulls a little.
            assert!((mean(60) / rate - 1.0).abs() < 0.15, "{} instead of {rate}", mean(60));
        }
    }

    #[test]
    fn what_is_believed_agrees_with_a_fine_grid() {
        // The exact belief after six visits on a fine grid of rates, against the log-normal that stands for it.
        let visits = [(3e4, true), (9e4, false), (2e5, true), (1e4, false), (1e5, true), (4e5, true)];
        let mut known = Change::believed(1e-5, 2.5).unwrap();
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for k in -10_000..=10_000 {
            let log = f64::from(k) / 800.0;
            let rate = 1e-5 * log.exp();
            let mut weight = (-log * log / 2.0 / 6.25).exp();
            for (elapsed, changed) in visits {
                let unchanged = (-rate * elapsed).exp();
                weight *= if changed { 1.0 - unchanged } else { unchanged };
            }
            (sum, first, second) = (sum + weight, first + weight * log, second + weight * log * log);
        }
        for (elapsed, changed) in visits {
            known = observe(known, elapsed, if changed { Observed::Changed } else { Observed::Unchanged });
        }
        let mean = first / sum;
        let spread = (second / sum - mean * mean).sqrt();
        // Each step loses a little; in the end it is well within the spread.
        assert!(((known.rate() / 1e-5).ln() - mean).abs() < 0.6 * spread, "{known:?} instead of e^{mean}");
        assert!((known.spread() / spread - 1.0).abs() < 0.3, "{known:?} instead of {spread}");
    }

    #[test]
    fn a_page_that_always_changes_is_given_up_and_one_that_does_not_is_not() {
        // A visit must be worth two days.
        let price = 2.0 * 86_400.0;
        let mut fast = Change::believed(1.0 / (30.0 * 86_400.0), 2.5).unwrap();
        let mut visits = 0;
        while fast.interval_at(price).is_finite() && visits < 100 {
            fast = observe(fast, fast.interval_at(price), Observed::Changed);
            visits += 1;
        }
        assert!((3..40).contains(&visits), "{visits} visits, {fast:?}");
        let mut slow = Change::believed(1.0 / (30.0 * 86_400.0), 2.5).unwrap();
        for _ in 0..30 {
            let interval = slow.interval_at(price);
            assert!(interval.is_finite());
            slow = observe(slow, interval, Observed::Unchanged);
        }
    }

    #[test]
    fn a_known_instant_tells_more_than_a_change() {
        let prior = Change::believed(1e-5, 2.5).unwrap();
        let dated = observe(prior, 1e6, Observed::ChangedAgo(1e3));
        let vague = observe(prior, 1e6, Observed::Changed);
        assert!(dated.rate() > vague.rate() && dated.spread() < vague.spread());
    }

    #[test]
    fn a_page_that_changes_its_ways_is_noticed() {
        let mut known = Change::believed(1e-5, 2.5).unwrap();
        (0..500).for_each(|_| known = observe(known, 1e5, Observed::Changed));
        assert!(known.spread() >= SPREAD_MIN * 0.999);
        let fast = known.rate();
        (0..200).for_each(|_| known = observe(known, 1e5, Observed::Unchanged));
        assert!(known.rate() < fast / 5.0, "{} after {fast}", known.rate());
    }

    #[test]
    fn odd_intervals_tell_nothing() {
        let known = Change::believed(1e-5, 2.5).unwrap();
        for elapsed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(observe(known, elapsed, Observed::Changed), known);
            assert_eq!(observe(known, elapsed, Observed::Unchanged), known);
            assert_eq!(observe(known, elapsed, Observed::ChangedAgo(f64::NAN)), known);
        }
        // A change within a moment, and within an age.
        for elapsed in [1e-9, 1e15] {
            let after = observe(known, elapsed, Observed::Changed);
            assert!(after.rate() > 0.0 && after.rate().is_finite() && after.spread() > 0.0, "{after:?}");
        }
        assert_eq!(observe(Change::NEVER, 10.0, Observed::Changed), Change::NEVER);
    }
}
