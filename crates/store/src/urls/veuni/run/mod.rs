//! What came in for a bucket, sorted: a run in its level-0 file, or in memory on its way into the bucket.
//!
//! A level-0 file is runs, one after the other, appended as memory fills up. A run is a head and then blocks
//! ([`frame`](crate::urls::veuni::block_frame)), each of which stands for itself:
//!
//! ```text
//! head:   u32 magic | u64 batches of the log up to this one | u32 blocks | u64 bytes | u32 crc
//! index:  per block u64 first hash, u64 offset | u32 crc
//! block:  as columns, like with like: hosts (host, flags, number of URLs) | front coding (shared bytes, own bytes) |
//!         own bytes of paths | flags, one byte per URL | depths | events
//! ```
//! A host that does not fit into a block goes on in the next, under its name again.

use crate::Error;
use crate::urls::veuni::block_frame::{FrameReader, write_block};
use crate::urls::veuni::codec::shared_bytes;
use crate::urls::veuni::compaction::delta::{DELTA_SLOT_BYTES, HostDelta};
use crate::urls::veuni::memtable::{Event, Memtable, MemtableReader};
use farol_base::HostHash;
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_varint};
use farol_base::disk::Disk;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"FRN2";
/// Magic, batches, blocks, bytes, checksum of these.
const HEAD_BYTES: usize = 4 + 8 + 4 + 8 + 4;
/// A block is closed when its raw bytes reach this.
const RAW_BYTES: usize = 64 << 10;

pub(in crate::urls::veuni) const TOMBSTONE: u8 = 1;

pub(in crate::urls::veuni) const HAS_DEPTH: u8 = 1;
pub(in crate::urls::veuni) const VISIT_FIRST: u8 = 2;
pub(in crate::urls::veuni) const HAS_EVENTS: u8 = 4;

/// What came in for one URL.
#[derive(Clone, Debug, PartialEq)]
pub struct UrlDelta {
    /// Smallest depth at which it was found; `u16::MAX` where it was not.
    pub depth: u16,
    /// It was visited before it was found.
    pub visit_first: bool,
    pub events: Vec<Event>,
}

/// The blocks of a run: compressed, behind each other; with the first hash and the offset of each.
#[derive(Default)]
pub struct BlockBuffer {
    out: Vec<u8>,
    index: Vec<(HostHash, u64)>,
    /// What the host that has most takes in memory when it is merged.
    largest: u64,
    /// The block that is open.
    columns: BlockColumns,
    /// What stands before and behind the paths' own bytes, as a block has it.
    front: Vec<u8>,
    rest: Vec<u8>,
}

/// The columns of a block.
#[derive(Debug, Default)]
struct BlockColumns {
    hosts: Vec<u8>,
    coding: Vec<u8>,
    own: Vec<u8>,
    flags: Vec<u8>,
    depths: Vec<u8>,
    events: Vec<u8>,
}

impl BlockColumns {
    fn all(&mut self) -> [&mut Vec<u8>; 6] {
        let BlockColumns { hosts, coding, own, flags, depths, events } = self;
        [hosts, coding, own, flags, depths, events]
    }
}

/// Builds a run.
pub struct RunBuilder<'a> {
    into: &'a mut BlockBuffer,
    block_first: HostHash,
    /// URLs of the open host in the open block.
    count: u64,
    /// What the open host takes in memory when it is merged, with what stands in blocks before.
    bytes: u64,
    before: Vec<u8>,
    hash: HostHash,
    host: String,
    host_flags: u8,
}

