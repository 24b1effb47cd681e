//! What several monitors saw, as one: summaries of [`super::SpaceSaving`] that can be added up \[Agarwal13\].
//!
//! INVARIANT, also after merging: for an element that is listed, `count - error <= true frequency <= count`; one that is
//! not listed occurred at most `rest` times.

use super::space_saving::SpaceSaving;
use crate::error::Error;
use std::collections::HashMap;

/// Elements of a summary at most.
pub const TALLIES_MAX: usize = 2_000;

/// An element with its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<K> {
    pub hash: u64,
    pub key: K,
    pub count: u32,
    /// How much of the count may be others'.
    pub error: u32,
}

/// The most frequent elements of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<K> {
    /// Arrivals.
    pub seen: u64,
    /// The most that anything not listed may have occurred.
    pub rest: u32,
    /// The most frequent first.
    pub tallies: Vec<Tally<K>>,
}

impl<K> Default for Summary<K> {
    fn default() -> Summary<K> {
        Summary { seen: 0, rest: 0, tallies: Vec::new() }
    }
}

impl<K: Eq + Clone> SpaceSaving<K> {
    /// The most frequent elements.
    pub fn summary(&self, count: usize) -> Summary<K> {
        let mut all = self.iter().map(|counted| Tally {
            hash: counted.hash,
            key: counted.key.clone(),
            count: counted.count,
            error: counted.error,
        });
        let tallies: Vec<Tally<K>> = all.by_ref().take(count.min(TALLIES_MAX)).collect();
        // The next one is the most frequent of those that are left out; behind all of them is what was never monitored.
        let rest = all.next().map_or(self.least(), |next| next.count);
        Summary { seen: self.seen(), rest, tallies }
    }
}

impl<K: Eq + Clone> Summary<K> {
    /// What all of these saw together, the most frequent `count` of it.
    pub fn merge<'a>(parts: impl IntoIterator<Item = &'a Summary<K>>, count: usize) -> Summary<K>
    where
        K: 'a,
    {
        let parts: Vec<&Summary<K>> = parts.into_iter().collect();
        let rest_of_all: u32 = parts.iter().fold(0, |sum, part| sum.saturating_add(part.rest));
        let mut merged: HashMap<u64, Vec<Tally<K>>> = HashMap::new();
        for part in &parts {
            for tally in &part.tallies {
                let same = merged.entry(tally.hash).or_default();
                match same.iter_mut().find(|known| known.key == tally.key) {
                    Some(known) => {
                        // It had the rest of this part in its count already.
                        known.count = known.count.saturating_sub(part.rest).saturating_add(tally.count);
                        known.error = known.error.saturating_sub(part.rest).saturating_add(tally.error);
                    }
                    None => {
                        let others = rest_of_all - part.rest;
                        same.push(Tally {
                            count: tally.count.saturating_add(others),
                            error: tally.error.saturating_add(others),
                            ..tally.clone()
                        });
                    }
                }
            }
        }
        let mut tallies: Vec<Tally<K>> = merged.into_values().flatten().collect();
        tallies.sort_by_key(|tally| (std::cmp::Reverse(tally.count), tally.error, tally.hash));
        let left_out = tallies.get(count.min(TALLIES_MAX)).map_or(0, |tally| tally.count);
        tallies.truncate(count.min(TALLIES_MAX));
        let seen = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.seen));
        Summary { seen, rest: rest_of_all.max(left_out), tallies }
    }

    /// Refuses what no monitor can have written.
    pub fn check(&self) -> Result<(), Error> {
        if self.tallies.len() > TALLIES_MAX {
            return Err(Error::TooMany { what: "counters", count: self.tallies.len(), max: TALLIES_MAX });
        }
        match self.tallies.iter().find(|tally| tally.error > tally.count) {
            Some(tally) => Err(Error::Count { count: tally.count, error: tally.error }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;
    use proptest::prelude::*;

    proptest! {
        /// Streams of several fronts, counted each for itself: the sums keep the bounds on the whole.
        #[test]
        fn merged_bounds_hold(
            streams in proptest::collection::vec(proptest::collection::vec(0u64..40, 0..200), 0..5),
            counters in 1usize..40, listed in 1usize..40,
        ) {
            let mut exact: HashMap<u64, u32> = HashMap::new();
            let summaries: Vec<Summary<u64>> = streams.iter().map(|stream| {
                let mut monitor = SpaceSaving::new(counters);
                for key in stream {
                    monitor.offer(mix(*key), key);
                    *exact.entry(*key).or_default() += 1;
                }
                monitor.summary(listed)
            }).collect();
            let sum = Summary::merge(&summaries, listed);
            prop_assert!(sum.check().is_ok());
            prop_assert_eq!(sum.seen, exact.values().map(|count| u64::from(*count)).sum::<u64>());
            prop_assert!(sum.tallies.windows(2).all(|pair| pair[0].count >= pair[1].count));
            for tally in &sum.tallies {
                let truth = exact.get(&tally.key).copied().unwrap_or(0);
                prop_assert!(tally.count - tally.error <= truth && truth <= tally.count, "{tally:?} {truth}");
            }
            for (key, truth) in &exact {
                prop_assert!(*truth <= sum.rest || sum.tallies.iter().any(|tally| tally.key == *key), "{key} {truth} {}", sum.rest);
            }
        }
    }

    #[test]
    fn one_monitor_and_the_sum_of_its_parts_agree_where_nothing_is_left_out() {
        let (mut one, mut left, mut right) =
            (SpaceSaving::new(50), SpaceSaving::new(50), SpaceSaving::new(50));
        for i in 0..3_000u64 {
            let key = i % 37 % (1 + i % 13);
            one.offer(mix(key), &key);
            if i % 3 == 0 {
                left.offer(mix(key), &key)
            } else {
                right.offer(mix(key), &key)
            };
        }
        let parts = [left.summary(50), right.summary(50)];
        let mut merged: Vec<(u64, u32)> =
            Summary::merge(&parts, 50).tallies.iter().map(|t| (t.key, t.count)).collect();
        let mut whole: Vec<(u64, u32)> = one.summary(50).tallies.iter().map(|t| (t.key, t.count)).collect();
        merged.sort_unstable();
        whole.sort_unstable();
        assert_eq!(merged, whole);
    }

    #[test]
    fn nonsense_is_refused() {
        let tally = |count, error| Tally { hash: 1, key: 1u64, count, error };
        let wrong = Summary { seen: 1, rest: 0, tallies: vec![tally(3, 4)] };
        assert_eq!(wrong.check(), Err(Error::Count { count: 3, error: 4 }));
        let long = Summary { seen: 1, rest: 0, tallies: vec![tally(3, 0); TALLIES_MAX + 1] };
        assert!(long.check().is_err());
    }
}
