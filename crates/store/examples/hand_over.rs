//! Hands one large host over, out of a busy store and into another: memory, and URLs per second.
//!
//! ```text
//! cargo run --release -p farol-store --example hand_over -- [URLS] [OTHERS]
//! ```
//! The host has URLS pages, a fifth of them visited; the store knows OTHERS URLs of 10,000 more hosts. *Busy* means
//! that the thread that owns the store goes on as a crawl does: batches of 2,000 found URLs, half of them known, and 100
//! visits, one flush each. The export is read on a thread of its own. Each half is a process of its own, so that its
//! memory is.

use farol_base::disk::{Disk, File};
use farol_base::random::mix;
use farol_base::{CanonicalUrl, ContentHash, Host, PagePosition, Timestamp};
use farol_store::urls::{Found, KnownUrl, Record, State, UrlStore, Veuni, VeuniOptions, Visit, VisitOutcome};
use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const HOSTS: u64 = 10_000;
/// How long the store is watched before and after.
const QUIET: Duration = Duration::from_secs(5);
const PART: u64 = 4_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [half, folder, urls, others] if half == "--give" => {
            return give(Path::new(folder), urls.parse()?, others.parse()?);
        }
        [half, folder, urls, others] if half == "--take" => {
            return take(Path::new(folder), urls.parse()?, others.parse()?);
        }
        _ => {}
    }
    let number = |at: usize, otherwise: &str| arguments.get(at).map_or(otherwise, |text| text).to_string();
    let (urls, others) = (number(0, "5000000"), number(1, "2000000"));
    let folder = std::env::temp_dir().join(format!("farol-hand-over-{}", std::process::id()));
    for half in ["--give", "--take"] {
        let folder = folder.join(&half[2..]);
        let status =
            Command::new(std::env::current_exe()?).arg(half).arg(&folder).args([&urls, &others]).status()?;
        fs::remove_dir_all(&folder)?;
        if !status.success() {
            return Err(format!("{half} ended with {status}").into());
        }
    }
    Ok(fs::remove_dir_all(folder)?)
}

fn large_host() -> Outcome<Host> {
    Ok(Host::parse("https://www.large.example")?)
}

fn large_url(number: u64) -> Outcome<CanonicalUrl> {
    let path = format!("/catalogue/{}/{}/item-{:x}.html", number % 97, number / 1000 % 1000, mix(number));
    Ok(large_host()?.url(&path)?)
}

fn record(number: u64) -> Record {
    let found = Record { depth: (number % 7) as u16, ..Record::default() };
    if !number.is_multiple_of(5) {
        return found;
    }
    Record {
        state: State::Collected,
        visits: 3,
        last_visit: Timestamp::from_secs(1_700_000_000 + number),
        last_change: Timestamp::from_secs(1_690_000_000 + number),
        content_hash: ContentHash(u128::from(mix(number)) << 64 | u128::from(mix(number + 1))),
        position: Some(PagePosition { file: 7, offset: number * 3000 }),
        download: Duration::from_millis(number % 900),
        due: Timestamp::from_secs(1_702_000_000 + number),
        memo: mix(number).to_le_bytes(),
        ..found
    }
}

fn parts(urls: u64) -> impl Iterator<Item = Outcome<Vec<KnownUrl>>> {
    let known = |number: u64| Ok(KnownUrl { url: large_url(number)?, record: record(number) });
    (0..urls).step_by(PART as usize).map(move |first| (first..urls.min(first + PART)).map(known).collect())
}

fn other_url(number: u64) -> Outcome<CanonicalUrl> {
    let text =
        format!("https://www.site-{}.example/docs/{}/page-{number:x}.html", mix(number) % HOSTS, number % 40);
    Ok(CanonicalUrl::parse(&text)?)
}

fn open(folder: &Path) -> Outcome<Veuni> {
    let disk: Arc<dyn Disk> = Arc::new(File::at(folder)?);
    Ok(Veuni::open(disk, VeuniOptions::default())?.0)
}

/// Fills a store with what is not handed over.
fn fill_others(store: &mut Veuni, others: u64) -> Outcome<()> {
    for first in (0..others).step_by(5000) {
        let found = |number| Ok(Found { url: other_url(number)?, depth: 2, hint: None });
        store.found(&(first..others.min(first + 5000)).map(found).collect::<Outcome<Vec<_>>>()?)?;
        store.flush()?;
    }
    Ok(())
}

/// What a crawl does beside the hand-over.
struct Busy {
    next: u64,
    batches: u64,
}

impl Busy {
    fn step(&mut self, store: &mut Veuni) -> Outcome<()> {
        let found = |number| Ok(Found { url: other_url(number)?, depth: 3, hint: None });
        let known = (0..1000).map(|i| mix(self.next + i) % self.next);
        let urls: Outcome<Vec<Found>> = (self.next..self.next + 1000).chain(known).map(found).collect();
        store.found(&urls?)?;
        for i in 0..100 {
            let at = Timestamp::from_secs(1_700_000_000 + self.next);
            let visit = Visit {
                at,
                outcome: VisitOutcome::Page,
                content_hash: ContentHash(u128::from(i)),
                changed: true,
                position: Some(PagePosition { file: 1, offset: self.next }),
                download: Duration::from_millis(80),
                due: Timestamp::from_secs(1_800_000_000),
                memo: [1; 8],
            };
            store.visited(&other_url(self.next + i)?, &visit)?;
        }
        store.flush()?;
        self.next += 1000;
        self.batches += 1;
        Ok(())
    }

