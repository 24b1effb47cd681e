//! Recently seen URLs: a 7-way set-associative fingerprint cache with FIFO eviction, in front of the
//! memtable.
//!
//! A hit means that the URL was written recently, at this depth or a smaller one, so the write can be
//! dropped. 64-bit tags under a per-process random seed: one false hit in 2 × 10¹⁸ checks, and nobody can aim
//! at it. A miss only costs a duplicate write.

use farol_base::fingerprint::{keyed128, random_key};

/// URLs of a set: a new one evicts the oldest.
const WAYS: usize = 7;

/// URLs found at this depth or a greater one are always written.
const DEEP: u8 = u8::MAX;

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CacheSet {
    tags: [u64; WAYS],
    /// Depth at which each was found.
    depths: [u8; WAYS],
    oldest: u8,
}

const EMPTY_SET: CacheSet = CacheSet { tags: [0; WAYS], depths: [0; WAYS], oldest: 0 };

impl CacheSet {
    /// Which of its URLs has this tag. Compares all of them: a branch on the first would mispredict.
    fn way_of(&self, tag: u64) -> Option<usize> {
        let hits = (0..WAYS).fold(0u32, |hits, way| hits | u32::from(self.tags[way] == tag) << way);
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }
}

/// A URL's fingerprint: which set, and its tag there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fingerprint {
    set: u64,
    tag: u64,
}

#[derive(Debug)]
pub struct SeenCache {
    sets: Box<[CacheSet]>,
    key: u64,
}

impl SeenCache {
    /// Takes up to this many bytes.
    pub fn new(bytes: u64) -> SeenCache {
        let sets = (bytes / size_of::<CacheSet>() as u64).max(256);
        let sets = 1usize << sets.ilog2();
        SeenCache { sets: vec![EMPTY_SET; sets].into_boxed_slice(), key: random_key() }
    }

    /// The fingerprint of a URL, under this cache's seed.
    pub fn fingerprint(&self, url: &str) -> Fingerprint {
        let fingerprint = keyed128(url.as_bytes(), self.key);
        Fingerprint { set: (fingerprint >> 64) as u64, tag: fingerprint as u64 }
    }

    fn at(&self, fingerprint: Fingerprint) -> usize {
        fingerprint.set as usize & (self.sets.len() - 1)
    }

    /// Prefetches the sets of these URLs, before they are looked up one by one.
    pub fn prefetch(&self, fingerprints: &[Fingerprint]) {
        let tags = fingerprints.iter().map(|fingerprint| self.sets[self.at(*fingerprint)].tags[0]);
        std::hint::black_box(tags.fold(0, |all, tag| all ^ tag));
    }

    /// Whether a URL was found recently.
    pub fn contains(&self, fingerprint: Fingerprint) -> bool {
        self.sets[self.at(fingerprint)].way_of(fingerprint.tag).is_some()
    }

    /// Whether a URL was found recently at this depth or a smaller one.
    pub fn contains_at(&self, fingerprint: Fingerprint, depth: u16) -> bool {
        let set = &self.sets[self.at(fingerprint)];
        let before = set.way_of(fingerprint.tag).map(|way| set.depths[way]);
        before.is_some_and(|before| before != DEEP && u16::from(before) <= depth)
    }

    /// Inserts a URL with its depth, or updates that of one that is there.
    pub fn insert(&mut self, fingerprint: Fingerprint, depth: u16) {
        let at = self.at(fingerprint);
        let set = &mut self.sets[at];
        let way = set.way_of(fingerprint.tag).unwrap_or_else(|| {
            let oldest = usize::from(set.oldest);
            set.oldest = ((oldest + 1) % WAYS) as u8;
            oldest
        });
        set.tags[way] = fingerprint.tag;
        set.depths[way] = depth.min(u16::from(DEEP)) as u8;
    }

    /// Invalidates everything, by a new seed.
    pub fn clear(&mut self) {
        self.key = random_key();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_known_again_at_its_depth_or_below() {
        let mut seen_cache = SeenCache::new(0);
        let fingerprint = seen_cache.fingerprint("http://h/a");
        assert!(!seen_cache.contains(fingerprint) && !seen_cache.contains_at(fingerprint, 5));
        seen_cache.insert(fingerprint, 3);
        assert!(
            seen_cache.contains(fingerprint)
                && seen_cache.contains_at(fingerprint, 3)
                && seen_cache.contains_at(fingerprint, 5)
        );
        assert!(
            !seen_cache.contains_at(fingerprint, 2)
                && !seen_cache.contains(seen_cache.fingerprint("http://h/b"))
        );
        seen_cache.insert(fingerprint, 2);
        assert!(seen_cache.contains_at(fingerprint, 2));
        seen_cache.clear();
        assert!(!seen_cache.contains(seen_cache.fingerprint("http://h/a")));
    }

    #[test]
    fn far_from_the_seeds_a_url_is_known_and_written_all_the_same() {
        let mut seen_cache = SeenCache::new(0);
        let fingerprint = seen_cache.fingerprint("http://h/a");
        for depth in [255, 256, u16::MAX] {
            seen_cache.insert(fingerprint, depth);
            assert!(
                seen_cache.contains(fingerprint)
                    && !seen_cache.contains_at(fingerprint, 254)
                    && !seen_cache.contains_at(fingerprint, u16::MAX)
            );
        }
        seen_cache.insert(fingerprint, 254);
        assert!(
            seen_cache.contains_at(fingerprint, 254)
                && seen_cache.contains_at(fingerprint, u16::MAX)
                && !seen_cache.contains_at(fingerprint, 253)
        );
    }

    #[test]
    fn the_newest_of_a_set_stay() {
        let mut seen_cache = SeenCache::new(0);
        let fingerprints: Vec<Fingerprint> = (1..=9).map(|tag| Fingerprint { set: 3, tag }).collect();
        let known = |seen_cache: &SeenCache| {
            fingerprints.iter().map(|fingerprint| seen_cache.contains(*fingerprint)).collect::<Vec<bool>>()
        };
        fingerprints.iter().take(8).for_each(|fingerprint| seen_cache.insert(*fingerprint, 0));
        assert_eq!(known(&seen_cache), [false, true, true, true, true, true, true, true, false]);
        // One that is there evicts nothing.
        seen_cache.insert(fingerprints[4], 0);
        seen_cache.insert(fingerprints[8], 0);
        assert_eq!(known(&seen_cache), [false, false, true, true, true, true, true, true, true]);
    }
}
