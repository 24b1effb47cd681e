//! The bias-corrected estimator \[Cho03a\], for visits at irregular intervals.
//!
//! The most likely rate solves `Σ_changed T/(e^(λT) − 1) = Σ_unchanged T`. It is biased, and infinite where every visit
//! saw a change. Half an unchanged visit of mean length is added, which for equal intervals gives exactly their
//! `λ = −ln((n_unchanged + ½)/(n + ½)) / T`. Needs the whole history; the yardstick of `farol_frontier::revisit::estimate`.

/// The rate of changes per second from a history of (seconds since the visit before, changed).
///
/// `None` where no visit tells anything: none at all, or none with a positive finite interval.
pub fn rate(history: &[(f64, bool)]) -> Option<f64> {
    let told = || history.iter().filter(|(elapsed, _)| *elapsed > 0.0 && elapsed.is_finite());
    let count = told().count() as f64;
    if count == 0.0 {
        return None;
    }
    let mean = told().map(|(elapsed, _)| elapsed).sum::<f64>() / count;
    let unchanged: f64 =
        told().filter(|(_, changed)| !changed).map(|(elapsed, _)| elapsed).sum::<f64>() + mean / 2.0;
    let expected = |rate: f64| -> f64 {
        told().filter(|(_, changed)| *changed).map(|(elapsed, _)| elapsed / (rate * elapsed).exp_m1()).sum()
    };
    if told().all(|(_, changed)| !changed) {
        return Some(0.0);
    }
    // The left side falls from infinity to 0.
    let (mut low, mut high) = (1e-9 / mean, 1e3 / mean);
    for _ in 0..100 {
        let middle = f64::sqrt(low * high);
        if expected(middle) > unchanged { low = middle } else { high = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};

    #[test]
    fn equal_intervals_give_their_formula() {
        for (n, changed) in [(10, 3), (10, 10), (1, 1), (50, 1)] {
            let history: Vec<(f64, bool)> = (0..n).map(|k| (7.0, k < changed)).collect();
            let want = -((f64::from(n - changed) + 0.5) / (f64::from(n) + 0.5)).ln() / 7.0;
            assert!((rate(&history).unwrap() / want - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_correction_takes_the_bias_away() {
        // 12 irregular visits a page, about one change between two: the plain estimate of always-changed pages would
        // be infinite.
        let mut random = Seeded::new(4);
        let mut sum = 0.0;
        for _ in 0..4_000 {
            let history: Vec<(f64, bool)> = (0..12)
                .map(|_| {
                    let elapsed = 0.2 + 1.2 * random.unit();
                    (elapsed, random.unit() < 1.0 - (-elapsed).exp())
                })
                .collect();
            sum += rate(&history).unwrap() / 4_000.0;
        }
        assert!((sum - 1.0).abs() < 0.05, "{sum}");
    }

    #[test]
    fn nothing_seen_is_nothing_known() {
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&[(0.0, true), (f64::NAN, false), (-3.0, true), (f64::INFINITY, true)]), None);
        assert_eq!(rate(&[(5.0, false)]), Some(0.0));
    }
}
