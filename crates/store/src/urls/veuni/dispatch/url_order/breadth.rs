//! Breadth: what was never visited first, nearest to the seeds first.

use super::{Candidate, Shortest, UrlOrder, by_due};
use farol_base::Timestamp;

/// Prefers uncollected URLs; of a new host, those with the shortest paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breadth;

impl UrlOrder for Breadth {
    fn key(&self, candidate: &Candidate, now: Timestamp, new_host: bool) -> u64 {
        match candidate.due {
            Some(due) => by_due(due),
            None if new_host => Shortest.key(candidate, now, true),
            None => u64::from(candidate.depth) << 32 | candidate.path_bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unvisited_near_and_short_come_first() {
        let now = Timestamp::from_secs(9);
        let key = |path_bytes, depth, due: Option<u64>, new| {
            Breadth.key(&Candidate { path_bytes, depth, due: due.map(Timestamp::from_secs) }, now, new)
        };
        assert!(key(50, 1, None, false) < key(5, 2, None, false));
        assert!(key(5, 2, None, true) < key(50, 1, None, true));
        assert!(key(500, 99, None, false) < key(1, 0, Some(1), false));
        assert!(key(9, 9, Some(1), false) < key(1, 0, Some(2), false));
        assert!(Breadth.is_due(9) && !Breadth.is_due(10));
    }
}
