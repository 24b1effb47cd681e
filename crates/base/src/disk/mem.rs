//! A disk that only remembers.

use super::{Disk, check_name};
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, MutexGuard};

/// A folder in memory. Clones share one content, as two openings of one folder do.
#[derive(Clone, Debug, Default)]
pub struct Mem(Arc<Mutex<BTreeMap<String, Content>>>);

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// As much as a power cut would leave; `None` where the file itself would be gone.
    synced: Option<usize>,
}

impl Mem {
    /// An empty folder.
    pub fn new() -> Mem {
        Mem::default()
    }

    /// Loses everything that was not synced, as a power cut may.
    pub fn lose_unsynced(&self) {
        self.files().retain(|_, content| match content.synced {
            Some(synced) => {
                content.bytes.truncate(synced);
                true
            }
            None => false,
        });
    }

    /// A copy that goes its own way from here.
    pub fn fork(&self) -> Mem {
        Mem(Arc::new(Mutex::new(self.files().clone())))
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Content>> {
        // No step below can panic half-way, so a poisoned lock still guards whole files.
        self.0.lock()
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no file {name}"))
}

impl Disk for Mem {
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        check_name(name)?;
        self.files().entry(name.to_string()).or_default().bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let files = self.files();
        let bytes = &files.get(name).ok_or_else(|| missing(name))?.bytes;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = into.len().min(bytes.len() - start);
        into[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn len(&self, name: &str) -> io::Result<Option<u64>> {
        Ok(self.files().get(name).map(|content| content.bytes.len() as u64))
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let mut files = self.files();
        let content = files.get_mut(name).ok_or_else(|| missing(name))?;
        content.bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        content.synced = content.synced.map(|synced| synced.min(content.bytes.len()));
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let mut files = self.files();
        let content = files.get_mut(name).ok_or_else(|| missing(name))?;
        content.synced = Some(content.bytes.len());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut files = self.files();
        let mut content = files.remove(from).ok_or_else(|| missing(from))?;
        // The name is durable now; bytes that were never synced are not.
        content.synced = content.synced.or(Some(0));
        files.insert(to.to_string(), content);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_leaves_what_was_synced() {
        let disk = Mem::new();
        disk.append("kept", b"abc").unwrap();
        disk.sync("kept").unwrap();
        disk.append("kept", b"def").unwrap();
        disk.append("lost", b"x").unwrap();
        let before = disk.fork();
        disk.lose_unsynced();
        assert_eq!(disk.list().unwrap(), ["kept"]);
        assert_eq!(disk.len("kept").unwrap(), Some(3));
        assert_eq!(before.len("kept").unwrap(), Some(6));
    }
}
