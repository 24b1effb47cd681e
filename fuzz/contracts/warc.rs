//! Any bytes as another archiver's WARC file, as they are and inside one gzip member.
//!
//! Contract: reading ends, with a complaint for what cannot be read; an exchange that is made of a record is
//! one that our own archive can hold: it is written and read back with the same URL and body.

use farol_base::Seeded;
use farol_base::disk::Mem;
use farol_store::pages::warc::{Records, to_exchange};
use farol_store::pages::{Archive, ArchiveOptions, encode};
use std::io::Write;
use std::sync::Arc;

pub fn check(bytes: &[u8]) {
    read(bytes);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    if let Ok(packed) = gzip.write_all(bytes).and_then(|()| gzip.finish()) {
        read(&packed);
    }
}

fn read(file: &[u8]) {
    for record in Records::new(file).flatten() {
        let Ok(Some(exchange)) = to_exchange(record) else { continue };
        let (mut archive, _) =
            Archive::open(Arc::new(Mem::new()), ArchiveOptions::default()).expect("an empty folder");
        let encoded = encode(&exchange, &mut Seeded::new(1), 1);
        let at = archive.append(&[encoded]).expect("memory takes everything")[0];
        let back = archive.reader().read(at).expect("what was imported can be read");
        let back = back.exchange().expect("an exchange");
        assert_eq!((&back.url, &back.body), (&exchange.url, &exchange.body));
        assert_eq!((back.status, back.truncated), (exchange.status, exchange.truncated));
    }
}
