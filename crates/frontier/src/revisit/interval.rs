//! An interval per page that shrinks when the page changed and grows when it did not.
//!
//! The naive yardstick: it needs no model of change and no knowledge of other pages, and it is what Nutch and
//! StormCrawler do. It wastes visits on pages that change faster than anybody could follow.

use super::{History, RevisitPolicy, Visited};
use farol_base::Timestamp;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Multiplies the last interval. INVARIANT: the next visit of a page that is there lies between `least` and
/// `longest` from now.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Interval after the first visit. Default: 7 days.
    pub first: Duration,
    /// Default: 1 hour.
    pub least: Duration,
    /// Default: 90 days.
    pub longest: Duration,
    /// Factor when the page changed. Default: 0.5.
    pub shrink: f64,
    /// Factor when it did not. Default: 1.5.
    pub grow: f64,
    /// A page that is gone is asked for again after `gone`, then twice and four times as long, and
    /// forgotten after `misses_max` misses in a row. Default: 1 day.
    pub gone: Duration,
    /// Default: 4, that is 1 + 2 + 4 days after it was first missed.
    pub misses_max: u32,
}

impl Default for Interval {
    fn default() -> Interval {
        Interval {
            first: 7 * DAY,
            least: Duration::from_secs(3600),
            longest: 90 * DAY,
            shrink: 0.5,
            grow: 1.5,
            gone: DAY,
            misses_max: 4,
        }
    }
}

impl RevisitPolicy for Interval {
    fn next_visit(&self, now: Timestamp, history: &History) -> Timestamp {
        let last = history.since_last.unwrap_or(self.first);
        let scaled = |factor: f64| {
            // A page that was visited late or early tells as much as its time says, within the bounds.
            let secs = self.bounded(last).as_secs_f64() * factor.clamp(0.01, 100.0);
            now + self.bounded(Duration::try_from_secs_f64(secs).unwrap_or(self.longest))
        };
        match history.visited {
            Visited::New => now + self.bounded(self.first),
            Visited::Changed => scaled(self.shrink),
            Visited::Unchanged => scaled(self.grow),
            Visited::Gone | Visited::Failed if history.misses >= self.misses_max => Timestamp::NEVER,
            Visited::Gone | Visited::Failed => {
                let times = 1u32.checked_shl(history.misses.saturating_sub(1)).unwrap_or(u32::MAX);
                now + self.bounded(self.gone.saturating_mul(times))
            }
        }
    }
}

impl Interval {
    fn bounded(&self, interval: Duration) -> Duration {
        interval.min(self.longest).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(visited: Visited, since_last_days: Option<u64>, misses: u32, want_hours: Option<u64>) {
        let now = Timestamp::from_secs(1_000_000);
        let history = History { visited, since_last: since_last_days.map(|days| days as u32 * DAY), misses };
        let next = Interval::default().next_visit(now, &history);
        let want = want_hours.map_or(Timestamp::NEVER, |hours| now + Duration::from_secs(hours * 3600));
        assert_eq!(next, want, "{history:?}");
    }

    #[test]
    fn change_shrinks_and_calm_grows() {
        check(Visited::New, None, 0, Some(7 * 24));
        check(Visited::Changed, Some(8), 0, Some(4 * 24));
        check(Visited::Unchanged, Some(8), 0, Some(12 * 24));
        check(Visited::Changed, Some(0), 0, Some(1)); // The least.
        check(Visited::Unchanged, Some(80), 0, Some(90 * 24)); // The longest.
        check(Visited::Changed, Some(1000), 0, Some(45 * 24)); // As if it had been visited in time.
    }

    #[test]
    fn a_gone_page_fades_out() {
        check(Visited::Gone, Some(8), 1, Some(24));
        check(Visited::Gone, Some(1), 2, Some(48));
        check(Visited::Failed, Some(2), 3, Some(96));
        check(Visited::Gone, Some(4), 4, None);
        check(Visited::Failed, None, 1, Some(24)); // Never collected, tried again all the same.
        check(Visited::Gone, Some(4), u32::MAX, None);
    }

    #[test]
    fn intervals_settle_around_the_time_between_changes() {
        // A page that changes every 10 days, looked at for 20 years: by 0.5^p × 1.5^(1-p) = 1 a share
        // p = 0.37 of the visits sees a change, so 730 changes cost about 1,970 visits.
        let policy = Interval::default();
        let (mut now, mut last, mut visits) = (Timestamp::EPOCH + DAY, Timestamp::EPOCH, 0);
        while now < Timestamp::EPOCH + 7300 * DAY {
            let changed = now.as_secs() / (10 * 86_400) != last.as_secs() / (10 * 86_400);
            let visited = if changed { Visited::Changed } else { Visited::Unchanged };
            let history = History { visited, since_last: Some(now.since(last)), misses: 0 };
            last = now;
            now = policy.next_visit(now, &history);
            visits += 1;
        }
        assert!((1_900..2_050).contains(&visits), "{visits} visits for 730 changes");
    }

    proptest! {
        #[test]
        fn the_next_visit_is_within_the_bounds(
            last in proptest::option::of(any::<u64>()), changed in any::<bool>(), shrink in any::<f64>(), grow in any::<f64>(),
        ) {
            let policy = Interval { shrink, grow, ..Interval::default() };
            let now = Timestamp::from_secs(1_000_000);
            let visited = if changed { Visited::Changed } else { Visited::Unchanged };
            let history = History { visited, since_last: last.map(Duration::from_secs), misses: 0 };
            let wait = policy.next_visit(now, &history).since(now);
            prop_assert!(wait >= policy.least && wait <= policy.longest);
        }
    }
}
