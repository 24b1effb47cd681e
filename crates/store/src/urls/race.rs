//! The journal against the naive store: the same operations on both, crashes and full disks between them.

use super::{Found, Journal, JournalOptions, Naive, UrlStore, Visit, VisitOutcome};
use farol_base::disk::{Disk, Faulty, Mem};
use farol_base::{CanonicalUrl, ContentHash, Host, PagePosition, Timestamp};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const HOSTS: [&str; 3] = ["http://a.test", "https://b.test:8443", "http://[::1]:81"];
const PATHS: [&str; 8] = ["/", "/x", "/x/", "/x/y", "/x/y?q=/z/1", "/%C3%A9", "/x/y/z", "/?a"];

#[derive(Clone, Debug)]
enum Op {
    Found(Vec<(u8, u16, Option<u8>)>),
    Visited { url: u8, outcome: u8, due: Option<u8> },
    Draw { host: u8, limit: usize },
    Release(Vec<u8>),
    HostsDue(usize),
    LetGo(u8),
    Forget(u8),
    Mark(u32),
    Flush,
    Sync,
    Reopen,
    PowerCut,
    Die { write: u64, kept: usize },
    FailWrite,
    FillUp(u64),
    MakeRoom,
    Tick(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let url = 0..(HOSTS.len() * PATHS.len()) as u8;
    let host = 0..HOSTS.len() as u8;
    let found = (url.clone(), 0u16..4, proptest::option::of(0u8..60));
    prop_oneof![
        6 => proptest::collection::vec(found, 0..6).prop_map(Op::Found),
        6 => (url.clone(), 0u8..7, proptest::option::of(0u8..60))
            .prop_map(|(url, outcome, due)| Op::Visited { url, outcome, due }),
        5 => (host.clone(), 0usize..5).prop_map(|(host, limit)| Op::Draw { host, limit }),
        3 => proptest::collection::vec(url, 0..5).prop_map(Op::Release),
        4 => (0usize..4).prop_map(Op::HostsDue),
        4 => host.clone().prop_map(Op::LetGo),
        1 => host.prop_map(Op::Forget),
        2 => (0u32..9).prop_map(Op::Mark),
        5 => Just(Op::Flush),
        2 => Just(Op::Sync),
        2 => Just(Op::Reopen),
        1 => Just(Op::PowerCut),
        1 => (1u64..4, 0usize..300).prop_map(|(write, kept)| Op::Die { write, kept }),
        1 => Just(Op::FailWrite),
        1 => (0u64..400).prop_map(Op::FillUp),
        2 => Just(Op::MakeRoom),
        4 => (0u8..20).prop_map(Op::Tick),
    ]
}

fn host(number: u8) -> Host {
    Host::parse(HOSTS[number as usize % HOSTS.len()]).unwrap()
}

fn url(number: u8) -> CanonicalUrl {
    let path = PATHS[number as usize / HOSTS.len() % PATHS.len()];
    host(number).url(path).unwrap()
}

fn visit(outcome: u8, now: Timestamp, due: Option<u8>) -> Visit {
    use VisitOutcome::*;
    let outcomes = [Page, Unchanged, Redirect, Gone, Refused, Duplicate, Failed];
    Visit {
        at: now,
        outcome: outcomes[outcome as usize],
        content_hash: ContentHash(u128::from(outcome) << 100),
        changed: outcome.is_multiple_of(2),
        position: (outcome < 2).then_some(PagePosition { file: 1, offset: now.as_millis() }),
        download: Duration::from_millis(u64::from(outcome) * 7),
        due: due.map_or(Timestamp::NEVER, |due| now + Duration::from_secs(u64::from(due))),
    }
}

/// Both stores, and the states to which a crash may bring the journal back.
struct Race {
    mem: Mem,
    disk: Arc<Faulty>,
    journal: Journal,
    naive: Naive,
    /// At the last flush that was answered for.
    flushed: Naive,
    /// At the last sync, and at every flush since.
    since_sync: Vec<Naive>,
    now: Timestamp,
}

impl Race {
    fn new() -> Race {
        let mem = Mem::new();
        let disk = Arc::new(Faulty::new(Arc::new(mem.clone())));
        let journal = open(&disk);
        let (naive, flushed, since_sync) = (Naive::new(), Naive::new(), vec![Naive::new()]);
        Race { mem, disk, journal, naive, flushed, since_sync, now: Timestamp::from_secs(100) }
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
                self.journal.found(&found).unwrap();
                self.naive.found(&found).unwrap();
            }
            Op::Visited { url: number, outcome, due } => {
                let visit = visit(*outcome, now, *due);
                self.journal.visited(&url(*number), &visit).unwrap();
                self.naive.visited(&url(*number), &visit).unwrap();
            }
            Op::Draw { host: number, limit } => {
                let drawn = self.journal.draw(&host(*number), *limit, now).unwrap();
                assert_eq!(drawn, self.naive.draw(&host(*number), *limit, now).unwrap());
            }
            Op::Release(numbers) => {
                let urls: Vec<CanonicalUrl> = numbers.iter().map(|number| url(*number)).collect();
                self.journal.release(&urls).unwrap();
                self.naive.release(&urls).unwrap();
            }
            Op::HostsDue(limit) => self.hosts_due(*limit),
            Op::LetGo(number) => {
                self.journal.let_go(&host(*number));
                self.naive.let_go(&host(*number));
            }
            Op::Forget(number) => {
                let count = self.journal.forget_host(&host(*number)).unwrap();
                assert_eq!(count, self.naive.forget_host(&host(*number)).unwrap());
            }
            Op::Mark(offset) => {
                let upto = PagePosition { file: 0, offset: u64::from(*offset) };
                self.journal.mark(upto).unwrap();
                self.naive.mark(upto).unwrap();
            }
            Op::Flush | Op::Sync => self.flush(matches!(op, Op::Sync)),
            Op::Reopen => self.reopen(vec![self.flushed.clone()]),
            Op::PowerCut => {
                self.mem.lose_unsynced();
                self.reopen(self.since_sync.clone());
            }
            Op::Die { write, kept } => self.disk.die_at_write(*write, *kept),
            Op::FailWrite => self.disk.fail_write(1),
            Op::FillUp(room) => self.disk.fill_up(*room),
            Op::MakeRoom => self.disk.make_room(),
            Op::Tick(seconds) => self.now = now + Duration::from_secs(u64::from(*seconds)),
        }
        self.compare();
    }

    /// The order among hosts is not promised, except that all of them come up.
    fn hosts_due(&mut self, limit: usize) {
        let all = self.naive.clone().hosts_due(self.now, usize::MAX).unwrap();
        let due = self.journal.hosts_due(self.now, limit).unwrap();
        assert_eq!(due.len(), all.len().min(limit), "{due:?} of {all:?}");
        for host in &due {
            assert!(all.contains(host), "{host:?} is not due");
            self.naive.draw(host, 0, self.now).unwrap();
        }
        let (ours, theirs) = (self.journal.next_host_due(), self.naive.next_host_due());
        assert_eq!(ours.is_some(), theirs.is_some());
        assert!(ours <= theirs, "{ours:?} would sleep beyond {theirs:?}");
    }

    fn flush(&mut self, sync: bool) {
        let result = if sync { self.journal.sync() } else { self.journal.flush() };
        match result {
            Ok(()) => {
                self.flushed = self.naive.clone();
                if sync {
                    self.since_sync.clear();
                }
                self.since_sync.push(self.naive.clone());
                if self.disk.is_dead() {
                    // It died while the file was being rewritten, after the batch was safe.
                    self.reopen(vec![self.flushed.clone()]);
                }
            }
            Err(error) if self.disk.is_dead() => {
                // The batch may have arrived whole, but never in part.
                assert!(!error.is_disk_full());
                self.reopen(vec![self.flushed.clone(), self.naive.clone()]);
            }
            // A full disk or a failed write: nothing is lost, the batch stays pending.
            Err(_) => {}
        }
    }

    /// Opens again, and goes on from the one of the allowed states that is there.
    fn reopen(&mut self, allowed: Vec<Naive>) {
        self.disk.revive();
        self.journal = open(&self.disk);
        let same = allowed.into_iter().find(|state| differences(&self.journal, state).is_empty());
        let mut state = same.expect("the journal is in none of the states that it may be in");
        state.reopen();
        (self.naive, self.flushed, self.since_sync) = (state.clone(), state.clone(), vec![state]);
        // What was read is in the file, but it need not have been synced.
        self.journal.sync().unwrap();
    }

    fn compare(&self) {
        let differences = differences(&self.journal, &self.naive);
        assert!(differences.is_empty(), "{differences:#?}");
    }

    /// Nothing is left that one would give and the other not.
    fn finish(mut self) {
        let end = self.now + Duration::from_secs(1000);
        for number in 0..HOSTS.len() as u8 {
            let drawn = self.journal.draw(&host(number), usize::MAX, end).unwrap();
            assert_eq!(drawn, self.naive.draw(&host(number), usize::MAX, end).unwrap());
        }
    }
}

