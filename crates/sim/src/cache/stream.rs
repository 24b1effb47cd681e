//! Streams of queries with the statistics of the logs of [Gomez14 §1.7, Tables 1.1, 4.1, 4.2], made from a
//! seed.
//!
//! The thirty most frequent queries have the shares of Table 4.1. Behind them follows a Zipf tail with
//! exponent 1 over a thousand million queries, and a tenth of the traffic is asked once and never again. With
//! these two figures plain LRU has the thesis' hit rates (about 40 % with 200 thousand entries, 52 % with 2
//! million, 64 % with 20 million, by Che's approximation \[Che02\]), and a month has 23 % distinct queries
//! and 19 % asked once (the thesis: 25 and 19 %). Bursts rise from nothing, peak and fade; the day has its
//! course.

use farol_base::random::mix;
use farol_base::{Random, Seeded};
use std::sync::Arc;

/// Shares of the top queries, in per cent (Table 4.1, January 2012).
const HEAD: [f64; 30] = [
    2.59, 0.97, 0.72, 0.44, 0.32, 0.28, 0.25, 0.23, 0.21, 0.18, 0.18, 0.17, 0.17, 0.16, 0.16, 0.14, 0.11,
    0.11, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.09, 0.09, 0.09, 0.09,
];
/// Queries of the tail.
const TAIL: f64 = 1e9;
/// Added to a rank of the tail, so that it begins where the head ends.
const TAIL_SHIFT: f64 = 20.0;
/// Numbers of queries: the head, bursts, the tail, those asked once.
const BURSTS: u64 = 1 << 33;
const ONCE: u64 = 1 << 40;
/// The number of a stream's places begins at this bit of a query's.
const PLACES: u32 = 56;

/// A query of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// Seconds since the start.
    pub at: f64,
    pub query: u64,
}

impl Asked {
    /// The query's point on the ring and in tables.
    pub fn hash(&self) -> u64 {
        mix(self.query.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }
}

/// How interest in one query comes and goes.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// When it begins, in seconds.
    pub begins: f64,
    /// Seconds until its peak.
    pub rises: f64,
    /// Seconds at its peak.
    pub stays: f64,
    /// Seconds in which it falls to a third.
    pub fades: f64,
    /// Share of all traffic at its peak.
    pub peak: f64,
    /// Rises evenly, as a flash query does, instead of faster and faster.
    pub evenly: bool,
}

impl Burst {
    /// What moves people at some time and not at another: so many queries a day burst, the thesis' logs have 925 a month
    /// (Table 6.2). Its series peak at 100 to 1,900 of 46,000 queries a minute within 3 to 90 minutes (Table 6.4, §6.5).
    pub fn news(seed: u64, seconds: f64, per_day: f64) -> Vec<Burst> {
        let mut random = Seeded::new(seed ^ 0x0E35);
        let mut between = |low: f64, high: f64| low * (high / low).powf(random.unit());
        let count = (per_day * seconds / 86_400.0) as usize;
        let mut news = Vec::with_capacity(count);
        for i in 0..count {
            let begins = seconds * (i as f64 + between(1.0, 2.0) - 1.0) / count as f64;
            let (rises, fades) = (between(180.0, 5400.0), between(1800.0, 14_400.0));
            // As many above any share as its inverse.
            let part = between(1.0, std::f64::consts::E).ln();
            let peak = (0.002 / part.max(1e-9)).min(0.04);
            news.push(Burst { begins, rises, stays: 600.0, fades, peak, evenly: false });
        }
        news
    }

    /// Its share of the traffic at a time.
    pub fn share(&self, at: f64) -> f64 {
        let since = at - self.begins;
        if since < 0.0 {
            return 0.0;
        }
        if since < self.rises {
            let part = since / self.rises;
            // The published series about double each minute at first (Table 6.4), then rise evenly.
            return self.peak * if self.evenly { part } else { part * part };
        }
        let after = since - self.rises - self.stays;
        if after <= 0.0 { self.peak } else { self.peak * (-after / self.fades).exp() }
    }

    fn is_over(&self, at: f64) -> bool {
        at > self.begins + self.rises + self.stays + 8.0 * self.fades
    }
}

/// What a stream is like.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    pub seed: u64,
    /// Queries per second in the mean; the thesis' logs have 770.
    pub rate: f64,
    /// How much more than the mean the busiest hour has, as a share.
    pub daily: f64,
    /// Share of queries that are asked once and never again.
    pub once: f64,
    pub bursts: Vec<Burst>,
    /// Another number gives every query another point on the ring, as another hash would.
    pub places: u8,
}

