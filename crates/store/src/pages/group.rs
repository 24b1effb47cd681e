//! Reads our own files: the records of one entry, one after the other.
//!
//! An entry ends with its `response`, `revisit` or `conversion` record, see [`super::encode`]. Whatever is not as we
//! write it is damage; nothing is guessed here. For other people's files there is [`super::warc`].

use super::gzip::{Gunzip, OUR_HEADER, Step, Trouble};
use super::warc::{Headers, RECORD_BYTES_MAX, http_status};
use super::{Archived, Conversion, Exchange, PayloadDigest, RevisitOf};
use crate::Error;
use crate::reading::DiskReader;
use bytes::Bytes;
use farol_base::disk::Disk;
use farol_base::{CanonicalUrl, Timestamp, Truncated};
use std::io::BufRead;
use std::sync::Arc;

/// How much is decompressed at a time.
const PIECE_BYTES: usize = 32 << 10;

/// Entries of one file, from some offset on.
#[derive(Debug)]
pub(super) struct Groups {
    file: String,
    reader: DiskReader,
    gunzip: Gunzip,
}

/// An entry, and the bytes of the file that it takes.
#[derive(Debug)]
pub(super) struct Group {
    pub start: u64,
    pub end: u64,
    pub archived: Archived,
}

impl Groups {
    /// Reads a file from `start`, where an exchange or the file's own record begins, up to `end`.
    pub fn new(disk: Arc<dyn Disk>, file: &str, start: u64, end: u64, piece_bytes: usize) -> Groups {
        let reader = DiskReader::new(disk, file, start, end, piece_bytes);
        Groups { file: file.to_string(), reader, gunzip: Gunzip::new() }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Lets it read further, after the file has grown.
    pub fn set_end(&mut self, end: u64) {
        self.reader.set_end(end);
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Torn`] where the file ends inside the exchange, [`Error::Damaged`] where it is not as we
    /// write it. The offset is that at which the exchange begins, and reading goes on nowhere until
    /// [`Groups::skip_damage`].
    pub fn next(&mut self) -> Result<Option<Group>, Error> {
        let mut start = self.reader.position();
        let mut before = Before::default();
        let mut is_first = true;
        loop {
            let Some(record) = self.member(start)? else {
                return if is_first { Ok(None) } else { Err(self.torn(start)) };
            };
            let (headers, block) =
                parse(&record).ok_or_else(|| self.damaged(start, "a record is not as Farol writes it"))?;
            match (headers.get("WARC-Type").unwrap_or(""), is_first) {
                ("warcinfo", true) => {
                    start = self.reader.position();
                    continue;
                }
                ("metadata", _) => before.metadata = fields(&record[block]),
                ("request", _) => before.request_head = record[block].to_vec(),
                ("response" | "revisit" | "conversion", _) => {
                    let id = headers.get("WARC-Record-ID");
                    if before.concurrent_to.is_some() && before.concurrent_to.as_deref() != id {
                        return Err(self.damaged(start, "records of two exchanges are mixed"));
                    }
                    let body = Bytes::from(record).slice(block);
                    let archived = archived(&headers, body, before)
                        .ok_or_else(|| self.damaged(start, "a response is not as Farol writes it"))?;
                    return Ok(Some(Group { start, end: self.reader.position(), archived }));
                }
                _ => return Err(self.damaged(start, "a record is of another kind than Farol writes")),
            }
            before.concurrent_to = headers.get("WARC-Concurrent-To").map(str::to_string);
            is_first = false;
        }
    }

    /// Goes to the next place after `offset` where a record of ours could begin; false where there is none.
    pub fn skip_damage(&mut self, offset: u64) -> Result<bool, Error> {
        self.gunzip.reset();
        self.reader.seek(offset + 1);
        // The header's first bytes may lie at the end of one piece, and the others at the start of the next.
        let mut matched = 0;
        loop {
            let at = self.reader.position();
            let piece = self.reader.fill_buf().map_err(Error::io("read", &self.file))?;
            if piece.is_empty() {
                return Ok(false);
            }
            let len = piece.len();
            for (i, byte) in piece.iter().enumerate() {
                // No proper prefix of the header is a suffix of another, but for its first byte.
                matched = match *byte {
                    byte if byte == OUR_HEADER[matched] => matched + 1,
                    byte if byte == OUR_HEADER[0] => 1,
                    _ => 0,
                };
                if matched == OUR_HEADER.len() {
                    self.reader.seek(at + i as u64 + 1 - OUR_HEADER.len() as u64);
                    return Ok(true);
                }
            }
            self.reader.consume(len);
        }
    }

    /// Reads a member; `None` at the end of the file.
    fn member(&mut self, start: u64) -> Result<Option<Vec<u8>>, Error> {
        self.gunzip.reset();
        if self.reader.fill_buf().map_err(Error::io("read", &self.file))?.is_empty() {
            return Ok(None);
        }
        let mut record = Vec::new();
        loop {
            match self.gunzip.read(&mut self.reader, &mut record, PIECE_BYTES) {
                Ok(Step::MemberEnd) => return Ok(Some(record)),
                Ok(Step::Inside) if record.len() > RECORD_BYTES_MAX => {
                    return Err(self.damaged(start, "a record is larger than Farol writes any"));
                }
                Ok(Step::Inside) => {}
                Err(Trouble::Short) => return Err(self.torn(start)),
                Err(Trouble::Bad(what)) => return Err(self.damaged(start, what)),
                Err(Trouble::Io(source)) => return Err(Error::io("read", &self.file)(source)),
            }
        }
    }

    fn torn(&self, offset: u64) -> Error {
        Error::Torn { file: self.file.clone(), offset }
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::Damaged { file: self.file.clone(), offset, what: what.to_string() }
    }
}

/// What stands before the response.
#[derive(Debug, Default)]
struct Before {
    concurrent_to: Option<String>,
    metadata: Vec<(String, String)>,
    request_head: Vec<u8>,
}

/// A record's headers, and where its block is.
fn parse(record: &[u8]) -> Option<(Headers, std::ops::Range<usize>)> {
    let rest = record.strip_prefix(b"WARC/1.1\r\n")?;
    let end = memchr::memmem::find(rest, b"\r\n\r\n")?;
    let headers = Headers::parse(&rest[..end + 2]);
    let len: usize = headers.get("Content-Length")?.parse().ok()?;
    let start = record.len() - rest.len() + end + 4;
    let stop = start.checked_add(len)?;
    (record.get(stop..)? == b"\r\n\r\n").then_some((headers, start..stop))
}

fn archived(headers: &Headers, block: Bytes, before: Before) -> Option<Archived> {
    match headers.get("WARC-Type")? {
        "conversion" => conversion(headers, block, before).map(Archived::Conversion),
        _ => exchange(headers, block, before).map(Archived::Exchange),
    }
}

fn conversion(headers: &Headers, block: Bytes, before: Before) -> Option<Conversion> {
    Some(Conversion {
        url: CanonicalUrl::parse(headers.get("WARC-Target-URI")?).ok()?,
        fetched: instant(headers.get("WARC-Date")?)?,
        content_type: headers.get("Content-Type")?.to_string(),
        block,
        metadata: before.metadata,
    })
}

fn exchange(headers: &Headers, block: Bytes, before: Before) -> Option<Exchange> {
    let head_end = memchr::memmem::find(&block, b"\r\n\r\n")? + 4;
    let response_head = block[..head_end].to_vec();
    let revisit_of = match headers.get("WARC-Type")? {
        "revisit" => Some(RevisitOf {
            fetched: instant(headers.get("WARC-Refers-To-Date")?)?,
            digest: headers.get("WARC-Payload-Digest").and_then(PayloadDigest::parse),
        }),
        _ => None,
    };
    Some(Exchange {
        // Read by the rules of today: a record whose URL was spelled by those of another day is no damage.
        url: CanonicalUrl::parse(headers.get("WARC-Target-URI")?).ok()?,
        fetched: instant(headers.get("WARC-Date")?)?,
        address: headers.get("WARC-IP-Address").and_then(|address| address.parse().ok()),
        status: http_status(&response_head).unwrap_or(0),
        request_head: before.request_head,
        response_head,
        body: block.slice(head_end..),
        truncated: headers.get("WARC-Truncated").map(Truncated::parse),
        protocol: headers.get("WARC-Protocol").unwrap_or("").to_string(),
        revisit_of,
        metadata: before.metadata,
    })
}

fn fields(block: &[u8]) -> Vec<(String, String)> {
    Headers::parse(block).iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// An instant with its fraction of a second, down to milliseconds.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    let seconds = Timestamp::parse(text)?;
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).take(3);
    let millis =
        digits.zip([100, 10, 1]).map(|(digit, weight)| u64::from(digit - b'0') * weight).sum::<u64>();
    Some(seconds + std::time::Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_keep_their_milliseconds() {
        let check =
            |text: &str, want: u64| assert_eq!(instant(text), Some(Timestamp::from_millis(want)), "{text}");
        check("1970-01-01T00:00:01Z", 1000);
        check("1970-01-01T00:00:01.5Z", 1500);
        check("1970-01-01T00:00:01.007Z", 1007);
        check("1970-01-01T00:00:01.123456789Z", 1123);
        check("1970-01-01T00:00:01.Z", 1000);
        assert_eq!(instant("now"), None);
    }
}
