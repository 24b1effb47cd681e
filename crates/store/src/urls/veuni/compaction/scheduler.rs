//! Moves what came in to where it belongs: stages into pending files, and those into blocks.
//!
//! Called at every flush. Nothing moves that the log does not have, so a batch never arrives in part.

use crate::Error;
use crate::urls::veuni::bucket::{BlockFile, BlockId};
use crate::urls::veuni::compaction::merge::{Limits, Plan, merge};
use crate::urls::veuni::compaction::workers::Job;
use crate::urls::veuni::dispatch::active::Turn;
use crate::urls::veuni::manifest::{self, Listed};
use crate::urls::veuni::memtable::Stage;
use crate::urls::veuni::run::{Run, RunReader, append_run};
use crate::urls::veuni::{Block, Damage, Rest, Veuni};
use farol_base::CanonicalUrl;
use farol_base::disk::Disk;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A block whose servers have all run dry rests so many times as long as its merge took before the next one: merges
/// that the crawl asks for take a quarter of one thread's time at most.
const REST_DRY: u32 = 3;
/// As above, while some of its servers still have something.
const REST: u32 = 8;
/// So long a block rests after a merge that failed.
const REST_AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// Blocks up to this size are merged by whoever asks: it takes a few milliseconds.
const SHORT_BYTES: u64 = 256 << 10;
/// So much may always wait for one server, however little memory there is.
const FOR_ONE_MIN: u64 = 1 << 20;
/// This part of the memory for what comes in may always be filled by what waits for one server.
const FOR_ONE_SHARE: u64 = 4;
/// Once so many notes wait in memory, and are more than twice of what their block has, it is merged at once.
const EARLY_NOTES_MIN: u64 = 64 << 10;
/// When memory is full, this part of it is made free.
const ROOM_SHARE: u64 = 8;
/// When less than this part of the memory for what comes in is at hand, as much is made.
const SPARE_SHARE: u64 = 16;
/// A note in memory takes so many times what it will take in a pending file.
const STAGED_PER_PENDING: u64 = 4;
/// Once more than this part of what may wait waits beyond that, several blocks are merged at once for it.
const BEHIND_SHARE: u64 = 16;
/// While the store is small it is kept in so many blocks at least, so that several are merged at once and none takes long.
const BLOCKS_MIN: u64 = 16;
/// But no block is split for that below this size.
const SMALL_BLOCK_BYTES: u64 = 2 << 20;
/// The log goes on in a new file at this size.
const LOG_FILE_BYTES: u64 = 32 << 20;

/// What a job did.
pub enum Done {
    Merged { number: u32, result: Result<Vec<Arc<BlockFile>>, Error>, took: Duration },
    Written { number: u32, upto: u64, result: Result<Run, Error> },
}

impl Veuni {
    /// Takes in what jobs did, and starts those that are due.
    pub(in crate::urls::veuni) fn upkeep(&mut self) -> Result<(), Error> {
        self.collect()?;
        self.forgive();
        let staged: u64 = self.staged_bytes();
        if staged > self.options.memory {
            self.write_stages()?;
        }
        self.make_spare(staged);
        self.merge_early()?;
        self.shrink_pending()?;
        // Whoever brings more than can be put away waits.
        while self.jobs.running > 0 && self.is_overfull() {
            self.wait_for_a_job()?;
            self.shrink_pending()?;
        }
        if self.is_overfull()
            && let Some(error) = self.trouble.take()
        {
            return Err(error);
        }
        if self.log.last_bytes() > LOG_FILE_BYTES {
            self.log.roll();
        }
        self.trim_log();
        Ok(())
    }

    /// Tries again, a while after something went wrong.
    fn forgive(&mut self) {
        let lately = |block: &Block| {
            block.rest.took == REST_AFTER_TROUBLE && block.rest.since.elapsed() < block.rest.took
        };
        if self.trouble.is_some() && !self.blocks.iter().any(lately) {
            self.trouble = None;
        }
    }

