//! Time as the state machines are handed it, and the times that leases live by.

/// Milliseconds of one machine's clock that only goes forward, also while the machine sleeps. Two machines' clocks are
/// never compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(u64);

impl Monotonic {
    pub fn from_millis(millis: u64) -> Monotonic {
        Monotonic(millis)
    }

    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// This much later.
    pub fn plus(self, millis: u64) -> Monotonic {
        Monotonic(self.0.saturating_add(millis))
    }

    /// Milliseconds since an earlier instant; 0 where it is later.
    pub fn since(self, earlier: Monotonic) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What leases live by. Other values than the defaults are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A holder renews its lease this often.
    pub renew_ms: u64,
    /// A lease is valid for so long after its last renewal was sent.
    pub hold_ms: u64,
    /// Who has not renewed for so long is taken for dead.
    pub dead_ms: u64,
    /// A shard that was split is kept for so long, because fronts may still have the map before.
    pub retired_ms: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { renew_ms: 5_000, hold_ms: 20_000, dead_ms: 30_000, retired_ms: 60_000 }
    }
}

impl Times {
    /// All of them divided, so that tests need not wait.
    pub fn shortened(self, by: u64) -> Times {
        let by = by.max(1);
        Times {
            renew_ms: self.renew_ms / by,
            hold_ms: self.hold_ms / by,
            dead_ms: self.dead_ms / by,
            retired_ms: self.retired_ms / by,
        }
    }

    /// Refuses times under which two could hold one lease, where clocks go up to a tenth too fast or too slow.
    ///
    /// # Errors
    /// A sentence that says which time to change.
    pub fn check(&self) -> Result<(), String> {
        let dead_least = self.hold_ms * 11 / 9 + 1;
        if self.renew_ms == 0 || self.hold_ms < 2 * self.renew_ms {
            return Err(format!("a lease of {} ms must be at least two renewals long", self.hold_ms));
        }
        if self.dead_ms < dead_least {
            return Err(format!(
                "a node may be taken for dead after {} ms only if its lease of {} ms has surely ended: use {dead_least} ms \
                 or more",
                self.dead_ms, self.hold_ms
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_must_outlast_clocks_that_differ() {
        let check = |renew_ms, hold_ms, dead_ms, want| {
            let times = Times { renew_ms, hold_ms, dead_ms, ..Times::default() };
            assert_eq!(times.check().is_ok(), want, "{times:?}");
        };
        check(5_000, 20_000, 30_000, true);
        check(5_000, 20_000, 24_445, true);
        check(5_000, 20_000, 24_444, false);
        check(11_000, 20_000, 30_000, false);
        check(0, 20_000, 30_000, false);
        assert!(Times::default().shortened(10).check().is_ok());
    }
}
