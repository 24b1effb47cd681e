//! One gzip member at a time, in both directions (RFC 1952).
//!
//! WARC puts each record in a member of its own, and a member's first byte is a record's position. The usual
//! gzip readers hide where members begin; these two show it, and use their large tables again for the next
//! member. Writing has a whole record at hand, which our own compressor (level 1) and libdeflate (the others)
//! pack faster than any that must be ready for more; reading goes piece by piece.

use super::deflate::Deflate;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, BufRead};

/// What every member of ours begins with: deflate, no flags, no time, no hints, operating system unknown.
pub(super) const OUR_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Longest optional field of a member's header that is read; 64 KiB is all that the format can say.
const FIELD_BYTES_MAX: usize = 1 << 16;

/// Room that is kept from one member to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Writes members.
pub(super) struct Gzip {
    level: Level,
    /// The member's parts in one piece, as the compressor wants them.
    whole: Vec<u8>,
}

enum Level {
    /// Level 1.
    Quick(Box<Deflate>),
    Other(libdeflater::Compressor),
}

impl std::fmt::Debug for Gzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gzip").finish_non_exhaustive()
    }
}

impl Gzip {
    /// With a level from 0 (stored) to 9 (smallest).
    pub fn new(level: u32) -> Gzip {
        let whole = Vec::new();
        if level == 1 {
            return Gzip { level: Level::Quick(Box::new(Deflate::new())), whole };
        }
        let level = i32::try_from(level.min(9)).unwrap_or(1);
        let level = libdeflater::CompressionLvl::new(level).unwrap_or(libdeflater::CompressionLvl::fastest());
        Gzip { level: Level::Other(libdeflater::Compressor::new(level)), whole }
    }

    /// Adds one member that holds these parts, one after the other.
    pub fn member(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        self.whole.clear();
        parts.iter().for_each(|part| self.whole.extend_from_slice(part));
        out.extend_from_slice(&OUR_HEADER);
        match &mut self.level {
            Level::Quick(deflate) => deflate.compress(&self.whole, out),
            Level::Other(deflate) => {
                let start = out.len();
                out.resize(start + deflate.deflate_compress_bound(self.whole.len()), 0);
                let written = deflate.deflate_compress(&self.whole, &mut out[start..]);
                out.truncate(start + written.expect("there is room for the worst case"));
            }
        }
        out.extend_from_slice(&crc32fast::hash(&self.whole).to_le_bytes());
        out.extend_from_slice(&(self.whole.len() as u32).to_le_bytes());
        // One huge page must not hold its memory for ever.
        self.whole.clear();
        self.whole.shrink_to(KEPT_BYTES_MAX);
    }
}

/// Reads members.
#[derive(Debug)]
pub(super) struct Gunzip {
    inflate: Decompress,
    crc: crc32fast::Hasher,
    size: u32,
    inside: bool,
}

/// Where a [`Gunzip`] is after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// In the middle of a member.
    Inside,
    /// The member ended, and its checksum is right.
    MemberEnd,
}

/// Why a member could not be read.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The input could not be read.
    Io(io::Error),
    /// The input ended inside the member.
    Short,
    /// The bytes are not those of a gzip member.
    Bad(&'static str),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        if error.kind() == io::ErrorKind::UnexpectedEof { Trouble::Short } else { Trouble::Io(error) }
    }
}

impl Gunzip {
    pub fn new() -> Gunzip {
        Gunzip { inflate: Decompress::new(false), crc: crc32fast::Hasher::new(), size: 0, inside: false }
    }

    /// Whether it is in the middle of a member.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// Forgets the member that it is in; the next read begins one.
    pub fn reset(&mut self) {
        self.inside = false;
    }

    /// Reads on in a member, or begins the next: adds up to `want` bytes to `out`, or fewer where the input
    /// has a seam.
    pub fn read(
        &mut self,
        input: &mut impl BufRead,
        out: &mut Vec<u8>,
        want: usize,
    ) -> Result<Step, Trouble> {
        if !self.inside {
            read_header(input)?;
            self.inflate.reset(false);
            self.crc.reset();
            (self.size, self.inside) = (0, true);
        }
        let start = out.len();
        out.resize(start + want.max(1), 0);
        let step = self.inflate(input, &mut out[start..]);
        let count = step.as_ref().map_or(0, |(count, _)| *count);
        out.truncate(start + count);
        self.crc.update(&out[start..]);
        self.size = self.size.wrapping_add(count as u32);
        let (_, ended) = step?;
        if !ended {
            return Ok(Step::Inside);
        }
        self.inside = false;
        let mut trailer = [0; 8];
        input.read_exact(&mut trailer)?;
        let [a, b, c, d, e, f, g, h] = trailer;
        if u32::from_le_bytes([a, b, c, d]) != self.crc.clone().finalize() {
            return Err(Trouble::Bad("the checksum does not fit"));
        }
        if u32::from_le_bytes([e, f, g, h]) != self.size {
            return Err(Trouble::Bad("the length does not fit"));
        }
        Ok(Step::MemberEnd)
    }

