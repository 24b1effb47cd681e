//! Any bytes as the file of a URL store's bucket: as they are, and as totals, directory and blocks under
//! right checksums.
//!
//! Contract: opening gives a store in which this bucket stands still or can be used; nothing that it holds
//! makes looking up, drawing or compacting fail in any other way than with an error.

use super::{framing, urls};
use farol_base::disk::Mem;

pub fn check(bytes: &[u8]) {
    let pieces = framing::pieces(bytes);
    let (totals, page) = (pieces.first().copied().unwrap_or(&[]), pieces.get(1).copied().unwrap_or(&[]));
    for bucket in [bytes.to_vec(), framing::bucket(totals, page, pieces.get(2..).unwrap_or(&[]))] {
        let disk = Mem::new();
        framing::put(
            &disk,
            "blocks",
            &framing::manifest(b"farol-urls 1\nnext 1\nblock 0 1 0000000000000000 file\n"),
        );
        framing::put(&disk, "block-000000-00000001", &bucket);
        framing::put(&disk, framing::LOG, &framing::log([].into_iter()));
        urls::use_store(&disk);
    }
}
