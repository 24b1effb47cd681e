//! WARC files as the world writes them, and as it breaks them.

use super::*;
use proptest::prelude::*;
use std::io::{BufReader, Write};

fn record(number: usize) -> Vec<u8> {
    let block = format!("block {number} ").repeat(number * 50 + 1);
    let header = format!(
        "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://h/{number}\r\nContent-Length: {}\r\n\r\n",
        block.len()
    );
    [header.as_bytes(), block.as_bytes(), b"\r\n\r\n"].concat()
}

fn records(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(record).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Reads a file with buffers of any size, and says which records came (`0 1 2`), with `!` for each complaint.
#[track_caller]
fn check(file: &[u8], want: &str) {
    for buffer_bytes in [1, 7, 8192] {
        let records = Records::new(BufReader::with_capacity(buffer_bytes, file));
        let told: Vec<String> = records
            .take(1000)
            .map(|record| match record {
                Ok(record) => {
                    let uri = record.target_uri().unwrap_or("http://h/?").to_string();
                    uri.rsplit('/').next().unwrap().to_string()
                }
                Err(_) => "!".to_string(),
            })
            .collect();
        assert_eq!(told.join(" "), want, "with a buffer of {buffer_bytes}");
    }
}

#[test]
fn every_packing_is_seen() {
    let all = records(4);
    check(&all.concat(), "0 1 2 3");
    check(&all.iter().flat_map(|record| gzip(record)).collect::<Vec<u8>>(), "0 1 2 3");
    check(&gzip(&all.concat()), "0 1 2 3"); // One stream for all.
    check(&all.concat().chunks(100).flat_map(gzip).collect::<Vec<u8>>(), "0 1 2 3"); // Members cut anywhere.
    check(&all.iter().flat_map(|record| zstd(record)).collect::<Vec<u8>>(), "0 1 2 3");
    check(&zstd(&all.concat()), "0 1 2 3");
    check(b"", "");
    check(b"\r\n\r\n", "");
}

#[test]
fn zstd_with_a_dictionary() {
    let all = records(4);
    let dictionary = all.concat();
    let packed: Vec<u8> = all
        .iter()
        .flat_map(|record| {
            let mut encoder =
                zstd::stream::write::Encoder::with_dictionary(Vec::new(), 3, &dictionary).unwrap();
            encoder.write_all(record).unwrap();
            encoder.finish().unwrap()
        })
        .collect();
    for frame in [dictionary.clone(), zstd(&dictionary)] {
        let head = [[0x5d, 0x2a, 0x4d, 0x18], (frame.len() as u32).to_le_bytes()].concat();
        check(&[head, frame, packed.clone()].concat(), "0 1 2 3");
    }
    check(&[0x5d, 0x2a, 0x4d, 0x18, 255, 255, 255, 255, 1, 2, 3], "!"); // It claims 4 GiB.
}

#[test]
fn sloppy_records_are_read() {
    check(b"WARC/0.17\nwarc-type:response\nContent-length:  3\n\nabc\n\n", "?");
    check(b"WARC/1.1\r\nX: a\r\n b\r\nno colon\r\nContent-Length: 0\r\n\r\n\r\n\r\n", "?");
    check(b"\n\nWARC/1.0\r\nContent-Length: 1\r\n\r\nx", "?"); // No empty lines after the last one.
    check(b"WARC/1.0\r\nContent-Length: 1\r\n\r\nxWARC/1.0\r\nContent-Length: 1\r\n\r\ny", "? ?"); // Nor between two.
    check(b"WARC/1.0\r\nWARC-Target-URI: <http://h/z>\r\nContent-Length: 0\r\n\r\n", "z");
}

#[test]
fn bad_records_are_skipped_with_one_complaint() {
    let [a, b] = [record(1), record(2)];
    check(&[&a, b"some\nlines of garbage\n".as_slice(), &b].concat(), "1 ! 2");
    check(&[&a, b"WARC/1.0\r\nWARC-Type: x\r\n\r\n<p>\r\n".as_slice(), &b].concat(), "1 ! 2"); // No length.
    check(&[&a, b"WARC/1.0\r\nContent-Length: -5\r\n\r\n\r\n".as_slice(), &b].concat(), "1 ! 2");
    check(
        &[&a, b"WARC/1.0\r\nContent-Length: 3\r\n\r\nlonger than told\r\n".as_slice(), &b].concat(),
        "1 ? ! 2",
    );
    check(&[&a, b"WARC/1.0\r\n".as_slice(), &vec![b'h'; 200_000], b"\r\n", &b].concat(), "1 ! 2"); // Endless header.
    check(&[&a, b"WARC/1.0\r\nContent-Length: 99999999999\r\n\r\nx".as_slice()].concat(), "1 !");
    check(&[&a, &b[..b.len() - 20]].concat(), "1 !"); // The file ends early.
    check(&[&a, b"WARC/1.0\r\nContent-Le".as_slice()].concat(), "1 !");
    check(b"<html>not a WARC file", "!");
}

#[test]
fn damaged_members_are_skipped_with_one_complaint() {
    for pack in [gzip, zstd] {
        let all: Vec<Vec<u8>> = records(4).iter().map(|record| pack(record)).collect();
        let mut second = all[1].clone();
        let middle = second.len() / 2;
        second[middle..middle + 4].fill(0xAA);
        let file = [&all[0], &second, &all[2], &all[3]].map(Vec::as_slice).concat();
        let told = Records::new(&file[..]).map(|record| record.is_ok()).collect::<Vec<bool>>();
        // How far the damage makes the decompressor run is not ours to say, but the end comes back.
        assert!(told.contains(&false) && told.last() == Some(&true) && told.len() >= 3, "{told:?}");
        check(&[&all[0], &all[2][..all[2].len() - 3]].map(|part| part.to_vec()).concat(), "0 !");
        check(&[&all[0], b"junk between".as_slice(), &all[2]].concat(), "0 ! 2");
    }
    let mut wrong_checksum = gzip(&record(1));
    let at = wrong_checksum.len() - 6;
    wrong_checksum[at] ^= 1;
    check(&[gzip(&record(0)), wrong_checksum, gzip(&record(2))].concat(), "0 ! 2");
}

#[test]
fn a_record_over_the_limit_is_skipped_whole() {
    let head = format!("WARC/1.0\r\nContent-Length: {}\r\n\r\n", RECORD_BYTES_MAX + 1);
    let huge = [head.as_bytes(), &vec![b'\n'; RECORD_BYTES_MAX + 1], b"\r\n\r\n"].concat();
    let file = [gzip(&huge), gzip(&record(2))].concat();
    let told: Vec<_> = Records::new(&file[..]).collect();
    assert!(matches!(told[..], [Err(Complaint::TooLarge { offset: 0, .. }), Ok(_)]), "{}", told.len());
}

proptest! {
    #[test]
    fn no_bytes_break_it(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        start in proptest::sample::select(vec![
            b"".to_vec(), vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff], vec![0x28, 0xb5, 0x2f, 0xfd],
            vec![0x5d, 0x2a, 0x4d, 0x18, 9, 0, 0, 0], b"WARC/1.0\r\nContent-Length: 9\r\n".to_vec(),
        ]),
    ) {
        bytes.splice(0..0, start);
        prop_assert!(Records::new(&bytes[..]).count() <= bytes.len());
    }

    #[test]
    fn flipped_bytes_never_lose_everything(at in 0usize..2000, flip in 1u8..=255, packing in 0usize..3) {
        let pack = |record: &Vec<u8>| [record.clone(), gzip(record), zstd(record)][packing].clone();
        let parts: Vec<Vec<u8>> = records(5).iter().map(pack).collect();
        let mut file = parts.concat();
        let at = at % file.len();
        file[at] ^= flip;
        let good = Records::new(&file[..]).filter(|record| record.is_ok()).count();
        // A flip in the first bytes of all hides what the packing is; a flipped length may swallow what follows.
        prop_assert!(good >= 1 || at < parts[0].len());
    }
}
