//! How often people open a page from the results, lately: pages that are used are worth keeping fresher.
//!
//! A click counts half after a month. What is kept is bounded: when there is no more room, the pages with the fewest
//! clicks are forgotten. Does not know who clicked, nor what they had asked.

use farol_base::{PageId, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

/// After this long a click counts half.
const HALF_LIFE: Duration = Duration::from_secs(30 * 86_400);
/// Pages that are remembered; some 4 MB.
const PAGES_MAX: usize = 100_000;
/// However often it is opened, a page counts at most so many times as much as one that nobody opens: anybody can click.
const FACTOR_MAX: f64 = 4.0;

/// Clicks of one page, as they counted at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    pub clicks: f32,
    pub at: Timestamp,
}

impl Count {
    /// Whether hardly anything is left of it.
    pub fn is_faded(self, now: Timestamp) -> bool {
        self.by(now) < 0.01
    }

    fn by(self, now: Timestamp) -> f64 {
        f64::from(self.clicks) * (-now.since(self.at).div_duration_f64(HALF_LIFE)).exp2()
    }
}

/// Clicks of all pages.
#[derive(Clone, Debug, Default)]
pub struct Clicks {
    pages: HashMap<PageId, Count>,
}

impl Clicks {
    /// Somebody opened a page. Answers with what to remember of it.
    pub fn note(&mut self, page: PageId, now: Timestamp) -> Count {
        let before = self.pages.get(&page).map_or(0.0, |count| count.by(now));
        let count = Count { clicks: (before + 1.0) as f32, at: now };
        self.recall(page, count);
        count
    }

    /// Takes in what was remembered.
    pub fn recall(&mut self, page: PageId, count: Count) {
        if self.pages.len() >= PAGES_MAX && !self.pages.contains_key(&page) {
            self.forget_half(count.at);
        }
        self.pages.insert(page, count);
    }

    fn forget_half(&mut self, now: Timestamp) {
        let mut counts: Vec<f64> = self.pages.values().map(|count| count.by(now)).collect();
        let middle = counts.len() / 2;
        let (_, middle, _) = counts.select_nth_unstable_by(middle, f64::total_cmp);
        let middle = *middle;
        // Where many have equally few, some of them stay.
        let above = counts.iter().filter(|count| **count > middle).count();
        let mut places = (PAGES_MAX / 2).saturating_sub(above);
        self.pages.retain(|_, count| {
            let count = count.by(now);
            let stays = count > middle || (count == middle && places > 0);
            places -= usize::from(stays && count == middle);
            stays
        });
    }

    /// How many times as much a page counts as one that nobody opens: 1 to 4, a little more with each doubling.
    pub fn factor(&self, page: PageId, now: Timestamp) -> f64 {
        let clicks = self.pages.get(&page).map_or(0.0, |count| count.by(now));
        (1.0 + (1.0 + clicks).log2() / 2.0).min(FACTOR_MAX)
    }

    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: usize) -> PageId {
        farol_base::CanonicalUrl::parse(&format!("https://a.test/{number}")).unwrap().id()
    }

    #[test]
    fn clicks_count_and_fade() {
        let (mut clicks, now) = (Clicks::default(), Timestamp::from_secs(1_000_000));
        assert_eq!(clicks.factor(page(1), now), 1.0);
        for _ in 0..3 {
            clicks.note(page(1), now);
        }
        assert_eq!(clicks.factor(page(1), now), 2.0);
        assert_eq!(clicks.factor(page(2), now), 1.0);
        let faded = clicks.factor(page(1), now + HALF_LIFE);
        assert!((faded - (1.0 + 2.5f64.log2() / 2.0)).abs() < 1e-6, "{faded}");
        assert!(clicks.factor(page(1), now + 100 * HALF_LIFE) < 1.001);
        // A clock that was set back does no harm.
        assert_eq!(clicks.factor(page(1), Timestamp::EPOCH), 2.0);
    }

    #[test]
    fn nobody_clicks_a_page_to_the_top() {
        let (mut clicks, now) = (Clicks::default(), Timestamp::EPOCH);
        for _ in 0..100_000 {
            clicks.note(page(1), now);
        }
        assert_eq!(clicks.factor(page(1), now), 4.0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let (mut clicks, now) = (Clicks::default(), Timestamp::EPOCH);
        for _ in 0..10 {
            clicks.note(page(0), now);
        }
        for number in 1..2 * PAGES_MAX {
            clicks.note(page(number), now);
            assert!(clicks.len() <= PAGES_MAX);
        }
        assert!(clicks.factor(page(0), now) > 2.0);
    }
}
