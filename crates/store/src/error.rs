//! What can go wrong with the stores.

use std::io;

/// The system could not read from the medium.
const EIO: i32 = 5;

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot {action} {file}: {source}")]
    Io { action: &'static str, file: String, source: io::Error },
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged { file: String, offset: u64, what: String },
    #[error("{file} ends at byte {offset} in the middle of a page")]
    Torn { file: String, offset: u64 },
    #[error("there is no page at byte {offset} of {file}")]
    NoPage { file: String, offset: u64 },
    #[error("{file} is not a file of Farol's URL store; move it away or choose another folder")]
    NotOurs { file: String },
    #[error(
        "{file} has format version {found}, and this Farol reads version {known}; open it with the Farol that wrote it"
    )]
    Version { file: String, found: u32, known: u32 },
    #[error("a write to {store} failed earlier and could not be undone; close it and open it again")]
    Poisoned { store: &'static str },
}

impl Error {
    /// Whether the disk is full: nothing was lost, and the same call works once there is room.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Error::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Whether the same call may work later without anybody opening the store again.
    pub fn is_transient(&self) -> bool {
        self.is_disk_full()
            || matches!(self, Error::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut))
    }

    /// Whether a file is not as it was written, or gone: reading it again will not help, repairing what it belongs to does.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Damaged { .. } | Error::Torn { .. } | Error::NotOurs { .. } => true,
            Error::Io { source, .. } => {
                source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == Some(EIO)
            }
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, file: file.to_string(), source }
    }
}

/// A tail that a crash had left half-written, and that opening cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    /// The file's length now.
    pub offset: u64,
    /// Bytes that were cut off.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        let full = Error::io("append to", "x")(io::ErrorKind::StorageFull.into());
        let broken = Error::io("append to", "x")(io::Error::other("gone"));
        assert!(full.is_disk_full() && full.is_transient());
        assert!(!broken.is_disk_full() && !broken.is_transient());
        assert!(!Error::Poisoned { store: "the archive" }.is_transient());
        let gone = Error::io("read", "x")(io::ErrorKind::NotFound.into());
        let unreadable = Error::io("read", "x")(io::Error::from_raw_os_error(EIO));
        assert!(gone.is_damage() && unreadable.is_damage() && !full.is_damage() && !broken.is_damage());
    }
}
