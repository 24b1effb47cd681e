//! Measures the stores on this machine: `cargo run --release -p farol-store --example speed [URLS]`.
//!
//! Times are those of the processor, so that a busy machine does not spoil them. Prints known-checks per
//! second, memory and disk per URL, the time to open, and what gzip's levels cost.

use farol_base::disk::{Disk, File, Mem};
use farol_base::{CanonicalUrl, ContentHash, Host, Random, Seeded, Timestamp};
use farol_store::pages::{Archive, ArchiveOptions, Encoder, Exchange};
use farol_store::urls::{Found, UrlStore, Veuni, VeuniOptions, Visit, VisitOutcome};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    urls(count)?;
    levels()?;
    Ok(())
}

/// A URL like those of documentation sites: 10,000 hosts, 20 pages a folder, 70 bytes or so.
fn url(number: u64) -> Result<Found, Box<dyn Error>> {
    let hosts = 10_000;
    let (host, page) = (number % hosts, number / hosts);
    let folder = page / 20;
    let text =
        format!("https://www.site-{host}.example/docs/v{}/section-{folder}/page-{page:06}.html", folder % 5);
    Ok(Found { url: CanonicalUrl::parse(&text)?, depth: 3, hint: None })
}

fn urls(count: u64) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("farol-speed-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(File::at(&folder)?);
    let mut store = Veuni::open(disk.clone(), VeuniOptions::default())?.0;
    let before = resident_bytes();
    let mut text_bytes = 0;
    let mut spent = Duration::ZERO;
    for first in (0..count).step_by(5000) {
        let batch = (first..count.min(first + 5000)).map(url).collect::<Result<Vec<_>, _>>()?;
        text_bytes += batch.iter().map(|found| found.url.as_str().len()).sum::<usize>();
        let start = Cpu::now();
        store.found(&batch)?;
        store.flush()?;
        spent += start.elapsed();
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{count} URLs of {} bytes on average", text_bytes as u64 / count);
    println!("  new:   {:>10.0} a second", count as f64 / spent.as_secs_f64());
    println!("  memory {:>10} bytes a URL", grown / count);
    println!("  disk   {:>10} bytes a URL", store.counts().bytes_on_disk / count);

    // As links come: 50 to a page, most to the page's own host.
    let mut random = Seeded::new(1);
    let mut links = Vec::new();
    for _ in 0..4000 {
        let host = random.below(10_000);
        for _ in 0..50 {
            let host = if random.below(10) < 8 { host } else { random.below(10_000) };
            links.push(url((host + 10_000 * random.below((count / 10_000).max(1))) % count)?);
        }
    }
    let start = Cpu::now();
    for _ in 0..10 {
        for page in links.chunks(50) {
            store.found(page)?;
        }
    }
    println!("  known: {:>10.0} checks a second", 10.0 * links.len() as f64 / start.elapsed().as_secs_f64());
    drop(links);

    let start = Cpu::now();
    let mut visits = 0u64;
    let now = Timestamp::from_secs(1_700_000_000);
    'all: loop {
        let hosts = store.hosts_due(now, 100)?;
        for host in &hosts {
            visits += visit_some(&mut store, host, now)?;
            if visits >= count / 5 {
                break 'all;
            }
        }
        if hosts.is_empty() {
            break;
        }
        store.flush()?;
    }
    println!("  drawn and visited: {:.0} a second", visits as f64 / start.elapsed().as_secs_f64());
    store.flush()?;
    let grown = resident_bytes().saturating_sub(before);
    println!("  memory with {visits} visited: {} bytes a URL", grown / count);
    drop(store);
    let start = Cpu::now();
    let store = Veuni::open(disk, VeuniOptions::default())?.0;
    println!("  opened in {:.2} s, {} known", start.elapsed().as_secs_f64(), store.counts().known);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn visit_some(store: &mut Veuni, host: &Host, now: Timestamp) -> Result<u64, Box<dyn Error>> {
    let drawn = store.draw(host, 20, now)?;
    for (i, drawn) in drawn.urls.iter().enumerate() {
        let visit = Visit {
            at: now,
            outcome: VisitOutcome::Page,
            content_hash: ContentHash(i as u128),
            changed: true,
            position: None,
            download: Duration::from_millis(90),
            due: now + Duration::from_secs(86_400 + i as u64),
            memo: [7; 8],
        };
        store.visited(&drawn.url, &visit)?;
    }
    store.release_host(host);
    Ok(drawn.urls.len() as u64)
}

/// Nanoseconds that this thread has had a processor.
struct Cpu(u64);

impl Cpu {
    fn now() -> Cpu {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Cpu(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos((Cpu::now().0 - self.0).max(1))
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

/// Pages of about 20 KB that compress as HTML does, from words of a Zipf-like vocabulary.
fn pages() -> Result<Vec<Exchange>, Box<dyn Error>> {
    let mut random = Seeded::new(3);
    let mut pages = Vec::new();
    for number in 0..500u64 {
        let mut body = format!("<!doctype html><title>Page {number}</title><body>");
        while body.len() < 20_000 {
            let word = (5000.0 * random.unit().powi(3)) as u64;
            match random.below(12) {
                0 => body.push_str(&format!(
                    "<a href=\"/docs/{}/w{word:x}.html\">w{word:x}</a> ",
                    random.below(50)
                )),
                1 => body.push_str("</p>\n<p class=\"text\">"),
                _ => body.push_str(&format!("w{word:x} ")),
            }
        }
        pages.push(Exchange {
            url: CanonicalUrl::parse(&format!("https://host.example/{number}"))?,
            fetched: Timestamp::from_secs(1_700_000_000 + number),
            address: Some("192.0.2.1".parse()?),
            status: 200,
            request_head: b"GET / HTTP/1.1\r\nHost: host.example\r\nUser-Agent: Farol\r\nAccept: */*\r\n\r\n".to_vec(),
            response_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nServer: nginx\r\n\r\n".to_vec(),
            body: body.into(),
            truncated: None,
            protocol: "http/1.1".to_string(),
            revisit_of: None,
            metadata: vec![("via".to_string(), "https://host.example/".to_string())],
        });
    }
    Ok(pages)
}

fn levels() -> Result<(), Box<dyn Error>> {
    let pages = pages()?;
    let body_bytes: usize = pages.iter().map(|page| page.body.len()).sum();
    println!("level  pages/s   MB/s  bytes/page  read/s");
    for level in [0, 1, 2, 3, 4, 6, 9] {
        let mut encoder = Encoder::new(level);
        let mut ids = Seeded::new(7);
        let start = Cpu::now();
        let encoded: Vec<_> = pages.iter().map(|page| encoder.encode(page, &mut ids)).collect();
        let seconds = start.elapsed().as_secs_f64();
        let bytes: usize = encoded.iter().map(|encoded| encoded.len()).sum();
        let mut archive = Archive::open(Arc::new(Mem::new()), ArchiveOptions::default())?.0;
        archive.append(&encoded)?;
        let start = Cpu::now();
        let read = archive.reader().scan(Default::default()).filter(Result::is_ok).count();
        let rate = read as f64 / start.elapsed().as_secs_f64();
        println!(
            "{level:>5} {:>8.0} {:>6.0} {:>11} {rate:>7.0}",
            pages.len() as f64 / seconds,
            body_bytes as f64 / seconds / 1e6,
            bytes / pages.len()
        );
    }
    Ok(())
}
