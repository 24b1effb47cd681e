//! Kills a process that fills a URL store, again and again, and checks what is left each time.
//!
//! ```text
//! kill_urls [--rounds N] [--seconds N] [--threads N] [--seed N]
//! ```
//! A child process loads batches of URLs and visits, and says so after each flush that returned. Within 300
//! ms it is killed (SIGKILL). Then a copy of its folder is opened: exactly the batches that the child spoke
//! of are there, and at most one more, whole; every URL has its visits, its depth and its last visit, and what
//! another store knew of it; the sender's number is that of the last batch; nothing is doubled or invented. The next child goes on in the folder as the dead one left it. Ends with an error
//! at the first difference.
//!
//! Sums are compared each time, URLs of the last batches and some others too, all of them before a folder is
//! given up. Run it with `TMPDIR` on a disk and in memory: there a child gets much further before it dies.

use farol_base::disk::{Disk, File};
use farol_base::random::mix;
use farol_base::{CanonicalUrl, ContentHash, PagePosition, Random, Seeded, Timestamp};
use farol_store::urls::{
    Found, KnownUrl, Record, Source, State, UrlStore, Veuni, VeuniOptions, Visit, VisitOutcome,
};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// New URLs of a batch; as many are found again.
const NEW: u64 = 60;
const VISITS: u64 = 30;
const IMPORTS: u64 = 10;
/// A folder with more batches than this is given up for an empty one.
const BATCHES_MAX: u64 = 300;
/// Batches whose URLs are all looked up in each round, and URLs of earlier ones.
const LAST: u64 = 3;
const SAMPLE: u64 = 150;
const SIGKILL: i32 = 9;
const SENDER: Source = Source(3);

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [child, folder, first, seed, threads] = &arguments[..]
        && child == "--child"
    {
        return load(Path::new(folder), first.parse()?, seed.parse()?, threads.parse()?);
    }
    let (mut rounds, mut seconds, mut threads, mut seed) = (200, u64::MAX, 2, 1);
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--rounds" => rounds = value.parse()?,
            [name, value] if name == "--seconds" => seconds = value.parse()?,
            [name, value] if name == "--threads" => threads = value.parse()?,
            [name, value] if name == "--seed" => seed = value.parse()?,
            _ => return Err("usage: kill_urls [--rounds N] [--seconds N] [--threads N] [--seed N]".into()),
        }
    }
    Judge::new(seed, threads)?.run(rounds, Duration::from_secs(seconds))
}

/// So small that compactions, splits and level-0 runs come every few batches.
fn options(threads: usize) -> VeuniOptions {
    VeuniOptions {
        memtable_bytes: 40 << 10,
        seen_cache_bytes: 40 << 10,
        bucket_bytes: 16 << 10,
        bucket_hosts: 60,
        prescheduled: 20,
        active_buckets_max: 3,
        threads,
        ..VeuniOptions::default()
    }
}

fn url(number: u64) -> Outcome<CanonicalUrl> {
    let host = mix(number) % 400 % (1 + mix(number + 7) % 400);
    Ok(CanonicalUrl::parse(&format!("http://h{host}.test/d{}/p{number}", number % 11))?)
}

/// What a batch says: every batch also notes its number for a sender.
struct WriteBatch {
    /// URL and depth.
    found: Vec<(u64, u16)>,
    visited: Vec<u64>,
    /// What another store knew, as of this batch.
    imported: Vec<(u64, Known)>,
}

/// Batches have numbers from 1 on; the new URLs of each follow on those of the one before.
fn batch(seed: u64, number: u64) -> WriteBatch {
    let mut random = Seeded::new(mix(seed) ^ number);
    let (known, after) = ((number - 1) * NEW, number * NEW);
    let mut found: Vec<(u64, u16)> = (known..after).map(|url| (url, random.below(9) as u16)).collect();
    found.extend((0..NEW).map(|_| (random.below(after), random.below(9) as u16)));
    let visited = (0..VISITS).map(|_| random.below(after)).collect();
    let mut known = || {
        let (visits, depth) = (random.below(1000) as u32, random.below(9) as u16);
        Known { visits, depth, last_visit: if visits > 0 { number } else { 0 } }
    };
    let known: Vec<Known> = (0..IMPORTS).map(|_| known()).collect();
    let imported = known.into_iter().map(|known| (random.below(after), known)).collect();
    WriteBatch { found, visited, imported }
}

fn visit(url: u64, batch: u64) -> Visit {
    Visit {
        at: Timestamp::from_secs(batch),
        outcome: if url.is_multiple_of(7) { VisitOutcome::Failed } else { VisitOutcome::Page },
        content_hash: ContentHash(u128::from(url)),
        changed: true,
        position: Some(PagePosition { file: 0, offset: url }),
        download: Duration::from_millis(url % 1000),
        due: Timestamp::NEVER,
        memo: url.to_le_bytes(),
    }
}

