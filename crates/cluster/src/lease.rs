//! Leases without clocks compared: both sides of one.
//!
//! A holder renews its key by compare-and-set. A success counts from the instant *before* it was sent. A watcher notes
//! when, by its own clock, it first saw a revision; once that is old enough, the holder's lease has surely ended, and
//! the watcher may act, by compare-and-set on that very revision.
//!
//! INVARIANT: a lease that nobody confirmed is never valid, and a confirmation that comes late revives nothing.

use crate::{Monotonic, Revision, Times, WriteOutcome};

/// A value and since when this watcher has known this revision of it.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    pub value: T,
    pub revision: Revision,
    pub since: Monotonic,
}

/// What is not known of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// A write may have happened or not: any answer serves, as the next write is a compare-and-set too.
    Any,
    /// A write met another revision: only a greater one serves, what is older was read from a server that lags.
    Newer,
}

/// What a holder learns from its key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that it did not know.
    Nothing,
    /// Its own write, whose answer may have got lost.
    Ours,
    /// Somebody else has written the key.
    Foreign,
}

/// The holder's side.
#[derive(Clone, Debug)]
pub struct Holder {
    times: Times,
    revision: Revision,
    doubt: Doubt,
    in_flight: Option<u64>,
    /// Writes that may still turn out to have happened: nonce, and the instant before they were sent.
    sent: Vec<(u64, Monotonic)>,
    valid_until: Option<Monotonic>,
    due: Monotonic,
}

/// Writes without an answer that are remembered; older ones are confirmed by nothing any more.
const SENT_MAX: usize = 8;

impl Holder {
    /// Of a key that must be read before it is written.
    pub fn new(times: Times, now: Monotonic) -> Holder {
        Holder {
            times,
            revision: Revision::NONE,
            doubt: Doubt::Any,
            in_flight: None,
            sent: Vec::new(),
            valid_until: None,
            due: now,
        }
    }

    /// The newest revision that is known.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Until when it is valid, as far as is known.
    pub fn valid_until(&self) -> Option<Monotonic> {
        self.valid_until
    }

