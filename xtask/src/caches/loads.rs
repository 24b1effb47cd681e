//! Loads of several kinds, and what nodes and fronts make of them: a flash, bursts, several fronts, commits, hostile
//! questions, and the simulator beside.

use super::CacheOptions;
use super::lab::CacheLab;
use super::questions::{popular, write};
use super::seen::{epochs_grow, must, none_failed, seen};
use super::trials::{SMALL, words};
use crate::json::Json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rules that are compared.
const RULES: [&str; 3] = ["off", "thesis", "ours"];
/// Bytes of a question that no key of a cache node has room for.
const GIANT: usize = 6_000;
/// Bytes of a node beside the simulator: some hundred answers, so that it fills.
const ROOM: u32 = 512 << 10;

pub fn flash(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let flash = ["--flash", "0.2", "--flash-after", "60s", "--flash-ramp", "120s", "--time", "240s"];
    for rules in RULES {
        let lab = CacheLab::start(options, 8, &format!("{SMALL}\nrules = '{rules}'"))?;
        let (lines, total) = lab.replay(&words(options, 1, &flash))?.end()?;
        none_failed(&total)?;
        epochs_grow(&lines)?;
        let told = lines.last().map_or("", |line| line.get("rules").text());
        must(told.starts_with(rules), || format!("the leader goes by {told:?}, not by {rules}"))?;
        out.push(format!("  rules: {told}"));
        let parts = [
            ("the minute before", 0.0, 60.0),
            ("first minute of the ramp", 60.0, 120.0),
            ("second minute", 120.0, 180.0),
            ("the minute after", 180.0, 240.0),
        ];
        for (what, from, to) in parts {
            let part = seen(&lines, from, to);
            out.push(part.told(what));
            must(rules != "ours" || from < 120.0 || part.hottest <= 1.25, || {
                format!("{what}: the hottest node has {:.3} times the mean, not 1.25", part.hottest)
            })?;
        }
    }
    Ok(out)
}

/// Seven strings, the first at an eighth of all at its peak: so small a stream has nothing to see in less.
pub fn bursts(options: &CacheOptions) -> Result<Vec<String>, String> {
    const STRINGS: usize = 7;
    let (after, ramp) = (60.0, 240.0);
    let lab = CacheLab::start(options, 8, SMALL)?;
    let more = ["--bursts", "7", "--flash", "0.12", "--flash-after", "60s", "--flash-ramp", "240s"];
    let load = lab.replay(&words(options, 1, &[&more[..], &["--time", "690s"]].concat()))?;
    // By string: when it was first told of as a burst, and as hot with how many nodes.
    let (mut declared, mut hot) = (BTreeMap::new(), BTreeMap::new());
    while load.elapsed() < Duration::from_secs(685) {
        std::thread::sleep(Duration::from_secs(3));
        let (at, ring) = (load.elapsed().as_secs_f64(), lab.ring()?);
        for burst in ring.get("bursts").list() {
            declared
                .entry(burst.get("text").text().to_string())
                .or_insert((at, burst.get("severity").number()));
        }
        for one in ring.get("hot").list() {
            hot.entry(one.get("text").text().to_string()).or_insert((at, one.get("nodes").number()));
        }
    }
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    let mut out = vec![seen(&lines, 0.0, 690.0).told("all of it")];
    let mut late = Vec::new();
    for string in 0..STRINGS {
        let (text, nth) = (format!("flash {string}"), string as f64);
        let peak = after + ramp * 0.1 * nth + ramp * (1.0 + 0.15 * nth);
        let when = |known: &BTreeMap<String, (f64, f64)>| known.get(&text).copied();
        let said = |what: Option<(f64, f64)>, unit: &str| match what {
            Some((at, value)) => format!("{:+.0} s, {value} {unit}", at - peak),
            None => "never".to_string(),
        };
        out.push(format!(
            "  {text}: greatest at {peak:.0} s; told as a burst {}, as hot {} (from then)",
            said(when(&declared), "of 4"),
            said(when(&hot), "nodes")
        ));
        if when(&declared).is_none_or(|(at, _)| at > peak) || when(&hot).is_none_or(|(at, _)| at > peak) {
            late.push(text);
        }
    }
    out.iter().for_each(|line| println!("{line}"));
    must(late.is_empty(), || format!("not told before the first maximum: {}", late.join(", ")))?;
    Ok(Vec::new())
}

