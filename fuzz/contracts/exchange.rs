//! An exchange made of any bytes: written to an archive, read back from it, and read as a stranger would read
//! it.
//!
//! Contract: URL, time, address, body and head come back as they were; the file is one that any gzip and WARC
//! reader opens; nothing in a head, a protocol or metadata adds a record or a line.

use super::framing;
use farol_base::disk::{Disk, Mem};
use farol_base::{CanonicalUrl, Seeded, Timestamp};
use farol_store::pages::warc::{Kind, Records};
use farol_store::pages::{Archive, ArchiveOptions, Encoder, Exchange};
use std::io::Read;
use std::sync::Arc;

pub fn check(bytes: &[u8]) {
    let pieces = framing::pieces(bytes);
    let piece = |at: usize| pieces.get(at).copied().unwrap_or(&[]);
    let text = |at: usize| String::from_utf8_lossy(piece(at)).into_owned();
    let Ok(url) = CanonicalUrl::parse(&format!("http://h/{}", text(0))) else { return };
    let number = u64::from(piece(1).first().copied().unwrap_or(0));
    // A head as `fetch` writes it: lines without control characters.
    let line: String = text(2).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let exchange = Exchange {
        url,
        fetched: Timestamp::from_millis(1_700_000_000_000 + number),
        address: (number % 3 > 0).then(|| [127, 0, 0, number as u8].into()),
        status: 200,
        request_head: piece(3).to_vec(),
        response_head: format!("HTTP/1.1 200 {line}\r\nX-Any: {line}\r\n\r\n").into_bytes(),
        body: piece(4).to_vec().into(),
        truncated: None,
        protocol: text(5),
        revisit_of: None,
        metadata: vec![(text(5), text(2)), (text(2), text(5))],
    };
    let disk = Mem::new();
    let encoded = Encoder::new(number as u32 % 10).encode(&exchange, &mut Seeded::new(1));
    let (mut archive, _) =
        Archive::open(Arc::new(disk.clone()), ArchiveOptions::default()).expect("an empty folder");
    let at = archive.append(&[encoded]).expect("memory takes everything")[0];
    let back = archive.reader().read(at).expect("what was written can be read");
    let back = back.exchange().expect("an exchange");
    assert_eq!((&back.url, back.fetched, back.address), (&exchange.url, exchange.fetched, exchange.address));
    assert_eq!(
        (&back.body, &back.response_head, back.status),
        (&exchange.body, &exchange.response_head, 200)
    );
    assert!(back.metadata.len() <= 2 && !back.protocol.contains(['\r', '\n']));
    read_as_strangers_do(&disk, &exchange);
}

fn read_as_strangers_do(disk: &Mem, exchange: &Exchange) {
    let name =
        disk.list().expect("memory").into_iter().find(|name| name.ends_with(".warc.gz")).expect("a file");
    let file = framing::file(disk, &name);
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(&file[..]).read_to_end(&mut plain).expect("gzip that anybody reads");
    let records: Vec<_> = Records::new(&file[..]).map(|record| record.expect("a whole record")).collect();
    let kinds: Vec<Kind> = records.iter().map(|record| record.kind).collect();
    let mut expected = vec![Kind::Warcinfo, Kind::Metadata, Kind::Request, Kind::Response];
    expected.retain(|kind| *kind != Kind::Request || !exchange.request_head.is_empty());
    assert_eq!(kinds, expected);
    assert!(records.last().is_some_and(|record| record.block.ends_with(&exchange.body)));
}
