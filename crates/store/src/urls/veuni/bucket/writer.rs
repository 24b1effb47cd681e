//! Writes a bucket, front to back.

use super::entry::BlockBuilder;
use super::{
    BucketFile, BucketId, BucketTotals, END_MAGIC, EntryAddr, EntryError, EntryRange, HEADER_BYTES, HostMeta,
    MAGIC, PAGE_HOSTS, UrlEntry, VERSION,
};
use crate::Error;
use crate::urls::veuni::block_frame::write_block;
use crate::urls::veuni::codec::{state_of, visits_of};
use crate::urls::{HostCounts, State};
use farol_base::HostHash;
use farol_base::codec::put_varint;
use farol_base::disk::Disk;
use std::sync::Arc;

/// Bytes gathered before they go to the disk.
const BUFFER_BYTES: usize = 1 << 20;

/// A bucket being written. Its directory waits in memory: some 60 bytes per host.
#[derive(Debug)]
pub struct BucketWriter {
    disk: Arc<dyn Disk>,
    id: BucketId,
    file: String,
    buffer: Vec<u8>,
    /// Bytes that went to the disk.
    written: u64,
    block: BlockBuilder,
    /// Where each block starts, and where the last one ends.
    blocks: Vec<u64>,
    meta: Option<HostMeta>,
    in_prescheduled: bool,
    pages: Vec<(HostHash, Vec<u8>)>,
    page_hosts: usize,
    totals: BucketTotals,
}

impl BucketWriter {
    /// Begins a file; whatever had its name is replaced.
    pub fn create(disk: Arc<dyn Disk>, id: BucketId) -> Result<BucketWriter, Error> {
        let file = id.file_name();
        disk.remove(&file).map_err(Error::io("remove", &file))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        buffer.extend_from_slice(MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        buffer.extend_from_slice(&id.number.to_le_bytes());
        [id.generation, id.from.0, id.flushed_seqno]
            .iter()
            .for_each(|number| buffer.extend_from_slice(&number.to_le_bytes()));
        buffer.extend_from_slice(&crc32fast::hash(&buffer).to_le_bytes());
        Ok(BucketWriter {
            disk,
            id,
            file,
            buffer,
            written: 0,
            block: BlockBuilder::default(),
            blocks: vec![HEADER_BYTES as u64],
            meta: None,
            in_prescheduled: false,
            pages: Vec::new(),
            page_hosts: 0,
            totals: BucketTotals::default(),
        })
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    /// Bytes so far, but for the block and the page that are open.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub fn hosts(&self) -> u64 {
        self.totals.hosts
    }

    /// Begins a host; they come in the order of their hashes, then of their names.
    pub fn begin(&mut self, hash: HostHash, host: &str) {
        self.in_prescheduled = false;
        self.meta = Some(HostMeta {
            hash,
            host: host.to_string(),
            remaining: EntryRange::default(),
            prescheduled: EntryRange::default(),
            counts: HostCounts::default(),
            download_millis: 0,
            visited: 0,
        });
    }

    /// Adds a URL to the host's remaining ones, which come first, or to its pre-scheduled ones.
    pub fn push(&mut self, entry: &UrlEntry<'_>, prescheduled: bool) -> Result<(), EntryError> {
        let Some(meta) = &mut self.meta else { return Ok(()) };
        debug_assert!(prescheduled || !self.in_prescheduled, "remaining URLs come first");
        self.in_prescheduled = prescheduled;
        let range = if prescheduled { &mut meta.prescheduled } else { &mut meta.remaining };
        let first = range.len == 0;
        if first {
            range.at = EntryAddr { block: self.blocks.len() as u32 - 1, index: self.block.len() };
        }
        range.len += 1;
        meta.counts.known += 1;
        if entry.state == 0 {
            range.waiting += 1;
        } else {
            let state = state_of(entry.state)?;
            let record = visits_of(entry.visits, state, entry.depth)?;
            meta.counts.moved(State::Known, state);
            meta.visited += 1;
            meta.download_millis = meta
                .download_millis
                .saturating_add(u64::try_from(record.download.as_millis()).unwrap_or(u64::MAX));
            range.due = range.due.min(record.due);
        }
        self.block.push(entry, first);
        range.end = EntryAddr { block: self.blocks.len() as u32 - 1, index: self.block.len() };
        if self.block.is_full() {
            self.close_block()?;
        }
        Ok(())
    }

    /// Adds a visited URL whose bytes nobody has looked at.
    #[cfg(test)]
    pub fn push_unchecked(&mut self, entry: &UrlEntry<'_>) -> Result<(), EntryError> {
        let start = self.block.len();
        self.push(&UrlEntry { state: 0, visits: &[], ..*entry }, true)?;
        debug_assert_eq!(self.block.len(), start + 1, "it must not be the last of its block");
        self.block.replace_last(entry);
        Ok(())
    }

    /// Ends a host; one without URLs leaves no trace.
    pub fn end(&mut self) -> Result<(), Error> {
        let Some(meta) = self.meta.take().filter(|meta| meta.counts.known > 0) else { return Ok(()) };
        if self.page_hosts == 0 {
            self.pages.push((meta.hash, Vec::new()));
        }
        if let Some((_, page)) = self.pages.last_mut() {
            meta.put(page);
        }
        self.page_hosts = (self.page_hosts + 1) % PAGE_HOSTS;
        self.totals.add(&meta);
        Ok(())
    }

    fn close_block(&mut self) -> Result<(), Error> {
        if self.block.len() == 0 {
            return Ok(());
        }
        self.block.finish(|parts| write_block(&mut self.buffer, &parts))?;
        self.blocks.push(self.bytes());
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        self.disk.append(&self.file, &self.buffer).map_err(Error::io("append to", &self.file))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the bucket. Once this returns, the file would survive a power cut.
    pub fn finish(mut self) -> Result<BucketFile, Error> {
        self.close_block()?;
        let mut pages = Vec::with_capacity(self.pages.len());
        for (hash, page) in std::mem::take(&mut self.pages) {
            pages.push((hash, self.bytes()));
            write_block(&mut self.buffer, &[&page])?;
            if self.buffer.len() >= BUFFER_BYTES {
                self.write()?;
            }
        }
        let footer = self.bytes();
        let mut raw = Vec::new();
        self.totals.put(&mut raw);
        put_varint(&mut raw, self.blocks.len() as u64);
        self.blocks.windows(2).for_each(|pair| put_varint(&mut raw, pair[1] - pair[0]));
        put_varint(&mut raw, pages.len() as u64);
        for (hash, offset) in &pages {
            raw.extend_from_slice(&hash.0.to_le_bytes());
            put_varint(&mut raw, *offset);
        }
        // Footers of very large buckets are cut into blocks that a reader believes.
        for part in raw.chunks(1 << 20) {
            write_block(&mut self.buffer, &[part])?;
        }
        let trailer = footer.to_le_bytes();
        self.buffer.extend_from_slice(&trailer);
        self.buffer.extend_from_slice(&crc32fast::hash(&trailer).to_le_bytes());
        self.buffer.extend_from_slice(END_MAGIC);
        self.write()?;
        self.disk.sync(&self.file).map_err(Error::io("sync", &self.file))?;
        Ok(BucketFile {
            disk: self.disk,
            id: self.id,
            file: self.file,
            bytes: self.written,
            totals: self.totals,
            blocks: self.blocks,
            pages,
        })
    }

    /// Gives the file up.
    pub fn abandon(self) {
        // It is no part of the store; opening again would remove it as well.
        let _ = self.disk.remove(&self.file);
    }
}
