//! Asks a running engine at a steady rate, whether or not it keeps up, and tells how long answers took.
//!
//! Each query has its instant by the clock; its time counts from that instant, so that a stall is seen by every query
//! that would have been asked meanwhile.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Where the engine answers; it must not limit the rate (serve.rate_per_minute = 0)
    #[arg(long, default_value = "127.0.0.1:8080")]
    address: SocketAddr,
    /// One query per line; asked in turn
    #[arg(long)]
    queries: PathBuf,
    /// Queries per second
    #[arg(long, default_value_t = 50.0)]
    rate: f64,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Queries under way at once at most
    #[arg(long, default_value_t = 64)]
    at_once: usize,
}

pub fn run(args: &Args) -> Result<()> {
    let text = std::fs::read_to_string(&args.queries)
        .with_context(|| format!("cannot read {}", args.queries.display()))?;
    let queries: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(escaped).collect();
    if queries.is_empty() || args.rate <= 0.0 {
        bail!("there is nothing to ask: name a file with queries and a rate above 0");
    }
    let before = status(args.address)?;
    let count = (args.rate * args.seconds as f64) as usize;
    let (next, times) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::with_capacity(count))));
    let begun = Instant::now();
    let workers: Vec<_> = (0..args.at_once)
        .map(|_| {
            let (next, times, queries) = (next.clone(), times.clone(), queries.clone());
            let (address, rate) = (args.address, args.rate);
            std::thread::spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let due = begun + Duration::from_secs_f64(number as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let path = format!("/api/v1/search?q={}", queries[number % queries.len()]);
                    let found = get(address, &path).ok().and_then(|answer| answer.get("total")?.as_u64());
                    times.lock().expect("no worker panics").push((due.elapsed(), found));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| anyhow::anyhow!("a worker broke down"))?;
    }
    let after = status(args.address)?;
    report(args, &times.lock().expect("no worker panics"), &before, &after);
    Ok(())
}

fn report(
    args: &Args,
    times: &[(Duration, Option<u64>)],
    before: &serde_json::Value,
    after: &serde_json::Value,
) {
    let mut sorted: Vec<Duration> = times.iter().map(|(time, _)| *time).collect();
    sorted.sort_unstable();
    let at = |share: f64| {
        sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)].as_secs_f64() * 1e3
    };
    let failed = times.iter().filter(|(_, found)| found.is_none()).count();
    let empty = times.iter().filter(|(_, found)| *found == Some(0)).count();
    let number =
        |status: &serde_json::Value, path: &str| status.pointer(path).and_then(|n| n.as_u64()).unwrap_or(0);
    let crawled =
        number(after, "/crawl/pages_fetched").saturating_sub(number(before, "/crawl/pages_fetched"));
    println!(
        "| queries | rate | p50 | p90 | p99 | worst | failed | without results | documents | pages crawled meanwhile |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {} | {}/s | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms | {failed} | {empty} | {} | {crawled} ({:.0}/s) |",
        sorted.len(),
        args.rate,
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0),
        number(after, "/index/documents"),
        crawled as f64 / args.seconds as f64
    );
}

fn status(address: SocketAddr) -> Result<serde_json::Value> {
    get(address, "/api/v1/status").with_context(|| format!("no engine answers at {address}"))
}

fn get(address: SocketAddr, path: &str) -> Result<serde_json::Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").context("no answer")?;
    Ok(serde_json::from_slice(&bytes[head + 4..])?)
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
