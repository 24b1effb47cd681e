//! Dispatch: which hosts may be asked now, and for which of their URLs. The half of the store above the
//! [`engine`](super::engine).
//!
//! A bucket is *active* while its hosts are dispatched: an [`ActiveBucket`] holds a snapshot of its file
//! (files are immutable) and how far each host has got. When the active buckets run dry the next is
//! activated, after a compaction where it has deltas without which it would give wrong answers.
//!
//! INVARIANT: a URL is drawn at most once until it is visited or released, whatever compactions and splits
//! happen meanwhile: [`InFlight`] has those, and an active bucket skips what was visited since its snapshot.
//!
//! Leased hosts (`leased_hosts`) are those that the caller has: they are not offered again until it releases
//! them. That promises nothing about requests; the authority on these is the frontier's lease, see
//! `crates/frontier/src/lib.rs`.

mod activate;
pub mod active;
pub mod draw;
pub mod due_queue;
pub mod host_cursor;
pub mod host_order;
pub mod in_flight;
pub mod top_k;
pub mod url_order;

use super::bucket::Bucket;
use super::engine::BucketListener;
use super::{VeuniOptions, split};
use crate::Error;
use crate::urls::Record;
use crate::urls::record::CompactRecord;
use active::ActiveBucket;
use due_queue::DueQueue;
use farol_base::fingerprint::SeededHasher;
use farol_base::{CanonicalUrl, Host, HostHash, Timestamp};
use in_flight::InFlight;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Leases hosts, and draws their URLs.
#[derive(Debug)]
pub struct Dispatcher {
    options: VeuniOptions,
    /// By bucket number.
    pub(super) buckets: HashMap<u32, BucketDispatch>,
    pub(super) in_flight: InFlight,
    pub(super) due_queue: DueQueue,
    /// Hosts that the caller has, each with its bucket's number.
    pub(super) leased_hosts: HashMap<Host, u32, SeededHasher>,
    /// Of these, those for which a bucket that was activated since has something.
    newly_ready: HashSet<Host>,
    /// URLs that were asked for of the last host.
    last_limit: usize,
    /// Index of the bucket that was activated last.
    last_activated: usize,
}

/// What the dispatcher knows of a bucket.
#[derive(Debug, Default)]
pub struct BucketDispatch {
    pub active: Option<ActiveBucket>,
    /// Hosts of it that are leased.
    pub leased: usize,
    /// It is activated as soon as it is compacted.
    activate_after_merge: bool,
    /// When it is worth being activated again as it is, since it was active last.
    next_activation: Option<Timestamp>,
}

impl Dispatcher {
    pub fn new(options: VeuniOptions) -> Dispatcher {
        Dispatcher {
            options,
            buckets: HashMap::new(),
            in_flight: InFlight::default(),
            due_queue: DueQueue::default(),
            leased_hosts: HashMap::default(),
            newly_ready: HashSet::new(),
            last_limit: 1,
            last_activated: 0,
        }
    }

    fn is_leased(&self, host: &Host) -> bool {
        self.leased_hosts.contains_key(host)
    }

    fn active(&mut self, number: u32) -> Option<&mut ActiveBucket> {
        self.buckets.get_mut(&number)?.active.as_mut()
    }

    fn lease(&mut self, number: u32, host: &Host) {
        if self.leased_hosts.insert(host.clone(), number).is_none() {
            self.buckets.entry(number).or_default().leased += 1;
            self.due_queue.set_leased(host.as_str(), true);
        }
    }

    /// Ends the lease of a host; it comes up again as soon as it has something to draw, but not before `until`, unless
    /// its bucket is compacted meanwhile.
    pub fn release_host(&mut self, host: &Host, until: Timestamp) {
        let Some(number) = self.leased_hosts.remove(host) else { return };
        self.newly_ready.remove(host);
        self.due_queue.release(host.as_str(), until);
        let bucket = self.buckets.entry(number).or_default();
        bucket.leased = bucket.leased.saturating_sub(1);
        let Some(active) = &mut bucket.active else { return };
        let Some(cursor) = active.cursors.get_mut(host.as_str()) else {
            // Leased since before the bucket was compacted.
            if let Ok(Some((ordinal, meta))) = active.file.host_meta(host.hash(), host.as_str())
                && meta.prescheduled.ready() != Timestamp::NEVER
            {
                active.queue.push(Reverse((meta.prescheduled.ready().max(until), 0, ordinal)));
            }
            return;
        };
        if let Some(next) = cursor.suspend() {
            active.queue.push(Reverse((next.max(until), cursor.order, cursor.ordinal)));
        }
    }

