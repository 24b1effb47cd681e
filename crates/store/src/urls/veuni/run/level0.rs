//! Level-0 files: the runs of one bucket, appended as its memtable is flushed.

use super::RAW_BYTES;
use super::builder::{BlockBuffer, RunBuilder};
use crate::Error;
use crate::urls::veuni::memtable::Memtable;
use farol_base::HostHash;
use farol_base::codec::Decoder;
use farol_base::disk::Disk;
use std::cell::RefCell;
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"FRN2";
/// Magic, batches, blocks, bytes, checksum of these.
const HEAD_BYTES: usize = 4 + 8 + 4 + 8 + 4;

/// A sorted run in a level-0 file.
#[derive(Clone, Debug)]
pub struct Run {
    /// Batches of the WAL up to this one are in it or in files before it.
    pub flushed_seqno: u64,
    /// First hash and offset in the file of each block.
    pub index: Vec<(HostHash, u64)>,
    /// The offset that follows its last byte.
    pub end: u64,
    /// Memory that the deltas of its largest host take when they are merged, roughly.
    pub largest: u64,
    /// Whether it has visits or tombstones; assumed of a run that an earlier process wrote.
    pub blocks_activation: bool,
}

impl Run {
    /// Offsets of all blocks.
    pub fn blocks(&self) -> Vec<u64> {
        self.index.iter().map(|(_, offset)| *offset).collect()
    }

    /// Offsets of the blocks that may have something of hosts of a hash: one may begin in the block before the first
    /// that begins with it.
    pub fn blocks_of(&self, hash: HostHash) -> Vec<u64> {
        let first = self.index.partition_point(|(start, _)| *start < hash).saturating_sub(1);
        let end = self.index.partition_point(|(start, _)| *start <= hash);
        self.index[first..end.max(first)].iter().map(|(_, offset)| *offset).collect()
    }
}

/// [`Run::largest`] of a run that an earlier process wrote: a host that fills blocks is the first in each but
/// one of them, and takes three times their bytes when its paths are whole.
fn largest_of(index: &[(HostHash, u64)]) -> u64 {
    let first_in = index.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
    (3 * (first_in + 1).min(index.len()) * RAW_BYTES) as u64
}

thread_local! {
    /// A thread keeps the memory of one run for the next.
    static SCRATCH: RefCell<BlockBuffer> = RefCell::default();
}

/// Up to this much of it.
const SCRATCH_BYTES: usize = 4 << 20;

/// Appends a memtable as the run at `offset` of its file.
pub(super) fn append_run(
    disk: &dyn Disk,
    file: &str,
    memtable: &Memtable,
    flushed_seqno: u64,
    offset: u64,
) -> Result<Run, Error> {
    SCRATCH.with_borrow_mut(|blocks| {
        blocks.clear();
        let mut builder = RunBuilder::new(blocks);
        memtable.write(&mut builder)?;
        builder.finish()?;
        let BlockBuffer { out, index, largest, .. } = blocks;
        let mut head = Vec::with_capacity(HEAD_BYTES + 16 * index.len() + 4);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&flushed_seqno.to_le_bytes());
        head.extend_from_slice(&(index.len() as u32).to_le_bytes());
        head.extend_from_slice(&(out.len() as u64).to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        for (first, start) in &*index {
            head.extend_from_slice(&first.0.to_le_bytes());
            head.extend_from_slice(&start.to_le_bytes());
        }
        head.extend_from_slice(&crc32fast::hash(&head[HEAD_BYTES..]).to_le_bytes());
        for bytes in [&head, &*out] {
            disk.append(file, bytes).map_err(Error::io("append to", file))?;
        }
        let (blocks_at, bytes) = (offset + head.len() as u64, out.len() as u64);
        out.clear();
        out.shrink_to(SCRATCH_BYTES);
        let index = index.iter().map(|(first, start)| (*first, start + blocks_at)).collect();
        let (end, largest, blocks_activation) = (blocks_at + bytes, *largest, memtable.blocks_activation());
        Ok(Run { flushed_seqno, index, end, largest, blocks_activation })
    })
}