    /// Goes on until somebody says that it is enough; answers found URLs per second.
    fn run(&mut self, store: &mut Veuni, mut enough: impl FnMut(Duration) -> bool) -> Outcome<f64> {
        let (start, before) = (Instant::now(), self.batches);
        while !enough(start.elapsed()) {
            self.step(store)?;
        }
        Ok((self.batches - before) as f64 * 2000.0 / start.elapsed().as_secs_f64())
    }
}

fn give(folder: &Path, urls: u64, others: u64) -> Outcome<()> {
    let mut store = open(folder)?;
    fill_others(&mut store, others)?;
    for part in parts(urls) {
        store.import(&part?)?;
        store.flush()?;
    }
    store.compact_all()?;
    drop(store);
    let mut store = open(folder)?;
    let mut busy = Busy { next: others, batches: 0 };
    // The memory that a crawl has anyway.
    let before = busy.run(&mut store, |elapsed| elapsed > QUIET)?;
    let resident = forget_peak()?;
    let (count, bytes, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let export = store.export(&[large_host()?])?;
    let began = start.elapsed();
    let mut took = Duration::ZERO;
    let during = std::thread::scope(|scope| -> Outcome<f64> {
        let reader = scope.spawn(|| {
            let walked = export.walk(&mut |_, path, record| {
                count.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(path.len() as u64 + u64::from(record.visits > 0) * 60, Ordering::Relaxed);
                ControlFlow::Continue(())
            });
            done.store(true, Ordering::Relaxed);
            (walked, start.elapsed())
        });
        let during = busy.run(&mut store, |_| done.load(Ordering::Relaxed))?;
        let (walked, elapsed) = reader.join().map_err(|_| "the reader broke down")?;
        took = elapsed;
        walked?;
        Ok(during)
    })?;
    let peak = peak()?;
    store.forget(&[large_host()?])?;
    store.flush()?;
    let after = busy.run(&mut store, |elapsed| elapsed > QUIET)?;
    let count = count.load(Ordering::Relaxed);
    if count != urls {
        return Err(format!("{count} of {urls} URLs were handed over").into());
    }
    println!(
        "export {urls} URLs, {} MB raw: {:.1} s, {:.0} URLs/s; the call itself {:.1} ms; resident {} MB before, {} MB at \
         most; the store found {before:.0} URLs/s before, {during:.0} during, {after:.0} after",
        bytes.load(Ordering::Relaxed) >> 20,
        took.as_secs_f64(),
        count as f64 / took.as_secs_f64(),
        began.as_secs_f64() * 1e3,
        resident >> 20,
        peak >> 20,
    );
    Ok(())
}

fn take(folder: &Path, urls: u64, others: u64) -> Outcome<()> {
    let mut store = open(folder)?;
    fill_others(&mut store, others)?;
    store.compact_all()?;
    drop(store);
    let mut store = open(folder)?;
    let mut busy = Busy { next: others, batches: 0 };
    let before = busy.run(&mut store, |elapsed| elapsed > QUIET)?;
    let resident = forget_peak()?;
    let (start, mut importing) = (Instant::now(), Duration::ZERO);
    let batches = busy.batches;
    for part in parts(urls) {
        let part = part?;
        let at = Instant::now();
        store.import(&part)?;
        store.flush()?;
        importing += at.elapsed();
        busy.step(&mut store)?;
    }
    let took = start.elapsed();
    let during = (busy.batches - batches) as f64 * 2000.0 / took.as_secs_f64();
    let peak_during = peak()?;
    let start = Instant::now();
    store.compact_all()?;
    let settled = start.elapsed();
    let (peak, after) = (peak()?, busy.run(&mut store, |elapsed| elapsed > QUIET)?);
    let known = store.host_counts(&large_host()?).map_or(0, |counts| counts.known);
    if known != urls {
        return Err(format!("{known} of {urls} URLs arrived").into());
    }
    println!(
        "import {urls} URLs: {:.1} s, {:.0} URLs/s ({:.0} in its own calls), settled {:.1} s later; resident {} MB before, \
         {} MB at most ({} while settling); the store found {before:.0} URLs/s before, {during:.0} during, {after:.0} after",
        took.as_secs_f64(),
        urls as f64 / took.as_secs_f64(),
        urls as f64 / importing.as_secs_f64(),
        settled.as_secs_f64(),
        resident >> 20,
        peak_during >> 20,
        peak >> 20,
    );
    Ok(())
}

/// Forgets the most memory so far; answers what is resident now.
fn forget_peak() -> Outcome<u64> {
    fs::write("/proc/self/clear_refs", "5")?;
    field("VmRSS:")
}

fn peak() -> Outcome<u64> {
    field("VmHWM:")
}

fn field(name: &str) -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    Ok(value.split_whitespace().next().ok_or("no number")?.parse::<u64>()? * 1024)
}
