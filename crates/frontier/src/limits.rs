//! How much, how many and how often: every bound of the frontier in one place.

use std::time::Duration;

/// How long a cached robots.txt is trusted, at most (RFC 9309 §2.4).
pub const ROBOTS_VALID: Duration = Duration::from_secs(24 * 3600);

/// Shortest a cached robots.txt is trusted: `Cache-Control: max-age=0` must not double every request.
pub const ROBOTS_VALID_MIN: Duration = Duration::from_secs(600);

/// Longest Retry-After that is obeyed to the letter; a longer one counts as this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Longest Crawl-delay that is obeyed to the letter; a longer one counts as this.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// Farthest a host is put off, whatever went wrong and whatever a damaged memory says.
pub const QUARANTINE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Least pause after a 429 or 503, whatever its Retry-After says and even where the delay is 0.
pub const THROTTLED_PAUSE_MIN: Duration = Duration::from_secs(1);

/// Least sleep of a host whose refill was empty though the store said that something is due: the store
/// changes its mind at most once a second.
pub const DRY_SLEEP_MIN: Duration = Duration::from_secs(1);

/// Longest that a chain of redirects of a robots.txt is waited for, turns in line included: six requests, each with a
/// fetch of 20 s and a place among a few others. A host that is sent round in circles loses five minutes, no more.
pub const ROBOTS_CHAIN_MAX: Duration = Duration::from_secs(300);

/// Robots.txt files of other domains that one registrable domain is asked for at a time. A site that many others point
/// to still has its turns for its own pages; those beyond try again after a pause.
pub const FOREIGN_ROBOTS_MAX: usize = 8;

/// A host for which its domain or address has no room comes back no sooner than this, whatever the delay.
pub const CROWDED_MIN: Duration = Duration::from_secs(5);

/// And no later: of a million such hosts, 1,700 per second ask for room again, at some microseconds each.
pub const CROWDED_MAX: Duration = Duration::from_secs(600);

/// How long a host keeps its place while others of its domain or address wait for one.
pub const TENURE: Duration = Duration::from_secs(600);

/// The frontier's bounds.
///
/// Memory with the defaults: 20,000 hosts × 0.9 KiB with their domains, and at most a quarter more that are here only for
/// others' robots.txt = 23 MiB, plus queued URLs of at most
/// `queued_bytes_max` = 64 MiB (a little more: past it, each host still gets one URL of at most 2 KiB at a time).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most hosts at a time; see [`crate::Added::Full`]. Default: 20,000.
    pub hosts_max: usize,
    /// Hosts of one registrable domain, and hosts at one address, that always have a place. While there is room, a domain
    /// may have up to an eighth of what is free: alone it gets a ninth of `hosts_max`, and newcomers always find a place.
    /// An address is asked one thing at a time, so more of its hosts at once would not be any faster. Default: 64, so that
    /// 312 crowded domains fill the default `hosts_max`.
    pub hosts_share: usize,
    /// How many URLs of one host are wanted per refill. Default: 32.
    pub queue_per_host: usize,
    /// Queued URLs, in bytes, beyond which a refill asks for a single URL. Default: 64 MiB.
    pub queued_bytes_max: usize,
    /// Most leases at a time. Default: 256.
    pub in_flight_max: usize,
    /// Most unanswered [`crate::Step::Resolve`] at a time. Default: 64.
    pub resolving_max: usize,
    /// Least rest of a host and of an address between two requests. Default: 2 s.
    pub delay_min: Duration,
    /// An answer that took longer than this makes its host rest at least as long as the answer took, unless the
    /// delay rule and `delay_min` both say 0: then the operator owns the servers. Default: 1 s.
    pub slow_after: Duration,
    /// How long an address is used before the host is resolved again. Default: 1 h.
    pub address_valid: Duration,
    /// How often one page may fail or be throttled before it is given up. Default: 4.
    pub tries_per_page: u8,
    /// RetryPolicy with a host whose pages fail or are throttled. Default: 8 tries over an hour.
    pub host_retry: RetryPolicy,
    /// RetryPolicy with a host whose name or robots.txt cannot be had. Default: 8 tries over three hours.
    pub robots_retry: RetryPolicy,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            hosts_max: 20_000,
            hosts_share: 64,
            queue_per_host: 32,
            queued_bytes_max: 64 << 20,
            in_flight_max: 256,
            resolving_max: 64,
            delay_min: Duration::from_secs(2),
            slow_after: Duration::from_secs(1),
            address_valid: Duration::from_secs(3600),
            tries_per_page: 4,
            // 30 s + 1 + 2 + 4 + 8 + 16 + 32 min = 63 min before the eighth try.
            host_retry: RetryPolicy {
                first: Duration::from_secs(30),
                longest: Duration::from_secs(3600),
                tries: 8,
                quarantine: Duration::from_secs(24 * 3600),
            },
            // 2 + 4 + 8 + 16 + 32 + 60 + 60 min = 3 h before the eighth try.
            robots_retry: RetryPolicy {
                first: Duration::from_secs(120),
                longest: Duration::from_secs(3600),
                tries: 8,
                quarantine: Duration::from_secs(24 * 3600),
            },
        }
    }
}

