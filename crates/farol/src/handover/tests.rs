//! Hosts from one store to another, over real files and blobs.

use super::*;
use crate::archive::hosts::Hosts;
use crate::fabric::{LocalTables, Table};
use crate::handover::import::{ParcelBatch, ParcelImporter, WholeHost};
use crate::handover::pace::Pace;
use crate::wire::parcel::unpack;
use farol_base::disk::Mem;
use farol_base::random::mix;
use farol_base::{CanonicalUrl, ContentHash, PagePosition, Random, Seeded, Timestamp};
use farol_fabric::blobs::Blobs;
use farol_parse::robots::Robots;
use farol_store::urls::{Found, KnownUrl, Naive, Source, UrlStore, Veuni, VeuniOptions, Visit, VisitOutcome};
use std::sync::Arc;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const DELAY: Duration = Duration::from_secs(2);

pub fn unpaced() -> Pacer {
    Pacer::new(Pace::new(u64::MAX))
}

/// One agent: a store, its tables, and blobs that it shares.
pub struct Agent {
    pub dir: tempfile::TempDir,
    pub mem: Mem,
    pub urls: Veuni,
    pub tables: Arc<LocalTables>,
    pub hosts: Hosts,
    pub importer: ParcelImporter,
}

fn options() -> VeuniOptions {
    VeuniOptions { memtable_bytes: 4 << 20, seen_cache_bytes: 1 << 20, threads: 1, ..VeuniOptions::default() }
}

impl Agent {
    pub fn new() -> Agent {
        let dir = tempfile::tempdir().unwrap();
        Agent::open(dir, Mem::new())
    }

    pub fn open(dir: tempfile::TempDir, mem: Mem) -> Agent {
        let urls = Veuni::open(Arc::new(mem.clone()), options()).unwrap().0;
        let tables = Arc::new(LocalTables::open(&dir.path().join("tables")).unwrap());
        let hosts = Hosts::open(tables.clone(), "farol").unwrap();
        let importer = ParcelImporter::open(tables.clone(), &urls.numbers()).unwrap();
        Agent { dir, mem, urls, tables, hosts, importer }
    }

    /// Ends the process without a word, and begins another.
    fn reopen(self) -> Agent {
        let Agent { dir, mem, urls, tables, hosts, importer } = self;
        drop((urls, hosts, importer));
        drop(tables);
        Agent::open(dir, mem)
    }

    /// Takes a batch, as far as before the flush.
    pub fn take(&mut self, number: u64, batch: &[u8], blobs: &Blobs) {
        let source = Source(1);
        let batch = ParcelBatch::open(unpack(batch).unwrap(), Some(blobs)).unwrap();
        for part in batch.parts().unwrap() {
            let taken =
                self.importer.take(part.unwrap(), (source, number), NOW, &mut self.urls, &mut self.hosts);
            assert_eq!(taken.unwrap().left_out, 0);
        }
        self.urls.note(source, number).unwrap();
    }

    pub fn flush(&mut self) -> Vec<WholeHost> {
        self.importer.write(&mut self.hosts).unwrap();
        self.urls.flush().unwrap();
        self.importer.flushed(NOW, DELAY)
    }
}

/// A log that is a list.
#[derive(Default)]
pub struct Log<'a> {
    pub batches: Vec<Vec<u8>>,
    pub blobs: Option<&'a Blobs>,
}

impl ParcelSink for Log<'_> {
    fn send(&mut self, batch: Vec<u8>) -> Result<()> {
        assert!(batch.len() <= PART_BYTES_MAX);
        self.batches.push(batch);
        Ok(())
    }

    fn takes_blobs(&self) -> bool {
        self.blobs.is_some()
    }

    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= BLOB_BYTES_MAX);
        self.blobs.expect("this one has no large hosts").put(name, bytes).map_err(Into::into)
    }
}

