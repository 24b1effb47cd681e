//! Copies and hosts thinned: of pages with the same text one is shown, and no host takes all the places.
//!
//! *Copies* (near duplicates): of pages with the same or nearly the same text one is shown, and the others are counted.
//! The one that is shown stands where the best of them stood. It is the one in the language that the asker likes
//! best, then the one with the higher link rank, then the one with the shorter address.
//! *Hosts* (host crowding): the third page of a host waits until other hosts are used up.
//!
//! INVARIANT: the list for a question is the same whichever part of it is asked for.

use crate::parts::{Band, Place, Scored};
use farol_base::HostHash;
use farol_base::random::mix;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Texts whose similarity fingerprints differ in at most this many bits of 64 are near duplicates.
const NEAR_BITS: u32 = 3;

/// Fingerprints that differ in at most three bits agree in at least one of four blocks of this many bits (Manku, Jain,
/// Das Sarma 2007).
const BLOCK_BITS: u32 = 64 / (NEAR_BITS + 1);

/// Fingerprints in one block that a page is compared with; only pages made to collide have more.
const COMPARED_MAX: usize = 64;

/// Whether texts with these fingerprints are near duplicates; a page without text has none.
pub fn is_near(a: u64, b: u64) -> bool {
    a != 0 && b != 0 && (a ^ b).count_ones() <= NEAR_BITS
}

/// Joins the copies of a list in its order; what is left has no two alike.
pub(crate) fn join(scored: Vec<Scored<'_>>) -> Vec<Scored<'_>> {
    let mut list: Vec<Scored<'_>> = Vec::with_capacity(scored.len());
    let mut simhashes = SimhashIndex::default();
    let mut contents: HashMap<u64, usize> = HashMap::with_capacity(scored.len());
    for page in scored {
        let cand = page.cand;
        let twin = contents.get(&cand.content).copied().or_else(|| simhashes.find(cand.simhash));
        let Some(at) = twin else {
            let at = list.len();
            // Pages without text have no fingerprint, and are no copies of each other.
            if cand.content != 0 {
                contents.insert(cand.content, at);
            }
            if cand.simhash != 0 {
                simhashes.add(cand.simhash, at);
            }
            list.push(page);
            continue;
        };
        let shown = &mut list[at];
        shown.duplicates += 1;
        if is_better(&page, shown) {
            // It stands where the other one stood.
            let Scored { score, band, strict, duplicates, .. } = *shown;
            *shown = Scored { score, band, strict, duplicates, ..page };
        }
    }
    list
}

/// Whether a copy should be shown in another one's stead.
fn is_better(copy: &Scored<'_>, shown: &Scored<'_>) -> bool {
    let (copy, shown) = (copy.cand, shown.cand);
    let known = |rank: f32| if rank.is_nan() { 0.0 } else { rank };
    let order = copy.language.cmp(&shown.language);
    let order = order.then(known(shown.link_rank).total_cmp(&known(copy.link_rank)));
    order.then(copy.address.cmp(&shown.address)) == Ordering::Less
}

/// Near-duplicate index: finds simhashes by any block of bits that they share, those that were added first before others.
#[derive(Default)]
struct SimhashIndex {
    /// First and last entry of each block.
    blocks: HashMap<u32, (u32, u32), BuildHasherDefault<BlockHasher>>,
    entries: Vec<SimhashEntry>,
}

struct SimhashEntry {
    simhash: u64,
    at: usize,
    /// The next entry with the same block; itself where there is none.
    next: u32,
}

impl SimhashIndex {
    fn add(&mut self, simhash: u64, at: usize) {
        for block in blocks(simhash) {
            let number = self.entries.len() as u32;
            self.entries.push(SimhashEntry { simhash, at, next: number });
            let (_, last) = self.blocks.entry(block).or_insert((number, number));
            self.entries[*last as usize].next = number;
            *last = number;
        }
    }

    fn find(&self, simhash: u64) -> Option<usize> {
        blocks(simhash).find_map(|block| self.find_in(block, simhash))
    }

    fn find_in(&self, block: u32, simhash: u64) -> Option<usize> {
        let (mut number, last) = *self.blocks.get(&block)?;
        for _ in 0..COMPARED_MAX {
            let entry = &self.entries[number as usize];
            if is_near(entry.simhash, simhash) {
                return Some(entry.at);
            }
            if number == last {
                break;
            }
            number = entry.next;
        }
        None
    }
}

/// The blocks of a fingerprint, each with its place in it.
fn blocks(simhash: u64) -> impl Iterator<Item = u32> {
    let bits = move |block: u32| (simhash >> (block * BLOCK_BITS) & ((1 << BLOCK_BITS) - 1)) as u32;
    (0..64 / BLOCK_BITS).map(move |block| block << BLOCK_BITS | bits(block))
}

/// There are but 262,144 blocks, so that nobody gains by making them collide.
#[derive(Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0 ^ u64::from(*byte)));
    }

    fn write_u32(&mut self, block: u32) {
        self.0 = mix(u64::from(block));
    }
}

/// Shares places out among hosts: in each band the first `hits_per_host` pages of every host come before the others, in
/// their order; 0 leaves the order as it is.
pub(crate) fn crowd(scored: Vec<Scored<'_>>, hits_per_host: usize) -> Vec<Place> {
    let hits_per_host = if hits_per_host == 0 { usize::MAX } else { hits_per_host };
    let mut list: Vec<Place> = Vec::with_capacity(scored.len());
    // Beside each hit: its host, its band, and whether it is one too many of that host.
    let mut places: Vec<(HostHash, Band, bool)> = Vec::with_capacity(scored.len());
    let mut hosts: HashMap<HostHash, usize> = HashMap::new();
    for page in scored {
        let of_host = hosts.entry(page.cand.host).or_default();
        *of_host += 1;
        places.push((page.cand.host, page.band, *of_host > hits_per_host));
        let Scored { cand, part, number, score, duplicates, strict, .. } = page;
        list.push(Place {
            part,
            cand: Some(number),
            page: cand.page,
            score,
            duplicates,
            more_from_host: false,
            strict,
        });
    }
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|at| (places[*at].1, places[*at].2)); // Stable.
    let moved: HashSet<HostHash> =
        order.iter().enumerate().filter(|(to, from)| to > from).map(|(_, from)| places[*from].0).collect();
    order
        .into_iter()
        .map(|at| {
            let (host, _, crowds) = places[at];
            Place { more_from_host: !crowds && moved.contains(&host), ..list[at] }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn near_fingerprints_are_found(simhash in 1u64.., flips in prop::collection::btree_set(0u32..64, 0..6)) {
            let mut simhashes = SimhashIndex::default();
            simhashes.add(simhash, 7);
            let other = flips.iter().fold(simhash, |hash, bit| hash ^ 1 << bit);
            prop_assert_eq!(simhashes.find(other), (flips.len() <= 3).then_some(7));
        }
    }
}
