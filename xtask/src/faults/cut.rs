//! A node whose cable is pulled: it goes on by itself, nobody hears it, and what is sent to it is lost.

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::{Lab, SHARDS};
use super::scenarios::{leader, next_leader, with_digests, with_history};
use std::time::{Duration, Instant};

/// A node is cut off for so long.
const CUT: Duration = Duration::from_secs(60);
/// Silence after which a node is taken for dead, with the time until its last word was due and until it is told.
const BURIED_MAX: Duration = Duration::from_secs(40);
/// Time for what a node had in mind while nobody heard it.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// One question in a thousand may take longer.
const P999_MAX_MILLISECONDS: f64 = 1000.0;

/// What a node is cut off from.
#[derive(Clone, Copy)]
enum From {
    All,
    Servers,
}

/// Cuts a node off for [`CUT`], and has it back whatever happens meanwhile.
fn cut_off<T>(
    lab: &mut Lab,
    name: &str,
    from: From,
    meanwhile: impl FnOnce(&mut Lab, Instant) -> Result<T, String>,
) -> Result<T, String> {
    let cut = |lab: &Lab, is_cut: bool| match from {
        From::All => lab.plug(name, !is_cut),
        From::Servers => lab.part_from_servers(name, is_cut),
    };
    cut(lab, true)?;
    let since = Instant::now();
    let done = meanwhile(lab, since);
    std::thread::sleep(CUT.saturating_sub(since.elapsed()));
    cut(lab, false)?;
    done
}

/// Waits until a node that is cut off is taken for dead.
fn burial(lab: &mut Lab, name: &str, since: Instant, healed: &mut Healed) -> Result<(), String> {
    lab.wait_for("a burial", |status| status.state_of(name) == "dead")?;
    let took = since.elapsed();
    healed.notes.push(format!("taken for dead after {:.0} s", took.as_secs_f64()));
    if took > BURIED_MAX {
        healed.broken.push(format!("taken for dead after {BURIED_MAX:?} only"));
    }
    Ok(())
}

/// Adds whether a node came back as a new incarnation, is given replicas again, and all hold the same.
fn with_return(bench: &mut Bench, history: &History, name: &str, was: u64, row: Row) -> Result<Row, String> {
    let mut row = row;
    let now = history.terms().incarnation(name);
    row.notes.push(format!("was incarnation {was}, is {now}"));
    if now <= was {
        row.broken.push("it did not come back as a new incarnation".to_string());
    }
    if row.inside.p999 > P999_MAX_MILLISECONDS {
        row.broken.push(format!("p99.9 is {:.0} ms", row.inside.p999));
    }
    let holds = |status: &super::status::Status| {
        (0..SHARDS as u32).any(|shard| status.holders(shard).iter().any(|holder| holder == name))
    };
    if !holds(&bench.lab.status()?) {
        // What it held was filled elsewhere.
        bench.lab.order(&["rebalance"])?;
        let pages = bench.pages;
        let took = bench.lab.wait_for("replicas at the node that came back", |status| {
            holds(status) && status.is_whole(super::lab::REPLICAS, Some(pages))
        })?;
        row.notes.push(format!(
            "its replicas were filled elsewhere; given some again, it had all after {took:.0} s"
        ));
    }
    with_digests(&bench.lab, bench.pages, SHARDS, row)
}

pub fn index(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    let (leads, _) = leader(&bench.lab)?;
    let name = Lab::index_nodes().into_iter().find(|name| *name != leads).ok_or("there is one node only")?;
    let was = history.terms().incarnation(&name);
    let row = bench.under_load(&name, Allowed::default(), |lab, _| {
        let mut healed = Healed::default();
        cut_off(lab, &name, From::All, |lab, since| burial(lab, &name, since, &mut healed))?;
        healed.started = Healed::started(&name).started;
        Ok(healed)
    })?;
    Ok(vec![with_return(bench, history, &name, was, row)?])
}

pub fn the_leader(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    cut_the_leader(bench, history, From::All)
}

/// Other nodes and fronts still reach it, and it them.
pub fn the_leader_from_nats(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    cut_the_leader(bench, history, From::Servers)
}

fn cut_the_leader(bench: &mut Bench, history: &History, from: From) -> Result<Vec<Row>, String> {
    let (name, term) = leader(&bench.lab)?;
    let was = history.terms().incarnation(&name);
    let row = bench.under_load(&format!("{name}, the leader"), Allowed::default(), |lab, _| {
        let mut healed = Healed::default();
        let next = cut_off(lab, &name, from, |lab, since| next_leader(lab, term, since, &mut healed))?;
        healed.started = Healed::started(&name).started;
        std::thread::sleep(AFTERWARDS);
        let (_, now) = leader(lab)?;
        if now < next {
            healed.broken.push(format!("term {now} after {next}"));
        }
        Ok(healed)
    })?;
    let row = with_return(bench, history, &name, was, row)?;
    Ok(vec![with_history(row, history)])
}
