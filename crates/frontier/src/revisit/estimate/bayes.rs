//! A page's rate as a Gamma distribution, updated by each visit in O(1).
//!
//! "Unchanged for a seconds" has likelihood e^(−λa): the distribution stays Gamma, exactly. "Last changed b seconds ago"
//! has λe^(−λb): exactly too. "Changed within a seconds" has 1 − e^(−λa), which leaves a difference of two Gamma
//! distributions; the Gamma with the same mean and variance takes its place (assumed density filtering).

use super::Observed;
use crate::revisit::Change;

/// More than this is not believed, so that a page that changes its ways is noticed: the last 50 changes or so count.
pub const SHAPE_MAX: f64 = 50.0;

/// What is known after a visit that came `elapsed` seconds after the one before.
///
/// An elapsed time that is none (0, negative, not a number) tells nothing, unless the page says when it changed.
pub fn observe(known: Change, elapsed: f64, observed: Observed) -> Change {
    let shape = known.shape().min(SHAPE_MAX);
    if known.rate() <= 0.0 || !known.rate().is_finite() {
        return known;
    }
    let scale = shape / known.rate();
    let counts = elapsed > 0.0 && elapsed.is_finite();
    match observed {
        Observed::Unchanged if counts => gamma(shape, scale + elapsed),
        Observed::Changed if counts => changed(shape, scale, elapsed),
        Observed::ChangedAgo(ago) if ago > 0.0 && ago.is_finite() => {
            let (shape, scale) = (shape + 1.0, scale + ago);
            // Forget evenly: the mean stays.
            let kept = (SHAPE_MAX / shape).min(1.0);
            gamma(shape * kept, scale * kept)
        }
        _ => known,
    }
}

fn changed(shape: f64, scale: f64, elapsed: f64) -> Change {
    let log = (elapsed / scale).ln_1p();
    // Shares of the mixture that are taken away: s = (β/(β+a))^α, and s times one and two more factors.
    let [none, one, two] = [0.0, 1.0, 2.0].map(|more| -(-(shape + more) * log).exp_m1());
    if none < 1e-12 {
        // The interval tells next to nothing about when: as good as a change seen at once.
        return gamma((shape + 1.0).min(SHAPE_MAX), scale * ((shape + 1.0).min(SHAPE_MAX) / (shape + 1.0)));
    }
    let mean = shape / scale * one / none;
    let square = shape * (shape + 1.0) / (scale * scale) * two / none;
    let variance = square - mean * mean;
    if !(variance > 0.0 && mean.is_finite()) {
        return gamma(shape, scale);
    }
    gamma((mean * mean / variance).min(SHAPE_MAX), (mean * mean / variance).min(SHAPE_MAX) / mean)
}

/// The distribution with this shape and scale; the scale is in seconds.
pub(super) fn gamma(shape: f64, scale: f64) -> Change {
    Change::uncertain(shape / scale, shape).unwrap_or(Change::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};

    fn learn(rate: f64, visits: u32, seed: u64, mut interval: impl FnMut(&mut Seeded) -> f64) -> Change {
        let mut random = Seeded::new(seed);
        let mut known = Change::uncertain(1e-5, 0.5).unwrap();
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
    fn what_is_believed_agrees_with_a_grid() {
        // The exact posterior on a grid of rates, against mean and shape of the Gamma that stands for it.
        let visits = [(3e4, true), (9e4, false), (2e5, true), (1e4, false), (1e5, true), (4e5, true)];
        let prior = Change::uncertain(1e-5, 0.5).unwrap();
        let (mut known, mut weights) = (prior, Vec::new());
        let grid: Vec<f64> = (0..20_000).map(|k| 1e-9 * (1.0008f64).powi(k)).collect();
        for rate in &grid {
            // Density of the prior, times the width of the cell.
            let scale = 0.5 / 1e-5;
            let mut weight = rate.powf(0.5 - 1.0) * (-rate * scale).exp() * rate;
            for (elapsed, changed) in visits {
                let unchanged = (-rate * elapsed).exp();
                weight *= if changed { 1.0 - unchanged } else { unchanged };
            }
            weights.push(weight);
        }
        for (elapsed, changed) in visits {
            known = observe(known, elapsed, if changed { Observed::Changed } else { Observed::Unchanged });
        }
        let sum: f64 = weights.iter().sum();
        let mean: f64 = grid.iter().zip(&weights).map(|(rate, weight)| rate * weight).sum::<f64>() / sum;
        let square: f64 =
            grid.iter().zip(&weights).map(|(rate, weight)| rate * rate * weight).sum::<f64>() / sum;
        let shape = mean * mean / (square - mean * mean);
        assert!((known.rate() / mean - 1.0).abs() < 0.05, "{} instead of {mean}", known.rate());
        assert!((known.shape() / shape - 1.0).abs() < 0.15, "{} instead of {shape}", known.shape());
    }

    #[test]
    fn a_known_instant_tells_more_than_a_change() {
        let prior = Change::uncertain(1e-5, 0.5).unwrap();
        let dated = observe(prior, 1e6, Observed::ChangedAgo(1e3));
        let vague = observe(prior, 1e6, Observed::Changed);
        assert!(dated.rate() > vague.rate() && dated.shape() > vague.shape());
    }

    #[test]
    fn a_page_that_changes_its_ways_is_noticed() {
        let mut known = Change::uncertain(1e-5, 0.5).unwrap();
        (0..500).for_each(|_| known = observe(known, 1e5, Observed::Changed));
        assert!(known.shape() <= SHAPE_MAX);
        let fast = known.rate();
        (0..200).for_each(|_| known = observe(known, 1e5, Observed::Unchanged));
        assert!(known.rate() < fast / 5.0, "{} after {fast}", known.rate());
    }

    #[test]
    fn odd_intervals_tell_nothing() {
        let known = Change::uncertain(1e-5, 0.5).unwrap();
        for elapsed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(observe(known, elapsed, Observed::Changed), known);
            assert_eq!(observe(known, elapsed, Observed::Unchanged), known);
            assert_eq!(observe(known, elapsed, Observed::ChangedAgo(f64::NAN)), known);
        }
        // A change within a moment, and within an age.
        for elapsed in [1e-9, 1e15] {
            let after = observe(known, elapsed, Observed::Changed);
            assert!(after.rate() > 0.0 && after.rate().is_finite() && after.shape() > 0.0, "{after:?}");
        }
        assert_eq!(observe(Change::NEVER, 10.0, Observed::Changed), Change::NEVER);
    }
}
