//! Reads a run, or a memtable as if it were one.

use crate::Error;
use crate::urls::veuni::block_frame::FrameReader;
use crate::urls::veuni::compaction::delta::HostDelta;
use crate::urls::veuni::memtable::{Memtable, MemtableReader};
use farol_base::HostHash;
use farol_base::codec::{DecodeError, Decoder};
use farol_base::disk::Disk;
use std::ops::Range;
use std::sync::Arc;

/// Reads deltas host by host: from a run of a file, or from a memtable.
pub enum RunReader {
    File(Box<RunFileReader>),
    Memtable(MemtableReader),
}

impl RunReader {
    pub fn file(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<RunReader, Error> {
        RunFileReader::open(disk, file, offsets).map(|reader| RunReader::File(Box::new(reader)))
    }

    pub fn memtable(memtable: Arc<Memtable>) -> RunReader {
        RunReader::Memtable(MemtableReader::new(memtable))
    }

    /// Hash and host of the next host.
    pub fn peek(&self) -> Option<(HostHash, &str)> {
        match self {
            RunReader::File(file) => file.next.as_ref().map(|next| (next.hash, &*next.host)),
            RunReader::Memtable(memtable) => memtable.peek(),
        }
    }

    /// Adds the deltas of the next host, all of them, to earlier ones.
    pub fn read_host(&mut self, into: &mut HostDelta) -> Result<(), Error> {
        match self {
            RunReader::File(file) => file.read_host(into),
            RunReader::Memtable(memtable) => memtable.read_host(into).map_err(|what| Error::Damaged {
                file: "memory".to_string(),
                offset: 0,
                what: what.to_string(),
            }),
        }
    }
}

/// A block that is being read: its bytes, and what is left of each column.
#[derive(Debug, Default)]
pub struct RunBlock {
    pub raw: Vec<u8>,
    hosts: Range<usize>,
    pub coding: Range<usize>,
    pub own: Range<usize>,
    pub flags: Range<usize>,
    pub depths: Range<usize>,
    pub events: Range<usize>,
}

impl RunBlock {
    /// Finds the columns, after `raw` was read.
    fn open(&mut self) -> Result<(), DecodeError> {
        let RunBlock { raw, hosts, coding, own, flags, depths, events } = self;
        let mut bytes = Decoder::of(raw);
        for column in [hosts, coding, own, flags, depths, events] {
            let len = bytes.bytes()?.len();
            let end = raw.len() - bytes.len();
            *column = end - len..end;
        }
        Ok(())
    }

    /// Reads the next host's heading; its name goes into `host`.
    fn heading(&mut self, mut host: String) -> Result<HostHeading, DecodeError> {
        let mut bytes = Decoder::of(&self.raw[self.hosts.clone()]);
        host.clear();
        host.push_str(bytes.text()?);
        let heading =
            HostHeading { hash: HostHash::of(&host), host, flags: bytes.byte()?, count: bytes.varint()? };
        self.hosts.start = self.hosts.end - bytes.len();
        Ok(heading)
    }
}

/// Reads a run of a file.
pub struct RunFileReader {
    frame_reader: FrameReader,
    offsets: std::vec::IntoIter<u64>,
    /// Offset of the open block, for errors.
    offset: u64,
    block: RunBlock,
    /// The host whose deltas come next.
    next: Option<HostHeading>,
    /// Memory for the name after that.
    name: String,
}

/// A host of a block, as its column of hosts has it.
#[derive(Debug)]
struct HostHeading {
    hash: HostHash,
    host: String,
    flags: u8,
    count: u64,
}

impl RunFileReader {
    fn open(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<RunFileReader, Error> {
        let (frame_reader, offsets) = (FrameReader::new(disk, file, 64 << 10), offsets.into_iter());
        let mut reader = RunFileReader {
            frame_reader,
            offsets,
            offset: 0,
            block: RunBlock::default(),
            next: None,
            name: String::new(),
        };
        reader.advance()?;
        Ok(reader)
    }

    fn damaged(&self, what: &str) -> Error {
        self.frame_reader.damaged(self.offset, what)
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.next = None;
        while self.block.hosts.is_empty() {
            let Some(offset) = self.offsets.next() else { return Ok(()) };
            self.offset = offset;
            self.frame_reader.read(offset, &mut self.block.raw)?;
            self.block.open().map_err(|what| self.damaged(what))?;
        }
        let heading = self.block.heading(std::mem::take(&mut self.name));
        self.next = Some(heading.map_err(|what| self.damaged(what))?);
        Ok(())
    }

    fn read_host(&mut self, into: &mut HostDelta) -> Result<(), Error> {
        let Some(first) = self.next.take() else { return Ok(()) };
        let (mut flags, mut count) = (first.flags, first.count);
        loop {
            into.read(flags, count, &mut self.block).map_err(|what| self.damaged(what))?;
            self.advance()?;
            match &self.next {
                Some(next) if (next.hash, &next.host) == (first.hash, &first.host) => {
                    (flags, count) = (next.flags, next.count);
                }
                _ => break,
            }
        }
        self.name = first.host;
        Ok(())
    }
}
