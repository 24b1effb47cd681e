//! What came in for a block, sorted: a run in its pending file, or in memory on its way into the block.
//!
//! A pending file is runs, one after the other, appended as memory fills up. A run is a head and then pieces
//! ([`frame`](crate::urls::veuni::block_frame)), each of which stands for itself:
//!
//! ```text
//! head:   u32 magic | u64 batches of the log up to this one | u32 pieces | u64 bytes | u32 crc
//! index:  per piece u64 first hash, u64 offset | u32 crc
//! piece:  as columns, like with like: servers (host, flags, number of URLs) | front coding (shared bytes, own bytes) |
//!         own bytes of paths | flags, one byte per URL | depths | events
//! ```
//! A server that does not fit into a piece goes on in the next, under its name again.

use crate::Error;
use crate::urls::veuni::block_frame::{Frames, put_frame};
use crate::urls::veuni::codec::{Bytes, Misfit, put, put_bytes, shared_bytes};
use crate::urls::veuni::compaction::delta::{ITEM_BYTES, Incoming};
use crate::urls::veuni::memtable::{Event, Stage, StageReader};
use farol_base::disk::Disk;
use farol_base::fingerprint::hash64;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"FRN2";
/// Magic, batches, pieces, bytes, checksum of these.
const HEAD_BYTES: usize = 4 + 8 + 4 + 8 + 4;
/// A piece is closed when its raw bytes reach this.
const RAW_BYTES: usize = 64 << 10;

pub(in crate::urls::veuni) const FORGOTTEN: u8 = 1;

pub(in crate::urls::veuni) const HAS_DEPTH: u8 = 1;
pub(in crate::urls::veuni) const VISIT_FIRST: u8 = 2;
pub(in crate::urls::veuni) const HAS_EVENTS: u8 = 4;

/// What came in for one URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Smallest depth at which it was found; `u16::MAX` where it was not.
    pub depth: u16,
    /// It was visited before it was found.
    pub visit_first: bool,
    pub events: Vec<Event>,
}

/// The pieces of a run: compressed, behind each other; with the first hash and the offset of each.
#[derive(Default)]
pub struct Pieces {
    out: Vec<u8>,
    index: Vec<(u64, u64)>,
    /// What the server that has most takes in memory when it is merged.
    largest: u64,
    /// The piece that is open.
    columns: Columns,
    /// What stands before and behind the paths' own bytes, as a piece has it.
    front: Vec<u8>,
    rest: Vec<u8>,
}

/// The columns of a piece.
#[derive(Debug, Default)]
struct Columns {
    servers: Vec<u8>,
    coding: Vec<u8>,
    own: Vec<u8>,
    flags: Vec<u8>,
    depths: Vec<u8>,
    events: Vec<u8>,
}

impl Columns {
    fn all(&mut self) -> [&mut Vec<u8>; 6] {
        let Columns { servers, coding, own, flags, depths, events } = self;
        [servers, coding, own, flags, depths, events]
    }
}

/// Builds a run.
pub struct RunBuilder<'a> {
    into: &'a mut Pieces,
    piece_first: u64,
    /// URLs of the open server in the open piece.
    count: u64,
    /// What the open server takes in memory when it is merged, with what stands in pieces before.
    bytes: u64,
    before: Vec<u8>,
    hash: u64,
    host: String,
    server_flags: u8,
}

