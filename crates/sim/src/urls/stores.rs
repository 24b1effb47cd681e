//! The stores that are compared, by name.

use super::central::Central;
use super::drum::{Drum, MergeRule};
use super::exact::{Verdict, exact};
use super::experiment::RunLength;
use super::mercator::Mercator;
use farol_base::disk::File;
use farol_store::Error;
use farol_store::urls::{Naive, Verifier, Veuni, VeuniOptions};
use std::path::Path;
use std::sync::Arc;

/// IRLbot's r as in [Henrique11 ch. 4]: a merge when a bucket's keys have 100 MB. Merging needs 280 MB then.
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
    StoreKind { name: "veuni", what: "Farol's store on disk", open: |folder| Ok(Box::new(veuni(folder)?)) },
    StoreKind { name: "drum", what: "DRUM, merged every cycle", open: drum },
    StoreKind { name: "drum-lazy", what: "DRUM, merged when a bucket has 100 MB of keys", open: drum_lazy },
    StoreKind {
        name: "mercator",
        what: "one sorted file of URLs, merged every cycle",
        open: |folder| Ok(Box::new(Mercator::new(folder)?)),
    },
    StoreKind {
        name: "central",
        what: "one repository with hosts in order, rewritten every cycle",
        open: |folder| Ok(Box::new(Central::new(folder)?)),
    },
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

/// With memory within a GiB in all, both cores of a small machine, and a thread for while others wait for the disk.
pub(super) fn veuni(folder: &Path) -> Result<Veuni, Error> {
    let options = VeuniOptions { memtable_bytes: 256 << 20, threads: 3, ..VeuniOptions::default() };
    Ok(Veuni::open(disk(folder)?, options)?.0)
}

/// Runs a store by name beside an exact model; only stores that can be asked for a URL can be judged.
pub(super) fn judge(name: &str, folder: &Path, run: &RunLength) -> Result<Verdict, crate::Error> {
    match name {
        "veuni" => exact(veuni, folder, run),
        _ => Err(crate::Error::NoStore { name: name.to_string(), known: "veuni".to_string() }),
    }
}

/// A folder of the machine as stores want it.
fn disk(folder: &Path) -> Result<Arc<File>, Error> {
    let failed = |source| Error::Io { action: "make", file: folder.display().to_string(), source };
    Ok(Arc::new(File::at(folder).map_err(failed)?))
}
