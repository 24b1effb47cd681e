//! What follows a table or hears a subject: the receiving ends, the same for every implementation.
//!
//! INVARIANT: of each key only greater revisions are delivered, whatever the feeding side repeats after a reconnect.
//! Memory is bounded: a slow watcher gets the newest value of each key, a slow hearer misses what was said.

use crate::Revision;
use bytes::Bytes;
use farol_base::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A change of a key. What a key held when the watch began comes as a change too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    /// `None`: the key was removed.
    pub value: Option<Bytes>,
    pub revision: Revision,
}

/// Follows keys. It never ends; dropping it stops it.
pub struct Watch {
    pending: Arc<Pending>,
    _stop: Option<StopOnDrop>,
}

impl Watch {
    /// Makes both ends. The feeding end sees when the watch is dropped.
    pub(crate) fn new() -> (Watch, WatchFeed) {
        let pending = Arc::new(Pending::default());
        let feed = WatchFeed(Arc::downgrade(&pending));
        (Watch { pending, _stop: None }, feed)
    }

    /// Runs `stop` when the watch is dropped.
    pub(crate) fn stopping(mut self, stop: impl FnOnce() + Send + Sync + 'static) -> Watch {
        self._stop = Some(StopOnDrop(Some(Box::new(stop))));
        self
    }

    /// The next change, or `None` where there was none for so long.
    pub fn next(&self, wait: Duration) -> Option<Entry> {
        self.pending.next(wait)
    }
}

/// Changes that the watcher has not taken yet, the newest of each key.
#[derive(Default)]
struct Pending {
    changes: Mutex<Changes>,
    came: Condvar,
}

#[derive(Default)]
struct Changes {
    order: VecDeque<String>,
    newest: HashMap<String, Entry>,
    /// Greatest revision of each key that was ever offered.
    seen: HashMap<String, Revision>,
}

impl Pending {
    fn offer(&self, entry: Entry) {
        let mut changes = self.changes.lock();
        let seen = changes.seen.entry(entry.key.clone()).or_default();
        if entry.revision <= *seen {
            return;
        }
        *seen = entry.revision;
        if !changes.newest.contains_key(&entry.key) {
            changes.order.push_back(entry.key.clone());
        }
        changes.newest.insert(entry.key.clone(), entry);
        self.came.notify_one();
    }

    fn next(&self, wait: Duration) -> Option<Entry> {
        let until = Instant::now() + wait;
        let mut changes = self.changes.lock();
        loop {
            if let Some(key) = changes.order.pop_front() {
                return changes.newest.remove(&key);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            changes = self.came.wait_timeout(changes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The feeding end of a [`Watch`].
#[derive(Clone)]
pub(crate) struct WatchFeed(Weak<Pending>);

impl WatchFeed {
    /// Offers a change; `false` when the watch is gone.
    pub(crate) fn offer(&self, entry: Entry) -> bool {
        self.0.upgrade().map(|pending| pending.offer(entry)).is_some()
    }

    /// Whether anybody still watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Forgets which revisions were seen: the table was made anew, and counts from the beginning.
    pub(crate) fn start_over(&self) {
        if let Some(pending) = self.0.upgrade() {
            pending.changes.lock().seen.clear();
        }
    }
}

/// Hears what is said on a subject. Dropping it stops it.
pub struct Hearing {
    said: Receiver<Bytes>,
    _stop: Option<StopOnDrop>,
}

/// What a hearing keeps while nobody asks for it: beats and samples of a few hundred nodes.
const HEARD_MAX: usize = 1024;

impl Hearing {
    pub(crate) fn new() -> (Hearing, HearingFeed) {
        let (sender, said) = sync_channel(HEARD_MAX);
        (Hearing { said, _stop: None }, HearingFeed(sender))
    }

    /// Runs `stop` when the hearing is dropped.
    pub(crate) fn stopping(mut self, stop: impl FnOnce() + Send + Sync + 'static) -> Hearing {
        self._stop = Some(StopOnDrop(Some(Box::new(stop))));
        self
    }

    /// What was said next, or `None` where nothing was for so long.
    pub fn next(&self, wait: Duration) -> Option<Bytes> {
        self.said.recv_timeout(wait).ok()
    }
}

/// The feeding end of a [`Hearing`].
#[derive(Clone)]
pub(crate) struct HearingFeed(SyncSender<Bytes>);

impl HearingFeed {
    /// Passes on what was said, unless too much of it waits; `false` when the hearing is gone.
    pub(crate) fn offer(&self, bytes: Bytes) -> bool {
        !matches!(self.0.try_send(bytes), Err(TrySendError::Disconnected(_)))
    }
}

/// Ends the feeding side when the receiving side goes.
struct StopOnDrop(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = self.0.take() {
            stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn entry(key: &str, revision: u64) -> Entry {
        Entry { key: key.to_string(), value: Some(Bytes::new()), revision: Revision(revision) }
    }

    fn drain(watch: &Watch) -> Vec<(String, u64)> {
        std::iter::from_fn(|| watch.next(Duration::ZERO)).map(|entry| (entry.key, entry.revision.0)).collect()
    }

    #[test]
    fn only_greater_revisions_come_through() {
        let (watch, feed) = Watch::new();
        for (key, revision) in [("a", 3), ("b", 2), ("a", 2), ("a", 3)] {
            assert!(feed.offer(entry(key, revision)));
        }
        assert_eq!(drain(&watch), [("a".into(), 3), ("b".into(), 2)]);
        assert!(feed.offer(entry("a", 3)));
        assert!(feed.offer(entry("b", 4)));
        assert_eq!(drain(&watch), [("b".into(), 4)]);
    }

    #[test]
    fn a_slow_watcher_gets_the_newest_once() {
        let (watch, feed) = Watch::new();
        for revision in 1..=1000 {
            feed.offer(entry("a", revision));
        }
        assert_eq!(drain(&watch), [("a".into(), 1000)]);
    }

    #[test]
    fn a_table_made_anew_counts_from_the_beginning() {
        let (watch, feed) = Watch::new();
        feed.offer(entry("a", 9));
        drain(&watch);
        feed.start_over();
        feed.offer(entry("a", 1));
        assert_eq!(drain(&watch), [("a".into(), 1)]);
    }

    #[test]
    fn the_feed_sees_that_nobody_watches_or_hears() {
        let ((watch, feed), (hearing, sender)) = (Watch::new(), Hearing::new());
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        drop(watch.stopping(move || flag.store(true, Ordering::SeqCst)));
        drop(hearing);
        assert!(stopped.load(Ordering::SeqCst));
        assert!(!feed.offer(entry("a", 1)));
        assert!(!sender.offer(Bytes::new()));
    }

    #[test]
    fn what_is_said_to_a_slow_hearer_is_lost_not_kept() {
        let (hearing, feed) = Hearing::new();
        for _ in 0..HEARD_MAX + 5 {
            assert!(feed.offer(Bytes::from_static(b"x")));
        }
        assert_eq!(std::iter::from_fn(|| hearing.next(Duration::ZERO)).count(), HEARD_MAX);
    }
}
