//! How long a server rests between two requests: one rule per file, one place where no rule can be too quick.
//!
//! A [`DelayRule`] proposes; [`rests`] decides. INVARIANT: no rest is shorter than `delay_min`, no host's rest
//! shorter than its own Crawl-delay, and none is longer than a day.

mod constant;
mod density;
mod download_time;

pub use constant::Constant;
pub use density::Density;
pub use download_time::DownloadTime;

use std::time::Duration;

/// No rest between two requests is longer.
pub const REST_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a rule may look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How long the last answer took.
    pub last_download: Duration,
    /// Pages known on this host.
    pub pages_known: u64,
    /// Pages known on the host that has most.
    pub pages_on_densest: u64,
    /// What the host's robots.txt asks for.
    pub crawl_delay: Option<Duration>,
    /// What the operator asks for.
    pub delay_min: Duration,
}

/// Proposes the rest between two requests to one host.
pub trait DelayRule: Send + Sync {
    fn delay(&self, facts: &Facts) -> Duration;
}

/// The rests after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rests {
    /// Of the host.
    pub host: Duration,
    /// Of its address, which other hosts may share: what one site asks for itself does not bind them.
    pub address: Duration,
}

impl Rests {
    /// The time from one request to the host's next, where so many hosts of its address take turns.
    pub fn taking_turns(&self, hosts: usize) -> Duration {
        self.host.max(self.address.saturating_mul(u32::try_from(hosts).unwrap_or(u32::MAX)))
    }
}

/// The rests that are in force: the rule's proposal, never below the floors.
///
/// Where the last answer took longer than `slow_after`, the host rests at least as long as that, unless rule and
/// `delay_min` both say zero.
pub fn rests(rule: &dyn DelayRule, facts: &Facts, slow_after: Duration) -> Rests {
    let address = rule.delay(facts).max(facts.delay_min).min(REST_MAX);
    let slow = facts.last_download > slow_after && !address.is_zero();
    let tired = if slow { facts.last_download } else { Duration::ZERO };
    let asked_for = facts.crawl_delay.unwrap_or(Duration::ZERO);
    Rests { host: address.max(tired).max(asked_for).min(REST_MAX), address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOW: Duration = Duration::from_secs(1);

    #[track_caller]
    fn check(rule_secs: f64, delay_min: f64, crawl_delay: Option<f64>, download: f64, want: (f64, f64)) {
        let secs = Duration::from_secs_f64;
        let facts = Facts {
            last_download: secs(download),
            crawl_delay: crawl_delay.map(secs),
            delay_min: secs(delay_min),
            ..Facts::default()
        };
        let got = rests(&Constant(secs(rule_secs)), &facts, SLOW);
        assert_eq!(got, Rests { host: secs(want.0), address: secs(want.1) });
    }

    #[test]
    fn the_longest_wish_wins() {
        check(2.0, 0.0, None, 0.1, (2.0, 2.0));
        check(2.0, 5.0, None, 0.1, (5.0, 5.0)); // The operator's minimum.
        check(2.0, 0.0, Some(10.5), 0.1, (10.5, 2.0)); // The site's wish binds the site alone.
        check(2.0, 0.0, Some(1.0), 0.1, (2.0, 2.0)); // A shorter wish changes nothing.
        check(2.0, 0.0, None, 7.0, (7.0, 2.0)); // A slow answer.
        check(0.0, 0.0, None, 7.0, (0.0, 0.0)); // Zero is zero, for one's own servers…
        check(0.0, 0.0, Some(3.0), 7.0, (3.0, 0.0)); // …unless the site says otherwise.
        check(1e6, 0.0, Some(1e9), 0.0, (86_400.0, 86_400.0)); // A day is enough for anybody.
    }

    proptest! {
        #[test]
        fn no_rule_gets_below_the_floors(
            download in 0u64..10_000_000, pages in any::<u64>(), densest in any::<u64>(),
            wish in proptest::option::of(0u64..100_000_000), least in 0u64..100_000,
        ) {
            let facts = Facts {
                last_download: Duration::from_millis(download),
                pages_known: pages,
                pages_on_densest: densest,
                crawl_delay: wish.map(Duration::from_millis),
                delay_min: Duration::from_millis(least),
            };
            let rules: [&dyn DelayRule; 3] =
                [&Constant::default(), &DownloadTime::default(), &Density::default()];
            for rule in rules {
                let rests = rests(rule, &facts, SLOW);
                prop_assert!(rests.address >= facts.delay_min);
                prop_assert!(rests.host >= rests.address);
                prop_assert!(rests.host >= facts.crawl_delay.unwrap_or_default().min(REST_MAX));
                prop_assert!(rests.host <= REST_MAX);
            }
        }
    }
}
