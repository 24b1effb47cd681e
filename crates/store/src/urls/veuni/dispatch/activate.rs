//! Which hosts are due, and which buckets are activated so that there are more of them.

use super::Dispatcher;
use crate::Error;
use crate::urls::veuni::bucket::{Bucket, BucketFile};
use crate::urls::veuni::compaction::choose::{Activation, ActivationView, CrawlDemand, activation};
use crate::urls::veuni::engine::Engine;
use farol_base::{Host, HostHash, Timestamp};
use std::cmp::Reverse;

impl Dispatcher {
    /// Leases hosts with something to draw now, up to `limit`; starts what is needed to have more of them.
    pub fn hosts_due(
        &mut self,
        engine: &mut Engine,
        now: Timestamp,
        limit: usize,
        until: &mut dyn FnMut(&Host) -> Option<Timestamp>,
    ) -> Result<Vec<Host>, Error> {
        engine.tell_time(now);
        engine.poll_jobs(self);
        let mut hosts = Vec::new();
        let mut wanted = Wanted { until, passed_over: 0 };
        self.take_from_due_queue(engine, now, limit, &mut wanted, &mut hosts);
        // A bucket that is compacted inline gives its hosts at once.
        while self.take_from_active(engine, now, limit, &mut wanted, &mut hosts)? < limit
            && !wanted.is_tired()
            && self.activate_next(engine, now)
        {}
        Ok(hosts)
    }

    /// The earliest instant at which a host may be due.
    pub fn next_host_due(&self, engine: &Engine) -> Option<Timestamp> {
        let in_memory = self.due_queue.next_host_due();
        let of_buckets = engine.buckets().iter().map(|bucket| self.bucket_due(bucket));
        of_buckets.chain(in_memory).min().filter(|next| *next != Timestamp::NEVER)
    }

    fn bucket_due(&self, bucket: &Bucket) -> Timestamp {
        if bucket.damage.is_some() {
            return Timestamp::NEVER;
        }
        if bucket.has_pending() || bucket.is_busy() {
            return Timestamp::EPOCH;
        }
        let remaining = ready_of(bucket, |file| file.totals.remaining_ready);
        let remaining = if remaining > bucket.compacted_at { remaining } else { Timestamp::NEVER };
        let dispatch = self.buckets.get(&bucket.number);
        let prescheduled = match dispatch.and_then(|dispatch| dispatch.active.as_ref()) {
            Some(active) => active.next().unwrap_or(Timestamp::NEVER),
            None => self.next_activation(bucket),
        };
        remaining.min(prescheduled)
    }

    /// When a bucket that is not active is worth being activated as it is.
    fn next_activation(&self, bucket: &Bucket) -> Timestamp {
        let known = self.buckets.get(&bucket.number).and_then(|dispatch| dispatch.next_activation);
        known.unwrap_or_else(|| ready_of(bucket, |file| file.totals.prescheduled_ready))
    }

    /// Hosts whose pages wait in memory.
    fn take_from_due_queue(
        &mut self,
        engine: &Engine,
        now: Timestamp,
        limit: usize,
        wanted: &mut Wanted<'_>,
        hosts: &mut Vec<Host>,
    ) {
        while hosts.len() < limit
            && !wanted.is_tired()
            && let Some(name) = self.due_queue.next_host(now)
        {
            let bucket = &engine.buckets()[engine.bucket_of(HostHash::of(&name))];
            // The hosts of a damaged bucket stand still.
            if bucket.damage.is_none()
                && let Ok(host) = Host::parse(&name)
            {
                if let Some(later) = wanted.later(&host, now) {
                    self.due_queue.release(&name, later);
                    continue;
                }
                self.lease(bucket.number, &host);
                hosts.push(host);
            }
        }
    }

