//! Fills a link store, ranks it, and says what that took.
//!
//! ```text
//! cargo run --release -p farol-links --example rank -- graph GRAPH.txt
//! cargo run --release -p farol-links --example rank -- synthetic 200000 50
//! ```
//!
//! `graph` reads a page graph, one line per page from 0 on, each with the numbers of the pages it links to (`-` reads
//! it from the standard input; all pages count as one host). `synthetic` makes one of so many pages with so many
//! links each: one page in 20 of a host per host, 80 % of links inside the host, targets drawn from seven times as
//! many pages as were fetched, low numbers more often. The store is made in a temporary folder and deleted.

use farol_base::disk::{Disk, File};
use farol_base::{HostHash, PageId, PagePosition, Random, Seeded, random::mix};
use farol_links::{Budget, Links, LinksOptions, OutLink};
use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = tempfile::tempdir()?;
    let disk: Arc<dyn Disk> = Arc::new(File::at(dir.path())?);
    let links = Links::open(Arc::clone(&disk), LinksOptions::default())?;
    let mut bench =
        Bench { links, waiting: Vec::new(), number: 0, putting: Spent::default(), upkeep: Spent::default() };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["graph", "-"] => bench.graph(std::io::stdin().lock())?,
        ["graph", path] => bench.graph(std::io::BufReader::new(std::fs::File::open(path)?))?,
        ["synthetic", pages, links] => bench.synthetic(pages.parse()?, links.parse()?)?,
        _ => return Err("usage: rank graph FILE | rank synthetic PAGES LINKS".into()),
    }
    bench.report(disk)
}

struct Bench {
    links: Links,
    /// Pages made but not yet put: clocks are read once per batch.
    waiting: Vec<(u64, u64, Vec<OutLink>)>,
    number: u64,
    putting: Spent,
    upkeep: Spent,
}

impl Bench {
    fn put(&mut self, page: u64, host: u64, out: Vec<OutLink>) -> Result<(), farol_links::Error> {
        self.waiting.push((page, host, out));
        if self.waiting.len() < 500 { Ok(()) } else { self.put_waiting() }
    }

    fn put_waiting(&mut self) -> Result<(), farol_links::Error> {
        let start = Spent::now();
        for (page, host, out) in std::mem::take(&mut self.waiting) {
            self.number += 1;
            self.links.put(id(page), HostHash(host), &out, PagePosition { file: 0, offset: self.number })?;
            if self.number.is_multiple_of(100) {
                self.links.flush()?;
            }
        }
        self.putting = self.putting.plus(start.until_now());
        let start = Spent::now();
        while self.links.maintain()? {}
        self.upkeep = self.upkeep.plus(start.until_now());
        Ok(())
    }

    fn graph(&mut self, input: impl BufRead) -> Result<(), Box<dyn Error>> {
        for (page, line) in input.lines().enumerate() {
            let line = line?;
            let targets = line.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
            let out: Vec<OutLink> =
                targets.into_iter().map(|target| link(target, 1, String::new())).collect();
            self.put(page as u64, 1, out)?;
        }
        Ok(())
    }

    fn synthetic(&mut self, pages: u64, links: u64) -> Result<(), Box<dyn Error>> {
        let mut random = Seeded::new(1);
        let known = pages * 7;
        let host_pages = 140;
        for page in 0..pages {
            let (page, mut out) = (page * 7, Vec::new());
            let host = page / host_pages;
            for _ in 0..links {
                // The square of a uniform number draws low numbers more often.
                let skewed = random.unit() * random.unit();
                let target = if random.unit() < 0.8 {
                    host * host_pages + (skewed * host_pages as f64) as u64
                } else {
                    (skewed * known as f64) as u64
                };
                let text = format!("word{} of {}", random.below(5000), target % 1000);
                out.push(link(target, target / host_pages, text));
            }
            self.put(page, host, out)?;
        }
        Ok(())
    }

    fn report(mut self, disk: Arc<dyn Disk>) -> Result<(), Box<dyn Error>> {
        self.put_waiting()?;
        self.links.sync()?;
        let counts = self.links.counts();
        println!("pages {}  links {}  disk {} MB", counts.pages, counts.links, counts.bytes >> 20);
        println!(
            "put        {} per page; upkeep {} per page",
            self.putting.each(self.number),
            self.upkeep.each(self.number)
        );
        println!("memory     {} now, {} at most", resident("VmRSS"), resident("VmHWM"));

        let (start, mut slowest, mut texts) = (Spent::now(), Duration::ZERO, 0);
        for target in 0..20_000 {
            let one = Instant::now();
            texts += self.links.anchors(id(target))?.len();
            slowest = slowest.max(one.elapsed());
        }
        println!(
            "anchors    {} each, slowest of 20,000 {slowest:?}, {texts} texts",
            start.until_now().each(20_000)
        );

        self.rank("cold")?;
        self.rank("again")?;
        let (changed, mut random) = (self.number / 100, Seeded::new(2));
        for _ in 0..changed {
            let (page, target) = (random.below(self.number), random.below(self.number));
            self.put(page, 1, vec![link(target, 1, "changed".to_string())])?;
        }
        self.put_waiting()?;
        self.rank("1 % changed")?;
        println!("memory     {} now, {} at most", resident("VmRSS"), resident("VmHWM"));

        drop(self.links);
        let start = Spent::now();
        let links = Links::open(disk, LinksOptions::default())?;
        println!("open       {}", start.until_now().each(1));
        let start = Spent::now();
        let verified = links.verify()?;
        println!("verify     {}: {verified:?}", start.until_now().each(1));
        Ok(())
    }

    fn rank(&mut self, name: &str) -> Result<(), farol_links::Error> {
        let start = Spent::now();
        let report = self.links.compute_ranks(Budget { iterations_max: 100, tolerance: 1e-6 })?;
        println!("ranks      {name}, {}: {report:?}", start.until_now().each(1));
        Ok(())
    }
}

/// Time on the clock, and time on a processor, which other processes do not lengthen.
#[derive(Clone, Copy, Default)]
struct Spent {
    cpu: Duration,
    wall: Duration,
    since: Option<Instant>,
}

impl Spent {
    fn now() -> Spent {
        Spent { cpu: cpu_time(), wall: Duration::ZERO, since: Some(Instant::now()) }
    }

    fn until_now(self) -> Spent {
        let wall = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        Spent { cpu: cpu_time().saturating_sub(self.cpu), wall, since: None }
    }

    fn plus(self, other: Spent) -> Spent {
        Spent { cpu: self.cpu + other.cpu, wall: self.wall + other.wall, since: None }
    }

    fn each(self, count: u64) -> String {
        let count = count.max(1) as u32;
        format!("{:?} CPU ({:?} on the clock)", self.cpu / count, self.wall / count)
    }
}

/// Time this thread has run, where the system tells.
fn cpu_time() -> Duration {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = line.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn id(page: u64) -> PageId {
    PageId(mix(page))
}

fn link(target: u64, target_host: u64, anchor: String) -> OutLink {
    OutLink { target: id(target), target_host: HostHash(target_host), anchor, nofollow: false }
}

/// A line of this process's status, where the system has such a thing.
fn resident(name: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map_or("unknown".to_string(), |line| line.trim().to_string())
}
