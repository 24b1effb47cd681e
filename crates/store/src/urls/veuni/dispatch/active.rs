//! An active bucket: a snapshot of its file, its hosts that have something to draw, and how far each has got.
//!
//! Memory: 24 bytes per host that waits, some 300 bytes per host that was asked, up to 64 URLs for each that
//! is leased (or as many as are asked for at a time), and the pre-scheduled URLs of one host. All of it is
//! made anew when the bucket is compacted.

use super::host_cursor::HostCursor;
use super::host_order::{HostFacts, HostOrder};
use super::top_k::TopK;
use super::url_order::UrlOrder;
use crate::Error;
use crate::urls::veuni::bucket::{BucketFile, Cursor, HostMeta};
use farol_base::fingerprint::SeededHasher;
use farol_base::{CanonicalUrl, HostHash, Timestamp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

/// URLs to skip, after which a bucket is deactivated early: 100,000 × some 100 bytes = 10 MB.
const SKIPPED_MAX: usize = 100_000;

/// When, in which order, and which host (its number in the directory).
type QueuedHost = Reverse<(Timestamp, u64, u32)>;

#[derive(Debug)]
pub struct ActiveBucket {
    pub file: Arc<BucketFile>,
    /// Hosts that are not leased, by when they have something to draw.
    pub queue: BinaryHeap<QueuedHost>,
    pub cursors: HashMap<Box<str>, HostCursor, SeededHasher>,
    /// URLs that may be stored as pre-scheduled and are not to be drawn from there: visited without having
    /// been drawn while the bucket is active, or drawn before that and released.
    pub skipped: HashSet<CanonicalUrl, SeededHasher>,
    /// Hosts that were forgotten or imported since: none of their URLs is drawn from this snapshot.
    overruled: HashSet<Box<str>>,
    /// The page of the directory that was read last.
    page: Option<(u32, Vec<HostMeta>)>,
    cursor: Cursor,
    top_k: TopK,
}

impl ActiveBucket {
    pub fn of(file: &Arc<BucketFile>, host_order: &dyn HostOrder) -> Result<ActiveBucket, Error> {
        let mut queue = Vec::new();
        for (ordinal, meta) in file.hosts().enumerate() {
            let meta = meta?;
            let ready = meta.prescheduled.ready();
            if ready == Timestamp::NEVER {
                continue;
            }
            let facts = HostFacts {
                host: &meta.host,
                known: meta.counts.known,
                waiting: meta.waiting(),
                visited: meta.visited,
                download_millis: meta.download_millis.checked_div(meta.visited).unwrap_or(0),
            };
            if let Some(key) = host_order.key(&facts) {
                queue.push(Reverse((ready, key, ordinal as u32)));
            }
        }
        Ok(ActiveBucket {
            file: file.clone(),
            queue: BinaryHeap::from(queue),
            cursors: HashMap::default(),
            skipped: HashSet::default(),
            overruled: HashSet::new(),
            page: None,
            cursor: file.cursor(32 << 10),
            top_k: TopK::default(),
        })
    }

    /// When the first host of the queue has something to draw.
    pub fn next(&self) -> Option<Timestamp> {
        self.queue.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes a host off the queue that has something to draw now.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(u64, u32)> {
        if self.next()? > now {
            return None;
        }
        self.queue.pop().map(|Reverse((_, order, ordinal))| (order, ordinal))
    }

    /// Does not draw a URL, though the file says that it can be.
    pub fn skip(&mut self, url: &CanonicalUrl) {
        self.skipped.insert(url.clone());
    }

    /// Draws nothing more of a host, whatever the file says: that comes with the bucket's next compaction.
    pub fn overrule(&mut self, host: &str) {
        self.cursors.remove(host);
        if !self.overruled.contains(host) {
            self.overruled.insert(host.into());
        }
    }

    /// Whether nothing is drawn of a host.
    pub fn is_overruled(&self, host: &str) -> bool {
        self.overruled.contains(host)
    }

    pub fn is_overrun(&self) -> bool {
        self.skipped.len() > SKIPPED_MAX
    }

    /// What the directory says of a host, by its number.
    pub fn meta(&mut self, ordinal: u32) -> Result<Option<HostMeta>, Error> {
        let page = ordinal / 64;
        if self.page.as_ref().is_none_or(|(number, _)| *number != page) {
            self.page = Some((page, self.file.page_of(ordinal)?));
        }
        let metas = self.page.as_ref().map(|(_, metas)| metas);
        Ok(metas.and_then(|metas| metas.get(ordinal as usize % 64)).cloned())
    }

    /// Opens a cursor for a host, unless it has one.
    pub fn open_host(&mut self, ordinal: u32, order: u64, meta: HostMeta) {
        let host: Box<str> = meta.host.as_str().into();
        self.cursors.entry(host).or_insert_with(|| HostCursor::new(ordinal, order, meta));
    }

    /// Opens a cursor for a host by its name; returns whether the bucket knows it.
    pub fn find_host(&mut self, hash: HostHash, host: &str) -> Result<bool, Error> {
        if self.is_overruled(host) {
            return Ok(false);
        }
        if !self.cursors.contains_key(host) {
            let Some((ordinal, meta)) = self.file.host_meta(hash, host)? else { return Ok(false) };
            self.open_host(ordinal, 0, meta);
        }
        Ok(true)
    }

    /// When the next URL of a host can be drawn; `usable` says which of its paths can, `count` how many are
    /// wanted.
    pub fn ready(
        &mut self,
        host: &str,
        policy: &dyn UrlOrder,
        now: Timestamp,
        count: usize,
        usable: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<Timestamp>, Error> {
        let Some(of_host) = self.cursors.get_mut(host) else { return Ok(None) };
        of_host.ready((&mut self.cursor, &mut self.top_k), policy, now, count, usable)
    }
}
