//! An exact URL store that is simple: compact tables in memory, made durable by one file.
//!
//! The file `urls-<generation>.journal` is a header and then blocks, each a batch of operations with its length
//! and checksum (`ops.rs`). A flush appends one block in one write. When the file has grown to twice its snapshot,
//! the whole state is written as the first blocks of the next generation's file, which takes over by renaming; after
//! a crash the newest whole generation counts.
//!
//! PROMISE: as [`UrlStore`]. A batch that was cut by a crash is cut off at opening, and reported.
//! INVARIANT: the tables are the file plus the pending batch, always. A write that fails is cut back; where
//! not even that works, the store refuses everything until it is opened again.
//!
//! Does not keep memory flat: it grows with the URLs, by some 60 to 100 bytes each.

mod ops;

use super::table::{KNOWN_MAX, Learnt, Table};
use super::{Counts, Drawn, Found, HostCounts, Record, State, UrlStore, Visit};
use crate::reading::DiskReader;
use crate::{Cut, Error};
use farol_base::disk::Disk;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use ops::{Op, Ops, Write as _};
use std::io::Read;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FAROLURL";
const VERSION: u32 = 1;
/// Magic, version, generation, checksum of these.
const HEADER_BYTES: usize = 8 + 4 + 8 + 4;
/// Length and checksum before each block.
const BLOCK_HEADER_BYTES: usize = 8;

/// A batch that grows beyond this is written before the next call adds to it: 16 MiB hold some 250,000 new URLs.
const PENDING_BYTES_MAX: usize = 16 << 20;
/// Largest block that is believed when reading. The largest written is a full batch and 64 URLs with hints more:
/// 16 MiB + 64 × 3 × (2 KiB + 32 B) < 17 MiB.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Size of the blocks of a snapshot.
const SNAPSHOT_BLOCK_BYTES: usize = 1 << 20;

/// How the journal is kept.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Size below which the file is never rewritten. Default: 32 MiB.
    pub compact_bytes_min: u64,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions { compact_bytes_min: 32 << 20 }
    }
}

/// The durable URL store.
#[derive(Debug)]
pub struct Journal {
    disk: Arc<dyn Disk>,
    options: JournalOptions,
    table: Table,
    watermark: PagePosition,
    generation: u64,
    file: String,
    /// Good length of the file; 0 before the first flush.
    len: u64,
    /// Length at which the file is next rewritten.
    compact_at: u64,
    /// The batch so far: room for the block's header, then operations.
    pending: Vec<u8>,
    /// Host that the pending batch named last.
    pending_host: String,
    poisoned: bool,
}

impl Journal {
    /// Opens the store of a folder, or begins one.
    ///
    /// Answers also with the tail that was cut off, where a crash had left one.
    ///
    /// # Errors
    /// Where the files cannot be read, are not ours, or are damaged anywhere but at the end.
    pub fn open(disk: Arc<dyn Disk>, options: JournalOptions) -> Result<(Journal, Option<Cut>), Error> {
        let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
        let newest = names.iter().filter_map(|name| generation_of(name)).max();
        let generation = newest.unwrap_or(0);
        let mut journal = Journal {
            table: Table::default(),
            watermark: PagePosition::default(),
            generation,
            file: file_name(generation),
            len: 0,
            compact_at: options.compact_bytes_min,
            pending: vec![0; BLOCK_HEADER_BYTES],
            pending_host: String::new(),
            poisoned: false,
            disk,
            options,
        };
        let cut = if newest.is_some() { journal.load()? } else { None };
        for name in &names {
            let old = generation_of(name).is_some_and(|old| old < generation);
            // A generation that was being written, or one whose successor is whole.
            if old || name.strip_suffix(".tmp").and_then(generation_of).is_some() {
                journal.disk.remove(name).map_err(Error::io("remove", name))?;
            }
        }
        Ok((journal, cut))
    }

