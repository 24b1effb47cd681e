//! The fabric of a single process: a bounded queue, and tables in one file.

use super::{Change, Fabric, Table};
use anyhow::{Context, Result};
use farol_base::sync::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Changes that wait for the indexer at most: 256 documents × some 30 KiB of text = 8 MiB.
const QUEUE_CHANGES_MAX: usize = 256;

/// A fabric that needs nothing but a file.
pub struct Local {
    tables: Database,
    sender: SyncSender<Change>,
    receiver: Mutex<Receiver<Change>>,
}

impl Local {
    /// Opens the tables in this file, making it where it does not exist.
    pub fn open(path: &Path) -> Result<Local> {
        let tables = Database::create(path).with_context(|| format!("cannot open {}", path.display()))?;
        let (sender, receiver) = sync_channel(QUEUE_CHANGES_MAX);
        Ok(Local { tables, sender, receiver: Mutex::new(receiver) })
    }
}

impl Fabric for Local {
    fn send(&self, change: Change) -> Result<()> {
        self.sender.send(change).map_err(|_| anyhow::anyhow!("the indexer has stopped"))
    }

    fn receive(&self, wait: Duration) -> Option<Change> {
        let receiver = self.receiver.lock();
        receiver.recv_timeout(wait).ok()
    }

    fn put(&self, entries: &[(Table, &str, &[u8])]) -> Result<()> {
        let write = self.tables.begin_write().context("cannot write to the tables")?;
        for (table, key, value) in entries {
            let mut table = write.open_table(definition(*table))?;
            if value.is_empty() {
                table.remove(*key)?;
            } else {
                table.insert(*key, *value)?;
            }
        }
        write.commit().context("cannot write to the tables")
    }

    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        let read = self.tables.begin_read()?;
        match read.open_table(definition(table)) {
            Ok(table) => Ok(table.get(key)?.map(|value| value.value().to_vec())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn scan(&self, table: Table) -> Result<Vec<(String, Vec<u8>)>> {
        let read = self.tables.begin_read()?;
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
}

fn definition(table: Table) -> TableDefinition<'static, &'static str, &'static [u8]> {
    TableDefinition::new(match table {
        Table::Hosts => "hosts",
        Table::Robots => "robots",
        Table::Orders => "orders",
        Table::Clicks => "clicks",
        Table::Marks => "marks",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::PagePosition;

    #[test]
    fn tables_survive_and_changes_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tables.redb");
        {
            let fabric = Local::open(&path).unwrap();
            assert_eq!(fabric.get(Table::Orders, "a").unwrap(), None);
            fabric
                .put(&[(Table::Orders, "a", b"1"), (Table::Orders, "b", b"2"), (Table::Hosts, "a", b"3")])
                .unwrap();
            fabric.put(&[(Table::Orders, "a", b"")]).unwrap();
            for file in 0..3 {
                fabric.send(Change::Upto(PagePosition { file, offset: 0 })).unwrap();
            }
            for want in 0..3 {
                let got = fabric.receive(Duration::ZERO);
                assert!(matches!(got, Some(Change::Upto(at)) if at.file == want), "{got:?}");
            }
            assert!(fabric.receive(Duration::ZERO).is_none());
        }
        let fabric = Local::open(&path).unwrap();
        assert_eq!(fabric.scan(Table::Orders).unwrap(), [("b".to_string(), b"2".to_vec())]);
        assert_eq!(fabric.get(Table::Hosts, "a").unwrap().as_deref(), Some(&b"3"[..]));
        assert!(fabric.scan(Table::Clicks).unwrap().is_empty());
    }
}
