//! A crawl that is one of several agents: it asks only what is its own, and lets others have theirs.
//!
//! Who may ask what is decided by [`farol_partition::hold`]; this is its wiring to the crawl. On the crawl's thread it is
//! told the lease, the table, words of others and answers of DNS, and what it wants done is carried out ([`super::luggage`]).
//! On the threads that ask it is looked at right before each request, and while that goes on. After a new table, and once
//! that is settled, all hosts of the URL store are gone through ([`super::sweep`]).
//!
//! INVARIANT: no request is written that [`Rights::begin`] does not allow at that moment, and none goes on without a lease.

use super::core::{Core, Event};
use super::luggage::Handing;
use super::sweep::Sweep;
use crate::archive::page_orders::OrderReply;
use crate::archive::{Incoming, Received, source};
use crate::exchange::ExchangeDesk;
use crate::exchange::gate::BackupGate;
use crate::exchange::orders::CrawlOrder;
use crate::exchange::packer::Packer;
use crate::exchange::rights::Rights;
use anyhow::Result;
use farol_base::{Clock, Host, SystemClock, Timestamp};
use farol_cluster::route::TableBlob;
use farol_cluster::{NodeNo, RouteRecord};
use farol_fabric::blobs::Blobs;
use farol_fetch::FetchError;
use farol_frontier::{Disposition, Lease, Outcome, Task};
use farol_partition::RoutingTable;
use farol_partition::geo::loc;
use farol_partition::hold::{AgentId, Verdict};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How often rights, words and luggage are looked at.
const TURN_EVERY: Duration = Duration::from_millis(100);
/// A host that may not be asked yet comes up again after this.
pub const PUT_OFF: Duration = Duration::from_secs(2);
/// A word that names a table which nobody publishes is left out after this.
const NOTE_WAIT_MAX: Duration = Duration::from_secs(120);

/// Files of routing tables; `None` where one cannot be had.
pub type FileSource = Arc<dyn Fn(&TableBlob) -> Option<RoutingTable> + Send + Sync>;

/// What an agent's crawl needs of its cluster.
#[derive(Clone)]
pub struct AgentSources {
    pub desk: Arc<ExchangeDesk>,
    pub rights: Arc<Rights>,
    /// The newest record of who crawls what.
    pub record: Arc<dyn Fn() -> Option<Arc<RouteRecord>> + Send + Sync>,
    /// Files that it names.
    pub files: FileSource,
    /// Who this node is now, where it is a member.
    pub present: Arc<dyn Fn() -> Option<AgentId> + Send + Sync>,
    /// Whether an agent is gone for good, or until it comes back as another incarnation.
    pub is_gone: Arc<dyn Fn(NodeNo) -> bool + Send + Sync>,
    pub blobs: Option<Arc<Blobs>>,
    pub gate: Arc<BackupGate>,
}

/// What makes a crawl an agent.
pub struct AgentWork {
    pub sources: AgentSources,
    pub packer: Packer,
    pub sweep: Sweep,
    pub handing: Handing,
    untaken: Untaken,
    turned: Instant,
}

/// Batches that were not taken in yet.
#[derive(Default)]
struct Untaken {
    batches: VecDeque<Received>,
    /// Notes of the first one that were taken.
    taken: usize,
    /// Since when its next note waits for a table.
    waits: Option<Instant>,
}

impl AgentWork {
    pub fn new(sources: AgentSources, packer: Packer) -> AgentWork {
        AgentWork {
            sources,
            packer,
            sweep: Sweep::default(),
            handing: Handing::default(),
            untaken: Untaken::default(),
            turned: Instant::now(),
        }
    }

    /// Nothing from others waits to be taken in.
    pub fn has_read_all(&self) -> bool {
        self.untaken.batches.is_empty() && self.sources.desk.under_way.load(Ordering::SeqCst) == 0
    }
}

impl Core {
    pub fn rights(&self) -> Option<Arc<Rights>> {
        self.agent.as_ref().map(|agent| agent.sources.rights.clone())
    }

    /// Whether servers may be asked at all.
    pub fn may_ask(&self) -> bool {
        self.agent.as_ref().is_none_or(|agent| {
            let AgentSources { desk, rights, .. } = &agent.sources;
            rights.is_leased() && !desk.is_full.load(Ordering::SeqCst)
        })
    }

