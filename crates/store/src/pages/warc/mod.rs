//! Other people's WARC files, read with patience.
//!
//! [`Records`] goes through any of them: versions 0.17 to 1.1; a gzip member per record, one gzip stream for
//! the whole file, zstd frames with or without a dictionary, or plain; from Common Crawl, Heritrix, wget,
//! warcio or a browser. What cannot be read is skipped with a [`Complaint`], and reading goes on at the next
//! record that can. [`http_response`] takes apart what a record holds, and [`to_exchange`] makes it one of
//! our own.
//!
//! PROMISE: no input panics or loops; time grows with the size of what is decompressed. A record takes 64 MiB
//! of memory at most, while its codings are undone three times as much.
//!
//! What becomes an exchange is compared with its digests first. Does not read ARC files.

mod digest;
mod headers;
mod http;
mod import;
mod input;

use bytes::Bytes;
use input::{Break, Input};
use std::io::{self, BufRead};

pub use headers::Headers;
pub use http::{HttpResponse, http_response, http_status};
pub use import::{to_archived, to_exchange};

/// Largest record that is read; larger ones are skipped with a complaint.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Longest header of a record.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Warcinfo,
    Response,
    Resource,
    Request,
    Metadata,
    Revisit,
    Conversion,
    Continuation,
    /// Anything that later standards may bring.
    Other,
}

impl Kind {
    fn parse(text: &str) -> Kind {
        const KINDS: [(&str, Kind); 8] = [
            ("warcinfo", Kind::Warcinfo),
            ("response", Kind::Response),
            ("resource", Kind::Resource),
            ("request", Kind::Request),
            ("metadata", Kind::Metadata),
            ("revisit", Kind::Revisit),
            ("conversion", Kind::Conversion),
            ("continuation", Kind::Continuation),
        ];
        let known = KINDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        known.map_or(Kind::Other, |(_, kind)| *kind)
    }
}

/// A record of a WARC file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarcRecord {
    pub kind: Kind,
    pub headers: Headers,
    pub block: Bytes,
}

