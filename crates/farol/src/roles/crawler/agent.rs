//! A crawl that is one of several agents: it asks only servers that are its own, and lets others have theirs.
//!
//! The life of an epoch here: a new table comes, and from that instant nothing is asked that it takes away, nor what it gives
//! anew. Requests under way end. The URL store's hosts are gone through once, and those that are another's go to it with
//! all that is known of them ([`Core::sweep`]). When the others have told that they have them, the epoch is *released*;
//! when all agents have, it is settled, and what it gives anew may be asked.
//!
//! INVARIANT: no request is made to a host, nor at an address, that [`Routing::may_ask`] does not allow right before it is
//! made, and none while this agent cannot prove that it is a member. A host that is another's leaves with everything
//! that is known of it before anybody else asks it.
//!
//! [`Routing::may_ask`]: crate::exchange::route::Routing::may_ask

use super::core::{Core, Event};
use crate::archive::page_orders::OrderReply;
use crate::exchange::orders::CrawlOrder;
use crate::exchange::route::Routing;
use crate::exchange::{Exchange, ExchangeDesk};
use anyhow::Result;
use farol_base::{Clock, Host, SystemClock, Timestamp};
use farol_cluster::NodeNo;
use farol_frontier::{Disposition, Lease, Outcome, Task};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Hosts of the URL store that are looked at in one turn.
const SWEPT: usize = 200;
/// A host that may not be asked yet comes up again after this.
const PUT_OFF: Duration = Duration::from_secs(2);

/// What makes a crawl an agent.
pub struct AgentWork {
    pub desk: Arc<ExchangeDesk>,
    /// Whether it may act for the cluster at this instant.
    pub is_member: Arc<dyn Fn() -> bool + Send + Sync>,
    pub sweep: Sweep,
}

/// The walk through the URL store after a new table.
#[derive(Debug, Default)]
pub struct Sweep {
    epoch: u64,
    /// The next host, in the order of the URL store.
    at: usize,
    /// Hosts that had to go in this pass, or could not yet.
    found: usize,
    is_done: bool,
    /// Batches that others must have before the epoch is released.
    awaited: BTreeMap<NodeNo, u64>,
}

/// Where a lease leads.
enum Asks {
    Yes,
    NotYet,
    /// It is another agent's.
    Other(NodeNo),
}

impl Core {
    /// Whether servers may be asked at all.
    pub fn may_ask(&mut self) -> bool {
        let Some(agent) = &self.agent else { return true };
        let is_free = (agent.is_member)() && !agent.desk.is_full.load(Ordering::SeqCst);
        is_free && self.routing().is_some()
    }

    fn routing(&mut self) -> Option<Arc<Routing>> {
        self.followers.exchange.as_mut()?.routing()
    }

    /// Looks up hosts of which URLs wait to learn whose they are.
    pub fn locate(&mut self) {
        let Some(exchange) = &mut self.followers.exchange else { return };
        while let Some(host) = exchange.next_to_locate() {
            let (sender, visitor) = (self.sender.clone(), self.visitor.clone());
            self.runtime.spawn(async move {
                let answer = visitor.fetcher.resolve(&host).await;
                // The core has ended when nobody listens; then the URLs come again from where they came.
                let _ = sender.send(Event::Located { host, answer });
            });
        }
    }

    /// Where a host is by another agent's word.
    pub fn pinned_address(&self, host: &Host) -> Option<IpAddr> {
        self.followers.exchange.as_ref()?.pinned_address(host)
    }

    fn asks(&mut self, host: &Host, address: IpAddr) -> Asks {
        let Some(routing) = self.routing() else { return Asks::NotYet };
        match routing.owner(host.as_str(), Some(address)) {
            Some(owner) if owner != routing.me => Asks::Other(owner),
            Some(_) if routing.may_ask(host.as_str(), address) => Asks::Yes,
            _ => Asks::NotYet,
        }
    }

