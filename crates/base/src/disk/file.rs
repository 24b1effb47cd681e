//! A folder of the machine's own disk.

use super::{Disk, check_name};
use crate::sync::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files kept open at a time, for reading and for appending each; the next one closes all the others.
/// 2 × 64 descriptors stay far below the usual limit of 1,024.
const OPEN_MAX: usize = 64;

/// A real folder.
#[derive(Debug)]
pub struct File {
    folder: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    readers: HashMap<String, Arc<fs::File>>,
    writers: HashMap<String, Arc<fs::File>>,
    /// Files, open or not, whose entries in the folder are on the disk.
    listed: HashSet<String>,
}

impl File {
    /// Uses this folder, which is made where it is missing.
    ///
    /// # Errors
    /// Where the folder cannot be made or is no folder.
    pub fn at(folder: impl Into<PathBuf>) -> io::Result<File> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(File { folder, open: Mutex::default() })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        // The maps are only caches: whatever a panicking thread left in them is still true.
        self.open.lock()
    }

    fn reader(&self, name: &str) -> io::Result<Arc<fs::File>> {
        check_name(name)?;
        let mut open = self.open();
        if let Some(file) = open.readers.get(name) {
            return Ok(file.clone());
        }
        let file = Arc::new(fs::File::open(self.folder.join(name))?);
        if open.readers.len() >= OPEN_MAX {
            open.readers.clear();
        }
        open.readers.insert(name.to_string(), file.clone());
        Ok(file)
    }

    fn writer(&self, name: &str, create: bool) -> io::Result<Arc<fs::File>> {
        check_name(name)?;
        let mut open = self.open();
        if let Some(writer) = open.writers.get(name) {
            return Ok(writer.clone());
        }
        let file = fs::OpenOptions::new().append(true).create(create).open(self.folder.join(name))?;
        let writer = Arc::new(file);
        if open.writers.len() >= OPEN_MAX {
            open.writers.clear();
        }
        open.writers.insert(name.to_string(), writer.clone());
        Ok(writer)
    }

    fn close(&self, name: &str) {
        let mut open = self.open();
        open.readers.remove(name);
        open.writers.remove(name);
        open.listed.remove(name);
    }

    fn sync_folder(&self) -> io::Result<()> {
        fs::File::open(&self.folder)?.sync_all()
    }
}

impl Disk for File {
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let writer = self.writer(name, true)?;
        (&*writer).write_all(bytes)
    }

    fn read_at(&self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.reader(name)?;
        let mut count = 0;
        while count < into.len() {
            match file.read_at(&mut into[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn len(&self, name: &str) -> io::Result<Option<u64>> {
        check_name(name)?;
        match fs::metadata(self.folder.join(name)) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let writer = self.writer(name, false)?;
        if writer.metadata()?.len() > len {
            writer.set_len(len)?;
        }
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let writer = self.writer(name, false)?;
        writer.sync_data()?;
        // Whether an entry is new is not known after a restart, so the first sync always syncs the folder.
        if !self.open().listed.contains(name) {
            self.sync_folder()?;
            self.open().listed.insert(name.to_string());
        }
        Ok(())
    }

    fn drop_cache(&self, name: &str, upto: u64) {
        let (Ok(writer), Some(len)) = (self.writer(name, false), NonZeroU64::new(upto)) else { return };
        // Some file systems do not know the hint, and none needs it.
        let _ = rustix::fs::fadvise(&*writer, 0, Some(len), rustix::fs::Advice::DontNeed);
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.close(from);
        fs::rename(self.folder.join(from), self.folder.join(to))?;
        self.close(to);
        self.sync_folder()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        self.close(name);
        match fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // What is not a file, or not named in UTF-8, is not ours.
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}
