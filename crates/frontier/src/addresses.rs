//! The addresses behind the hosts: each is asked by one host at a time, rests, and has a line of hosts.
//!
//! INVARIANT: an address is in the ready queue at most once, and only while it is idle, rested and its line is
//! not empty (queue entries may have become stale meanwhile).
//! Does not know what a host wants; a place in line is an opaque [`QueueEntry`].

use crate::hosts::HostId;
use farol_base::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressId(u32);

/// A host in a queue: stale as soon as the host's epoch is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    pub host: HostId,
    pub epoch: u64,
}

#[derive(Debug)]
struct Address {
    ip: IpAddr,
    /// Hosts that have this address.
    hosts: usize,
    /// When a host of it was last sent away for want of room.
    sent_away: Timestamp,
    busy: bool,
    not_before: Timestamp,
    line: VecDeque<QueueEntry>,
    /// It is in the ready queue.
    ready: bool,
    /// The timers will call [`Addresses::wake`].
    alarm: bool,
}

/// What the caller must do after a change: wake the address at this instant.
pub type Alarm = Option<Timestamp>;

#[derive(Debug, Default)]
pub struct Addresses {
    ids: HashMap<IpAddr, AddressId>,
    slots: Vec<Option<Address>>,
    free: Vec<AddressId>,
    ready: VecDeque<AddressId>,
}

impl Addresses {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn ip(&self, id: AddressId) -> Option<IpAddr> {
        self.slots.get(id.0 as usize)?.as_ref().map(|address| address.ip)
    }

    /// A host has this address from now on.
    pub fn join(&mut self, ip: IpAddr) -> AddressId {
        // An IPv4 address written as IPv6 is the same machine.
        let ip = ip.to_canonical();
        let id = *self.ids.entry(ip).or_insert_with(|| {
            let id = self.free.pop().unwrap_or(AddressId(self.slots.len() as u32));
            let address = Address {
                ip,
                hosts: 0,
                sent_away: Timestamp::EPOCH,
                busy: false,
                not_before: Timestamp::EPOCH,
                line: VecDeque::new(),
                ready: false,
                alarm: false,
            };
            match self.slots.get_mut(id.0 as usize) {
                Some(slot) => *slot = Some(address),
                None => self.slots.push(Some(address)),
            }
            id
        });
        self.change(id, |address| address.hosts += 1);
        id
    }

    /// Hosts that have this address.
    pub fn hosts(&self, ip: IpAddr) -> usize {
        let slot = self.ids.get(&ip.to_canonical()).and_then(|id| self.slots.get(id.0 as usize));
        slot.and_then(Option::as_ref).map_or(0, |address| address.hosts)
    }

    pub fn sent_away(&mut self, ip: IpAddr, now: Timestamp) {
        if let Some(id) = self.ids.get(&ip.to_canonical()).copied() {
            self.change(id, |address| address.sent_away = now);
        }
    }

    pub fn last_sent_away(&self, id: AddressId) -> Timestamp {
        let slot = self.slots.get(id.0 as usize).and_then(Option::as_ref);
        slot.map_or(Timestamp::EPOCH, |address| address.sent_away)
    }

    /// A host no longer has this address.
    #[must_use]
    pub fn leave(&mut self, now: Timestamp, id: AddressId) -> Alarm {
        self.change(id, |address| address.hosts = address.hosts.saturating_sub(1));
        self.settle(now, id)
    }

    /// A host stands in line, at its end or as the `first`.
    #[must_use]
    pub fn queue(&mut self, now: Timestamp, id: AddressId, queued: QueueEntry, first: bool) -> Alarm {
        self.change(
            id,
            |address| {
                if first { address.line.push_front(queued) } else { address.line.push_back(queued) }
            },
        );
        self.settle(now, id)
    }

    /// Takes the next host in line of the address that has been ready longest, where `is_valid` accepts it.
    /// The address is busy from then on, until [`Addresses::release`].
    pub fn take(
        &mut self,
        mut is_valid: impl FnMut(QueueEntry) -> bool,
    ) -> Option<(AddressId, IpAddr, QueueEntry)> {
        while let Some(id) = self.ready.pop_front() {
            let Some(address) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else { continue };
            address.ready = false;
            while let Some(queued) = address.line.pop_front() {
                if is_valid(queued) {
                    address.busy = true;
                    return Some((id, address.ip, queued));
                }
            }
            self.drop_address(id);
        }
        None
    }

    /// The request is over; the address rests until `not_before`.
    #[must_use]
    pub fn release(&mut self, now: Timestamp, id: AddressId, not_before: Option<Timestamp>) -> Alarm {
        self.change(id, |address| {
            address.busy = false;
            address.not_before = address.not_before.max(not_before.unwrap_or(Timestamp::EPOCH));
        });
        self.settle(now, id)
    }

    /// The alarm that was asked for has rung.
    #[must_use]
    pub fn wake(&mut self, now: Timestamp, id: AddressId) -> Alarm {
        self.change(id, |address| address.alarm = false);
        self.settle(now, id)
    }

    fn change(&mut self, id: AddressId, change: impl FnOnce(&mut Address)) {
        if let Some(address) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            change(address);
        }
    }

    /// Brings an address where it belongs: into the ready queue, behind a timer, or away.
    fn settle(&mut self, now: Timestamp, id: AddressId) -> Alarm {
        let address = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        if address.busy || address.ready || address.alarm {
            return None;
        }
        if address.not_before > now && (!address.line.is_empty() || address.hosts == 0) {
            // It has somebody waiting, or only its rest still to remember.
            address.alarm = true;
            return Some(address.not_before);
        }
        if !address.line.is_empty() {
            address.ready = true;
            self.ready.push_back(id);
            return None;
        }
        self.drop_address(id);
        None
    }

    /// Forgets an address that nobody has.
    fn drop_address(&mut self, id: AddressId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else { return };
        let idle = |address: &Address| {
            address.hosts == 0 && !address.busy && !address.ready && !address.alarm && address.line.is_empty()
        };
        if slot.as_ref().is_some_and(idle)
            && let Some(address) = slot.take()
        {
            self.ids.remove(&address.ip);
            self.free.push(id);
        }
    }
}
