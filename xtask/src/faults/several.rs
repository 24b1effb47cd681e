//! Several agents crawl one Web and are frozen, cut off, deprived of NATS, and sent new tables all the time.
//!
//! The Web's own log is the judge: never two requests at once to a host or an address, whoever sent them, and no page
//! that was never asked for. Each agent is in a network namespace of its own; how they reach the Web says [`super::relay`].

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::{AGENTS, Lab, REPLICAS};
use super::scenarios::with_digests;
use std::time::{Duration, Instant};

/// An agent sleeps so long.
const ASLEEP: Duration = Duration::from_secs(90);
/// An agent is cut off so long.
const CUT: Duration = Duration::from_secs(120);
/// NATS is away so long.
const AWAY: Duration = Duration::from_secs(300);
/// An agent that cannot renew its lease asks nobody any more after this, and what was under way has ended.
const STOPPED_MAX: Duration = Duration::from_secs(22);
/// Tables that follow each other, and how long that may take.
const TABLES: usize = 20;
const TABLES_MAX: Duration = Duration::from_secs(600);
/// The whole crawl.
const CRAWL_MAX: Duration = Duration::from_secs(1500);

/// Waits until a part of all pages is in the index, and knows then what to ask.
fn begin(bench: &mut Bench, percent: u64) -> Result<(), String> {
    let lab = &mut bench.lab;
    let wanted = (lab.pages_wanted() * percent / 100).max(60);
    let begun = Instant::now();
    while lab.status().map_or(0, |status| status.pages()) < wanted {
        std::thread::sleep(Duration::from_millis(300));
        if begun.elapsed() > CRAWL_MAX {
            return Err(format!("the crawl does not come to {wanted} pages: {}", lab.status()?.told()));
        }
    }
    bench.questions = lab.questions()?;
    Ok(())
}

