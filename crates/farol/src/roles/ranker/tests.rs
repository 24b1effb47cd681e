//! Rankers on a fabric in memory: what they tell the shards, and what becomes of it when they go.

use super::publish::shard_ids;
use super::{RankerService, RunningRanker};
use crate::handles::cluster::{ClusterHandle, ClusterView, ReportBoard};
use crate::wire::batch::{DocumentBatch, LinkBatch, LinkChange, Stretch, WireChange, pack, unpack};
use crate::wire::values::{WireLink, position};
use farol_base::sync::Mutex;
use farol_base::{HostHash, PageId, PagePosition, disk::Mem};
use farol_cluster::record::{RankTable as RankRecord, RanksReport, Role};
use farol_cluster::{ArchivePosition, NodeId, NodeNo, NodeRecord, NodeState, ShardId, ShardMap};
use farol_fabric::blobs::Blobs;
use farol_fabric::memory::Memory;
use farol_fabric::{Fabric, Seq, Topic};
use farol_links::{Budget, Links, LinksOptions, OutLink, RankSlice, RankTable};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const AGENT: u16 = 1;
const PAGES: u64 = 40;

fn page(number: u64) -> PageId {
    PageId::of(&format!("http://h{}.test/{number}", number % 3))
}

fn host(number: u64) -> HostHash {
    HostHash::of(&format!("http://h{}.test", number % 3))
}

fn at(number: u64) -> PagePosition {
    PagePosition { file: 0, offset: number * 10 }
}

/// Each page links to the first one, to the next, and to some that nobody has fetched.
fn links(number: u64) -> Vec<OutLink> {
    let link = |to: u64, anchor: String| OutLink {
        target: page(to),
        target_host: host(to),
        anchor,
        nofollow: false,
    };
    let far = PAGES + number % 5;
    vec![
        link(0, format!("the very first {}", number % 4)),
        link((number + 1) % PAGES, format!("after {number}")),
        link(far, "never fetched".to_string()),
    ]
}

/// What the agent's archive says of these pages, as batches of a few.
fn batches(pages: std::ops::Range<u64>, cut: u32) -> Vec<Vec<u8>> {
    let put = |number: u64| LinkChange::Put {
        page: page(number).0,
        host: host(number).0,
        at: position(at(number)),
        links: links(number).iter().map(WireLink::from).collect(),
    };
    let numbers: Vec<u64> = pages.collect();
    let batch = |numbers: &[u64]| {
        let (first, end) = (numbers[0], numbers[numbers.len() - 1] + 1);
        let (prev, upto) = (position(at(first)), position(at(end)));
        let stretch = Stretch { from: AGENT, prev, upto, cut, piece: 0 };
        pack(&LinkBatch { stretch, changes: numbers.iter().copied().map(put).collect() }).unwrap()
    };
    numbers.chunks(7).map(batch).collect()
}

/// The graph of one process that has the same pages.
fn one_process(pages: u64) -> Links {
    let mut graph = Links::open(Arc::new(Mem::new()), LinksOptions::default()).unwrap();
    for number in 0..pages {
        graph.put(page(number), host(number), &links(number), at(number)).unwrap();
    }
    graph.compute_ranks(Budget { iterations_max: 300, tolerance: 1e-8 }).unwrap();
    graph
}

struct World {
    fabric: Memory,
    dir: tempfile::TempDir,
    view: Mutex<ClusterView>,
    handles: Mutex<BTreeMap<u64, Arc<ClusterHandle>>>,
    /// From where on the agent was asked to send again.
    asked: Arc<Mutex<Vec<PagePosition>>>,
}

impl World {
    fn new() -> World {
        let mut view = ClusterView::new(NodeId(0));
        let mut agent = NodeRecord::new(NodeId(100), "agent", "127.0.0.1:9".parse().unwrap());
        (agent.no, agent.state, agent.roles) = (Some(NodeNo(AGENT)), NodeState::Up, [Role::Crawl].into());
        view.nodes.insert(agent.id, agent);
        view.shards = Some(Arc::new(ShardMap::new(2, 1)));
        World {
            fabric: Memory::new(),
            dir: tempfile::tempdir().unwrap(),
            view: Mutex::new(view),
            handles: Mutex::default(),
            asked: Arc::default(),
        }
    }

    /// Changes what all nodes know.
    fn tell(&self, change: impl FnOnce(&mut ClusterView)) {
        let mut view = self.view.lock();
        change(&mut view);
        for (node, handle) in self.handles.lock().iter() {
            handle.set(ClusterView { me: NodeId(*node), no: Some(NodeNo(*node as u16)), ..view.clone() });
        }
    }

    fn name(&self, node: u64, ranks: Option<RanksReport>) {
        let table = RankRecord { v: 1, version: node, term: 1, node: Some(NodeId(node)), ranks };
        self.tell(|view| view.ranks = Some(table));
    }