    /// Reads the file into the tables, up to its first block that is not whole.
    fn load(&mut self) -> Result<Option<Cut>, Error> {
        let file_bytes = self.disk.len(&self.file).map_err(Error::io("read", &self.file))?.unwrap_or(0);
        let mut reader = DiskReader::new(self.disk.clone(), &self.file, 0, u64::MAX, 1 << 20);
        let mut header = Vec::new();
        self.read(&mut reader, HEADER_BYTES, &mut header)?;
        if header.len() < HEADER_BYTES {
            // The first flush ever was torn; anything else of that length is not ours.
            let whole = self.header();
            if self.generation > 0 || header != whole[..header.len()] {
                return Err(Error::NotOurs { file: self.file.clone() });
            }
            return self.cut(0, file_bytes);
        }
        self.check_header(&header)?;
        let mut snapshot_is_whole = self.generation == 0;
        let mut good = reader.position();
        let (mut block_header, mut block) = (Vec::new(), Vec::new());
        loop {
            self.read(&mut reader, BLOCK_HEADER_BYTES, &mut block_header)?;
            let Some((len, checksum)) = parse_block_header(&block_header) else { break };
            self.read(&mut reader, len, &mut block)?;
            if block.len() < len || block_checksum(&block) != checksum {
                break;
            }
            snapshot_is_whole |= self.replay(&block, good)?;
            good = reader.position();
            if snapshot_is_whole && self.compact_at == self.options.compact_bytes_min {
                self.compact_at = self.compact_at.max(good.saturating_mul(2));
            }
        }
        if !snapshot_is_whole {
            // It was synced before it got its name, so this is no torn tail.
            let what = "its snapshot is not whole".to_string();
            return Err(Error::Damaged { file: self.file.clone(), offset: good, what });
        }
        self.cut(good, file_bytes)
    }

    fn read(&self, reader: &mut DiskReader, count: usize, into: &mut Vec<u8>) -> Result<(), Error> {
        into.clear();
        let mut limited = reader.take(count as u64);
        limited.read_to_end(into).map_err(Error::io("read", &self.file))?;
        Ok(())
    }

    fn check_header(&self, header: &[u8]) -> Result<(), Error> {
        let file = self.file.clone();
        let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if &header[..8] != MAGIC {
            return Err(Error::NotOurs { file });
        }
        if version != VERSION {
            return Err(Error::Version { file, found: version, known: VERSION });
        }
        if header != self.header() {
            return Err(Error::Damaged { file, offset: 0, what: "its header does not fit".to_string() });
        }
        Ok(())
    }

    /// Does again what a block says; answers whether it ended the snapshot.
    fn replay(&mut self, block: &[u8], offset: u64) -> Result<bool, Error> {
        let damaged =
            |what: &str| Error::Damaged { file: file_name(self.generation), offset, what: what.to_string() };
        let mut host = "";
        let mut ended = false;
        for op in Ops::of(block) {
            match op.map_err(damaged)? {
                Op::Host(text) => host = text,
                Op::Mark(upto) => self.watermark = upto,
                Op::End => ended = true,
                _ if host.is_empty() => return Err(damaged("a path without its host")),
                Op::Found { path, depth } => {
                    self.table.learn(host, path, depth)?;
                }
                Op::Hint { path, at } => {
                    let (url, _) = self.table.learn(host, path, u16::MAX)?;
                    self.table.hint(url, at);
                }
                Op::Visit { path, visit } => {
                    let (url, _) = self.table.learn(host, path, u16::MAX)?;
                    self.table.visit(url, &visit)?;
                }
                Op::Record { path, record } => {
                    let (url, _) = self.table.learn(host, path, record.depth)?;
                    self.table.set(url, &record)?;
                }
                Op::Forget => {
                    self.table.forget_host(host);
                }
            }
        }
        Ok(ended)
    }

    fn cut(&mut self, good: u64, file_bytes: u64) -> Result<Option<Cut>, Error> {
        self.len = good;
        if good >= file_bytes {
            return Ok(None);
        }
        self.disk.truncate(&self.file, good).map_err(Error::io("cut the torn tail of", &self.file))?;
        Ok(Some(Cut { file: self.file.clone(), offset: good, bytes: file_bytes - good }))
    }

    fn header(&self) -> Vec<u8> {
        header(self.generation)
    }

