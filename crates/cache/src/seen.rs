//! Which queries were asked before, near enough: two Bloom filters, of which the older is emptied when the newer is full.
//!
//! A query that was never asked misses wherever it goes. So it may go to whichever node has had least, and only its
//! answer must go to its owner; it is the best ballast there is. A query that is taken for new and is not misses once;
//! one that is taken for known goes to its owner, as it would without this.
//!
//! Memory: 20 bits for each query that is remembered.

use farol_base::random::mix;

const BITS_EACH: usize = 10;
const PROBES: u64 = 6;

/// What was asked before.
#[derive(Clone, Debug)]
pub struct Seen {
    newer: Vec<u64>,
    older: Vec<u64>,
    /// Queries in the newer one.
    count: usize,
    room: usize,
}

impl Seen {
    /// Remembers at least the last `room` different queries.
    pub fn new(room: usize) -> Seen {
        let room = room.max(64);
        let words = (room * BITS_EACH).div_ceil(64);
        Seen { newer: vec![0; words], older: vec![0; words], count: 0, room }
    }

    /// Whether a query was asked before; it was from now on.
    pub fn ask(&mut self, hash: u64) -> bool {
        let bits = self.newer.len() as u64 * 64;
        // Six places from two hashes (Kirsch and Mitzenmacher 2006).
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
        let mut seen = Seen::new(10_000);
        let wrong = (0..10_000).filter(|hash| seen.ask(mix(*hash))).count();
        assert!(wrong < 150, "{wrong}");
        assert!((0..10_000).all(|hash| seen.ask(mix(hash))));
        // Ten thousand others come: those asked again meanwhile stay, and all that is old goes in the end.
        (10_000..20_000).for_each(|hash| {
            seen.ask(mix(hash));
            assert!(seen.ask(mix(7)));
        });
        (20_000..60_000).for_each(|hash| {
            seen.ask(mix(hash));
        });
        let still = (100..5_000).filter(|hash| seen.clone().ask(mix(*hash))).count();
        assert!(still < 150, "{still}");
    }
}
