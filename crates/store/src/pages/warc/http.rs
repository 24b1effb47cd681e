//! An HTTP response as it was recorded: taken apart, its encodings undone.
//!
//! Recorders differ: some keep the body as it went over the wire, some decode it and leave the header, some
//! change both. Hence each encoding is undone only where the bytes really have it; otherwise they are left as
//! they are.

use super::{Headers, RECORD_BYTES_MAX};
use bytes::Bytes;
use std::io::Read;

/// Content codings that are undone, one inside the other; more is mischief.
const CODINGS_MAX: usize = 4;

/// A response, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Headers,
    /// The body as it stands in the record.
    pub recorded: Bytes,
    /// Without transfer encoding.
    pub entity: Bytes,
    /// Without transfer and content encoding; at most [`RECORD_BYTES_MAX`] bytes.
    pub body: Bytes,
    /// Whether the body was longer than that, or its compression broken off.
    pub is_cut: bool,
}

/// Takes a response apart; `None` where the block is none.
///
/// ```
/// use farol_store::pages::warc::http_response;
/// let block = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
/// let response = http_response(&block[..].into()).unwrap();
/// assert_eq!((response.status, &response.body[..]), (200, b"hello".as_slice()));
/// ```
pub fn http_response(block: &Bytes) -> Option<HttpResponse> {
    let status = http_status(block)?;
    let (head, body) = split_head(block);
    let first_line = memchr::memchr(b'\n', head).map_or(head.len(), |at| at + 1);
    let headers = Headers::parse(&head[first_line..]);
    let recorded = block.slice(block.len() - body.len()..);
    let is_chunked =
        headers.all("Transfer-Encoding").any(|value| value.to_ascii_lowercase().contains("chunked"));
    let plain = if is_chunked { dechunk(&recorded) } else { None };
    let entity = plain.map_or_else(|| recorded.clone(), Bytes::from);
    let (mut body, mut is_cut) = (entity.clone(), false);
    let codings: Vec<String> = headers
        .all("Content-Encoding")
        .flat_map(|value| value.split(','))
        .map(|coding| coding.trim().to_ascii_lowercase())
        .collect();
    for coding in codings.iter().rev().take(CODINGS_MAX) {
        if let Some((plain, cut)) = decode(coding, &body) {
            body = plain.into();
            is_cut |= cut;
        }
    }
    Some(HttpResponse { status, headers, recorded, entity, body, is_cut })
}

/// The status that a response's first line tells: `HTTP/1.1 200 OK`, also without reason, with odd spaces, or
/// with the version twice.
pub fn http_status(head: &[u8]) -> Option<u16> {
    let line = &head[..memchr::memchr(b'\n', &head[..head.len().min(1024)]).unwrap_or(head.len().min(1024))];
    let line = std::str::from_utf8(line.get(..line.len().min(32))?).unwrap_or_else(|error| {
        // A reason phrase in some other charset: up to there it is ASCII.
        std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or("")
    });
    let mut words = line.split_ascii_whitespace().peekable();
    words.peek().filter(|version| version.starts_with("HTTP/"))?;
    // Some recorders wrote the version twice.
    let digits = words.find(|word| !word.starts_with("HTTP/")).filter(|digits| digits.len() == 3)?;
    digits.parse().ok().filter(|status| (100..1000).contains(status))
}

/// Cuts after the first empty line, ended by `\r\n` or `\n`; what has none is all head.
fn split_head(block: &[u8]) -> (&[u8], &[u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'\n', &block[from..]) {
        from += at + 1;
        let rest = &block[from..];
        for end in [b"\r\n".as_slice(), b"\n"] {
            if let Some(body) = rest.strip_prefix(end) {
                return (&block[..from], body);
            }
        }
    }
    (block, &[])
}

/// Undoes the chunked coding; `None` where the body does not have it. A last chunk that is cut short is kept.
fn dechunk(body: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(body.len());
    let mut rest = body;
    let mut is_first = true;
    while !rest.is_empty() {
        let line_end = memchr::memchr(b'\n', &rest[..rest.len().min(1024)]);
        let size = line_end.and_then(|end| chunk_size(&rest[..end]));
        let (Some(end), Some(size)) = (line_end, size) else {
            return if is_first { None } else { Some(plain) };
        };
        if size == 0 {
            break;
        }
        is_first = false;
        rest = &rest[end + 1..];
        plain.extend_from_slice(&rest[..rest.len().min(size)]);
        rest = &rest[rest.len().min(size)..];
        rest = rest.strip_prefix(b"\r").unwrap_or(rest);
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    Some(plain)
}

fn chunk_size(line: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(line).ok()?.split(';').next()?.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    usize::from_str_radix(digits, 16).ok()
}

/// Undoes a content coding; `None` where the bytes do not have it or it is not known. Answers also whether
/// the end is missing.
fn decode(coding: &str, body: &[u8]) -> Option<(Vec<u8>, bool)> {
    match coding {
        "gzip" | "x-gzip" if body.starts_with(&[0x1f, 0x8b]) => {
            read_bounded(flate2::bufread::MultiGzDecoder::new(body))
        }
        "deflate" if body.first().is_some_and(|byte| byte & 0x0F == 8) => {
            // The standard means zlib; some servers send the bare stream.
            let zlib = read_bounded(flate2::bufread::ZlibDecoder::new(body));
            zlib.or_else(|| read_bounded(flate2::bufread::DeflateDecoder::new(body)))
        }
        "deflate" => read_bounded(flate2::bufread::DeflateDecoder::new(body)),
        "br" => read_bounded(brotli::Decompressor::new(body, 4096)),
        "zstd" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(body).ok()?;
            // RFC 9659: at most 8 MiB of window over HTTP.
            decoder.window_log_max(23).ok()?;
            read_bounded(decoder)
        }
        _ => None,
    }
}