impl Default for StreamConfig {
    fn default() -> StreamConfig {
        StreamConfig { seed: 1, rate: 770.0, daily: 0.1, once: 0.1, bursts: Vec::new(), places: 0 }
    }
}

/// A stream without an end.
pub struct Stream {
    config: StreamConfig,
    /// Asked in place of made queries, evenly in time, once through: and how many were.
    log: Option<(Arc<[u64]>, usize)>,
    random: Seeded,
    at: f64,
    /// Sums of the head's shares.
    head: [f64; 30],
    asked_once: u64,
    /// Bursts of this second with their numbers and the sums of their shares.
    active: Vec<(u64, f64)>,
    second: u64,
    gap: f64,
}

impl Stream {
    pub fn new(config: StreamConfig) -> Stream {
        let mut sum = 0.0;
        let head = HEAD.map(|share| {
            sum += share / 100.0;
            sum
        });
        let random = Seeded::new(config.seed ^ 0xCAC4E);
        let gap = 1.0 / config.rate.max(1e-3);
        let mut stream = Stream {
            config,
            log: None,
            random,
            at: 0.0,
            head,
            asked_once: 0,
            active: Vec::new(),
            second: u64::MAX,
            gap,
        };
        stream.renew();
        stream
    }

    /// The queries of a log at an even rate, with bursts between them; it ends where the log does.
    pub fn of_log(config: StreamConfig, log: Arc<[u64]>) -> Stream {
        let mut stream = Stream::new(StreamConfig { daily: 0.0, ..config });
        stream.log = Some((log, 0));
        stream.second = u64::MAX;
        stream.renew();
        stream
    }

    /// What holds for one second.
    fn renew(&mut self) {
        let second = self.at as u64;
        if second == self.second {
            return;
        }
        self.second = second;
        let day = std::f64::consts::TAU * self.at / 86_400.0;
        self.gap = 1.0 / (self.config.rate.max(1e-3) * (1.0 - self.config.daily * day.cos()));
        self.active.clear();
        let mut sum = 0.0;
        for (number, burst) in self.config.bursts.iter().enumerate() {
            let share = burst.share(self.at);
            if share > 0.0 && !burst.is_over(self.at) {
                sum += share;
                self.active.push((BURSTS + number as u64, sum));
            }
        }
    }

    /// The number of the `i`-th burst's query.
    pub fn burst_query(i: usize) -> u64 {
        BURSTS + i as u64
    }
}

impl Iterator for Stream {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        let mut asked = self.ask()?;
        asked.query |= u64::from(self.config.places) << PLACES;
        Some(asked)
    }
}

