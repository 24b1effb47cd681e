//! An agent's rights: what it may ask now, what it stops, what it has released.
//!
//! INVARIANT: an epoch is released only when nothing is under way that its table does not leave to this agent, and no right
//! is passed on before that holds for the thing it is about.

use super::lineage::{Lineage, Thing, owner};
use super::note::{AgentId, Note, NoteBody};
use super::owners::{EpochOwners, NamedOwners};
use super::pins::Pins;
use super::places::{Place, Places};
use super::{HoldRules, HoldSettings, Move};
use crate::table::RoutingTable;
use farol_cluster::route::{Bequest, Epoch, RouteRecord, RouteStep, TableBlob};
use farol_cluster::{Monotonic, NodeNo};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Whether a host may be asked at an address now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may, until [`Holder::deadline`].
    Yes,
    /// Not yet: the lease is out, the table is not settled, or luggage is to come.
    Wait,
    /// At this address instead, which its home has named.
    At(IpAddr),
    /// The host's home is here, but the address belongs to another agent: tell [`Holder::place`].
    Place,
    /// Another agent's; [`Holder::route`] tells whose.
    Elsewhere,
}

#[derive(Clone, Debug)]
struct RequestUnderWay {
    host: String,
    address: IpAddr,
    /// Since when the table gives it to another.
    lost: Option<Monotonic>,
}

/// What a dead agent had, and since when it is known.
#[derive(Clone, Debug)]
struct Inheritance {
    bequest: Bequest,
    tables: Vec<EpochOwners>,
    since: Monotonic,
}

/// One agent's rights and duties.
#[derive(Clone, Debug)]
pub struct Holder {
    pub(super) me: AgentId,
    settings: HoldSettings,
    pub(super) rules: HoldRules,
    lease: Option<Monotonic>,
    /// Files by name.
    files: BTreeMap<String, Arc<NamedOwners>>,
    pub(super) lineage: Lineage,
    /// As it was before the newest epoch.
    pub(super) former: Lineage,
    pub(super) places: Places,
    pub(super) pins: Pins,
    /// Addresses that were lost under this epoch and are to be freed for their new owners.
    freeing: BTreeMap<IpAddr, NodeNo>,
    requests: BTreeMap<Ticket, RequestUnderWay>,
    inheritances: Vec<Inheritance>,
    released: Epoch,
    next_ticket: u64,
    moves: VecDeque<Move>,
}

impl Holder {
    pub fn new(me: AgentId, settings: HoldSettings, rules: HoldRules) -> Holder {
        Holder {
            me,
            settings,
            rules,
            lease: None,
            files: BTreeMap::new(),
            lineage: Lineage::default(),
            former: Lineage::default(),
            places: Places::new(me.incarnation),
            pins: Pins::default(),
            freeing: BTreeMap::new(),
            requests: BTreeMap::new(),
            inheritances: Vec::new(),
            released: Epoch(0),
            next_ticket: 1,
            moves: VecDeque::new(),
        }
    }

    pub fn me(&self) -> AgentId {
        self.me
    }

    /// The newest epoch that it goes by.
    pub fn epoch(&self) -> Epoch {
        self.lineage.epoch()
    }

    /// Whether every member has released it.
    pub fn is_settled(&self) -> bool {
        self.lineage.is_settled()
    }

    /// The newest epoch under which nothing that it has lost is under way any more; belongs into the node's report.
    pub fn released(&self) -> Epoch {
        self.released
    }

    /// Until when the node may act for the cluster, as its member says.
    pub fn lease(&mut self, until: Option<Monotonic>) {
        self.lease = until;
    }

    /// Until when requests may go on: to be asked again and again, since renewals extend it.
    pub fn deadline(&self) -> Option<Monotonic> {
        self.lease
    }

    /// What to carry out now, in this order.
    pub fn moves(&mut self) -> Vec<Move> {
        self.moves.drain(..).collect()
    }

    /// Files that it must have before it can go by a record.
    pub fn lacks(&self, record: &RouteRecord) -> Vec<TableBlob> {
        let bequeathed = record.bequests.iter().flat_map(|bequest| &bequest.steps);
        let named = record.steps().chain(bequeathed).filter_map(|step| step.table.as_ref());
        let mut lacking: Vec<TableBlob> =
            named.filter(|file| !self.files.contains_key(&file.name)).cloned().collect();
        lacking.dedup();
        lacking
    }

    /// A file that was fetched and checked against its digest.
    pub fn learn(&mut self, file: &TableBlob, table: &RoutingTable) {
        self.files.insert(file.name.clone(), Arc::new(NamedOwners::new(table)));
    }