/// Waits until all is crawled, and has the Web's log judged.
fn finish(bench: &mut Bench, mut row: Row) -> Result<Vec<Row>, String> {
    let (wanted, begun) = (bench.lab.pages_wanted(), Instant::now());
    loop {
        let status = bench.lab.status();
        if status.as_ref().is_ok_and(|status| status.is_whole(REPLICAS, Some(wanted))) {
            row.notes
                .push(format!("all {wanted} pages in all replicas {} s later", begun.elapsed().as_secs()));
            break;
        }
        if begun.elapsed() > CRAWL_MAX {
            let told = status.map_or_else(|error| error, |status| status.told());
            row.broken.push(format!("not all {wanted} pages after {} s: {told}", begun.elapsed().as_secs()));
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    bench.pages = wanted;
    let mut row = with_digests(&bench.lab, wanted, super::lab::SHARDS, row)?;
    for (what, count) in bench.lab.judge_web()? {
        let must_be_none = what.starts_with("two requests at once") || what.contains("never asked for");
        match must_be_none && count > 0 {
            true => row.broken.push(format!("the Web's log: {count} × {what}")),
            false => row.notes.push(format!("the Web's log: {count} × {what}")),
        }
    }
    Ok(vec![row])
}

/// An agent is stopped in the middle of its requests and goes on: it asks nobody before it is a member again.
pub fn stopped(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    begin(bench, 10)?;
    let name = "crawl-2";
    let row = bench.under_load(name, Allowed::default(), |lab, _| {
        let (mut healed, before) = (Healed::default(), history.terms().incarnation(name));
        lab.node(name)?.signal("STOP")?;
        std::thread::sleep(ASLEEP);
        let woken = Instant::now();
        lab.node(name)?.signal("CONT")?;
        // What it had in its hands when it fell asleep would go out at once.
        let back = loop {
            if history.terms().incarnation(name) > before {
                break Instant::now();
            }
            if woken.elapsed() > super::lab::PATIENCE {
                return Err(format!("{name} does not come back"));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let (count, last) = lab.asked_after(Some(name), woken);
        let early = lab.asked_between(name, woken, back);
        healed.notes.push(format!(
            "a member again {:.1} s after waking; {early} requests before that, {count} by then",
            (back - woken).as_secs_f64()
        ));
        if early > 0 {
            healed.broken.push(format!("{early} requests after waking, the last at {last:?}"));
        }
        healed.started = Healed::started(name).started;
        Ok(healed)
    })?;
    finish(bench, row)
}

/// An agent loses all that it and the rest of the cluster send each other; the Web it still reaches.
pub fn cut(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    begin(bench, 10)?;
    let name = "crawl-3";
    let row = bench.under_load(name, Allowed::default(), |lab, _| {
        let mut healed = Healed::default();
        lab.part_from_cluster(name, true)?;
        let since = Instant::now();
        std::thread::sleep(CUT);
        let (_, last) = lab.asked_after(Some(name), since);
        let (others, _) = lab.asked_after(None, since + STOPPED_MAX);
        lab.part_from_cluster(name, false)?;
        let stopped = last.map_or(Duration::ZERO, |last| last - since);
        healed.notes.push(format!(
            "it last asked a server {:.1} s after it was cut off; {others} requests of others after that",
            stopped.as_secs_f64()
        ));
        if stopped > STOPPED_MAX {
            healed.broken.push(format!("it asked for {:.0} s while cut off", stopped.as_secs_f64()));
        }
        healed.started = Healed::started(name).started;
        Ok(healed)
    })?;
    finish(bench, row)
}

/// All NATS servers are killed while agents crawl.
pub fn without_nats(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    begin(bench, 10)?;
    let row = bench.under_load("all NATS servers", Allowed::default(), |lab, _| {
        let mut healed = Healed::default();
        lab.servers.iter_mut().for_each(super::process::Process::kill);
        let since = Instant::now();
        std::thread::sleep(AWAY);
        let (_, last) = lab.asked_after(None, since);
        let stopped = last.map_or(Duration::ZERO, |last| last - since);
        for server in &mut lab.servers {
            server.start()?;
        }
        let back = Instant::now();
        healed.notes.push(format!("the crawl stopped after {:.1} s", stopped.as_secs_f64()));
        if stopped > STOPPED_MAX {
            healed.broken.push(format!("agents asked for {:.0} s without NATS", stopped.as_secs_f64()));
        }
        while lab.asked_after(None, back).0 == 0 {
            if back.elapsed() > super::lab::PATIENCE {
                return Err("the crawl does not go on".to_string());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        healed.notes.push(format!("it went on {:.0} s after their return", back.elapsed().as_secs_f64()));
        let names = Lab::index_nodes().into_iter().chain((1..=AGENTS).map(|nth| format!("crawl-{nth}")));
        healed.started = names.map(|name| (name, back)).collect();
        Ok(healed)
    })?;
    finish(bench, row)
}

/// Agents are killed and started again in turn: each time a new table.
pub fn tables(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    begin(bench, 5)?;
    let row = bench.under_load("agents in turn", Allowed::default(), |lab, _| {
        let (mut healed, begun, first) = (Healed::default(), Instant::now(), lab.status()?.epoch());
        let mut longest: f64 = 0.0;
        for nth in 0..TABLES {
            let (name, epoch) = (format!("crawl-{}", nth % AGENTS + 1), lab.status()?.epoch());
            lab.node(&name)?.kill();
            lab.node(&name)?.start()?;
            let took = lab.wait_for("a settled table", |status| {
                status.is_settled() && status.epoch() > epoch && status.agents() == AGENTS
            })?;
            longest = longest.max(took);
            println!("table {} of {TABLES} after {took:.0} s", nth + 1);
        }
        let (took, count) = (begun.elapsed(), lab.status()?.epoch() - first);
        healed.notes.push(format!(
            "{count} tables in {} s, each settled; the longest took {longest:.0} s",
            took.as_secs()
        ));
        if took > TABLES_MAX || count < TABLES as u64 {
            healed.broken.push(format!("{count} tables in {} s", took.as_secs()));
        }
        Ok(healed)
    })?;
    finish(bench, row)
}
