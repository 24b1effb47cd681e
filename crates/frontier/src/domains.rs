//! The registrable domains of the hosts: whoever can make up names below one gets one share, however many they are.
//!
//! A domain's hosts share what is scarce: places here, lookups under way, and leases. Domains take turns at lookups, so
//! that one with thousands of names and slow name servers delays its own alone.
//!
//! INVARIANT: a domain is in the ring exactly while it has somebody to look up and a lookup to spare.
//! Does not know what a host wants; a place in line is an opaque [`QueueEntry`].

use crate::addresses::QueueEntry;
use farol_base::Timestamp;
use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainId(u32);

/// About 250 bytes: 20,000 hosts of as many domains = 5 MB.
#[derive(Debug, Default)]
struct Domain {
    name: Box<str>,
    hosts: usize,
    resolving: usize,
    leased: usize,
    to_resolve: VecDeque<QueueEntry>,
    /// Hosts whose turn came while the domain had all the leases it may have.
    held_back: VecDeque<QueueEntry>,
    /// Requests for robots.txt files of other domains' hosts that wait here.
    foreign: usize,
    /// When a host of it was last sent away for want of room.
    sent_away: Timestamp,
    in_ring: bool,
}

#[derive(Debug, Default)]
pub struct Domains {
    ids: HashMap<Box<str>, DomainId>,
    slots: Vec<Option<Domain>>,
    free: Vec<DomainId>,
    ring: VecDeque<DomainId>,
}

impl Domains {
    pub fn find(&self, name: &str) -> Option<DomainId> {
        self.ids.get(name).copied()
    }

    /// A host of this domain is here from now on.
    pub fn join(&mut self, name: &str) -> DomainId {
        let id = self.find(name).unwrap_or_else(|| {
            let id = self.free.pop().unwrap_or(DomainId(self.slots.len() as u32));
            if id.0 as usize == self.slots.len() {
                self.slots.push(None);
            }
            self.slots[id.0 as usize] = Some(Domain { name: name.into(), ..Domain::default() });
            self.ids.insert(name.into(), id);
            id
        });
        self.change(id, |domain| domain.hosts += 1);
        id
    }

    /// A host of this domain has left, and so have its lookups and leases.
    pub fn leave(&mut self, id: DomainId) {
        let Some(domain) = self.get_mut(id) else { return };
        domain.hosts = domain.hosts.saturating_sub(1);
        if domain.hosts == 0 {
            let name = std::mem::take(&mut domain.name);
            self.ids.remove(&name);
            self.ring.retain(|other| *other != id);
            self.slots[id.0 as usize] = None;
            self.free.push(id);
        }
    }

    pub fn hosts(&self, id: DomainId) -> usize {
        self.get(id).map_or(0, |domain| domain.hosts)
    }

    pub fn sent_away(&mut self, id: DomainId, now: Timestamp) {
        self.change(id, |domain| domain.sent_away = now);
    }

    pub fn last_sent_away(&self, id: DomainId) -> Timestamp {
        self.get(id).map_or(Timestamp::EPOCH, |domain| domain.sent_away)
    }

    // Lookups.

    pub fn queue_to_resolve(&mut self, id: DomainId, queued: QueueEntry, resolving_max: usize) {
        self.change(id, |domain| domain.to_resolve.push_back(queued));
        self.settle(id, resolving_max);
    }

    /// Takes a host to look up, domain after domain; counts as looked up until [`Domains::resolved`].
    pub fn next_to_resolve(
        &mut self,
        resolving_max: usize,
        mut is_valid: impl FnMut(QueueEntry) -> bool,
    ) -> Option<QueueEntry> {
        while let Some(id) = self.ring.pop_front() {
            let Some(domain) = self.get_mut(id) else { continue };
            domain.in_ring = false;
            while let Some(queued) = domain.to_resolve.pop_front() {
                if is_valid(queued) {
                    domain.resolving += 1;
                    self.settle(id, resolving_max);
                    return Some(queued);
                }
            }
        }
        None
    }

    pub fn resolved(&mut self, id: DomainId, resolving_max: usize) {
        self.change(id, |domain| domain.resolving = domain.resolving.saturating_sub(1));
        self.settle(id, resolving_max);
    }

    fn settle(&mut self, id: DomainId, resolving_max: usize) {
        let Some(domain) = self.get_mut(id) else { return };
        if !domain.in_ring && !domain.to_resolve.is_empty() && domain.resolving < resolving_max {
            domain.in_ring = true;
            self.ring.push_back(id);
        }
    }

    // Leases.

    /// Whether a host of the domain may be leased; otherwise its turn is kept for [`Domains::returned`].
    pub fn may_lease(&mut self, id: DomainId, queued: QueueEntry, leased_max: usize) -> bool {
        let Some(domain) = self.get_mut(id) else { return true };
        let may = domain.leased < leased_max;
        if !may {
            domain.held_back.push_back(queued);
        }
        may
    }

    pub fn leased(&mut self, id: DomainId) {
        self.change(id, |domain| domain.leased += 1);
    }

    pub fn returned(&mut self, id: DomainId) {
        self.change(id, |domain| domain.leased = domain.leased.saturating_sub(1));
    }

    /// The next turn that was held back, where the domain may have a lease again.
    pub fn resume(&mut self, id: DomainId, leased_max: usize) -> Option<QueueEntry> {
        let domain = self.get_mut(id).filter(|domain| domain.leased < leased_max)?;
        domain.held_back.pop_front()
    }

    // Requests for others' robots.txt.

    pub fn foreign(&self, id: DomainId) -> usize {
        self.get(id).map_or(0, |domain| domain.foreign)
    }

    pub fn foreign_came(&mut self, id: DomainId) {
        self.change(id, |domain| domain.foreign += 1);
    }

    pub fn foreign_went(&mut self, id: DomainId) {
        self.change(id, |domain| domain.foreign = domain.foreign.saturating_sub(1));
    }

    fn get(&self, id: DomainId) -> Option<&Domain> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: DomainId) -> Option<&mut Domain> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    fn change(&mut self, id: DomainId, change: impl FnOnce(&mut Domain)) {
        if let Some(domain) = self.get_mut(id) {
            change(domain);
        }
    }
}
