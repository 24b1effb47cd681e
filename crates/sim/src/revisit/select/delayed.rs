//! DELAYED: each page at its own equal intervals; a visit that would be impolite waits for its server [Souza10 ch. 5].
//!
//! A page's instants do not move when a visit was late. O(log n) per visit. No guarantee is known, and the channel
//! sees the bursts of as many elements as there are pages.

use farol_base::Random;
use farol_frontier::revisit::Heap;
use farol_frontier::revisit::select::{Timetable, Visit};

/// Pages of one server, each at its own instants.
#[derive(Clone, Debug)]
pub struct Delayed {
    next: Heap<f64>,
    intervals: Vec<f64>,
    delay: f64,
    free_at: f64,
}

impl Delayed {
    /// Pages with these frequencies and random phases, on a server that wants `delay` seconds between requests.
    pub fn new(frequencies: &[f64], delay: f64, random: &mut impl Random) -> Delayed {
        let intervals: Vec<f64> = frequencies.iter().map(|frequency| 1.0 / frequency).collect();
        let visited = intervals.iter().enumerate().filter(|(_, interval)| interval.is_finite());
        let next = visited.map(|(page, interval)| (random.unit() * interval, page as u32)).collect();
        Delayed { next: Heap::new(next), intervals, delay, free_at: 0.0 }
    }
}

impl Timetable for Delayed {
    fn next(&mut self) -> Option<Visit> {
        let (due, page) = self.next.first()?;
        let at = due.max(self.free_at);
        self.free_at = at + self.delay;
        self.next.rekey_first(due + self.intervals[page as usize]);
        Some(Visit { at, page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Seeded;

    #[test]
    fn visits_keep_their_distance_and_their_number() {
        let frequencies = [0.2, 0.3, 0.05, 0.25, 0.0];
        let mut delayed = Delayed::new(&frequencies, 1.2, &mut Seeded::new(2));
        let mut counts = [0u32; 5];
        let mut before = f64::NEG_INFINITY;
        while let Some(visit) = delayed.next()
            && visit.at < 10_000.0
        {
            assert!(visit.at - before >= 1.2 - 1e-9);
            before = visit.at;
            counts[visit.page as usize] += 1;
        }
        for (count, frequency) in counts.iter().zip(frequencies) {
            assert!((f64::from(*count) - frequency * 10_000.0).abs() <= 2.0, "{counts:?}");
        }
    }
}
