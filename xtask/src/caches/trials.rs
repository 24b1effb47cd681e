//! What is done to the nodes, and what is told of it: kills, leaders, joins. Loads are in [`super::loads`].

use super::lab::{CacheLab, Replay};
use super::seen::{epochs_grow, must, none_failed, seen};
use super::{CacheOptions, loads, speed};
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
        name: "leader",
        what: "the leader is killed and a node with it, then NATS stands still",
        run: leader,
    },
    Trial { name: "join", what: "three nodes join eight, then all are started anew", run: join },
    Trial {
        name: "flash",
        what: "one question grows to a fifth of all, by three sets of rules",
        run: loads::flash,
    },
    Trial { name: "bursts", what: "seven strings of one topic rise one after another", run: loads::bursts },
    Trial { name: "fronts", what: "the same questions through one, two and four fronts", run: loads::fronts },
    Trial {
        name: "routes",
        what: "ten thousand questions at two fronts, by the nodes' counters",
        run: loads::routes,
    },
    Trial {
        name: "commits",
        what: "the index is committed to every two seconds, with grace and without",
        run: loads::commits,
    },
    Trial { name: "hostile", what: "each question another one, then giant ones", run: loads::hostile },
    Trial {
        name: "beside",
        what: "eight nodes and the simulator, the same log",
        run: loads::beside_simulator,
    },
    Trial { name: "speed", what: "one node beside memcached", run: speed::beside_memcached },
];

/// Settings of the nodes: room for some thousand answers, copies each ten seconds.
pub const SMALL: &str = "memory = '16MiB'\nttl = '24h'\ncopies_every = '10s'";
const NO_COPIES: &str = "memory = '16MiB'\nttl = '24h'\ncopies = 0.0";
/// A front asks who refuses again after one second, then after twice as long each time: from a second after a kill until
/// the ring is without it, so often at most.
const PROBES_MAX: f64 = 4.0;
/// Fronts of a load.
const FRONTS: f64 = 2.0;

pub fn words(options: &CacheOptions, phases: u32, more: &[&str]) -> Vec<String> {
    let time = format!("{}s", (options.phase * phases).as_secs());
    let rate = options.rate.to_string();
    let words = ["--rate", &rate, "--fronts", "2", "--step", "2s"];
    // Who wants another time says so.
    let time = if more.contains(&"--time") { Vec::new() } else { vec!["--time", &time] };
    words.into_iter().chain(time).chain(more.iter().copied()).map(String::from).collect()
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
    let killed = load.elapsed().as_secs_f64();
    for name in &names[2..4] {
        lab.kill(name)?;
    }
    lab.wait_for_ring(6)?;
    let ring_after = at.elapsed().as_secs_f64();
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    epochs_grow(&lines)?;
    must(ring_after <= 10.0, || {
        format!("the ring without them came after {ring_after:.1} s, not within 10")
    })?;
    // Lines are two seconds long: from the first that begins a second after the kill.
    let probed = seen(&lines, killed + 3.0, killed + ring_after + 4.0).refused;
    let most = FRONTS * 2.0 * PROBES_MAX;
    must(probed <= most, || {
        format!("{probed} calls went to the dead a second after the kill; {most} are probes")
    })?;
    let (phase, end) = (options.phase.as_secs_f64(), total.get("seconds").number());
    let later = seen(&lines, killed + ring_after + 4.0, end).refused;
    must(later == 0.0, || format!("{later} calls were refused after the ring was without the dead"))?;
    Ok(vec![
        format!(
            "  the new ring came {ring_after:.1} s after the kill; {probed} probes of the dead from one second on, none after it"
        ),
        seen(&lines, 0.0, killed).told("before"),
        seen(&lines, killed, killed + 10.0).told("ten seconds after the kill"),
        seen(&lines, killed + 10.0, 2.0 * phase).told("the rest of that phase"),
        seen(&lines, 2.0 * phase, end).told("the phase after"),
    ])
}

