//! What agents of a cluster exchange: each URL goes to the agent that answers for its host.
//!
//! The life of a link: it is found on a page, and is in scope. [`Rights::route`] says who gets it: the agent that asks its
//! host, where this one knows, else the host's home, which passes it on and tells whose the host is. What is another's is
//! gathered into batches ([`gather`]), kept on disk ([`outboxes`]), and carried by the role `courier`. On the same way
//! and in the same order go words on who may ask a host, and hosts with all that is known of them ([`packer`]).
//!
//! [`Exchange`] is the crawl's side of it and belongs to the thread that writes the archive's followers; what the courier
//! and the crawl share is an [`ExchangeDesk`].
//!
//! INVARIANT: the archive's mark of the exchange, and the numbers told to senders, never pass a URL that is neither in
//! this agent's URL store nor on its disk for another: after a crash it comes again.

pub mod gate;
pub mod gather;
pub mod orders;
pub mod outboxes;
pub mod packer;
pub mod rights;
pub mod route;

use crate::archive::position::{read_position, write_position};
use crate::fabric::{Table, Tables};
use crate::wire::freight::pack_urls;
use crate::wire::urls::UrlBody;
use anyhow::Result;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, PagePosition};
use farol_cluster::{Epoch, NodeNo};
use farol_partition::hold::{Destination, EpochOwners};
use farol_store::urls::Found;
use gather::Gatherer;
use orders::CrawlOrder;
use outboxes::Outboxes;
use rights::Rights;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Agents that pass a URL on at most; who gets it then keeps it until it knows better.
pub const HOPS_MAX: u8 = 6;
/// Hosts whose asker is remembered: 1,000,000 × 16 bytes.
const LEARNED_MAX: usize = 1_000_000;

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
    /// Those of the links to another host that a hash of the hosts' names alone would have made another agent's.
    pub hashed: AtomicU64,
    /// URLs sent, passed on ones with them.
    pub sent: AtomicU64,
    /// URLs that had come from another agent and went on to a third.
    pub passed_on: AtomicU64,
    pub received: AtomicU64,
    /// Received URLs that are none.
    pub refused: AtomicU64,
    /// Batches of senders that send too much; they come again.
    pub put_off: AtomicU64,
    /// Hosts from agents that cannot have had them: their URLs count as found, and nothing else.
    pub unproven: AtomicU64,
    /// Batches that could not be read.
    pub damaged: AtomicU64,
    /// Batches that nobody could send again.
    pub lost: AtomicU64,
    pub batches_sent: AtomicU64,
    pub batches_received: AtomicU64,
    /// Hosts that went to other agents with all that is known of them, and that came.
    pub hosts_sent: AtomicU64,
    pub hosts_received: AtomicU64,
    /// Words on who may ask a host.
    pub notes_sent: AtomicU64,
    pub notes_received: AtomicU64,
}

