//! Times in buckets, as Prometheus wants them: whoever reads them can work out any quantile over any time, and over
//! several engines.

use std::time::Duration;

/// Upper ends of the buckets, in seconds; `+Inf` is implied.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// How long things took, since the process started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histogram {
    /// How many took at most as long as each of [`BUCKETS`].
    at_most: [u64; BUCKETS.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    /// Counts one more.
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.sum += took;
        for (end, at_most) in BUCKETS.iter().zip(&mut self.at_most) {
            *at_most += u64::from(took.as_secs_f64() <= *end);
        }
    }

    /// All of them.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time of all of them together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Upper ends in seconds, each with how many took at most that long.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        BUCKETS.into_iter().zip(self.at_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::from_millis(3));
        histogram.add(Duration::from_millis(5));
        histogram.add(Duration::from_secs(9));
        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!((histogram.count(), histogram.sum()), (3, Duration::from_millis(9_008)));
    }
}
