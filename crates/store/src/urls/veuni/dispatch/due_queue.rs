//! Due queue: pages that are due again within the hour of their visit, in memory until then.
//!
//! A visit reaches its page's bucket with the bucket's next compaction, which may be minutes away; until then
//! the page cannot be drawn from the bucket. A page that is visited every few minutes would always be late.
//! So a page that was drawn, visited, and is due within the hour waits here, with its record.
//!
//! INVARIANT: a page in the queue is not in flight, and its record has all of its visits. It is not drawn
//! from an active bucket: what a bucket has of it may be older, and is never newer. It leaves when it is
//! drawn, or deleted with its host.
//!
//! Memory: 65,536 pages × some 350 bytes (record 128, path 60, two table slots) = 23 MB at most, whatever the
//! store knows. Where there is no room a page waits for its bucket's compaction. Nothing here is written: the
//! WAL has the visits.

use crate::urls::{Record, Visit};
use farol_base::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Pages that are due later than this after their visit wait for a compaction: their buckets will have had
/// one.
const WITHIN: Duration = Duration::from_secs(3600);
const PAGES_MAX: usize = 65_536;
/// One host does not take all of the room: as many as may be pre-scheduled.
const PAGES_PER_HOST_MAX: usize = 1000;

/// Pages by host.
#[derive(Debug, Default)]
pub struct DueQueue {
    hosts: HashMap<Arc<str>, HostDueQueue>,
    /// Hosts that are not leased, by when their first page is due.
    waiting: BTreeSet<(Timestamp, Arc<str>)>,
    len: usize,
}

/// The pages of one host.
#[derive(Debug, Default)]
pub struct HostDueQueue {
    records: HashMap<Arc<str>, Record>,
    order: BTreeSet<(Timestamp, Arc<str>)>,
    is_leased: bool,
    /// Nobody wants it before this instant, whatever is due.
    not_before: Timestamp,
    /// Its key among the hosts that wait.
    waits: Option<Timestamp>,
}

/// Whether a page waits in memory until it is due again.
pub fn fits(visit: &Visit) -> bool {
    visit.due != Timestamp::NEVER && visit.due.since(visit.at) <= WITHIN
}

impl HostDueQueue {
    pub fn contains(&self, path: &str) -> bool {
        self.records.contains_key(path)
    }

    fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(due, _)| *due)
    }

    fn take(&mut self, path: &str) -> Option<Record> {
        let (path, record) = self.records.remove_entry(path)?;
        self.order.remove(&(record.due, path));
        Some(record)
    }
}

impl DueQueue {
    pub fn of(&self, host: &str) -> Option<&HostDueQueue> {
        self.hosts.get(host)
    }

    /// Inserts a page that was visited and [`fits`], where there is room; returns whether it did.
    pub fn try_insert(&mut self, host: &str, path: &str, record: Record, is_leased: bool) -> bool {
        let of_host = self.hosts.get(host).map_or(0, |pages| pages.records.len());
        let has_room = self.len < PAGES_MAX && of_host < PAGES_PER_HOST_MAX;
        if has_room {
            self.insert(host, path, record, is_leased);
        }
        has_room
    }

    /// Inserts a page, or one that was drawn and is released.
    pub fn insert(&mut self, host: &str, path: &str, record: Record, is_leased: bool) {
        let path: Arc<str> = path.into();
        let pages = match self.hosts.get_mut(host) {
            Some(pages) => pages,
            None => self.hosts.entry(host.into()).or_default(),
        };
        pages.is_leased = is_leased;
        self.len += usize::from(pages.take(&path).is_none());
        pages.order.insert((record.due, path.clone()));
        pages.records.insert(path, record);
        self.requeue(host);
    }

    /// Removes a page.
    pub fn take(&mut self, host: &str, path: &str) -> Option<Record> {
        let record = self.hosts.get_mut(host)?.take(path)?;
        self.len -= 1;
        self.requeue(host);
        Some(record)
    }

    /// The page of a host that is due first.
    pub fn first(&self, host: &str) -> Option<(Arc<str>, &Record)> {
        let pages = self.hosts.get(host)?;
        let (_, path) = pages.order.first()?;
        Some((path.clone(), pages.records.get(path)?))
    }

    /// When the first page of a host is due.
    pub fn next(&self, host: &str) -> Option<Timestamp> {
        self.hosts.get(host)?.next()
    }

    /// A hint that a page changed: it may be due earlier.
    pub fn hint(&mut self, host: &str, path: &str, hint: Timestamp) {
        let moved = self.hosts.get(host).and_then(|pages| pages.records.get(path));
        if let Some(record) = moved.filter(|record| record.is_moved_by(hint)) {
            let (record, is_leased) = (Record { due: hint, ..record.clone() }, self.hosts[host].is_leased);
            self.insert(host, path, record, is_leased);
        }
    }

    /// Marks a host as leased or not.
    pub fn set_leased(&mut self, host: &str, is_leased: bool) {
        if let Some(pages) = self.hosts.get_mut(host) {
            pages.is_leased = is_leased;
            self.requeue(host);
        }
    }

