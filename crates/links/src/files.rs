//! Files that can be told from garbage, and that appear whole or not at all.
//!
//! Segments and runs share one frame: a header with magic, format and range; the content; a footer; and a trailer
//! that says where the footer starts and what its checksum is. A file without a right trailer is not finished.

use crate::bytes::Cursor;
use crate::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(crate) const FORMAT: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 28;
const TRAILER_BYTES: usize = 24;
const END: &[u8; 8] = b"FAROLEND";

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
    pub(crate) fn path(&self, dir: &Path, prefix: &str, suffix: &str) -> PathBuf {
        dir.join(format!("{prefix}-{:08}-{:08}-{}.{suffix}", self.first, self.last, self.round))
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
pub(crate) fn check_header(path: &Path, bytes: &[u8], magic: &[u8; 8], range: Range) -> Result<(), Error> {
    if bytes.len() < HEADER_BYTES || &bytes[..8] != magic {
        return Err(Error::damaged(path, 0, "it does not start as such a file does"));
    }
    let mut cursor = Cursor::new(&bytes[8..]);
    let found = cursor.u32().unwrap_or(0);
    if found != FORMAT {
        return Err(Error::Format { path: path.to_path_buf(), found, known: FORMAT });
    }
    if bytes[..HEADER_BYTES] != header(magic, range) {
        return Err(Error::damaged(path, 8, "its header does not fit its name or its checksum"));
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
pub(crate) fn read_footer(path: &Path, file: &File) -> Result<Option<(u64, Vec<u8>)>, Error> {
    let length = file.metadata().map_err(Error::io("read the size of", path))?.len();
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at).map_err(Error::io("read", path))?;
    let mut cursor = Cursor::new(&trailer);
    let (Some(content_end), Some(footer_bytes), Some(checksum)) = (cursor.u64(), cursor.u32(), cursor.u32())
    else {
        return Ok(None);
    };
    let fits = content_end.checked_add(u64::from(footer_bytes)) == Some(trailer_at);
    if cursor.take(8) != Some(END.as_slice()) || !fits || content_end < HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut footer = vec![0; footer_bytes as usize];
    file.read_exact_at(&mut footer, content_end).map_err(Error::io("read", path))?;
    if crc32fast::hash(&footer) != checksum {
        return Err(Error::damaged(path, content_end, "the checksum of its footer is wrong"));
    }
    Ok(Some((content_end, footer)))
}

/// A file that gets its name only when it is whole and on the disk.
pub(crate) struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    out: BufWriter<File>,
    pub written: u64,
}

impl NewFile {
    pub(crate) fn create(path: PathBuf) -> Result<NewFile, Error> {
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(".tmp");
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished).map_err(Error::io("create", &unfinished))?;
        Ok(NewFile { path, unfinished, out: BufWriter::with_capacity(1 << 18, file), written: 0 })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(Error::io("write", &self.unfinished))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Syncs the file, then names it. Answers its path and size.
    pub(crate) fn finish(mut self) -> Result<(PathBuf, u64), Error> {
        self.out.flush().map_err(Error::io("write", &self.unfinished))?;
        self.out.get_ref().sync_data().map_err(Error::io("sync", &self.unfinished))?;
        std::fs::rename(&self.unfinished, &self.path).map_err(Error::io("rename", &self.unfinished))?;
        if let Some(dir) = self.path.parent() {
            sync_dir(dir)?;
        }
        Ok((self.path, self.written))
    }
}

/// Makes new names in a folder survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    let folder = OpenOptions::new().read(true).open(dir).map_err(Error::io("open", dir))?;
    folder.sync_all().map_err(Error::io("sync", dir))
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
        let path = range.path(Path::new("d"), "links", "log");
        assert_eq!(path, Path::new("d/links-00000003-00000012-2.log"));
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
