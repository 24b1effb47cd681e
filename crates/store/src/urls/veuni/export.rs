//! Everything that is known of some hosts, read while the store goes on.
//!
//! What is on disk is pinned and read later, wherever that is; what is in memory of these hosts is copied at once. So a
//! crawl need not wait for an export, however large the host is.
//!
//! INVARIANT: as a compaction, it has of one host in memory at a time its deltas, its pre-scheduled URLs and one block.
//! URLs in flight, and pages that wait until they are due, are in the bucket, the runs, or the memtable as well: they are
//! handed over as they were when they were drawn, or visited last.

use super::bucket::{BucketFile, Cursor, EntryError};
use super::compaction::delta::HostDelta;
use super::compaction::entry_buf::EntryBuf;
use super::compaction::join::{load_range, merge_ordered};
use super::compaction::obsolete_files::Pins;
use super::engine::Engine;
use super::memtable::Memtable;
use super::path_text;
use super::run::{Run, RunReader};
use crate::Error;
use crate::urls::{Export, Record};
use farol_base::disk::Disk;
use farol_base::{Host, HostHash, Timestamp};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What is known of some hosts, as of one moment.
pub struct HostExport {
    disk: Arc<dyn Disk>,
    parts: Vec<BucketPart>,
    _pins: Pins,
}

/// What one bucket has of its hosts.
struct BucketPart {
    /// In the order of their hashes.
    hosts: Vec<Host>,
    file: Option<Arc<BucketFile>>,
    level0: String,
    runs: Vec<Run>,
    /// Their entries of the sealed memtable and of the open one.
    memtable: Memtable,
}

impl Engine {
    /// What is known of some hosts now.
    pub fn export(&self, hosts: &[Host]) -> Result<HostExport, Error> {
        let mut by_bucket: BTreeMap<usize, Vec<Host>> = BTreeMap::new();
        for host in hosts {
            by_bucket.entry(self.bucket_of(host.hash())).or_default().push(host.clone());
        }
        let (mut parts, mut files) = (Vec::with_capacity(by_bucket.len()), Vec::new());
        for (at, mut hosts) in by_bucket {
            let bucket = &self.buckets[at];
            if let Some(damage) = &bucket.damage {
                return Err(damage.clone().into());
            }
            hosts.sort_by(|a, b| (a.hash(), a.as_str()).cmp(&(b.hash(), b.as_str())));
            hosts.dedup();
            let names: HashSet<&[u8]> = hosts.iter().map(|host| host.as_str().as_bytes()).collect();
            let mut memtable = Memtable::default();
            let sealed = bucket.state.sealed().map(|memtable| &**memtable);
            for entries in sealed.into_iter().chain([&bucket.memtable]) {
                entries.copy_hosts(|host| names.contains(host), &mut memtable);
            }
            files.extend(bucket.file().map(|file| file.file.clone()));
            if !bucket.runs.is_empty() {
                files.push(bucket.level0_file());
            }
            let (file, level0, runs) = (bucket.file().cloned(), bucket.level0_file(), bucket.runs.clone());
            parts.push(BucketPart { hosts, file, level0, runs, memtable });
        }
        Ok(HostExport { disk: self.disk.clone(), parts, _pins: self.obsolete_files.pin(files) })
    }
}

impl Export for HostExport {
    fn walk(
        self: Box<Self>,
        take: &mut dyn FnMut(&Host, &str, &Record) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let HostExport { disk, parts, _pins } = *self;
        let mut buffers = Buffers::default();
        for part in parts {
            if part.walk(&disk, &mut buffers, take)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Buffers for one host.
#[derive(Default)]
struct Buffers {
    delta: HostDelta,
    taken: Vec<bool>,
    loaded: EntryBuf,
    visits: Vec<u8>,
}

/// Takes each URL of a host.
type TakeUrl<'a> = &'a mut dyn FnMut(&Host, &str, &Record) -> ControlFlow<()>;

impl BucketPart {
    fn walk(
        mut self,
        disk: &Arc<dyn Disk>,
        buffers: &mut Buffers,
        take: TakeUrl<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let mut in_memory = RunReader::memtable(Arc::new(std::mem::take(&mut self.memtable)));
        // As in a compaction: one for the remaining URLs, one for those that are loaded before.
        let cursor = |ahead| self.file.as_ref().map(|file| file.cursor(ahead));
        let mut cursors = (cursor(256 << 10), cursor(64 << 10));
        for host in &self.hosts {
            let (hash, name) = (host.hash(), host.as_str());
            buffers.delta.clear();
            for run in &self.runs {
                let mut run = RunReader::file(disk.clone(), &self.level0, run.blocks_of(hash))?;
                while let Some((next, found)) = run.peek()
                    && next <= hash
                {
                    let is_it = (next, found) == (hash, name);
                    let mut other = HostDelta::default();
                    run.read_host(if is_it { &mut buffers.delta } else { &mut other })?;
                }
            }
            if in_memory.peek() == Some((hash, name)) {
                in_memory.read_host(&mut buffers.delta)?;
            }
            buffers.delta.sort();
            if self.walk_host(host, hash, &mut cursors, buffers, take)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn walk_host(
        &self,
        host: &Host,
        hash: HostHash,
        (remaining, others): &mut (Option<Cursor>, Option<Cursor>),
        Buffers { delta, taken, loaded, visits }: &mut Buffers,
        take: TakeUrl<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let file = self.file.as_ref().filter(|_| !delta.tombstone);
        let meta = file.map(|file| file.host_meta(hash, host.as_str())).transpose()?.flatten();
        let (rest, prescheduled) =
            meta.map(|(_, meta)| (meta.remaining, meta.prescheduled)).unwrap_or_default();
        load_range(others, &prescheduled, delta, (&mut *loaded, &mut *taken), visits, Timestamp::EPOCH)?;
        let mut flow = ControlFlow::Continue(());
        let sources = (&mut *remaining, &rest, &*loaded, &*delta, &taken[..]);
        let merged = merge_ordered(sources, visits, &mut |entry, _| {
            flow = take(host, path_text(entry.path), &entry.record()?);
            if flow.is_break() { Err(EntryError::Undecodable("broken off")) } else { Ok(()) }
        });
        match (merged, flow) {
            (_, ControlFlow::Break(())) => Ok(flow),
            (Ok(()), _) => Ok(flow),
            (Err(error), _) => Err(match remaining {
                Some(cursor) => cursor.locate(error),
                None => error.in_memory(),
            }),
        }
    }
}
