//! Deflate for whole records, quickly (RFC 1951).
//!
//! A crawler packs each page once, with all of it at hand, and most archives are never read again: this
//! compressor gives a little of the size (4 % on pages of text) for a good part of the time that general ones
//! take. It remembers one place for each hash of five bytes, takes a repetition as soon as it sees one, and
//! writes blocks with codes of their own. A repetition of four bytes saves nothing in text, as its distance
//! takes the room of about four letters.
//!
//! Small records are nearly the same again and again: they share codes that were made from a typical one, so
//! that making them costs nothing.
//!
//! INVARIANT: what is written depends on the bytes alone, not on what was packed before.

mod block;
mod prefix;

use block::{Bits, Codes, SymbolCounts, Token};

/// Shortest repetition that is used.
const LENGTH_MIN: usize = 5;
const LENGTH_MAX: usize = 258;

/// Farthest repetition, by the standard.
const DISTANCE_MAX: usize = 32 << 10;

/// Bytes of a block: text of this length has codes of its own that fit it. 64 Ki tokens × 4 bytes = 256 KiB.
const BLOCK_BYTES: usize = 64 << 10;

/// Places that are remembered: 2^14 × 2 bytes = 32 KiB, and fewer for small records, as they must be
/// forgotten each time.
const PLACES_LOG: u32 = 14;
const PLACES_SMALL_LOG: u32 = 10;

/// Up to this size a record is small.
const SMALL_BYTES_MAX: usize = 1024;

/// A record like most of those that are small.
const TYPICAL: &str = "WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: <urn:uuid:2d7bd796-a62a-4534-be81-77f6bd234af4>\r\n\
    WARC-Date: 2026-11-16T01:56:03.311Z\r\nWARC-Target-URI: https://www.example.org/a/page/of-the.html\r\n\
    WARC-Concurrent-To: <urn:uuid:cf3bdee4-3de5-40db-8c47-c34b2ff04414>\r\nWARC-IP-Address: 192.0.2.35\r\n\
    WARC-Protocol: http/1.1\r\nContent-Type: application/http; msgtype=request\r\n\
    WARC-Block-Digest: sha1:WNAWBAWUR7CUPEPB5T5KBSBUXPX5LSWN\r\nContent-Length: 226\r\n\r\n\
    GET /a/page/of-the.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: farol/0.1.0 (+https://example.org/about)\r\n\
    Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.5\r\nAccept-Encoding: gzip, br, zstd\r\n\r\n\r\n\r\n";

/// Compresses records, one at a time.
pub struct Deflate {
    /// Where bytes with this hash were seen last, modulo 2^16. What is remembered is a hint: it is compared
    /// before it is used.
    places: Box<[u16; 1 << PLACES_LOG]>,
    tokens: Box<[Token; BLOCK_BYTES]>,
    /// Codes for small records.
    common: Codes,
}

impl Deflate {
    pub fn new() -> Deflate {
        let mut places = Box::new([0; 1 << PLACES_LOG]);
        let mut tokens = Box::new([0; BLOCK_BYTES]);
        let mut counts = SymbolCounts::default();
        find::<PLACES_SMALL_LOG>(TYPICAL.as_bytes(), 0, &mut places, &mut tokens, &mut counts);
        let literals = (b' '..=b'~').chain(*b"\r\n");
        Deflate { places, tokens, common: Codes::common(&counts, literals) }
    }

    /// Adds the compressed bytes.
    pub fn compress(&mut self, data: &[u8], out: &mut Vec<u8>) {
        let mut bits = Bits::after(std::mem::take(out));
        let is_small = data.len() <= SMALL_BYTES_MAX;
        let remembered = if is_small { 1 << PLACES_SMALL_LOG } else { 1 << PLACES_LOG };
        self.places[..remembered].fill(0);
        let mut start = 0;
        loop {
            let end = data.len().min(start + BLOCK_BYTES);
            let find = if is_small { find::<PLACES_SMALL_LOG> } else { find::<PLACES_LOG> };
            let mut counts = SymbolCounts::default();
            let used = find(&data[..end], start, &mut self.places, &mut self.tokens, &mut counts);
            let tokens = &self.tokens[..used];
            let is_last = end == data.len();
            let stored = Bits::cost_of_storing(end - start);
            let best;
            let (codes, cost) = match is_small.then(|| self.common.cost(&counts)).flatten() {
                Some(cost) => (&self.common, cost),
                None => {
                    best = Codes::best(&counts);
                    (&best, best.cost(&counts).unwrap_or(usize::MAX))
                }
            };
            match cost < stored {
                true => codes.write(tokens, cost, is_last, &mut bits),
                false => bits.store(&data[start..end], is_last),
            }
            start = end;
            if is_last {
                break;
            }
        }
        bits.fill_byte();
        *out = bits.bytes;
    }
}

