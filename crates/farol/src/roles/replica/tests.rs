//! Replicas on a fabric in memory: what they take, what they miss, and how they are born.

use super::{IndexService, RunningIndexService};
use crate::handles::cluster::{ClusterHandle, ClusterView, ReportBoard};
use crate::handles::dead::DeadLetters;
use crate::handles::ranks::Ranks;
use crate::handles::replicas::Replicas;
use crate::wire::batch::{DocumentBatch, Stretch, WireChange, pack};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Clock, ContentHash, Document, PagePosition, Shown, SystemClock, Timestamp};
use farol_cluster::record::read;
use farol_cluster::snapshot::SnapshotPointer;
use farol_cluster::{
    ArchivePosition, Key, NodeId, NodeNo, ReplicaEntry, ReplicaState, ShardEntry, ShardId, ShardMap,
    ShardState,
};
use farol_fabric::blobs::Blobs;
use farol_fabric::memory::Memory;
use farol_fabric::{Fabric, Seq, Topic};
use farol_index::ShardOptions;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const AGENT: u16 = 3;
const SHARD: ShardId = ShardId(0);
const LOG: Topic = Topic::Docs(0);
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes over one log and one place for blobs.
struct Nodes {
    fabric: Memory,
    dir: tempfile::TempDir,
    /// From where on the agent was asked to send again.
    asked: Arc<Mutex<Vec<PagePosition>>>,
}

impl Nodes {
    fn new() -> Nodes {
        Nodes { fabric: Memory::new(), dir: tempfile::tempdir().unwrap(), asked: Arc::default() }
    }

    fn service(&self, node: u64) -> IndexService {
        let data = self.dir.path().join(format!("node-{node}"));
        let asked = self.asked.clone();
        IndexService {
            me: NodeId(node),
            dir: data.join("index"),
            options: ShardOptions::default(),
            fabric: Arc::new(self.fabric.clone()),
            blobs: Arc::new(Blobs::open(self.dir.path().join("blobs").to_str().unwrap()).unwrap()),
            cluster: Arc::new(ClusterHandle::new(NodeId(node))),
            board: Arc::new(ReportBoard { dead: DeadLetters::in_folder(&data), ..ReportBoard::default() }),
            replicas: Arc::new(Replicas::default()),
            ranks: Arc::new(Ranks::default()),
            ask_again: Arc::new(move |agent, topic, from| {
                assert_eq!((agent, topic), (NodeNo(AGENT), LOG));
                asked.lock().push(from);
            }),
            commit_every: Duration::from_millis(50),
            snapshot_every: Duration::from_secs(3600),
            snapshot_bytes: 1 << 30,
        }
    }

    fn append(&self, stretch: Stretch, changes: Vec<WireChange>) {
        let bytes = pack(&DocumentBatch { stretch: Some(stretch), changes }).unwrap();
        self.fabric.append(&LOG, &bytes).unwrap();
    }
}

/// Pages `from..upto` of the agent's archive, ten bytes each.
fn stretch(from: u64, upto: u64) -> Stretch {
    Stretch { from: AGENT, prev: (0, from * 10), upto: (0, upto * 10), cut: from as u32 + 1, piece: 0 }
}

fn document(number: u64, fetched: Timestamp) -> Document {
    Document {
        url: CanonicalUrl::parse(&format!("http://a.test/{number}")).unwrap(),
        title: format!("page {number}"),
        headings: String::new(),
        body: format!("words of page {number}"),
        rest: String::new(),
        description: String::new(),
        anchors: String::new(),
        language: None,
        file_type: "html".to_string(),
        fetched,
        dated: None,
        content_hash: ContentHash(u128::from(number)),
        simhash: number << 32,
        position: PagePosition { file: 0, offset: number * 10 },
        shown: Shown::Passage,
        source: None,
    }
}

fn put(number: u64) -> WireChange {
    put_at(number, SystemClock.now())
}

fn put_at(number: u64, fetched: Timestamp) -> WireChange {
    WireChange::Put(Box::new((&document(number, fetched)).into()))
}

