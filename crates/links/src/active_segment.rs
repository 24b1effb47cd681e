//! The segment being written, whole in memory until it is sealed, with its anchors findable by target.
//!
//! Memory: `segment_bytes` of records, 24 bytes per link with a text, 512 KiB of chain heads; with segments of 8 MiB
//! and links of 25 bytes that is 8 + 8 + 0.5 MiB.
//!
//! INVARIANT: the file begins with `bytes[..flushed]`; anything after that is what a failed append left, or a footer,
//! and is cut off before the next append (`has_tail`).

use crate::error::Error;
use crate::files::{HEADER_BYTES, Range, check_header, footer_and_trailer, header, read_whole};
use crate::record::{HEAD_BYTES, KeptLink, Kind, LinkReader, Record, append, checked_body};
use crate::segment::{Index, MAGIC, Segment, Visit};
use crate::sources::Seed;
use farol_base::PagePosition;
use farol_base::disk::Disk;
use std::sync::Arc;

/// Chains of postings; 2^17 × 4 bytes = 512 KiB, a handful of postings each in a full segment.
const HEADS: usize = 1 << 17;
const NONE: u32 = u32::MAX;

/// A link with a text, in a segment that is in memory.
#[derive(Clone, Copy)]
pub(crate) struct Posting {
    pub target: u64,
    /// Byte at which its record starts.
    pub record: u32,
    /// Byte at which the link itself starts.
    pub link: u32,
    next: u32,
}

pub(crate) struct ActiveSegment {
    pub number: u32,
    pub slot: u16,
    disk: Arc<dyn Disk>,
    file: String,
    bytes: Vec<u8>,
    flushed: usize,
    /// Whether the file may hold bytes after `flushed`.
    has_tail: bool,
    /// Size of the file with its footer, once that is written.
    sealed_bytes: Option<u64>,
    postings: Vec<Posting>,
    heads: Vec<u32>,
    seed: Seed,
}

impl ActiveSegment {
    /// Starts an empty segment.
    pub(crate) fn create(disk: &Arc<dyn Disk>, number: u32, slot: u16) -> Result<ActiveSegment, Error> {
        let mut active = ActiveSegment::empty(disk, number, slot);
        // Whatever an attempt that failed has left.
        disk.remove(&active.file).map_err(Error::io("create", &active.file))?;
        active.flush()?;
        Ok(active)
    }

    /// Reads a segment that was being written when the process ended. Whatever follows the last whole record is
    /// cut off; answers how many bytes that were.
    pub(crate) fn load(disk: &Arc<dyn Disk>, number: u32, slot: u16) -> Result<(ActiveSegment, u64), Error> {
        let mut active = ActiveSegment::empty(disk, number, slot);
        let bytes = read_whole(&**disk, &active.file)?.unwrap_or_default();
        if bytes.len() < HEADER_BYTES {
            // Even the header is torn: nothing was ever promised.
            active.has_tail = true;
            active.flush()?;
            return Ok((active, bytes.len() as u64));
        }
        check_header(&active.file, &bytes, MAGIC, Range::new(number))?;
        let mut end = HEADER_BYTES;
        while let Some(body) = checked_body(&bytes[end..])
            && Record::read(body).is_some()
        {
            end += HEAD_BYTES + body.len();
        }
        let cut = bytes.len() - end;
        if cut > 0 {
            disk.truncate(&active.file, end as u64).map_err(Error::io("cut", &active.file))?;
        }
        active.bytes = bytes;
        active.bytes.truncate(end);
        active.flushed = end;
        let mut at = HEADER_BYTES;
        while at < end {
            at = active.index_postings(at);
        }
        Ok((active, cut as u64))
    }

