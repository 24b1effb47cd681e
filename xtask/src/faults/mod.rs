//! Breaks a cluster of real processes in many ways while people ask, and judges what they noticed.
//!
//! The life of one run: processes are started ([`lab`], [`process`]), the made-up Web is crawled, and then each scenario
//! ([`scenarios`]) does its harm under a steady load ([`load`]) until the cluster is whole again by its own account
//! ([`status`]). Figures ([`figures`]) are held against bounds ([`mod@bench`]) and written down ([`report`]); meanwhile
//! somebody watches that no deposed leader writes ([`history`]).
//!
//! Nodes that are cut off ([`cut`]) meet in a network that nobody else sees ([`net`]), where all of the run goes then.
//!
//! Promise: it speaks to itself only, ends what it started, and fails where a bound was broken.

mod bench;
mod crawl;
mod cut;
mod figures;
mod grow;
mod history;
mod lab;
mod load;
mod logs;
mod nats;
mod net;
pub mod process;
mod rare;
mod relay;
mod report;
mod same;
mod scenarios;
mod several;
mod status;
mod web;

use crate::debian_docs::machine;
use crate::run;
use bench::Bench;
use history::History;
use lab::Lab;
pub use lab::nats_server;
use report::Done;
use scenarios::{SCENARIOS, Scenario};
use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str = "cargo xtask faults [OPTIONS]

  --only NAME,...   scenarios to run [default: all]
  --list            the scenarios; --help has them as well
  --seconds N       how long what is killed or stopped stays away [default: 20]
  --rate N          questions a second [default: 200]
  --pages N         pages of the made-up Web [default: 3000]
  --write           write docs/results/faults.md
  --farol FILE      the binary to try [default: target/release/farol]
  --before FILE     the binary of the version before, for the scenario upgrade
  --sim FILE        the binary that serves the made-up Web [default: target/release/farol-sim]
  --dir DIR         where data and logs go; emptied first [default: target/faults]";

const REPORT: &str = "docs/results/faults.md";

/// What was asked for on the command line.
pub struct Options {
    chosen: Vec<&'static Scenario>,
    away: Duration,
    per_second: f64,
    pages: u64,
    write: bool,
    farol: PathBuf,
    /// Another version of it.
    before: Option<PathBuf>,
    sim: PathBuf,
    dir: PathBuf,
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            chosen: SCENARIOS.iter().collect(),
            away: Duration::from_secs(20),
            per_second: 200.0,
            pages: 3000,
            write: false,
            farol: "target/release/farol".into(),
            before: None,
            sim: "target/release/farol-sim".into(),
            dir: "target/faults".into(),
        };
        let mut is_chosen = false;
        let mut rest = arguments.iter();
        while let Some(&name) = rest.next() {
            let mut value = || rest.next().copied().ok_or(format!("{name} needs a value\n\n{USAGE}"));
            match name {
                "--only" => (options.chosen, is_chosen) = (choose(value()?)?, true),
                "--seconds" => options.away = Duration::from_secs(number(name, value()?)?),
                "--rate" => options.per_second = number(name, value()?)? as f64,
                "--pages" => options.pages = number(name, value()?)?,
                "--write" => options.write = true,
                "--before" => options.before = Some(value()?.into()),
                "--farol" => options.farol = value()?.into(),
                "--sim" => options.sim = value()?.into(),
                "--dir" => options.dir = value()?.into(),
                _ => return Err(USAGE.to_string()),
            }
        }
        if !is_chosen && options.before.is_none() {
            options.chosen.retain(|scenario| Stage::of(scenario) != Stage::Before);
        }
        Ok(options)
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or(format!("{name} {text} is no number from 1 to 1000000"))
}

fn choose(names: &str) -> Result<Vec<&'static Scenario>, String> {
    let find = |name: &str| SCENARIOS.iter().find(|scenario| scenario.name == name);
    names
        .split(',')
        .map(|name| find(name).ok_or(format!("there is no scenario {name}; --list names them")))
        .collect()
}