    /// The agent says how far the logs of all shards have its pages.
    fn sent(&self, upto: PagePosition) {
        let upto = ArchivePosition { file: u64::from(upto.file), offset: upto.offset };
        self.tell(|view| {
            let shards = shard_ids(view.shards.as_ref().unwrap());
            let agent = view.nodes.get_mut(&NodeId(100)).unwrap();
            agent.report.sent = shards.into_iter().map(|shard| (shard, upto)).collect();
        });
    }

    fn service(&self, node: u64) -> RankerService {
        let cluster = Arc::new(ClusterHandle::new(NodeId(node)));
        self.handles.lock().insert(node, cluster.clone());
        self.tell(|_| {});
        let (asked, fabric) = (self.asked.clone(), self.fabric.clone());
        RankerService {
            me: NodeId(node),
            dir: self.dir.path().join(format!("rank-{node}")),
            fabric: Arc::new(self.fabric.clone()),
            blobs: Arc::new(self.blobs()),
            cluster,
            board: Arc::new(ReportBoard { disk_path: self.dir.path().into(), ..ReportBoard::default() }),
            ask_again: Arc::new(move |node, topic, from| {
                assert_eq!((node, topic), (NodeNo(AGENT), Topic::Links));
                asked.lock().push(from);
                let first = from.offset / 10;
                for bytes in batches(first..PAGES, 1000 + asked.lock().len() as u32) {
                    fabric.append(&Topic::Links, &bytes).unwrap();
                }
            }),
            rank_every: Duration::from_millis(300),
        }
    }

    fn blobs(&self) -> Blobs {
        Blobs::open(self.dir.path().join("blobs").to_str().unwrap()).unwrap()
    }

    fn append(&self, pages: std::ops::Range<u64>) {
        for bytes in batches(pages.clone(), pages.start as u32) {
            self.fabric.append(&Topic::Links, &bytes).unwrap();
        }
    }

    /// What each page is called, as the logs of the shards say.
    fn anchors(&self) -> BTreeMap<u64, String> {
        let mut anchors = BTreeMap::new();
        let map = self.view.lock().shards.clone().unwrap();
        for entry in map.written() {
            let topic = Topic::Docs(entry.id.0);
            let read = self.fabric.read(&topic, Seq(0), 10_000, Duration::ZERO).unwrap();
            for (_, bytes) in read.items {
                let batch: DocumentBatch = unpack(&bytes).unwrap();
                assert_eq!(batch.stretch, None);
                for change in batch.changes {
                    let WireChange::Anchors { page, text } = change else { panic!("{change:?}") };
                    assert!((entry.from..=entry.to).contains(&page), "{page} is told to shard {}", entry.id);
                    anchors.insert(page, text);
                }
            }
        }
        anchors
    }

    /// The ranks that a report stands for, from the slices of all shards.
    fn ranks(&self, report: &RanksReport) -> RankTable {
        let slice = |shard: ShardId| {
            let bytes = self.blobs().get(&format!("ranks/{}/{shard}", report.version)).unwrap();
            let slice = RankSlice::read(&bytes).unwrap();
            assert_eq!(
                (slice.version, format!("{:08x}", slice.digest)),
                (report.version, report.digest.clone())
            );
            slice
        };
        let map = self.view.lock().shards.clone().unwrap();
        RankTable::of_slices(&shard_ids(&map).into_iter().map(slice).collect::<Vec<_>>())
    }

    /// Waits until a ranker tells of ranks of a graph of so many pages, and compares them with those of one process.
    #[track_caller]
    fn ranks_as_one_process(&self, service: &RankerService, pages: u64) -> RanksReport {
        let want = one_process(pages).ranks();
        let mut last = None;
        until("the ranks of one process", || {
            let Some(report) = service.board.ranks.lock().clone() else { return false };
            let is_alike = alike(&self.ranks(&report), &want);
            last = Some(report);
            is_alike
        });
        last.unwrap()
    }
}