    /// Notes that a host is no longer leased, and that nobody wants it before this instant.
    pub fn release(&mut self, host: &str, until: Timestamp) {
        if let Some(pages) = self.hosts.get_mut(host) {
            pages.not_before = until;
        }
        self.set_leased(host, false);
    }

    /// The next host with something due that is not leased; counts as leased from now on.
    pub fn next_host(&mut self, now: Timestamp) -> Option<Arc<str>> {
        let (_, host) = self.waiting.first().filter(|(due, _)| *due <= now)?.clone();
        self.set_leased(&host, true);
        Some(host)
    }

    /// When there is such a host.
    pub fn next_host_due(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(due, _)| *due)
    }

    pub fn delete_host(&mut self, host: &str) {
        if let Some((host, pages)) = self.hosts.remove_entry(host) {
            self.len -= pages.records.len();
            if let Some(waits) = pages.waits {
                self.waiting.remove(&(waits, host));
            }
        }
    }

    /// Updates a host's key among those that wait; one without pages is removed.
    fn requeue(&mut self, host: &str) {
        let Some((host, pages)) = self.hosts.get_key_value(host) else { return };
        let (host, before) = (host.clone(), pages.waits);
        let waits = pages.next().filter(|_| !pages.is_leased).map(|next| next.max(pages.not_before));
        if waits != before {
            if let Some(before) = before {
                self.waiting.remove(&(before, host.clone()));
            }
            self.waiting.extend(waits.map(|waits| (waits, host.clone())));
        }
        match self.hosts.get_mut(&host) {
            Some(pages) if pages.records.is_empty() => drop(self.hosts.remove(&host)),
            Some(pages) => pages.waits = waits,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::urls::VisitOutcome;
    use farol_base::ContentHash;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn visit(now: u64, due: Timestamp) -> Visit {
        Visit {
            at: at(now),
            outcome: VisitOutcome::Page,
            content_hash: ContentHash(1),
            changed: true,
            position: None,
            download: Duration::ZERO,
            due,
            memo: [0; 8],
        }
    }

    fn try_insert(due_queue: &mut DueQueue, host: &str, path: &str, due: Timestamp) -> bool {
        let (visit, mut record) = (visit(10, due), Record::default());
        record.visit(&visit);
        fits(&visit) && due_queue.try_insert(host, path, record, false)
    }

    #[test]
    fn only_what_is_due_within_the_hour_is_kept() {
        let mut due_queue = DueQueue::default();
        assert!(
            try_insert(&mut due_queue, "h", "/a", at(10)) && try_insert(&mut due_queue, "h", "/b", at(3610))
        );
        assert!(
            !try_insert(&mut due_queue, "h", "/c", at(3611))
                && !try_insert(&mut due_queue, "h", "/d", Timestamp::NEVER)
        );
        assert_eq!((due_queue.len, due_queue.next("h")), (2, Some(at(10))));
    }

    #[test]
    fn one_host_does_not_fill_it_and_neither_do_all() {
        let mut due_queue = DueQueue::default();
        let of_host =
            (0..2000).filter(|page| try_insert(&mut due_queue, "h", &format!("/{page}"), at(20))).count();
        assert_eq!(of_host, PAGES_PER_HOST_MAX);
        let others = (0..PAGES_MAX)
            .filter(|page| try_insert(&mut due_queue, &format!("h{page}"), "/", at(20)))
            .count();
        assert_eq!((due_queue.len, others), (PAGES_MAX, PAGES_MAX - PAGES_PER_HOST_MAX));
        due_queue.delete_host("h");
        assert!(try_insert(&mut due_queue, "h", "/again", at(20)));
    }

    #[test]
    fn hosts_wait_by_their_first_page_and_only_while_they_are_not_leased() {
        let mut due_queue = DueQueue::default();
        try_insert(&mut due_queue, "h", "/a", at(30));
        try_insert(&mut due_queue, "g", "/a", at(40));
        try_insert(&mut due_queue, "h", "/b", at(50));
        assert_eq!((due_queue.next_host_due(), due_queue.next_host(at(29))), (Some(at(30)), None));
        assert_eq!(due_queue.next_host(at(60)).as_deref(), Some("h"));
        assert_eq!(due_queue.next_host(at(60)).as_deref(), Some("g"));
        assert_eq!((due_queue.next_host(at(60)), due_queue.next_host_due()), (None, None));
        assert_eq!(due_queue.first("h").unwrap().0.as_ref(), "/a");
        assert!(due_queue.take("h", "/a").is_some() && due_queue.take("h", "/a").is_none());
        due_queue.set_leased("h", false);
        assert_eq!(due_queue.next_host_due(), Some(at(50)));
        // A page says that it changed.
        due_queue.hint("h", "/b", at(35));
        assert_eq!((due_queue.next("h"), due_queue.next_host_due()), (Some(at(35)), Some(at(35))));
        due_queue.take("h", "/b");
        assert_eq!((due_queue.next_host_due(), due_queue.len), (None, 1));
        assert!(due_queue.of("h").is_none());
    }
}
