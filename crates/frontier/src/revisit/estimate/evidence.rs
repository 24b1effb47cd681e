//! What the visits of a page have told, as a likelihood of its rate in three numbers.
//!
//! "Unchanged for a seconds" has likelihood e^(−λa): such times add up, exactly. "Changed within a seconds" has
//! 1 − e^(−λa). A product of those is kept as (1 − e^(−λa))^k with the geometric mean of the intervals, which is exact for
//! equal intervals, and for any where λ is small; where λ is large, all factors are 1. So it stays sharp that a page
//! that changes at every visit is not slow, and open how fast it is. Families of distributions with two parameters
//! (Gamma, log-normal) were tried instead and got one of the two wrong (`docs/results/revisit.md`).

use super::Observed;

/// A likelihood `(1 − e^(−λ·interval))^changes · e^(−λ·unchanged)`. 12 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Visits that saw a change.
    pub changes: f32,
    /// Geometric mean of the intervals before them, in seconds.
    pub interval: f32,
    /// Time without change, in seconds.
    pub unchanged: f32,
}

/// More changes are not remembered, so that a page that changes its ways is noticed.
pub const CHANGES_MAX: f32 = 50.0;

impl Evidence {
    /// Takes in a visit that came `elapsed` seconds after the one before.
    ///
    /// An elapsed time that is none (0, negative, not a number) tells nothing, unless the page says when it changed.
    pub fn observe(&mut self, elapsed: f64, observed: Observed) {
        let counts = |secs: f64| secs > 0.0 && secs.is_finite();
        match observed {
            Observed::Unchanged if counts(elapsed) => self.unchanged += elapsed as f32,
            Observed::Changed if counts(elapsed) => self.changed(elapsed),
            Observed::ChangedAgo(ago) if counts(ago) => {
                // λe^(−λb) is near (1 − e^(−λb))·e^(−λb) but for a factor.
                self.changed(ago);
                self.unchanged += ago as f32;
            }
            _ => {}
        }
        if self.changes > CHANGES_MAX {
            // Forget evenly: what is believed of the rate stays.
            self.unchanged *= CHANGES_MAX / self.changes;
            self.changes = CHANGES_MAX;
        }
    }

    fn changed(&mut self, interval: f64) {
        let before = f64::from(self.changes) * f64::from(self.interval).max(f64::MIN_POSITIVE).ln();
        self.changes += 1.0;
        self.interval = ((before + interval.ln()) / f64::from(self.changes)).exp() as f32;
    }

    /// Logarithm of the likelihood of a rate.
    pub fn log_likelihood(&self, rate: f64) -> f64 {
        let calm = -rate * f64::from(self.unchanged);
        if self.changes == 0.0 {
            return calm;
        }
        let changed = -(-rate * f64::from(self.interval)).exp_m1();
        calm + f64::from(self.changes) * changed.max(1e-300).ln()
    }

    pub fn is_none(&self) -> bool {
        self.changes == 0.0 && self.unchanged == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_stand_for_a_history() {
        // Against the likelihood of the history itself, for rates that are not out of the question.
        let history =
            [(3e4, true), (9e4, false), (2e5, true), (1e4, false), (1e5, true), (4e5, true), (5e4, false)];
        let mut evidence = Evidence::default();
        for (elapsed, changed) in history {
            evidence.observe(elapsed, if changed { Observed::Changed } else { Observed::Unchanged });
        }
        let exact = |rate: f64| -> f64 {
            let one = |(elapsed, changed): (f64, bool)| {
                let calm = (-rate * elapsed).exp();
                if changed { (1.0 - calm).ln() } else { calm.ln() }
            };
            history.into_iter().map(one).sum()
        };
        let rates: Vec<f64> = (0..60).map(|k| 1e-8 * 1.3f64.powi(k)).collect();
        let best =
            |f: &dyn Fn(f64) -> f64| rates.iter().copied().max_by(|a, b| f(*a).total_cmp(&f(*b))).unwrap();
        let stands = |rate: f64| evidence.log_likelihood(rate);
        let (a, b) = (best(&exact), best(&stands));
        assert!((a / b).ln().abs() < 0.3, "{a} and {b}");
        for rate in rates {
            let (a, b) = (exact(rate) - exact(a), stands(rate) - stands(b));
            assert!(a < -5.0 || (a - b).abs() < 0.6, "{rate}: {a} and {b}");
        }
    }

    #[test]
    fn odd_intervals_tell_nothing() {
        let mut evidence = Evidence::default();
        for elapsed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            evidence.observe(elapsed, Observed::Changed);
            evidence.observe(elapsed, Observed::Unchanged);
            evidence.observe(elapsed, Observed::ChangedAgo(f64::NAN));
        }
        assert!(evidence.is_none());
        assert_eq!(size_of::<Evidence>(), 12);
    }

    #[test]
    fn a_page_that_changes_its_ways_is_noticed() {
        let mut evidence = Evidence::default();
        (0..500).for_each(|_| evidence.observe(1e5, Observed::Changed));
        assert_eq!(evidence.changes, CHANGES_MAX);
        (0..200).for_each(|_| evidence.observe(1e5, Observed::Unchanged));
        assert!(evidence.log_likelihood(3e-6) > evidence.log_likelihood(3e-5));
    }
}
