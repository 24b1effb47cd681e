//! Three cache nodes over real connections, in one process: what one sends arrives where it belongs.

use super::*;
use crate::cluster::{Desk, IndexDesk};
use crate::handles::cache_node::ShelfName;
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::ranks::Ranks;
use crate::handles::replicas::Replicas;
use crate::ring::records::{write_hot, write_ring};
use crate::ring::tables::RingTables;
use crate::wire::v1::cache::WireKept;
use farol_base::sync::Mutex;
use farol_cache::Ring;
use farol_cache::freshness::{Expiry, Now};
use farol_cache::hot::Degree;
use farol_cache::node::{NodeLookup, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::store::Entry;
use farol_cache::tables::{Epoch, HotDoc, HotKey, RingNode};
use farol_fabric::memory::Memory;
use farol_rpc::{Client, ClientSettings, Limits, Peer, Server};

const SEED: u64 = 5;

struct Nodes {
    runtime: tokio::runtime::Runtime,
    tables: Arc<RingTables>,
    shelves: Vec<Arc<CacheShelf>>,
    servers: Vec<Option<Server>>,
    peers: Arc<Mutex<BTreeMap<u16, Peer>>>,
    version: u64,
}

impl Nodes {
    fn start(count: u16) -> Nodes {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let peers = Arc::<Mutex<BTreeMap<u16, Peer>>>::default();
        let mut nodes = Nodes {
            runtime,
            tables: Arc::default(),
            shelves: Vec::new(),
            servers: Vec::new(),
            peers,
            version: 0,
        };
        nodes.publish(Ring::equal(count));
        for no in 0..count {
            let expiry = Expiry { ttl: Duration::from_secs(600), grace: Duration::from_secs(60) };
            let options = NodeOptions {
                copies_share: 0.2,
                ..NodeOptions::of_bytes(1 << 20, Policy::default(), expiry)
            };
            let name = ShelfName { no, incarnation: 1, capacity: 1000 };
            let shelf = Arc::new(CacheShelf::new(&options, name, nodes.tables.clone()));
            let cluster = Arc::new(ClusterHandle::new(farol_cluster::NodeId(u64::from(no))));
            let index =
                IndexDesk::new(Arc::new(Replicas::default()), cluster.clone(), Arc::new(Ranks::default()));
            let desk = Desk::new(cluster, Arc::new(ReportBoard::default()), index);
            desk.open_cache(shelf.clone());
            let server = {
                let _guard = nodes.runtime.enter();
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                farol_rpc::serve(listener, None, Arc::new(desk), Limits::default()).unwrap()
            };
            nodes.peers.lock().insert(no, Peer::new(format!("cache-{no}"), server.address()));
            nodes.shelves.push(shelf);
            nodes.servers.push(Some(server));
        }
        nodes
    }

    fn publish(&mut self, ring: Ring) {
        self.version += 1;
        let mut ids: Vec<NodeId> = ring.nodes().collect();
        ids.sort_unstable();
        let nodes = ids.into_iter().map(|id| RingNode { id, incarnation: 1, capacity: 1000 }).collect();
        let doc = RingDoc { epoch: self.epoch(), seed: SEED, nodes, ring };
        self.tables.hear("table.ring", &write_ring(&doc));
    }

    fn epoch(&self) -> Epoch {
        Epoch { term: 1, version: self.version }
    }

    fn carrier(&self, no: u16, copies: Option<FailoverCopies>) -> Carrier {
        let peers = self.peers.clone();
        let parts = CacheNodeParts {
            shelf: self.shelves[usize::from(no)].clone(),
            fabric: Arc::new(Memory::new()),
            board: Arc::default(),
            peer_of: Arc::new(move |node| peers.lock().get(&node.0).cloned()),
            caller: Client::new(ClientSettings::default(), self.runtime.handle().clone()).blocking(),
            copies,
        };
        Carrier::new(parts, Arc::default())
    }

    fn ring(&self) -> Arc<RingDoc> {
        self.tables.now().ring.unwrap()
    }

    /// Answers of this many questions, each at its owner.
    fn fill(&self, count: usize) -> Vec<QueryKey> {
        let keys: Vec<QueryKey> =
            (0..count).map(|nth| QueryKey::of_sent(&format!("question {nth}"), SEED)).collect();
        for key in &keys {
            let owner = self.ring().ring.owner(key.hash()).unwrap();
            let shelf = &self.shelves[usize::from(owner.0)];
            let value = WireKept { answer: key.text().as_bytes().to_vec(), spelling: None };
            let (hash, made, weight) = (key.hash(), shelf.now(), 200);
            let entry = Entry { hash, key: key.clone(), value, weight, made, state: 1 };
            assert!(shelf.node.shard(hash).insert(entry));
        }
        keys
    }

    fn owned(&self, keys: &[QueryKey], no: u16) -> Vec<QueryKey> {
        let ring = self.ring();
        keys.iter().filter(|key| ring.ring.owner(key.hash()) == Some(NodeId(no))).cloned().collect()
    }

    /// As entry and as copy.
    fn holds(&self, no: u16, key: &QueryKey) -> (bool, bool) {
        self.shelves[usize::from(no)].node.shard(key.hash()).holds(key.hash(), key)
    }

    fn ask(&self, no: u16, key: &QueryKey) -> NodeLookup<WireKept> {
        let shelf = &self.shelves[usize::from(no)];
        let now = Now { time: shelf.now(), need: 1 };
        shelf.node.shard(key.hash()).lookup(key.hash(), key, &now, false)
    }
}

#[test]
fn a_round_leaves_the_best_answers_with_the_successor_which_gives_them_when_asked() {
    let nodes = Nodes::start(3);
    let keys = nodes.fill(600);
    let mine = nodes.owned(&keys, 1);
    // What was asked for lately is what is copied.
    let wanted = &mine[..20];
    wanted.iter().for_each(|key| assert!(matches!(nodes.ask(1, key), NodeLookup::Hit(_))));
    let copies = FailoverCopies { share: 0.2, ..FailoverCopies::default() };
    let mut carrier = nodes.carrier(1, Some(copies));
    let ring = nodes.ring();
    let successor = ring.ring.successor(NodeId(1)).unwrap().0;
    carrier.send_round(&copies, &ring);
    let sent = nodes.shelves[1].counters.copies_sent.load(Ordering::Relaxed);
    assert!((20..=mine.len() as u64 / 2).contains(&sent), "{sent} of {}", mine.len());
    let kept = wanted.iter().filter(|key| nodes.holds(successor, key) == (false, true)).count();
    assert_eq!(kept, wanted.len());
    let other = 3 - 1 - successor;
    assert!(mine.iter().all(|key| nodes.holds(other, key) == (false, false)));
    // The node is dead: whoever asks its successor finds them, adopted, with the same answer.
    for key in wanted {
        let NodeLookup::Adopted(found) = nodes.ask(successor, key) else { panic!("{}", key.text()) };
        assert_eq!(found.value.answer, key.text().as_bytes());
    }
    assert_eq!(nodes.shelves[usize::from(successor)].beat().adopted, 20);
}

#[test]
fn what_a_border_left_behind_goes_to_its_new_owner_once() {
    let mut nodes = Nodes::start(3);
    let keys = nodes.fill(600);
    let mut carrier = nodes.carrier(0, None);
    // The first ring is where it begins.
    carrier.hand_over(&nodes.ring());
    assert_eq!(nodes.shelves[0].counters.entries_given.load(Ordering::Relaxed), 0);
    let mut ring = nodes.ring().ring.clone();
    ring.leave(NodeId(0));
    let mine = nodes.owned(&keys, 0);
    nodes.publish(ring);
    carrier.hand_over(&nodes.ring());
    let given = nodes.shelves[0].counters.entries_given.load(Ordering::Relaxed);
    assert_eq!(given, mine.len() as u64);
    let ring = nodes.ring();
    for key in &mine {
        let owner = ring.ring.owner(key.hash()).unwrap().0;
        assert_ne!(owner, 0);
        assert!(nodes.holds(owner, key).0, "{} at {owner}", key.text());
    }
    carrier.hand_over(&ring);
    assert_eq!(nodes.shelves[0].counters.entries_given.load(Ordering::Relaxed), given);
}

#[test]
fn a_hot_answer_is_with_those_who_are_to_serve_it_before_they_are_asked() {
    let nodes = Nodes::start(4);
    let keys = nodes.fill(100);
    let mine = nodes.owned(&keys, 2);
    let (hot, cold) = (&mine[0], &mine[1]);
    let degree = Degree { hash: hot.hash(), nodes: 3 };
    let doc =
        HotDoc { epoch: nodes.epoch(), fronts: 1, at_once: 0, hot: vec![HotKey { degree, severity: 1 }] };
    nodes.tables.hear("table.hot", &write_hot(&doc));
    let ring = nodes.ring();
    let mut carrier = nodes.carrier(2, None);
    carrier.give_hot(&ring);
    let serving = sequence(Sequence::Random, &ring.ring, hot.hash());
    for (place, node) in serving.iter().enumerate() {
        assert_eq!(nodes.holds(node.0, hot).0, place < 3, "{place}");
        assert_eq!(nodes.holds(node.0, cold).0, *node == NodeId(2));
    }
    assert_eq!(nodes.shelves[2].counters.entries_given.load(Ordering::Relaxed), 2);
    // The same table once more gives nothing; who does not own it gives nothing either.
    carrier.give_hot(&ring);
    nodes.carrier(1, None).give_hot(&ring);
    let given = |no: usize| nodes.shelves[no].counters.entries_given.load(Ordering::Relaxed);
    assert_eq!((given(1), given(2)), (0, 2));
}

#[test]
fn a_node_that_is_gone_costs_a_round_and_nothing_else() {
    let mut nodes = Nodes::start(3);
    nodes.fill(300);
    let ring = nodes.ring();
    let successor = ring.ring.successor(NodeId(0)).unwrap().0;
    nodes.servers[usize::from(successor)] = None;
    let copies = FailoverCopies { share: 0.2, ..FailoverCopies::default() };
    nodes.carrier(0, Some(copies)).send_round(&copies, &ring);
    assert_eq!(nodes.shelves[0].counters.copies_sent.load(Ordering::Relaxed), 0);
    assert_eq!(nodes.shelves[usize::from(successor)].node.len().1, 0);
}