/// The child: loads batches until it is killed.
fn load(folder: &Path, first: u64, seed: u64, threads: usize) -> Outcome<()> {
    let disk: Arc<dyn Disk> = Arc::new(File::at(folder)?);
    let mut store = Veuni::open(disk, options(threads))?.0;
    for number in first.. {
        let batch = batch(seed, number);
        let found = batch
            .found
            .iter()
            .map(|(number, depth)| url(*number).map(|url| Found { url, depth: *depth, hint: None }));
        store.found(&found.collect::<Outcome<Vec<Found>>>()?)?;
        for visited in batch.visited {
            store.visited(&url(visited)?, &visit(visited, number))?;
        }
        for (imported, known) in batch.imported {
            store.import(&[KnownUrl { url: url(imported)?, record: known.record(imported) }])?;
        }
        store.note(SENDER, number)?;
        store.mark(PagePosition { file: 0, offset: number })?;
        match number % 16 {
            5 => store.sync()?,
            11 => store.compact_all()?,
            _ => store.flush()?,
        }
        writeln!(std::io::stdout(), "{number}")?;
        crawl(&mut store, Timestamp::from_secs(number))?;
    }
    Ok(())
}

/// Draws as a crawler does, which has buckets merged, and gives everything back.
fn crawl(store: &mut Veuni, now: Timestamp) -> Outcome<()> {
    for host in store.hosts_due(now, 8)? {
        let drawn = store.draw(&host, 5, now)?;
        store.release(&drawn.urls.into_iter().map(|drawn| drawn.url).collect::<Vec<_>>())?;
        store.release_host(&host);
    }
    Ok(())
}

/// What a URL must be like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    visits: u32,
    depth: u16,
    last_visit: u64,
}

impl Known {
    /// As another store would hand it over.
    fn record(self, url: u64) -> Record {
        let mut record = Record { depth: self.depth, ..Record::default() };
        if self.visits > 0 {
            record.state = if url.is_multiple_of(7) { State::Failed } else { State::Collected };
            (record.visits, record.last_visit) = (self.visits, Timestamp::from_secs(self.last_visit));
        }
        record
    }

    fn merge(&mut self, other: Known) {
        self.depth = self.depth.min(other.depth);
        if other.visits > 0 && (other.last_visit, other.visits) > (self.last_visit, self.visits) {
            (self.visits, self.last_visit) = (other.visits, other.last_visit);
        }
    }
}

/// The parent: knows what must be there.
struct Judge {
    folder: PathBuf,
    random: Seeded,
    seed: u64,
    threads: usize,
    /// Batches that are there.
    batches: u64,
    /// By the numbers of URLs.
    urls: Vec<Known>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    batches: u64,
    looked_up: u64,
    unheard: u64,
    cut: u64,
    mid_compaction: u64,
    level0: u64,
    buckets_max: usize,
}

