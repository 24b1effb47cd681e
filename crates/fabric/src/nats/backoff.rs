//! How long to rest after a failure: 50 ms, then twice as long each time, up to a second.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);

/// Failures in a row.
#[derive(Debug, Default)]
pub struct Backoff {
    rest: Duration,
}

impl Backoff {
    /// The rest after one more failure.
    pub fn next_rest(&mut self) -> Duration {
        self.rest = (self.rest * 2).clamp(FIRST, MOST);
        self.rest
    }

    /// It worked.
    pub fn reset(&mut self) {
        self.rest = Duration::ZERO;
    }
}

/// The rest before the n-th attempt to connect again.
pub fn before_attempt(n: usize) -> Duration {
    let doublings = n.saturating_sub(1).min(10) as u32;
    (FIRST * 2u32.pow(doublings)).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_a_second_and_begin_anew() {
        let mut backoff = Backoff::default();
        let rests: Vec<u128> = (0..7).map(|_| backoff.next_rest().as_millis()).collect();
        assert_eq!(rests, [50, 100, 200, 400, 800, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next_rest(), FIRST);
        assert_eq!((before_attempt(0), before_attempt(1), before_attempt(99)), (FIRST, FIRST, MOST));
    }
}
