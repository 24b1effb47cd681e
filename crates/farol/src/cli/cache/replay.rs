//! `farol cache replay`: puts questions to the cache nodes of a cluster as its fronts do, with answers that are made up in
//! place of an index: how nodes bear a load, and what becomes of it when some of them go.

use super::raw;
use super::stream::{Flash, Stream};
use crate::cli::cluster::place::ClusterPlace;
use crate::cli::input::read_bytes;
use crate::cluster::door::Door;
use crate::cluster::identity;
use crate::cluster::node::read_tls;
use crate::cluster::serving;
use crate::config::Span;
use crate::handles::index::RulesInForce;
use crate::ring::PeerOf;
use crate::ring::choice::front_rules;
use crate::ring::client::{RingClient, RingClientParts};
use crate::ring::reporter::RingReporter;
use crate::ring::tables::{RingTables, TableFollower};
use crate::roles::front::{AskIndex, RingCache};
use anyhow::{Context, Result, bail, ensure};
use farol_base::query::{Answer, Fragment, Hit, Request};
use farol_base::sync::{Mutex, RwLock};
use farol_base::{CanonicalUrl, Languages, PagePosition, Seeded, Timestamp};
use farol_cache::front::FrontRules;
use farol_cache::health::HealthRules;
use farol_cache::trace::Trace;
use farol_cluster::record::{NodeRecord, read};
use farol_cluster::{Key, NodeId};
use farol_fabric::Fabric;
use farol_rpc::{Client, ClientSettings, Peer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long it waits for a ring.
const RING_MAX: Duration = Duration::from_secs(30);
/// Bytes of a hit of a made-up answer, about, as it travels.
const HIT_BYTES: usize = 400;

#[derive(clap::Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    place: ClusterPlace,
    /// Log whose questions are asked, as `analyse` reads it [default: made-up ones, by Zipf's law]
    #[arg(long, value_name = "LOG")]
    input: Option<PathBuf>,
    /// How long to ask
    #[arg(long, value_name = "TIME", default_value = "60s")]
    time: Span,
    /// Questions at most
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    queries: u64,
    /// Questions a second, from all fronts together; 0: as many as it takes
    #[arg(long, value_name = "N", default_value_t = 200.0)]
    rate: f64,
    /// Fronts
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    fronts: u16,
    /// People who ask at a front at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    people: u16,
    /// Bytes of an answer, about
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    answer_bytes: usize,
    /// Time that the index would take for an answer
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    index: Span,
    /// Only every Nth of the questions, from the Ith on, each at its own time: one of N processes that ask together
    #[arg(long, value_name = "I/N", default_value = "0/1", hide_default_value = true, value_parser = part)]
    part: (u64, u64),
    /// Each question another one, as somebody asks who wants to do harm
    #[arg(long, conflicts_with = "input")]
    distinct: bool,
    /// The index is committed to so often: what was kept before is superseded [default: never]
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true)]
    state_every: Span,
    /// Share of a question that comes out of nowhere
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    flash: f64,
    /// So many strings of one topic instead, which rise one after another, each less than the one before, and fade
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    bursts: u32,
    /// When it comes
    #[arg(long, value_name = "TIME", default_value = "30s")]
    flash_after: Span,
    /// Time until it has its share
    #[arg(long, value_name = "TIME", default_value = "120s")]
    flash_ramp: Span,
    /// Ask by the ring alone: no question is hot, and none is known to be new. Otherwise `cache.rules` decides
    #[arg(long)]
    plain: bool,
    /// Ask as the simplest client would: one connection for each who asks, no front around it; needs `--rate 0`
    #[arg(long)]
    raw: bool,
    /// Wait for nodes for as long as a second, as no front would: to see what they answer in all
    #[arg(long)]
    patient: bool,
    /// Time of a line of the report
    #[arg(long, value_name = "TIME", default_value = "5s")]
    step: Span,
    /// Seed of the made-up questions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// As JSON, a value for each line
    #[arg(long)]
    json: bool,
}

