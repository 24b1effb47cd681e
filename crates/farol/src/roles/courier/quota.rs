//! How much one agent may send to another in a minute: what is more waits in the log, and comes again.
//!
//! Pure. INVARIANT: nothing is lost by it. A batch that is not taken is one that its sender has not been told of, and one
//! sender's flood keeps no other from being heard.

use farol_cluster::NodeNo;
use std::collections::BTreeMap;
use std::time::Duration;

/// URLs, and words on hosts, of one sender in a minute: 50,000 a second, some twenty times what the fastest crawl of one
/// machine finds, and what a URL store takes in beside its own work.
pub const PER_MINUTE: u64 = 3_000_000;
const MINUTE: Duration = Duration::from_secs(60);

/// What each sender has sent in this minute.
#[derive(Debug)]
pub struct Quota {
    per_minute: u64,
    begun: Duration,
    used: BTreeMap<NodeNo, u64>,
}

impl Quota {
    pub fn new(per_minute: u64) -> Quota {
        Quota { per_minute, begun: Duration::ZERO, used: BTreeMap::new() }
    }

    /// Whether a sender may be heard at this time, counted from any beginning.
    pub fn has_room(&mut self, from: NodeNo, now: Duration) -> bool {
        if now.saturating_sub(self.begun) >= MINUTE {
            self.begun = now;
            self.used.clear();
        }
        self.used.get(&from).is_none_or(|used| *used < self.per_minute)
    }

    /// A sender was heard.
    pub fn took(&mut self, from: NodeNo, count: u64) {
        *self.used.entry(from).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_has_its_own_minute() {
        let (mut quota, second) = (Quota::new(10), Duration::from_secs(1));
        let (a, b) = (NodeNo(1), NodeNo(2));
        assert!(quota.has_room(a, 5 * second));
        quota.took(a, 12);
        assert!(!quota.has_room(a, 6 * second) && quota.has_room(b, 6 * second));
        assert!(!quota.has_room(a, 59 * second) && quota.has_room(a, 60 * second));
    }
}
