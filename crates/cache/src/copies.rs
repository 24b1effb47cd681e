//! Whose failover copies a node keeps, and until when.
//!
//! Each source numbers its rounds by itself and says which start of its program it is (its *incarnation*), so rounds of
//! different sources are never compared. A completed round ends the copies of the same source's earlier rounds. A source
//! that has restarted is empty: what it protected before answers until the first round of its new life is complete. Who is
//! not heard of any more is dead: their copies last one interval longer, then they are dropped.
//!
//! INVARIANT: memory is one small record per source heard of lately.

use crate::ring::NodeId;
use farol_base::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

/// Sources that are told apart at most.
const SOURCES_MAX: usize = 1024;

/// Which round of which source a copy came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundMark {
    pub source: NodeId,
    pub incarnation: u64,
    pub round: u64,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    incarnation: u64,
    /// The last complete round of this incarnation.
    complete: Option<u64>,
    heard: Timestamp,
}

/// Sources by node.
#[derive(Debug, Default)]
pub struct Sources {
    known: HashMap<NodeId, Source>,
}

impl Sources {
    /// Something of a round has come. `false`: it is of a round that is over, or of an earlier life; it is not to be kept.
    pub fn heard(&mut self, mark: &RoundMark, now: Timestamp) -> bool {
        let room = self.known.len() < SOURCES_MAX || self.known.contains_key(&mark.source);
        if !room {
            return false;
        }
        let new = Source { incarnation: mark.incarnation, complete: None, heard: now };
        let source = self.known.entry(mark.source).or_insert(new);
        if mark.incarnation < source.incarnation {
            return false;
        }
        if mark.incarnation > source.incarnation {
            *source = new;
        }
        source.heard = source.heard.max(now);
        source.complete.is_none_or(|complete| mark.round >= complete)
    }

    /// A source has sent all of a round.
    pub fn complete(&mut self, mark: &RoundMark, now: Timestamp) {
        if self.heard(mark, now)
            && let Some(source) = self.known.get_mut(&mark.source)
        {
            source.complete = source.complete.max(Some(mark.round));
        }
    }

    /// Whether a copy may still answer.
    pub fn holds(&self, mark: &RoundMark) -> bool {
        match self.known.get(&mark.source) {
            None => false,
            Some(source) if source.incarnation == mark.incarnation => {
                source.complete.is_none_or(|complete| mark.round >= complete)
            }
            // Of an earlier life: until the new one has completed a round.
            Some(source) => source.complete.is_none(),
        }
    }

    /// Forgets who was last heard of longer ago than this.
    pub fn forget_silent(&mut self, now: Timestamp, silence_max: Duration) {
        self.known.retain(|_, source| now.since(source.heard) < silence_max);
    }

    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(source: u16, incarnation: u64, round: u64) -> RoundMark {
        RoundMark { source: NodeId(source), incarnation, round }
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn rounds_of_different_sources_are_not_compared() {
        // Node 1 has run for long, node 2 has just started: the one's round 900 says nothing on the other's round 1.
        let mut sources = Sources::default();
        assert!(sources.heard(&mark(2, 1, 1), at(0)));
        sources.complete(&mark(2, 1, 1), at(0));
        sources.complete(&mark(1, 1, 900), at(1));
        assert!(sources.holds(&mark(2, 1, 1)) && sources.holds(&mark(1, 1, 900)));
        assert!(!sources.holds(&mark(1, 1, 899)));
        sources.complete(&mark(2, 1, 2), at(2));
        assert!(!sources.holds(&mark(2, 1, 1)) && sources.holds(&mark(1, 1, 900)));
        // What comes late, or twice, of a round that is over is not taken.
        assert!(!sources.heard(&mark(2, 1, 1), at(3)) && sources.heard(&mark(2, 1, 2), at(3)));
    }

    #[test]
    fn a_restarted_source_replaces_its_copies_with_its_first_whole_round() {
        let mut sources = Sources::default();
        sources.complete(&mark(1, 5, 40), at(0));
        assert!(sources.heard(&mark(1, 6, 1), at(10)));
        assert!(sources.holds(&mark(1, 5, 40)) && sources.holds(&mark(1, 6, 1)));
        assert!(!sources.heard(&mark(1, 5, 41), at(11)), "a message from before its death");
        sources.complete(&mark(1, 6, 1), at(12));
        assert!(!sources.holds(&mark(1, 5, 40)) && sources.holds(&mark(1, 6, 1)));
    }

    #[test]
    fn who_is_silent_is_forgotten_and_there_is_a_limit() {
        let mut sources = Sources::default();
        sources.complete(&mark(1, 1, 1), at(0));
        sources.complete(&mark(2, 1, 1), at(300));
        sources.forget_silent(at(600), Duration::from_secs(600));
        assert!(!sources.holds(&mark(1, 1, 1)) && sources.holds(&mark(2, 1, 1)));
        let taken = (0..3000u16).filter(|node| sources.heard(&mark(*node, 1, 1), at(600))).count();
        assert_eq!((taken, sources.known.len()), (SOURCES_MAX, SOURCES_MAX));
    }
}
