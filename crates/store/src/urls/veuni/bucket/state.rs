//! A bucket as the engine holds it: its file, its level-0 runs, its memtable, and what is being done to it.

use super::BucketFile;
use crate::Error;
use crate::urls::veuni::compaction::choose::BucketLoad;
use crate::urls::veuni::manifest::ManifestEntry;
use crate::urls::veuni::memtable::Memtable;
use crate::urls::veuni::run::Run;
use farol_base::{HostHash, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A file that is not as it was written, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    pub what: String,
    /// Hosts that stand still.
    pub hosts: u64,
    /// A repair has emptied the bucket: it waits to be filled again, and nothing more is wrong.
    pub is_emptied: bool,
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged { file: damage.file, offset: damage.offset, what: damage.what }
    }
}

impl Damage {
    /// What an error says of a file, unless it names another itself.
    pub fn of(error: Error, file: &str, hosts: u64) -> Damage {
        match error {
            Error::Damaged { file, offset, what } => Damage { file, offset, what, hosts, is_emptied: false },
            other => {
                let (file, what) = (file.to_string(), other.to_string());
                Damage { file, offset: 0, what, hosts, is_emptied: false }
            }
        }
    }
}

/// What a bucket has on disk besides its level-0 runs.
#[derive(Clone, Debug)]
pub enum BucketContent {
    /// Nothing was compacted into it yet.
    Empty,
    File(Arc<BucketFile>),
    /// There is a file that cannot be opened. It stays until the bucket is repaired.
    Unreadable,
}

/// What the background threads do to a bucket; a sealed memtable is on its way into a file.
///
/// INVARIANT: a sealed memtable stays here until its job has ended, for its entries are in no file before,
/// and the WAL keeps them only as long as some memtable has them.
#[derive(Debug)]
pub enum BucketState {
    Idle,
    Flushing(Arc<Memtable>),
    Compacting(Arc<Memtable>),
}

impl BucketState {
    /// The immutable memtable.
    pub fn sealed(&self) -> Option<&Arc<Memtable>> {
        match self {
            BucketState::Idle => None,
            BucketState::Flushing(sealed) | BucketState::Compacting(sealed) => Some(sealed),
        }
    }

    /// The job has ended: what it had.
    pub fn end(&mut self) -> Option<Arc<Memtable>> {
        match std::mem::replace(self, BucketState::Idle) {
            BucketState::Idle => None,
            BucketState::Flushing(sealed) | BucketState::Compacting(sealed) => Some(sealed),
        }
    }
}

/// When a bucket was compacted last, and how long that took: it is left alone for a multiple of it.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub since: Instant,
    pub took: Duration,
}

impl Backoff {
    pub fn from_now(took: Duration) -> Backoff {
        Backoff { since: Instant::now(), took }
    }
}

/// The hosts of one range of hashes.
///
/// Damage is beside [`BucketState`], not in it: a bucket whose file is damaged still flushes its memtable.
#[derive(Debug)]
pub struct Bucket {
    pub number: u32,
    /// Grows each time that the bucket is rewritten.
    pub generation: u64,
    /// Smallest hash that belongs here; the next bucket's is the first that does not.
    pub from: HostHash,
    pub content: BucketContent,
    /// It was emptied because it was damaged, and the caller is filling it again.
    pub is_rebuilding: bool,
    /// Batches of the WAL up to this one are in its files.
    pub flushed_seqno: u64,
    pub memtable: Memtable,
    /// Level-0 runs, the oldest first.
    pub runs: Vec<Run>,
    pub state: BucketState,
    pub damage: Option<Damage>,
    /// The caller's time at its last compaction.
    pub compacted_at: Timestamp,
    pub backoff: Backoff,
}

impl Bucket {
    pub fn new(number: u32, generation: u64, from: HostHash) -> Bucket {
        Bucket {
            number,
            generation,
            from,
            content: BucketContent::Empty,
            is_rebuilding: false,
            flushed_seqno: 0,
            memtable: Memtable::default(),
            runs: Vec::new(),
            state: BucketState::Idle,
            damage: None,
            compacted_at: Timestamp::EPOCH,
            backoff: Backoff::from_now(Duration::ZERO),
        }
    }

