//! `farol-sim urls`: every store through the same cycles, each in a process of its own.
//!
//! The parent starts this binary again for each store, one after another, so that peak memory and CPU time are the
//! store's own. A child writes a JSON line per cycle; the parent reads these files and writes tables and a plot. Files
//! of earlier runs in the same folder are used for stores that are not run again (`--stores` names what is run,
//! `--report` only what is shown).

use super::driver::{DriverLine, Limits, drive, warm_up};
use super::exact::Verdict;
use super::lines::Lines;
use super::load::{Load, LoadConfig};
use super::plot;
use super::report::{Run, UrlsReport};
use super::stores::{StoreKind, judge};
use crate::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Options of `farol-sim urls`.
#[derive(Clone, Debug, clap::Args)]
pub struct UrlsArgs {
    /// Stores to compare; the others are measured by the first.
    #[arg(long, value_delimiter = ',', default_value = "veuni,drum,drum-lazy,mercator,central")]
    pub stores: Vec<String>,
    /// Folder for the stores' files; each store's are removed when it is done.
    #[arg(long, default_value = "farol-sim-urls/data")]
    pub data: PathBuf,
    /// Folder for tables, plot and the record of each run.
    #[arg(long, default_value = "farol-sim-urls")]
    pub out: PathBuf,
    /// Runs nothing; makes tables and plot from the records in `--out`.
    #[arg(long)]
    pub report: bool,
    /// Instead: runs each store for 10 cycles at most beside an exact model, and compares all that it knows.
    #[arg(long)]
    pub exact: bool,
    #[command(flatten)]
    pub run: RunLength,
}

/// How much a store is given.
#[derive(Clone, Debug, clap::Args)]
pub struct RunLength {
    /// Cycles per store. [Henrique11 ch. 4] has 350.
    #[arg(long, default_value_t = 350)]
    pub cycles: u64,
    /// Minutes per store, generator included; no cycle begins after them.
    #[arg(long, default_value_t = 20.0)]
    pub minutes: f64,
    #[command(flatten)]
    pub load: LoadConfig,
    /// Files of URLs, one a line (plain, .gz, .zst), instead of made-up ones; `--new` of them are a cycle.
    #[arg(long, num_args = 1..)]
    pub input: Vec<PathBuf>,
}

/// Options of the hidden command that runs one store.
#[derive(Clone, Debug, clap::Args)]
pub struct ChildArgs {
    #[arg(long)]
    store: String,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    record: PathBuf,
    #[command(flatten)]
    run: RunLength,
}

/// Cycles of a run that is judged: 10 million URLs, whose fingerprints fit in memory.
const EXACT_CYCLES: u64 = 10;

/// Name of the hidden command.
pub const CHILD: &str = "urls-one-store";

impl RunLength {
    pub(super) fn load(&self) -> Result<Load, Error> {
        if self.input.is_empty() {
            return Ok(Load::generated(self.load.clone()));
        }
        Ok(Load::from_lines(Lines::open(&self.input, self.load.new)?, self.load.seed))
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { cycles: self.cycles, time: Duration::from_secs_f64(self.minutes.clamp(0.0, 1e6) * 60.0) }
    }

    fn arguments(&self) -> Vec<String> {
        let LoadConfig { collected, new, repeats, seed } = &self.load;
        let mut arguments: Vec<String> = [
            ("cycles", self.cycles.to_string()),
            ("minutes", self.minutes.to_string()),
            ("collected", collected.to_string()),
            ("new", new.to_string()),
            ("repeats", repeats.to_string()),
            ("seed", seed.to_string()),
        ]
        .iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
        arguments.extend(self.input.iter().map(|path| format!("--input={}", path.display())));
        arguments
    }
}

/// Runs the comparison and prints its tables.
///
/// # Errors
/// Where a store is not among `stores`, a child fails, or a file cannot be written.
pub fn compare(args: &UrlsArgs, stores: &[StoreKind]) -> Result<(), Error> {
    if args.exact {
        return judge_exactness(args);
    }
    let kinds: Vec<StoreKind> =
        args.stores.iter().map(|name| find(stores, name)).collect::<Result<_, Error>>()?;
    fs::create_dir_all(&args.out).map_err(Error::file("make", &args.out))?;
    for kind in kinds.iter().filter(|_| !args.report) {
        run_child(args, kind)?;
        write_report(args, &kinds)?;
    }
    let text = write_report(args, &kinds)?;
    println!("{text}");
    Ok(())
}