/// The cluster that a scenario wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// On loopback, and all is crawled.
    Crawled,
    /// On loopback, and the crawl has just begun; nobody uses it afterwards.
    Crawling,
    /// On loopback, all is crawled, and the nodes are of the version before.
    Before,
    /// In namespaces, and all is crawled.
    Cut,
    /// On loopback, with two nodes that keep answers, and all is crawled.
    Cached,
    /// On loopback, links are ranked, and all is crawled.
    Ranked,
    /// In namespaces, with several crawlers, and the crawl has just begun; nobody uses it afterwards.
    Several,
    /// On loopback, no replica is ever uploaded, and all is crawled.
    NoSnapshots,
}

impl Stage {
    fn of(scenario: &Scenario) -> Stage {
        match scenario.name {
            "crawl-under-kills"
            | "crawl-under-all-kills"
            | "split-under-crawl"
            | "grow-under-crawl"
            | "stream-lost"
            | "no-blobs" => Stage::Crawling,
            "upgrade" => Stage::Before,
            "kill-cache" => Stage::Cached,
            "same-answers" => Stage::Ranked,
            "log-alone" | "rebuild" => Stage::NoSnapshots,
            name if name.starts_with("cut-") => Stage::Cut,
            name if name.starts_with("agent") => Stage::Several,
            _ => Stage::Crawled,
        }
    }

    /// Whether its machines are network namespaces.
    fn is_in_net(self) -> bool {
        matches!(self, Stage::Cut | Stage::Several)
    }

    /// Whether somebody uses a cluster of this stage after another.
    fn is_kept(self) -> bool {
        !matches!(self, Stage::Crawling | Stage::Several | Stage::NoSnapshots)
    }
}

/// Whether it wants a network and mounts of its own.
fn is_inside_only(scenario: &Scenario) -> bool {
    Stage::of(scenario).is_in_net() || scenario.name == "no-blobs"
}

pub fn run(arguments: &[&str]) -> Result<(), String> {
    if arguments == ["--list"] || arguments == ["--help"] {
        if arguments == ["--help"] {
            println!("{USAGE}\n");
        }
        for scenario in SCENARIOS {
            println!("  {:<22}  {}", scenario.name, scenario.what);
        }
        return Ok(());
    }
    let mut options = Options::read(arguments)?;
    if options.chosen.iter().any(|scenario| is_inside_only(scenario)) && !net::is_inside() {
        let Some(missing) = net::missing() else { return net::run_inside() };
        options.chosen.retain(|scenario| !is_inside_only(scenario));
        if options.chosen.is_empty() {
            return Err(missing);
        }
        println!("not run: {missing}");
    }
    if net::is_inside() {
        net::wake_loopback()?;
    }
    let files = [&options.farol, &options.sim].into_iter().chain(&options.before);
    if let Some(missing) = files.into_iter().find(|file| !file.exists()) {
        let path = missing.display();
        return Err(format!("{path} is missing: `cargo build --release -p farol -p farol-sim` makes it"));
    }
    let load_before = machine::load();
    let command = format!("cargo xtask faults {}", arguments.join(" "));
    let done = run_all(&options, |done, pages| {
        // Anew after each scenario: a run takes long, and may be cut off.
        let text = report::write(&options, command.trim(), pages, &load_before, done);
        match options.write {
            true => std::fs::write(REPORT, &text).map_err(|error| format!("cannot write {REPORT}: {error}")),
            false => Ok(()),
        }
    })?;
    let is_broken = |result: &Result<Vec<bench::Row>, String>| {
        result.as_ref().map_or(true, |rows| rows.iter().any(|row| !row.broken.is_empty()))
    };
    let broken: Vec<&str> =
        done.iter().filter(|(_, result)| is_broken(result)).map(|(name, _)| *name).collect();
    if broken.is_empty() { Ok(()) } else { Err(format!("bounds were broken: {}", broken.join(", "))) }
}