impl<'a> RunBuilder<'a> {
    pub fn new(into: &'a mut Pieces) -> RunBuilder<'a> {
        RunBuilder {
            into,
            piece_first: 0,
            count: 0,
            bytes: 0,
            before: Vec::new(),
            hash: 0,
            host: String::new(),
            server_flags: 0,
        }
    }

    /// Begins a server; they come in the order of their hashes, then of their names.
    pub fn begin(&mut self, hash: u64, host: &str, forgotten: bool) {
        self.hash = hash;
        self.host.clear();
        self.host.push_str(host);
        self.server_flags = if forgotten { FORGOTTEN } else { 0 };
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
        put(&mut columns.coding, shared as u64);
        put(&mut columns.coding, (path.len() - shared) as u64);
        columns.own.extend_from_slice(&path[shared..]);
        let mut flags = u8::from(visit_first) * VISIT_FIRST;
        if depth != u16::MAX {
            flags |= HAS_DEPTH;
            put(&mut columns.depths, u64::from(depth));
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
        self.bytes += (ITEM_BYTES + path.len()) as u64;
        if self.is_full() {
            self.close_server();
            self.close_piece()?;
            self.before.clear();
        }
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        self.into.columns.all().iter().map(|column| column.len()).sum::<usize>() >= RAW_BYTES
    }

    /// Ends a server.
    pub fn end(&mut self) -> Result<(), Error> {
        self.close_server();
        self.into.largest = self.into.largest.max(self.bytes);
        if self.is_full() { self.close_piece() } else { Ok(()) }
    }

    /// Ends a server's part in this piece.
    fn close_server(&mut self) {
        if self.count == 0 && self.server_flags == 0 {
            return;
        }
        let servers = &mut self.into.columns.servers;
        if servers.is_empty() {
            self.piece_first = self.hash;
        }
        put_bytes(servers, self.host.as_bytes());
        servers.push(self.server_flags);
        put(servers, self.count);
        self.count = 0;
        // What goes on in the next piece does not void what stands in this one.
        self.server_flags = 0;
    }

    fn close_piece(&mut self) -> Result<(), Error> {
        let Pieces { out, index, columns, front, rest, .. } = &mut *self.into;
        let Columns { servers, coding, own, flags, depths, events } = &*columns;
        if servers.is_empty() {
            return Ok(());
        }
        // In parts of like bytes.
        front.clear();
        put_bytes(front, servers);
        put_bytes(front, coding);
        put(front, own.len() as u64);
        rest.clear();
        [flags, depths, events].into_iter().for_each(|column| put_bytes(rest, column));
        index.push((self.piece_first, out.len() as u64));
        put_frame(out, &[front, own, rest])?;
        columns.all().into_iter().for_each(Vec::clear);
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.close_piece()
    }
}

/// A run in a pending file.
#[derive(Clone, Debug)]
pub struct Run {
    pub upto: u64,
    /// First hash and offset in the file of each piece.
    pub index: Vec<(u64, u64)>,
    /// Behind its last byte.
    pub end: u64,
    /// What the server that has most takes in memory when it is merged, near enough.
    pub largest: u64,
    /// As of a stage; not known of one that an earlier process wrote.
    pub is_urgent: bool,
}

/// The same of a run that an earlier process wrote: a server that fills pieces is the first in each but one of them, and
/// takes three times their bytes when its paths are whole.
fn largest_of(index: &[(u64, u64)]) -> u64 {
    let first_in = index.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
    (3 * (first_in + 1).min(index.len()) * RAW_BYTES) as u64
}

thread_local! {
    /// Room for the pieces of a run, kept for the next.
    static ROOM: RefCell<Pieces> = RefCell::default();
}

/// So much room is kept.
const ROOM_BYTES: usize = 4 << 20;

/// Appends a stage as a run that stands at `offset` of its file.
pub fn append_run(disk: &dyn Disk, file: &str, stage: &Stage, upto: u64, offset: u64) -> Result<Run, Error> {
    ROOM.with_borrow_mut(|pieces| {
        pieces.out.clear();
        pieces.index.clear();
        pieces.largest = 0;
        // One that failed may have left something.
        pieces.columns.all().into_iter().for_each(Vec::clear);
        let mut builder = RunBuilder::new(pieces);
        stage.write(&mut builder)?;
        builder.finish()?;
        let Pieces { out, index, largest, .. } = pieces;
        let mut head = Vec::with_capacity(HEAD_BYTES + 16 * index.len() + 4);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&upto.to_le_bytes());
        head.extend_from_slice(&(index.len() as u32).to_le_bytes());
        head.extend_from_slice(&(out.len() as u64).to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        for (first, start) in &*index {
            head.extend_from_slice(&first.to_le_bytes());
            head.extend_from_slice(&start.to_le_bytes());
        }
        head.extend_from_slice(&crc32fast::hash(&head[HEAD_BYTES..]).to_le_bytes());
        for bytes in [&head, &*out] {
            disk.append(file, bytes).map_err(Error::io("append to", file))?;
        }
        let (pieces_at, bytes) = (offset + head.len() as u64, out.len() as u64);
        out.clear();
        out.shrink_to(ROOM_BYTES);
        let index = index.iter().map(|(first, start)| (*first, start + pieces_at)).collect();
        let (end, largest, is_urgent) = (pieces_at + bytes, *largest, stage.is_urgent());
        Ok(Run { upto, index, end, largest, is_urgent })
    })
}

/// What stands in a pending file.
#[derive(Debug, Default)]
pub struct PendingFile {
    /// The runs that are whole.
    pub runs: Vec<Run>,
    /// A crash cut the last run, whose batches the log still has, at this offset.
    pub torn: Option<u64>,
    /// Where it does not fit together, and why: no crash does that.
    pub damaged: Option<(u64, &'static str)>,
}

/// Finds the runs of a pending file, up to the first that is not whole.
pub fn runs_of(disk: &Arc<dyn Disk>, file: &str) -> Result<PendingFile, Error> {
    let len = disk.len(file).map_err(Error::io("look at", file))?.unwrap_or(0);
    let (mut pending, mut at) = (PendingFile::default(), 0);
    while at < len && pending.torn.is_none() && pending.damaged.is_none() {
        match read_run(disk, file, at, len)? {
            Next::Whole(run) => {
                at = run.end;
                pending.runs.push(run);
            }
            Next::Torn => pending.torn = Some(at),
            Next::Damaged(what) => pending.damaged = Some((at, what)),
        }
    }
    Ok(pending)
}

enum Next {
    Whole(Run),
    Torn,
    Damaged(&'static str),
}

fn read_run(disk: &Arc<dyn Disk>, file: &str, at: u64, len: u64) -> Result<Next, Error> {
    let mut head = [0; HEAD_BYTES];
    let read =
        |offset: u64, into: &mut [u8]| disk.read_at(file, offset, into).map_err(Error::io("read", file));
    // After a power cut what was not synced may read as zeros.
    if read(at, &mut head)? < HEAD_BYTES || head == [0; HEAD_BYTES] {
        return Ok(Next::Torn);
    }
    if &head[..4] != MAGIC || crc32fast::hash(&head[..HEAD_BYTES - 4]).to_le_bytes() != head[HEAD_BYTES - 4..]
    {
        return Ok(Next::Damaged("the head of a run does not fit its checksum"));
    }
    let mut numbers = Bytes::of(&head[4..]);
    let upto = numbers.fixed().map(u64::from_le_bytes).unwrap_or(0);
    let count = numbers.fixed().map(u32::from_le_bytes).unwrap_or(0) as u64;
    let bytes = numbers.fixed().map(u64::from_le_bytes).unwrap_or(0);
    let index_bytes = 16 * count + 4;
    let pieces_at = at + HEAD_BYTES as u64 + index_bytes;
    let Some(end) = pieces_at.checked_add(bytes).filter(|end| *end <= len) else { return Ok(Next::Torn) };
    let mut index = vec![0; index_bytes as usize];
    read(at + HEAD_BYTES as u64, &mut index)?;
    let (body, crc) = index.split_at(index.len() - 4);
    if crc32fast::hash(body).to_le_bytes() != crc {
        return Ok(Next::Damaged("the index of a run does not fit its checksum"));
    }
    let mut numbers = Bytes::of(body);
    let mut index = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let first = numbers.fixed().map(u64::from_le_bytes).unwrap_or(0);
        index.push((first, pieces_at + numbers.fixed().map(u64::from_le_bytes).unwrap_or(0)));
    }
    let largest = largest_of(&index);
    Ok(Next::Whole(Run { upto, index, end, largest, is_urgent: true }))
}

/// Reads what came in, server by server: a run of a file, or a stage.
pub enum RunReader {
    File(Box<FileReader>),
    Stage(StageReader),
}

impl RunReader {
    pub fn file(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<RunReader, Error> {
        FileReader::open(disk, file, offsets).map(|reader| RunReader::File(Box::new(reader)))
    }

    pub fn stage(stage: Arc<Stage>) -> RunReader {
        RunReader::Stage(StageReader::new(stage))
    }

    /// Hash and host of the next server.
    pub fn peek(&self) -> Option<(u64, &str)> {
        match self {
            RunReader::File(file) => file.next.as_ref().map(|next| (next.hash, &*next.host)),
            RunReader::Stage(stage) => stage.peek(),
        }
    }

    /// Adds the URLs of the next server, all of them, to what came in before.
    pub fn read_server(&mut self, into: &mut Incoming) -> Result<(), Error> {
        match self {
            RunReader::File(file) => file.read_server(into),
            RunReader::Stage(stage) => stage.read_server(into).map_err(|what| Error::Damaged {
                file: "memory".to_string(),
                offset: 0,
                what: what.to_string(),
            }),
        }
    }
}

/// A piece that is being read: its bytes, and what is left of each column.
#[derive(Debug, Default)]
pub(in crate::urls::veuni) struct Piece {
    pub raw: Vec<u8>,
    servers: Range<usize>,
    pub coding: Range<usize>,
    pub own: Range<usize>,
    pub flags: Range<usize>,
    pub depths: Range<usize>,
    pub events: Range<usize>,
}

impl Piece {
    /// Finds the columns, after `raw` was read.
    fn open(&mut self) -> Result<(), Misfit> {
        let Piece { raw, servers, coding, own, flags, depths, events } = self;
        let mut bytes = Bytes::of(raw);
        for column in [servers, coding, own, flags, depths, events] {
            let len = bytes.bytes()?.len();
            let end = raw.len() - bytes.len();
            *column = end - len..end;
        }
        Ok(())
    }

    /// Reads the next server's heading; its name goes into `host`.
    fn heading(&mut self, mut host: String) -> Result<Heading, Misfit> {
        let mut bytes = Bytes::of(&self.raw[self.servers.clone()]);
        host.clear();
        host.push_str(bytes.text()?);
        let heading =
            Heading { hash: hash64(host.as_bytes()), host, flags: bytes.byte()?, count: bytes.number()? };
        self.servers.start = self.servers.end - bytes.len();
        Ok(heading)
    }
}

/// Reads a run of a file.
pub struct FileReader {
    frames: Frames,
    offsets: std::vec::IntoIter<u64>,
    /// Offset of the open piece, for messages.
    offset: u64,
    piece: Piece,
    /// The server whose URLs come next.
    next: Option<Heading>,
    /// Room for the name after that.
    spare: String,
}

#[derive(Debug)]
struct Heading {
    hash: u64,
    host: String,
    flags: u8,
    count: u64,
}

impl FileReader {
    fn open(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<FileReader, Error> {
        let (frames, offsets) = (Frames::new(disk, file, 64 << 10), offsets.into_iter());
        let mut reader = FileReader {
            frames,
            offsets,
            offset: 0,
            piece: Piece::default(),
            next: None,
            spare: String::new(),
        };
        reader.advance()?;
        Ok(reader)
    }

    fn damaged(&self, what: &str) -> Error {
        self.frames.damaged(self.offset, what)
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.next = None;
        while self.piece.servers.is_empty() {
            let Some(offset) = self.offsets.next() else { return Ok(()) };
            self.offset = offset;
            self.frames.read(offset, &mut self.piece.raw)?;
            self.piece.open().map_err(|what| self.damaged(what))?;
        }
        let heading = self.piece.heading(std::mem::take(&mut self.spare));
        self.next = Some(heading.map_err(|what| self.damaged(what))?);
        Ok(())
    }

    fn read_server(&mut self, into: &mut Incoming) -> Result<(), Error> {
        let Some(first) = self.next.take() else { return Ok(()) };
        let (mut flags, mut count) = (first.flags, first.count);
        loop {
            into.read(flags, count, &mut self.piece).map_err(|what| self.damaged(what))?;
            self.advance()?;
            match &self.next {
                Some(next) if (next.hash, &next.host) == (first.hash, &first.host) => {
                    (flags, count) = (next.flags, next.count);
                }
                _ => break,
            }
        }
        self.spare = first.host;
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
        let mut stage = Stage::default();
        for number in 0..20_000 {
            let host = if number % 3 == 0 { "http://small" } else { "http://large" };
            let path = format!("/{}/{number}", "x".repeat(number % 60));
            stage.found(host, &path, (number % 7) as u16, None);
        }
        let mut hosts = ["http://small", "http://large"].map(|host| (hash64(host.as_bytes()), host));
        hosts.sort_unstable();
        let large = hash64(b"http://large");
        stage.found("http://large", "/a", 1, Some(Timestamp::from_secs(5)));
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        let run = append_run(&*mem, "p", &stage, 77, 0).unwrap();
        append_run(&*mem, "p", &stage, 78, run.end).unwrap();
        mem.truncate("p", 2 * run.end - 1).unwrap();
        let PendingFile { runs, torn, damaged } = runs_of(&mem, "p").unwrap();
        assert_eq!((runs.len(), runs[0].upto, runs[0].end), (1, 77, run.end));
        assert_eq!((torn, damaged), (Some(run.end), None));
        assert!(runs[0].index.len() > 1, "{} pieces", runs[0].index.len());
        let offsets = runs[0].index.iter().map(|(_, offset)| *offset).collect();
        for mut reader in
            [RunReader::file(mem.clone(), "p", offsets).unwrap(), RunReader::stage(Arc::new(stage))]
        {
            let mut seen = 0;
            for (hash, host) in hosts {
                assert_eq!(reader.peek(), Some((hash, host)));
                let mut incoming = Incoming::default();
                reader.read_server(&mut incoming).unwrap();
                incoming.sort();
                let paths: Vec<&[u8]> = (0..incoming.len()).map(|at| incoming.get(at).path).collect();
                assert!(paths.windows(2).all(|pair| pair[0] < pair[1]));
                seen += incoming.len();
                if hash == large {
                    let at = paths.iter().position(|path| *path == b"/a").unwrap();
                    assert_eq!(incoming.get(at).events, [Event::Hint(Timestamp::from_secs(5))]);
                }
            }
            assert_eq!((seen, reader.peek()), (20_001, None));
        }
    }

    #[test]
    fn servers_that_were_only_forgotten_fill_pieces_too() {
        let mut stage = Stage::default();
        for number in 0..20_000 {
            let host = format!("http://host-{number}.example");
            stage.forget(&host);
        }
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        let run = append_run(&*mem, "p", &stage, 1, 0).unwrap();
        assert!(run.index.len() > 5, "{} pieces", run.index.len());
        let offsets = run.index.iter().map(|(_, offset)| *offset).collect();
        let mut reader = RunReader::file(mem, "p", offsets).unwrap();
        let mut seen = 0;
        while reader.peek().is_some() {
            let mut incoming = Incoming::default();
            reader.read_server(&mut incoming).unwrap();
            seen += u32::from(incoming.forgotten);
        }
        assert_eq!(seen, 20_000);
    }
}
