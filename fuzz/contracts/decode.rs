//! Any bytes as a body under a `Content-Encoding`, which the first byte chooses, in pieces, whose size the
//! second does.
//!
//! Contract: no more than the limit is ever written; where the pieces are cut changes nothing of what comes
//! out. Of a damaged body more or less may be kept, and it is the same as far as it goes.

#[allow(dead_code)]
#[path = "../../crates/fetch/src/decode.rs"]
mod bodies;

use bodies::{Decoder, Encoding, Progress};

/// As small as keeps bombs within reach.
const BYTES_MAX: usize = 1 << 16;

pub fn check(bytes: &[u8]) {
    let [kind, size, body @ ..] = bytes else { return };
    let names = ["gzip", "deflate", "br", "zstd", "identity", "gzip, br"];
    let name = names[usize::from(*kind) % names.len()];
    let decoded = |piece_bytes: usize| {
        let mut decoder = Decoder::new(Encoding::parse([name].into_iter()), BYTES_MAX, body.len());
        let is_good = body.chunks(piece_bytes).all(|piece| decoder.write(piece) == Progress::More);
        let (bytes, was_decoded, progress) = decoder.finish();
        (bytes, was_decoded, is_good && progress == Progress::More)
    };
    let (at_once, was_decoded, is_good) = decoded(body.len().max(1));
    assert!(at_once.len() <= BYTES_MAX);
    let (in_pieces, again_decoded, again_good) = decoded(usize::from(*size) + 2);
    assert_eq!((was_decoded, is_good), (again_decoded, again_good), "{name}");
    assert!(at_once.starts_with(&in_pieces) || in_pieces.starts_with(&at_once), "{name}");
    assert!(!is_good || at_once.len() == in_pieces.len(), "{name}");
}
