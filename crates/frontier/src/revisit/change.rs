//! How a page changes, and what a visit is worth [Souza10 ch. 4].
//!
//! A page changes as a Poisson process of some rate λ, but for the probability that it is *hopeless*: another at every
//! look, as a page with the time of day. A copy of age `a` is still true with probability `S(a) = hope · e^(−λa)`. A
//! known rate has hope 1. What is only believed of a page is put into the same form, so that it is right where it
//! matters; see [`super::estimate::Belief::change`].
//!
//! From `S` follows everything else. Visited every `T`, a page is fresh a share `gain(T)/T` of the time, where
//! `gain(T) = ∫₀ᵀ S`. One more visit per second is worth `index(T) = gain(T) − T·S(T)`, which is at the same time
//! Whittle's index of a copy of age `T`: a page is due when its index reaches the price of a visit.
//!
//! Times are seconds, rates per second. Does not learn rates; see [`super::estimate`].

/// A change process. 8 bytes, because there is one per page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    rate: f32,
    hope: f32,
}

impl Change {
    /// A page that never changes: fresh for ever, never visited again.
    pub const NEVER: Change = Change { rate: 0.0, hope: 1.0 };

    /// A page that changes `rate` times a second; 0 is never, infinite is a page no copy of which is ever true.
    ///
    /// `None` where the rate is negative or not a number.
    pub fn known(rate: f64) -> Option<Change> {
        Change::believed(rate, 1.0)
    }

    /// A page that changes `rate` times a second with probability `hope`, and is hopeless else. `None` where either is
    /// none.
    pub fn believed(rate: f64, hope: f64) -> Option<Change> {
        let sensible = rate >= 0.0 && (0.0..=1.0).contains(&hope);
        sensible.then_some(Change { rate: rate as f32, hope: hope as f32 })
    }

    /// Changes per second, if it is not hopeless.
    pub fn rate(self) -> f64 {
        f64::from(self.rate)
    }

    /// Probability that it is not hopeless.
    pub fn hope(self) -> f64 {
        f64::from(self.hope)
    }

    /// Whether visits can do this page any good.
    pub fn is_active(self) -> bool {
        self.rate > 0.0 && self.rate.is_finite() && self.hope > 0.0
    }

    /// Probability that a copy of this age is still true.
    pub fn fresh(self, age: f64) -> f64 {
        if self.rate == 0.0 { self.hope() } else { self.hope() * (-self.rate() * age).exp() }
    }

    /// Expected time that a copy stays true within `interval` after the visit.
    pub fn gain(self, interval: f64) -> f64 {
        let x = self.rate() * interval;
        if x < 1e-12 { self.hope() * interval } else { self.hope() * -(-x).exp_m1() / self.rate() }
    }

    /// What one more visit per second is worth to a page visited every `interval`, in seconds of freshness.
    pub fn index(self, interval: f64) -> f64 {
        if !self.is_active() {
            return 0.0;
        }
        let x = self.rate() * interval;
        if x < 1e-3 {
            // The difference below would lose its digits.
            return self.hope() * interval * x * (0.5 - x * (1.0 / 3.0 - x * (0.125 - x / 30.0)));
        }
        self.hope() * (1.0 - (-x).exp() * (1.0 + x)) / self.rate()
    }

    /// The index of a copy known to be wrong: no visit can be worth more.
    pub fn index_max(self) -> f64 {
        if self.is_active() { self.hope() / self.rate() } else { 0.0 }
    }

    /// The interval at which the index reaches `level`; infinite where it never does.
    pub fn interval_at(self, level: f64) -> f64 {
        self.interval_and_slope(level).0
    }

    /// The interval at which the index reaches `level`, and the slope of the index there.
    pub(super) fn interval_and_slope(self, level: f64) -> (f64, f64) {
        let q = level * self.rate() / self.hope();
        if !self.is_active() || q.is_nan() || q >= 1.0 {
            return (f64::INFINITY, 0.0);
        }
        let x = inverse(q);
        // e^(−x)(1 + x) = 1 − q: no need for another exponential.
        (x / self.rate(), self.hope() * x * (1.0 - q) / (1.0 + x))
    }

