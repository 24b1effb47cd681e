//! Space-Saving (\[Metwally05\]; [Gomez14 §4.2], Algorithm 1): the most frequent elements of a stream with a fixed
//! number of counters.
//!
//! Counters of equal count hang in a bucket, buckets in a list by count, so every step is O(1): the *Stream-Summary*.
//! INVARIANT: for a monitored element, `count - error <= true frequency <= count`; the counts add up to the stream's
//! length; an element that is not monitored occurred at most as often as the least count.

use hashbrown::HashTable;

const NONE: u32 = u32::MAX;

/// Counters that find the top `k` of `n` arrivals with an error of `epsilon`, for Zipf distributions with an
/// exponent below 1 [Gomez14 §4.2]: `k ln n / ε`. 0 where the question makes no sense.
pub fn counters(k: usize, n: u64, epsilon: f64) -> usize {
    if k == 0 || n < 2 || epsilon.is_nan() || epsilon <= 0.0 {
        return 0;
    }
    (k as f64 * (n as f64).ln() / epsilon).round() as usize
}

/// An element with its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<'a, K> {
    pub key: &'a K,
    pub hash: u64,
    pub count: u32,
    /// How much of the count may belong to others.
    pub error: u32,
}

/// The monitor.
pub struct SpaceSaving<K> {
    counters: Vec<Counter<K>>,
    buckets: Vec<Bucket>,
    free_buckets: Vec<u32>,
    /// The bucket with the least and the greatest count.
    least: u32,
    most: u32,
    index: HashTable<u32>,
    counters_max: usize,
    seen: u64,
}

struct Counter<K> {
    key: K,
    hash: u64,
    error: u32,
    bucket: u32,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct Bucket {
    count: u32,
    head: u32,
    /// Buckets with less and with more.
    below: u32,
    above: u32,
}

impl<K: Eq + Clone> SpaceSaving<K> {
    /// At least one counter.
    pub fn new(counters_max: usize) -> SpaceSaving<K> {
        SpaceSaving {
            counters: Vec::new(),
            buckets: Vec::new(),
            free_buckets: Vec::new(),
            least: NONE,
            most: NONE,
            index: HashTable::new(),
            counters_max: counters_max.clamp(1, NONE as usize - 1),
            seen: 0,
        }
    }

    /// Counts one arrival; answers the element's count, and how much of it may be others'.
    pub fn offer(&mut self, hash: u64, key: &K) -> (u32, u32) {
        self.seen += 1;
        let counters = &self.counters;
        let known = self.index.find(hash, |at| {
            let counter = &counters[*at as usize];
            counter.hash == hash && counter.key == *key
        });
        if let Some(at) = known.copied() {
            return (self.raise(at), self.counters[at as usize].error);
        }
        if self.counters.len() < self.counters_max {
            let at = self.counters.len() as u32;
            self.counters.push(Counter {
                key: key.clone(),
                hash,
                error: 0,
                bucket: NONE,
                prev: NONE,
                next: NONE,
            });
            self.remember(hash, at);
            let bucket = match self.least {
                NONE => self.new_bucket(1, NONE, NONE),
                least if self.buckets[least as usize].count == 1 => least,
                least => self.new_bucket(1, NONE, least),
            };
            self.hang(at, bucket);
            return (1, 0);
        }
        // The least counter changes hands; what it had is the new element's possible error.
        let bucket = self.buckets[self.least as usize];
        let at = bucket.head;
        let old = self.counters[at as usize].hash;
        if let Ok(entry) = self.index.find_entry(old, |known| *known == at) {
            entry.remove();
        }
        let counter = &mut self.counters[at as usize];
        (counter.key, counter.hash, counter.error) = (key.clone(), hash, bucket.count);
        self.remember(hash, at);
        (self.raise(at), bucket.count)
    }

    fn remember(&mut self, hash: u64, at: u32) {
        let counters = &self.counters;
        self.index.insert_unique(hash, at, |at| counters[*at as usize].hash);
    }