/// A map with one shard, whose replicas these nodes have.
fn one_shard(nodes: &[u64]) -> ShardMap {
    let mut map = ShardMap::new(1, 1);
    let replica = |node: &u64| ReplicaEntry { node: NodeId(*node), state: ReplicaState::Serving };
    map.shards[0].replicas = nodes.iter().map(replica).collect();
    map
}

fn set_map(service: &IndexService, map: &ShardMap) {
    service.cluster.set(ClusterView { shards: Some(Arc::new(map.clone())), ..ClusterView::new(service.me) });
}

fn pages(service: &IndexService, shard: ShardId) -> u64 {
    service.replicas.searcher(shard).map_or(0, |searcher| searcher.documents())
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_caught_up(service: &IndexService, shard: ShardId) -> bool {
    service.board.replicas.lock().get(&shard).is_some_and(|report| report.lag_ms.is_some())
}

#[test]
fn what_cannot_be_read_is_kept_and_what_it_held_is_asked_for_again() {
    let nodes = Nodes::new();
    let service = nodes.service(1);
    set_map(&service, &one_shard(&[1]));
    nodes.append(stretch(0, 2), vec![put(0), put(1)]);
    // One of a version that this program does not know, and one that is torn.
    nodes.fabric.append(&LOG, &[9, 1, 2, 3]).unwrap();
    nodes.fabric.append(&LOG, b"").unwrap();
    let running = RunningIndexService::start(service.clone()).unwrap();
    wait_for("two pages", || pages(&service, SHARD) == 2);
    wait_for("both to be counted", || service.board.dead.counts().get(&LOG) == Some(&2));
    assert!(nodes.asked.lock().is_empty(), "nothing shows yet that anything is missing");
    assert_eq!(service.board.dead.kept(), 2);
    let told = service.board.report().trouble.join("\n");
    assert!(told.contains("2 batches could not be read"), "{told}");
    // The next batch shows the gap; a replica with one does not say that it has caught up.
    nodes.append(stretch(4, 5), vec![put(4)]);
    wait_for("the gap", || nodes.asked.lock().first() == Some(&PagePosition { file: 0, offset: 20 }));
    wait_for("that it says so", || !has_caught_up(&service, SHARD));
    assert_eq!(pages(&service, SHARD), 2);
    nodes.append(stretch(2, 5), vec![put(2), put(3), put(4)]);
    wait_for("all five", || pages(&service, SHARD) == 5 && has_caught_up(&service, SHARD));
    running.stop();
    // What was committed is there after a restart, and its log is read on from there.
    let again = nodes.service(1);
    set_map(&again, &one_shard(&[1]));
    let running = RunningIndexService::start(again.clone()).unwrap();
    nodes.append(stretch(5, 6), vec![put(5), WireChange::Delete("http://a.test/0".to_string())]);
    wait_for("the sixth without the first", || pages(&again, SHARD) == 5 && has_caught_up(&again, SHARD));
    assert!(again.board.dead.counts().is_empty(), "nothing was read twice");
    running.stop();
}

#[test]
fn a_clock_that_jumped_does_not_keep_later_visits_out() {
    let nodes = Nodes::new();
    let service = nodes.service(1);
    set_map(&service, &one_shard(&[1]));
    let now = SystemClock.now();
    let ahead = now + Duration::from_secs(2 * 24 * 3600);
    nodes.append(stretch(0, 2), vec![put_at(0, ahead), put_at(1, now + Duration::from_secs(3600))]);
    let running = RunningIndexService::start(service.clone()).unwrap();
    wait_for("the page of the next hour", || pages(&service, SHARD) == 1);
    assert_eq!(service.board.pages_ahead.load(Ordering::Relaxed), 1);
    let told = service.board.report().trouble.join("\n");
    assert!(
        told.contains("1 pages were dated more than a day ahead") && told.contains("rebuild 0"),
        "{told}"
    );
    // The clock was set: the visit of now counts.
    nodes.append(stretch(2, 3), vec![put_at(0, now)]);
    wait_for("the page itself", || pages(&service, SHARD) == 2);
    running.stop();
}

#[test]
fn a_log_that_brings_much_is_saved_before_its_time_and_a_new_replica_begins_there() {
    let nodes = Nodes::new();
    let mut service = nodes.service(1);
    service.snapshot_bytes = 100;
    let mut map = one_shard(&[1]);
    map.shards[0].keeper = Some(NodeId(1));
    set_map(&service, &map);
    let running = RunningIndexService::start(service.clone()).unwrap();
    nodes.append(stretch(0, 20), (0..20).map(put).collect());
    let pointer = || -> Option<SnapshotPointer> {
        let key = Key::Snapshot(SHARD).to_string();
        let (value, _) = nodes.fabric.get(&key).unwrap()?;
        Some(read(&key, &value).unwrap())
    };
    // By time the first one would come after six minutes.
    wait_for("a snapshot of all", || pointer().is_some_and(|pointer| pointer.mark.seq == 1));
    let age = SystemClock.now().since(Timestamp::from_millis(pointer().unwrap().at));
    assert!(age < PATIENCE, "{age:?}");
    assert_eq!(service.board.report().trouble, [""; 0]);
    // The log forgets what the snapshot holds; a new replica has it all the same.
    nodes.fabric.trim(&LOG, Seq(1)).unwrap();
    nodes.append(stretch(20, 21), vec![put(20)]);
    let second = nodes.service(2);
    set_map(&second, &one_shard(&[1, 2]));
    let joining = RunningIndexService::start(second.clone()).unwrap();
    wait_for("the same pages", || pages(&second, SHARD) == 21 && has_caught_up(&second, SHARD));
    assert!(nodes.asked.lock().is_empty(), "nothing had to be sent again");
    joining.stop();
    running.stop();
}

#[test]
fn a_half_is_divided_off_its_parent_with_its_own_pages_alone() {
    let nodes = Nodes::new();
    let service = nodes.service(1);
    let whole = one_shard(&[1]);
    set_map(&service, &whole);
    nodes.append(stretch(0, 40), (0..40).map(put).collect());
    let running = RunningIndexService::start(service.clone()).unwrap();
    wait_for("the parent", || pages(&service, SHARD) == 40);
    let middle = u64::MAX / 2;
    let half = |id: u32, from: u64, to: u64| ShardEntry {
        id: ShardId(id),
        from,
        to,
        state: ShardState::Forming { parent: SHARD },
        replicas: whole.shards[0].replicas.clone(),
        extra: 0,
        keeper: None,
        born_of: Some(SHARD),
    };
    let mut map = whole.clone();
    let end = ArchivePosition { file: 0, offset: 400 };
    map.shards[0].state =
        ShardState::Splitting { into: [ShardId(1), ShardId(2)], closed: Some([(NodeNo(AGENT), end)].into()) };
    map.shards.extend([half(1, 0, middle), half(2, middle + 1, u64::MAX)]);
    set_map(&service, &map);
    let lower =
        (0..40).filter(|number| document(*number, SystemClock.now()).url.id().0 <= middle).count() as u64;
    assert!((1..40).contains(&lower));
    wait_for("both halves", || {
        pages(&service, ShardId(1)) == lower && pages(&service, ShardId(2)) == 40 - lower
    });
    assert_eq!(pages(&service, SHARD), 40, "the parent goes on answering");
    // What comes now goes to the halves' own logs, behind where the parent's ended.
    let number = (40..).find(|number| document(*number, SystemClock.now()).url.id().0 <= middle).unwrap();
    let next = Stretch { prev: (0, 400), upto: (0, 410), ..stretch(40, 41) };
    let batch = DocumentBatch { stretch: Some(next), changes: vec![put(number)] };
    nodes.fabric.append(&Topic::Docs(1), &pack(&batch).unwrap()).unwrap();
    wait_for("the page of the half", || pages(&service, ShardId(1)) == lower + 1);
    assert!(nodes.asked.lock().is_empty());
    running.stop();
}
