//! Addresses that go to another agent than the table says, for one epoch: because a host is there that the operator has
//! given to that agent, and that no plan has seen yet.
//!
//! The home of such a host claims the address of its owner. That one stops asking there, waits until nothing is under way,
//! and says whose the address is now: to the claimant, and to the homes of the hosts that it asked there, which grant them
//! anew. Whoever claims after that hears the same answer, so that two filters that meet at an address do not split it.
//!
//! INVARIANT: under one epoch an address is given up once at most, by its owner, after its own requests there have ended.
//! With the next epoch that is over: then the address waits until that is settled, because nobody but the table knows then
//! whose requests may still be under way.

use super::holder::Holder;
use super::lineage::Thing;
use super::note::{AgentId, NoteBody};
use farol_cluster::{Epoch, NodeNo, RouteRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Addresses that one agent is given by its claims in an epoch, at most: a liar gets no more, and the next plan gives an
/// honest one the rest.
pub const CLAIMS_MAX: usize = 4_096;

/// An address of this agent's that is another's for an epoch.
#[derive(Clone, Copy, Debug)]
struct Given {
    to: AgentId,
    since: Epoch,
    /// The claimant knows, and may ask there.
    is_told: bool,
}

/// What was claimed and given up.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    given: BTreeMap<IpAddr, Given>,
    /// Claims of others under this epoch that wait until the right to the address is here.
    waiting: BTreeMap<IpAddr, AgentId>,
    /// Claims of this agent's under this epoch.
    claimed: BTreeSet<IpAddr>,
    /// What owners have said under this epoch.
    moved: BTreeMap<IpAddr, AgentId>,
}

impl Pins {
    /// Another table, or this one was settled.
    pub fn hear(&mut self, is_new: bool, record: &RouteRecord, is_settled: bool) {
        if is_new {
            self.waiting.clear();
            self.claimed.clear();
            self.moved.clear();
        }
        let epoch = record.epoch();
        let is_awaited = |no: NodeNo| record.bequests.iter().any(|bequest| bequest.no == no);
        self.given.retain(|_, given| {
            given.since == epoch || (given.is_told && (!is_settled || is_awaited(given.to.no)))
        });
    }

    /// Whether an address was given up, and whoever got it may have something under way there.
    pub fn is_given(&self, address: IpAddr) -> bool {
        self.given.contains_key(&address)
    }

    /// Whether an agent got an address by its claim, lately.
    pub fn was_given(&self, address: IpAddr, to: NodeNo) -> bool {
        self.given.get(&address).is_some_and(|given| given.to.no == to)
    }
}

impl Holder {
    /// Who asks at an address, as far as is known here.
    pub(super) fn asker_at(&self, address: IpAddr) -> Option<AgentId> {
        let moved = self.given_to(address).or_else(|| self.pins.moved.get(&address).copied());
        moved.or_else(|| self.lineage.newest()?.of_address(address))
    }

    /// Whether nobody may connect to an address before a table names it.
    pub fn is_held(&self, address: IpAddr) -> bool {
        self.lineage.newest().is_some() && self.asker_at(address).is_none()
    }

    /// Whose an address is that this agent has given up under this epoch.
    pub(super) fn given_to(&self, address: IpAddr) -> Option<AgentId> {
        let given = self.pins.given.get(&address).filter(|given| given.since == self.epoch());
        given.map(|given| given.to).filter(|_| self.rules.given_up)
    }

    /// Whether an address is this agent's to ask at now.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        let has_right = || self.lineage.has_right(self.me, &Thing::Address(address), &self.rules);
        match self.pins.given.get(&address).filter(|_| self.rules.given_up) {
            Some(given) if given.since == self.epoch() || !self.lineage.is_settled() => false,
            _ => self.pins.moved.get(&address) == Some(&self.me) || has_right(),
        }
    }

    /// Whether this agent has claimed an address and has had no answer yet, or has it.
    pub(super) fn is_claimed(&self, address: IpAddr) -> bool {
        match self.pins.moved.get(&address) {
            Some(to) => *to == self.me,
            None => self.pins.claimed.contains(&address),
        }
    }

    /// Claims the address of a host that the operator has given to this agent; false where there is nothing to wait for.
    pub(super) fn claims(&mut self, host: &str, address: IpAddr) -> bool {
        let Some(newest) = self.lineage.newest().filter(|_| self.rules.filters) else { return false };
        let Some(owner) = newest.of_address(address).filter(|owner| *owner != self.me) else { return false };
        if newest.filtered(host) != Some(self.me) || self.pins.moved.contains_key(&address) {
            return false;
        }
        if self.pins.claimed.insert(address) {
            self.tell(owner.no, NoteBody::Claim { host: host.to_string(), address });
        }
        true
    }

    /// Another agent claims an address.
    pub(super) fn claimed(&mut self, from: AgentId, host: &str, address: IpAddr) {
        let Some(newest) = self.lineage.newest() else { return };
        if newest.of_address(address) != Some(self.me) || newest.filtered(host) != Some(from) {
            return;
        }
        let epoch = self.epoch();
        let known = self.pins.given.get(&address).filter(|given| given.since == epoch).copied();
        match known {
            Some(given) if given.to == from => {}
            Some(given) => self.tell(from.no, NoteBody::Moved { address, to: given.to.no }),
            None => {
                let so_far =
                    self.pins.given.values().filter(|given| given.to == from && given.since == epoch);
                if so_far.count() >= CLAIMS_MAX {
                    let to = self.me.no;
                    self.tell(from.no, NoteBody::Moved { address, to });
                    return;
                }
                self.pins.waiting.entry(address).or_insert(from);
            }
        }
    }

    /// Gives up what was claimed, once the right to it is here and nothing is under way there any more.
    pub(super) fn give_up_claimed(&mut self) {
        let epoch = self.epoch();
        let waiting: Vec<(IpAddr, AgentId)> = self.pins.waiting.iter().map(|(at, to)| (*at, *to)).collect();
        for (address, to) in waiting {
            if !self.has_address(address) {
                continue;
            }
            self.pins.waiting.remove(&address);
            self.pins.given.insert(address, Given { to, since: epoch, is_told: false });
        }
        let untold = self.pins.given.iter().filter(|(_, given)| given.since == epoch && !given.is_told);
        let untold: Vec<(IpAddr, AgentId)> = untold.map(|(address, given)| (*address, given.to)).collect();
        for (address, to) in untold {
            if self.is_asking_at(address) {
                continue;
            }
            if let Some(given) = self.pins.given.get_mut(&address) {
                given.is_told = true;
            }
            self.tell(to.no, NoteBody::Moved { address, to: to.no });
            self.leave(address, Some(to));
        }
    }

    /// The owner of an address says whose it is under this epoch.
    pub(super) fn told_moved(&mut self, from: AgentId, address: IpAddr, to: NodeNo) {
        let Some(newest) = self.lineage.newest() else { return };
        let Some(to) = newest.member(to).filter(|_| newest.of_address(address) == Some(from)) else { return };
        self.pins.moved.insert(address, to);
        if to != self.me {
            self.leave(address, None);
        }
    }

    /// Gives hosts at an address back to their homes, which are told whose it is.
    fn leave(&mut self, address: IpAddr, to: Option<AgentId>) {
        for (host, home, grant) in self.borrowed_at(address) {
            if let Some(to) = to {
                self.tell(home.no, NoteBody::Moved { address, to: to.no });
            }
            self.ask_home(&host, Some(address), Some(grant), false);
        }
    }
}
