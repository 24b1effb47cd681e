//! What the broker remembers between questions: sizes of shards, counts of words, completions.
//!
//! What a shard said last stands in for it while nobody answers for it: scores are then a little off, and no page of
//! another shard is lost.

use farol_base::sync::Mutex;
use farol_query::parts::{Counts, Sizes};
use farol_query::scatter::ShardNo;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Sizes are asked for again after this.
const SIZES_AGE_MAX: Duration = Duration::from_secs(60);
/// And after this where something has changed.
const SIZES_AGE_CHANGED: Duration = Duration::from_secs(5);
/// Counts are asked for again after this.
pub const COUNTS_AGE_MAX: Duration = Duration::from_secs(10);
/// Completions are.
pub const COMPLETIONS_AGE_MAX: Duration = Duration::from_secs(60);
/// Questions whose counts are remembered: some kilobytes each.
pub const COUNTS_MAX: usize = 1_000;
/// Beginnings whose completions are remembered.
pub const COMPLETIONS_MAX: usize = 4_000;

/// How large shards were when they were last asked.
#[derive(Default)]
pub struct KnownSizes(Mutex<BTreeMap<ShardNo, KnownSize>>);

struct KnownSize {
    sizes: Option<Sizes>,
    asked: Instant,
    state: u64,
}

impl KnownSizes {
    /// Shards that are to be asked now. Whoever is told asks: others go on with what is known until he has.
    pub fn due(&self, shards: impl Iterator<Item = ShardNo>, state: u64, now: Instant) -> Vec<ShardNo> {
        let mut known = self.0.lock();
        let is_due = |known: &KnownSize| {
            let age = now.saturating_duration_since(known.asked);
            let changed = known.state != state && age >= SIZES_AGE_CHANGED;
            known.sizes.is_none() || changed || age >= SIZES_AGE_MAX
        };
        let mut due = Vec::new();
        for shard in shards {
            match known.get_mut(&shard) {
                Some(entry) if !is_due(entry) => continue,
                Some(entry) => (entry.asked, entry.state) = (now, state),
                None => drop(known.insert(shard, KnownSize { sizes: None, asked: now, state })),
            }
            due.push(shard);
        }
        due
    }

    pub fn set(&self, shard: ShardNo, sizes: Sizes) {
        if let Some(known) = self.0.lock().get_mut(&shard) {
            known.sizes = Some(sizes);
        }
    }

    /// What is known of these shards, together; and whether that is nothing at all.
    pub fn sum(&self, shards: impl Iterator<Item = ShardNo>) -> Option<Sizes> {
        let known = self.0.lock();
        let sizes: Vec<&Sizes> =
            shards.filter_map(|shard| known.get(&shard).and_then(|known| known.sizes.as_ref())).collect();
        (!sizes.is_empty()).then(|| Sizes::sum(sizes))
    }
}

/// Counts of the words of one question, by shard.
pub type CountsByShard = BTreeMap<ShardNo, Counts>;

/// Values that were true a while ago, at most so many.
pub struct Remembered<K, V> {
    values: Mutex<HashMap<K, (V, Instant)>>,
    count_max: usize,
}

impl<K: Hash + Eq, V: Clone> Remembered<K, V> {
    pub fn new(count_max: usize) -> Remembered<K, V> {
        Remembered { values: Mutex::new(HashMap::new()), count_max }
    }

    /// The value and its age.
    pub fn get(&self, key: &K, now: Instant) -> Option<(V, Duration)> {
        let values = self.values.lock();
        values.get(key).map(|(value, at)| (value.clone(), now.saturating_duration_since(*at)))
    }

    /// Remembers a value. Where there are too many, the older half is forgotten.
    pub fn set(&self, key: K, value: V, now: Instant) {
        let mut values = self.values.lock();
        if values.len() >= self.count_max && !values.contains_key(&key) {
            let mut times: Vec<Instant> = values.values().map(|(_, at)| *at).collect();
            let middle = times.len() / 2;
            let (_, middle, _) = times.select_nth_unstable(middle);
            let middle = *middle;
            values.retain(|_, (_, at)| *at > middle);
        }
        values.insert(key, (value, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn sizes_are_asked_for_by_one_and_again_when_old_or_changed() {
        let (known, now) = (KnownSizes::default(), Instant::now());
        let shards = || [ShardNo(1), ShardNo(2)].into_iter();
        assert_eq!(known.due(shards(), 7, now), [ShardNo(1), ShardNo(2)]);
        assert_eq!(known.sum(shards()), None);
        known.set(ShardNo(1), Sizes { documents: 5, ..Sizes::default() });
        assert_eq!(known.due(shards(), 7, now), [ShardNo(2)], "who has not answered is asked again");
        known.set(ShardNo(2), Sizes { documents: 6, ..Sizes::default() });
        assert_eq!(known.sum(shards()).unwrap().documents, 11);
        assert_eq!(known.due(shards(), 7, now + 59 * SECOND), []);
        assert_eq!(known.due(shards(), 8, now + 4 * SECOND), []);
        assert_eq!(known.due(shards(), 8, now + 5 * SECOND).len(), 2);
        assert_eq!(known.due(shards(), 8, now + 5 * SECOND), [], "somebody asks already");
        assert_eq!(known.due(shards(), 8, now + 65 * SECOND).len(), 2);
        assert_eq!(known.sum(shards()).unwrap().documents, 11, "the old ones hold until then");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes() {
        let (remembered, now) = (Remembered::new(10), Instant::now());
        for number in 0..100u32 {
            remembered.set(number, number, now + SECOND * number);
        }
        assert!(remembered.values.lock().len() <= 10);
        assert_eq!(remembered.get(&99, now + 100 * SECOND), Some((99, SECOND)));
        assert_eq!(remembered.get(&5, now), None);
    }
}
