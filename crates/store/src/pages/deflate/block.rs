//! Blocks with codes of their own: which symbols there are, what a code costs, how it is written (RFC 1951,
//! section 3.2.7).
//!
//! Does not look for repetitions; see [`super`].

use super::prefix::{Code, codes, lengths};
use std::array;

/// The symbol that ends a block.
const END: usize = 256;

/// Longest code of a literal or length. With this, a length (14 + 5 bits), a distance (15 + 13 bits) and the
/// 7 bits that wait for their byte make 54 and fit in a word.
const LITLEN_BITS_MAX: usize = 14;
const DISTANCE_BITS_MAX: usize = 15;
const RUN_BITS_MAX: usize = 7;

/// Shortest length that each length symbol stands for, and how many bits tell which.
#[rustfmt::skip]
const LENGTHS: [(u16, u8); 29] = [
    (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 1), (13, 1), (15, 1), (17, 1),
    (19, 2), (23, 2), (27, 2), (31, 2), (35, 3), (43, 3), (51, 3), (59, 3), (67, 4), (83, 4), (99, 4),
    (115, 4), (131, 5), (163, 5), (195, 5), (227, 5), (258, 0),
];

/// The same for distances; the last two stand for nothing.
#[rustfmt::skip]
const DISTANCES: [(u16, u8); 32] = [
    (1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (7, 1), (9, 2), (13, 2), (17, 3), (25, 3), (33, 4), (49, 4),
    (65, 5), (97, 5), (129, 6), (193, 6), (257, 7), (385, 7), (513, 8), (769, 8), (1025, 9), (1537, 9),
    (2049, 10), (3073, 10), (4097, 11), (6145, 11), (8193, 12), (12289, 12), (16385, 13), (24577, 13), (0, 0),
    (0, 0),
];

/// The place of each length in [`LENGTHS`], from 3 on.
static LENGTH_PLACES: [u8; 256] = {
    let mut places = [0; 256];
    let mut place = 0;
    while place < 29 {
        let (first, bits) = LENGTHS[place];
        let mut length = first as usize;
        while length < first as usize + (1 << bits) && length < 259 {
            places[length - 3] = place as u8;
            length += 1;
        }
        place += 1;
    }
    places
};

/// A literal, or a repetition, ready to be written. From the lowest bit on:
///
/// ```text
///  9  the literal, or 256 + length − 3
///  5  symbol of the distance; NO_DISTANCE of a literal
/// 13  which of the symbol's distances
/// ```
pub type Token = u32;

const NO_DISTANCE: u32 = 31;

/// How often each symbol occurs in a block.
#[derive(Clone, Debug)]
pub struct SymbolCounts {
    litlen: [u32; 288],
    distance: [u32; 32],
}

impl Default for SymbolCounts {
    fn default() -> SymbolCounts {
        SymbolCounts { litlen: [0; 288], distance: [0; 32] }
    }
}

impl SymbolCounts {
    #[inline(always)]
    pub fn literal(&mut self, byte: u8) -> Token {
        self.litlen[usize::from(byte)] += 1;
        u32::from(byte) | NO_DISTANCE << 9
    }

    /// A repetition of 3 to 258 bytes, from 1 to 32,768 bytes back.
    #[inline(always)]
    pub fn repetition(&mut self, length: usize, distance: usize) -> Token {
        let place = LENGTH_PLACES[(length - 3) & 0xFF];
        self.litlen[257 + usize::from(place & 31)] += 1;
        let far = (distance - 1) as u32;
        let symbol = if far < 4 {
            far
        } else {
            // Two symbols for each power of two.
            let log = far.ilog2();
            (2 * log + (far >> (log - 1) & 1)) & 31
        };
        self.distance[symbol as usize] += 1;
        let beyond = distance as u32 - u32::from(DISTANCES[symbol as usize].0);
        (256 + length as u32 - 3) | symbol << 9 | beyond << 14
    }
}

/// Codes for a block, with the words that tell a reader about them.
#[derive(Clone, Debug)]
pub struct Codes {
    litlen: [u8; 288],
    distance: [u8; 32],
    /// What stands between the block's first three bits and its symbols.
    told: Bits,
    /// Code of a token's first part, then its length from bit 24 on; a repetition's code has the bits in it
    /// that tell its length.
    first: [u32; 512],
    /// Code of a distance, its length from bit 16 on, and from bit 24 on its length with the bits that follow
    /// it.
    second: [u32; 32],
    end: Code,
}

impl Codes {
    /// The best codes for a block.
    pub fn best(counts: &SymbolCounts) -> Codes {
        let mut counts = counts.clone();
        counts.litlen[END] = 1;
        let litlen = lengths(&counts.litlen, LITLEN_BITS_MAX);
        let distance = lengths(&counts.distance, DISTANCE_BITS_MAX);
        let told = told(&litlen, &distance);
        let (lit, dist) = (codes(&litlen), codes(&distance));
        let first = array::from_fn(|at| match at {
            0..256 => lit[at].bits | lit[at].len << 24,
            _ => {
                let place = usize::from(LENGTH_PLACES[at - 256]);
                let (shortest, more) = LENGTHS[place];
                let Code { bits, len } = lit[257 + place];
                let beyond = at as u32 - 256 + 3 - u32::from(shortest);
                bits | beyond << len | (len + u32::from(more)) << 24
            }
        });
        let second = array::from_fn(|at| {
            let Code { bits, len } = dist[at];
            bits | len << 16 | (len + u32::from(DISTANCES[at].1)) << 24
        });
        Codes { litlen, distance, told, first, second, end: lit[END] }
    }

    /// Codes for texts like the one that was counted, in which every one of these literals and all lengths
    /// and distances may occur too.
    pub fn common(counts: &SymbolCounts, literals: impl Iterator<Item = u8>) -> Codes {
        let mut counts = counts.clone();
        for literal in literals {
            let count = &mut counts.litlen[usize::from(literal)];
            *count = 4 * *count + 1;
        }
        counts.litlen[257..286].iter_mut().for_each(|count| *count = 4 * *count + 1);
        counts.distance[..30].iter_mut().for_each(|count| *count = 4 * *count + 1);
        Codes::best(&counts)
    }

    /// Bits that a block takes with these codes; `None` where it has a symbol without a code.
    pub fn cost(&self, counts: &SymbolCounts) -> Option<usize> {
        let mut bits = 3 + self.told.len() + usize::from(self.litlen[END]);
        for (symbol, (count, len)) in counts.litlen.iter().zip(&self.litlen).enumerate() {
            let more = if symbol > END && symbol < 286 { LENGTHS[symbol - 257].1 } else { 0 };
            bits += *count as usize * usize::from(len + more);
            if *count > 0 && *len == 0 {
                return None;
            }
        }
        for ((count, len), (_, more)) in counts.distance.iter().zip(&self.distance).zip(&DISTANCES) {
            bits += *count as usize * usize::from(len + more);
            if *count > 0 && *len == 0 {
                return None;
            }
        }
        Some(bits)
    }

    /// Writes a block of this many bits, as [`Codes::cost`] tells.
    pub fn write(&self, tokens: &[Token], cost: usize, is_last: bool, out: &mut Bits) {
        out.write(cost, |pen| {
            pen.add(u64::from(is_last) | 2 << 1, 3);
            self.told.bytes.iter().for_each(|byte| pen.add(u64::from(*byte), 8));
            pen.add(self.told.waiting, self.told.count);
            for token in tokens {
                let first = self.first[(token & 0x1FF) as usize];
                let second = self.second[(token >> 9 & 31) as usize];
                let len = first >> 24;
                let rest = u64::from(second & 0x7FFF) | u64::from(token >> 14) << (second >> 16 & 15);
                pen.add(u64::from(first & 0xFF_FFFF) | rest << (len & 31), len + (second >> 24));
            }
            pen.add(u64::from(self.end.bits), self.end.len);
        });
    }
}

/// Writes the lengths of both codes, which themselves are written in a third code.
fn told(litlen: &[u8; 288], distance: &[u8; 32]) -> Bits {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let used = |lens: &[u8]| lens.iter().rposition(|len| *len > 0).map_or(0, |last| last + 1);
    let (literals, distances) = (used(litlen).max(257), used(distance).max(1));
    let mut lens = [0u8; 320];
    lens[..literals].copy_from_slice(&litlen[..literals]);
    lens[literals..literals + distances].copy_from_slice(&distance[..distances]);
    let mut runs = Runs { list: [(0, 0); 320], used: 0, counts: [0; 19] };
    let mut rest = &lens[..literals + distances];
    while let Some(len) = rest.first() {
        let same = rest.iter().take_while(|next| *next == len).count();
        runs.push(*len, same);
        rest = &rest[same..];
    }
    let run_lens = lengths(&runs.counts, RUN_BITS_MAX);
    let run_codes = codes(&run_lens);
    let named = ORDER.iter().rposition(|run| run_lens[*run] > 0).map_or(4, |last| (last + 1).max(4));
    let mut out = Bits::default();
    // 14 bits, 19 × 3, and at most 7 + 7 for each length.
    out.write(14 + 57 + 14 * runs.used, |pen| {
        pen.add((literals as u64 - 257) | (distances as u64 - 1) << 5 | (named as u64 - 4) << 10, 14);
        ORDER[..named].iter().for_each(|run| pen.add(u64::from(run_lens[*run]), 3));
        for (run, many) in &runs.list[..runs.used] {
            let Code { bits, len } = run_codes[usize::from(*run)];
            pen.add(u64::from(bits) | u64::from(*many) << len, len + Runs::more(*run));
        }
    });
    out
}

/// Lengths of codes, equal neighbours together.
struct Runs {
    /// A length, or 16 to 18 for a repetition, and how often, less the least.
    list: [(u8, u8); 320],
    used: usize,
    counts: [u32; 19],
}

impl Runs {
    /// Bits that tell how often.
    fn more(run: u8) -> u32 {
        [2, 3, 7].get(usize::from(run).wrapping_sub(16)).copied().unwrap_or(0)
    }

    fn push(&mut self, len: u8, mut same: usize) {
        // A length is said once before it is repeated; zeros are not.
        if len > 0 {
            self.one(len, 0);
            same -= 1;
        }
        while same >= 3 {
            let (run, least, most) = match (len, same) {
                (0, 11..) => (18, 11, 138),
                (0, _) => (17, 3, 10),
                _ => (16, 3, 6),
            };
            let taken = same.min(most);
            self.one(run, (taken - least) as u8);
            same -= taken;
        }
        (0..same).for_each(|_| self.one(len, 0));
    }

    fn one(&mut self, run: u8, many: u8) {
        self.list[self.used] = (run, many);
        self.used += 1;
        self.counts[usize::from(run)] += 1;
    }
}

/// Bytes, and the bits that do not fill one yet.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    waiting: u64,
    /// At most 7.
    count: u32,
}

