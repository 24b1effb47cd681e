//! Is a store exact? A run beside a model that keeps fingerprints, and then everything the store knows is gone through.
//!
//! The model is told what the store is told, and nothing that the store says: a sorted list of 128-bit fingerprints of
//! the URLs that were found, and which of them were visited. At the end the store must know each of these exactly once,
//! and no other, have visited the same ones, and never have handed out one twice or one that nobody found. A sample is
//! also asked for by name, and so are URLs that were never found. Then it is opened anew, and all of it is done again.

use super::driver::drive;
use super::experiment::RunLength;
use crate::Error;
use farol_base::{CanonicalUrl, ContentHash, Timestamp};
use farol_store::urls::{Counts, Found, UrlStore, Verifier, Visit, VisitOutcome, Walk};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// One of this many URLs is asked for by name, also in a spelling that nobody found.
const SAMPLE: usize = 64;

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
                "equal, before and after opening anew: {known} URLs known, each once, {visited} of them visited; one in \
                 {SAMPLE} asked for by name, and {strangers} others not known"
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
    let mut watched = Watched { store: open(folder)?, model: ExactModel::default() };
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
    let verdict = compare(&store, &model, run, cycles)?;
    if let Verdict::Different(_) = verdict {
        return Ok(verdict);
    }
    drop(store);
    let mut again = open(folder)?;
    UrlStore::compact_all(&mut again)?;
    Ok(match compare(&again, &model, run, cycles)? {
        Verdict::Different(what) => Verdict::Different(format!("after opening again: {what}")),
        Verdict::Equal { .. } => verdict,
    })
}

/// Compares counts, then each URL that the store knows, then asks for a sample of the load by name.
fn compare<S: UrlStore>(
    store: &S,
    model: &ExactModel,
    run: &RunLength,
    cycles: u64,
) -> Result<Verdict, Error> {
    let (counts, visited) = (UrlStore::counts(store), model.visited());
    let want = (model.known.len() as u64, model.pages, model.known.len() as u64 - visited);
    let got = (counts.known, counts.collected, counts.waiting);
    if got != want {
        return Ok(Verdict::Different(format!(
            "(known, collected, waiting) is {got:?}, and should be {want:?}"
        )));
    }
    if let Some(what) = walk(store, model)? {
        return Ok(Verdict::Different(what));
    }
    let mut load = run.load()?;
    let (mut batch, mut strangers, mut nth) = (Vec::new(), 0, 0);
    for _ in 0..cycles {
        load.begin_cycle();
        loop {
            load.extract(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for found in batch.drain(..) {
                nth += 1;
                if nth % SAMPLE != 0 {
                    continue;
                }
                let Some(place) = model.place(&found.url) else {
                    return Ok(Verdict::Different("the load does not repeat itself".to_string()));
                };
                if let Some(what) = ask(store, &found.url, Some(model.is_visited[place]))? {
                    return Ok(Verdict::Different(what));
                }
                if let Ok(stranger) = found.url.join(&format!("{}-nobody", found.url.path()))
                    && model.place(&stranger).is_none()
                {
                    strangers += 1;
                    if let Some(what) = ask(store, &stranger, None)? {
                        return Ok(Verdict::Different(what));
                    }
                }
            }
        }
    }
    Ok(Verdict::Equal { known: want.0, visited, strangers })
}

/// Goes through all that the store knows; answers with the first difference, if there is one.
fn walk<S: UrlStore>(store: &S, model: &ExactModel) -> Result<Option<String>, Error> {
    let (mut met, mut text, mut wrong) = (vec![false; model.known.len()], String::new(), None);
    UrlStore::walk(store, Walk::All, &mut |host, path, record| {
        text.clear();
        text.push_str(host.as_str());
        text.push_str(path);
        let is_visited = record.visits > 0;
        let difference = match model.known.binary_search(&fingerprint(&text)) {
            Err(_) => Some("is known, and nobody found it"),
            Ok(place) if std::mem::replace(&mut met[place], true) => Some("is there twice"),
            Ok(place) if is_visited != model.is_visited[place] => Some("is visited in one only"),
            Ok(_) => None,
        };
        if let Some(difference) = difference {
            wrong.get_or_insert_with(|| format!("{text} {difference}"));
        }
    })?;
    let missing = met.iter().filter(|met| !**met).count();
    Ok(wrong.or_else(|| (missing > 0).then(|| format!("{missing} URLs are not there"))))
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
struct ExactModel {
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

impl ExactModel {
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

    /// Records what the store gives out; each must have been found before, and be new.
    fn take(&mut self, urls: &[CanonicalUrl]) {
        self.cycle += 1;
        for url in urls {
            let before = self.taken.insert(fingerprint(url.as_str()), (self.cycle, None));
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
        self.known.binary_search(&fingerprint(url.as_str())).ok()
    }

    fn visited(&self) -> u64 {
        self.is_visited.iter().filter(|visited| **visited).count() as u64
    }
}

fn fingerprint(url: &str) -> u128 {
    ContentHash::of(url.as_bytes()).0
}

/// A store and a model that is told the same.
struct Watched<S> {
    store: S,
    model: ExactModel,
}

impl<S: UrlStore> Verifier for Watched<S> {
    fn found(&mut self, found: &[Found]) -> Result<(), farol_store::Error> {
        self.model.known.extend(found.iter().map(|found| fingerprint(found.url.as_str())));
        Verifier::found(&mut self.store, found)
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), farol_store::Error> {
        let print = fingerprint(url.as_str());
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

    fn compact_all(&mut self) -> Result<(), farol_store::Error> {
        Verifier::compact_all(&mut self.store)
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
        assert_eq!(verdict, Verdict::Equal { known: 10_000, visited: 200, strangers: 273 });
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
