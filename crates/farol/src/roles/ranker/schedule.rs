//! When ranks are computed: where the graph has grown by a tenth, or has changed and come to rest; and never so often
//! that it costs more than a fiftieth of a thread.
//!
//! Pure: the clock is handed in.

use std::time::{Duration, Instant};

/// Time until ranks are computed again, as a multiple of the time that it took.
const IDLE_FACTOR: u32 = 50;

/// When ranks are computed.
#[derive(Debug)]
pub struct RankSchedule {
    every: Duration,
    /// Pages in the graph that was ranked last.
    ranked_pages: u64,
    begun: Option<Instant>,
    /// Last change that no ranks know of.
    changed: Option<Instant>,
    rests_until: Option<Instant>,
}

impl RankSchedule {
    /// Nothing was ranked yet.
    pub fn new(every: Duration) -> RankSchedule {
        RankSchedule { every, ranked_pages: 0, begun: None, changed: None, rests_until: None }
    }

    /// The graph has changed.
    pub fn changed(&mut self, now: Instant) {
        self.changed = Some(now);
    }

    /// Whether to begin now, with so many pages in the graph.
    pub fn is_due(&self, pages: u64, now: Instant) -> bool {
        let has_rested = self.rests_until.is_none_or(|until| now >= until);
        let has_grown = pages > self.ranked_pages + self.ranked_pages / 10;
        let is_quiet = self.changed.is_some_and(|at| now.duration_since(at) >= self.every);
        self.begun.is_none() && has_rested && (has_grown || is_quiet)
    }

    pub fn begin(&mut self, pages: u64, now: Instant) {
        (self.begun, self.ranked_pages, self.changed) = (Some(now), pages, None);
    }

    /// The computation has ended, well or not.
    pub fn end(&mut self, is_well: bool, now: Instant) {
        let Some(begun) = self.begun.take() else { return };
        let rest = now.duration_since(begun) * IDLE_FACTOR;
        self.rests_until = Some(now + rest.max(self.every));
        if !is_well {
            self.changed.get_or_insert(begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_at_once_and_other_changes_when_they_have_come_to_rest() {
        let begun = Instant::now();
        let after = |secs| begun + Duration::from_secs(secs);
        let mut schedule = RankSchedule::new(Duration::from_secs(60));
        assert!(!schedule.is_due(0, after(0)));
        assert!(schedule.is_due(1, after(0)));
        schedule.begin(100, after(0));
        assert!(!schedule.is_due(1000, after(100)), "one at a time");
        schedule.end(true, after(1));
        // The rest is the longer of both.
        assert!(!schedule.is_due(1000, after(60)));
        assert!(schedule.is_due(1000, after(61)));
        assert!(!schedule.is_due(110, after(1000)) && schedule.is_due(111, after(1000)));
        schedule.changed(after(1000));
        assert!(!schedule.is_due(100, after(1059)) && schedule.is_due(100, after(1060)));
        schedule.begin(100, after(1060));
        schedule.end(true, after(1070));
        assert!(!schedule.is_due(1000, after(1569)) && schedule.is_due(1000, after(1570)));
        assert!(!schedule.is_due(100, after(9999)), "nothing has changed");
    }

    #[test]
    fn what_failed_is_tried_again_without_a_change() {
        let begun = Instant::now();
        let mut schedule = RankSchedule::new(Duration::from_secs(60));
        schedule.begin(100, begun);
        schedule.end(false, begun);
        assert!(!schedule.is_due(100, begun + Duration::from_secs(59)));
        assert!(schedule.is_due(100, begun + Duration::from_secs(60)));
    }
}
