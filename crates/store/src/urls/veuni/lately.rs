//! URLs that were found a moment ago, so that the many links to the same pages need not be noted again.
//!
//! Remembers a URL by 112 bits of a fingerprint under a key that is drawn at random: for a thousand million URLs
//! checked against a million remembered the chance that one is mistaken is below 10⁻¹⁸, and nobody can aim at it. What is
//! forgotten, because another took its place, is only noted once more.

use farol_base::fingerprint::keyed128;
use std::hash::{BuildHasher, RandomState};

/// Depth, in the lowest bits of what is remembered.
const DEPTH: u128 = 0xFFFF;

#[derive(Debug)]
pub struct Lately {
    slots: Box<[u128]>,
    key: u64,
}

impl Lately {
    /// Takes up to so many bytes.
    pub fn new(bytes: u64) -> Lately {
        let slots = (bytes / size_of::<u128>() as u64).max(1024);
        let slots = 1usize << slots.ilog2();
        Lately { slots: vec![0; slots].into_boxed_slice(), key: random() }
    }

    /// The fingerprint by which a URL is remembered.
    pub fn print(&self, url: &str) -> u128 {
        keyed128(url.as_bytes(), self.key)
    }

    fn slot(&self, print: u128) -> usize {
        (print >> 64) as usize & (self.slots.len() - 1)
    }

    /// Whether a URL was found lately.
    pub fn has(&self, print: u128) -> bool {
        (self.slots[self.slot(print)] ^ print) <= DEPTH
    }

    /// Whether a URL was found lately at this depth or a smaller one.
    pub fn has_at(&self, print: u128, depth: u16) -> bool {
        let slot = self.slots[self.slot(print)];
        (slot ^ print) <= DEPTH && (slot & DEPTH) <= u128::from(depth)
    }

    pub fn remember(&mut self, print: u128, depth: u16) {
        let at = self.slot(print);
        self.slots[at] = (print & !DEPTH) | u128::from(depth);
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
        lately.forget();
        assert!(!lately.has(lately.print("http://h/a")));
    }
}
