//! MERGE: the order in which pages would be visited if each were visited at equal intervals [Souza10 §5.3].
//!
//! A heap of pages keyed by the instant of their next visit; the first is taken and put back one interval later. Only
//! the order is used. O(log n) per pick.
//!
//! INVARIANT: between two visits of page i, page j is visited at most floor(f_j / f_i) + 1 times.

use super::Select;
use crate::revisit::heap::Heap;
use farol_base::Random;

/// Pages of one server in the order of their own instants.
#[derive(Clone, Debug)]
pub struct Merge {
    next: Heap<f64>,
    /// By page.
    intervals: Vec<f64>,
}

impl Merge {
    /// Pages with these frequencies, each with a random phase: it is first visited within its first interval.
    pub fn new(frequencies: &[f64], random: &mut impl Random) -> Merge {
        let phases: Vec<f64> = frequencies.iter().map(|_| random.unit()).collect();
        Merge::with_phases(frequencies, &phases)
    }

    /// The same with given phases, in `[0, 1)`.
    pub fn with_phases(frequencies: &[f64], phases: &[f64]) -> Merge {
        let intervals: Vec<f64> = frequencies.iter().map(|frequency| 1.0 / frequency).collect();
        let visited = (0..intervals.len()).filter(|page| intervals[*page].is_finite());
        let next = visited.map(|page| (phases[page] * intervals[page], page as u32)).collect();
        Merge { next: Heap::new(next), intervals }
    }
}

impl Select for Merge {
    fn pick(&mut self) -> Option<u32> {
        let (at, page) = self.next.first()?;
        self.next.rekey_first(at + self.intervals[page as usize]);
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisit::{Spaced, select::Timetable};
    use farol_base::Seeded;

    #[test]
    fn the_example_of_the_thesis() {
        // Page 0 is the example's first: every 40, first at 10; page 1 every 60, first at 0.
        let frequencies = [1.0 / 40.0, 1.0 / 60.0];
        let merge = Merge::with_phases(&frequencies, &[0.25, 0.0]);
        let mut spaced = Spaced::new(merge, frequencies.iter().sum(), 0.0);
        let visits: Vec<_> = (0..6).map(|_| spaced.next().unwrap()).collect();
        let pages: Vec<u32> = visits.iter().map(|visit| visit.page + 1).collect();
        assert_eq!(pages, [2, 1, 1, 2, 1, 2]);
        for pair in visits.windows(2) {
            assert!((pair[1].at - pair[0].at - 24.0).abs() < 1e-9);
        }
    }

    #[test]
    fn between_two_visits_of_a_page_others_have_their_share() {
        let mut random = Seeded::new(3);
        let frequencies: Vec<f64> = (0..20).map(|_| (random.unit() * 4.0).exp()).collect();
        let mut merge = Merge::new(&frequencies, &mut random);
        let order: Vec<usize> = (0..5_000).map(|_| merge.pick().unwrap() as usize).collect();
        for i in 0..20 {
            let mut since = vec![0u32; 20];
            let mut seen = false;
            for page in &order {
                if *page == i {
                    for j in (0..20).filter(|_| seen) {
                        let most = (frequencies[j] / frequencies[i]).floor() as u32 + 1;
                        assert!(since[j] <= most, "{} visits of {j} between two of {i}", since[j]);
                    }
                    (since, seen) = (vec![0; 20], true);
                }
                since[*page] += 1;
            }
        }
    }

    #[test]
    fn a_page_without_visits_is_never_picked() {
        let mut merge = Merge::new(&[0.0, 2.0], &mut Seeded::new(1));
        assert!((0..100).all(|_| merge.pick() == Some(1)));
        assert_eq!(Merge::new(&[0.0], &mut Seeded::new(1)).pick(), None);
        assert_eq!(Merge::new(&[], &mut Seeded::new(1)).pick(), None);
    }
}
