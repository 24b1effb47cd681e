//! A bucket's file: where its blocks and its hosts are.

use super::{
    BucketId, BucketTotals, Cursor, END_MAGIC, HEADER_BYTES, HostMeta, MAGIC, PAGE_HOSTS, TRAILER_BYTES,
    VERSION,
};
use crate::Error;
use crate::urls::Record;
use crate::urls::veuni::block_frame::FrameReader;
use farol_base::HostHash;
use farol_base::codec::{DecodeError, Decoder};
use farol_base::disk::Disk;
use std::sync::Arc;

/// A whole bucket on the disk.
#[derive(Debug)]
pub struct BucketFile {
    pub(super) disk: Arc<dyn Disk>,
    pub id: BucketId,
    pub file: String,
    pub bytes: u64,
    pub totals: BucketTotals,
    /// Where each block starts, and where the last one ends.
    pub(in crate::urls::veuni) blocks: Vec<u64>,
    /// First hash and offset of each page of the directory.
    pub(super) pages: Vec<(HostHash, u64)>,
}

impl BucketFile {
    /// Opens a file: reads its header and its footer, and checks that they fit together.
    pub fn open(disk: Arc<dyn Disk>, file: &str) -> Result<BucketFile, Error> {
        let bytes = disk.len(file).map_err(Error::io("look at", file))?.unwrap_or(0);
        let damaged = |offset: u64, what: &str| Error::Damaged {
            file: file.to_string(),
            offset,
            what: what.to_string(),
        };
        if bytes < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(damaged(bytes, "the file ends too early"));
        }
        let mut header = [0; HEADER_BYTES];
        disk.read_at(file, 0, &mut header).map_err(Error::io("read", file))?;
        let id = read_header(file, &header)?;
        let trailer_at = bytes - TRAILER_BYTES as u64;
        let mut trailer = [0; TRAILER_BYTES];
        disk.read_at(file, trailer_at, &mut trailer).map_err(Error::io("read", file))?;
        let offset: [u8; 8] = std::array::from_fn(|i| trailer[i]);
        if &trailer[12..] != END_MAGIC || crc32fast::hash(&offset).to_le_bytes() != trailer[8..12] {
            return Err(damaged(trailer_at, "its end does not fit"));
        }
        let (mut at, mut raw, mut part) = (u64::from_le_bytes(offset), Vec::new(), Vec::new());
        let footer_at = at;
        let mut frame_reader = FrameReader::new(disk.clone(), file, 1 << 16);
        while at < trailer_at {
            at = frame_reader.read(at, &mut part)?;
            raw.extend_from_slice(&part);
        }
        let (totals, blocks, pages) = read_footer(&raw).map_err(|what| damaged(footer_at, what))?;
        Ok(BucketFile { disk, id, file: file.to_string(), bytes, totals, blocks, pages })
    }

    pub fn blocks(&self) -> usize {
        self.blocks.len() - 1
    }

    pub(super) fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::Damaged { file: self.file.clone(), offset, what: what.to_string() }
    }

    /// Reads URLs, `ahead` bytes at a time.
    pub fn cursor(self: &Arc<Self>, ahead: usize) -> Cursor {
        Cursor::new(self.clone(), FrameReader::new(self.disk.clone(), &self.file, ahead))
    }

    /// The hosts of one page of the directory.
    fn page(&self, number: usize, frame_reader: &mut FrameReader) -> Result<Vec<HostMeta>, Error> {
        let (mut raw, mut hosts) = (Vec::new(), Vec::with_capacity(PAGE_HOSTS));
        let Some((_, offset)) = self.pages.get(number) else { return Ok(hosts) };
        frame_reader.read(*offset, &mut raw)?;
        let mut bytes = Decoder::of(&raw);
        while !bytes.is_empty() {
            hosts.push(HostMeta::read(&mut bytes).map_err(|what| self.damaged(*offset, what))?);
        }
        Ok(hosts)
    }

    /// What the directory says of a host, and its number in it.
    pub fn host_meta(&self, hash: HostHash, host: &str) -> Result<Option<(u32, HostMeta)>, Error> {
        // Hosts of one hash may be on both sides of a page's border.
        let first = self.pages.partition_point(|(start, _)| *start < hash).saturating_sub(1);
        let mut frame_reader = FrameReader::new(self.disk.clone(), &self.file, 8 << 10);
        for number in first..self.pages.len() {
            if self.pages[number].0 > hash {
                break;
            }
            for (at, meta) in self.page(number, &mut frame_reader)?.into_iter().enumerate() {
                if meta.hash == hash && meta.host == host {
                    return Ok(Some(((number * PAGE_HOSTS + at) as u32, meta)));
                }
            }
        }
        Ok(None)
    }

    /// All hosts, in the order of their hashes.
    pub fn hosts(self: &Arc<Self>) -> DirectoryIter {
        let frame_reader = FrameReader::new(self.disk.clone(), &self.file, 64 << 10);
        DirectoryIter { bucket: self.clone(), frame_reader, page: 0, hosts: Vec::new().into_iter() }
    }

    /// The page of the directory that has a host.
    pub fn page_of(&self, ordinal: u32) -> Result<Vec<HostMeta>, Error> {
        let mut frame_reader = FrameReader::new(self.disk.clone(), &self.file, 8 << 10);
        self.page(ordinal as usize / PAGE_HOSTS, &mut frame_reader)
    }

    /// What is known of a URL.
    pub fn get(self: &Arc<Self>, meta: &HostMeta, path: &[u8]) -> Result<Option<Record>, Error> {
        for range in [&meta.prescheduled, &meta.remaining] {
            let mut cursor = self.cursor(16 << 10);
            if let Some(entry) = cursor.find(range, path)? {
                return entry.record().map(Some).map_err(|what| cursor.damaged(what));
            }
        }
        Ok(None)
    }

    /// Reads everything, so that whatever is damaged is named.
    pub fn check(self: &Arc<Self>) -> Result<(), Error> {
        let (mut known, mut cursor) = (0, self.cursor(1 << 20));
        for meta in self.hosts() {
            let meta = meta?;
            for range in [&meta.remaining, &meta.prescheduled].into_iter().filter(|range| range.len > 0) {
                cursor.seek(range.at)?;
                for _ in 0..range.len {
                    cursor.advance()?;
                    known += 1;
                }
            }
        }
        if known == self.totals.known {
            return Ok(());
        }
        Err(self.damaged(0, &format!("it has {known} URLs and should have {}", self.totals.known)))
    }
}

