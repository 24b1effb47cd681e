//! Large files that all nodes reach: snapshots of the index, and whatever is too large for a log.
//!
//! A blob has a name like a path and is written whole: who reads it finds the old one, the new one, or none. Names are
//! chosen so that a blob is written once; to write the same name again replaces it, so that an upload whose outcome
//! nobody knows can be done again. Blocking, as the fabric is.

mod folder;
#[cfg(feature = "s3")]
mod s3;

use folder::Folder;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a blob was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    #[error(
        "{0:?} is no name of a blob; use parts of letters, digits, '-', '_' and '.' with '/' between them"
    )]
    Name(String),
    #[error("there is no blob {0}")]
    Missing(String),
    #[error("blob {name} cannot be {done} in {place}: {source}{hint}", hint = hint(source))]
    Failed { name: String, done: &'static str, place: String, source: io::Error },
    #[error("{0}")]
    Location(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room there",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => "; let this node write there",
        _ => "",
    }
}

/// A place for blobs.
pub struct Blobs {
    place: Box<dyn Place>,
}

/// What stores blobs. Names were checked before.
trait Place: Send + Sync {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError>;
    fn put_file(&self, name: &str, from: &Path) -> Result<(), BlobError>;
    fn get(&self, name: &str) -> Result<Vec<u8>, BlobError>;
    fn size(&self, name: &str) -> Result<u64, BlobError>;
    fn get_file(&self, name: &str, to: &Path) -> Result<(), BlobError>;
    /// Those in a folder of blobs and below, in any order; all where it is empty.
    fn list(&self, folder: &str) -> Result<Vec<String>, BlobError>;
    fn delete(&self, name: &str) -> Result<(), BlobError>;
    /// For people.
    fn shown(&self) -> String;
}

