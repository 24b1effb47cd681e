//! Who may come in, and who makes way: places are shared out among registrable domains and among addresses.
//!
//! INVARIANT: a domain or an address has more hosts here than [`crate::Limits::hosts_share`] only while at least eight
//! times as many places were free when the last of them came (guests for others' robots.txt always come in).
//! A host that is sent away is told when to come back; nothing of it is kept here.
//!
//! Leases are shared out among domains as well, and nothing that is free lies idle for it: a domain that has its share
//! borrows, once nobody below its share is ready, all but a few that are kept for hosts which are back soon.
//! INVARIANT: no domain is lent a lease while a host of a domain below its share is ready.

use super::Frontier;
use crate::addresses::QueueEntry;
use crate::domains::DomainId;
use crate::hosts::HostId;
use crate::lease::Resolved;
use crate::limits;
use farol_base::{Host, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

impl Frontier {
    /// Until when a host must wait because its registrable domain has its share of the places; `None` where it may come.
    /// A host that is here already may.
    pub fn crowded_until(&mut self, now: Timestamp, host: &Host) -> Option<Timestamp> {
        let domain = self.domains.find(host.registrable_domain())?;
        let hosts = self.domains.hosts(domain);
        if hosts < self.limits.share(self.free()) || self.hosts.find(host).is_some() {
            return None;
        }
        self.domains.sent_away(domain, now);
        Some(now + self.crowded_for(hosts))
    }

    /// Whether a host that could be refilled should rather leave, since others of its domain or address wait for its
    /// place, and until when.
    pub fn makes_way(&self, now: Timestamp, host: &Host) -> Option<Timestamp> {
        let entry = self.hosts.get(self.hosts.find(host)?)?;
        if !entry.errands.is_empty() || entry.awaited.is_some() || now < entry.entered + limits::TENURE {
            return None;
        }
        let of_address = entry.address.map_or(Timestamp::EPOCH, |id| self.addresses.last_sent_away(id));
        let sent_away = self.domains.last_sent_away(entry.domain).max(of_address);
        // Those that were sent away are back within this time, and are sent away again if there is no room.
        let others_wait = now < sent_away + limits::CROWDED_MAX && sent_away > entry.entered;
        others_wait.then(|| now + limits::CROWDED_MAX * 2)
    }

    /// Places that are free for hosts with pages of their own.
    pub(super) fn free(&self) -> usize {
        self.limits.hosts_max.saturating_sub(self.hosts.len().saturating_sub(self.guests))
    }

    /// Until when a host must wait because this address of its has its share of the places.
    pub(super) fn address_crowded_until(
        &mut self,
        now: Timestamp,
        id: HostId,
        ip: IpAddr,
    ) -> Option<Timestamp> {
        let entry = self.hosts.get(id).filter(|entry| !entry.guest)?;
        let has_it = entry.address.and_then(|id| self.addresses.ip(id)) == Some(ip.to_canonical());
        let hosts = self.addresses.hosts(ip);
        if has_it || hosts < self.limits.share(self.free()) {
            return None;
        }
        self.addresses.sent_away(ip, now);
        Some(now + self.crowded_for(hosts))
    }

    pub(super) fn send_away(&mut self, now: Timestamp, id: HostId, until: Timestamp) -> Resolved {
        self.fail_errands(now, id);
        match self.take_out(id) {
            Some((_, memory, pages)) => Resolved::Crowded { until, memory, pages },
            None => Resolved::Taken,
        }
    }

    /// Gives turns back that a domain with all its leases could not use.
    pub(super) fn resume_held_back(&mut self, now: Timestamp, domain: DomainId) {
        // As many as it could lease at once: those that find their address busy wait in its line.
        for _ in 0..self.limits.leased_per_domain() {
            let Some(queued) = self.domains.resume(domain) else { return };
            self.queue_again(now, queued);
        }
    }

    /// Gives a turn back to a domain that has all its leases, where one can be lent to it.
    pub(super) fn lend(&mut self, now: Timestamp) -> bool {
        let free = self.limits.in_flight_max.max(1).saturating_sub(self.in_flight);
        if free <= self.limits.kept_for_others(self.domains.unmet()) {
            return false;
        }
        let Some(queued) = self.domains.borrow() else { return false };
        self.queue_again(now, queued);
        true
    }

    /// A host that stood first in its address's line does so again.
    fn queue_again(&mut self, now: Timestamp, queued: QueueEntry) {
        let valid = self.hosts.get(queued.host).filter(|entry| entry.epoch == queued.epoch);
        if let Some(address) = valid.and_then(|entry| entry.address) {
            let alarm = self.addresses.queue(now, address, queued, true);
            self.set_address_alarm(address, alarm);
        }
    }

    /// Notes whether a host may want a lease soon, or has one.
    pub(super) fn set_near(&mut self, id: HostId, near: bool) {
        if let Some(entry) = self.hosts.get_mut(id)
            && std::mem::replace(&mut entry.near, near) != near
        {
            self.domains.set_near(entry.domain, near);
        }
    }

    /// The crowd's own turns take about so long.
    fn crowded_for(&self, hosts: usize) -> Duration {
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
        self.limits.delay_min.saturating_mul(hosts).clamp(limits::CROWDED_MIN, limits::CROWDED_MAX)
    }
}