    pub fn is_valid(&self, now: Monotonic) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    /// Whether the key must be read.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt != Doubt::None
    }

    /// Whether a write may be sent now.
    pub fn is_free(&self) -> bool {
        self.in_flight.is_none() && self.doubt == Doubt::None
    }

    /// Whether the lease is to be renewed now.
    pub fn is_due(&self, now: Monotonic) -> bool {
        self.is_free() && now >= self.due
    }

    /// There is something new to say.
    pub fn hurry(&mut self) {
        self.due = Monotonic::default();
    }

    /// A write goes out now; returns the revision that it must meet.
    pub fn send(&mut self, nonce: u64, now: Monotonic) -> Revision {
        self.in_flight = Some(nonce);
        if self.sent.len() == SENT_MAX {
            self.sent.remove(0);
        }
        self.sent.push((nonce, now));
        self.due = now.plus(self.times.renew_ms);
        self.revision
    }

    /// What came of the write.
    pub fn wrote(&mut self, expected: Revision, outcome: WriteOutcome) {
        let Some(nonce) = self.in_flight.take() else { return };
        match outcome {
            WriteOutcome::Written(revision) => {
                if revision >= self.revision {
                    self.revision = revision;
                    self.doubt = Doubt::None;
                    self.confirm(nonce);
                }
            }
            WriteOutcome::Conflict => {
                self.hurry();
                if self.revision == expected {
                    self.doubt = Doubt::Newer;
                }
            }
            WriteOutcome::Unknown => {
                self.hurry();
                if self.doubt == Doubt::None {
                    self.doubt = Doubt::Any;
                }
            }
        }
    }

    /// The key's value; `nonce` where it bears the holder's own name.
    pub fn heard(&mut self, nonce: Option<u64>, revision: Revision) -> Heard {
        if revision <= self.revision {
            if self.doubt == Doubt::Any {
                self.doubt = Doubt::None;
            }
            return Heard::Nothing;
        }
        self.revision = revision;
        self.doubt = Doubt::None;
        match nonce.filter(|nonce| self.sent.iter().any(|(sent, _)| sent == nonce)) {
            Some(nonce) => {
                self.confirm(nonce);
                Heard::Ours
            }
            None => Heard::Foreign,
        }
    }

    /// It holds the lease no more, whatever is confirmed later.
    pub fn lose(&mut self) {
        self.valid_until = None;
        self.sent.clear();
    }

    /// Ablation: takes a foreign write for its own.
    pub(crate) fn overlook(&mut self, now: Monotonic) {
        self.valid_until = Some(now.plus(self.times.hold_ms));
    }

    fn confirm(&mut self, nonce: u64) {
        let Some(at) = self.sent.iter().position(|(sent, _)| *sent == nonce) else { return };
        let until = self.sent[at].1.plus(self.times.hold_ms);
        self.valid_until = self.valid_until.max(Some(until));
        // What was sent before can have happened only before.
        self.sent.drain(..=at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_millis(millis)
    }

    fn holder() -> Holder {
        let mut holder = Holder::new(Times::default(), at(0));
        assert!(holder.is_in_doubt() && !holder.is_due(at(0)));
        assert_eq!(holder.heard(None, Revision::NONE), Heard::Nothing);
        holder
    }

    #[test]
    fn a_lease_counts_from_before_it_was_asked_for() {
        let mut holder = holder();
        assert!(holder.is_due(at(0)) && !holder.is_valid(at(0)));
        assert_eq!(holder.send(7, at(1_000)), Revision::NONE);
        assert!(!holder.is_due(at(99_000)));
        holder.wrote(Revision::NONE, WriteOutcome::Written(Revision(4)));
        assert!(holder.is_valid(at(20_999)) && !holder.is_valid(at(21_000)));
        assert!(!holder.is_due(at(5_999)) && holder.is_due(at(6_000)));
    }

    #[test]
    fn a_late_answer_revives_nothing() {
        let mut holder = holder();
        holder.send(7, at(0));
        holder.wrote(Revision::NONE, WriteOutcome::Written(Revision(4)));
        holder.send(8, at(5_000));
        assert!(!holder.is_valid(at(60_000)));
        holder.wrote(Revision(4), WriteOutcome::Written(Revision(9)));
        assert!(!holder.is_valid(at(60_000)));
    }

    #[test]
    fn an_unknown_outcome_extends_nothing_until_it_is_read() {
        let mut holder = holder();
        holder.send(7, at(0));
        holder.wrote(Revision::NONE, WriteOutcome::Unknown);
        assert!(holder.is_in_doubt() && !holder.is_valid(at(1)));
        assert_eq!(holder.heard(Some(7), Revision(3)), Heard::Ours);
        assert!(holder.is_valid(at(1)) && holder.is_due(at(1)));
        // Another that did not happen, as far as a server knows: written again on the same revision.
        holder.send(8, at(2));
        holder.wrote(Revision(3), WriteOutcome::Unknown);
        assert_eq!(holder.heard(Some(7), Revision(3)), Heard::Nothing);
        assert_eq!(holder.send(9, at(4)), Revision(3));
        // It had happened: the conflict wants a newer value, and that is its own.
        holder.wrote(Revision(3), WriteOutcome::Conflict);
        assert_eq!(holder.heard(Some(7), Revision(3)), Heard::Nothing);
        assert!(holder.is_in_doubt());
        assert_eq!(holder.heard(Some(8), Revision(5)), Heard::Ours);
        assert!(holder.is_valid(at(20_001)) && !holder.is_valid(at(20_002)));
    }

    #[test]
    fn a_foreign_write_is_told() {
        let mut holder = holder();
        holder.send(7, at(0));
        holder.wrote(Revision::NONE, WriteOutcome::Written(Revision(4)));
        assert_eq!(holder.heard(Some(7), Revision(4)), Heard::Nothing);
        assert_eq!(holder.heard(None, Revision(6)), Heard::Foreign);
        assert_eq!(holder.heard(Some(7), Revision(8)), Heard::Foreign); // Once confirmed, a nonce is used up.
        holder.lose();
        assert!(!holder.is_valid(at(1)));
    }
}
