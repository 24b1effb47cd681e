//! How a page changes, and what a visit is worth (revisit spec, §1).
//!
//! A page changes as a Poisson process. Its rate is either known, or known as a Gamma distribution: a mean and a
//! shape, small where little is known. A copy of age `a` is still true with probability `S(a)`: `e^(−λa)` for a known
//! rate, `(1 + a·mean/shape)^(−shape)` for an uncertain one.
//!
//! From `S` follows everything else. Visited every `T`, a page is fresh a share `gain(T)/T` of the time, where
//! `gain(T) = ∫₀ᵀ S`. One more visit per second is worth `index(T) = gain(T) − T·S(T)`, which is at the same time
//! Whittle's index of a copy of age `T`: a page is due when its index reaches the price of a visit.
//!
//! An uncertain page costs its worth as a mixture: it may turn out slow, so it is never quite given up, as a page
//! known to be fast is. That is all the exploring that is done here.
//!
//! Times are seconds, rates per second. Does not learn rates; see [`super::estimate`].

/// A change process, known or uncertain. 8 bytes, because there is one per page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    rate: f32,
    /// Of the Gamma distribution; infinite where the rate is known.
    shape: f32,
}

/// Above this shape a rate counts as known: its standard deviation is 0.1 % of it.
const SHAPE_KNOWN: f32 = 1e6;

/// A visit later than this is none; in seconds, many times the age of the world.
const INTERVAL_MAX: f64 = 1e30;

impl Change {
    /// A page that never changes: fresh for ever, never visited again.
    pub const NEVER: Change = Change { rate: 0.0, shape: f32::INFINITY };

    /// A page that changes `rate` times a second; 0 is never, infinite is a page no copy of which is ever true.
    ///
    /// `None` where the rate is negative or not a number.
    pub fn known(rate: f64) -> Option<Change> {
        (rate >= 0.0).then_some(Change { rate: rate as f32, shape: f32::INFINITY })
    }

    /// A page whose rate is Gamma-distributed with this mean and shape. `None` where either makes no sense.
    pub fn uncertain(mean: f64, shape: f64) -> Option<Change> {
        (mean >= 0.0 && shape > 0.0).then_some(Change { rate: mean as f32, shape: (shape as f32).max(1e-3) })
    }

    /// Mean changes per second.
    pub fn rate(self) -> f64 {
        f64::from(self.rate)
    }

    /// Shape of the distribution of the rate; infinite where it is known.
    pub fn shape(self) -> f64 {
        f64::from(self.shape)
    }

    /// Whether visits can do this page any good.
    pub fn is_active(self) -> bool {
        self.rate > 0.0 && self.rate.is_finite()
    }

    fn is_known(self) -> bool {
        self.shape >= SHAPE_KNOWN
    }

    /// Probability that a copy of this age is still true.
    pub fn fresh(self, age: f64) -> f64 {
        if self.rate == 0.0 {
            return 1.0;
        }
        if self.is_known() {
            return (-self.rate() * age).exp();
        }
        (-self.shape() * (self.rate() * age / self.shape()).ln_1p()).exp()
    }

    /// Expected time that a copy stays true within `interval` after the visit.
    pub fn gain(self, interval: f64) -> f64 {
        let rate = self.rate();
        if rate * interval == 0.0 {
            return interval;
        }
        if self.is_known() {
            return -(-rate * interval).exp_m1() / rate;
        }
        let (shape, scale) = (self.shape(), self.shape() / rate);
        let log = (interval / scale).ln_1p();
        if (shape - 1.0).abs() < 1e-6 {
            scale * log
        } else {
            scale * -((1.0 - shape) * log).exp_m1() / (shape - 1.0)
        }
    }

    /// What one more visit per second is worth to a page visited every `interval`, in seconds of freshness.
    pub fn index(self, interval: f64) -> f64 {
        let x = self.rate() * interval;
        if !self.is_active() {
            return 0.0;
        }
        if x < 1e-4 {
            // The difference below would lose its digits. Both kinds agree up to the second term.
            let third = if self.is_known() { 1.0 } else { 1.0 + 1.0 / self.shape() };
            return interval * x * (0.5 - third * x / 3.0);
        }
        self.gain(interval) - interval * self.fresh(interval)
    }

