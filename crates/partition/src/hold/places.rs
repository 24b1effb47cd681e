//! Hosts whose home and asker are two agents, and hosts on their way: what was granted to whom.
//!
//! INVARIANT: a home grants a host only while it has the right to it and nobody else has a grant that may still be used.

use super::Move;
use super::holder::Holder;
use super::lineage::Thing;
use super::note::{AgentId, NoteBody};
use super::owners::EpochOwners;
use farol_cluster::{Epoch, NodeNo};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Grants of a host in one epoch, at most.
const HOPS_MAX: u8 = 2;

/// Where a host stands, as far as the tables do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its home has granted it to this agent.
    Borrowed { home: AgentId, address: IpAddr, since: Epoch, grant: u64, is_last: bool },
    /// This agent is its home and has granted it.
    Lent {
        to: AgentId,
        address: IpAddr,
        since: Epoch,
        grant: u64,
        /// The grant has no future: over when it is given back, or when this epoch is settled.
        ends: bool,
    },
    /// This agent is its home, and whom to grant it to is to be decided.
    Open { address: Option<IpAddr> },
    /// Its home was asked, or is to be once requests have ended.
    Asked {
        home: AgentId,
        address: Option<IpAddr>,
        /// A grant that ends hereby.
        grant: Option<u64>,
        /// The right to the host is here and goes along.
        with_right: bool,
        is_sent: bool,
    },
}

impl Place {
    /// Whether something is still to be done about it here.
    fn is_moving(&self) -> bool {
        match self {
            Place::Borrowed { .. } => false,
            Place::Lent { ends, .. } => *ends,
            Place::Open { .. } => true,
            Place::Asked { is_sent, .. } => !is_sent,
        }
    }
}

/// Who gets what is found of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    Here,
    To(NodeNo),
}

/// Hosts by name.
#[derive(Clone, Debug, Default)]
pub struct Places {
    hosts: BTreeMap<String, Place>,
    moving: BTreeSet<String>,
    /// Who waits for a word on where a host went.
    askers: BTreeMap<String, BTreeSet<NodeNo>>,
    /// Grants under this epoch of hosts that came back.
    hops: BTreeMap<String, u8>,
    /// The last grant.
    granted: u64,
}

impl Places {
    /// Grants of different incarnations never have the same number.
    pub fn new(incarnation: u64) -> Places {
        Places { granted: incarnation << 32, ..Places::default() }
    }

    pub fn get(&self, host: &str) -> Option<&Place> {
        self.hosts.get(host)
    }

    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    fn put(&mut self, host: &str, place: Place) {
        match place.is_moving() {
            true => drop(self.moving.insert(host.to_string())),
            false => drop(self.moving.remove(host)),
        }
        self.hosts.insert(host.to_string(), place);
    }

    fn remove(&mut self, host: &str) {
        self.moving.remove(host);
        self.hosts.remove(host);
    }
}

impl Holder {
    /// Who gets what is found of a host.
    pub fn route(&self, host: &str) -> Destination {
        // What a former incarnation of this agent was given stays here until the table knows this one.
        let home = || self.lineage.newest()?.home(host).filter(|home| home.no != self.me.no);
        match self.places.get(host) {
            Some(Place::Lent { to, ends: false, .. }) => Destination::To(to.no),
            Some(Place::Borrowed { .. } | Place::Open { .. } | Place::Asked { .. }) => Destination::Here,
            Some(Place::Lent { .. }) | None => {
                home().map_or(Destination::Here, |home| Destination::To(home.no))
            }
        }
    }

    /// Who gets what an undertaker brings of a host that was last asked at an address: its heir, before anybody has asked
    /// for it.
    pub fn heir(&self, host: &str, address: IpAddr) -> Destination {
        let owner = self
            .lineage
            .newest()
            .and_then(|newest| newest.filtered(host).or_else(|| newest.of_address(address)));
        match (self.places.get(host), owner) {
            (None, Some(owner)) if owner.no == self.me.no => Destination::Here,
            (None, Some(owner)) => Destination::To(owner.no),
            _ => self.route(host),
        }
    }

