//! Blobs as files of a folder: this machine's own, or one that all machines have mounted.
//!
//! INVARIANT: a file under a blob's name is whole. It is written and synced under another name, and renamed.

use super::{BlobError, Place, local};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Folder(PathBuf);

/// What begins so is being written; names of blobs never do.
const UNFINISHED: &str = ".new-";

impl Folder {
    pub fn open(path: &Path) -> Result<Folder, BlobError> {
        fs::create_dir_all(path).map_err(|error| {
            let path = path.display();
            BlobError::Location(format!(
                "there is no folder {path} for blobs: {error}; make it, or correct cluster.blobs"
            ))
        })?;
        Ok(Folder(path.to_path_buf()))
    }

    fn failed(&self, name: &str, done: &'static str, source: io::Error) -> BlobError {
        BlobError::Failed { name: name.to_string(), done, place: self.shown(), source }
    }

    fn write(&self, name: &str, from: &mut dyn Read) -> Result<(), BlobError> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        let unique = format!("{UNFINISHED}{}-{}", std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
        let unfinished = folder.join(unique);
        let written = fs::create_dir_all(folder).and_then(|()| {
            let mut file = File::create(&unfinished)?;
            io::copy(from, &mut file)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(folder)?.sync_all()
        });
        written.map_err(|source| {
            // It may not even have been made.
            let _ = fs::remove_file(&unfinished);
            self.failed(name, "written", source)
        })
    }

    fn read(&self, name: &str, into: &mut dyn Write) -> Result<(), BlobError> {
        let mut file = match File::open(self.0.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BlobError::Missing(name.to_string()));
            }
            Err(source) => return Err(self.failed(name, "read", source)),
        };
        io::copy(&mut file, into).map(drop).map_err(|source| self.failed(name, "read", source))
    }
}

impl Place for Folder {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.write(name, &mut &bytes[..])
    }

    fn put_file(&self, name: &str, from: &Path) -> Result<(), BlobError> {
        let mut file = File::open(from).map_err(|source| local(name, from, source))?;
        self.write(name, &mut file)
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, BlobError> {
        let mut bytes = Vec::new();
        self.read(name, &mut bytes).map(|()| bytes)
    }

    fn size(&self, name: &str) -> Result<u64, BlobError> {
        match fs::metadata(self.0.join(name)) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(BlobError::Missing(name.to_string()))
            }
            Err(source) => Err(self.failed(name, "read", source)),
        }
    }

    fn get_file(&self, name: &str, to: &Path) -> Result<(), BlobError> {
        let mut file = File::create(to).map_err(|source| local(name, to, source))?;
        self.read(name, &mut file)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, BlobError> {
        let (mut names, mut folders) = (Vec::new(), vec![folder.to_string()]);
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.0.join(&folder)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(self.failed(&folder, "listed", source)),
            };
            for entry in entries {
                let entry = entry.map_err(|source| self.failed(&folder, "listed", source))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(name),
                    _ => names.push(name),
                }
            }
        }
        Ok(names)
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(name, "removed", error)),
            _ => Ok(()),
        }
    }

    fn shown(&self) -> String {
        self.0.display().to_string()
    }
}
