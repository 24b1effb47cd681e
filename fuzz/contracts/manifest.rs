//! Any bytes as the manifest of a URL store, the list of its buckets: as they are, and under a right
//! checksum. An empty log stands beside it.
//!
//! Contract: opening fails with an error or gives a store that can be used, compacted and opened again.

use super::{framing, urls};
use farol_base::disk::Mem;

pub fn check(bytes: &[u8]) {
    for list in [bytes.to_vec(), framing::manifest(bytes)] {
        let disk = Mem::new();
        framing::put(&disk, "blocks", &list);
        framing::put(&disk, framing::LOG, &framing::log([].into_iter()));
        urls::use_store(&disk);
    }
}
