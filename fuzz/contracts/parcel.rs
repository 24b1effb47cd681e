//! Any bytes as what travels between agents, a part of a parcel above all: as they are, and packed as the product does.
//!
//! Contract: a batch is refused, or read with no more URLs and notes than it may have; a part is refused, or read; what was
//! read is written as something that reads the same; of what was read only URLs of its own host are taken, none of them
//! visited in the future; and a blob is its announced parts or is refused.

use super::wire::protocol::freight::{
    Freight, NOTES_MAX, pack_notes, pack_urls, read, unpack_freight,
};
use super::wire::protocol::urls::URLS_MAX;
use super::wire::protocol::parcel::{Envelope, PARTS_MAX, ParcelPart, PartsInBlob, pack, put_in_blob, unpack};
use farol_base::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const DAY: u64 = 24 * 3600;

pub fn check(bytes: &[u8]) {
    let mut packed = vec![1];
    zstd::stream::copy_encode(bytes, &mut packed, 1).expect("memory takes everything");
    for kind in 0..4 {
        batch(&[&[kind], &packed[..]].concat());
    }
    for bytes in [bytes, &packed] {
        let _ = read(bytes);
        let Ok(envelope) = unpack(bytes) else { continue };
        let written = pack(&envelope).expect("what was read can be written");
        assert_eq!(unpack(&written).expect("what was written can be read"), envelope);
        match envelope {
            Envelope::Part(read) => part(read, &written),
            Envelope::Blob(announced) => blob(&announced, bytes),
        }
    }
}

fn batch(bytes: &[u8]) {
    match unpack_freight(bytes) {
        Ok(Freight::Urls(body)) => {
            assert!(body.hosts.iter().map(|host| host.urls.len()).sum::<usize>() <= URLS_MAX);
            let written = pack_urls(&body).expect("what was read can be written");
            assert_eq!(unpack_freight(&written).expect("what was written can be read"), Freight::Urls(body));
        }
        Ok(Freight::Notes(notes)) => {
            assert!(notes.notes.len() <= NOTES_MAX);
            let written = pack_notes(notes.incarnation, &notes.notes).expect("what was read can be written");
            assert_eq!(unpack_freight(&written).expect("what was written can be read"), Freight::Notes(notes));
        }
        Ok(Freight::Parcel(_)) | Err(_) => {}
    }
}

fn part(part: ParcelPart, written: &[u8]) {
    let Ok(host) = part.host() else { return };
    assert!(part.part < PARTS_MAX && part.of.is_none_or(|of| part.part < of));
    // Alone in a blob it is what it was.
    let mut bytes = Vec::new();
    put_in_blob(&mut bytes, written);
    let announced = PartsInBlob {
        parcel: part.parcel,
        host: part.host.clone(),
        first: part.part,
        count: 1,
        bytes: bytes.len() as u64,
        crc: crc32fast::hash(&bytes),
    };
    let parts = announced.parts(&bytes).expect("it is whole").map(|part| part.expect("so is its part"));
    assert_eq!(parts.collect::<Vec<_>>(), std::slice::from_ref(&part));
    for url in part.urls {
        let Some(known) = url.read(&host, NOW) else { continue };
        assert_eq!((known.url.host(), known.record.position), (host.clone(), None));
        assert!(!known.record.is_visited() || known.record.last_visit.as_secs() <= NOW.as_secs() + DAY);
    }
}

fn blob(announced: &PartsInBlob, bytes: &[u8]) {
    if announced.host().is_err() {
        assert!(announced.name().is_err());
        return;
    }
    let right = PartsInBlob { bytes: bytes.len() as u64, crc: crc32fast::hash(bytes), ..announced.clone() };
    for announced in [announced, &right] {
        if let Ok(parts) = announced.parts(bytes) {
            assert!(parts.count() <= announced.count as usize + 1);
        }
    }
}
