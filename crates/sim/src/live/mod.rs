//! A real crawler on a synthetic Web that changes: how fresh it is, and how fresh it says it is.
//!
//! The Web knows the version of each page at any instant, and its log says when each was asked for last. So the truth
//! needs no word of the crawler: a copy is true if the page is still the version that was served.

pub mod steady;

use crate::Error;
use farol_base::Timestamp;
use farol_synthetic::check::{CheckRules, Offence, check};
use farol_synthetic::{LogSink, Rates, Server, WebConfig, serve, truth};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What to run, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct LiveArgs {
    /// The crawler: a built `farol`.
    #[arg(long)]
    pub farol: PathBuf,
    #[arg(long, default_value_t = 20_000)]
    pub pages: u64,
    #[arg(long, default_value_t = 100)]
    pub hosts: u32,
    /// Mean changes of a page per day of the Web's clock.
    #[arg(long, default_value_t = 1.74)]
    pub change_rate: f64,
    /// How the rates of pages lie about that mean.
    #[arg(long, value_enum, default_value_t = Rates::Studied)]
    pub change_rates: Rates,
    /// How many times faster than ours the Web's clock runs. The crawler's is ours, and it believes no page to change more
    /// than once in two minutes: faster Webs than the default have pages that do.
    #[arg(long, default_value_t = 30.0)]
    pub speedup: f64,
    /// Milliseconds between two requests to a host. What all hosts together bear should be well above the budget, or every rule
    /// asks for the same.
    #[arg(long, default_value_t = 50)]
    pub delay_millis: u64,
    /// Seconds of crawling before it is measured, and in which it is.
    #[arg(long, default_value_t = 5400)]
    pub warm_up: u64,
    #[arg(long, default_value_t = 900)]
    pub seconds: u64,
    /// Rules to compare. The first takes as many requests as it wants; each that follows gets as many as that.
    #[arg(long, value_delimiter = ',', default_value = "interval,optimal")]
    pub rules: Vec<String>,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What came of one rule.
#[derive(Clone, Debug, Default)]
pub struct Lived {
    pub pages: u64,
    pub truly_fresh: f64,
    /// As the crawler said.
    pub said: f64,
    pub requests_per_second: f64,
    pub offences: u64,
}

/// Runs all rules and prints the table.
pub fn run(args: &LiveArgs) -> Result<(), Error> {
    println!(
        "{} pages on {} hosts, {} changes per page and day in the mean ({:?}), its clock {} times as fast, {} ms between requests, measured for {} s after {} s\n",
        args.pages,
        args.hosts,
        args.change_rate,
        args.change_rates,
        args.speedup,
        args.delay_millis,
        args.seconds,
        args.warm_up
    );
    println!(
        "| rule | pages | truly fresh | dashboard says | difference | requests/s | offences against politeness |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    // Seconds between two visits of a page in the mean; the least there is, as long as no budget is known.
    let least = (LEAST_SECS / args.speedup).max(1.0);
    let mut mean = least;
    for rule in &args.rules {
        let lived = live(args, rule, mean)?;
        if mean == least {
            mean = (lived.pages as f64 / lived.requests_per_second.max(1e-9)).max(least);
        }
        println!(
            "| {rule} | {} | {:.3} | {:.3} | {:+.3} | {:.1} | {} |",
            lived.pages,
            lived.truly_fresh,
            lived.said,
            lived.said - lived.truly_fresh,
            lived.requests_per_second,
            lived.offences
        );
    }
    Ok(())
}

/// Crawls with one rule.
fn live(args: &LiveArgs, rule: &str, mean: f64) -> Result<Lived, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Input(error.to_string()))?;
    let config = WebConfig {
        seed: args.seed,
        hosts: args.hosts,
        pages: args.pages,
        skew: 0.3,
        mean_page_bytes: 4000,
        mean_links: 20.0,
        ..WebConfig::tame()
    };
    let config = WebConfig {
        change_rate: args.change_rate,
        change_rates: args.change_rates,
        clock_speedup: args.speedup,
        // Dates of a clock that runs faster than ours mean nothing to a crawler, and those of the future are ignored.
        start: FAR_FUTURE,
        ..config
    };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = runtime.block_on(serve(config, listen, LogSink::memory()));
    let server = server.map_err(|error| Error::Input(error.to_string()))?;
    let folder = std::env::temp_dir().join(format!("farol-live-{}-{rule}", std::process::id()));
    let lived = crawl(args, (rule, mean), &server, &folder);
    // What is left of it helps nobody.
    let _ = std::fs::remove_dir_all(&folder);
    let _ = std::fs::remove_file(said_by(&folder));
    lived
}

