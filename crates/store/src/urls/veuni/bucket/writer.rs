//! Writes a block, front to back.

use super::entry::PieceBuilder;
use super::{
    BlockFile, BlockId, END_MAGIC, Entry, Group, HEADER_BYTES, MAGIC, PAGE_SERVERS, Server, Spot, Totals,
    VERSION,
};
use crate::Error;
use crate::urls::veuni::block_frame::put_frame;
use crate::urls::veuni::codec::{put, state_of, visits_of};
use crate::urls::{HostCounts, State};
use farol_base::disk::Disk;
use std::sync::Arc;

/// Bytes gathered before they go to the disk.
const BUFFER_BYTES: usize = 1 << 20;

/// A block being written. Its directory waits in memory: some 60 bytes per server.
#[derive(Debug)]
pub struct BlockWriter {
    disk: Arc<dyn Disk>,
    id: BlockId,
    file: String,
    buffer: Vec<u8>,
    /// Bytes that went to the disk.
    written: u64,
    piece: PieceBuilder,
    /// Where each piece starts, and where the last one ends.
    pieces: Vec<u64>,
    server: Option<Server>,
    in_prescheduled: bool,
    pages: Vec<(u64, Vec<u8>)>,
    page_servers: usize,
    totals: Totals,
}

impl BlockWriter {
    /// Begins a file; whatever had its name is replaced.
    pub fn create(disk: Arc<dyn Disk>, id: BlockId) -> Result<BlockWriter, Error> {
        let file = id.file_name();
        disk.remove(&file).map_err(Error::io("remove", &file))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        buffer.extend_from_slice(MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        buffer.extend_from_slice(&id.number.to_le_bytes());
        [id.generation, id.from, id.upto]
            .iter()
            .for_each(|number| buffer.extend_from_slice(&number.to_le_bytes()));
        buffer.extend_from_slice(&crc32fast::hash(&buffer).to_le_bytes());
        Ok(BlockWriter {
            disk,
            id,
            file,
            buffer,
            written: 0,
            piece: PieceBuilder::default(),
            pieces: vec![HEADER_BYTES as u64],
            server: None,
            in_prescheduled: false,
            pages: Vec::new(),
            page_servers: 0,
            totals: Totals::default(),
        })
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    /// Bytes so far, but for the piece and the page that are open.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub fn servers(&self) -> u64 {
        self.totals.servers
    }

    /// Begins a server; they come in the order of their hashes, then of their names.
    pub fn begin(&mut self, hash: u64, host: &str) {
        self.in_prescheduled = false;
        self.server = Some(Server {
            hash,
            host: host.to_string(),
            remaining: Group::default(),
            prescheduled: Group::default(),
            counts: HostCounts::default(),
            download_millis: 0,
            visited: 0,
        });
    }

    /// Adds a URL to the server's remaining ones, which come first, or to its pre-scheduled ones.
    pub fn push(&mut self, entry: &Entry<'_>, prescheduled: bool) -> Result<(), Error> {
        let Some(server) = &mut self.server else { return Ok(()) };
        debug_assert!(prescheduled || !self.in_prescheduled, "remaining URLs come first");
        self.in_prescheduled = prescheduled;
        let group = if prescheduled { &mut server.prescheduled } else { &mut server.remaining };
        let first = group.len == 0;
        if first {
            group.at = Spot { piece: self.pieces.len() as u32 - 1, index: self.piece.len() };
        }
        group.len += 1;
        server.counts.known += 1;
        if entry.state == 0 {
            group.waiting += 1;
        } else {
            let misfit =
                |what: &str| Error::Damaged { file: self.file.clone(), offset: 0, what: what.to_string() };
            let state = state_of(entry.state).map_err(misfit)?;
            let record = visits_of(entry.visits, state, entry.depth).map_err(misfit)?;
            server.counts.moved(State::Known, state);
            server.visited += 1;
            server.download_millis = server
                .download_millis
                .saturating_add(u64::try_from(record.download.as_millis()).unwrap_or(u64::MAX));
            group.due = group.due.min(record.due);
        }
        self.piece.push(entry, first);
        group.end = Spot { piece: self.pieces.len() as u32 - 1, index: self.piece.len() };
        if self.piece.is_full() {
            self.close_piece()?;
        }
        Ok(())
    }

    /// Ends a server; one without URLs leaves no trace.
    pub fn end(&mut self) -> Result<(), Error> {
        let Some(server) = self.server.take().filter(|server| server.counts.known > 0) else { return Ok(()) };
        if self.page_servers == 0 {
            self.pages.push((server.hash, Vec::new()));
        }
        if let Some((_, page)) = self.pages.last_mut() {
            server.put(page);
        }
        self.page_servers = (self.page_servers + 1) % PAGE_SERVERS;
        self.totals.add(&server);
        Ok(())
    }

    fn close_piece(&mut self) -> Result<(), Error> {
        if self.piece.len() == 0 {
            return Ok(());
        }
        self.piece.finish(|parts| put_frame(&mut self.buffer, &parts))?;
        self.pieces.push(self.bytes());
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        self.disk.append(&self.file, &self.buffer).map_err(Error::io("append to", &self.file))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the block. Once this returns, the file would survive a power cut.
    pub fn finish(mut self) -> Result<BlockFile, Error> {
        self.close_piece()?;
        let mut pages = Vec::with_capacity(self.pages.len());
        for (hash, page) in std::mem::take(&mut self.pages) {
            pages.push((hash, self.bytes()));
            put_frame(&mut self.buffer, &[&page])?;
            if self.buffer.len() >= BUFFER_BYTES {
                self.write()?;
            }
        }
        let footer = self.bytes();
        let mut raw = Vec::new();
        self.totals.put(&mut raw);
        put(&mut raw, self.pieces.len() as u64);
        self.pieces.windows(2).for_each(|pair| put(&mut raw, pair[1] - pair[0]));
        put(&mut raw, pages.len() as u64);
        for (hash, offset) in &pages {
            raw.extend_from_slice(&hash.to_le_bytes());
            put(&mut raw, *offset);
        }
        // Footers of very large blocks are cut into pieces that a reader believes.
        for part in raw.chunks(1 << 20) {
            put_frame(&mut self.buffer, &[part])?;
        }
        let trailer = footer.to_le_bytes();
        self.buffer.extend_from_slice(&trailer);
        self.buffer.extend_from_slice(&crc32fast::hash(&trailer).to_le_bytes());
        self.buffer.extend_from_slice(END_MAGIC);
        self.write()?;
        self.disk.sync(&self.file).map_err(Error::io("sync", &self.file))?;
        Ok(BlockFile {
            disk: self.disk,
            id: self.id,
            file: self.file,
            bytes: self.written,
            totals: self.totals,
            pieces: self.pieces,
            pages,
        })
    }

    /// Gives the file up.
    pub fn abandon(self) {
        // It is no part of the store; opening again would remove it as well.
        let _ = self.disk.remove(&self.file);
    }
}
