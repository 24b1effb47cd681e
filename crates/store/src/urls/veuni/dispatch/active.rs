//! A bucket's turn: its hosts that have something to hand out, and how far each has got.
//!
//! Takes 24 bytes per host that waits, some 300 bytes per host that was asked, and for each that is held up to 64
//! URLs, or as many as are asked for at a time; and room for the pre-scheduled URLs of one host. All of it is made anew
//! when the bucket is merged.

use crate::Error;
use crate::urls::record::CompactRecord;
use crate::urls::veuni::bucket::{BucketFile, Cursor, HostMeta, UrlEntry};
use crate::urls::veuni::dispatch::host_order::{HostFacts, HostOrder};
use crate::urls::veuni::dispatch::in_flight::BucketVersion;
use crate::urls::veuni::dispatch::top_k::TopK;
use crate::urls::veuni::dispatch::url_order::{UrlOrder, entry_key};
use crate::urls::veuni::{Bucket, Veuni};
use farol_base::codec::DecodeError;
use farol_base::fingerprint::SeededHasher;
use farol_base::{CanonicalUrl, Host, HostHash, Timestamp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// URLs of a host that are made ready at a time, where no more are asked for.
const BATCH_URLS: usize = 64;
/// URLs set aside, after which a turn ends early: 100,000 × some 100 bytes = 10 MB.
const SKIPPED_MAX: usize = 100_000;

/// When, in which order, and which host (its number in the directory).
type QueuedHost = Reverse<(Timestamp, u64, u32)>;

#[derive(Debug)]
pub struct ActiveBucket {
    pub(in crate::urls::veuni) file: Arc<BucketFile>,
    pub(in crate::urls::veuni) waiting: BinaryHeap<QueuedHost>,
    pub(in crate::urls::veuni) cursors: HashMap<Box<str>, HostCursor, SeededHasher>,
    /// URLs that may stand among the pre-scheduled ones and are not to be handed out from there: visited without
    /// having been handed out in this turn, or handed out before it and given back.
    pub(in crate::urls::veuni) skipped: HashSet<CanonicalUrl, SeededHasher>,
    /// The page of the directory that was read last.
    page: Option<(u32, Vec<HostMeta>)>,
    cursor: Cursor,
    top_k: TopK,
}

/// How far a host has got.
#[derive(Debug)]
pub struct HostCursor {
    pub(in crate::urls::veuni) ordinal: u32,
    /// Its place in the schedule.
    pub(in crate::urls::veuni) order: u64,
    meta: HostMeta,
    /// What was made ready last; URLs behind it are still to come.
    last: Option<(u64, Vec<u8>)>,
    pub(in crate::urls::veuni) batch: VecDeque<ReadyUrl>,
    /// Nothing comes after the window.
    is_last_batch: bool,
    /// Given back, with the bucket from which each was handed out first.
    pub(in crate::urls::veuni) returned: Vec<(String, CompactRecord, BucketVersion)>,
}

/// A URL that can be handed out.
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
        text(&self.path)
    }

    /// Takes what is known of it.
    pub fn take_known(&mut self) -> CompactRecord {
        std::mem::take(&mut self.known)
    }
}

