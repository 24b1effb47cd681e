//! `farol cache`: how the cache nodes of a cluster fare ([`status`]), what a log of queries is like, and how large a cache it
//! wants.

mod plot;
mod raw;
mod replay;
mod status;
mod stream;

use crate::cli::input::read_bytes;
use crate::progress::grouped;
use anyhow::{Context, Result, bail};
use farol_base::Timestamp;
use farol_cache::burst::online::Rules;
use farol_cache::log::{LogBurst, Totals, bursts, hit_rates, new_by_day, nodes_for, skew};
use farol_cache::replace::Policy;
use farol_cache::trace::Trace;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Rows of lists that are printed.
const ROWS: usize = 10;
/// A cache that gains less than this for twice the entries is large enough.
const GAIN_MIN: f64 = 0.01;
/// Share of its capacity that a node may use at the peak.
const UTILISATION: f64 = 0.7;

#[derive(clap::Subcommand)]
pub enum CacheCommand {
    /// Characterise a query log: repetition, skew, bursts, hit rates by size
    #[command(
        after_help = "A log has one query per line: `time<TAB>query`, `user<TAB>time<TAB>query`, or a query alone, plain or \
        .zst.\nTimes are Unix seconds, dates such as 2024-05-06T07:08:09Z, or yymmddhhmmss."
    )]
    Analyse(Analyse),
    /// Tell how the cache nodes of a cluster are doing
    Status(status::CacheStatusArgs),
    /// Put questions to the cache nodes of a cluster, as its fronts do, to see what they bear
    Replay(replay::ReplayArgs),
}

