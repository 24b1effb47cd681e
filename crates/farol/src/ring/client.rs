//! A front's calls to the cache nodes: looks answers up where [`FrontRouter`] says, and hands new ones in.
//!
//! A question makes one `lookup`. Where the node refuses, its successor is asked once; where it is late, or busy, the
//! caller goes on without the cache. Answers are handed in behind the asker's back.
//!
//! INVARIANT: no call waits longer than the router's deadline; nothing is handed to a node that does not answer.
//! INVARIANT: the router's lock is never held across a call.

use super::records::CachesRecord;
use super::tables::RingTables;
use super::{AskedQuery, PeerOf};
use crate::wire::v1::cache::{
    CacheHead, CacheTail, InsertReply, InsertRequest, LookupReply, LookupRequest, ReleaseRequest, WireAged,
    WireEntry, WireLookup, WireSender, verb,
};
use farol_base::Timestamp;
use farol_base::random::mix;
use farol_base::sync::Mutex;
use farol_cache::NodeId;
use farol_cache::freshness::CLOCK_BEGINS;
use farol_cache::front::{FrontRouter, FrontRules, Route};
use farol_cache::health::Failure;
use farol_cache::key::QueryKey;
use farol_cache::tables::{Epoch, FrontId, FrontReport};
use farol_rpc::{CallError, CallerHandle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long handing an answer in may take.
const INSERT_MAX: Duration = Duration::from_secs(1);
/// Answers on their way to nodes at a time; what is beyond is not kept. 512 × some 16 KiB.
const INSERTS_MAX: usize = 512;

/// What becomes of a lookup.
#[derive(Debug)]
pub enum Looked {
    /// A node has an answer of the state that was needed, or of a later one.
    Fresh(AnswerPlace, WireAged),
    /// Superseded, within the grace; with a lease this one makes it anew.
    Stale(AnswerPlace, WireAged, Option<Lease>),
    /// Nobody has it. With a lease this one makes it.
    Miss(AnswerPlace, Option<Lease>),
    /// Somebody makes it: ask again after this.
    Wait(AnswerPlace, Duration),
    /// It was never asked before, so nothing was looked up.
    New(AnswerPlace),
    /// No node answers: the index is asked, and nothing is kept.
    Nobody,
}

/// Where an answer goes that was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerPlace {
    pub hash: u64,
    pub node: NodeId,
}

/// The right, and the duty, to make an answer: handed in with it, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub place: AnswerPlace,
    pub id: u64,
}

/// What became of lookups.
#[derive(Debug, Default)]
pub struct ClientCounters {
    pub hits: AtomicU64,
    /// Of these, superseded answers.
    pub stale: AtomicU64,
    /// Of these, from copies of another node's answers.
    pub adopted: AtomicU64,
    pub misses: AtomicU64,
    /// Not looked up, because nobody had asked them before.
    pub new: AtomicU64,
    /// Lookups that a node refused, did not answer in time, or was too busy for.
    pub refused: AtomicU64,
    pub late: AtomicU64,
    pub busy: AtomicU64,
    /// Lookups that a successor was asked.
    pub spare: AtomicU64,
    /// Answers handed in, and those that could not be.
    pub inserted: AtomicU64,
    pub not_inserted: AtomicU64,
}

