//! Who leads: a lease on one key.
//!
//! Every node with the role `control` is a candidate. Whoever finds the key unchanged for long enough takes it by
//! compare-and-set on that very revision; the revision of the taking write is its *term*. What it writes bears the
//! term, and goes by compare-and-set too.
//!
//! INVARIANT: two candidates never have a valid lease at the same time, where clocks go at most a tenth wrong.

use crate::lease::{Heard, Holder, Watched};
use crate::record::{LeaderRecord, RECORD_VERSION, read, write};
use crate::{Key, Monotonic, NodeId, Revision, Rules, Times, Write, WriteOutcome};
use farol_base::random::{Random, Seeded};

/// A node that leads or would like to.
#[derive(Debug)]
pub struct Candidacy {
    id: NodeId,
    incarnation: u64,
    times: Times,
    rules: Rules,
    random: Seeded,
    holder: Holder,
    /// The key as the tables have it.
    lease: Option<Watched<LeaderRecord>>,
    in_flight: Option<(Revision, LeaderRecord)>,
    term: Option<u64>,
    /// Since when its lease has been valid without a break.
    since: Option<Monotonic>,
    /// Nobody was turned out: whoever led before has said that it leads no more.
    is_peaceful: bool,
    is_resigning: bool,
}

impl Candidacy {
    pub fn new(
        id: NodeId,
        incarnation: u64,
        times: Times,
        rules: Rules,
        seed: u64,
        now: Monotonic,
    ) -> Candidacy {
        Candidacy {
            id,
            incarnation,
            times,
            rules,
            random: Seeded::new(seed),
            holder: Holder::new(times, now),
            lease: None,
            in_flight: None,
            term: None,
            since: None,
            is_peaceful: false,
            is_resigning: false,
        }
    }

    /// Its term, while its lease is valid.
    pub fn term(&self, now: Monotonic) -> Option<u64> {
        self.term.filter(|_| self.holder.is_valid(now) || !self.rules.lease_checked)
    }

    /// Since when it has led without a break.
    pub fn since(&self) -> Option<Monotonic> {
        self.since
    }

    /// Whether it may plan: where somebody was turned out, what that one had under way must have ended first.
    pub fn is_settled(&self, now: Monotonic) -> bool {
        self.is_peaceful || self.since.is_some_and(|since| now.since(since) >= self.times.dead_ms)
    }

    pub fn is_in_doubt(&self) -> bool {
        self.holder.is_in_doubt()
    }

    /// It leads no more, and says so, so that the next one need not wait.
    pub fn resign(&mut self) {
        self.is_resigning = true;
    }

    /// It has seen a greater term: somebody else leads.
    pub fn depose(&mut self) {
        self.holder.lose();
        (self.term, self.since) = (None, None);
    }

    pub fn heard(&mut self, value: Option<&[u8]>, revision: Revision, now: Monotonic) {
        let key = Key::Leader.to_string();
        let Some(record) = value.and_then(|value| read::<LeaderRecord>(&key, value).ok()) else {
            if value.is_none() {
                self.holder.heard(None, Revision::NONE);
            }
            return;
        };
        let is_mine = record.node == self.id && record.incarnation == self.incarnation;
        match self.holder.heard(is_mine.then_some(record.nonce), revision) {
            Heard::Nothing => {}
            Heard::Ours => self.hold(record, revision, now),
            Heard::Foreign => {
                self.depose();
                self.lease = Some(Watched { value: record, revision, since: now });
            }
        }
    }

    pub fn tick(&mut self, now: Monotonic) -> Option<Write> {
        if !self.holder.is_valid(now) {
            self.since = None;
        }
        if !self.holder.is_free() {
            return None;
        }
        match (self.term, self.is_resigning) {
            (Some(term), true) => {
                self.depose();
                Some(self.write(term, true, now))
            }
            (None, true) => None,
            (Some(term), false) => self.holder.is_due(now).then(|| self.write(term, false, now)),
            (None, false) => {
                let is_over = |lease: &Watched<LeaderRecord>| {
                    lease.value.resigned || now.since(lease.since) >= self.times.dead_ms
                };
                let is_free = self.lease.as_ref().is_none_or(is_over);
                is_free.then(|| self.write(0, false, now))
            }
        }
    }