    /// The record of who crawls what; false where it lacks a file and goes on as before.
    pub fn hear(&mut self, record: &RouteRecord, now: Monotonic) -> bool {
        if record.epoch() < self.epoch() || !self.lacks(record).is_empty() {
            return record.epoch() < self.epoch();
        }
        let is_new = record.epoch() > self.epoch();
        self.inherit(record, now);
        if !is_new && (self.lineage.is_settled() || !record.settled) {
            return true;
        }
        let steps = record.steps().map(|step| self.owners(step, record.seed)).collect();
        let lineage = Lineage::new(steps, record.settled, &self.lineage);
        let before = std::mem::replace(&mut self.lineage, lineage);
        if is_new {
            self.former = before;
            self.freeing.clear();
        }
        self.pins.hear(is_new, record, self.lineage.is_settled());
        self.review(is_new);
        for ticket in self.requests.keys().copied().collect::<Vec<_>>() {
            let request = &self.requests[&ticket];
            let is_lost = self.has_all(&request.host, request.address) != Verdict::Yes;
            if let Some(request) = self.requests.get_mut(&ticket) {
                request.lost = is_lost.then(|| request.lost.unwrap_or(now));
            }
        }
        let bequeathed = record.bequests.iter().flat_map(|bequest| &bequest.steps);
        let named = record.steps().chain(bequeathed).filter_map(|step| step.table.as_ref());
        let names: Vec<&String> = named.map(|file| &file.name).collect();
        self.files.retain(|name, _| names.contains(&name));
        self.tick(now);
        true
    }

    fn owners(&self, step: &RouteStep, seed: u64) -> EpochOwners {
        let file = step.table.as_ref().and_then(|file| self.files.get(&file.name));
        EpochOwners::new(step, seed, file.cloned())
    }

    fn inherit(&mut self, record: &RouteRecord, now: Monotonic) {
        self.inheritances.retain(|known| record.bequests.contains(&known.bequest));
        for bequest in &record.bequests {
            if self.inheritances.iter().any(|known| known.bequest == *bequest) {
                continue;
            }
            let tables = bequest.steps.iter().map(|step| self.owners(step, record.seed)).collect();
            self.inheritances.push(Inheritance { bequest: bequest.clone(), tables, since: now });
        }
    }

    /// Whether a host may be asked at an address now.
    pub fn may(&self, host: &str, address: IpAddr, now: Monotonic) -> Verdict {
        let is_leased = self.lease.is_some_and(|until| now < until) || !self.rules.lease;
        if !is_leased {
            return Verdict::Wait;
        }
        match self.has_all(host, address) {
            Verdict::Yes if self.rules.luggage_awaited && self.waits(host, address, now) => Verdict::Wait,
            verdict => verdict,
        }
    }

    /// To be called right before a request is written: whatever was true before may not be any more.
    ///
    /// # Errors
    /// The verdict, where it is another than yes.
    pub fn begin(&mut self, host: &str, address: IpAddr, now: Monotonic) -> Result<Ticket, Verdict> {
        match self.may(host, address, now) {
            Verdict::Yes => {
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                let request = RequestUnderWay { host: host.to_string(), address, lost: None };
                self.requests.insert(ticket, request);
                Ok(ticket)
            }
            verdict => Err(verdict),
        }
    }

    /// A request has ended, and its connection is closed or idle.
    pub fn end(&mut self, ticket: Ticket, now: Monotonic) {
        self.requests.remove(&ticket);
        self.tick(now);
    }

    /// Requests whose connections are to be closed now; each must still be [ended](Holder::end).
    pub fn overdue(&self, now: Monotonic) -> Vec<Ticket> {
        let is_out = self.lease.is_none_or(|until| now >= until) && self.rules.lease;
        let is_over = |request: &RequestUnderWay| {
            is_out || request.lost.is_some_and(|lost| now.since(lost) >= self.settings.close_after_ms)
        };
        self.requests.iter().filter(|(_, request)| is_over(request)).map(|(ticket, _)| *ticket).collect()
    }

    /// Sends what waits for requests to end, and releases the epoch when nothing lost is under way any more.
    pub fn tick(&mut self, _now: Monotonic) {
        if self.epoch() == Epoch(0) {
            return;
        }
        let is_idle = |at: &IpAddr| self.requests.values().all(|request| request.address != *at);
        let free: Vec<IpAddr> =
            self.freeing.keys().filter(|at| !self.rules.drained || is_idle(at)).copied().collect();
        for address in free {
            if let Some(to) = self.freeing.remove(&address) {
                self.tell(to, NoteBody::Free { address });
            }
        }
        self.give_up_claimed();
        self.settle_places();
        if !self.rules.drained || self.requests.values().all(|request| request.lost.is_none()) {
            self.released = self.epoch();
        }
    }

    /// One of the hosts that its store has, and where it was asked last: once after each new epoch, once after that was
    /// settled, and after luggage has come.
    pub fn sweep(&mut self, host: &str, address: Option<IpAddr>) {
        let Some(newest) = self.lineage.newest() else { return };
        if let Some(address) = address {
            let thing = Thing::Address(address);
            let lost = self.former.has_right(self.me, &thing, &self.rules)
                && !self.lineage.has_right(self.me, &thing, &self.rules);
            // Where it was given up for the epoch before, another may have something under way: that waits for settlement.
            let to = newest.of_address(address).filter(|to| *to != self.me && !self.pins.is_given(address));
            if let Some(to) = to.filter(|_| lost && !self.lineage.is_settled()) {
                self.freeing.insert(address, to.no);
            }
        }
        self.sweep_host(host, address);
    }