#[derive(clap::Args)]
pub struct Analyse {
    /// The log
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Seconds of an interval in which bursts are counted
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    interval: f64,
    /// Count per interval from which a query may be a burst
    #[arg(long, value_name = "N", default_value_t = 100)]
    floor: u32,
    /// Bytes of an answer, for sizes in memory
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    answer_bytes: u64,
    /// Requests per second that one cache node bears
    #[arg(long, value_name = "N", default_value_t = 5000.0)]
    node_rate: f64,
    /// Draw plots into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Everything found out about a log.
pub struct Findings {
    pub totals: Totals,
    pub skipped: usize,
    pub terms_mean: f64,
    pub length_mean: f64,
    pub top: Vec<(String, u64)>,
    /// How often queries were asked, the most first.
    pub counts: Vec<u64>,
    pub skew: Option<f64>,
    /// Entries, and hit rates with LRU and with the default policy.
    pub rates: Vec<(u64, f64, f64)>,
    pub days: Vec<(u64, u64, u64)>,
    pub bursts: Vec<(String, LogBurst)>,
    /// Requests by minute, where the log has times.
    pub minutes: Vec<u64>,
    pub seconds: f64,
    pub recommended: Recommended,
}

/// What a service for this log needs.
#[derive(Clone, Copy)]
pub struct Recommended {
    pub entries: u64,
    pub bytes: u64,
    pub nodes: u64,
    pub hit_rate: f64,
}

pub fn run(command: &CacheCommand) -> Result<ExitCode> {
    match command {
        CacheCommand::Analyse(args) => run_analysis(args),
        CacheCommand::Status(args) => status::run(args),
        CacheCommand::Replay(args) => replay::run(args),
    }
}

fn run_analysis(args: &Analyse) -> Result<ExitCode> {
    if !(args.interval.is_finite() && args.interval >= 1.0) {
        bail!("--interval is {}, choose a number of seconds from 1 on", args.interval);
    }
    if !(args.node_rate.is_finite() && args.node_rate > 0.0) {
        bail!("--node-rate is {}, choose a number of requests per second above 0", args.node_rate);
    }
    // Logs of the nineties are of any encoding.
    let bytes = read_bytes(&args.log)?;
    let text = String::from_utf8_lossy(&bytes);
    let found = analyse(&Trace::read(&text), args)
        .with_context(|| format!("{} cannot be analysed", args.log.display()))?;
    let said = if args.json { json(&found) } else { words(&found, args) };
    std::io::stdout().write_all(said.as_bytes())?;
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::draw(&found))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn analyse(trace: &Trace, args: &Analyse) -> Result<Findings> {
    if trace.lines.is_empty() {
        bail!("it holds no queries; a log has one query per line (see `farol cache analyse --help`)");
    }
    let mut by_query: HashMap<u64, u64> = HashMap::new();
    trace.lines.iter().for_each(|line| *by_query.entry(line.query).or_default() += 1);
    let name = |query: u64| {
        trace
            .texts
            .get(usize::try_from(query).unwrap_or(usize::MAX))
            .cloned()
            .unwrap_or_else(|| query.to_string())
    };
    let totals = Totals::of(by_query.values().copied());
    let mut ranked: Vec<(u64, u64)> = by_query.into_iter().collect();
    ranked.sort_by_key(|(query, count)| (std::cmp::Reverse(*count), *query));
    let counts: Vec<u64> = ranked.iter().map(|(_, count)| *count).collect();
    let top = ranked.iter().take(ROWS).map(|(query, count)| (name(*query), *count)).collect();
    let texts = trace.lines.iter().filter_map(|line| trace.texts.get(line.query as usize));
    let (mut terms, mut length, mut named) = (0usize, 0usize, 0usize);
    texts.for_each(|text| {
        terms += text.split(' ').count();
        length += text.chars().count();
        named += 1;
    });
    let queries: Vec<u64> = trace.lines.iter().map(|line| line.query).collect();
    let sizes = sizes(totals.distinct);
    let lru = hit_rates(&queries, &sizes, Policy::Lru);
    let ours = hit_rates(&queries, &sizes, Policy::default());
    let rates: Vec<(u64, f64, f64)> =
        lru.iter().zip(&ours).map(|((size, a), (_, b))| (*size, *a, *b)).collect();
    let timed: Vec<(f64, u64)> =
        if trace.timed { trace.lines.iter().map(|line| (line.at, line.query)).collect() } else { Vec::new() };
    let rules = Rules { floor: args.floor.max(1), release: args.floor.max(1), ..Rules::default() };
    let found =
        bursts(&timed, args.interval, &rules).into_iter().map(|burst| (name(burst.query), burst)).collect();
    let seconds = timed.last().map_or(0.0, |last| last.0 - timed[0].0);
    let minutes = by_minute(&timed);
    let recommended = recommend(&rates, &minutes, args);
    Ok(Findings {
        totals,
        skipped: trace.skipped,
        terms_mean: terms as f64 / named.max(1) as f64,
        length_mean: length as f64 / named.max(1) as f64,
        top,
        skew: skew(&counts),
        counts,
        rates,
        days: new_by_day(&timed),
        bursts: found,
        minutes,
        seconds,
        recommended,
    })
}

/// Powers of two up to everything distinct.
fn sizes(distinct: u64) -> Vec<u64> {
    let all = distinct.max(1);
    (0..40)
        .map(|power| all >> power)
        .take_while(|size| *size >= 16 || *size == all)
        .take(12)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect()
}

fn by_minute(log: &[(f64, u64)]) -> Vec<u64> {
    let Some((first, _)) = log.first() else { return Vec::new() };
    let mut minutes = Vec::new();
    for (at, _) in log {
        let minute = ((at - first) / 60.0) as usize;
        // Logs with gaps of years have no useful course; a year of minutes is 4 MB.
        if minute >= 366 * 1440 {
            break;
        }
        if minutes.len() <= minute {
            minutes.resize(minute + 1, 0);
        }
        minutes[minute] += 1;
    }
    minutes
}

/// The smallest cache of which twice the entries would gain little, and nodes for the busiest minute.
fn recommend(rates: &[(u64, f64, f64)], minutes: &[u64], args: &Analyse) -> Recommended {
    let enough = rates.windows(2).find(|pair| pair[1].2 - pair[0].2 < GAIN_MIN).map(|pair| pair[0]);
    let (entries, _, hit_rate) = enough.or(rates.last().copied()).unwrap_or((1, 0.0, 0.0));
    let peak = minutes.iter().copied().max().unwrap_or(0) as f64 / 60.0;
    let bytes = entries.saturating_mul(args.answer_bytes);
    Recommended { entries, bytes, nodes: nodes_for(peak, args.node_rate, UTILISATION), hit_rate }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn time(at: f64) -> String {
    Timestamp::from_millis((at * 1000.0).max(0.0) as u64).to_string()
}

fn words(found: &Findings, args: &Analyse) -> String {
    let totals = &found.totals;
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{text}");
    };
    let share = |count: u64| percent(count as f64 / totals.queries.max(1) as f64);
    line(format!(
        "{} queries, {} distinct ({}), {} asked once",
        grouped(totals.queries),
        grouped(totals.distinct),
        share(totals.distinct),
        grouped(totals.once)
    ));
    if found.skipped > 0 {
        line(format!("{} lines hold no query and were left out", grouped(found.skipped as u64)));
    }
    if found.terms_mean > 0.0 {
        line(format!("{:.2} words and {:.1} characters per query", found.terms_mean, found.length_mean));
    }
    line(format!(
        "Greatest hit rate of an endless cache: {}; {} entries reach it",
        percent(totals.hit_rate_max()),
        grouped(totals.repeated())
    ));
    line(match found.skew {
        Some(skew) => format!("Skew (Zipf's exponent): {skew:.2}"),
        None => "Skew: too few queries repeat to tell".to_string(),
    });
    line("\nMost asked:".to_string());
    for (text, count) in &found.top {
        line(format!("  {:>9}  {:>7}  {text}", grouped(*count), share(*count)));
    }
    line("\nHit rate by entries:         LRU         ours".to_string());
    for (entries, lru, ours) in &found.rates {
        line(format!("  {:>12} entries  {:>8}  {:>8}", grouped(*entries), percent(*lru), percent(*ours)));
    }
    if found.minutes.is_empty() {
        line("\nThe log has no times: no days, bursts or load.".to_string());
    } else {
        let peak = found.minutes.iter().max().copied().unwrap_or(0);
        line(format!(
            "\n{:.1} hours; busiest minute {} queries, {:.1} in the mean",
            found.seconds / 3600.0,
            grouped(peak),
            totals.queries as f64 / (found.minutes.len() as f64)
        ));
        if found.days.len() > 1 {
            line("New queries by day:".to_string());
            for (day, distinct, new) in found.days.iter().take(31) {
                line(format!(
                    "  {}  {:>9} of {:>9} distinct",
                    &time(*day as f64 * 86_400.0)[..10],
                    grouped(*new),
                    grouped(*distinct)
                ));
            }
        }
        let many = if found.bursts.len() == 1 { "burst" } else { "bursts" };
        line(format!("{} {many} (from {} per {} s on)", found.bursts.len(), args.floor, args.interval));
        for (text, burst) in found.bursts.iter().take(ROWS) {
            let lead =
                burst.first_maximum.map_or("–".to_string(), |at| format!("{:.0} s", at - burst.declared));
            line(format!(
                "  {text}: declared {}, {lead} before its first maximum; peak {} with {}",
                time(burst.declared),
                time(burst.peak),
                burst.count
            ));
        }
    }
    let wants = &found.recommended;
    let nodes =
        if wants.nodes == 1 { "1 node".to_string() } else { format!("{} nodes (one may fail)", wants.nodes) };
    line(format!(
        "\nRecommended: {} entries, about {} MiB at {} bytes an answer, on {nodes}; expect {} hits.",
        grouped(wants.entries),
        grouped(wants.bytes.div_ceil(1 << 20)),
        grouped(args.answer_bytes),
        percent(wants.hit_rate)
    ));
    out
}

fn json(found: &Findings) -> String {
    let totals = &found.totals;
    let rates: Vec<_> = found
        .rates
        .iter()
        .map(|(entries, lru, ours)| serde_json::json!({ "entries": entries, "lru": lru, "ours": ours }))
        .collect();
    let bursts: Vec<_> = found
        .bursts
        .iter()
        .map(|(text, burst)| {
            let lead = burst.first_maximum.map(|at| at - burst.declared);
            serde_json::json!({
                "query": text, "declared": time(burst.declared), "peak": time(burst.peak), "count": burst.count,
                "lead_seconds": lead,
            })
        })
        .collect();
    let days: Vec<_> = found
        .days
        .iter()
        .map(|(day, distinct, new)| serde_json::json!({ "day": &time(*day as f64 * 86_400.0)[..10], "distinct": distinct, "new": new }))
        .collect();
    let top: Vec<_> =
        found.top.iter().map(|(text, count)| serde_json::json!({ "query": text, "count": count })).collect();
    let value = serde_json::json!({
        "queries": totals.queries,
        "distinct": totals.distinct,
        "once": totals.once,
        "hit_rate_max": totals.hit_rate_max(),
        "skew": found.skew,
        "top": top,
        "hit_rates": rates,
        "days": days,
        "bursts": bursts,
        "recommended": {
            "entries": found.recommended.entries,
            "bytes": found.recommended.bytes,
            "nodes": found.recommended.nodes,
            "hit_rate": found.recommended.hit_rate,
        },
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Analyse {
        Analyse {
            log: PathBuf::new(),
            interval: 60.0,
            floor: 20,
            answer_bytes: 4096,
            node_rate: 5000.0,
            plot: None,
            json: false,
        }
    }

    /// Two days with a favourite, a burst, and queries that nobody repeats.
    fn log() -> String {
        let mut text = String::new();
        for second in (0..2 * 86_400u64).step_by(60) {
            let _ = writeln!(text, "{second}\tFavourite query");
            let _ = writeln!(text, "{second}\tonce {second}");
        }
        for (minute, count) in [(100, 5), (101, 12), (102, 30), (103, 80), (104, 200), (105, 60), (106, 30)] {
            for _ in 0..count {
                writeln!(text, "{}\tbreaking news", minute * 60).unwrap();
            }
        }
        text
    }

    #[test]
    fn a_log_is_described() {
        let found = analyse(&Trace::read(&log()), &args()).unwrap();
        assert_eq!(found.totals, Totals { queries: 2880 * 2 + 417, distinct: 2882, once: 2880 });
        assert_eq!(found.days, [(0, 1442, 1442), (1, 1441, 1440)]);
        assert_eq!(found.bursts.len(), 1);
        let said = words(&found, &args());
        for part in [
            "6,177 queries, 2,882 distinct",
            "favourite query",
            "1 burst",
            "breaking news: declared 1970-01-01T01:42:00Z, 120 s before",
            "on 1 node",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let value: serde_json::Value = serde_json::from_str(&json(&found)).unwrap();
        assert_eq!(value["bursts"][0]["query"], "breaking news");
        let svg = plot::draw(&found);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }

    #[test]
    fn a_log_without_times_or_queries_is_no_trouble() {
        let found = analyse(&Trace::read("a\nb\na\n"), &args()).unwrap();
        assert!(words(&found, &args()).contains("no times"));
        assert!(plot::draw(&found).ends_with("</svg>\n"));
        let error = analyse(&Trace::read("???\n"), &args()).err().unwrap();
        assert!(error.to_string().contains("no queries"), "{error}");
    }
}
