//! Opens a store: which files are there, and what the log has beyond them.

use super::bucket::BucketFile;
use super::bucket_index::BucketIndex;
use super::compaction::obsolete_files::ObsoleteFiles;
use super::compaction::scheduler::memtable_bytes_max;
use super::compaction::workers::Workers;
use super::dispatch::due_queue::DueQueue;
use super::dispatch::in_flight::InFlight;
use super::lookup::Damage;
use super::memtable::Memtable;
use super::memtable::chunk_pool::ChunkPool;
use super::run::{Level0File, runs_of};
use super::seen_cache::SeenCache;
use super::wal::{Wal, WalOp};
use super::{Bucket, Veuni, VeuniOptions, manifest};
use crate::{Cut, Error};
use farol_base::HostHash;
use farol_base::Timestamp;
use farol_base::disk::Disk;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

impl Veuni {
    /// Opens the store of a folder, or begins one.
    ///
    /// Answers also with the tail of the log that was cut off, where a crash had left one. A bucket that cannot be read
    /// does not keep the store from opening; [`Veuni::damage`] tells of it.
    ///
    /// # Errors
    /// Where the list of buckets or the log cannot be read, are not ours, or are damaged anywhere but at the end.
    pub fn open(disk: Arc<dyn Disk>, options: VeuniOptions) -> Result<(Veuni, Option<Cut>), Error> {
        let (listed, next) = manifest::read(&*disk)?;
        let (mut buckets, chunk_pool) = (
            Vec::with_capacity(listed.len()),
            ChunkPool::with_limit(memtable_bytes_max(options.memtable_bytes)),
        );
        let mut needed: HashSet<String> = HashSet::new();
        for listed in &listed {
            let mut bucket = Bucket::new(listed.number, listed.generation, listed.from);
            bucket.memtable = Memtable::new(chunk_pool.clone());
            let pending = bucket.level0_file();
            bucket.has_file = listed.has_file;
            if listed.has_file {
                let name = format!("block-{:06}-{:08}", listed.number, listed.generation);
                needed.insert(name.clone());
                match BucketFile::open(disk.clone(), &name) {
                    Ok(file) => {
                        bucket.flushed_seqno = file.id.flushed_seqno;
                        bucket.file = Some(Arc::new(file));
                    }
                    Err(error) => bucket.damage = Some(super::lookup::damage_of(error, &name, 0)),
                }
            }
            if listed.rebuilding && bucket.damage.is_none() {
                let hosts = bucket.file.as_ref().map_or(0, |file| file.totals.hosts);
                let (file, what) = (bucket.level0_file(), "a repair was not finished".to_string());
                bucket.damage = Some(Damage { file, offset: 0, what, hosts });
            }
            needed.insert(pending.clone());
            let Level0File { runs, torn, damaged } = runs_of(&disk, &pending)?;
            if let Some(end) = torn {
                disk.truncate(&pending, end).map_err(Error::io("cut", &pending))?;
            }
            if let Some((offset, what)) = damaged {
                let hosts = bucket.file.as_ref().map_or(0, |file| file.totals.hosts);
                bucket.damage = Some(Damage { file: pending, offset, what: what.to_string(), hosts });
            }
            bucket.flushed_seqno =
                runs.last().map_or(bucket.flushed_seqno, |run| bucket.flushed_seqno.max(run.flushed_seqno));
            bucket.runs = runs;
            buckets.push(bucket);
        }
        remove_orphans(&*disk, &needed)?;
        let jobs = Workers::new(options.threads);
        let obsolete_files = ObsoleteFiles::new(disk.clone(), options.threads > 0);
        let seen_cache = SeenCache::new(options.seen_cache);
        // What the log has goes into the memtables of a store that is whole but for its log.
        let empty = Wal::open(Arc::new(farol_base::disk::Mem::new()), &mut |_, _| Ok(()))?.0;
        let mut store = Veuni {
            disk: disk.clone(),
            options,
            wal: empty,
            buckets,
            chunk_pool,
            bucket_index: BucketIndex::default(),
            next_number: Arc::new(AtomicU32::new(next)),
            jobs,
            obsolete_files,
            in_flight: InFlight::default(),
            due_queue: DueQueue::default(),
            leased_hosts: HashSet::default(),
            newly_ready: HashSet::new(),
            last_limit: 1,
            last_activated: 0,
            now: Timestamp::EPOCH,
            seen_cache,
            last_error: None,
        };
        store.rebuild_bucket_index();
        let mut host = String::new();
        let (wal, cut) = Wal::open(disk, &mut |batch, op| {
            store.replay(batch, op, &mut host);
            Ok(())
        })?;
        let flushed_seqno = store.buckets.iter().map(|bucket| bucket.flushed_seqno).max().unwrap_or(0);
        store.wal = wal;
        // Batches whose files of the log are gone have had their numbers.
        store.wal.next_seqno = store.wal.next_seqno.max(flushed_seqno + 1);
        Ok((store, cut))
    }

    /// Notes again what a bucket's files do not have.
    fn replay(&mut self, batch: u64, op: WalOp<'_>, host: &mut String) {
        if let WalOp::Host(name) = op {
            name.clone_into(host);
            return;
        }
        if batch <= self.buckets[self.bucket_of(HostHash::of(host))].flushed_seqno {
            return;
        }
        match op {
            WalOp::Found { path, depth } => self.memtable_of(host, batch).found(host, path, depth, None),
            WalOp::Hint { path, depth, at } => {
                self.memtable_of(host, batch).found(host, path, depth, Some(at))
            }
            WalOp::Visit { path, visit } => self.memtable_of(host, batch).visited(host, path, &visit),
            WalOp::DeleteHost => self.memtable_of(host, batch).delete_host(host),
            WalOp::Host(_) | WalOp::Mark(_) => {}
        }
    }
}

/// Removes files that a crash left: those that no list names.
fn remove_orphans(disk: &dyn Disk, needed: &HashSet<String>) -> Result<(), Error> {
    let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
    for name in names {
        let is_ours = name.starts_with("block-") || name.starts_with("pending-") || name == "blocks.new";
        if is_ours && !needed.contains(&name) {
            disk.remove(&name).map_err(Error::io("remove", &name))?;
        }
    }
    Ok(())
}
