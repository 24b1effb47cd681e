//! What the sites of the crawl look like, to tell endless ones.

use farol_base::{ContentHash, Host};
use farol_frontier::trap::HostShape;
use std::collections::{HashMap, HashSet};

/// What the sites look like, to tell endless ones; learnt anew after a restart.
#[derive(Default)]
pub struct Shapes {
    hosts: HashMap<Host, HostShape>,
    /// Texts seen so far, by a part of their fingerprint.
    texts: HashSet<u64>,
}

/// Hosts whose shape is remembered at once: 20,000 × about 1.5 KiB = 30 MB at worst.
const SHAPES_MAX: usize = 20_000;
/// Texts remembered at once: 1,000,000 × about 16 bytes = 16 MB.
const TEXTS_MAX: usize = 1_000_000;

impl Shapes {
    /// The shape of a host; of one that is not remembered only the number of pages is known.
    pub fn of(&mut self, host: &Host, pages_known: impl FnOnce() -> u64) -> &mut HostShape {
        if self.hosts.len() >= SHAPES_MAX && !self.hosts.contains_key(host) {
            self.hosts.clear();
        }
        self.hosts.entry(host.clone()).or_insert_with(|| HostShape::new(pages_known()))
    }

    /// Whether a page with this text was seen before.
    pub fn is_repeated(&mut self, hash: ContentHash) -> bool {
        if self.texts.len() >= TEXTS_MAX {
            self.texts.clear();
        }
        !self.texts.insert(hash.0 as u64)
    }
}
