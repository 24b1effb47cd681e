//! What is known of one URL, and how a visit changes it.

use farol_base::{ContentHash, PagePosition, Timestamp};
use std::time::Duration;

/// What the revisit planner remembers of a page; the store does not read it. All zero = nothing.
pub type Memo = [u8; 8];

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VisitOutcome {
    /// A page came back.
    Page,
    /// The page is as it was (304, or the same content again).
    Unchanged,
    /// It only points elsewhere.
    Redirect,
    /// The host says that there is no such page (404, 410).
    Gone,
    /// It was not asked for: robots.txt forbids it.
    Refused,
    /// It was not asked for: it does not belong to the crawl any more.
    OutOfScope,
    /// Nothing useful came back: no connection, a timeout, an error of the server.
    Failed,
}

/// A visit to a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    pub at: Timestamp,
    pub outcome: VisitOutcome,
    /// Fingerprint of the content; the default (all zero) where the visit brought none.
    pub content_hash: ContentHash,
    /// Whether the content differs from that of the visit before.
    pub changed: bool,
    /// Where the archive has it, if it was written there.
    pub position: Option<PagePosition>,
    /// How long the download took; kept in whole milliseconds, up to 49 days.
    pub download: Duration,
    /// When to visit next; [`Timestamp::NEVER`] = not again.
    pub due: Timestamp,
    pub memo: Memo,
}

/// What the visits so far say about a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Never visited.
    #[default]
    Known,
    /// A page that the archive has.
    Collected,
    /// Points elsewhere.
    Redirect,
    Gone,
    Refused,
    OutOfScope,
    /// No visit has succeeded yet. A page that was collected before stays collected.
    Failed,
}

/// All that is known of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub state: State,
    pub visits: u32,
    /// [`Timestamp::EPOCH`] before the first visit.
    pub last_visit: Timestamp,
    /// [`Timestamp::EPOCH`] before the first change.
    pub last_change: Timestamp,
    pub content_hash: ContentHash,
    /// Newest copy in the archive.
    pub position: Option<PagePosition>,
    pub download: Duration,
    /// When it is due again. Means nothing before the first visit: an unvisited URL is always due.
    pub due: Timestamp,
    /// Failed visits since the last that succeeded.
    pub failures: u8,
    pub depth: u16,
    /// As of the last visit.
    pub memo: Memo,
}

impl Record {
    /// Takes in a visit. What the visit does not know (hash, position) stays as it was.
    pub(super) fn visit(&mut self, visit: &Visit) {
        let failed = visit.outcome == VisitOutcome::Failed;
        self.visits = self.visits.saturating_add(1);
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        if !(failed && self.state == State::Collected) {
            self.state = state_after(visit.outcome);
        }
        self.last_visit = visit.at;
        if visit.changed {
            self.last_change = visit.at;
        }
        if visit.content_hash != ContentHash::default() {
            self.content_hash = visit.content_hash;
        }
        if visit.position.is_some() {
            self.position = visit.position;
        }
        let millis = u32::try_from(visit.download.as_millis()).unwrap_or(u32::MAX);
        self.download = Duration::from_millis(u64::from(millis));
        self.due = visit.due;
        self.memo = visit.memo;
    }

    /// Takes in what another store knew of the URL: least depth, and the later visit wins as a whole, with its
    /// content hash. A copy in another's archive is not where ours would be, so the position of what wins is void.
    ///
    /// INVARIANT: the order in which records are merged does not matter, nor does a record that comes twice: so a
    /// hand-over that was broken off, or done from two sides, is simply done again.
    pub fn merge(&mut self, other: &Record) {
        let depth = self.depth.min(other.depth);
        if other.is_visited() && other.rank() > self.rank() {
            *self = Record { position: None, ..other.clone() };
        } else if self.rank() == other.rank() && other.is_visited() {
            // The same visit, and one of both has heard of a change since.
            self.due = self.due.min(other.due);
        }
        self.depth = depth;
    }

    /// What of it means something to another store: no position, and no more of an unvisited URL than its depth.
    pub(super) fn handed_over(&self) -> Record {
        if !self.is_visited() {
            return Record { depth: self.depth, ..Record::default() };
        }
        let millis = u64::try_from(self.download.as_millis()).unwrap_or(u64::MAX);
        Record { position: None, download: Duration::from_millis(millis), ..self.clone() }
    }

