//! Puts bytes into the frames of our files, with right checksums, so that what stands behind them is reached.
//!
//! Written after `docs/formats`, not with the product's writers: those would not write what no writer writes.

use farol_base::codec::put_varint;
use farol_base::disk::{Disk, Mem};

/// Name of the only segment of a URL store's log.
pub const LOG: &str = "log-000000000001";

/// Cuts bytes into pieces: two bytes of length stand before each; the last has what is left.
pub fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Appends the checksum of all that is there.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// A file of a folder, whole.
pub fn file(disk: &Mem, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; disk.len(name).ok().flatten().unwrap_or(0) as usize];
    let _ = disk.read_at(name, 0, &mut bytes);
    bytes
}

/// Writes a file into a folder.
pub fn put(disk: &Mem, name: &str, bytes: &[u8]) {
    disk.append(name, bytes).expect("memory takes everything");
}

/// The list of a URL store: its lines with their checksum.
pub fn manifest(lines: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(String::from_utf8_lossy(lines).as_bytes());
    [lines, format!("crc {crc:08x}\n").as_bytes()].concat()
}

/// A log with these batches, numbered as they come.
pub fn log<'a>(batches: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let head = [b"FAROLLOG".as_slice(), &2u32.to_le_bytes(), &1u64.to_le_bytes(), &[0; 12]].concat();
    let mut out = sealed(head);
    for (seqno, operations) in (1u64..).zip(batches) {
        let body = [&seqno.to_le_bytes(), operations].concat();
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(crc32fast::hash(&body).to_le_bytes());
        out.extend(body);
    }
    out
}

/// As above, with last numbers of senders in the segment's header.
pub fn log_with_numbers<'a>(numbers: &[u8], batches: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let old = log(batches);
    let (len, zeros) = ((numbers.len() as u32).to_le_bytes(), [0; 12]);
    let head = [b"FAROLLOG".as_slice(), &3u32.to_le_bytes(), &1u64.to_le_bytes(), &zeros, &len].concat();
    [sealed(head), sealed(numbers.to_vec()), old[36..].to_vec()].concat()
}

/// A block of a URL store's file: lengths, checksum, compressed bytes.
pub fn block(raw: &[u8]) -> Vec<u8> {
    let stored = zstd::bulk::compress(raw, 1).expect("memory takes everything");
    let head = [raw.len() as u32, stored.len() as u32, crc32fast::hash(&stored)].map(u32::to_le_bytes);
    [head.as_flattened(), &stored].concat()
}

/// The file of bucket 0 in generation 1: `totals` begin its footer, `page` is its directory.
pub fn bucket(totals: &[u8], page: &[u8], blocks: &[&[u8]]) -> Vec<u8> {
    // Version 1, number 0; generation 1, first hash 0, up to batch 0.
    let (narrow, wide) = ([1u32, 0].map(u32::to_le_bytes), [1u64, 0, 0].map(u64::to_le_bytes));
    let mut out = sealed([b"FAROLBLK", narrow.as_flattened(), wide.as_flattened()].concat());
    let mut footer = totals.to_vec();
    put_varint(&mut footer, blocks.len() as u64 + 1);
    for raw in blocks {
        let framed = block(raw);
        put_varint(&mut footer, framed.len() as u64);
        out.extend(framed);
    }
    put_varint(&mut footer, 1);
    footer.extend(0u64.to_le_bytes());
    put_varint(&mut footer, out.len() as u64);
    out.extend(block(page));
    let footer_at = (out.len() as u64).to_le_bytes();
    out.extend(block(&footer));
    out.extend(sealed(footer_at.to_vec()));
    out.extend(b"FAROLEND");
    out
}

/// A level-0 file of one run: each piece is the first hash of a block, in eight bytes, and the block.
pub fn run(pieces: &[&[u8]]) -> Vec<u8> {
    let (mut index, mut blocks) = (Vec::new(), Vec::new());
    for piece in pieces {
        let (first, raw) = piece.split_at(piece.len().min(8));
        index.extend(first.iter().copied().chain([0; 8]).take(8));
        index.extend((blocks.len() as u64).to_le_bytes());
        blocks.extend(block(raw));
    }
    let (count, bytes) = ((pieces.len() as u32).to_le_bytes(), (blocks.len() as u64).to_le_bytes());
    let head = sealed([b"FRN2".as_slice(), &1u64.to_le_bytes(), &count, &bytes].concat());
    [head, sealed(index), blocks].concat()
}
