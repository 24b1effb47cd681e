//! URLs that were drawn and are neither visited nor released, with what was known of them.
//!
//! Who visits one asks what it was like before; the answer is here, without a read from disk. A URL is known
//! by a 128-bit fingerprint under a per-process random seed, so that its text need not be kept a second time:
//! two that share one will not be met. Bounded by what the frontier holds: some 90 bytes per URL, and 130
//! more where it was visited before.

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
        self.urls.find(fingerprint as u64, |url| url.fingerprint == fingerprint)
    }

    pub fn get(&self, url: &CanonicalUrl) -> Option<&InFlightUrl> {
        self.find(url.as_str())
    }

    pub fn contains(&self, url: &str) -> bool {
        self.find(url).is_some()
    }

    pub fn get_mut(&mut self, url: &CanonicalUrl) -> Option<&mut InFlightUrl> {
        let fingerprint = self.fingerprint(url.as_str());
        self.urls.find_mut(fingerprint as u64, |url| url.fingerprint == fingerprint)
    }

    /// Adds a URL; returns whether it was not in flight before.
    pub fn insert(&mut self, url: &CanonicalUrl, known: CompactRecord, from: Option<BucketVersion>) -> bool {
        let fingerprint = self.fingerprint(url.as_str());
        match self.urls.entry(
            fingerprint as u64,
            |url| url.fingerprint == fingerprint,
            |url| url.fingerprint as u64,
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
            .find_entry(fingerprint as u64, |url| url.fingerprint == fingerprint)
            .ok()
            .map(|entry| entry.remove().0)
    }

    /// Drops the URLs of a host.
    pub fn delete_host(&mut self, host: &str) {
        let host = HostHash::of(host);
        self.urls.retain(|url| url.host != host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_in_flight_once_until_it_is_removed_or_its_host_is_deleted() {
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        let (mut in_flight, a, b, other) =
            (InFlight::default(), url("http://h/a"), url("http://h/b"), url("http://g/a"));
        for url in [&a, &b, &other] {
            assert!(!in_flight.contains(url.as_str()));
            assert!(in_flight.insert(url, CompactRecord::found_at(3), Some((1, 2))));
            assert!(!in_flight.insert(url, CompactRecord::found_at(9), None));
        }
        assert_eq!(
            in_flight.get(&a).map(|in_flight| (in_flight.known.depth(), in_flight.from)),
            Some((3, Some((1, 2))))
        );
        assert!(
            in_flight.remove(&a).is_some()
                && in_flight.remove(&a).is_none()
                && in_flight.contains("http://h/b")
        );
        in_flight.delete_host("http://h");
        assert!(in_flight.get(&b).is_none() && in_flight.contains("http://g/a"));
    }
}
