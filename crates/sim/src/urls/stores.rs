//! The stores that are compared, by name.

use super::drum::{Drum, MergeRule};
use farol_base::disk::File;
use farol_store::Error;
use farol_store::urls::{Journal, JournalOptions, Naive, Verifier};
use std::path::Path;
use std::sync::Arc;

/// IRLbot's r as in the thesis: a merge when a bucket's keys have 100 MB. Merging needs 280 MB then.
const DRUM_BUCKET_BYTES: u64 = 100 << 20;

/// A store that can be compared.
#[derive(Clone, Copy, Debug)]
pub struct StoreKind {
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// Opens an empty one in a folder.
    pub open: fn(&Path) -> Result<Box<dyn Verifier>, Error>,
}

/// Everything that this crate can compare.
pub const STORES: &[StoreKind] = &[
    StoreKind { name: "drum", what: "DRUM, merged every cycle", open: drum },
    StoreKind { name: "drum-lazy", what: "DRUM, merged when a bucket has 100 MB of keys", open: drum_lazy },
    StoreKind { name: "journal", what: "Farol's store in memory with a journal", open: journal },
    StoreKind {
        name: "naive",
        what: "maps and scans in memory; small loads only",
        open: |_| Ok(Box::new(Naive::new())),
    },
];

fn drum(folder: &Path) -> Result<Box<dyn Verifier>, Error> {
    Ok(Box::new(Drum::new(folder, MergeRule::EveryFlush)?))
}

fn drum_lazy(folder: &Path) -> Result<Box<dyn Verifier>, Error> {
    Ok(Box::new(Drum::new(folder, MergeRule::BucketBytes(DRUM_BUCKET_BYTES))?))
}

fn journal(folder: &Path) -> Result<Box<dyn Verifier>, Error> {
    Ok(Box::new(Journal::open(disk(folder)?, JournalOptions::default())?.0))
}

/// A folder of the machine as stores want it.
pub(super) fn disk(folder: &Path) -> Result<Arc<File>, Error> {
    let failed = |source| Error::Io { action: "make", file: folder.display().to_string(), source };
    Ok(Arc::new(File::at(folder).map_err(failed)?))
}
