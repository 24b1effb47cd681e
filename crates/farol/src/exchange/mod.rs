//! What agents of a cluster exchange: each URL goes to the agent that owns its host.
//!
//! The life of a link: it is found on a page, and is in scope. [`route`] says whose its host is: by name where the
//! operator or an exception says so, by what was learnt of the host, else by its address. A host whose address nobody
//! here knows goes to the agent that a hash of its name says, which looks it up ([`lobby`]) and passes it on. What is
//! another's is gathered into batches ([`gather`]), kept on disk ([`outboxes`]), and carried by the role `courier`.
//!
//! [`Exchange`] is the crawl's side of it and belongs to the thread that writes the archive's followers; what the courier
//! and the crawl share is an [`ExchangeDesk`].
//!
//! INVARIANT: the archive's mark of the exchange, and the numbers told to senders, never pass a URL that is neither in
//! this agent's URL store nor on its disk for another: after a crash it comes again.

pub mod gather;
pub mod lobby;
pub mod orders;
pub mod outboxes;
pub mod route;

use crate::archive::position::{read_position, write_position};
use crate::fabric::{Table, Tables};
use crate::wire::urls::{UrlBody, WireHost, WireVisited};
use anyhow::Result;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Host, PagePosition};
use farol_cluster::NodeNo;
use farol_store::urls::{Found, Record};
use gather::Gatherer;
use lobby::{InLobby, Lobby, Origin};
use orders::CrawlOrder;
use outboxes::Outboxes;
use route::{RouteSource, Routing};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Agents that pass a URL on at most; who gets it then keeps it.
pub const HOPS_MAX: u8 = 3;
/// Hosts whose owner is remembered: 1,000,000 × 16 bytes.
const LEARNED_MAX: usize = 1_000_000;
/// How long an address holds that another agent has found out.
const PINNED: Duration = Duration::from_secs(3600);
/// Hosts with such an address at most; a host that finds no room is looked up.
const PINNED_MAX: usize = 100_000;

/// Among the marks: how far the exchange has taken the archive in.
const MARK: &str = "exchange";

/// What was counted since the process began.
#[derive(Default)]
pub struct ExchangeCounters {
    /// Links of the crawl's pages that are in scope.
    pub links: AtomicU64,
    /// Those of them that lead to another host.
    pub between: AtomicU64,
    /// Those of them that are another agent's.
    pub foreign: AtomicU64,
    /// URLs sent, passed on ones with them.
    pub sent: AtomicU64,
    /// URLs that had come from another agent and went on to a third.
    pub passed_on: AtomicU64,
    pub received: AtomicU64,
    /// Received URLs that are none.
    pub refused: AtomicU64,
    /// Batches that could not be read.
    pub damaged: AtomicU64,
    /// Batches that nobody could send again.
    pub lost: AtomicU64,
    pub batches_sent: AtomicU64,
    pub batches_received: AtomicU64,
}