impl ClientCounters {
    /// All of them by name.
    pub fn each(&self) -> [(&'static str, u64); 11] {
        [
            ("hits", &self.hits),
            ("stale", &self.stale),
            ("adopted", &self.adopted),
            ("misses", &self.misses),
            ("new", &self.new),
            ("refused", &self.refused),
            ("late", &self.late),
            ("busy", &self.busy),
            ("spare", &self.spare),
            ("inserted", &self.inserted),
            ("not_inserted", &self.not_inserted),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

/// Calls cache nodes.
pub struct RingClient {
    me: u64,
    router: Mutex<Installed>,
    tables: Arc<RingTables>,
    peer_of: PeerOf,
    caller: CallerHandle,
    runtime: tokio::runtime::Handle,
    begun: Instant,
    on_the_way: Arc<AtomicUsize>,
    pub counters: Arc<ClientCounters>,
}

struct Installed {
    router: FrontRouter<AskedQuery>,
    /// Of the tables, when they were installed.
    changes: u64,
}

/// What a client is made of.
pub struct RingClientParts {
    /// Who this front is, and which start of its program.
    pub me: u64,
    pub incarnation: u64,
    pub rules: FrontRules,
    pub tables: Arc<RingTables>,
    pub peer_of: PeerOf,
    pub caller: CallerHandle,
    pub runtime: tokio::runtime::Handle,
}

impl RingClient {
    pub fn new(parts: RingClientParts) -> RingClient {
        let router = FrontRouter::new(FrontId(parts.me), parts.incarnation, parts.rules, CLOCK_BEGINS);
        RingClient {
            me: parts.me,
            router: Mutex::new(Installed { router, changes: 0 }),
            tables: parts.tables,
            peer_of: parts.peer_of,
            caller: parts.caller,
            runtime: parts.runtime,
            begun: Instant::now(),
            on_the_way: Arc::default(),
            counters: Arc::default(),
        }
    }

    fn now(&self) -> Timestamp {
        CLOCK_BEGINS + self.begun.elapsed()
    }

    /// Does something with the router as the newest tables have it.
    fn with<T>(&self, act: impl FnOnce(&mut FrontRouter<AskedQuery>, Timestamp) -> T) -> T {
        let now = self.now();
        let mut installed = self.router.lock();
        let changes = self.tables.changes();
        if installed.changes != changes {
            installed.changes = changes;
            let newest = self.tables.now();
            if let Some(doc) = &newest.ring {
                installed.router.install_ring(doc);
            }
            if let Some(doc) = &newest.hot {
                installed.router.install_hot(doc, now);
            }
        }
        act(&mut installed.router, now)
    }

    /// The seed of keys' hashes; `None` while there is no cache node.
    pub fn seed(&self) -> Option<u64> {
        self.with(|router, _| (!router.ring().is_empty()).then(|| router.seed()))
    }

    /// Looks a question up. `need`: the least state that is current.
    pub fn look_up(&self, key: &QueryKey, asked: &str, need: u64) -> Looked {
        let query = AskedQuery::new(key.hash(), asked);
        let Some(route) = self.with(|router, now| router.route(key.hash(), &query, now)) else {
            return Looked::Nobody;
        };
        let place = AnswerPlace { hash: key.hash(), node: route.node };
        if route.is_new {
            self.counters.new.fetch_add(1, Ordering::Relaxed);
            return Looked::New(place);
        }
        match self.lookup_at(route.node, key, need, true) {
            Ok(found) => self.looked(place, found),
            Err(Failure::Refused) => self.look_up_at_spare(&route, key, need),
            Err(Failure::Late | Failure::Busy) => Looked::Nobody,
        }
    }

    fn look_up_at_spare(&self, route: &Route, key: &QueryKey, need: u64) -> Looked {
        let Some(node) = route.spare else { return Looked::Nobody };
        self.counters.spare.fetch_add(1, Ordering::Relaxed);
        match self.lookup_at(node, key, need, true) {
            Ok(found) => self.looked(AnswerPlace { hash: key.hash(), node }, found),
            Err(_) => Looked::Nobody,
        }
    }

    /// Looks once more at a node that said that somebody makes the answer.
    pub fn look_again(&self, place: AnswerPlace, key: &QueryKey, need: u64) -> Looked {
        match self.lookup_at(place.node, key, need, true) {
            Ok(found) => self.looked(place, found),
            Err(_) => Looked::Nobody,
        }
    }

    fn looked(&self, place: AnswerPlace, found: WireLookup) -> Looked {
        let (counters, lease) = (&self.counters, |id| Lease { place, id });
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match found {
            WireLookup::Hit(aged) => {
                count(&counters.hits);
                Looked::Fresh(place, aged)
            }
            WireLookup::Adopted(aged) => {
                count(&counters.hits);
                count(&counters.adopted);
                Looked::Fresh(place, aged)
            }
            WireLookup::Stale(aged, id) => {
                count(&counters.hits);
                count(&counters.stale);
                Looked::Stale(place, aged, id.map(lease))
            }
            WireLookup::Miss { lease: None, wait_ms } if wait_ms > 0 => {
                Looked::Wait(place, Duration::from_millis(u64::from(wait_ms)))
            }
            WireLookup::Miss { lease: id, .. } => {
                count(&counters.misses);
                Looked::Miss(place, id.map(lease))
            }
        }
    }

    fn head(&self) -> CacheHead {
        let epoch = self.with(|router, _| router.epoch());
        CacheHead { ring: epoch.into(), from: WireSender::Front(self.me) }
    }

    fn lookup_at(
        &self,
        node: NodeId,
        key: &QueryKey,
        need: u64,
        lease_wanted: bool,
    ) -> Result<WireLookup, Failure> {
        let request = LookupRequest { head: self.head(), key: key.text().to_string(), need, lease_wanted };
        let begun = Instant::now();
        let deadline = begun + self.with(|router, _| router.deadline(node));
        let reply: Result<LookupReply, CallError> = match (self.peer_of)(node) {
            Some(peer) => self.caller.call(&peer, verb::LOOKUP, &request, deadline),
            None => Err(unknown(node)),
        };
        match reply {
            Ok(reply) => {
                self.with(|router, _| router.answered(node, begun.elapsed()));
                self.tables.told(reply.tail.ring.into());
                Ok(reply.found)
            }
            Err(error) => Err(self.failed(node, &error)),
        }
    }

    /// Notes that a node did not answer, and how.
    fn failed(&self, node: NodeId, error: &CallError) -> Failure {
        let (why, counter) = match error {
            CallError::TimedOut { .. } => (Failure::Late, &self.counters.late),
            CallError::Busy(_) => (Failure::Busy, &self.counters.busy),
            _ => (Failure::Refused, &self.counters.refused),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(node = node.0, %error, "a cache node does not answer");
        self.with(|router, now| router.failed(node, why, now));
        why
    }

    /// Hands an answer to the node that did not have it, and to all that serve it where it is hot, in the background.
    /// `aged.age_ms` is its age now.
    pub fn insert(
        self: &Arc<RingClient>,
        place: AnswerPlace,
        key: &QueryKey,
        aged: &WireAged,
        lease: Option<Lease>,
    ) {
        let nodes = self.with(|router, now| router.given_to(place.hash, place.node, now));
        if nodes.is_empty() {
            self.counters.not_inserted.fetch_add(1, Ordering::Relaxed);
        }
        for node in nodes {
            let lease = lease.filter(|lease| lease.place.node == node).map(|lease| lease.id);
            let entry = WireEntry { key: key.text().to_string(), aged: aged.clone(), uses: 0 };
            let request = InsertRequest { head: self.head(), entry, lease };
            self.send(node, verb::INSERT, request, |client, reply: Result<InsertReply, CallError>| {
                let counter = match reply {
                    Ok(_) => &client.counters.inserted,
                    Err(_) => &client.counters.not_inserted,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            });
        }
    }

    /// Gives a lease back, so that whoever asks next makes the answer.
    pub fn release(self: &Arc<RingClient>, key: &QueryKey, lease: Lease) {
        let request = ReleaseRequest { head: self.head(), key: key.text().to_string(), lease: lease.id };
        self.send(lease.place.node, verb::RELEASE, request, |_, _: Result<CacheTail, CallError>| {});
    }

    /// Calls a node in the background; too many at a time are not made.
    fn send<Req, Resp>(
        self: &Arc<RingClient>,
        node: NodeId,
        verb: &'static str,
        request: Req,
        then: impl FnOnce(&RingClient, Result<Resp, CallError>) + Send + 'static,
    ) where
        Req: Serialize + Send + Sync + 'static,
        Resp: DeserializeOwned + Send + 'static,
    {
        if self.on_the_way.fetch_add(1, Ordering::Relaxed) >= INSERTS_MAX {
            self.on_the_way.fetch_sub(1, Ordering::Relaxed);
            return then(self, Err(CallError::Busy("too many answers are on their way".to_string())));
        }
        let (client, peer) = (self.clone(), (self.peer_of)(node));
        self.runtime.spawn(async move {
            let deadline = Instant::now() + INSERT_MAX;
            let reply = match &peer {
                Some(peer) => client.caller.client().call(peer, verb, &request, deadline).await,
                None => Err(unknown(node)),
            };
            if let Err(error) = &reply
                && !matches!(error, CallError::TimedOut { .. })
            {
                client.failed(node, error);
            }
            client.on_the_way.fetch_sub(1, Ordering::Relaxed);
            then(&client, reply);
        });
    }

    /// How new the ring is that it goes by, and the hot questions: with the sum of what is in that table.
    pub fn epochs(&self) -> (Epoch, Epoch, u64) {
        let hot = self.tables.now().hot;
        let sum = hot.iter().flat_map(|doc| &doc.hot);
        let sum = sum.fold(0, |sum, hot| sum ^ mix(hot.degree.hash ^ hot.degree.nodes as u64));
        (self.with(|router, _| router.epoch()), hot.map(|doc| doc.epoch).unwrap_or_default(), sum)
    }

    /// What happened since the last report, where one is due.
    pub fn report(&self, every: Duration) -> Option<FrontReport<AskedQuery>> {
        self.with(|router, now| router.report_is_due(now, every).then(|| router.report(now)))
    }

    /// Nodes of the ring, each with whether this front asks it now.
    pub fn nodes(&self) -> Vec<(NodeId, bool)> {
        self.with(|router, now| {
            let nodes: Vec<NodeId> = router.ring().nodes().collect();
            nodes.into_iter().map(|node| (node, router.is_open(node, now))).collect()
        })
    }

    /// The most asked questions of this minute so far.
    pub fn top(&self, count: usize) -> Vec<(Arc<str>, u32)> {
        let top = self.with(|router, _| router.top(count));
        top.into_iter().map(|(query, count)| (query.shown, count)).collect()
    }

    /// How the service fares, as its leader told last.
    pub fn caches(&self) -> Option<Arc<CachesRecord>> {
        self.tables.now().caches
    }
}

fn unknown(node: NodeId) -> CallError {
    CallError::Unreachable { peer: format!("cache node {}", node.0), why: "nobody knows where it is".into() }
}