    fn take_from_active(
        &mut self,
        engine: &mut Engine,
        now: Timestamp,
        limit: usize,
        wanted: &mut Wanted<'_>,
        hosts: &mut Vec<Host>,
    ) -> Result<usize, Error> {
        for at in 0..engine.buckets().len() {
            let number = engine.buckets()[at].number;
            while hosts.len() < limit
                && !wanted.is_tired()
                && let Some(active) = self.active(number)
                && let Some((order, ordinal)) = active.pop_due(now)
            {
                let meta = active.meta(ordinal);
                let Some(meta) = self.unless_damaged(engine, at, meta)?.flatten() else { continue };
                let Ok(host) = Host::parse(&meta.host) else { continue };
                if self.active(number).is_some_and(|active| active.is_overruled(host.as_str())) {
                    continue;
                }
                if self.is_leased(&host) {
                    // It comes up again when it is released; meanwhile `newly_ready` names it.
                    self.newly_ready.insert(host);
                    continue;
                }
                if let Some(later) = wanted.later(&host, now) {
                    if let Some(active) = self.active(number) {
                        active.queue.push(Reverse((later, order, ordinal)));
                    }
                    continue;
                }
                if let Some(active) = self.active(number) {
                    active.open_host(ordinal, order, meta);
                }
                // As many are materialised as will be asked for: each time the host is scanned as a whole.
                let ready = self.ready(number, host.as_str(), now, self.last_limit);
                match self.unless_damaged(engine, at, ready)?.flatten() {
                    Some(ready) if ready <= now => {
                        self.lease(number, &host);
                        hosts.push(host);
                    }
                    Some(later) => {
                        if let Some(active) = self.active(number) {
                            active.queue.push(Reverse((later, order, ordinal)));
                        }
                    }
                    None => {}
                }
            }
            self.deactivate_if_dry(number, now);
        }
        Ok(hosts.len())
    }

    /// A bucket without anything to draw now makes room for another.
    fn deactivate_if_dry(&mut self, number: u32, now: Timestamp) {
        if let Some(dispatch) = self.buckets.get_mut(&number)
            && dispatch.leased == 0
            && let Some(active) = &dispatch.active
            && let next = active.next().unwrap_or(Timestamp::NEVER)
            && (next > now || active.is_overrun())
        {
            (dispatch.next_activation, dispatch.active) = (Some(next), None);
        }
    }

    /// When a host of an active bucket has something to draw.
    pub(super) fn ready(
        &mut self,
        number: u32,
        host: &str,
        now: Timestamp,
        count: usize,
    ) -> Result<Option<Timestamp>, Error> {
        let Dispatcher { options, buckets, in_flight, due_queue, .. } = self;
        let Some(active) = buckets.get_mut(&number).and_then(|dispatch| dispatch.active.as_mut()) else {
            return Ok(None);
        };
        let (due_queue, skipped) = (due_queue.of(host), std::mem::take(&mut active.skipped));
        let mut url = String::with_capacity(host.len() + 100);
        let mut usable = |path: &str| {
            url.clear();
            url.push_str(host);
            url.push_str(path);
            !in_flight.contains(&url)
                && !skipped.contains(url.as_str())
                && !due_queue.is_some_and(|due_queue| due_queue.contains(path))
        };
        let ready = active.ready(host, &*options.url_order, now, count, &mut usable);
        active.skipped = skipped;
        ready
    }

