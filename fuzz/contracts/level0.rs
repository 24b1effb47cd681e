//! Any bytes as the level-0 file of a URL store's bucket: as they are, and as the blocks of a run under right
//! checksums.
//!
//! Contract: opening gives a store in which this bucket stands still or can be used; nothing that it holds
//! makes looking up, drawing or compacting fail in any other way than with an error.

use super::{framing, urls};
use farol_base::disk::Mem;

pub fn check(bytes: &[u8]) {
    for runs in [bytes.to_vec(), framing::run(&framing::pieces(bytes))] {
        let disk = Mem::new();
        framing::put(
            &disk,
            "blocks",
            &framing::manifest(b"farol-urls 1\nnext 1\nblock 0 0 0000000000000000 -\n"),
        );
        framing::put(&disk, "pending-000000-00000000", &runs);
        framing::put(&disk, framing::LOG, &framing::log([[].as_slice()].into_iter()));
        urls::use_store(&disk);
    }
}
