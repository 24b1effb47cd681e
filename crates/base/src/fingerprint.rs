//! Fixed-size names for long things: a URL's [`PageId`], a text's [`ContentHash`].
//!
//! Both are XXH3, a published algorithm, so that files written today can be read by anyone tomorrow.
//! They name things; they do not protect against somebody who makes collisions on purpose, and nothing
//! that must be exact (the URL store) relies on them alone. [`keyed128`] is for tables in memory: nobody else has the key.

use std::hash::{BuildHasher, Hasher, RandomState};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128, xxh3_128_with_seed};

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

/// Names a host by the 64-bit fingerprint of its text ([`crate::Host::as_str`]).
///
/// Stores that keep hosts apart by hash ranges go by its number; it is the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostHash(pub u64);

impl HostHash {
    /// Names the host with this canonical text.
    #[inline]
    pub fn of(host: &str) -> HostHash {
        HostHash(xxh3_64(host.as_bytes()))
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

/// A random key for a table in memory.
pub fn random_key() -> u64 {
    RandomState::new().hash_one(0)
}

/// A 64-bit fingerprint that only those who have the key can make, stable across runs and machines: for tables that several
/// processes share under one [`random_key`].
pub fn keyed64(bytes: &[u8], key: u64) -> u64 {
    xxh3_64_with_seed(bytes, key)
}

/// A 128-bit fingerprint that only those who have the key can make: for tables in memory, under a [`random_key`].
pub fn keyed128(bytes: &[u8], key: u64) -> u128 {
    xxh3_128_with_seed(bytes, key)
}

/// A hasher for maps and sets of texts, faster on short texts than the standard library's, with a random seed per map.
#[derive(Clone, Copy, Debug)]
pub struct SeededHasher(u64);

impl Default for SeededHasher {
    fn default() -> SeededHasher {
        SeededHasher(random_key())
    }
}

impl BuildHasher for SeededHasher {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        *self
    }
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    // Ends each text that is hashed, so that "ab", "c" is not "a", "bc".
    fn write_u8(&mut self, end: u8) {
        self.0 = self.0.wrapping_add(u64::from(end)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_hashes_differ_by_text_and_by_key() {
        let (one, other) = (SeededHasher::default(), SeededHasher::default());
        assert_eq!(one.hash_one("a"), one.hash_one("a"));
        assert_ne!(one.hash_one("a"), other.hash_one("a"));
        assert_ne!(one.hash_one(("ab", "c")), one.hash_one(("a", "bc")));
    }

    #[test]
    fn fingerprints_are_those_of_the_published_algorithm() {
        // XXH3's own test vector: the empty input with seed 0.
        assert_eq!(hash64(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(ContentHash::of(b"").0, 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
        assert_ne!(PageId::of("http://a/"), PageId::of("http://b/"));
    }
}
