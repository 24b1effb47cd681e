//! Writes the output of a compaction: one bucket file, or several where one would grow too large.

use super::merge::Compaction;
use crate::Error;
use crate::urls::veuni::bucket::{BucketFile, BucketId, BucketWriter};
use farol_base::HostHash;
use farol_base::disk::Disk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The output files of a compaction; a bucket is split between hosts.
pub struct SplitWriter {
    disk: Arc<dyn Disk>,
    id: BucketId,
    next_number: Arc<AtomicU32>,
    open: Option<BucketWriter>,
    done: Vec<Arc<BucketFile>>,
    /// Bytes and hosts at which the next file is begun.
    split_at: Option<(u64, u64)>,
    last_hash: HostHash,
}

impl SplitWriter {
    pub fn new(job: &Compaction) -> Result<SplitWriter, Error> {
        let old = job.old.as_ref().map_or((0, 0), |old| (old.bytes, old.totals.hosts));
        let (bytes, hosts) = (old.0 + job.run_bytes, old.1);
        let parts = (bytes / job.limits.bytes.max(1)).max(hosts / job.limits.hosts.max(1)) + 1;
        // Parts are made half full at least, so that they do not split again at once.
        let split_at = (parts > 1)
            .then(|| ((bytes / parts).max(job.limits.bytes / 2), (hosts / parts).max(job.limits.hosts / 2)));
        let open = Some(BucketWriter::create(job.disk.clone(), job.id)?);
        Ok(SplitWriter {
            disk: job.disk.clone(),
            id: job.id,
            next_number: job.next_number.clone(),
            open,
            done: Vec::new(),
            split_at,
            last_hash: job.id.from,
        })
    }

    /// The writer for a host: a new one where the last is full. Hosts of one hash stay together.
    pub fn writer(&mut self, hash: HostHash) -> Result<&mut BucketWriter, Error> {
        let full = self.split_at.is_some_and(|(bytes, hosts)| {
            self.open.as_ref().is_some_and(|open| open.bytes() >= bytes || open.hosts() >= hosts)
        });
        if (full && hash != self.last_hash) || self.open.is_none() {
            self.close()?;
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            let id = BucketId { number, generation: 0, from: hash, flushed_seqno: self.id.flushed_seqno };
            self.open = Some(BucketWriter::create(self.disk.clone(), id)?);
        }
        self.last_hash = hash;
        self.open.as_mut().ok_or(Error::Poisoned { store: "the URL store" })
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some(writer) = self.open.take() {
            let file = writer.file().to_string();
            let bucket = writer.finish().inspect_err(|_| {
                // What was written of it helps nobody.
                let _ = self.disk.remove(&file);
            })?;
            self.done.push(Arc::new(bucket));
        }
        Ok(())
    }

    /// Closes the last file. Where that or anything before it failed, nothing is left behind.
    pub fn finish(mut self, merged: Result<(), Error>) -> Result<Vec<Arc<BucketFile>>, Error> {
        match merged.and_then(|()| self.close()) {
            Ok(()) => Ok(self.done),
            Err(error) => {
                if let Some(writer) = self.open.take() {
                    writer.abandon();
                }
                for bucket in self.done {
                    // It is no part of the store; opening again would remove it as well.
                    let _ = self.disk.remove(&bucket.file);
                }
                Err(error)
            }
        }
    }
}