fn judge_exactness(args: &UrlsArgs) -> Result<(), Error> {
    let run = RunLength { cycles: args.run.cycles.min(EXACT_CYCLES), ..args.run.clone() };
    for name in &args.stores {
        let folder = args.data.join(name);
        empty(&folder)?;
        let verdict = judge(name, &folder, &run)?;
        println!("{name}: {verdict}");
        empty(&folder)?;
        if let Verdict::Different(what) = verdict {
            return Err(Error::NotExact { store: name.clone(), what });
        }
    }
    Ok(())
}

fn empty(folder: &Path) -> Result<(), Error> {
    if folder.exists() { fs::remove_dir_all(folder).map_err(Error::file("empty", folder)) } else { Ok(()) }
}

fn find(stores: &[StoreKind], name: &str) -> Result<StoreKind, Error> {
    let found = stores.iter().find(|kind| kind.name == name).copied();
    found.ok_or_else(|| Error::NoStore {
        name: name.to_string(),
        known: stores.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "),
    })
}

fn run_child(args: &UrlsArgs, kind: &StoreKind) -> Result<(), Error> {
    let folder = args.data.join(kind.name);
    let failed = |source| Error::Child { store: kind.name.to_string(), source: Some(source) };
    empty(&folder)?;
    eprintln!("{}: {}", kind.name, kind.what);
    let program = std::env::current_exe().map_err(failed)?;
    let status = Command::new(program)
        .arg(CHILD)
        .args(["--store", kind.name])
        .arg("--folder")
        .arg(&folder)
        .arg("--record")
        .arg(record_path(&args.out, kind.name))
        .args(args.run.arguments())
        .status()
        .map_err(failed)?;
    empty(&folder)?;
    if status.success() { Ok(()) } else { Err(Error::Child { store: kind.name.to_string(), source: None }) }
}

/// Runs one store, as a child of [`compare`].
pub fn run_one(args: &ChildArgs, stores: &[StoreKind]) -> Result<(), Error> {
    let kind = find(stores, &args.store)?;
    let mut record = File::create(&args.record).map_err(Error::file("make", &args.record))?;
    let mut report = |line: &DriverLine| {
        let mut text = serde_json::to_string(line)
            .map_err(std::io::Error::other)
            .map_err(Error::file("write to", &args.record))?;
        text.push('\n');
        record.write_all(text.as_bytes()).map_err(Error::file("write to", &args.record))
    };
    report(&DriverLine::Start(warm_up(kind.name, &args.run.load, args.run.input.len(), args.run.load()?)?))?;
    fs::create_dir_all(&args.folder).map_err(Error::file("make", &args.folder))?;
    let mut store = (kind.open)(&args.folder)?;
    let mut load = args.run.load()?;
    let end = drive(&mut *store, &mut load, &args.run.load, &args.folder, args.run.limits(), |cycle, _| {
        if cycle.cycle.is_multiple_of(10) || cycle.cycle == 1 {
            eprintln!(
                "  cycle {:4}  {:8.2} s  {:11} known  {:6} MiB on disk  {:5} MiB of memory",
                cycle.cycle,
                cycle.seconds,
                cycle.known,
                cycle.bytes_on_disk >> 20,
                cycle.rss >> 20
            );
        }
        report(&DriverLine::Cycle(cycle.clone()))
    })?;
    report(&DriverLine::End(end))
}

fn record_path(out: &Path, store: &str) -> PathBuf {
    out.join(format!("urls-{store}.jsonl"))
}

/// Reads what the children wrote; a run that was broken off counts as far as it went.
fn read_run(out: &Path, kind: &StoreKind) -> Result<Option<Run>, Error> {
    let path = record_path(out, kind.name);
    let Ok(file) = File::open(&path) else { return Ok(None) };
    let mut run = Run { name: kind.name.to_string(), what: kind.what.to_string(), ..Run::default() };
    for (i, text) in BufReader::new(file).lines().enumerate() {
        let text = text.map_err(Error::file("read", &path))?;
        let line = serde_json::from_str(&text).map_err(|error| {
            Error::Input(format!("line {} of {} cannot be read: {error}", i + 1, path.display()))
        })?;
        match line {
            DriverLine::Start(start) => run.start = Some(start),
            DriverLine::Cycle(cycle) => run.cycles.push(cycle),
            DriverLine::End(end) => run.end = Some(end),
        }
    }
    Ok((!run.cycles.is_empty()).then_some(run))
}

fn write_report(args: &UrlsArgs, kinds: &[StoreKind]) -> Result<String, Error> {
    let mut runs = Vec::new();
    for kind in kinds {
        runs.extend(read_run(&args.out, kind)?);
    }
    let report = UrlsReport::new(runs);
    let text = report.to_string();
    for (name, text) in [("urls.md", &text), ("urls.svg", &plot::draw(report.runs()))] {
        let path = args.out.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))?;
    }
    Ok(text)
}
