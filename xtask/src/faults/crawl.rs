//! A crawl while index nodes are killed: what was fetched must be in every replica.

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::{Lab, SHARDS};
use super::scenarios::with_digests;
use std::time::{Duration, Instant};

/// Time between a node's return and the next death.
const BETWEEN: Duration = Duration::from_secs(5);

/// Runs on a cluster that has just begun to crawl.
pub fn under_kills(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let lab = &mut bench.lab;
    lab.wait_for("the first pages", |status| status.pages() > 0)?;
    let (begun, mut kills, mut last) = (Instant::now(), 0, (0, Instant::now()));
    let names = Lab::index_nodes();
    // As long as pages come, and once round at least.
    while kills < names.len() || last.1.elapsed() < Duration::from_secs(15) {
        let name = &names[kills % names.len()];
        lab.node(name)?.kill();
        std::thread::sleep(bench.away.min(Duration::from_secs(10)));
        lab.node(name)?.start()?;
        kills += 1;
        let started = Instant::now();
        lab.wait_for("the node that was killed", |status| status.is_heard(name, started))?;
        std::thread::sleep(BETWEEN);
        let pages = lab.status()?.pages();
        println!("{kills} kills, {pages} pages");
        if pages > last.0 {
            last = (pages, Instant::now());
        }
        if begun.elapsed() > Duration::from_secs(900) {
            return Err(format!("the crawl does not end; {pages} pages after {kills} kills"));
        }
    }
    let mut row = finish(bench, "after the crawl")?;
    row.notes.push(format!("{kills} kills within {:.0} s of crawling", begun.elapsed().as_secs_f64()));
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
