//! VEUNI against the naive store: the same operations on both, with compactions, splits, crashes and full
//! disks between.

use crate::urls::veuni::*;
use crate::urls::{Naive, VisitOutcome};
use farol_base::ContentHash;
use farol_base::Scheduled;
use farol_base::disk::{Faulty, Mem};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

const HOSTS: usize = 7;
const PATHS: [&str; 8] = ["/", "/x", "/x/", "/x/y", "/x/y?q=/z/1", "/%C3%A9", "/x/y/z", "/?a"];
const URLS: u8 = (HOSTS * PATHS.len()) as u8;

#[derive(Clone, Debug)]
enum Op {
    Found(Vec<(u8, u16, Option<u8>)>),
    Visited {
        url: u8,
        outcome: u8,
        due: Option<u8>,
    },
    /// Of the URLs in flight, one is visited and due again in a moment.
    Returned {
        nth: u8,
        outcome: u8,
        due: u8,
    },
    Draw {
        host: u8,
        limit: usize,
    },
    Release(u8),
    HostsDue(usize),
    ReleaseHost(u8),
    DeleteHost(u8),
    Forget(Vec<u8>),
    /// What another store knew of these URLs comes in.
    Import(Vec<(u8, ImportedVisit)>),
    /// Some hosts go to another store, and are forgotten here or not.
    HandOver {
        hosts: Vec<u8>,
        forget: bool,
    },
    /// The other store hands over all it has.
    ComeBack,
    Note {
        source: u64,
        number: u64,
    },
    Files,
    Mark(u32),
    Flush,
    Sync,
    CompactAll,
    Reopen,
    PowerCut,
    Die {
        write: u64,
        kept: usize,
    },
    FailWrite(u64),
    FillUp(u64),
    MakeRoom,
    Tick(u8),
}

/// Depth, visits, outcome, seconds of the last visit and of the next.
type ImportedVisit = (u16, u32, u8, u8, Option<u8>);

fn imported(number: u8, (depth, visits, outcome, at, due): ImportedVisit) -> KnownUrl {
    let mut record = Record { depth, ..Record::default() };
    for _ in 0..visits {
        record.visit(&visit(outcome, Timestamp::from_secs(80 + u64::from(at)), due));
    }
    KnownUrl { url: url(number), record }
}

fn op() -> impl Strategy<Value = Op> {
    let (url, host) = (0..URLS, 0..HOSTS as u8);
    let found = (url.clone(), 0u16..4, proptest::option::of(0u8..60));
    prop_oneof![
        8 => proptest::collection::vec(found, 0..12).prop_map(Op::Found),
        6 => (url.clone(), 0u8..6, proptest::option::of(0u8..60))
            .prop_map(|(url, outcome, due)| Op::Visited { url, outcome, due }),
        8 => (0u8..20, 0u8..6, 0u8..12).prop_map(|(nth, outcome, due)| Op::Returned { nth, outcome, due }),
        5 => (host.clone(), 0usize..5).prop_map(|(host, limit)| Op::Draw { host, limit }),
        3 => url.prop_map(Op::Release),
        5 => (0usize..4).prop_map(Op::HostsDue),
        4 => host.clone().prop_map(Op::ReleaseHost),
        1 => host.clone().prop_map(Op::DeleteHost),
        2 => proptest::collection::vec(host.clone(), 0..4).prop_map(Op::Forget),
        4 => proptest::collection::vec(
            (0..URLS, (0u16..4, 0u32..3, 0u8..6, 0u8..60, proptest::option::of(0u8..60))),
            0..12,
        )
        .prop_map(Op::Import),
        3 => (proptest::collection::vec(host, 0..5), any::<bool>())
            .prop_map(|(hosts, forget)| Op::HandOver { hosts, forget }),
        1 => Just(Op::ComeBack),
        2 => (0u64..3, 0u64..20).prop_map(|(source, number)| Op::Note { source, number }),
        2 => Just(Op::Files),
        2 => (0u32..9).prop_map(Op::Mark),
        8 => Just(Op::Flush),
        2 => Just(Op::Sync),
        2 => Just(Op::CompactAll),
        2 => Just(Op::Reopen),
        1 => Just(Op::PowerCut),
        2 => (1u64..8, 0usize..300).prop_map(|(write, kept)| Op::Die { write, kept }),
        1 => (1u64..6).prop_map(Op::FailWrite),
        1 => (0u64..900).prop_map(Op::FillUp),
        3 => Just(Op::MakeRoom),
        4 => (0u8..20).prop_map(Op::Tick),
    ]
}