impl WarcRecord {
    /// The URI that the record is about, without the angle brackets that some put around it.
    pub fn target_uri(&self) -> Option<&str> {
        let uri = self.headers.get("WARC-Target-URI")?;
        Some(uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>')).unwrap_or(uri))
    }
}

/// Why a part of a file was skipped. Offsets count decompressed bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Complaint {
    #[error("the file cannot be read any further: {0}")]
    Io(#[from] io::Error),
    #[error("no record begins at byte {offset}; skipped to the next one")]
    Garbage { offset: u64 },
    #[error("the header of the record at byte {offset} does not end; skipped")]
    EndlessHeader { offset: u64 },
    #[error("the record at byte {offset} does not tell its length; skipped")]
    NoLength { offset: u64 },
    #[error("the record at byte {offset} has {bytes} bytes, more than {RECORD_BYTES_MAX}; skipped")]
    TooLarge { offset: u64, bytes: u64 },
    #[error("the file ends in the middle of the record at byte {offset}")]
    CutShort { offset: u64 },
    #[error(
        "the compressed data is damaged after byte {offset} ({what}); skipped to the next part that is not"
    )]
    Damaged { offset: u64, what: &'static str },
    #[error("the digest of the {what} of {uri} does not fit it; skipped")]
    WrongDigest { what: &'static str, uri: String },
}

/// The records of a WARC file, and complaints about what lies between them.
///
/// ```
/// use farol_store::pages::warc::{Kind, Records};
/// let file = b"WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 4\r\n\r\na: b\r\n\r\n";
/// let records: Vec<_> = Records::new(&file[..]).collect();
/// let record = records[0].as_ref().unwrap();
/// assert_eq!((record.kind, &record.block[..]), (Kind::Metadata, b"a: b".as_slice()));
/// ```
pub struct Records<R> {
    input: Input<R>,
    /// Complained already about what is being skipped.
    lost: bool,
    ended: bool,
}

/// What stops the reading of a record.
enum Stop {
    Complaint(Complaint),
    End,
}

impl From<Complaint> for Stop {
    fn from(complaint: Complaint) -> Stop {
        Stop::Complaint(complaint)
    }
}

impl<R: BufRead> Records<R> {
    /// Reads a file; how it is compressed is seen from its first bytes.
    pub fn new(file: R) -> Records<R> {
        Records { input: Input::new(file), lost: false, ended: false }
    }

    fn record(&mut self) -> Result<WarcRecord, Stop> {
        self.skip_line_ends(usize::MAX)?;
        let offset = self.input.offset();
        let mut header = Vec::new();
        if !self.line(&mut header)? {
            return Err(Stop::End);
        }
        if !is_version(&header) {
            self.find_version(&mut header)?;
            return Err(Complaint::Garbage { offset }.into());
        }
        loop {
            let before = header.len();
            if !self.line(&mut header)? {
                return Err(Complaint::CutShort { offset }.into());
            }
            if header[before..].trim_ascii().is_empty() {
                break;
            }
            if header.len() >= HEADER_BYTES_MAX {
                return Err(Complaint::EndlessHeader { offset }.into());
            }
        }
        let first_line = memchr::memchr(b'\n', &header).map_or(header.len(), |at| at + 1);
        let headers = Headers::parse(&header[first_line..]);
        let length = headers.get("Content-Length").and_then(|length| length.parse::<u64>().ok());
        let length = length.ok_or(Complaint::NoLength { offset })?;
        let block = self.block(length, offset)?;
        self.skip_line_ends(4)?;
        // A record whose compressed end is wrong is not to be trusted.
        self.input.settle().map_err(|stop| self.stop(stop))?;
        Ok(WarcRecord { kind: Kind::parse(headers.get("WARC-Type").unwrap_or("")), headers, block })
    }

    /// Reads the block, or over one that is too large.
    fn block(&mut self, length: u64, offset: u64) -> Result<Bytes, Stop> {
        let keep = length <= RECORD_BYTES_MAX as u64;
        // In one piece from the beginning: growing would hold it twice.
        let mut block = Vec::with_capacity(if keep { length as usize } else { 0 });
        let mut left = length;
        while left > 0 {
            let piece = self.fill()?;
            if piece.is_empty() {
                return Err(Complaint::CutShort { offset }.into());
            }
            let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if keep {
                block.extend_from_slice(&piece[..count]);
            }
            self.input.consume(count);
            left -= count as u64;
        }
        if keep { Ok(block.into()) } else { Err(Complaint::TooLarge { offset, bytes: length }.into()) }
    }

    /// Reads lines until one begins a record, which is left to be read.
    fn find_version(&mut self, line: &mut Vec<u8>) -> Result<(), Stop> {
        let mut at_line_start = line.ends_with(b"\n");
        loop {
            let piece = self.fill()?;
            if piece.is_empty() {
                return Ok(());
            }
            if at_line_start && self.input.starts_with(b"WARC/").map_err(|stop| self.stop(stop))? {
                return Ok(());
            }
            line.clear();
            self.line(line)?;
            at_line_start = line.ends_with(b"\n");
        }
    }

    /// Adds a line with its end, as much as a header may have; false at the end of the file.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<bool, Stop> {
        let mut any = false;
        while line.len() < HEADER_BYTES_MAX {
            let room = HEADER_BYTES_MAX - line.len();
            let piece = self.fill()?;
            if piece.is_empty() {
                break;
            }
            any = true;
            let piece = &piece[..piece.len().min(room)];
            let end = memchr::memchr(b'\n', piece).map(|at| at + 1);
            let count = end.unwrap_or(piece.len());
            line.extend_from_slice(&piece[..count]);
            self.input.consume(count);
            if end.is_some() {
                break;
            }
        }
        Ok(any)
    }

    fn skip_line_ends(&mut self, mut most: usize) -> Result<(), Stop> {
        while most > 0 {
            let piece = self.fill()?;
            let blank = piece.iter().take(most).take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let stays = blank < piece.len().min(most) || piece.is_empty();
            self.input.consume(blank);
            most -= blank;
            if stays {
                break;
            }
        }
        Ok(())
    }

    /// What comes next; empty at the end.
    fn fill(&mut self) -> Result<&[u8], Stop> {
        match self.input.fill() {
            Ok(()) => Ok(self.input.buffer()),
            Err(stop) => Err(self.stop(stop)),
        }
    }

    fn stop(&self, stop: Break) -> Stop {
        Stop::Complaint(match stop {
            Break::Io(error) => Complaint::Io(error),
            Break::Damaged(what) => Complaint::Damaged { offset: self.input.offset(), what },
        })
    }
}

fn is_version(line: &[u8]) -> bool {
    line.len() > 5 && line.starts_with(b"WARC/") && line[5].is_ascii_digit()
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<WarcRecord, Complaint>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let complaint = match self.record() {
                Ok(record) => {
                    self.lost = false;
                    return Some(Ok(record));
                }
                Err(Stop::End) => {
                    self.ended = true;
                    return None;
                }
                Err(Stop::Complaint(complaint)) => complaint,
            };
            match &complaint {
                Complaint::Io(_) | Complaint::CutShort { .. } => self.ended = true,
                Complaint::Damaged { .. } => match self.input.skip_damage() {
                    Ok(found) => self.ended = !found,
                    Err(error) => {
                        self.ended = true;
                        return Some(Err(error.into()));
                    }
                },
                _ => {}
            }
            // A record that is only too large is whole: what follows is not lost.
            let is_lost = !matches!(complaint, Complaint::TooLarge { .. });
            if !(self.lost && is_lost) || matches!(complaint, Complaint::Io(_)) {
                self.lost = is_lost;
                return Some(Err(complaint));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
