//! Makes a foreign record an exchange of our own.

use super::{Complaint, HttpResponse, Kind, WarcRecord, digest, http_response, http_status};
use crate::pages::group::instant;
use crate::pages::{Archived, Conversion, Exchange};
use farol_base::{CanonicalUrl, Timestamp, Truncated};

/// Header fields that no longer fit once the encodings are undone; kept under another name.
const REPLACED: [&str; 3] = ["Transfer-Encoding", "Content-Encoding", "Content-Length"];

/// The exchange that a record holds: a `response` over HTTP, or a `resource` with an HTTP address, which
/// counts as a response of status 200. `None` for all other records, and where the address is not one that
/// can be crawled.
///
/// The record's id is kept as metadata `import-record-id`.
///
/// # Errors
/// [`Complaint::WrongDigest`] where the record is not what its writer digested.
pub fn to_exchange(record: WarcRecord) -> Result<Option<Exchange>, Complaint> {
    let Some(Ok(url)) = record.target_uri().map(CanonicalUrl::parse) else { return Ok(None) };
    let (status_line, response) = match record.kind {
        Kind::Response => match http_response(&record.block) {
            Some(response) => (telling(status_line(&record.block), response.status), response),
            None => return Ok(None),
        },
        Kind::Resource => ("HTTP/1.1 200 OK".to_string(), resource(&record)),
        _ => return Ok(None),
    };
    digest::check(&record, &response)?;
    let header = |name: &str| record.headers.get(name);
    let truncated = header("WARC-Truncated").map(Truncated::parse);
    let id = header("WARC-Record-ID").map(|id| ("import-record-id".to_string(), id.to_string()));
    Ok(Some(Exchange {
        url,
        fetched: header("WARC-Date").and_then(instant).unwrap_or(Timestamp::EPOCH),
        address: header("WARC-IP-Address").and_then(|address| address.trim_matches(['[', ']']).parse().ok()),
        status: response.status,
        request_head: Vec::new(),
        response_head: head(&status_line, &response),
        truncated: truncated.or(response.is_cut.then_some(Truncated::Length)),
        body: response.body,
        protocol: header("WARC-Protocol").unwrap_or("http/1.1").to_string(),
        revisit_of: None,
        metadata: id.into_iter().collect(),
    }))
}

/// The entry that a record holds: an exchange, or, of an archive of ours, a page that was received. `ours` says whether
/// a content type is that of such pages.
///
/// # Errors
/// As [`to_exchange`].
pub fn to_archived(record: WarcRecord, ours: impl Fn(&str) -> bool) -> Result<Option<Archived>, Complaint> {
    let is_ours = record.headers.get("Content-Type").is_some_and(&ours);
    if record.kind != Kind::Conversion || !is_ours {
        return Ok(to_exchange(record)?.map(Archived::Exchange));
    }
    let Some(Ok(url)) = record.target_uri().map(CanonicalUrl::parse) else { return Ok(None) };
    let header = |name: &str| record.headers.get(name);
    let id = header("WARC-Record-ID").map(|id| ("import-record-id".to_string(), id.to_string()));
    Ok(Some(Archived::Conversion(Conversion {
        url,
        fetched: header("WARC-Date").and_then(instant).unwrap_or(Timestamp::EPOCH),
        content_type: header("Content-Type").unwrap_or_default().to_string(),
        metadata: id.into_iter().collect(),
        block: record.block,
    })))
}

fn resource(record: &WarcRecord) -> HttpResponse {
    let kind = record.headers.get("Content-Type").unwrap_or("application/octet-stream");
    let headers = super::Headers::parse(format!("Content-Type: {kind}\r\n").as_bytes());
    let [recorded, entity, body] = [(); 3].map(|()| record.block.clone());
    HttpResponse { status: 200, headers, recorded, entity, body, is_cut: false }
}

fn status_line(block: &[u8]) -> String {
    let line = block.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.trim_ascii());
    match line.split_once(' ') {
        Some((version, rest)) if rest.starts_with(version) => rest.to_string(),
        _ => line.into_owned(),
    }
}

/// The line, if it tells this status to whoever reads it again, else one that does.
fn telling(line: String, status: u16) -> String {
    if http_status(line.as_bytes()) == Some(status) { line } else { format!("HTTP/1.1 {status}") }
}

fn head(status_line: &str, response: &HttpResponse) -> Vec<u8> {
    let mut head = format!("{status_line}\r\n");
    for (name, value) in response.headers.iter() {
        let is_replaced = REPLACED.iter().any(|replaced| replaced.eq_ignore_ascii_case(name));
        let prefix = if is_replaced { "X-Archive-Orig-" } else { "" };
        // Folded lines and bare carriage returns were joined when reading, but a name may still hold anything.
        let (name, value) = (name.replace(char::is_control, " "), value.replace(char::is_control, " "));
        head.push_str(&format!("{prefix}{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", response.body.len()));
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::warc::Records;

    fn one(headers: &str, block: &str) -> Option<Exchange> {
        let file = format!("WARC/1.0\r\n{headers}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n", block.len());
        let record = Records::new(file.as_bytes()).next().unwrap().unwrap();
        to_exchange(record).unwrap()
    }

    #[test]
    fn the_head_that_is_kept_tells_the_status_that_was_read() {
        // As far as a status line is looked at, this one ends after three digits; without the space before it, after four.
        let line = format!(" HTTP/1.1{}2000", " ".repeat(20));
        let headers = "WARC-Type: response\r\nWARC-Target-URI: http://h/";
        let exchange = one(headers, &format!("{line}\r\n\r\nbody")).unwrap();
        assert_eq!(http_status(&exchange.response_head), Some(exchange.status));
    }

    #[test]
    fn a_response_becomes_ours() {
        let exchange = one(
            "WARC-Type: response\r\nWARC-Target-URI: <HTTP://Example.org/#x>\r\nWARC-Date: 2020-01-02T03:04:05.250Z\r\n\
             WARC-IP-Address: 192.0.2.1\r\nWARC-Record-ID: <urn:x>",
            "HTTP/1.1 HTTP/1.1 404 Not there\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        )
        .unwrap();
        assert_eq!(exchange.url.as_str(), "http://example.org/");
        assert_eq!((exchange.status, exchange.body.as_ref()), (404, b"abc".as_slice()));
        assert_eq!(exchange.fetched.as_millis() % 1000, 250);
        assert_eq!(exchange.address, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(
            String::from_utf8(exchange.response_head).unwrap(),
            "HTTP/1.1 404 Not there\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nA: b\r\nContent-Length: 3\r\n\r\n"
        );
        assert_eq!(exchange.metadata, [("import-record-id".to_string(), "<urn:x>".to_string())]);
    }

    #[test]
    fn a_resource_is_a_page_and_other_records_are_none() {
        let resource =
            one("WARC-Type: resource\r\nWARC-Target-URI: http://h/\r\nContent-Type: text/html", "<p>");
        let resource = resource.unwrap();
        assert!(resource.response_head.starts_with(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"));
        assert_eq!(resource.body.as_ref(), b"<p>");
        for headers in [
            "WARC-Type: response\r\nWARC-Target-URI: dns:h",
            "WARC-Type: response\r\nWARC-Target-URI: http://h/",
            "WARC-Type: request\r\nWARC-Target-URI: http://h/",
            "WARC-Type: resource\r\nWARC-Target-URI: urn:pageinfo:http://h/",
            "WARC-Type: resource",
        ] {
            assert_eq!(one(headers, "x"), None, "{headers}");
        }
    }
}
