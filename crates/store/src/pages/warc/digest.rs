//! Whether a record still is what its writer digested.
//!
//! The digest of the block is taken as it stands. Of the payload writers have different ideas: the body as recorded,
//! without its transfer coding, or without any coding; it is right where it fits one of them. Algorithms that are not
//! known here, and values that cannot be read, are passed over.

use super::{Complaint, HttpResponse, WarcRecord};
use sha1::Digest;

/// A digest as a header field writes it: `sha1:` or `sha256:`, and base 32 or hexadecimal.
#[derive(Debug, PartialEq, Eq)]
enum WrittenDigest {
    Sha1([u8; 20]),
    Sha256([u8; 32]),
}

impl WrittenDigest {
    fn parse(text: &str) -> Option<WrittenDigest> {
        let (algorithm, value) = text.trim().split_once(':')?;
        // Some write `sha-256`.
        match algorithm.to_ascii_lowercase().replace('-', "").as_str() {
            "sha1" => value_of(value).map(WrittenDigest::Sha1),
            "sha256" => value_of(value).map(WrittenDigest::Sha256),
            _ => None,
        }
    }

    fn is_of(&self, bytes: &[u8]) -> bool {
        match self {
            WrittenDigest::Sha1(value) => sha1::Sha1::digest(bytes)[..] == value[..],
            WrittenDigest::Sha256(value) => sha2::Sha256::digest(bytes)[..] == value[..],
        }
    }
}

fn value_of<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let upper = text.trim_end_matches('=').to_ascii_uppercase();
    let bytes = if upper.len() == 2 * BYTES {
        data_encoding::HEXUPPER.decode(upper.as_bytes())
    } else {
        data_encoding::BASE32_NOPAD.decode(upper.as_bytes())
    };
    bytes.ok()?.try_into().ok()
}

/// Compares a record that holds this response with the digests that it names.
pub(super) fn check(record: &WarcRecord, response: &HttpResponse) -> Result<(), Complaint> {
    let wrong = |what| {
        let uri = record.target_uri().unwrap_or_default().to_string();
        Err(Complaint::WrongDigest { what, uri })
    };
    let named = |field: &str| record.headers.get(field).and_then(WrittenDigest::parse);
    if named("WARC-Block-Digest").is_some_and(|digest| !digest.is_of(&record.block)) {
        return wrong("block");
    }
    // What was cut off, or stands in other records, may have been digested too.
    let is_part =
        record.headers.get("WARC-Truncated").is_some() || record.headers.get("WARC-Segment-Number").is_some();
    if is_part {
        return Ok(());
    }
    let is_payload = |digest: &WrittenDigest| {
        // Stages that are the same bytes are digested once.
        let [recorded, entity, body] = [&response.recorded, &response.entity, &response.body];
        digest.is_of(recorded)
            || (entity != recorded && digest.is_of(entity))
            || (body != entity && digest.is_of(body))
    };
    match named("WARC-Payload-Digest") {
        Some(digest) if !is_payload(&digest) => wrong("payload"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Records, to_exchange};
    use super::*;
    use std::io::Write;

    #[test]
    fn values_as_writers_write_them() {
        let check = |text: &str, bytes: &[u8], want: Option<bool>| {
            let is_of = WrittenDigest::parse(text).map(|digest| digest.is_of(bytes));
            assert_eq!(is_of, want, "{text}");
        };
        check("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", b"", Some(true));
        check(" SHA-1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj ", b"", Some(true));
        check("sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", b"", Some(true));
        check("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", b"x", Some(false));
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-4's example.
        check(&format!("sha256:{sha256}"), b"abc", Some(true));
        check("sha-256:XJ4BNP4PAHH6UQKBIDPF3LRCEOYAGYNDSYLXVHFUCD7WD4QACWWQ====", b"abc", Some(true));
        check(&format!("sha256:{sha256}"), b"abd", Some(false));
        check("md5:d41d8cd98f00b204e9800998ecf8427e", b"x", None);
        check("sha1:tooshort", b"x", None);
        check("sha1:", b"x", None);
        check("3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", b"x", None);
    }

    /// Imports a response with these header fields; what became of it.
    #[track_caller]
    fn check_record(fields: &str, head: &str, body: &[u8], want: Result<(), &str>) {
        let block = [b"HTTP/1.1 200 OK\r\n", head.as_bytes(), b"\r\n", body].concat();
        let header = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://h/\r\n{fields}Content-Length: {}\r\n\r\n",
            block.len()
        );
        let file = [header.as_bytes(), &block, b"\r\n\r\n"].concat();
        let record = Records::new(&file[..]).next().unwrap().unwrap();
        let came = to_exchange(record).map(|exchange| drop(exchange.unwrap())).map_err(|c| c.to_string());
        assert_eq!(came, want.map_err(|what| what.to_string()), "{fields}{head}");
    }

    fn sha1(bytes: &[u8]) -> String {
        crate::pages::PayloadDigest::of(bytes).to_string()
    }

    #[test]
    fn a_record_with_a_wrong_digest_is_left_out() {
        let block = sha1(b"HTTP/1.1 200 OK\r\n\r\ntext");
        check_record(&format!("WARC-Block-Digest: {block}\r\n"), "", b"text", Ok(()));
        let wrong = Err("the digest of the block of http://h/ does not fit it; skipped");
        check_record(&format!("WARC-Block-Digest: {block}\r\n"), "", b"tampered", wrong);
        let wrong = Err("the digest of the payload of http://h/ does not fit it; skipped");
        let payload = format!("WARC-Payload-Digest: {}\r\n", sha1(b"text"));
        check_record(&payload, "", b"text", Ok(()));
        check_record(&payload, "", b"tampered", wrong);
        check_record(&format!("{payload}WARC-Truncated: length\r\n"), "", b"te", Ok(()));
        check_record("WARC-Payload-Digest: sha1:nonsense\r\nWARC-Block-Digest: md5:0\r\n", "", b"x", Ok(()));
    }

    #[test]
    fn a_payload_is_digested_with_or_without_its_codings() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"text").unwrap();
        let entity = gzip.finish().unwrap();
        let recorded = [format!("{:x}\r\n", entity.len()).as_bytes(), &entity, b"\r\n0\r\n\r\n"].concat();
        let head = "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n";
        for payload in [&recorded[..], &entity, b"text"] {
            check_record(&format!("WARC-Payload-Digest: {}\r\n", sha1(payload)), head, &recorded, Ok(()));
        }
        let wrong = Err("the digest of the payload of http://h/ does not fit it; skipped");
        check_record(&format!("WARC-Payload-Digest: {}\r\n", sha1(b"else")), head, &recorded, wrong);
    }
}
