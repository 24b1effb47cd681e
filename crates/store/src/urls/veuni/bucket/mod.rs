//! A block: the servers of one range of hashes, each with its known URLs, in one file that is never changed.
//!
//! A server's URLs stand in two groups, both sorted by path: *remaining* and *pre-scheduled* (what may be handed
//! out now). Drawn byte by byte in `docs/formats/urls.md`:
//!
//! ```text
//! header | pieces of URLs … | pages of the directory … | footer | trailer
//! ```
//! [`BlockWriter`] writes it front to back, [`BlockFile`] knows where everything is, [`Cursor`] reads URLs.
//!
//! In memory a block is 8 bytes per piece (about two thousand URLs) and 16 bytes per 64 servers.

mod cursor;
mod entry;
mod file;
mod writer;

use crate::urls::HostCounts;
use crate::urls::veuni::codec::{Bytes, Misfit, put, put_bytes, put_instant};
use farol_base::Timestamp;

pub use cursor::Cursor;
pub use entry::Entry;
pub use file::BlockFile;
pub use writer::BlockWriter;

const MAGIC: &[u8; 8] = b"FAROLBLK";
const END_MAGIC: &[u8; 8] = b"FAROLEND";
const VERSION: u32 = 1;
/// Magic, version, number, generation, first hash, log position, checksum of these.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8 + 8 + 4;
/// Offset of the footer, its checksum, magic.
const TRAILER_BYTES: usize = 8 + 4 + 8;
/// Servers in a page of the directory.
const PAGE_SERVERS: usize = 64;

/// Which block a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    pub number: u32,
    /// Grows each time that the block is rewritten.
    pub generation: u64,
    /// Smallest hash of a server that belongs here.
    pub from: u64,
    /// Batches of the log up to this one are in it.
    pub upto: u64,
}

impl BlockId {
    pub fn file_name(&self) -> String {
        format!("block-{:06}-{:08}", self.number, self.generation)
    }
}

/// A place among the URLs of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    pub piece: u32,
    pub index: u32,
}

/// What the directory says of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub hash: u64,
    pub host: String,
    pub remaining: Group,
    pub prescheduled: Group,
    pub counts: HostCounts,
    /// Milliseconds that all downloads of visited URLs took, each with its newest.
    pub download_millis: u64,
    pub visited: u64,
}

/// A group of a server's URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub at: Spot,
    /// Behind the last of them.
    pub end: Spot,
    pub len: u64,
    /// Never visited.
    pub waiting: u64,
    /// When the first of the visited ones is due again.
    pub due: Timestamp,
}

impl Default for Group {
    fn default() -> Group {
        Group { at: Spot::default(), end: Spot::default(), len: 0, waiting: 0, due: Timestamp::NEVER }
    }
}

impl Group {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.len);
        if self.len > 0 {
            put(out, u64::from(self.at.piece));
            put(out, u64::from(self.at.index));
            put(out, u64::from(self.end.piece - self.at.piece));
            put(out, u64::from(self.end.index));
            put(out, self.waiting);
            put_instant(out, self.due);
        }
    }

    fn read(bytes: &mut Bytes<'_>) -> Result<Group, Misfit> {
        let len = bytes.number()?;
        if len == 0 {
            return Ok(Group::default());
        }
        let at = Spot { piece: bytes.small()?, index: bytes.small()? };
        let pieces: u32 = bytes.small()?;
        let end = Spot {
            piece: at.piece.checked_add(pieces).ok_or("a piece beyond the end")?,
            index: bytes.small()?,
        };
        if end <= at {
            return Err("a group that ends before it begins");
        }
        Ok(Group { at, end, len, waiting: bytes.number()?, due: bytes.instant()? })
    }

    /// When the first of them can be handed out.
    pub fn ready(&self) -> Timestamp {
        if self.waiting > 0 { Timestamp::EPOCH } else { self.due }
    }
}

impl Server {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash.to_le_bytes());
        put_bytes(out, self.host.as_bytes());
        self.remaining.put(out);
        self.prescheduled.put(out);
        put(out, self.visited);
        if self.visited > 0 {
            let HostCounts { known: _, collected, gone, refused, failed } = self.counts;
            [collected, gone, refused, failed, self.download_millis]
                .into_iter()
                .for_each(|count| put(out, count));
        }
    }

    fn read(bytes: &mut Bytes<'_>) -> Result<Server, Misfit> {
        let hash = u64::from_le_bytes(bytes.fixed()?);
        let host = bytes.text()?.to_string();
        let (remaining, prescheduled) = (Group::read(bytes)?, Group::read(bytes)?);
        let visited = bytes.number()?;
        let known = remaining.len.checked_add(prescheduled.len).ok_or("more URLs than there can be")?;
        let mut counts = HostCounts { known, ..HostCounts::default() };
        let mut download_millis = 0;
        if visited > 0 {
            counts.collected = bytes.number()?;
            counts.gone = bytes.number()?;
            counts.refused = bytes.number()?;
            counts.failed = bytes.number()?;
            download_millis = bytes.number()?;
        }
        Ok(Server { hash, host, remaining, prescheduled, counts, download_millis, visited })
    }

    pub fn waiting(&self) -> u64 {
        self.remaining.waiting + self.prescheduled.waiting
    }
}

/// Sums over a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub servers: u64,
    pub known: u64,
    pub collected: u64,
    pub waiting: u64,
    /// When the first pre-scheduled URL can be handed out, and the first remaining one.
    pub prescheduled_ready: Timestamp,
    pub remaining_ready: Timestamp,
}

impl Default for Totals {
    fn default() -> Totals {
        let (prescheduled_ready, remaining_ready) = (Timestamp::NEVER, Timestamp::NEVER);
        Totals { servers: 0, known: 0, collected: 0, waiting: 0, prescheduled_ready, remaining_ready }
    }
}

impl Totals {
    fn add(&mut self, server: &Server) {
        self.servers += 1;
        self.known += server.counts.known;
        self.collected += server.counts.collected;
        self.waiting += server.waiting();
        self.prescheduled_ready = self.prescheduled_ready.min(server.prescheduled.ready());
        self.remaining_ready = self.remaining_ready.min(server.remaining.ready());
    }

    fn put(&self, out: &mut Vec<u8>) {
        [self.servers, self.known, self.collected, self.waiting]
            .into_iter()
            .for_each(|count| put(out, count));
        put_instant(out, self.prescheduled_ready);
        put_instant(out, self.remaining_ready);
    }

    fn read(bytes: &mut Bytes<'_>) -> Result<Totals, Misfit> {
        Ok(Totals {
            servers: bytes.number()?,
            known: bytes.number()?,
            collected: bytes.number()?,
            waiting: bytes.number()?,
            prescheduled_ready: bytes.instant()?,
            remaining_ready: bytes.instant()?,
        })
    }
}
