//! Numbers ids from 0 on, compactly: sorted, with a small table over their first bits.
//!
//! 8 bytes per id, and 1 to 2 for the table. Ids are hashes, so a slice of the table holds about four of them; ids that somebody
//! made to fall together cost a binary search instead.

/// Ids that were pushed before they are sorted in; 2^20 × 8 bytes = 8 MiB.
const FRESH_MAX: usize = 1 << 20;

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
        self.sorted.shrink_to_fit();
        Ids::from_sorted(self.sorted)
    }

    fn settle(&mut self) {
        self.fresh.sort_unstable();
        self.fresh.dedup();
        // Only the ids that are new are merged in, from the back, in place.
        let mut known = 0;
        let sorted = &self.sorted;
        self.fresh.retain(|id| {
            while sorted.get(known).is_some_and(|other| other < id) {
                known += 1;
            }
            sorted.get(known) != Some(id)
        });
        let (mut from, mut to) = (self.sorted.len(), self.sorted.len() + self.fresh.len());
        self.sorted.resize(to, 0);
        while let Some(id) = self.fresh.last().copied() {
            to -= 1;
            if from > 0 && self.sorted[from - 1] > id {
                from -= 1;
                self.sorted[to] = self.sorted[from];
            } else {
                self.sorted[to] = id;
                self.fresh.pop();
            }
        }
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

/// Counts how often each pair of numbers comes, in sorted order.
#[derive(Default)]
pub(crate) struct PairCounts {
    sorted: Vec<(u32, u32, u32)>,
    fresh: Vec<(u32, u32)>,
}

impl PairCounts {
    pub(crate) fn push(&mut self, from: u32, to: u32) {
        self.fresh.push((from, to));
        if self.fresh.len() == FRESH_MAX {
            self.settle();
        }
    }

    pub(crate) fn finish(mut self) -> Vec<(u32, u32, u32)> {
        self.settle();
        self.sorted
    }

    fn settle(&mut self) {
        self.fresh.sort_unstable();
        let counted =
            self.fresh.chunk_by(|a, b| a == b).map(|pairs| (pairs[0].0, pairs[0].1, pairs.len() as u32));
        let mut merged: Vec<(u32, u32, u32)> = Vec::with_capacity(self.sorted.len());
        let mut old = self.sorted.iter().copied().peekable();
        for (from, to, mut count) in counted {
            while let Some(before) = old.next_if(|before| (before.0, before.1) < (from, to)) {
                merged.push(before);
            }
            if let Some(same) = old.next_if(|same| (same.0, same.1) == (from, to)) {
                count = count.saturating_add(same.2);
            }
            merged.push((from, to, count));
        }
        merged.extend(old);
        self.sorted = merged;
        self.fresh.clear();
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
