//! A bucket: the hosts of one range of hashes, each with its known URLs, in one file that is never changed.
//!
//! A host's URLs are in two ranges, both sorted by path: *remaining* and *pre-scheduled* (what may be drawn
//! now). Drawn byte by byte in `docs/formats/urls.md`:
//!
//! ```text
//! header | blocks of URLs … | pages of the directory … | footer | trailer
//! ```
//! [`BucketWriter`] writes it front to back, [`BucketFile`] knows where everything is, [`Cursor`] reads URLs.
//!
//! In memory a bucket is 8 bytes per block (about two thousand URLs) and 16 bytes per 64 hosts.

mod cursor;
mod entry;
mod file;
mod state;
mod writer;

use crate::Error;
use crate::urls::HostCounts;
use farol_base::HostHash;
use farol_base::Timestamp;
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_instant, put_varint};

pub use cursor::Cursor;
pub use entry::UrlEntry;
pub use file::BucketFile;
pub use state::{Backoff, Bucket, BucketContent, BucketState, Damage};
pub use writer::BucketWriter;

const MAGIC: &[u8; 8] = b"FAROLBLK";
const END_MAGIC: &[u8; 8] = b"FAROLEND";
const VERSION: u32 = 1;
/// Magic, version, number, generation, first hash, sequence number, checksum of these.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8 + 8 + 4;
/// Offset of the footer, its checksum, magic.
const TRAILER_BYTES: usize = 8 + 4 + 8;
/// Hosts in a page of the directory.
const PAGE_HOSTS: usize = 64;

/// Which bucket a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketId {
    pub number: u32,
    /// Grows each time that the bucket is rewritten.
    pub generation: u64,
    /// Smallest hash of a host that belongs here.
    pub from: HostHash,
    /// Batches of the WAL up to this one are in it.
    pub flushed_seqno: u64,
}

impl BucketId {
    pub fn file_name(&self) -> String {
        format!("block-{:06}-{:08}", self.number, self.generation)
    }
}

/// Where a URL of a bucket is: block, and index in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryAddr {
    pub block: u32,
    pub index: u32,
}

/// What the directory says of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMeta {
    pub hash: HostHash,
    pub host: String,
    pub remaining: EntryRange,
    pub prescheduled: EntryRange,
    pub counts: HostCounts,
    /// Milliseconds that all downloads of visited URLs took, each with its newest.
    pub download_millis: u64,
    pub visited: u64,
}

/// A range of a host's URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRange {
    pub at: EntryAddr,
    /// After the last of them.
    pub end: EntryAddr,
    pub len: u64,
    /// Never visited.
    pub waiting: u64,
    /// When the first of the visited ones is due again.
    pub due: Timestamp,
}

impl Default for EntryRange {
    fn default() -> EntryRange {
        EntryRange {
            at: EntryAddr::default(),
            end: EntryAddr::default(),
            len: 0,
            waiting: 0,
            due: Timestamp::NEVER,
        }
    }
}

impl EntryRange {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len);
        if self.len > 0 {
            put_varint(out, u64::from(self.at.block));
            put_varint(out, u64::from(self.at.index));
            put_varint(out, u64::from(self.end.block - self.at.block));
            put_varint(out, u64::from(self.end.index));
            put_varint(out, self.waiting);
            put_instant(out, self.due);
        }
    }

    fn read(bytes: &mut Decoder<'_>) -> Result<EntryRange, DecodeError> {
        let len = bytes.varint()?;
        if len == 0 {
            return Ok(EntryRange::default());
        }
        let at = EntryAddr { block: bytes.varint_as()?, index: bytes.varint_as()? };
        let blocks: u32 = bytes.varint_as()?;
        let end = EntryAddr {
            block: at.block.checked_add(blocks).ok_or("a block beyond the end")?,
            index: bytes.varint_as()?,
        };
        if end <= at {
            return Err("a group that ends before it begins");
        }
        Ok(EntryRange { at, end, len, waiting: bytes.varint()?, due: bytes.instant()? })
    }

    /// When the first of them can be drawn.
    pub fn ready(&self) -> Timestamp {
        if self.waiting > 0 { Timestamp::EPOCH } else { self.due }
    }
}

