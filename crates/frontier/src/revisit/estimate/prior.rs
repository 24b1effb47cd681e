//! What is believed of a page before its first visits: a Gamma distribution per server, learnt from its pages.
//!
//! The pages of a server are alike: news or manuals. The prior is the distribution that makes what is believed of all
//! its pages most likely (the M-step of EM: mean of the means, mean of the logarithms), with some pages of the whole
//! Web mixed in, so that a young server is believed to be like the others.
//!
//! When the prior moves, what is known of each page moves along: its own visits are what is left when the old prior is
//! taken away, and the new one is put in its place. Nothing more is stored per page.

use super::bayes::gamma;
use crate::revisit::Change;

/// A Gamma distribution of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    pub shape: f64,
    /// In seconds: the mean rate is shape/scale.
    pub scale: f64,
}

/// Pages of the whole Web that are mixed into each server's prior.
const OTHERS: f64 = 5.0;

impl Default for Prior {
    /// Once a month in the mean, but it may be anything: in Cho and Garcia-Molina's study a third of the pages
    /// changed within a week and a third not within four months.
    fn default() -> Prior {
        Prior { shape: 0.3, scale: 0.3 * 30.0 * 86_400.0 }
    }
}

impl Prior {
    /// What is believed of a page that nobody has visited.
    pub fn page(&self) -> Change {
        gamma(self.shape, self.scale)
    }

    /// The prior that fits what is believed of these pages, each given as in [`Prior::page`] and updated since, with
    /// `whole` as what is believed of pages elsewhere. `None` changes nothing: no pages.
    pub fn fit<'a>(pages: impl Iterator<Item = &'a Change>, whole: &Prior) -> Option<Prior> {
        let (mut count, mut mean, mut log) = (0.0, 0.0, 0.0);
        for page in pages.filter(|page| page.is_active() && page.shape().is_finite()) {
            count += 1.0;
            mean += page.rate();
            log += digamma(page.shape()) - (page.shape() / page.rate()).ln();
        }
        if count == 0.0 {
            return None;
        }
        mean = (mean + OTHERS * whole.shape / whole.scale) / (count + OTHERS);
        log = (log + OTHERS * (digamma(whole.shape) - whole.scale.ln())) / (count + OTHERS);
        let shape = shape_of((mean.ln() - log).max(1e-3));
        Some(Prior { shape, scale: shape / mean })
    }

    /// What is known of a page when its prior has moved from `self` to `to`.
    pub fn moved(&self, to: &Prior, page: Change) -> Change {
        if !page.is_active() || !page.shape().is_finite() {
            return page;
        }
        let (shape, scale) =
            (page.shape() + to.shape - self.shape, page.shape() / page.rate() + to.scale - self.scale);
        // What rounding and forgetting left cannot be less than a tenth of a prior.
        gamma(shape.max(to.shape / 10.0), scale.max(to.scale / 10.0))
    }
}

/// Solves `ln a − ψ(a) = gap` for the shape a: Minka's start and Newton.
fn shape_of(gap: f64) -> f64 {
    let mut shape = (3.0 - gap + ((gap - 3.0) * (gap - 3.0) + 24.0 * gap).sqrt()) / (12.0 * gap);
    for _ in 0..8 {
        let h = shape * 1e-4;
        let value = |a: f64| a.ln() - digamma(a) - gap;
        let slope = (value(shape + h) - value(shape - h)) / (2.0 * h);
        shape = (shape - value(shape) / slope).clamp(shape / 2.0, shape * 2.0);
    }
    shape.clamp(0.05, 20.0)
}

/// ψ, the logarithmic derivative of the Gamma function, for positive numbers.
fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 6.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y / 252.0))
}

#[cfg(test)]
mod tests {
    use super::super::{Observed, bayes::observe};
    use super::*;
    use farol_base::{Random, Seeded};

    #[test]
    fn digamma_has_its_known_values() {
        for (x, want) in [(1.0, -0.577_215_664_9), (0.5, -1.963_510_026), (10.0, 2.251_752_589)] {
            assert!((digamma(x) - want).abs() < 1e-8, "{x}: {}", digamma(x));
        }
        for shape in [0.1, 0.7, 3.0] {
            let gap = f64::ln(shape) - digamma(shape);
            assert!((shape_of(gap) / shape - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_server_of_slow_pages_is_believed_slow() {
        // 200 pages that change every 300 days or so, seen every 20 days: no page alone says much.
        let mut random = Seeded::new(6);
        let whole = Prior::default();
        let mut prior = whole;
        let rates: Vec<f64> = (0..200).map(|_| (0.5 + random.unit()) / (300.0 * 86_400.0)).collect();
        let mut pages = vec![prior.page(); 200];
        for _ in 0..10 {
            for (page, rate) in pages.iter_mut().zip(&rates) {
                let elapsed = 20.0 * 86_400.0;
                let changed = random.unit() < 1.0 - (-rate * elapsed).exp();
                *page =
                    observe(*page, elapsed, if changed { Observed::Changed } else { Observed::Unchanged });
            }
            let fitted = Prior::fit(pages.iter(), &whole).unwrap();
            pages.iter_mut().for_each(|page| *page = prior.moved(&fitted, *page));
            prior = fitted;
        }
        // A new page of this server is thought as slow as the others, not as anything on the Web.
        let days = 1.0 / prior.page().rate() / 86_400.0;
        assert!((150.0..450.0).contains(&days), "{days} days, {prior:?}");
        assert!(prior.shape > 1.5 * whole.shape, "{prior:?}");
    }

    #[test]
    fn moving_a_prior_keeps_what_a_page_has_shown() {
        let (old, new) = (Prior::default(), Prior { shape: 0.9, scale: 1e6 });
        let seen = observe(observe(old.page(), 1e5, Observed::Unchanged), 3e5, Observed::ChangedAgo(1e4));
        let fresh = observe(observe(new.page(), 1e5, Observed::Unchanged), 3e5, Observed::ChangedAgo(1e4));
        let moved = old.moved(&new, seen);
        assert!((moved.rate() / fresh.rate() - 1.0).abs() < 1e-3, "{moved:?} and {fresh:?}");
        assert!((moved.shape() / fresh.shape() - 1.0).abs() < 1e-3);
        assert_eq!(Prior::fit([].iter(), &old), None);
    }
}