impl Limits {
    /// Hosts that a domain or an address may have while so many places are free.
    pub(crate) fn share(&self, free: usize) -> usize {
        self.hosts_share.max(free / 8).max(1)
    }

    /// Hosts that may be here only for others' robots.txt: a quarter more than `hosts_max`, and a few.
    pub(crate) fn guests_max(&self) -> usize {
        self.hosts_max / 4 + 16
    }

    /// Lookups of one domain at a time: an eighth, so that slow name servers delay their own names.
    pub(crate) fn resolving_per_domain(&self) -> usize {
        (self.resolving_max / 8).max(1)
    }

    /// Leases that one domain always may have at a time: a quarter, so that servers which never answer leave
    /// connections to others. Beyond it a domain borrows, see [`Limits::kept_for_others`].
    pub(crate) fn leased_per_domain(&self) -> usize {
        (self.in_flight_max / 4).max(LEASED_PER_DOMAIN_MIN)
    }

    /// Leases that nobody may borrow while domains below their share may want so many (`unmet`) soon. A quarter is
    /// enough: most of those hosts rest, and whoever waits has the next lease that returns.
    pub(crate) fn kept_for_others(&self, unmet: usize) -> usize {
        unmet.min(self.in_flight_max / 4)
    }
}

/// A host that is back within this time has a lease kept for it (at most a quarter of all are): a lease cannot be taken
/// from whoever has borrowed it, and a server that never answers holds it for a fetch's time, 20 s.
pub const NEAR: Duration = Duration::from_secs(60);

/// With few connections in all, a single site may use them: there is little to share out.
const LEASED_PER_DOMAIN_MIN: usize = 16;

/// Pauses that double with each failure in a row, and what follows when they did not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Pause after the first failure.
    pub first: Duration,
    /// No pause between tries is longer.
    pub longest: Duration,
    /// After this many failures in a row the host is quarantined.
    pub tries: u32,
    /// How long it is quarantined the first time; each further failure doubles it, up to 30 days.
    pub quarantine: Duration,
}

impl RetryPolicy {
    /// Whether this many failures in a row are too many.
    pub fn is_over(&self, failures: u32) -> bool {
        failures >= self.tries.max(1)
    }

    /// The pause after this many failures in a row.
    pub fn pause(&self, failures: u32) -> Duration {
        if self.is_over(failures) {
            doubled(self.quarantine, failures - self.tries.max(1), QUARANTINE_MAX)
        } else {
            doubled(self.first, failures.saturating_sub(1), self.longest)
        }
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_then_the_host_is_quarantined() {
        let retry = Limits::default().robots_retry;
        let minutes = |failures| retry.pause(failures).as_secs() / 60;
        let pauses: Vec<u64> = (1..=7).map(minutes).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        assert!(!retry.is_over(7) && retry.is_over(8));
        assert_eq!((minutes(8), minutes(9)), (24 * 60, 48 * 60));
        assert_eq!(retry.pause(u32::MAX), QUARANTINE_MAX);
    }

    #[test]
    fn odd_settings_do_not_break_it() {
        let none = RetryPolicy {
            first: Duration::ZERO,
            longest: Duration::ZERO,
            tries: 0,
            quarantine: Duration::MAX,
        };
        assert_eq!(none.pause(0), Duration::ZERO);
        assert_eq!(none.pause(1), QUARANTINE_MAX);
    }
}