    /// Moves a counter to the bucket of the next count.
    fn raise(&mut self, at: u32) -> u32 {
        let from = self.counters[at as usize].bucket;
        let Bucket { count, above, .. } = self.buckets[from as usize];
        let count = count.saturating_add(1);
        let to = match above {
            NONE => NONE,
            above if self.buckets[above as usize].count == count => above,
            _ => NONE,
        };
        let to = if to == NONE { self.new_bucket(count, from, above) } else { to };
        self.unhang(at);
        self.hang(at, to);
        count
    }

    fn new_bucket(&mut self, count: u32, below: u32, above: u32) -> u32 {
        let bucket = Bucket { count, head: NONE, below, above };
        let at = match self.free_buckets.pop() {
            Some(at) => {
                self.buckets[at as usize] = bucket;
                at
            }
            None => {
                self.buckets.push(bucket);
                (self.buckets.len() - 1) as u32
            }
        };
        match below {
            NONE => self.least = at,
            below => self.buckets[below as usize].above = at,
        }
        match above {
            NONE => self.most = at,
            above => self.buckets[above as usize].below = at,
        }
        at
    }

    fn hang(&mut self, at: u32, bucket: u32) {
        let head = std::mem::replace(&mut self.buckets[bucket as usize].head, at);
        if head != NONE {
            self.counters[head as usize].prev = at;
        }
        let counter = &mut self.counters[at as usize];
        (counter.bucket, counter.prev, counter.next) = (bucket, NONE, head);
    }

    /// Takes a counter out of its bucket; the bucket goes when it was the last one there.
    fn unhang(&mut self, at: u32) {
        let Counter { bucket, prev, next, .. } = self.counters[at as usize];
        match prev {
            NONE => self.buckets[bucket as usize].head = next,
            prev => self.counters[prev as usize].next = next,
        }
        if next != NONE {
            self.counters[next as usize].prev = prev;
        }
        let Bucket { head, below, above, .. } = self.buckets[bucket as usize];
        if head != NONE {
            return;
        }
        match below {
            NONE => self.least = above,
            below => self.buckets[below as usize].above = above,
        }
        match above {
            NONE => self.most = below,
            above => self.buckets[above as usize].below = below,
        }
        self.free_buckets.push(bucket);
    }

    /// Arrivals since the last reset.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The most that an element without a counter may have occurred; 0 while there are counters left.
    pub fn least(&self) -> u32 {
        match self.least {
            NONE => 0,
            _ if self.counters.len() < self.counters_max => 0,
            least => self.buckets[least as usize].count,
        }
    }

    /// Monitored elements.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Elements by count, the most frequent first.
    pub fn iter(&self) -> impl Iterator<Item = Counted<'_, K>> {
        let mut bucket = self.most;
        let mut at = if bucket == NONE { NONE } else { self.buckets[bucket as usize].head };
        std::iter::from_fn(move || {
            if at == NONE {
                return None;
            }
            let counter = &self.counters[at as usize];
            let count = self.buckets[bucket as usize].count;
            at = counter.next;
            if at == NONE {
                bucket = self.buckets[bucket as usize].below;
                at = if bucket == NONE { NONE } else { self.buckets[bucket as usize].head };
            }
            Some(Counted { key: &counter.key, hash: counter.hash, count, error: counter.error })
        })
    }

