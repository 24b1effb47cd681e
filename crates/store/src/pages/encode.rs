//! An exchange as WARC records.
//!
//! An exchange is written as up to three records, in this order: `metadata`, `request`, and `response` or
//! `revisit`. The last one is always there and ends the exchange; the first two name it in
//! `WARC-Concurrent-To`. A page that was received is a `conversion`, behind its `metadata`. So a reader knows where an exchange ends without looking beyond it, and one that was
//! cut by a crash can be told.
//!
//! INVARIANT: header fields are one line each. Nothing that came from the Web is written into one without
//! that being made sure.

use super::gzip::Gzip;
use super::{Archived, Conversion, Exchange, PayloadDigest};
use farol_base::{CanonicalUrl, Random, Timestamp, Truncated};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest body that is written; the rest is cut off, and the record says so. With its head, 48 MiB + 1 MiB
/// stay below the 64 MiB that are read of a record.
pub const BODY_BYTES_MAX: usize = 48 << 20;

/// Longest head of a request or response, and longest block of metadata; the rest is cut off.
pub const HEAD_BYTES_MAX: usize = 1 << 20;

/// An exchange as it will stand in a WARC file.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub(super) bytes: Vec<u8>,
    pub(super) fetched: Timestamp,
    /// An id for the `warcinfo` record, should this exchange be the first of a file.
    pub(super) spare_id: RecordId,
    pub(super) digest: Option<PayloadDigest>,
}

impl Encoded {
    /// Size in the file.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: an exchange is at least one record.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Digest of the body, for a later revisit; `None` for a 304, which has none.
    pub fn digest(&self) -> Option<PayloadDigest> {
        self.digest
    }
}

/// Encodes one exchange; whoever has many keeps an [`Encoder`].
///
/// The record ids come from `ids`, `level` is gzip's (see [`Encoder::LEVEL`]).
pub fn encode(exchange: &Exchange, ids: &mut dyn Random, level: u32) -> Encoded {
    Encoder::new(level).encode(exchange, ids)
}

/// Encodes exchanges, and keeps the compressor's tables from one to the next.
#[derive(Debug)]
pub struct Encoder {
    gzip: Gzip,
    header: String,
}

impl Encoder {
    /// The level of compression that is worth its time: see the table in `docs/formats/warc.md`.
    pub const LEVEL: u32 = 1;

    /// With a gzip level from 0 to 9.
    pub fn new(level: u32) -> Encoder {
        Encoder { gzip: Gzip::new(level), header: String::new() }
    }

    /// Writes an exchange as WARC records.
    pub fn encode(&mut self, exchange: &Exchange, ids: &mut dyn Random) -> Encoded {
        let response_id = RecordId::new(ids);
        let spare_id = RecordId::new(ids);
        let mut bytes = Vec::with_capacity(2048 + exchange.body.len() / 3);
        if !exchange.metadata.is_empty() {
            let block = metadata_block(&exchange.metadata);
            self.begin("metadata", RecordId::new(ids), exchange);
            self.field("WARC-Concurrent-To", response_id);
            self.field("Content-Type", "application/warc-fields");
            self.end(&[block.as_bytes()], &mut bytes);
        }
        if !exchange.request_head.is_empty() {
            let head = tidy_head(&exchange.request_head);
            self.begin("request", RecordId::new(ids), exchange);
            self.field("WARC-Concurrent-To", response_id);
            self.connection(exchange);
            self.field("Content-Type", "application/http; msgtype=request");
            self.end(&[&head], &mut bytes);
        }
        let digest = self.response(exchange, response_id, &mut bytes);
        Encoded { bytes, fetched: exchange.fetched, spare_id, digest }
    }

    /// Writes a page that was received. Its block must not be longer than [`BODY_BYTES_MAX`].
    pub fn encode_conversion(&mut self, page: &Conversion, ids: &mut dyn Random) -> Encoded {
        let id = RecordId::new(ids);
        let spare_id = RecordId::new(ids);
        let mut bytes = Vec::with_capacity(1024 + page.block.len() / 2);
        if !page.metadata.is_empty() {
            let block = metadata_block(&page.metadata);
            self.begin_page("metadata", RecordId::new(ids), &page.url, page.fetched);
            self.field("WARC-Concurrent-To", id);
            self.field("Content-Type", "application/warc-fields");
            self.end(&[block.as_bytes()], &mut bytes);
        }
        self.begin_page("conversion", id, &page.url, page.fetched);
        self.field("Content-Type", one_line(&page.content_type, false));
        self.end(&[&page.block], &mut bytes);
        Encoded { bytes, fetched: page.fetched, spare_id, digest: None }
    }