    pub fn wrote(&mut self, outcome: WriteOutcome, now: Monotonic) {
        let Some((expected, record)) = self.in_flight.take() else { return };
        self.holder.wrote(expected, outcome);
        if let WriteOutcome::Written(revision) = outcome
            && revision == self.holder.revision()
        {
            self.hold(record, revision, now);
        }
    }

    /// Its own write is in the tables.
    fn hold(&mut self, record: LeaderRecord, revision: Revision, now: Monotonic) {
        if record.resigned || self.is_resigning {
            self.depose();
        } else {
            if record.term == 0 {
                self.term = Some(revision.0);
                self.is_peaceful = self.lease.as_ref().is_none_or(|lease| lease.value.resigned);
            } else {
                self.term = Some(record.term);
            }
            if self.holder.is_valid(now) && self.since.is_none() {
                self.since = Some(now);
            }
        }
        self.lease = Some(Watched { value: record, revision, since: now });
    }

    fn write(&mut self, term: u64, resigned: bool, now: Monotonic) -> Write {
        let nonce = self.random.next_u64();
        let record = LeaderRecord {
            v: RECORD_VERSION,
            node: self.id,
            incarnation: self.incarnation,
            nonce,
            term,
            resigned,
        };
        let expected = self.holder.send(nonce, now);
        let value = Some(write(&record));
        self.in_flight = Some((expected, record));
        Write { key: Key::Leader.to_string(), value, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One key, and candidates with it.
    #[derive(Default)]
    struct OneKey {
        value: Option<Vec<u8>>,
        revision: u64,
    }

    impl OneKey {
        fn write(&mut self, write: &Write) -> WriteOutcome {
            if write.expected != Revision(self.revision) {
                return WriteOutcome::Conflict;
            }
            self.value = write.value.clone();
            self.revision += 1;
            WriteOutcome::Written(Revision(self.revision))
        }

        fn turn(&mut self, candidate: &mut Candidacy, millis: u64) {
            let now = at(millis);
            candidate.heard(self.value.as_deref(), Revision(self.revision), now);
            if let Some(write) = candidate.tick(now) {
                let outcome = self.write(&write);
                candidate.wrote(outcome, now);
            }
        }
    }

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_millis(millis)
    }

    fn candidate(id: u64) -> Candidacy {
        Candidacy::new(NodeId(id), 1, Times::default(), Rules::default(), id, at(0))
    }

    #[test]
    fn one_leads_and_the_next_waits_until_the_lease_is_over() {
        let (mut key, mut a, mut b) = (OneKey::default(), candidate(1), candidate(2));
        for second in 0..60 {
            key.turn(&mut a, second * 1000);
            key.turn(&mut b, second * 1000);
            assert_eq!((a.term(at(second * 1000)), b.term(at(second * 1000))), (Some(1), None));
        }
        assert!(a.is_settled(at(0)), "nobody was turned out");
        // The last renewal was at 55 s.
        assert_eq!((a.term(at(74_999)), a.term(at(75_000))), (Some(1), None));
        for second in 60..120 {
            key.turn(&mut b, second * 1000);
            let leads = b.term(at(second * 1000)).is_some();
            assert_eq!(leads, second >= 85, "{second}");
            assert_eq!(b.is_settled(at(second * 1000)), second >= 115, "{second}");
        }
        // Back from its sleep, the first one finds that it leads no more.
        key.turn(&mut a, 120_000);
        assert_eq!((a.term(at(120_000)), b.term(at(120_000)).is_some()), (None, true));
    }

    #[test]
    fn who_resigns_is_followed_at_once() {
        let (mut key, mut a, mut b) = (OneKey::default(), candidate(1), candidate(2));
        key.turn(&mut a, 0);
        key.turn(&mut b, 0);
        a.resign();
        key.turn(&mut a, 1_000);
        assert_eq!(a.term(at(1_000)), None);
        key.turn(&mut b, 1_001);
        assert!(b.term(at(1_001)).is_some() && b.is_settled(at(1_001)));
        key.turn(&mut a, 9_000);
        assert_eq!(a.term(at(9_000)), None);
    }

    #[test]
    fn a_term_outlives_a_break_in_which_nobody_took_it() {
        let (mut key, mut a) = (OneKey::default(), candidate(1));
        key.turn(&mut a, 0);
        assert_eq!(a.term(at(30_000)), None);
        key.turn(&mut a, 30_000);
        assert_eq!((a.term(at(30_000)), a.since()), (Some(1), Some(at(30_000))));
    }
}