/// Cuts the bytes from `start` on into literals and repetitions of anything before; tells how many they are.
fn find<const LOG: u32>(
    data: &[u8],
    start: usize,
    places: &mut [u16; 1 << PLACES_LOG],
    tokens: &mut [Token; BLOCK_BYTES],
    counts: &mut SymbolCounts,
) -> usize {
    let hash = |word: u64| {
        let hash = (word << (64 - 8 * LENGTH_MIN)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> (64 - LOG)) as usize
    };
    // There are never more tokens than bytes; the mask lets the compiler know.
    let place_of = |used: usize| used & (BLOCK_BYTES - 1);
    let (mut at, mut used) = (start, 0);
    while let (Some(here), Some(next)) = (word(data, at), word(data, at + 8)) {
        let place = &mut places[hash(here)];
        let distance = usize::from((at as u16).wrapping_sub(*place));
        *place = at as u16;
        // A place of the last 2^16 bytes, or 0 where nothing is known: never before the first byte.
        let from = at.saturating_sub(distance);
        let (Some(there), Some(after)) = (word(data, from), word(data, from + 8)) else { break };
        let (differ, differ_after) = (here ^ there, next ^ after);
        // Both are computed, as whether bytes repeat is a guess that a processor often gets wrong.
        let repeats = (differ << (64 - 8 * LENGTH_MIN) == 0) & (distance.wrapping_sub(1) < DISTANCE_MAX);
        tokens[place_of(used)] = if repeats {
            let (short, long) = (differ.trailing_zeros() / 8, 8 + differ_after.trailing_zeros() / 8);
            let mut length = if differ != 0 { short } else { long } as usize;
            if length == 16 {
                length += alike(data, from + 16, at + 16, LENGTH_MAX - 16);
            }
            at += length;
            if let Some(last) = word(data, at - 2) {
                places[hash(last)] = (at - 2) as u16;
            }
            counts.repetition(length, distance)
        } else {
            at += 1;
            counts.literal(here as u8)
        };
        used += 1;
    }
    for byte in &data[at..] {
        tokens[place_of(used)] = counts.literal(*byte);
        used += 1;
    }
    used
}

/// Eight bytes, the first one lowest.
#[inline(always)]
fn word(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

/// How many bytes are the same from here and from there on.
fn alike(data: &[u8], there: usize, here: usize, max: usize) -> usize {
    let there = data[there..].iter();
    data[here..].iter().take(max).zip(there).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};
    use proptest::prelude::*;
    use std::io::Read;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        flate2::read::DeflateDecoder::new(packed).read_to_end(&mut plain).unwrap();
        plain
    }

    /// Packs, reads with zlib's code, and tells the size.
    #[track_caller]
    fn check(data: &[u8]) -> usize {
        let mut packed = Vec::new();
        Deflate::new().compress(data, &mut packed);
        assert!(unpacked(&packed) == data, "{} bytes", data.len());
        packed.len()
    }

    #[test]
    fn sizes_around_every_limit() {
        let mut random = Seeded::new(1);
        for size in
            [0, 1, 4, 5, 15, 16, 17, 31, 1023, 1024, 1025, 32767, 32768, 32769, 65535, 65536, 65537, 200_000]
        {
            check(&vec![b'x'; size]);
            let noise: Vec<u8> = (0..size).map(|_| random.next_u64() as u8).collect();
            // Five bytes for each stored piece, and what ends the last one.
            assert!(check(&noise) <= size + 5 * (size / 65535 + size / BLOCK_BYTES + 1) + 1, "{size}");
            // Repeats at a distance just within reach, and just beyond.
            for distance in [32767, 32768, 32769, 65535, 65536, 65537] {
                let far: Vec<u8> =
                    noise.iter().cycle().take(size.min(distance)).chain(&noise).copied().collect();
                check(&far);
            }
        }
        assert!(check(&vec![b'x'; 200_000]) < 1000);
    }

    #[test]
    fn a_typical_record_shrinks_by_three_tenths() {
        let size = check(TYPICAL.as_bytes());
        assert!(size < TYPICAL.len() * 7 / 10, "{size} of {}", TYPICAL.len());
        // One with letters that the common codes do not know is packed as well.
        check(format!("{TYPICAL}ção\u{0}").as_bytes());
    }

    #[test]
    fn what_was_packed_before_does_not_matter() {
        let (mut first, mut again) = (Vec::new(), Vec::new());
        let text = "farol de santa marta ".repeat(300);
        let mut deflate = Deflate::new();
        deflate.compress(text.as_bytes(), &mut first);
        deflate.compress("santa marta de farol ".repeat(200).as_bytes(), &mut Vec::new());
        deflate.compress(text.as_bytes(), &mut again);
        assert_eq!(first, again);
    }

    proptest! {
        #[test]
        fn others_read_what_we_write(
            words in proptest::collection::vec("[a-zé]{1,9}", 1..40),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..3000),
            before in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let text = order.iter().map(|at| at.get(&words).as_str()).collect::<Vec<_>>().join(" ");
            let mut packed = before.clone();
            Deflate::new().compress(text.as_bytes(), &mut packed);
            prop_assert_eq!(&packed[..before.len()], &before[..]);
            prop_assert!(unpacked(&packed[before.len()..]) == text.as_bytes());
        }
    }
}
