//! Files that can be told from garbage, and that appear whole or not at all.
//!
//! All file access of this crate goes through here and through [`Disk`]. Segments and runs share one frame: a header with magic, format and range; the content; a footer; and a trailer
//! that says where the footer starts and what its checksum is. A file without a right trailer is not finished.

use crate::error::Error;
use farol_base::codec::Decoder;
use farol_base::disk::Disk;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

pub(crate) const FORMAT: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 28;
const TRAILER_BYTES: usize = 24;
const END: &[u8; 8] = b"FAROLEND";

/// Bytes that a [`NewFile`] gathers before it appends them.
const WRITE_BYTES: usize = 1 << 18;

/// The segment numbers that a file stands for, both ends in it, and how often it has been rewritten.
///
/// Names and headers of files carry one. No name is used twice: a reader of the old file is not shown the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub first: u32,
    pub last: u32,
    pub round: u32,
}

impl Range {
    /// A segment as it is first written.
    pub(crate) fn new(number: u32) -> Range {
        Range { first: number, last: number, round: 0 }
    }

    /// What replaces these neighbours.
    pub(crate) fn replacing(ranges: impl Iterator<Item = Range>) -> Option<Range> {
        let whole = ranges.reduce(|a, b| Range {
            first: a.first.min(b.first),
            last: a.last.max(b.last),
            round: a.round.max(b.round),
        })?;
        Some(Range { round: whole.round + 1, ..whole })
    }

    pub(crate) fn holds(&self, other: Range) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    pub(crate) fn overlaps(&self, other: Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// `links-00000001-00000008-3.log`
    pub(crate) fn name(&self, prefix: &str, suffix: &str) -> String {
        format!("{prefix}-{:08}-{:08}-{}.{suffix}", self.first, self.last, self.round)
    }

    pub(crate) fn of_name(name: &str, prefix: &str, suffix: &str) -> Option<Range> {
        let numbers =
            name.strip_prefix(prefix)?.strip_prefix('-')?.strip_suffix(suffix)?.strip_suffix('.')?;
        let mut numbers = numbers.split('-').map(|number| number.parse::<u32>().ok());
        let (first, last, round) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let range = Range { first, last, round };
        (numbers.next().is_none() && range.first >= 1 && range.first <= range.last).then_some(range)
    }
}

/// Header: magic, format, first, last, round, checksum of these.
pub(crate) fn header(magic: &[u8; 8], range: Range) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(magic);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&range.first.to_le_bytes());
    bytes[16..20].copy_from_slice(&range.last.to_le_bytes());
    bytes[20..24].copy_from_slice(&range.round.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..24]);
    bytes[24..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Checks the header at the front of a file's bytes.
pub(crate) fn check_header(file: &str, bytes: &[u8], magic: &[u8; 8], range: Range) -> Result<(), Error> {
    if bytes.len() < HEADER_BYTES || &bytes[..8] != magic {
        return Err(Error::damaged(file, 0, "it does not start as such a file does"));
    }
    let mut decoder = Decoder::of(&bytes[8..]);
    let found = decoder.u32().unwrap_or(0);
    if found != FORMAT {
        return Err(Error::Format { file: file.to_string(), found, known: FORMAT });
    }
    if bytes[..HEADER_BYTES] != header(magic, range) {
        return Err(Error::damaged(file, 8, "its header does not fit its name or its checksum"));
    }
    Ok(())
}

/// What follows the content: the footer, then where it starts, its length, its checksum and the end mark.
pub(crate) fn footer_and_trailer(content_end: u64, footer: &[u8]) -> Vec<u8> {
    let mut bytes = footer.to_vec();
    bytes.extend_from_slice(&content_end.to_le_bytes());
    bytes.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(footer).to_le_bytes());
    bytes.extend_from_slice(END);
    bytes
}

/// Reads the footer of a finished file, with the byte at which the content ends; `None` if it is not finished.
pub(crate) fn read_footer(disk: &dyn Disk, file: &str) -> Result<Option<(u64, Vec<u8>)>, Error> {
    let length = length(disk, file)?;
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    read_exact_at(disk, file, trailer_at, &mut trailer)?;
    let mut decoder = Decoder::of(&trailer);
    let (Ok(content_end), Ok(footer_bytes), Ok(checksum)) = (decoder.u64(), decoder.u32(), decoder.u32())
    else {
        return Ok(None);
    };
    let fits = content_end.checked_add(u64::from(footer_bytes)) == Some(trailer_at);
    if decoder.take(8) != Ok(END.as_slice()) || !fits || content_end < HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut footer = vec![0; footer_bytes as usize];
    read_exact_at(disk, file, content_end, &mut footer)?;
    if crc32fast::hash(&footer) != checksum {
        return Err(Error::damaged(file, content_end, "the checksum of its footer is wrong"));
    }
    Ok(Some((content_end, footer)))
}

/// Size of a file that must be there.
pub(crate) fn length(disk: &dyn Disk, file: &str) -> Result<u64, Error> {
    let length = disk.len(file).and_then(|length| length.ok_or_else(|| io::ErrorKind::NotFound.into()));
    length.map_err(Error::io("read the size of", file))
}