/// The same questions at the same times through processes with one front each.
pub fn fronts(options: &CacheOptions) -> Result<Vec<String>, String> {
    let count = (options.rate * 2.0 * options.phase.as_secs_f64()) as usize;
    let asked = popular(count, 20_000, 7);
    let mut out = Vec::new();
    let mut arms: Vec<(f64, f64)> = Vec::new();
    for number in [1usize, 2, 4] {
        let lab = CacheLab::start(options, 8, SMALL)?;
        let log = write(&options.dir, "questions.txt", &asked)?.display().to_string();
        let people = (16 / number).to_string();
        let loads = (0..number).map(|nth| {
            let part = format!("{nth}/{number}");
            let more = ["--input", &log, "--part", &part, "--people", &people, "--fronts", "1", "--patient"];
            let (count, time) = (count.to_string(), format!("{}s", 4 * options.phase.as_secs() + 30));
            let more = [&more[..], &["--queries", &count, "--time", &time]].concat();
            // The last word counts, so the fronts of a usual load go.
            let words: Vec<String> = words(options, 2, &more);
            lab.replay_as(&format!("front-{nth}"), &without_first(words, "--fronts"))
        });
        let loads = loads.collect::<Result<Vec<_>, String>>()?;
        let (mut sums, mut hot) = ((0.0, 0.0), BTreeMap::<String, String>::new());
        for load in loads {
            let (lines, total) = load.end()?;
            none_failed(&total)?;
            epochs_grow(&lines)?;
            sums = (sums.0 + total.get("asked").number(), sums.1 + total.get("made").number());
            for line in &lines {
                let (epoch, sum) = (format!("{:?}", line.get("hot_epoch")), line.get("hot_sum").text());
                let known = hot.entry(epoch).or_insert_with(|| sum.to_string());
                must(known == sum, || {
                    "two fronts have another table of hot questions for one epoch".to_string()
                })?;
            }
        }
        let rate = 100.0 * (1.0 - sums.1 / sums.0);
        out.push(format!(
            "  {number} fronts: {} asked, hits {rate:.2} %, the index asked {}; {} tables of hot questions, the same at all",
            sums.0,
            sums.1,
            hot.len()
        ));
        arms.push((rate, sums.1));
    }
    out.iter().for_each(|line| println!("{line}"));
    for (rate, made) in &arms[1..] {
        let off = (rate - arms[0].0).abs();
        must(off <= 0.5, || format!("hits are {off:.2} points from those of one front, not 0.5"))?;
        let more = made / arms[0].1;
        must(more <= 1.05, || format!("the index is asked {more:.3} times as often, not 1.05"))?;
    }
    Ok(Vec::new())
}

/// Each question once at either front: the nodes' own counters say where it went.
pub fn routes(options: &CacheOptions) -> Result<Vec<String>, String> {
    const QUESTIONS: usize = 10_000;
    let lab = CacheLab::start(options, 8, "memory = '64MiB'\nttl = '24h'\ncopies = 0.0\nrules = 'off'")?;
    let asked: Vec<String> = (0..QUESTIONS).map(|nth| format!("question {nth}")).collect();
    let log = write(&options.dir, "questions.txt", &asked)?.display().to_string();
    let count = QUESTIONS.to_string();
    let mut before = counted(&lab)?;
    let mut parts = Vec::new();
    for front in 1..=2 {
        let words = [
            "--input",
            &log,
            "--queries",
            &count,
            "--time",
            "500s",
            "--rate",
            "0",
            "--fronts",
            "1",
            "--people",
            "8",
            "--patient",
            "--index",
            "1ms",
        ];
        let (_, total) = lab.replay(&words.map(String::from))?.end()?;
        none_failed(&total)?;
        // Beats come every 1.2 seconds, and the table every five.
        std::thread::sleep(Duration::from_secs(8));
        let now = counted(&lab)?;
        let since = |what: usize| -> Vec<f64> {
            now.iter()
                .map(|(node, counts)| counts[what] - before.get(node).map_or(0.0, |old| old[what]))
                .collect()
        };
        parts.push((since(0), since(1), since(2)));
        println!("  front {front}: lookups {:?}, hits {:?}, inserts {:?}", since(0), since(1), since(2));
        before = now;
    }
    let sum = |of: &[f64]| of.iter().sum::<f64>();
    let [(first, _, inserts), (second, hits, _)] = &parts[..] else { return Ok(Vec::new()) };
    let all = QUESTIONS as f64;
    must(sum(first) == all && sum(second) == all, || "not one lookup for each question".to_string())?;
    must(first == second, || "the fronts went to other nodes".to_string())?;
    must(inserts == first, || "answers were not handed in where they were missed".to_string())?;
    must(sum(hits) == all, || format!("the second front found {} of {all}", sum(hits)))?;
    Ok(vec![format!(
        "  {QUESTIONS} questions at each of two fronts: the same node at both, one lookup each, inserts where they missed"
    )])
}

