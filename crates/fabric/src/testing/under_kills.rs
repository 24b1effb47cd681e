//! A log under deaths: numbered batches are written and read while servers are killed in turn.

use super::servers::TestServers;
use crate::{Fabric, Refused, Seq, StreamId, Topic};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How hard.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Batches to write at least; writing goes on until all deaths have happened.
    pub batches: u64,
    /// Time from one death to the next.
    pub every: Duration,
    /// Deaths; `None` for as long as is written.
    pub deaths: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub written: u64,
    pub deaths: u64,
    pub took: Duration,
    /// Appends that were refused as away, and made again.
    pub made_again: u64,
    /// Batches that stood in the log twice and were dropped.
    pub doubles: u64,
    pub longest_append: Duration,
    pub longest_silence: Duration,
}

/// A killed server stays away for so long.
const AWAY: Duration = Duration::from_secs(2);

/// Bytes of a batch: some ten URLs.
const BATCH_BYTES: usize = 200;

const TOPIC: Topic = Topic::Docs(0);

/// Writes and reads under deaths.
///
/// # Panics
///
/// Where a batch is missing, comes out of order, or the log is replaced.
pub fn check_under_kills(servers: &mut TestServers, trial: Trial) -> Outcome {
    servers.wait_until_ready();
    let (writer, reader) = (servers.node(), servers.node());
    let (killed_all, written) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    let progress = AtomicU64::new(0);
    let begun = Instant::now();
    let mut outcome = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let wrote = write(&writer, trial, &killed_all, &progress);
            written.store(wrote.written, Ordering::SeqCst);
            wrote
        });
        let reading = scope.spawn(|| read(&reader, &written));
        let deaths = {
            let _ended = SetOnDrop(&killed_all);
            kill_in_turn(servers, trial, &progress)
        };
        let wrote = writing.join().expect("the writer does not panic");
        let read = reading.join().expect("every batch is read, once and in order");
        Outcome { deaths, doubles: read.doubles, longest_silence: read.longest_silence, ..wrote }
    });
    outcome.took = begun.elapsed();
    outcome
}

/// Ends the writer also where killing breaks down.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn batch(number: u64) -> Vec<u8> {
    let mut bytes = vec![b'x'; BATCH_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn write(node: &dyn Fabric, trial: Trial, killed_all: &AtomicBool, progress: &AtomicU64) -> Outcome {
    let mut outcome = Outcome::default();
    while outcome.written < trial.batches || !killed_all.load(Ordering::SeqCst) {
        let (number, begun) = (outcome.written + 1, Instant::now());
        loop {
            match node.append(&TOPIC, &batch(number)) {
                Ok(_) => break,
                Err(Refused::Full) => panic!("the log is too small for this trial"),
                Err(Refused::Away(_)) => {
                    outcome.made_again += 1;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        outcome.longest_append = outcome.longest_append.max(begun.elapsed());
        outcome.written = number;
        progress.store(number, Ordering::SeqCst);
    }
    outcome
}

fn read(node: &dyn Fabric, written: &AtomicU64) -> Outcome {
    let (mut outcome, mut mark, mut expected) = (Outcome::default(), Seq(0), 1u64);
    let mut stream: Option<StreamId> = None;
    let mut heard = Instant::now();
    while expected <= written.load(Ordering::SeqCst) {
        assert!(heard.elapsed() < Duration::from_secs(90), "nothing was heard for long, before {expected}");
        let Ok(read) = node.read(&TOPIC, mark, 64, Duration::from_secs(1)) else { continue };
        assert_eq!(*stream.get_or_insert(read.stream), read.stream, "the log was replaced");
        assert!(read.end >= mark, "the log lost what was read: its end {:?} is below {mark:?}", read.end);
        for (seq, bytes) in read.items {
            assert!(seq > mark, "{seq:?} follows {mark:?}");
            mark = seq;
            let number = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            let number = number.expect("a batch begins with its number");
            assert!(number <= expected, "batch {expected} is missing: {number} came");
            if number < expected {
                outcome.doubles += 1;
                continue;
            }
            expected += 1;
            outcome.longest_silence = outcome.longest_silence.max(heard.elapsed());
            heard = Instant::now();
        }
    }
    outcome
}

fn kill_in_turn(servers: &mut TestServers, trial: Trial, progress: &AtomicU64) -> u64 {
    let mut deaths = 0;
    let goes_on = |deaths: u64| match trial.deaths {
        Some(most) => deaths < most,
        None => progress.load(Ordering::SeqCst) < trial.batches,
    };
    while goes_on(deaths) {
        let next = Instant::now() + trial.every;
        let victim = deaths as usize % servers.all.len();
        servers.all[victim].kill();
        deaths += 1;
        std::thread::sleep(AWAY);
        servers.all[victim].begin().unwrap_or_else(|sentence| panic!("{sentence}"));
        // The next one dies when this one has caught up: a majority stays.
        servers.wait_until_ready();
        while Instant::now() < next && goes_on(deaths) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    deaths
}
