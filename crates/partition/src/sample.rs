//! How many probes are enough [Exposto08 §4.4, eqs. 4.3 to 4.7].

/// Probes per destination from which on the median hardly moves [Exposto08 §4.4] (mean error 0.08).
pub const PROBES: usize = 7;

/// Whether a population is so large beside a sample that it may be taken as endless (eq. 4.5).
pub fn is_endless(population: f64, sample: f64) -> bool {
    20.0 * sample <= population
}

/// Margin of error of a mean (eqs. 4.3, 4.6). `None` where the numbers mean nothing: no sample, a negative deviation, a
/// sample greater than its population.
pub fn margin(z: f64, deviation: f64, sample: f64, population: f64) -> Option<f64> {
    let sane = z > 0.0 && deviation >= 0.0 && sample >= 1.0 && population >= sample;
    if !sane || !(z * deviation).is_finite() {
        return None;
    }
    let endless = z * deviation / sample.sqrt();
    if is_endless(population, sample) || population.is_infinite() {
        return Some(endless);
    }
    Some(endless * ((population - sample) / (population - 1.0).max(f64::MIN_POSITIVE)).sqrt())
}

/// Sample size for a margin of error (eqs. 4.4, 4.7), rounded up; `None` where the numbers mean nothing.
pub fn size(z: f64, deviation: f64, margin: f64, population: f64) -> Option<u64> {
    let sane = z > 0.0 && deviation >= 0.0 && margin > 0.0 && population >= 1.0;
    let spread = (z * deviation).powi(2);
    if !sane || !spread.is_finite() || !margin.is_finite() {
        return None;
    }
    let endless = spread / margin.powi(2);
    let size = if population.is_infinite() || is_endless(population, endless) {
        endless
    } else {
        population * spread / (margin.powi(2) * (population - 1.0) + spread)
    };
    Some((size.ceil() as u64).max(1))
}

/// The middle value; of an even number of them the mean of the two in the middle. What is not a number is left out.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let at = n.checked_sub(1)? / 2;
    Some(if n % 2 == 1 { values[at] } else { (values[at] + values[at + 1]) / 2.0 })
}

/// Mean error of the median of the first `t` samples against that of all, over destinations with at least 30 (the
/// small-sample rule of §2.7); `None` where no destination has so many.
pub fn median_error(destinations: &[Vec<f64>], t: usize) -> Option<f64> {
    let errors: Vec<f64> = destinations
        .iter()
        .filter(|samples| samples.len() >= 30 && t >= 1)
        .filter_map(|samples| {
            let (all, some) = (median(samples)?, median(&samples[..t.min(samples.len())])?);
            (all > 0.0).then(|| (all - some).abs() / all)
        })
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_margin_comes_out() {
        // §4.4: 10,056 probes, deviation 3.21 ms, 99 %: 0.08 (2.576 · 3.21 / √10056 = 0.0825).
        let got = margin(2.576, 3.21, 10_056.0, f64::INFINITY).unwrap();
        assert!((got - 0.0825).abs() < 0.0001, "{got}");
        // And back: so many probes for that margin.
        assert!(size(2.576, 3.21, 0.0825, f64::INFINITY).unwrap().abs_diff(10_056) < 20);
    }

    #[test]
    fn small_populations_need_fewer() {
        // (4.4) with N = 1000, Z = 1.96, σ = 10, ε = 1: 1000·384.16 / (999 + 384.16) = 277.7.
        assert_eq!(size(1.96, 10.0, 1.0, 1000.0), Some(278));
        assert_eq!(size(1.96, 10.0, 1.0, 1e9), Some(385));
        let whole = margin(1.96, 10.0, 1000.0, 1000.0).unwrap();
        assert_eq!(whole, 0.0);
        for n in [50.0, 100.0, 900.0] {
            assert!(margin(1.96, 10.0, n, 1000.0) <= margin(1.96, 10.0, n, f64::INFINITY));
        }
    }

    #[test]
    fn nonsense_has_no_answer() {
        let nan = f64::NAN;
        for (z, deviation, n, population) in [
            (nan, 1.0, 9.0, 99.0),
            (2.0, -1.0, 9.0, 99.0),
            (2.0, 1.0, 0.0, 99.0),
            (2.0, 1.0, 9.0, 3.0),
            (2.0, nan, 9.0, 99.0),
        ] {
            assert_eq!(margin(z, deviation, n, population), None);
        }
        assert_eq!(size(2.0, 1.0, 0.0, 10.0), None);
        assert_eq!(size(2.0, f64::INFINITY, 1.0, 10.0), None);
        assert_eq!(size(2.0, 0.0, 1.0, 10.0), Some(1));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN]), None);
        let steady = vec![vec![5.0; 40], vec![7.0; 30], vec![1.0; 3]];
        assert_eq!(median_error(&steady, 7), Some(0.0));
        assert_eq!(median_error(&steady[2..], 7), None);
    }
}