/// Writes a memtable as the run at `offset`, such that it survives a power cut; where that fails nothing is
/// left.
pub fn write_run(
    disk: &dyn Disk,
    file: &str,
    memtable: &Memtable,
    flushed_seqno: u64,
    offset: u64,
) -> Result<Run, Error> {
    let len = |disk: &dyn Disk| disk.len(file).map_err(Error::io("look at", file));
    let cut = |disk: &dyn Disk| match len(disk)? {
        Some(len) if len > offset => disk.truncate(file, offset).map_err(Error::io("cut", file)),
        _ => Ok(()),
    };
    // An earlier attempt may have left something.
    cut(disk)?;
    let appended = append_run(disk, file, memtable, flushed_seqno, offset);
    let written = appended.and_then(|run| disk.sync(file).map_err(Error::io("sync", file)).map(|()| run));
    if written.is_err() {
        cut(disk)?;
    }
    written
}

/// What a level-0 file holds.
#[derive(Debug, Default)]
pub struct Level0File {
    /// The runs that are whole.
    pub runs: Vec<Run>,
    /// A crash cut the last run, whose batches the WAL still has, at this offset.
    pub torn: Option<u64>,
    /// Where it does not fit together, and why: no crash does that.
    pub damaged: Option<(u64, &'static str)>,
}

/// Finds the runs of a level-0 file, up to the first that is not whole.
pub fn runs_of(disk: &Arc<dyn Disk>, file: &str) -> Result<Level0File, Error> {
    let len = disk.len(file).map_err(Error::io("look at", file))?.unwrap_or(0);
    let (mut pending, mut at) = (Level0File::default(), 0);
    while at < len && pending.torn.is_none() && pending.damaged.is_none() {
        match read_run(disk, file, at, len)? {
            ParsedRun::Whole(run) => {
                at = run.end;
                pending.runs.push(run);
            }
            ParsedRun::Torn => pending.torn = Some(at),
            ParsedRun::Damaged(what) => pending.damaged = Some((at, what)),
        }
    }
    Ok(pending)
}

/// What is found at an offset of a level-0 file.
enum ParsedRun {
    Whole(Run),
    Torn,
    Damaged(&'static str),
}

fn read_run(disk: &Arc<dyn Disk>, file: &str, at: u64, len: u64) -> Result<ParsedRun, Error> {
    let mut head = [0; HEAD_BYTES];
    let read =
        |offset: u64, into: &mut [u8]| disk.read_at(file, offset, into).map_err(Error::io("read", file));
    // After a power cut what was not synced may read as zeros.
    if read(at, &mut head)? < HEAD_BYTES || head == [0; HEAD_BYTES] {
        return Ok(ParsedRun::Torn);
    }
    if &head[..4] != MAGIC || crc32fast::hash(&head[..HEAD_BYTES - 4]).to_le_bytes() != head[HEAD_BYTES - 4..]
    {
        return Ok(ParsedRun::Damaged("the head of a run does not fit its checksum"));
    }
    let mut numbers = Decoder::of(&head[4..]);
    let flushed_seqno = numbers.fixed().map(u64::from_le_bytes).unwrap_or(0);
    let count = numbers.fixed().map(u32::from_le_bytes).unwrap_or(0) as u64;
    let bytes = numbers.fixed().map(u64::from_le_bytes).unwrap_or(0);
    let index_bytes = 16 * count + 4;
    let blocks_at = at + HEAD_BYTES as u64 + index_bytes;
    let Some(end) = blocks_at.checked_add(bytes).filter(|end| *end <= len) else {
        return Ok(ParsedRun::Torn);
    };
    let mut index = vec![0; index_bytes as usize];
    read(at + HEAD_BYTES as u64, &mut index)?;
    let (body, crc) = index.split_at(index.len() - 4);
    if crc32fast::hash(body).to_le_bytes() != crc {
        return Ok(ParsedRun::Damaged("the index of a run does not fit its checksum"));
    }
    let mut numbers = Decoder::of(body);
    let mut index = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let first = numbers.fixed().map(u64::from_le_bytes).unwrap_or(0);
        index.push((HostHash(first), blocks_at + numbers.fixed().map(u64::from_le_bytes).unwrap_or(0)));
    }
    let largest = largest_of(&index);
    Ok(ParsedRun::Whole(Run { flushed_seqno, index, end, largest, blocks_activation: true }))
}
