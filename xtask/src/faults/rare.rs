//! What happens seldom: all servers away, blobs away while pages come, a copied folder, another version of the program, a split while pages
//! come.

use super::bench::{Allowed, Bench, Healed, Row};
use super::crawl;
use super::history::History;
use super::lab::{FRONTS, Lab, PATIENCE, SHARDS};
use super::net;
use super::scenarios::with_digests;
use std::path::Path;
use std::time::{Duration, Instant};

/// A copy of a folder gets this long to try.
const COPY_TRIES: Duration = Duration::from_secs(45);
/// Longer than any snapshot waits for its turn.
const SNAPSHOT_MAX: Duration = Duration::from_secs(150);

/// Every server is killed at once: questions need none.
pub fn all_servers(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let row = bench.under_load("all NATS servers", Allowed::default(), |lab, away| {
        lab.servers.iter_mut().for_each(super::process::Process::kill);
        std::thread::sleep(away);
        for server in &mut lab.servers {
            server.start()?;
        }
        let now = Instant::now();
        let started = Lab::index_nodes().into_iter().map(|name| (name, now)).collect();
        Ok(Healed { started, ..Healed::default() })
    })?;
    Ok(vec![row])
}

/// While pages come the folder of snapshots cannot be written to: all is crawled and found without it, and snapshots are
/// made once it can.
pub fn no_blobs(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    bench.lab.wait_for("enough pages to ask for", |status| status.pages() > 100)?;
    bench.questions = bench.lab.questions()?;
    let blobs = bench.lab.blobs();
    let folder = blobs.display().to_string();
    // A mount of its own, which only this run sees: rights would not keep root from writing.
    net::command(&["mount", "--bind", &folder, &folder])?;
    let row = bench.under_load("snapshots read-only", Allowed::default(), |lab, away| {
        remount(&folder, "ro")?;
        let mut healed = Healed::default();
        if std::fs::write(blobs.join("trial"), "").is_ok() {
            healed.broken.push(format!("{folder} can be written to"));
        }
        let (gone, from) = (Instant::now(), lab.status()?.pages());
        let pages = lab.wait_for_crawl();
        // Long enough for snapshots to be tried.
        std::thread::sleep(away.max(Duration::from_secs(75)).saturating_sub(gone.elapsed()));
        let said = lab.status().map(|status| status.warnings());
        remount(&folder, "rw")?;
        let (pages, said) = (pages?, said?);
        healed.notes.push(format!("{from} pages when the folder became read-only, {pages} found meanwhile"));
        match said.iter().find(|text| text.contains("has no new snapshot")) {
            Some(text) => healed.notes.push(format!("meanwhile the cluster says: {text}")),
            None => healed.broken.push(format!("nobody says that snapshots fail: {said:?}")),
        }
        let (back, known) = (Instant::now(), newest(&blobs));
        while newest(&blobs) <= known && back.elapsed() < SNAPSHOT_MAX {
            std::thread::sleep(Duration::from_secs(1));
        }
        let (took, away) = (back.elapsed().as_secs(), (back - gone).as_secs());
        match newest(&blobs) > known {
            true => {
                healed.notes.push(format!("read-only for {away} s; a new snapshot {took} s after that"));
            }
            false => healed.broken.push(format!("no new snapshot within {took} s of its return")),
        }
        Ok(healed)
    })?;
    bench.pages = bench.lab.wait_for_crawl()?;
    let mut row = with_digests(&bench.lab, bench.pages, SHARDS, row)?;
    let archived = bench.lab.archived()?;
    if archived != bench.pages {
        row.broken.push(format!("{archived} pages were archived, {} are in the index", bench.pages));
    }
    Ok(vec![row])
}

/// Has a mount be read-only, or writable again; refused while a file below it is being written.
fn remount(folder: &str, how: &str) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match net::command(&["mount", "-o", &format!("remount,bind,{how}"), folder]) {
            Err(_) if begun.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(50))
            }
            done => return done,
        }
    }
}

/// The latest change below a folder.
fn newest(folder: &Path) -> Option<std::time::SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| match entry.file_type().ok()?.is_dir() {
            true => newest(&entry.path()),
            false => entry.metadata().ok()?.modified().ok(),
        })
        .max()
}

/// A copy of a running node's folder is started beside it: never are both up.
pub fn copied_folder(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    let name = "index-1";
    let row = bench.under_load("a copy of index-1", Allowed::default(), |lab, _| {
        let (from, to) = (lab.data(name), lab.data("index-1-copy"));
        copy(&from, &to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
        let before = history.terms().incarnation(name);
        lab.start_copy(name, "index-1-copy")?;
        let begun = Instant::now();
        let mut healed = Healed::default();
        while begun.elapsed() < COPY_TRIES {
            let (status, now) = (lab.status()?, history.terms().incarnation(name));
            let state = status.state_of(name);
            if now != before || state != "up" {
                healed.broken.push(format!("{name} is {state}, incarnation {before} before and {now} now"));
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        let said = lab.end_copy("index-1-copy");
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        healed.notes.push(format!("the copy says: {}", last.trim()));
        Ok(healed)
    })?;
    Ok(vec![row])
}

/// Files of a folder, as they are at the moment.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if let Err(error) = std::fs::copy(entry.path(), &target)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            // A file may go while its folder is read.
            return Err(error);
        }
    }
    Ok(())
}

/// Nodes of another version of the program are ended one after the other, and started as the present one.
pub fn upgrade(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    if !bench.lab.runs_another_version() {
        return Err("name the program of the version before with --before FILE".to_string());
    }
    let fronts = (1..=FRONTS).map(|nth| format!("front-{nth}"));
    let names: Vec<String> =
        Lab::index_nodes().into_iter().chain(["crawl-1".to_string()]).chain(fronts).collect();
    names
        .iter()
        .map(|name| {
            let allowed = Allowed { moved: name.starts_with("front"), ..Allowed::default() };
            bench.under_load(name, allowed, |lab, _| {
                let ended = lab.node(name)?.end(Duration::from_secs(30));
                lab.upgrade(name)?;
                Ok(Healed { broken: ended.err().into_iter().collect(), ..Healed::started(name) })
            })
        })
        .collect()
}

/// A shard is split while pages come: afterwards every archived page is in every replica, once.
pub fn split_under_crawl(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let lab = &mut bench.lab;
    lab.wait_for("the first pages", |status| status.pages() > 0)?;
    let begun = Instant::now();
    // Refused until a replica has joined for good.
    while let Err(error) = lab.order(&["split", "0"]) {
        if begun.elapsed() > PATIENCE {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = lab.wait_for("two halves", |status| status.shard_count() == SHARDS + 1)?;
    let split_at = lab.status()?.pages();
    lab.order(&["rebalance"])?;
    let mut row = crawl::finish(bench, "after split and crawl")?;
    row.notes.push(format!(
        "two halves serve after {took:.0} s, with {split_at} pages; crawled after {:.0} s",
        begun.elapsed().as_secs_f64()
    ));
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS + 1, row)?])
}
