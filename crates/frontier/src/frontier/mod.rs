//! The frontier itself: decides who is resolved, leased, refilled, rested and quarantined.
//!
//! Every host is in exactly one place: a queue (its domain's for lookups, `to_refill`, `to_leave`), its address's line,
//! behind a timer, held back with its domain, or in somebody's hands (asked or leased).
//! Costs O(log n) per call, and O(1) where the delay is 0; nothing scans the hosts.

mod errands;
mod outcomes;
mod places;
mod room;
#[cfg(test)]
mod tests;

use crate::addresses::{AddressId, Addresses, QueueEntry};
use crate::domains::Domains;
use crate::hosts::{Counts, HostEntry, HostId, HostMemory, HostState, HostView, Hosts, Queued};
use crate::lease::{Added, Disposition, Lease, Offered, Outcome, Resolution, Resolved, Step, Task};
use crate::limits::{self, Limits};
use crate::polite::{self, DelayRule, Facts, Rests};
use crate::timers::Timers;
use farol_base::{Host, Scheduled, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Which page next and when, over all hosts. See the [crate page](crate) for the life of a host.
pub struct Frontier {
    rule: Box<dyn DelayRule>,
    limits: Limits,
    hosts: Hosts,
    domains: Domains,
    addresses: Addresses,
    timers: Timers<Whom>,
    to_refill: VecDeque<QueueEntry>,
    /// Guests whose errands are done.
    to_leave: VecDeque<QueueEntry>,
    /// Hosts that are here for errands alone.
    guests: usize,
    resolving: usize,
    in_flight: usize,
    queued: usize,
    queued_bytes: usize,
    pages_on_densest: u64,
    epoch: u64,
}

/// Whom an alarm wakes.
#[derive(Clone, Copy, Debug)]
enum Whom {
    Host(HostId),
    Address(AddressId),
}

impl Frontier {
    pub fn new(rule: Box<dyn DelayRule>, limits: Limits) -> Frontier {
        Frontier {
            rule,
            hosts: Hosts::default(),
            domains: Domains::new(limits.leased_per_domain()),
            limits,
            addresses: Addresses::default(),
            timers: Timers::new(),
            to_refill: VecDeque::new(),
            to_leave: VecDeque::new(),
            guests: 0,
            resolving: 0,
            in_flight: 0,
            queued: 0,
            queued_bytes: 0,
            pages_on_densest: 1,
            epoch: 0,
        }
    }

    /// Says that a host has pages to fetch. A host that is here already keeps what it knows and only learns a
    /// greater `pages_known`; if it slept for want of pages, it wakes.
    pub fn add_host(&mut self, now: Timestamp, host: &Host, memory: HostMemory) -> Added {
        self.pages_on_densest = self.pages_on_densest.max(memory.pages_known);
        if let Some(id) = self.hosts.find(host) {
            return self.add_again(now, id, memory);
        }
        if self.free() == 0 {
            return Added::Full;
        }
        if let Some(until) = self.crowded_until(now, host) {
            return Added::Crowded { until };
        }
        let domain = self.domains.join(host.registrable_domain());
        let id = self.hosts.insert(now, host, domain, plausible(now, memory));
        self.place(now, id);
        Added::New
    }

    fn add_again(&mut self, now: Timestamp, id: HostId, memory: HostMemory) -> Added {
        let full = self.free() == 0;
        let Some(entry) = self.hosts.get_mut(id) else { return Added::Full };
        if entry.ghost {
            if full {
                return Added::Full;
            }
            // Its old lease still runs; `done` will place it.
            self.guests -= usize::from(std::mem::take(&mut entry.guest));
            entry.memory = plausible(now, memory);
            self.hosts.set_ghost(id, false);
            return Added::New;
        }
        if entry.guest {
            if full {
                return Added::Full;
            }
            // It stays for its own pages.
            entry.guest = false;
            self.guests -= 1;
            entry.memory.pages_known = entry.memory.pages_known.max(memory.pages_known);
            if entry.state() == HostState::Refilling {
                self.place(now, id);
            }
            return Added::New;
        }
        entry.memory.pages_known = entry.memory.pages_known.max(memory.pages_known);
        match entry.state() {
            HostState::Refilling => entry.woken = true,
            HostState::Sleeping => self.place(now, id),
            _ => {}
        }
        Added::Known
    }

    /// Says what to do next. Call it again after each step, until it says [`Step::WaitUntil`] or [`Step::Idle`].
    pub fn poll(&mut self, now: Timestamp) -> Step {
        while let Some(whom) = self.timers.ring(now) {
            match whom {
                Whom::Host(id) => self.wake(now, id),
                Whom::Address(id) => {
                    let alarm = self.addresses.wake(now, id);
                    self.set_address_alarm(id, alarm);
                }
            }
        }
        // Questions before requests: they are asked once per answer, so they cannot crowd the requests out.
        if let Some(host) = self.next_to_resolve() {
            return Step::Resolve(host);
        }
        if let Some((host, memory)) = self.next_to_leave(now) {
            return Step::Left { host, memory };
        }
        if let Some(host) = self.next_to_refill() {
            let full = self.queued_bytes >= self.limits.queued_bytes_max;
            return Step::Refill { host, want: if full { 1 } else { self.limits.queue_per_host.max(1) } };
        }
        if let Some(lease) = self.next_lease(now) {
            return Step::Fetch(lease);
        }
        self.timers.next().map_or(Step::Idle, Step::WaitUntil)
    }

    /// Answers [`Step::Resolve`]. Answers about hosts that did not wait for one are ignored.
    pub fn resolved(&mut self, now: Timestamp, host: &Host, answer: Resolution) -> Resolved {
        let found = self.hosts.find(host).and_then(|id| Some((id, self.hosts.get_mut(id)?)));
        let Some((id, entry)) =
            found.filter(|(_, entry)| entry.state() == HostState::Resolving && entry.asked)
        else {
            return Resolved::Taken;
        };
        entry.asked = false;
        self.resolving -= 1;
        self.domains.resolved(entry.domain, self.limits.resolving_per_domain());
        let retry = self.limits.robots_retry;
        match answer {
            Resolution::Address(ip) => {
                if let Some(until) = self.address_crowded_until(now, id, ip) {
                    return self.send_away(now, id, until);
                }
                let Some(entry) = self.hosts.get_mut(id) else { return Resolved::Taken };
                entry.resolved_at = now;
                let before = entry.address.replace(self.addresses.join(ip));
                self.leave_address(now, before);
                self.place(now, id);
            }
            Resolution::Failed { transient } => {
                // A name that does not exist is not asked for eight times over.
                let failures = entry.memory.failures.saturating_add(1);
                entry.memory.failures = if transient { failures } else { failures.max(retry.tries) };
                entry.memory.not_before = now + retry.pause(entry.memory.failures);
                let before = entry.address.take();
                self.leave_address(now, before);
                self.rest(
                    now,
                    id,
                    if retry.is_over(failures) || !transient {
                        HostState::Unreachable
                    } else {
                        HostState::Resting
                    },
                );
                self.fail_errands(now, id);
            }
            Resolution::Refused => {
                entry.memory.not_before = now + retry.quarantine.min(limits::QUARANTINE_MAX);
                let before = entry.address.take();
                self.leave_address(now, before);
                self.rest(now, id, HostState::Refused);
                self.fail_errands(now, id);
            }
        }
        Resolved::Taken
    }

    /// Answers [`Step::Refill`], or brings pages of its own accord. Nothing at all and no `next_due` makes the
    /// host leave; nothing but a `next_due` makes it sleep till then. The pages must be this host's.
    pub fn offer(
        &mut self,
        now: Timestamp,
        host: &Host,
        urls: Vec<Scheduled>,
        next_due: Option<Timestamp>,
    ) -> Offered {
        let found = self.hosts.find(host).and_then(|id| Some((id, self.hosts.get_mut(id)?)));
        let Some((id, entry)) = found.filter(|(_, entry)| !entry.ghost) else {
            return Offered::GivenBack(urls);
        };
        let answers = entry.state() == HostState::Refilling;
        let empty = urls.is_empty();
        for page in urls {
            self.queued += 1;
            self.queued_bytes += bytes_of(&page);
            entry.queue.push_back(Queued { page, tries: 0 });
        }
        if !empty {
            if answers || entry.state() == HostState::Sleeping {
                self.place(now, id);
            }
            return Offered::Taken;
        }
        if !answers || !entry.asked {
            return Offered::Taken;
        }
        if std::mem::take(&mut entry.woken) {
            self.place(now, id);
            return Offered::Taken;
        }
        match next_due {
            Some(due) => {
                let at = if due > now { due } else { now + limits::DRY_SLEEP_MIN };
                self.sleep(now, id, at, HostState::Sleeping);
                Offered::Taken
            }
            None => {
                let memory = entry.memory.clone();
                self.drop_host(now, id);
                Offered::Left(memory)
            }
        }
    }

    /// Takes a lease back with what came of it, and says what that means for its page.
    pub fn done(&mut self, now: Timestamp, lease: Lease, outcome: Outcome) -> Disposition {
        self.in_flight -= 1;
        let id = lease.host_id;
        let asked = outcome != Outcome::NotAsked;
        let densest = self.pages_on_densest;
        let rests = self.hosts.get_mut(id).map(|entry| {
            if let Outcome::Robots { download, .. } | Outcome::Fetched { download, .. } = outcome {
                entry.last_download = download;
            }
            let facts = facts(entry, densest, &self.limits);
            polite::rests(&*self.rule, &facts, self.limits.slow_after)
        });
        let address_rest = rests.map_or(self.limits.delay_min, |rests| rests.address);
        let not_before = asked.then(|| now + address_rest);
        let alarm = self.addresses.release(now, lease.address_id, not_before);
        self.set_address_alarm(lease.address_id, alarm);

        let Some(entry) = self.hosts.get_mut(id) else { return Disposition::Finished };
        entry.is_out = false;
        let domain = entry.domain;
        self.domains.returned(domain);
        self.resume_held_back(now, domain);
        let Some(entry) = self.hosts.get_mut(id) else { return Disposition::Finished };
        if entry.ghost {
            self.drop_host(now, id);
            return match (lease.task, outcome) {
                (Task::Robots | Task::MovedRobots(_), _)
                | (_, Outcome::Fetched { .. } | Outcome::NotAsked) => Disposition::Finished,
                (Task::Page(page), _) => Disposition::GivenBack(page),
            };
        }
        match lease.task {
            Task::Robots => {
                self.robots_done(now, id, outcome);
                Disposition::Finished
            }
            Task::MovedRobots(moved) => {
                self.errand_done(now, id, moved, outcome);
                Disposition::Finished
            }
            Task::Page(page) => self.page_done(now, id, Queued { page, tries: lease.tries }, outcome),
        }
    }

    /// Takes a host out and gives its queued pages back. If it is leased, the lease ends quietly when it
    /// returns. What the host should remember is in its view, before.
    pub fn remove_host(&mut self, host: &Host) -> Vec<Scheduled> {
        let Some(id) = self.hosts.find(host) else { return Vec::new() };
        self.take_out(id).map_or_else(Vec::new, |(_, _, pages)| pages)
    }

    /// Makes room: takes out the host that will be idle longest, if it is idle until `beyond` at least.
    pub fn retire(&mut self, beyond: Timestamp) -> Option<(Host, HostMemory, Vec<Scheduled>)> {
        let longest = self.timers.latest_first().take_while(|(at, _)| *at >= beyond);
        let hosts = longest.filter_map(|(_, whom)| match whom {
            Whom::Host(id) => Some(id),
            Whom::Address(_) => None,
        });
        let id = hosts.take(1).last()?;
        self.take_out(id)
    }

    /// Takes everything out, at shutdown. Leases that are out end quietly when they return.
    pub fn drain(&mut self) -> Vec<(Host, HostMemory, Vec<Scheduled>)> {
        let hosts: Vec<Host> = self.hosts.iter().map(|entry| entry.host.clone()).collect();
        let ids: Vec<HostId> = hosts.iter().filter_map(|host| self.hosts.find(host)).collect();
        ids.into_iter().filter_map(|id| self.take_out(id)).collect()
    }

    /// The rest between two requests of a host of which only this is known.
    pub fn delay_of(&self, memory: &HostMemory) -> Duration {
        let facts = Facts {
            last_download: Duration::ZERO,
            pages_known: memory.pages_known,
            pages_on_densest: self.pages_on_densest,
            crawl_delay: memory.crawl_delay.map(|delay| delay.min(limits::CRAWL_DELAY_MAX)),
            delay_min: self.limits.delay_min,
        };
        polite::rests(&*self.rule, &facts, self.limits.slow_after).host
    }

    /// The least time from one request to a host to the next as things stand: its rest as the rule, its Crawl-delay and
    /// slow answers have it now, or a turn of every host here that has its address. `None` where the host is not here.
    pub fn pace(&self, host: &Host) -> Option<Duration> {
        let entry = self.hosts.get(self.hosts.find(host)?).filter(|entry| !entry.ghost)?;
        let sharing = entry.address.and_then(|id| self.addresses.ip(id)).map(|ip| self.addresses.hosts(ip));
        Some(self.rests(entry).taking_turns(sharing.unwrap_or(1)))
    }

    /// A host as it stands now.
    pub fn host(&self, host: &Host) -> Option<HostView> {
        let entry = self.hosts.get(self.hosts.find(host)?)?;
        (!entry.ghost).then(|| self.view(entry))
    }

    /// All hosts as they stand now, in no order.
    pub fn hosts(&self) -> impl Iterator<Item = HostView> {
        self.hosts.iter().map(|entry| self.view(entry))
    }

    /// How much is here; costs nothing.
    pub fn counts(&self) -> Counts {
        let mut counts = self.hosts.counts();
        counts.addresses = self.addresses.len();
        counts.queued = self.queued;
        counts.in_flight = self.in_flight;
        counts
    }

    fn rests(&self, entry: &HostEntry) -> Rests {
        let facts = facts(entry, self.pages_on_densest, &self.limits);
        polite::rests(&*self.rule, &facts, self.limits.slow_after)
    }

    fn view(&self, entry: &HostEntry) -> HostView {
        HostView {
            host: entry.host.clone(),
            state: entry.state(),
            address: entry.address.and_then(|id| self.addresses.ip(id)),
            queued: entry.queue.len(),
            delay: self.rests(entry).host,
            wakes: entry.alarm.map(|alarm| alarm.at),
            memory: entry.memory.clone(),
        }
    }

    // Who is next.

    fn next_to_resolve(&mut self) -> Option<Host> {
        if self.resolving >= self.limits.resolving_max.max(1) {
            return None;
        }
        let (hosts, most) = (&self.hosts, self.limits.resolving_per_domain());
        let is_valid =
            |queued: QueueEntry| hosts.get(queued.host).is_some_and(|entry| entry.epoch == queued.epoch);
        let queued = self.domains.next_to_resolve(most, is_valid)?;
        self.resolving += 1;
        let entry = self.hosts.get_mut(queued.host)?;
        entry.asked = true;
        Some(entry.host.clone())
    }

    fn next_to_leave(&mut self, now: Timestamp) -> Option<(Host, HostMemory)> {
        while let Some(queued) = self.to_leave.pop_front() {
            if let Some(entry) = self.hosts.get(queued.host).filter(|entry| entry.epoch == queued.epoch) {
                let left = (entry.host.clone(), entry.memory.clone());
                self.drop_host(now, queued.host);
                return Some(left);
            }
        }
        None
    }

    fn next_to_refill(&mut self) -> Option<Host> {
        next_valid(&mut self.to_refill, &mut self.hosts)
    }

    fn next_lease(&mut self, now: Timestamp) -> Option<Lease> {
        if self.in_flight >= self.limits.in_flight_max.max(1) {
            return None;
        }
        let mut loan = false;
        let (address_id, address, queued, task, tries) = loop {
            let (hosts, domains) = (&self.hosts, &mut self.domains);
            let is_valid = |queued: QueueEntry| {
                let valid = hosts.get(queued.host).filter(|entry| entry.epoch == queued.epoch);
                valid.is_some_and(|entry| domains.may_lease(entry.domain, queued, loan))
            };
            let Some((address_id, address, queued)) = self.addresses.take(is_valid) else {
                // Nobody below its domain's share is ready.
                loan = self.lend(now);
                if loan {
                    continue;
                }
                return None;
            };
            if let Some((task, tries)) = self.next_task(now, queued.host) {
                break (address_id, address, queued, task, tries);
            }
            // It stood in line for an errand that nobody waits for any more.
            loan = false;
            let alarm = self.addresses.release(now, address_id, None);
            self.set_address_alarm(address_id, alarm);
            self.place(now, queued.host);
        };
        let entry = self.hosts.get_mut(queued.host)?;
        entry.is_out = true;
        self.domains.leased(entry.domain);
        // Whoever takes the host out while it is leased remembers that it was asked just now.
        let facts = facts(entry, self.pages_on_densest, &self.limits);
        entry.memory.not_before = now + polite::rests(&*self.rule, &facts, self.limits.slow_after).host;
        let host = entry.host.clone();
        self.hosts.set_state(queued.host, HostState::Leased);
        self.in_flight += 1;
        Some(Lease { host, task, address, host_id: queued.host, address_id, tries })
    }
}

/// What a host in line is asked for: an errand and something of its own by turns.
impl Frontier {
    fn next_task(&mut self, now: Timestamp, id: HostId) -> Option<(Task, u8)> {
        let entry = self.hosts.get(id)?;
        let has_own = !entry.guest && entry.awaited.is_none();
        if !(has_own && entry.just_ran_errand)
            && let Some(moved) = self.next_errand(now, id)
        {
            if let Some(entry) = self.hosts.get_mut(id) {
                entry.just_ran_errand = true;
            }
            return Some((Task::MovedRobots(moved), 0));
        }
        let entry = self.hosts.get_mut(id)?;
        entry.just_ran_errand = false;
        if !has_own {
            return None;
        }
        // robots.txt may have expired while the host stood in line.
        if !entry.robots_valid(now) {
            return Some((Task::Robots, 0));
        }
        let Queued { page, tries } = entry.queue.pop_front()?;
        entry.just_read_robots = false;
        self.queued -= 1;
        self.queued_bytes -= bytes_of(&page);
        Some((Task::Page(page), tries))
    }
}

/// Takes the first place in line that is not void, and notes that its host was asked about.
fn next_valid(line: &mut VecDeque<QueueEntry>, hosts: &mut Hosts) -> Option<Host> {
    while let Some(queued) = line.pop_front() {
        if let Some(entry) = hosts.get_mut(queued.host)
            && entry.epoch == queued.epoch
        {
            entry.asked = true;
            return Some(entry.host.clone());
        }
    }
    None
}

fn facts(entry: &HostEntry, pages_on_densest: u64, limits: &Limits) -> Facts {
    Facts {
        last_download: entry.last_download,
        pages_known: entry.memory.pages_known,
        pages_on_densest,
        crawl_delay: entry.memory.crawl_delay,
        delay_min: limits.delay_min,
    }
}

/// Cuts a remembered state down to what can be true: it comes from a disk, perhaps from another clock.
fn plausible(now: Timestamp, memory: HostMemory) -> HostMemory {
    HostMemory {
        robots_valid_until: memory.robots_valid_until.map(|until| until.min(now + limits::ROBOTS_VALID)),
        crawl_delay: memory.crawl_delay.map(|delay| delay.min(limits::CRAWL_DELAY_MAX)),
        not_before: memory.not_before.min(now + limits::QUARANTINE_MAX),
        ..memory
    }
}

/// What a queued page costs in memory.
fn bytes_of(page: &Scheduled) -> usize {
    page.url.as_str().len() + size_of::<Queued>()
}
