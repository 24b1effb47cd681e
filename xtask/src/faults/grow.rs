//! A shard is split and another one moves, while pages come and people ask: whoever looks for a page finds it, once.

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::{Lab, PATIENCE, SHARDS};
use super::scenarios::with_digests;
use crate::debian_docs::http;
use crate::json::Json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pages before the first change.
const PAGES_LEAST: u64 = 500;
/// Pages that are looked for all the time.
const WATCHED: usize = 24;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks for the same pages again and again.
struct Looker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, Vec<String>)>,
}

/// A page and a question that finds it.
type Watched = (String, String);

impl Looker {
    fn start(fronts: Vec<SocketAddr>, watched: Vec<Watched>) -> Looker {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut looks, mut broken) = (0, Vec::new());
            while !stopped.load(Ordering::SeqCst) {
                let (url, question) = &watched[looks as usize % watched.len()];
                match look(fronts[looks as usize % fronts.len()], question) {
                    Ok(urls) => broken.extend(wrong_with(url, question, &urls)),
                    Err(error) => broken.push(error),
                }
                looks += 1;
                std::thread::sleep(PAUSE);
            }
            (looks, broken)
        });
        Looker { stop, thread }
    }

    /// How often it looked, and what was wrong.
    fn end(self) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap_or_default()
    }
}

fn look(front: SocketAddr, question: &str) -> Result<Vec<String>, String> {
    let json = http::get(front, &format!("/api/v1/search?count=100&q={}", http::escaped(question)), "")?;
    let url = |hit: &Json| hit.get("url").text().to_string();
    Ok(json.get("hits").list().iter().map(url).collect())
}

fn wrong_with(url: &str, question: &str, urls: &[String]) -> Option<String> {
    let different: BTreeSet<&String> = urls.iter().collect();
    if different.len() < urls.len() {
        return Some(format!(
            "{question}: {} of {} results are there twice",
            urls.len() - different.len(),
            urls.len()
        ));
    }
    (!urls.iter().any(|found| found == url)).then(|| format!("{question}: {url} is missing"))
}

/// Pages with questions that find them and little else: their titles, as phrases.
fn watched(front: SocketAddr) -> Result<Vec<Watched>, String> {
    let json = http::get(front, "/api/v1/search?q=the&count=100", "")?;
    let mut watched = Vec::new();
    for hit in json.get("hits").list() {
        let (url, title) = (hit.get("url").text(), hit.get("title").text());
        let site = url.split('/').nth(2).unwrap_or_default();
        let question = format!("\"{}\" site:{site}", title.replace('"', " "));
        if look(front, &question).is_ok_and(|urls| urls.iter().any(|found| found == url)) {
            watched.push((url.to_string(), question));
        }
        if watched.len() == WATCHED {
            break;
        }
    }
    if watched.is_empty() { Err("no page is found by its title".to_string()) } else { Ok(watched) }
}

/// Gives an order until it is taken: some are refused until a replica has joined for good.
fn order(lab: &Lab, words: &[&str]) -> Result<(), String> {
    let begun = Instant::now();
    while let Err(error) = lab.order(words) {
        if begun.elapsed() > PATIENCE {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

pub fn under_crawl(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let lab = &mut bench.lab;
    lab.wait_for("enough pages to look for", |status| status.pages() > PAGES_LEAST)?;
    bench.questions = lab.questions()?;
    let pages = watched(lab.fronts()[0])?;
    let count = pages.len();
    let looker = Looker::start(lab.fronts(), pages);
    let row = bench.under_load("split of shard 0, move of shard 1", Allowed::default(), |lab, _| {
        let mut healed = Healed::default();
        let from = lab.status()?.pages();
        order(lab, &["split", "0"])?;
        let took = lab.wait_for("two halves", |status| status.shard_count() == SHARDS + 1)?;
        let (split, holders) = (lab.status()?.pages(), lab.status()?.holders(1));
        healed
            .notes
            .push(format!("split with {from} pages; two halves serve after {took:.0} s, with {split}"));
        let from = holders.first().cloned().ok_or("shard 1 has no replica")?;
        let to = Lab::index_nodes().into_iter().find(|name| !holders.contains(name));
        let to = to.ok_or("nobody can take it")?;
        order(lab, &["move", "1", "--from", &from, "--to", &to])?;
        let took = lab.wait_for("the replica at its new node", |status| {
            let now = status.holders(1);
            now.contains(&to) && !now.contains(&from)
        })?;
        let moved = lab.status()?.pages();
        healed.notes.push(format!("{from} to {to}: moved after {took:.0} s, with {moved} pages"));
        lab.wait_for_crawl()?;
        Ok(healed)
    });
    let (looks, wrong) = looker.end();
    let mut row = row?;
    row.notes
        .push(format!("{count} pages looked for {looks} times meanwhile, {} times in vain", wrong.len()));
    row.broken.extend(wrong.into_iter().take(5));
    bench.pages = bench.lab.wait_for_crawl()?;
    let archived = bench.lab.archived()?;
    if archived != bench.pages {
        row.broken.push(format!("{archived} pages were archived, {} are in the index", bench.pages));
    }
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS + 1, row)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_there_twice_is_wrong() {
        let urls = |list: &[&str]| list.iter().map(|url| url.to_string()).collect::<Vec<_>>();
        assert_eq!(wrong_with("a", "q", &urls(&["b", "a"])), None);
        assert!(wrong_with("a", "q", &urls(&["b"])).unwrap().contains("missing"));
        assert!(
            wrong_with("a", "q", &urls(&["a", "b", "b"])).unwrap().contains("1 of 3 results are there twice")
        );
    }
}