fn open(disk: &Arc<Faulty>) -> Journal {
    // So small that nearly every flush rewrites the file.
    Journal::open(disk.clone(), JournalOptions { compact_bytes_min: 300 }).unwrap().0
}

fn differences(journal: &Journal, naive: &Naive) -> Vec<String> {
    let mut differences = Vec::new();
    for number in 0..(HOSTS.len() * PATHS.len()) as u8 {
        let url = url(number);
        differ(url.as_str(), journal.get(&url).unwrap(), naive.get(&url).unwrap(), &mut differences);
    }
    let counts = super::Counts { bytes_on_disk: 0, ..journal.counts() };
    differ("counts", counts, naive.counts(), &mut differences);
    for filter in ["", "b.test"] {
        differ("hosts", journal.hosts(0, 9, filter), naive.hosts(0, 9, filter), &mut differences);
    }
    let second = host(1);
    differ("counts of a host", journal.host_counts(&second), naive.host_counts(&second), &mut differences);
    differ("watermark", journal.watermark(), naive.watermark(), &mut differences);
    differences
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, theirs: T, differences: &mut Vec<String>) {
    if ours != theirs {
        differences.push(format!("{what}: {ours:?}, not {theirs:?}"));
    }
}

proptest! {
    #[test]
    fn the_journal_does_as_the_naive_store(ops in proptest::collection::vec(op(), 1..60)) {
        let mut race = Race::new();
        ops.iter().for_each(|op| race.run(op));
        race.finish();
    }

    #[test]
    fn no_file_breaks_opening(bytes in proptest::collection::vec(any::<u8>(), 0..200), keep in 0usize..24) {
        let mem = Mem::new();
        let mut journal = Journal::open(Arc::new(mem.clone()), JournalOptions::default()).unwrap().0;
        journal.mark(PagePosition { file: 1, offset: 1 }).unwrap();
        journal.flush().unwrap();
        // A good beginning, and then anything.
        mem.truncate("urls-00000000.journal", keep as u64).unwrap();
        mem.append("urls-00000000.journal", &bytes).unwrap();
        let _ = Journal::open(Arc::new(mem), JournalOptions::default());
    }
}