    /// A host was found at an address where it is another agent's: it goes there, and leaves here.
    pub fn is_anothers(&mut self, host: &Host, address: IpAddr) -> Result<bool> {
        if self.agent.is_none() {
            return Ok(false);
        }
        let Asks::Other(owner) = self.asks(host, address) else { return Ok(false) };
        self.hand_over(&[(host.clone(), owner, Some(address))])?;
        Ok(true)
    }

    /// The lease, where its host may be asked by this agent; otherwise the host waits, or goes to its owner.
    pub fn own(&mut self, now: Timestamp, lease: Lease) -> Result<Option<Lease>> {
        if self.agent.is_none() {
            return Ok(Some(lease));
        }
        let (host, address) = (lease.host().clone(), lease.address());
        let asks = self.asks(&host, address);
        if matches!(asks, Asks::Yes) {
            return Ok(Some(lease));
        }
        if matches!(lease.task(), Task::MovedRobots(_)) {
            // Rules that lie with another agent's server cannot be read here: until they can, they forbid.
            let _finished = self.frontier.done(now, lease, Outcome::Failed { transient: true });
            return Ok(None);
        }
        self.put_off(now, lease)?;
        if let Asks::Other(owner) = asks {
            self.hand_over(&[(host, owner, Some(address))])?;
        }
        Ok(None)
    }

    /// Gives a lease back without an answer: the host comes up again after its usual rest, since it may have been asked, and
    /// nothing is held against it.
    pub fn put_off(&mut self, now: Timestamp, lease: Lease) -> Result<()> {
        let host = lease.host().clone();
        if let Some(mut view) = self.frontier.host(&host) {
            let rested = now + self.frontier.delay_of(&view.memory);
            view.memory.not_before = view.memory.not_before.max(rested);
            self.followers.hosts.remember(&host, &view.memory);
        }
        let pages = self.frontier.remove_host(&host);
        self.give_back(pages)?;
        if let Disposition::GivenBack(page) =
            self.frontier.done(now, lease, Outcome::Failed { transient: true })
        {
            self.give_back(vec![page])?;
        }
        self.followers.hosts.leave(&host);
        self.followers.urls.release_host_until(&host, now + PUT_OFF);
        Ok(())
    }

    /// Sends all that is known of hosts to their owners.
    fn hand_over(&mut self, hosts: &[(Host, NodeNo, Option<IpAddr>)]) -> Result<()> {
        for (host, ..) in hosts {
            if let Some(view) = self.frontier.host(host) {
                self.followers.hosts.remember(host, &view.memory);
            }
            let pages = self.frontier.remove_host(host);
            self.give_back(pages)?;
        }
        self.followers.pass_on(hosts, self.archive.end())
    }

