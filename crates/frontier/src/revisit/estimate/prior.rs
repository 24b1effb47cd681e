//! What is believed of a page before its first visits: weights of rates per server, learnt from its pages.
//!
//! The pages of a server are alike: news or manuals. The prior is the mean of what is believed of its pages, with some
//! pages of the whole Web mixed in, so that a young server is believed to be like the others. Done again and again that
//! is EM, and comes to the most likely weights whatever their shape.

use super::Evidence;
use super::belief::{Belief, RATES, rate};

/// Weights of rates. 128 bytes per server.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    weights: [f32; RATES],
}

/// Pages of the whole Web that are mixed into each server's prior.
const OTHERS: f64 = 5.0;

impl Default for Prior {
    /// Every magnitude is as likely, but for the fastest: in Cho and Garcia-Molina's study about a quarter of the pages
    /// changed daily, a third within a day to a month, and the others less often.
    fn default() -> Prior {
        let weight = |k: usize| if rate(k) * 3_600.0 > 1.0 { 0.3 } else { 1.0 };
        let weights: [f32; RATES] = std::array::from_fn(weight);
        let sum: f32 = weights.iter().sum();
        Prior { weights: weights.map(|weight| weight / sum) }
    }
}

impl Prior {
    /// What is believed of a page of this server after what its visits have told.
    pub fn belief(&self, evidence: &Evidence) -> Belief {
        Belief::new(&self.weights, evidence)
    }

    /// The prior that fits pages with this evidence better than `self`, with `whole` as what is believed of pages
    /// elsewhere.
    pub fn fit<'a>(&self, pages: impl Iterator<Item = &'a Evidence>, whole: &Prior) -> Prior {
        let mut sums: [f64; RATES] = whole.weights.map(|weight| OTHERS * f64::from(weight));
        let mut count = OTHERS;
        for evidence in pages {
            // Who has shown nothing has no say.
            if !evidence.is_none() {
                let belief = self.belief(evidence);
                sums.iter_mut().zip(&belief.0).for_each(|(sum, weight)| *sum += weight);
                count += 1.0;
            }
        }
        // A little of everything stays possible.
        Prior { weights: sums.map(|sum| (0.999 * sum / count + 0.001 / RATES as f64) as f32) }
    }

    /// Takes in that the evidence of one of `pages` pages has grown: one step of [`Prior::fit`] for that page.
    pub fn nudge(&mut self, before: &Evidence, after: &Evidence, pages: u32) {
        let (old, new) = (self.belief(before), self.belief(after));
        let share = 1.0 / (f64::from(pages) + OTHERS);
        for (weight, (old, new)) in self.weights.iter_mut().zip(old.0.iter().zip(&new.0)) {
            *weight = (f64::from(*weight) + share * (new - old)).max(1e-6) as f32;
        }
        self.norm();
    }

    /// What is believed of the whole Web has moved: so have the pages of it that are mixed into a server of `pages`
    /// pages. Where all servers are new at once, that is most of what is known of each.
    pub fn follow(&mut self, before: &Prior, now: &Prior, pages: u32) {
        let share = (OTHERS / (f64::from(pages) + OTHERS)) as f32;
        for (weight, (before, now)) in self.weights.iter_mut().zip(before.weights.iter().zip(&now.weights)) {
            *weight = (*weight + share * (now - before)).max(1e-6);
        }
        self.norm();
    }

    fn norm(&mut self) {
        let sum: f32 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Observed;
    use super::*;
    use farol_base::{Random, Seeded};

    const DAY: f64 = 86_400.0;

    /// 200 pages that change every 300 days or so, seen ten times every 20 days: no page alone says much.
    fn slow_pages() -> Vec<Evidence> {
        let mut random = Seeded::new(6);
        let mut pages = vec![Evidence::default(); 200];
        for page in &mut pages {
            let rate = (0.5 + random.unit()) / (300.0 * DAY);
            for _ in 0..10 {
                let changed = random.unit() < 1.0 - (-rate * 20.0 * DAY).exp();
                page.observe(20.0 * DAY, if changed { Observed::Changed } else { Observed::Unchanged });
            }
        }
        pages
    }

    #[test]
    fn a_server_of_slow_pages_is_believed_slow() {
        let pages = slow_pages();
        let whole = Prior::default();
        let mut prior = whole.clone();
        (0..10).for_each(|_| prior = prior.fit(pages.iter(), &whole));
        // A new page of this server is thought as slow as the others, not as anything on the Web.
        let days = 1.0 / prior.belief(&Evidence::default()).rate() / DAY;
        assert!((150.0..700.0).contains(&days), "{days} days");
        let weight: f32 = prior.weights.iter().sum();
        assert!((weight - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_server_without_evidence_follows_the_whole() {
        let (default, mut whole) = (Prior::default(), Prior::default());
        slow_pages().iter().for_each(|page| whole.nudge(&Evidence::default(), page, 200));
        let rate = |prior: &Prior| prior.belief(&Evidence::default()).rate();
        let after = |pages: u32| {
            let mut prior = default.clone();
            prior.follow(&default, &whole, pages);
            rate(&prior)
        };
        assert!((after(0) / rate(&whole) - 1.0).abs() < 1e-3);
        assert!(after(100_000) > 0.99 * rate(&default));
        assert!(rate(&whole) < after(5) && after(5) < rate(&default));
    }

    #[test]
    fn nudges_lead_to_the_same() {
        let pages = slow_pages();
        let mut prior = Prior::default();
        for _ in 0..10 {
            pages.iter().for_each(|page| prior.nudge(&Evidence::default(), page, 200));
        }
        let days = 1.0 / prior.belief(&Evidence::default()).rate() / DAY;
        assert!((100.0..1_000.0).contains(&days), "{days} days");
        assert_eq!(prior.fit([].iter(), &prior).belief(&Evidence::default()).rate(), 1.0 / days / DAY);
    }
}
