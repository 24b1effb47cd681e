//! A multiple of the time that the last answer took \[Exposto08\] ("dynamic"; Mercator's rule).
//!
//! A busy or far server answers slowly and is asked more seldom; the crawler never takes more than one
//! `times + 1`-th of a server's time.

use super::{DelayRule, Facts};
use std::time::Duration;

/// Rests `times` as long as the last download took, but no longer than `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadTime {
    pub times: u32,
    pub longest: Duration,
}

impl Default for DownloadTime {
    /// Ten times, as in the thesis, and five minutes at most: one hung answer says little about a server.
    fn default() -> DownloadTime {
        DownloadTime { times: 10, longest: Duration::from_secs(300) }
    }
}

impl DelayRule for DownloadTime {
    fn delay(&self, facts: &Facts) -> Duration {
        facts.last_download.saturating_mul(self.times).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(download_millis: u64, want_millis: u64) {
        let facts = Facts { last_download: Duration::from_millis(download_millis), ..Facts::default() };
        assert_eq!(DownloadTime::default().delay(&facts), Duration::from_millis(want_millis));
    }

    #[test]
    fn ten_times_the_last_download() {
        check(0, 0);
        check(150, 1_500);
        check(60_000, 300_000);
    }
}