fn host(number: u8) -> Host {
    Host::parse(&format!("http://h{}.test", number as usize % HOSTS)).unwrap()
}

fn url(number: u8) -> CanonicalUrl {
    host(number).url(PATHS[number as usize / HOSTS % PATHS.len()]).unwrap()
}

fn visit(outcome: u8, now: Timestamp, due: Option<u8>) -> Visit {
    use VisitOutcome::*;
    Visit {
        at: now,
        outcome: [Page, Unchanged, Redirect, Gone, Refused, Failed][outcome as usize],
        content_hash: ContentHash(u128::from(outcome) << 100),
        changed: outcome.is_multiple_of(2),
        position: (outcome < 2).then_some(PagePosition { file: 1, offset: now.as_millis() }),
        download: Duration::from_millis(u64::from(outcome) * 7),
        memo: [outcome / 2; 8],
        due: due.map_or(Timestamp::NEVER, |due| now + Duration::from_secs(u64::from(due))),
    }
}

fn open(disk: &Arc<Faulty>) -> Veuni {
    // So small that everything happens: buckets of two hosts, level-0 runs, several active buckets, few pre-scheduled URLs.
    let options = VeuniOptions {
        memtable_bytes: 600,
        seen_cache_bytes: 600,
        bucket_bytes: 500,
        bucket_hosts: 2,
        prescheduled: 4,
        threads: 0,
        active_buckets_max: 2,
        ..VeuniOptions::default()
    };
    Veuni::open(disk.clone(), options).unwrap().0
}

/// Both stores, and the states to which a crash may bring ours back.
struct Race {
    mem: Mem,
    disk: Arc<Faulty>,
    veuni: Veuni,
    naive: Naive,
    in_flight: BTreeSet<CanonicalUrl>,
    leased: BTreeSet<Host>,
    flushed: Naive,
    since_sync: Vec<Naive>,
    now: Timestamp,
    /// Another agent's store, and its judge.
    other: (Veuni, Naive),
}

impl Race {
    fn new() -> Race {
        let mem = Mem::new();
        let disk = Arc::new(Faulty::new(Arc::new(mem.clone())));
        let veuni = open(&disk);
        let (naive, flushed, since_sync) = (Naive::new(), Naive::new(), vec![Naive::new()]);
        let (in_flight, leased) = (BTreeSet::new(), BTreeSet::new());
        Race {
            mem,
            disk,
            veuni,
            naive,
            in_flight,
            leased,
            flushed,
            since_sync,
            now: Timestamp::from_secs(100),
            other: (open(&Arc::new(Faulty::new(Arc::new(Mem::new())))), Naive::new()),
        }
    }