impl ExchangeDesk {
    /// What is exchanged, in Prometheus' text format.
    pub fn metrics_text(&self) -> String {
        let counters = &self.counters;
        let totals = [
            ("links", &counters.links),
            ("between_hosts", &counters.between),
            ("foreign", &counters.foreign),
            ("foreign_by_hash", &counters.hashed),
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
            ("put_off", &counters.put_off),
        ];
        let rights = [
            ("hosts_sent", &counters.hosts_sent),
            ("hosts_received", &counters.hosts_received),
            ("hosts_unproven", &counters.unproven),
            ("notes_sent", &counters.notes_sent),
            ("notes_received", &counters.notes_received),
        ];
        let waiting = self.outboxes.lock().waiting();
        let mut text = String::from(
            "# HELP farol_exchange_urls_total URLs between agents, since this one began: in scope, to other hosts, another's, \
             what a hash of names alone would have made another's, sent, passed on, received, refused.\n# TYPE farol_exchange_urls_total counter\n",
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
        text += "# HELP farol_exchange_handed_total Hosts between agents with all that is known of them, and words on who \
                 may ask a host, since this one began.\n# TYPE farol_exchange_handed_total counter\n";
        for (what, counter) in rights {
            let value = counter.load(Ordering::Relaxed);
            text += &format!("farol_exchange_handed_total{{what=\"{what}\"}} {value}\n");
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
    /// The last batch of each agent that a backup holds.
    pub backed_up: Mutex<BTreeMap<NodeNo, u64>>,
    /// Batches that the crawl was given and has not taken in yet.
    pub under_way: AtomicU64,
    /// Orders that the crawl itself gives, until they are placed.
    pub orders: Mutex<VecDeque<CrawlOrder>>,
    pub counters: ExchangeCounters,
    /// No room for what other agents are to get: crawling waits.
    pub is_full: AtomicBool,
    /// The newest epoch under which nobody is asked that is another's, and everything of others is with them.
    pub released: AtomicU64,
    /// Hosts that were handed to other agents and are not known to be with them yet.
    pub leaving: AtomicU64,
    /// Hosts of which something has come from other agents, and not all.
    pub coming: AtomicU64,
    /// The agent may not leave yet: others are to get something from it.
    pub is_busy: AtomicBool,
}

impl ExchangeDesk {
    fn new(outboxes: Outboxes) -> ExchangeDesk {
        ExchangeDesk {
            outboxes: Mutex::new(outboxes),
            received: Mutex::default(),
            backed_up: Mutex::default(),
            under_way: AtomicU64::new(0),
            orders: Mutex::default(),
            counters: ExchangeCounters::default(),
            is_full: AtomicBool::new(false),
            released: AtomicU64::new(0),
            leaving: AtomicU64::new(0),
            coming: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
        }
    }
}

/// The crawl's side of the exchange.
pub struct Exchange {
    rights: Arc<Rights>,
    /// The epoch under which things were learnt.
    epoch: Epoch,
    /// Whom a hash alone would give hosts in this epoch, for comparison.
    hashed: Option<EpochOwners>,
    /// Who asks hosts, by their hash, as far as their homes have told in this epoch.
    learned: HashMap<u64, NodeNo>,
    gather: Gatherer,
    /// What the outbox had no room for.
    unkept: VecDeque<(NodeNo, UrlBody)>,
    desk: Arc<ExchangeDesk>,
    /// How far the tables say it has taken the archive in.
    mark: PagePosition,
    /// The last batch taken of each agent.
    taken: BTreeMap<NodeNo, u64>,
}

/// Where a URL goes that does not stay here.
struct Goes {
    to: NodeNo,
    /// This agent is the host's home, and has said so.
    is_own_word: bool,
}

impl Exchange {
    /// Opens what is in the folder and the tables.
    pub fn open(rights: Arc<Rights>, outboxes: Outboxes, tables: &dyn Tables) -> Result<Exchange> {
        let mark = tables.get(Table::Marks, MARK)?.map(|bytes| read_position(&bytes)).unwrap_or_default();
        Ok(Exchange {
            rights,
            epoch: Epoch(0),
            hashed: None,
            learned: HashMap::new(),
            gather: Gatherer::new(gather::LATELY_BYTES),
            unkept: VecDeque::new(),
            desk: Arc::new(ExchangeDesk::new(outboxes)),
            mark,
            taken: BTreeMap::new(),
        })
    }

    pub fn desk(&self) -> Arc<ExchangeDesk> {
        self.desk.clone()
    }

    pub fn rights(&self) -> Arc<Rights> {
        self.rights.clone()
    }

    /// How far it has taken the archive in.
    pub fn watermark(&self) -> PagePosition {
        self.mark
    }

    /// A new table makes void what was learnt under the one before.
    fn look(&mut self) {
        let epoch = self.rights.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.hashed = self.rights.by_hash();
            self.learned.clear();
            self.gather.forget();
        }
    }

    /// Counts a page's links to other hosts, before they are sorted, and those that a hash alone would send to another agent.
    pub fn count_between(&mut self, page: Option<&CanonicalUrl>, found: &[Found]) {
        self.look();
        let source = page.map(CanonicalUrl::host_str);
        let others = found.iter().map(|found| found.url.host_str()).filter(|host| source != Some(*host));
        let by_hash = |host: &str| self.hashed.as_ref().and_then(|owners| owners.home(host));
        let own = source.map(by_hash);
        let (mut between, mut crossing) = (0, 0);
        for host in others {
            between += 1;
            crossing += u64::from(own.is_some_and(|own| own != by_hash(host)));
        }
        count(&self.desk.counters.between, between);
        count(&self.desk.counters.hashed, crossing);
    }

    /// Takes what is another agent's out of what a page names, and sends it; answers what is this one's.
    pub fn sort(&mut self, found: Vec<Found>) -> Result<Vec<Found>> {
        count(&self.desk.counters.links, found.len() as u64);
        self.look();
        let mut own = Vec::with_capacity(found.len());
        for one in found {
            match self.goes(&one.url) {
                None => own.push(one),
                Some(Goes { to, .. }) => {
                    count(&self.desk.counters.foreign, 1);
                    self.send(to, &one, 0)?;
                }
            }
        }
        Ok(own)
    }

    /// The same for URLs that another agent has sent, each with the agents that have passed it on.
    pub fn sort_received(&mut self, from: NodeNo, found: Vec<(Found, u8)>) -> Result<Vec<Found>> {
        count(&self.desk.counters.received, found.len() as u64);
        self.look();
        let mut own = Vec::with_capacity(found.len());
        for (one, hops) in found {
            match self.goes(&one.url) {
                Some(Goes { to, is_own_word }) if hops < HOPS_MAX => {
                    if is_own_word && to != from {
                        self.gather.teach(from, one.url.host_hash().0, to);
                    }
                    count(&self.desk.counters.passed_on, 1);
                    self.send(to, &one, hops + 1)?;
                }
                _ => own.push(one),
            }
        }
        Ok(own)
    }

    fn goes(&self, url: &CanonicalUrl) -> Option<Goes> {
        let (destination, is_own_word) = self.rights.route(url.host_str());
        let Destination::To(to) = destination else { return None };
        let learned = self.learned.get(&url.host_hash().0).filter(|_| !is_own_word);
        Some(Goes { to: learned.copied().unwrap_or(to), is_own_word })
    }

    fn send(&mut self, to: NodeNo, found: &Found, hops: u8) -> Result<()> {
        let (is_sent, full) = self.gather.push(to, found, hops);
        count(&self.desk.counters.sent, u64::from(is_sent));
        if let Some(body) = full {
            self.unkept.push_back((to, body));
            self.keep()?;
        }
        Ok(())
    }

    /// Puts batches on the disk, as far as there is room.
    fn keep(&mut self) -> Result<()> {
        while let Some((to, body)) = self.unkept.front() {
            match self.desk.outboxes.lock().keep(*to, self.epoch.0, &pack_urls(body)?) {
                Ok(_) => {}
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
        self.look();
        let me = self.rights.me().no;
        for (host, to) in learned {
            if NodeNo(*to) == me || !self.rights.is_member(NodeNo(*to)) {
                continue;
            }
            if self.learned.len() >= LEARNED_MAX {
                self.learned.clear();
            }
            self.learned.insert(*host, NodeNo(*to));
        }
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
        self.keep()?;
        Ok(self.unkept.is_empty().then(|| self.taken.clone()))
    }

    /// Writes down how far the archive is done with, and tells senders which batches are; all that is this agent's was made
    /// durable after [`Exchange::settle`], up to this position of the archive.
    pub fn settled(
        &mut self,
        upto: PagePosition,
        received: BTreeMap<NodeNo, u64>,
        tables: &dyn Tables,
    ) -> Result<()> {
        if upto != self.mark {
            tables.put(&[(Table::Marks, MARK, &write_position(upto))])?;
            self.mark = upto;
        }
        *self.desk.received.lock() = received;
        Ok(())
    }

    /// Whether something waits in memory for its batch to be full, or for room.
    pub fn is_open(&self) -> bool {
        !self.gather.is_empty() || !self.unkept.is_empty()
    }

    /// Has the whole crawl be told something.
    pub fn tell_all(&self, order: CrawlOrder) {
        self.desk.orders.lock().push_back(order);
    }
}

#[cfg(test)]
mod tests;