fn alike(got: &RankTable, want: &RankTable) -> bool {
    let near = |(a, b): (f32, f32)| (a - b).abs() < 1e-6;
    (got.pages(), got.hosts()) == (want.pages(), want.hosts())
        && got.page_shares().zip(want.page_shares()).all(|(a, b)| a.0 == b.0 && near((a.1, b.1)))
        && got.host_shares().zip(want.host_shares()).all(|(a, b)| a.0 == b.0 && near((a.1, b.1)))
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What each page of one process is called.
fn anchors_of_one_process(pages: u64) -> BTreeMap<u64, String> {
    let graph = one_process(pages);
    let text = |number: u64| (page(number).0, crate::anchor_text::anchor_text(&graph, page(number)).unwrap());
    (0..pages).map(text).filter(|(_, text)| !text.is_empty()).collect()
}

fn mark_of(dir: &Path) -> u64 {
    super::mark::read_mark(dir).unwrap().seq
}

#[test]
fn anchors_are_told_once_the_page_itself_is_in_its_log() {
    let world = World::new();
    world.name(7, None);
    let service = world.service(7);
    world.append(0..PAGES);
    let ranker = RunningRanker::start(service.clone()).unwrap();
    let report = world.ranks_as_one_process(&service, PAGES);
    assert_eq!(report.version & 0xffff, 7, "its number is in the version");
    assert_eq!(world.anchors(), BTreeMap::new(), "no page is in its log yet");
    assert_eq!(mark_of(&service.dir), 0, "what was not told is not durable");

    // The first half of the archive is sent, then all of it.
    world.sent(at(20));
    until("the mark or the first half", || world.anchors().len() >= 20);
    let told = world.anchors();
    assert!((0..20).all(|number| told.contains_key(&page(number).0)), "{told:?}");
    assert!((21..PAGES).all(|number| !told.contains_key(&page(number).0)), "{told:?}");
    world.sent(at(PAGES));
    let want = anchors_of_one_process(PAGES);
    until("all anchors", || world.anchors() == want);
    assert!(want[&page(0).0].contains("the very first 1"), "{want:?}");
    assert!(!want.contains_key(&page(PAGES).0), "a page that nobody has fetched");
    until("a durable mark", || mark_of(&service.dir) > 0);
    assert_eq!(*world.asked.lock(), [], "nothing was missing");
    ranker.stop();
}

#[test]
fn a_ranker_that_comes_back_goes_on_where_it_was() {
    let world = World::new();
    world.name(7, None);
    world.sent(at(PAGES));
    let service = world.service(7);
    world.append(0..25);
    let ranker = RunningRanker::start(service.clone()).unwrap();
    let first = world.ranks_as_one_process(&service, 25);
    until("a durable mark", || mark_of(&service.dir) > 0);
    ranker.stop();
    // What comes while nobody ranks is read later, and what it had is not asked for again.
    let durable = mark_of(&service.dir);
    world.append(25..PAGES);
    world.fabric.trim(&Topic::Links, Seq(durable)).unwrap();
    world.name(7, Some(first.clone()));
    let service = world.service(7);
    let ranker = RunningRanker::start(service.clone()).unwrap();
    let second = world.ranks_as_one_process(&service, PAGES);
    assert!(second.version > first.version && second.digest != first.digest);
    until("all anchors", || world.anchors() == anchors_of_one_process(PAGES));
    assert_eq!(*world.asked.lock(), []);
    ranker.stop();
}

#[test]
fn a_successor_without_a_graph_has_all_links_sent_again_and_comes_to_the_same() {
    let world = World::new();
    world.name(7, None);
    world.sent(at(PAGES));
    let before = world.service(7);
    world.append(0..PAGES);
    let ranker = RunningRanker::start(before.clone()).unwrap();
    let first = world.ranks_as_one_process(&before, PAGES);
    until("a durable mark", || mark_of(&before.dir) > 0);

    // Another one is named; the log has forgotten everything.
    let end = world.fabric.read(&Topic::Links, Seq(0), 1, Duration::ZERO).unwrap().end;
    world.fabric.trim(&Topic::Links, end).unwrap();
    let after = world.service(9);
    world.name(9, Some(first.clone()));
    let successor = RunningRanker::start(after.clone()).unwrap();
    let second = world.ranks_as_one_process(&after, PAGES);
    assert_eq!(*world.asked.lock(), [PagePosition::default()]);
    assert!(second.version >= first.version);
    until("a durable mark", || mark_of(&after.dir) > 0);
    assert_eq!(world.anchors(), anchors_of_one_process(PAGES));
    // Whoever is named no more writes no more.
    let silent = mark_of(&before.dir);
    world.append(0..1);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(mark_of(&before.dir), silent);
    ranker.stop();
    successor.stop();
}

#[test]
fn a_shard_that_was_born_gets_its_slice_without_new_links() {
    let world = World::new();
    world.name(7, None);
    world.sent(at(PAGES));
    let service = world.service(7);
    world.append(0..PAGES);
    let ranker = RunningRanker::start(service.clone()).unwrap();
    let first = world.ranks_as_one_process(&service, PAGES);
    world.name(7, Some(first.clone()));
    world.tell(|view| view.shards = Some(Arc::new(ShardMap::new(3, 1))));
    until("slices of three shards", || {
        service.board.ranks.lock().as_ref().is_some_and(|report| report.version > first.version)
    });
    let second = world.ranks_as_one_process(&service, PAGES);
    assert_eq!(second.digest, first.digest);
    ranker.stop();
}
