//! Which record of each page counts: the one thing about pages that is always in memory.
//!
//! INVARIANT: a page stands here exactly if its newest record holds links (perhaps none).
//! Cost: 16 bytes and a tag byte per page in a table between 7/16 and 7/8 full: 20 to 39 bytes per *source* page.
//! Pages that are only linked to cost nothing here; the rank table has 13 bytes for each page known to it.

use farol_base::fingerprint::random_key;
use farol_base::random::mix;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// Where the newest record of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which segment, as a number that this process gave it.
    pub slot: u16,
    /// Byte in that segment at which the record starts.
    pub offset: u32,
    /// Low bits of a count of records. An earlier record of the same page has the same ones only if a multiple of
    /// 65,536 records lies between the two; then some of its anchors could be counted until the next merge.
    pub stamp: u16,
}

impl Place {
    fn pack(self) -> u64 {
        u64::from(self.slot) << 48 | u64::from(self.offset) << 16 | u64::from(self.stamp)
    }

    fn unpack(packed: u64) -> Place {
        Place { slot: (packed >> 48) as u16, offset: (packed >> 16) as u32, stamp: packed as u16 }
    }
}

/// Places by page.
#[derive(Default)]
pub(crate) struct Sources {
    places: HashMap<u64, u64, Seed>,
}

impl Sources {
    pub(crate) fn get(&self, page: u64) -> Option<Place> {
        self.places.get(&page).map(|packed| Place::unpack(*packed))
    }

    /// Whether the record of this page with this stamp is its newest.
    pub(crate) fn is_current(&self, page: u64, stamp: u16) -> bool {
        self.get(page).is_some_and(|place| place.stamp == stamp)
    }

    pub(crate) fn insert(&mut self, page: u64, place: Place) -> Option<Place> {
        self.places.insert(page, place.pack()).map(Place::unpack)
    }

    pub(crate) fn remove(&mut self, page: u64) -> Option<Place> {
        self.places.remove(&page).map(Place::unpack)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.places.iter().map(|(page, packed)| (*page, Place::unpack(*packed)))
    }
}

/// Hashes ids that are hashes already. The seed differs per process: whoever writes URLs could make ids that
/// meet in a table without one, and turn it into a list.
#[derive(Clone)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Seed {
        Seed(random_key())
    }
}

impl Seed {
    pub(crate) fn spread(&self, id: u64) -> u64 {
        mix(id ^ self.0)
    }
}

impl BuildHasher for Seed {
    type Hasher = IdHasher;
    fn build_hasher(&self) -> IdHasher {
        IdHasher { seed: self.0, hash: 0 }
    }
}

pub(crate) struct IdHasher {
    seed: u64,
    hash: u64,
}

impl Hasher for IdHasher {
    fn write_u64(&mut self, id: u64) {
        self.hash = mix(self.hash ^ id ^ self.seed);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_fits_eight_bytes() {
        for place in [
            Place { slot: 0, offset: 0, stamp: 0 },
            Place { slot: u16::MAX, offset: u32::MAX, stamp: u16::MAX },
            Place { slot: 1, offset: 2, stamp: 3 },
        ] {
            assert_eq!(Place::unpack(place.pack()), place);
        }
    }
}