fn read_header(file: &str, header: &[u8; HEADER_BYTES]) -> Result<BucketId, Error> {
    if &header[..8] != MAGIC {
        return Err(Error::Damaged {
            file: file.to_string(),
            offset: 0,
            what: "it does not begin as a bucket does".to_string(),
        });
    }
    let mut bytes = Decoder::of(&header[8..]);
    let damaged = |what: &str| Error::Damaged { file: file.to_string(), offset: 0, what: what.to_string() };
    let mut short = || -> Result<(u32, u32, u64, u64, u64, u32), DecodeError> {
        let four = |bytes: &mut Decoder<'_>| bytes.fixed().map(u32::from_le_bytes);
        let eight = |bytes: &mut Decoder<'_>| bytes.fixed().map(u64::from_le_bytes);
        Ok((
            four(&mut bytes)?,
            four(&mut bytes)?,
            eight(&mut bytes)?,
            eight(&mut bytes)?,
            eight(&mut bytes)?,
            four(&mut bytes)?,
        ))
    };
    let (version, number, generation, from, flushed_seqno, crc) = short().map_err(damaged)?;
    if crc32fast::hash(&header[..HEADER_BYTES - 4]) != crc {
        return Err(damaged("its header does not fit"));
    }
    if version != VERSION {
        return Err(Error::Version { file: file.to_string(), found: version, known: VERSION });
    }
    Ok(BucketId { number, generation, from: HostHash(from), flushed_seqno })
}

type BucketFooter = (BucketTotals, Vec<u64>, Vec<(HostHash, u64)>);

fn read_footer(raw: &[u8]) -> Result<BucketFooter, DecodeError> {
    let mut bytes = Decoder::of(raw);
    let totals = BucketTotals::read(&mut bytes)?;
    let count: usize = bytes.varint_as()?;
    let mut at = HEADER_BYTES as u64;
    let mut blocks = vec![at];
    for _ in 1..count {
        at = at.checked_add(bytes.varint()?).ok_or("a block beyond the end")?;
        blocks.push(at);
    }
    let count: usize = bytes.varint_as()?;
    let mut pages = Vec::new();
    for _ in 0..count {
        pages.push((HostHash(bytes.u64()?), bytes.varint()?));
    }
    if bytes.is_empty() { Ok((totals, blocks, pages)) } else { Err("a footer with a tail") }
}

/// Walks through a directory.
#[derive(Debug)]
pub struct DirectoryIter {
    bucket: Arc<BucketFile>,
    frame_reader: FrameReader,
    page: usize,
    hosts: std::vec::IntoIter<HostMeta>,
}

impl Iterator for DirectoryIter {
    type Item = Result<HostMeta, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(meta) = self.hosts.next() {
            return Some(Ok(meta));
        }
        if self.page >= self.bucket.pages.len() {
            return None;
        }
        let page = self.bucket.page(self.page, &mut self.frame_reader);
        self.page += 1;
        match page {
            Ok(hosts) => {
                self.hosts = hosts.into_iter();
                self.hosts.next().map(Ok)
            }
            Err(error) => {
                self.page = self.bucket.pages.len();
                Some(Err(error))
            }
        }
    }
}