    /// Called before anything changes: refuses where promises cannot be kept, and makes room in the batch.
    fn ready(&mut self) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned { store: "the URL store" });
        }
        if self.pending.len() > PENDING_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    /// Names the host of the next operation, unless it is the last one's.
    fn name_host(&mut self, host: &str) {
        if self.pending_host != host {
            self.pending.host(host);
            self.pending_host.clear();
            self.pending_host.push_str(host);
        }
    }

    fn found_some(&mut self, found: &[Found]) -> Result<(), Error> {
        let mut parts = [("", "", 0); KNOWN_MAX];
        for (Found { url, depth, .. }, part) in found.iter().zip(&mut parts) {
            let (host, path) = split_url(url);
            *part = (host, path, *depth);
        }
        let news = self.table.news(&parts[..found.len()]);
        for (i, (Found { hint, .. }, (host, path, depth))) in found.iter().zip(parts).enumerate() {
            if news >> i & 1 == 0 && hint.is_none() {
                continue;
            }
            let (number, learnt) = self.table.learn(host, path, depth)?;
            let moved = hint.filter(|hint| self.table.hint(number, *hint));
            if learnt == Learnt::Nothing && moved.is_none() {
                continue;
            }
            self.name_host(host);
            if learnt != Learnt::Nothing {
                self.pending.found([path, ""], depth);
            }
            if let Some(at) = moved {
                self.pending.hint([path, ""], at);
            }
        }
        Ok(())
    }

    fn append_pending(&mut self) -> Result<(), Error> {
        let block_len = self.pending.len() - BLOCK_HEADER_BYTES;
        debug_assert!(block_len <= BLOCK_BYTES_MAX);
        seal(&mut self.pending, 0);
        let result = if self.len == 0 {
            let mut first = self.header();
            first.extend_from_slice(&self.pending);
            self.disk.append(&self.file, &first).map(|()| first.len() as u64)
        } else {
            self.disk.append(&self.file, &self.pending).map(|()| self.pending.len() as u64)
        };
        match result {
            Ok(written) => {
                self.len += written;
                self.pending.truncate(BLOCK_HEADER_BYTES);
                self.pending_host.clear();
                Ok(())
            }
            Err(source) => {
                let is_there = self.disk.len(&self.file).map(|len| len.is_some());
                let undone = match is_there {
                    Ok(true) => self.disk.truncate(&self.file, self.len),
                    Ok(false) => Ok(()),
                    Err(error) => Err(error),
                };
                self.poisoned = undone.is_err();
                Err(Error::io("append to", &self.file)(source))
            }
        }
    }

    /// Writes the whole state as the next generation, and goes over to it.
    fn compact(&mut self) -> Result<(), Error> {
        let generation = self.generation + 1;
        let (file, tmp) = (file_name(generation), format!("{}.tmp", file_name(generation)));
        self.disk.remove(&tmp).map_err(Error::io("remove", &tmp))?;
        let written = self.write_snapshot(generation, &tmp);
        let renamed = written.and_then(|len| {
            self.disk.sync(&tmp).map_err(Error::io("sync", &tmp))?;
            self.disk.rename(&tmp, &file).map_err(Error::io("rename", &tmp))?;
            Ok(len)
        });
        let len = match renamed {
            Ok(len) => len,
            Err(error) => {
                // The old generation is as good as it was, as long as the new one never gets its name.
                let _ = self.disk.remove(&tmp);
                if !matches!(self.disk.len(&file), Ok(None)) {
                    self.poisoned = true;
                }
                return Err(error);
            }
        };
        let old = std::mem::replace(&mut self.file, file);
        (self.generation, self.len) = (generation, len);
        self.compact_at = self.options.compact_bytes_min.max(len.saturating_mul(2));
        // Opening removes it where this fails.
        let _ = self.disk.remove(&old);
        Ok(())
    }

    fn write_snapshot(&self, generation: u64, tmp: &str) -> Result<u64, Error> {
        let append = |bytes: &[u8]| self.disk.append(tmp, bytes).map_err(Error::io("append to", tmp));
        let mut block = header(generation);
        let mut start = block.len();
        block.resize(start + BLOCK_HEADER_BYTES, 0);
        let mut len = 0;
        let mut last_host = "";
        for (host, folder, leaf, url) in self.table.all() {
            if block.len() > SNAPSHOT_BLOCK_BYTES {
                seal(&mut block, start);
                append(&block)?;
                len += block.len() as u64;
                block.clear();
                (start, last_host) = (0, "");
                block.resize(BLOCK_HEADER_BYTES, 0);
            }
            if host != last_host {
                block.host(host);
                last_host = host;
            }
            let record = self.table.record(url);
            if record.state == State::Known {
                block.found([folder, leaf], record.depth);
            } else {
                block.record([folder, leaf], &record);
            }
        }
        block.mark(self.watermark);
        block.end();
        seal(&mut block, start);
        append(&block)?;
        Ok(len + block.len() as u64)
    }
}

