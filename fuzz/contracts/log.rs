//! Any bytes as the write-ahead log of a URL store: as they are, and as batches under right checksums.
//!
//! Contract: opening fails with an error or gives a store that can be used, compacted and opened again.

use super::{framing, urls};
use farol_base::disk::Mem;

pub fn check(bytes: &[u8]) {
    for log in [bytes.to_vec(), framing::log(framing::pieces(bytes).into_iter())] {
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
