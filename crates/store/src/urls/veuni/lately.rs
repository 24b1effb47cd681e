//! URLs that were found a moment ago, so that the many links to the same pages need not be noted again.
//!
//! Remembers a URL by 112 bits of a fingerprint under a key that is drawn at random: for a thousand million URLs
//! checked against a million remembered the chance that one is mistaken is below 10⁻¹⁸, and nobody can aim at it. What is
//! forgotten, because another took its place, is only noted once more.

use farol_base::fingerprint::keyed128;
use std::hash::{BuildHasher, RandomState};

/// Depth, in the lowest bits of what is remembered.
const DEPTH: u128 = 0xFFFF;

/// URLs that share a place: a new one comes first, and the last one goes.
const WAYS: usize = 4;

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place([u128; WAYS]);

#[derive(Debug)]
pub struct Lately {
    places: Box<[Place]>,
    key: u64,
}

impl Lately {
    /// Takes up to so many bytes.
    pub fn new(bytes: u64) -> Lately {
        let places = (bytes / size_of::<Place>() as u64).max(256);
        let places = 1usize << places.ilog2();
        Lately { places: vec![Place([0; WAYS]); places].into_boxed_slice(), key: random() }
    }

    /// The fingerprint by which a URL is remembered.
    pub fn print(&self, url: &str) -> u128 {
        keyed128(url.as_bytes(), self.key)
    }

    fn at(&self, print: u128) -> usize {
        (print >> 64) as usize & (self.places.len() - 1)
    }

    /// Has the processor fetch all that these URLs may be remembered at, before they are asked for one by one.
    pub fn touch(&self, prints: impl Iterator<Item = u128>) {
        let slots = prints.map(|print| self.places[self.at(print)].0[0] as u64);
        std::hint::black_box(slots.fold(0, |all, slot| all ^ slot));
    }

    /// What is remembered of a URL, its depth in the lowest bits.
    fn slot(&self, print: u128) -> Option<u128> {
        let Place(slots) = &self.places[self.at(print)];
        slots.iter().copied().find(|slot| (slot ^ print) <= DEPTH)
    }

    /// Whether a URL was found lately.
    pub fn has(&self, print: u128) -> bool {
        self.slot(print).is_some()
    }

    /// Whether a URL was found lately at this depth or a smaller one.
    pub fn has_at(&self, print: u128, depth: u16) -> bool {
        self.slot(print).is_some_and(|slot| (slot & DEPTH) <= u128::from(depth))
    }

    /// Remembers a URL, in the place of what is known of it at a greater depth.
    pub fn remember(&mut self, print: u128, depth: u16) {
        let at = self.at(print);
        let Place(slots) = &mut self.places[at];
        let old = slots.iter().position(|slot| (slot ^ print) <= DEPTH).unwrap_or(WAYS - 1);
        slots.copy_within(..old, 1);
        slots[0] = (print & !DEPTH) | u128::from(depth);
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.key = random();
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_known_again_at_its_depth_or_below() {
        let mut lately = Lately::new(0);
        let print = lately.print("http://h/a");
        assert!(!lately.has(print) && !lately.has_at(print, 5));
        lately.remember(print, 3);
        assert!(lately.has(print) && lately.has_at(print, 3) && lately.has_at(print, 5));
        assert!(!lately.has_at(print, 2) && !lately.has(lately.print("http://h/b")));
        lately.remember(print, 2);
        assert!(lately.has_at(print, 2));
        lately.forget();
        assert!(!lately.has(lately.print("http://h/a")));
    }

    #[test]
    fn the_newest_of_a_place_stay() {
        let mut lately = Lately::new(0);
        let prints = [1u128, 2, 3, 4, 5, 6].map(|number| number << 16);
        prints.iter().take(5).for_each(|print| lately.remember(*print, 0));
        assert_eq!(prints.map(|print| lately.has(print)), [false, true, true, true, true, false]);
        // One that is known comes to the front, and pushes nothing out.
        lately.remember(prints[1], 0);
        lately.remember(prints[5], 0);
        assert_eq!(prints.map(|print| lately.has(print)), [false, true, false, true, true, true]);
    }
}