/// Kills a node at 15 % of the run, puts it back at 16 %, and another at 60 and 65 %. Copies are sent ten times in all, as
/// in the thesis, whose rounds are five minutes apart.
fn back(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let whole = options.phase * 10;
    let every = options.phase.min(Duration::from_secs(300)).as_secs();
    let copying = format!("memory = '16MiB'\nttl = '24h'\ncopies = 0.05\ncopies_every = '{every}s'");
    let secs = whole.as_secs_f64();
    let minute = 60f64.min(0.2 * secs);
    let mut arms = Vec::new();
    for (name, settings) in [("without copies", NO_COPIES), ("with copies, 5 %", &copying)] {
        let mut lab = CacheLab::start(options, 5, settings)?;
        let victims = lab.names()?;
        let (worked, load) = (lab.worked(), lab.replay(&words(options, 10, &[]))?);
        for (victim, kill, back) in [(&victims[1], 0.15, 0.16), (&victims[3], 0.60, 0.65)] {
            load.until(whole.mul_f64(kill));
            lab.kill(victim)?;
            load.until(whole.mul_f64(back));
            lab.node(victim)?.start()?;
        }
        let (lines, total) = load.end()?;
        none_failed(&total)?;
        let work = lab.worked() - worked;
        let all = seen(&lines, 0.0, secs);
        out.push(format!(
            "  {name}: hits {:.2} % of {} in all, {} from copies, {work:.1} s of the nodes' processors, {:.2} ms an answer",
            all.hit_rate(),
            all.asked,
            all.adopted,
            all.mean_ms()
        ));
        let after = [0.15, 0.60].map(|kill| seen(&lines, kill * secs, kill * secs + minute));
        out.push(seen(&lines, 0.10 * secs, 0.15 * secs).told("before the first kill"));
        out.push(after[0].told("the minute after it"));
        out.push(seen(&lines, 0.55 * secs, 0.60 * secs).told("before the second kill"));
        out.push(after[1].told("the minute after it"));
        let hits = after.iter().map(|one| one.asked - one.made).sum::<f64>();
        let near = 100.0 * hits / after.iter().map(|one| one.asked).sum::<f64>().max(1.0);
        arms.push((near, all.adopted, work / all.asked.max(1.0), all.mean_ms()));
    }
    let [(bare, _, bare_work, bare_ms), (kept, adopted, work, ms)] = arms[..] else { return Ok(out) };
    let over = |with: f64, without: f64| 100.0 * (with / without.max(1e-9) - 1.0);
    out.push(format!(
        "  with copies: {:+.2} points of hits in the minutes after the kills, {adopted} from copies, processors {:+.1} %, time {:+.1} %",
        kept - bare,
        over(work, bare_work),
        over(ms, bare_ms)
    ));
    out.iter().for_each(|line| println!("{line}"));
    must(adopted > 0.0, || "no answer came from copies".to_string())?;
    must(kept >= bare + 1.0, || format!("copies bring {:+.2} points after the kills, not 1", kept - bare))?;
    must(over(work, bare_work) <= 3.0, || {
        format!("copies cost {:+.1} % of processors, not 3", over(work, bare_work))
    })?;
    Ok(Vec::new())
}

fn leader(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut lab = CacheLab::start(options, 5, SMALL)?;
    // The next leader takes as long as the cluster's lease.
    let time = format!("{}s", (options.phase * 4).as_secs() + 60);
    let load = lab.replay(&words(options, 4, &["--time", &time]))?;
    load.until(options.phase);
    let (leader, term, names) = (lab.leader()?, lab.ring()?.get("term").number(), lab.names()?);
    let (at, killed) = (Instant::now(), load.elapsed().as_secs_f64());
    lab.kill(&leader)?;
    // Nobody leads: the fronts find out about this one by themselves.
    lab.kill(&names[2])?;
    lab.wait("a ring of the next leader", |lab| Ok(lab.ring()?.get("term").number() > term))?;
    let next = at.elapsed().as_secs_f64();
    lab.node(&names[2])?.start()?;
    std::thread::sleep(options.phase);
    let stopped = load.elapsed().as_secs_f64();
    lab.server().signal("STOP")?;
    std::thread::sleep(options.phase / 2);
    lab.server().signal("CONT")?;
    let goes_on = load.elapsed().as_secs_f64();
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    epochs_grow(&lines)?;
    lab.wait_for_ring(5)?;
    // Passed over at once, and asked again after 1, 2, 4 and then every 8 seconds.
    let probed = seen(&lines, killed + 3.0, killed + next).refused;
    let most = FRONTS * (PROBES_MAX + next / 8.0);
    must(probed <= most, || {
        format!("{probed} calls went to the dead node while nobody led; {most:.0} are probes")
    })?;
    let bound = if next <= 10.0 { "within 10 s" } else { "missed: 10 s; the cluster's lease is 30" };
    let end = total.get("seconds").number();
    Ok(vec![
        format!(
            "  the next leader's ring came after {next:.1} s ({bound}); {probed} probes of the dead node meanwhile"
        ),
        seen(&lines, 0.0, killed).told("before"),
        seen(&lines, killed, killed + next).told("nobody leads, a node is dead"),
        seen(&lines, killed + next, stopped).told("the next leader"),
        seen(&lines, stopped, goes_on).told("NATS stands still"),
        seen(&lines, goes_on, end).told("after that"),
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
    let restarted = load.elapsed().as_secs_f64();
    lab.wait_for_ring(11)?;
    let (lines, total) = load.end()?;
    none_failed(&total)?;
    epochs_grow(&lines)?;
    let (phase, end) = (options.phase.as_secs_f64(), total.get("seconds").number());
    Ok(vec![
        format!("  three more were on the ring after {came:.1} s; {warm}"),
        seen(&lines, 0.0, phase).told("before"),
        seen(&lines, phase, 2.0 * phase).told("three join"),
        seen(&lines, 2.0 * phase, 3.0 * phase).told("the phase after"),
        seen(&lines, 3.0 * phase, restarted).told("a rolling restart"),
        seen(&lines, restarted, end).told("after that"),
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