pub fn blobs(dir: &tempfile::TempDir) -> Blobs {
    Blobs::open(dir.path().join("blobs").to_str().unwrap()).unwrap()
}

pub fn host(number: u64) -> Host {
    Host::parse(&format!("http://h{number}.test")).unwrap()
}

fn url(of: u64, page: u64) -> CanonicalUrl {
    host(of).url(&format!("/d{}/p{page:x}", page % 7)).unwrap()
}

/// Pages of a host, a third of them visited.
pub fn fill(store: &mut dyn UrlStore, of: u64, pages: std::ops::Range<u64>) {
    let found = |page| Found { url: url(of, page), depth: (page % 5) as u16, hint: None };
    store.found(&pages.clone().map(found).collect::<Vec<_>>()).unwrap();
    for page in pages.filter(|page| page % 3 == 0) {
        let visit = Visit {
            at: Timestamp::from_secs(1_600_000_000 + page),
            outcome: if page % 2 == 0 { VisitOutcome::Page } else { VisitOutcome::Gone },
            content_hash: ContentHash(u128::from(mix(page)) << 50),
            changed: true,
            position: Some(PagePosition { file: 1, offset: page }),
            download: Duration::from_millis(page % 300),
            due: Timestamp::from_secs(1_800_000_000 + page),
            memo: [page as u8; 8],
        };
        store.visited(&url(of, page), &visit).unwrap();
    }
}

pub fn exported(store: &mut dyn UrlStore, hosts: &[Host]) -> Vec<KnownUrl> {
    let mut urls = Vec::new();
    let walked = store.export(hosts).unwrap().walk(&mut |host, path, record| {
        urls.push(KnownUrl { url: host.stored_page(path).unwrap(), record: record.clone() });
        ControlFlow::Continue(())
    });
    walked.map(|()| urls).unwrap()
}

/// Both stores know the same of these hosts.
fn assert_same(ours: &mut dyn UrlStore, judge: &mut dyn UrlStore, hosts: &[Host]) {
    let (ours, theirs) = (exported(ours, hosts), exported(judge, hosts));
    let first = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    assert_eq!((first, ours.len()), (None, theirs.len()));
}

/// What the other store should have then.
fn imported(giver: &mut dyn UrlStore, taker: &mut Naive, hosts: &[Host]) {
    let urls = exported(giver, hosts);
    taker.import(&urls).unwrap();
}

fn id(attempt: u64) -> ParcelId {
    ParcelId { epoch: 7, attempt, from: 1 }
}

fn hand(agent: &mut Agent, hosts: &[Host], attempt: u64, log: &mut Log<'_>) -> Sent {
    agent.hosts.write(agent.hosts.watermark()).unwrap();
    let export = agent.urls.export(hosts).unwrap();
    let heads = Heads { tables: &*agent.tables, right: Some(7) };
    hand_out(export, hosts, &heads, id(attempt), &mut unpaced(), log).unwrap()
}

