//! What is lost of the logs or of shared storage: it comes again from what is left.

use super::bench::{Allowed, Bench, Healed, Row};
use super::crawl;
use super::history::History;
use super::lab::{Lab, SHARDS};
use super::nats;
use super::scenarios::with_digests;
use std::time::{Duration, Instant};

/// Between the loss of one log and the next.
const BETWEEN: Duration = Duration::from_secs(2);
/// Longer than any shard waits for its first snapshot.
const SNAPSHOTS_MAX: Duration = Duration::from_secs(150);

/// Deletes the log of a shard, as an operator at the wrong prompt would.
fn delete_log(lab: &Lab, shard: u32) -> Result<(), String> {
    let subject = format!("$JS.API.STREAM.DELETE.FAROL_farol_DOCS_{shard}");
    let told = nats::ask(&lab.server_addresses(), Lab::nats_login(), &subject, "")?;
    match told.contains("\"success\":true") {
        true => Ok(()),
        false => Err(format!("the log of shard {shard} cannot be deleted: {told}")),
    }
}

/// While pages come the log of each shard is deleted: all is there again without anybody's help.
pub fn lost(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let lab = &mut bench.lab;
    lab.wait_for("enough pages to ask for", |status| status.pages() > 100)?;
    bench.questions = lab.questions()?;
    let mut told = Vec::new();
    let row = bench.under_load("the logs of all shards", Allowed::default(), |lab, _| {
        for shard in 0..SHARDS as u32 {
            let pages = lab.status()?.pages();
            delete_log(lab, shard)?;
            told.push(pages.to_string());
            std::thread::sleep(BETWEEN);
        }
        let begun = Instant::now();
        lab.wait_for_crawl()?;
        let took = begun.elapsed().as_secs();
        Ok(Healed {
            notes: vec![format!("all crawled {took} s after the last was gone")],
            ..Healed::default()
        })
    })?;
    let mut after = crawl::finish(bench, "after the crawl")?;
    after.notes.push(format!("pages in the index when a log went: {}", told.join(", ")));
    Ok(vec![row, with_digests(&bench.lab, bench.pages, SHARDS, after)?])
}

/// No replica was ever uploaded: a new one has the log alone.
pub fn alone(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let name = "index-3";
    let row = bench.under_load(name, Allowed::default(), |lab, _| {
        lab.node(name)?.kill();
        remove(&lab.data(name).join("index"))?;
        lab.node(name)?.start()?;
        Ok(Healed::started(name))
    })?;
    let mut row = with_digests(&bench.lab, bench.pages, SHARDS, row)?;
    let snapshots = bench.lab.blobs().join("index");
    let said = bench.lab.node(name)?.said();
    if snapshots.exists() || said.contains("filled from a snapshot") {
        row.broken.push(format!("there was a snapshot in {}", snapshots.display()));
    }
    Ok(vec![row])
}

/// Shared storage has lost every snapshot that the tables name, and a replica needs one.
pub fn no_snapshots_left(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let (name, begun) = ("index-3", Instant::now());
    let snapshots = bench.lab.blobs().join("index");
    let count = || std::fs::read_dir(&snapshots).map_or(0, |entries| entries.count());
    while count() < SHARDS {
        if begun.elapsed() > SNAPSHOTS_MAX {
            return Err(format!("{} of {SHARDS} shards have a snapshot", count()));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let row = bench.under_load(name, Allowed::default(), |lab, _| {
        lab.node(name)?.kill();
        remove(&lab.data(name).join("index"))?;
        remove(&snapshots)?;
        lab.node(name)?.start()?;
        Ok(Healed::started(name))
    })?;
    let mut row = with_digests(&bench.lab, bench.pages, SHARDS, row)?;
    if !bench.lab.node(name)?.said().contains("filled from the archives") {
        row.broken.push("it did not need the archives".to_string());
    }
    Ok(vec![row])
}

/// All replicas of a shard and its log are lost, and nothing was uploaded: the archive has all, and an order brings it.
pub fn rebuild(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let holders = bench.lab.status()?.holders(0);
    let pages = bench.pages;
    let allowed = Allowed { partial: true, ..Allowed::default() };
    let row = bench.under_load(&format!("shard 0 of {}", holders.join(" and ")), allowed, |lab, _| {
        for name in &holders {
            lab.node(name)?.kill();
            remove(&lab.data(name).join("index").join("0"))?;
        }
        delete_log(lab, 0)?;
        let mut healed = Healed::default();
        for name in &holders {
            lab.node(name)?.start()?;
            healed.started.push((name.clone(), Instant::now()));
        }
        let since = Instant::now();
        lab.wait_for("the nodes that were killed", |status| {
            holders.iter().all(|name| status.is_heard(name, since))
        })?;
        let before = lab.status()?.pages();
        lab.order(&["rebuild", "0"])?;
        let begun = Instant::now();
        lab.wait_for("every page", |status| status.is_whole(super::lab::REPLICAS, Some(pages)))?;
        let took = begun.elapsed().as_secs();
        healed
            .notes
            .push(format!("{before} of {pages} pages when it was ordered, all of them {took} s later"));
        Ok(healed)
    })?;
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}

fn remove(folder: &std::path::Path) -> Result<(), String> {
    std::fs::remove_dir_all(folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))
}