/// What happened in a stretch of time.
#[derive(Default)]
struct LoadStretch {
    asked: AtomicU64,
    failed: AtomicU64,
    /// Answers that the index made.
    made: AtomicU64,
    /// Microseconds of each.
    times: Mutex<Vec<u32>>,
}

/// Buckets of times to the power of two, from a microsecond on.
const PER_OCTAVE: f64 = 8.0;

/// What all who ask share.
struct Load {
    stream: Stream,
    flash: Option<Flash>,
    rate: f64,
    queries: u64,
    part: (u64, u64),
    /// Time between two commits of the index; zero: there are none.
    state_every: Duration,
    begun: Instant,
    ends: Instant,
    asked: AtomicU64,
    stretch: RwLock<Arc<LoadStretch>>,
    answer: Answer,
    index: Duration,
    stop: AtomicBool,
}

pub fn run(args: &ReplayArgs) -> Result<ExitCode> {
    ensure!((0.0..=1.0).contains(&args.flash), "--flash is {}, choose a share from 0 to 1", args.flash);
    ensure!(args.rate >= 0.0 && args.rate.is_finite(), "--rate is {}, choose 0 or more", args.rate);
    let config = args.place.settings()?;
    let door = Door::connect(&config)?;
    door.enter()?;
    let told = crate::cli::run::told_to_end()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let tables = Arc::new(RingTables::default());
    let _follower = TableFollower::start(door.fabric.clone(), tables.clone())?;
    let peers = AskedPeers::follow(door.fabric.clone())?;
    // Under the name of the node in this folder, where the cluster has certificates.
    let tls = match config.cluster.tls_cert.is_empty() {
        true => None,
        false => read_tls(&config, identity::read_or_draw(&args.place.data)?)?,
    };
    let (mut fronts, mut reporters) = (Vec::new(), Vec::new());
    for _ in 0..args.fronts {
        let node = tls.is_none().then(|| NodeId(0).to_string());
        let settings = ClientSettings { node, tls: tls.clone(), ..ClientSettings::default() };
        let mut rules = if args.plain { FrontRules::plain() } else { front_rules(&config.cache) };
        if args.patient {
            let (deadline_max, slow_min) = (Duration::from_secs(1), Duration::from_secs(1));
            rules.health = HealthRules {
                deadline_max,
                deadline_factor: u32::MAX,
                // Nor passes a node over because others are faster.
                slow_min,
                ..HealthRules::default()
            };
        }
        let client = Arc::new(RingClient::new(RingClientParts {
            me: getrandom::u64()?,
            incarnation: 1,
            rules,
            tables: tables.clone(),
            peer_of: peers.peer_of(),
            caller: Client::new(settings, runtime.handle().clone()).blocking(),
            runtime: runtime.handle().clone(),
        }));
        reporters.push(RingReporter::start(door.fabric.clone(), client.clone())?);
        fronts.push(RingCache::new(client, runtime.handle().clone()));
    }
    let begun = Instant::now();
    while fronts.iter().any(|front| !front.is_there()) {
        if begun.elapsed() > RING_MAX {
            bail!("the cluster {} has no cache nodes; start some with `farol node --roles cache`", door.name);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let load = Arc::new(load(args)?);
    if args.raw {
        let asked = raw::RawLoad {
            time: args.time.get(),
            callers: usize::from(args.fronts) * usize::from(args.people),
            tls,
            tables: tables.clone(),
            peer_of: peers.peer_of(),
        };
        let Stream::Log(texts) = &load.stream else { bail!("--raw needs a log: give one with --input") };
        return raw::run(&asked, texts, &load.answer, args.json).map(|()| ExitCode::SUCCESS);
    }
    let threads = start(&load, &fronts, args);
    watch(args, &load, &fronts, &told, threads)?;
    drop(reporters);
    Ok(ExitCode::SUCCESS)
}

fn load(args: &ReplayArgs) -> Result<Load> {
    let stream = match &args.input {
        None if args.distinct => Stream::Distinct,
        None => Stream::zipf(),
        Some(path) => {
            let bytes = read_bytes(path)?;
            let trace = Trace::read(&String::from_utf8_lossy(&bytes));
            let text = |query: u64| match usize::try_from(query).ok().and_then(|at| trace.texts.get(at)) {
                Some(text) => text.clone(),
                None => format!("q{query}"),
            };
            let texts: Vec<String> = trace.lines.iter().map(|line| text(line.query)).collect();
            ensure!(!texts.is_empty(), "{} holds no questions", path.display());
            Stream::Log(Arc::new(texts))
        }
    };
    let (after, ramp) = (args.flash_after.get().as_secs_f64(), args.flash_ramp.get().as_secs_f64());
    let now = Instant::now();
    Ok(Load {
        stream,
        flash: (args.flash > 0.0).then_some(Flash { share: args.flash, after, ramp, strings: args.bursts }),
        rate: args.rate,
        queries: args.queries,
        part: args.part,
        state_every: args.state_every.get(),
        begun: now,
        ends: now + args.time.get(),
        asked: AtomicU64::new(0),
        stretch: RwLock::default(),
        answer: made_up(args.answer_bytes)?,
        index: args.index.get(),
        stop: AtomicBool::new(false),
    })
}

/// Reads `I/N`.
fn part(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    numbers
        .filter(|(i, n)| i < n)
        .ok_or(format!("{text:?} is no part; write I/N with I below N, such as 0/4"))
}

impl Load {
    /// The index's state by now.
    fn state(&self) -> u64 {
        match self.state_every.is_zero() {
            true => 1,
            false => 1 + (self.begun.elapsed().as_micros() / self.state_every.as_micros().max(1)) as u64,
        }
    }
}

/// An answer of about so many bytes.
fn made_up(bytes: usize) -> Result<Answer> {
    let text = |text: String| vec![Fragment { text, hit: false }];
    let hit = |nth: usize| -> Result<Hit> {
        let url = format!("http://host{nth}.example/a/page/of/some/length/{nth}.html");
        Ok(Hit {
            url: CanonicalUrl::parse(&url).context("a made-up address")?,
            title: text(format!("The title of page {nth}, as long as titles are")),
            snippet: text("words ".repeat(HIT_BYTES.saturating_sub(130) / 6)),
            language: None,
            dated: None,
            fetched: Timestamp::from_secs(1_700_000_000),
            score: 1.0,
            duplicates: 0,
            more_from_host: false,
            pinned: false,
            position: PagePosition::default(),
            strict: true,
            source: None,
            content: 0,
            simhash: 0,
        })
    };
    let hits: Vec<Hit> = (0..bytes.div_ceil(HIT_BYTES).max(1)).map(hit).collect::<Result<_>>()?;
    Ok(Answer { total: hits.len(), hits, ..Answer::default() })
}

fn start(load: &Arc<Load>, fronts: &[RingCache], args: &ReplayArgs) -> Vec<std::thread::JoinHandle<()>> {
    let mut threads = Vec::new();
    for (nth, front) in fronts.iter().enumerate() {
        for person in 0..args.people {
            let (load, front) = (load.clone(), front.clone());
            let mut random =
                Seeded::new(args.seed ^ ((nth as u64) << 32 | u64::from(person)).wrapping_mul(0x9E37));
            threads.push(std::thread::spawn(move || ask_on(&load, &front, &mut random)));
        }
    }
    threads
}

/// Asks until the time is over, each question when its turn comes.
fn ask_on(load: &Arc<Load>, front: &RingCache, random: &mut Seeded) {
    let index = load.clone();
    let ask: AskIndex = Arc::new(move || {
        // What is committed while it answers is not in it.
        let state = index.state();
        std::thread::sleep(index.index);
        index.stretch.read().made.fetch_add(1, Ordering::Relaxed);
        Ok((index.answer.clone(), state))
    });
    let rules = RulesInForce::default();
    loop {
        let number = load.asked.fetch_add(1, Ordering::Relaxed) * load.part.1 + load.part.0;
        let due = match load.rate > 0.0 {
            true => load.begun + Duration::from_secs_f64(number as f64 / load.rate),
            false => Instant::now(),
        };
        if load.stop.load(Ordering::SeqCst)
            || number >= load.queries
            || due >= load.ends
            || Instant::now() >= load.ends
        {
            return;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let secs = load.begun.elapsed().as_secs_f64();
        let text = load.stream.question(number, secs, load.flash, random);
        let query = farol_query::read(&text).query;
        let request = Request { query, first: 0, count: 10, languages: Languages::default() };
        let begun = Instant::now();
        let answered = front.answer(&request, &rules, load.state(), &ask);
        let stretch = load.stretch.read().clone();
        stretch.asked.fetch_add(1, Ordering::Relaxed);
        stretch.failed.fetch_add(u64::from(answered.is_err()), Ordering::Relaxed);
        stretch.times.lock().push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
}

/// Counters of all fronts together.
fn counted(fronts: &[RingCache]) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for front in fronts {
        for (name, value) in front.client().counters.each() {
            *sums.entry(name).or_default() += value;
        }
    }
    sums
}

/// Tells how it goes, a line for each step, and all of it in the end.
fn watch(
    args: &ReplayArgs,
    load: &Load,
    fronts: &[RingCache],
    told: &dyn Fn() -> bool,
    threads: Vec<std::thread::JoinHandle<()>>,
) -> Result<()> {
    let (step, whole) = (args.step.get().max(Duration::from_millis(100)), counted(fronts));
    let (mut before, mut all) = (whole.clone(), (0, 0, 0));
    let is_over = || {
        told()
            || Instant::now() >= load.ends
            || load.asked.load(Ordering::Relaxed).saturating_mul(load.part.1) >= load.queries
    };
    loop {
        let until = Instant::now() + step;
        while !is_over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let stretch = std::mem::take(&mut *load.stretch.write());
        let now = counted(fronts);
        let (line, counts) = line_of(load, &stretch, &before, &now, fronts);
        all = (all.0 + counts.0, all.1 + counts.1, all.2 + counts.2);
        say(args.json, &line)?;
        before = now;
        if is_over() {
            break;
        }
    }
    // Whoever has a question asks it to the end, unless the time is over.
    let is_asked = load.asked.load(Ordering::Relaxed).saturating_mul(load.part.1) >= load.queries;
    load.stop.store(!is_asked, Ordering::SeqCst);
    for thread in threads {
        if thread.join().is_err() {
            bail!("somebody who asked broke down");
        }
    }
    let rest = std::mem::take(&mut *load.stretch.write());
    let (_, counts) = line_of(load, &rest, &before, &counted(fronts), fronts);
    all = (all.0 + counts.0, all.1 + counts.1, all.2 + counts.2);
    let line = json!({
        "total": true, "asked": all.0, "failed": all.1, "made": all.2,
        "seconds": round(load.begun.elapsed().as_secs_f64()),
        "hit_rate": round(1.0 - all.2 as f64 / (all.0 as f64).max(1.0)),
        "counters": deltas(&whole, &counted(fronts)),
    });
    say(args.json, &line)
}

fn line_of(
    load: &Load,
    stretch: &LoadStretch,
    before: &BTreeMap<&'static str, u64>,
    now: &BTreeMap<&'static str, u64>,
    fronts: &[RingCache],
) -> (Value, (u64, u64, u64)) {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (asked, failed, made) = (count(&stretch.asked), count(&stretch.failed), count(&stretch.made));
    let mut times = std::mem::take(&mut *stretch.times.lock());
    times.sort_unstable();
    let at = |share: f64| {
        let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        round(f64::from(times.get(place).copied().unwrap_or(0)) / 1000.0)
    };
    let told = fronts.first().and_then(|front| front.client().caches());
    let loads: Vec<f64> = told
        .iter()
        .flat_map(|told| &told.nodes)
        .filter(|node| node.is_on_ring)
        .map(|node| node.per_second)
        .collect();
    let mean = loads.iter().sum::<f64>() / (loads.len() as f64).max(1.0);
    let hottest = loads.iter().copied().fold(0.0, f64::max) / mean.max(1e-9);
    let (ring_epoch, hot_epoch, hot_sum) = match fronts.first() {
        Some(front) => front.client().epochs(),
        None => Default::default(),
    };
    let line = json!({
        "second": round(load.begun.elapsed().as_secs_f64()), "asked": asked, "failed": failed, "made": made,
        "hit_rate": round(1.0 - made as f64 / (asked as f64).max(1.0)),
        "p50_ms": at(0.5), "p99_ms": at(0.99), "times": buckets(&times),
        "nodes": loads.len(), "hottest_over_mean": round(hottest),
        "ring": told.as_ref().map_or(0, |told| told.ring), "hot": told.as_ref().map_or(0, |told| told.hot.len()),
        "bursts": told.as_ref().map_or(0, |told| told.bursts.len()),
        "rules": told.as_ref().map_or("", |told| &told.rules),
        "epoch": [ring_epoch.term, ring_epoch.version], "hot_epoch": [hot_epoch.term, hot_epoch.version],
        "hot_sum": format!("{hot_sum:x}"),
        "counters": deltas(before, now),
    });
    (line, (asked, failed, made))
}

/// How many times fell into which bucket, so that lines can be added up.
fn buckets(micros: &[u32]) -> Value {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for time in micros {
        *counts.entry((f64::from(*time).max(1.0).log2() * PER_OCTAVE) as u32).or_default() += 1;
    }
    counts.into_iter().map(|(bucket, count)| json!([bucket, count])).collect()
}

fn deltas(before: &BTreeMap<&'static str, u64>, now: &BTreeMap<&'static str, u64>) -> Value {
    let since = |(name, value): (&&str, &u64)| {
        let delta = value - before.get(name).copied().unwrap_or(0);
        ((*name).to_string(), Value::from(delta))
    };
    Value::Object(now.iter().map(since).filter(|(_, delta)| *delta != 0).collect())
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn say(as_json: bool, line: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match as_json {
        true => writeln!(out, "{line}")?,
        false => {
            let mut words: Vec<String> = Vec::new();
            for (name, value) in line.as_object().into_iter().flatten() {
                match value {
                    Value::Array(_) if name == "times" => {}
                    Value::Object(inner) => {
                        words.extend(inner.iter().map(|(name, value)| format!("{name} {value}")))
                    }
                    other => words.push(format!("{name} {other}")),
                }
            }
            writeln!(out, "{}", words.join("  "))?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Where the nodes of the cluster are reached, by their records.
struct AskedPeers {
    known: Arc<RwLock<BTreeMap<u16, Peer>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl AskedPeers {
    fn follow(fabric: Arc<dyn Fabric>) -> Result<AskedPeers> {
        let (known, stop) = (Arc::<RwLock<BTreeMap<u16, Peer>>>::default(), Arc::<AtomicBool>::default());
        let (writes, stops) = (known.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("peers".to_string()).spawn(move || {
            let watch = fabric.watch("node.");
            while !stops.load(Ordering::SeqCst) {
                let Some(entry) = watch.next(Duration::from_millis(100)) else { continue };
                let Some(Key::Node(_)) = Key::parse(&entry.key) else { continue };
                let record =
                    entry.value.as_deref().and_then(|value| read::<NodeRecord>(&entry.key, value).ok());
                let Some((no, record)) = record.and_then(|record| Some((record.no?.0, record))) else {
                    continue;
                };
                match serving::peer(&record).filter(|_| !record.state.is_gone()) {
                    Some(peer) => drop(writes.write().insert(no, peer)),
                    None => drop(writes.write().remove(&no)),
                }
            }
        })?;
        Ok(AskedPeers { known, stop, thread: Some(thread) })
    }

    fn peer_of(&self) -> PeerOf {
        let known = self.known.clone();
        Arc::new(move |node| known.read().get(&node.0).cloned())
    }
}

impl Drop for AskedPeers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}
