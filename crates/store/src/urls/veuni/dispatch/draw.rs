//! Hands out the URLs of a host that is in its turn, and takes back those that come back.

use crate::Error;
use crate::urls::record::CompactRecord;
use crate::urls::veuni::dispatch::due_queue::fits;
use crate::urls::veuni::dispatch::in_flight::{BucketVersion, InFlight};
use crate::urls::veuni::dispatch::url_order::Candidate;
use crate::urls::veuni::{Veuni, split};
use crate::urls::{Drawn, Visit};
use farol_base::HostHash;
use farol_base::{CanonicalUrl, Host, Scheduled, Timestamp};
use std::cmp::Reverse;

impl Veuni {
    pub(in crate::urls::veuni) fn draw_urls(
        &mut self,
        host: &Host,
        limit: usize,
        now: Timestamp,
    ) -> Result<Drawn, Error> {
        self.now = self.now.max(now);
        self.last_limit = limit;
        self.poll_jobs()?;
        let hash = host.hash();
        // Who holds a host of a bucket that is not in turn has it for what is in memory, and waits for no merge.
        if !self.leased_hosts.contains(host) {
            self.activate_now(hash)?;
        }
        let at = self.bucket_of(hash);
        let has_seat = self.cursor(at, hash, host.as_str());
        let has_seat = self.unless_damaged(at, has_seat)?.unwrap_or(false);
        let is_damaged = self.buckets[at].damage.is_some();
        if !has_seat && (is_damaged || self.due_queue.next(host.as_str()).is_none()) {
            return Ok(Drawn::default());
        }
        self.lease(at, host);
        let mut drawn = Drawn::default();
        loop {
            self.draw_batch(at, host, limit, now, &mut drawn);
            let ready = self.ready(at, host.as_str(), now, limit - drawn.urls.len());
            let ready = self.unless_damaged(at, ready)?.flatten();
            let next = ready.into_iter().chain(self.due_queue.next(host.as_str())).min();
            if drawn.urls.len() >= limit || next.is_none_or(|next| next > now) {
                drawn.next_due = next.map(|next| next.max(now));
                return Ok(drawn);
            }
            let Some((path, known, bucket)) = self.take_first(at, host.as_str(), now) else {
                return Ok(drawn);
            };
            if let Ok(url) = host.stored_page(&path) {
                push_drawn(url, known, bucket, &mut self.in_flight, &mut drawn);
            }
        }
    }

    /// Draws what is ready of a host, all at once, where none of its pages is in memory for another reason.
    fn draw_batch(&mut self, at: usize, host: &Host, limit: usize, now: Timestamp, drawn: &mut Drawn) {
        let bucket = &mut self.buckets[at];
        let version = (bucket.number, bucket.generation);
        let Some(active) = &mut bucket.active else { return };
        let Some(cursor) = active.cursors.get_mut(host.as_str()) else { return };
        if self.due_queue.next(host.as_str()).is_some() || !cursor.returned.is_empty() {
            return;
        }
        while drawn.urls.len() < limit && cursor.batch.front().is_some_and(|first| first.due() <= now) {
            let first = cursor.take_first(|first| (host.stored_page(first.path()), first.take_known()));
            if let Some((Ok(url), known)) = first
                && !active.skipped.contains(&url)
            {
                push_drawn(url, known, Some(version), &mut self.in_flight, drawn);
            }
        }
    }

    /// Has a host sit down, where its bucket is in turn and knows it; says whether.
    fn cursor(&mut self, at: usize, hash: HostHash, host: &str) -> Result<bool, Error> {
        let Some(active) = &mut self.buckets[at].active else { return Ok(false) };
        if !active.cursors.contains_key(host) {
            let Some((ordinal, meta)) = active.file.host_meta(hash, host)? else { return Ok(false) };
            active.open_host(ordinal, 0, meta);
        }
        Ok(true)
    }

