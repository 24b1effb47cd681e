//! How long queries took.

use farol_base::sync::Mutex;
use farol_front::Histogram;
use std::collections::VecDeque;
use std::time::Duration;

/// Query times kept for the percentiles: 4,096 × 8 bytes.
const LATENCIES_MAX: usize = 4096;

/// Times of answered queries.
#[derive(Default)]
pub struct Queries(Mutex<Times>);

#[derive(Default)]
struct Times {
    all: Histogram,
    recent: VecDeque<Duration>,
}

impl Queries {
    pub fn took(&self, time: Duration) {
        let mut times = self.0.lock();
        times.all.add(time);
        if times.recent.len() == LATENCIES_MAX {
            times.recent.pop_front();
        }
        times.recent.push_back(time);
    }

    pub fn total(&self) -> u64 {
        self.times().count()
    }

    /// Times of all of them, in buckets.
    pub fn times(&self) -> Histogram {
        self.0.lock().all
    }

    /// Times that half and 99 % of the recent queries took at most.
    pub fn percentiles(&self) -> (Duration, Duration) {
        let mut times: Vec<Duration> = self.0.lock().recent.iter().copied().collect();
        times.sort_unstable();
        let at = |share: f64| {
            times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)))
        };
        (at(0.5).copied().unwrap_or_default(), at(0.99).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_recent_queries() {
        let queries = Queries::default();
        assert_eq!(queries.percentiles(), (Duration::ZERO, Duration::ZERO));
        for millis in 1..=100 {
            queries.took(Duration::from_millis(millis));
        }
        assert_eq!(queries.percentiles(), (Duration::from_millis(51), Duration::from_millis(100)));
        for _ in 0..LATENCIES_MAX {
            queries.took(Duration::from_millis(7));
        }
        assert_eq!(queries.percentiles().1, Duration::from_millis(7));
        assert_eq!(queries.total(), 100 + LATENCIES_MAX as u64);
        assert_eq!(queries.times().buckets().find(|(end, _)| *end == 0.005).unwrap().1, 5);
    }
}
