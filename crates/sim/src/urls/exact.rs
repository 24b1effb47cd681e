//! Is a store exact? A run beside a model that keeps fingerprints, and then every URL is asked for.
//!
//! The model is told what the store is told, and nothing that the store says: a sorted list of 128-bit fingerprints of
//! the URLs that were found, and which of them were visited. At the end the store must know as many, have visited the
//! same ones, never have handed out one twice or one that nobody found, and not know URLs that were never found. Then
//! it is opened anew, and a sample is asked again.

use super::driver::drive;
use super::experiment::RunLength;
use crate::Error;
use farol_base::{CanonicalUrl, ContentHash, Timestamp};
use farol_store::urls::{Counts, Found, UrlStore, Verifier, Visit, VisitOutcome};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// After opening again one of this many URLs is asked for: a store that reads a piece of a file for each answer has
/// 10 million to read the first time.
const SAMPLE: usize = 16;
/// One of this many known URLs is also asked for in a spelling that nobody found.
const STRANGERS: usize = 16;

/// What the comparison found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Equal {
        known: u64,
        visited: u64,
        strangers: u64,
    },
    /// The first difference, in words.
    Different(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Equal { known, visited, strangers } => write!(
                f,
                "equal: {known} URLs known, {visited} of them visited, and {strangers} others not known; one in {SAMPLE} \
                 asked again after opening anew, and all counts"
            ),
            Verdict::Different(what) => write!(f, "different: {what}"),
        }
    }
}

/// Runs a store beside the model.
pub fn exact<S: UrlStore>(
    open: impl Fn(&Path) -> Result<S, farol_store::Error>,
    folder: &Path,
    run: &RunLength,
) -> Result<Verdict, Error> {
    let mut watched = Watched { store: open(folder)?, model: Model::default() };
    let mut load = run.load()?;
    let mut cycles = 0;
    drive(&mut watched, &mut load, &run.load, folder, run.limits(), |cycle, _| {
        cycles = cycle.cycle;
        eprintln!("  cycle {:3}  {:9} known  {:7.2} s", cycle.cycle, cycle.known, cycle.seconds);
        Ok(())
    })?;
    let Watched { store, mut model } = watched;
    if let Some(what) = model.close() {
        return Ok(Verdict::Different(what));
    }
    let verdict = ask_all(&store, &model, run, cycles, 1)?;
    if let Verdict::Different(_) = verdict {
        return Ok(verdict);
    }
    drop(store);
    let mut again = open(folder)?;
    UrlStore::settle(&mut again)?;
    Ok(match ask_all(&again, &model, run, cycles, SAMPLE)? {
        Verdict::Different(what) => Verdict::Different(format!("after opening again: {what}")),
        Verdict::Equal { .. } => verdict,
    })
}