    /// Takes the page of a host that comes first, of those that its turn has made ready and those in memory; with the
    /// bucket that it is from.
    fn take_first(
        &mut self,
        at: usize,
        host: &str,
        now: Timestamp,
    ) -> Option<(String, CompactRecord, Option<BucketVersion>)> {
        let bucket = &mut self.buckets[at];
        let version = (bucket.number, bucket.generation);
        let mut cursor = bucket.active.as_mut().and_then(|active| active.cursors.get_mut(host));
        if let Some((path, known, version)) = cursor.as_mut().and_then(|cursor| cursor.returned.pop()) {
            return Some((path, known, Some(version)));
        }
        let of_turn =
            cursor.as_ref().and_then(|cursor| cursor.batch.front()).filter(|ready| ready.due() <= now);
        let of_soon =
            self.due_queue.first(host).filter(|(_, record)| record.due <= now).map(|(path, record)| {
                let due = Some(record.due);
                let candidate = Candidate { path_bytes: path.len(), depth: record.depth, due };
                (self.options.url_order.key(&candidate, now, false), path)
            });
        match of_soon {
            Some((key, path)) if of_turn.is_none_or(|ready| key <= ready.key) => {
                let record = self.due_queue.take(host, &path)?;
                Some((path.to_string(), CompactRecord::of(record), None))
            }
            _ => {
                let first = cursor?.take_first(|first| (first.path().to_string(), first.take_known()))?;
                Some((first.0, first.1, Some(version)))
            }
        }
    }

    /// A URL was visited: it is no longer out, and waits in memory where it is due again soon.
    pub(in crate::urls::veuni) fn complete(&mut self, url: &CanonicalUrl, visit: &Visit) {
        let (host, path) = split(url);
        let in_flight = self.in_flight.remove(url);
        let from = in_flight.as_ref().and_then(|in_flight| in_flight.bucket);
        let before = in_flight
            .map(|in_flight| in_flight.known)
            .or_else(|| self.due_queue.take(host, path).map(CompactRecord::of));
        let is_kept = before.filter(|_| fits(visit)).is_some_and(|known| {
            let mut record = known.into_record();
            record.visit(visit);
            self.due_queue.try_insert(host, path, record, self.leased_hosts.contains(&url.host()))
        });
        let at = self.bucket_of(HostHash::of(host));
        let bucket = &mut self.buckets[at];
        if let Some(active) = &mut bucket.active
            && !is_kept
            && from != Some((bucket.number, bucket.generation))
        {
            active.skip(url);
        }
    }

    pub(in crate::urls::veuni) fn release_url(&mut self, url: &CanonicalUrl) {
        let Some(in_flight) = self.in_flight.remove(url) else { return };
        let (host, path) = split(url);
        let hash = HostHash::of(host);
        let at = self.bucket_of(hash);
        let is_leased = self.leased_hosts.contains(&url.host());
        let Some(version) = in_flight.bucket else {
            return self.due_queue.insert(host, path, in_flight.known.into_record(), is_leased);
        };
        let bucket = &mut self.buckets[at];
        bucket.next_activation = None;
        // Without a turn it stands among the others when the next one begins.
        let Some(active) = &mut bucket.active else { return };
        if version != (bucket.number, bucket.generation) {
            active.skip(url);
        }
        if !active.cursors.contains_key(host)
            && let Ok(Some((ordinal, meta))) = active.file.host_meta(hash, host)
        {
            active.open_host(ordinal, 0, meta);
        }
        if let Some(cursor) = active.cursors.get_mut(host) {
            cursor.returned.push((path.to_string(), in_flight.known, version));
            if !is_leased {
                active.waiting.push(Reverse((Timestamp::EPOCH, cursor.order, cursor.ordinal)));
            }
        }
    }
}

/// Hands a URL out, unless it is out already.
fn push_drawn(
    url: CanonicalUrl,
    known: CompactRecord,
    bucket: Option<BucketVersion>,
    in_flight: &mut InFlight,
    drawn: &mut Drawn,
) {
    let (depth, revisit) = (known.depth(), known.due().is_some());
    if in_flight.insert(&url, known, bucket) {
        drawn.urls.push(Scheduled { url, depth, revisit });
    }
}