impl<'a> RunBuilder<'a> {
    pub fn new(into: &'a mut BlockBuffer) -> RunBuilder<'a> {
        RunBuilder {
            into,
            block_first: HostHash(0),
            count: 0,
            bytes: 0,
            before: Vec::new(),
            hash: HostHash(0),
            host: String::new(),
            host_flags: 0,
        }
    }

    /// Begins a host; they come in the order of their hashes, then of their names.
    pub fn begin(&mut self, hash: HostHash, host: &str, tombstone: bool) {
        self.hash = hash;
        self.host.clear();
        self.host.push_str(host);
        self.host_flags = if tombstone { TOMBSTONE } else { 0 };
        self.bytes = 0;
        self.before.clear();
    }

    /// Adds a URL with what happened to it, as [`Event::read`] reads it.
    pub fn push(
        &mut self,
        path: &[u8],
        depth: u16,
        visit_first: bool,
        events: &[&[u8]],
    ) -> Result<(), Error> {
        let columns = &mut self.into.columns;
        let shared = shared_bytes(&self.before, path);
        put_varint(&mut columns.coding, shared as u64);
        put_varint(&mut columns.coding, (path.len() - shared) as u64);
        columns.own.extend_from_slice(&path[shared..]);
        let mut flags = u8::from(visit_first) * VISIT_FIRST;
        if depth != u16::MAX {
            flags |= HAS_DEPTH;
            put_varint(&mut columns.depths, u64::from(depth));
        }
        if !events.is_empty() {
            flags |= HAS_EVENTS;
            events.iter().for_each(|event| columns.events.extend_from_slice(event));
            columns.events.push(0);
        }
        columns.flags.push(flags);
        self.before.truncate(shared);
        self.before.extend_from_slice(&path[shared..]);
        self.count += 1;
        self.bytes += (DELTA_SLOT_BYTES + path.len()) as u64;
        if self.is_full() {
            self.close_host();
            self.close_block()?;
            self.before.clear();
        }
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        self.into.columns.all().iter().map(|column| column.len()).sum::<usize>() >= RAW_BYTES
    }

    /// Ends a host.
    pub fn end(&mut self) -> Result<(), Error> {
        self.close_host();
        self.into.largest = self.into.largest.max(self.bytes);
        if self.is_full() { self.close_block() } else { Ok(()) }
    }

    /// Ends a host's part in this block.
    fn close_host(&mut self) {
        if self.count == 0 && self.host_flags == 0 {
            return;
        }
        let hosts = &mut self.into.columns.hosts;
        if hosts.is_empty() {
            self.block_first = self.hash;
        }
        put_bytes(hosts, self.host.as_bytes());
        hosts.push(self.host_flags);
        put_varint(hosts, self.count);
        self.count = 0;
        // What goes on in the next block does not void what stands in this one.
        self.host_flags = 0;
    }

    fn close_block(&mut self) -> Result<(), Error> {
        let BlockBuffer { out, index, columns, front, rest, .. } = &mut *self.into;
        let BlockColumns { hosts, coding, own, flags, depths, events } = &*columns;
        if hosts.is_empty() {
            return Ok(());
        }
        // In parts of like bytes.
        front.clear();
        put_bytes(front, hosts);
        put_bytes(front, coding);
        put_varint(front, own.len() as u64);
        rest.clear();
        [flags, depths, events].into_iter().for_each(|column| put_bytes(rest, column));
        index.push((self.block_first, out.len() as u64));
        write_block(out, &[front, own, rest])?;
        columns.all().into_iter().for_each(Vec::clear);
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.close_block()
    }
}

/// A run in a level-0 file.
#[derive(Clone, Debug)]
pub struct Run {
    pub flushed_seqno: u64,
    /// First hash and offset in the file of each block.
    pub index: Vec<(HostHash, u64)>,
    /// Behind its last byte.
    pub end: u64,
    /// What the host that has most takes in memory when it is merged, near enough.
    pub largest: u64,
    /// As of a memtable; not known of one that an earlier process wrote.
    pub blocks_activation: bool,
}

/// The same of a run that an earlier process wrote: a host that fills blocks is the first in each but one of them, and
/// takes three times their bytes when its paths are whole.
fn largest_of(index: &[(HostHash, u64)]) -> u64 {
    let first_in = index.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
    (3 * (first_in + 1).min(index.len()) * RAW_BYTES) as u64
}

thread_local! {
    /// Room for the blocks of a run, kept for the next.
    static SCRATCH: RefCell<BlockBuffer> = RefCell::default();
}

/// So much room is kept.
const SCRATCH_BYTES: usize = 4 << 20;

/// Appends a memtable as a run that stands at `offset` of its file.
fn append_run(
    disk: &dyn Disk,
    file: &str,
    memtable: &Memtable,
    flushed_seqno: u64,
    offset: u64,
) -> Result<Run, Error> {
    SCRATCH.with_borrow_mut(|blocks| {
        blocks.out.clear();
        blocks.index.clear();
        blocks.largest = 0;
        // One that failed may have left something.
        blocks.columns.all().into_iter().for_each(Vec::clear);
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

/// Writes a memtable as the run at `offset`, such that it survives a power cut; where that fails nothing is left.
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
    /// A crash cut the last run, whose batches the log still has, at this offset.
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

/// Reads what came in, host by host: a run of a file, or a memtable.
pub enum RunReader {
    File(Box<RunFileReader>),
    Memtable(MemtableReader),
}

impl RunReader {
    pub fn file(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<RunReader, Error> {
        RunFileReader::open(disk, file, offsets).map(|reader| RunReader::File(Box::new(reader)))
    }

    pub fn memtable(memtable: Arc<Memtable>) -> RunReader {
        RunReader::Memtable(MemtableReader::new(memtable))
    }

    /// Hash and host of the next host.
    pub fn peek(&self) -> Option<(HostHash, &str)> {
        match self {
            RunReader::File(file) => file.next.as_ref().map(|next| (next.hash, &*next.host)),
            RunReader::Memtable(memtable) => memtable.peek(),
        }
    }

    /// Adds the URLs of the next host, all of them, to what came in before.
    pub fn read_host(&mut self, into: &mut HostDelta) -> Result<(), Error> {
        match self {
            RunReader::File(file) => file.read_host(into),
            RunReader::Memtable(memtable) => memtable.read_host(into).map_err(|what| Error::Damaged {
                file: "memory".to_string(),
                offset: 0,
                what: what.to_string(),
            }),
        }
    }
}

/// A block that is being read: its bytes, and what is left of each column.
#[derive(Debug, Default)]
pub(in crate::urls::veuni) struct RunBlock {
    pub raw: Vec<u8>,
    hosts: Range<usize>,
    pub coding: Range<usize>,
    pub own: Range<usize>,
    pub flags: Range<usize>,
    pub depths: Range<usize>,
    pub events: Range<usize>,
}

impl RunBlock {
    /// Finds the columns, after `raw` was read.
    fn open(&mut self) -> Result<(), DecodeError> {
        let RunBlock { raw, hosts, coding, own, flags, depths, events } = self;
        let mut bytes = Decoder::of(raw);
        for column in [hosts, coding, own, flags, depths, events] {
            let len = bytes.bytes()?.len();
            let end = raw.len() - bytes.len();
            *column = end - len..end;
        }
        Ok(())
    }

    /// Reads the next host's heading; its name goes into `host`.
    fn heading(&mut self, mut host: String) -> Result<HostHeading, DecodeError> {
        let mut bytes = Decoder::of(&self.raw[self.hosts.clone()]);
        host.clear();
        host.push_str(bytes.text()?);
        let heading =
            HostHeading { hash: HostHash::of(&host), host, flags: bytes.byte()?, count: bytes.varint()? };
        self.hosts.start = self.hosts.end - bytes.len();
        Ok(heading)
    }
}

/// Reads a run of a file.
pub struct RunFileReader {
    frame_reader: FrameReader,
    offsets: std::vec::IntoIter<u64>,
    /// Offset of the open block, for messages.
    offset: u64,
    block: RunBlock,
    /// The host whose URLs come next.
    next: Option<HostHeading>,
    /// Room for the name after that.
    chunk_pool: String,
}

#[derive(Debug)]
struct HostHeading {
    hash: HostHash,
    host: String,
    flags: u8,
    count: u64,
}

impl RunFileReader {
    fn open(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<RunFileReader, Error> {
        let (frame_reader, offsets) = (FrameReader::new(disk, file, 64 << 10), offsets.into_iter());
        let mut reader = RunFileReader {
            frame_reader,
            offsets,
            offset: 0,
            block: RunBlock::default(),
            next: None,
            chunk_pool: String::new(),
        };
        reader.advance()?;
        Ok(reader)
    }

    fn damaged(&self, what: &str) -> Error {
        self.frame_reader.damaged(self.offset, what)
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.next = None;
        while self.block.hosts.is_empty() {
            let Some(offset) = self.offsets.next() else { return Ok(()) };
            self.offset = offset;
            self.frame_reader.read(offset, &mut self.block.raw)?;
            self.block.open().map_err(|what| self.damaged(what))?;
        }
        let heading = self.block.heading(std::mem::take(&mut self.chunk_pool));
        self.next = Some(heading.map_err(|what| self.damaged(what))?);
        Ok(())
    }

    fn read_host(&mut self, into: &mut HostDelta) -> Result<(), Error> {
        let Some(first) = self.next.take() else { return Ok(()) };
        let (mut flags, mut count) = (first.flags, first.count);
        loop {
            into.read(flags, count, &mut self.block).map_err(|what| self.damaged(what))?;
            self.advance()?;
            match &self.next {
                Some(next) if (next.hash, &next.host) == (first.hash, &first.host) => {
                    (flags, count) = (next.flags, next.count);
                }
                _ => break,
            }
        }
        self.chunk_pool = first.host;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Timestamp;
    use farol_base::disk::Mem;

    #[test]
    fn what_was_staged_comes_back_sorted() {
        let mut memtable = Memtable::default();
        for number in 0..20_000 {
            let host = if number % 3 == 0 { "http://small" } else { "http://large" };
            let path = format!("/{}/{number}", "x".repeat(number % 60));
            memtable.found(host, &path, (number % 7) as u16, None);
        }
        let mut hosts = ["http://small", "http://large"].map(|host| (HostHash::of(host), host));
        hosts.sort_unstable();
        let large = HostHash::of("http://large");
        memtable.found("http://large", "/a", 1, Some(Timestamp::from_secs(5)));
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        let run = append_run(&*mem, "p", &memtable, 77, 0).unwrap();
        append_run(&*mem, "p", &memtable, 78, run.end).unwrap();
        mem.truncate("p", 2 * run.end - 1).unwrap();
        let Level0File { runs, torn, damaged } = runs_of(&mem, "p").unwrap();
        assert_eq!((runs.len(), runs[0].flushed_seqno, runs[0].end), (1, 77, run.end));
        assert_eq!((torn, damaged), (Some(run.end), None));
        assert!(runs[0].index.len() > 1, "{} pieces", runs[0].index.len());
        let offsets = runs[0].index.iter().map(|(_, offset)| *offset).collect();
        for mut reader in
            [RunReader::file(mem.clone(), "p", offsets).unwrap(), RunReader::memtable(Arc::new(memtable))]
        {
            let mut seen = 0;
            for (hash, host) in hosts {
                assert_eq!(reader.peek(), Some((hash, host)));
                let mut delta = HostDelta::default();
                reader.read_host(&mut delta).unwrap();
                delta.sort();
                let paths: Vec<&[u8]> = (0..delta.len()).map(|at| delta.get(at).path).collect();
                assert!(paths.windows(2).all(|pair| pair[0] < pair[1]));
                seen += delta.len();
                if hash == large {
                    let at = paths.iter().position(|path| *path == b"/a").unwrap();
                    assert_eq!(delta.get(at).events, [Event::Hint(Timestamp::from_secs(5))]);
                }
            }
            assert_eq!((seen, reader.peek()), (20_001, None));
        }
    }

    #[test]
    fn servers_that_were_only_forgotten_fill_pieces_too() {
        let mut memtable = Memtable::default();
        for number in 0..20_000 {
            let host = format!("http://host-{number}.example");
            memtable.delete_host(&host);
        }
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        let run = append_run(&*mem, "p", &memtable, 1, 0).unwrap();
        assert!(run.index.len() > 5, "{} pieces", run.index.len());
        let offsets = run.index.iter().map(|(_, offset)| *offset).collect();
        let mut reader = RunReader::file(mem, "p", offsets).unwrap();
        let mut seen = 0;
        while reader.peek().is_some() {
            let mut delta = HostDelta::default();
            reader.read_host(&mut delta).unwrap();
            seen += u32::from(delta.tombstone);
        }
        assert_eq!(seen, 20_000);
    }
}
