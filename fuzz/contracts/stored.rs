//! Any bytes as a document that the index has stored.
//!
//! Contract: reading gives nothing, or a document that is the same after it was stored and read again.

#[allow(dead_code)]
#[path = "../../crates/index/src/stored.rs"]
mod documents;
#[path = "../../crates/index/src/limits.rs"]
mod limits;

use documents::{StoredDocument, encode};

pub fn check(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), [&[1], bytes].concat()] {
        let Some(document) = StoredDocument::decode(&bytes).and_then(|stored| stored.to_document()) else {
            continue;
        };
        let written = encode(&document);
        let again = StoredDocument::decode(&written).and_then(|stored| stored.to_document());
        assert_eq!(again.map(|again| format!("{again:?}")), Some(format!("{document:?}")));
    }
}
