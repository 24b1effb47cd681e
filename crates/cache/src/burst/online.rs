//! Early detection [Gomez14 §6.4, Algorithm 4]: three measurements are enough, five are remembered.
//!
//! A query begins to burst when its count of this interval reaches the mean of the last ones plus `x` deviations,
//! and these vary by more than `r` of their mean. It ends when its count falls below `c`; the two tests are a trigger
//! only, because during a burst mean and deviation mean something else.
//!
//! INVARIANT: memory is bounded: so many queries are watched, each with `w` counts.

use std::collections::{HashMap, VecDeque};

/// Parameters, with \[Gomez14\]'s values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// `x`: deviations above the mean; 0.5 to 2 are useful.
    pub deviations: f64,
    /// `r`: least coefficient of variation; 0.1 to 0.2 are useful.
    pub variation_min: f64,
    /// `c`: a burst ends below this count.
    pub release: u32,
    /// Counts below this are no burst yet; they are remembered all the same.
    pub floor: u32,
    /// `w`: counts remembered.
    pub window: usize,
    /// Queries watched at most, the most frequent ones.
    pub watched_max: usize,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { deviations: 1.0, variation_min: 0.1, release: 100, floor: 100, window: 5, watched_max: 500 }
    }
}

/// The last counts of a query, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Series(VecDeque<u32>);

impl Series {
    pub fn push(&mut self, count: u32, window: usize) {
        self.0.push_back(count);
        while self.0.len() > window.max(1) {
            self.0.pop_front();
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn mean(&self) -> f64 {
        self.0.iter().map(|count| f64::from(*count)).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Standard deviation of these counts (of the population, §6.4).
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum();
        (squares / self.0.len().max(1) as f64).sqrt()
    }

    /// Deviation over mean; 0 where the mean is 0. At most `sqrt(w - 1)`.
    pub fn variation(&self) -> f64 {
        let mean = self.mean();
        if mean > 0.0 { self.deviation() / mean } else { 0.0 }
    }

    /// Whether this next count begins a burst.
    pub fn fires(&self, count: u32, rules: &Rules) -> bool {
        self.0.len() >= 2
            && count >= rules.floor
            && f64::from(count) >= self.mean() + rules.deviations * self.deviation()
            && self.variation() > rules.variation_min
    }
}

impl FromIterator<u32> for Series {
    fn from_iter<I: IntoIterator<Item = u32>>(counts: I) -> Series {
        Series(counts.into_iter().collect())
    }
}

/// A burst's beginning or end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// With its severity from 1 to 4: bands of ½ of the coefficient of variation [Gomez14 §6.7].
    Begins {
        hash: u64,
        severity: u8,
    },
    Ends {
        hash: u64,
    },
}

/// Severity of a burst: which quarter of 0 to 2 its coefficient of variation lies in.
pub fn severity(variation: f64) -> u8 {
    (1.0 + (variation / 0.5).floor()).clamp(1.0, 4.0) as u8
}

/// Nodes for a burst (our reading; \[Gomez14\] gives no table): as many quarters of all as it is severe.
pub fn nodes_for(severity: u8, nodes: usize) -> usize {
    (nodes * usize::from(severity)).div_ceil(4).clamp(2.min(nodes), nodes)
}

/// Watches the most frequent queries.
pub struct Detector {
    rules: Rules,
    watched: HashMap<u64, Watched>,
}

#[derive(Default)]
struct Watched {
    series: Series,
    bursts: Option<u8>,
    /// Whether it was counted in this interval.
    seen: bool,
    zeros: usize,
}

impl Detector {
    pub fn new(rules: Rules) -> Detector {
        Detector { rules, watched: HashMap::new() }
    }

    /// One interval: counts by query, the most frequent first.
    pub fn step(&mut self, counts: impl Iterator<Item = (u64, u32)>) -> Vec<Event> {
        let mut events = Vec::new();
        for (hash, count) in counts.take(self.rules.watched_max) {
            let known = self.watched.len();
            // Queries that fade make room within `w` intervals; until then there is some room to spare.
            if known >= 4 * self.rules.watched_max && !self.watched.contains_key(&hash) {
                continue;
            }
            let watched = self.watched.entry(hash).or_default();
            (watched.seen, watched.zeros) = (true, 0);
            watched.count(hash, count, &self.rules, &mut events);
        }
        let rules = self.rules;
        self.watched.retain(|hash, watched| {
            if !std::mem::take(&mut watched.seen) {
                watched.zeros += 1;
                watched.count(*hash, 0, &rules, &mut events);
            }
            watched.zeros < rules.window.max(1)
        });
        events
    }

