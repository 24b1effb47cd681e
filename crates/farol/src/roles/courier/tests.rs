//! What a hostile or broken agent sends: it is bounded, refused, counted, and costs nobody else anything.

use super::*;
use crate::archive::{Incoming, Received};
use crate::exchange::Exchange;
use crate::exchange::outboxes::Outboxes;
use crate::fabric::LocalTables;
use crate::handles::crawl::CrawlSnapshot;
use crate::handles::order::Order;
use crate::wire::freight::{FreightHead, pack_notes, pack_urls, write};
use crate::wire::urls::{URLS_MAX, UrlBody, WireFound, WireHost};
use farol_base::sync::Mutex;
use farol_cluster::{Monotonic, NodeId};
use farol_fabric::Topic;
use farol_fabric::memory::Memory;
use farol_partition::hold::{AgentId, HoldSettings};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const ME: NodeNo = NodeNo(1);
const LIAR: u16 = 7;
const HONEST: u16 = 8;

/// An agent that reads its log, and what it hands to its crawl.
struct Reader {
    fabric: Arc<Memory>,
    sources: CourierSources,
    given: Receiver<Received>,
    _dir: tempfile::TempDir,
}

impl Reader {
    fn new() -> Reader {
        let dir = tempfile::tempdir().unwrap();
        let tables = LocalTables::open(&dir.path().join("tables")).unwrap();
        let lease = |_| Some(Monotonic::from_millis(9_000));
        let me = AgentId { no: ME, incarnation: 1 };
        let clock = || Monotonic::from_millis(1_000);
        let rights = Arc::new(Rights::new(me, HoldSettings::default(), Arc::new(lease), clock));
        let outboxes = Outboxes::open(&dir.path().join("outbox"), ME, 1 << 20).unwrap();
        let exchange = Exchange::open(rights.clone(), outboxes, &tables).unwrap();
        let (sender, given) = channel();
        let sender = Mutex::new(sender);
        let crawl = CrawlHandle::new(Arc::new(Mutex::new(CrawlSnapshot::default())), move |order| {
            if let Order::Received(batch) = order {
                sender.lock().send(batch)?;
            }
            Ok(())
        });
        let fabric = Arc::new(Memory::new());
        let sources = CourierSources {
            me: ME,
            desk: exchange.desk(),
            rights,
            blobs: None,
            fabric: fabric.clone(),
            cluster: Arc::new(ClusterHandle::new(NodeId(7))),
            board: Arc::new(ReportBoard::default()),
            crawl,
            ask_again: Arc::new(|_, _, _| {}),
            per_minute: quota::PER_MINUTE,
        };
        Reader { fabric, sources, given, _dir: dir }
    }

    fn append(&self, bytes: &[u8]) {
        self.fabric.append(&Topic::Urls(ME.0), bytes).unwrap();
    }

    /// Reads until it has been given so many batches, and a little longer.
    fn read(&self, count: usize) -> Vec<Received> {
        let stop = AtomicBool::new(false);
        let sources = &self.sources;
        std::thread::scope(|scope| {
            scope.spawn(|| receive::run(sources, &stop));
            let mut all = Vec::new();
            let begun = Instant::now();
            while all.len() < count && begun.elapsed() < Duration::from_secs(60) {
                all.extend(self.given.recv_timeout(Duration::from_millis(100)));
            }
            while let Ok(more) = self.given.recv_timeout(Duration::from_millis(300)) {
                all.push(more);
            }
            stop.store(true, Ordering::SeqCst);
            all
        })
    }
}

fn head(from: u16, number: u64) -> FreightHead {
    FreightHead { from, incarnation: 1, number, kept: 1, epoch: 1 }
}

fn urls(count: usize) -> UrlBody {
    let found = |page: usize| WireFound { path: format!("/{page}"), depth: 1, hint: None };
    let host = WireHost { host: "http://a.test".into(), hops: 0, urls: (0..count).map(found).collect() };
    UrlBody { hosts: vec![host], learned: Vec::new() }
}

#[test]
fn batches_that_make_no_sense_are_counted_and_others_go_on() {
    let reader = Reader::new();
    let good = pack_urls(&urls(3)).unwrap();
    // Nothing that says who it is from.
    reader.append(b"");
    reader.append(&[9, 9, 9]);
    // A flood in one batch, a torn one, something unknown, and notes without end.
    reader.append(&write(&head(LIAR, 1), &pack_urls(&urls(URLS_MAX + 1)).unwrap()).unwrap());
    reader.append(&write(&head(LIAR, 2), &good[..good.len() - 4]).unwrap());
    reader.append(&write(&head(LIAR, 3), &[77, 1, 2, 3]).unwrap());
    reader.append(&write(&head(LIAR, 4), &pack_notes(1, &[]).unwrap()[..3]).unwrap());
    // The same number twice, and one far ahead.
    reader.append(&write(&head(LIAR, 4), &good).unwrap());
    reader.append(&write(&head(LIAR, u64::MAX), &good).unwrap());
    reader.append(&write(&head(HONEST, 1), &good).unwrap());
    let given = reader.read(5);
    let seen: Vec<(u16, u64, bool)> =
        given.iter().map(|batch| (batch.from.0, batch.number, batch.freight.is_some())).collect();
    assert_eq!(
        seen,
        [(LIAR, 1, false), (LIAR, 2, false), (LIAR, 3, false), (LIAR, 4, false), (HONEST, 1, true)],
        "what cannot be read is known by its number, so that nobody asks for it again"
    );
    let Some(Incoming::Urls(body)) = &given[4].freight else { panic!("these are URLs") };
    assert_eq!(*body, urls(3));
    assert_eq!(reader.sources.desk.counters.damaged.load(Ordering::Relaxed), 6);
}

#[test]
fn a_flood_waits_in_the_log_and_not_in_memory() {
    let reader = Reader::new();
    let packed = pack_urls(&urls(1)).unwrap();
    for number in 1..=200 {
        reader.append(&write(&head(LIAR, number), &packed).unwrap());
    }
    // The crawl takes nothing in meanwhile.
    let given = reader.read(32);
    assert_eq!(given.len(), 32);
    assert_eq!(reader.sources.desk.under_way.load(Ordering::SeqCst), 32);
}

#[test]
fn who_sends_too_much_waits_and_others_do_not() {
    let mut reader = Reader::new();
    reader.sources.per_minute = 25;
    let packed = pack_urls(&urls(10)).unwrap();
    for number in 1..=9 {
        reader.append(&write(&head(LIAR, number), &packed).unwrap());
    }
    reader.append(&write(&head(HONEST, 1), &packed).unwrap());
    let given = reader.read(4);
    let seen: Vec<(u16, u64)> = given.iter().map(|batch| (batch.from.0, batch.number)).collect();
    assert_eq!(seen, [(LIAR, 1), (LIAR, 2), (LIAR, 3), (HONEST, 1)]);
    assert_eq!(reader.sources.desk.counters.put_off.load(Ordering::Relaxed), 6);
    let said = reader.sources.board.trouble.lock().clone();
    assert!(said.values().any(|text| text.contains("agent 7 sends more")), "{said:?}");
    // Nothing of it counts as taken: it is sent again, and the next of its numbers is the one that was put off.
    let received = reader.sources.desk.counters.lost.load(Ordering::Relaxed);
    assert_eq!(received, 0);
}
