//! A copy of the cluster's tables as this node last saw them, on its disk too: what `farol cluster repair` makes them anew
//! from where the servers have lost them.
//!
//! Revisions say which of two copies of a key is the newer one, on whichever node it is. What was removed is remembered as
//! that, so that an older copy does not bring it back.

use anyhow::{Context, Result};
use bytes::Bytes;
use data_encoding::BASE64;
use farol_base::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the file in a node's data folder.
pub const FILE: &str = "tables.copy";
/// What [`TablesCopy::page`] is asked for.
pub const TABLE: &str = "tables";

/// A key's newest value, by its revision; `None` where it was removed.
type Newest = (u64, Option<Bytes>);

/// All keys that a node has heard of.
#[derive(Default)]
pub struct TablesCopy {
    keys: Mutex<BTreeMap<String, Newest>>,
    has_changed: AtomicBool,
}

/// A key in the file.
#[derive(Serialize, Deserialize)]
struct CopyLine {
    key: String,
    revision: u64,
    value: Option<String>,
}

impl TablesCopy {
    /// The copy of this folder; none is an empty one.
    pub fn read(folder: &Path) -> Result<TablesCopy> {
        let path = folder.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(TablesCopy::default()),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let copy = TablesCopy::default();
        for line in text.lines() {
            // A torn line is one key less, which other nodes have.
            let Ok(line) = serde_json::from_str::<CopyLine>(line) else { continue };
            let value = line.value.map(|value| BASE64.decode(value.as_bytes())).transpose();
            if let Ok(value) = value {
                copy.hear(&line.key, value.map(Bytes::from), line.revision);
            }
        }
        copy.has_changed.store(false, Ordering::Relaxed);
        Ok(copy)
    }

    /// Writes it where something has changed since the last time.
    pub fn save(&self, folder: &Path) -> Result<()> {
        if !self.has_changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let mut text = String::new();
        for (key, (revision, value)) in self.keys.lock().iter() {
            let value = value.as_ref().map(|value| BASE64.encode(value));
            text += &serde_json::to_string(&CopyLine { key: key.clone(), revision: *revision, value })?;
            text.push('\n');
        }
        let new = folder.join(format!("{FILE}.new"));
        std::fs::write(&new, text)?;
        std::fs::rename(&new, folder.join(FILE))?;
        Ok(())
    }

    /// A key was read or told.
    pub fn hear(&self, key: &str, value: Option<Bytes>, revision: u64) {
        let mut keys = self.keys.lock();
        if keys.get(key).is_none_or(|(known, _)| revision > *known) {
            keys.insert(key.to_string(), (revision, value));
            self.has_changed.store(true, Ordering::Relaxed);
        }
    }

    /// Some of it, in the order of keys, behind `after`; each value behind its revision and whether it is there.
    pub fn page(&self, after: &str, bytes_max: usize) -> Vec<(String, Vec<u8>)> {
        let mut room = bytes_max;
        let keys = self.keys.lock();
        let behind = keys.iter().filter(|(key, _)| key.as_str() > after);
        let packed = behind.map(|(key, (revision, value))| {
            let value = value.as_ref();
            let is_there = [u8::from(value.is_some())];
            let bytes =
                [&revision.to_le_bytes()[..], &is_there, value.map_or(&[], |value| &value[..])].concat();
            (key.clone(), bytes)
        });
        packed
            .take_while(|(key, bytes)| {
                let is_in = room > 0;
                room = room.saturating_sub(key.len() + bytes.len());
                is_in
            })
            .collect()
    }

    /// Takes a page of another node's copy.
    pub fn take_page(&self, page: Vec<(String, Vec<u8>)>) {
        for (key, bytes) in page {
            let Some((revision, rest)) = bytes.split_first_chunk::<8>() else { continue };
            let Some((is_there, value)) = rest.split_first() else { continue };
            let value = (*is_there == 1).then(|| Bytes::copy_from_slice(value));
            self.hear(&key, value, u64::from_le_bytes(*revision));
        }
    }

    /// Takes what another one has that is newer.
    pub fn merge(&self, other: &TablesCopy) {
        for (key, (revision, value)) in other.keys.lock().iter() {
            self.hear(key, value.clone(), *revision);
        }
    }

    /// Keys that are there, with their values.
    pub fn values(&self) -> BTreeMap<String, Bytes> {
        let keys = self.keys.lock();
        keys.iter().filter_map(|(key, (_, value))| Some((key.clone(), value.clone()?))).collect()
    }

    /// The greatest revision that was heard of.
    pub fn revision(&self) -> u64 {
        self.keys.lock().values().map(|(revision, _)| *revision).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(copy: &TablesCopy) -> Vec<(String, Bytes)> {
        copy.values().into_iter().collect()
    }

    #[test]
    fn the_newest_of_each_key_is_kept_on_disk_and_across_nodes() {
        let dir = tempfile::tempdir().unwrap();
        assert!(TablesCopy::read(dir.path()).unwrap().values().is_empty());
        let one = TablesCopy::default();
        one.hear("a", Some("old".into()), 3);
        one.hear("b", Some("gone soon".into()), 4);
        one.hear("c", Some(vec![0, 255].into()), 5);
        one.hear("a", Some("older".into()), 2);
        one.save(dir.path()).unwrap();
        let other = TablesCopy::default();
        other.hear("a", Some("new".into()), 7);
        other.hear("b", None, 6);
        let merged = TablesCopy::read(dir.path()).unwrap();
        assert_eq!(values(&merged), values(&one));
        merged.merge(&other);
        let want = [("a".to_string(), Bytes::from("new")), ("c".to_string(), Bytes::from(vec![0, 255]))];
        assert_eq!((values(&merged), merged.revision()), (want.to_vec(), 7));
        // By calls, in pages as small as they come.
        let (called, mut after) = (TablesCopy::default(), String::new());
        loop {
            let page = merged.page(&after, 1);
            let Some((last, _)) = page.last() else { break };
            assert_eq!(page.len(), 1);
            after.clone_from(last);
            called.take_page(page);
        }
        assert_eq!((values(&called), called.revision()), (want.to_vec(), 7));
        called.hear("b", Some("gone soon".into()), 4);
        assert_eq!(values(&called), want, "what was removed does not come back");
        // Nonsense from elsewhere is left out.
        called.take_page(vec![("x".into(), vec![1, 2]), ("y".into(), vec![0; 8])]);
        assert_eq!(values(&called), want);
    }
}