/// Asks for each URL of the load, cycle by cycle, in the order of texts: stores answer faster that way.
///
/// Asks for one in `sample` of them, and compares all counts.
fn ask_all<S: UrlStore>(
    store: &S,
    model: &Model,
    run: &RunLength,
    cycles: u64,
    sample: usize,
) -> Result<Verdict, Error> {
    let (counts, visited) = (UrlStore::counts(store), model.visited());
    let want = (model.known.len() as u64, model.pages, model.known.len() as u64 - visited);
    let got = (counts.known, counts.collected, counts.waiting);
    if got != want {
        return Ok(Verdict::Different(format!(
            "(known, collected, waiting) is {got:?}, and should be {want:?}"
        )));
    }
    let mut load = run.load()?;
    let mut asked = vec![false; model.known.len()];
    let (mut batch, mut urls, mut strangers) = (Vec::new(), Vec::new(), 0);
    for _ in 0..cycles {
        load.begin_cycle();
        loop {
            load.extract(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for found in batch.drain(..) {
                let Some(place) = model.place(&found.url) else { continue };
                if !std::mem::replace(&mut asked[place], true) {
                    urls.push((found.url, place));
                }
            }
        }
        urls.sort_unstable();
        for (i, (url, place)) in urls.drain(..).enumerate().step_by(sample) {
            if let Some(what) = ask(store, &url, Some(model.is_visited[place]))? {
                return Ok(Verdict::Different(what));
            }
            if i % STRANGERS == 0
                && let Ok(stranger) = url.join(&format!("{}-nobody", url.path()))
                && model.place(&stranger).is_none()
            {
                strangers += 1;
                if let Some(what) = ask(store, &stranger, None)? {
                    return Ok(Verdict::Different(what));
                }
            }
        }
    }
    match asked.iter().position(|asked| !asked) {
        Some(place) => Ok(Verdict::Different(format!("the load does not repeat itself at {place}"))),
        None => Ok(Verdict::Equal { known: want.0, visited, strangers }),
    }
}

/// Asks for one URL; answers with the difference, if there is one. `None` = it should not be known.
fn ask<S: UrlStore>(store: &S, url: &CanonicalUrl, visited: Option<bool>) -> Result<Option<String>, Error> {
    let record = UrlStore::get(store, url)?;
    let got = record.as_ref().map(|record| record.visits > 0);
    let say = |state: Option<bool>| match state {
        None => "not known",
        Some(false) => "known and not visited",
        Some(true) => "known and visited",
    };
    Ok((got != visited).then(|| format!("{url} is {}, and should be {}", say(got), say(visited))))
}

/// What an exact store must know.
#[derive(Debug, Default)]
struct Model {
    /// Fingerprints; sorted, each once, but for the newest.
    known: Vec<u128>,
    /// What was handed out, in which cycle, and the visit that followed.
    taken: HashMap<u128, (u64, Option<Visit>)>,
    cycle: u64,
    /// The first difference in what was handed out, and how many there were.
    wrong: Option<String>,
    wrongs: u64,
    is_visited: Vec<bool>,
    visits: Vec<u128>,
    pages: u64,
}

impl Model {
    fn sort(&mut self) {
        self.known.sort_unstable();
        self.known.dedup();
    }

    /// Brings everything in order; answers with what was first wrong with the URLs that were handed out.
    fn close(&mut self) -> Option<String> {
        self.known.extend_from_slice(&self.visits);
        self.sort();
        self.is_visited = vec![false; self.known.len()];
        for print in &self.visits {
            if let Ok(place) = self.known.binary_search(print) {
                self.is_visited[place] = true;
            }
        }
        self.wrong.take().map(|wrong| format!("{wrong}; {} such URLs in all", self.wrongs))
    }

    /// Notes what the store hands out; each must have been found before, and be new.
    fn take(&mut self, urls: &[CanonicalUrl]) {
        self.cycle += 1;
        for url in urls {
            let before = self.taken.insert(fingerprint(url), (self.cycle, None));
            self.wrongs += u64::from(before.is_some() || self.place(url).is_none());
            if self.wrong.is_some() {
                continue;
            }
            self.wrong = match before {
                Some((cycle, visit)) => Some(format!(
                    "{url} was handed out in cycle {cycle} and again in {}, after {visit:?}",
                    self.cycle
                )),
                None if self.place(url).is_none() => {
                    Some(format!("{url} was handed out, and nobody had found it"))
                }
                None => None,
            };
        }
    }

    fn place(&self, url: &CanonicalUrl) -> Option<usize> {
        self.known.binary_search(&fingerprint(url)).ok()
    }

    fn visited(&self) -> u64 {
        self.is_visited.iter().filter(|visited| **visited).count() as u64
    }
}

fn fingerprint(url: &CanonicalUrl) -> u128 {
    ContentHash::of(url.as_str().as_bytes()).0
}

/// A store and a model that is told the same.
struct Watched<S> {
    store: S,
    model: Model,
}

impl<S: UrlStore> Verifier for Watched<S> {
    fn found(&mut self, found: &[Found]) -> Result<(), farol_store::Error> {
        self.model.known.extend(found.iter().map(|found| fingerprint(&found.url)));
        Verifier::found(&mut self.store, found)
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), farol_store::Error> {
        let print = fingerprint(url);
        self.model.visits.push(print);
        self.model.taken.entry(print).and_modify(|taken| taken.1 = Some(visit.clone()));
        self.model.pages += u64::from(visit.outcome == VisitOutcome::Page);
        Verifier::visited(&mut self.store, url, visit)
    }

    fn take(&mut self, limit: usize, now: Timestamp) -> Result<Vec<CanonicalUrl>, farol_store::Error> {
        let taken = Verifier::take(&mut self.store, limit, now)?;
        self.model.take(&taken);
        Ok(taken)
    }

    fn flush(&mut self) -> Result<(), farol_store::Error> {
        self.model.sort();
        Verifier::flush(&mut self.store)
    }

    fn settle(&mut self) -> Result<(), farol_store::Error> {
        Verifier::settle(&mut self.store)
    }

    fn counts(&self) -> Counts {
        Verifier::counts(&self.store)
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::LoadConfig;
    use super::super::stores::veuni;
    use super::*;
    use farol_store::urls::Naive;

    fn run() -> RunLength {
        let load = LoadConfig { collected: 50, new: 2000, repeats: 1500, seed: 3 };
        RunLength { cycles: 5, minutes: 10.0, load, input: Vec::new() }
    }

    #[test]
    fn an_exact_store_is_found_equal() {
        let folder = tempfile::tempdir().unwrap();
        let verdict = exact(veuni, folder.path(), &run()).unwrap();
        assert_eq!(verdict, Verdict::Equal { known: 10_000, visited: 200, strangers: 625 });
    }

    #[test]
    fn one_that_forgets_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing that is only in memory is there after opening again.
        let verdict = exact(|_| Ok(Naive::new()), folder.path(), &run()).unwrap();
        let Verdict::Different(what) = verdict else { panic!("{verdict}") };
        assert!(what.starts_with("after opening again: (known, collected, waiting) is (0, 0, 0)"), "{what}");
    }
}
