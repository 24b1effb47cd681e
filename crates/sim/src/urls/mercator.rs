//! Mercator's second way, and Polybot's: one sorted file of all URLs, and a batch in memory that is merged with it.
//!
//! \[Najork01\], \[Shkapenyuk02\]. Each cycle sorts what came and rewrites the file in one pass; what was not
//! in it is new, and goes to a queue. Texts are front-coded; the slash after the host name is written as a
//! byte that sorts before all others, so that a host's URLs lie together in the order of hosts and paths.
//!
//! Exact: texts are compared, not hashes. As [`super::drum`], it does not open again after the process ends.

use super::batch::Batch;
use super::facts::Tally;
use super::front::FrontMerge;
use super::queue::Queue;
use farol_base::{CanonicalUrl, Timestamp};
use farol_store::Error;
use farol_store::urls::{Counts, Found, Verifier, Visit};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Stands for the slash after the host name.
const HOST_END: u8 = 1;

/// The structure.
#[derive(Debug)]
pub struct Mercator {
    folder: PathBuf,
    batch: Batch,
    queue: Queue,
    tally: Tally,
    /// Number of the newest file; 0 where there is none.
    generation: u64,
}

impl Mercator {
    /// An empty structure in this folder.
    pub fn new(folder: &Path) -> Result<Mercator, Error> {
        fs::create_dir_all(folder).map_err(failed)?;
        Ok(Mercator {
            folder: folder.to_path_buf(),
            batch: Batch::default(),
            queue: Queue::new(folder),
            tally: Tally::default(),
            generation: 0,
        })
    }

    fn merge(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let path = |generation: u64| self.folder.join(format!("urls-{generation}"));
        let (old, new) = (path(self.generation), path(self.generation + 1));
        let input = (self.generation > 0).then(|| File::open(&old)).transpose().map_err(failed)?;
        let mut file = FrontMerge::new(input, File::create(&new).map_err(failed)?);
        // One list, whose end is that of the file.
        file.begin(u64::MAX);
        let (mut key, mut text) = (Vec::new(), Vec::new());
        let ignore = |_: &[u8]| Ok::<(), io::Error>(());
        let sorted = self.batch.sort();
        for part in sorted.hosts() {
            key.clear();
            key.extend_from_slice(part.host.as_bytes());
            key.push(HOST_END);
            let host_end = key.len();
            for url in part.urls() {
                key.truncate(host_end);
                key.extend_from_slice(&url.path[1..]);
                let known = file.seek(&key, ignore).map_err(failed)?;
                match url.facts {
                    Some(facts) if known => {
                        let (before, now) = file.update(facts);
                        self.tally.moved(false, before.facts, Some(now));
                    }
                    facts if !known => {
                        file.insert(&key, false, facts);
                        self.tally.moved(true, None, facts);
                        if facts.is_none() {
                            text.clear();
                            text.extend_from_slice(part.host.as_bytes());
                            text.extend_from_slice(url.path);
                            self.queue.push(&text)?;
                        }
                    }
                    _ => {}
                }
            }
        }
        file.finish(ignore).map_err(failed)?;
        file.close().map_err(failed)?;
        if self.generation > 0 {
            fs::remove_file(&old).map_err(failed)?;
        }
        self.generation += 1;
        self.queue.flush()
    }
}

impl Verifier for Mercator {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        found.iter().for_each(|found| self.batch.push(&found.url, None));
        if self.batch.is_full() { self.merge() } else { Ok(()) }
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.batch.push(url, Some(visit));
        Ok(())
    }

    fn take(&mut self, limit: usize, _now: Timestamp) -> Result<Vec<CanonicalUrl>, Error> {
        if self.queue.len() < limit as u64 {
            self.merge()?;
        }
        self.queue.take(limit)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.merge()
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        self.merge()
    }

    fn counts(&self) -> Counts {
        self.tally.counts(0)
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io { action: "merge", file: "the file of sorted URLs".to_string(), source }
}