    /// Whether nothing is here or on its way that is others'; the shell's store and outbox must be empty as well.
    pub fn is_empty_handed(&self) -> bool {
        self.requests.is_empty() && self.freeing.is_empty() && self.places.is_empty()
    }

    /// A note, in the order of its sender; false where it must wait until a table has come that the sender knew.
    pub fn heard(&mut self, from: AgentId, note: &Note, now: Monotonic) -> bool {
        if note.epoch > self.epoch() {
            return false;
        }
        let Some(newest) = self.lineage.newest() else { return false };
        let is_of_now = note.epoch == self.epoch() || !self.rules.right_of_epoch;
        let is_member = newest.step().has(from.no, from.incarnation);
        match &note.body {
            NoteBody::Free { address } => {
                let thing = Thing::Address(*address);
                // Whoever never had it has nothing to free; where that is not known the epoch's settling gives it.
                let was_theirs = self.lineage.gave(from, &thing)
                    || !self.rules.right_awaited
                    || !self.rules.right_of_epoch;
                if is_of_now && is_member && was_theirs && owner(newest, &thing) == Some(self.me) {
                    self.lineage.gain(thing);
                }
            }
            NoteBody::Grant { host, address, grant, is_last } => {
                self.granted(from, host, *address, note.epoch, *grant, *is_last);
            }
            NoteBody::Back { host, address, grant, with_right } => {
                self.given_back(from, host, *address, *grant, *with_right && is_of_now && is_member);
            }
            NoteBody::Placed { host, by } => self.told_place(host, *by),
            NoteBody::Claim { host, address } if is_of_now => self.claimed(from, host, *address),
            NoteBody::Moved { address, to } if is_of_now => self.told_moved(from, *address, *to),
            NoteBody::Claim { .. } | NoteBody::Moved { .. } => {}
        }
        self.tick(now);
        true
    }

    pub(super) fn tell(&mut self, to: NodeNo, body: NoteBody) {
        let note = Note { epoch: self.epoch(), body };
        self.moves.push_back(Move::Tell { to, note });
    }

    pub(super) fn make(&mut self, next: Move) {
        self.moves.push_back(next);
    }

    /// Whether requests to an address are under way.
    pub(super) fn is_asking_at(&self, address: IpAddr) -> bool {
        self.rules.drained && self.requests.values().any(|request| request.address == address)
    }

    /// Whether requests to a host are under way.
    pub(super) fn is_asking(&self, host: &str) -> bool {
        self.rules.drained && self.requests.values().any(|request| request.host == host)
    }

    /// What the tables and grants say, whatever the lease.
    fn has_all(&self, host: &str, address: IpAddr) -> Verdict {
        let Some(newest) = self.lineage.newest() else { return Verdict::Wait };
        if !newest.step().has(self.me.no, self.me.incarnation) && self.rules.incarnation {
            return Verdict::Wait;
        }
        let right = |thing: &Thing| self.lineage.has_right(self.me, thing, &self.rules);
        let is_mine = self.asker_at(address) == Some(self.me) || !self.rules.address;
        if !self.rules.home {
            return match (is_mine, self.has_address(address)) {
                (true, true) => Verdict::Yes,
                (true, false) => Verdict::Wait,
                (false, _) => Verdict::Elsewhere,
            };
        }
        match self.places.get(host) {
            Some(Place::Borrowed { address: at, .. }) if *at != address && self.rules.address => {
                return Verdict::At(*at);
            }
            Some(Place::Borrowed { .. }) => {}
            Some(Place::Lent { .. }) => return Verdict::Elsewhere,
            Some(Place::Open { .. } | Place::Asked { .. }) => return Verdict::Wait,
            None if newest.home(host) != Some(self.me) => return Verdict::Elsewhere,
            None if !right(&Thing::Host(host.to_string())) => return Verdict::Wait,
            None if !is_mine => return Verdict::Place,
            None => {}
        }
        match self.has_address(address) || !self.rules.address {
            true => Verdict::Yes,
            false => Verdict::Wait,
        }
    }

    /// Whether what a dead agent had is on its way, so that anybody may bring it.
    pub(super) fn awaits_backups(&self) -> bool {
        !self.inheritances.is_empty()
    }

    /// Whether something may still come that a dead agent had for a host, or for others at its address.
    fn waits(&self, host: &str, address: IpAddr, now: Monotonic) -> bool {
        self.inheritances.iter().any(|one| {
            let had = |table: &EpochOwners| {
                let is_its = |owner: Option<AgentId>| owner.is_some_and(|owner| owner.no == one.bequest.no);
                is_its(table.of_address(address))
                    || is_its(table.filtered(host))
                    || self.pins.was_given(address, one.bequest.no)
            };
            now.since(one.since) < self.settings.inherit_max_ms && one.tables.iter().any(had)
        })
    }
}
