//! What an agent has kept: worked out from the tables since the last settled one, and not noted down anywhere.

use super::owners::EpochOwners;
use super::{AgentId, HoldRules};
use farol_cluster::Epoch;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Something that one agent at most has the right to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    Address(IpAddr),
    Host(String),
}

/// The tables that count, and the rights that were passed on under them.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// Oldest first.
    steps: Vec<EpochOwners>,
    /// The oldest is settled: all that it gives to an agent is that agent's alone.
    has_base: bool,
    settled: bool,
    /// Rights that came by themselves, and under which epoch.
    gained: BTreeMap<Thing, Epoch>,
}

impl Lineage {
    pub fn new(steps: Vec<EpochOwners>, settled: bool, former: &Lineage) -> Lineage {
        let has_base = settled || steps.len() > 1;
        let has = |epoch: &Epoch| steps.iter().any(|step| step.step().epoch == *epoch);
        let kept = former.gained.iter().filter(|(_, epoch)| !settled && has(epoch));
        let gained = kept.map(|(thing, epoch)| (thing.clone(), *epoch)).collect();
        Lineage { steps, has_base, settled, gained }
    }

    pub fn newest(&self) -> Option<&EpochOwners> {
        self.steps.last()
    }

    /// The tables that count, oldest first.
    pub fn steps(&self) -> &[EpochOwners] {
        &self.steps
    }

    pub fn epoch(&self) -> Epoch {
        self.newest().map_or(Epoch(0), |newest| newest.step().epoch)
    }

    pub fn is_settled(&self) -> bool {
        self.settled
    }

    pub fn gain(&mut self, thing: Thing) {
        let epoch = self.epoch();
        self.gained.insert(thing, epoch);
    }

    /// Whether a member of the newest table has the right to something.
    pub fn has_right(&self, me: AgentId, thing: &Thing, rules: &HoldRules) -> bool {
        let gives = |step: &EpochOwners| {
            owner(step, thing).is_some_and(|owner| owner == me || (owner.no == me.no && !rules.incarnation))
        };
        if !rules.right_awaited {
            return self.newest().is_some_and(gives);
        }
        let from = match self.gained.get(thing) {
            Some(epoch) => self.steps.iter().position(|step| step.step().epoch == *epoch),
            None => self.has_base.then_some(0),
        };
        from.is_some_and(|from| self.steps[from..].iter().all(gives) && !self.steps.is_empty())
    }

    /// Whether a table that counts gave something to an agent before the newest.
    pub fn gave(&self, from: AgentId, thing: &Thing) -> bool {
        let before = self.steps.len().saturating_sub(1);
        self.steps[..before].iter().any(|step| owner(step, thing).is_some_and(|owner| owner.no == from.no))
    }

    /// Whether all tables that count from an epoch on say so; false where the epoch came before them and none is settled.
    pub fn holds_since(&self, since: Epoch, says: impl Fn(&EpochOwners) -> bool) -> bool {
        let is_known = self.has_base || self.epoch() == since;
        is_known
            && self.steps.iter().filter(|step| step.step().epoch >= since).all(&says)
            && self.newest().is_some_and(says)
    }

    /// Whether an epoch is one of those that count.
    pub fn counts(&self, epoch: Epoch) -> bool {
        self.steps.iter().any(|step| step.step().epoch == epoch)
    }
}

/// Whom a table gives something.
pub fn owner(step: &EpochOwners, thing: &Thing) -> Option<AgentId> {
    match thing {
        Thing::Address(address) => step.of_address(*address),
        Thing::Host(host) => step.home(host),
    }
}
