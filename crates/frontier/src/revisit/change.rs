//! How a page changes, and what a visit is worth (revisit spec, §1).
//!
//! A page changes as a Poisson process. Its rate is known, or believed: log-normal, a median and a spread, so that
//! "somewhere between every hour and never" can be said. A copy of age `a` is still true with probability `S(a)`:
//! `e^(−λa)` for a known rate, the mean of that for a believed one.
//!
//! From `S` follows everything else. Visited every `T`, a page is fresh a share `gain(T)/T` of the time, where
//! `gain(T) = ∫₀ᵀ S`. One more visit per second is worth `index(T) = gain(T) − T·S(T)`, which is at the same time
//! Whittle's index of a copy of age `T`: a page is due when its index reaches the price of a visit.
//!
//! A page of uncertain rate is worth what the mixture is worth: it may turn out slow, so it is not given up as soon as a
//! page known to be fast. That is all the exploring that is done here.
//!
//! Times are seconds, rates per second. Does not learn rates; see [`super::estimate`].

/// A change process, known or believed. 8 bytes, because there is one per page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The median.
    rate: f32,
    /// Standard deviation of the logarithm of the rate; 0 where it is known.
    spread: f32,
}

/// A belief is taken as so many rates: from 3 spreads below the median to 3 above, in steps of half a spread. With
/// steps so small compared to the bell, sums are as good as integrals. Here are the weights: the normal density, made
/// to sum up to 1.
const NODES: [f64; 13] = [
    0.002_218_196,
    0.008_773_135,
    0.027_023_158,
    0.064_825_185,
    0.121_109_390,
    0.176_213_123,
    0.199_675_627,
    0.176_213_123,
    0.121_109_390,
    0.064_825_185,
    0.027_023_158,
    0.008_773_135,
    0.002_218_196,
];

impl Change {
    /// A page that never changes: fresh for ever, never visited again.
    pub const NEVER: Change = Change { rate: 0.0, spread: 0.0 };

    /// A page that changes `rate` times a second; 0 is never, infinite is a page no copy of which is ever true.
    ///
    /// `None` where the rate is negative or not a number.
    pub fn known(rate: f64) -> Option<Change> {
        (rate >= 0.0).then_some(Change { rate: rate as f32, spread: 0.0 })
    }

    /// A page whose rate is log-normal with this median, and this standard deviation of its natural logarithm. `None`
    /// where either makes no sense.
    pub fn believed(median: f64, spread: f64) -> Option<Change> {
        let sensible = median >= 0.0 && (0.0..=SPREAD_MAX).contains(&spread);
        sensible.then_some(Change { rate: median as f32, spread: spread as f32 })
    }

    /// Changes per second; the median where it is uncertain.
    pub fn rate(self) -> f64 {
        f64::from(self.rate)
    }

    /// Mean changes per second. Where it is uncertain, that is far above the median.
    pub fn rate_mean(self) -> f64 {
        self.mean(|rate| rate)
    }

    /// Standard deviation of the logarithm of the rate; 0 where it is known.
    pub fn spread(self) -> f64 {
        f64::from(self.spread)
    }

    /// Whether visits can do this page any good.
    pub fn is_active(self) -> bool {
        self.rate > 0.0 && self.rate.is_finite()
    }

    fn is_known(self) -> bool {
        self.spread == 0.0
    }

    /// Mean of a function over the rates that are believed.
    fn mean(self, f: impl Fn(f64) -> f64) -> f64 {
        if self.is_known() {
            return f(self.rate());
        }
        // Rates are a geometric series: one exponential for all.
        let step = (0.5 * self.spread()).exp();
        let mut rate = self.rate() * (-3.0 * self.spread()).exp();
        let mut sum = 0.0;
        for weight in NODES {
            sum += weight * f(rate);
            rate *= step;
        }
        sum
    }

    /// Probability that a copy of this age is still true.
    pub fn fresh(self, age: f64) -> f64 {
        if self.rate == 0.0 { 1.0 } else { self.mean(|rate| (-rate * age).exp()) }
    }

    /// Expected time that a copy stays true within `interval` after the visit.
    pub fn gain(self, interval: f64) -> f64 {
        if self.rate == 0.0 { interval } else { self.mean(|rate| gain(rate, interval)) }
    }

    /// What one more visit per second is worth to a page visited every `interval`, in seconds of freshness.
    pub fn index(self, interval: f64) -> f64 {
        if self.is_active() { self.mean(|rate| index(rate, interval)) } else { 0.0 }
    }

    /// The index of a copy known to be wrong: no visit can be worth more.
    pub fn index_max(self) -> f64 {
        if self.is_active() { self.mean(|rate| 1.0 / rate) } else { 0.0 }
    }

