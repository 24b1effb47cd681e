//! Whether an answer may still be given: by its age, and by the state that it was made of.
//!
//! States are numbers that grow with every change of what answers are made from, the same numbers everywhere. Who asks
//! says which state they know (`need`). An answer of that state or a later one is fresh. An older one may be given for a
//! *grace*, because a crawl changes the state every two seconds; the grace is counted from when its state was superseded.
//! A node learns of states from those who ask, so it reckons with the last moment at which a state was *known to be
//! current*: what may have been superseded right after that counts as superseded then.
//!
//! INVARIANT: nothing is given whose age is the TTL or more, nor anything superseded for the grace or longer, as far as
//! those who asked knew.
//! INVARIANT: nothing is thrown away because one asker knows more than another: whoever lags behind, or runs ahead, does
//! not take answers from the others.
//!
//! Does not read a clock: times are of the node's own, which never goes back.

use farol_base::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// A node's own clock begins here, so that what was made before its program started has a time.
pub const CLOCK_BEGINS: Timestamp = Timestamp::from_secs(1 << 32);

/// When something was made that is so old now, by one's own clock; `None` where that is before time itself.
pub fn made(age: Duration, now: Timestamp) -> Option<Timestamp> {
    let age = u64::try_from(age.as_millis()).ok()?;
    now.as_millis().checked_sub(age).map(Timestamp::from_millis)
}

/// How long entries may be handed out: a TTL, and a grace for those of a superseded state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// At most so long after they were made.
    pub ttl: Duration,
    /// At most so long after their state was superseded.
    pub grace: Duration,
}

impl Expiry {
    /// For ever: entries that do not age, as in simulations.
    pub const NEVER: Expiry = Expiry { ttl: Duration::MAX, grace: Duration::MAX };
}

/// When something is asked, and the least state that the asker takes for current.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    pub time: Timestamp,
    pub need: u64,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    Fresh,
    /// Superseded for so long, within the grace.
    Stale(Duration),
    TooOld,
}

/// Parts of the grace that are told apart; bounds what is remembered.
const PARTS: u32 = 64;

/// What a node knows of states.
#[derive(Clone, Debug)]
pub struct States {
    expiry: Expiry,
    newest: u64,
    /// When the newest state was last known to be the current one; `None` before anything is known.
    confirmed: Option<Timestamp>,
    /// Of each state: since when all before it are superseded, at the latest. Both grow. At most [`PARTS`] + 2.
    superseded: VecDeque<(u64, Option<Timestamp>)>,
}

impl States {
    pub fn new(expiry: Expiry) -> States {
        States { expiry, newest: 0, confirmed: None, superseded: VecDeque::new() }
    }

    /// The greatest state that anybody named.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Somebody took this for the current state.
    pub fn learn(&mut self, now: &Now) {
        if now.need < self.newest {
            return;
        }
        if now.need > self.newest {
            let since = self.confirmed;
            let part = self.expiry.grace / PARTS;
            match self.superseded.back_mut() {
                // Within one part the earlier time counts for both: stricter by so little.
                Some((state, Some(known))) if since.is_some_and(|since| since.since(*known) < part) => {
                    *state = now.need;
                }
                _ => self.superseded.push_back((now.need, since)),
            }
            self.newest = now.need;
            // What is beyond the grace already stays so: one such mark is enough.
            while self.superseded.len() > 1 && self.is_past(self.superseded[1].1, now.time) {
                self.superseded.pop_front();
            }
        }
        self.confirmed = self.confirmed.max(Some(now.time));
    }

    fn is_past(&self, since: Option<Timestamp>, now: Timestamp) -> bool {
        since.is_none_or(|since| now.since(since) >= self.expiry.grace)
    }

    /// What an answer made then, of that state, is worth now. Call [`States::learn`] first.
    pub fn judge(&self, made: Timestamp, state: u64, now: &Now) -> Freshness {
        // Made after now: the clock is not the one it was made by, and its age unknown.
        if made > now.time || now.time.since(made) >= self.expiry.ttl {
            return Freshness::TooOld;
        }
        if state >= now.need {
            return Freshness::Fresh;
        }
        let since = self.superseded.iter().find(|(later, _)| *later > state).map(|(_, since)| *since);
        match since {
            Some(since) if self.expiry.grace < Duration::MAX && self.is_past(since, now.time) => {
                Freshness::TooOld
            }
            Some(Some(since)) => Freshness::Stale(now.time.since(since)),
            Some(None) | None => Freshness::Stale(Duration::ZERO),
        }
    }

