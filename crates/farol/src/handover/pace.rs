//! How fast hosts are handed over: a bucket of tokens, so that neither disks nor logs are taken from the crawl.

use std::time::{Duration, Instant};

/// Bytes per second of one agent.
pub const BYTES_PER_SECOND: u64 = 20 << 20;
/// What may go at once after a pause.
const BURST: Duration = Duration::from_millis(500);

/// Says how long to wait before bytes are sent. Knows no clock: whoever asks says how much time has passed since the
/// beginning.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: u64,
    /// When everything that was allowed so far will have gone at this pace.
    paid_until: Duration,
}

impl Pace {
    pub fn new(bytes_per_second: u64) -> Pace {
        Pace { bytes_per_second: bytes_per_second.max(1), paid_until: Duration::ZERO }
    }

    /// How long to wait before these bytes are sent.
    pub fn wait(&mut self, now: Duration, bytes: usize) -> Duration {
        let wait = self.paid_until.saturating_sub(now);
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.paid_until = self.paid_until.max(now.saturating_sub(BURST)) + takes;
        wait
    }
}

/// A pace that is kept by sleeping.
#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    started: Instant,
}

impl Pacer {
    pub fn new(pace: Pace) -> Pacer {
        Pacer { pace, started: Instant::now() }
    }

    /// Returns when these bytes may be sent.
    pub fn wait(&mut self, bytes: usize) {
        std::thread::sleep(self.pace.wait(self.started.elapsed(), bytes));
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new(BYTES_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};

    #[test]
    fn no_stretch_of_time_gets_more_than_its_share_and_a_burst() {
        let (mut pace, mut random) = (Pace::new(1_000_000), Seeded::new(1));
        let (mut now, mut sent) = (Duration::from_secs(9), Vec::new());
        for _ in 0..2_000 {
            now += Duration::from_millis(random.below(20) * random.below(30));
            let bytes = 1 + random.below(250_000) as usize;
            now += pace.wait(now, bytes);
            sent.push((now, bytes as u64));
        }
        for from in (0..sent.len()).step_by(7) {
            let mut sum = 0;
            for (at, bytes) in &sent[from..] {
                let share = (*at - sent[from].0 + BURST).as_micros() as u64;
                // What goes last has not gone yet.
                assert!(sum <= share, "{sum} bytes in {share} µs");
                sum += bytes;
            }
        }
        assert_eq!(
            pace.wait(now + Duration::from_secs(5), 1),
            Duration::ZERO,
            "a pause is not held against it"
        );
    }
}
