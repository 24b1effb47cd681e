//! A small cluster in this process: real shards, real sockets, no tables.

use super::super::{Desk, IndexDesk};
use crate::broker::table::{ServedShard, ServingTable};
use crate::broker::{BrokerSettings, RemoteIndex};
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::index::RulesInForce;
use crate::handles::ranks::Ranks;
use crate::handles::replicas::Replicas;
use farol_base::query::{Answer, Request};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Random, Seeded, Timestamp};
use farol_cluster::{NodeId, ShardId};
use farol_index::{NoRanks, Searcher, Shard, ShardOptions};
use farol_query::scatter::{ReplicaNo, ShardNo};
use farol_rpc::{CallerHandle, Client, ClientSettings, Handler, Limits, Peer, Server};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Nodes that serve each shard.
const SERVED_BY: [[u32; 2]; 2] = [[1, 2], [2, 3]];

pub struct World {
    pub runtime: Runtime,
    pub index: Arc<RemoteIndex>,
    pub caller: CallerHandle,
    /// All pages in one index.
    pub whole: Searcher,
    pub desks: Vec<Arc<Desk>>,
    pub boards: Vec<Arc<ClusterHandle>>,
    servers: Mutex<Vec<Option<Server>>>,
    table: Arc<Mutex<Arc<ServingTable>>>,
    _dirs: Vec<TempDir>,
}

/// Shards with what serves each: numbers of nodes, from 1 on, with their replicas.
pub type Served = Vec<Vec<(u32, Searcher)>>;

impl World {
    /// Two shards on three nodes.
    pub fn new(deadline: Duration) -> World {
        let pages = pages();
        let mut dirs = Vec::new();
        let mut searcher_of = |pages: &[Document]| {
            let (searcher, dir) = searcher_of(pages);
            dirs.push(dir);
            searcher
        };
        let split = in_shards(&pages, SERVED_BY.len());
        let served = split.iter().zip(SERVED_BY).map(|(own, nodes)| {
            let searcher = searcher_of(own);
            nodes.map(|node| (node, searcher.clone())).to_vec()
        });
        let served = served.collect();
        let whole = searcher_of(&pages);
        World::of(deadline, whole, served, dirs)
    }

    /// A cluster of such shards, whose pages `whole` has too.
    pub fn of(deadline: Duration, whole: Searcher, served: Served, dirs: Vec<TempDir>) -> World {
        let runtime = Runtime::new().unwrap();
        let nodes = served.iter().flatten().map(|(node, _)| *node).max().unwrap();
        let (mut desks, mut boards) = (Vec::new(), Vec::new());
        for node in 1..=nodes {
            let replicas = Arc::new(Replicas::default());
            for (shard, serving) in served.iter().enumerate() {
                if let Some((_, searcher)) = serving.iter().find(|(known, _)| *known == node) {
                    replicas.set(ShardId(shard as u32), Some(searcher.clone()));
                }
            }
            let cluster = Arc::new(ClusterHandle::new(NodeId(u64::from(node))));
            let index = IndexDesk::new(replicas, cluster.clone(), Arc::new(Ranks::default()));
            let board = Arc::new(ReportBoard::default());
            desks.push(Arc::new(Desk::new(cluster.clone(), board, index)));
            boards.push(cluster);
        }
        let ranges = page_ranges(served.len());
        let table = Arc::new(Mutex::new(Arc::new(ServingTable {
            map: 4,
            state: 1,
            shards: (0..served.len())
                .map(|shard| ServedShard {
                    id: ShardNo(shard as u32),
                    pages: ranges[shard].clone(),
                    replicas: served[shard]
                        .iter()
                        .map(|(node, _)| (ReplicaNo(*node), Duration::ZERO))
                        .collect(),
                    documents: served[shard][0].1.documents(),
                    bytes: 1,
                })
                .collect(),
            peers: Default::default(),
            agents: (1..=nodes).map(ReplicaNo).collect(),
        })));
        let client = Client::new(ClientSettings::default(), runtime.handle().clone());
        let caller = client.blocking();
        let settings = BrokerSettings { deadline, hits_per_host: 2 };
        let source = table.clone();
        let index = RemoteIndex::new(Arc::new(move || source.lock().clone()), caller.clone(), settings);
        let world = World {
            runtime,
            index: Arc::new(index),
            caller,
            whole,
            desks,
            boards,
            servers: Mutex::new((0..nodes).map(|_| None).collect()),
            table,
            _dirs: dirs,
        };
        (1..=nodes).for_each(|node| world.serve(node, world.desks[node as usize - 1].clone()));
        world
    }

    /// Another front, whose own calls are answered by this node.
    pub fn front(&self, own: Option<u32>) -> RemoteIndex {
        let own = own.map(|node| {
            let servers = self.servers.lock();
            servers[node as usize - 1].as_ref().unwrap().here(format!("node{node}"))
        });
        let settings = BrokerSettings { deadline: Duration::from_secs(20), hits_per_host: 2 };
        RemoteIndex::new(self.table_source(), self.caller.clone(), settings).with_own(own)
    }