    fn empty(disk: &Arc<dyn Disk>, number: u32, slot: u16) -> ActiveSegment {
        let (disk, file) = (Arc::clone(disk), Range::new(number).name("links", "log"));
        let bytes = header(MAGIC, Range::new(number)).to_vec();
        let (postings, heads, seed) = (Vec::new(), vec![NONE; HEADS], Seed::default());
        ActiveSegment {
            number,
            slot,
            disk,
            file,
            bytes,
            flushed: 0,
            has_tail: false,
            sealed_bytes: None,
            postings,
            heads,
            seed,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Appends a record; answers where it starts and how long it is.
    pub(crate) fn append(&mut self, record: &Record<'_>) -> (u32, u32) {
        let start = self.bytes.len();
        append(&mut self.bytes, record);
        let end = self.index_postings(start);
        (start as u32, (end - start) as u32)
    }

    /// Makes the anchors of the record at `start` findable; answers where the next one starts.
    fn index_postings(&mut self, start: usize) -> usize {
        let body_bytes =
            u32::from_le_bytes(self.bytes[start..start + 4].try_into().unwrap_or([0; 4])) as usize;
        let end = start + HEAD_BYTES + body_bytes;
        let Some(record) = Record::read(&self.bytes[start + HEAD_BYTES..end]) else { return end };
        if record.kind != Kind::Links {
            return end;
        }
        let links_start = end - record.links.len();
        for link in record.links().filter(|link| link.speaks(record.page)) {
            let head = &mut self.heads[(self.seed.spread(link.target) as usize) % HEADS];
            let at = (links_start + link.offset) as u32;
            self.postings.push(Posting { target: link.target, record: start as u32, link: at, next: *head });
            *head = (self.postings.len() - 1) as u32;
        }
        end
    }

    /// The record that starts at this byte.
    pub(crate) fn body_at(&self, offset: u32) -> Option<&[u8]> {
        checked_body(self.bytes.get(offset as usize..)?)
    }

    /// Shows each link with a text to this target, newest first, with the byte at which its record starts, until
    /// told to stop.
    pub(crate) fn find<'a>(&'a self, target: u64, visit: &mut dyn FnMut(u32, u64, KeptLink<'a>) -> bool) {
        let mut next = self.heads[(self.seed.spread(target) as usize) % HEADS];
        while let Some(posting) = self.postings.get(next as usize) {
            if posting.target == target
                && let Some((source, _, link)) = resolve(&self.bytes, posting)
                && !visit(posting.record, source, link)
            {
                return;
            }
            next = posting.next;
        }
    }

    /// Every record in order.
    pub(crate) fn walk(&self, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut at = HEADER_BYTES;
        while let Some(body) = checked_body(&self.bytes[at..]) {
            visit(at as u32, body)?;
            at += HEAD_BYTES + body.len();
        }
        Ok(())
    }

    /// The links with a text, in no order.
    pub(crate) fn postings(&self) -> &[Posting] {
        &self.postings
    }

    /// Hands everything to the operating system. A call that failed can be repeated: it cuts off what that
    /// one left, and appends the same bytes.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.flushed < self.bytes.len() {
            self.cut_tail()?;
            self.has_tail = true;
            let rest = &self.bytes[self.flushed..];
            self.disk.append(&self.file, rest).map_err(Error::io("write", &self.file))?;
            (self.flushed, self.has_tail) = (self.bytes.len(), false);
        }
        Ok(())
    }

    fn cut_tail(&mut self) -> Result<(), Error> {
        if self.has_tail
            && self.disk.len(&self.file).map_err(Error::io("read the size of", &self.file))?.is_some()
        {
            self.disk.truncate(&self.file, self.flushed as u64).map_err(Error::io("cut", &self.file))?;
        }
        (self.has_tail, self.sealed_bytes) = (false, None);
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.disk.sync(&self.file).map_err(Error::io("sync", &self.file))
    }

    /// Writes the footer; durable after [`ActiveSegment::sync`]. The records stay here until [`ActiveSegment`] is dropped.
    pub(crate) fn seal(&mut self, at_max: PagePosition, next_stamp: u16) -> Result<Segment, Error> {
        self.flush()?;
        // A footer that is there stays: the segment's run may be on the disk already, and must not outlive it.
        if let Some(bytes) = self.sealed_bytes {
            return Ok(self.as_sealed(bytes));
        }
        let mut index = Index::default();
        self.walk(&mut |offset, body| {
            if let Some(record) = Record::read(body) {
                index.note(offset, body, &record);
            }
            Ok(())
        })?;
        index.at_max = index.at_max.max(at_max);
        index.next_stamp = next_stamp;
        let data_end = self.bytes.len() as u64;
        let end = footer_and_trailer(data_end, &index.to_bytes());
        self.cut_tail()?;
        self.has_tail = true;
        self.disk.append(&self.file, &end).map_err(Error::io("write", &self.file))?;
        let bytes = data_end + end.len() as u64;
        self.sealed_bytes = Some(bytes);
        Ok(self.as_sealed(bytes))
    }

    fn as_sealed(&self, bytes: u64) -> Segment {
        let (disk, range) = (Arc::clone(&self.disk), Range::new(self.number));
        Segment::new(disk, range, self.file.clone(), self.bytes.len() as u64, bytes)
    }
}

/// Source, stamp and link of a posting.
pub(crate) fn resolve<'a>(bytes: &'a [u8], posting: &Posting) -> Option<(u64, u16, KeptLink<'a>)> {
    let record = Record::read(bytes.get(posting.record as usize + HEAD_BYTES..)?)?;
    let link = Record { links: bytes.get(posting.link as usize..)?, ..record.clone() }.links().next()?;
    Some((record.page.0, record.stamp, link))
}

/// The links with a text of a segment that has been read into memory, for the records that pass.
pub(crate) fn postings_of(bytes: &[u8], counts: impl Fn(&Record<'_>) -> bool) -> Vec<Posting> {
    let mut postings = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some(body) = bytes.get(at..).and_then(checked_body) {
        let end = at + HEAD_BYTES + body.len();
        if let Some(record) = Record::read(body)
            && record.kind == Kind::Links
            && counts(&record)
        {
            let links_start = end - record.links.len();
            let reader: LinkReader<'_> = record.links();
            postings.extend(reader.filter(|link| link.speaks(record.page)).map(|link| Posting {
                target: link.target,
                record: at as u32,
                link: (links_start + link.offset) as u32,
                next: NONE,
            }));
        }
        at = end;
    }
    postings
}
