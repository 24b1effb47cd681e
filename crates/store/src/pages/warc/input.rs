//! Takes the compression off a WARC file, whatever it is, and finds its way again after damage.
//!
//! INVARIANT: the raw input is only ever read forward, so all work is linear in what is read and
//! decompressed.

use crate::pages::gzip::{Gunzip, Step, Trouble};
use std::io::{self, BufRead, Read};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// How much is decompressed at a time.
const PIECE_BYTES: usize = 32 << 10;
/// How much raw input is looked at to tell the compression, and to find a member after damage.
const PEEK_BYTES: usize = 8;
/// Largest window of a zstd frame: 2^27 = 128 MiB of memory, what zstd itself allows by default.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Largest dictionary of a `.warc.zst` file, packed or not.
const DICTIONARY_BYTES_MAX: usize = 8 << 20;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A skippable zstd frame that holds the dictionary of the frames after it (IIPC's `.warc.zst` proposal).
const DICTIONARY_MAGIC: &[u8] = &[0x5d, 0x2a, 0x4d, 0x18];

/// Why the decompressed bytes end here.
#[derive(Debug)]
pub(super) enum Break {
    Io(io::Error),
    /// Until [`Input::skip_damage`].
    Damaged(&'static str),
}

/// A file, decompressed.
pub(super) struct Input<R> {
    raw: Raw<R>,
    packing: Packing,
    buffer: Vec<u8>,
    used: usize,
    offset: u64,
}

enum Packing {
    Unknown,
    Plain,
    Gzip(Box<Gunzip>),
    Zstd { decoder: Box<Decoder<'static>>, inside: bool },
}

impl<R: BufRead> Input<R> {
    pub fn new(raw: R) -> Input<R> {
        let raw = Raw { inner: raw, ahead: Vec::new(), used: 0 };
        Input { raw, packing: Packing::Unknown, buffer: Vec::new(), used: 0, offset: 0 }
    }

    /// Decompressed bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What was decompressed and not consumed yet.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.buffer.len() - self.used);
        self.used += count;
        self.offset += count as u64;
    }

    /// Makes sure that something is in the buffer, unless the file has ended.
    pub fn fill(&mut self) -> Result<(), Break> {
        while self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
            if !self.more()? {
                break;
            }
        }
        Ok(())
    }

    /// Whether these bytes come next.
    pub fn starts_with(&mut self, text: &[u8]) -> Result<bool, Break> {
        self.fill()?;
        while self.buffer().len() < text.len() {
            if !text.starts_with(self.buffer()) || !self.more()? {
                return Ok(false);
            }
        }
        Ok(self.buffer().starts_with(text))
    }

    /// Where everything so far was consumed in the middle of a compressed part: reads on, to its end if that
    /// is next, so that its checksum is compared.
    pub fn settle(&mut self) -> Result<(), Break> {
        while self.buffer().is_empty() && self.is_inside() {
            self.more()?;
        }
        Ok(())
    }

    fn is_inside(&self) -> bool {
        match &self.packing {
            Packing::Unknown | Packing::Plain => false,
            Packing::Gzip(gunzip) => gunzip.is_inside(),
            Packing::Zstd { inside, .. } => *inside,
        }
    }

    /// Drops what is in the buffer and goes to where a compressed part seems to begin; false where there is
    /// none.
    pub fn skip_damage(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        self.used = 0;
        let magic = match &mut self.packing {
            Packing::Unknown | Packing::Plain => return Ok(false),
            Packing::Gzip(gunzip) => {
                gunzip.reset();
                GZIP_MAGIC
            }
            Packing::Zstd { decoder, inside } => {
                decoder.reinit()?;
                *inside = false;
                ZSTD_MAGIC
            }
        };
        loop {
            let ahead = self.raw.peek()?;
            if ahead.is_empty() {
                return Ok(false);
            }
            if ahead.starts_with(magic) {
                return Ok(true);
            }
            // Up to the next byte that could begin it.
            let next = memchr::memchr(magic[0], &ahead[1..]).map_or(ahead.len(), |at| at + 1);
            self.raw.consume(next);
        }
    }

    /// Adds something to the buffer, or answers false at the end.
    fn more(&mut self) -> Result<bool, Break> {
        match &mut self.packing {
            Packing::Unknown => {
                self.packing = sniff(&mut self.raw)?;
                Ok(true)
            }
            Packing::Plain => {
                let piece = self.raw.fill_buf().map_err(Break::Io)?;
                let count = piece.len().min(PIECE_BYTES);
                self.buffer.extend_from_slice(&piece[..count]);
                self.raw.consume(count);
                Ok(count > 0)
            }
            Packing::Gzip(gunzip) => {
                if !gunzip.is_inside() && self.raw.peek().map_err(Break::Io)?.is_empty() {
                    return Ok(false);
                }
                let before = self.buffer.len();
                match gunzip.read(&mut self.raw, &mut self.buffer, PIECE_BYTES) {
                    Ok(Step::Inside | Step::MemberEnd) => Ok(true),
                    Err(trouble) => {
                        // What came out last cannot be trusted.
                        self.buffer.truncate(before);
                        Err(match trouble {
                            Trouble::Io(error) => Break::Io(error),
                            Trouble::Short => Break::Damaged("it ends in the middle of a gzip member"),
                            Trouble::Bad(what) => Break::Damaged(what),
                        })
                    }
                }
            }
            Packing::Zstd { decoder, inside } => unzstd(&mut self.raw, decoder, inside, &mut self.buffer),
        }
    }
}

/// Tells the compression from the first bytes.
fn sniff(raw: &mut Raw<impl BufRead>) -> Result<Packing, Break> {
    let ahead = raw.peek().map_err(Break::Io)?;
    if ahead.starts_with(GZIP_MAGIC) {
        return Ok(Packing::Gzip(Box::new(Gunzip::new())));
    }
    let dictionary = if ahead.starts_with(DICTIONARY_MAGIC) { dictionary(raw)? } else { Vec::new() };
    if !dictionary.is_empty() || raw.peek().map_err(Break::Io)?.starts_with(ZSTD_MAGIC) {
        let mut decoder = Decoder::with_dictionary(&dictionary).map_err(Break::Io)?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(Break::Io)?;
        return Ok(Packing::Zstd { decoder: Box::new(decoder), inside: false });
    }
    Ok(Packing::Plain)
}

/// Reads the dictionary that stands before the frames, itself packed or not.
fn dictionary(raw: &mut Raw<impl BufRead>) -> Result<Vec<u8>, Break> {
    const BAD: Break = Break::Damaged("its zstd dictionary cannot be read");
    let mut head = [0; 8];
    raw.read_exact(&mut head).map_err(|_| BAD)?;
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if len > DICTIONARY_BYTES_MAX {
        return Err(BAD);
    }
    let mut frame = Vec::new();
    raw.take(len as u64).read_to_end(&mut frame).map_err(Break::Io)?;
    if !frame.starts_with(ZSTD_MAGIC) {
        return Ok(frame);
    }
    let mut dictionary = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(&frame[..]).map_err(|_| BAD)?;
    decoder.take(DICTIONARY_BYTES_MAX as u64).read_to_end(&mut dictionary).map_err(|_| BAD)?;
    Ok(dictionary)
}

fn unzstd(
    raw: &mut Raw<impl BufRead>,
    decoder: &mut Decoder<'static>,
    inside: &mut bool,
    buffer: &mut Vec<u8>,
) -> Result<bool, Break> {
    let ahead = raw.fill_buf().map_err(Break::Io)?;
    if ahead.is_empty() {
        return if *inside {
            Err(Break::Damaged("it ends in the middle of a zstd frame"))
        } else {
            Ok(false)
        };
    }
    let before = buffer.len();
    buffer.resize(before + PIECE_BYTES, 0);
    let mut input = InBuffer::around(ahead);
    let mut output = OutBuffer::around(&mut buffer[before..]);
    let result = decoder.run(&mut input, &mut output);
    let (read, written) = (input.pos(), output.pos());
    raw.consume(read);
    match result {
        Ok(hint) if hint == 0 || read > 0 || written > 0 => {
            buffer.truncate(before + written);
            *inside = hint != 0;
            Ok(true)
        }
        _ => {
            buffer.truncate(before);
            // At least one byte further, so that the search for the next frame moves on.
            raw.consume(usize::from(read == 0));
            Err(Break::Damaged("a zstd frame is damaged"))
        }
    }
}

/// The file itself, with a few bytes of foresight.
struct Raw<R> {
    inner: R,
    /// Bytes that were taken from `inner` to look at.
    ahead: Vec<u8>,
    used: usize,
}

impl<R: BufRead> Raw<R> {
    /// What comes next: at least [`PEEK_BYTES`], unless the file ends before.
    fn peek(&mut self) -> io::Result<&[u8]> {
        if self.used == self.ahead.len() && self.inner.fill_buf()?.len() >= PEEK_BYTES {
            return self.inner.fill_buf();
        }
        self.ahead.drain(..self.used);
        self.used = 0;
        while self.ahead.len() < PEEK_BYTES {
            let piece = self.inner.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            let count = piece.len().min(PEEK_BYTES - self.ahead.len());
            self.ahead.extend_from_slice(&piece[..count]);
            self.inner.consume(count);
        }
        Ok(&self.ahead)
    }
}

impl<R: BufRead> BufRead for Raw<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used < self.ahead.len() { Ok(&self.ahead[self.used..]) } else { self.inner.fill_buf() }
    }

    fn consume(&mut self, count: usize) {
        if self.used < self.ahead.len() {
            self.used = (self.used + count).min(self.ahead.len());
        } else {
            self.inner.consume(count);
        }
    }
}

impl<R: BufRead> Read for Raw<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let count = piece.len().min(into.len());
        into[..count].copy_from_slice(&piece[..count]);
        self.consume(count);
        Ok(count)
    }
}
