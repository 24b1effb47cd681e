//! The registrable domains of the hosts: whoever can make up names below one gets one share, however many they are.
//!
//! A domain's hosts share what is scarce: places here, lookups under way, and leases. Domains take turns at lookups, so
//! that one with thousands of names and slow name servers delays its own alone. A domain that has its share of the leases
//! borrows what nobody else is about to use.
//!
//! INVARIANT: a domain is in the ring exactly while it has somebody to look up and a lookup to spare, and among the
//! borrowers exactly while turns of its hosts are held back.
//! INVARIANT: `unmet` is the sum over all domains of the leases below their share that hosts of theirs could take soon.
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
    /// Hosts that are leased, or may want to be soon.
    near: usize,
    to_resolve: VecDeque<QueueEntry>,
    /// Hosts whose turn came while the domain had all the leases it may have.
    held_back: VecDeque<QueueEntry>,
    /// Requests for robots.txt files of other domains' hosts that wait here.
    foreign: usize,
    /// When a host of it was last sent away for want of room.
    sent_away: Timestamp,
    in_ring: bool,
    is_borrower: bool,
}

impl Domain {
    /// Leases below its share that its hosts could take soon.
    fn unmet(&self, share: usize) -> usize {
        self.near.min(share).saturating_sub(self.leased)
    }
}

#[derive(Debug)]
pub struct Domains {
    /// Leases of one domain that nobody can keep it from.
    leases_share: usize,
    unmet: usize,
    ids: HashMap<Box<str>, DomainId>,
    slots: Vec<Option<Domain>>,
    free: Vec<DomainId>,
    ring: VecDeque<DomainId>,
    /// Domains with turns that are held back.
    borrowers: VecDeque<DomainId>,
}

impl Domains {
    pub fn new(leases_share: usize) -> Domains {
        Domains {
            leases_share,
            unmet: 0,
            ids: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ring: VecDeque::new(),
            borrowers: VecDeque::new(),
        }
    }

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
        self.change(id, |domain| domain.hosts = domain.hosts.saturating_sub(1));
        if self.get(id).is_some_and(|domain| domain.hosts == 0)
            && let Some(domain) = self.slots[id.0 as usize].take()
        {
            self.unmet -= domain.unmet(self.leases_share);
            self.ids.remove(&domain.name);
            self.ring.retain(|other| *other != id);
            self.borrowers.retain(|other| *other != id);
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

    /// Whether a host of the domain may be leased, within its share or as a `loan`; otherwise its turn is held back.
    pub fn may_lease(&mut self, id: DomainId, queued: QueueEntry, loan: bool) -> bool {
        let share = self.leases_share;
        let Some(domain) = self.get_mut(id) else { return true };
        if domain.leased < share || loan {
            return true;
        }
        domain.held_back.push_back(queued);
        if !std::mem::replace(&mut domain.is_borrower, true) {
            self.borrowers.push_back(id);
        }
        false
    }

    /// A host of the domain may want a lease soon, or no longer.
    pub fn set_near(&mut self, id: DomainId, near: bool) {
        self.change(id, |domain| domain.near = if near { domain.near + 1 } else { domain.near - 1 });
    }

    /// Leases that domains below their share may want soon.
    pub fn unmet(&self) -> usize {
        self.unmet
    }

    pub fn leased(&mut self, id: DomainId) {
        self.change(id, |domain| domain.leased += 1);
    }

    pub fn returned(&mut self, id: DomainId) {
        self.change(id, |domain| domain.leased = domain.leased.saturating_sub(1));
    }

    /// The next turn that was held back, where the domain is below its share again.
    pub fn resume(&mut self, id: DomainId) -> Option<QueueEntry> {
        let share = self.leases_share;
        let domain = self.get_mut(id).filter(|domain| domain.leased < share)?;
        let queued = domain.held_back.pop_front();
        if domain.held_back.is_empty() && std::mem::take(&mut domain.is_borrower) {
            self.borrowers.retain(|other| *other != id);
        }
        queued
    }

    /// The next turn that was held back, domain after domain, for a lease on loan.
    pub fn borrow(&mut self) -> Option<QueueEntry> {
        let id = self.borrowers.pop_front()?;
        let domain = self.get_mut(id)?;
        let queued = domain.held_back.pop_front();
        domain.is_borrower = !domain.held_back.is_empty();
        if domain.is_borrower {
            self.borrowers.push_back(id);
        }
        queued
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
        let share = self.leases_share;
        let Some(domain) = self.get_mut(id) else { return };
        let before = domain.unmet(share);
        change(domain);
        let after = domain.unmet(share);
        self.unmet = self.unmet - before + after;
    }
}