    /// A bucket that turns out to be damaged stands still; the others go on.
    pub(super) fn unless_damaged<T>(
        &mut self,
        engine: &mut Engine,
        at: usize,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_damage() => {
                engine.on_read_failed(at, error, self);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Activates, round robin, the next bucket that has something to draw, or has one compacted for it;
    /// `true` where one was activated.
    fn activate_next(&mut self, engine: &mut Engine, now: Timestamp) -> bool {
        if !engine.is_flushed() {
            return false;
        }
        let (count, has_room_for) = (engine.buckets().len(), self.activation_room(engine));
        for step in 1..=count {
            let at = (self.last_activated + step) % count;
            let bucket = &engine.buckets()[at];
            let number = bucket.number;
            let is_active = self.active(number).is_some();
            if bucket.damage.is_some() || (!is_active && !has_room_for(bucket)) {
                continue;
            }
            let view = ActivationView {
                is_active,
                is_busy: bucket.is_busy(),
                has_pending: bucket.has_pending(),
                blocks_activation: bucket.blocks_activation(),
                prescheduled_ready: self.next_activation(bucket),
                remaining_ready: ready_of(bucket, |file| file.totals.remaining_ready),
                compacted_at: bucket.compacted_at,
            };
            match activation(&view, now) {
                Activation::Activate => {
                    self.last_activated = at;
                    self.try_activate(engine, at);
                    return self.active(number).is_some();
                }
                Activation::Compact if engine.may_compact(at, self.demand(number)) => {
                    self.last_activated = at;
                    self.buckets.entry(number).or_default().activate_after_merge = true;
                    engine.start_compaction(at, self);
                    let Some(at) = engine.bucket_numbered(number) else { return false };
                    let bucket = &engine.buckets()[at];
                    if bucket.is_busy() {
                        continue;
                    }
                    // Where it could not be compacted, the next flush returns what went wrong.
                    return !bucket.has_pending() && self.active(number).is_some();
                }
                Activation::Compact | Activation::Nothing => {}
            }
        }
        false
    }

    fn demand(&self, number: u32) -> CrawlDemand {
        let bucket_leased = self.buckets.get(&number).is_some_and(|dispatch| dispatch.leased > 0);
        CrawlDemand { any_leased: !self.leased_hosts.is_empty(), bucket_leased }
    }

    fn try_activate(&mut self, engine: &mut Engine, at: usize) {
        if let Err(error) = self.activate(&engine.buckets()[at]) {
            engine.on_read_failed(at, error, self);
        }
    }

    /// Whether a bucket may be activated beside those that are: small ones count as what they are.
    fn activation_room(&self, engine: &Engine) -> impl Fn(&Bucket) -> bool + use<> {
        let is_active = |bucket: &&Bucket| {
            self.buckets.get(&bucket.number).is_some_and(|dispatch| dispatch.active.is_some())
        };
        let active = engine.buckets().iter().filter(is_active);
        let (count, bytes) =
            active.fold((0, 0), |(count, bytes), bucket| (count + 1, bytes + bucket.bytes()));
        let count_max = self.options.active_buckets_max;
        let bytes_max = count_max as u64 * self.options.bucket_bytes;
        move |bucket| count < count_max || bytes + bucket.bytes() <= bytes_max
    }

    /// Activates the bucket of a host, for a caller that did not ask which hosts are due.
    pub(super) fn activate_now(&mut self, engine: &mut Engine, hash: HostHash) {
        let at = engine.bucket_of(hash);
        let bucket = &engine.buckets()[at];
        if bucket.damage.is_some() || self.active(bucket.number).is_some() {
            return;
        }
        if bucket.has_pending() && engine.is_flushed() {
            while is_busy(engine, hash) && engine.wait_for_job(self) {}
            engine.start_compaction(engine.bucket_of(hash), self);
            while is_busy(engine, hash) && engine.wait_for_job(self) {}
        }
        let at = engine.bucket_of(hash);
        let bucket = &engine.buckets()[at];
        if self.active(bucket.number).is_none() && !bucket.has_pending() {
            self.try_activate(engine, at);
        }
    }
}

/// Which hosts the caller wants, and how many were passed over in this call.
struct Wanted<'a> {
    until: &'a mut dyn FnMut(&Host) -> Option<Timestamp>,
    passed_over: usize,
}

/// Hosts passed over in one call, at some microseconds each: a call takes tens of milliseconds at most, and the next one
/// goes on from there.
const PASSED_OVER_MAX: usize = 10_000;

impl Wanted<'_> {
    /// When a host is wanted, where that is later than now.
    fn later(&mut self, host: &Host, now: Timestamp) -> Option<Timestamp> {
        let later = (self.until)(host).filter(|until| *until > now)?;
        self.passed_over += 1;
        Some(later)
    }

    fn is_tired(&self) -> bool {
        self.passed_over >= PASSED_OVER_MAX
    }
}

fn is_busy(engine: &Engine, hash: HostHash) -> bool {
    engine.buckets()[engine.bucket_of(hash)].is_busy()
}

fn ready_of(bucket: &Bucket, ready: fn(&BucketFile) -> Timestamp) -> Timestamp {
    bucket.file().map_or(Timestamp::NEVER, |file| ready(file))
}