    /// Writes an entry of either kind.
    pub fn encode_archived(&mut self, archived: &Archived, ids: &mut dyn Random) -> Encoded {
        match archived {
            Archived::Exchange(exchange) => self.encode(exchange, ids),
            Archived::Conversion(page) => self.encode_conversion(page, ids),
        }
    }

    fn response(&mut self, exchange: &Exchange, id: RecordId, out: &mut Vec<u8>) -> Option<PayloadDigest> {
        let head = tidy_head(&exchange.response_head);
        let body = &exchange.body[..exchange.body.len().min(BODY_BYTES_MAX)];
        let cut = (body.len() < exchange.body.len()).then_some(Truncated::Length);
        let (digest, body): (Option<PayloadDigest>, &[u8]) = match &exchange.revisit_of {
            None => {
                self.begin("response", id, exchange);
                (Some(PayloadDigest::of(body)), body)
            }
            Some(revisit) => {
                self.begin("revisit", id, exchange);
                let unchanged = exchange.status == 304;
                let profile = if unchanged { "server-not-modified" } else { "identical-payload-digest" };
                self.field("WARC-Profile", format_args!("http://netpreserve.org/warc/1.1/revisit/{profile}"));
                self.field("WARC-Refers-To-Target-URI", &exchange.url);
                self.field("WARC-Refers-To-Date", Millis(revisit.fetched));
                let computed = (!unchanged).then(|| PayloadDigest::of(body));
                (revisit.digest.or(computed), &[])
            }
        };
        if let Some(digest) = digest {
            self.field("WARC-Payload-Digest", digest);
        }
        if let Some(truncated) = exchange.truncated.or(cut) {
            self.field("WARC-Truncated", truncated.as_str());
        }
        self.connection(exchange);
        self.field("Content-Type", "application/http; msgtype=response");
        match (body, digest) {
            // The payload's digest and gzip's checksum guard a body well enough: digesting it again with its head would cost as much
            // as parsing it.
            ([_, ..], Some(_)) => self.end_undigested(&[&head, body], out),
            _ => self.end(&[&head], out),
        }
        digest
    }

    fn begin(&mut self, kind: &str, id: RecordId, exchange: &Exchange) {
        self.begin_page(kind, id, &exchange.url, exchange.fetched);
    }

    fn begin_page(&mut self, kind: &str, id: RecordId, url: &CanonicalUrl, date: Timestamp) {
        self.begin_info(kind, id, date);
        self.field("WARC-Target-URI", url);
    }

    fn begin_info(&mut self, kind: &str, id: RecordId, date: Timestamp) {
        self.header.clear();
        self.header.push_str("WARC/1.1\r\n");
        self.field("WARC-Type", kind);
        self.field("WARC-Record-ID", id);
        self.field("WARC-Date", Millis(date));
    }

    fn connection(&mut self, exchange: &Exchange) {
        if let Some(address) = exchange.address {
            self.field("WARC-IP-Address", address);
        }
        let protocol = one_line(&exchange.protocol, false);
        if !protocol.is_empty() {
            self.field("WARC-Protocol", protocol);
        }
    }

    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.header, "{name}: {value}\r\n");
    }

    fn end(&mut self, block: &[&[u8]], out: &mut Vec<u8>) {
        self.field("WARC-Block-Digest", PayloadDigest::of_parts(block));
        self.end_undigested(block, out);
    }

    fn end_undigested(&mut self, block: &[&[u8]], out: &mut Vec<u8>) {
        let len: usize = block.iter().map(|part| part.len()).sum();
        self.field("Content-Length", len);
        self.header.push_str("\r\n");
        let mut parts: Vec<&[u8]> = vec![self.header.as_bytes()];
        parts.extend_from_slice(block);
        parts.push(b"\r\n\r\n");
        self.gzip.member(&parts, out);
    }

    /// The record that a file begins with.
    pub(super) fn warcinfo(
        &mut self,
        id: RecordId,
        date: Timestamp,
        file: &str,
        fields: &[(String, String)],
    ) -> Vec<u8> {
        let mut out = Vec::new();
        self.begin_info("warcinfo", id, date);
        self.field("WARC-Filename", file);
        self.field("Content-Type", "application/warc-fields");
        self.end(&[metadata_block(fields).as_bytes()], &mut out);
        out
    }
}