    /// The index of a copy known to be wrong: no visit can be worth more. Huge for vaguely known pages.
    pub fn index_max(self) -> f64 {
        if !self.is_active() {
            return 0.0;
        }
        if self.is_known() { 1.0 / self.rate() } else { self.index(INTERVAL_MAX) }
    }

    /// Slope of the index: `d index / d interval`.
    pub(super) fn index_slope(self, interval: f64) -> f64 {
        let rate = self.rate();
        if self.is_known() {
            return rate * interval * (-rate * interval).exp();
        }
        let shape = self.shape();
        rate * interval * (-(shape + 1.0) * (rate * interval / shape).ln_1p()).exp()
    }

    /// The interval at which the index reaches `level`; infinite where it never does.
    pub fn interval_at(self, level: f64) -> f64 {
        if !self.is_active() || level >= self.index_max() {
            return f64::INFINITY;
        }
        if self.is_known() {
            return inverse(level * self.rate()) / self.rate();
        }
        // In logarithms the index is concave, and this start lies left of the root: Newton climbs and never
        // overshoots.
        let mut interval = (2.0 * level / self.rate()).sqrt();
        for _ in 0..80 {
            let index = self.index(interval);
            let step = (level / index).ln() * index / (interval * self.index_slope(interval));
            // Where the index hardly grows any more, the page is as good as given up.
            if !step.is_finite() || interval > INTERVAL_MAX {
                return f64::INFINITY;
            }
            interval *= step.min(50.0).exp();
            if step < 1e-12 {
                break;
            }
        }
        interval
    }

    /// Share of the time a page is fresh if it is visited at equal intervals `frequency` times a second: Lemma 4.2.
    pub fn freshness(self, frequency: f64) -> f64 {
        if self.rate == 0.0 {
            return 1.0;
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
    if s < 1e-3 {
        return s + s * s / 3.0 + s * s * s / 36.0;
    }
    let mut x = if s < 2.0 {
        s + s * s / 3.0 + s * s * s / 36.0 - s * s * s * s / 270.0
    } else {
        let log = (1.0 + v).ln();
        v + (1.0 + v + log).ln()
    };
    for _ in 0..6 {
        // Halley's step: two of them reach the last digit.
        let value = x - x.ln_1p() - v;
        let slope = x / (1.0 + x);
        let step = value / (slope - value / (2.0 * x * (1.0 + x)));
        x -= step;
        if step.abs() < 1e-9 * x {
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
            for shape in [f64::INFINITY, 500.0, 3.0, 1.0, 0.4] {
                let change = Change::uncertain(rate, shape).unwrap();
                for x in [1e-5, 1e-3, 0.03, 0.5, 1.793, 4.0, 12.0] {
                    let interval = x / rate;
                    near(change.interval_at(change.index(interval)), interval, 1e-6);
                }
            }
        }
    }

    #[test]
    fn the_index_is_the_slope_of_freshness() {
        for shape in [f64::INFINITY, 2.0, 0.5] {
            let change = Change::uncertain(0.01, shape).unwrap();
            for frequency in [0.001, 0.01, 0.3] {
                let h = frequency * 1e-5;
                let slope = (change.freshness(frequency + h) - change.freshness(frequency - h)) / (2.0 * h);
                near(change.index(1.0 / frequency), slope, 1e-5);
            }
        }
    }

    #[test]
    fn a_shape_without_end_is_a_known_rate() {
        let (known, nearly) = (Change::known(0.02).unwrap(), Change::uncertain(0.02, 9e5).unwrap());
        for age in [0.1, 10.0, 50.0, 300.0] {
            near(nearly.fresh(age), known.fresh(age), 1e-4);
            near(nearly.gain(age), known.gain(age), 1e-4);
            near(nearly.index(age), known.index(age), 1e-4);
        }
    }

    #[test]
    fn odd_rates_have_defined_answers() {
        assert_eq!(Change::known(f64::NAN), None);
        assert_eq!(Change::known(-1.0), None);
        assert_eq!(Change::uncertain(1.0, 0.0), None);
        assert_eq!(Change::uncertain(f64::NAN, 1.0), None);
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
        assert_eq!(size_of::<Change>(), 8);
    }

    #[test]
    fn a_page_known_to_be_fast_is_given_up_and_one_thought_fast_is_not() {
        assert_eq!(Change::known(1.0).unwrap().interval_at(2.0), f64::INFINITY);
        assert!(Change::uncertain(1.0, 0.8).unwrap().interval_at(2.0) < 30.0);
    }
}
