//! Empties damaged buckets, so that they can be filled again from the archive.
//!
//! Deltas of such a bucket that are not damaged stay, but for visits that the archive has: replaying the
//! archive brings those again, and each must count once.

use super::bucket::Bucket;
use super::compaction::delta::HostDelta;
use super::engine::{BucketListener, Engine};
use super::manifest::{self, ManifestEntry};
use super::memtable::{Event, Memtable};
use super::run::{RunReader, write_run};
use crate::Error;
use crate::urls::VisitOutcome;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Empties buckets whose files are damaged; returns their ranges of host hashes.
    pub fn empty_damaged(
        &mut self,
        listener: &mut dyn BucketListener,
    ) -> Result<Vec<RangeInclusive<u64>>, Error> {
        self.flush(listener)?;
        while self.wait_for_job(listener) {}
        let mut ranges = Vec::new();
        for at in 0..self.buckets.len() {
            if self.buckets[at].damage.is_some() {
                let last = self.buckets.get(at + 1).map_or(u64::MAX, |next| next.from.0 - 1);
                ranges.push(self.buckets[at].from.0..=last);
                let emptied = self.empty_bucket(at);
                listener.emptied(self.buckets[at].number);
                emptied?;
            }
        }
        Ok(ranges)
    }

    /// Buckets that were emptied are whole again. Until then a store that is opened counts them as damaged.
    pub fn end_rebuilding(&mut self) -> Result<(), Error> {
        let mut list: Vec<ManifestEntry> = self.buckets.iter().map(Bucket::listed).collect();
        list.iter_mut().for_each(|listed| listed.rebuilding = false);
        manifest::write(&*self.disk, &list, self.next_number.load(Ordering::Relaxed))?;
        self.buckets.iter_mut().for_each(|bucket| bucket.is_rebuilding = false);
        Ok(())
    }

    fn empty_bucket(&mut self, at: usize) -> Result<(), Error> {
        self.seen_cache.clear();
        let bucket = &self.buckets[at];
        let mut kept = Memtable::default();
        for run in &bucket.runs {
            let whole = RunReader::file(self.disk.clone(), &bucket.level0_file(), run.blocks())
                .and_then(|mut reader| keep(&mut reader, &mut kept));
            if let Err(error) = whole {
                tracing::warn!(error = %error, "what followed the damage is read from the archive again");
                break;
            }
        }
        let mut buffered = Memtable::default();
        buffered.extend(&bucket.memtable);
        keep(&mut RunReader::memtable(Arc::new(buffered)), &mut kept)?;
        let flushed_seqno = self.wal.next_seqno - 1;
        let mut fresh = Bucket::new(bucket.number, bucket.generation + 1, bucket.from);
        fresh.flushed_seqno = flushed_seqno;
        fresh.is_rebuilding = true;
        if !kept.is_empty() {
            fresh.runs.push(write_run(&*self.disk, &fresh.level0_file(), &kept, flushed_seqno, 0)?);
        }
        let files = [bucket.file_name(), bucket.level0_file()];
        self.buckets[at] = fresh;
        let list: Vec<ManifestEntry> = self.buckets.iter().map(Bucket::listed).collect();
        manifest::write(&*self.disk, &list, self.next_number.load(Ordering::Relaxed))?;
        files.into_iter().for_each(|file| self.obsolete_files.remove(file, None));
        self.obsolete_files.wait();
        Ok(())
    }
}

/// Copies the deltas of a run, but for visits that are in the archive.
fn keep(reader: &mut RunReader, into: &mut Memtable) -> Result<(), Error> {
    into.in_batch(0);
    while let Some((_, host)) = reader.peek() {
        let host = host.to_string();
        let mut delta = HostDelta::default();
        reader.read_host(&mut delta)?;
        if delta.tombstone {
            into.delete_host(&host);
        }
        for at in 0..delta.len() {
            let entry = delta.get(at);
            let Ok(path) = std::str::from_utf8(entry.path) else { continue };
            if entry.depth != u16::MAX {
                into.found(&host, path, entry.depth, None);
            }
            for event in entry.events {
                match event {
                    Event::Hint(hint) => into.found(&host, path, u16::MAX, Some(*hint)),
                    // No archive of ours has it.
                    Event::Merge(record) => into.imported(&host, path, record),
                    Event::Visit(visit) => match visit.outcome {
                        VisitOutcome::Failed | VisitOutcome::Refused | VisitOutcome::OutOfScope => {
                            into.visited(&host, path, visit);
                        }
                        VisitOutcome::Page
                        | VisitOutcome::Unchanged
                        | VisitOutcome::Redirect
                        | VisitOutcome::Gone => {}
                    },
                }
            }
        }
    }
    Ok(())
}
