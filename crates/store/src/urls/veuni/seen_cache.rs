//! URLs that were found a moment ago, so that the many links to the same pages need not be noted again.
//!
//! Remembers a URL by 64 bits of a fingerprint under a key that is drawn at random, at a place that other bits of it
//! name: of 2 × 10¹⁸ URLs that are checked one is mistaken for another, and nobody can aim at it. What is forgotten,
//! because another took its place, is only noted once more.

use farol_base::fingerprint::{keyed128, random_key};

/// URLs that share a place: a new one takes that of the oldest.
const WAYS: usize = 7;

/// URLs found at this depth or a greater one are always noted.
const DEEP: u8 = u8::MAX;

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place {
    tags: [u64; WAYS],
    /// Depth at which each was found.
    depths: [u8; WAYS],
    oldest: u8,
}

const NOTHING: Place = Place { tags: [0; WAYS], depths: [0; WAYS], oldest: 0 };

impl Place {
    /// Which of its URLs has this tag. Looks at all of them: where it stands cannot be guessed.
    fn way_of(&self, tag: u64) -> Option<usize> {
        let hits = (0..WAYS).fold(0u32, |hits, way| hits | u32::from(self.tags[way] == tag) << way);
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }
}

/// A URL's fingerprint: which place, and by what it is known there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Print {
    place: u64,
    tag: u64,
}

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
        Lately { places: vec![NOTHING; places].into_boxed_slice(), key: random_key() }
    }

    /// The fingerprint by which a URL is remembered.
    pub fn print(&self, url: &str) -> Print {
        let print = keyed128(url.as_bytes(), self.key);
        Print { place: (print >> 64) as u64, tag: print as u64 }
    }

    fn at(&self, print: Print) -> usize {
        print.place as usize & (self.places.len() - 1)
    }

    /// Has the processor fetch all that these URLs may be remembered at, before they are asked for one by one.
    pub fn touch(&self, prints: &[Print]) {
        let tags = prints.iter().map(|print| self.places[self.at(*print)].tags[0]);
        std::hint::black_box(tags.fold(0, |all, tag| all ^ tag));
    }

    /// Whether a URL was found lately.
    pub fn has(&self, print: Print) -> bool {
        self.places[self.at(print)].way_of(print.tag).is_some()
    }

    /// Whether a URL was found lately at this depth or a smaller one.
    pub fn has_at(&self, print: Print, depth: u16) -> bool {
        let place = &self.places[self.at(print)];
        let before = place.way_of(print.tag).map(|way| place.depths[way]);
        before.is_some_and(|before| before != DEEP && u16::from(before) <= depth)
    }

    /// Remembers that a URL was found, at a smaller depth than before where it was.
    pub fn remember(&mut self, print: Print, depth: u16) {
        let at = self.at(print);
        let place = &mut self.places[at];
        let way = place.way_of(print.tag).unwrap_or_else(|| {
            let oldest = usize::from(place.oldest);
            place.oldest = ((oldest + 1) % WAYS) as u8;
            oldest
        });
        place.tags[way] = print.tag;
        place.depths[way] = depth.min(u16::from(DEEP)) as u8;
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.key = random_key();
    }
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
    fn far_from_the_seeds_a_url_is_known_and_noted_all_the_same() {
        let mut lately = Lately::new(0);
        let print = lately.print("http://h/a");
        for depth in [255, 256, u16::MAX] {
            lately.remember(print, depth);
            assert!(lately.has(print) && !lately.has_at(print, 254) && !lately.has_at(print, u16::MAX));
        }
        lately.remember(print, 254);
        assert!(lately.has_at(print, 254) && lately.has_at(print, u16::MAX) && !lately.has_at(print, 253));
    }

    #[test]
    fn the_newest_of_a_place_stay() {
        let mut lately = Lately::new(0);
        let prints: Vec<Print> = (1..=9).map(|tag| Print { place: 3, tag }).collect();
        let known = |lately: &Lately| prints.iter().map(|print| lately.has(*print)).collect::<Vec<bool>>();
        prints.iter().take(8).for_each(|print| lately.remember(*print, 0));
        assert_eq!(known(&lately), [false, true, true, true, true, true, true, true, false]);
        // One that is known pushes nothing out.
        lately.remember(prints[4], 0);
        lately.remember(prints[8], 0);
        assert_eq!(known(&lately), [false, false, true, true, true, true, true, true, true]);
    }
}
