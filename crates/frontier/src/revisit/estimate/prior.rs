//! What is believed of a page before its first visits: a log-normal per server, learnt from its pages.
//!
//! The pages of a server are alike: news or manuals. The prior is the distribution that makes what is believed of all
//! its pages most likely (the M-step of EM: mean and variance of the logarithms), with some pages of the whole Web mixed
//! in, so that a young server is believed to be like the others.
//!
//! When the prior moves, what is known of each page moves along: its own visits are what is left when the old prior is
//! taken away, and the new one is put in its place. Nothing more is stored per page.

use super::bayes::SPREAD_MIN;
use crate::revisit::Change;

/// A log-normal distribution of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Changes per second.
    pub median: f64,
    /// Standard deviation of the natural logarithm.
    pub spread: f64,
}

/// Pages of the whole Web that are mixed into each server's prior.
const OTHERS: f64 = 5.0;

/// A prior is never firmer than this, or a server of similar pages could not show that one is not.
const PRIOR_SPREAD_MIN: f64 = 0.5;

impl Default for Prior {
    /// Once a month, but it may be anything: in Cho and Garcia-Molina's study a quarter of the pages changed every day
    /// and a third not within four months.
    fn default() -> Prior {
        Prior { median: 1.0 / (30.0 * 86_400.0), spread: 2.5 }
    }
}

impl Prior {
    /// What is believed of a page that nobody has visited.
    pub fn page(&self) -> Change {
        Change::believed(self.median, self.spread).unwrap_or(Change::NEVER)
    }

    /// The prior that fits what is believed of these pages, each given as in [`Prior::page`] and updated since, with
    /// `whole` as what is believed of pages elsewhere. `None` changes nothing: no pages.
    pub fn fit<'a>(pages: impl Iterator<Item = &'a Change>, whole: &Prior) -> Option<Prior> {
        let (mut count, mut first, mut second) = (0.0, 0.0, 0.0);
        for page in pages.filter(|page| page.is_active() && page.spread() > 0.0) {
            let log = page.rate().ln();
            count += 1.0;
            first += log;
            second += log * log + page.spread() * page.spread();
        }
        if count == 0.0 {
            return None;
        }
        let log = whole.median.ln();
        let mean = (first + OTHERS * log) / (count + OTHERS);
        let square = (second + OTHERS * (log * log + whole.spread * whole.spread)) / (count + OTHERS);
        let spread = (square - mean * mean).max(0.0).sqrt().clamp(PRIOR_SPREAD_MIN, 4.0);
        Some(Prior { median: mean.exp(), spread })
    }

    /// What is known of a page when its prior has moved from `self` to `to`.
    pub fn moved(&self, to: &Prior, page: Change) -> Change {
        if !page.is_active() || page.spread() == 0.0 {
            return page;
        }
        // Precisions add up, and so do means weighted by them.
        let firm = |spread: f64| 1.0 / (spread * spread);
        let own = (firm(page.spread()) - firm(self.spread)).max(0.0);
        let weighted = firm(page.spread()) * page.rate().ln() - firm(self.spread) * self.median.ln();
        if own < 1e-3 {
            return to.page();
        }
        let precision = own + firm(to.spread);
        let log = (weighted + firm(to.spread) * to.median.ln()) / precision;
        Change::believed(log.exp(), precision.sqrt().recip().max(SPREAD_MIN)).unwrap_or(page)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Observed, bayes::observe};
    use super::*;
    use farol_base::{Random, Seeded};

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
        assert!((150.0..600.0).contains(&days), "{days} days, {prior:?}");
        assert!(prior.spread < 0.6 * whole.spread, "{prior:?}");
    }

    #[test]
    fn moving_a_prior_keeps_what_a_page_has_shown() {
        let (old, new) = (Prior::default(), Prior { median: 1e-6, spread: 1.5 });
        let seen = |page: Change| {
            let page = observe(page, 1e5, Observed::Unchanged);
            (0..6).fold(page, |page, _| observe(page, 3e5, Observed::ChangedAgo(1e5)))
        };
        let (moved, fresh) = (old.moved(&new, seen(old.page())), seen(new.page()));
        assert!((moved.rate() / fresh.rate()).ln().abs() < 0.1, "{moved:?} and {fresh:?}");
        assert!((moved.spread() / fresh.spread() - 1.0).abs() < 0.1, "{moved:?} and {fresh:?}");
        // A page that has shown nothing is the new prior's.
        assert_eq!(old.moved(&new, old.page()), new.page());
        assert_eq!(Prior::fit([].iter(), &old), None);
    }
}
