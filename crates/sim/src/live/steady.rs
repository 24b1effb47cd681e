//! Does a crawl keep its pace as it comes to know millions of URLs?
//!
//! The pace of a shared machine moves by more than what is looked for. So a crawl is judged in three ways: its last
//! minute by its first; by the first minute of another crawl that starts from nothing right after it; and each beside what
//! a page cost the Web's own process at that time, which does not know how long the crawl has been going on.

use super::Running;
use crate::Error;
use crate::urls::meter::Watch;
use crate::web::{LogSink, Server, WebConfig, serve};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What to crawl, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct SteadyArgs {
    /// The crawler: a built `farol`.
    #[arg(long)]
    pub farol: PathBuf,
    #[arg(long, default_value_t = 10_000_000)]
    pub pages: u64,
    #[arg(long, default_value_t = 3_000)]
    pub hosts: u32,
    /// Seconds of the long crawl.
    #[arg(long, default_value_t = 240)]
    pub seconds: u64,
    /// Seconds that are compared.
    #[arg(long, default_value_t = 60)]
    pub minute: u64,
    /// Folder for what is crawled, on the disk to be measured; it must not be there, and is removed.
    #[arg(long, default_value = "farol-steady")]
    pub data: PathBuf,
}

/// Requests and CPU seconds at an instant.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    requests: u64,
    crawler: f64,
    web: f64,
}

/// Runs both crawls and prints the table.
pub fn run(args: &SteadyArgs) -> Result<(), Error> {
    if args.data.exists() {
        return Err(Error::Input(format!(
            "{} is there already; name another folder with --data",
            args.data.display()
        )));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Input(error.to_string()))?;
    let config = WebConfig { hosts: args.hosts, pages: args.pages, ..WebConfig::tame() };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = runtime.block_on(serve(config, listen, LogSink::off()));
    let server = server.map_err(|error| Error::Input(error.to_string()))?;
    println!(
        "| | seconds | pages/s | crawler, ms/page | the Web, ms/page | crawler / Web |\n|---|---:|---:|---:|---:|---:|"
    );
    let lived = both(args, &server);
    // What is left of it helps nobody.
    let _ = std::fs::remove_dir_all(&args.data);
    lived
}

fn both(args: &SteadyArgs, server: &Server) -> Result<(), Error> {
    let minute = Duration::from_secs(args.minute);
    let long = args.data.join("long");
    let mut crawler = start(args, server, &long)?;
    let mut marks = watch(&mut crawler, server, Duration::from_secs(args.seconds))?;
    drop(crawler);
    let first = row("first minute", &marks, |mark, began| mark.at <= began + minute);
    let end = marks[marks.len() - 1].at;
    row("between", &marks, |mark, began| mark.at >= began + minute && mark.at + minute <= end);
    let last = row("last minute", &marks, |mark, _| mark.at + minute >= end);
    // The disk is still busy with what was written; leave it no time to rest.
    let mut crawler = start(args, server, &args.data.join("fresh"))?;
    marks = watch(&mut crawler, server, minute)?;
    drop(crawler);
    let fresh = row("first minute of a crawl after it", &marks, |_, _| true);
    let known = known(args, &long);
    println!(
        "\nURLs known at the end: {known}. Last minute to first: {:+.1} %; to the crawl after it: {:+.1} %.",
        100.0 * (last / first - 1.0),
        100.0 * (last / fresh - 1.0)
    );
    Ok(())
}

fn start(args: &SteadyArgs, server: &Server, folder: &Path) -> Result<Running, Error> {
    let seed = format!("http://{}/", server.world().host_name(0));
    let mut command = Command::new(&args.farol);
    command.args(["crawl", &seed, "--resolve", &server.resolve(), "--scope", "domain", "--delay", "0s"]);
    command.arg("--allow-private").arg("--data").arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(Running).map_err(Error::file("start", &args.farol))
}

/// Marks once a second for so long.
fn watch(crawler: &mut Running, server: &Server, span: Duration) -> Result<Vec<Mark>, Error> {
    let (web, mut marks) = (Watch::start(), Vec::new());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        if let Ok(Some(status)) = crawler.0.try_wait() {
            return Err(Error::Input(format!("farol ended early ({status})")));
        }
        let mark = Mark {
            at: Instant::now(),
            requests: server.counts().requests,
            crawler: cpu_secs(crawler.0.id()),
            web: web.lap().process.as_secs_f64(),
        };
        marks.push(mark);
        if mark.at.duration_since(marks[0].at) >= span {
            return Ok(marks);
        }
    }
}

/// Prints what happened between the first and the last of some marks; answers with pages per second.
fn row(name: &str, marks: &[Mark], which: impl Fn(&Mark, Instant) -> bool) -> f64 {
    let some: Vec<&Mark> = marks.iter().filter(|mark| which(mark, marks[0].at)).collect();
    let [first, .., last] = some[..] else { return f64::NAN };
    let (secs, pages) =
        (last.at.duration_since(first.at).as_secs_f64(), (last.requests - first.requests) as f64);
    println!(
        "| {name} | {secs:.0} | {:.0} | {:.3} | {:.3} | {:.2} |",
        pages / secs,
        1e3 * (last.crawler - first.crawler) / pages,
        1e3 * (last.web - first.web) / pages,
        (last.crawler - first.crawler) / (last.web - first.web),
    );
    pages / secs
}

/// CPU seconds of another process so far.
fn cpu_secs(id: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything; user and system time are the 12th and 13th field after it.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: f64 =
        after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// What the crawler says it knows.
fn known(args: &SteadyArgs, folder: &Path) -> u64 {
    let said = Command::new(&args.farol).args(["status", "--json", "--data"]).arg(folder).output();
    let status: Option<serde_json::Value> =
        said.ok().and_then(|said| serde_json::from_slice(&said.stdout).ok());
    status.and_then(|status| status.pointer("/crawl/urls_known")?.as_u64()).unwrap_or(0)
}