    /// Bursts under way, with their severity.
    pub fn bursts(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.watched.iter().filter_map(|(hash, watched)| watched.bursts.map(|severity| (*hash, severity)))
    }
}

impl Watched {
    fn count(&mut self, hash: u64, count: u32, rules: &Rules, events: &mut Vec<Event>) {
        if self.bursts.is_some() {
            if count < rules.release {
                self.bursts = None;
                events.push(Event::Ends { hash });
            }
        } else if self.series.fires(count, rules) {
            let severity = severity(self.series.variation());
            self.bursts = Some(severity);
            events.push(Event::Begins { hash, severity });
        }
        self.series.push(count, rules.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statistics_are_those_of_tables_6_3_and_6_4() {
        // [Gomez14]: mean as printed (64.8 where the table has a slip), deviation, threshold at x = 2, variation.
        let rows: [([u32; 5], f64, f64, f64); 8] = [
            ([65, 57, 55, 79, 68], 8.59, 81.98, 13.0),
            ([111, 106, 113, 94, 126], 10.37, 130.74, 9.0),
            ([262, 273, 297, 267, 285], 12.68, 302.36, 5.0),
            ([1104, 1140, 1057, 1098, 1163], 36.52, 1185.04, 3.0),
            ([9, 28, 71, 123, 151], 54.13, 184.26, 71.0),
            ([34, 66, 113, 239, 400], 134.32, 438.64, 79.0),
            ([94, 138, 286, 383, 725], 225.04, 775.08, 69.0),
            ([145, 208, 415, 850, 1388], 464.40, 1529.8, 77.0),
        ];
        for (counts, deviation, threshold, variation) in rows {
            let series: Series = counts.into_iter().collect();
            assert!((series.deviation() - deviation).abs() < 0.01, "{counts:?}: {}", series.deviation());
            assert!((series.mean() + 2.0 * series.deviation() - threshold).abs() < 0.5, "{counts:?}");
            assert!(
                (100.0 * series.variation() - variation).abs() < 1.0,
                "{counts:?}: {}",
                series.variation()
            );
        }
    }

    #[test]
    fn the_trigger() {
        let rules = Rules { deviations: 2.0, variation_min: 0.2, ..Rules::default() };
        let rising: Series = [9, 28, 71, 123, 151].into_iter().collect();
        assert!(rising.fires(185, &rules) && !rising.fires(184, &rules));
        let flat: Series = [500; 5].into_iter().collect();
        assert!(!flat.fires(100_000, &Rules::default()));
        let one: Series = [5].into_iter().collect();
        assert!(!one.fires(1000, &Rules::default()));
        let step: Series = [10, 10, 10, 10, 1000].into_iter().collect();
        assert!((step.variation() - 1.90).abs() < 0.01);
        assert!(step.fires(1000, &Rules { deviations: 2.0, ..rules }));
        assert!(!Series::default().fires(0, &Rules { floor: 0, ..rules }));
    }

    #[test]
    fn a_burst_lasts_until_its_count_falls() {
        let mut detector = Detector::new(Rules::default());
        let mut events = Vec::new();
        for count in [20, 60, 130, 400, 400, 400, 400, 400, 400, 150, 99, 99] {
            events.push(detector.step([(7, count)].into_iter()).len());
        }
        //                20 60 130 …  flat at f >= c: stays        99: ends
        assert_eq!(events, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        // A query that is no longer counted at all ends too, and is forgotten.
        let mut detector = Detector::new(Rules::default());
        [20, 60, 130].into_iter().for_each(|count| drop(detector.step([(7, count)].into_iter())));
        assert_eq!(detector.bursts().count(), 1);
        assert_eq!(detector.step(std::iter::empty()), [Event::Ends { hash: 7 }]);
        (0..5).for_each(|_| drop(detector.step(std::iter::empty())));
        assert!(detector.watched.is_empty());
    }

    #[test]
    fn severity_has_four_bands() {
        let bands = [(0.0, 1), (0.49, 1), (0.5, 2), (1.0, 3), (1.9, 4), (2.0, 4), (9.0, 4)];
        assert!(bands.iter().all(|(variation, want)| severity(*variation) == *want));
        assert_eq!([1, 2, 3, 4].map(|severity| nodes_for(severity, 30)), [8, 15, 23, 30]);
        assert_eq!((nodes_for(1, 1), nodes_for(1, 3)), (1, 2));
    }

    #[test]
    fn the_number_of_watched_queries_is_bounded() {
        let mut detector = Detector::new(Rules { watched_max: 10, ..Rules::default() });
        for minute in 0..50u64 {
            detector.step((0..100).map(|i| (minute * 100 + i, 500)));
            assert!(detector.watched.len() <= 50);
        }
    }

    proptest! {
        /// The coefficient of variation is at most sqrt(w - 1), and 0 0 0 0 a reaches it.
        #[test]
        fn variation_is_bounded(counts in proptest::collection::vec(0u32..100_000, 5), a in 1u32..1_000_000) {
            let series: Series = counts.into_iter().collect();
            prop_assert!(series.variation() <= 2.0 + 1e-9);
            let last: Series = [0, 0, 0, 0, a].into_iter().collect();
            prop_assert!((last.variation() - 2.0).abs() < 1e-9);
        }
    }
}
