//! A run: the anchor texts of some segments, sorted by target, so that one target's are found with one read.
//!
//! A run is a derived file: it is made again from its segments when it is missing. It holds texts of records that
//! may have been replaced since; the reader asks [`crate::sources`] which count, and merging leaves the others out.

use crate::active_segment::{Posting, resolve};
use crate::error::Error;
use crate::files::{
    FileCursor, HEADER_BYTES, NewFile, Range, check_header, footer_and_trailer, header, length,
    read_exact_at, read_footer,
};
use farol_base::codec::Decoder;
use farol_base::disk::Disk;
use std::io::{BufReader, Read};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FAROLRUN";

/// Texts kept per target in one run: those from other hosts first, then the newest. Bounds what a lookup reads:
/// 512 × 267 bytes at most = 137 KB per run for the most linked page of all.
const TARGET_TEXTS_MAX: usize = 512;

/// A block is closed once it holds this much; a target's texts are never split between blocks.
const BLOCK_BYTES: usize = 4096;

/// 4 KiB, then one more target at most.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// A text, where it came from, and whether that was another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub source: u64,
    pub stamp: u16,
    pub other_host: bool,
    pub text: &'a [u8],
}

pub(crate) struct Run {
    pub range: Range,
    pub file: String,
    pub bytes: u64,
    pub texts: u64,
    disk: Arc<dyn Disk>,
    content_end: u64,
    /// First target and start of each block; 16 bytes per 4 KiB.
    blocks: Vec<(u64, u64)>,
}

impl Run {
    /// Opens a finished run.
    pub(crate) fn open(disk: &Arc<dyn Disk>, range: Range) -> Result<Run, Error> {
        let file = range.name("run", "run");
        let bytes = length(&**disk, &file)?;
        let footer = read_footer(&**disk, &file)?;
        let (content_end, footer) =
            footer.ok_or_else(|| Error::damaged(&file, bytes, "it does not end as it should"))?;
        let mut head = [0; HEADER_BYTES];
        read_exact_at(&**disk, &file, 0, &mut head)?;
        check_header(&file, &head, MAGIC, range)?;
        let index = read_index(&footer);
        let (texts, blocks) =
            index.ok_or_else(|| Error::damaged(&file, content_end, "its index is not whole"))?;
        Ok(Run { range, file, bytes, texts, disk: Arc::clone(disk), content_end, blocks })
    }

    /// Shows the texts for a target, newest record first within the run, until told to stop.
    pub(crate) fn find(&self, target: u64, visit: &mut dyn FnMut(Text<'_>) -> bool) -> Result<(), Error> {
        let Some(block) = self.blocks.partition_point(|(first, _)| *first <= target).checked_sub(1) else {
            return Ok(());
        };
        let start = self.blocks[block].1;
        let end = self.blocks.get(block + 1).map_or(self.content_end, |(_, start)| *start);
        let damaged = || Error::damaged(&self.file, start, "the checksum of a block is wrong");
        let length =
            end.checked_sub(start).filter(|length| *length <= BLOCK_BYTES_MAX as u64).ok_or_else(damaged)?;
        let mut bytes = vec![0; length as usize];
        read_exact_at(&*self.disk, &self.file, start, &mut bytes)?;
        let mut groups = Groups { decoder: Decoder::of(checked_block(&bytes).ok_or_else(damaged)?) };
        while let Some((found, texts)) = groups.next_group() {
            if found == target {
                for text in texts {
                    if !visit(text) {
                        break;
                    }
                }
                break;
            }
        }
        Ok(())
    }

    /// Checks every block; answers how many texts there are.
    pub(crate) fn verify(self: &Arc<Run>) -> Result<u64, Error> {
        let mut reader = RunReader::new(self)?;
        let (mut texts, mut last) = (0, None);
        while let Some((target, group)) = reader.group() {
            texts += group.count() as u64;
            if last.is_some_and(|last| last >= target) {
                return Err(Error::damaged(&self.file, reader.offset, "its targets are not in order"));
            }
            last = Some(target);
            reader.advance()?;
        }
        if texts != self.texts {
            return Err(Error::damaged(
                &self.file,
                self.content_end,
                "it does not hold as many texts as it says",
            ));
        }
        Ok(texts)
    }
}

fn read_index(footer: &[u8]) -> Option<(u64, Vec<(u64, u64)>)> {
    let mut decoder = Decoder::of(footer);
    let texts = decoder.u64().ok()?;
    let count = decoder.u32().ok()? as usize;
    if decoder.len() != count.checked_mul(16)? {
        return None;
    }
    let mut blocks = Vec::with_capacity(count);
    while !decoder.is_empty() {
        blocks.push((decoder.u64().ok()?, decoder.u64().ok()?));
    }
    Some((texts, blocks))
}

/// Length and checksum stand before a block's content.
fn checked_block(bytes: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::of(bytes);
    let (length, checksum) = (decoder.u32().ok()?, decoder.u32().ok()?);
    let content = decoder.take(length as usize).ok()?;
    (crc32fast::hash(content) == checksum).then_some(content)
}

struct Groups<'a> {
    decoder: Decoder<'a>,
}