    fn run(&mut self, op: &Op) {
        let now = self.now;
        match op {
            Op::Found(found) => {
                let found: Vec<Found> = found
                    .iter()
                    .map(|(number, depth, hint)| Found {
                        url: url(*number),
                        depth: *depth,
                        hint: hint.map(|hint| Timestamp::from_secs(90 + u64::from(hint))),
                    })
                    .collect();
                self.veuni.found(&found).unwrap();
                self.naive.found(&found).unwrap();
            }
            Op::Visited { url: number, outcome, due } => {
                let (url, visit) = (url(*number), visit(*outcome, now, *due));
                self.veuni.visited(&url, &visit).unwrap();
                self.naive.visited(&url, &visit).unwrap();
                self.in_flight.remove(&url);
            }
            Op::Returned { nth, outcome, due } => {
                let nth = *nth as usize % self.in_flight.len().max(1);
                if let Some(url) = self.in_flight.iter().nth(nth).cloned() {
                    let visit = visit(*outcome, now, Some(*due));
                    self.veuni.visited(&url, &visit).unwrap();
                    self.naive.visited(&url, &visit).unwrap();
                    self.in_flight.remove(&url);
                    self.comes_again(&url);
                }
            }
            Op::Draw { host: number, limit } => {
                let drawn = self.veuni.draw(&host(*number), *limit, now);
                self.drawn(&host(*number), drawn, *limit);
            }
            Op::Release(number) => {
                self.veuni.release(&[url(*number)]).unwrap();
                self.in_flight.remove(&url(*number));
            }
            Op::HostsDue(limit) => match self.veuni.hosts_due(now, *limit) {
                Ok(hosts) => {
                    assert!(hosts.len() <= *limit);
                    for host in hosts {
                        assert!(self.leased.insert(host.clone()), "{host:?} is leased");
                        assert!(
                            self.candidates(now).iter().any(|url| url.host() == host),
                            "{host:?} is not due"
                        );
                    }
                }
                Err(error) => self.broken(error, vec![self.flushed.clone()]),
            },
            Op::ReleaseHost(number) => {
                self.veuni.release_host(&host(*number));
                self.leased.remove(&host(*number));
            }
            Op::DeleteHost(number) => self.delete_host(&host(*number)),
            Op::Forget(hosts) => {
                let hosts: Vec<Host> = hosts.iter().map(|number| host(*number)).collect();
                self.forget(&hosts);
            }
            Op::Import(urls) => {
                let urls: Vec<KnownUrl> = urls.iter().map(|(url, visit)| imported(*url, *visit)).collect();
                self.veuni.import(&urls).unwrap();
                self.naive.import(&urls).unwrap();
            }
            Op::HandOver { hosts, forget } => {
                let hosts: Vec<Host> = hosts.iter().map(|number| host(*number)).collect();
                match exported(&mut self.veuni, &hosts) {
                    Ok(urls) => {
                        assert_eq!(urls, exported(&mut self.naive, &hosts).unwrap());
                        for part in urls.chunks(3) {
                            self.other.0.import(part).unwrap();
                            self.other.1.import(part).unwrap();
                            self.other.0.flush().unwrap();
                        }
                        if *forget {
                            self.forget(&hosts);
                        }
                    }
                    Err(error) => self.broken(error, vec![self.flushed.clone()]),
                }
                assert_eq!(differences(&self.other.0, &self.other.1), [""; 0]);
            }
            Op::ComeBack => {
                let hosts: Vec<Host> = (0..HOSTS as u8).map(host).collect();
                let urls = exported(&mut self.other.0, &hosts).unwrap();
                self.veuni.import(&urls).unwrap();
                self.naive.import(&urls).unwrap();
            }
            Op::Note { source, number } => {
                self.veuni.note(Source(*source), *number).unwrap();
                self.naive.note(Source(*source), *number).unwrap();
            }
            Op::Files => match self.veuni.files() {
                Ok(files) => {
                    self.flushed(Ok(()), false);
                    let files = files.unwrap();
                    // The store goes on, and its files are replaced, before they are copied.
                    let compacted = self.veuni.compact_all();
                    let elsewhere = Mem::new();
                    if !self.disk.is_dead() {
                        files.copy_to(&elsewhere).unwrap();
                        drop(files);
                        let copy = open(&Arc::new(Faulty::new(Arc::new(elsewhere))));
                        assert_eq!(differences(&copy, &self.naive), [""; 0]);
                    }
                    self.flushed(compacted, false);
                }
                Err(error) => self.flushed(Err(error), false),
            },
            Op::Mark(offset) => {
                let upto = PagePosition { file: 0, offset: u64::from(*offset) };
                self.veuni.mark(upto).unwrap();
                self.naive.mark(upto).unwrap();
            }
            Op::Flush => {
                let result = self.veuni.flush();
                self.flushed(result, false);
            }
            Op::Sync => {
                let result = self.veuni.sync();
                self.flushed(result, true);
            }
            Op::CompactAll => {
                let result = self.veuni.compact_all();
                let is_compacted = result.is_ok();
                self.flushed(result, false);
                if is_compacted && !self.disk.is_dead() {
                    self.compare_counts();
                }
            }
            Op::Reopen => self.reopen(vec![self.flushed.clone()]),
            Op::PowerCut => {
                self.mem.lose_unsynced();
                self.reopen(self.since_sync.clone());
            }
            Op::Die { write, kept } => self.disk.die_at_write(*write, *kept),
            Op::FailWrite(nth) => self.disk.fail_write(*nth),
            Op::FillUp(room) => self.disk.fill_up(*room),
            Op::MakeRoom => self.disk.make_room(),
            Op::Tick(seconds) => self.now = now + Duration::from_secs(u64::from(*seconds)),
        }
        if self.disk.is_dead() {
            self.reopen(vec![self.flushed.clone()]);
        }
        let differences = differences(&self.veuni, &self.naive);
        assert!(differences.is_empty(), "after {op:?}: {differences:#?}");
    }

