//! What came in for a block, sorted: a run in its pending file, or in memory on its way into the block.
//!
//! A pending file is runs, one after the other, appended as memory fills up. A run is a head and then pieces
//! ([`frame`](super::frame)), each of which stands for itself:
//!
//! ```text
//! head:   u32 magic | u64 batches of the log up to this one | u32 pieces | u64 bytes | u32 crc
//! index:  per piece u64 first hash, u64 offset | u32 crc
//! piece:  per server: hash | host | flags | number of URLs | URLs, front-coded
//! URL:    shared bytes | own bytes | flags | depth | events
//! ```
//! A server that does not fit into a piece goes on in the next, under its name again.

use super::codec::{Bytes, Misfit, put, put_bytes, shared_bytes};
use super::frame::{Frames, put_frame};
use super::stage::{Event, Stage, StageReader};
use crate::Error;
use farol_base::disk::Disk;
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"FRUN";
/// Magic, batches, pieces, bytes, checksum of these.
const HEAD_BYTES: usize = 4 + 8 + 4 + 8 + 4;
/// A piece is closed when its raw bytes reach this.
const RAW_BYTES: usize = 64 << 10;

const FORGOTTEN: u8 = 1;

const HAS_DEPTH: u8 = 1;
const VISIT_FIRST: u8 = 2;
const HAS_EVENTS: u8 = 4;

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
}

/// Builds a run.
pub struct RunBuilder<'a> {
    into: &'a mut Pieces,
    piece: Vec<u8>,
    piece_first: u64,
    /// URLs of the open server in the open piece.
    urls: Vec<u8>,
    count: u64,
    before: Vec<u8>,
    server: Option<(u64, String, u8)>,
}

