//! Reads the URLs of a bucket, from any position on.

use super::entry::BlockReader;
use super::{BucketFile, EntryAddr, EntryError, EntryRange, UrlEntry};
use crate::Error;
use crate::urls::veuni::block_frame::FrameReader;
use std::cmp::Ordering;
use std::sync::Arc;

/// A position before a URL of a bucket. Keeps one block in memory, whatever the size of the host.
#[derive(Debug)]
pub struct Cursor {
    bucket: Arc<BucketFile>,
    frame_reader: FrameReader,
    /// The block that `reader` has.
    block: Option<u32>,
    reader: BlockReader,
    raw: Vec<u8>,
}

impl Cursor {
    pub(super) fn new(bucket: Arc<BucketFile>, frame_reader: FrameReader) -> Cursor {
        Cursor { bucket, frame_reader, block: None, reader: BlockReader::default(), raw: Vec::new() }
    }

    fn load(&mut self, block: u32) -> Result<(), Error> {
        self.block = None;
        let offset = match self.bucket.blocks.get(block as usize) {
            Some(offset) if (block as usize) < self.bucket.blocks() => *offset,
            _ => return Err(self.bucket.damaged(0, "its directory names a block that is not there")),
        };
        self.frame_reader.read(offset, &mut self.raw)?;
        self.reader.open(&mut self.raw).map_err(|what| self.bucket.damaged(offset, what))?;
        self.block = Some(block);
        Ok(())
    }

    /// Goes to the first URL of a range.
    pub fn seek(&mut self, addr: EntryAddr) -> Result<(), Error> {
        if self.block != Some(addr.block) {
            self.load(addr.block)?;
        }
        if self.reader.index() > addr.index {
            self.reader.rewind();
            if self.reader.index() > addr.index {
                self.load(addr.block)?;
            }
        }
        while self.reader.index() < addr.index {
            if !self.step()? {
                return Err(self.damaged("it has fewer URLs than its directory says"));
            }
        }
        self.reader.mark();
        Ok(())
    }

    fn step(&mut self) -> Result<bool, Error> {
        let block = self.block.unwrap_or(0);
        self.reader.advance().map_err(|what| self.bucket.damaged(self.bucket.blocks[block as usize], what))
    }

    /// Damage to the block that was read last.
    pub fn damaged(&self, what: &str) -> Error {
        let offset = self.block.map_or(0, |block| self.bucket.blocks[block as usize]);
        self.bucket.damaged(offset, what)
    }

    /// Places the error of an entry in the block that was read last.
    pub fn locate(&self, error: EntryError) -> Error {
        match error {
            EntryError::Store(error) => error,
            EntryError::Undecodable(what) => self.damaged(what),
        }
    }

    /// Reads the next URL.
    ///
    /// # Errors
    /// Where there is none: the caller knows from the directory how many there are.
    pub fn advance(&mut self) -> Result<UrlEntry<'_>, Error> {
        if !self.step()? {
            self.load(self.block.map_or(0, |block| block + 1))?;
            if !self.step()? {
                return Err(self.bucket.damaged(0, "a block without URLs"));
            }
        }
        Ok(self.reader.entry())
    }

    /// Looks a path up in a range: first the block, by binary search, then the URL in it.
    pub fn find(&mut self, range: &EntryRange, path: &[u8]) -> Result<Option<UrlEntry<'_>>, Error> {
        if range.len == 0 {
            return Ok(None);
        }
        let (mut low, mut high) = (range.at.block, range.end.block);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            self.load(middle)?;
            if self.step()? && self.reader.entry().path <= path { low = middle } else { high = middle - 1 }
        }
        let start = if low == range.at.block { range.at } else { EntryAddr { block: low, index: 0 } };
        self.seek(start)?;
        let end = if low == range.end.block { range.end.index } else { self.reader.len() };
        while self.reader.index() < end && self.step()? {
            match self.reader.entry().path.cmp(path) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Some(self.reader.entry())),
                Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BucketId, BucketWriter};
    use super::*;
    use farol_base::HostHash;
    use farol_base::disk::Mem;

    #[test]
    fn a_directory_that_names_more_urls_than_a_block_has_is_damage() {
        let id = BucketId { number: 0, generation: 1, from: HostHash(0), flushed_seqno: 0 };
        let mut writer = BucketWriter::create(Arc::new(Mem::new()), id).unwrap();
        writer.begin(HostHash::of("http://h"), "http://h");
        writer.push(&UrlEntry { path: b"/a", depth: 1, state: 0, visits: &[] }, true).unwrap();
        writer.end().unwrap();
        let mut cursor = Arc::new(writer.finish().unwrap()).cursor(1 << 10);
        assert!(cursor.seek(EntryAddr { block: 0, index: 1 }).is_ok());
        let error = cursor.seek(EntryAddr { block: 0, index: 2 }).unwrap_err().to_string();
        assert!(error.contains("fewer URLs"), "{error}");
    }
}
