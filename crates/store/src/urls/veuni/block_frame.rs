//! Compressed blocks of a file, each with its lengths and checksum.
//!
//! ```text
//! u32 raw length | u32 stored length | u32 crc of what is stored | stored bytes (zstd frames, one after the other)
//! ```
//! Bytes of different kinds are compressed apart: each frame has the code that suits its bytes, and names do
//! not pay for fingerprints beside them. Together they are a tenth smaller.
//!
//! A block whose checksum does not fit is named with its file and offset; nothing else of the file suffers.

use crate::Error;
use farol_base::disk::Disk;
use std::cell::RefCell;
use std::sync::Arc;
use zstd::zstd_safe::CParameter;

/// Bytes before what is stored.
pub const HEAD_BYTES: usize = 12;
/// Largest block that is believed when reading. Writers stop at a fraction of it.
pub const RAW_BYTES_MAX: usize = 16 << 20;
/// zstd's level: fast, and within a tenth of the next level's size on front-coded paths. Faster ones save
/// nothing here, for what they leave larger is written, read and decompressed.
const LEVEL: i32 = 1;
/// Shortest repetition that is looked for. Words of paths are short: with zstd's own choice of 6 for blocks
/// of this size paths are a twentieth larger, and done but a fortieth sooner.
const MATCH_BYTES: u32 = 5;

thread_local! {
    /// Contexts are worth keeping: making one costs more than a block.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends a block: all parts, one after the other. Each is compressed for itself.
pub fn write_block(out: &mut Vec<u8>, parts: &[&[u8]]) -> Result<(), Error> {
    let raw_bytes: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(raw_bytes <= RAW_BYTES_MAX);
    let head_at = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    for part in parts.iter().filter(|part| !part.is_empty()) {
        compress(out, part).map_err(Error::io("compress", "a block of the URL store"))?;
    }
    let stored = &out[head_at + HEAD_BYTES..];
    let head = [raw_bytes as u32, stored.len() as u32, crc32fast::hash(stored)].map(u32::to_le_bytes);
    out[head_at..head_at + HEAD_BYTES].copy_from_slice(head.as_flattened());
    Ok(())
}

/// Appends a part, compressed.
fn compress(out: &mut Vec<u8>, part: &[u8]) -> std::io::Result<()> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        scratch.reserve(zstd::zstd_safe::compress_bound(part.len()));
        COMPRESSOR.with_borrow_mut(|context| {
            if context.is_none() {
                let mut new = zstd::bulk::Compressor::new(LEVEL)?;
                new.set_parameter(CParameter::MinMatch(MATCH_BYTES))?;
                *context = Some(new);
            }
            let context = context.as_mut().ok_or_else(|| std::io::Error::other("no compressor"))?;
            context.compress_to_buffer(part, scratch)
        })?;
        out.extend_from_slice(scratch);
        Ok(())
    })
}

/// Lengths of a block: raw, stored.
pub fn lengths(head: &[u8; HEAD_BYTES]) -> (usize, usize) {
    let number =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    (number(0), number(4))
}

/// Reads blocks of one file, one after the other or here and there, through a buffer.
#[derive(Debug)]
pub struct FrameReader {
    disk: Arc<dyn Disk>,
    pub file: String,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    start: u64,
    ahead: usize,
}

impl FrameReader {
    /// `ahead` bytes are read at a time.
    pub fn new(disk: Arc<dyn Disk>, file: &str, ahead: usize) -> FrameReader {
        FrameReader { disk, file: file.to_string(), buffer: Vec::new(), start: 0, ahead }
    }

    pub fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::Damaged { file: self.file.clone(), offset, what: what.to_string() }
    }

    /// Bytes of the file, from the buffer where they are there.
    fn bytes(&mut self, offset: u64, count: usize) -> Result<&[u8], Error> {
        let end = offset + count as u64;
        if offset < self.start || end > self.start + self.buffer.len() as u64 {
            self.buffer.resize(count.max(self.ahead), 0);
            let read = self.disk.read_at(&self.file, offset, &mut self.buffer);
            let read = read.map_err(Error::io("read", &self.file))?;
            self.buffer.truncate(read);
            self.start = offset;
            if read < count {
                return Err(self.damaged(offset + read as u64, "the file ends too early"));
            }
        }
        let at = (offset - self.start) as usize;
        Ok(&self.buffer[at..at + count])
    }

    /// Reads the block at an offset into `raw`, and says where the next one is.
    pub fn read(&mut self, offset: u64, raw: &mut Vec<u8>) -> Result<u64, Error> {
        let head: [u8; HEAD_BYTES] =
            self.bytes(offset, HEAD_BYTES)?.try_into().map_err(|_| self.damaged(offset, "a short head"))?;
        let (raw_bytes, stored_bytes) = lengths(&head);
        if raw_bytes > RAW_BYTES_MAX || stored_bytes > zstd::zstd_safe::compress_bound(RAW_BYTES_MAX) {
            return Err(self.damaged(offset, "a length that no block has"));
        }
        let stored = self.bytes(offset + HEAD_BYTES as u64, stored_bytes)?;
        if crc32fast::hash(stored).to_le_bytes() != head[8..] {
            return Err(self.damaged(offset, "its checksum does not fit"));
        }
        raw.resize(raw_bytes, 0);
        let decompressed = DECOMPRESSOR.with_borrow_mut(|context| {
            if context.is_none() {
                *context = Some(zstd::bulk::Decompressor::new()?);
            }
            let context = context.as_mut().ok_or_else(|| std::io::Error::other("no decompressor"))?;
            context.decompress_to_buffer(stored, &mut raw[..])
        });
        match decompressed {
            Ok(count) if count == raw_bytes => Ok(offset + (HEAD_BYTES + stored_bytes) as u64),
            _ => Err(self.damaged(offset, "it cannot be decompressed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;

    #[test]
    fn a_flipped_bit_is_named() {
        let mem = Mem::new();
        let (mut out, first) = (Vec::new(), b"some bytes ".repeat(9));
        write_block(&mut out, &[&first[..9], &[], &first[9..]]).unwrap();
        let second = out.len() as u64;
        write_block(&mut out, &[]).unwrap();
        mem.append("good", &out).unwrap();
        let mut raw = Vec::new();
        let mut frame_reader = FrameReader::new(Arc::new(mem.clone()), "good", 16);
        assert_eq!((frame_reader.read(0, &mut raw).unwrap(), &raw), (second, &first));
        assert_eq!((frame_reader.read(second, &mut raw).unwrap(), raw.len()), (out.len() as u64, 0));
        for bit in 0..8 * second as usize {
            let mut bad = out.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let name = format!("bad{bit}");
            mem.append(&name, &bad).unwrap();
            let mut frame_reader = FrameReader::new(Arc::new(mem.clone()), &name, 16);
            let error = frame_reader.read(0, &mut raw).unwrap_err().to_string();
            assert!(error.contains(&format!("{name} is damaged at byte")), "{error}");
        }
    }
}