    /// Whether it is so old that nobody will ever be given it.
    pub fn is_dead(&self, made: Timestamp, now: Timestamp) -> bool {
        made > now || now.since(made) >= self.expiry.ttl
    }

    pub fn expiry(&self) -> Expiry {
        self.expiry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};

    fn at(millis: u64, need: u64) -> Now {
        Now { time: Timestamp::from_millis(millis), need }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn answers_age_by_time_and_by_state() {
        let mut states = States::new(Expiry { ttl: secs(100), grace: secs(10) });
        let made = Timestamp::from_secs(1000);
        states.learn(&at(1_000_000, 7));
        let check = |states: &States, now: Now, want: Freshness| {
            assert_eq!(states.judge(made, 7, &now), want, "{now:?}")
        };
        check(&states, at(1_000_000, 7), Freshness::Fresh);
        check(&states, at(1_099_999, 7), Freshness::Fresh);
        check(&states, at(1_100_000, 7), Freshness::TooOld);
        check(&states, at(999_000, 7), Freshness::TooOld); // The clock was set back.
        // Somebody who lags behind takes it for fresh, somebody ahead does not, and neither changes it for the other.
        states.learn(&at(1_020_000, 7));
        states.learn(&at(1_020_200, 8));
        check(&states, at(1_020_200, 8), Freshness::Stale(Duration::from_millis(200)));
        check(&states, at(1_020_300, 7), Freshness::Fresh);
        check(&states, at(1_029_999, 8), Freshness::Stale(Duration::from_millis(9_999)));
        check(&states, at(1_030_000, 8), Freshness::TooOld);
        check(&states, at(1_030_000, 7), Freshness::Fresh);
    }

    #[test]
    fn a_state_nobody_spoke_of_for_long_may_have_ended_long_ago() {
        let mut states = States::new(Expiry { ttl: secs(10_000), grace: secs(60) });
        states.learn(&at(1_000, 1));
        // Nobody asks for an hour; the state may have changed right after.
        states.learn(&at(3_601_000, 2));
        assert_eq!(states.judge(Timestamp::from_secs(1), 1, &at(3_601_000, 2)), Freshness::TooOld);
        // A node that has just started knows nothing of what was before.
        let mut new = States::new(Expiry { ttl: secs(10_000), grace: secs(60) });
        new.learn(&at(5_000, 9));
        assert_eq!(new.judge(Timestamp::from_secs(4), 8, &at(5_000, 9)), Freshness::TooOld);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_errs_to_the_strict_side() {
        let (ttl, grace) = (secs(600), secs(60));
        let mut states = States::new(Expiry { ttl, grace });
        let mut random = Seeded::new(5);
        // The truth: when each state began.
        let (mut time, mut begun) = (1_000_000u64, vec![1_000_000u64]);
        for _ in 0..20_000 {
            time += random.below(200);
            if random.unit() < 0.3 {
                begun.push(time);
            }
            let newest = begun.len() as u64 - 1;
            let need = newest - random.below(3).min(newest);
            states.learn(&at(time, need));
            assert!(states.superseded.len() <= PARTS as usize + 2);
            let state = newest.saturating_sub(random.below(2_000));
            let made = Timestamp::from_millis(begun[state as usize]);
            let ended = begun.get(state as usize + 1).copied();
            match states.judge(made, state, &at(time, newest)) {
                Freshness::Fresh => assert_eq!(state, newest),
                // As far as those who asked knew: they lag by two states at most.
                Freshness::Stale(_) => {
                    let known = begun.get(state as usize + 3).or(begun.last()).copied().unwrap_or(0);
                    assert!(time < known.max(ended.unwrap_or(0)) + 60_000 + 1, "{state} of {newest}");
                }
                Freshness::TooOld => assert!(
                    time - begun[state as usize] >= 600_000
                        || ended.is_some_and(|ended| time + 2_000 >= ended + 50_000),
                    "{state} of {newest}"
                ),
            }
        }
    }

    #[test]
    fn without_grace_a_later_state_ends_all_and_for_ever_ends_nothing() {
        let mut none = States::new(Expiry { ttl: Duration::MAX, grace: Duration::ZERO });
        none.learn(&at(1, 1));
        none.learn(&at(2, 2));
        assert_eq!(none.judge(Timestamp::from_millis(1), 1, &at(2, 2)), Freshness::TooOld);
        let mut ever = States::new(Expiry::NEVER);
        ever.learn(&at(1, 1));
        ever.learn(&at(2, 900));
        assert!(matches!(ever.judge(Timestamp::from_millis(1), 1, &at(2, 900)), Freshness::Stale(_)));
    }
}