/// Lookups, hits and inserts of each node by its own counters.
fn counted(lab: &CacheLab) -> Result<BTreeMap<String, [f64; 3]>, String> {
    let ring = lab.ring()?;
    let of = |node: &Json| ["lookups", "hits", "inserts"].map(|name| node.get(name).number());
    Ok(ring.get("nodes").list().iter().map(|node| (node.get("name").text().to_string(), of(node))).collect())
}

/// What a crawl does: a commit every two seconds. Without grace every answer is gone by then.
pub fn commits(options: &CacheOptions) -> Result<Vec<String>, String> {
    let asked = popular((options.rate * 2.0 * options.phase.as_secs_f64()) as usize, 2_000, 11);
    let mut out = Vec::new();
    for (grace, least) in [("0s", 0.0), ("60s", 30.0)] {
        let lab = CacheLab::start(options, 4, &format!("{SMALL}\ngrace = '{grace}'"))?;
        let log = write(&options.dir, "questions.txt", &asked)?.display().to_string();
        let more = ["--input", &log, "--state-every", "2s"];
        let (lines, total) = lab.replay(&words(options, 2, &more))?.end()?;
        none_failed(&total)?;
        let all = seen(&lines, 0.0, f64::INFINITY);
        out.push(all.told(&format!("a commit each 2 s, grace {grace}")));
        must(all.hit_rate() > least || least == 0.0, || {
            format!("hits are {:.1} %, not {least}", all.hit_rate())
        })?;
    }
    Ok(out)
}

/// Nothing is asked twice, as fast as it goes; then questions too long for any key.
pub fn hostile(options: &CacheOptions) -> Result<Vec<String>, String> {
    let lab = CacheLab::start(options, 4, "memory = '8MiB'\nttl = '24h'")?;
    let memory = |lab: &CacheLab| lab.memory().into_iter().map(|(_, mib)| mib).fold(0.0, f64::max);
    let (before, time) = (memory(&lab), format!("{}s", options.phase.as_secs()));
    let plain =
        ["--time", &time, "--rate", "0", "--index", "0s", "--fronts", "2", "--people", "16", "--step", "2s"];
    let distinct = [&plain[..], &["--distinct"]].concat();
    let (lines, total) = lab.replay(&distinct.into_iter().map(String::from).collect::<Vec<_>>())?.end()?;
    none_failed(&total)?;
    let after = memory(&lab);
    let all = seen(&lines, 0.0, f64::INFINITY);
    let mut out = vec![
        all.told("each question another one"),
        format!(
            "  the largest node took {before:.0} MiB before and {after:.0} MiB after; its answers may take 8"
        ),
    ];
    must(after <= before + 48.0, || {
        format!("a node limited to 8 MiB grew from {before:.0} to {after:.0} MiB")
    })?;
    let giants: Vec<String> = (0..50).map(|nth| format!("{nth} {}", "giant ".repeat(GIANT / 6))).collect();
    let log = write(&options.dir, "giants.txt", &giants)?.display().to_string();
    let words = [&plain[..], &["--input", &log, "--queries", "2000"]].concat();
    let (lines, total) = lab.replay(&words.into_iter().map(String::from).collect::<Vec<_>>())?.end()?;
    none_failed(&total)?;
    let all = seen(&lines, 0.0, f64::INFINITY);
    out.push(all.told(&format!("questions of {GIANT} bytes")));
    must(lab.names()?.len() == 4, || "a node is gone".to_string())?;
    Ok(out)
}

