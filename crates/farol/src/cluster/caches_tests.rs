//! Fronts and cache nodes over real connections, in one process.

use crate::handles::cache_node::{CacheShelf, ShelfName};
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::index::RulesInForce;
use crate::handles::ranks::Ranks;
use crate::handles::replicas::Replicas;
use crate::ring::client::{RingClient, RingClientParts};
use crate::ring::records::write_ring;
use crate::ring::tables::RingTables;
use crate::roles::desk::{Desk, IndexDesk};
use crate::roles::front::{AskIndex, RingCache};
use farol_base::query::{Answer, Hit, Request};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Languages, PagePosition, Timestamp};
use farol_cache::freshness::Expiry;
use farol_cache::front::FrontRules;
use farol_cache::node::NodeOptions;
use farol_cache::replace::Policy;
use farol_cache::tables::{Epoch, RingDoc, RingNode};
use farol_cache::{NodeId, Ring};
use farol_front::EngineError;
use farol_rpc::{Client, ClientSettings, Limits, Peer, Server};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Some cache nodes, each behind a server of its own, and fronts that ask them.
struct Service {
    runtime: tokio::runtime::Runtime,
    tables: Arc<RingTables>,
    peers: Arc<Mutex<BTreeMap<u16, Peer>>>,
    shelves: Vec<Arc<CacheShelf>>,
    servers: Vec<Option<Server>>,
    made: Arc<AtomicU64>,
}

impl Service {
    fn start(nodes: u16, grace: Duration) -> Service {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (tables, peers) = (Arc::new(RingTables::default()), Arc::<Mutex<BTreeMap<u16, Peer>>>::default());
        let node = |id| RingNode { id: NodeId(id), incarnation: 1, capacity: 1000 };
        let epoch = Epoch { term: 1, version: 1 };
        let doc = RingDoc { epoch, seed: 5, nodes: (0..nodes).map(node).collect(), ring: Ring::equal(nodes) };
        tables.hear("table.ring", &write_ring(&doc));
        let (mut shelves, mut servers) = (Vec::new(), Vec::new());
        for no in 0..nodes {
            let expiry = Expiry { ttl: Duration::from_secs(600), grace };
            let options = NodeOptions::of_bytes(1 << 20, Policy::default(), expiry);
            let name = ShelfName { no, incarnation: 1, capacity: 1000 };
            let shelf = Arc::new(CacheShelf::new(&options, name, tables.clone()));
            let cluster = Arc::new(ClusterHandle::new(farol_cluster::NodeId(u64::from(no))));
            let index =
                IndexDesk::new(Arc::new(Replicas::default()), cluster.clone(), Arc::new(Ranks::default()));
            let desk = Desk::new(cluster, Arc::new(ReportBoard::default()), index);
            desk.open_cache(shelf.clone());
            let server = {
                let _guard = runtime.enter();
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                farol_rpc::serve(listener, None, Arc::new(desk), Limits::default()).unwrap()
            };
            peers.lock().insert(no, Peer::new(format!("cache-{no}"), server.address()));
            shelves.push(shelf);
            servers.push(Some(server));
        }
        Service { runtime, tables, peers, shelves, servers, made: Arc::default() }
    }

    fn front(&self, me: u64) -> RingCache {
        let (peers, handle) = (self.peers.clone(), self.runtime.handle().clone());
        let client = RingClient::new(RingClientParts {
            me,
            incarnation: 1,
            rules: FrontRules::plain(),
            tables: self.tables.clone(),
            peer_of: Arc::new(move |node| peers.lock().get(&node.0).cloned()),
            caller: Client::new(ClientSettings::default(), handle.clone()).blocking(),
            runtime: handle.clone(),
        });
        RingCache::new(Arc::new(client), handle)
    }