    /// Begins a new interval [Gomez14 §4.4]: counts are of one interval, which is what tells of the next.
    pub fn reset(&mut self) {
        self.counters.clear();
        self.buckets.clear();
        self.free_buckets.clear();
        self.index.clear();
        (self.least, self.most, self.seen) = (NONE, NONE, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::{Random, Seeded, mix};
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn sizes_are_those_of_tables_4_3_and_4_4() {
        // k · ln N / ε, N = 50,000, 100,000, 150,000, 200,000.
        #[rustfmt::skip]
        let tables = [
            (0.1, [[1082, 1151, 1192, 1221], [2164, 2303, 2384, 2441], [3246, 3454, 3576, 3662], [4328, 4605, 4767, 4882],
                   [5410, 5756, 5959, 6103], [6492, 6908, 7151, 7324], [7574, 8059, 8343, 8544], [8656, 9210, 9535, 9765],
                   [9738, 10362, 10727, 10985], [10820, 11513, 11918, 12206]]),
            (0.05, [[2164, 2303, 2384, 2441], [4328, 4605, 4767, 4882], [6492, 6908, 7151, 7324], [8656, 9210, 9535, 9765],
                    [10820, 11513, 11918, 12206], [12984, 13816, 14302, 14647], [15148, 16118, 16686, 17089], [17312, 18421, 19069, 19530],
                    [19476, 20723, 21453, 21971], [21640, 23026, 23837, 24412]]),
        ];
        for (epsilon, rows) in tables {
            for (row, wants) in rows.iter().enumerate() {
                for (column, want) in wants.iter().enumerate() {
                    let n = 50_000 * (column as u64 + 1);
                    assert_eq!(counters(10 * (row + 1), n, epsilon), *want, "k {} n {n}", 10 * (row + 1));
                }
            }
        }
        for nonsense in
            [counters(0, 5, 0.1), counters(5, 0, 0.1), counters(5, 9, 0.0), counters(5, 9, f64::NAN)]
        {
            assert_eq!(nonsense, 0);
        }
    }

    /// Exact counts beside approximate ones; the promises of the header.
    fn check(stream: &[u64], counters_max: usize) {
        let mut monitor = SpaceSaving::new(counters_max);
        let mut exact: HashMap<u64, u32> = HashMap::new();
        for key in stream {
            let (count, error) = monitor.offer(mix(*key), key);
            *exact.entry(*key).or_default() += 1;
            assert!(count >= exact[key] && count - error <= exact[key]);
        }
        let all: Vec<_> =
            monitor.iter().map(|counted| (*counted.key, counted.count, counted.error)).collect();
        assert!(all.windows(2).all(|pair| pair[0].1 >= pair[1].1), "in order");
        assert_eq!(all.len(), exact.len().min(counters_max));
        assert_eq!(all.iter().map(|(_, count, _)| u64::from(*count)).sum::<u64>(), stream.len() as u64);
        for (key, count, error) in &all {
            assert!(count - error <= exact[key] && exact[key] <= *count);
        }
        let least = if all.len() < counters_max { 0 } else { all.last().map_or(0, |last| last.1) };
        for (key, count) in &exact {
            assert!(*count <= least || all.iter().any(|(known, ..)| known == key), "{key} is missing");
        }
    }

    proptest! {
        /// The error bound on random streams.
        #[test]
        fn the_bounds_hold(stream in proptest::collection::vec(0u64..40, 0..400), counters_max in 1usize..60) {
            check(&stream, counters_max);
        }
    }

    #[test]
    fn the_bounds_hold_on_a_skewed_stream_with_many_strangers() {
        let mut random = Seeded::new(3);
        let stream: Vec<u64> = (0..30_000u64)
            .map(|i| if random.unit() < 0.4 { 1_000_000 + i } else { (1.0 / (random.unit() + 1e-4)) as u64 })
            .collect();
        check(&stream, 500);
        // Theorem 1: with N / (ε F_k) counters all elements above (1-ε) F_k are monitored.
        let (k, epsilon) = (20, 0.1);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        stream.iter().for_each(|key| *exact.entry(*key).or_default() += 1);
        let mut counts: Vec<u64> = exact.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let kth = counts[k - 1] as f64;
        let mut monitor = SpaceSaving::new((stream.len() as f64 / (epsilon * kth)).ceil() as usize);
        stream.iter().for_each(|key| {
            monitor.offer(mix(*key), key);
        });
        let held: Vec<u64> = monitor.iter().map(|counted| *counted.key).collect();
        for (key, count) in exact {
            assert!(count as f64 <= (1.0 - epsilon) * kth || held.contains(&key));
        }
    }

    #[test]
    fn a_reset_forgets_everything() {
        let mut monitor = SpaceSaving::new(2);
        for key in [1u64, 1, 2, 3, 3, 3] {
            monitor.offer(mix(key), &key);
        }
        monitor.reset();
        assert!(monitor.is_empty() && monitor.iter().next().is_none() && monitor.seen() == 0);
        monitor.offer(mix(9), &9);
        let first = monitor.iter().next().map(|counted| (*counted.key, counted.count, counted.error));
        assert_eq!(first, Some((9, 1, 0)));
    }
}
