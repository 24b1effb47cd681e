//! Leases for misses: of all who miss one key at about the same time, one asks the index and the others wait a little.
//!
//! As in memcached's leases \[Nishtala13\]: a lease is a number; who holds it inserts the answer or gives it back. It ends
//! by itself, so that somebody who dies with one holds nobody up for long.
//!
//! INVARIANT: at most one lease per hash at a time, and at most so many leases as there is room for: beyond, everybody
//! leads.

use farol_base::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

/// A lease lasts so long: as long as a question to the index may take.
pub const LEASE: Duration = Duration::from_secs(2);
/// Who waits for another's answer asks again after this, and then asks the index.
pub const WAIT_MAX: Duration = Duration::from_millis(40);
/// Leases at one time and shard: 4,096 × some 40 bytes.
const ROOM: usize = 4096;

/// Names a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// What somebody who missed is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Ask the index, then insert, or release.
    Lead(LeaseId),
    /// Somebody else does; ask again after this.
    Wait(Duration),
    /// No lease was wanted.
    Alone,
}

/// Leases by hash.
#[derive(Debug, Default)]
pub struct Leases {
    by_hash: HashMap<u64, (LeaseId, Timestamp)>,
    granted: u64,
}

impl Leases {
    /// A lease for this hash, if nobody has it.
    pub fn ask(&mut self, hash: u64, now: Timestamp) -> Turn {
        if let Some((_, until)) = self.by_hash.get(&hash)
            && *until > now
        {
            return Turn::Wait(until.since(now).min(WAIT_MAX));
        }
        if self.by_hash.len() >= ROOM {
            self.by_hash.retain(|_, (_, until)| *until > now);
        }
        self.granted += 1;
        let id = LeaseId(self.granted);
        if self.by_hash.len() < ROOM {
            self.by_hash.insert(hash, (id, now + LEASE));
        }
        Turn::Lead(id)
    }

    /// Gives a lease back; another's stays.
    pub fn release(&mut self, hash: u64, id: LeaseId) {
        if self.by_hash.get(&hash).is_some_and(|(known, _)| *known == id) {
            self.by_hash.remove(&hash);
        }
    }

    /// The answer is here.
    pub fn end(&mut self, hash: u64) {
        if !self.by_hash.is_empty() {
            self.by_hash.remove(&hash);
        }
    }

    pub fn clear(&mut self) {
        self.by_hash.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn one_leads_until_the_answer_comes_or_the_lease_ends() {
        let mut leases = Leases::default();
        let Turn::Lead(first) = leases.ask(5, at(0)) else { panic!("nobody had it") };
        assert_eq!(leases.ask(5, at(10)), Turn::Wait(WAIT_MAX));
        assert_eq!(leases.ask(5, at(1_990)), Turn::Wait(Duration::from_millis(10)));
        assert!(matches!(leases.ask(6, at(10)), Turn::Lead(_)));
        // Its holder died: another leads after two seconds, and a late release of the first one changes nothing.
        let Turn::Lead(second) = leases.ask(5, at(2_000)) else { panic!("it has ended") };
        leases.release(5, first);
        assert!(matches!(leases.ask(5, at(2_001)), Turn::Wait(_)));
        leases.release(5, second);
        assert!(matches!(leases.ask(5, at(2_002)), Turn::Lead(_)));
        leases.end(5);
        assert!(matches!(leases.ask(5, at(2_003)), Turn::Lead(_)));
    }

    #[test]
    fn leases_have_a_limit() {
        let mut leases = Leases::default();
        for hash in 0..3 * ROOM as u64 {
            assert!(matches!(leases.ask(hash, at(0)), Turn::Lead(_)));
        }
        assert_eq!(leases.by_hash.len(), ROOM);
        assert!(
            matches!(leases.ask(ROOM as u64 * 2, at(1)), Turn::Lead(_)),
            "beyond the room everybody leads"
        );
    }
}