    /// Whether an agent may have had a host that was asked at an address: by a table that counts or one before, by a grant, or
    /// because it may be the undertaker of a dead one. What it says of the host is believed then.
    pub fn may_have_had(&self, from: NodeNo, host: &str, address: Option<IpAddr>) -> bool {
        let is_from = |owner: Option<AgentId>| owner.is_some_and(|owner| owner.no == from);
        let by_table = |table: &EpochOwners| {
            is_from(table.home(host)) || address.is_some_and(|address| is_from(table.of_address(address)))
        };
        let by_place = match self.places.get(host) {
            Some(Place::Borrowed { home, .. } | Place::Asked { home, .. }) => home.no == from,
            Some(Place::Lent { to, .. }) => to.no == from,
            Some(Place::Open { .. }) | None => false,
        };
        let by_pin = address.is_some_and(|address| is_from(self.asker_at(address)));
        by_place
            || by_pin
            || self.awaits_backups()
            || self.lineage.steps().iter().chain(self.former.steps()).any(by_table)
    }

    /// Where a host stands, as far as the tables do not tell; for people.
    pub fn standing(&self, host: &str) -> Option<&Place> {
        self.places.get(host)
    }

    /// Hosts whose homes were asked who is to have what is known of them, or are to be.
    pub fn asked(&self) -> usize {
        self.places.hosts.values().filter(|place| matches!(place, Place::Asked { .. })).count()
    }

    /// The address at which a host is to be asked, where its home has named one.
    pub fn pinned(&self, host: &str) -> Option<IpAddr> {
        match self.places.get(host) {
            Some(Place::Borrowed { address, .. }) => Some(*address),
            _ => None,
        }
    }

    /// Where a host is, as its home has found out: it asks the host itself, or grants it to the owner of the address.
    pub fn place(&mut self, host: &str, address: IpAddr) {
        let is_home = self.lineage.newest().is_some_and(|newest| newest.home(host) == Some(self.me));
        if is_home && matches!(self.places.get(host), None | Some(Place::Open { .. })) {
            self.places.put(host, Place::Open { address: Some(address) });
            self.settle_places();
        }
    }

    /// Nobody knows where a host is. Its home keeps what is known of it, and whoever has asked for it sends the rest there;
    /// nobody asks it before there is an address.
    pub fn keep(&mut self, host: &str) {
        let is_home = self.lineage.newest().is_some_and(|newest| newest.home(host) == Some(self.me));
        let has_right = self.lineage.has_right(self.me, &Thing::Host(host.to_string()), &self.rules);
        if is_home && has_right && matches!(self.places.get(host), Some(Place::Open { address: None })) {
            self.places.remove(host);
            self.answer_askers(host, self.me.no);
        }
    }

    /// What DNS says of a host that is asked by a grant: where that does not name the pinned address, its home decides anew.
    pub fn resolved(&mut self, host: &str, addresses: &[IpAddr]) {
        let Some(Place::Borrowed { home, address, grant, is_last, .. }) = self.places.get(host) else {
            return;
        };
        let Some(first) = addresses.first().filter(|_| !addresses.contains(address) && !is_last) else {
            return;
        };
        let place = Place::Asked {
            home: *home,
            address: Some(*first),
            grant: Some(*grant),
            with_right: false,
            is_sent: false,
        };
        self.places.put(host, place);
        self.settle_places();
    }

    /// After another table, or after it was settled.
    pub(super) fn review(&mut self, is_new: bool) {
        if is_new {
            self.places.hops.clear();
        }
        let hosts: Vec<String> = match is_new {
            true => self.places.hosts.keys().cloned().collect(),
            false => self.places.moving.iter().cloned().collect(),
        };
        for host in hosts {
            if let Some(place) = self.places.get(&host).cloned() {
                self.review_place(&host, place, is_new);
            }
        }
    }