    /// What was in flight and is due within the hour waits in the due queue, whatever its bucket says.
    fn comes_again(&self, url: &CanonicalUrl) {
        let (host, path) = split(url);
        assert!(
            self.veuni.dispatcher.due_queue.of(host).is_some_and(|pages| pages.contains(path)),
            "{url} waits for a compaction"
        );
        assert!(
            self.veuni.dispatcher.due_queue.next(host)
                <= self.naive.get(url).unwrap().map(|record| record.due)
        );
    }

    /// URLs that may be drawn.
    fn candidates(&self, now: Timestamp) -> BTreeSet<CanonicalUrl> {
        let is_due = |url: &&CanonicalUrl| {
            let record = self.naive.get(url).unwrap().unwrap();
            let due = if record.visits == 0 { Timestamp::EPOCH } else { record.due };
            due <= now && due != Timestamp::NEVER && !self.in_flight.contains(*url)
        };
        self.naive.urls().filter(is_due).cloned().collect()
    }

    fn drawn(&mut self, host: &Host, drawn: Result<Drawn, Error>, limit: usize) {
        let drawn = match drawn {
            Ok(drawn) => drawn,
            Err(error) => return self.broken(error, vec![self.flushed.clone()]),
        };
        assert!(drawn.urls.len() <= limit);
        if drawn != Drawn::default() || self.veuni.dispatcher.leased_hosts.contains_key(host) {
            self.leased.insert(host.clone());
        }
        let candidates = self.candidates(self.now);
        for Scheduled { url, depth, revisit } in drawn.urls {
            assert!(candidates.contains(&url), "{url:?} is not to be visited now");
            assert_eq!(url.host(), *host);
            let record = self.naive.get(&url).unwrap().unwrap();
            assert_eq!(revisit, record.visits > 0);
            assert!(depth >= record.depth);
            assert!(self.in_flight.insert(url));
        }
    }

    fn forget(&mut self, hosts: &[Host]) {
        self.veuni.forget(hosts).unwrap();
        self.naive.forget(hosts).unwrap();
        self.in_flight.retain(|url| !hosts.contains(&url.host()));
        self.leased.retain(|host| !hosts.contains(host));
    }

    fn delete_host(&mut self, host: &Host) {
        let (before, mut after) = (self.naive.clone(), self.naive.clone());
        let count = after.delete_host(host).unwrap();
        match self.veuni.delete_host(host) {
            Ok(tombstone) => {
                assert_eq!(tombstone, count);
                self.naive = after.clone();
                self.in_flight.retain(|url| url.host() != *host);
                self.leased.remove(host);
                self.flushed = after.clone();
                self.since_sync.extend([before, after]);
            }
            Err(error) => {
                let allowed = vec![self.flushed.clone(), before, after];
                self.disk.make_room();
                self.broken(error, allowed);
            }
        }
    }

    fn flushed(&mut self, result: Result<(), Error>, sync: bool) {
        match result {
            Ok(()) => {
                self.flushed = self.naive.clone();
                if sync {
                    self.since_sync.clear();
                }
                self.since_sync.push(self.naive.clone());
            }
            Err(error) if self.disk.is_dead() => {
                // The batch may have arrived whole, but never in part.
                self.broken(error, vec![self.flushed.clone(), self.naive.clone()]);
            }
            // A full disk or a failed write: nothing is lost; the batch may be in the WAL or still pending.
            Err(_) => {
                self.disk.make_room();
                // One planned fault may still strike.
                let again = self.veuni.flush().or_else(|_| self.veuni.flush());
                self.flushed(again, false);
            }
        }
    }

    /// Something failed: opening again brings one of the allowed states back.
    fn broken(&mut self, error: Error, allowed: Vec<Naive>) {
        assert!(self.disk.is_dead() || !matches!(error, Error::Damaged { .. }), "{error}");
        self.reopen(allowed);
    }