impl ActiveBucket {
    pub fn of(file: &Arc<BucketFile>, host_order: &dyn HostOrder) -> Result<ActiveBucket, Error> {
        let mut waiting = Vec::new();
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
                waiting.push(Reverse((ready, key, ordinal as u32)));
            }
        }
        Ok(ActiveBucket {
            file: file.clone(),
            waiting: BinaryHeap::from(waiting),
            cursors: HashMap::default(),
            skipped: HashSet::default(),
            page: None,
            cursor: file.cursor(32 << 10),
            top_k: TopK::default(),
        })
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.waiting.peek().map(|Reverse((at, _, _))| *at)
    }

    /// A URL was visited that was not handed out in this turn: it may still stand among the pre-scheduled ones.
    pub fn skip(&mut self, url: &CanonicalUrl) {
        self.skipped.insert(url.clone());
    }

    fn is_overrun(&self) -> bool {
        self.skipped.len() > SKIPPED_MAX
    }

    fn meta(&mut self, ordinal: u32) -> Result<Option<HostMeta>, Error> {
        let page = ordinal / 64;
        if self.page.as_ref().is_none_or(|(number, _)| *number != page) {
            self.page = Some((page, self.file.page_of(ordinal)?));
        }
        let hosts = self.page.as_ref().map(|(_, hosts)| hosts);
        Ok(hosts.and_then(|hosts| hosts.get(ordinal as usize % 64)).cloned())
    }

    /// Makes a place for a host.
    pub(in crate::urls::veuni) fn open_host(&mut self, ordinal: u32, order: u64, meta: HostMeta) {
        let host: Box<str> = meta.host.as_str().into();
        self.cursors.entry(host).or_insert_with(|| HostCursor {
            ordinal,
            order,
            meta,
            last: None,
            batch: VecDeque::new(),
            is_last_batch: false,
            returned: Vec::new(),
        });
    }

    /// When a host's next URL can be handed out; `usable` says which of its paths can, `count` how many are wanted.
    fn ready(
        &mut self,
        host: &str,
        policy: &dyn UrlOrder,
        now: Timestamp,
        count: usize,
        usable: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<Timestamp>, Error> {
        let Some(cursor) = self.cursors.get_mut(host) else { return Ok(None) };
        if !cursor.returned.is_empty() {
            return Ok(Some(Timestamp::EPOCH));
        }
        loop {
            while let Some(first) = cursor.batch.front() {
                if usable(text(&first.path)) {
                    return Ok(Some(first.due()));
                }
                cursor.take_first(|_| ());
            }
            if cursor.is_last_batch {
                return Ok(None);
            }
            cursor.fill(&mut self.cursor, &mut self.top_k, policy, now, count)?;
        }
    }
}

pub(in crate::urls::veuni) fn text(path: &[u8]) -> &str {
    // Only whole texts went in, and checksums say that they are as they were.
    std::str::from_utf8(path).unwrap_or_default()
}

impl HostCursor {
    /// Takes the first off the window, and hands it to `take`.
    pub(in crate::urls::veuni) fn take_first<T>(
        &mut self,
        take: impl FnOnce(&mut ReadyUrl) -> T,
    ) -> Option<T> {
        let mut first = self.batch.pop_front()?;
        let taken = take(&mut first);
        self.last = Some((first.key, first.path));
        Some(taken)
    }

