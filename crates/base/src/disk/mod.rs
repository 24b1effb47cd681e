//! Files as the stores see them: a small trait with a real, a remembered and a faulty implementation.
//!
//! A store owns one folder and names its files. It appends, reads anywhere, cuts a torn tail, and replaces
//! a file whole by renaming another one over it; nothing is ever overwritten in place. That little is enough
//! for logs, snapshots and WARC files, and little enough to be faked exactly:
//!
//! - [`File`]: a folder of the machine;
//! - [`Mem`]: remembered, for tests and simulations, with a power cut that loses what was not synced;
//! - [`Faulty`]: another disk that fails, tears or fills up at a chosen write.
//!
//! Promise of every implementation: what [`Disk::append`] took survives the end of the process; what was
//! there at [`Disk::sync`] survives a power cut. Does not lock the folder against a second process.

mod faulty;
mod file;
mod mem;

use std::fmt;
use std::io;

pub use faulty::Faulty;
pub use file::File;
pub use mem::Mem;

/// A folder of append-only files.
///
/// Names are plain file names: no separators, not empty, not `.` or `..`, at most 255 bytes.
///
/// ```
/// use farol_base::disk::{Disk, Mem};
/// let disk = Mem::new();
/// disk.append("log", b"one ")?;
/// disk.append("log", b"two")?;
/// let mut tail = [0; 8];
/// let count = disk.read_at("log", 4, &mut tail)?;
/// assert_eq!(&tail[..count], b"two");
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Disk: Send + Sync + fmt::Debug {
    /// Adds bytes to the end of a file, which is made where it is missing.
    ///
    /// # Errors
    /// After an error any part of the bytes, from none to all, may stand at the end of the file; whoever
    /// called cuts it off with [`Disk::truncate`]. A full disk is [`io::ErrorKind::StorageFull`].
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Reads from a byte offset until `into` is full or the file ends, and says how much was read.
    fn read_at(&self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Size of a file in bytes; `None` where there is no such file.
    fn len(&self, name: &str) -> io::Result<Option<u64>>;

    /// Cuts a file to a length; one that is not longer stays as it is.
    fn truncate(&self, name: &str, len: u64) -> io::Result<()>;

    /// Returns when the file, as it is now, would survive a power cut.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Drops a file's bytes before `upto` from the page cache, where they are written. Only a hint: they can be read as before.
    fn drop_cache(&self, _name: &str, _upto: u64) {}

    /// Gives a file another name, replacing what had it. Whatever happens, `to` is the old or the new file
    /// whole, and the new one survives a power cut once this returns (its bytes too, if they were synced).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; one that is not there is no error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Bytes that can still be written.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// Refuses names that would leave the folder.
fn check_name(name: &str) -> io::Result<()> {
    let plain = !name.is_empty() && name.len() <= 255 && name != "." && name != "..";
    if plain && !name.contains(['/', '\\', '\0']) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a plain file name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// What every disk must do, told once.
    fn check(disk: &dyn Disk) {
        let read = |name: &str, offset: u64| {
            let mut into = [0; 16];
            disk.read_at(name, offset, &mut into).map(|count| into[..count].to_vec())
        };
        assert_eq!(disk.len("a").unwrap(), None);
        assert_eq!(read("a", 0).unwrap_err().kind(), io::ErrorKind::NotFound);
        disk.append("a", b"hello").unwrap();
        disk.append("a", b" world").unwrap();
        assert_eq!(disk.len("a").unwrap(), Some(11));
        assert_eq!(read("a", 6).unwrap(), b"world");
        assert_eq!(read("a", 11).unwrap(), b"");
        assert_eq!(read("a", 99).unwrap(), b"");
        disk.truncate("a", 5).unwrap();
        disk.truncate("a", 50).unwrap();
        disk.append("a", b"!").unwrap();
        assert_eq!(read("a", 0).unwrap(), b"hello!");
        disk.sync("a").unwrap();
        disk.drop_cache("a", 4);
        disk.drop_cache("nowhere", 4);
        assert_eq!(read("a", 0).unwrap(), b"hello!");
        disk.append("b", b"new").unwrap();
        disk.rename("b", "a").unwrap();
        assert_eq!(read("a", 0).unwrap(), b"new");
        disk.append("a", b"er").unwrap();
        assert_eq!(read("a", 0).unwrap(), b"newer");
        disk.append("c", b"").unwrap();
        assert_eq!(disk.list().unwrap(), ["a", "c"]);
        disk.remove("c").unwrap();
        disk.remove("c").unwrap();
        assert_eq!(disk.list().unwrap(), ["a"]);
        assert!(disk.free_bytes().unwrap() > 0);
        for name in ["", ".", "..", "x/y", "\0"] {
            assert_eq!(disk.append(name, b"x").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn all_disks_agree() {
        let folder = tempfile::tempdir().unwrap();
        check(&File::at(folder.path().join("made")).unwrap());
        check(&Mem::new());
        check(&Faulty::new(Arc::new(Mem::new())));
    }
}