    /// The interval at which the index reaches `level`; infinite where it never does.
    pub fn interval_at(self, level: f64) -> f64 {
        self.interval_and_slope(level).0
    }

    /// The interval at which the index reaches `level`, and the slope of the index there.
    pub(super) fn interval_and_slope(self, level: f64) -> (f64, f64) {
        if !self.is_active() || level >= self.index_max() {
            return (f64::INFINITY, 0.0);
        }
        if self.is_known() {
            let (rate, q) = (self.rate(), level * self.rate());
            let x = inverse(q);
            // e^(−x)(1 + x) = 1 − q: no need for another exponential.
            return (x / rate, x * (1.0 - q) / (1.0 + x));
        }
        self.climb(level)
    }

    /// Newton in logarithms, within a bracket.
    fn climb(self, level: f64) -> (f64, f64) {
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut interval = inverse((level * self.rate()).min(0.9)) / self.rate();
        let mut slope = 0.0;
        for _ in 0..100 {
            let value = self.index(interval);
            slope = self.mean(|rate| rate * interval * (-rate * interval).exp());
            if value < level {
                low = interval
            } else {
                high = interval
            }
            let step = (level / value).ln() * value / (interval * slope);
            if step.abs() < 1e-7 {
                break;
            }
            let newton = interval * step.clamp(-3.0, 3.0).exp();
            let middle = if high.is_finite() { (low.max(high * 1e-6) * high).sqrt() } else { low * 20.0 };
            interval = if newton > low && newton < high { newton } else { middle };
            // Where the index hardly grows any more, the page is as good as given up.
            if interval > INTERVAL_MAX {
                return (f64::INFINITY, 0.0);
            }
        }
        (interval, slope)
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

/// Nobody knows so little: e^8 is a factor of 3,000 either way.
pub(super) const SPREAD_MAX: f64 = 8.0;

/// A visit later than this is none; in seconds, many times the age of the world.
const INTERVAL_MAX: f64 = 1e30;

/// `gain` of a known rate.
fn gain(rate: f64, interval: f64) -> f64 {
    if rate * interval < 1e-12 { interval } else { -(-rate * interval).exp_m1() / rate }
}

/// `index` of a known rate.
fn index(rate: f64, interval: f64) -> f64 {
    let x = rate * interval;
    if x < 1e-3 {
        // The difference below would lose its digits.
        return interval * x * (0.5 - x * (1.0 / 3.0 - x * (0.125 - x / 30.0)));
    }
    (1.0 - (-x).exp() * (1.0 + x)) / rate
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
            for spread in [0.0, 0.2, 1.0, 3.0] {
                let change = Change::believed(rate, spread).unwrap();
                for x in [1e-5, 1e-3, 0.03, 0.5, 1.793, 4.0, 12.0] {
                    let interval = x / rate;
                    near(change.interval_at(change.index(interval)), interval, 1e-6);
                }
            }
        }
    }

    #[test]
    fn the_index_is_the_slope_of_freshness() {
        for spread in [0.0, 0.5, 2.5] {
            let change = Change::believed(0.01, spread).unwrap();
            for frequency in [0.001, 0.01, 0.3] {
                let h = frequency * 1e-5;
                let slope = (change.freshness(frequency + h) - change.freshness(frequency - h)) / (2.0 * h);
                near(change.index(1.0 / frequency), slope, 1e-5);
            }
        }
    }

    #[test]
    fn sums_are_as_good_as_integrals() {
        near(NODES.iter().sum(), 1.0, 1e-7);
        for (median, spread) in [(0.02, 0.3), (0.02, 1.0), (0.02, 2.5)] {
            let change = Change::believed(median, spread).unwrap();
            for age in [1.0, 50.0, 500.0] {
                let (mut sum, mut weights) = (0.0, 0.0);
                for k in -8_000..=8_000 {
                    let z = f64::from(k) / 1_000.0;
                    let weight = (-z * z / 2.0).exp();
                    sum += weight * (-median * (z * spread).exp() * age).exp();
                    weights += weight;
                }
                assert!((change.fresh(age) - sum / weights).abs() < 2e-3);
            }
        }
        // Hardly any spread is a known rate.
        let (known, nearly) = (Change::known(0.02).unwrap(), Change::believed(0.02, 1e-3).unwrap());
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
        assert_eq!(Change::believed(1.0, -1.0), None);
        assert_eq!(Change::believed(1.0, f64::INFINITY), None);
        assert_eq!(Change::believed(f64::NAN, 1.0), None);
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
        assert!(Change::believed(1.0, 2.0).unwrap().interval_at(2.0) < 30.0);
    }
}