/// Reads as much as a record may have. What came before an error is kept; `None` where nothing did.
fn read_bounded(decoder: impl Read) -> Option<(Vec<u8>, bool)> {
    let mut plain = Vec::new();
    let result = decoder.take(RECORD_BYTES_MAX as u64).read_to_end(&mut plain);
    if plain.is_empty() && result.is_err() {
        return None;
    }
    let is_cut = result.is_err() || plain.len() == RECORD_BYTES_MAX;
    Some((plain, is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn raw_deflate(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::CompressorWriter::new(&mut out, 4096, 3, 20).write_all(text).unwrap();
        out
    }

    #[track_caller]
    fn check(headers: &str, body: &[u8], want: &[u8]) {
        let block = [b"HTTP/1.1 200 OK\r\n", headers.as_bytes(), b"\r\n", body].concat();
        let response = http_response(&block.into()).unwrap();
        assert_eq!(String::from_utf8_lossy(&response.body), String::from_utf8_lossy(want), "{headers}");
    }

    #[test]
    fn encodings_are_undone_where_they_are() {
        let text = "Öl und Essig. ".repeat(50).into_bytes();
        let chunked =
            |body: &[u8]| [format!("{:x};ext=1\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
        check("", &text, &text);
        check("Content-Encoding: gzip\r\n", &gzip(&text), &text);
        check("content-encoding: X-GZIP\n", &gzip(&text), &text);
        check("Content-Encoding: gzip\r\n", &text, &text); // Decoded already by the recorder.
        check("Content-Encoding: deflate\r\n", &zlib(&text), &text);
        check("Content-Encoding: deflate\r\n", &raw_deflate(&text), &text);
        check("Content-Encoding: br\r\n", &brotli(&text), &text);
        check("Content-Encoding: zstd\r\n", &zstd::encode_all(&text[..], 3).unwrap(), &text);
        check("Content-Encoding: gzip, br\r\n", &brotli(&gzip(&text)), &text);
        check("Content-Encoding: identity\r\n", &text, &text);
        check("Transfer-Encoding: chunked\r\n", &chunked(&text), &text);
        check("Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n", &chunked(&gzip(&text)), &text);
        check("Transfer-Encoding: chunked\r\n", b"<p>not chunked", b"<p>not chunked");
        check("Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n9\r\ncut", b"hellocut");
        check("Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"");
        check("Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\nx", b"x");
    }

    #[test]
    fn broken_compression_gives_what_there_is() {
        let text = "some text that goes on and on, ".repeat(2000);
        let whole = gzip(text.as_bytes());
        let block = [b"HTTP/1.1 200\r\nContent-Encoding: gzip\r\n\r\n", &whole[..whole.len() - 20]].concat();
        let response = http_response(&block.into()).unwrap();
        assert!(response.is_cut && text.as_bytes().starts_with(&response.body) && !response.body.is_empty());
    }

    #[test]
    fn a_bomb_is_cut_at_the_limit() {
        let bomb = gzip(&vec![0; RECORD_BYTES_MAX + 10]);
        let block = [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".as_slice(), &bomb].concat();
        let response = http_response(&block.into()).unwrap();
        assert!(response.is_cut && response.body.len() == RECORD_BYTES_MAX);
    }

    #[test]
    fn statuses_as_servers_write_them() {
        let check = |head: &[u8], want| assert_eq!(http_status(head), want, "{}", head.escape_ascii());
        check(b"HTTP/1.1 200 OK\r\n", Some(200));
        check(b"HTTP/2 404", Some(404));
        check(b"HTTP/1.0  301\tMoved\n", Some(301));
        check(b"HTTP/1.1 200 \xe9t\xe9\r\n", Some(200));
        check(b"HTTP/1.1 HTTP/1.1 200 OK\r\n", Some(200)); // warcio, for a while.
        check(b"HTTP/1.1 OK\r\n", None);
        check(b"GET / HTTP/1.1\r\n", None);
        check(b"HTTP/1.1 99999", None);
        check(b"", None);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300), coding in "gzip|deflate|br|zstd|x") {
            let _ = http_response(&Bytes::copy_from_slice(&bytes));
            let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: {coding}\r\n\r\n");
            prop_assert!(http_response(&[head.as_bytes(), &bytes].concat().into()).is_some());
        }
    }
}
