//! Fixed-size names for long things: a URL's [`PageId`], a text's [`ContentHash`].
//!
//! Both are XXH3, a published algorithm, so that files written today can be read by anyone tomorrow.
//! They name things; they do not protect against somebody who makes collisions on purpose, and nothing
//! that must be exact (the URL store) relies on them alone. [`keyed128`] is for tables in memory: nobody else has the key.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

/// Names a page by the 64-bit fingerprint of its canonical URL.
///
/// With 100 million pages the chance that any two share an id is about 0.03 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl PageId {
    /// Names the page at this canonical URL text.
    pub fn of(url: &str) -> PageId {
        PageId(xxh3_64(url.as_bytes()))
    }
}

/// Fingerprint of a page's main text (or of its bytes, where it has no text).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// Fingerprints these bytes.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(xxh3_128(bytes))
    }
}

/// A 64-bit fingerprint of any bytes, stable across runs and machines.
pub fn hash64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// A 128-bit fingerprint that only those who have the key can make: for tables in memory, with a key drawn at random.
pub fn keyed128(bytes: &[u8], key: u64) -> u128 {
    xxh3_128_with_seed(bytes, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_the_published_algorithm() {
        // XXH3's own test vector: the empty input with seed 0.
        assert_eq!(hash64(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(ContentHash::of(b"").0, 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
        assert_ne!(PageId::of("http://a/"), PageId::of("http://b/"));
    }
}
