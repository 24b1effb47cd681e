//! What can go wrong with the link store.

use std::io;
use std::path::{Path, PathBuf};

/// Why the link store could not do something.
///
/// Everything here is rebuilt from the archive of fetched pages if it is lost, so the way out of
/// [`Error::Damaged`] is to move the folder away and read the archive again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: &'static str },
    #[error("{} has format {found}, this program reads format {known}", path.display())]
    Format { path: PathBuf, found: u32, known: u32 },
    #[error("an earlier sync of {} failed, so nothing is promised until the link store is opened again", path.display())]
    Poisoned { path: PathBuf },
    #[error("the link store in {} has 65,535 segments and takes no more", path.display())]
    Full { path: PathBuf },
}

impl Error {
    /// Whether the same call can succeed later without opening the store again: the disk was full.
    pub fn is_transient(&self) -> bool {
        use io::ErrorKind::{Interrupted, QuotaExceeded, StorageFull};
        matches!(self, Error::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | Interrupted))
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, what: &'static str) -> Error {
        Error::Damaged { path: path.to_path_buf(), offset, what }
    }
}
