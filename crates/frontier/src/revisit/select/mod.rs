//! Which page of a server is visited next: one file per rule (revisit spec, §3).
//!
//! [`Merge`] and [`Drawn`] (RANDOM) only give an order, and [`super::Spaced`] gives it instants. [`Delayed`] and
//! [`Punctual`] choose instants as well, never closer than the server's delay.
//!
//! Does not decide how often; the frequencies come from [`super::allocate`].

mod delayed;
mod drawn;
mod merge;
mod punctual;

pub use delayed::Delayed;
pub use drawn::Drawn;
pub use merge::Merge;
pub use punctual::{Freshness, LOOK, Punctual, Reason, SLACK};

/// A request to a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Seconds since the schedule began.
    pub at: f64,
    /// Number of the page on its server.
    pub page: u32,
}

/// Gives an order of pages, each as often as its frequency says.
pub trait Select {
    /// The next page; `None` where none is ever visited.
    fn pick(&mut self) -> Option<u32>;
}

/// Gives pages and instants, in the order of time.
pub trait Timetable {
    fn next(&mut self) -> Option<Visit>;
}

/// Probability-like bounds of the thesis, as functions of one page.
pub mod theorems {
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

    #[cfg(test)]
    mod tests {
        use super::*;

        fn bound(x: f64) -> f64 {
            -(-x).exp_m1() / x
        }

        fn least(from: f64, to: f64, f: impl Fn(f64) -> f64) -> (f64, f64) {
            let values =
                (0..=20_000).map(|k| from + (to - from) * f64::from(k) / 20_000.0).map(|x| (f(x), x));
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
    }
}
