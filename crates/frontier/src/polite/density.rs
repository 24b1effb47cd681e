//! Servers with many pages rest less [Exposto08 eq. 5.4] ("adjustable").
//!
//! ```text
//! (5.4)  td = td_max − (ln pags / ln pags_max) · (td_max − td_least)
//! ```
//!
//! A server with one page rests `td_max`, the densest one `td_least`. The premise: who serves more pages has
//! more capacity. It also lets the crawl end sooner, since the densest server is the last to finish.

use super::{DelayRule, Facts};
use std::time::Duration;

/// Rests between `least` (the densest server) and `longest` (a server with one page).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Density {
    pub least: Duration,
    pub longest: Duration,
}

impl Default for Density {
    /// 1 s to 15 s, as in the thesis.
    fn default() -> Density {
        Density { least: Duration::from_secs(1), longest: Duration::from_secs(15) }
    }
}

impl DelayRule for Density {
    fn delay(&self, facts: &Facts) -> Duration {
        let span = self.longest.saturating_sub(self.least);
        let most = facts.pages_on_densest.max(facts.pages_known).max(1);
        if most == 1 {
            // ln 1 = 0: while no server is known to have more than one page, none counts as dense.
            return self.longest.max(self.least);
        }
        let share = (facts.pages_known.max(1) as f64).ln() / (most as f64).ln();
        self.longest.max(self.least).saturating_sub(span.mul_f64(share.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pages: u64, densest: u64, want_secs: f64) {
        let facts = Facts { pages_known: pages, pages_on_densest: densest, ..Facts::default() };
        let got = Density::default().delay(&facts).as_secs_f64();
        assert!((got - want_secs).abs() < 0.01, "{pages} of {densest}: {got}");
    }

    #[test]
    fn dense_servers_rest_less() {
        check(1, 78_523, 15.0);
        check(78_523, 78_523, 1.0);
        check(64_617, 78_523, 1.24); // Where pages × delay is greatest.
        check(4_883, 78_523, 4.45); // The delay that the thesis saw per download.
        check(122, 78_523, 9.03);
    }

    #[test]
    fn a_web_of_single_pages_has_no_dense_server() {
        check(1, 1, 15.0);
        check(0, 0, 15.0);
        check(7, 1, 1.0); // The record was not told yet that this one is the densest.
    }

    #[test]
    fn odd_bounds_do_not_break_it() {
        let turned = Density { least: Duration::from_secs(9), longest: Duration::from_secs(3) };
        let facts = Facts { pages_known: 5, pages_on_densest: 10, ..Facts::default() };
        assert_eq!(turned.delay(&facts), Duration::from_secs(9));
    }
}
