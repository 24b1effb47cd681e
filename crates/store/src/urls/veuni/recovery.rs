//! Opens a store: its files, and what the WAL has beyond them.

use super::bucket::{Bucket, BucketContent, BucketFile, Damage};
use super::bucket_index::BucketIndex;
use super::compaction::choose::memtable_bytes_max;
use super::compaction::obsolete_files::ObsoleteFiles;
use super::compaction::workers::Workers;
use super::engine::Engine;
use super::memtable::Memtable;
use super::memtable::chunk_pool::ChunkPool;
use super::run::{Level0File, runs_of};
use super::seen_cache::SeenCache;
use super::wal::{Wal, WalOp};
use super::{VeuniOptions, manifest};
use crate::{Cut, Error};
use farol_base::disk::{Disk, Mem};
use farol_base::sync::Mutex;
use farol_base::{HostHash, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

impl Engine {
    /// Opens a folder: reads the manifest, opens the files that it lists, deletes others, and replays the
    /// WAL.
    pub fn open(disk: Arc<dyn Disk>, options: VeuniOptions) -> Result<(Engine, Option<Cut>), Error> {
        let (listed, next_number) = manifest::open(&*disk)?;
        let chunk_pool = ChunkPool::with_limit(memtable_bytes_max(options.memtable_bytes));
        let mut buckets = Vec::with_capacity(listed.len());
        let mut needed: HashSet<String> = HashSet::new();
        for listed in &listed {
            let mut bucket = Bucket::new(listed.number, listed.generation, listed.from);
            bucket.memtable = Memtable::new(chunk_pool.clone());
            if listed.has_file {
                needed.insert(bucket.file_name());
                open_file(&mut bucket, &disk);
            }
            bucket.is_rebuilding = listed.rebuilding;
            if listed.rebuilding && bucket.damage.is_none() {
                let (file, what) = (bucket.level0_file(), "a repair was not finished".to_string());
                bucket.damage =
                    Some(Damage { file, offset: 0, what, hosts: bucket.hosts(), is_emptied: true });
            }
            needed.insert(bucket.level0_file());
            open_level0(&mut bucket, &disk)?;
            buckets.push(bucket);
        }
        remove_orphans(&*disk, &needed)?;
        let workers = Workers::new(options.threads);
        let obsolete_files = ObsoleteFiles::new(disk.clone(), options.threads > 0);
        let seen_cache = SeenCache::new(options.seen_cache_bytes);
        // The WAL is replayed into an engine that is whole but for its WAL.
        let empty = Wal::open(Arc::new(Mem::new()), &mut |_, _| false)?.0;
        let mut engine = Engine {
            disk: disk.clone(),
            options,
            wal: empty,
            buckets,
            bucket_index: BucketIndex::default(),
            next_number: Arc::new(AtomicU32::new(next_number)),
            chunk_pool,
            seen_cache,
            workers,
            obsolete_files,
            now: Timestamp::EPOCH,
            last_error: None,
            failed_reads: Mutex::default(),
        };
        engine.rebuild_bucket_index();
        let mut host = String::new();
        let (wal, cut) = Wal::open(disk, &mut |seqno, op| engine.replay(seqno, op, &mut host))?;
        let flushed_seqno = engine.buckets.iter().map(|bucket| bucket.flushed_seqno).max().unwrap_or(0);
        // Each file was written after the WAL that it follows from was synced.
        if wal.next_seqno <= flushed_seqno {
            let last = wal.next_seqno - 1;
            let what =
                format!("it ends with batch {last}, but other files have batches up to {flushed_seqno}");
            return Err(wal.damaged(what));
        }
        engine.wal = wal;
        Ok((engine, cut))
    }

    /// Applies what a bucket's files do not have to its memtable; answers whether they do not.
    fn replay(&mut self, seqno: u64, op: WalOp<'_>, host: &mut String) -> bool {
        if let WalOp::Host(name) = op {
            name.clone_into(host);
            return false;
        }
        if seqno <= self.buckets[self.bucket_of(HostHash::of(host))].flushed_seqno {
            return false;
        }
        match op {
            WalOp::Found { path, depth } => self.memtable_of(host, seqno).found(host, path, depth, None),
            WalOp::Hint { path, depth, at } => {
                self.memtable_of(host, seqno).found(host, path, depth, Some(at))
            }
            WalOp::Visit { path, visit } => self.memtable_of(host, seqno).visited(host, path, &visit),
            WalOp::Import { path, record } => self.memtable_of(host, seqno).imported(host, path, &record),
            WalOp::DeleteHost => self.memtable_of(host, seqno).delete_host(host),
            WalOp::Host(_) | WalOp::Mark(_) | WalOp::Note { .. } => return false,
        }
        true
    }
}

fn open_file(bucket: &mut Bucket, disk: &Arc<dyn Disk>) {
    let name = bucket.file_name();
    match BucketFile::open(disk.clone(), &name) {
        Ok(file) => {
            bucket.flushed_seqno = file.id.flushed_seqno;
            bucket.content = BucketContent::File(Arc::new(file));
        }
        Err(error) => {
            bucket.content = BucketContent::Unreadable;
            bucket.damage = Some(Damage::of(error, &name, 0));
        }
    }
}

/// Finds the level-0 runs, and cuts off one that a crash left in part: the WAL still has its batches.
fn open_level0(bucket: &mut Bucket, disk: &Arc<dyn Disk>) -> Result<(), Error> {
    let name = bucket.level0_file();
    let Level0File { runs, torn, damaged } = runs_of(disk, &name)?;
    if let Some(end) = torn {
        disk.truncate(&name, end).map_err(Error::io("cut", &name))?;
    }
    if let Some((offset, what)) = damaged {
        let hosts = bucket.hosts();
        bucket.damage = Some(Damage { file: name, offset, what: what.to_string(), hosts, is_emptied: false });
    }
    let flushed = runs.last().map_or(0, |run| run.flushed_seqno);
    bucket.flushed_seqno = bucket.flushed_seqno.max(flushed);
    bucket.runs = runs;
    Ok(())
}

/// Deletes files that a crash left: those that the manifest does not list.
fn remove_orphans(disk: &dyn Disk, needed: &HashSet<String>) -> Result<(), Error> {
    let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
    for name in names {
        if (manifest::is_listed(&name) || name == manifest::NEW_FILE) && !needed.contains(&name) {
            disk.remove(&name).map_err(Error::io("remove", &name))?;
        }
    }
    Ok(())
}