impl<'a> RunBuilder<'a> {
    pub fn new(into: &'a mut Pieces) -> RunBuilder<'a> {
        let (piece, urls, before) = (Vec::new(), Vec::new(), Vec::new());
        RunBuilder { into, piece, piece_first: 0, urls, count: 0, before, server: None }
    }

    /// Begins a server; they come in the order of their hashes, then of their names.
    pub fn begin(&mut self, hash: u64, host: &str, forgotten: bool) -> Result<(), Error> {
        self.server = Some((hash, host.to_string(), if forgotten { FORGOTTEN } else { 0 }));
        self.before.clear();
        Ok(())
    }

    /// Adds a URL with what happened to it, as [`Event::read`] reads it.
    pub fn push(
        &mut self,
        path: &[u8],
        depth: u16,
        visit_first: bool,
        events: &[&[u8]],
    ) -> Result<(), Error> {
        let shared = shared_bytes(&self.before, path);
        put(&mut self.urls, shared as u64);
        put_bytes(&mut self.urls, &path[shared..]);
        let flags_at = self.urls.len();
        self.urls.push(u8::from(visit_first) * VISIT_FIRST);
        if depth != u16::MAX {
            self.urls[flags_at] |= HAS_DEPTH;
            put(&mut self.urls, u64::from(depth));
        }
        if !events.is_empty() {
            self.urls[flags_at] |= HAS_EVENTS;
            events.iter().for_each(|event| self.urls.extend_from_slice(event));
            self.urls.push(0);
        }
        self.before.truncate(shared);
        self.before.extend_from_slice(&path[shared..]);
        self.count += 1;
        if self.urls.len() + self.piece.len() >= RAW_BYTES {
            self.close_server();
            self.close_piece()?;
            self.before.clear();
        }
        Ok(())
    }

    /// Ends a server.
    pub fn end(&mut self) -> Result<(), Error> {
        self.close_server();
        self.server = None;
        if self.piece.len() >= RAW_BYTES { self.close_piece() } else { Ok(()) }
    }

    fn close_server(&mut self) {
        let Some((hash, host, flags)) = &mut self.server else { return };
        if self.count == 0 && *flags == 0 {
            return;
        }
        if self.piece.is_empty() {
            self.piece_first = *hash;
        }
        self.piece.extend_from_slice(&hash.to_le_bytes());
        put_bytes(&mut self.piece, host.as_bytes());
        self.piece.push(*flags);
        put(&mut self.piece, self.count);
        self.piece.append(&mut self.urls);
        self.count = 0;
        // What goes on in the next piece does not void what stands in this one.
        *flags = 0;
    }

    fn close_piece(&mut self) -> Result<(), Error> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let Pieces { out, index } = &mut *self.into;
        index.push((self.piece_first, out.len() as u64));
        put_frame(out, &self.piece)?;
        self.piece.clear();
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
    /// As of a stage; not known of one that an earlier process wrote.
    pub is_urgent: bool,
}

/// Writes a stage as the bytes of a run that will stand at `offset` of its file.
pub fn run_of(stage: &Stage, upto: u64, offset: u64) -> Result<(Vec<u8>, Run), Error> {
    let mut pieces = Pieces::default();
    let mut builder = RunBuilder::new(&mut pieces);
    stage.write(&mut builder)?;
    builder.finish()?;
    let Pieces { out, mut index } = pieces;
    let mut bytes = Vec::with_capacity(out.len() + 64 + 16 * index.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&upto.to_le_bytes());
    bytes.extend_from_slice(&(index.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(out.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    for (first, start) in &index {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
    }
    bytes.extend_from_slice(&crc32fast::hash(&bytes[HEAD_BYTES..]).to_le_bytes());
    let pieces_at = offset + bytes.len() as u64;
    index.iter_mut().for_each(|(_, start)| *start += pieces_at);
    bytes.extend_from_slice(&out);
    let end = offset + bytes.len() as u64;
    Ok((bytes, Run { upto, index, end, is_urgent: stage.is_urgent }))
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
    Ok(Next::Whole(Run { upto, index, end, is_urgent: true }))
}

/// What came in for one server, from one run or more, in their order.
#[derive(Debug, Default)]
pub struct Incoming {
    texts: Vec<u8>,
    items: Vec<IncomingItem>,
    events: Vec<Event>,
    /// What the block has of the server is void.
    pub forgotten: bool,
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct IncomingItem {
    head: u64,
    start: u32,
    len: u32,
    depth: u16,
    visit_first: bool,
    first_event: u32,
    events: u32,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    pub path: &'a [u8],
    pub depth: u16,
    pub visit_first: bool,
    pub events: &'a [Event],
}

impl Incoming {
    pub fn clear(&mut self) {
        self.texts.clear();
        self.items.clear();
        self.events.clear();
        self.forgotten = false;
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn get(&self, at: usize) -> Came<'_> {
        let item = &self.items[at];
        Came {
            path: &self.texts[item.start as usize..(item.start + item.len) as usize],
            depth: item.depth,
            visit_first: item.visit_first,
            events: &self.events[item.first_event as usize..(item.first_event + item.events) as usize],
        }
    }

    /// Puts them in the order of their paths; those of one path stay in the order in which they came.
    pub fn sort(&mut self) {
        let texts = &self.texts;
        let path = |item: &IncomingItem| &texts[item.start as usize..(item.start + item.len) as usize];
        self.items.sort_by(|a, b| a.head.cmp(&b.head).then_with(|| path(a).cmp(path(b))));
    }

    /// What came before, and what the block has, is void.
    pub fn forget(&mut self) {
        self.clear();
        self.forgotten = true;
    }

    /// Adds a URL with what happened to it, as [`Event::read`] reads it.
    pub fn push(
        &mut self,
        path: &[u8],
        depth: u16,
        visit_first: bool,
        events: &[&[u8]],
    ) -> Result<(), Misfit> {
        let first_event = self.events.len() as u32;
        for event in events {
            let mut bytes = Bytes::of(event);
            let kind = bytes.byte()?;
            self.events.push(Event::read(&mut bytes, kind)?);
        }
        self.add(path, depth, visit_first, first_event);
        Ok(())
    }

    fn add(&mut self, path: &[u8], depth: u16, visit_first: bool, first_event: u32) {
        let (head, start, len) = (super::stage::head_of(path), self.texts.len() as u32, path.len() as u32);
        self.texts.extend_from_slice(path);
        let events = self.events.len() as u32 - first_event;
        self.items.push(IncomingItem { head, start, len, depth, visit_first, first_event, events });
    }

    /// Reads the URLs of a server off a piece.
    fn read(&mut self, flags: u8, count: u64, bytes: &mut Bytes<'_>) -> Result<(), Misfit> {
        if flags & FORGOTTEN != 0 {
            self.forget();
        }
        self.head.clear();
        for _ in 0..count {
            let shared: usize = bytes.small()?;
            let own = bytes.bytes()?;
            if shared > self.head.len() {
                return Err("a path that shares more than there is");
            }
            self.head.truncate(shared);
            self.head.extend_from_slice(own);
            let flags = bytes.byte()?;
            let depth = if flags & HAS_DEPTH != 0 { bytes.small()? } else { u16::MAX };
            let first_event = self.events.len() as u32;
            let mut more = flags & HAS_EVENTS != 0;
            while more {
                match bytes.byte()? {
                    0 => more = false,
                    kind => self.events.push(Event::read(bytes, kind)?),
                }
            }
            let head = std::mem::take(&mut self.head);
            self.add(&head, depth, flags & VISIT_FIRST != 0, first_event);
            self.head = head;
        }
        Ok(())
    }
}

/// Reads what came in, server by server: a run of a file, or a stage.
pub enum RunReader {
    File(FileReader),
    Stage(StageReader),
}

impl RunReader {
    pub fn file(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<RunReader, Error> {
        FileReader::open(disk, file, offsets).map(RunReader::File)
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

/// Reads a run of a file.
pub struct FileReader {
    frames: Frames,
    offsets: std::vec::IntoIter<u64>,
    /// Offset of the open piece, for messages.
    offset: u64,
    piece: Vec<u8>,
    at: usize,
    /// The server whose URLs come next.
    next: Option<Heading>,
}

#[derive(Clone, Debug)]
struct Heading {
    hash: u64,
    host: String,
    flags: u8,
    count: u64,
}

impl FileReader {
    fn open(disk: Arc<dyn Disk>, file: &str, offsets: Vec<u64>) -> Result<FileReader, Error> {
        let (frames, offsets) = (Frames::new(disk, file, 64 << 10), offsets.into_iter());
        let mut reader = FileReader { frames, offsets, offset: 0, piece: Vec::new(), at: 0, next: None };
        reader.advance()?;
        Ok(reader)
    }

    fn damaged(&self, what: &str) -> Error {
        self.frames.damaged(self.offset, what)
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.next = None;
        while self.at >= self.piece.len() {
            self.at = 0;
            let Some(offset) = self.offsets.next() else { return Ok(()) };
            self.offset = offset;
            self.frames.read(offset, &mut self.piece)?;
        }
        let mut bytes = Bytes::of(&self.piece[self.at..]);
        let mut heading = || -> Result<Heading, Misfit> {
            let hash = u64::from_le_bytes(bytes.fixed()?);
            let host = bytes.text()?.to_string();
            Ok(Heading { hash, host, flags: bytes.byte()?, count: bytes.number()? })
        };
        self.next = Some(heading().map_err(|what| self.damaged(what))?);
        self.at = self.piece.len() - bytes.len();
        Ok(())
    }

    fn read_server(&mut self, into: &mut Incoming) -> Result<(), Error> {
        let Some(first) = self.next.clone() else { return Ok(()) };
        while let Some(next) = self.next.take() {
            if (next.hash, &next.host) != (first.hash, &first.host) {
                self.next = Some(next);
                break;
            }
            let mut bytes = Bytes::of(&self.piece[self.at..]);
            let read = into.read(next.flags, next.count, &mut bytes);
            let at = self.piece.len() - bytes.len();
            read.map_err(|what| self.damaged(what))?;
            self.at = at;
            self.advance()?;
        }
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
            let (host, hash) = if number % 3 == 0 { ("http://small", 9) } else { ("http://large", 4) };
            stage.found(
                hash,
                host,
                &format!("/{}/{number}", "x".repeat(number % 60)),
                (number % 7) as u16,
                None,
            );
        }
        stage.found(4, "http://large", "/a", 1, Some(Timestamp::from_secs(5)));
        let (bytes, run) = run_of(&stage, 77, 0).unwrap();
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        mem.append("p", &bytes).unwrap();
        mem.append("p", &bytes[..bytes.len() - 1]).unwrap();
        let PendingFile { runs, torn, damaged } = runs_of(&mem, "p").unwrap();
        assert_eq!((runs.len(), runs[0].upto, runs[0].end), (1, 77, run.end));
        assert_eq!((torn, damaged), (Some(run.end), None));
        assert!(runs[0].index.len() > 1, "{} pieces", runs[0].index.len());
        let offsets = runs[0].index.iter().map(|(_, offset)| *offset).collect();
        for mut reader in
            [RunReader::file(mem.clone(), "p", offsets).unwrap(), RunReader::stage(Arc::new(stage))]
        {
            let mut seen = 0;
            for (hash, host) in [(4, "http://large"), (9, "http://small")] {
                assert_eq!(reader.peek(), Some((hash, host)));
                let mut incoming = Incoming::default();
                reader.read_server(&mut incoming).unwrap();
                incoming.sort();
                let paths: Vec<&[u8]> = (0..incoming.len()).map(|at| incoming.get(at).path).collect();
                assert!(paths.windows(2).all(|pair| pair[0] < pair[1]));
                seen += incoming.len();
                if hash == 4 {
                    let at = paths.iter().position(|path| *path == b"/a").unwrap();
                    assert_eq!(incoming.get(at).events, [Event::Hint(Timestamp::from_secs(5))]);
                }
            }
            assert_eq!((seen, reader.peek()), (20_001, None));
        }
    }
}
