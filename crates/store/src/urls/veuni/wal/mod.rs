//! What came in, in the order in which it came: one batch per flush, so that nothing is lost with the process.
//!
//! Files `log-<first batch>`, drawn in `docs/formats/urls.md`. A batch that a crash cut is cut off at opening. A file
//! goes once everything in it stands in buckets or level-0 runs.

use crate::urls::Visit;
use crate::urls::veuni::codec::{put_visit, visit_of};
use crate::{Cut, Error};
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_varint};
use farol_base::disk::Disk;
use farol_base::{CanonicalUrl, PagePosition, Timestamp};
use std::ops::Range;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FAROLLOG";
const VERSION: u32 = 2;
/// Magic, version, first batch, watermark (file, offset), checksum of these.
const HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 8 + 4;
/// Length and checksum of the rest, number.
const BATCH_HEAD_BYTES: usize = 4 + 4 + 8;
/// Largest batch that is believed when reading.
const BATCH_BYTES_MAX: u64 = 1 << 30;

const HOST: u8 = 1;
const FOUND: u8 = 2;
const HINT: u8 = 3;
const VISIT: u8 = 4;
const TOMBSTONE: u8 = 5;
const MARK: u8 = 6;
const URL: u8 = 7;

/// Something that came in, for the host named last.
#[derive(Clone, Debug, PartialEq)]
pub enum WalOp<'a> {
    Host(&'a str),
    Found { path: &'a str, depth: u16 },
    Hint { path: &'a str, depth: u16, at: Timestamp },
    Visit { path: &'a str, visit: Visit },
    DeleteHost,
    Mark(PagePosition),
}

/// The batch that is being gathered.
#[derive(Debug)]
pub struct WriteBatch {
    /// Room for the head, then what came in.
    bytes: Vec<u8>,
    /// Where the host that was named last stands in it; at the beginning none was.
    host: Range<usize>,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch { bytes: vec![0; BATCH_HEAD_BYTES], host: 0..0 }
    }
}

impl WriteBatch {
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == BATCH_HEAD_BYTES
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    fn clear(&mut self) {
        self.bytes.truncate(BATCH_HEAD_BYTES);
        self.host = 0..0;
    }

    fn host(&mut self, host: &str) {
        if !self.is_host(host) {
            self.bytes.push(HOST);
            put_bytes(&mut self.bytes, host.as_bytes());
            self.host = self.bytes.len() - host.len()..self.bytes.len();
        }
    }

    pub fn found(&mut self, url: &CanonicalUrl, depth: u16, hint: Option<Timestamp>) {
        let host = url.host_str();
        if let Some(hint) = hint {
            self.host(host);
            self.path(HINT, url);
            put_varint(&mut self.bytes, u64::from(depth));
            return put_varint(&mut self.bytes, hint.as_millis());
        }
        if self.is_host(host) {
            self.path(FOUND, url);
        } else {
            self.bytes.push(URL);
            put_varint(&mut self.bytes, host.len() as u64);
            put_bytes(&mut self.bytes, url.as_str().as_bytes());
            let start = self.bytes.len() - url.as_str().len();
            self.host = start..start + host.len();
        }
        put_varint(&mut self.bytes, u64::from(depth));
    }

    fn path(&mut self, what: u8, url: &CanonicalUrl) {
        self.bytes.push(what);
        put_bytes(&mut self.bytes, url.path_and_query().as_bytes());
    }

    /// Whether this host was named last.
    fn is_host(&self, host: &str) -> bool {
        self.bytes[self.host.clone()] == *host.as_bytes()
    }

    pub fn visited(&mut self, host: &str, path: &str, visit: &Visit) {
        self.host(host);
        self.bytes.push(VISIT);
        put_bytes(&mut self.bytes, path.as_bytes());
        put_visit(&mut self.bytes, visit);
    }

    pub fn delete_host(&mut self, host: &str) {
        self.host(host);
        self.bytes.push(TOMBSTONE);
    }

    pub fn mark(&mut self, upto: PagePosition) {
        self.bytes.push(MARK);
        put_varint(&mut self.bytes, u64::from(upto.file));
        put_varint(&mut self.bytes, upto.offset);
    }
}

/// Reads what came in, and hands it to `take`.
fn read_ops(
    bytes: &[u8],
    take: &mut dyn FnMut(WalOp<'_>) -> Result<(), Error>,
) -> Result<Result<(), Error>, DecodeError> {
    let mut bytes = Decoder::of(bytes);
    while !bytes.is_empty() {
        let op = match bytes.byte()? {
            HOST => WalOp::Host(bytes.text()?),
            FOUND => WalOp::Found { path: bytes.text()?, depth: bytes.varint_as()? },
            URL => {
                let (host, url) = (bytes.varint_as()?, bytes.text()?);
                let (host, path) = url.split_at_checked(host).ok_or("a host longer than its URL")?;
                if let Err(error) = take(WalOp::Host(host)) {
                    return Ok(Err(error));
                }
                WalOp::Found { path, depth: bytes.varint_as()? }
            }
            HINT => {
                let (path, depth) = (bytes.text()?, bytes.varint_as()?);
                WalOp::Hint { path, depth, at: Timestamp::from_millis(bytes.varint()?) }
            }
            VISIT => WalOp::Visit { path: bytes.text()?, visit: visit_of(&mut bytes)? },
            TOMBSTONE => WalOp::DeleteHost,
            MARK => WalOp::Mark(PagePosition { file: bytes.varint_as()?, offset: bytes.varint()? }),
            _ => return Err("an unknown operation"),
        };
        if let Err(error) = take(op) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// A file of the log.
#[derive(Debug)]
struct WalSegment {
    file: String,
    first: u64,
    len: u64,
}

/// The log.
#[derive(Debug)]
pub struct Wal {
    disk: Arc<dyn Disk>,
    segments: Vec<WalSegment>,
    /// Number of the next batch.
    pub next_seqno: u64,
    pub watermark: PagePosition,
    /// Mark of the batch that is being gathered.
    pub marked: Option<PagePosition>,
    pub batch: WriteBatch,
    /// A write failed and could not be undone.
    poisoned: bool,
}

fn segment_name(first: u64) -> String {
    format!("log-{first:012}")
}

impl Wal {
    /// Opens the log, hands everything in it to `take` (with the number of its batch), and cuts off a torn tail.
    pub fn open(
        disk: Arc<dyn Disk>,
        take: &mut dyn FnMut(u64, WalOp<'_>) -> Result<(), Error>,
    ) -> Result<(Wal, Option<Cut>), Error> {
        let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
        let mut wal = Wal {
            disk,
            segments: Vec::new(),
            next_seqno: 1,
            watermark: PagePosition::default(),
            marked: None,
            batch: WriteBatch::default(),
            poisoned: false,
        };
        let segment_files: Vec<&String> = names.iter().filter(|name| name.starts_with("log-")).collect();
        let mut cut = None;
        for (at, file) in segment_files.iter().enumerate() {
            cut = wal.read(file, at + 1 == segment_files.len(), take)?;
        }
        Ok((wal, cut))
    }

    fn read(
        &mut self,
        file: &str,
        last: bool,
        take: &mut dyn FnMut(u64, WalOp<'_>) -> Result<(), Error>,
    ) -> Result<Option<Cut>, Error> {
        let len = self.disk.len(file).map_err(Error::io("look at", file))?.unwrap_or(0);
        let damaged = |offset: u64, what: &str| Error::Damaged {
            file: file.to_string(),
            offset,
            what: what.to_string(),
        };
        let (mut good, mut head) = (0, [0; HEADER_BYTES]);
        let read = self.disk.read_at(file, 0, &mut head).map_err(Error::io("read", file))?;
        if read == HEADER_BYTES {
            let (first, watermark) = read_header(file, &head)?;
            self.next_seqno = self.next_seqno.max(first);
            self.watermark = self.watermark.max(watermark);
            good = HEADER_BYTES as u64;
            self.segments.push(WalSegment { file: file.to_string(), first, len: good });
        } else if !last {
            return Err(damaged(read as u64, "the file ends too early"));
        }
        let mut body = Vec::new();
        while good > 0 && good < len {
            let mut head = [0; BATCH_HEAD_BYTES];
            let read = self.disk.read_at(file, good, &mut head).map_err(Error::io("read", file))?;
            let size = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
            let whole =
                read == BATCH_HEAD_BYTES && (8..=BATCH_BYTES_MAX).contains(&size) && good + 8 + size <= len;
            if whole {
                body.resize(size as usize, 0);
                self.disk.read_at(file, good + 8, &mut body).map_err(Error::io("read", file))?;
            }
            if !whole || crc32fast::hash(&body).to_le_bytes() != head[4..8] {
                if !last {
                    return Err(damaged(good, "a batch that is not whole"));
                }
                break;
            }
            let (number, ops) = body.split_at(8);
            let number = u64::from_le_bytes(std::array::from_fn(|i| number[i]));
            let mut mark = None;
            read_ops(ops, &mut |op| {
                if let WalOp::Mark(upto) = op {
                    mark = Some(upto);
                    return Ok(());
                }
                take(number, op)
            })
            .map_err(|what| damaged(good, what))??;
            self.watermark = mark.unwrap_or(self.watermark);
            self.next_seqno = self.next_seqno.max(number + 1);
            good += 8 + size;
            if let Some(segment) = self.segments.last_mut() {
                segment.len = good;
            }
        }
        if good == len {
            return Ok(None);
        }
        self.disk.truncate(file, good).map_err(Error::io("cut", file))?;
        if good == 0 {
            self.disk.remove(file).map_err(Error::io("remove", file))?;
        }
        Ok(Some(Cut { file: file.to_string(), offset: good, bytes: len - good }))
    }

    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// Bytes of the file that is being written.
    pub fn last_bytes(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.len)
    }

    pub fn check_usable(&self) -> Result<(), Error> {
        if self.poisoned { Err(Error::Poisoned { store: "the URL store" }) } else { Ok(()) }
    }

    /// Writes the batch, and says its number; nothing where it is empty.
    pub fn write(&mut self) -> Result<Option<u64>, Error> {
        self.check_usable()?;
        if let Some(upto) = self.marked.filter(|upto| *upto != self.watermark) {
            let len = self.batch.bytes.len();
            self.batch.mark(upto);
            let written = self.write_batch();
            if written.is_err() {
                self.batch.bytes.truncate(len);
            }
            return written;
        }
        if self.batch.is_empty() {
            return Ok(None);
        }
        self.write_batch()
    }

    fn write_batch(&mut self) -> Result<Option<u64>, Error> {
        let number = self.next_seqno;
        if self.segments.is_empty() {
            self.begin_segment();
        }
        let Some(segment) = self.segments.last_mut() else { return Ok(None) };
        let bytes = &mut self.batch.bytes;
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        let (size, crc) = ((bytes.len() - 8) as u32, crc32fast::hash(&bytes[8..]));
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        let result = if segment.len == 0 {
            let mut first = header(segment.first, self.watermark);
            first.extend_from_slice(bytes);
            self.disk.append(&segment.file, &first).map(|()| first.len() as u64)
        } else {
            self.disk.append(&segment.file, bytes).map(|()| bytes.len() as u64)
        };
        match result {
            Ok(count) => segment.len += count,
            Err(source) => {
                // Cut off what may have arrived. Where there is no file yet, there is nothing to cut.
                let cut = match self.disk.len(&segment.file) {
                    Ok(None) => Ok(()),
                    _ => self.disk.truncate(&segment.file, segment.len),
                };
                self.poisoned = cut.is_err();
                return Err(Error::io("append to", &segment.file)(source));
            }
        }
        self.watermark = self.marked.take().unwrap_or(self.watermark);
        self.next_seqno += 1;
        self.batch.clear();
        Ok(Some(number))
    }

    fn begin_segment(&mut self) {
        self.segments.push(WalSegment {
            file: segment_name(self.next_seqno),
            first: self.next_seqno,
            len: 0,
        });
    }

    /// Begins a new file, so that older ones can go. Where that fails the old one is written on.
    pub fn roll(&mut self) {
        if self.last_bytes() <= HEADER_BYTES as u64 || self.poisoned || self.marked.is_some() {
            return;
        }
        self.begin_segment();
        if let Some(segment) = self.segments.last_mut() {
            let header = header(segment.first, self.watermark);
            match self.disk.append(&segment.file, &header) {
                Ok(()) => segment.len = HEADER_BYTES as u64,
                Err(_) => {
                    let _ = self.disk.remove(&segment.file);
                    self.segments.pop();
                }
            }
        }
    }

    /// Lets go of the files in which all batches are below this one; each with the file behind it, which carries the
    /// watermark on and must be safe before the other goes.
    pub fn drop_segments_below(&mut self, needed: u64) -> Vec<(String, String)> {
        let mut gone = Vec::new();
        while let [first, second, ..] = &self.segments[..]
            && second.first <= needed
            && second.len > 0
        {
            gone.push((first.file.clone(), second.file.clone()));
            self.segments.remove(0);
        }
        gone
    }

    pub fn sync(&self) -> Result<(), Error> {
        sync(&*self.disk, &self.segment_files())
    }

    /// The files that have something in them, and how much.
    pub fn segment_files(&self) -> Vec<(String, u64)> {
        let written = self.segments.iter().filter(|segment| segment.len > 0);
        written.map(|segment| (segment.file.clone(), segment.len)).collect()
    }
}

/// Returns when these files, up to these lengths, would survive a power cut; one that is no longer needed may be gone.
pub fn sync(disk: &dyn Disk, segment_files: &[(String, u64)]) -> Result<(), Error> {
    for (file, len) in segment_files {
        match disk.sync(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            result => {
                result.map_err(Error::io("sync", file))?;
                // Nobody reads it but after a crash. What comes in next may stand in the same memory, which the machine has at
                // hand; memory that it has not used for a while can take whoever writes several times as long.
                disk.drop_cache(file, *len);
            }
        }
    }
    Ok(())
}

fn header(first: u64, watermark: PagePosition) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&first.to_le_bytes());
    header.extend_from_slice(&watermark.file.to_le_bytes());
    header.extend_from_slice(&watermark.offset.to_le_bytes());
    header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
    header
}

fn read_header(file: &str, head: &[u8; HEADER_BYTES]) -> Result<(u64, PagePosition), Error> {
    if &head[..8] != MAGIC {
        return Err(Error::NotOurs { file: file.to_string() });
    }
    let version = u32::from_le_bytes(std::array::from_fn(|i| head[8 + i]));
    if version != VERSION {
        return Err(Error::Version { file: file.to_string(), found: version, known: VERSION });
    }
    if crc32fast::hash(&head[..HEADER_BYTES - 4]).to_le_bytes() != head[HEADER_BYTES - 4..] {
        return Err(Error::Damaged {
            file: file.to_string(),
            offset: 0,
            what: "its header does not fit".to_string(),
        });
    }
    let first = u64::from_le_bytes(std::array::from_fn(|i| head[12 + i]));
    let file_number = u32::from_le_bytes(std::array::from_fn(|i| head[20 + i]));
    let offset = u64::from_le_bytes(std::array::from_fn(|i| head[24 + i]));
    Ok((first, PagePosition { file: file_number, offset }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;

    fn open(disk: &Arc<Mem>) -> (Wal, Vec<String>) {
        let mut ops = Vec::new();
        let mut take = |seqno: u64, op: WalOp<'_>| {
            ops.push(format!("{seqno} {op:?}"));
            Ok(())
        };
        let (wal, cut) = Wal::open(disk.clone(), &mut take).unwrap();
        assert!(cut.is_none());
        (wal, ops)
    }

    #[test]
    fn batches_are_replayed_in_their_order_with_their_sequence_numbers() {
        let disk = Arc::new(Mem::new());
        let (mut wal, _) = open(&disk);
        for (url, depth) in [("http://g/b", 1), ("http://g/c", 9)] {
            wal.batch.found(&CanonicalUrl::parse(url).unwrap(), depth, None);
        }
        assert_eq!(wal.write().unwrap(), Some(1));
        wal.roll();
        wal.batch.delete_host("http://g");
        wal.marked = Some(PagePosition { file: 3, offset: 77 });
        assert_eq!(wal.write().unwrap(), Some(2));
        let (wal, ops) = open(&disk);
        let expected = [
            r#"1 Host("http://g")"#,
            r#"1 Found { path: "/b", depth: 1 }"#,
            r#"1 Found { path: "/c", depth: 9 }"#,
            r#"2 Host("http://g")"#,
            "2 DeleteHost",
        ];
        assert_eq!(ops, expected);
        assert_eq!((wal.watermark.offset, wal.next_seqno, wal.segment_files().len()), (77, 3, 2));
    }

    #[test]
    fn a_segment_of_another_version_is_refused_by_name() {
        let disk = Arc::new(Mem::new());
        let mut segment = header(5, PagePosition::default());
        segment[8..12].copy_from_slice(&1u32.to_le_bytes());
        let crc = crc32fast::hash(&segment[..HEADER_BYTES - 4]).to_le_bytes();
        segment[HEADER_BYTES - 4..].copy_from_slice(&crc);
        disk.append(&segment_name(5), &segment).unwrap();
        let error = Wal::open(disk, &mut |_, _| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Version { found: 1, known: VERSION, .. }), "{error}");
    }
}
