//! Draws URLs of a host of an active bucket, and takes in those that were visited or released.

use super::Dispatcher;
use super::due_queue::fits;
use super::in_flight::{BucketVersion, InFlight};
use super::url_order::Candidate;
use crate::Error;
use crate::urls::record::CompactRecord;
use crate::urls::veuni::engine::Engine;
use crate::urls::veuni::split;
use crate::urls::{Drawn, Visit};
use farol_base::{CanonicalUrl, Host, HostHash, Scheduled, Timestamp};
use std::cmp::Reverse;

impl Dispatcher {
    /// Draws up to `limit` URLs of a host, and leases it.
    pub fn draw(
        &mut self,
        engine: &mut Engine,
        host: &Host,
        limit: usize,
        now: Timestamp,
    ) -> Result<Drawn, Error> {
        engine.tell_time(now);
        self.last_limit = limit;
        engine.poll_jobs(self);
        let hash = host.hash();
        // A leased host of a bucket that is not active is drawn from memory, and waits for no compaction.
        if !self.is_leased(host) {
            self.activate_now(engine, hash);
        }
        let at = engine.bucket_of(hash);
        let version = engine.buckets()[at].version();
        let has_cursor = self.find_host(version.0, hash, host.as_str());
        let has_cursor = self.unless_damaged(engine, at, has_cursor)?.unwrap_or(false);
        let is_damaged = engine.buckets()[at].damage.is_some();
        if !has_cursor && (is_damaged || self.due_queue.next(host.as_str()).is_none()) {
            return Ok(Drawn::default());
        }
        self.lease(version.0, host);
        let mut drawn = Drawn::default();
        loop {
            self.draw_batch(version, host, limit, now, &mut drawn);
            let ready = self.ready(version.0, host.as_str(), now, limit - drawn.urls.len());
            let ready = self.unless_damaged(engine, at, ready)?.flatten();
            let next = ready.into_iter().chain(self.due_queue.next(host.as_str())).min();
            if drawn.urls.len() >= limit || next.is_none_or(|next| next > now) {
                drawn.next_due = next.map(|next| next.max(now));
                return Ok(drawn);
            }
            let Some((path, known, from)) = self.take_first(version, host.as_str(), now) else {
                return Ok(drawn);
            };
            if let Ok(url) = host.stored_page(&path) {
                push_drawn(url, known, from, &mut self.in_flight, &mut drawn);
            }
        }
    }

    /// Draws the materialised batch of a host, where none of its pages is in memory for another reason.
    fn draw_batch(
        &mut self,
        version: BucketVersion,
        host: &Host,
        limit: usize,
        now: Timestamp,
        drawn: &mut Drawn,
    ) {
        let Dispatcher { buckets, in_flight, due_queue, .. } = self;
        let Some(active) = buckets.get_mut(&version.0).and_then(|dispatch| dispatch.active.as_mut()) else {
            return;
        };
        let Some(cursor) = active.cursors.get_mut(host.as_str()) else { return };
        if due_queue.next(host.as_str()).is_some() || !cursor.released.is_empty() {
            return;
        }
        while drawn.urls.len() < limit && cursor.batch.front().is_some_and(|first| first.due() <= now) {
            let first = cursor.take_first(|first| (host.stored_page(first.path()), first.take_known()));
            if let Some((Ok(url), known)) = first
                && !active.skipped.contains(&url)
            {
                push_drawn(url, known, Some(version), in_flight, drawn);
            }
        }
    }

    /// Opens a cursor for a host, where its bucket is active and knows it; returns whether.
    fn find_host(&mut self, number: u32, hash: HostHash, host: &str) -> Result<bool, Error> {
        self.active(number).map_or(Ok(false), |active| active.find_host(hash, host))
    }