impl<'a> Groups<'a> {
    fn next_group(&mut self) -> Option<(u64, Texts<'a>)> {
        let target = self.decoder.u64().ok()?;
        let bytes = self.decoder.u32().ok()?;
        Some((target, Texts { decoder: Decoder::of(self.decoder.take(bytes as usize).ok()?) }))
    }
}

pub(crate) struct Texts<'a> {
    decoder: Decoder<'a>,
}

impl<'a> Iterator for Texts<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        let (source, stamp) = (self.decoder.u64().ok()?, self.decoder.u16().ok()?);
        let other_host = self.decoder.byte().ok()? != 0;
        let length = self.decoder.byte().ok()?;
        Some(Text { source, stamp, other_host, text: self.decoder.take(usize::from(length)).ok()? })
    }
}

/// Writes a run, target by target.
pub(crate) struct RunWriter {
    disk: Arc<dyn Disk>,
    range: Range,
    out: NewFile,
    block: Vec<u8>,
    first_target: u64,
    blocks: Vec<(u64, u64)>,
    texts: u64,
}

impl RunWriter {
    pub(crate) fn create(disk: &Arc<dyn Disk>, range: Range) -> Result<RunWriter, Error> {
        let mut out = NewFile::create(disk, range.name("run", "run"))?;
        out.write(&header(MAGIC, range))?;
        Ok(RunWriter {
            disk: Arc::clone(disk),
            range,
            out,
            block: Vec::new(),
            first_target: 0,
            blocks: Vec::new(),
            texts: 0,
        })
    }