#[test]
fn hosts_arrive_with_all_that_was_known_of_them_and_are_whole_once_that_is_durable() {
    let (mut giver, mut taker, mut judge) = (Agent::new(), Agent::new(), Naive::new());
    let hosts: Vec<Host> = (0..6).map(host).collect();
    (0..5).for_each(|of| fill(&mut giver.urls, of, 0..300));
    let robots = b"User-agent: *\nDisallow: /private\nCrawl-delay: 9\n";
    let rules = Robots::parse(robots, "farol");
    giver.hosts.set_robots(&hosts[2], 200, robots, rules, NOW).unwrap();
    let address = "192.0.2.9".parse().unwrap();
    giver.hosts.connected(&hosts[2], address, Duration::from_millis(30), NOW).unwrap();
    // The taker had met one of them, long ago and deeper.
    fill(&mut taker.urls, 1, 200..400);
    taker.urls.flush().unwrap();
    fill(&mut judge, 1, 200..400);
    let mut log = Log::default();
    let sent = hand(&mut giver, &hosts, 1, &mut log);
    assert_eq!((sent.hosts, sent.urls, log.batches.len()), (6, 1500, 6), "a small host is one part");
    imported(&mut giver.urls, &mut judge, &hosts);
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    log.batches.iter().enumerate().for_each(|(at, batch)| taker.take(at as u64 + 1, batch, &blobs));
    assert_eq!(taker.importer.flushed(NOW, DELAY).len(), 6);
    let mut taker = taker.reopen();
    // It ended before the flush: nothing of it counts, and everything comes again.
    assert_eq!((taker.flush(), taker.urls.numbers().len()), (vec![], 0));
    log.batches.iter().enumerate().for_each(|(at, batch)| taker.take(at as u64 + 1, batch, &blobs));
    let whole = taker.flush();
    assert_eq!(whole.len(), 6);
    let third = whole.iter().find(|whole| whole.host == hosts[2]).unwrap();
    assert_eq!((third.right, third.parcel), (Some(7), id(1)));
    assert_eq!(third.address, Some((address, NOW)));
    assert_eq!(third.ask_from, NOW + Duration::from_secs(9), "its own delay is the longer one");
    assert!(whole.iter().all(|whole| whole.ask_from >= NOW + DELAY));
    assert_eq!(taker.hosts.robots_text(&hosts[2]).unwrap().as_deref(), Some(&robots[..]));
    let row = taker.hosts.row(&hosts[2]).unwrap();
    assert_eq!((row.crawl_delay_ms, row.connects.len(), row.address), (Some(9000), 1, Some(address)));
    assert_same(&mut taker.urls, &mut judge, &hosts);
    // Whole hosts are told again after a restart, until somebody says that it is done.
    let mut taker = taker.reopen();
    assert_eq!(taker.flush(), whole);
    taker.importer.done(&hosts).unwrap();
    assert!(taker.tables.scan(Table::Marks).unwrap().iter().all(|(key, _)| !key.starts_with("parcel")));
    assert_eq!(taker.reopen().flush(), []);
}

/// A host of 4 MiB and more, whose paths do not compress.
fn fill_large(store: &mut dyn UrlStore, of: u64, pages: u64) {
    let text = |page: u64| (0..6).map(|at| format!("{:016x}", mix(page * 6 + at))).collect::<String>();
    for first in (0..pages).step_by(5_000) {
        let urls = (first..pages.min(first + 5_000)).map(|page| Found {
            url: host(of).url(&format!("/{}", text(page))).unwrap(),
            depth: 1,
            hint: None,
        });
        store.found(&urls.collect::<Vec<_>>()).unwrap();
        store.flush().unwrap();
    }
}

