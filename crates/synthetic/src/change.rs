//! When pages change: each by its own Poisson process, computed for any instant without remembering anything.
//!
//! Time since a page's birth is cut into windows in which one change is expected. How many changes a window
//! has (Poisson with mean 1) and when they happen (uniformly) follow from the page's key and the window's number,
//! so the last change before an instant is found by looking back over a few windows.

use super::config::Rates;
use super::world::{Draw, Page, World, draw, unit};
use crate::rates;
use farol_base::Timestamp;
use farol_base::random::mix;
use std::time::Duration;

/// The state of a page between two changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Grows with every change, not always by one; 0 before the first.
    pub number: u64,
    /// When this state began.
    pub since: Timestamp,
}

/// A page is born up to three years before the world's clock starts.
const BIRTH_BEFORE_START_MAX_SECS: u64 = 3 * 365 * 86_400;
const DAY_MILLIS: f64 = 86_400_000.0;
/// More changes than this in a window where one is expected: once in 10^10 windows, and then cut.
const CHANGES_PER_WINDOW_MAX: u64 = 13;
/// So many windows without a change in a row: chance e^-64.
const WINDOWS_BACK_MAX: u32 = 64;

impl World {
    /// Mean number of changes of this page per day of the world's clock.
    pub fn change_rate(&self, page: Page) -> f64 {
        let mean = self.config().change_rate;
        let own = unit(draw(self.key(page), Draw::Rate));
        match self.config().change_rates {
            // Most change seldom, few often; cut at 100 times the mean.
            Rates::Power => (mean / 2.0 / (1.0 - own).sqrt()).min(100.0 * mean),
            Rates::Studied => {
                let host = unit(draw(self.host_key(page.host), Draw::Rate));
                // The first half of the places are those of the host's kind.
                let class = rates::class(if own < 0.5 { host } else { 2.0 * own - 1.0 });
                let within = unit(mix(draw(self.key(page), Draw::Rate)));
                mean / (rates::rate_mean() * rates::between(class, within))
            }
        }
    }

    /// The state of a page when the world's clock shows `at`.
    pub fn version(&self, page: Page, at: Timestamp) -> Version {
        let key = self.key(page);
        let age_at_start = draw(key, Draw::Birth) % BIRTH_BEFORE_START_MAX_SECS;
        let birth = self.config().start - Duration::from_secs(age_at_start);
        let first = Version { number: 0, since: birth };
        let rate = self.change_rate(page);
        if rate <= 0.0 || at <= birth {
            return first;
        }
        let window_millis = DAY_MILLIS / rate;
        let age = at.since(birth).as_millis() as f64;
        let mut window = (age / window_millis) as u64;
        let mut until = age - window as f64 * window_millis;
        for _ in 0..WINDOWS_BACK_MAX {
            let dice = mix(draw(key, Draw::Change) ^ window);
            let mut changes = 0;
            let mut last = 0.0f64;
            for i in 0..poisson_of_mean_one(unit(dice)) {
                let when = unit(mix(dice.wrapping_add(1 + i))) * window_millis;
                if when <= until {
                    changes += 1;
                    last = last.max(when);
                }
            }
            if changes > 0 {
                let since = window as f64 * window_millis + last;
                return Version {
                    number: window * (CHANGES_PER_WINDOW_MAX + 1) + changes,
                    since: birth + Duration::from_millis(since as u64),
                };
            }
            if window == 0 {
                break;
            }
            window -= 1;
            until = window_millis;
        }
        first
    }
}

/// The Poisson number of mean 1 at this place of its distribution.
fn poisson_of_mean_one(place: f64) -> u64 {
    let mut term = (-1.0f64).exp();
    let mut sum = term;
    let mut count = 0;
    while sum < place && count < CHANGES_PER_WINDOW_MAX {
        count += 1;
        term /= count as f64;
        sum += term;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;

    fn world(change_rate: f64) -> World {
        World::new(WebConfig { hosts: 20, pages: 2000, change_rate, ..WebConfig::default() }).unwrap()
    }

    #[test]
    fn pages_change_as_often_as_their_rate_says() {
        let world = world(1.0);
        let days = 20u64;
        let step = Duration::from_secs(3600);
        let (mut seen, mut expected) = (0u64, 0.0);
        for page in world.all_pages().step_by(10) {
            // A page that changes several times an hour hides changes from an hourly look.
            let rate = world.change_rate(page);
            if rate > 2.0 {
                continue;
            }
            expected += rate * days as f64;
            let mut at = world.config().start;
            let mut before = world.version(page, at);
            for _ in 0..days * 24 {
                at = at + step;
                let now = world.version(page, at);
                assert!(now.number >= before.number && now.since >= before.since && now.since <= at);
                assert_eq!(now.number == before.number, now.since == before.since);
                seen += u64::from(now.number != before.number);
                before = now;
            }
        }
        let ratio = seen as f64 / expected;
        assert!((0.9..1.05).contains(&ratio), "{seen} changes instead of {expected}");
    }

    #[test]
    fn rates_have_the_mean_that_was_asked_for() {
        let world = world(0.5);
        let sum: f64 = world.all_pages().map(|page| world.change_rate(page)).sum();
        let mean = sum / world.pages() as f64;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }

    #[test]
    fn studied_rates_spread_over_magnitudes_and_hosts_are_alike() {
        let config = WebConfig { hosts: 400, pages: 40_000, change_rate: 3.0, ..WebConfig::default() };
        let world = World::new(WebConfig { change_rates: Rates::Studied, ..config }).unwrap();
        let rates: Vec<f64> = world.all_pages().map(|page| world.change_rate(page)).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!((2.4..3.6).contains(&mean), "{mean} changes a day");
        let share = |is: &dyn Fn(f64) -> bool| {
            rates.iter().filter(|rate| is(**rate)).count() as f64 / rates.len() as f64
        };
        let (never, seldom, often) =
            (share(&|rate| rate == 0.0), share(&|rate| rate < 0.03), share(&|rate| rate > 1.7));
        assert!((0.10..0.20).contains(&never), "{never} never change");
        assert!((0.35..0.55).contains(&seldom) && (0.15..0.31).contains(&often), "{seldom} and {often}");
    }

    #[test]
    fn a_still_web_stands_still() {
        let world = world(0.0);
        let page = Page { host: 3, number: 2 };
        let later = world.config().start + Duration::from_secs(1_000_000_000);
        assert_eq!(world.version(page, world.config().start), world.version(page, later));
        assert_eq!(world.version(page, Timestamp::EPOCH).number, 0);
    }
}
