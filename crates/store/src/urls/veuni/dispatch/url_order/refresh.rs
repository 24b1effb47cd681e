//! Refresh: what is due again first, then what was never visited.

use super::{Breadth, Candidate, UrlOrder};
use farol_base::Timestamp;

/// Prefers pages that are due again, longest due first; the others as [`Breadth`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refresh;

impl UrlOrder for Refresh {
    fn key(&self, candidate: &Candidate, now: Timestamp, new_host: bool) -> u64 {
        match candidate.due {
            Some(due) if due <= now => due.as_millis() >> 2,
            // Due times of the past fill less than the lower half of the numbers.
            _ => 1 << 62 | Breadth.key(candidate, now, new_host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_pages_come_before_new_ones() {
        let now = Timestamp::from_secs(100);
        let key = |due: Option<u64>| {
            let due = due.map(Timestamp::from_secs);
            Refresh.key(&Candidate { path_bytes: 1, depth: 0, due }, now, false)
        };
        assert!(key(Some(50)) < key(Some(99)));
        assert!(key(Some(99)) < key(None));
        assert!(key(None) < key(Some(101)));
    }
}