    /// Takes the page of a host that comes first, of its batch and those in memory; with the bucket that it
    /// is from.
    fn take_first(
        &mut self,
        version: BucketVersion,
        host: &str,
        now: Timestamp,
    ) -> Option<(String, CompactRecord, Option<BucketVersion>)> {
        let Dispatcher { options, buckets, due_queue, .. } = self;
        let active = buckets.get_mut(&version.0).and_then(|dispatch| dispatch.active.as_mut());
        let mut cursor = active.and_then(|active| active.cursors.get_mut(host));
        if let Some((path, known, from)) = cursor.as_mut().and_then(|cursor| cursor.released.pop()) {
            return Some((path, known, Some(from)));
        }
        let of_batch =
            cursor.as_ref().and_then(|cursor| cursor.batch.front()).filter(|ready| ready.due() <= now);
        let in_memory =
            due_queue.first(host).filter(|(_, record)| record.due <= now).map(|(path, record)| {
                let due = Some(record.due);
                let candidate = Candidate { path_bytes: path.len(), depth: record.depth, due };
                (options.url_order.key(&candidate, now, false), path)
            });
        match in_memory {
            Some((key, path)) if of_batch.is_none_or(|ready| key <= ready.key) => {
                let record = due_queue.take(host, &path)?;
                Some((path.to_string(), CompactRecord::of(record), None))
            }
            _ => {
                let first = cursor?.take_first(|first| (first.path().to_string(), first.take_known()))?;
                Some((first.0, first.1, Some(version)))
            }
        }
    }

    /// A URL was visited: it is no longer in flight, and waits in the due queue where it fits.
    pub fn visited(&mut self, engine: &Engine, url: &CanonicalUrl, visit: &Visit) {
        let (host, path) = split(url);
        let drawn = self.in_flight.remove(url);
        let from = drawn.as_ref().and_then(|drawn| drawn.from);
        let before =
            drawn.map(|drawn| drawn.known).or_else(|| self.due_queue.take(host, path).map(CompactRecord::of));
        let is_kept = before.filter(|_| fits(visit)).is_some_and(|known| {
            let mut record = known.into_record();
            record.visit(visit);
            self.due_queue.try_insert(host, path, record, self.leased_hosts.contains_key(&url.host()))
        });
        let version = engine.buckets()[engine.bucket_of(url.host_hash())].version();
        if !is_kept
            && from != Some(version)
            && let Some(active) = self.active(version.0)
        {
            active.skip(url);
        }
    }

    /// A drawn URL is released unvisited.
    pub fn release(&mut self, engine: &Engine, url: &CanonicalUrl) {
        let Some(drawn) = self.in_flight.remove(url) else { return };
        let (host, path) = split(url);
        let hash = url.host_hash();
        let version = engine.buckets()[engine.bucket_of(hash)].version();
        let is_leased = self.is_leased(&url.host());
        // Another store had visited it meanwhile: it is not drawn before it is due again.
        match drawn.known.due() {
            Some(Timestamp::NEVER) => return,
            Some(due) if due > engine.now => {
                return self.due_queue.insert(host, path, drawn.known.into_record(), is_leased);
            }
            _ => {}
        }
        let Some(from) = drawn.from else {
            return self.due_queue.insert(host, path, drawn.known.into_record(), is_leased);
        };
        let Some(dispatch) = self.buckets.get_mut(&version.0) else { return };
        dispatch.next_activation = None;
        // Where the bucket is not active, the URL is among the others when it is activated.
        let Some(active) = &mut dispatch.active else { return };
        if from != version {
            active.skip(url);
        }
        // A bucket that cannot be read is noticed when it is drawn from.
        let _ = active.find_host(hash, host);
        if let Some(cursor) = active.cursors.get_mut(host) {
            cursor.released.push((path.to_string(), drawn.known, from));
            if !is_leased {
                active.queue.push(Reverse((Timestamp::EPOCH, cursor.order, cursor.ordinal)));
            }
        }
    }
}

/// Adds a URL to those that are drawn, unless it is in flight already.
fn push_drawn(
    url: CanonicalUrl,
    known: CompactRecord,
    from: Option<BucketVersion>,
    in_flight: &mut InFlight,
    drawn: &mut Drawn,
) {
    let (depth, revisit) = (known.depth(), known.due().is_some());
    if in_flight.insert(&url, known, from) {
        drawn.urls.push(Scheduled { url, depth, revisit });
    }
}
