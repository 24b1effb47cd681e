//! Who must be woken when.
//!
//! INVARIANT: an alarm that was set rings exactly once or is called off; nothing stale stays behind.
//! Costs O(log n) per call and 48 bytes per alarm; hosts and addresses have at most one alarm each.

use farol_base::Timestamp;
use std::collections::BTreeMap;

/// Names an alarm, to call it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    pub at: Timestamp,
    /// Alarms of one instant ring in the order in which they were set.
    serial: u64,
}

/// Alarms in the order of time.
#[derive(Debug)]
pub struct Timers<T> {
    alarms: BTreeMap<TimerId, T>,
    serial: u64,
}

impl<T: Copy> Timers<T> {
    pub fn new() -> Timers<T> {
        Timers { alarms: BTreeMap::new(), serial: 0 }
    }

    pub fn set(&mut self, at: Timestamp, whom: T) -> TimerId {
        self.serial += 1;
        let id = TimerId { at, serial: self.serial };
        self.alarms.insert(id, whom);
        id
    }

    pub fn call_off(&mut self, id: TimerId) {
        self.alarms.remove(&id);
    }

    /// Takes the first alarm that has come.
    pub fn ring(&mut self, now: Timestamp) -> Option<T> {
        let (id, _) = self.alarms.first_key_value()?;
        if id.at > now {
            return None;
        }
        self.alarms.pop_first().map(|(_, whom)| whom)
    }

    /// The instant of the first alarm, unless it is never.
    pub fn next(&self) -> Option<Timestamp> {
        self.alarms.first_key_value().map(|(id, _)| id.at).filter(|at| *at != Timestamp::NEVER)
    }

    /// The alarms from the last to the first.
    pub fn latest_first(&self) -> impl Iterator<Item = (Timestamp, T)> + '_ {
        self.alarms.iter().rev().map(|(id, whom)| (id.at, *whom))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_the_order_of_time_and_of_setting() {
        let at = Timestamp::from_secs;
        let mut timers = Timers::new();
        timers.set(at(5), 'c');
        timers.set(at(1), 'a');
        timers.set(at(5), 'd');
        let off = timers.set(at(2), 'x');
        timers.set(at(4), 'b');
        timers.call_off(off);
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.ring(at(0)), None);
        let rung: String = std::iter::from_fn(|| timers.ring(at(5))).collect();
        assert_eq!(rung, "abcd");
        timers.set(Timestamp::NEVER, 'z');
        assert_eq!(timers.next(), None);
    }
}