impl Judge {
    fn new(seed: u64, threads: usize) -> Outcome<Judge> {
        let folder = std::env::temp_dir().join(format!("farol-kill-urls-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let (random, urls, tally) = (Seeded::new(seed), Vec::new(), Tally::default());
        Ok(Judge { folder, random, seed, threads, batches: 0, urls, tally })
    }

    /// Goes on for this many rounds, or until the time is up.
    fn run(mut self, rounds: u64, time: Duration) -> Outcome<()> {
        let (start, mut kills) = (Instant::now(), 0);
        for round in 1..=rounds {
            let is_last = round == rounds || start.elapsed() >= time;
            let is_full = is_last || self.batches >= BATCHES_MAX;
            self.round(is_full).map_err(|error| {
                format!("round {round}, seed {}: {error}; the folder is {}", self.seed, self.folder.display())
            })?;
            if is_full {
                std::fs::remove_dir_all(self.store_folder())?;
                (self.batches, self.urls, self.seed) = (0, Vec::new(), self.seed + 1);
            }
            kills = round;
            if is_last {
                break;
            }
        }
        std::fs::remove_dir_all(&self.folder)?;
        let Tally { batches, looked_up, unheard, cut, mid_compaction, level0, buckets_max } = self.tally;
        println!(
            "{kills} kills, {batches} batches of {} writes: all there, none in part ({unheard} whole ones had not been \
             told yet). {cut} torn tails cut off, {mid_compaction} times in the middle of a compaction, {level0} times with \
             level-0 runs, up to {buckets_max} buckets; {looked_up} URLs looked up",
            2 * NEW + VISITS + IMPORTS
        );
        Ok(())
    }

    fn store_folder(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn round(&mut self, check_all: bool) -> Outcome<()> {
        let told = self.kill_a_child()?;
        let copy = self.folder.join("copy");
        copy_folder(&self.store_folder(), &copy)?;
        let names = names_in(&copy)?;
        let disk: Arc<dyn Disk> = Arc::new(File::at(&copy)?);
        let threads = self.random.below(3) as usize;
        let (mut store, cut) = Veuni::open(disk, options(threads))?;
        let left = names_in(&copy)?;
        self.tally.cut += u64::from(cut.is_some());
        self.tally.mid_compaction += u64::from(names.iter().any(|name| !left.contains(name)));
        self.tally.level0 += u64::from(left.iter().any(|name| name.starts_with("pending-")));
        let buckets = left.iter().filter(|name| name.starts_with("block-")).count();
        self.tally.buckets_max = self.tally.buckets_max.max(buckets);

        let there = store.watermark().offset;
        if there != told && there != told + 1 {
            return Err(format!("{there} batches are there, and {told} had been told").into());
        }
        // The number of the sender stands in the same batch.
        let noted = store.numbers().get(&SENDER).copied().unwrap_or(0);
        if noted != there {
            return Err(format!("{there} batches are there, and the sender's number is {noted}").into());
        }
        self.tally.unheard += there - told;
        self.tally.batches += there - self.batches;
        (self.batches + 1..=there).for_each(|number| self.write(number));
        self.batches = there;
        self.look_up(&store, false)?;
        // One that no batch has.
        if store.get(&url(self.urls.len() as u64)?)?.is_some() {
            return Err("a URL is known that nobody wrote, or a batch is there in part".into());
        }
        store.compact_all()?;
        self.count(&store)?;
        self.look_up(&store, check_all)?;
        if let Some(damage) = store.check().first() {
            return Err(format!("{} is damaged at byte {}", damage.file, damage.offset).into());
        }
        drop(store);
        Ok(std::fs::remove_dir_all(copy)?)
    }

    /// Answers with the last batch of which the child spoke.
    fn kill_a_child(&mut self) -> Outcome<u64> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .arg(self.store_folder())
            .args([(self.batches + 1).to_string(), self.seed.to_string(), self.threads.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(10 + self.random.below(291)));
        child.kill()?;
        let status = child.wait()?;
        let mut told = String::new();
        if let Some(mut out) = child.stdout.take() {
            out.read_to_string(&mut told)?;
        }
        if status.signal() != Some(SIGKILL) {
            return Err(format!("the child ended by itself: {status}").into());
        }
        let whole = told.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Ok(whole.lines().last().map_or(Ok(self.batches), str::parse)?)
    }

    /// Applies a batch to the model.
    fn write(&mut self, number: u64) {
        let batch = batch(self.seed, number);
        for (url, depth) in batch.found {
            match self.urls.get_mut(url as usize) {
                Some(known) => known.depth = known.depth.min(depth),
                None => self.urls.push(Known { depth, ..Known::default() }),
            }
        }
        for url in batch.visited {
            let known = &mut self.urls[url as usize];
            (known.visits, known.last_visit) = (known.visits + 1, number);
        }
        for (url, known) in batch.imported {
            self.urls[url as usize].merge(known);
        }
    }

    /// Compares the URLs of the last batches and some of the others, or all.
    fn look_up(&mut self, store: &Veuni, all: bool) -> Outcome<()> {
        let end = self.urls.len() as u64;
        let first = if all { 0 } else { end.saturating_sub(LAST * NEW) };
        let earlier: Vec<u64> = match first {
            0 => Vec::new(),
            first => (0..SAMPLE).map(|_| self.random.below(first)).collect(),
        };
        for number in (first..end).chain(earlier) {
            self.tally.looked_up += 1;
            let expected = self.urls[number as usize];
            let url = url(number)?;
            let Some(record) = store.get(&url)? else {
                return Err(format!("{url} of {} batches is lost", self.batches).into());
            };
            let (visits, depth, last_visit) = (record.visits, record.depth, record.last_visit.as_secs());
            if (Known { visits, depth, last_visit }) != expected {
                return Err(format!("{url} is {record:?}, not {expected:?}").into());
            }
        }
        Ok(())
    }

    /// Compares the sums.
    fn count(&self, store: &Veuni) -> Outcome<()> {
        let hosts: BTreeSet<String> = (0..self.urls.len() as u64)
            .map(|number| url(number).map(|url| url.host_str().to_string()))
            .collect::<Outcome<_>>()?;
        let is_collected = |(number, known): &(usize, &Known)| known.visits > 0 && number % 7 != 0;
        let expected = (
            hosts.len() as u64,
            self.urls.len() as u64,
            self.urls.iter().enumerate().filter(is_collected).count() as u64,
            self.urls.iter().filter(|known| known.visits == 0).count() as u64,
            0,
        );
        let counts = store.counts();
        let ours = (counts.hosts, counts.known, counts.collected, counts.waiting, counts.unmerged);
        if ours == expected {
            return Ok(());
        }
        Err(format!("hosts, known, collected, waiting, unsettled are {ours:?}, not {expected:?}").into())
    }
}

fn names_in(folder: &Path) -> Outcome<BTreeSet<String>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

fn copy_folder(from: &Path, to: &Path) -> Outcome<()> {
    std::fs::create_dir_all(from)?;
    std::fs::create_dir_all(to)?;
    for name in names_in(from)? {
        std::fs::copy(from.join(&name), to.join(&name))?;
    }
    Ok(())
}