impl ExchangeDesk {
    /// What is exchanged, in Prometheus' text format.
    pub fn metrics_text(&self) -> String {
        let counters = &self.counters;
        let totals = [
            ("links", &counters.links),
            ("between_hosts", &counters.between),
            ("foreign", &counters.foreign),
            ("sent", &counters.sent),
            ("passed_on", &counters.passed_on),
            ("received", &counters.received),
            ("refused", &counters.refused),
        ];
        let batches = [
            ("sent", &counters.batches_sent),
            ("received", &counters.batches_received),
            ("damaged", &counters.damaged),
            ("lost", &counters.lost),
        ];
        let waiting = self.outboxes.lock().waiting();
        let mut text = String::from(
            "# HELP farol_exchange_urls_total URLs between agents, since this one began: in scope, to other hosts, another's, \
             sent, passed on, received, refused.\n# TYPE farol_exchange_urls_total counter\n",
        );
        for (what, counter) in totals {
            let value = counter.load(Ordering::Relaxed);
            text += &format!("farol_exchange_urls_total{{what=\"{what}\"}} {value}\n");
        }
        text += "# HELP farol_exchange_batches_total Batches of URLs between agents, since this one began.\n\
                 # TYPE farol_exchange_batches_total counter\n";
        for (what, counter) in batches {
            let value = counter.load(Ordering::Relaxed);
            text += &format!("farol_exchange_batches_total{{what=\"{what}\"}} {value}\n");
        }
        text += "# HELP farol_exchange_batches_waiting Batches that other agents have not told to have.\n\
                 # TYPE farol_exchange_batches_waiting gauge\n";
        text + &format!("farol_exchange_batches_waiting {waiting}\n")
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// What the crawl and the courier share.
pub struct ExchangeDesk {
    pub outboxes: Mutex<Outboxes>,
    /// The last batch of each agent that is taken in for good.
    pub received: Mutex<BTreeMap<NodeNo, u64>>,
    /// Batches that the crawl was given and has not taken in yet.
    pub under_way: AtomicU64,
    /// Orders that the crawl itself gives, until they are placed.
    pub orders: Mutex<VecDeque<CrawlOrder>>,
    pub counters: ExchangeCounters,
    /// The epoch by which URLs are routed.
    pub epoch: AtomicU64,
    /// No room for what other agents are to get: crawling waits.
    pub is_full: AtomicBool,
    /// The newest epoch under which nobody is asked that is another's, and everything of others is with them.
    pub released: AtomicU64,
    /// Hosts that were handed to other agents and are not known to be with them yet.
    pub leaving: AtomicU64,
    /// The agent may not leave yet: others are to get something from it.
    pub is_busy: AtomicBool,
}

/// The crawl's side of the exchange.
pub struct Exchange {
    routes: RouteSource,
    routing: Option<Arc<Routing>>,
    /// Whose hosts are, by their hash, as far as was found out in this epoch.
    learned: HashMap<u64, NodeNo>,
    /// Addresses that other agents have found out.
    pinned: HashMap<Host, (IpAddr, Instant)>,
    lobby: Lobby,
    gather: Gatherer,
    /// What the outbox had no room for.
    unkept: VecDeque<(NodeNo, UrlBody)>,
    desk: Arc<ExchangeDesk>,
    /// What is found now is in the archive from here on.
    at: PagePosition,
    /// How far the tables say it has taken the archive in.
    mark: PagePosition,
    /// The last batch taken of each agent.
    taken: BTreeMap<NodeNo, u64>,
}

/// Where a URL goes.
enum Goes {
    Here,
    To(NodeNo),
    /// Its host is to be looked up first.
    Lobby,
}

impl Exchange {
    /// Opens what is in the folder and the tables.
    pub fn open(routes: RouteSource, outboxes: Outboxes, tables: &dyn Tables) -> Result<Exchange> {
        let mark = tables.get(Table::Marks, MARK)?.map(|bytes| read_position(&bytes)).unwrap_or_default();
        Ok(Exchange {
            routes,
            routing: None,
            learned: HashMap::new(),
            pinned: HashMap::new(),
            lobby: Lobby::default(),
            gather: Gatherer::new(gather::LATELY_BYTES),
            unkept: VecDeque::new(),
            desk: Arc::new(ExchangeDesk {
                outboxes: Mutex::new(outboxes),
                received: Mutex::default(),
                under_way: AtomicU64::new(0),
                orders: Mutex::default(),
                counters: ExchangeCounters::default(),
                epoch: AtomicU64::new(0),
                is_full: AtomicBool::new(false),
                released: AtomicU64::new(0),
                leaving: AtomicU64::new(0),
                is_busy: AtomicBool::new(false),
            }),
            at: mark,
            mark,
            taken: BTreeMap::new(),
        })
    }

    pub fn desk(&self) -> Arc<ExchangeDesk> {
        self.desk.clone()
    }

    /// How far it has taken the archive in.
    pub fn watermark(&self) -> PagePosition {
        self.mark
    }

    /// What is found from now on is in the archive from here on.
    pub fn set_position(&mut self, at: PagePosition) {
        self.at = at;
    }

    /// The table in force. A new one makes void what was learnt under the one before.
    pub fn routing(&mut self) -> Option<Arc<Routing>> {
        let newest = (self.routes)();
        let epoch = newest.as_ref().map(|routing| routing.epoch);
        if epoch == self.routing.as_ref().map(|routing| routing.epoch) {
            // It may have been settled meanwhile.
            self.routing = newest;
        } else {
            self.learned.clear();
            self.pinned.clear();
            self.gather.forget();
            self.routing = newest;
            self.desk.epoch.store(epoch.unwrap_or(0), Ordering::Relaxed);
        }
        self.routing.clone()
    }

    /// Counts links to other hosts, before they are sorted.
    pub fn count_between(&self, links: usize) {
        count(&self.desk.counters.between, links as u64);
    }

    /// Takes what is another agent's out of what a page names, and sends it; answers what is this one's. `is_known` says
    /// whether the URL store has a host.
    pub fn sort(&mut self, found: Vec<Found>, is_known: &dyn Fn(&Host) -> bool) -> Result<Vec<Found>> {
        count(&self.desk.counters.links, found.len() as u64);
        let Some(routing) = self.routing().filter(|routing| !routing.is_alone()) else { return Ok(found) };
        let origin = Origin::Archive(self.at);
        let mut own = Vec::with_capacity(found.len());
        for one in found {
            match self.goes(&routing, &one.url, is_known) {
                Goes::Here => own.push(one),
                Goes::To(owner) => {
                    count(&self.desk.counters.foreign, 1);
                    self.send(routing.epoch, owner, &one, None, 0)?;
                }
                Goes::Lobby => own.extend(self.lobby.enter(one, 0, origin).err()),
            }
        }
        Ok(own)
    }

    /// The same for URLs that another agent has sent in the batch of this number.
    pub fn sort_received(
        &mut self,
        batch: (NodeNo, u64),
        found: Vec<(Found, u8)>,
        is_known: &dyn Fn(&Host) -> bool,
    ) -> Result<Vec<Found>> {
        count(&self.desk.counters.received, found.len() as u64);
        let all = |found: Vec<(Found, u8)>| found.into_iter().map(|(found, _)| found).collect();
        let Some(routing) = self.routing().filter(|routing| !routing.is_alone()) else {
            return Ok(all(found));
        };
        let origin = Origin::Batch(batch.0, batch.1);
        let mut own = Vec::with_capacity(found.len());
        for (one, hops) in found {
            match self.goes(&routing, &one.url, is_known) {
                Goes::To(owner) if hops < HOPS_MAX || !routing.has(routing.me) => {
                    if batch.0 != owner {
                        self.gather.teach(batch.0, one.url.host_hash().0, owner);
                    }
                    count(&self.desk.counters.passed_on, 1);
                    self.send(routing.epoch, owner, &one, None, hops + 1)?;
                }
                Goes::Here | Goes::To(_) => own.push(one),
                Goes::Lobby => own.extend(self.lobby.enter(one, hops, origin).err()),
            }
        }
        Ok(own)
    }

    fn goes(&mut self, routing: &Routing, url: &CanonicalUrl, is_known: &dyn Fn(&Host) -> bool) -> Goes {
        let hash = url.host_hash().0;
        let owner = match self.learned.get(&hash) {
            Some(owner) => *owner,
            None => {
                let host = url.host();
                let owner = match routing.owner_by_name(url.host_str()) {
                    Some(owner) => owner,
                    None if is_known(&host) => routing.me,
                    None => match self.pinned_address(&host) {
                        Some(address) => match routing.owner(url.host_str(), Some(address)) {
                            Some(owner) => owner,
                            None => return Goes::Here,
                        },
                        None => match routing.owner(url.host_str(), None) {
                            Some(owner) if owner == routing.me => return Goes::Lobby,
                            // A hash says who finds out, not whose it is.
                            Some(owner) => return Goes::To(owner),
                            None => return Goes::Here,
                        },
                    },
                };
                self.learn(hash, owner);
                owner
            }
        };
        if owner == routing.me { Goes::Here } else { Goes::To(owner) }
    }

    fn learn(&mut self, host: u64, owner: NodeNo) {
        if self.learned.len() >= LEARNED_MAX {
            self.learned.clear();
        }
        self.learned.insert(host, owner);
    }

    fn send(
        &mut self,
        epoch: u64,
        to: NodeNo,
        found: &Found,
        address: Option<IpAddr>,
        hops: u8,
    ) -> Result<()> {
        let (is_sent, full) = self.gather.push(to, found, address, hops);
        count(&self.desk.counters.sent, u64::from(is_sent));
        if let Some(body) = full {
            self.unkept.push_back((to, body));
            self.keep(epoch)?;
        }
        Ok(())
    }

    /// Puts batches on the disk, as far as there is room.
    fn keep(&mut self, epoch: u64) -> Result<()> {
        while let Some((to, body)) = self.unkept.front() {
            match self.desk.outboxes.lock().keep(*to, epoch, body) {
                Ok(()) => {}
                Err(error) if crate::disk::is_full(&error) => {
                    self.desk.is_full.store(true, Ordering::SeqCst);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            self.unkept.pop_front();
        }
        self.desk.is_full.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// What another agent has learnt of hosts.
    pub fn learned_from_others(&mut self, learned: &[(u64, u16)]) {
        let Some(routing) = self.routing() else { return };
        for (host, owner) in learned {
            if routing.has(NodeNo(*owner)) && !self.learned.contains_key(host) {
                self.learn(*host, NodeNo(*owner));
            }
        }
    }

    /// Another agent has found out where a host is, and that it is this agent's there: so it is, until the table changes.
    pub fn pin(&mut self, host: &Host, address: IpAddr) {
        let is_mine = |routing: Arc<Routing>| routing.owner(host.as_str(), Some(address)) == Some(routing.me);
        if self.routing().is_some_and(is_mine) && self.pinned.len() < PINNED_MAX {
            self.pinned.insert(host.clone(), (address, Instant::now()));
        }
    }

    /// Where a host is by another agent's word.
    pub fn pinned_address(&self, host: &Host) -> Option<IpAddr> {
        self.pinned.get(host).filter(|(_, at)| at.elapsed() < PINNED).map(|(address, _)| *address)
    }

    /// The next host to look up for what waits in the lobby; answered by [`Exchange::located`].
    pub fn next_to_locate(&mut self) -> Option<Host> {
        self.lobby.next_to_ask()
    }

    /// A host of the lobby was looked up, with or without success; answers the URLs that are this agent's.
    pub fn located(&mut self, host: &Host, address: Option<IpAddr>) -> Result<Vec<Found>> {
        let waiting = self.lobby.leave(host);
        let own = |waiting: InLobby| waiting.found.into_iter().map(|(found, _)| found).collect();
        let Some(routing) = self.routing() else { return Ok(own(waiting)) };
        let hash = host.hash().0;
        // A host without an address stays with whom its name's hash says, and is tried again there.
        let owner = address.and_then(|address| routing.owner(host.as_str(), Some(address)));
        let Some(owner) = owner.filter(|owner| *owner != routing.me) else {
            if address.is_some() {
                self.learn(hash, routing.me);
            }
            return Ok(own(waiting));
        };
        self.learn(hash, owner);
        for sender in waiting.senders().filter(|sender| *sender != owner).collect::<Vec<_>>() {
            self.gather.teach(sender, hash, owner);
        }
        let mut kept = Vec::new();
        for (found, hops) in waiting.found {
            if hops >= HOPS_MAX {
                kept.push(found);
                continue;
            }
            count(&self.desk.counters.passed_on, u64::from(hops > 0));
            count(&self.desk.counters.foreign, u64::from(hops == 0));
            self.send(routing.epoch, owner, &found, address, hops + 1)?;
        }
        Ok(kept)
    }

    /// Sends what is known of a URL whose host is another's, visited or not: it was let in here, and is not judged again. `place`
    /// is where that host is, and when it may be asked, as far as is known.
    pub fn pass_on(
        &mut self,
        owner: NodeNo,
        host: &Host,
        path: &str,
        record: &Record,
        place: (Option<IpAddr>, u64),
    ) -> Result<()> {
        let epoch = self.routing().map_or(0, |routing| routing.epoch);
        count(&self.desk.counters.passed_on, 1);
        self.learn(host.hash().0, owner);
        count(&self.desk.counters.sent, 1);
        let visited = WireVisited::of(path, record);
        if let Some(body) = self.gather.push_visited(owner, host.as_str(), visited, place.0, place.1, 1) {
            self.unkept.push_back((owner, body));
            self.keep(epoch)?;
        }
        Ok(())
    }

    /// Passes what is known of a URL on that has come here for another; answers whether it did. Where the host's address
    /// came with it the table decides, for everybody alike; who has it after a few agents keeps it, so that it never goes
    /// round for ever.
    pub fn pass_visited(&mut self, host: &Host, visited: &WireVisited, from: &WireHost) -> Result<bool> {
        let Some(routing) = self.routing().filter(|_| from.hops < HOPS_MAX) else { return Ok(false) };
        let address = from.address.or_else(|| self.pinned_address(host));
        let owner = match (address, self.learned.get(&host.hash().0)) {
            (None, Some(owner)) => Some(*owner),
            (address, _) => routing.owner(host.as_str(), address),
        };
        let Some(owner) = owner.filter(|owner| *owner != routing.me) else { return Ok(false) };
        let (visited, hops) = (visited.clone(), from.hops + 1);
        if let Some(body) = self.gather.push_visited(owner, host.as_str(), visited, address, from.rest, hops)
        {
            self.unkept.push_back((owner, body));
            self.keep(routing.epoch)?;
        }
        Ok(true)
    }

    /// Batches for agents that are gone: they are to be sorted again.
    pub fn orphans(&mut self, max: usize) -> Result<Option<(NodeNo, u64, Vec<UrlBody>)>> {
        let Some(routing) = self.routing() else { return Ok(None) };
        let boxes = self.desk.outboxes.lock();
        for receiver in boxes.receivers().into_iter().filter(|no| !routing.is_member(*no)) {
            if let Some((upto, bodies)) = boxes.orphans(receiver, max)? {
                return Ok(Some((receiver, upto, bodies)));
            }
        }
        Ok(None)
    }

    /// A batch of another agent was taken.
    pub fn took(&mut self, from: NodeNo, number: u64) {
        let taken = self.taken.entry(from).or_default();
        *taken = number.max(*taken);
        count(&self.desk.counters.batches_received, 1);
    }

    /// Goes on behind the batches that the URL store has.
    pub fn resume(&mut self, received: BTreeMap<NodeNo, u64>) {
        self.taken.clone_from(&received);
        *self.desk.received.lock() = received;
    }

    /// Puts everything on the disk that is another's; answers which batch of each sender is done with then, once what is
    /// this agent's is durable as well. `None` where there is no room.
    pub fn settle(&mut self) -> Result<Option<BTreeMap<NodeNo, u64>>> {
        self.unkept.extend(self.gather.cut());
        let epoch = self.routing().map_or(0, |routing| routing.epoch);
        self.keep(epoch)?;
        if !self.unkept.is_empty() {
            return Ok(None);
        }
        let upto = |(from, taken): (&NodeNo, &u64)| (*from, self.lobby.batches_upto(*from, *taken));
        Ok(Some(self.taken.iter().map(upto).collect()))
    }

    /// Writes down how far the archive is done with, and tells senders which batches are; all that is this agent's was made
    /// durable after [`Exchange::settle`], up to this position of the archive.
    pub fn settled(
        &mut self,
        upto: PagePosition,
        received: BTreeMap<NodeNo, u64>,
        tables: &dyn Tables,
    ) -> Result<()> {
        self.at = upto;
        let mark = self.lobby.archive_upto(upto);
        if mark != self.mark {
            tables.put(&[(Table::Marks, MARK, &write_position(mark))])?;
            self.mark = mark;
        }
        *self.desk.received.lock() = received;
        Ok(())
    }

    /// Whether something waits in memory for an address, or for its batch to be full.
    pub fn is_open(&self) -> bool {
        !self.lobby.is_empty() || !self.gather.is_empty() || self.has_unkept()
    }

    /// Whether something has found no room on the disk yet.
    pub fn has_unkept(&self) -> bool {
        !self.unkept.is_empty()
    }

    /// Has the whole crawl be told something.
    pub fn tell_all(&self, order: CrawlOrder) {
        self.desk.orders.lock().push_back(order);
    }
}

#[cfg(test)]
mod tests;