    /// Its line in the manifest.
    pub fn listed(&self) -> ManifestEntry {
        let Bucket { number, generation, from, is_rebuilding: rebuilding, .. } = *self;
        let has_file = !matches!(self.content, BucketContent::Empty);
        ManifestEntry { number, generation, from, has_file, rebuilding }
    }

    /// Number and generation.
    pub fn version(&self) -> (u32, u64) {
        (self.number, self.generation)
    }

    /// Its file, where it can be read.
    pub fn file(&self) -> Option<&Arc<BucketFile>> {
        match &self.content {
            BucketContent::File(file) => Some(file),
            BucketContent::Empty | BucketContent::Unreadable => None,
        }
    }

    /// The name of its file, whether there is one or not.
    pub fn file_name(&self) -> String {
        format!("block-{:06}-{:08}", self.number, self.generation)
    }

    /// Where level-0 runs for this generation of the bucket are stored.
    pub fn level0_file(&self) -> String {
        format!("pending-{:06}-{:08}", self.number, self.generation)
    }

    pub fn level0_bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    pub fn bytes(&self) -> u64 {
        self.file().map_or(0, |file| file.bytes)
    }

    pub fn known(&self) -> u64 {
        self.file().map_or(0, |file| file.totals.known)
    }

    pub fn hosts(&self) -> u64 {
        self.file().map_or(0, |file| file.totals.hosts)
    }

    /// Whether a background thread works on it.
    pub fn is_busy(&self) -> bool {
        self.state.sealed().is_some()
    }

    /// Whether there are deltas that must be merged before the bucket may be active: visits, tombstones.
    pub fn blocks_activation(&self) -> bool {
        let sealed = self.state.sealed().is_some_and(|memtable| memtable.blocks_activation());
        self.memtable.blocks_activation() || sealed || self.runs.iter().any(|run| run.blocks_activation)
    }

    /// Whether there are deltas that are not merged yet.
    pub fn has_pending(&self) -> bool {
        !self.memtable.is_empty() || !self.runs.is_empty() || self.state.sealed().is_some()
    }

    /// URLs that were written and are not merged yet, known or new. Runs know their bytes only: a URL takes some ten
    /// of them.
    pub fn unmerged(&self) -> u64 {
        let sealed = self.state.sealed().map_or(0, |memtable| memtable.len() as u64);
        self.memtable.len() as u64 + sealed + self.level0_bytes() / 10
    }

    /// What the choice of compactions goes by.
    pub fn load(&self) -> BucketLoad {
        BucketLoad {
            is_busy: self.is_busy(),
            is_damaged: self.damage.is_some(),
            entries: self.memtable.len() as u64,
            memtable_bytes: self.memtable.bytes(),
            sealed_bytes: self.state.sealed().map_or(0, |memtable| memtable.bytes()),
            has_runs: !self.runs.is_empty(),
            level0_bytes: self.level0_bytes(),
            known: self.known(),
            bytes: self.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_memtable_is_pending_until_its_job_ends() {
        let mut bucket = Bucket::new(1, 2, HostHash(0));
        bucket.memtable.delete_host("http://h");
        assert!(bucket.has_pending() && bucket.blocks_activation() && !bucket.is_busy());
        let sealed = Arc::new(bucket.memtable.take());
        bucket.state = BucketState::Flushing(sealed);
        assert!(bucket.has_pending() && bucket.blocks_activation() && bucket.is_busy());
        assert!(bucket.load().sealed_bytes > 0 && bucket.load().memtable_bytes == 0);
        let sealed = bucket.state.end();
        assert_eq!(sealed.and_then(Arc::into_inner).map(|memtable| memtable.len()), Some(1));
        assert!(!bucket.has_pending() && !bucket.is_busy() && bucket.state.end().is_none());
    }

    #[test]
    fn a_file_that_cannot_be_opened_stays_listed() {
        let mut bucket = Bucket::new(1, 2, HostHash(0));
        assert!(!bucket.listed().has_file);
        bucket.content = BucketContent::Unreadable;
        assert!(bucket.listed().has_file && bucket.file().is_none() && bucket.bytes() == 0);
        assert_eq!(bucket.file_name(), "block-000001-00000002");
    }
}
