//! Fetched pages as WARC 1.1 files, which any WARC reader opens.
//!
//! What a visit brought is an [`Exchange`]. [`encode`] turns it into WARC records, one gzip member each;
//! [`Archive::append`] writes them and answers with their position; [`ArchiveReader`] reads an exchange at a
//! position, or all from a position on. Pages that others fetched are kept beside them, as [`Conversion`]s. What is peculiar to our files is written down in
//! `docs/formats/warc.md`. Other people's WARC files, in all their variety, are read by [`warc`].
//!
//! PROMISE: what [`Archive::append`] answered for survives the end of the process, and after
//! [`Archive::sync`] a power cut. Files only grow; a torn tail is cut at opening, and reported.

mod archive;
mod archived;
mod checkpoint;
mod deflate;
mod encode;
mod group;
mod gzip;
mod reader;
pub mod warc;

#[cfg(test)]
mod crash;

use bytes::Bytes;
use farol_base::{CanonicalUrl, Timestamp, Truncated};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

pub use archive::{Archive, ArchiveOptions, Recovery, file_name, file_number, lengths};
pub use archived::{Archived, Conversion};
pub use encode::{BODY_BYTES_MAX, Encoded, Encoder, HEAD_BYTES_MAX, encode};
pub use reader::{ArchiveReader, Scan};

/// A request and what came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub url: CanonicalUrl,
    /// When the request was sent; kept to the millisecond.
    pub fetched: Timestamp,
    /// The server's address.
    pub address: Option<IpAddr>,
    /// Status of the response. It stands in `response_head`; when read back it is taken from there, 0 where
    /// that does not say.
    pub status: u16,
    /// Request line and headers up to the empty line; empty where it is not known.
    pub request_head: Vec<u8>,
    /// Status line and headers up to and with the empty line. Transfer and content encodings are undone:
    /// `Content-Length` is that of `body`, and the original headers are kept as `X-Archive-Orig-…`.
    pub response_head: Vec<u8>,
    /// The body, decoded. Of a revisit it is not written, and so empty when read back.
    pub body: Bytes,
    /// Why the body ends early, where it does.
    pub truncated: Option<Truncated>,
    /// `http/1.1`, `h2`.
    pub protocol: String,
    /// Where the body is one that the archive has already: a `revisit` record is written.
    pub revisit_of: Option<RevisitOf>,
    /// What else is worth keeping (`via`, `hops`, `fetchTimeMs`, …), written as a `metadata` record. Line
    /// ends become spaces, as do colons in names.
    pub metadata: Vec<(String, String)>,
}

impl Exchange {
    /// The value of the response's first header of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.headers(name).next()
    }

    /// The values of all the response's headers of this name. What is not UTF-8 becomes U+FFFD.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let lines = self.response_head.split(|b| *b == b'\n').skip(1);
        lines.filter_map(move |line| {
            let colon = line.iter().position(|b| *b == b':')?;
            let (key, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            key.eq_ignore_ascii_case(name.as_bytes()).then(|| String::from_utf8_lossy(value))
        })
    }
}

/// The earlier visit that a revisit repeats, of the same URL.
///
/// A status of 304 makes it a "server not modified", any other an "identical payload digest".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisitOf {
    /// When the earlier copy was fetched.
    pub fetched: Timestamp,
    /// Digest of its body. May be left out when writing: of a 304 because the body is not at hand, of any
    /// other because it can be computed from the body that came again.
    pub digest: Option<PayloadDigest>,
}

/// SHA-1 of a body, as WARC writes it: `sha1:` and 32 letters and digits.
///
/// ```
/// use farol_store::pages::PayloadDigest;
/// let digest = PayloadDigest::of(b"");
/// assert_eq!(digest.to_string(), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
/// assert_eq!(PayloadDigest::parse("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"), Some(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadDigest([u8; 20]);

impl PayloadDigest {
    /// Digests a body.
    pub fn of(body: &[u8]) -> PayloadDigest {
        PayloadDigest::of_parts(&[body])
    }

    /// Digests a block that lies in pieces.
    pub(crate) fn of_parts(parts: &[&[u8]]) -> PayloadDigest {
        use sha1::Digest;
        let mut hasher = sha1::Sha1::new();
        parts.iter().for_each(|part| hasher.update(part));
        PayloadDigest(hasher.finalize().into())
    }

    /// Reads `sha1:` and base 32 (or hexadecimal, as some write it).
    pub fn parse(text: &str) -> Option<PayloadDigest> {
        let (algorithm, value) = text.trim().split_once(':')?;
        if !algorithm.eq_ignore_ascii_case("sha1") {
            return None;
        }
        let upper = value.to_ascii_uppercase();
        let bytes = match upper.len() {
            32 => data_encoding::BASE32.decode(upper.as_bytes()).ok()?,
            40 => data_encoding::HEXUPPER.decode(upper.as_bytes()).ok()?,
            _ => return None,
        };
        bytes.try_into().ok().map(PayloadDigest)
    }
}

impl fmt::Display for PayloadDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha1:{}", data_encoding::BASE32.encode_display(&self.0))
    }
}

impl fmt::Debug for PayloadDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_in_any_case_of_letters() {
        let exchange = Exchange {
            url: CanonicalUrl::parse("http://h/").unwrap(),
            fetched: Timestamp::from_secs(1),
            address: None,
            status: 200,
            request_head: b"GET / HTTP/1.1\r\nAccept: a\r\n\r\n".to_vec(),
            response_head:
                b"HTTP/1.1 200 a: b\r\nETag : \"x:y\" \r\nno colon\r\nX-Tag: 1\r\nx-tag:caf\xe9\r\n\r\n"
                    .to_vec(),
            body: Bytes::new(),
            truncated: None,
            protocol: "http/1.1".to_string(),
            revisit_of: None,
            metadata: Vec::new(),
        };
        assert_eq!(exchange.header("etag").as_deref(), Some("\"x:y\""));
        assert_eq!(exchange.headers("X-TAG").collect::<Vec<_>>(), ["1", "caf\u{FFFD}"]);
        assert_eq!(exchange.header("accept"), None, "of the request");
        assert_eq!(exchange.header("HTTP/1.1 200 a"), None, "the status line");
    }

    #[test]
    fn digests_are_read_as_others_write_them() {
        let digest = PayloadDigest::of(b"");
        let check = |text: &str, want| assert_eq!(PayloadDigest::parse(text), want, "{text}");
        check("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", Some(digest));
        check(" SHA1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj", Some(digest));
        check("sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", Some(digest));
        check("sha256:e3b0c44298fc1c149afbf4c8996fb924", None);
        check("3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", None);
        check("sha1:", None);
    }
}
