//! Robots.txt files that are elsewhere: the host that has one is asked for it in its own turn.
//!
//! A redirect is a request to whoever it leads to, so it takes the same road as any other: the target becomes a host of
//! the frontier (a *guest*, if it was not here), is resolved, stands in its address's line, and rests. Nobody can have us
//! ask a third party faster than its own pages would be.
//!
//! INVARIANT: a host waits for at most one errand, which is told from all others by its serial number, and no longer
//! than [`limits::ROBOTS_CHAIN_MAX`]. An errand whose host no longer waits is dropped, not run.

use super::{Frontier, plausible};
use crate::domains::DomainId;
use crate::hosts::{AwaitedErrand, Errand, HostEntry, HostId, HostMemory, HostState};
use crate::lease::{MovedRobots, Outcome};
use crate::limits;
use farol_base::{CanonicalUrl, Host, Timestamp};
use std::time::Duration;

impl Frontier {
    /// Sends for the robots.txt of a host, `hops` redirects away. Where nobody can be sent, it counts as unavailable.
    pub(super) fn send_errand(
        &mut self,
        now: Timestamp,
        sender: HostId,
        url: CanonicalUrl,
        memory: HostMemory,
        hops: u8,
    ) {
        self.epoch += 1;
        let serial = self.epoch;
        let Some(entry) = self.hosts.get_mut(sender) else { return };
        let begun = entry.awaited.map(|awaited| awaited.deadline);
        let deadline = begun.unwrap_or(now + limits::ROBOTS_CHAIN_MAX);
        entry.awaited = Some(AwaitedErrand { serial, deadline });
        let (of, from) = (entry.host.clone(), entry.domain);
        let target = if deadline > now { self.errand_target(now, &url.host(), memory) } else { None };
        let Some((target, at)) = target else { return self.errand_failed(now, sender, serial) };
        let foreign = from != at;
        if foreign && self.domains.foreign(at) >= limits::FOREIGN_ROBOTS_MAX {
            self.place_if_waiting(now, target);
            return self.errand_failed(now, sender, serial);
        }
        if foreign {
            self.domains.foreign_came(at);
        }
        if let Some(entry) = self.hosts.get_mut(target) {
            let moved = MovedRobots { of, url, hops, serial };
            entry.errands.push_back(Errand { moved, sender, foreign });
        }
        self.place_if_waiting(now, target);
        self.place(now, sender);
    }

    /// The host that an errand goes to, and its domain; `None` where it cannot be asked now.
    fn errand_target(
        &mut self,
        now: Timestamp,
        host: &Host,
        memory: HostMemory,
    ) -> Option<(HostId, DomainId)> {
        if let Some(id) = self.hosts.find(host) {
            let entry = self.hosts.get(id)?;
            let is_reachable = !matches!(entry.state(), HostState::Unreachable | HostState::Refused);
            return (is_reachable && !entry.ghost).then_some((id, entry.domain));
        }
        let memory = plausible(now, memory);
        let is_near = memory.not_before < now + limits::ROBOTS_CHAIN_MAX;
        if !is_near || self.guests >= self.limits.guests_max() {
            return None;
        }
        let domain = self.domains.join(host.registrable_domain());
        let id = self.hosts.insert(now, host, domain, memory);
        self.guests += 1;
        let entry = self.hosts.get_mut(id)?;
        entry.guest = true;
        Some((id, domain))
    }

    /// Brings a host on that has nothing to do but wait for pages: it has an errand now.
    fn place_if_waiting(&mut self, now: Timestamp, id: HostId) {
        let Some(entry) = self.hosts.get(id) else { return };
        let has_no_place = entry.state() == HostState::Resting && entry.alarm.is_none();
        if has_no_place || matches!(entry.state(), HostState::Refilling | HostState::Sleeping) {
            self.place(now, id);
        }
    }

    /// The next errand of a host for which somebody still waits.
    pub(super) fn next_errand(&mut self, now: Timestamp, id: HostId) -> Option<MovedRobots> {
        loop {
            let entry = self.hosts.get_mut(id)?;
            let (errand, domain) = (entry.errands.pop_front()?, entry.domain);
            if errand.foreign {
                self.domains.foreign_went(domain);
            }
            let awaited = self.hosts.get(errand.sender).and_then(|sender| sender.awaited);
            let serial = errand.moved.serial;
            if awaited.is_some_and(|awaited| awaited.serial == serial && awaited.deadline > now) {
                return Some(errand.moved);
            }
        }
    }

    /// An errand was run; says what it means for the host that waits, if it still does.
    pub(super) fn errand_done(
        &mut self,
        now: Timestamp,
        messenger: HostId,
        moved: MovedRobots,
        outcome: Outcome,
    ) {
        let no_answer = matches!(outcome, Outcome::Failed { transient: true });
        self.messenger_returns(now, messenger, no_answer);
        let waits = |entry: &HostEntry| entry.awaited.is_some_and(|awaited| awaited.serial == moved.serial);
        let sender = self.hosts.find(&moved.of);
        if let Some(sender) = sender.filter(|id| self.hosts.get(*id).is_some_and(waits)) {
            let outcome = match outcome {
                Outcome::RobotsMoved { to, memory } => {
                    self.send_errand(now, sender, to, *memory, moved.hops.saturating_add(1));
                    None
                }
                Outcome::Robots { .. } | Outcome::NotAsked => Some(outcome),
                Outcome::RobotsUnavailable { .. } | Outcome::Throttled { .. } => Some(outcome),
                Outcome::Failed { .. } | Outcome::Fetched { .. } => {
                    Some(Outcome::RobotsUnavailable { retry_after: None, download: Duration::ZERO })
                }
            };
            if let Some(outcome) = outcome {
                self.stop_waiting(sender);
                self.robots_done(now, sender, outcome);
            }
        }
    }

    /// Nobody could be sent, or nobody came back in time.
    pub(super) fn errand_failed(&mut self, now: Timestamp, sender: HostId, serial: u64) {
        let waits = |entry: &HostEntry| entry.awaited.is_some_and(|awaited| awaited.serial == serial);
        if self.hosts.get(sender).is_some_and(waits) {
            self.stop_waiting(sender);
            let unavailable = Outcome::RobotsUnavailable { retry_after: None, download: Duration::ZERO };
            self.robots_done(now, sender, unavailable);
        }
    }

    /// The host cannot be asked: whoever waits for an errand of its need not wait.
    pub(super) fn fail_errands(&mut self, now: Timestamp, id: HostId) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        let (errands, domain) = (std::mem::take(&mut entry.errands), entry.domain);
        for errand in errands {
            if errand.foreign {
                self.domains.foreign_went(domain);
            }
            self.errand_failed(now, errand.sender, errand.moved.serial);
        }
        // A guest that nobody waits for leaves, however long it should rest.
        if self.hosts.get(id).is_some_and(|entry| entry.guest) {
            self.place(now, id);
        }
    }

    fn stop_waiting(&mut self, id: HostId) {
        if let Some(entry) = self.hosts.get_mut(id) {
            entry.awaited = None;
        }
    }
}
