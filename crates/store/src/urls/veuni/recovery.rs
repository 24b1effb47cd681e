//! Opens a store: which files are there, and what the log has beyond them.

use super::bucket::BlockFile;
use super::bucket_index::Routes;
use super::compaction::obsolete_files::Broom;
use super::compaction::scheduler::staged_max;
use super::compaction::workers::Jobs;
use super::dispatch::due_queue::Soon;
use super::dispatch::in_flight::Out;
use super::lookup::Damage;
use super::memtable::Stage;
use super::memtable::chunk_pool::Spare;
use super::run::{PendingFile, runs_of};
use super::seen_cache::Lately;
use super::wal::{Log, Op};
use super::{Block, Veuni, VeuniOptions, manifest};
use crate::{Cut, Error};
use farol_base::Timestamp;
use farol_base::disk::Disk;
use farol_base::fingerprint::hash64;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

impl Veuni {
    /// Opens the store of a folder, or begins one.
    ///
    /// Answers also with the tail of the log that was cut off, where a crash had left one. A block that cannot be read
    /// does not keep the store from opening; [`Veuni::damage`] tells of it.
    ///
    /// # Errors
    /// Where the list of blocks or the log cannot be read, are not ours, or are damaged anywhere but at the end.
    pub fn open(disk: Arc<dyn Disk>, options: VeuniOptions) -> Result<(Veuni, Option<Cut>), Error> {
        let (listed, next) = manifest::read(&*disk)?;
        let (mut blocks, spare) =
            (Vec::with_capacity(listed.len()), Spare::up_to(staged_max(options.memory)));
        let mut needed: HashSet<String> = HashSet::new();
        for listed in &listed {
            let mut block = Block::new(listed.number, listed.generation, listed.from);
            block.stage = Stage::new(spare.clone());
            let pending = block.pending_file();
            block.has_file = listed.has_file;
            if listed.has_file {
                let name = format!("block-{:06}-{:08}", listed.number, listed.generation);
                needed.insert(name.clone());
                match BlockFile::open(disk.clone(), &name) {
                    Ok(file) => {
                        block.upto = file.id.upto;
                        block.file = Some(Arc::new(file));
                    }
                    Err(error) => block.damage = Some(super::lookup::damage_of(error, &name, 0)),
                }
            }
            if listed.rebuilding && block.damage.is_none() {
                let servers = block.file.as_ref().map_or(0, |file| file.totals.servers);
                let (file, what) = (block.pending_file(), "a repair was not finished".to_string());
                block.damage = Some(Damage { file, offset: 0, what, servers });
            }
            needed.insert(pending.clone());
            let PendingFile { runs, torn, damaged } = runs_of(&disk, &pending)?;
            if let Some(end) = torn {
                disk.truncate(&pending, end).map_err(Error::io("cut", &pending))?;
            }
            if let Some((offset, what)) = damaged {
                let servers = block.file.as_ref().map_or(0, |file| file.totals.servers);
                block.damage = Some(Damage { file: pending, offset, what: what.to_string(), servers });
            }
            block.upto = runs.last().map_or(block.upto, |run| block.upto.max(run.upto));
            block.runs = runs;
            blocks.push(block);
        }
        remove_others(&*disk, &needed)?;
        let jobs = Jobs::new(options.threads);
        let broom = Broom::new(disk.clone(), options.threads > 0);
        let lately = Lately::new(options.lately);
        // What the log has goes into the stages of a store that is whole but for its log.
        let empty = Log::open(Arc::new(farol_base::disk::Mem::new()), &mut |_, _| Ok(()))?.0;
        let mut store = Veuni {
            disk: disk.clone(),
            options,
            log: empty,
            blocks,
            spare,
            routes: Routes::default(),
            numbers: Arc::new(AtomicU32::new(next)),
            jobs,
            broom,
            out: Out::default(),
            soon: Soon::default(),
            held: HashSet::default(),
            woken: HashSet::new(),
            asked: 1,
            last_turn: 0,
            now: Timestamp::EPOCH,
            lately,
            trouble: None,
        };
        store.mark_routes();
        let mut host = String::new();
        let (log, cut) = Log::open(disk, &mut |batch, op| {
            store.replay(batch, op, &mut host);
            Ok(())
        })?;
        let upto = store.blocks.iter().map(|block| block.upto).max().unwrap_or(0);
        store.log = log;
        // Batches whose files of the log are gone have had their numbers.
        store.log.next = store.log.next.max(upto + 1);
        Ok((store, cut))
    }

    /// Notes again what a block's files do not have.
    fn replay(&mut self, batch: u64, op: Op<'_>, host: &mut String) {
        if let Op::Host(name) = op {
            name.clone_into(host);
            return;
        }
        if batch <= self.blocks[self.route(hash64(host.as_bytes()))].upto {
            return;
        }
        match op {
            Op::Found { path, depth } => self.stage_of(host, batch).found(host, path, depth, None),
            Op::Hint { path, depth, at } => self.stage_of(host, batch).found(host, path, depth, Some(at)),
            Op::Visit { path, visit } => self.stage_of(host, batch).visited(host, path, &visit),
            Op::Forget => self.stage_of(host, batch).forget(host),
            Op::Host(_) | Op::Mark(_) => {}
        }
    }
}

/// Removes files that a crash left: those that no list names.
fn remove_others(disk: &dyn Disk, needed: &HashSet<String>) -> Result<(), Error> {
    let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
    for name in names {
        let is_ours = name.starts_with("block-") || name.starts_with("pending-") || name == "blocks.new";
        if is_ours && !needed.contains(&name) {
            disk.remove(&name).map_err(Error::io("remove", &name))?;
        }
    }
    Ok(())
}
