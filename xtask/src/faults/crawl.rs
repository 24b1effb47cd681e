//! A crawl while nodes and servers are killed: what was fetched must be in every replica.

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::{Lab, SHARDS};
use super::scenarios::{leader, with_digests};
use std::time::{Duration, Instant};

/// Time between a node's return and the next death.
const BETWEEN: Duration = Duration::from_secs(5);

/// Who is killed.
enum Victim {
    Node(String),
    /// Whoever leads at the time.
    Leader,
    Server(usize),
}

/// Runs on a cluster that has just begun to crawl: index nodes are killed in turn.
pub fn under_kills(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    kill_in_turn(bench, &Lab::index_nodes().into_iter().map(Victim::Node).collect::<Vec<_>>())
}

/// The same with all that can be killed: servers, the leader, a front and the crawler itself as well.
pub fn under_all_kills(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let node = |name: &str| Victim::Node(name.to_string());
    let victims = [
        Victim::Server(0),
        node("index-1"),
        Victim::Leader,
        Victim::Server(1),
        node("crawl-1"),
        node("index-3"),
        Victim::Server(2),
        node("front-1"),
    ];
    kill_in_turn(bench, &victims)
}

/// Kills one victim, and starts it again; who that was.
fn kill(lab: &mut Lab, victim: &Victim, away: Duration) -> Result<String, String> {
    let name = match victim {
        Victim::Server(nth) => {
            lab.servers[*nth].kill();
            std::thread::sleep(away);
            lab.servers[*nth].start()?;
            return Ok(lab.servers[*nth].name.clone());
        }
        Victim::Node(name) => name.clone(),
        Victim::Leader => leader(lab)?.0,
    };
    lab.node(&name)?.kill();
    std::thread::sleep(away);
    lab.node(&name)?.start()?;
    let started = Instant::now();
    lab.wait_for("the node that was killed", |status| status.is_heard(&name, started))?;
    Ok(name)
}

fn kill_in_turn(bench: &mut Bench, victims: &[Victim]) -> Result<Vec<Row>, String> {
    let lab = &mut bench.lab;
    lab.wait_for("the first pages", |status| status.pages() > 0)?;
    let (begun, mut last, mut killed) = (Instant::now(), (0, Instant::now()), Vec::new());
    // As long as pages come, and once round at least.
    while killed.len() < victims.len() || last.1.elapsed() < Duration::from_secs(15) {
        let victim = &victims[killed.len() % victims.len()];
        let name = kill(lab, victim, bench.away.min(Duration::from_secs(10)))?;
        std::thread::sleep(BETWEEN);
        let pages = lab.status()?.pages();
        println!("{name} was killed, {pages} pages");
        killed.push(format!("{name} {pages}"));
        if pages > last.0 {
            last = (pages, Instant::now());
        }
        if begun.elapsed() > Duration::from_secs(900) {
            return Err(format!("the crawl does not end; {pages} pages after {} kills", killed.len()));
        }
    }
    let mut row = finish(bench, "after the crawl")?;
    row.notes.push(format!(
        "{} kills within {:.0} s, with the pages after each: {}",
        killed.len(),
        begun.elapsed().as_secs_f64(),
        killed.join(", ")
    ));
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}

/// Waits until all is crawled, asks for a while, and compares the index with the archive.
pub fn finish(bench: &mut Bench, fault: &str) -> Result<Row, String> {
    let pages = bench.lab.wait_for_crawl()?;
    (bench.pages, bench.questions) = (pages, bench.lab.questions()?);
    let mut row = bench.under_load(fault, Allowed::default(), |_, away| {
        std::thread::sleep(away);
        Ok(Healed::default())
    })?;
    let archived = bench.lab.archived()?;
    if archived != pages {
        row.broken.push(format!("{archived} pages were archived, {pages} are in the index"));
    }
    Ok(row)
}