/// Where the crawler's complaints go.
fn said_by(folder: &Path) -> PathBuf {
    folder.with_extension("said")
}

fn crawl(args: &LiveArgs, (rule, mean): (&str, f64), server: &Server, folder: &Path) -> Result<Lived, Error> {
    std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
    let settings = settings(rule, args.speedup, args.delay_millis, mean);
    let path = folder.join("farol.toml");
    std::fs::write(&path, settings).map_err(Error::file("write", &path))?;
    let seed = format!("http://{}/", server.world().host_name(0));
    let mut command = Command::new(&args.farol);
    command.args([
        "up",
        &seed,
        "--resolve",
        &server.resolve(),
        "--scope",
        "domain",
        "--listen",
        "127.0.0.1:0",
    ]);
    // Beside the folder: it must be empty but for the settings.
    let log = said_by(folder);
    let said = std::fs::File::create(&log).map_err(Error::file("write", &log))?;
    command.arg("--data").arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let child = command.spawn().map_err(Error::file("start", &args.farol))?;
    let mut crawler = Running(child);
    let began = Instant::now();
    let (mut lived, mut samples) = (Lived::default(), 0.0);
    let mut before = None;
    while began.elapsed() < Duration::from_secs(args.warm_up + args.seconds) {
        std::thread::sleep(Duration::from_secs(2));
        if let Ok(Some(status)) = crawler.0.try_wait() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let last = said.lines().last().unwrap_or("it said nothing");
            return Err(Error::Input(format!("farol ended early ({status}): {last}")));
        }
        if began.elapsed() < Duration::from_secs(args.warm_up) {
            continue;
        }
        let requests = server.counts().requests;
        let (since, first) = *before.get_or_insert((Instant::now(), requests));
        let now = truth(server);
        let status = address(folder).and_then(status);
        let Some(said) = status.as_ref().and_then(|status| status.pointer("/freshness/fresh")?.as_f64())
        else {
            continue;
        };
        lived.pages = now.pages;
        lived.truly_fresh += now.fresh as f64 / now.pages.max(1) as f64;
        lived.said += said;
        samples += 1.0;
        lived.requests_per_second = (requests - first) as f64 / since.elapsed().as_secs_f64().max(1e-9);
    }
    drop(crawler);
    if samples == 0.0 {
        return Err(Error::Input(format!("farol never said how fresh it is with the rule {rule}")));
    }
    (lived.truly_fresh, lived.said) = (lived.truly_fresh / samples, lived.said / samples);
    let rules = CheckRules {
        delay_min: Duration::from_millis(args.delay_millis),
        doubles_max: u64::MAX,
        ..CheckRules::default()
    };
    let report = check(server.world(), server.log().entries().into_iter(), &rules);
    let impolite: Vec<Offence> =
        report.findings().keys().copied().filter(|offence| !is_forgiven(*offence)).collect();
    for offence in impolite.iter().filter(|offence| report.count(**offence) > 0) {
        tracing::warn!(?offence, count = report.count(*offence), finding = ?report.findings()[offence], "not polite");
    }
    lived.offences = impolite.iter().map(|offence| report.count(*offence)).sum();
    Ok(lived)
}

/// Pages are meant to be asked for again, and nobody falls into a trap where there is none.
fn is_forgiven(offence: Offence) -> bool {
    matches!(offence, Offence::DoubleFetch | Offence::TrapPage)
}

/// The shortest interval between two visits of a page, in seconds of the Web's clock.
const LEAST_SECS: f64 = 600.0;

/// When the Web's clock starts: the year 2100.
const FAR_FUTURE: Timestamp = Timestamp::from_secs(4_102_444_800);

/// The crawler's settings, in seconds of its own clock: visits of a page are `mean` apart on average, if hosts bear it.
fn settings(rule: &str, speedup: f64, delay_millis: u64, mean: f64) -> String {
    let span = |secs: f64| (secs / speedup).max(1.0);
    let (least, first, longest) = (span(LEAST_SECS), span(3600.0), span(60.0 * 86_400.0));
    format!(
        "[crawl]\nallow_private = true\nrevisit = \"{rule}\"\nrevisit_mean = \"{mean:.0}s\"\n\
         revisit_min = \"{least:.0}s\"\nrevisit_first = \"{first:.0}s\"\nrevisit_max = \"{longest:.0}s\"\n\
         delay_rule = \"constant\"\ndelay_min = \"{delay_millis}ms\"\n"
    )
}

/// Ends the crawler when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn address(folder: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(folder.join("running.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["listen"].as_str()?.parse().ok()
}

fn status(address: SocketAddr) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET /api/v1/status HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}
