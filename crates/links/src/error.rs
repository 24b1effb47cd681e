//! What can go wrong with the link store.

use std::io;

/// Why the link store could not do something.
///
/// Everything here is rebuilt from the archive of fetched pages if it is lost, so the way out of
/// [`Error::Damaged`] is to move the folder away and read the archive again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot {action} {file}")]
    Io { action: &'static str, file: String, source: io::Error },
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged { file: String, offset: u64, what: &'static str },
    #[error("{file} has format {found}, this program reads format {known}")]
    Format { file: String, found: u32, known: u32 },
    #[error("an earlier sync of {file} failed, so nothing is promised until the link store is opened again")]
    Poisoned { file: String },
    #[error("the link store has 65,535 segments and takes no more")]
    Full,
}

impl Error {
    /// Whether the same call can succeed later without opening the store again: the disk was full.
    pub fn is_transient(&self) -> bool {
        use io::ErrorKind::{Interrupted, QuotaExceeded, StorageFull};
        matches!(self, Error::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | Interrupted))
    }

    pub(crate) fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, file: file.to_string(), source }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: &'static str) -> Error {
        Error::Damaged { file: file.to_string(), offset, what }
    }
}