    /// The node answers with this from now on, at a new address.
    pub fn serve(&self, node: u32, handler: Arc<dyn Handler>) {
        let server = self.runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            farol_rpc::serve(listener, None, handler, Limits::default()).unwrap()
        });
        let peer = Peer::new(format!("node{node}"), server.address());
        self.change(|table| drop(table.peers.insert(ReplicaNo(node), peer)));
        self.servers.lock()[node as usize - 1] = Some(server);
    }

    /// Calls that each node has answered.
    pub fn calls_of_nodes(&self) -> Vec<u64> {
        let servers = self.servers.lock();
        let calls = |server: &Server| server.metrics().snapshot().verbs.values().map(|verb| verb.calls).sum();
        servers.iter().flatten().map(calls).collect()
    }

    /// Calls in work at a node, and waiting.
    pub fn load(&self, node: u32) -> (usize, usize) {
        self.servers.lock()[node as usize - 1].as_ref().map_or((0, 0), Server::load)
    }

    /// The node is gone, and the table does not know it yet.
    pub fn kill(&self, node: u32) {
        self.servers.lock()[node as usize - 1] = None;
    }

    pub fn change(&self, change: impl FnOnce(&mut ServingTable)) {
        let mut table = self.table.lock();
        let mut new = ServingTable::clone(&table);
        change(&mut new);
        *table = Arc::new(new);
    }

    pub fn table_source(&self) -> crate::broker::table::TableSource {
        let table = self.table.clone();
        Arc::new(move || table.lock().clone())
    }

    pub fn peer(&self, node: u32) -> Peer {
        self.table.lock().peers[&ReplicaNo(node)].clone()
    }

    pub fn ask(&self, line: &str) -> Result<Answer, String> {
        use crate::handles::index::IndexAccess;
        self.index.search(&request(line), &RulesInForce::default()).map(|(answer, _)| answer)
    }

    /// The answer of one index.
    pub fn ask_whole(&self, line: &str) -> Answer {
        self.whole.search(&request(line), &NoRanks).unwrap()
    }
}

pub fn request(line: &str) -> Request {
    Request { query: farol_query::read(line).query, first: 0, count: 10, languages: Language::ENGLISH.into() }
}

/// What people see of an answer, scores aside.
pub fn shown(answer: &Answer) -> Vec<(String, String, u32, bool)> {
    let text = |hit: &farol_base::query::Hit| {
        let texts = hit.title.iter().chain(&hit.snippet).map(|fragment| fragment.text.as_str());
        texts.collect::<Vec<_>>().join("|")
    };
    answer
        .hits
        .iter()
        .map(|hit| (hit.url.to_string(), text(hit), hit.duplicates, hit.more_from_host))
        .collect()
}

const WORDS: [&str; 24] = [
    "lighthouse",
    "keeper",
    "harbour",
    "storm",
    "lamp",
    "island",
    "ferry",
    "rope",
    "anchor",
    "signal",
    "north",
    "tide",
    "rock",
    "sailor",
    "bell",
    "fog",
    "tower",
    "oil",
    "wick",
    "glass",
    "mirror",
    "coast",
    "pilot",
    "chart",
];

/// Questions with one, two and three words, some with filters, one misspelt, one for nothing.
pub fn questions() -> Vec<String> {
    let mut questions: Vec<String> = WORDS.iter().map(ToString::to_string).collect();
    questions.extend(WORDS.windows(2).map(|words| words.join(" ")));
    questions.extend(WORDS.windows(3).step_by(3).map(|words| words.join(" ")));
    questions.extend(
        ["\"storm lamp\"", "island -ferry", "intitle:bell", "site:h3.example rope"].map(String::from),
    );
    questions.extend(["lighthuose", "harbor storm", "nowhereword"].map(String::from));
    questions
}

/// The pages of each of so many shards.
pub fn page_ranges(shards: usize) -> Vec<std::ops::RangeInclusive<u64>> {
    let border = |shard: usize| ((shard as u128) << 64) / shards as u128;
    (0..shards).map(|shard| border(shard) as u64..=(border(shard + 1) - 1) as u64).collect()
}

/// Pages by shard.
pub fn in_shards(pages: &[Document], shards: usize) -> Vec<Vec<Document>> {
    let own = |range: std::ops::RangeInclusive<u64>| {
        pages.iter().filter(|page| range.contains(&page.url.id().0)).cloned().collect()
    };
    page_ranges(shards).into_iter().map(own).collect()
}

/// An index of pages, in a folder of its own.
pub fn searcher_of(pages: &[Document]) -> (Searcher, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = ShardOptions { writer_memory_bytes: 15_000_000, ..ShardOptions::default() };
    let mut shard = Shard::open(dir.path(), options).unwrap();
    pages.iter().for_each(|page| shard.put(page).unwrap());
    shard.commit(PagePosition { file: 0, offset: 1 }).unwrap();
    (shard.searcher(), dir)
}

fn pages() -> Vec<Document> {
    pages_of(26, 400)
}

/// So many pages from a seed.
pub fn pages_of(seed: u64, count: u64) -> Vec<Document> {
    let mut random = Seeded::new(seed);
    let mut words = |count: u64| -> String {
        let mut text = Vec::new();
        for _ in 0..count {
            // The first words are the frequent ones.
            let at = (random.unit() * random.unit() * WORDS.len() as f64) as usize;
            text.push(WORDS[at.min(WORDS.len() - 1)]);
        }
        text.join(" ")
    };
    let mut pages: Vec<Document> = Vec::new();
    for number in 0..count {
        let url = CanonicalUrl::parse(&format!("http://h{}.example/p/{number}", number % 37)).unwrap();
        // Every twentieth has the text of the one before.
        let (title, body) = match pages.last() {
            Some(last) if number % 20 == 19 => (last.title.clone(), last.body.clone()),
            _ => (words(3), words(40 + number % 60)),
        };
        pages.push(Document {
            content_hash: ContentHash::of(body.as_bytes()),
            simhash: farol_base::fingerprint::hash64(body.as_bytes()),
            title,
            body,
            headings: String::new(),
            description: String::new(),
            rest: String::new(),
            anchors: String::new(),
            language: Some(Language::ENGLISH),
            file_type: "html".to_string(),
            fetched: Timestamp::from_secs(1_000 + number),
            dated: None,
            position: PagePosition { file: 0, offset: number },
            shown: Default::default(),
            source: None,
            url,
        });
    }
    pages
}
