//! The shared tables: one value per key, with compare-and-set, all that was ever written, and servers that lag.

use farol_cluster::{Revision, Write, WriteOutcome};
use std::collections::BTreeMap;

/// A value that a key had.
#[derive(Clone, Debug)]
pub struct Version {
    pub revision: u64,
    /// When it was written, in true time.
    pub at: u64,
    pub value: Option<Vec<u8>>,
}

/// All keys with their histories.
#[derive(Debug, Default)]
pub struct Kv {
    keys: BTreeMap<String, Vec<Version>>,
    /// Which key each revision changed, with the time.
    changes: Vec<(u64, String)>,
    /// Ablation: the leader's tables are written whatever revision they have.
    unfenced: bool,
}

impl Kv {
    pub fn new(unfenced: bool) -> Kv {
        Kv { unfenced, ..Kv::default() }
    }

    pub fn revision(&self) -> u64 {
        self.changes.len() as u64
    }

    pub fn apply(&mut self, write: &Write, now: u64) -> WriteOutcome {
        let newest = self.keys.get(&write.key).and_then(|versions| versions.last());
        // A deleted key is as one that never was.
        let present = newest.filter(|version| version.value.is_some()).map_or(0, |version| version.revision);
        let is_fenced = !(self.unfenced && (write.key.starts_with("table.") || write.key == "state"));
        if write.expected.0 != present && is_fenced {
            return WriteOutcome::Conflict;
        }
        self.changes.push((now, write.key.clone()));
        let revision = self.revision();
        let version = Version { revision, at: now, value: write.value.clone() };
        self.keys.entry(write.key.clone()).or_default().push(version);
        WriteOutcome::Written(Revision(revision))
    }

    /// A key as a server knows it that has everything up to an instant.
    pub fn get(&self, key: &str, as_of: u64) -> Option<&Version> {
        let versions = self.keys.get(key)?;
        versions.iter().rev().find(|version| version.at <= as_of).filter(|version| version.value.is_some())
    }

    pub fn newest(&self, key: &str) -> Option<&Version> {
        self.get(key, u64::MAX)
    }

    pub fn history(&self, key: &str) -> &[Version] {
        self.keys.get(key).map(|versions| &versions[..]).unwrap_or_default()
    }

    /// Keys that begin with a prefix and have a value.
    pub fn keys<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a String> + 'a {
        let all = self.keys.range(prefix.to_string()..).take_while(move |(key, _)| key.starts_with(prefix));
        all.filter(|(_, versions)| versions.last().is_some_and(|last| last.value.is_some()))
            .map(|(key, _)| key)
    }

    /// Newest values of all keys that changed after a revision and up to an instant, and up to which revision that is.
    pub fn news(&self, after: u64, as_of: u64) -> (Vec<(&str, &Version)>, u64) {
        let mut found: BTreeMap<&str, &Version> = BTreeMap::new();
        let mut upto = after;
        for (at, key) in &self.changes[after as usize..] {
            if *at > as_of {
                break;
            }
            upto += 1;
            if let Some(version) = self.keys[key].iter().rev().find(|version| version.revision == upto) {
                found.insert(key, version);
            }
        }
        (found.into_iter().collect(), upto)
    }

    /// Writes of the leader's tables after an instant.
    pub fn table_writes_since(&self, since: u64) -> usize {
        self.changes
            .iter()
            .rev()
            .take_while(|(at, _)| *at >= since)
            .filter(|(_, key)| key.starts_with("table."))
            .count()
    }
}