/// Fills `into` from this byte on.
pub(crate) fn read_exact_at(disk: &dyn Disk, file: &str, offset: u64, into: &mut [u8]) -> Result<(), Error> {
    match disk.read_at(file, offset, into) {
        Ok(count) if count == into.len() => Ok(()),
        Ok(_) => Err(Error::io("read", file)(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(Error::io("read", file)(error)),
    }
}

/// A whole file; `None` where it is missing.
pub(crate) fn read_whole(disk: &dyn Disk, file: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some(length) = disk.len(file).map_err(Error::io("read the size of", file))? else { return Ok(None) };
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    read_exact_at(disk, file, 0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Deletes a file that something wider has replaced. A file that stays is deleted at the next opening.
pub(crate) fn remove_replaced(disk: &dyn Disk, file: &str) {
    if let Err(error) = disk.remove(file) {
        tracing::debug!(file, %error, "replaced file stays until the next opening");
    }
}

/// Reads a file from some byte on.
pub(crate) struct FileCursor {
    disk: Arc<dyn Disk>,
    file: String,
    offset: u64,
}

impl FileCursor {
    /// A sequential reader with a buffer of `buffer_bytes`.
    pub(crate) fn buffered(
        disk: &Arc<dyn Disk>,
        file: &str,
        offset: u64,
        buffer_bytes: usize,
    ) -> BufReader<FileCursor> {
        let cursor = FileCursor { disk: Arc::clone(disk), file: file.to_string(), offset };
        BufReader::with_capacity(buffer_bytes, cursor)
    }
}

impl Read for FileCursor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.disk.read_at(&self.file, self.offset, into)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A file that gets its name only when it is whole and on the disk.
pub(crate) struct NewFile {
    disk: Arc<dyn Disk>,
    file: String,
    unfinished: String,
    buffer: Vec<u8>,
    pub written: u64,
}

impl NewFile {
    pub(crate) fn create(disk: &Arc<dyn Disk>, file: String) -> Result<NewFile, Error> {
        let unfinished = format!("{file}.tmp");
        // Whatever an attempt that failed has left.
        disk.remove(&unfinished).map_err(Error::io("create", &unfinished))?;
        let buffer = Vec::with_capacity(WRITE_BYTES);
        Ok(NewFile { disk: Arc::clone(disk), file, unfinished, buffer, written: 0 })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WRITE_BYTES {
            self.disk.append(&self.unfinished, bytes).map_err(Error::io("write", &self.unfinished))?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.disk.append(&self.unfinished, &self.buffer).map_err(Error::io("write", &self.unfinished))?;
        self.buffer.clear();
        Ok(())
    }

    /// Syncs the file, then names it. Answers its name and size.
    pub(crate) fn finish(mut self) -> Result<(String, u64), Error> {
        self.flush()?;
        self.disk.sync(&self.unfinished).map_err(Error::io("sync", &self.unfinished))?;
        self.disk.rename(&self.unfinished, &self.file).map_err(Error::io("rename", &self.unfinished))?;
        Ok((self.file, self.written))
    }
}

/// Takes out the ranges that lie inside another one: a crash came between a merge and its cleaning up.
pub(crate) fn split_covered(mut ranges: Vec<Range>) -> (Vec<Range>, Vec<Range>) {
    // Wider and then later first among those that start together: whatever is covered comes after its cover.
    ranges.sort_by_key(|range| (range.first, std::cmp::Reverse((range.last, range.round))));
    let mut kept: Vec<Range> = Vec::new();
    let mut covered = Vec::new();
    for range in ranges {
        match kept.last() {
            Some(last) if last.holds(range) => covered.push(range),
            _ => kept.push(range),
        }
    }
    (kept, covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_their_range() {
        let range = Range { first: 3, last: 12, round: 2 };
        assert_eq!(range.name("links", "log"), "links-00000003-00000012-2.log");
        let check = |name: &str, want: Option<Range>| {
            assert_eq!(Range::of_name(name, "links", "log"), want, "{name}")
        };
        check("links-00000003-00000012-2.log", Some(range));
        let others = [
            "links-3.log",
            "links-1-1.log",
            "links-0-1-0.log",
            "links-2-1-0.log",
            "run-1-1-0.log",
            "links-1-1-0.log.tmp",
        ];
        for name in others {
            check(name, None);
        }
    }

    #[test]
    fn covered_files_are_told_apart() {
        let range = |first, last, round| Range { first, last, round };
        let (kept, covered) = split_covered(vec![
            range(2, 2, 0),
            range(1, 4, 1),
            range(5, 5, 0),
            range(1, 1, 0),
            range(5, 5, 1),
        ]);
        assert_eq!(kept, [range(1, 4, 1), range(5, 5, 1)]);
        assert_eq!(covered, [range(1, 1, 0), range(2, 2, 0), range(5, 5, 0)]);
        assert_eq!(Range::replacing(kept.into_iter()), Some(range(1, 5, 2)));
    }
}