impl Stream {
    fn ask(&mut self) -> Option<Asked> {
        self.at += self.gap;
        self.renew();
        let at = self.at;
        let mut part = self.random.unit();
        if let Some((_, sum)) = self.active.last() {
            let sum = sum.min(0.9);
            if part < sum {
                let query =
                    self.active.iter().find(|(_, upto)| part < *upto).map_or(BURSTS, |(query, _)| *query);
                return Some(Asked { at, query });
            }
            part = (part - sum) / (1.0 - sum);
        }
        if let Some((log, next)) = &mut self.log {
            let query = log.get(*next).copied()?;
            *next += 1;
            return Some(Asked { at, query });
        }
        if part < self.head[29] {
            let rank = self.head.partition_point(|upto| *upto <= part);
            return Some(Asked { at, query: 1 + rank as u64 });
        }
        if part > 1.0 - self.config.once {
            self.asked_once += 1;
            return Some(Asked { at, query: ONCE + self.asked_once });
        }
        // Exponent 1: the logarithm of the rank is even.
        let (low, high) = ((31.0 + TAIL_SHIFT).ln(), (TAIL + TAIL_SHIFT).ln());
        let rank = (low + (high - low) * self.random.unit()).exp() - TAIL_SHIFT;
        Some(Asked { at, query: 31 + (rank - 31.0) as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_statistics_are_those_of_the_logs() {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let n = 2_000_000;
        let stream = Stream::new(StreamConfig::default());
        stream.take(n).for_each(|asked| *counts.entry(asked.query).or_default() += 1);
        let share = |query: u64| f64::from(counts[&query]) / n as f64;
        assert!((share(1) - 0.0259).abs() < 0.001 && (share(2) - 0.0097).abs() < 0.001);
        let head: f64 = (1..=30).map(share).sum();
        assert!((head - 0.0855).abs() < 0.002, "{head}");
        // The tail goes on where the head ends.
        assert!(share(31) > 0.0006 && share(31) < 0.0012, "{}", share(31));
        // In the first two million about half is distinct; the share falls with the length of the log.
        let distinct = counts.len() as f64 / n as f64;
        assert!((0.40..0.60).contains(&distinct), "{distinct}");
    }

    #[test]
    fn a_burst_has_its_share() {
        let burst = Burst { begins: 100.0, rises: 120.0, stays: 60.0, fades: 60.0, peak: 0.2, evenly: true };
        assert_eq!((burst.share(99.0), burst.share(160.0), burst.share(230.0)), (0.0, 0.1, 0.2));
        let config = StreamConfig { bursts: vec![burst], ..StreamConfig::default() };
        let (mut of_burst, mut all) = (0.0, 0.0);
        for asked in Stream::new(config).take_while(|asked| asked.at < 280.0).filter(|asked| asked.at > 220.0)
        {
            all += 1.0;
            of_burst += f64::from(u8::from(asked.query == Stream::burst_query(0)));
        }
        assert!((of_burst / all - 0.2f64).abs() < 0.01, "{}", of_burst / all);
    }

    #[test]
    fn a_burst_comes_between_the_queries_of_a_log() {
        let burst = Burst { begins: 10.0, rises: 1.0, stays: 20.0, fades: 1.0, peak: 0.5, evenly: true };
        let config = StreamConfig { rate: 100.0, bursts: vec![burst], ..StreamConfig::default() };
        let asked: Vec<Asked> = Stream::of_log(config, (1..=2_000).collect()).collect();
        let (bursts, of_log): (Vec<_>, Vec<_>) =
            asked.iter().partition(|asked: &&Asked| asked.query == Stream::burst_query(0));
        // All of the log, in its order; the burst takes half of its twenty seconds.
        assert!(of_log.iter().map(|asked: &&Asked| asked.query).eq(1..=2_000));
        assert!((900..1_200).contains(&bursts.len()), "{}", bursts.len());
        assert!(bursts.iter().all(|asked| (9.9..45.0).contains(&asked.at)));
        assert!(asked.is_sorted_by(|one, next| one.at < next.at));
    }

    #[test]
    fn news_come_and_go_and_are_a_few_per_cent_of_the_traffic() {
        let day = 86_400.0;
        let news = Burst::news(3, 100.0 * day, 30.0);
        assert_eq!(news.len(), 3000);
        let at = |time: f64| news.iter().map(|burst| burst.share(time)).sum::<f64>();
        let shares: Vec<f64> = (10..90).map(|i| at(f64::from(i) * day)).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!((0.01..0.05).contains(&mean), "{mean}");
        // The greatest are nearly a node's whole load, half of all are a few per cent of it.
        let mut peaks: Vec<f64> = news.iter().map(|burst| burst.peak).collect();
        peaks.sort_by(f64::total_cmp);
        assert!(
            (0.003..0.005).contains(&peaks[1500]) && peaks[2999] > 0.03,
            "{} {}",
            peaks[1500],
            peaks[2999]
        );
        assert_eq!(peaks, {
            let mut again: Vec<f64> =
                Burst::news(3, 100.0 * day, 30.0).iter().map(|burst| burst.peak).collect();
            again.sort_by(f64::total_cmp);
            again
        });
    }

    #[test]
    fn other_places_are_the_same_queries_elsewhere() {
        let take = |places| Stream::new(StreamConfig { places, ..StreamConfig::default() }).take(1000);
        for (one, other) in take(0).zip(take(3)) {
            assert_eq!((one.at, one.query), (other.at, other.query & !(3 << PLACES)));
            assert_ne!(one.hash(), other.hash());
        }
    }

    #[test]
    fn the_day_has_its_course_and_the_seed_decides() {
        let config = StreamConfig { rate: 1.0, daily: 0.5, ..StreamConfig::default() };
        let hours = |seed: u64| -> Vec<usize> {
            let mut hours = vec![0; 24];
            let stream = Stream::new(StreamConfig { seed, ..config.clone() });
            stream
                .take_while(|asked| asked.at < 86_400.0)
                .for_each(|asked| hours[(asked.at / 3600.0) as usize] += 1);
            hours
        };
        let day = hours(1);
        assert!(day[12] > 2 * day[0], "{day:?}");
        let first = |seed| Stream::new(StreamConfig { seed, ..config.clone() }).take(50).collect::<Vec<_>>();
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }
}
