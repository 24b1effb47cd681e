//! A rotating Bloom filter of the queries asked before: two filters, of which the older is cleared when the newer is full.
//! The product does not run it yet: it has one node.
//!
//! A query that was never asked misses wherever it goes. So it may go to whichever node has had least, and only its
//! answer must go to its owner; it is the best ballast there is. A query that is taken for new and is not misses once;
//! one that is taken for known goes to its owner, as it would without this.
//!
//! Memory: 20 bits for each query that is remembered.

use farol_base::random::mix;

const BITS_EACH: usize = 10;
const PROBES: u64 = 6;

/// Queries asked before.
#[derive(Clone, Debug)]
pub struct RotatingBloom {
    newer: Vec<u64>,
    older: Vec<u64>,
    /// Queries in the newer one.
    count: usize,
    room: usize,
}

impl RotatingBloom {
    /// Remembers at least the last `room` different queries.
    pub fn new(room: usize) -> RotatingBloom {
        let room = room.max(64);
        let words = (room * BITS_EACH).div_ceil(64);
        RotatingBloom { newer: vec![0; words], older: vec![0; words], count: 0, room }
    }

    /// Records a query; returns whether it was asked before, with a few false positives.
    pub fn insert(&mut self, hash: u64) -> bool {
        let bits = self.newer.len() as u64 * 64;
        // Six places from two hashes [Kirsch06].
        let (first, step) = (mix(hash), mix(hash ^ 0x9E37_79B9) | 1);
        let places = |at: u64| first.wrapping_add(at.wrapping_mul(step)) % bits;
        let is_in = |filter: &[u64]| {
            (0..PROBES).map(places).all(|bit| filter[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
        };
        if is_in(&self.newer) {
            return true;
        }
        let known = is_in(&self.older);
        if self.count >= self.room {
            std::mem::swap(&mut self.newer, &mut self.older);
            self.newer.fill(0);
            self.count = 0;
        }
        (0..PROBES).map(places).for_each(|bit| self.newer[(bit / 64) as usize] |= 1 << (bit % 64));
        self.count += 1;
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_lately_is_known_and_little_else() {
        let mut seen = RotatingBloom::new(10_000);
        let wrong = (0..10_000).filter(|hash| seen.insert(mix(*hash))).count();
        assert!(wrong < 150, "{wrong}");
        assert!((0..10_000).all(|hash| seen.insert(mix(hash))));
        // Ten thousand others come: those asked again meanwhile stay, and all that is old goes in the end.
        (10_000..20_000).for_each(|hash| {
            seen.insert(mix(hash));
            assert!(seen.insert(mix(7)));
        });
        (20_000..60_000).for_each(|hash| {
            seen.insert(mix(hash));
        });
        let still = (100..5_000).filter(|hash| seen.clone().insert(mix(*hash))).count();
        assert!(still < 150, "{still}");
    }
}