impl UrlStore for Journal {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        found.chunks(KNOWN_MAX).try_for_each(|some| {
            self.ready()?;
            self.found_some(some)
        })
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.ready()?;
        let (host, path) = split_url(url);
        let (number, learnt) = match self.table.number_of(url) {
            Some(number) => (number, Learnt::Nothing),
            None => self.table.learn(host, path, 0)?,
        };
        self.table.visit(number, visit)?;
        self.name_host(host);
        if learnt == Learnt::New {
            self.pending.found([path, ""], 0);
        }
        self.pending.visit([path, ""], visit);
        Ok(())
    }

    fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Result<Drawn, Error> {
        Ok(self.table.draw(host, limit, now))
    }

    fn release(&mut self, urls: &[CanonicalUrl]) -> Result<(), Error> {
        urls.iter().for_each(|url| self.table.release(url));
        Ok(())
    }

    fn hosts_due(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Host>, Error> {
        Ok(self.table.hosts_due(now, limit))
    }

    fn let_go(&mut self, host: &Host) {
        self.table.let_go(host);
    }

    fn next_host_due(&mut self) -> Option<Timestamp> {
        self.table.next_host_due()
    }

    fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        Ok(self.table.number_of(url).map(|number| self.table.record(number)))
    }

    fn knows(&self, url: &CanonicalUrl) -> bool {
        self.table.number_of(url).is_some()
    }

    fn forget_host(&mut self, host: &Host) -> Result<u64, Error> {
        self.ready()?;
        let count = self.table.forget_host(host.as_str());
        if count > 0 {
            self.name_host(host.as_str());
            self.pending.forget();
        }
        Ok(count)
    }

    fn host_counts(&self, host: &Host) -> Option<HostCounts> {
        self.table.host_counts(host.as_str())
    }

    fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        self.table.hosts(first, count, filter)
    }

    fn counts(&self) -> Counts {
        Counts { bytes_on_disk: self.len, ..self.table.counts() }
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn watermark(&self) -> PagePosition {
        self.watermark
    }

    fn mark(&mut self, upto: PagePosition) -> Result<(), Error> {
        self.ready()?;
        if self.watermark != upto {
            self.watermark = upto;
            self.pending.mark(upto);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned { store: "the URL store" });
        }
        if self.pending.len() > BLOCK_HEADER_BYTES {
            self.append_pending()?;
        }
        if self.len >= self.compact_at
            && let Err(error) = self.compact()
        {
            // The batch itself is safe. Tried again when the file has grown by a quarter.
            tracing::warn!(%error, "the URL journal could not be rewritten");
            self.compact_at = self.len.saturating_add(self.len / 4);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        if self.len == 0 {
            return Ok(());
        }
        self.disk.sync(&self.file).map_err(|source| {
            // What the kernel dropped after a failed fsync cannot be known: stop promising.
            self.poisoned = true;
            Error::io("sync", &self.file)(source)
        })
    }
}

fn file_name(generation: u64) -> String {
    format!("urls-{generation:08}.journal")
}

fn generation_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("urls-")?.strip_suffix(".journal")?;
    let plain = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

fn header(generation: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&generation.to_le_bytes());
    let checksum = crc32fast::hash(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    header
}

/// Fills in the header of the block that starts at `start` and reaches to the end.
fn seal(block: &mut [u8], start: usize) {
    let (header, payload) = block[start..].split_at_mut(BLOCK_HEADER_BYTES);
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&block_checksum(payload).to_le_bytes());
}

/// Checksum over the length, too: a block of zeros must not pass for an empty one.
fn block_checksum(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Length and checksum of the block that follows; `None` where there is none that could be whole.
fn parse_block_header(header: &[u8]) -> Option<(usize, u32)> {
    let (len, checksum) = header.split_at_checked(4)?;
    let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
    let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
    (len > 0 && len <= BLOCK_BYTES_MAX).then_some((len, checksum))
}

/// Host and path of a URL, both as they stand in its text.
fn split_url(url: &CanonicalUrl) -> (&str, &str) {
    url.as_str().split_at(url.host_str().len())
}