    /// Share of the time a page is fresh if it is visited at equal intervals `frequency` times a second: Lemma 4.2.
    pub fn freshness(self, frequency: f64) -> f64 {
        if self.rate == 0.0 {
            return self.hope();
        }
        if frequency <= 0.0 || !self.is_active() {
            return 0.0;
        }
        frequency * self.gain(1.0 / frequency)
    }
}

/// Solves `1 − e^(−x)(1 + x) = q` for `q` in `[0, 1)`: the x at which a page's index is a share q of its maximum.
fn inverse(q: f64) -> f64 {
    // The same equation as x − ln(1 + x) = v.
    let v = -(-q).ln_1p();
    let s = (2.0 * v).sqrt();
    // The series that is also Stirling's; its error is below 1e-4 up to here, and one step cubes it.
    const SERIES: [f64; 7] =
        [1.0, 1.0 / 3.0, 1.0 / 36.0, -1.0 / 270.0, 1.0 / 4_320.0, 1.0 / 17_010.0, -139.0 / 5_443_200.0];
    let mut x = if s < 2.5 {
        s * SERIES.iter().rev().fold(0.0, |sum, term| sum * s + term)
    } else {
        let log = (1.0 + v).ln();
        v + (1.0 + v + log).ln()
    };
    if s < 1e-2 {
        return x;
    }
    for _ in 0..6 {
        let value = x - x.ln_1p() - v;
        let slope = x / (1.0 + x);
        let step = value / (slope - value / (2.0 * x * (1.0 + x)));
        x -= step;
        // Halley: the error after this step is about the cube of the step.
        if step.abs() < 1e-4 * x {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance * want.abs().max(1e-300), "{got} instead of {want}");
    }

    #[test]
    fn the_interval_undoes_the_index() {
        for rate in [1e-9, 1e-5, 0.3, 100.0] {
            for hope in [1.0, 0.3] {
                let change = Change::believed(rate, hope).unwrap();
                for x in [1e-5, 1e-3, 0.03, 0.5, 1.793, 4.0, 12.0] {
                    let interval = x / rate;
                    near(change.interval_at(change.index(interval)), interval, 1e-8);
                }
            }
        }
    }

    #[test]
    fn the_index_is_the_slope_of_freshness_and_its_own_slope_is_right() {
        for hope in [1.0, 0.4] {
            let change = Change::believed(0.01, hope).unwrap();
            for frequency in [0.001, 0.01, 0.3] {
                let h = frequency * 1e-5;
                let slope = (change.freshness(frequency + h) - change.freshness(frequency - h)) / (2.0 * h);
                near(change.index(1.0 / frequency), slope, 1e-5);
                let interval = 1.0 / frequency;
                let (low, high) = (change.index(interval * 0.999), change.index(interval * 1.001));
                let (_, slope) = change.interval_and_slope(change.index(interval));
                near(slope, (high - low) / (0.002 * interval), 1e-3);
            }
        }
    }

    #[test]
    fn odd_rates_have_defined_answers() {
        assert_eq!(Change::known(f64::NAN), None);
        assert_eq!(Change::known(-1.0), None);
        assert_eq!(Change::believed(1.0, -0.1), None);
        assert_eq!(Change::believed(1.0, 1.1), None);
        assert_eq!(Change::believed(1.0, f64::NAN), None);
        let never = Change::known(0.0).unwrap();
        assert_eq!(
            (never.fresh(1e9), never.freshness(0.0), never.interval_at(0.0)),
            (1.0, 1.0, f64::INFINITY)
        );
        let always = Change::known(f64::INFINITY).unwrap();
        assert_eq!(
            (always.freshness(5.0), always.interval_at(1.0), always.index(3.0)),
            (0.0, f64::INFINITY, 0.0)
        );
        let hopeless = Change::believed(1.0, 0.0).unwrap();
        assert_eq!((hopeless.freshness(5.0), hopeless.interval_at(1.0)), (0.0, f64::INFINITY));
        assert_eq!(size_of::<Change>(), 8);
    }

    #[test]
    fn a_page_too_fast_for_the_price_is_given_up() {
        assert_eq!(Change::known(1.0).unwrap().interval_at(2.0), f64::INFINITY);
        assert_eq!(Change::believed(1.0, 0.4).unwrap().interval_at(0.5), f64::INFINITY);
        assert!(Change::known(1.0).unwrap().interval_at(0.5).is_finite());
    }
}
