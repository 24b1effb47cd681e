//! Any bytes as the write-ahead log of a URL store: as they are, and as batches under right checksums,
//! with and without numbers of senders before them.
//!
//! Contract: opening fails with an error or gives a store that can be used, compacted and opened again.

use super::{framing, urls};
use farol_base::disk::Mem;

pub fn check(bytes: &[u8]) {
    let pieces = framing::pieces(bytes);
    let (numbers, batches) = pieces.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
    let logs = [
        bytes.to_vec(),
        framing::log(pieces.iter().copied()),
        framing::log_with_numbers(numbers, batches.iter().copied()),
    ];
    for log in logs {
        let disk = Mem::new();
        framing::put(
            &disk,
            "blocks",
            &framing::manifest(b"farol-urls 1\nnext 1\nblock 0 0 0000000000000000 -\n"),
        );
        framing::put(&disk, framing::LOG, &log);
        urls::use_store(&disk);
    }
}