impl HostMeta {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash.0.to_le_bytes());
        put_bytes(out, self.host.as_bytes());
        self.remaining.put(out);
        self.prescheduled.put(out);
        put_varint(out, self.visited);
        if self.visited > 0 {
            let HostCounts { known: _, collected, gone, refused, failed } = self.counts;
            [collected, gone, refused, failed, self.download_millis]
                .into_iter()
                .for_each(|count| put_varint(out, count));
        }
    }

    fn read(bytes: &mut Decoder<'_>) -> Result<HostMeta, DecodeError> {
        let hash = HostHash(bytes.u64()?);
        let host = bytes.text()?.to_string();
        let (remaining, prescheduled) = (EntryRange::read(bytes)?, EntryRange::read(bytes)?);
        let visited = bytes.varint()?;
        let known = remaining.len.checked_add(prescheduled.len).ok_or("more URLs than there can be")?;
        let mut counts = HostCounts { known, ..HostCounts::default() };
        let mut download_millis = 0;
        if visited > 0 {
            counts.collected = bytes.varint()?;
            counts.gone = bytes.varint()?;
            counts.refused = bytes.varint()?;
            counts.failed = bytes.varint()?;
            download_millis = bytes.varint()?;
        }
        Ok(HostMeta { hash, host, remaining, prescheduled, counts, download_millis, visited })
    }

    pub fn waiting(&self) -> u64 {
        self.remaining.waiting + self.prescheduled.waiting
    }
}

/// What can go wrong with an entry on its way from one file to another.
///
/// An entry does not know where it was stored; its [`Cursor`] does ([`Cursor::locate`]).
#[derive(Debug)]
pub enum EntryError {
    Undecodable(DecodeError),
    Store(Error),
}

impl From<DecodeError> for EntryError {
    fn from(what: DecodeError) -> EntryError {
        EntryError::Undecodable(what)
    }
}

impl From<Error> for EntryError {
    fn from(error: Error) -> EntryError {
        EntryError::Store(error)
    }
}

impl EntryError {
    /// The error of an entry that was in no file yet.
    pub fn in_memory(self) -> Error {
        match self {
            EntryError::Store(error) => error,
            EntryError::Undecodable(what) => {
                Error::Damaged { file: "memory".to_string(), offset: 0, what: what.to_string() }
            }
        }
    }
}

/// Sums over a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketTotals {
    pub hosts: u64,
    pub known: u64,
    pub collected: u64,
    pub waiting: u64,
    /// When the first pre-scheduled URL can be drawn, and the first remaining one.
    pub prescheduled_ready: Timestamp,
    pub remaining_ready: Timestamp,
}

impl Default for BucketTotals {
    fn default() -> BucketTotals {
        let (prescheduled_ready, remaining_ready) = (Timestamp::NEVER, Timestamp::NEVER);
        BucketTotals { hosts: 0, known: 0, collected: 0, waiting: 0, prescheduled_ready, remaining_ready }
    }
}

impl BucketTotals {
    fn add(&mut self, meta: &HostMeta) {
        self.hosts += 1;
        self.known += meta.counts.known;
        self.collected += meta.counts.collected;
        self.waiting += meta.waiting();
        self.prescheduled_ready = self.prescheduled_ready.min(meta.prescheduled.ready());
        self.remaining_ready = self.remaining_ready.min(meta.remaining.ready());
    }

    fn put(&self, out: &mut Vec<u8>) {
        [self.hosts, self.known, self.collected, self.waiting]
            .into_iter()
            .for_each(|count| put_varint(out, count));
        put_instant(out, self.prescheduled_ready);
        put_instant(out, self.remaining_ready);
    }

    fn read(bytes: &mut Decoder<'_>) -> Result<BucketTotals, DecodeError> {
        Ok(BucketTotals {
            hosts: bytes.varint()?,
            known: bytes.varint()?,
            collected: bytes.varint()?,
            waiting: bytes.varint()?,
            prescheduled_ready: bytes.instant()?,
            remaining_ready: bytes.instant()?,
        })
    }
}
