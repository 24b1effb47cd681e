//! Which pages' anchor texts are to be told to their shards, and when.
//!
//! A replica keeps anchors only of pages that it has. So those of a page that was fetched just now wait until its agent
//! has put the page itself into the log of its shard: told after that, they are read after it.
//!
//! Pages that wait belong to rounds, so that the reader can tell when everything that it had read up to some point has
//! been told, although more comes all the time.
//!
//! Pure: who has sent what is asked, not known.

use farol_base::{PageId, PagePosition};
use std::collections::BTreeMap;

/// A page whose anchors are to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    round: u64,
    /// The agent that has fetched it, and where it is in its archive.
    after: Option<(u16, PagePosition)>,
    /// Whether links to it have changed; where not, there may be nothing to tell.
    pub has_changed: bool,
}

/// Pages whose anchors are to be told. 56 bytes each; the reader rests while many wait.
#[derive(Debug, Default)]
pub struct PendingAnchors {
    waiting: BTreeMap<u64, Waiting>,
    round: u64,
}

impl PendingAnchors {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Links to a page have changed.
    pub fn found(&mut self, page: PageId) {
        let round = self.round;
        let fresh = Waiting { round, after: None, has_changed: true };
        self.waiting.entry(page.0).or_insert(fresh).has_changed = true;
    }

    /// A page was fetched: its replicas may have it without anchors.
    pub fn fetched(&mut self, page: PageId, agent: u16, at: PagePosition) {
        let round = self.round;
        let fresh = Waiting { round, after: None, has_changed: false };
        self.waiting.entry(page.0).or_insert(fresh).after = Some((agent, at));
    }

    /// Ends a round; everything that waits now belongs to it or to one before.
    pub fn end_round(&mut self) -> u64 {
        self.round += 1;
        self.round - 1
    }

    /// Whether all of this round and those before have been told.
    pub fn has_told(&self, round: u64) -> bool {
        self.waiting.values().all(|waiting| waiting.round > round)
    }

    /// Takes out up to `limit` pages that may be told now: those that no agent has yet to send.
    pub fn take(
        &mut self,
        limit: usize,
        is_sent: impl Fn(PageId, u16, PagePosition) -> bool,
    ) -> Vec<(PageId, Waiting)> {
        let may_go = |page: u64, waiting: &Waiting| {
            waiting.after.is_none_or(|(agent, at)| is_sent(PageId(page), agent, at))
        };
        let ready = self.waiting.iter().filter(|(page, waiting)| may_go(**page, waiting)).take(limit);
        let ready: Vec<(PageId, Waiting)> = ready.map(|(page, waiting)| (PageId(*page), *waiting)).collect();
        for (page, _) in &ready {
            self.waiting.remove(&page.0);
        }
        ready
    }

    /// They could not be told after all.
    pub fn put_back(&mut self, pages: impl IntoIterator<Item = (PageId, Waiting)>) {
        self.waiting.extend(pages.into_iter().map(|(page, waiting)| (page.0, waiting)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> PagePosition {
        PagePosition { file: 0, offset }
    }

    fn taken(pending: &mut PendingAnchors, sent: u64) -> Vec<(u64, bool)> {
        let taken = pending.take(10, |_, agent, at| agent == 1 && at.offset < sent);
        taken.into_iter().map(|(page, waiting)| (page.0, waiting.has_changed)).collect()
    }

    #[test]
    fn a_page_waits_until_its_agent_has_sent_it() {
        let mut pending = PendingAnchors::default();
        pending.found(PageId(5));
        pending.fetched(PageId(6), 1, at(30));
        pending.found(PageId(6));
        pending.fetched(PageId(7), 1, at(50));
        assert_eq!(taken(&mut pending, 0), [(5, true)]);
        assert_eq!(taken(&mut pending, 31), [(6, true)]);
        // Fetched again before it was told: it waits for the newer one.
        pending.fetched(PageId(7), 1, at(90));
        assert_eq!(taken(&mut pending, 60), []);
        assert_eq!(taken(&mut pending, 91), [(7, false)]);
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn a_round_is_told_though_more_comes() {
        let mut pending = PendingAnchors::default();
        pending.fetched(PageId(1), 1, at(1));
        let first = pending.end_round();
        pending.fetched(PageId(2), 1, at(2));
        // What waits already stays in its round.
        pending.found(PageId(1));
        assert!(!pending.has_told(first));
        let ready = pending.take(1, |_, _, _| true);
        assert!(pending.has_told(first));
        pending.put_back(ready);
        assert!(!pending.has_told(first));
        assert_eq!(taken(&mut pending, 2), [(1, true)]);
        assert!(pending.has_told(first) && !pending.has_told(pending.round));
    }

    #[test]
    fn no_more_are_taken_than_asked_for() {
        let mut pending = PendingAnchors::default();
        (0..5).for_each(|page| pending.found(PageId(page)));
        assert_eq!(pending.take(3, |_, _, _| true).len(), 3);
        assert_eq!(pending.len(), 2);
    }
}