/// Runs what was chosen, one after the other; after one that broke off, on a new cluster.
fn run_all(options: &Options, keep: impl Fn(&Done, u64) -> Result<(), String>) -> Result<Done, String> {
    let (mut done, mut pages) = (Done::new(), 0);
    let mut standing: Option<(Stage, Bench, History)> = None;
    for scenario in &options.chosen {
        let stage = Stage::of(scenario);
        if let Some((_, bench, history)) = standing.take_if(|(kept, ..)| *kept != stage || !stage.is_kept()) {
            end(bench, history);
        }
        let (_, mut bench, history) = match standing.take() {
            Some(kept) => kept,
            None => set_up(options, stage)?,
        };
        run::announce(scenario.name);
        let result = (scenario.run)(&mut bench, &history);
        match &result {
            Ok(rows) => rows.iter().for_each(tell),
            Err(error) => println!("broken off: {error}"),
        }
        pages = pages.max(bench.pages);
        let is_whole =
            result.is_ok() && bench.lab.status().is_ok_and(|status| status.is_whole(lab::REPLICAS, None));
        done.push((scenario.name, result));
        keep(&done, pages)?;
        standing = Some((stage, bench, history));
        if !is_whole && let Some((_, bench, history)) = standing.take() {
            end(bench, history);
        }
    }
    if let Some((_, bench, history)) = standing {
        end(bench, history);
    }
    Ok(done)
}

/// Starts a cluster, and has it crawl all where that is wanted.
fn set_up(options: &Options, stage: Stage) -> Result<(Stage, Bench, History), String> {
    run::announce("a new cluster");
    let lab = Lab::start(options, options.pages, stage)?;
    let history = History::start(&lab.server_addresses(), Lab::nats_login());
    let mut bench = Bench {
        lab,
        questions: Vec::new(),
        pages: 0,
        per_second: options.per_second,
        repeats: false,
        away: options.away,
    };
    if !matches!(stage, Stage::Crawling | Stage::Several) {
        bench.pages = bench.lab.wait_for_crawl()?;
        bench.questions = bench.lab.questions()?;
        println!("{} pages, {} questions", bench.pages, bench.questions.len());
    }
    Ok((stage, bench, history))
}

fn end(bench: Bench, history: History) {
    drop(history);
    if let Err(error) = bench.lab.end() {
        println!("at the end: {error}");
    }
}

fn tell(row: &bench::Row) {
    println!("{}", report::lines(row));
    for broken in &row.broken {
        println!("  broken: {broken}");
    }
    for note in &row.notes {
        println!("  {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_are_cut_off_want_namespaces() {
        let of = |stage| SCENARIOS.iter().filter(|scenario| Stage::of(scenario) == stage).count();
        let rare = (of(Stage::Cut), of(Stage::Crawling), of(Stage::Before));
        let others = of(Stage::Cached) + of(Stage::Ranked) + of(Stage::NoSnapshots) + of(Stage::Several);
        assert_eq!((rare, others, of(Stage::Crawled)), ((3, 6, 1), 8, SCENARIOS.len() - 18));
        let inside: Vec<&str> =
            SCENARIOS.iter().filter(|one| is_inside_only(one)).map(|one| one.name).collect();
        assert_eq!(inside.len(), 8, "{inside:?}");
    }

    #[test]
    fn options_are_read() {
        let options =
            Options::read(&["--only", "quiet,split", "--seconds", "5", "--rate", "20", "--write"]).unwrap();
        assert_eq!(options.chosen.iter().map(|one| one.name).collect::<Vec<_>>(), ["quiet", "split"]);
        assert_eq!((options.away, options.per_second, options.write), (Duration::from_secs(5), 20.0, true));
        assert!(options.before.is_none());
        let all = Options::read(&[]).unwrap();
        assert!(all.chosen.iter().all(|one| one.name != "upgrade"), "needs another binary");
        for wrong in [&["--only", "none"][..], &["--rate", "0"], &["--dir"], &["--unknown"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
