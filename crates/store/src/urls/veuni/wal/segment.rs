//! Segments: the files of the WAL, named after the sequence number of their first batch.

use crate::Error;
use crate::urls::Source;
use farol_base::PagePosition;
use farol_base::codec::{DecodeError, Decoder, put_varint};
use farol_base::disk::Disk;
use std::collections::BTreeMap;

const MAGIC: &[u8; 8] = b"FAROLLOG";
pub const VERSION: u32 = 3;
/// It has no numbers of senders; everything else is the same.
const VERSION_WITHOUT_NUMBERS: u32 = 2;
/// Magic, version, first batch, watermark (file, offset), checksum of these.
const OLD_HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 8 + 4;
/// As above, with the length of the numbers that follow.
const HEADER_BYTES: usize = OLD_HEADER_BYTES + 4;

/// A file of the WAL.
#[derive(Debug)]
pub struct WalSegment {
    pub file: String,
    /// Sequence number of its first batch.
    pub first: u64,
    /// Bytes before its first batch, once there are any.
    pub head_bytes: u64,
    pub len: u64,
}

pub fn segment_name(first: u64) -> String {
    format!("log-{first:012}")
}

/// Returns when these files, up to these lengths, would survive a power cut; one that is no longer needed may
/// be deleted.
pub fn sync(disk: &dyn Disk, files: &[(String, u64)]) -> Result<(), Error> {
    for (file, len) in files {
        match disk.sync(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            result => {
                result.map_err(Error::io("sync", file))?;
                // Nobody reads it but after a crash. Dropped from the page cache, its pages serve for what is appended
                // next; fresh ones can take the producer several times as long.
                disk.drop_cache(file, *len);
            }
        }
    }
    Ok(())
}

/// What a segment says before its first batch: where the archive and the senders stood then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHead {
    pub first: u64,
    pub watermark: PagePosition,
    pub numbers: BTreeMap<Source, u64>,
    /// Bytes that it takes.
    pub len: u64,
}

/// The header of a segment: magic, version, first batch, watermark, length of the numbers of senders, checksum; then
/// these numbers and their checksum.
pub fn header(first: u64, watermark: PagePosition, numbers: &BTreeMap<Source, u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 * numbers.len());
    for (source, number) in numbers {
        put_varint(&mut bytes, source.0);
        put_varint(&mut bytes, *number);
    }
    let mut header = Vec::with_capacity(HEADER_BYTES + bytes.len() + 4);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&first.to_le_bytes());
    header.extend_from_slice(&watermark.file.to_le_bytes());
    header.extend_from_slice(&watermark.offset.to_le_bytes());
    header.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
    header.extend_from_slice(&bytes);
    header.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    header
}

/// Reads a segment's header; `None` where the file ends in it, as a crash leaves it.
pub fn read_header(disk: &dyn Disk, file: &str) -> Result<Option<SegmentHead>, Error> {
    let damaged = |what: &str| Error::Damaged { file: file.to_string(), offset: 0, what: what.to_string() };
    let read = |offset: usize, into: &mut [u8]| {
        let read = disk.read_at(file, offset as u64, into);
        read.map_err(Error::io("read", file)).map(|count| count == into.len())
    };
    let mut head = [0; HEADER_BYTES];
    let is_long = read(0, &mut head)?;
    if !is_long && !read(0, &mut head[..OLD_HEADER_BYTES])? {
        return Ok(None);
    }
    // The checksum first: a flipped bit is damage, not another version.
    let fits = |head: &[u8]| {
        let (body, crc) = head.split_at(head.len() - 4);
        crc32fast::hash(body).to_le_bytes() == crc
    };
    let is_old = fits(&head[..OLD_HEADER_BYTES]);
    if !is_old && !is_long {
        return Ok(None);
    }
    if !is_old && !fits(&head) {
        return Err(damaged("its header does not fit"));
    }
    if &head[..8] != MAGIC {
        return Err(Error::NotOurs { file: file.to_string() });
    }
    let mut bytes = Decoder::of(&head[8..]);
    let mut fixed = || -> Result<(u32, u64, u32, u64, u32), DecodeError> {
        Ok((bytes.u32()?, bytes.u64()?, bytes.u32()?, bytes.u64()?, bytes.u32()?))
    };
    let (version, first, file_number, offset, count) = fixed().map_err(damaged)?;
    let watermark = PagePosition { file: file_number, offset };
    match (version, is_old) {
        (VERSION, false) => {}
        (VERSION_WITHOUT_NUMBERS, true) => {
            return Ok(Some(SegmentHead {
                first,
                watermark,
                numbers: BTreeMap::new(),
                len: OLD_HEADER_BYTES as u64,
            }));
        }
        _ => return Err(Error::Version { file: file.to_string(), found: version, known: VERSION }),
    }
    // Nobody has so many senders, and nothing is allocated for what is not there.
    let len = disk.len(file).map_err(Error::io("look at", file))?.unwrap_or(0);
    if (HEADER_BYTES as u64 + u64::from(count) + 4) > len {
        return Ok(None);
    }
    let mut body = vec![0; count as usize + 4];
    read(HEADER_BYTES, &mut body)?;
    if !fits(&body) {
        return Err(damaged("its numbers of senders do not fit their checksum"));
    }
    let (mut numbers, mut bytes) = (BTreeMap::new(), Decoder::of(&body[..count as usize]));
    while !bytes.is_empty() {
        let mut pair = || -> Result<(u64, u64), DecodeError> { Ok((bytes.varint()?, bytes.varint()?)) };
        let (source, number) = pair().map_err(damaged)?;
        numbers.insert(Source(source), number);
    }
    Ok(Some(SegmentHead { first, watermark, numbers, len: (HEADER_BYTES + body.len()) as u64 }))
}