/// The same log through eight processes and through the simulator: one front, room for as many answers, no copies.
pub fn beside_simulator(options: &CacheOptions) -> Result<Vec<String>, String> {
    // The simulator tells of loads by whole minutes of the second half.
    must(options.phase >= Duration::from_secs(60), || "`beside` needs --seconds 60 or more".to_string())?;
    let simulator = options.farol.with_file_name("farol-sim");
    must(simulator.exists(), || {
        format!("{} is missing: `cargo build -p farol-sim` makes it", simulator.display())
    })?;
    let secs = 4.0 * options.phase.as_secs_f64();
    let asked = popular((options.rate * secs) as usize, 100_000, 5);
    let mut out = Vec::new();
    let mut misses = Vec::new();
    for (rules, kind) in [("off", "CH"), ("ours", "ours")] {
        let settings = format!("memory = '{ROOM}B'\nttl = '24h'\ncopies = 0.0\nrules = '{rules}'");
        let lab = CacheLab::start(options, 8, &settings)?;
        let log = write(&options.dir, "questions.txt", &asked)?.display().to_string();
        let (rate, count) = (options.rate.to_string(), asked.len().to_string());
        let time = format!("{}s", secs as u64 + 60);
        let words = [
            "--input",
            &log,
            "--queries",
            &count,
            "--time",
            &time,
            "--rate",
            &rate,
            "--fronts",
            "1",
            "--people",
            "16",
            "--step",
            "2s",
            "--patient",
            "--answer-bytes",
            "2048",
            "--index",
            "2ms",
        ];
        let load = lab.replay(&words.map(String::from))?;
        load.until(Duration::from_secs_f64(secs / 2.0));
        let before = counted(&lab)?;
        let (lines, total) = load.end()?;
        let ended = Instant::now();
        none_failed(&total)?;
        // The last beats come a little later, and the table every five seconds.
        std::thread::sleep(Duration::from_secs(8).saturating_sub(ended.elapsed()));
        let now = counted(&lab)?;
        let served: Vec<f64> = now
            .iter()
            .map(|(node, counts)| {
                let old = before.get(node).copied().unwrap_or_default();
                counts[0] - old[0] + counts[2] - old[2]
            })
            .collect();
        let hottest = hottest_over_mean(&served);
        let part = seen(&lines, secs / 2.0, f64::INFINITY);
        let entries = room(&lab)?;
        let simulated = simulate(&simulator, &options.dir, &log, options.rate, entries, kind)?;
        out.push(format!(
            "  {rules}: {} asked in the second half, room for {entries:.0} answers a node; hits {:.2} % on processes, {:.2} ± {:.2} in the simulator; hottest/mean {hottest:.3}, {:.3} ({:.3}–{:.3})",
            part.asked,
            part.hit_rate(),
            simulated.hits.0,
            simulated.hits.1,
            simulated.hottest.0,
            simulated.hottest.1,
            simulated.hottest.2,
        ));
        if (part.hit_rate() - simulated.hits.0).abs() > 1.0 {
            misses.push(format!("{rules}: hits"));
        }
        // Where questions lie decides what the ring alone makes of them; our rules level it.
        if rules == "ours" && (hottest - simulated.hottest.0).abs() > 0.1 {
            misses.push(format!("{rules}: hottest/mean"));
        }
    }
    out.iter().for_each(|line| println!("{line}"));
    must(misses.is_empty(), || format!("further apart than 1 point or 0.1: {}", misses.join(", ")))?;
    Ok(Vec::new())
}

fn hottest_over_mean(loads: &[f64]) -> f64 {
    let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
    loads.iter().copied().fold(0.0, f64::max) / mean.max(1e-9)
}

/// Answers that a node has room for, by what those weigh that it keeps.
fn room(lab: &CacheLab) -> Result<f64, String> {
    let ring = lab.ring()?;
    let sum = |name: &str| ring.get("nodes").list().iter().map(|node| node.get(name).number()).sum::<f64>();
    Ok(f64::from(ROOM) * sum("entries") / sum("bytes").max(1.0))
}

/// What the simulator makes of it, over several places on the ring.
struct Simulated {
    /// Mean and deviation, per cent.
    hits: (f64, f64),
    /// Mean, least and most.
    hottest: (f64, f64, f64),
}

fn simulate(
    simulator: &Path,
    dir: &Path,
    log: &str,
    rate: f64,
    entries: f64,
    kind: &str,
) -> Result<Simulated, String> {
    let json = dir.join("simulated.json");
    let (rate, entries, path) = (rate.to_string(), format!("{entries:.0}"), json.display().to_string());
    let words = [
        "cache",
        "--tables",
        "beside",
        "--nodes",
        "8",
        "--rate",
        &rate,
        "--entries",
        &entries,
        "--input",
        log,
        "--seeds",
        "8",
        "--threads",
        "1",
        "--only",
        kind,
        "--json",
        &path,
    ];
    let done =
        Command::new(simulator).args(words).output().map_err(|error| format!("the simulator: {error}"))?;
    must(done.status.success(), || String::from_utf8_lossy(&done.stderr).into_owned())?;
    let text = std::fs::read_to_string(&json).map_err(|error| format!("{path}: {error}"))?;
    let runs = Json::read(&text)?;
    let of = |name: &str| -> Vec<f64> { runs.list().iter().map(|run| run.get(name).number()).collect() };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (hits, hottest) = (of("hit_rate"), of("hottest_of_all"));
    let spread = hits.iter().map(|one| (one - mean(&hits)).powi(2)).sum::<f64>() / hits.len().max(1) as f64;
    let least = hottest.iter().copied().fold(f64::INFINITY, f64::min);
    let most = hottest.iter().copied().fold(0.0, f64::max);
    Ok(Simulated {
        hits: (100.0 * mean(&hits), 100.0 * spread.sqrt()),
        hottest: (mean(&hottest), least, most),
    })
}

/// Leaves out an option and its value where it comes first of several: who asks again means it.
fn without_first(mut words: Vec<String>, name: &str) -> Vec<String> {
    if let Some(at) = words.iter().position(|word| word == name) {
        words.drain(at..at + 2);
    }
    words
}
