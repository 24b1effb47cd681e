//! How long an engine that could not be reached is left alone.

use farol_base::{Random, Timestamp};
use std::time::Duration;

/// The first rest after a failure, and the longest.
pub const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// The rest of one engine: twice as long after each failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    failures: u32,
    until: Timestamp,
}

impl Rest {
    /// Whether it may be tried again.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.until
    }

    /// It could not be reached: how long it rests.
    pub fn failed(&mut self, now: Timestamp, random: &mut dyn Random) -> Duration {
        let doubled = REST.0.saturating_mul(1 << self.failures.min(20)).min(REST.1);
        self.failures = self.failures.saturating_add(1);
        // Between half of it and all, so that those who wait for the same engine do not come together.
        let rest = doubled.mul_f64(0.5 + 0.5 * random.unit());
        self.until = now + rest;
        rest
    }

    /// It asks to be left alone until then.
    pub fn at_least(&mut self, until: Timestamp) {
        self.until = self.until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Seeded;

    #[test]
    fn a_rest_doubles_up_to_an_hour() {
        let (mut rest, random) = (Rest::default(), &mut Seeded::new(1));
        let now = Timestamp::from_secs(1000);
        assert!(rest.is_over(now));
        let rests: Vec<Duration> = (0..15).map(|_| rest.failed(now, random)).collect();
        assert!(rests[0] <= REST.0 && rests[0] >= REST.0 / 2, "{rests:?}");
        assert!(rests[14] <= REST.1 && rests[14] >= REST.1 / 2, "{rests:?}");
        assert!(!rest.is_over(now) && rest.is_over(now + REST.1));
        rest.at_least(now + REST.1 + REST.1);
        assert!(!rest.is_over(now + REST.1));
    }
}
