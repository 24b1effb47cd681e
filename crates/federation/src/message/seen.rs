//! Tells a message that comes a second time from one that is new.

use crate::agreement::EngineId;
use crate::message::MESSAGE_ID_BYTES;
use farol_base::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A message is good for so long after it was signed, and clocks may be wrong by as much.
pub const WINDOW: Duration = Duration::from_secs(300);
/// Messages of one engine that are remembered: two windows of 16 a second. 10,000 × about 100 bytes = 1 MB.
const MESSAGES_MAX: usize = 10_000;
/// Engines whose messages are remembered at once. 256 × 1 MB = 256 MB at the very worst.
const SENDERS_MAX: usize = 256;

/// What is thought of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenVerdict {
    /// It is taken in.
    New,
    /// It came before.
    Again,
    /// It was signed too long ago, or long after now.
    OutOfTime,
    /// Its sender, or all senders, say too much.
    TooMany,
}

/// What was heard within the window. Kept in memory: each message may be heard twice without harm, so that a replay across
/// a restart gains nothing.
#[derive(Debug, Default)]
pub struct Seen {
    senders: BTreeMap<EngineId, BTreeSet<(Timestamp, [u8; MESSAGE_ID_BYTES])>>,
}

impl Seen {
    /// Judges a message whose signature was found right, and remembers it.
    pub fn admit(
        &mut self,
        now: Timestamp,
        from: EngineId,
        id: [u8; MESSAGE_ID_BYTES],
        at: Timestamp,
    ) -> SeenVerdict {
        if at + WINDOW < now || at > now + WINDOW {
            return SeenVerdict::OutOfTime;
        }
        let oldest = now - WINDOW;
        if !self.senders.contains_key(&from) && self.senders.len() >= SENDERS_MAX {
            self.senders.retain(|_, heard| heard.last().is_some_and(|(at, _)| *at >= oldest));
            if self.senders.len() >= SENDERS_MAX {
                return SeenVerdict::TooMany;
            }
        }
        let heard = self.senders.entry(from).or_default();
        while heard.first().is_some_and(|(at, _)| *at < oldest) {
            heard.pop_first();
        }
        if heard.contains(&(at, id)) {
            return SeenVerdict::Again;
        }
        if heard.len() >= MESSAGES_MAX {
            return SeenVerdict::TooMany;
        }
        heard.insert((at, id));
        SeenVerdict::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_counts_once_and_in_time() {
        let mut seen = Seen::default();
        let now = Timestamp::from_secs(10_000);
        let (a, b) = (EngineId([1; 32]), EngineId([2; 32]));
        assert_eq!(seen.admit(now, a, [1; 16], now), SeenVerdict::New);
        assert_eq!(seen.admit(now, a, [1; 16], now), SeenVerdict::Again);
        assert_eq!(seen.admit(now, b, [1; 16], now), SeenVerdict::New, "another's message");
        assert_eq!(seen.admit(now, a, [2; 16], now - WINDOW), SeenVerdict::New);
        let second = Duration::from_secs(1);
        assert_eq!(seen.admit(now, a, [3; 16], now - WINDOW - second), SeenVerdict::OutOfTime);
        assert_eq!(seen.admit(now, a, [3; 16], now + WINDOW + second), SeenVerdict::OutOfTime);
        // What is forgotten is out of time by then.
        let later = now + WINDOW;
        assert_eq!(seen.admit(later, a, [1; 16], now), SeenVerdict::Again);
        assert_eq!(seen.admit(later + second, a, [1; 16], now), SeenVerdict::OutOfTime);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = Seen::default();
        let now = Timestamp::from_secs(10_000);
        let id = |number: usize| (number as u128).to_le_bytes();
        for number in 0..MESSAGES_MAX {
            assert_eq!(seen.admit(now, EngineId([0; 32]), id(number), now), SeenVerdict::New);
        }
        assert_eq!(seen.admit(now, EngineId([0; 32]), id(MESSAGES_MAX), now), SeenVerdict::TooMany);
        let sender = |number: usize| EngineId(std::array::from_fn(|i| (number >> (8 * (i % 4))) as u8));
        for number in 1..SENDERS_MAX {
            assert_eq!(seen.admit(now, sender(number), id(0), now), SeenVerdict::New);
        }
        assert_eq!(seen.admit(now, sender(SENDERS_MAX), id(0), now), SeenVerdict::TooMany);
        let later = now + WINDOW + WINDOW;
        assert_eq!(seen.admit(later, sender(SENDERS_MAX), id(0), later), SeenVerdict::New);
    }
}
