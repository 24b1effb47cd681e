//! What can go wrong with a shard.

use std::path::PathBuf;

/// Why a shard could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder holds an index that this version does not read.
    #[error(
        "the index in {dir} has format {found}, this version reads {wanted}; \
         move that folder away, and `farol up` builds the index anew from the stored pages"
    )]
    Format {
        /// The folder.
        dir: PathBuf,
        /// The number of its format, or `unknown`.
        found: String,
        /// The number that this version reads.
        wanted: u32,
    },
    /// Another process writes to this index.
    #[error("the index in {dir} is in use by another process")]
    Locked {
        /// The index's folder.
        dir: PathBuf,
    },
    /// Files of the index do not match their checksums, or are not what they should be.
    #[error("the index is damaged: {what}")]
    Damaged {
        /// What is wrong, for the message.
        what: String,
    },
    /// An earlier write failed; what is committed is safe, and writing goes on after opening the shard again.
    #[error("the index refuses writes after an earlier failure; open it again")]
    Poisoned,
    /// Reading or writing a file outside tantivy's own failed.
    #[error("{doing} {path}")]
    File {
        /// What failed, for the message: `could not read`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nobody waited for the answer any more, or its time was over.
    #[error("the search was given up after {pages} pages, because nobody waits for its answer any more")]
    GivenUp {
        /// Pages looked at until then.
        pages: u64,
    },
    /// Tantivy could not do something.
    #[error("the index could not {doing}")]
    Engine {
        /// What failed, for the message: `open a segment`.
        doing: &'static str,
        /// What tantivy said.
        source: Box<tantivy::TantivyError>,
    },
}

impl Error {
    /// Whether the folder holds the index of an earlier version, which can be built anew from the stored pages.
    pub fn is_earlier_format(&self) -> bool {
        matches!(self, Error::Format { found, wanted, .. } if found.parse::<u32>().is_ok_and(|found| found < *wanted))
    }

    /// Wraps what tantivy says, with what was being done.
    pub(crate) fn engine<E: Into<tantivy::TantivyError>>(doing: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::Engine { doing, source: Box::new(source.into()) }
    }
}
