//! URL stores side by side, with a key-value engine among them: fjall, a log-structured merge tree with Bloom filters.
//!
//! Loads, measuring and all other stores are those of `farol-sim urls`; see there.

use farol_base::fingerprint::ContentHash;
use farol_base::{CanonicalUrl, Timestamp};
use farol_sim::urls::queue::Queue;
use farol_sim::urls::{ChildArgs, Facts, STORES, StoreKind, Tally, UrlsArgs};
use farol_store::Error;
use farol_store::urls::{Counts, Found, Verifier, Visit};
use fjall::config::{CompressionPolicy, HashRatioPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// Blocks and filters in memory.
const CACHE_BYTES: u64 = 512 << 20;
const MEMTABLE_BYTES: u64 = 64 << 20;
/// URLs that are looked up together, in the order of their keys: one block then answers several of them. A million take
/// some 100 MB.
const BATCH: usize = 1_000_000;

/// Compares the stores.
pub fn compare(args: &UrlsArgs) -> anyhow::Result<()> {
    Ok(farol_sim::urls::compare(args, &stores())?)
}

/// Runs one store, as a child of [`compare`].
pub fn run_one(args: &ChildArgs) -> anyhow::Result<()> {
    Ok(farol_sim::urls::run_one(args, &stores())?)
}

fn stores() -> Vec<StoreKind> {
    let what = "key-value engine (fjall 3), keys of 16 bytes, looked up in sorted batches";
    let fjall = StoreKind { name: "fjall", what, open: |folder| Ok(Box::new(KeyValue::new(folder)?)) };
    STORES.iter().copied().chain([fjall]).collect()
}

/// URLs in a key-value engine: which are known, and the facts of those visited. New ones leave as text, in a queue.
///
/// Keys are 128-bit fingerprints: shorter than URLs, so that more fit into memory, and never equal by chance.
struct KeyValue {
    database: Database,
    known: Keyspace,
    facts: Keyspace,
    queue: Queue,
    tally: Tally,
    /// Found since the last look-up: key, and number in `starts`.
    batch: Vec<([u8; 16], u32)>,
    texts: Vec<u8>,
    starts: Vec<u32>,
    visits: Vec<([u8; 16], Facts)>,
}

impl KeyValue {
    fn new(folder: &Path) -> Result<KeyValue, Error> {
        let database = Database::builder(folder.join("fjall"))
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .open()
            .map_err(failed)?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .manual_journal_persist(true)
                // Half of all look-ups are for keys that are not there: filters are kept on all levels.
                .expect_point_read_hits(false)
                // Fingerprints do not compress.
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .data_block_hash_ratio_policy(HashRatioPolicy::all(0.75))
        };
        Ok(KeyValue {
            known: database.keyspace("known", options).map_err(failed)?,
            facts: database.keyspace("facts", options).map_err(failed)?,
            database,
            queue: Queue::new(folder),
            tally: Tally::default(),
            batch: Vec::new(),
            texts: Vec::new(),
            starts: vec![0],
            visits: Vec::new(),
        })
    }

    /// Looks up everything that came, and notes what is new.
    fn look_up(&mut self) -> Result<(), Error> {
        let mut write = self.database.batch();
        let mut is_new = vec![false; self.batch.len()];
        // Visits first: what was visited already need not be collected.
        self.visits.sort_by_key(|visit| visit.0);
        let mut bytes = Vec::new();
        for of_key in self.visits.chunk_by(|a, b| a.0 == b.0) {
            let key = of_key[0].0;
            let old = self.facts.get(key).map_err(failed)?.map(|value| Facts::read(&value));
            let now = old.into_iter().chain(of_key.iter().map(|visit| visit.1)).reduce(Facts::then);
            let new = old.is_none() && !self.known.contains_key(key).map_err(failed)?;
            if new {
                write.insert(&self.known, key, []);
            }
            self.tally.moved(new, old, now);
            bytes.clear();
            now.iter().for_each(|facts| facts.write(&mut bytes));
            write.insert(&self.facts, key, &bytes[..]);
        }
        write.commit().map_err(failed)?;
        self.batch.sort_unstable();
        let mut write = self.database.batch();
        for of_key in self.batch.chunk_by(|a, b| a.0 == b.0) {
            let (key, first) = of_key[0];
            if !self.known.contains_key(key).map_err(failed)? {
                write.insert(&self.known, key, []);
                is_new[first as usize] = true;
                self.tally.moved(true, None, None);
            }
        }
        write.commit().map_err(failed)?;
        for (i, _) in is_new.iter().enumerate().filter(|(_, new)| **new) {
            self.queue.push(&self.texts[self.starts[i] as usize..self.starts[i + 1] as usize])?;
        }
        self.batch.clear();
        self.visits.clear();
        self.texts.clear();
        self.starts.truncate(1);
        Ok(())
    }
}

impl Verifier for KeyValue {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        for found in found {
            self.batch.push((key_of(&found.url), self.batch.len() as u32));
            self.texts.extend_from_slice(found.url.as_str().as_bytes());
            self.starts.push(self.texts.len() as u32);
        }
        if self.batch.len() >= BATCH { self.look_up() } else { Ok(()) }
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.visits.push((key_of(url), Facts::of(visit)));
        Ok(())
    }

    fn take(&mut self, limit: usize, _now: Timestamp) -> Result<Vec<CanonicalUrl>, Error> {
        self.queue.take(limit)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.look_up()?;
        self.database.persist(PersistMode::Buffer).map_err(failed)?;
        self.queue.flush()
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        self.look_up()
    }

    fn counts(&self) -> Counts {
        self.tally.counts(0)
    }
}

fn key_of(url: &CanonicalUrl) -> [u8; 16] {
    ContentHash::of(url.as_str().as_bytes()).0.to_be_bytes()
}

fn failed(source: fjall::Error) -> Error {
    Error::Io { action: "use", file: "fjall".to_string(), source: std::io::Error::other(source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_sim::urls::load::{Load, LoadConfig};
    use std::collections::HashSet;

    #[test]
    fn the_engine_knows_each_url_once() {
        let folder = std::env::temp_dir().join(format!("farol-bench-urls-{}", std::process::id()));
        let mut store = KeyValue::new(&folder).unwrap();
        let mut load = Load::generated(LoadConfig { collected: 300, new: 5000, repeats: 4000, seed: 4 });
        let (mut taken, mut known, mut batch) = (HashSet::new(), HashSet::new(), Vec::new());
        for _ in 0..6 {
            load.begin_cycle();
            for url in store.take(300, load.now()).unwrap() {
                store.visited(&url, &load.visit()).unwrap();
                assert!(known.contains(&url) && taken.insert(url));
            }
            loop {
                load.extract(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                store.found(&batch).unwrap();
                known.extend(batch.iter().map(|found| found.url.clone()));
            }
            store.flush().unwrap();
        }
        let counts = store.counts();
        assert_eq!((known.len(), counts.known, counts.waiting), (30_000, 30_000, 30_000 - 5 * 300));
        taken.extend(store.take(usize::MAX, load.now()).unwrap());
        assert_eq!(taken, known);
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
