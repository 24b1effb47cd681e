//! Characterises a log of queries [Gomez14 §1.7]: how often queries repeat, how skewed they are, what a cache could gain.
//!
//! Works on queries by number, in the order of time; reading files and naming queries is the caller's.

use crate::burst::online::{Rules, Series};
use crate::replace::Policy;
use crate::store::{Entry, Store};
use farol_base::Timestamp;
use farol_base::random::mix;
use std::collections::HashMap;

/// Counts of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub queries: u64,
    pub distinct: u64,
    /// Asked once.
    pub once: u64,
}

impl Totals {
    /// Counts how often each query was asked.
    pub fn of(counts: impl Iterator<Item = u64>) -> Totals {
        counts.fold(Totals::default(), |sum, count| Totals {
            queries: sum.queries + count,
            distinct: sum.distinct + 1,
            once: sum.once + u64::from(count == 1),
        })
    }

    /// TMH, the greatest hit rate that an endless cache could have: `(Q - D) / Q`. 0 where nothing was asked.
    pub fn hit_rate_max(&self) -> f64 {
        self.queries.saturating_sub(self.distinct) as f64 / self.queries.max(1) as f64
    }

    /// Entries that are enough for TMH: the queries that repeat.
    pub fn repeated(&self) -> u64 {
        self.distinct - self.once
    }
}

/// Zipf's exponent: the slope of log frequency over log rank, fitted where the ranks are sure (asked five times or more),
/// each power of two of ranks counting the same. `None` where too few queries repeat.
pub fn skew(sorted: &[u64]) -> Option<f64> {
    let sure = sorted.iter().take_while(|count| **count >= 5).count();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut rank = 1;
    while rank <= sure {
        points.push(((rank as f64).ln(), (sorted[rank - 1] as f64).ln()));
        rank *= 2;
    }
    if points.len() < 3 {
        return None;
    }
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let above: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    Some(-above / below)
}

/// Hit rates of caches of different sizes on a stream of query numbers: entries, and the share of queries found.
pub fn hit_rates(queries: &[u64], sizes: &[u64], policy: Policy) -> Vec<(u64, f64)> {
    sizes.iter().map(|size| (*size, hit_rate(queries, *size, policy))).collect()
}

fn hit_rate(queries: &[u64], entries: u64, policy: Policy) -> f64 {
    let mut store: Store<u64, ()> = Store::of_entries(entries, policy);
    let mut hits = 0u64;
    for query in queries {
        let hash = mix(*query);
        if store.get(hash, query).is_some() {
            hits += 1;
            continue;
        }
        store.insert(Entry { hash, key: *query, value: (), weight: 1, made: Timestamp::EPOCH, state: 0 });
    }
    hits as f64 / queries.len().max(1) as f64
}

