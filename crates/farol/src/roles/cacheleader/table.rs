//! A table that the leader publishes: the newest value wanted, and the revision that the next write replaces.

use farol_cache::tables::{Epoch, HotDoc, RingDoc};
use farol_cluster::Key;
use farol_fabric::{Fabric, Lost, Revision};

/// What a table holds, by its epoch.
pub trait Dated {
    fn epoch(&self) -> Epoch;
}

impl Dated for RingDoc {
    fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Dated for HotDoc {
    fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// Reads a value, or says why it cannot be read.
type ReadDoc<T> = fn(&str, &[u8]) -> Result<T, String>;

/// A table under its leader.
pub struct PublishedTable<T> {
    key: String,
    read: ReadDoc<T>,
    write: fn(&T) -> Vec<u8>,
    known: Option<T>,
    revision: Revision,
    wanted: Option<T>,
    /// Nobody knows whether the last write was done.
    is_in_doubt: bool,
}

impl<T: Dated> PublishedTable<T> {
    /// The table as it stands; `None` where it cannot be read now.
    pub fn read(
        fabric: &dyn Fabric,
        key: Key,
        read: ReadDoc<T>,
        write: fn(&T) -> Vec<u8>,
    ) -> Option<PublishedTable<T>> {
        let key = key.to_string();
        let mut table = PublishedTable {
            key,
            read,
            write,
            known: None,
            revision: Revision::NONE,
            wanted: None,
            is_in_doubt: false,
        };
        table.look(fabric).then_some(table)
    }

    pub fn value(&self) -> Option<&T> {
        self.known.as_ref()
    }

    /// Reads it again; whether that went well.
    fn look(&mut self, fabric: &dyn Fabric) -> bool {
        match fabric.get(&self.key) {
            Ok(None) => {
                (self.known, self.revision) = (None, Revision::NONE);
                true
            }
            Ok(Some((value, revision))) => match (self.read)(&self.key, &value) {
                Ok(known) => {
                    (self.known, self.revision) = (Some(known), revision);
                    true
                }
                Err(sentence) => {
                    // Never overwritten: whoever can read it must lead.
                    tracing::warn!("{sentence}");
                    false
                }
            },
            Err(_) => false,
        }
    }

    /// To be written; what was wanted before and is not written yet is not any more.
    pub fn want(&mut self, doc: T) {
        self.wanted = Some(doc);
    }

    /// Writes what is wanted, if anything is. `true`: somebody with a later term has written; this leader is deposed.
    pub fn write(&mut self, fabric: &dyn Fabric, term: u64) -> bool {
        let Some(doc) = &self.wanted else { return false };
        let epoch = doc.epoch();
        if self.is_in_doubt {
            if !self.look(fabric) {
                return false;
            }
            self.is_in_doubt = false;
        }
        let known = self.known.as_ref().map(Dated::epoch).unwrap_or_default();
        if known.term > term {
            return true;
        }
        let Some(doc) = self.wanted.take() else { return false };
        if known >= epoch {
            // The write whose answer was lost had been done.
            return false;
        }
        match fabric.set(&self.key, &(self.write)(&doc), self.revision) {
            Ok(revision) => (self.known, self.revision) = (Some(doc), revision),
            Err(Lost::Conflict | Lost::Unknown(_)) => {
                (self.wanted, self.is_in_doubt) = (Some(doc), true);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::records::{read_hot, write_hot};
    use farol_fabric::memory::Memory;

    fn doc(term: u64, version: u64) -> HotDoc {
        HotDoc { epoch: Epoch { term, version }, fronts: 1, at_once: 0, hot: Vec::new() }
    }

    #[test]
    fn a_deposed_leader_finds_a_later_term_and_overwrites_nothing() {
        let fabric = Memory::default();
        let open = || PublishedTable::read(&fabric, Key::Hot, read_hot, write_hot).unwrap();
        let (mut first, mut second) = (open(), open());
        first.want(doc(1, 1));
        assert!(!first.write(&fabric, 1) && first.value() == Some(&doc(1, 1)));
        // The second read before the first wrote: its first attempt is refused, its next one is not.
        second.want(doc(2, 1));
        assert!(!second.write(&fabric, 2) && second.value().is_none());
        assert!(!second.write(&fabric, 2) && second.value() == Some(&doc(2, 1)));
        first.want(doc(1, 2));
        assert!(!first.write(&fabric, 1), "refused, and not yet known why");
        assert!(first.write(&fabric, 1), "somebody else leads");
        assert_eq!(open().value(), Some(&doc(2, 1)));
    }

    #[test]
    fn what_was_written_twice_is_written_once() {
        let fabric = Memory::default();
        let mut table = PublishedTable::read(&fabric, Key::Hot, read_hot, write_hot).unwrap();
        table.want(doc(1, 1));
        table.write(&fabric, 1);
        let revision = table.revision;
        (table.is_in_doubt, table.wanted) = (true, Some(doc(1, 1)));
        assert!(!table.write(&fabric, 1) && table.revision == revision);
        table.want(doc(1, 2));
        assert!(!table.write(&fabric, 1) && table.value() == Some(&doc(1, 2)));
    }
}
