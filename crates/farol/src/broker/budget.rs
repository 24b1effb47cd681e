//! How the time of a question is shared out among its steps.

use farol_query::scatter::Stage;
use std::time::{Duration, Instant};

/// The time of one question.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    start: Instant,
    whole: Duration,
}

impl Budget {
    pub fn new(start: Instant, whole: Duration) -> Budget {
        Budget { start, whole }
    }

    /// When a step must have ended that begins now.
    ///
    /// The first time round that is where [`Stage`] says. A question that is asked again, with its words corrected, has
    /// the same shares of what is left then.
    pub fn ends(&self, stage: Stage, now: Instant) -> Instant {
        let left = (self.start + self.whole).saturating_duration_since(now);
        let again = match stage {
            Stage::Count => now + left * 15 / 100,
            Stage::Search => now + left * 60 / 100,
            Stage::Show => now + left,
        };
        stage.ends(self.start, self.whole).max(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_come_again_share_what_is_left() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let budget = Budget::new(start, ms(1000));
        let check = |stage, at: u64, ends: u64| {
            assert_eq!(budget.ends(stage, start + ms(at)) - start, ms(ends), "{stage:?} at {at}");
        };
        check(Stage::Count, 0, 150);
        check(Stage::Search, 100, 750);
        check(Stage::Count, 600, 660);
        check(Stage::Search, 660, 864);
        check(Stage::Show, 864, 1000);
        check(Stage::Search, 1200, 1200);
    }
}
