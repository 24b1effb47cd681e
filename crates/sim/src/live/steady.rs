//! Does a crawl keep its pace as it comes to know millions of URLs?
//!
//! The pace of a shared machine moves by more than what is looked for. So the last minute of a crawl is not only held
//! against its first: another crawl starts from nothing and has its first minute in turns with one more of the long
//! crawl, a few seconds each while the other stands still, so that both meet the same machine. Beside each stands what
//! a page cost the Web's own process, which does not know how long a crawl has been going on.

use super::Running;
use crate::Error;
use crate::urls::meter::Watch;
use farol_synthetic::{LogSink, Server, WebConfig, serve};
use rustix::process::{Pid, Signal, kill_process};
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

/// So long one crawl goes on while the other stands still.
const TURN: Duration = Duration::from_secs(5);

/// Requests and CPU seconds at an instant.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    requests: u64,
    crawler: f64,
    web: f64,
}

impl Mark {
    fn now(crawler: &mut Running, server: &Server, web: &Watch) -> Result<Mark, Error> {
        if let Ok(Some(status)) = crawler.0.try_wait() {
            return Err(Error::Input(format!("farol ended early ({status})")));
        }
        Ok(Mark {
            at: Instant::now(),
            requests: server.counts().requests,
            crawler: cpu_secs(crawler.0.id()),
            web: web.lap().process.as_secs_f64(),
        })
    }
}

/// What happened in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    secs: f64,
    pages: f64,
    crawler: f64,
    web: f64,
}

impl Sum {
    fn add(&mut self, from: &Mark, to: &Mark) {
        self.secs += to.at.duration_since(from.at).as_secs_f64();
        self.pages += (to.requests - from.requests) as f64;
        self.crawler += to.crawler - from.crawler;
        self.web += to.web - from.web;
    }

    fn pace(&self) -> f64 {
        self.pages / self.secs
    }

    fn print(&self, name: &str) {
        println!(
            "| {name} | {:.0} | {:.0} | {:.3} | {:.3} | {:.2} |",
            self.secs,
            self.pace(),
            1e3 * self.crawler / self.pages,
            1e3 * self.web / self.pages,
            self.crawler / self.web,
        );
    }
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
    let folder = args.data.join("long");
    let mut long = start(args, server, &folder)?;
    let marks = watch(&mut long, server, Duration::from_secs(args.seconds))?;
    let (began, end) = (marks[0].at, marks[marks.len() - 1].at);
    let first = between(&marks, |mark| mark.at <= began + minute);
    first.print("first minute");
    between(&marks, |mark| mark.at >= began + minute && mark.at + minute <= end).print("between");
    let last = between(&marks, |mark| mark.at + minute >= end);
    last.print("last minute");
    let fresh_folder = args.data.join("fresh");
    let (mut fresh, [of_fresh, of_long]) = in_turns(args, server, &mut long, &fresh_folder, minute)?;
    of_long.print("one more minute, in turns with");
    of_fresh.print("the first minute of another crawl");
    for crawler in [&mut fresh, &mut long] {
        let _ = crawler.0.kill();
        let _ = crawler.0.wait();
    }
    println!(
        "\nURLs known at the end: {} and {}. Last minute to first: {:+.1} %; in turns: {:+.1} %, by CPU time per page beside the Web's {:+.1} %.",
        known(args, &folder),
        known(args, &fresh_folder),
        100.0 * (last.pace() / first.pace() - 1.0),
        100.0 * (of_long.pace() / of_fresh.pace() - 1.0),
        100.0 * (of_long.crawler / of_long.web / (of_fresh.crawler / of_fresh.web) - 1.0),
    );
    Ok(())
}

/// Starts another crawl and lets both have a minute, in turns; answers with it, and with what happened to it and to the
/// long one.
fn in_turns(
    args: &SteadyArgs,
    server: &Server,
    long: &mut Running,
    folder: &Path,
    minute: Duration,
) -> Result<(Running, [Sum; 2]), Error> {
    send(long, Signal::STOP)?;
    let (mut fresh, web) = (start(args, server, folder)?, Watch::start());
    // As with the long one: what a start costs does not count.
    std::thread::sleep(Duration::from_secs(1));
    let mut sums = [Sum::default(); 2];
    while sums[1].secs < minute.as_secs_f64() {
        for (crawler, sum) in [&mut fresh, &mut *long].into_iter().zip(&mut sums) {
            send(crawler, Signal::CONT)?;
            let from = Mark::now(crawler, server, &web)?;
            std::thread::sleep(TURN);
            sum.add(&from, &Mark::now(crawler, server, &web)?);
            send(crawler, Signal::STOP)?;
        }
    }
    Ok((fresh, sums))
}

fn send(crawler: &Running, signal: Signal) -> Result<(), Error> {
    let id = Pid::from_child(&crawler.0);
    kill_process(id, signal).map_err(|error| Error::Input(format!("a crawl could not be held: {error}")))
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
    let (web, mut marks) = (Watch::start(), Vec::<Mark>::new());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let mark = Mark::now(crawler, server, &web)?;
        marks.push(mark);
        if mark.at.duration_since(marks[0].at) >= span {
            return Ok(marks);
        }
    }
}

/// What happened between the first and the last of some marks.
fn between(marks: &[Mark], which: impl Fn(&Mark) -> bool) -> Sum {
    let mut sum = Sum::default();
    let some: Vec<&Mark> = marks.iter().filter(|mark| which(mark)).collect();
    if let [first, .., last] = some[..] {
        sum.add(first, last);
    }
    sum
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
