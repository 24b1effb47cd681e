//! Shortest path first: the pages near a host's root, which are its most important ones as a rule.

use super::{Candidate, UrlOrder, by_due};
use farol_base::Timestamp;

/// Prefers uncollected URLs, the shortest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortest;

impl UrlOrder for Shortest {
    fn key(&self, candidate: &Candidate, _: Timestamp, _: bool) -> u64 {
        match candidate.due {
            Some(due) => by_due(due),
            None => candidate.path_bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_length_counts() {
        let key = |path_bytes, depth| {
            Shortest.key(&Candidate { path_bytes, depth, due: None }, Timestamp::EPOCH, false)
        };
        assert!(key(5, 9) < key(6, 0));
    }
}
