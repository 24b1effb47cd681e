//! What is done to the nodes, and what is told of it.

use super::CacheOptions;
use super::lab::{CacheLab, Replay};
use super::speed;
use crate::json::Json;
use std::time::{Duration, Instant};

/// One thing to try.
pub struct Trial {
    pub name: &'static str,
    pub what: &'static str,
    /// Lines about it; an error where a bound was broken.
    pub run: fn(&CacheOptions) -> Result<Vec<String>, String>,
}

pub const TRIALS: &[Trial] = &[
    Trial { name: "quiet", what: "eight nodes and nothing happens", run: quiet },
    Trial { name: "kill", what: "two neighbours of eight nodes are killed", run: kill },
    Trial {
        name: "return",
        what: "one of five is killed and put back, twice, with and without copies",
        run: back,
    },
    Trial {
        name: "flash",
        what: "one question grows to a fifth of all, by the ring alone and by our rules",
        run: flash,
    },
    Trial { name: "leader", what: "the leader is killed, then NATS stands still", run: leader },
    Trial { name: "join", what: "three nodes join eight, then all are started anew", run: join },
    Trial { name: "speed", what: "one node beside memcached", run: speed::beside_memcached },
];

/// Settings of the nodes: room for some thousand answers, copies each ten seconds.
const SMALL: &str = "memory = '16MiB'\nttl = '24h'\ncopies_every = '10s'";
const NO_COPIES: &str = "memory = '16MiB'\nttl = '24h'\ncopies = 0.0";

fn words(options: &CacheOptions, phases: u32, more: &[&str]) -> Vec<String> {
    let time = format!("{}s", (options.phase * phases).as_secs());
    let rate = options.rate.to_string();
    let words = ["--time", &time, "--rate", &rate, "--fronts", "2", "--step", "2s"];
    words.into_iter().chain(more.iter().copied()).map(String::from).collect()
}

/// What a stretch of a load was like.
struct Seen {
    asked: f64,
    failed: f64,
    made: f64,
    p99: f64,
    hottest: f64,
    adopted: f64,
    late: f64,
}

/// Lines of a load from one second to another.
fn seen(lines: &[Json], from: f64, to: f64) -> Seen {
    let among = || lines.iter().filter(|line| (from..to).contains(&(line.get("second").number() - 0.5)));
    let sum = |path: &str| {
        among()
            .map(|line| line.get(path).number())
            .filter(|number| number.is_finite())
            .fold(0.0, |a, b| a + b)
    };
    let most = |path: &str| among().map(|line| line.get(path).number()).fold(0.0, f64::max);
    Seen {
        asked: sum("asked"),
        failed: sum("failed"),
        made: sum("made"),
        p99: most("p99_ms"),
        hottest: among().next_back().map_or(0.0, |line| line.get("hottest_over_mean").number()),
        adopted: sum("counters.adopted"),
        late: sum("counters.late"),
    }
}

impl Seen {
    fn hit_rate(&self) -> f64 {
        100.0 * (1.0 - self.made / self.asked.max(1.0))
    }

    fn told(&self, what: &str) -> String {
        format!(
            "  {what:<26} {:>7} asked  {:>3} failed  hits {:5.1} %  from copies {:>5}  late {:>4}  p99 {:6.1} ms  hottest/mean {:.3}",
            self.asked,
            self.failed,
            self.hit_rate(),
            self.adopted,
            self.late,
            self.p99,
            self.hottest
        )
    }
}

/// No question may fail, whatever is done to the nodes.
fn none_failed(total: &Json) -> Result<(), String> {
    match total.get("failed").number() {
        0.0 => Ok(()),
        some => Err(format!("{some} of {} questions failed", total.get("asked").number())),
    }
}

fn quiet(options: &CacheOptions) -> Result<Vec<String>, String> {
    let lab = CacheLab::start(options, 8, SMALL)?;
    let (lines, total) = lab.replay(&words(options, 2, &[]))?.end()?;
    none_failed(&total)?;
    let phase = options.phase.as_secs_f64();
    Ok(vec![
        seen(&lines, 0.0, phase).told("first phase"),
        seen(&lines, phase, 2.0 * phase).told("second phase"),
    ])
}

fn kill(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut lab = CacheLab::start(options, 8, SMALL)?;
    let names = lab.names()?;
    let load = lab.replay(&words(options, 3, &[]))?;
    load.until(options.phase);
    let at = Instant::now();
    for name in &names[2..4] {
        lab.node(name)?.kill();
    }
    lab.wait_for_ring(6)?;
    let ring_after = at.elapsed().as_secs_f64();
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    let phase = options.phase.as_secs_f64();
    Ok(vec![
        format!("  the new ring came {ring_after:.1} s after the kill"),
        seen(&lines, 0.0, phase).told("before"),
        seen(&lines, phase, phase + 10.0).told("ten seconds after the kill"),
        seen(&lines, phase + 10.0, 2.0 * phase).told("the rest of that phase"),
        seen(&lines, 2.0 * phase, 3.0 * phase).told("the phase after"),
    ])
}

