//! Many shards asked at once, over real connections, while nodes die and hang.

use std::sync::Arc;
use std::time::{Duration, Instant};

use farol_base::sync::Mutex;
use farol_query::scatter::{ReplicaBook, ReplicaNo, ShardNo, Wanted};
use farol_rpc::{CallError, Client, Gathered, Limits, Peer, Server, gather};

use crate::node::{Verbs, client, node, within};

/// A front with one shard on each two of its nodes.
struct Front {
    client: Client,
    peers: Vec<Peer>,
    servers: Vec<Option<Server>>,
    book: Mutex<ReplicaBook>,
}

impl Front {
    async fn new(nodes: u32) -> Front {
        let mut front = Front {
            client: client(),
            peers: Vec::new(),
            servers: Vec::new(),
            book: Mutex::new(ReplicaBook::new(1)),
        };
        for _ in 0..nodes {
            let (server, peer) = node(Arc::<Verbs>::default(), Limits::default(), None).await;
            front.servers.push(Some(server));
            front.peers.push(peer);
        }
        let copies = |shard: u32| vec![ReplicaNo(shard), ReplicaNo((shard + 1) % nodes)];
        front.book.lock().install((0..nodes).map(|shard| (ShardNo(shard), copies(shard))));
        front
    }

    async fn ask(&self, ms: u64) -> Gathered<u64> {
        self.ask_for(2, ms).await
    }

    /// Asks for answers that take so long.
    async fn ask_for(&self, sleep_ms: u64, ms: u64) -> Gathered<u64> {
        let wanted: Vec<Wanted> = self.book.lock().shards().map(Wanted::from).collect();
        let deadline = within(ms);
        gather(&self.book, wanted, deadline, |ask| {
            let peer = &self.peers[ask.replica.0 as usize];
            async move { self.client.call::<_, u64>(peer, "sleep", &sleep_ms, deadline).await }
        })
        .await
    }

    fn under_way(&self) -> u32 {
        let book = self.book.lock();
        (0..self.peers.len() as u32)
            .map(|replica| book.view(ReplicaNo(replica), Instant::now()).unwrap().under_way)
            .sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_fails_no_question() {
    let mut front = Front::new(3).await;
    for round in 0..60 {
        if round == 20 {
            front.servers[1] = None;
        }
        let gathered = front.ask(5000).await;
        assert_eq!((gathered.answers.len(), gathered.missing), (3, Vec::new()), "round {round}");
    }
    assert!(front.book.lock().view(ReplicaNo(1), Instant::now()).unwrap().passed_over.is_some());
    assert_eq!(front.under_way(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_fails_no_question() {
    let mut front = Front::new(3).await;
    for _ in 0..30 {
        front.ask(2000).await;
    }
    // From now on node 1 takes connections and answers nothing.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    front.peers[1].address = hanging.local_addr().unwrap();
    let before = front.client.metrics().snapshot().verbs["sleep"].cancelled;
    for round in 0..60 {
        let gathered = front.ask(2000).await;
        assert_eq!((gathered.answers.len(), gathered.missing), (3, Vec::new()), "round {round}");
    }
    let cancelled = front.client.metrics().snapshot().verbs["sleep"].cancelled - before;
    // An even share would be 60; it is passed over after the third in vain, and probed now and then.
    assert!((1..20).contains(&cancelled), "{cancelled} calls waited for it");
    let (asks, hedges) = front.book.lock().asks_and_hedges();
    assert!(hedges > 0 && hedges * 20 <= asks, "{hedges} of {asks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_gone_is_told_with_its_reason() {
    let mut front = Front::new(3).await;
    front.servers[0] = None;
    front.servers[1] = None;
    let gathered = front.ask(5000).await;
    let answered: Vec<u32> = gathered.answers.iter().map(|answer| answer.shard.0).collect();
    assert_eq!(answered, [1, 2]);
    assert_eq!(gathered.missing.len(), 1);
    assert_eq!(gathered.missing[0].shard, ShardNo(0));
    assert!(matches!(gathered.missing[0].why, Some(CallError::Unreachable { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_dropped_leaves_no_load_behind() {
    let front = Front::new(3).await;
    for _ in 0..10 {
        let question = front.ask_for(60_000, 60_000);
        assert!(tokio::time::timeout(Duration::from_millis(5), question).await.is_err());
        assert_eq!(front.under_way(), 0);
    }
}