    /// An index that takes so long.
    fn index(&self, time: Duration, state: u64) -> AskIndex {
        let made = self.made.clone();
        Arc::new(move || {
            std::thread::sleep(time);
            let total = 1 + made.fetch_add(1, Ordering::SeqCst);
            let hit = Hit {
                url: CanonicalUrl::parse("http://a.example/").unwrap(),
                title: Vec::new(),
                snippet: Vec::new(),
                language: None,
                dated: None,
                fetched: Timestamp::from_secs(1),
                score: 1.0,
                duplicates: 0,
                more_from_host: false,
                pinned: false,
                position: PagePosition::default(),
                strict: true,
                source: None,
                content: 0,
                simhash: 0,
            };
            Ok((Answer { total: total as usize, hits: vec![hit], ..Answer::default() }, state))
        })
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn entries(&self) -> u64 {
        self.shelves.iter().map(|shelf| shelf.beat().entries).sum()
    }
}

fn request(text: &str) -> Request {
    Request { query: farol_query::read(text).query, first: 0, count: 10, languages: Languages::default() }
}

fn ask(front: &RingCache, text: &str, state: u64, index: &AskIndex) -> Answer {
    front.answer(&request(text), &RulesInForce::default(), state, index).unwrap()
}

#[test]
fn what_one_front_asked_another_finds_and_rules_keep_answers_apart() {
    let service = Service::start(3, Duration::from_secs(60));
    let fronts = [service.front(1), service.front(2)];
    let index = service.index(Duration::ZERO, 7);
    let words = ["lighthouse", "harbour", "tide", "reef", "storm", "anchor", "gull", "buoy"];
    // What is late on a loaded machine is not kept: so it is asked until all of it is.
    service.wait("answers to be handed in", || {
        words.iter().for_each(|word| drop(ask(&fronts[0], word, 7, &index)));
        service.entries() == 8
    });
    // A call may be late on a loaded machine, and then the index is asked: so it is tried again.
    let (mut made, mut tries) = (service.made(), 0);
    loop {
        let aged = words.map(|word| ask(&fronts[1], &word.to_uppercase(), 7, &index));
        if service.made() == made {
            assert!(aged.iter().all(|answer| answer.hits.len() == 1));
            break;
        }
        (made, tries) = (service.made(), tries + 1);
        assert!(tries < 50, "the other front finds nothing");
    }
    // Without a state nothing is looked up, and nothing is taken from anywhere.
    ask(&fronts[1], "tide", 0, &index);
    assert_eq!(service.made(), made + 1);
    // By other rules it is another question.
    let rules = RulesInForce {
        texts: Arc::new(("tide, flood".to_string(), String::new())),
        ..RulesInForce::default()
    };
    fronts[1].answer(&request("tide"), &rules, 7, &index).unwrap();
    assert_eq!(service.made(), made + 2);
    // An index that fails is told, and keeps nobody from asking again.
    let broken: AskIndex = Arc::new(|| Err(EngineError::Busy));
    let failed = fronts[0].answer(&request("wreck"), &RulesInForce::default(), 7, &broken);
    assert_eq!(failed.map(|answer| answer.total), Err(EngineError::Busy));
    assert_eq!(ask(&fronts[0], "wreck", 7, &index).hits.len(), 1);
}

#[test]
fn of_all_who_miss_at_once_few_ask_the_index() {
    let service = Service::start(2, Duration::from_secs(60));
    let fronts = [service.front(1), service.front(2)];
    let index = service.index(Duration::from_millis(400), 1);
    std::thread::scope(|scope| {
        for person in 0..16 {
            let (front, index) = (&fronts[person % 2], &index);
            scope.spawn(move || assert_eq!(ask(front, "lighthouse", 1, index).hits.len(), 1));
        }
    });
    // One in each front: the second front waits for 40 ms, and then asks as well. A call that is late may be one more.
    assert!((1..=4).contains(&service.made()), "{}", service.made());
}

#[test]
fn a_superseded_answer_is_given_at_once_and_made_anew() {
    let service = Service::start(1, Duration::from_secs(30));
    let front = service.front(1);
    let (old, new) = (service.index(Duration::ZERO, 1), service.index(Duration::ZERO, 2));
    service.wait("the answer to be handed in", || {
        ask(&front, "tide", 1, &old);
        service.entries() == 1
    });
    let first = ask(&front, "tide", 1, &old);
    // Until a sixth of the grace has passed nobody is told to make it anew; then somebody is, and all find the new one.
    let begun = Instant::now();
    loop {
        let answer = ask(&front, "tide", 2, &new);
        if answer.total > first.total && begun.elapsed() > Duration::from_secs(5) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it is never made anew");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(front.client().counters.stale.load(Ordering::Relaxed) > 10);
    let made = service.made();
    service.wait("the new answer to be found", || {
        ask(&front, "tide", 2, &new);
        front.client().counters.hits.load(Ordering::Relaxed)
            > front.client().counters.stale.load(Ordering::Relaxed)
    });
    assert!(service.made() <= made + 3, "{} {made}", service.made());
}

#[test]
fn no_question_fails_when_nodes_are_gone() {
    let mut service = Service::start(4, Duration::from_secs(60));
    let front = service.front(1);
    let index = service.index(Duration::ZERO, 1);
    let words: Vec<String> = (0..40).map(|nth| format!("word{nth}")).collect();
    words.iter().for_each(|word| drop(ask(&front, word, 1, &index)));
    // One goes, then all: who refuses is passed over, and its neighbour is asked.
    service.servers[1] = None;
    words.iter().for_each(|word| assert_eq!(ask(&front, word, 1, &index).hits.len(), 1, "{word}"));
    let counters = &front.client().counters;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert!(count(&counters.refused) >= 1 && count(&counters.spare) >= 1);
    service.servers.clear();
    words.iter().for_each(|word| assert_eq!(ask(&front, word, 1, &index).hits.len(), 1, "{word}"));
    let open = front.client().nodes().into_iter().filter(|(_, is_open)| *is_open).count();
    assert!(open < 4, "those that refuse are passed over");
}
