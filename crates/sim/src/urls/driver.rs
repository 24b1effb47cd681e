//! Drives one store through the cycles of a load, and measures each cycle.
//!
//! Seconds are wall time inside the store's calls (take, visited, found, flush), so that a merge counts whether it runs
//! in a call or steals the processor from it in the background. What it does in the background while this thread makes
//! URLs does not count there, as it would not in a crawl, which has other work all the time; so it is told apart. CPU
//! seconds are those of the whole process without the time in which this thread made URLs; a store's background threads
//! count.

use super::load::{BATCH, Load, LoadConfig};
use super::meter::{Lap, Watch, folder_bytes, memory, written};
use crate::Error;
use farol_base::CanonicalUrl;
use farol_store::urls::{Found, Verifier, Visit};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// A line of a run's record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverLine {
    Start(Start),
    Cycle(Cycle),
    End(End),
}

/// What a run was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    pub store: String,
    pub load: LoadConfig,
    /// Files that the URLs come from; 0 where they are made up.
    #[serde(default)]
    pub files: usize,
    /// Memory of the process before the store was opened, with everything that the generator needs.
    pub generator_rss: u64,
    pub sample: Sample,
}

/// The load's first URLs, known ones among them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    pub urls: u64,
    pub hosts: u64,
    /// Means: of the whole URL, of scheme and host name; and the share that has a query.
    pub url_bytes: f64,
    pub host_bytes: f64,
    pub queries: f64,
}

/// One cycle.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cycle {
    pub cycle: u64,
    /// Wall time in the store's calls, and its parts.
    pub seconds: f64,
    pub take_seconds: f64,
    pub visited_seconds: f64,
    pub found_seconds: f64,
    pub flush_seconds: f64,
    pub cpu_seconds: f64,
    pub generator_seconds: f64,
    /// Of the CPU seconds, those beside the generator.
    #[serde(default)]
    pub beside_seconds: f64,
    /// Of the CPU seconds, those of the thread that calls the store.
    #[serde(default)]
    pub caller_seconds: f64,
    pub taken: u64,
    pub found: u64,
    /// As the store says; one that merges late is behind.
    pub known: u64,
    pub bytes_on_disk: u64,
    /// Since the process began: handed to the system, and written by the disk.
    pub bytes_written: u64,
    pub disk_bytes_written: u64,
    pub rss: u64,
    pub rss_peak: u64,
}

/// The end of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Until everything written was merged.
    pub compact_all_seconds: f64,
    pub known: u64,
    pub waiting: u64,
    pub collected: u64,
    pub bytes_on_disk: u64,
    pub bytes_written: u64,
    pub rss_peak: u64,
    /// Lines of input that were no URLs.
    pub skipped: u64,
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub cycles: u64,
    /// No cycle begins after this.
    pub time: Duration,
}

