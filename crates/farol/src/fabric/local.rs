//! The fabric of a single process: a bounded queue in memory, and tables in one file.

use super::bus::{Change, ChangeQueue, Delivery};
use super::tables::{Table, Tables};
use anyhow::{Context, Result};
use farol_base::sync::{Mutex, RwLock};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Changes that wait for the indexer at most: 256 documents × some 30 KiB of text = 8 MiB.
const QUEUE_CHANGES_MAX: usize = 256;

/// Memory for parts of the tables' file, in place of redb's 1 GiB: robots.txt files of strangers are in it, up to
/// 500 KiB each, and what is read often are rows of some hundred bytes.
const TABLES_MEMORY_MAX: usize = 32 << 20;

/// A queue that lives as long as the process: the archive is what survives.
pub struct LocalQueue {
    sender: SyncSender<Change>,
    receiver: Mutex<Receiving>,
}

struct Receiving {
    changes: Receiver<Change>,
    next_seqno: u64,
}

impl LocalQueue {
    pub fn new() -> LocalQueue {
        let (sender, changes) = sync_channel(QUEUE_CHANGES_MAX);
        LocalQueue { sender, receiver: Mutex::new(Receiving { changes, next_seqno: 1 }) }
    }
}

impl ChangeQueue for LocalQueue {
    fn send(&self, change: Change) -> Result<()> {
        self.sender.send(change).map_err(|_| anyhow::anyhow!("the indexer has stopped"))
    }

    fn receive(&self, wait: Duration) -> Option<Delivery> {
        let mut receiver = self.receiver.lock();
        let change = receiver.changes.recv_timeout(wait).ok()?;
        let seqno = receiver.next_seqno;
        receiver.next_seqno += 1;
        Some(Delivery { seqno, change })
    }

    /// Nothing is delivered twice here, so there is nothing to let go of.
    fn ack(&self, seqno: u64) {
        debug_assert!(seqno < self.receiver.lock().next_seqno, "{seqno} has not been received");
    }
}

/// Tables in one redb file; all of a write or nothing.
pub struct LocalTables {
    path: PathBuf,
    /// `None` after a write that failed, until the file is opened again: redb wants that.
    file: RwLock<Option<Database>>,
}

impl LocalTables {
    /// Opens the tables in this file, making it where it does not exist.
    pub fn open(path: &Path) -> Result<LocalTables> {
        Ok(LocalTables { path: path.to_path_buf(), file: RwLock::new(Some(open_file(path)?)) })
    }

    /// Reads all of the file, and compares it with its checksums.
    pub fn verify(&self) -> Result<()> {
        let mut file = self.file.write();
        let database = file.as_mut().context("the tables are closed")?;
        let is_whole = database.check_integrity().map_err(cause).context("cannot read the tables")?;
        anyhow::ensure!(is_whole, "{} does not fit its checksums", self.path.display());
        Ok(())
    }

    fn read(&self) -> Result<redb::ReadTransaction> {
        if self.file.read().is_none() {
            let mut file = self.file.write();
            if file.is_none() {
                *file = Some(open_file(&self.path)?);
            }
        }
        let file = self.file.read();
        file.as_ref().context("the tables are closed")?.begin_read().map_err(cause)
    }
}

fn open_file(path: &Path) -> Result<Database> {
    Database::builder().set_cache_size(TABLES_MEMORY_MAX).create(path).map_err(cause).with_context(|| {
        format!("cannot open {}; run `farol check --repair` if it is damaged", path.display())
    })
}

/// What went wrong, where the system says so in the system's words: a full disk must be told from damage.
fn cause(error: impl Into<redb::Error>) -> anyhow::Error {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        error => error.into(),
    }
}

fn write(file: &Database, entries: &[(Table, &str, &[u8])]) -> Result<()> {
    let write = file.begin_write().map_err(cause)?;
    for (table, key, value) in entries {
        let mut table = write.open_table(definition(*table)).map_err(cause)?;
        if value.is_empty() {
            table.remove(*key).map_err(cause)?;
        } else {
            table.insert(*key, *value).map_err(cause)?;
        }
    }
    write.commit().map_err(cause)
}

impl Tables for LocalTables {
    fn put(&self, entries: &[(Table, &str, &[u8])]) -> Result<()> {
        let mut file = self.file.write();
        let database = match file.take() {
            Some(database) => database,
            None => open_file(&self.path)?,
        };
        let written = write(&database, entries).context("cannot write to the tables");
        if written.is_ok() {
            *file = Some(database);
        }
        written
    }

    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        let read = self.read()?;
        match read.open_table(definition(table)) {
            Ok(table) => Ok(table.get(key)?.map(|value| value.value().to_vec())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn scan(&self, table: Table) -> Result<Vec<(String, Vec<u8>)>> {
        let read = self.read()?;
        let table = match read.open_table(definition(table)) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut entries = Vec::new();
        for entry in table.iter()? {
            let (key, value) = entry?;
            entries.push((key.value().to_string(), value.value().to_vec()));
        }
        Ok(entries)
    }

    fn scan_after(&self, table: Table, after: &str, max: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let read = self.read()?;
        let table = match read.open_table(definition(table)) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut entries = Vec::new();
        for entry in table.range::<&str>((Bound::Excluded(after), Bound::Unbounded))?.take(max) {
            let (key, value) = entry?;
            entries.push((key.value().to_string(), value.value().to_vec()));
        }
        Ok(entries)
    }
}

fn definition(table: Table) -> TableDefinition<'static, &'static str, &'static [u8]> {
    TableDefinition::new(table.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{bus, tables};
    use std::sync::Arc;

    #[test]
    fn the_queue_keeps_what_queues_promise() {
        bus::check_contract(&LocalQueue::new());
    }

    #[test]
    fn the_tables_keep_what_tables_promise() {
        let dir = tempfile::tempdir().unwrap();
        tables::check_contract(|| Arc::new(LocalTables::open(&dir.path().join("tables.redb")).unwrap()));
    }

    #[test]
    fn tables_far_larger_than_their_memory_are_written_and_read_within_it() {
        let dir = tempfile::tempdir().unwrap();
        let tables = LocalTables::open(&dir.path().join("tables.redb")).unwrap();
        let body = vec![b'a'; 500 << 10];
        let keys: Vec<String> = (0..300).map(|i| format!("http://h{i}/")).collect();
        let before = crate::process::memory_bytes();
        for keys in keys.chunks(30) {
            let entries: Vec<_> = keys.iter().map(|key| (Table::Robots, key.as_str(), &body[..])).collect();
            tables.put(&entries).unwrap();
        }
        for key in &keys {
            assert_eq!(tables.get(Table::Robots, key).unwrap().map(|body| body.len()), Some(body.len()));
        }
        let grown = crate::process::memory_bytes().saturating_sub(before) as usize;
        assert!(
            grown < 3 * TABLES_MEMORY_MAX,
            "{} MiB for {} MiB",
            grown >> 20,
            (body.len() * keys.len()) >> 20
        );
    }

    #[test]
    fn a_full_queue_makes_the_sender_wait() {
        let queue = Arc::new(LocalQueue::new());
        let send = |queue: &LocalQueue| queue.send(Change::Upto(Default::default())).unwrap();
        (0..QUEUE_CHANGES_MAX).for_each(|_| send(&queue));
        let waiting = {
            let queue = queue.clone();
            std::thread::spawn(move || send(&queue))
        };
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        assert!(queue.receive(Duration::ZERO).is_some());
        waiting.join().unwrap();
    }
}