/// Kills a node at 15 % of the run, puts it back at 16 %, and again at 60 and 65 %.
fn back(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let whole = options.phase * 10;
    for (name, settings) in [("without copies", NO_COPIES), ("with copies, 5 %", SMALL)] {
        let mut lab = CacheLab::start(options, 5, settings)?;
        let victims = lab.names()?;
        let (worked, load) = (lab.worked(), lab.replay(&words(options, 10, &[]))?);
        for (victim, kill, back) in [(&victims[1], 0.15, 0.16), (&victims[3], 0.60, 0.65)] {
            load.until(whole.mul_f64(kill));
            lab.node(victim)?.kill();
            load.until(whole.mul_f64(back));
            lab.node(victim)?.start()?;
        }
        let (lines, total) = load.end()?;
        none_failed(&total)?;
        let secs = whole.as_secs_f64();
        out.push(format!(
            "  {name}: hits {:.2} % of {} in all, {:.1} s of the nodes' processors left at the end",
            100.0 * total.get("hit_rate").number(),
            total.get("asked").number(),
            lab.worked() - worked
        ));
        out.push(seen(&lines, 0.10 * secs, 0.15 * secs).told("before the first kill"));
        out.push(seen(&lines, 0.15 * secs, 0.15 * secs + 60.0).told("a minute after it"));
        out.push(seen(&lines, 0.55 * secs, 0.60 * secs).told("before the second kill"));
        out.push(seen(&lines, 0.60 * secs, 0.60 * secs + 60.0).told("a minute after it"));
    }
    Ok(out)
}

fn flash(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let flash = ["--flash", "0.2", "--flash-after", "60s", "--flash-ramp", "120s"];
    for (name, more) in [("by the ring alone", &["--plain"][..]), ("by our rules", &[])] {
        let lab = CacheLab::start(options, 8, SMALL)?;
        let words = words(options, 1, &[&flash[..], more, &["--time", "240s"]].concat());
        // The last --time counts.
        let words: Vec<String> = words.into_iter().skip(2).collect();
        let (lines, total) = lab.replay(&words)?.end()?;
        none_failed(&total)?;
        out.push(format!("  {name}:"));
        for (what, from, to) in [
            ("the minute before", 0.0, 60.0),
            ("first minute of the ramp", 60.0, 120.0),
            ("second minute", 120.0, 180.0),
            ("the minute after", 180.0, 240.0),
        ] {
            out.push(seen(&lines, from, to).told(what));
        }
    }
    Ok(out)
}

fn leader(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut lab = CacheLab::start(options, 5, SMALL)?;
    let load = lab.replay(&words(options, 4, &[]))?;
    load.until(options.phase);
    let (leader, term) = (lab.leader()?, lab.ring()?.get("term").number());
    let at = Instant::now();
    lab.node(&leader)?.kill();
    lab.wait("a ring of the next leader", |lab| Ok(lab.ring()?.get("term").number() > term))?;
    let next = at.elapsed().as_secs_f64();
    load.until((options.phase * 2).max(at.elapsed()));
    lab.server().signal("STOP")?;
    std::thread::sleep(options.phase / 2);
    lab.server().signal("CONT")?;
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    lab.wait_for_ring(5)?;
    let phase = options.phase.as_secs_f64();
    Ok(vec![
        format!("  the next leader's ring came after {next:.1} s"),
        seen(&lines, 0.0, phase).told("before"),
        seen(&lines, phase, 2.0 * phase).told("the leader was killed"),
        seen(&lines, 2.0 * phase, 2.5 * phase).told("NATS stood still"),
        seen(&lines, 2.5 * phase, 4.0 * phase).told("after that"),
    ])
}

fn join(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut lab = CacheLab::start(options, 8, SMALL)?;
    let load = lab.replay(&words(options, 6, &[]))?;
    load.until(options.phase);
    for nth in 9..=11 {
        lab.add_cache(nth)?;
    }
    let came = lab.wait_for_ring(11)?;
    let warm = warm_after(&lab, &["cache-9", "cache-10", "cache-11"], &load, options.phase * 3)?;
    load.until(options.phase * 3);
    for nth in 1..=11 {
        let node = lab.node(&format!("cache-{nth}"))?;
        node.end(Duration::from_secs(30))?;
        node.start()?;
        std::thread::sleep(options.phase / 11);
    }
    lab.wait_for_ring(11)?;
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    let phase = options.phase.as_secs_f64();
    Ok(vec![
        format!("  three more were on the ring after {came:.1} s; {warm}"),
        seen(&lines, 0.0, phase).told("before"),
        seen(&lines, phase, 2.0 * phase).told("three join"),
        seen(&lines, 2.0 * phase, 3.0 * phase).told("the phase after"),
        seen(&lines, 3.0 * phase, 5.0 * phase).told("a rolling restart"),
        seen(&lines, 5.0 * phase, 6.0 * phase).told("after that"),
    ])
}

/// When nodes that came had 80 % of the mean hit rate of the others, by their own counters.
fn warm_after(lab: &CacheLab, new: &[&str], load: &Replay, until: Duration) -> Result<String, String> {
    let begun = Instant::now();
    while load.elapsed() < until {
        std::thread::sleep(Duration::from_secs(2));
        let ring = lab.ring()?;
        let rates = |is_new: bool| -> Vec<f64> {
            let nodes = ring.get("nodes").list().iter();
            let wanted = nodes.filter(|node| new.contains(&node.get("name").text()) == is_new);
            wanted.map(|node| node.get("hit_rate").number()).collect()
        };
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let (old, came) = (rates(false), rates(true));
        if came.len() == new.len() && came.iter().all(|rate| *rate >= 0.8 * mean(&old)) {
            return Ok(format!(
                "all three had 80 % of the others' hit rate after {:.0} s",
                begun.elapsed().as_secs_f64()
            ));
        }
    }
    Ok("they did not have 80 % of the others' hit rate in time".to_string())
}
