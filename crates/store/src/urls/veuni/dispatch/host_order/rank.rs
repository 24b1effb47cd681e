//! By rank: the most important hosts first, and only those above a bound where one is set.

use super::{HostFacts, HostOrder};
use std::fmt;

/// Orders by a rank that somebody else computes.
pub struct Rank<F> {
    /// Rank of a host, 0 or more.
    pub of: F,
    /// Hosts below it wait for another turn.
    pub least: f32,
}

impl<F> fmt::Debug for Rank<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank {{ least: {} }}", self.least)
    }
}

impl<F: Fn(&str) -> f32 + Send + Sync> HostOrder for Rank<F> {
    fn key(&self, host: &HostFacts<'_>) -> Option<u64> {
        let rank = (self.of)(host.host);
        // Bits of floats that are not negative grow as they do.
        (rank >= self.least).then(|| u64::from(u32::MAX - rank.max(0.0).to_bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_ranks_come_first_and_low_ones_wait() {
        let policy = Rank { of: |host: &str| host.len() as f32 / 10.0, least: 0.2 };
        let key = |host| policy.key(&HostFacts { host, ..HostFacts::default() });
        assert!(key("abcdef") < key("abc"));
        assert_eq!(key("a"), None);
    }
}
