//! Who must be woken when.
//!
//! INVARIANT: an alarm that was set rings exactly once or is called off; nothing stale stays behind.
//! Costs O(log n) per call and 48 bytes per alarm; hosts and addresses have at most one alarm each.

use farol_base::Timestamp;
use std::collections::BTreeMap;

/// Names an alarm, to call it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmId {
    pub at: Timestamp,
    /// Alarms of one instant ring in the order in which they were set.
    serial: u64,
}

/// Alarms in the order of time.
#[derive(Debug)]
pub struct Agenda<T> {
    alarms: BTreeMap<AlarmId, T>,
    serial: u64,
}

impl<T: Copy> Agenda<T> {
    pub fn new() -> Agenda<T> {
        Agenda { alarms: BTreeMap::new(), serial: 0 }
    }

    pub fn set(&mut self, at: Timestamp, whom: T) -> AlarmId {
        self.serial += 1;
        let id = AlarmId { at, serial: self.serial };
        self.alarms.insert(id, whom);
        id
    }

    pub fn call_off(&mut self, id: AlarmId) {
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
        let mut agenda = Agenda::new();
        agenda.set(at(5), 'c');
        agenda.set(at(1), 'a');
        agenda.set(at(5), 'd');
        let off = agenda.set(at(2), 'x');
        agenda.set(at(4), 'b');
        agenda.call_off(off);
        assert_eq!(agenda.next(), Some(at(1)));
        assert_eq!(agenda.ring(at(0)), None);
        let rung: String = std::iter::from_fn(|| agenda.ring(at(5))).collect();
        assert_eq!(rung, "abcd");
        agenda.set(Timestamp::NEVER, 'z');
        assert_eq!(agenda.next(), None);
    }
}