    fn review_place(&mut self, host: &str, place: Place, is_new: bool) {
        let Some(newest) = self.lineage.newest() else { return };
        let home = newest.home(host);
        // Whom the operator has named asks the host itself where it can: with each epoch that is tried anew.
        let is_filtered = is_new && self.rules.filters && newest.filtered(host).is_some();
        match place {
            Place::Borrowed { home: by, address, since, grant, .. } => {
                let same_home = self.lineage.holds_since(since, |table| table.home(host) == Some(by));
                let mine =
                    self.lineage.holds_since(since, |table| table.of_address(address) == Some(self.me));
                if same_home && mine && !is_filtered {
                    return;
                }
                let grant = same_home.then_some(grant);
                self.ask_home(host, Some(address), grant, !same_home);
            }
            Place::Lent { to, address, since, grant, ends } => {
                let same_home = self.lineage.holds_since(since, |table| table.home(host) == Some(self.me));
                let theirs = self.lineage.holds_since(since, |table| table.of_address(address) == Some(to));
                let is_there = newest.step().has(to.no, to.incarnation);
                // A grant that has ended once never revives: whoever had it may have dropped it at that.
                let ends = ends || !same_home || !theirs || is_filtered;
                if home != Some(self.me) {
                    // Whoever has the grant tells the new home. Until all have released this, the right is not here.
                    match self.lineage.is_settled() {
                        true => self.places.remove(host),
                        false => self.places.put(host, Place::Lent { to, address, since, grant, ends: true }),
                    }
                } else if !is_there || ends && self.lineage.is_settled() {
                    self.reopen(host, Some(address));
                } else {
                    self.places.put(host, Place::Lent { to, address, since, grant, ends });
                }
            }
            Place::Open { address } if home != Some(self.me) => {
                let with_right = is_new && self.had_host(host);
                self.places.askers.remove(host);
                self.ask_home(host, address, None, with_right);
            }
            Place::Open { .. } => {}
            Place::Asked { home: asked, .. } if home == Some(asked) => {}
            Place::Asked { address, with_right, is_sent, grant, .. } => {
                // A right that has not left yet goes to the new home, and so does a grant that has not ended.
                self.ask_home(host, address, None, !is_sent && (with_right || grant.is_some()));
            }
        }
    }

    /// Whether the right to a host was here before the newest epoch, and was not granted.
    fn had_host(&self, host: &str) -> bool {
        let thing = Thing::Host(host.to_string());
        !self.lineage.is_settled()
            && self.former.has_right(self.me, &thing, &self.rules)
            && !self.lineage.has_right(self.me, &thing, &self.rules)
    }

    /// Asks a host's home who is to ask it; the right goes along, where it is here.
    pub(super) fn ask_home(
        &mut self,
        host: &str,
        address: Option<IpAddr>,
        grant: Option<u64>,
        with_right: bool,
    ) {
        match self.lineage.newest().and_then(|newest| newest.home(host)) {
            None => self.places.remove(host),
            // A former incarnation of this agent: the next table names this one, and the store is swept again.
            Some(home) if home.no == self.me.no && home != self.me => self.places.remove(host),
            Some(home) if home == self.me => {
                if with_right && !self.lineage.is_settled() {
                    self.lineage.gain(Thing::Host(host.to_string()));
                }
                self.reopen(host, address);
            }
            Some(home) => {
                let place = Place::Asked { home, address, grant, with_right, is_sent: false };
                self.places.put(host, place);
            }
        }
    }

    fn reopen(&mut self, host: &str, hint: Option<IpAddr>) {
        self.places.put(host, Place::Open { address: None });
        self.make(Move::Resolve { host: host.to_string(), hint });
    }

    /// Hosts that are asked by a grant at an address, and whose homes granted them.
    pub(super) fn borrowed_at(&self, address: IpAddr) -> Vec<(String, AgentId, u64)> {
        let borrowed = self.places.hosts.iter().filter_map(|(host, place)| match place {
            Place::Borrowed { home, address: at, grant, .. } if *at == address => {
                Some((host.clone(), *home, *grant))
            }
            _ => None,
        });
        borrowed.collect()
    }

    pub(super) fn sweep_host(&mut self, host: &str, address: Option<IpAddr>) {
        if self.places.get(host).is_some() {
            return;
        }
        let home = self.lineage.newest().and_then(|newest| newest.home(host));
        match (home, address) {
            (Some(home), Some(address)) if home == self.me && self.asker_at(address) != Some(self.me) => {
                self.place(host, address);
            }
            (Some(home), _) if home.no != self.me.no => {
                let with_right = self.had_host(host);
                self.ask_home(host, address, None, with_right);
                self.settle_places();
            }
            _ => {}
        }
    }

    /// Grants what can be granted, and asks homes where nothing is under way any more.
    pub(super) fn settle_places(&mut self) {
        let moving: Vec<String> = self.places.moving.iter().cloned().collect();
        for host in moving.into_iter().filter(|host| !self.is_asking(host)).collect::<Vec<_>>() {
            match self.places.get(&host).cloned() {
                Some(Place::Open { address: Some(address) }) => self.decide(&host, address),
                Some(Place::Asked { home, address, grant, with_right, is_sent: false }) => {
                    let place = Place::Asked { home, address, grant: None, with_right: false, is_sent: true };
                    self.places.put(&host, place);
                    self.tell(home.no, NoteBody::Back { host, address, grant, with_right });
                }
                _ => {}
            }
        }
    }

