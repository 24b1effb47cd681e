//! Where a host goes next, and how it ends.
//!
//! INVARIANT: a host is in exactly one place, and [`Frontier::place`] alone brings it from none to the next.

use super::{Frontier, Whom, bytes_of};
use crate::addresses::{AddressId, Alarm, QueueEntry};
use crate::hosts::{HostId, HostMemory, HostState};
use crate::limits;
use farol_base::{Host, Scheduled, Timestamp};

impl Frontier {
    /// Brings a host that is nowhere to its next place.
    pub(super) fn place(&mut self, now: Timestamp, id: HostId) {
        self.call_off(id);
        self.epoch += 1;
        let epoch = self.epoch;
        let Some(entry) = self.hosts.get_mut(id) else { return };
        if entry.is_out {
            return; // Whoever has its lease brings it on.
        }
        entry.epoch = epoch;
        entry.asked = false;
        let queued = QueueEntry { host: id, epoch };
        let is_far = entry.memory.not_before > now + limits::ROBOTS_CHAIN_MAX;
        if entry.guest && is_far && !entry.errands.is_empty() {
            return self.fail_errands(now, id); // Which brings it here again, without them.
        }
        if entry.guest && entry.errands.is_empty() {
            self.to_leave.push_back(queued);
            return self.hosts.set_state(id, HostState::Refilling);
        }
        if entry.memory.not_before > now {
            let over = self.limits.host_retry.is_over(entry.memory.failures);
            return self.rest(now, id, if over { HostState::Unreachable } else { HostState::Resting });
        }
        if let Some(awaited) = entry.awaited {
            if awaited.deadline <= now {
                return self.errand_failed(now, id, awaited.serial);
            }
            if entry.errands.is_empty() {
                return self.sleep(now, id, awaited.deadline, HostState::Resting);
            }
        }
        self.set_near(id, true);
        let Some(entry) = self.hosts.get(id) else { return };
        let fresh = now < entry.resolved_at + self.limits.address_valid;
        match entry.address.filter(|_| fresh || entry.resolved_at == now) {
            None => {
                let most = self.limits.resolving_per_domain();
                self.domains.queue_to_resolve(entry.domain, queued, most);
                self.hosts.set_state(id, HostState::Resolving);
            }
            Some(_) if entry.errands.is_empty() && entry.queue.is_empty() && entry.robots_valid(now) => {
                self.to_refill.push_back(queued);
                self.hosts.set_state(id, HostState::Refilling);
            }
            Some(address) => {
                // Whoever has just read its robots.txt asks for a page before others' turn comes again: in a long
                // line the file would expire each time, and no page would ever follow it.
                let first = entry.just_read_robots;
                self.hosts.set_state(id, HostState::Waiting);
                let alarm = self.addresses.queue(now, address, queued, first);
                self.set_address_alarm(address, alarm);
            }
        }
    }

    /// Sets a timer for a host, for its `not_before`.
    pub(super) fn rest(&mut self, now: Timestamp, id: HostId, state: HostState) {
        if let Some(at) = self.hosts.get(id).map(|entry| entry.memory.not_before) {
            self.sleep(now, id, at, state);
        }
    }

    pub(super) fn sleep(&mut self, now: Timestamp, id: HostId, at: Timestamp, state: HostState) {
        if self.hosts.get(id).is_none_or(|entry| entry.is_out) {
            return;
        }
        self.call_off(id);
        let alarm = self.timers.set(at, Whom::Host(id));
        if let Some(entry) = self.hosts.get_mut(id) {
            entry.alarm = Some(alarm);
            entry.asked = false;
        }
        self.set_near(id, at <= now + limits::NEAR);
        self.hosts.set_state(id, state);
    }

    pub(super) fn wake(&mut self, now: Timestamp, id: HostId) {
        if let Some(entry) = self.hosts.get_mut(id) {
            entry.alarm = None;
        }
        self.place(now, id);
    }

    pub(super) fn call_off(&mut self, id: HostId) {
        if let Some(alarm) = self.hosts.get_mut(id).and_then(|entry| entry.alarm.take()) {
            self.timers.call_off(alarm);
        }
    }

    pub(super) fn set_address_alarm(&mut self, id: AddressId, alarm: Alarm) {
        if let Some(at) = alarm {
            self.timers.set(at, Whom::Address(id));
        }
    }

    pub(super) fn take_out(&mut self, id: HostId) -> Option<(Host, HostMemory, Vec<Scheduled>)> {
        let entry = self.hosts.get_mut(id).filter(|entry| !entry.ghost)?;
        let memory = entry.memory.clone();
        let host = entry.host.clone();
        let pages: Vec<Scheduled> = entry.queue.drain(..).map(|queued| queued.page).collect();
        self.queued -= pages.len();
        self.queued_bytes -= pages.iter().map(bytes_of).sum::<usize>();
        if entry.state() == HostState::Leased {
            self.hosts.set_ghost(id, true);
        } else {
            if entry.state() == HostState::Resolving && entry.asked {
                self.resolving -= 1;
                self.domains.resolved(entry.domain, self.limits.resolving_per_domain());
            }
            // No clock is at hand: an address that still rests is kept until its rest is over either way.
            self.drop_host(Timestamp::EPOCH, id);
        }
        Some((host, memory, pages))
    }

    pub(super) fn drop_host(&mut self, now: Timestamp, id: HostId) {
        self.call_off(id);
        self.set_near(id, false);
        if let Some(entry) = self.hosts.remove(id) {
            self.guests -= usize::from(entry.guest);
            // Whoever waits for an errand of its waits till its time is up.
            let foreign = entry.errands.iter().filter(|errand| errand.foreign).count();
            (0..foreign).for_each(|_| self.domains.foreign_went(entry.domain));
            self.leave_address(now, entry.address);
            self.resume_held_back(now, entry.domain);
            self.domains.leave(entry.domain);
        }
    }

    pub(super) fn leave_address(&mut self, now: Timestamp, address: Option<AddressId>) {
        if let Some(address) = address {
            let alarm = self.addresses.leave(now, address);
            self.set_address_alarm(address, alarm);
        }
    }
}