/// A record's id: a random UUID (version 4, RFC 9562).
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordId(u128);

impl RecordId {
    fn new(ids: &mut dyn Random) -> RecordId {
        let bits = u128::from(ids.next_u64()) << 64 | u128::from(ids.next_u64());
        RecordId(bits & !(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62)
    }
}

impl std::fmt::Display for RecordId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e] = [self.0 >> 96, self.0 >> 80, self.0 >> 64, self.0 >> 48, self.0];
        let (b, c, d, e) = (b & 0xFFFF, c & 0xFFFF, d & 0xFFFF, e & 0xFFFF_FFFF_FFFF);
        write!(f, "<urn:uuid:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}>")
    }
}

/// An instant to the millisecond, which WARC 1.1 allows.
struct Millis(Timestamp);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.to_string();
        write!(f, "{}.{:03}Z", seconds.trim_end_matches('Z'), self.0.as_millis() % 1000)
    }
}

/// Names and values, a line each.
fn metadata_block(fields: &[(String, String)]) -> String {
    let mut block = String::new();
    for (name, value) in fields {
        let (name, value) = (one_line(name, true), one_line(value, false));
        if block.len() + name.len() + value.len() > HEAD_BYTES_MAX {
            break;
        }
        let _ = write!(block, "{name}: {value}\r\n");
    }
    block
}

/// The text with control characters (and colons, of a name) as spaces, trimmed.
fn one_line(text: &str, is_name: bool) -> Cow<'_, str> {
    let bad = |c: char| c.is_control() || is_name && c == ':';
    if !text.contains(bad) {
        return Cow::Borrowed(text.trim());
    }
    Cow::Owned(text.replace(bad, " ").trim().to_string())
}

/// A head that ends with its first empty line, whatever it was given as.
fn tidy_head(head: &[u8]) -> Cow<'_, [u8]> {
    let end = memchr::memmem::find(head, b"\r\n\r\n").map(|at| at + 4);
    match end {
        Some(end) if end <= HEAD_BYTES_MAX => Cow::Borrowed(&head[..end]),
        _ => {
            let kept = &head[..head.len().min(HEAD_BYTES_MAX - 4)];
            let kept = kept.trim_ascii_end();
            Cow::Owned([kept, b"\r\n\r\n"].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Seeded;

    #[test]
    fn ids_are_random_uuids() {
        let mut ids = Seeded::new(7);
        for _ in 0..100 {
            let text = RecordId::new(&mut ids).to_string();
            let parts: Vec<usize> = text.trim_matches(['<', '>']).split('-').map(str::len).collect();
            assert_eq!(parts, [17, 4, 4, 4, 12], "{text}");
            assert_eq!(&text[24..25], "4", "{text}");
            assert!("89ab".contains(&text[29..30]), "{text}");
        }
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        let check = |name: &str, value: &str, want: &str| {
            assert_eq!(metadata_block(&[(name.to_string(), value.to_string())]), want);
        };
        check("via", "http://a/", "via: http://a/\r\n");
        check("a\r\nWARC-Type: b", "c\r\n\r\nWARC/1.1\nx", "a  WARC-Type  b: c    WARC/1.1 x\r\n");
    }

    #[test]
    fn heads_end_with_their_first_empty_line() {
        let check = |head: &[u8], want: &[u8]| assert_eq!(&*tidy_head(head), want);
        check(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n");
        check(b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\n\r\n");
        check(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n");
        check(b"a\r\n\r\nb\r\n\r\n", b"a\r\n\r\n");
        assert_eq!(tidy_head(&vec![b'x'; 3 << 20]).len(), HEAD_BYTES_MAX);
    }

    #[test]
    fn instants_have_milliseconds() {
        assert_eq!(Millis(Timestamp::from_millis(1_700_000_000_007)).to_string(), "2023-11-14T22:13:20.007Z");
    }
}
