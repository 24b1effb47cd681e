//! Files of routing tables: written by the planner, fetched and checked by every agent.
//!
//! A file that was fetched once stays in the data folder, so that an agent can start while shared storage is away.
//! INVARIANT: nothing is routed by a file whose digest is another than the record says.

use anyhow::{Context, Result, ensure};
use farol_base::fingerprint::hash64;
use farol_base::sync::Mutex;
use farol_cluster::RouteRecord;
use farol_cluster::route::TableBlob;
use farol_fabric::blobs::Blobs;
use farol_partition::RoutingTable;
use farol_partition::table::binary;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Folder of tables in shared storage.
pub const FOLDER: &str = "route/";
/// 2 M addresses × 10 bytes are 20 MiB.
const TABLE_BYTES_MAX: u64 = 256 << 20;
/// A file that could not be had is asked for again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Tables that are kept in memory: those of unsettled epochs are few.
const KEPT_MAX: usize = 9;

/// The name of a table; the term keeps two leaders from writing the same one.
pub fn table_name(version: u64, term: u64) -> String {
    format!("{FOLDER}{version:010}-{term}")
}

/// Tells bytes from all others.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", hash64(bytes))
}

/// Files that a record names, of the dead as well.
pub fn named(route: &RouteRecord) -> impl Iterator<Item = &TableBlob> {
    let left = route.bequests.iter().flat_map(|bequest| &bequest.steps);
    route.steps().chain(left).filter_map(|step| step.table.as_ref())
}

/// Where tables come from.
pub struct TableStore {
    blobs: Option<Arc<Blobs>>,
    /// Where they stay once they were fetched.
    folder: Option<PathBuf>,
    known: Mutex<KnownTables>,
}

#[derive(Default)]
struct KnownTables {
    tables: BTreeMap<String, Arc<RoutingTable>>,
    failed: BTreeMap<String, Instant>,
    trouble: String,
}

impl TableStore {
    pub fn new(blobs: Option<Arc<Blobs>>, folder: Option<PathBuf>) -> TableStore {
        TableStore { blobs, folder, known: Mutex::default() }
    }

    /// The table of a file; `None` where it cannot be had now.
    pub fn get(&self, blob: &TableBlob) -> Option<Arc<RoutingTable>> {
        let mut known = self.known.lock();
        if let Some(table) = known.tables.get(&blob.name) {
            return Some(table.clone());
        }
        if known.failed.get(&blob.name).is_some_and(|at| at.elapsed() < AGAIN) {
            return None;
        }
        match self.fetch(blob) {
            Ok(table) => {
                let table = Arc::new(table);
                known.failed.clear();
                known.trouble.clear();
                known.tables.insert(blob.name.clone(), table.clone());
                while known.tables.len() > KEPT_MAX {
                    known.tables.pop_first();
                }
                Some(table)
            }
            Err(error) => {
                known.trouble = format!(
                    "the routing table {} cannot be had ({error:#}): hosts stay as they are; give this node access to \
                     cluster.blobs",
                    blob.name
                );
                known.failed.insert(blob.name.clone(), Instant::now());
                None
            }
        }
    }

    /// What is wrong, a sentence; empty where nothing is.
    pub fn trouble(&self) -> String {
        self.known.lock().trouble.clone()
    }

    fn fetch(&self, blob: &TableBlob) -> Result<RoutingTable> {
        let here = self.folder.as_ref().map(|folder| folder.join(blob.name.replace('/', "-")));
        if let Some(bytes) = here.as_ref().and_then(|path| std::fs::read(path).ok())
            && let Ok(table) = checked(&bytes, blob)
        {
            return Ok(table);
        }
        let blobs = self.blobs.as_ref().context("no shared storage is named")?;
        let bytes = blobs.get_at_most(&blob.name, TABLE_BYTES_MAX)?;
        let table = checked(&bytes, blob)?;
        if let (Some(path), Some(folder)) = (&here, &self.folder) {
            self.remember(path, folder, &bytes);
        }
        Ok(table)
    }

    /// Keeps a file for the next start. What cannot be kept is fetched again then.
    fn remember(&self, path: &PathBuf, folder: &PathBuf, bytes: &[u8]) {
        let kept = std::fs::create_dir_all(folder).and_then(|()| {
            let unfinished = path.with_extension("new");
            std::fs::write(&unfinished, bytes)?;
            std::fs::rename(&unfinished, path)
        });
        if let Err(error) = kept {
            tracing::debug!(%error, "a routing table is not kept here");
        }
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        files.truncate(files.len().saturating_sub(KEPT_MAX));
        for old in files {
            let _ = std::fs::remove_file(old);
        }
    }
}

fn checked(bytes: &[u8], blob: &TableBlob) -> Result<RoutingTable> {
    let found = digest(bytes);
    ensure!(found == blob.digest, "its digest is {found} and should be {}", blob.digest);
    Ok(binary::read(bytes)?)
}

/// Writes a table to shared storage, and reads it again.
pub fn publish(blobs: &Blobs, table: &RoutingTable, term: u64) -> Result<TableBlob> {
    let bytes = binary::write(table);
    let blob = TableBlob { name: table_name(table.version, term), digest: digest(&bytes) };
    blobs.put(&blob.name, &bytes)?;
    let again = blobs.get_at_most(&blob.name, TABLE_BYTES_MAX)?;
    ensure!(checked(&again, &blob)? == *table, "{} is not what was written", blob.name);
    Ok(blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_fetched_once_checked_and_kept_while_storage_is_away() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("blobs");
        let blobs = Arc::new(Blobs::open(place.to_str().unwrap()).unwrap());
        let table = RoutingTable { version: 4, destinations: vec!["1".into()], ..RoutingTable::default() };
        let blob = publish(&blobs, &table, 9).unwrap();
        assert_eq!(blob.name, "route/0000000004-9");
        let here = dir.path().join("routes");
        let store = TableStore::new(Some(blobs.clone()), Some(here.clone()));
        assert_eq!(store.get(&blob).as_deref(), Some(&table));
        let wrong = TableBlob { digest: "0".into(), ..blob.clone() };
        let other = TableStore::new(Some(blobs.clone()), None);
        assert_eq!(other.get(&wrong), None);
        assert!(other.trouble().contains("digest"), "{}", other.trouble());
        blobs.delete(&blob.name).unwrap();
        assert_eq!(TableStore::new(None, Some(here)).get(&blob).as_deref(), Some(&table));
        let gone = TableStore::new(Some(blobs), None);
        assert_eq!(gone.get(&blob), None);
        assert!(gone.trouble().contains("there is no blob"), "{}", gone.trouble());
    }
}
