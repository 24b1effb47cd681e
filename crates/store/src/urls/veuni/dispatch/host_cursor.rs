//! How far a host of an active bucket has got: which of its pre-scheduled URLs come next.

use super::in_flight::BucketVersion;
use super::top_k::TopK;
use super::url_order::{UrlOrder, entry_key};
use crate::Error;
use crate::urls::record::CompactRecord;
use crate::urls::veuni::bucket::{Cursor, HostMeta, UrlEntry};
use crate::urls::veuni::path_text;
use farol_base::Timestamp;
use farol_base::codec::DecodeError;
use std::collections::VecDeque;

/// URLs of a host that are materialised at a time, where no more are asked for.
const BATCH_URLS: usize = 64;

/// Goes through a host's pre-scheduled URLs in the policy's order, a materialised batch at a time.
#[derive(Debug)]
pub struct HostCursor {
    /// Its number in the directory, and its key among the hosts of its bucket.
    pub ordinal: u32,
    pub order: u64,
    meta: HostMeta,
    /// Key and path of the last that was taken; the URLs that follow it are still to come.
    last: Option<(u64, Vec<u8>)>,
    pub batch: VecDeque<ReadyUrl>,
    /// Nothing comes after the batch.
    is_last_batch: bool,
    /// URLs that were released, with the bucket from which each was drawn first.
    pub released: Vec<(String, CompactRecord, BucketVersion)>,
}

/// A URL that can be drawn.
#[derive(Debug)]
pub struct ReadyUrl {
    pub key: u64,
    path: Vec<u8>,
    known: CompactRecord,
}

impl ReadyUrl {
    fn of(key: u64, entry: &UrlEntry<'_>) -> Result<ReadyUrl, DecodeError> {
        let known = if entry.state == 0 {
            CompactRecord::found_at(entry.depth)
        } else {
            CompactRecord::of(entry.record()?)
        };
        Ok(ReadyUrl { key, path: entry.path.to_vec(), known })
    }

    pub fn due(&self) -> Timestamp {
        self.known.due().unwrap_or(Timestamp::EPOCH)
    }

    pub fn path(&self) -> &str {
        path_text(&self.path)
    }

    /// Takes what is known of it.
    pub fn take_known(&mut self) -> CompactRecord {
        std::mem::take(&mut self.known)
    }
}

impl HostCursor {
    pub fn new(ordinal: u32, order: u64, meta: HostMeta) -> HostCursor {
        HostCursor {
            ordinal,
            order,
            meta,
            last: None,
            batch: VecDeque::new(),
            is_last_batch: false,
            released: Vec::new(),
        }
    }

    /// When the host's next URL can be drawn; `usable` says which of its paths can, `count` how many are
    /// wanted.
    pub fn ready(
        &mut self,
        (cursor, top_k): (&mut Cursor, &mut TopK),
        policy: &dyn UrlOrder,
        now: Timestamp,
        count: usize,
        usable: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<Timestamp>, Error> {
        if !self.released.is_empty() {
            return Ok(Some(Timestamp::EPOCH));
        }
        loop {
            while let Some(first) = self.batch.front() {
                if usable(first.path()) {
                    return Ok(Some(first.due()));
                }
                self.take_first(|_| ());
            }
            if self.is_last_batch {
                return Ok(None);
            }
            self.fill(cursor, top_k, policy, now, count)?;
        }
    }

    /// Takes the first off the batch, and hands it to `take`.
    pub fn take_first<T>(&mut self, take: impl FnOnce(&mut ReadyUrl) -> T) -> Option<T> {
        let mut first = self.batch.pop_front()?;
        let taken = take(&mut first);
        self.last = Some((first.key, first.path));
        Some(taken)
    }

    /// Drops the batch, which is materialised again when it is needed; returns when there is something to
    /// draw.
    pub fn suspend(&mut self) -> Option<Timestamp> {
        let next = match self.batch.front() {
            _ if !self.released.is_empty() => Some(Timestamp::EPOCH),
            Some(first) => Some(first.due()),
            None if self.is_last_batch => None,
            None => Some(Timestamp::EPOCH),
        };
        if !self.batch.is_empty() {
            self.batch = VecDeque::new();
            self.is_last_batch = false;
        }
        next
    }

    /// Materialises the next batch: of the URLs beyond the last those with the smallest keys, up to `count`
    /// that are due, or [`BATCH_URLS`], and a few that are due later. Scans the whole range.
    fn fill(
        &mut self,
        cursor: &mut Cursor,
        top_k: &mut TopK,
        policy: &dyn UrlOrder,
        now: Timestamp,
        count: usize,
    ) -> Result<(), Error> {
        let range = &self.meta.prescheduled;
        top_k.clear();
        if range.len > 0 {
            cursor.seek(range.at)?;
        }
        for _ in 0..range.len {
            let entry = cursor.advance()?;
            let (key, ready) = match (entry_key(policy, &entry, now, false), entry.ready()) {
                (Ok(Some(key)), Ok(ready)) => (key, ready),
                (Ok(None), _) => continue,
                (Err(what), _) | (_, Err(what)) => return Err(cursor.damaged(what)),
            };
            if self.last.as_ref().is_none_or(|last| (key, entry.path) > (last.0, &last.1[..])) {
                top_k.push(key, &entry, ready > now);
            }
        }
        self.batch.clear();
        for (key, entry) in top_k.smallest(count.max(BATCH_URLS)) {
            self.batch.push_back(ReadyUrl::of(key, &entry).map_err(|what| cursor.damaged(what))?);
        }
        self.is_last_batch = self.batch.len() == top_k.len();
        Ok(())
    }
}
