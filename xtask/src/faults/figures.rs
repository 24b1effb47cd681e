//! Figures of what was asked within a span of time.

use super::load::{Outcome, Sample};
use std::collections::BTreeSet;
use std::ops::Range;

/// A question that takes longer is late.
const LATE_SECONDS: f64 = 1.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub sent: usize,
    pub failed: usize,
    pub partial: usize,
    /// Dropped by one front and asked of the other.
    pub moved: usize,
    /// Milliseconds: half, 99 %, 99.9 % of the answers took less; and the longest.
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub longest: f64,
    /// Seconds in which a question fell due that was late.
    pub late_seconds: usize,
}

impl Figures {
    /// Of the questions that fell due in a span.
    pub fn of(samples: &[Sample], span: Range<f64>) -> Figures {
        let chosen: Vec<&Sample> = samples.iter().filter(|sample| span.contains(&sample.due)).collect();
        let count = |test: &dyn Fn(&Sample) -> bool| chosen.iter().filter(|sample| test(sample)).count();
        let mut times: Vec<f64> = chosen.iter().map(|sample| sample.seconds * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let late = chosen.iter().filter(|sample| sample.seconds > LATE_SECONDS);
        Figures {
            sent: chosen.len(),
            failed: count(&|sample| sample.outcome == Outcome::Failed),
            partial: count(&|sample| sample.outcome == Outcome::Partial),
            moved: count(&|sample| sample.was_moved),
            p50: quantile(&times, 0.5),
            p99: quantile(&times, 0.99),
            p999: quantile(&times, 0.999),
            longest: times.last().copied().unwrap_or(0.0),
            late_seconds: late.map(|sample| sample.due as u64).collect::<BTreeSet<u64>>().len(),
        }
    }
}

/// The least value that so many of all are at most.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_late_in_each_second_in_which_somebody_waited() {
        let sample = |due: f64, seconds| Sample { due, seconds, outcome: Outcome::Whole, was_moved: false };
        // Somebody asks ten times a second; from 3.0 to 5.5 nobody is answered.
        let due = (0..100).map(|nth| f64::from(nth) / 10.0);
        let samples: Vec<Sample> =
            due.map(|due| sample(due, if (3.0..5.5).contains(&due) { 5.51 - due } else { 0.01 })).collect();
        let figures = Figures::of(&samples, 0.0..10.0);
        assert_eq!((figures.sent, figures.late_seconds), (100, 2));
        assert_eq!((figures.p50, figures.longest), (10.0, 2510.0));
        assert_eq!(Figures::of(&samples, 6.0..10.0).late_seconds, 0);
        assert_eq!(Figures::of(&[], 0.0..1.0), Figures::default());
    }

    #[test]
    fn outcomes_are_counted() {
        let of = |outcome, was_moved| Sample { due: 0.5, seconds: 0.1, outcome, was_moved };
        let samples = [of(Outcome::Failed, true), of(Outcome::Partial, false), of(Outcome::Whole, true)];
        let figures = Figures::of(&samples, 0.0..1.0);
        assert_eq!((figures.failed, figures.partial, figures.moved), (1, 1, 2));
    }
}