    /// Leased hosts that have something to draw and had not when they were drawn from last; each once.
    pub fn newly_ready(&mut self) -> Vec<Host> {
        self.newly_ready.drain().collect()
    }

    /// A page says that it changed: one that waits in memory may be due earlier.
    pub fn hint(&mut self, host: &str, path: &str, hint: Timestamp) {
        self.due_queue.hint(host, path, hint);
    }

    /// Drops the URLs in flight, the queued pages and the lease of a host of this bucket, and draws no more of it.
    pub fn delete_host(&mut self, number: u32, host: &Host) {
        self.in_flight.delete_host(host.as_str());
        self.due_queue.delete_host(host.as_str());
        self.release_host(host, Timestamp::EPOCH);
        if let Some(active) = self.active(number) {
            active.overrule(host.as_str());
        }
    }

    /// Another store knew this of a visited URL of this bucket. Wherever the URL is in memory it is up to date at once;
    /// the bucket is with its next compaction, and draws nothing of the host before.
    pub fn imported(&mut self, number: u32, url: &CanonicalUrl, record: &Record) {
        let (host, path) = split(url);
        if let Some(drawn) = self.in_flight.get_mut(url) {
            let mut known = std::mem::take(&mut drawn.known).into_record();
            known.merge(record);
            drawn.known = CompactRecord::of(known);
        } else if let Some(mut known) = self.due_queue.take(host, path) {
            known.merge(record);
            if known.due != Timestamp::NEVER {
                self.due_queue.insert(host, path, known, self.leased_hosts.contains_key(&url.host()));
            }
        }
        if let Some(active) = self.active(number) {
            active.overrule(host);
        }
    }

    /// Activates a bucket: its hosts are dispatched from now on.
    fn activate(&mut self, bucket: &Bucket) -> Result<(), Error> {
        let Some(file) = bucket.file() else { return Ok(()) };
        let mut active = ActiveBucket::of(file, &*self.options.host_order)?;
        bucket.memtable.overruled_hosts().for_each(|host| active.overrule(host));
        // What was visited while the bucket was being compacted is stored in it as if it were not.
        for url in bucket.memtable.visited_urls() {
            if let Ok(url) = CanonicalUrl::from_stored(&url) {
                active.skip(&url);
            }
        }
        let dispatch = self.buckets.entry(bucket.number).or_default();
        (dispatch.active, dispatch.next_activation) = (Some(active), None);
        Ok(())
    }
}

impl BucketListener for Dispatcher {
    fn replaced(&mut self, number: u32, parts: &[Bucket]) -> Vec<(usize, Error)> {
        let old = self.buckets.remove(&number).unwrap_or_default();
        // Leased hosts stay so, each in its part.
        let part_of = |hash: HostHash| parts.partition_point(|part| part.from <= hash).saturating_sub(1);
        for (host, of_bucket) in self.leased_hosts.iter_mut().filter(|(_, of_bucket)| **of_bucket == number) {
            *of_bucket = parts[part_of(host.hash())].number;
            self.buckets.entry(*of_bucket).or_default().leased += 1;
        }
        // An active bucket stays so, with what is new.
        let mut unreadable = Vec::new();
        if old.active.is_some() || old.activate_after_merge {
            for (at, part) in parts.iter().enumerate() {
                if let Err(error) = self.activate(part) {
                    unreadable.push((at, error));
                }
            }
        }
        unreadable
    }

    fn damaged(&mut self, number: u32) {
        if let Some(bucket) = self.buckets.get_mut(&number) {
            bucket.active = None;
        }
    }

    fn emptied(&mut self, number: u32) {
        if let Some(bucket) = self.buckets.get_mut(&number) {
            *bucket = BucketDispatch { leased: bucket.leased, ..BucketDispatch::default() };
        }
    }
}
