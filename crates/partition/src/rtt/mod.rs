//! Round-trip times: from samples, from routes, from coordinates.
//!
//! [`Samples`] keeps what was measured. For pairs that never were, [`Routes`] adds up segments of known routes [Exposto08
//! §4.5], and [`Coordinates`] places machines in a space in which distances are times, as our own addition.

mod coordinates;
mod median;
mod routes;

pub use coordinates::{Coordinate, Coordinates};
pub use median::{PROBES, median};
pub use routes::{Hop, Routes, Trace, read_traces};

use farol_base::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The newest round-trip times to one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// When, and microseconds; oldest first.
    kept: VecDeque<(Timestamp, u32)>,
}

/// Samples that are kept of a server: 32 × 16 bytes.
const KEPT_MAX: usize = 32;

impl Samples {
    /// Notes one; what is no time at all is left out.
    pub fn add(&mut self, at: Timestamp, rtt: Duration) {
        let micros = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        if micros == 0 {
            return;
        }
        self.kept.push_back((at, micros));
        while self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Median in milliseconds of what was measured within the window before `now` (decision D-11), and whether there
    /// are enough samples to rely on it.
    pub fn median(&self, now: Timestamp, window: Duration) -> Option<(f64, bool)> {
        let within = self.kept.iter().filter(|(at, _)| now.since(*at) <= window);
        let values: Vec<f64> = within.map(|(_, micros)| f64::from(*micros) / 1000.0).collect();
        Some((median(&values)?, values.len() >= PROBES))
    }

    /// All samples, oldest first: when, and microseconds.
    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, u32)> + '_ {
        self.kept.iter().copied()
    }
}

impl FromIterator<(Timestamp, u32)> for Samples {
    fn from_iter<T: IntoIterator<Item = (Timestamp, u32)>>(samples: T) -> Samples {
        let mut kept = Samples::default();
        for (at, micros) in samples {
            kept.add(at, Duration::from_micros(u64::from(micros)));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_window_counts() {
        let mut samples = Samples::default();
        let day = Duration::from_secs(86_400);
        let at = |days: u32| Timestamp::from_secs(1_000_000) + day * days;
        (0..5).for_each(|_| samples.add(at(0), Duration::from_millis(500)));
        for millis in [20, 22, 21, 900, 23, 21, 20] {
            samples.add(at(9), Duration::from_millis(millis));
        }
        assert_eq!(samples.median(at(10), day * 7), Some((21.0, true)));
        assert_eq!(samples.median(at(90), day * 7), None);
        samples.add(at(9), Duration::ZERO);
        assert_eq!(samples.len(), 12);
        (0..100).for_each(|_| samples.add(at(9), Duration::from_secs(1 << 40)));
        assert_eq!(samples.len(), KEPT_MAX);
        let again: Samples = samples.iter().collect();
        assert_eq!(again, samples);
    }
}