impl Bits {
    /// Goes on behind these bytes.
    pub fn after(bytes: Vec<u8>) -> Bits {
        Bits { bytes, waiting: 0, count: 0 }
    }

    fn len(&self) -> usize {
        8 * self.bytes.len() + self.count as usize
    }

    /// Writes so many bits at most.
    fn write(&mut self, bits_max: usize, what: impl FnOnce(&mut Pen<'_>)) {
        let start = self.bytes.len();
        // Words are written whole, so there must be room for one behind the last byte.
        self.bytes.resize(start + (self.count as usize + bits_max) / 8 + 8, 0);
        let room = &mut self.bytes[start..];
        let mut pen = Pen { room, at: 0, waiting: self.waiting, count: self.count };
        what(&mut pen);
        let at = pen.at;
        (self.waiting, self.count) = (pen.waiting, pen.count);
        self.bytes.truncate(start + at);
    }

    /// Writes bytes as they are (RFC 1951, section 3.2.4).
    pub fn store(&mut self, data: &[u8], is_last: bool) {
        let mut rest = data;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(usize::from(u16::MAX)));
            self.write(3, |pen| pen.add(u64::from(is_last && after.is_empty()), 3));
            self.fill_byte();
            let len = piece.len() as u16;
            self.bytes.extend_from_slice(&len.to_le_bytes());
            self.bytes.extend_from_slice(&(!len).to_le_bytes());
            self.bytes.extend_from_slice(piece);
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Bits that [`Bits::store`] takes at most.
    pub fn cost_of_storing(bytes: usize) -> usize {
        8 * (bytes + 5 * bytes.div_ceil(usize::from(u16::MAX)).max(1)) + 8
    }

    /// Fills up the last byte with zeros.
    pub fn fill_byte(&mut self) {
        if self.count > 0 {
            self.bytes.push(self.waiting as u8);
        }
        (self.waiting, self.count) = (0, 0);
    }
}

struct Pen<'a> {
    room: &'a mut [u8],
    at: usize,
    waiting: u64,
    count: u32,
}

impl Pen<'_> {
    /// Writes up to 56 bits.
    #[inline(always)]
    fn add(&mut self, bits: u64, len: u32) {
        self.waiting |= bits << self.count;
        self.count += len;
        self.room[self.at..self.at + 8].copy_from_slice(&self.waiting.to_le_bytes());
        self.at += (self.count / 8) as usize;
        self.waiting >>= self.count & !7;
        self.count &= 7;
    }
}