/// Queries that were not there on any earlier day, by day.
pub fn new_by_day(log: &[(f64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut first_day: HashMap<u64, u64> = HashMap::new();
    let mut days: Vec<(u64, u64, u64)> = Vec::new();
    let mut seen_today: HashMap<u64, u64> = HashMap::new();
    for (at, query) in log {
        let day = (at / 86_400.0) as u64;
        if days.last().is_none_or(|(last, _, _)| *last != day) {
            days.push((day, 0, 0));
        }
        let Some((_, distinct, new)) = days.last_mut() else { continue };
        if seen_today.insert(*query, day) != Some(day) {
            *distinct += 1;
        }
        if !first_day.contains_key(query) {
            first_day.insert(*query, day);
            *new += 1;
        }
    }
    days
}

/// A burst in a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogBurst {
    pub query: u64,
    /// Seconds at which it was declared, at which it first stopped rising, and of its greatest count.
    pub declared: f64,
    pub first_maximum: Option<f64>,
    pub peak: f64,
    /// Count in the interval of its peak.
    pub count: u32,
}

/// Bursts among the most asked queries of a log in the order of time, with intervals of so many seconds.
pub fn bursts(log: &[(f64, u64)], interval: f64, rules: &Rules) -> Vec<LogBurst> {
    let (Some(first), Some(last)) = (log.first(), log.last()) else { return Vec::new() };
    if interval.is_nan() || interval <= 0.0 {
        return Vec::new();
    }
    let intervals = ((last.0 - first.0) / interval) as usize + 1;
    // 100,000 intervals of a few hundred queries are 200 MB at most.
    if intervals > 100_000 {
        return Vec::new();
    }
    let mut counts: HashMap<u64, u64> = HashMap::new();
    log.iter().for_each(|(_, query)| *counts.entry(*query).or_default() += 1);
    let mut top: Vec<(u64, u64)> =
        counts.into_iter().filter(|(_, count)| *count >= u64::from(rules.floor)).collect();
    top.sort_by_key(|(query, count)| (std::cmp::Reverse(*count), *query));
    top.truncate(rules.watched_max);
    let mut series: HashMap<u64, Vec<u32>> =
        top.into_iter().map(|(query, _)| (query, vec![0; intervals])).collect();
    for (at, query) in log {
        if let Some(series) = series.get_mut(query) {
            series[((at - first.0) / interval) as usize] += 1;
        }
    }
    let mut found = Vec::new();
    for (query, counts) in series {
        let mut last_counts = Series::default();
        for (i, count) in counts.iter().enumerate() {
            if last_counts.fires(*count, rules) {
                let after = &counts[i..];
                let peak = after.iter().enumerate().max_by_key(|(at, count)| (**count, usize::MAX - at));
                let values: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
                let time = |at: usize| first.0 + at as f64 * interval;
                found.push(LogBurst {
                    query,
                    declared: time(i),
                    first_maximum: first_maximum(&values, i).map(time),
                    peak: time(i + peak.map_or(0, |(at, _)| at)),
                    count: peak.map_or(0, |(_, count)| *count),
                });
                break;
            }
            last_counts.push(*count, rules.window);
        }
    }
    found.sort_by(|a, b| b.count.cmp(&a.count).then(a.query.cmp(&b.query)));
    found
}

/// The first maximum after a minute: where a sustained rise first stops. Both of the next two minutes must lie below
/// it by more than chance (the root of the count).
pub fn first_maximum(series: &[f64], from: usize) -> Option<usize> {
    (from..series.len().saturating_sub(2)).find(|t| {
        let below = series[*t] - series[*t].max(0.0).sqrt();
        series[*t + 1] < below && series[*t + 2] < below
    })
}

/// Nodes for a peak of requests: none above so much of its capacity when one more has failed.
pub fn nodes_for(peak_per_second: f64, node_per_second: f64, utilisation: f64) -> u64 {
    let bears = node_per_second * utilisation;
    if bears.is_nan() || bears <= 0.0 || !peak_per_second.is_finite() {
        return 1;
    }
    let needed = (peak_per_second / bears).ceil().max(1.0) as u64;
    // One node alone may fail: then the index answers. From two on, the rest must bear it.
    if needed > 1 { needed + 1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_hit_rates_are_those_of_the_thesis() {
        // [Gomez14 Tables 1.1 and 4.2].
        let months = [
            (1_917_556_179, 466_000_248, 355_207_061, 110_793_187, 75.70),
            (2_032_123_082, 506_756_863, 386_822_371, 119_934_492, 75.06),
            (1_893_555_146, 478_271_434, 366_965_677, 111_305_757, 74.74),
            (1_873_446_442, 477_878_560, 368_497_559, 57_377_068 + 52_003_933, 74.49),
        ];
        for (queries, distinct, once, repeated, percent) in months {
            let totals = Totals { queries, distinct, once };
            assert_eq!(totals.repeated(), repeated);
            assert!((100.0 * totals.hit_rate_max() - percent).abs() < 0.006, "{}", totals.hit_rate_max());
        }
        assert_eq!(62_644_642 + 57_289_850, 119_934_492, "f = 2 and f >= 3 of January");
        assert_eq!(Totals::default().hit_rate_max(), 0.0);
        let totals = Totals::of([5, 1, 1, 3].into_iter());
        assert_eq!(totals, Totals { queries: 10, distinct: 4, once: 2 });
        assert_eq!(totals.hit_rate_max(), 0.6);
    }

    #[test]
    fn skew_is_the_exponent() {
        for exponent in [0.7f64, 1.0, 1.3] {
            let counts: Vec<u64> =
                (1..5000).map(|rank| (1e6 / f64::from(rank).powf(exponent)) as u64).collect();
            assert!((skew(&counts).unwrap() - exponent).abs() < 0.02);
        }
        assert_eq!((skew(&[]), skew(&[9, 1, 1])), (None, None));
    }

    #[test]
    fn larger_caches_hit_more_and_an_endless_one_reaches_the_greatest() {
        let queries: Vec<u64> = (0..5000u64).map(|i| mix(i) % (1 + mix(i * 7) % 500)).collect();
        let rates = hit_rates(&queries, &[1, 10, 100, 10_000], Policy::Lru);
        assert!(rates.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        let distinct = queries.iter().collect::<std::collections::HashSet<_>>().len() as u64;
        let most = Totals { queries: 5000, distinct, once: 0 }.hit_rate_max();
        assert!((rates[3].1 - most).abs() < 1e-9);
    }

    #[test]
    fn days_and_their_new_queries() {
        let log = [(0.0, 1), (10.0, 2), (20.0, 1), (86_400.0, 1), (86_401.0, 3), (3.0 * 86_400.0, 3)];
        assert_eq!(new_by_day(&log), [(0, 2, 2), (1, 2, 1), (3, 1, 0)]);
    }

    #[test]
    fn a_burst_is_found_with_its_times() {
        let mut log: Vec<(f64, u64)> = (0..6000).map(|i| (f64::from(i), 1)).collect();
        for (minute, count) in [(50, 20), (51, 60), (52, 150), (53, 300), (54, 500), (55, 200), (56, 100)] {
            log.extend(
                (0..count).map(|i| (f64::from(minute) * 60.0 + 60.0 * f64::from(i) / f64::from(count), 2)),
            );
        }
        log.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = bursts(&log, 60.0, &Rules { floor: 50, ..Rules::default() });
        assert_eq!(found.len(), 1, "{found:?}");
        let burst = found[0];
        assert_eq!(
            (burst.query, burst.declared, burst.peak, burst.count),
            (2, 51.0 * 60.0, 54.0 * 60.0, 500)
        );
        assert_eq!(burst.first_maximum, Some(54.0 * 60.0));
        assert!(bursts(&[], 60.0, &Rules::default()).is_empty());
        assert!(bursts(&log, 0.0, &Rules::default()).is_empty());
        assert!(bursts(&log, f64::NAN, &Rules::default()).is_empty());
    }

    #[test]
    fn nodes_bear_the_peak_without_one_of_them() {
        assert_eq!(nodes_for(100.0, 5000.0, 0.7), 1);
        assert_eq!(nodes_for(77_000.0, 5000.0, 0.7), 23);
        assert_eq!((nodes_for(f64::NAN, 5000.0, 0.7), nodes_for(100.0, 0.0, 0.7)), (1, 1));
    }

    #[test]
    fn the_first_maximum_is_where_the_rise_stops() {
        let series = [10.0, 100.0, 200.0, 195.0, 400.0, 900.0, 600.0, 500.0, 2000.0, 100.0, 90.0];
        assert_eq!(first_maximum(&series, 0), Some(5));
        assert_eq!(first_maximum(&series, 6), Some(8), "it went on rising after a dip");
        assert_eq!(first_maximum(&series, 7), Some(8));
        assert_eq!(first_maximum(&[1.0], 0), None);
    }
}