    /// Goes through the hosts that are known here, some at a time, after a new table: those that are another's go to it. When
    /// that is done and the others have them, the epoch is released.
    pub fn sweep(&mut self) -> Result<()> {
        let Some(routing) = self.routing() else { return Ok(()) };
        let Some(agent) = &mut self.agent else { return Ok(()) };
        if agent.sweep.epoch != routing.epoch {
            agent.sweep = Sweep { epoch: routing.epoch, ..Sweep::default() };
        }
        let (at, is_done) = (agent.sweep.at, agent.sweep.is_done);
        let is_gone = !routing.has(routing.me);
        if is_done {
            let orphans = self.followers.sort_orphans(self.archive.end())?;
            let is_open = self.followers.exchange.as_ref().is_some_and(Exchange::is_open);
            let Some(agent) = &mut self.agent else { return Ok(()) };
            let boxes = agent.desk.outboxes.lock();
            // Who leaves takes nothing along that is another's.
            let keeps = orphans || is_open || boxes.waiting() > 0;
            agent.desk.is_busy.store(is_gone && keeps, Ordering::SeqCst);
            let is_taken =
                |(to, number): (&NodeNo, &u64)| !routing.is_member(*to) || boxes.has_taken(*to, *number);
            if !orphans && agent.sweep.awaited.iter().all(is_taken) {
                agent.desk.released.store(routing.epoch, Ordering::SeqCst);
                agent.desk.leaving.store(0, Ordering::Relaxed);
            }
            return Ok(());
        }
        agent.desk.is_busy.store(is_gone, Ordering::SeqCst);
        if is_gone && at == 0 {
            // Hosts that were met a moment ago are not listed yet; elsewhere they go when they come up.
            self.followers.urls.compact_all()?;
        }
        let busy: HashSet<Host> = self.under_way.hosts().cloned().collect();
        let hosts = self.followers.urls.hosts(at, SWEPT, "");
        let (count, mut waits, mut leaving) = (hosts.len(), 0, Vec::new());
        for (host, _) in hosts {
            let known = self.frontier.host(&host).and_then(|view| view.address);
            let address = known.or_else(|| self.followers.hosts.row(&host)?.address);
            match routing.owner(host.as_str(), address).filter(|owner| *owner != routing.me) {
                Some(_) if busy.contains(&host) => waits += 1,
                Some(owner) => leaving.push((host, owner, address)),
                None => {}
            }
        }
        if !leaving.is_empty() {
            self.hand_over(&leaving)?;
        }
        let Some(agent) = &mut self.agent else { return Ok(()) };
        agent.desk.leaving.fetch_add(leaving.len() as u64, Ordering::Relaxed);
        let sweep = &mut agent.sweep;
        sweep.found += waits + leaving.len();
        // Hosts that went have left their places to those behind them.
        sweep.at = if leaving.is_empty() { at + count } else { at };
        if count > 0 {
            return Ok(());
        }
        // Requests to others' hosts must have ended, also of hosts that were met for the first time meanwhile.
        let is_foreign =
            |lease: &Lease| routing.owner(lease.host().as_str(), Some(lease.address())) != Some(routing.me);
        let ends = sweep.found == 0 && !self.under_way.leases().any(is_foreign);
        (sweep.at, sweep.found) = (0, 0);
        if ends {
            self.followers.settle(self.archive.end())?;
            let Some(agent) = &mut self.agent else { return Ok(()) };
            if !agent.desk.is_full.load(Ordering::SeqCst) {
                agent.sweep.awaited = agent.desk.outboxes.lock().kept();
                agent.sweep.is_done = true;
            }
        }
        Ok(())
    }

    /// Ends the visits under way where this agent cannot prove any more that it is a member.
    pub fn stop_if_no_member(&mut self) -> Result<()> {
        let is_member = self.agent.as_ref().is_none_or(|agent| (agent.is_member)());
        if is_member || self.under_way.is_empty() {
            return Ok(());
        }
        tracing::warn!("no longer sure to be a member of the cluster: requests under way are dropped");
        for lease in self.under_way.abandon() {
            self.put_off(SystemClock.now(), lease)?;
        }
        Ok(())
    }

    /// A batch was taken: the next may come.
    pub fn received(&mut self) {
        if let Some(agent) = &self.agent {
            agent.desk.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Carries an order of the whole crawl out.
    pub fn told(&mut self, number: u64, order: &CrawlOrder, reply: &SyncSender<OrderReply>) -> Result<()> {
        if let CrawlOrder::RemoveHost(host) = order
            && let Ok(host) = Host::parse(host)
        {
            self.frontier.remove_host(&host);
        }
        let (archive, now) = (self.archive.reader(), SystemClock.now());
        let interpreter = &self.visitor.interpreter;
        let (done, told) = self.followers.carry_out(number, order, now, &archive, interpreter)?;
        for host in told.again {
            self.come_again(&host)?;
        }
        // Whoever ordered may have gone meanwhile.
        let _ = reply.send(done);
        Ok(())
    }
}