    /// Makes the next URLs ready, those with the smallest keys beyond the last: up to `count` that are due, or
    /// [`BATCH_URLS`], and a few that are due later.
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

impl Veuni {
    /// Hosts with something to hand out now; starts what is needed to have more of them.
    pub(in crate::urls::veuni) fn due_hosts(
        &mut self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Host>, Error> {
        self.now = self.now.max(now);
        self.poll_jobs()?;
        let mut hosts = Vec::new();
        // What is merged at once gives its hosts at once.
        self.take_due_queue(now, limit, &mut hosts);
        while self.take_hosts(now, limit, &mut hosts)? < limit && self.activate_next(now)? {}
        Ok(hosts)
    }

    /// Hosts whose pages wait in memory.
    fn take_due_queue(&mut self, now: Timestamp, limit: usize, hosts: &mut Vec<Host>) {
        while hosts.len() < limit
            && let Some(name) = self.due_queue.next_host(now)
        {
            let at = self.bucket_of(HostHash::of(&name));
            // The hosts of a damaged bucket stand still.
            if self.buckets[at].damage.is_none()
                && let Ok(host) = Host::parse(&name)
            {
                self.lease(at, &host);
                hosts.push(host);
            }
        }
    }

    fn take_hosts(&mut self, now: Timestamp, limit: usize, hosts: &mut Vec<Host>) -> Result<usize, Error> {
        for at in 0..self.buckets.len() {
            while hosts.len() < limit
                && let Some(active) = &mut self.buckets[at].active
                && let Some(Reverse((due, order, ordinal))) = active.waiting.pop()
            {
                if due > now {
                    active.waiting.push(Reverse((due, order, ordinal)));
                    break;
                }
                let meta = active.meta(ordinal);
                let Some(meta) = self.unless_damaged(at, meta)?.flatten() else { continue };
                let Ok(host) = Host::parse(&meta.host) else { continue };
                if self.leased_hosts.contains(&host) {
                    // It comes up again when it is let go; meanwhile its holder is told.
                    self.newly_ready.insert(host);
                    continue;
                }
                if let Some(active) = &mut self.buckets[at].active {
                    active.open_host(ordinal, order, meta);
                }
                // As many are made ready as will be asked for: each time a host is gone through as a whole.
                let ready = self.ready(at, host.as_str(), now, self.last_limit);
                match self.unless_damaged(at, ready)?.flatten() {
                    Some(ready) if ready <= now => {
                        self.lease(at, &host);
                        hosts.push(host);
                    }
                    Some(later) => {
                        if let Some(active) = &mut self.buckets[at].active {
                            active.waiting.push(Reverse((later, order, ordinal)));
                        }
                    }
                    None => {}
                }
            }
            let bucket = &mut self.buckets[at];
            // A turn without anything to hand out now makes room for another bucket's.
            if bucket.leased_hosts == 0
                && let Some(active) = &bucket.active
                && let next = active.next().unwrap_or(Timestamp::NEVER)
                && (next > now || active.is_overrun())
            {
                bucket.next_activation = Some(next);
                bucket.active = None;
            }
        }
        Ok(hosts.len())
    }

    pub(in crate::urls::veuni) fn lease(&mut self, at: usize, host: &Host) {
        if self.leased_hosts.insert(host.clone()) {
            self.buckets[at].leased_hosts += 1;
            self.due_queue.set_leased(host.as_str(), true);
        }
    }

    /// Counts the hosts that are held, after buckets have changed.
    pub(in crate::urls::veuni) fn count_leased(&mut self, buckets: std::ops::Range<usize>) {
        buckets.clone().for_each(|at| self.buckets[at].leased_hosts = 0);
        let bucket_index: Vec<usize> =
            self.leased_hosts.iter().map(|host| self.bucket_of(host.hash())).collect();
        bucket_index
            .into_iter()
            .filter(|at| buckets.contains(at))
            .for_each(|at| self.buckets[at].leased_hosts += 1);
    }

    /// When a host of a bucket in turn has something to hand out.
    pub(in crate::urls::veuni) fn ready(
        &mut self,
        at: usize,
        host: &str,
        now: Timestamp,
        count: usize,
    ) -> Result<Option<Timestamp>, Error> {
        let policy = self.options.url_order.clone();
        let Some(mut active) = self.buckets[at].active.take() else { return Ok(None) };
        let (in_flight, skipped) = (&self.in_flight, std::mem::take(&mut active.skipped));
        let due_queue = self.due_queue.of(host);
        let mut url = String::with_capacity(host.len() + 100);
        let mut usable = |path: &str| {
            url.clear();
            url.push_str(host);
            url.push_str(path);
            !in_flight.contains(&url)
                && !skipped.contains(url.as_str())
                && !due_queue.is_some_and(|due_queue| due_queue.contains(path))
        };
        let ready = active.ready(host, &*policy, now, count, &mut usable);
        active.skipped = skipped;
        self.buckets[at].active = Some(active);
        ready
    }

    /// A bucket that turns out to be damaged is set aside; the others go on.
    pub(in crate::urls::veuni) fn unless_damaged<T>(
        &mut self,
        at: usize,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Damaged { .. }) => {
                self.on_job_failed(at, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sees to it that more buckets come to their turn; `true` where one did.
    fn activate_next(&mut self, now: Timestamp) -> Result<bool, Error> {
        if !self.wal.batch.is_empty() {
            return Ok(false);
        }
        let (count, has_room_for) = (self.buckets.len(), self.activation_room());
        for step in 1..=count {
            let at = (self.last_activated + step) % count;
            let bucket = &self.buckets[at];
            if bucket.damage.is_some() {
                continue;
            }
            if bucket.active.is_none() && !has_room_for(bucket) {
                continue;
            }
            let file = bucket.file.as_ref();
            let ready = |of: fn(&BucketFile) -> Timestamp| file.map_or(Timestamp::NEVER, |file| of(file));
            let next_activation =
                bucket.next_activation.unwrap_or_else(|| ready(|file| file.totals.prescheduled_ready));
            if bucket.active.is_none() && !bucket.blocks_activation() && next_activation <= now {
                // What it has is as it was written: no need to merge it first.
                self.last_activated = at;
                self.activate(at);
                return Ok(self.buckets[at].active.is_some());
            }
            // What was due at the last merge and was not chosen then is not chosen now either.
            let remaining = ready(|file| file.totals.remaining_ready);
            let due_since = remaining <= now && remaining > bucket.merged;
            let wants_merge = bucket.has_pending() || due_since;
            if !wants_merge || bucket.is_busy || !self.may_compact(at) || !self.jobs.can_queue_compaction() {
                continue;
            }
            self.last_activated = at;
            let number = bucket.number;
            self.buckets[at].activate_after_merge = true;
            self.start_compaction(at)?;
            let Some(at) = self.buckets.iter().position(|bucket| bucket.number == number) else {
                return Ok(false);
            };
            if self.buckets[at].is_busy {
                continue;
            }
            // Where it could not be merged, what went wrong is told at the next flush.
            return Ok(!self.buckets[at].has_pending() && self.buckets[at].active.is_some());
        }
        Ok(false)
    }

    /// Whether a bucket may come to its turn beside those that are: small buckets count as what they are.
    fn activation_room(&self) -> impl Fn(&Bucket) -> bool + use<> {
        let in_turn = self.buckets.iter().filter(|bucket| bucket.active.is_some());
        let (count, bytes) =
            in_turn.fold((0, 0), |(count, bytes), bucket| (count + 1, bytes + bucket.bytes()));
        let (count_max, bytes_max) = (
            self.options.active_buckets_max,
            self.options.active_buckets_max as u64 * self.options.bucket_bytes,
        );
        move |bucket| count < count_max || bytes + bucket.bytes() <= bytes_max
    }

    pub(in crate::urls::veuni) fn next_due_host(&mut self) -> Option<Timestamp> {
        let of_block = |bucket: &Bucket| {
            let file = bucket.file.as_ref();
            if bucket.damage.is_some() {
                return Timestamp::NEVER;
            }
            if bucket.has_pending() || bucket.is_busy {
                return Timestamp::EPOCH;
            }
            let remaining = file.map_or(Timestamp::NEVER, |file| file.totals.remaining_ready);
            let remaining = if remaining > bucket.merged { remaining } else { Timestamp::NEVER };
            let prescheduled = match (&bucket.active, bucket.next_activation) {
                (Some(active), _) => active.next().unwrap_or(Timestamp::NEVER),
                (None, Some(next_activation)) => next_activation,
                (None, None) => file.map_or(Timestamp::NEVER, |file| file.totals.prescheduled_ready),
            };
            remaining.min(prescheduled)
        };
        let in_memory = self.due_queue.next_host_due();
        self.buckets.iter().map(of_block).chain(in_memory).min().filter(|next| *next != Timestamp::NEVER)
    }

    /// Brings the bucket of a host to its turn, for whoever did not ask which hosts are due.
    pub(in crate::urls::veuni) fn activate_now(&mut self, hash: HostHash) -> Result<(), Error> {
        let at = self.bucket_of(hash);
        if self.buckets[at].active.is_some() || self.buckets[at].damage.is_some() {
            return Ok(());
        }
        if self.buckets[at].has_pending() && self.wal.batch.is_empty() {
            while self.buckets[self.bucket_of(hash)].is_busy && self.wait_for_job()? {}
            self.start_compaction(self.bucket_of(hash))?;
            while self.buckets[self.bucket_of(hash)].is_busy && self.wait_for_job()? {}
        }
        let at = self.bucket_of(hash);
        if self.buckets[at].active.is_none() && !self.buckets[at].has_pending() {
            self.activate(at);
        }
        Ok(())
    }

    pub(in crate::urls::veuni) fn end_lease(&mut self, host: &Host) {
        if !self.leased_hosts.remove(host) {
            return;
        }
        self.newly_ready.remove(host);
        self.due_queue.set_leased(host.as_str(), false);
        let at = self.bucket_of(host.hash());
        let bucket = &mut self.buckets[at];
        bucket.leased_hosts = bucket.leased_hosts.saturating_sub(1);
        let Some(active) = &mut bucket.active else { return };
        let Some(cursor) = active.cursors.get_mut(host.as_str()) else {
            // Held since before the bucket was written anew.
            if let Ok(Some((ordinal, meta))) = active.file.host_meta(host.hash(), host.as_str())
                && meta.prescheduled.ready() != Timestamp::NEVER
            {
                active.waiting.push(Reverse((meta.prescheduled.ready(), 0, ordinal)));
            }
            return;
        };
        let next = match cursor.batch.front() {
            _ if !cursor.returned.is_empty() => Some(Timestamp::EPOCH),
            Some(first) => Some(first.due()),
            None if cursor.is_last_batch => None,
            None => Some(Timestamp::EPOCH),
        };
        // What was made ready is made so again when it is needed.
        if !cursor.batch.is_empty() {
            cursor.batch = VecDeque::new();
            cursor.is_last_batch = false;
        }
        if let Some(next) = next {
            active.waiting.push(Reverse((next, cursor.order, cursor.ordinal)));
        }
    }
}
