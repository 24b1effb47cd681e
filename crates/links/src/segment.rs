//! A sealed segment: records in the order they were written, and an index of them at the end.
//!
//! INVARIANT: a sealed segment never changes. A segment that compaction has replaced keeps its file for as long as
//! somebody still reads it, and takes it along when the last reader lets go. Which records still count is not known
//! here; see [`crate::sources`].

use crate::error::Error;
use crate::files::{
    FileCursor, HEADER_BYTES, Range, check_header, length, read_exact_at, read_footer, remove_replaced,
};
use crate::record::{BODY_BYTES_MAX, HEAD_BYTES, Kind, checked_body};
use farol_base::PagePosition;
use farol_base::codec::Decoder;
use farol_base::disk::Disk;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const MAGIC: &[u8; 8] = b"FAROLLNK";

/// A segment is never longer than this, so that an offset fits 32 bits.
pub(crate) const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64;

/// Is shown a record's body and the byte at which the record starts.
pub(crate) type Visit<'a> = dyn FnMut(u32, &[u8]) -> Result<(), Error> + 'a;

pub(crate) struct Segment {
    pub range: Range,
    pub file: String,
    disk: Arc<dyn Disk>,
    /// Byte at which the records end.
    pub data_end: u64,
    /// Size of the file.
    pub bytes: u64,
    obsolete: AtomicBool,
}

/// Where a record is, without its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub page: u64,
    pub offset: u32,
    /// Length of the record with its head.
    pub bytes: u32,
    pub links: u32,
    pub stamp: u16,
    pub removed: bool,
}

/// What the footer of a segment holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub at_max: PagePosition,
    pub next_stamp: u16,
    /// Records of links and of removals, in the order of the file.
    pub entries: Vec<Entry>,
}

const ENTRY_BYTES: usize = 8 + 4 + 4 + 4 + 2 + 1;

impl Index {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18 + self.entries.len() * ENTRY_BYTES);
        out.extend_from_slice(&self.at_max.file.to_le_bytes());
        out.extend_from_slice(&self.at_max.offset.to_le_bytes());
        out.extend_from_slice(&self.next_stamp.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.page.to_le_bytes());
            out.extend_from_slice(&entry.offset.to_le_bytes());
            out.extend_from_slice(&entry.bytes.to_le_bytes());
            out.extend_from_slice(&entry.links.to_le_bytes());
            out.extend_from_slice(&entry.stamp.to_le_bytes());
            out.push(u8::from(entry.removed));
        }
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Index> {
        let mut decoder = Decoder::of(bytes);
        let at_max = PagePosition { file: decoder.u32().ok()?, offset: decoder.u64().ok()? };
        let next_stamp = decoder.u16().ok()?;
        let count = decoder.u32().ok()? as usize;
        if decoder.len() != count.checked_mul(ENTRY_BYTES)? {
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        while !decoder.is_empty() {
            let (page, offset, bytes) = (decoder.u64().ok()?, decoder.u32().ok()?, decoder.u32().ok()?);
            let (links, stamp, removed) =
                (decoder.u32().ok()?, decoder.u16().ok()?, decoder.byte().ok()? != 0);
            entries.push(Entry { page, offset, bytes, links, stamp, removed });
        }
        Some(Index { at_max, next_stamp, entries })
    }

    pub(crate) fn note(&mut self, offset: u32, body: &[u8], record: &crate::record::Record<'_>) {
        self.at_max = self.at_max.max(record.at);
        if record.kind != Kind::Position {
            self.entries.push(Entry {
                page: record.page.0,
                offset,
                bytes: (HEAD_BYTES + body.len()) as u32,
                links: record.count,
                stamp: record.stamp,
                removed: record.kind == Kind::Removed,
            });
        }
    }
}

impl Segment {
    pub(crate) fn new(disk: Arc<dyn Disk>, range: Range, file: String, data_end: u64, bytes: u64) -> Segment {
        Segment { range, file, disk, data_end, bytes, obsolete: AtomicBool::new(false) }
    }

    /// Opens a segment; `None` where it has not been sealed.
    pub(crate) fn open(disk: &Arc<dyn Disk>, range: Range) -> Result<Option<(Segment, Index)>, Error> {
        let file = range.name("links", "log");
        let Some((data_end, footer)) = read_footer(&**disk, &file)? else { return Ok(None) };
        let mut head = [0; HEADER_BYTES];
        read_exact_at(&**disk, &file, 0, &mut head)?;
        check_header(&file, &head, MAGIC, range)?;
        let index = Index::read(&footer);
        let index = index.ok_or_else(|| Error::damaged(&file, data_end, "its index is not whole"))?;
        let bytes = length(&**disk, &file)?;
        Ok(Some((Segment::new(Arc::clone(disk), range, file, data_end, bytes), index)))
    }

    /// Reads the body of the record at this byte.
    pub(crate) fn body_at(&self, offset: u32) -> Result<Vec<u8>, Error> {
        // One read is enough for the usual page.
        let mut bytes = vec![0; 4096.min((self.data_end.saturating_sub(u64::from(offset))) as usize)];
        read_exact_at(&*self.disk, &self.file, u64::from(offset), &mut bytes)?;
        let length = Decoder::of(&bytes).u32().unwrap_or(0) as usize;
        let whole = HEAD_BYTES + length;
        if length <= BODY_BYTES_MAX && whole > bytes.len() {
            let have = bytes.len();
            bytes.resize(whole, 0);
            read_exact_at(&*self.disk, &self.file, u64::from(offset) + have as u64, &mut bytes[have..])?;
        }
        let body = checked_body(&bytes).ok_or_else(|| self.damaged(u64::from(offset)))?;
        Ok(body.to_vec())
    }

    /// Reads every record in order, checking each.
    pub(crate) fn walk(&self, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut input = FileCursor::buffered(&self.disk, &self.file, HEADER_BYTES as u64, 1 << 18);
        let mut offset = HEADER_BYTES as u64;
        let mut bytes = Vec::new();
        while offset < self.data_end {
            bytes.resize(HEAD_BYTES, 0);
            input.read_exact(&mut bytes).map_err(Error::io("read", &self.file))?;
            let length = Decoder::of(&bytes).u32().unwrap_or(0) as usize;
            if length > BODY_BYTES_MAX || offset + (HEAD_BYTES + length) as u64 > self.data_end {
                return Err(self.damaged(offset));
            }
            bytes.resize(HEAD_BYTES + length, 0);
            input.read_exact(&mut bytes[HEAD_BYTES..]).map_err(Error::io("read", &self.file))?;
            let body = checked_body(&bytes).ok_or_else(|| self.damaged(offset))?;
            visit(offset as u32, body)?;
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    pub(crate) fn damaged(&self, offset: u64) -> Error {
        Error::damaged(&self.file, offset, "the checksum of a record is wrong")
    }

    /// Says that another segment has taken its place.
    pub(crate) fn retire(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Relaxed) {
            remove_replaced(&*self.disk, &self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let entry = Entry { page: 1, offset: 24, bytes: 60, links: 3, stamp: 9, removed: true };
        let at_max = PagePosition { file: 1, offset: 2 };
        let index = Index {
            at_max,
            next_stamp: 65_535,
            entries: vec![entry, Entry { page: 2, removed: false, ..entry }],
        };
        let bytes = index.to_bytes();
        assert_eq!(Index::read(&bytes), Some(index));
        for cut in 0..bytes.len() {
            assert_eq!(Index::read(&bytes[..cut]), None, "{cut}");
        }
    }
}