    /// Whether it says more than that the URL was found.
    pub fn is_visited(&self) -> bool {
        self.visits > 0 && self.state != State::Known
    }

    /// Which of two records wins; one that was never visited loses. Beyond the time of the last visit the order means
    /// nothing but that there is one.
    fn rank(&self) -> impl PartialOrd + use<> {
        let Record { state, visits, last_visit, last_change, content_hash, failures, download, memo, .. } =
            *self;
        (
            (self.is_visited(), last_visit, visits, state as u8),
            (content_hash.0, last_change, failures, download, memo),
        )
    }

    /// Whether a hint of a change makes the URL due earlier than it is.
    pub(super) fn is_moved_by(&self, hint: Timestamp) -> bool {
        self.visits > 0 && hint > self.last_visit && hint < self.due
    }
}

/// A record in little room: before the first visit there is nothing but a depth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompactRecord {
    depth: u16,
    visited: Option<Box<Record>>,
}

impl CompactRecord {
    /// What is known of a URL that was never visited.
    pub fn found_at(depth: u16) -> CompactRecord {
        CompactRecord { depth, visited: None }
    }

    pub fn of(record: Record) -> CompactRecord {
        let found = CompactRecord::found_at(record.depth);
        if record.state == State::Known {
            found
        } else {
            CompactRecord { visited: Some(Box::new(record)), ..found }
        }
    }

    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// When it is due again; `None` before the first visit.
    pub fn due(&self) -> Option<Timestamp> {
        self.visited.as_ref().filter(|record| record.visits > 0).map(|record| record.due)
    }

    pub fn into_record(self) -> Record {
        self.visited.map_or(Record { depth: self.depth, ..Record::default() }, |record| *record)
    }
}

fn state_after(outcome: VisitOutcome) -> State {
    match outcome {
        VisitOutcome::Page | VisitOutcome::Unchanged => State::Collected,
        VisitOutcome::Redirect => State::Redirect,
        VisitOutcome::Gone => State::Gone,
        VisitOutcome::Refused => State::Refused,
        VisitOutcome::OutOfScope => State::OutOfScope,
        VisitOutcome::Failed => State::Failed,
    }
}

/// URLs of one host, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// All of them, visited or not.
    pub known: u64,
    pub collected: u64,
    pub gone: u64,
    /// Not asked for, by robots.txt or because they are out of scope.
    pub refused: u64,
    pub failed: u64,
}

impl HostCounts {
    /// Moves one URL from one state to another.
    pub(super) fn moved(&mut self, from: State, to: State) {
        if let Some(count) = self.of(from) {
            *count -= 1;
        }
        if let Some(count) = self.of(to) {
            *count += 1;
        }
    }

    fn of(&mut self, state: State) -> Option<&mut u64> {
        match state {
            State::Collected => Some(&mut self.collected),
            State::Gone => Some(&mut self.gone),
            State::Refused | State::OutOfScope => Some(&mut self.refused),
            State::Failed => Some(&mut self.failed),
            State::Known | State::Redirect => None,
        }
    }
}