    /// Adds the texts of a target, newest first; targets come in order.
    pub(crate) fn group(&mut self, target: u64, texts: &mut Vec<Text<'_>>) -> Result<(), Error> {
        if texts.is_empty() {
            return Ok(());
        }
        if texts.len() > TARGET_TEXTS_MAX {
            texts.sort_by_key(|text| !text.other_host);
            texts.truncate(TARGET_TEXTS_MAX);
        }
        if self.block.is_empty() {
            self.first_target = target;
        }
        self.texts += texts.len() as u64;
        self.block.extend_from_slice(&target.to_le_bytes());
        let length_at = self.block.len();
        self.block.extend_from_slice(&[0; 4]);
        for text in texts.iter() {
            self.block.extend_from_slice(&text.source.to_le_bytes());
            self.block.extend_from_slice(&text.stamp.to_le_bytes());
            self.block.push(u8::from(text.other_host));
            self.block.push(text.text.len() as u8);
            self.block.extend_from_slice(text.text);
        }
        let length = (self.block.len() - length_at - 4) as u32;
        self.block[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        if self.block.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<(), Error> {
        self.blocks.push((self.first_target, self.out.written));
        self.out.write(&(self.block.len() as u32).to_le_bytes())?;
        self.out.write(&crc32fast::hash(&self.block).to_le_bytes())?;
        self.out.write(&self.block)?;
        self.block.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Run, Error> {
        if !self.block.is_empty() {
            self.close_block()?;
        }
        let mut footer = Vec::with_capacity(12 + 16 * self.blocks.len());
        footer.extend_from_slice(&self.texts.to_le_bytes());
        footer.extend_from_slice(&(self.blocks.len() as u32).to_le_bytes());
        for (first, start) in &self.blocks {
            footer.extend_from_slice(&first.to_le_bytes());
            footer.extend_from_slice(&start.to_le_bytes());
        }
        self.out.write(&footer_and_trailer(self.out.written, &footer))?;
        self.out.finish()?;
        Run::open(&self.disk, self.range)
    }
}

/// Writes the run of a segment that is in memory.
pub(crate) fn write_segment_run(
    disk: &Arc<dyn Disk>,
    range: Range,
    bytes: &[u8],
    mut postings: Vec<Posting>,
) -> Result<Run, Error> {
    postings.sort_unstable_by_key(|posting| (posting.target, std::cmp::Reverse(posting.link)));
    let mut writer = RunWriter::create(disk, range)?;
    let mut texts = Vec::new();
    for group in postings.chunk_by(|a, b| a.target == b.target) {
        texts.clear();
        texts.extend(group.iter().filter_map(|posting| {
            let (source, stamp, link) = resolve(bytes, posting)?;
            Some(Text { source, stamp, other_host: link.other_host, text: link.anchor })
        }));
        writer.group(group[0].target, &mut texts)?;
    }
    writer.finish()
}

/// Writes one run in the place of several that follow each other, leaving out texts that no longer count.
pub(crate) fn merge_runs(
    disk: &Arc<dyn Disk>,
    runs: &[Arc<Run>],
    counts: impl Fn(&Text<'_>) -> bool,
) -> Result<Run, Error> {
    let range = Range::replacing(runs.iter().map(|run| run.range)).unwrap_or(Range::new(0));
    let mut writer = RunWriter::create(disk, range)?;
    // Newest run first, so that the newest texts of a target come first.
    let mut readers = runs.iter().rev().map(RunReader::new).collect::<Result<Vec<_>, _>>()?;
    while let Some(target) = readers.iter().filter_map(RunReader::target).min() {
        let mut texts: Vec<Text<'_>> = Vec::new();
        for reader in readers.iter().filter(|reader| reader.target() == Some(target)) {
            if let Some((_, group)) = reader.group() {
                texts.extend(group.filter(|text| counts(text)));
            }
        }
        writer.group(target, &mut texts)?;
        for reader in readers.iter_mut().filter(|reader| reader.target() == Some(target)) {
            reader.advance()?;
        }
    }
    writer.finish()
}

/// Reads a run from front to back, a target at a time.
struct RunReader {
    run: Arc<Run>,
    input: BufReader<FileCursor>,
    /// Byte of the file at which the next block starts.
    offset: u64,
    block: Vec<u8>,
    /// Byte of the block at which the current target starts, and the next.
    at: usize,
    next: usize,
}

impl RunReader {
    fn new(run: &Arc<Run>) -> Result<RunReader, Error> {
        let offset = HEADER_BYTES as u64;
        let input = FileCursor::buffered(&run.disk, &run.file, offset, 1 << 16);
        let mut reader = RunReader { run: Arc::clone(run), input, offset, block: Vec::new(), at: 0, next: 0 };
        reader.advance()?;
        Ok(reader)
    }

    fn group(&self) -> Option<(u64, Texts<'_>)> {
        Groups { decoder: Decoder::of(self.block.get(self.at..)?) }.next_group()
    }

    fn target(&self) -> Option<u64> {
        Decoder::of(self.block.get(self.at..)?).u64().ok()
    }

    /// Goes to the next target; after the last one [`RunReader::target`] is `None`.
    fn advance(&mut self) -> Result<(), Error> {
        self.at = self.next;
        if self.at >= self.block.len() && self.offset < self.run.content_end {
            self.read_block()?;
        }
        if self.at < self.block.len() {
            let mut decoder = Decoder::of(&self.block[self.at..]);
            let whole = decoder.u64().and_then(|_| decoder.u32()).ok().map(|bytes| 12 + bytes as usize);
            let damaged = || Error::damaged(&self.run.file, self.offset, "a block is not whole");
            self.next =
                self.at + whole.filter(|whole| self.at + whole <= self.block.len()).ok_or_else(damaged)?;
        }
        Ok(())
    }

    fn read_block(&mut self) -> Result<(), Error> {
        let file = &self.run.file;
        let mut head = [0; 8];
        self.input.read_exact(&mut head).map_err(Error::io("read", file))?;
        let mut decoder = Decoder::of(&head);
        let (length, checksum) = (decoder.u32().unwrap_or(0) as usize, decoder.u32().unwrap_or(0));
        let damaged = || Error::damaged(file, self.offset, "the checksum of a block is wrong");
        if length == 0 || length > BLOCK_BYTES_MAX {
            return Err(damaged());
        }
        self.block.resize(length, 0);
        self.input.read_exact(&mut self.block).map_err(Error::io("read", file))?;
        if crc32fast::hash(&self.block) != checksum {
            return Err(damaged());
        }
        self.offset += 8 + length as u64;
        (self.at, self.next) = (0, 0);
        Ok(())
    }
}
