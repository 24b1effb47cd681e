//! Bounds of [Souza10 ch. 5] as functions: what RANDOM and MERGE keep fresh of one page, and how evenly a channel is used.

/// Theorem 5.4: freshness under RANDOM at equal intervals, exactly.
pub fn random(rate: f64, frequency: f64, server: f64) -> f64 {
    let e = (rate / server).exp_m1();
    frequency / rate * e / (frequency / server + e)
}

/// Theorem 5.7: freshness under MERGE with random phases, at least.
pub fn merge(rate: f64, frequency: f64, server: f64) -> f64 {
    let exponent = -rate / server + (-rate / server).exp_m1() * (server - frequency) / frequency;
    frequency / rate * -exponent.exp_m1()
}

/// Lemma 5.10: `n` elements, each at equal intervals with a random phase, make more than `x` requests beyond the mean
/// within any interval with a probability below this.
pub fn excess_probability(n: f64, x: f64) -> f64 {
    (x + (n + x) * (n / (n + x)).ln()).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(x: f64) -> f64 {
        -(-x).exp_m1() / x
    }

    fn least(from: f64, to: f64, f: impl Fn(f64) -> f64) -> (f64, f64) {
        let values = (0..=20_000).map(|k| from + (to - from) * f64::from(k) / 20_000.0).map(|x| (f(x), x));
        values.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
    }

    #[test]
    fn random_is_never_below_077_of_the_bound() {
        // Corollary 5.5, the limit of a server with many pages: minimum at x = 1.793.
        let (ratio, at) = least(0.01, 20.0, |x| 1.0 / (1.0 + x) / bound(x));
        assert!((at - 1.793).abs() < 0.002 && (0.77..0.774).contains(&ratio), "{ratio} at {at}");
        // Theorem 5.4 is above it for every server and tends to it.
        for c in [1.0, 1.5, 10.0, 1e6] {
            let (exact, _) = least(0.01, 20.0, |x| random(x, 1.0, c) / bound(x));
            assert!(exact >= ratio - 1e-9, "{exact} with c = {c}");
        }
        assert!((random(1.793, 1.0, 1e6) / bound(1.793) - ratio).abs() < 1e-5);
    }

    #[test]
    fn merge_is_never_below_0927_of_the_bound() {
        // (5-9) over r and c, conjecture 5.9.
        let mut ratio = f64::INFINITY;
        for k in 0..400 {
            let c = 1.0 + 0.02 * f64::from(k);
            ratio = ratio.min(least(0.01, 30.0, |r| merge(r, 1.0, c) / bound(r)).0);
        }
        assert!(ratio > 0.927 && ratio < 0.928, "{ratio}");
    }

    #[test]
    fn the_lemma_gives_the_number_of_the_thesis() {
        // n = 5,462: more than 160 above the mean with a probability below 10 %.
        let bound = excess_probability(5_462.0, 160.0);
        assert!((0.08..0.10).contains(&bound), "{bound}");
        assert!(excess_probability(14.5e6, 160.0) > 0.99);
    }
}