#[test]
fn a_large_host_goes_through_blobs_and_parts_may_come_in_any_order_and_twice() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let (mut giver, mut judge) = (Agent::new(), Naive::new());
    fill_large(&mut giver.urls, 0, 230_000);
    fill(&mut giver.urls, 1, 0..30_000);
    let hosts = [host(0), host(1)];
    let mut log = Log { blobs: Some(&blobs), ..Log::default() };
    let sent = hand(&mut giver, &hosts, 1, &mut log);
    assert!(sent.blobs.len() >= 2, "{} blobs of {} bytes", sent.blobs.len(), sent.bytes);
    assert_eq!(blobs.list("parcels/1/").unwrap().len(), sent.blobs.len());
    assert!(log.batches.len() < 20, "{} batches", log.batches.len());
    imported(&mut giver.urls, &mut judge, &hosts);
    let mut random = Seeded::new(3);
    for round in 0..3u64 {
        let mut taker = Agent::new();
        let mut order: Vec<usize> = (0..log.batches.len()).chain(0..log.batches.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut whole = Vec::new();
        for at in order {
            taker.take(at as u64 + 1, &log.batches[at], &blobs);
            if random.below(3) == 0 {
                // Hosts that are whole are told again where more of them comes.
                whole.extend(taker.flush().into_iter().map(|whole| whole.host));
            }
        }
        whole.extend(taker.flush().into_iter().map(|whole| whole.host));
        assert!(hosts.iter().all(|host| whole.contains(host)), "round {round}");
        assert_same(&mut taker.urls, &mut judge, &hosts);
    }
    // A part that never comes leaves its host on the way, and not the other.
    let mut taker = Agent::new();
    let is_of = |batch: &[u8], host: &Host| match unpack(batch).unwrap() {
        Envelope::Part(part) => part.host == host.as_str(),
        Envelope::Blob(announced) => announced.host == host.as_str(),
    };
    let missing = log.batches.iter().rposition(|batch| is_of(batch, &hosts[0])).unwrap();
    for (at, batch) in log.batches.iter().enumerate().filter(|(at, _)| *at != missing) {
        taker.take(at as u64 + 1, batch, &blobs);
    }
    let whole: Vec<Host> = taker.flush().into_iter().map(|whole| whole.host).collect();
    assert_eq!(whole, [hosts[1].clone()]);
    assert!(taker.importer.is_coming(&hosts[0]) && !taker.importer.is_coming(&hosts[1]));
    // The blob may be gone as well: that is said, and nothing else happens.
    blobs.delete(&sent.blobs[0]).unwrap();
    let error = log
        .batches
        .iter()
        .find_map(|batch| ParcelBatch::open(unpack(batch).unwrap(), Some(&blobs)).err())
        .unwrap();
    assert!(!error.is_away() && error.to_string().contains("there is no blob"), "{error}");
}

#[test]
fn parts_of_two_attempts_are_not_one_parcel() {
    let (mut giver, mut taker) = (Agent::new(), Agent::new());
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    fill(&mut giver.urls, 0, 0..40_000);
    let (mut first, mut second) = (Log::default(), Log::default());
    hand(&mut giver, &[host(0)], 1, &mut first);
    hand(&mut giver, &[host(0)], 2, &mut second);
    assert!(first.batches.len() > 2);
    let last = first.batches.len() - 1;
    // All but the last of the first attempt, then the last of the second.
    (0..last).for_each(|at| taker.take(at as u64 + 1, &first.batches[at], &blobs));
    taker.take(100, &second.batches[last], &blobs);
    assert_eq!(taker.flush(), []);
    // The end of the first attempt is late.
    taker.take(101, &first.batches[last], &blobs);
    assert_eq!(taker.flush(), []);
    (0..last).for_each(|at| taker.take(102 + at as u64, &second.batches[at], &blobs));
    assert_eq!(taker.flush().len(), 1);
}

#[test]
fn a_robots_txt_that_fits_into_no_part_is_asked_for_again() {
    let (mut giver, mut taker) = (Agent::new(), Agent::new());
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let mut random = Seeded::new(5);
    let noise: Vec<u8> = (0..500 << 10).map(|_| random.below(256) as u8).collect();
    let plain = "User-agent: *\nDisallow: /x\n".repeat(15_000).into_bytes();
    for (number, file) in [(0, &noise), (1, &plain)] {
        fill(&mut giver.urls, number, 0..50);
        giver.hosts.set_robots(&host(number), 200, file, Robots::parse(file, "farol"), NOW).unwrap();
    }
    let mut log = Log::default();
    hand(&mut giver, &[host(0), host(1)], 1, &mut log);
    log.batches.iter().enumerate().for_each(|(at, batch)| taker.take(at as u64 + 1, batch, &blobs));
    assert_eq!(taker.flush().len(), 2);
    assert_eq!(taker.hosts.row(&host(0)).unwrap().robots_fetched_ms, 0);
    assert_eq!(taker.hosts.robots_text(&host(1)).unwrap(), Some(plain));
}
