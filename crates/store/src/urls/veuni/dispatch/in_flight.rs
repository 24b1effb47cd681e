//! URLs that were drawn and are neither visited nor released, with what was known of them.
//!
//! Who visits one asks what it was like before; the answer is here, without a read from disk. A URL is known by a 128-bit
//! fingerprint under a per-process random seed, so that its text need not be kept a second time: two that share one will
//! not be met. Bounded by what the frontier holds: some 90 bytes per URL, and 130 more where it was visited before.

use crate::urls::record::CompactRecord;
use farol_base::fingerprint::{keyed128, random_key};
use farol_base::{CanonicalUrl, HostHash};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Number and generation of a bucket.
pub type BucketVersion = (u32, u64);

#[derive(Debug)]
pub struct InFlightUrl {
    fingerprint: u128,
    /// Hash of its host.
    host: HostHash,
    pub known: CompactRecord,
    /// The bucket from which it was drawn; `None` where it waited in memory.
    pub from: Option<BucketVersion>,
}

#[derive(Debug)]
pub struct InFlight {
    urls: HashTable<InFlightUrl>,
    key: u64,
}

impl Default for InFlight {
    fn default() -> InFlight {
        InFlight { urls: HashTable::new(), key: random_key() }
    }
}

impl InFlight {
    fn fingerprint(&self, url: &str) -> u128 {
        keyed128(url.as_bytes(), self.key)
    }

    fn find(&self, url: &str) -> Option<&InFlightUrl> {
        let fingerprint = self.fingerprint(url);
        self.urls.find(fingerprint as u64, |out| out.fingerprint == fingerprint)
    }

    pub fn get(&self, url: &CanonicalUrl) -> Option<&InFlightUrl> {
        self.find(url.as_str())
    }

    pub fn contains(&self, url: &str) -> bool {
        self.find(url).is_some()
    }

    /// Notes that a URL is out; says whether it was not before.
    pub fn insert(&mut self, url: &CanonicalUrl, known: CompactRecord, from: Option<BucketVersion>) -> bool {
        let fingerprint = self.fingerprint(url.as_str());
        match self.urls.entry(
            fingerprint as u64,
            |out| out.fingerprint == fingerprint,
            |out| out.fingerprint as u64,
        ) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                let host = url.host_hash();
                vacant.insert(InFlightUrl { fingerprint, host, known, from });
                true
            }
        }
    }

    pub fn remove(&mut self, url: &CanonicalUrl) -> Option<InFlightUrl> {
        let fingerprint = self.fingerprint(url.as_str());
        self.urls
            .find_entry(fingerprint as u64, |out| out.fingerprint == fingerprint)
            .ok()
            .map(|entry| entry.remove().0)
    }

    /// Drops the URLs of a host.
    pub fn delete_host(&mut self, host: &str) {
        let host = HostHash::of(host);
        self.urls.retain(|out| out.host != host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_out_once_until_it_comes_back_or_its_host_is_forgotten() {
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        let (mut out, a, b, other) =
            (InFlight::default(), url("http://h/a"), url("http://h/b"), url("http://g/a"));
        for url in [&a, &b, &other] {
            assert!(!out.contains(url.as_str()));
            assert!(out.insert(url, CompactRecord::found_at(3), Some((1, 2))));
            assert!(!out.insert(url, CompactRecord::found_at(9), None));
        }
        assert_eq!(out.get(&a).map(|out| (out.known.depth(), out.from)), Some((3, Some((1, 2)))));
        assert!(out.remove(&a).is_some() && out.remove(&a).is_none() && out.contains("http://h/b"));
        out.delete_host("http://h");
        assert!(out.get(&b).is_none() && out.contains("http://g/a"));
    }
}
