//! Bodies as they were before `Content-Encoding`, decoded while they arrive.
//!
//! Promise: no more than the limit is ever written, however small the compressed bytes are; what was decoded
//! before the limit or before damage is kept. Memory: the decoded bytes, plus at most 32 KiB for gzip, 16 MiB
//! for brotli (its largest window) and 8 MiB for zstd (RFC 9659).
//!
//! An encoding that is unknown, or that the bytes plainly are not in, leaves the body as received.

use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};
use std::io::{self, Write};

/// Largest window of zstd that is accepted, as a power of two: 8 MiB, the most that RFC 9659 allows on the Web.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// A `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
    /// Unknown, or several in a row: the body is kept as received.
    Other,
}

impl Encoding {
    /// Reads the values of all `Content-Encoding` lines.
    pub fn parse(values: impl Iterator<Item = impl AsRef<str>>) -> Encoding {
        let mut found = Encoding::Identity;
        for value in values {
            for token in value.as_ref().split(',') {
                let one = match token.trim().to_ascii_lowercase().as_str() {
                    "" | "identity" | "none" => continue,
                    "gzip" | "x-gzip" => Encoding::Gzip,
                    "deflate" => Encoding::Deflate,
                    "br" => Encoding::Brotli,
                    "zstd" => Encoding::Zstd,
                    _ => Encoding::Other,
                };
                found = if found == Encoding::Identity { one } else { Encoding::Other };
            }
        }
        found
    }
}

/// Whether a decoder wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// The limit is reached and there was more.
    Full,
    /// The bytes are not what the encoding promises; what came before is kept.
    Damaged,
}

/// Takes a body in pieces and gives it back decoded.
pub(crate) struct Decoder {
    encoding: Encoding,
    state: DecoderState,
    bytes_max: usize,
}

enum DecoderState {
    /// The first bytes decide whether the body is encoded as announced.
    Start(Vec<u8>),
    Plain(Sink),
    Gzip(Box<GzDecoder<Sink>>),
    Zlib(Box<ZlibDecoder<Sink>>),
    Deflate(Box<DeflateDecoder<Sink>>),
    Brotli(Box<brotli::DecompressorWriter<Sink>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Sink>>),
}

impl Decoder {
    /// Prepares for a body of about `bytes_hint` bytes as received.
    pub fn new(encoding: Encoding, bytes_max: usize, bytes_hint: usize) -> Decoder {
        // A server can announce any length; memory is set aside for at most 256 KiB of it.
        let hint = bytes_hint.min(bytes_max).min(256 << 10);
        let state = match encoding {
            Encoding::Identity | Encoding::Other => DecoderState::Plain(Sink::new(bytes_max, hint)),
            _ => DecoderState::Start(Vec::new()),
        };
        Decoder { encoding, state, bytes_max }
    }

    pub fn write(&mut self, piece: &[u8]) -> Progress {
        if let DecoderState::Start(start) = &mut self.state {
            start.extend_from_slice(piece);
            if start.len() < 2 {
                return Progress::More;
            }
            let start = std::mem::take(start);
            self.state = open(self.encoding, &start, self.bytes_max);
            return self.push(&start);
        }
        self.push(piece)
    }

    /// Decoded bytes so far.
    pub fn held_bytes(&mut self) -> usize {
        match &self.state {
            DecoderState::Start(start) => start.len(),
            _ => self.sink().bytes.len(),
        }
    }

    /// Ends the body: the decoded bytes, whether they were decoded at all, and whether they are whole.
    pub fn finish(mut self) -> (Vec<u8>, bool, Progress) {
        if let DecoderState::Start(start) = &mut self.state {
            let start = std::mem::take(start);
            self.state = open(self.encoding, &start, self.bytes_max);
            self.push(&start);
        }
        let ended = match &mut self.state {
            DecoderState::Start(_) | DecoderState::Plain(_) => Ok(()),
            DecoderState::Gzip(decoder) => decoder.try_finish(),
            DecoderState::Zlib(decoder) => decoder.try_finish(),
            DecoderState::Deflate(decoder) => decoder.try_finish(),
            DecoderState::Brotli(decoder) => decoder.close(),
            DecoderState::Zstd(decoder) => decoder.flush().and_then(|()| decoder.do_finish()),
        };
        let decoded = !matches!(self.state, DecoderState::Plain(_));
        let sink = self.sink();
        let progress = progress(ended, sink);
        (std::mem::take(&mut sink.bytes), decoded, progress)
    }

