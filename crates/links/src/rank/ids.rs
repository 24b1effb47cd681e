//! Numbers ids from 0 on, compactly: sorted, with a small table over their first bits.
//!
//! 8 bytes per id, and 1 to 2 for the table. Ids are hashes, so a slice of the table holds about four of them; ids that somebody
//! made to fall together cost a binary search instead.

/// Ids that are pushed before they are sorted in; 2^19 × 8 bytes = 4 MiB.
const FRESH_MAX: usize = 1 << 19;

/// Collects ids, most of which come many times.
#[derive(Default)]
pub(crate) struct IdSet {
    sorted: Vec<u64>,
    fresh: Vec<u64>,
}

impl IdSet {
    pub(crate) fn push(&mut self, id: u64) {
        self.fresh.push(id);
        if self.fresh.len() == FRESH_MAX {
            self.settle();
        }
    }

    pub(crate) fn finish(mut self) -> Ids {
        self.settle();
        Ids::from_sorted(self.sorted)
    }

    fn settle(&mut self) {
        self.fresh.sort_unstable();
        self.fresh.dedup();
        // Only the ids that are new are merged in.
        let mut known = 0;
        let sorted = &self.sorted;
        self.fresh.retain(|id| {
            while sorted.get(known).is_some_and(|other| other < id) {
                known += 1;
            }
            sorted.get(known) != Some(id)
        });
        merge_back(&mut self.sorted, &mut self.fresh);
    }
}

/// Sorted ids with their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ids {
    ids: Vec<u64>,
    /// Number of the first id whose first bits are at least the index; one entry more than there are slices.
    starts: Vec<u32>,
    shift: u32,
}

impl Ids {
    /// Takes ids in rising order, each once, fewer than 2^32.
    pub(crate) fn from_sorted(ids: Vec<u64>) -> Ids {
        debug_assert!(ids.is_sorted());
        // About four ids per slice; at least two slices, so that the shift stays below 64.
        let bits = (ids.len() / 4).max(2).ilog2();
        let shift = 64 - bits;
        let mut starts = Vec::with_capacity((1usize << bits) + 1);
        let mut at = 0;
        for slice in 0..1u64 << bits {
            while ids.get(at).is_some_and(|id| id >> shift < slice) {
                at += 1;
            }
            starts.push(at as u32);
        }
        starts.push(ids.len() as u32);
        Ids { ids, starts, shift }
    }

    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        let slice = (id >> self.shift) as usize;
        let (start, end) = (*self.starts.get(slice)?, *self.starts.get(slice + 1)?);
        let within = self.ids[start as usize..end as usize].binary_search(&id).ok()?;
        Some(start + within as u32)
    }

    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// Counts how often each pair of numbers comes, in sorted order. 12 bytes per pair.
#[derive(Default)]
pub(crate) struct PairCounts {
    sorted: Vec<(u32, u32, u32)>,
    fresh: Vec<(u32, u32, u32)>,
}

impl PairCounts {
    pub(crate) fn push(&mut self, from: u32, to: u32) {
        self.fresh.push((from, to, 1));
        if self.fresh.len() == FRESH_MAX / 2 {
            self.settle();
        }
    }

    pub(crate) fn finish(mut self) -> Vec<(u32, u32, u32)> {
        self.settle();
        self.sorted
    }

    fn settle(&mut self) {
        let key = |pair: &(u32, u32, u32)| (pair.0, pair.1);
        self.fresh.sort_unstable();
        self.fresh.dedup_by(|again, first| {
            let same = key(again) == key(first);
            first.2 = first.2.saturating_add(if same { again.2 } else { 0 });
            same
        });
        // Known pairs are counted where they stand; the others are merged in, from the back, in place.
        let mut known = 0;
        let sorted = &mut self.sorted;
        self.fresh.retain(|pair| {
            while sorted.get(known).is_some_and(|other| key(other) < key(pair)) {
                known += 1;
            }
            let same = sorted.get_mut(known).filter(|other| key(other) == key(pair));
            same.map(|other| other.2 = other.2.saturating_add(pair.2)).is_none()
        });
        merge_back(&mut self.sorted, &mut self.fresh);
    }
}

/// Merges what is new into what is sorted, without a second copy of it. The two have no element in common.
fn merge_back<T: Copy + Default + Ord>(sorted: &mut Vec<T>, fresh: &mut Vec<T>) {
    let (mut from, mut to) = (sorted.len(), sorted.len() + fresh.len());
    sorted.reserve_exact(fresh.len());
    sorted.resize(to, T::default());
    while let Some(new) = fresh.last().copied() {
        to -= 1;
        if from > 0 && sorted[from - 1] > new {
            from -= 1;
            sorted[to] = sorted[from];
        } else {
            sorted[to] = new;
            fresh.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn ids_are_numbered_in_order(
            rounds in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u64>(), 0u64..20, u64::MAX - 20..], 0..60), 0..4),
            absent in any::<u64>(),
        ) {
            let mut set = IdSet::default();
            for round in &rounds {
                round.iter().for_each(|id| set.push(*id));
                set.settle();
            }
            let naive: BTreeSet<u64> = rounds.into_iter().flatten().collect();
            let ids = set.finish();
            prop_assert_eq!(ids.ids(), naive.iter().copied().collect::<Vec<_>>());
            for (number, id) in naive.iter().enumerate() {
                prop_assert_eq!(ids.find(*id), Some(number as u32));
            }
            prop_assert_eq!(ids.find(absent).is_some(), naive.contains(&absent));
        }

        #[test]
        fn pairs_are_counted(rounds in prop::collection::vec(prop::collection::vec((0u32..5, 0u32..5), 0..40), 0..4)) {
            let (mut pairs, mut naive) = (PairCounts::default(), BTreeMap::new());
            for round in rounds {
                for (from, to) in round {
                    pairs.push(from, to);
                    *naive.entry((from, to)).or_insert(0) += 1;
                }
                pairs.settle();
            }
            let want: Vec<(u32, u32, u32)> = naive.into_iter().map(|((from, to), count)| (from, to, count)).collect();
            prop_assert_eq!(pairs.finish(), want);
        }
    }
}
