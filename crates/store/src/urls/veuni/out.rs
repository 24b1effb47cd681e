//! URLs that were handed out and have not come back, with what was known of them.
//!
//! Whoever visits one asks what it was like before; the answer is here, without a look into a block. Bounded by what
//! the frontier holds: some 130 bytes per URL, and as many again where it was visited before.

use crate::urls::record::Slim;
use farol_base::CanonicalUrl;
use farol_base::fingerprint::hash64;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Number and generation of a block.
pub type Place = (u32, u64);

#[derive(Debug)]
pub struct OutUrl {
    url: CanonicalUrl,
    pub known: Slim,
    /// The block from which it was handed out; `None` where it was kept in memory.
    pub block: Option<Place>,
}

#[derive(Debug, Default)]
pub struct Out {
    urls: HashTable<OutUrl>,
}

fn hash(url: &CanonicalUrl) -> u64 {
    hash64(url.as_str().as_bytes())
}

impl Out {
    pub fn get(&self, url: &CanonicalUrl) -> Option<&OutUrl> {
        self.urls.find(hash(url), |out| out.url == *url)
    }

    pub fn has(&self, url: &str) -> bool {
        self.urls.find(hash64(url.as_bytes()), |out| out.url.as_str() == url).is_some()
    }

    /// Notes that a URL is out; says whether it was not before.
    pub fn insert(&mut self, url: &CanonicalUrl, known: Slim, block: Option<Place>) -> bool {
        match self.urls.entry(hash(url), |out| out.url == *url, |out| hash(&out.url)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(OutUrl { url: url.clone(), known, block });
                true
            }
        }
    }

    pub fn remove(&mut self, url: &CanonicalUrl) -> Option<OutUrl> {
        self.urls.find_entry(hash(url), |out| out.url == *url).ok().map(|entry| entry.remove().0)
    }

    /// Drops the URLs of a host.
    pub fn forget_host(&mut self, host: &str) {
        self.urls.retain(|out| out.url.host_str() != host);
    }
}