    fn push(&mut self, mut piece: &[u8]) -> Progress {
        while !piece.is_empty() {
            let written = match &mut self.state {
                DecoderState::Start(_) => return Progress::Damaged,
                DecoderState::Plain(sink) => sink.write(piece),
                DecoderState::Gzip(decoder) => decoder.write(piece),
                DecoderState::Zlib(decoder) => decoder.write(piece),
                DecoderState::Deflate(decoder) => decoder.write(piece),
                DecoderState::Brotli(decoder) => decoder.write(piece),
                DecoderState::Zstd(decoder) => decoder.write(piece),
            };
            match written {
                // The compressed stream has ended. Bytes after it are ignored, as browsers do.
                Ok(0) => break,
                Ok(taken) => piece = &piece[taken..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return progress(Err(error), self.sink()),
            }
        }
        if self.sink().overflowed { Progress::Full } else { Progress::More }
    }

    fn sink(&mut self) -> &mut Sink {
        if let DecoderState::Start(_) = self.state {
            self.state = DecoderState::Plain(Sink::new(self.bytes_max, 0));
        }
        match &mut self.state {
            DecoderState::Plain(sink) => sink,
            DecoderState::Gzip(decoder) => decoder.get_mut(),
            DecoderState::Zlib(decoder) => decoder.get_mut(),
            DecoderState::Deflate(decoder) => decoder.get_mut(),
            DecoderState::Brotli(decoder) => decoder.get_mut(),
            DecoderState::Zstd(decoder) => decoder.get_mut(),
            DecoderState::Start(_) => unreachable!("replaced above"),
        }
    }
}

/// Chooses the decoder by the announced encoding and the body's first two bytes, or all if it has fewer.
fn open(encoding: Encoding, start: &[u8], bytes_max: usize) -> DecoderState {
    // Text commonly shrinks to a quarter.
    let sink = Sink::new(bytes_max, (4 * start.len()).min(64 << 10));
    match (encoding, start) {
        (Encoding::Gzip, [0x1f, 0x8b, ..]) => DecoderState::Gzip(Box::new(GzDecoder::new(sink))),
        // RFC 9110 §8.4.1.2: deflate means zlib, but some servers send it bare.
        (Encoding::Deflate, [a, b, ..])
            if a & 0x0f == 8 && (u16::from(*a) << 8 | u16::from(*b)).is_multiple_of(31) =>
        {
            DecoderState::Zlib(Box::new(ZlibDecoder::new(sink)))
        }
        (Encoding::Deflate, [_, _, ..]) => DecoderState::Deflate(Box::new(DeflateDecoder::new(sink))),
        (Encoding::Brotli, [_, ..]) => {
            DecoderState::Brotli(Box::new(brotli::DecompressorWriter::new(sink, 16 << 10)))
        }
        (Encoding::Zstd, [0x28, 0xb5, ..]) => {
            let decoder = zstd::stream::write::Decoder::new(Sink::new(bytes_max, 0));
            match decoder
                .and_then(|mut decoder| decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map(|()| decoder))
            {
                Ok(decoder) => DecoderState::Zstd(Box::new(decoder)),
                Err(_) => DecoderState::Plain(sink),
            }
        }
        // Announced as compressed, yet plain: a common mistake of servers.
        _ => DecoderState::Plain(sink),
    }
}

fn progress(result: io::Result<()>, sink: &Sink) -> Progress {
    match result {
        _ if sink.overflowed => Progress::Full,
        Ok(()) => Progress::More,
        Err(_) => Progress::Damaged,
    }
}

/// Collects bytes up to a limit.
struct Sink {
    bytes: Vec<u8>,
    bytes_max: usize,
    overflowed: bool,
}

impl Sink {
    fn new(bytes_max: usize, hint: usize) -> Sink {
        Sink { bytes: Vec::with_capacity(hint.min(bytes_max)), bytes_max, overflowed: false }
    }
}

impl Write for Sink {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.bytes_max - self.bytes.len();
        if piece.len() <= room {
            self.bytes.extend_from_slice(piece);
            return Ok(piece.len());
        }
        self.bytes.extend_from_slice(&piece[..room]);
        self.overflowed = true;
        Err(io::Error::other("the body's limit is reached"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    fn encode(encoding: Encoding, plain: &[u8]) -> Vec<u8> {
        match encoding {
            Encoding::Identity | Encoding::Other => plain.to_vec(),
            Encoding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Encoding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Encoding::Brotli => {
                let mut out = Vec::new();
                let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 3, 20);
                encoder.write_all(plain).unwrap();
                drop(encoder);
                out
            }
            Encoding::Zstd => zstd::encode_all(plain, 1).unwrap(),
        }
    }

    fn decode(encoding: Encoding, bytes: &[u8], piece: usize, bytes_max: usize) -> (Vec<u8>, bool, Progress) {
        let mut decoder = Decoder::new(encoding, bytes_max, 0);
        for piece in bytes.chunks(piece.max(1)) {
            let progress = decoder.write(piece);
            if progress != Progress::More {
                let (body, decoded, _) = decoder.finish();
                return (body, decoded, progress);
            }
        }
        decoder.finish()
    }

    const COMPRESSED: [Encoding; 4] = [Encoding::Gzip, Encoding::Deflate, Encoding::Brotli, Encoding::Zstd];

    #[test]
    fn names_of_encodings() {
        let check =
            |values: &[&str], want| assert_eq!(Encoding::parse(values.iter().copied()), want, "{values:?}");
        check(&[], Encoding::Identity);
        check(&["gzip"], Encoding::Gzip);
        check(&[" X-GZip "], Encoding::Gzip);
        check(&["br"], Encoding::Brotli);
        check(&["identity, zstd"], Encoding::Zstd);
        check(&["deflate", ""], Encoding::Deflate);
        check(&["gzip, br"], Encoding::Other); // Twice compressed: kept as received.
        check(&["gzip", "gzip"], Encoding::Other);
        check(&["sdch"], Encoding::Other);
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let plain = vec![0u8; 20 << 20];
        for encoding in COMPRESSED {
            let bytes = encode(encoding, &plain);
            assert!(bytes.len() < 200 << 10, "{encoding:?} {}", bytes.len());
            let (body, decoded, progress) = decode(encoding, &bytes, 8192, 1 << 20);
            assert_eq!((body.len(), decoded, progress), (1 << 20, true, Progress::Full), "{encoding:?}");
        }
    }

    #[test]
    fn a_body_of_exactly_the_limit_is_whole() {
        let plain = vec![b'x'; 1000];
        for encoding in [Encoding::Identity].into_iter().chain(COMPRESSED) {
            let bytes = encode(encoding, &plain);
            assert_eq!(decode(encoding, &bytes, 100, 1000).2, Progress::More, "{encoding:?}");
            let (body, _, progress) = decode(encoding, &bytes, 100, 999);
            assert_eq!((body.len(), progress), (999, Progress::Full), "{encoding:?}");
        }
    }

    #[test]
    fn a_cut_body_keeps_what_came() {
        let plain: Vec<u8> =
            (0..50_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for encoding in [Encoding::Gzip, Encoding::Brotli, Encoding::Zstd] {
            let bytes = encode(encoding, &plain);
            let (body, _, progress) = decode(encoding, &bytes[..bytes.len() / 2], 4096, 1 << 20);
            assert_eq!(progress, Progress::Damaged, "{encoding:?}");
            assert!(plain.starts_with(&body), "{encoding:?}");
            assert!(encoding == Encoding::Zstd || body.len() > 50_000, "{encoding:?} {}", body.len());
        }
    }

    #[test]
    fn servers_that_lie_about_their_encoding() {
        let check = |encoding, bytes: &[u8], want: &[u8], decoded| {
            assert_eq!(decode(encoding, bytes, 3, 1000), (want.to_vec(), decoded, Progress::More));
        };
        check(Encoding::Gzip, b"<html>plain", b"<html>plain", false);
        check(Encoding::Zstd, b"<html>plain", b"<html>plain", false);
        check(Encoding::Gzip, b"", b"", false);
        check(Encoding::Gzip, b"x", b"x", false);
        check(Encoding::Other, b"\x1f\x8bxyz", b"\x1f\x8bxyz", false);
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(b"bare deflate").unwrap();
        check(Encoding::Deflate, &bare.finish().unwrap(), b"bare deflate", true);
        let mut trailing = encode(Encoding::Gzip, b"page");
        trailing.extend_from_slice(b"\0\0\0garbage");
        check(Encoding::Gzip, &trailing, b"page", true);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            plain in proptest::collection::vec(0u8..20, 0..2000), piece in 1usize..300, which in 0usize..4
        ) {
            let encoding = COMPRESSED[which];
            let (body, _, progress) = decode(encoding, &encode(encoding, &plain), piece, 4000);
            prop_assert_eq!(progress, Progress::More);
            prop_assert_eq!(body, plain);
        }

        #[test]
        fn no_bytes_break_it(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400), piece in 1usize..100, which in 0usize..4,
            magic in any::<bool>(),
        ) {
            let encoding = COMPRESSED[which];
            if magic {
                let mut head = encode(encoding, b"some text to start with");
                head.truncate(6);
                bytes.splice(0..0, head);
            }
            prop_assert!(decode(encoding, &bytes, piece, 1000).0.len() <= 1000);
        }
    }
}
