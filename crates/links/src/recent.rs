//! The segment being written, whole in memory until it is sealed, with its anchors findable by target.
//!
//! Memory: `segment_bytes` of records, 24 bytes per link with a text, 512 KiB of chain heads; with segments of 8 MiB
//! and links of 25 bytes that is 8 + 8 + 0.5 MiB. INVARIANT: `bytes[..flushed]` is what the file holds.

use crate::error::Error;
use crate::files::{HEADER_BYTES, Range, check_header, footer_and_trailer, header};
use crate::record::{HEAD_BYTES, KeptLink, Kind, LinkReader, Record, append, checked_body};
use crate::segment::{Index, MAGIC, Segment, Visit};
use crate::sources::Seed;
use farol_base::PagePosition;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

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

pub(crate) struct Recent {
    pub number: u32,
    pub slot: u16,
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    flushed: usize,
    postings: Vec<Posting>,
    heads: Vec<u32>,
    seed: Seed,
}

impl Recent {
    /// Starts an empty segment.
    pub(crate) fn create(dir: &Path, number: u32, slot: u16) -> Result<Recent, Error> {
        let path = Range::new(number).path(dir, "links", "log");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        let mut recent = Recent::empty(number, slot, path, file);
        recent.flush()?;
        Ok(recent)
    }

    /// Reads a segment that was being written when the process ended. Whatever follows the last whole record is
    /// cut off; answers how many bytes that were.
    pub(crate) fn load(path: PathBuf, number: u32, slot: u16) -> Result<(Recent, u64), Error> {
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(Error::io("open", &path))?;
        let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
        let mut recent = Recent::empty(number, slot, path, file);
        if bytes.len() < HEADER_BYTES {
            // Even the header is torn: nothing was ever promised.
            recent.file.set_len(0).map_err(Error::io("cut", &recent.path))?;
            recent.flush()?;
            return Ok((recent, bytes.len() as u64));
        }
        check_header(&recent.path, &bytes, MAGIC, Range::new(number))?;
        let mut end = HEADER_BYTES;
        while let Some(body) = checked_body(&bytes[end..])
            && Record::read(body).is_some()
        {
            end += HEAD_BYTES + body.len();
        }
        let cut = bytes.len() - end;
        if cut > 0 {
            recent.file.set_len(end as u64).map_err(Error::io("cut", &recent.path))?;
        }
        recent.bytes = bytes;
        recent.bytes.truncate(end);
        recent.flushed = end;
        let mut at = HEADER_BYTES;
        while at < end {
            at = recent.index_postings(at);
        }
        Ok((recent, cut as u64))
    }

    fn empty(number: u32, slot: u16, path: PathBuf, file: File) -> Recent {
        let bytes = header(MAGIC, Range::new(number)).to_vec();
        let (postings, heads, seed) = (Vec::new(), vec![NONE; HEADS], Seed::default());
        Recent { number, slot, path, file, bytes, flushed: 0, postings, heads, seed }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
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

    /// Hands everything to the operating system. A call that failed can be repeated: it writes the same bytes at
    /// the same place.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.flushed < self.bytes.len() {
            let rest = &self.bytes[self.flushed..];
            self.file.write_all_at(rest, self.flushed as u64).map_err(Error::io("write", &self.path))?;
            self.flushed = self.bytes.len();
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }

    /// Writes the footer and makes the file durable. The records stay here until [`Recent`] is dropped.
    pub(crate) fn seal(&mut self, at_max: PagePosition, next_stamp: u16) -> Result<Segment, Error> {
        self.flush()?;
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
        self.file.write_all_at(&end, data_end).map_err(Error::io("write", &self.path))?;
        self.sync()?;
        Ok(Segment::new(Range::new(self.number), self.path.clone(), data_end, data_end + end.len() as u64))
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