    /// Fills `out` until it is full, the member ends, or one buffer of input is used up and something came
    /// out.
    fn inflate(&mut self, input: &mut impl BufRead, out: &mut [u8]) -> Result<(usize, bool), Trouble> {
        let mut count = 0;
        loop {
            let buffer = input.fill_buf()?;
            if buffer.is_empty() {
                return Err(Trouble::Short);
            }
            let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(buffer, &mut out[count..], FlushDecompress::None);
            let used = (self.inflate.total_in() - before_in) as usize;
            let made = (self.inflate.total_out() - before_out) as usize;
            input.consume(used);
            count += made;
            match status.map_err(|_| Trouble::Bad("the compressed bytes are damaged"))? {
                Status::StreamEnd => return Ok((count, true)),
                // Neither input nor output moved: these bytes lead nowhere.
                _ if used == 0 && made == 0 => return Err(Trouble::Bad("the compressed bytes are damaged")),
                _ if count > 0 => return Ok((count, false)),
                _ => {}
            }
        }
    }
}

/// Reads over a member's header.
fn read_header(input: &mut impl BufRead) -> Result<(), Trouble> {
    let mut fixed = [0; 10];
    input.read_exact(&mut fixed)?;
    if fixed[..3] != OUR_HEADER[..3] {
        return Err(Trouble::Bad("it does not begin as gzip does"));
    }
    let flags = fixed[3];
    if flags & 0xE0 != 0 {
        return Err(Trouble::Bad("the gzip header has unknown flags"));
    }
    if flags & 4 != 0 {
        let mut len = [0; 2];
        input.read_exact(&mut len)?;
        let mut extra = vec![0; usize::from(u16::from_le_bytes(len))];
        input.read_exact(&mut extra)?;
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            skip_text(input)?;
        }
    }
    if flags & 2 != 0 {
        input.read_exact(&mut [0; 2])?;
    }
    Ok(())
}

/// Skips a name or comment that ends with a zero byte.
fn skip_text(input: &mut impl BufRead) -> Result<(), Trouble> {
    let mut byte = [0];
    for _ in 0..FIELD_BYTES_MAX {
        input.read_exact(&mut byte)?;
        if byte[0] == 0 {
            return Ok(());
        }
    }
    Err(Trouble::Bad("the gzip header does not end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use proptest::prelude::*;
    use std::io::Write;

    fn gunzip(mut input: &[u8]) -> Result<(Vec<u8>, usize), Trouble> {
        let (mut gunzip, mut out) = (Gunzip::new(), Vec::new());
        let whole = input.len();
        while gunzip.read(&mut input, &mut out, 7)? == Step::Inside {}
        Ok((out, whole - input.len()))
    }

    #[test]
    fn a_member_ends_where_it_ends() {
        let mut members = Vec::new();
        let mut gzip = Gzip::new(3);
        gzip.member(&[b"one", b" and ", b"a half"], &mut members);
        let first = members.len();
        gzip.member(&[b"two"], &mut members);
        assert_eq!(gunzip(&members).unwrap(), (b"one and a half".to_vec(), first));
        assert_eq!(gunzip(&members[first..]).unwrap(), (b"two".to_vec(), members.len() - first));
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_noticed() {
        let mut member = Vec::new();
        let text = "abcabcabd".repeat(20).into_bytes();
        Gzip::new(6).member(&[&text], &mut member);
        for cut in 0..member.len() {
            assert!(matches!(gunzip(&member[..cut]), Err(Trouble::Short)), "{cut}");
        }
        for at in 10..member.len() {
            let mut flipped = member.clone();
            flipped[at] ^= 0x10;
            // The last byte of the compressed part has bits that mean nothing.
            assert!(gunzip(&flipped).map_or(true, |(read, _)| read == text), "{at}");
        }
    }

    #[test]
    fn headers_with_every_field_are_read() {
        let mut encoder = flate2::GzBuilder::new()
            .filename("name")
            .comment("comment")
            .extra(b"sl\x04\x00abcd".to_vec())
            .mtime(1)
            .write(Vec::new(), Compression::fast());
        encoder.write_all(b"text").unwrap();
        assert_eq!(gunzip(&encoder.finish().unwrap()).unwrap().0, b"text");
    }

    proptest! {
        #[test]
        fn others_read_what_we_write(parts in proptest::collection::vec(proptest::collection::vec(0u8..8, 0..5000), 0..4), level in 0u32..10) {
            let mut member = Vec::new();
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            Gzip::new(level).member(&slices, &mut member);
            let mut theirs = Vec::new();
            io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&member[..]), &mut theirs).unwrap();
            prop_assert_eq!(&theirs, &parts.concat());
            prop_assert_eq!(gunzip(&member).unwrap(), (theirs, member.len()));
        }

        #[test]
        fn no_bytes_break_it(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = gunzip(&bytes);
            bytes.splice(0..0, OUR_HEADER);
            let _ = gunzip(&bytes);
        }
    }
}
