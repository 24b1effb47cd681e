//! A value that only the leader writes, as the leader knows it.

use crate::record::write;
use crate::{Key, Revision, Write, WriteOutcome};
use serde::Serialize;

/// One key of the leader's.
#[derive(Debug)]
pub struct Table<T> {
    key: Key,
    value: Option<T>,
    revision: Revision,
    /// Whether it was read or told at all: a key that was not may exist all the same.
    is_known: bool,
    in_flight: Option<T>,
}

impl<T: Clone + Serialize> Table<T> {
    pub fn new(key: Key) -> Table<T> {
        Table { key, value: None, revision: Revision::NONE, is_known: false, in_flight: None }
    }

    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Whether it must be read.
    pub fn is_wanted(&self) -> bool {
        !self.is_known
    }

    pub fn key(&self) -> Key {
        self.key
    }

    /// Whether it may be written now.
    pub fn is_free(&self) -> bool {
        self.in_flight.is_none() && !self.is_wanted()
    }

    pub fn heard(&mut self, value: Option<T>, revision: Revision) {
        if revision > self.revision {
            (self.value, self.revision) = (value, revision);
        }
        self.is_known = true;
    }

    /// The write that replaces it.
    pub fn replace(&mut self, value: T) -> Write {
        let bytes = write(&value);
        self.in_flight = Some(value);
        Write { key: self.key.to_string(), value: Some(bytes), expected: self.revision }
    }

    pub fn wrote(&mut self, outcome: WriteOutcome) {
        let Some(value) = self.in_flight.take() else { return };
        match outcome {
            WriteOutcome::Written(revision) => self.heard(Some(value), revision),
            // Read before it is written again. A server that lags may tell what was known already: the next write then
            // meets the conflict once more. A write that was held back because the lease had ended changes nothing.
            WriteOutcome::Conflict | WriteOutcome::Unknown => self.is_known = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_read_before_it_is_written() {
        let mut table: Table<u64> = Table::new(Key::State);
        assert!(table.is_wanted() && !table.is_free());
        table.heard(None, Revision::NONE);
        assert!(table.is_free());
        assert_eq!(table.replace(1).expected, Revision::NONE);
        assert!(!table.is_free());
        table.wrote(WriteOutcome::Written(Revision(4)));
        assert_eq!((table.get(), table.is_free()), (Some(&1), true));
        table.replace(2);
        table.wrote(WriteOutcome::Conflict);
        assert!(table.is_wanted());
        table.heard(Some(7), Revision(6));
        assert_eq!((table.get(), table.is_free()), (Some(&7), true));
        // Nobody knows: any answer serves, since the next write is by compare-and-set too.
        table.replace(8);
        table.wrote(WriteOutcome::Unknown);
        assert!(table.is_wanted());
        table.heard(Some(7), Revision(6));
        assert_eq!(table.replace(8).expected, Revision(6));
    }
}