    /// The home decides who asks a host at an address, if the right to it is here.
    fn decide(&mut self, host: &str, address: IpAddr) {
        let Some(to) = self.asker_at(address) else { return };
        if !self.lineage.has_right(self.me, &Thing::Host(host.to_string()), &self.rules) {
            return;
        }
        if to != self.me && self.claims(host, address) {
            return;
        }
        let hops = self.places.hops.get(host).copied().unwrap_or(0);
        if to == self.me {
            self.places.remove(host);
        } else {
            self.places.granted += 1;
            // More than that come only of grants that were refused unused.
            self.places.hops.insert(host.to_string(), hops.saturating_add(1));
            let (grant, since) = (self.places.granted, self.epoch());
            let is_last = hops >= HOPS_MAX - 1 && self.rules.hops;
            self.places.put(host, Place::Lent { to, address, since, grant, ends: false });
            self.tell(to.no, NoteBody::Grant { host: host.to_string(), address, grant, is_last });
            self.make(Move::Luggage { host: host.to_string(), to: to.no });
        }
        self.answer_askers(host, to.no);
    }

    /// Whoever waits for a word on where a host went gets it; whom it went to has the grant.
    fn answer_askers(&mut self, host: &str, to: NodeNo) {
        for asker in self.places.askers.remove(host).unwrap_or_default() {
            if asker != to {
                self.tell(asker, NoteBody::Placed { host: host.to_string(), by: to });
            }
        }
    }

    /// A grant has come.
    pub(super) fn granted(
        &mut self,
        home: AgentId,
        host: &str,
        address: IpAddr,
        since: Epoch,
        grant: u64,
        is_last: bool,
    ) {
        if let Some(to) = self.given_to(address).filter(|_| since == self.epoch()) {
            self.tell(home.no, NoteBody::Moved { address, to: to.no });
            self.ask_home(host, Some(address), Some(grant), false);
            return;
        }
        let is_coming = since == self.epoch() && self.is_claimed(address);
        let stands = |table: &EpochOwners| {
            table.home(host) == Some(home) && (is_coming || table.of_address(address) == Some(self.me))
        };
        let is_good = self.lineage.counts(since) && self.lineage.holds_since(since, stands);
        if is_good || !self.rules.right_of_epoch {
            self.places.put(host, Place::Borrowed { home, address, since, grant, is_last });
            return;
        }
        // Never used: its home may grant it again at once.
        let is_home = self.lineage.newest().and_then(|newest| newest.home(host)) == Some(home);
        match is_home {
            true => self.ask_home(host, Some(address), Some(grant), false),
            false if self.places.get(host).is_none() => self.ask_home(host, Some(address), None, false),
            false => {}
        }
    }

    /// Somebody gives a host back, or asks where it is.
    pub(super) fn given_back(
        &mut self,
        from: AgentId,
        host: &str,
        hint: Option<IpAddr>,
        grant: Option<u64>,
        with_right: bool,
    ) {
        // Where its home has moved since, the sender finds out and asks again.
        if self.lineage.newest().and_then(|newest| newest.home(host)) != Some(self.me) {
            return;
        }
        if with_right && !self.lineage.is_settled() {
            self.lineage.gain(Thing::Host(host.to_string()));
        }
        match self.places.get(host).cloned() {
            Some(Place::Lent { to, grant: known, .. }) if to == from && grant == Some(known) => {
                self.places.askers.entry(host.to_string()).or_default().insert(from.no);
                self.reopen(host, hint);
            }
            Some(Place::Lent { to, ends: false, .. }) => {
                // Where both notes cross, the grant itself is the answer.
                if to != from {
                    self.tell(from.no, NoteBody::Placed { host: host.to_string(), by: to.no });
                }
            }
            Some(Place::Lent { .. } | Place::Open { .. }) => {
                self.places.askers.entry(host.to_string()).or_default().insert(from.no);
            }
            _ => {
                self.places.askers.entry(host.to_string()).or_default().insert(from.no);
                self.reopen(host, hint);
            }
        }
    }

    /// Its home says who asks a host.
    pub(super) fn told_place(&mut self, host: &str, by: NodeNo) {
        match self.places.get(host) {
            Some(Place::Asked { is_sent: true, .. }) => self.places.remove(host),
            None => {}
            _ => return,
        }
        if by != self.me.no {
            self.make(Move::Luggage { host: host.to_string(), to: by });
        }
    }
}