    /// Has memory made for what comes in next, once much comes.
    fn make_spare(&mut self, staged: u64) {
        let ready = self.options.memory / SPARE_SHARE;
        if self.jobs.has_threads() && staged > ready && self.spare.wants_to_grow(ready) {
            let spare = self.spare.clone();
            // A few times in a store's life. Where there is no thread to be had, memory comes when it is needed.
            let grow = move || spare.grow(ready);
            let _ = std::thread::Builder::new().name("urls-spare".to_string()).spawn(grow);
        }
    }

    fn staged_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.stage.bytes()).sum()
    }

    fn pending_total(&self) -> (u64, u64) {
        self.blocks
            .iter()
            .fold((0, 0), |(pending, all), block| (pending + block.pending_bytes(), all + block.bytes()))
    }

    fn pending_max(&self) -> u64 {
        let (_, all) = self.pending_total();
        self.options.pending_min.max((all as f64 * self.options.pending_share) as u64)
    }

    /// A block larger than this is split.
    fn block_bytes(&self) -> u64 {
        let (_, all) = self.pending_total();
        (all / BLOCKS_MIN).max(SMALL_BLOCK_BYTES).min(self.options.block_bytes)
    }

    /// What waits and nobody merges, wherever it waits, in bytes of pending files.
    fn waiting_bytes(&self) -> u64 {
        let idle = self.blocks.iter().filter(|block| !block.is_busy);
        idle.map(Block::pending_bytes).sum::<u64>() + self.staged_bytes() / STAGED_PER_PENDING
    }

    fn is_overfull(&self) -> bool {
        let frozen: u64 =
            self.blocks.iter().filter_map(|block| block.frozen.as_ref()).map(|stage| stage.bytes()).sum();
        let (pending, _) = self.pending_total();
        self.staged_bytes() + frozen > staged_max(self.options.memory) || pending > self.pending_max() * 3 / 2
    }

    /// Takes in what jobs did.
    pub(in crate::urls::veuni) fn collect(&mut self) -> Result<(), Error> {
        while let Some(done) = self.jobs.take(false) {
            self.take_in(done)?;
        }
        Ok(())
    }

    /// Waits until a job is done; `false` where none is under way.
    pub(in crate::urls::veuni) fn wait_for_a_job(&mut self) -> Result<bool, Error> {
        match self.jobs.take(true) {
            Some(done) => self.take_in(done).map(|()| true),
            None => Ok(false),
        }
    }

    fn take_in(&mut self, done: Done) -> Result<(), Error> {
        match done {
            Done::Merged { number, result, took } => {
                let Some(at) = self.blocks.iter().position(|block| block.number == number) else {
                    return Ok(());
                };
                self.blocks[at].is_busy = false;
                match result.and_then(|files| self.install(at, files)) {
                    Ok(()) => self.blocks[at].rest = Rest { since: Instant::now(), took },
                    Err(error) => self.failed(at, error),
                }
                self.trim_log();
                Ok(())
            }
            Done::Written { number, upto, result } => {
                let Some(at) = self.blocks.iter().position(|block| block.number == number) else {
                    return Ok(());
                };
                let block = &mut self.blocks[at];
                block.is_busy = false;
                match result {
                    Ok(run) => {
                        block.runs.push(run);
                        block.upto = upto;
                        block.frozen = None;
                    }
                    Err(error) => self.failed(at, error),
                }
                Ok(())
            }
        }
    }

    /// What was on its way stays in memory, and is tried again later.
    pub(in crate::urls::veuni) fn failed(&mut self, at: usize, error: Error) {
        let block = &mut self.blocks[at];
        if let Some(frozen) = block.frozen.take() {
            let later = block.stage.take();
            // The job has ended, so nobody else has it.
            block.stage = Arc::into_inner(frozen).unwrap_or_default();
            block.stage.append(&later);
        }
        block.rest = Rest { since: Instant::now(), took: REST_AFTER_TROUBLE };
        if let Error::Damaged { file, offset, what } = &error {
            let servers = block.file.as_ref().map_or(0, |file| file.totals.servers);
            tracing::error!(block = block.number, servers, error = %error,
                "a block of the URL store is damaged; its servers stand still until `farol check --repair`");
            block.damage = Some(Damage { file: file.clone(), offset: *offset, what: what.clone(), servers });
            block.turn = None;
        } else {
            tracing::warn!(block = block.number, error = %error, "the URL store waits with a merge");
            self.trouble = Some(error);
        }
    }

    /// Puts the files that came out of a merge in the place of the block.
    fn install(&mut self, at: usize, files: Vec<Arc<BlockFile>>) -> Result<(), Error> {
        let mut list: Vec<Listed> = self.blocks[..at].iter().map(Block::listed).collect();
        let (from, rebuilding) = (self.blocks[at].from, self.blocks[at].rebuilding);
        list.extend(files.iter().enumerate().map(|(part, file)| Listed {
            number: file.id.number,
            generation: file.id.generation,
            from: if part == 0 { from } else { file.id.from },
            has_file: true,
            rebuilding,
        }));
        list.extend(self.blocks[at + 1..].iter().map(Block::listed));
        if let Err(error) = manifest::write(&*self.disk, &list, self.numbers.load(Ordering::Relaxed)) {
            for file in &files {
                // It is no part of the store; opening again would remove it as well.
                let _ = self.disk.remove(&file.file);
            }
            return Err(error);
        }
        let old = &mut self.blocks[at];
        // It is in the new files. What came since may need its memory.
        old.frozen = None;
        let old_files = [old.file.as_ref().map(|file| file.file.clone()), Some(old.pending_file())];
        let was_in_turn = old.turn.is_some() || old.wants_turn;
        let froms: Vec<u64> = files.iter().skip(1).map(|file| file.id.from).collect();
        let stages = old.stage.take().deal(&froms);
        let count = files.len();
        let mut parts: Vec<Block> = Vec::with_capacity(count);
        for ((file, stage), from) in files.into_iter().zip(stages).zip([from].into_iter().chain(froms)) {
            let mut block = Block::new(file.id.number, file.id.generation, from);
            block.stage = stage;
            block.upto = file.id.upto;
            block.merged = self.now;
            block.file = Some(file);
            (block.has_file, block.rebuilding) = (true, rebuilding);
            parts.push(block);
        }
        self.blocks.splice(at..=at, parts);
        self.mark_routes();
        for file in old_files.into_iter().flatten() {
            self.broom.remove(file, None);
        }
        self.count_held(at..at + count);
        // A block in turn stays so, with what is new.
        if was_in_turn {
            for part in at..at + count {
                self.begin_turn(part);
            }
        }
        Ok(())
    }

    /// Writes what is in memory to the pending files, block by block, until there is room again: what waited longest
    /// goes first, so that each block gathers a long run and the log stays short.
    fn write_stages(&mut self) -> Result<(), Error> {
        let ready = |block: &&Block| !block.is_busy && !block.stage.is_empty();
        let mut waiting: Vec<(u64, u32)> = (self.blocks.iter().filter(ready))
            .map(|block| (block.stage.first_batch(), block.number))
            .collect();
        waiting.sort_unstable();
        let (mut staged, room) = (self.staged_bytes(), self.options.memory / ROOM_SHARE);
        for (_, number) in waiting {
            if staged + room <= self.options.memory || !self.log.batch.is_empty() {
                break;
            }
            // Merging a block may have made more of them.
            let Some(at) = self.blocks.iter().position(|block| block.number == number) else { continue };
            // What a damaged block keeps counts as written: the others are not emptied for it over and over.
            staged -= self.blocks[at].stage.bytes();
            self.write_stage(at)?;
        }
        Ok(())
    }

    /// Writes what is in memory of a block to its pending file, or merges it where it is much for its block, or where so
    /// much waits for one server that a merge could not hold it: what came in for a server is in memory at once.
    fn write_stage(&mut self, at: usize) -> Result<(), Error> {
        let block = &self.blocks[at];
        let for_one: u64 = block.runs.iter().map(|run| run.largest).sum();
        // A merge for the sake of memory should not rewrite far more than came in; but memory has an end.
        let memory = self.options.memory;
        let for_one_max = block.bytes().clamp(memory / FOR_ONE_SHARE, memory).max(FOR_ONE_MIN);
        let is_much = block.stage.len() as u64 * 2 >= block.known() || for_one >= for_one_max;
        match &block.damage {
            None if is_much => self.start_merge(at)?,
            // Nothing is written behind a damage: what stands there would be cut off.
            Some(damage) if damage.file == block.pending_file() => {}
            _ => self.start_writing(at),
        }
        Ok(())
    }

    fn start_writing(&mut self, at: usize) {
        let upto = self.log.next - 1;
        let disk = self.disk.clone();
        let block = &mut self.blocks[at];
        let (number, file, offset) = (block.number, block.pending_file(), block.pending_bytes());
        let stage = Arc::new(block.stage.take());
        block.frozen = Some(stage.clone());
        block.is_busy = true;
        let log = self.log.files();
        let job = move || {
            let result = crate::urls::veuni::wal::sync(&*disk, &log)
                .and_then(|()| write_run(&*disk, &file, &stage, upto, offset));
            drop(stage);
            Done::Written { number, upto, result }
        };
        self.jobs.start(Job::Write(Box::new(job)));
    }

    /// Merges a block with all that came in for it.
    pub(in crate::urls::veuni) fn start_merge(&mut self, at: usize) -> Result<(), Error> {
        let upto = self.log.next - 1;
        let (disk, now, numbers) = (self.disk.clone(), self.now, self.numbers.clone());
        let policy = self.options.redistribution.clone();
        let limits = Limits {
            bytes: self.block_bytes(),
            servers: self.options.block_servers,
            prescheduled: self.options.prescheduled,
        };
        let block = &mut self.blocks[at];
        let stage = Arc::new(block.stage.take());
        block.frozen = Some(stage.clone());
        block.is_busy = true;
        let (number, old, pending) = (block.number, block.file.clone(), block.pending_file());
        let id = BlockId { number, generation: block.generation + 1, from: block.from, upto };
        let offsets: Vec<Vec<u64>> =
            block.runs.iter().map(|run| run.index.iter().map(|(_, offset)| *offset).collect()).collect();
        // Paths shrink to about a fifth on their way into a block.
        let run_bytes = block.pending_bytes() / 2 + stage.bytes() / 5;
        let short = block.bytes() + block.pending_bytes() + stage.bytes() < SHORT_BYTES;
        let log = self.log.files();
        let job = move || {
            let start = Instant::now();
            let work = || {
                // A power cut must not leave a part of a batch: first the log, then what follows from it.
                crate::urls::veuni::wal::sync(&*disk, &log)?;
                let mut runs = Vec::with_capacity(offsets.len() + 1);
                for offsets in offsets {
                    runs.push(RunReader::file(disk.clone(), &pending, offsets)?);
                }
                runs.push(RunReader::stage(stage.clone()));
                merge(Plan { disk, id, old, runs, run_bytes, policy, now, limits, numbers })
            };
            let result = work();
            drop(stage);
            Done::Merged { number, result, took: start.elapsed() }
        };
        self.jobs.start(if short { Job::ShortMerge(Box::new(job)) } else { Job::Merge(Box::new(job)) });
        if short { self.collect() } else { Ok(()) }
    }

    /// Merges blocks that have next to nothing beside what is in memory: a crawl that has just begun will soon ask for it,
    /// and it costs little, as less than half as much is rewritten as came in.
    fn merge_early(&mut self) -> Result<(), Error> {
        let is_due = |block: &Block| {
            let notes = block.stage.len() as u64;
            notes >= EARLY_NOTES_MIN
                && notes > 2 * block.known()
                && !block.is_busy
                && block.damage.is_none()
                && block.runs.is_empty()
        };
        while self.trouble.is_none()
            && self.log.batch.is_empty()
            && self.jobs.has_idle_merger()
            && let Some(at) = self.blocks.iter().position(is_due)
        {
            self.start_merge(at)?;
        }
        Ok(())
    }

    /// Merges blocks whose pending files are large, the largest first, one at a time where that suffices.
    fn shrink_pending(&mut self) -> Result<(), Error> {
        while self.trouble.is_none() {
            let (waiting, max) = (self.waiting_bytes(), self.pending_max());
            // Two at once would take twice as long each, and the log keeps all that comes in meanwhile.
            let is_behind = waiting > max + max / BEHIND_SHARE;
            let has_room = if is_behind { self.jobs.has_room_to_merge() } else { !self.jobs.is_merging() };
            if waiting <= max || !has_room || !self.log.batch.is_empty() {
                return Ok(());
            }
            let worst = (0..self.blocks.len())
                .filter(|at| {
                    let block = &self.blocks[*at];
                    !block.is_busy && block.damage.is_none() && !block.runs.is_empty()
                })
                .max_by_key(|at| self.blocks[*at].pending_bytes() * 1024 / self.blocks[*at].bytes().max(1));
            let Some(worst) = worst else { return Ok(()) };
            self.start_merge(worst)?;
        }
        Ok(())
    }

    /// Merges everything that came in, and waits for it.
    pub(in crate::urls::veuni) fn merge_all(&mut self) -> Result<(), Error> {
        self.trouble = None;
        loop {
            self.collect()?;
            let behind = (0..self.blocks.len()).find(|at| {
                let block = &self.blocks[*at];
                block.is_behind() && !block.is_busy && block.damage.is_none()
            });
            if let Some(error) = self.trouble.take() {
                while self.wait_for_a_job()? {}
                return Err(error);
            }
            match behind {
                Some(at) if self.jobs.has_room_to_merge() => self.start_merge(at)?,
                _ if self.wait_for_a_job()? => {}
                _ => break,
            }
        }
        // All of it has found its place.
        self.log.roll();
        self.trim_log();
        self.broom.wait();
        Ok(())
    }

    /// Removes files of the log that nobody needs.
    fn trim_log(&mut self) {
        let stages = self.blocks.iter().flat_map(|block| {
            [block.stage.first_batch(), block.frozen.as_ref().map_or(u64::MAX, |stage| stage.first_batch())]
        });
        let needed = stages.min().unwrap_or(u64::MAX);
        for (file, follower) in self.log.trim(needed.min(self.log.next)) {
            self.broom.remove(file, Some(follower));
        }
    }

    /// Whether a block may be merged because the crawl asks for it.
    pub(in crate::urls::veuni) fn is_rested(&self, at: usize) -> bool {
        // With nothing handed out at all there is nothing better to do.
        if !self.jobs.has_threads() || self.held.is_empty() {
            return self.trouble.is_none();
        }
        let block = &self.blocks[at];
        let factor = if block.held == 0 { REST_DRY } else { REST };
        block.rest.since.elapsed() >= block.rest.took * factor
    }

    /// Hands a block's servers out from now on.
    pub(in crate::urls::veuni) fn begin_turn(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        let Some(file) = &block.file else { return };
        match Turn::of(file, &*self.options.schedule) {
            Ok(mut turn) => {
                // What was visited while the block was being merged stands in it as if it were not.
                for url in block.stage.visited_urls() {
                    if let Ok(url) = CanonicalUrl::from_stored(&url) {
                        turn.set_aside(&url);
                    }
                }
                block.turn = Some(turn);
                block.resume = None;
            }
            Err(error) => self.failed(at, error),
        }
    }
}

/// The most that may wait in memory, with what is on its way into files.
pub(in crate::urls::veuni) fn staged_max(memory: u64) -> u64 {
    memory * 3 / 2
}

pub(in crate::urls::veuni) fn write_run(
    disk: &dyn Disk,
    file: &str,
    stage: &Stage,
    upto: u64,
    offset: u64,
) -> Result<Run, Error> {
    let len = |disk: &dyn Disk| disk.len(file).map_err(Error::io("look at", file));
    let cut = |disk: &dyn Disk| match len(disk)? {
        Some(len) if len > offset => disk.truncate(file, offset).map_err(Error::io("cut", file)),
        _ => Ok(()),
    };
    // An earlier attempt may have left something.
    cut(disk)?;
    let appended = append_run(disk, file, stage, upto, offset);
    let written = appended.and_then(|run| disk.sync(file).map_err(Error::io("sync", file)).map(|()| run));
    if written.is_err() {
        cut(disk)?;
    }
    written
}