    fn reopen(&mut self, allowed: Vec<Naive>) {
        self.disk.revive();
        self.disk.make_room();
        self.veuni = open(&self.disk);
        let same = allowed.iter().find(|state| differences(&self.veuni, state).is_empty());
        let Some(same) = same else {
            panic!("in no allowed state: {:#?}", differences(&self.veuni, &allowed[0]));
        };
        let mut state = same.clone();
        state.reopen();
        self.in_flight.clear();
        self.leased.clear();
        self.veuni.sync().unwrap();
        if self.disk.is_dead() {
            return self.reopen(vec![state]);
        }
        (self.naive, self.flushed, self.since_sync) = (state.clone(), state.clone(), vec![state]);
    }

    fn compare_counts(&self) {
        let ours = Counts { bytes_on_disk: 0, ..self.veuni.counts() };
        assert_eq!(ours, self.naive.counts());
        for number in 0..HOSTS as u8 {
            let host = host(number);
            assert_eq!(
                self.veuni.host_counts(&host),
                self.naive.host_counts(&host).filter(|counts| counts.known > 0)
            );
        }
        assert_eq!(self.veuni.hosts(0, 99, "h3").len(), self.naive.hosts(0, 99, "h3").len());
    }

    /// Everything that is due comes up, each URL once.
    fn finish(mut self) {
        self.disk.make_room();
        // No fault that is still planned comes to pass.
        self.disk.fail_write(u64::MAX / 2);
        self.disk.die_at_write(u64::MAX / 2, 0);
        self.veuni.release(&self.in_flight.iter().cloned().collect::<Vec<_>>()).unwrap();
        self.in_flight.clear();
        self.leased.iter().for_each(|host| self.veuni.release_host(host));
        self.now = self.now + Duration::from_secs(1000);
        self.veuni.compact_all().unwrap();
        self.compare_counts();
        let mut expected = self.candidates(self.now);
        loop {
            let hosts = self.veuni.hosts_due(self.now, 3).unwrap();
            for host in &hosts {
                let drawn = self.veuni.draw(host, 3, self.now).unwrap();
                for Scheduled { url, .. } in drawn.urls {
                    assert!(expected.remove(&url), "{url:?} came up twice");
                    self.veuni.visited(&url, &visit(0, self.now, None)).unwrap();
                }
                self.veuni.release_host(host);
            }
            self.veuni.flush().unwrap();
            if hosts.is_empty() && self.veuni.next_host_due().is_none_or(|next| next > self.now) {
                break;
            }
        }
        assert!(expected.is_empty(), "never came up: {expected:?}");
    }
}

fn differences(veuni: &Veuni, naive: &Naive) -> Vec<String> {
    let mut differences = Vec::new();
    for number in 0..URLS {
        let url = url(number);
        let (mut ours, theirs) = (veuni.get(&url).unwrap(), naive.get(&url).unwrap());
        if let (Some(ours), Some(theirs)) = (&mut ours, &theirs)
            && veuni.dispatcher.in_flight.get(&url).is_some()
        {
            (ours.depth, ours.due) = (theirs.depth, theirs.due);
        }
        if ours != theirs {
            differences.push(format!("{url}: {ours:?}, not {theirs:?}"));
        }
    }
    if veuni.numbers() != naive.numbers() {
        differences.push(format!("numbers: {:?}, not {:?}", veuni.numbers(), naive.numbers()));
    }
    if veuni.watermark() != naive.watermark() {
        differences.push(format!("watermark: {:?}, not {:?}", veuni.watermark(), naive.watermark()));
    }
    differences
}

/// All that a store has of some hosts.
fn exported(store: &mut dyn UrlStore, hosts: &[Host]) -> Result<Vec<KnownUrl>, Error> {
    let mut urls = Vec::new();
    store.export(hosts)?.walk(&mut |host, path, record| {
        let url = host.stored_page(path).unwrap();
        urls.push(KnownUrl { url, record: record.clone() });
        ControlFlow::Continue(())
    })?;
    Ok(urls)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn veuni_does_as_the_naive_store(ops in proptest::collection::vec(op(), 1..80)) {
        let mut race = Race::new();
        ops.iter().for_each(|op| race.run(op));
        race.finish();
    }
}
