//! A high quantile of recent times, in constant memory.

use std::time::Duration;

/// Buckets per doubling: a quantile is off by a twelfth at most.
const PER_DOUBLING: u32 = 8;
/// Everything below is one bucket.
const LEAST_US: u64 = 64;
/// 64 µs × 2^20 = 67 s.
const BUCKETS: usize = PER_DOUBLING as usize * 20;
/// All counts are halved when there are so many, so that old times fade.
const SAMPLES_MAX: u32 = 2048;

/// A histogram with logarithmic buckets that forgets.
#[derive(Clone, Debug)]
pub(super) struct Quantile {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for Quantile {
    fn default() -> Quantile {
        Quantile { counts: [0; BUCKETS], total: 0 }
    }
}

impl Quantile {
    pub fn add(&mut self, time: Duration) {
        self.counts[bucket(time)] += 1;
        self.total += 1;
        if self.total >= SAMPLES_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// The time that `percent` of the samples do not exceed; `None` below `least` samples.
    pub fn at(&self, percent: u32, least: u32) -> Option<Duration> {
        if self.total < least.max(1) {
            return None;
        }
        let wanted = (u64::from(self.total) * u64::from(percent)).div_ceil(100);
        let mut below = 0u64;
        let found = self.counts.iter().position(|count| {
            below += u64::from(*count);
            below >= wanted
        });
        found.map(upper_end)
    }
}

fn bucket(time: Duration) -> usize {
    let us = time.as_micros().max(u128::from(LEAST_US)) as f64;
    let at = (us / LEAST_US as f64).log2() * f64::from(PER_DOUBLING);
    (at as usize).min(BUCKETS - 1)
}

fn upper_end(bucket: usize) -> Duration {
    let doublings = (bucket + 1) as f64 / f64::from(PER_DOUBLING);
    Duration::from_micros((LEAST_US as f64 * doublings.exp2()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_that_of_a_sort() {
        let mut quantile = Quantile::default();
        assert_eq!(quantile.at(95, 1), None);
        (1..=1000).for_each(|ms| quantile.add(Duration::from_millis(ms)));
        for (percent, want) in [(50, 500.0), (95, 950.0), (99, 990.0)] {
            let got = quantile.at(percent, 1).unwrap().as_secs_f64() * 1000.0;
            assert!((want..want * 1.1).contains(&got), "{percent}: {got}");
        }
    }

    #[test]
    fn old_times_fade() {
        let mut quantile = Quantile::default();
        (0..5000).for_each(|_| quantile.add(Duration::from_secs(1)));
        (0..20_000).for_each(|_| quantile.add(Duration::from_millis(1)));
        assert!(quantile.at(95, 1).unwrap() < Duration::from_millis(2));
    }
}