/// Sums over a whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hosts: u64,
    pub known: u64,
    pub collected: u64,
    /// Never visited so far, drawn or not.
    pub waiting: u64,
    /// URLs that were written and are not compacted yet: they may be new or known.
    pub unmerged: u64,
    pub bytes_on_disk: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_compact_record_loses_nothing() {
        let found = Record { depth: 7, ..Record::default() };
        assert_eq!(
            (CompactRecord::of(found.clone()), CompactRecord::found_at(7).due()),
            (CompactRecord::found_at(7), None)
        );
        assert_eq!(CompactRecord::found_at(7).into_record(), found);
        let failed = Record { state: State::Failed, visits: 2, due: Timestamp::from_secs(9), ..found };
        let compact = CompactRecord::of(failed.clone());
        assert_eq!((compact.depth(), compact.due()), (7, Some(Timestamp::from_secs(9))));
        assert_eq!(compact.into_record(), failed);
    }

    fn check(outcomes: &[VisitOutcome], want: State, failures: u8) {
        let mut record = Record::default();
        for (i, outcome) in outcomes.iter().enumerate() {
            record.visit(&Visit {
                at: Timestamp::from_secs(i as u64 + 1),
                outcome: *outcome,
                content_hash: ContentHash::default(),
                changed: i == 0,
                position: None,
                download: Duration::from_micros(1500),
                due: Timestamp::NEVER,
                memo: [i as u8; 8],
            });
        }
        assert_eq!((record.state, record.failures), (want, failures), "{outcomes:?}");
        assert_eq!(record.visits as usize, outcomes.len());
        assert_eq!(record.memo, [outcomes.len() as u8 - 1; 8]);
        assert_eq!(record.last_change, Timestamp::from_secs(1));
        assert_eq!(record.download, Duration::from_millis(1));
    }

    #[test]
    fn visits_make_the_state() {
        use VisitOutcome::*;
        check(&[Page], State::Collected, 0);
        check(&[Page, Unchanged], State::Collected, 0);
        check(&[Failed, Failed], State::Failed, 2);
        check(&[Page, Failed], State::Collected, 1); // The archive still has it.
        check(&[Page, Failed, Gone], State::Gone, 0);
        check(&[Gone, Failed], State::Failed, 1);
        check(&[Redirect], State::Redirect, 0);
        check(&[Refused, Page], State::Collected, 0);
    }

    fn visited(at: u64, state: State, due: u64) -> Record {
        Record {
            state,
            visits: 2,
            last_visit: Timestamp::from_secs(at),
            content_hash: ContentHash(u128::from(at)),
            position: Some(PagePosition { file: 1, offset: at }),
            due: Timestamp::from_secs(due),
            depth: (at % 5) as u16,
            ..Record::default()
        }
    }

    #[test]
    fn the_later_visit_wins_and_what_is_known_stays_known() {
        let (old, new) = (visited(10, State::Collected, 90), visited(20, State::Gone, 80));
        let mut record = old.clone();
        record.merge(&new);
        assert_eq!(record, Record { position: None, depth: 0, ..new.clone() });
        let mut record = new.clone();
        record.merge(&old);
        assert_eq!(record, Record { depth: 0, ..new.clone() });
        // Who has never visited it tells a depth at most.
        let found = Record { depth: 0, due: Timestamp::from_secs(1), ..Record::default() };
        record.merge(&found);
        assert_eq!(record, Record { depth: 0, ..new.clone() });
        let mut record = Record { depth: 3, ..found };
        record.merge(&new);
        assert_eq!(record, Record { position: None, depth: 0, ..new });
    }

    #[test]
    fn a_hint_that_one_of_two_has_heard_stays() {
        let (ours, theirs) = (visited(10, State::Collected, 90), visited(10, State::Collected, 40));
        let mut record = ours.clone();
        record.merge(&theirs);
        assert_eq!(record, Record { due: Timestamp::from_secs(40), ..ours });
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let small = || 0u64..3;
        (small(), small(), 0u8..6, small(), small(), (0u16..3, small())).prop_map(
            |(at, visits, state, due, hash, (depth, changed))| {
                use State::*;
                Record {
                    state: [Known, Collected, Redirect, Gone, Refused, Failed][state as usize],
                    visits: visits as u32,
                    last_visit: Timestamp::from_secs(at),
                    last_change: Timestamp::from_secs(changed),
                    content_hash: ContentHash(u128::from(hash)),
                    due: Timestamp::from_secs(due),
                    depth,
                    ..Record::default()
                }
            },
        )
    }

    proptest! {
        #[test]
        fn neither_order_nor_repetition_of_merges_matters(
            (a, b, c) in (any_record(), any_record(), any_record()),
        ) {
            let merged = |records: &[&Record]| {
                let mut all = Record { depth: u16::MAX, ..Record::default() };
                records.iter().for_each(|record| all.merge(record));
                all
            };
            let once = merged(&[&a, &b, &c]);
            for order in [[&a, &c, &b], [&b, &a, &c], [&b, &c, &a], [&c, &a, &b], [&c, &b, &a]] {
                prop_assert_eq!(&merged(&order), &once);
            }
            prop_assert_eq!(&merged(&[&a, &b, &a, &c, &b, &c, &c]), &once);
            let pair = merged(&[&b, &c]);
            prop_assert_eq!(merged(&[&a, &pair]), once);
        }
    }

    #[test]
    fn a_hint_moves_only_visited_urls_and_only_forward() {
        let at = Timestamp::from_secs;
        let mut record = Record::default();
        assert!(!record.is_moved_by(at(5)));
        record = Record { visits: 1, last_visit: at(10), due: at(100), ..record };
        assert!(!record.is_moved_by(at(10)) && record.is_moved_by(at(11)) && !record.is_moved_by(at(100)));
    }
}