    /// Everything that an agent does beside fetching.
    pub fn agent_turn(&mut self) -> Result<()> {
        self.break_off_overdue()?;
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.turned.elapsed() >= TURN_EVERY) else {
            return Ok(());
        };
        agent.turned = Instant::now();
        let sources = &agent.sources;
        if let Some(me) = (sources.present)().filter(|me| *me != sources.rights.me()) {
            tracing::info!("a member again, as {me:?}: rights begin anew");
            sources.rights.begin_anew(me);
            agent.sweep = Sweep::default();
            agent.handing = Handing::default();
            for lease in self.under_way.abandon() {
                self.put_off(SystemClock.now(), lease)?;
            }
        }
        let Some(AgentWork { sources, .. }) = &self.agent else { return Ok(()) };
        sources.rights.tick((sources.record)().as_ref(), &*sources.files);
        self.followers.now = SystemClock.now();
        self.carry_out()?;
        self.take_waiting()?;
        self.take_whole_hosts()?;
        self.forget_handed()?;
        self.sweep()
    }

    /// Whether a host may be asked at an address, and at which; `None` where another agent is to ask it, which has been seen
    /// to.
    pub fn rightful(
        &mut self,
        host: &Host,
        answer: Result<Vec<IpAddr>, FetchError>,
    ) -> Result<Option<Result<IpAddr, FetchError>>> {
        let Some(rights) = self.rights() else {
            return Ok(Some(answer.map(|addresses| addresses[0])));
        };
        if rights.pinned(host).is_some() {
            if let Ok(addresses) = &answer {
                rights.resolved(host, addresses);
                self.carry_out()?;
            }
            return match rights.pinned(host) {
                Some(pinned) => Ok(Some(Ok(pinned))),
                None => self.send_off(host).map(|()| None),
            };
        }
        // The same one for all who ask, in whatever order DNS names them.
        let address = match answer.map(|addresses| addresses.into_iter().min()) {
            Ok(Some(address)) => address,
            Ok(None) => return self.send_off(host).map(|()| None),
            Err(error) => return Ok(Some(Err(error))),
        };
        match rights.may(host, address) {
            Verdict::Yes | Verdict::Wait => Ok(Some(Ok(address))),
            Verdict::At(pinned) => Ok(Some(Ok(pinned))),
            Verdict::Place => {
                if rights.is_held(address) {
                    self.followers.hosts.located(host, address)?;
                }
                rights.place(host, address);
                self.carry_out()?;
                self.send_off(host).map(|()| None)
            }
            Verdict::Elsewhere => {
                self.find_its_agent(host, Some(address))?;
                self.send_off(host).map(|()| None)
            }
        }
    }

    /// The lease, where its host may be asked by this agent; otherwise the host waits, or goes to whoever is to ask it.
    pub fn own(&mut self, now: Timestamp, lease: Lease) -> Result<Option<Lease>> {
        let Some(rights) = self.rights() else { return Ok(Some(lease)) };
        let (host, address) = (lease.host().clone(), lease.address());
        let verdict = rights.may(&host, address);
        if verdict == Verdict::Yes {
            return Ok(Some(lease));
        }
        if matches!(lease.task(), Task::MovedRobots(_)) {
            // Rules that lie with another agent's server cannot be read here: until they can, they forbid.
            let _finished = self.frontier.done(now, lease, Outcome::Failed { transient: true });
            return Ok(None);
        }
        self.put_off(now, lease)?;
        match verdict {
            Verdict::Place => {
                rights.place(&host, address);
                self.carry_out()?;
            }
            Verdict::Elsewhere => self.find_its_agent(&host, Some(address))?,
            Verdict::Yes | Verdict::Wait | Verdict::At(_) => {}
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

    /// Takes a host out of the frontier for a while, without a lease.
    pub fn send_off(&mut self, host: &Host) -> Result<()> {
        if let Some(view) = self.frontier.host(host) {
            self.followers.hosts.remember(host, &view.memory);
        }
        let pages = self.frontier.remove_host(host);
        self.give_back(pages)?;
        self.followers.hosts.leave(host);
        self.followers.urls.release_host_until(host, SystemClock.now() + PUT_OFF);
        Ok(())
    }

    /// Breaks off visits whose right has run out.
    pub fn break_off_overdue(&mut self) -> Result<()> {
        let Some(rights) = self.rights() else { return Ok(()) };
        let overdue = rights.overdue();
        if !overdue.is_empty() {
            tracing::warn!("{} requests are broken off: this agent may not go on with them", overdue.len());
        }
        for visit in overdue {
            if let Some(lease) = self.under_way.abandon_one(visit) {
                self.put_off(SystemClock.now(), lease)?;
            }
            rights.end(visit);
        }
        Ok(())
    }

    /// A batch of another agent has come.
    pub fn received(&mut self, batch: Received) -> Result<()> {
        if let Some(agent) = &mut self.agent {
            agent.untaken.batches.push_back(batch);
        }
        self.take_waiting()
    }

    /// Takes batches in, in order, as far as no note waits for a table.
    fn take_waiting(&mut self) -> Result<()> {
        while let Some(agent) = self.agent.as_mut().filter(|agent| agent.sources.rights.is_leased()) {
            let AgentSources { desk, rights, .. } = &agent.sources;
            let untaken = &mut agent.untaken;
            let Some(batch) = untaken.batches.front() else { return Ok(()) };
            if let Some(Incoming::Notes(notes)) = &batch.freight {
                let from = notes.from(batch.from);
                while let Some(note) = notes.notes.get(untaken.taken) {
                    if !rights.heard(from, note) {
                        let waits = untaken.waits.get_or_insert_with(Instant::now);
                        if waits.elapsed() < NOTE_WAIT_MAX {
                            return self.carry_out();
                        }
                        tracing::warn!(
                            "agent {from:?} speaks of epoch {}, which nobody has published; its word is left out",
                            note.epoch
                        );
                        desk.counters.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    untaken.waits = None;
                    untaken.taken += 1;
                }
                desk.counters.notes_received.fetch_add(notes.notes.len() as u64, Ordering::Relaxed);
            }
            untaken.taken = 0;
            let Some(batch) = untaken.batches.pop_front() else { return Ok(()) };
            desk.under_way.fetch_sub(1, Ordering::SeqCst);
            let arrived = self.followers.receive(batch)?;
            self.arrived(&arrived);
            self.carry_out()?;
        }
        Ok(())
    }

    /// Takes in, or passes on, what an agent had that is gone. Its words are void.
    pub fn orphaned(&mut self, freight: Incoming) -> Result<()> {
        let nobody = NodeNo(0);
        match freight {
            Incoming::Urls(body) => self.followers.take_urls(nobody, body),
            Incoming::Parcel(parcel) => {
                let arrived = self.followers.take_parcel((source(nobody), 0), &parcel)?;
                self.arrived(&arrived);
                Ok(())
            }
            Incoming::Notes(_) => Ok(()),
        }
    }

    /// Something of hosts has come back: they do not leave.
    pub fn arrived(&mut self, hosts: &[Host]) {
        let Some(agent) = &mut self.agent else { return };
        for host in hosts {
            agent.handing.cancel(host);
        }
    }

    /// Looks up a host for whoever answers for it.
    pub fn locate(&mut self, host: Host, hint: Option<IpAddr>) {
        let (sender, visitor) = (self.sender.clone(), self.visitor.clone());
        self.runtime.spawn(async move {
            let answer = visitor.fetcher.addresses(&host).await;
            // The core has ended when nobody listens; then the next one asks again.
            let _ = sender.send(Event::Located { host, hint, answer });
        });
    }

    /// Asks a host's name where it is, now and then: whoever plans who asks it goes by that where nothing was measured.
    pub fn ask_location(&mut self, host: &Host) -> Result<()> {
        let now = SystemClock.now();
        let is_wanted = self.agent.is_some() && self.config.partition.locations;
        if !is_wanted || !self.followers.hosts.asks_location(host, now)? {
            return Ok(());
        }
        let (sender, visitor, host) = (self.sender.clone(), self.visitor.clone(), host.clone());
        self.runtime.spawn(async move {
            let told = visitor.fetcher.location(&host).await;
            if let Some(place) = told.and_then(|data| loc::read(&data).ok()) {
                // The core has ended when nobody listens; it is asked again in a month.
                let _ = sender.send(Event::Stands { host, position: place.position });
            }
        });
        Ok(())
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

/// A visit that ends as soon as the agent may not act any more. Looked at on the thread that asks, before each step: this
/// process may have been asleep since the last one.
pub struct WhileLeased<F> {
    rights: Arc<Rights>,
    me: AgentId,
    visit: Pin<Box<F>>,
}

impl<F: Future> WhileLeased<F> {
    pub fn new(rights: Arc<Rights>, visit: F) -> WhileLeased<F> {
        WhileLeased { me: rights.me(), rights, visit: Box::pin(visit) }
    }
}

impl<F: Future> Future for WhileLeased<F> {
    /// `None` where it was broken off.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if !self.rights.is_leased_as(self.me) {
            return Poll::Ready(None);
        }
        self.visit.as_mut().poll(context).map(Some)
    }
}
