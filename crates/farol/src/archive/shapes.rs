//! What the sites of the crawl look like, to tell endless ones.

use farol_base::{ContentHash, Host};
use farol_frontier::trap::HostShape;
use std::collections::HashMap;
use std::hash::Hash;

/// Hosts whose shape is remembered at once: 20,000 × about 1.5 KiB = 30 MB at worst.
const SHAPES_MAX: usize = 20_000;
/// Texts remembered at once: 1,000,000 × about 16 bytes = 16 MB.
const TEXTS_MAX: usize = 1_000_000;

/// Shapes of hosts and texts seen; learnt anew after a restart.
pub struct Shapes {
    hosts: TwoGenerations<Host, HostShape>,
    /// Texts seen so far, by a part of their fingerprint.
    texts: TwoGenerations<u64, ()>,
}

impl Default for Shapes {
    fn default() -> Shapes {
        Shapes { hosts: TwoGenerations::new(SHAPES_MAX), texts: TwoGenerations::new(TEXTS_MAX) }
    }
}

impl Shapes {
    /// The shape of a host; of one that is not remembered only the number of pages is known.
    pub fn of(&mut self, host: &Host, pages_known: impl FnOnce() -> u64) -> &mut HostShape {
        self.hosts.get_or_insert_with(host.clone(), || HostShape::new(pages_known()))
    }

    /// Whether a page with this text was seen before.
    pub fn is_repeated(&mut self, hash: ContentHash) -> bool {
        let mut is_new = false;
        self.texts.get_or_insert_with(hash.0 as u64, || is_new = true);
        !is_new
    }
}

/// A bounded map that forgets by halves: entries not used while the younger half filled up are evicted together.
struct TwoGenerations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Hash + Eq, V> TwoGenerations<K, V> {
    /// A map of at most `max` entries.
    fn new(max: usize) -> TwoGenerations<K, V> {
        TwoGenerations { young: HashMap::new(), old: HashMap::new(), half: (max / 2).max(1) }
    }

    fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let is_young = self.young.contains_key(&key);
        let promoted = if is_young { None } else { self.old.remove(&key) };
        if !is_young && self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).or_insert_with(|| promoted.unwrap_or_else(make))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_evicted_by_halves() {
        let mut map = TwoGenerations::new(8);
        for key in 0..100 {
            map.get_or_insert_with(key, || key);
            // Asked for all the time, so it is there all the time.
            assert_eq!(*map.get_or_insert_with(0, || 77), 0);
            assert!(map.young.len() + map.old.len() <= 8);
        }
        let mut again = Vec::new();
        for key in [99, 98, 1, 2] {
            map.get_or_insert_with(key, || {
                again.push(key);
                key
            });
        }
        assert_eq!(again, [1, 2]);
    }
}