/// A file that was cut at any byte opens, with every batch that is whole and none that is not.
#[test]
fn a_journal_cut_anywhere_opens_at_its_last_whole_batch() {
    let mem = Mem::new();
    let name = "urls-00000000.journal";
    let mut journal = Journal::open(Arc::new(mem.clone()), JournalOptions::default()).unwrap().0;
    let mut ends = vec![0];
    for number in 0..6 {
        journal.found(&[Found { url: url(number), depth: 1, hint: None }]).unwrap();
        journal.flush().unwrap();
        ends.push(mem.len(name).unwrap().unwrap());
    }
    for len in 0..=ends[6] {
        let mem = mem.fork();
        mem.truncate(name, len).unwrap();
        let (journal, cut) = Journal::open(Arc::new(mem.clone()), JournalOptions::default()).unwrap();
        let whole = ends.iter().filter(|end| **end <= len).count() - 1;
        // The file's header alone is whole, too.
        let good = if whole == 0 && len >= 24 { 24 } else { ends[whole] };
        assert_eq!(journal.counts().known as usize, whole, "cut at {len}");
        assert_eq!(cut.map(|cut| (cut.offset, cut.bytes)), (len > good).then(|| (good, len - good)));
        assert_eq!(mem.len(name).unwrap(), Some(good));
    }
}

#[test]
fn files_that_are_not_ours_are_refused_in_words() {
    let check = |bytes: &[u8], want: &str| {
        let mem = Mem::new();
        mem.append("urls-00000000.journal", bytes).unwrap();
        let error = Journal::open(Arc::new(mem), JournalOptions::default()).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    };
    check(b"something else that is long enough", "is not a file of Farol's URL store");
    check(
        b"FAROLURL\x09\x00\x00\x00 and so on, long enough",
        "has format version 9, and this Farol reads up to 1",
    );
    check(b"FAROLURL\x01\x00\x00\x00 and so on, long enough", "its header does not fit");
}
