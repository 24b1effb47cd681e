//! What came back, ready for parsing and for an archive.

use bytes::Bytes;
use farol_base::{CanonicalUrl, Truncated};
use hyper::header::{self, HeaderMap, HeaderName};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

/// Longest wait that a server's `Retry-After` is believed: 30 days.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// An answer to a request: one hop, whatever its status.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The body, decompressed. Where the compression is unknown: as received.
    pub body: Bytes,
    /// Why the body is not whole.
    pub truncated: Option<Truncated>,
    /// The request as sent, in the form of HTTP/1.1 whatever the protocol; ends with an empty line.
    pub request_head: Vec<u8>,
    /// Status line and headers for an archive record that holds `body`: the length is that of `body`, and the
    /// lines about how it travelled are kept under `X-Archive-Orig-`. Ends with an empty line.
    pub response_head: Vec<u8>,
    /// `http/1.0`, `http/1.1` or `h2`.
    pub protocol: &'static str,
    /// Who answered.
    pub address: SocketAddr,
    /// Time to open the connection, about one round trip; `None` on a kept connection.
    pub connect: Option<Duration>,
    /// Time from sending the request to the head of the answer.
    pub first_byte: Duration,
    /// Time in all, from the start (name lookup included) to the last byte.
    pub total: Duration,
    /// How long the server asks to be left alone (`Retry-After`); at most 30 days.
    pub retry_after: Option<Duration>,
    /// Where a redirect leads; `None` if it leads nowhere that can be fetched.
    pub location: Option<CanonicalUrl>,
}

impl Response {
    /// Whether the answer says "look there": 300 to 399 except 304.
    pub fn is_redirect(&self) -> bool {
        is_redirect(self.status)
    }
}

pub(crate) fn is_redirect(status: u16) -> bool {
    (300..400).contains(&status) && status != 304
}

/// The head of an answer as it stands before a decoded body in an archive.
///
/// INVARIANT: no byte of the server's can end a line, so no header can be smuggled in.
pub(crate) fn archive_head(
    status: u16,
    reason: &[u8],
    headers: &HeaderMap,
    body_bytes: usize,
    decoded: bool,
) -> Vec<u8> {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let mut head = Vec::with_capacity(lines + reason.len() + 128);
    head.extend_from_slice(format!("HTTP/1.1 {status:03} ").as_bytes());
    push_value(&mut head, reason);
    head.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        if travels(name, decoded) {
            head.extend_from_slice(b"X-Archive-Orig-");
        }
        push_title(&mut head, name.as_str());
        head.extend_from_slice(b": ");
        push_value(&mut head, value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    let mut length = String::new();
    let _ = write!(length, "Content-Length: {body_bytes}\r\n\r\n");
    head.extend_from_slice(length.as_bytes());
    head
}

/// Whether a line is about how the body travelled rather than what it is.
fn travels(name: &HeaderName, decoded: bool) -> bool {
    name == header::CONTENT_LENGTH
        || name == header::TRANSFER_ENCODING
        || (decoded && name == header::CONTENT_ENCODING)
}

/// `content-type` becomes `Content-Type`: HTTP/1.1's readers do not mind, people do.
fn push_title(head: &mut Vec<u8>, name: &str) {
    let mut at_start = true;
    for byte in name.bytes() {
        head.push(if at_start { byte.to_ascii_uppercase() } else { byte });
        at_start = byte == b'-';
    }
}

fn push_value(head: &mut Vec<u8>, value: &[u8]) {
    head.extend(value.iter().map(|&b| if b < 0x20 && b != b'\t' || b == 0x7f { b' ' } else { b }));
}

/// Reads `Retry-After` (RFC 9110 §10.2.3): seconds, or a date.
pub(crate) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than fit are still a number: the longest wait.
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn head(reason: &str, lines: &[(&str, &[u8])], decoded: bool) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        String::from_utf8_lossy(&archive_head(200, reason.as_bytes(), &map, 5, decoded)).into_owned()
    }

    #[test]
    fn an_archived_head_fits_the_decoded_body() {
        assert_eq!(
            head(
                "OK",
                &[
                    ("content-type", b"text/html"),
                    ("content-encoding", b"gzip"),
                    ("transfer-encoding", b"chunked"),
                    ("content-length", b"99"),
                    ("set-cookie", b"a"),
                    ("set-cookie", b"b"),
                ],
                true
            ),
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Archive-Orig-Content-Encoding: gzip\r\n\
             X-Archive-Orig-Transfer-Encoding: chunked\r\nX-Archive-Orig-Content-Length: 99\r\nSet-Cookie: a\r\n\
             Set-Cookie: b\r\nContent-Length: 5\r\n\r\n"
        );
        // A body that was not decoded keeps its encoding.
        assert_eq!(
            head("", &[("content-encoding", b"sdch")], false),
            "HTTP/1.1 200 \r\nContent-Encoding: sdch\r\nContent-Length: 5\r\n\r\n"
        );
    }

    #[test]
    fn no_line_can_be_smuggled_in() {
        let text = head("OK\r\nX-Evil: 1", &[("server", b"a\tb\xff")], true);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("HTTP/1.1 200 OK  X-Evil: 1\r\n"));
    }

    #[test]
    fn how_long_to_leave_a_server_alone() {
        let now = httpdate::parse_http_date("Mon, 06 May 2024 07:00:00 GMT").unwrap();
        let check = |value: &str, want: Option<u64>| {
            assert_eq!(retry_after(value, now), want.map(Duration::from_secs), "{value}");
        };
        check("120", Some(120));
        check(" 0 ", Some(0));
        check("Mon, 06 May 2024 07:02:00 GMT", Some(120));
        check("Mon, 06 May 2024 06:00:00 GMT", Some(0)); // Already past.
        check("99999999999999999999999", Some(30 * 24 * 3600));
        check("Fri, 01 Jan 2094 00:00:00 GMT", Some(30 * 24 * 3600));
        check("-1", None);
        check("soon", None);
        check("", None);
    }
}