/// Makes what the generator will need, looks at its first URLs, and says how much memory the process then has.
pub fn warm_up(store: &str, config: &LoadConfig, files: usize, mut load: Load) -> Result<Start, Error> {
    let (mut urls, mut batch, mut hosts) = (Vec::new(), Vec::new(), HashSet::new());
    let mut sample = Sample::default();
    load.begin_cycle();
    while urls.len() < config.collected.max(BATCH) {
        load.extract(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        for found in &batch {
            sample.url_bytes += found.url.as_str().len() as f64;
            sample.host_bytes += found.url.host_str().len() as f64;
            sample.queries += f64::from(u8::from(found.url.query().is_some()));
            hosts.insert(found.url.host());
            urls.push(found.url.clone());
        }
    }
    let count = urls.len().max(1) as f64;
    sample.urls = urls.len() as u64;
    sample.url_bytes /= count;
    sample.host_bytes /= count;
    sample.queries /= count;
    sample.hosts = hosts.len() as u64;
    Ok(Start { store: store.to_string(), load: config.clone(), files, generator_rss: memory().0, sample })
}

/// Runs the cycles; `each` sees every cycle when it is over, with the URLs that were taken in it.
pub fn drive(
    store: &mut dyn Verifier,
    load: &mut Load,
    config: &LoadConfig,
    folder: &Path,
    limits: Limits,
    mut each: impl FnMut(&Cycle, &[CanonicalUrl]) -> Result<(), Error>,
) -> Result<End, Error> {
    let began = Instant::now();
    let mut batch = Vec::with_capacity(BATCH);
    let mut visits = Vec::with_capacity(BATCH);
    for _ in 0..limits.cycles {
        if began.elapsed() > limits.time {
            break;
        }
        let Some(number) = load.begin_cycle() else { break };
        let (cycle, taken) = one_cycle(store, load, config, number, &mut batch, &mut visits)?;
        let cycle = with_sums(cycle, store, folder);
        each(&cycle, &taken)?;
    }
    let watch = Watch::start();
    store.compact_all()?;
    let compact_all_seconds = watch.lap().wall.as_secs_f64();
    let counts = store.counts();
    Ok(End {
        compact_all_seconds,
        known: counts.known,
        waiting: counts.waiting,
        collected: counts.collected,
        bytes_on_disk: folder_bytes(folder),
        bytes_written: written().0,
        rss_peak: memory().1,
        skipped: load.skipped(),
    })
}

fn one_cycle(
    store: &mut dyn Verifier,
    load: &mut Load,
    config: &LoadConfig,
    number: u64,
    batch: &mut Vec<Found>,
    visits: &mut Vec<Visit>,
) -> Result<(Cycle, Vec<CanonicalUrl>), Error> {
    let whole = Watch::start();
    let mut made = Lap::default();
    let mut cycle = Cycle { cycle: number, ..Cycle::default() };
    let now = load.now();
    let watch = Instant::now();
    let taken = store.take(config.collected, now)?;
    cycle.take_seconds = watch.elapsed().as_secs_f64();
    for urls in taken.chunks(BATCH) {
        making(&mut made, || {
            visits.clear();
            visits.extend(urls.iter().map(|_| load.visit()));
            Ok(())
        })?;
        let watch = Instant::now();
        for (url, visit) in urls.iter().zip(&*visits) {
            store.visited(url, visit)?;
        }
        cycle.visited_seconds += watch.elapsed().as_secs_f64();
    }
    loop {
        making(&mut made, || load.extract(batch))?;
        if batch.is_empty() {
            break;
        }
        cycle.found += batch.len() as u64;
        let watch = Instant::now();
        store.found(batch)?;
        cycle.found_seconds += watch.elapsed().as_secs_f64();
    }
    let watch = Instant::now();
    store.flush()?;
    cycle.flush_seconds = watch.elapsed().as_secs_f64();
    cycle.seconds = cycle.take_seconds + cycle.visited_seconds + cycle.found_seconds + cycle.flush_seconds;
    cycle.taken = taken.len() as u64;
    cycle.generator_seconds = made.wall.as_secs_f64();
    cycle.beside_seconds = made.process.saturating_sub(made.thread).as_secs_f64();
    let lap = whole.lap();
    cycle.cpu_seconds = lap.process.saturating_sub(made.thread).as_secs_f64();
    cycle.caller_seconds = lap.thread.saturating_sub(made.thread).as_secs_f64();
    Ok((cycle, taken))
}

/// Does the generator's work and adds up its time.
fn making(made: &mut Lap, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let watch = Watch::start();
    work()?;
    let lap = watch.lap();
    made.wall += lap.wall;
    made.thread += lap.thread;
    made.process += lap.process;
    Ok(())
}

fn with_sums(cycle: Cycle, store: &dyn Verifier, folder: &Path) -> Cycle {
    let ((bytes_written, disk_bytes_written), (rss, rss_peak)) = (written(), memory());
    Cycle {
        known: store.counts().known,
        bytes_on_disk: folder_bytes(folder),
        bytes_written,
        disk_bytes_written,
        rss,
        rss_peak,
        ..cycle
    }
}