impl Blobs {
    /// Blobs at `DIR`, which is made where it is missing, or at `s3://BUCKET/FOLDER` where this was built with the feature
    /// `s3`. Where S3 is and who one is there stands in the environment: `AWS_ENDPOINT`, `AWS_REGION`,
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ALLOW_HTTP`.
    ///
    /// # Errors
    ///
    /// Where there is no such place.
    pub fn open(location: &str) -> Result<Blobs, BlobError> {
        let place: Box<dyn Place> = match location.split_once("://") {
            #[cfg(feature = "s3")]
            Some(("s3", bucket)) => Box::new(s3::S3::open(bucket)?),
            #[cfg(not(feature = "s3"))]
            Some(("s3", _)) => {
                let why =
                    "this program was built without S3: build it with `--features s3`, or name a folder";
                return Err(BlobError::Location(format!("{location} cannot be used: {why}")));
            }
            Some(_) => {
                let why = "is neither a folder nor s3://BUCKET/FOLDER; correct cluster.blobs";
                return Err(BlobError::Location(format!("{location} {why}")));
            }
            None => Box::new(Folder::open(Path::new(location))?),
        };
        Ok(Blobs { place })
    }

    /// Writes a blob.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.place.put(checked(name)?, bytes)
    }

    /// Writes a blob from a file.
    pub fn put_file(&self, name: &str, from: &Path) -> Result<(), BlobError> {
        self.place.put_file(checked(name)?, from)
    }

    /// Reads a blob whole.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, BlobError> {
        self.place.get(checked(name)?)
    }

    /// Reads a blob whole, where it is not larger than `max` bytes: for blobs that others wrote.
    pub fn get_at_most(&self, name: &str, max: u64) -> Result<Vec<u8>, BlobError> {
        let size = self.place.size(checked(name)?)?;
        if size > max {
            let source =
                io::Error::new(io::ErrorKind::InvalidData, format!("it has {size} bytes, {max} are allowed"));
            let place = self.place.shown();
            return Err(BlobError::Failed { name: name.to_string(), done: "read", place, source });
        }
        self.get(name)
    }

    /// Reads a blob into a new file, which survives a power cut then. Where it fails, what is there of it is removed.
    pub fn get_file(&self, name: &str, to: &Path) -> Result<(), BlobError> {
        let name = checked(name)?;
        let synced = || File::open(to)?.sync_all();
        let written = self.place.get_file(name, to);
        let written = written.and_then(|()| synced().map_err(|source| local(name, to, source)));
        if written.is_err() {
            // The failure itself is what matters; a rest is overwritten the next time.
            let _ = fs::remove_file(to);
        }
        written
    }

    /// Names of all blobs that begin with `prefix`, sorted.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let (folder, _) = prefix.rsplit_once('/').unwrap_or_default();
        if !folder.is_empty() {
            checked(folder)?;
        }
        let mut names = self.place.list(folder)?;
        names.retain(|name| name.starts_with(prefix) && checked(name).is_ok());
        names.sort();
        Ok(names)
    }

    /// Removes a blob; one that is not there is no error.
    pub fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.place.delete(checked(name)?)
    }

    /// Writes a blob, reads it and removes it: whether all works.
    pub fn probe(&self) -> Result<(), BlobError> {
        static PROBES: AtomicU64 = AtomicU64::new(0);
        let number = PROBES.fetch_add(1, Ordering::Relaxed);
        let name = format!("probe/{}-{number}", std::process::id());
        self.put(&name, name.as_bytes())?;
        let read = self.get(&name);
        self.delete(&name)?;
        if read? == name.as_bytes() {
            return Ok(());
        }
        let source = io::Error::new(io::ErrorKind::InvalidData, "it is not what was written");
        Err(BlobError::Failed { name, done: "read", place: self.place.shown(), source })
    }
}

fn local(name: &str, path: &Path, source: io::Error) -> BlobError {
    BlobError::Failed { name: name.to_string(), done: "copied", place: path.display().to_string(), source }
}

/// Refuses names that would leave the place, or that some place could not store.
fn checked(name: &str) -> Result<&str, BlobError> {
    let is_fine = |part: &str| {
        !part.is_empty()
            && part.len() <= 200
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    if name.len() <= 800 && name.split('/').all(is_fine) {
        Ok(name)
    } else {
        Err(BlobError::Name(name.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Blobs) {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path().join("blobs").to_str().unwrap()).unwrap();
        (folder, blobs)
    }

    #[test]
    fn a_blob_is_written_read_listed_and_removed() {
        let (folder, blobs) = place();
        check(&blobs, folder.path());
    }

    /// What every place must do.
    pub(super) fn check(blobs: &Blobs, here: &Path) {
        blobs.probe().unwrap();
        assert_eq!(blobs.list("").unwrap(), [""; 0], "a probe leaves nothing");
        blobs.put("index/1/a.bin", b"one").unwrap();
        blobs.put("index/1/a.bin", b"two").unwrap();
        blobs.put("index/10/b", b"").unwrap();
        assert_eq!(blobs.get("index/1/a.bin").unwrap(), b"two", "the last write counts");
        assert!(matches!(blobs.get("index/1/none"), Err(BlobError::Missing(name)) if name == "index/1/none"));
        assert_eq!(blobs.list("index/1/").unwrap(), ["index/1/a.bin"]);
        assert_eq!(blobs.list("index/1").unwrap(), ["index/1/a.bin", "index/10/b"]);
        assert_eq!(blobs.list("none/").unwrap(), [""; 0]);
        let (from, to) = (here.join("from"), here.join("to"));
        fs::write(&from, vec![7; 100_000]).unwrap();
        blobs.put_file("large", &from).unwrap();
        blobs.get_file("large", &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), vec![7; 100_000]);
        assert!(blobs.get_file("none", &here.join("not")).is_err() && !here.join("not").exists());
        assert!(blobs.put_file("x", &here.join("nowhere")).is_err());
        blobs.delete("index/1/a.bin").unwrap();
        blobs.delete("index/1/a.bin").unwrap();
        assert_eq!(blobs.list("").unwrap(), ["index/10/b", "large"]);
    }

    #[test]
    fn names_stay_in_their_place() {
        let (_folder, blobs) = place();
        assert_eq!(blobs.list("x").unwrap(), [""; 0]);
        for wrong in ["", "/a", "a/", "a//b", "..", "a/../b", ".new-1", "a b", "ä", &"x".repeat(201)] {
            assert!(matches!(blobs.put(wrong, b"x"), Err(BlobError::Name(_))), "{wrong:?}");
        }
        assert!(blobs.list("../x").is_err());
    }

    #[test]
    fn what_is_being_written_is_not_seen() {
        let (folder, blobs) = place();
        fs::write(folder.path().join("blobs").join(".new-1-1"), b"half").unwrap();
        assert_eq!(blobs.list("").unwrap(), [""; 0]);
    }

    #[test]
    fn a_place_that_takes_nothing_says_what_to_do() {
        let (folder, blobs) = place();
        // A file where a folder should be, which root cannot write through either.
        fs::write(folder.path().join("blobs/index"), b"").unwrap();
        let error = blobs.put("index/1/a", b"x").unwrap_err().to_string();
        assert!(error.contains("index/1/a cannot be written") && error.contains("blobs"), "{error}");
        let full = BlobError::Failed {
            name: "a".to_string(),
            done: "written",
            place: "b".to_string(),
            source: io::ErrorKind::StorageFull.into(),
        };
        assert!(full.to_string().ends_with("make room there"), "{full}");
        let error =
            Blobs::open(folder.path().join("blobs/index").to_str().unwrap()).err().unwrap().to_string();
        assert!(error.contains("correct cluster.blobs"), "{error}");
    }
}
