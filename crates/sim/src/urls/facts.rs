//! What the yardsticks keep of a visited URL, in 53 bytes: the same facts as a [`Record`](farol_store::urls::Record).

use farol_base::{ContentHash, Timestamp};
use farol_store::urls::{Counts, Visit, VisitOutcome};

/// State 1, visits 2, last visit 6, last change 6, content hash 16, position 4 + 5, download 4, due 6, failures 1, depth 2.
pub const FACTS_BYTES: usize = 53;

const PAGE: u8 = 1;
const FAILED: u8 = 6;
const NO_FILE: u32 = u32::MAX;
/// Six bytes of milliseconds last until the year 10889; the largest value stands for never.
const MILLIS_MAX: u64 = (1 << 48) - 1;

/// The history of a URL's visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub state: u8,
    pub visits: u16,
    pub last_visit: u64,
    pub last_change: u64,
    pub hash: u128,
    pub file: u32,
    pub offset: u64,
    pub download: u32,
    pub due: u64,
    pub failures: u8,
    pub depth: u16,
}

impl Facts {
    /// The history that is this one visit.
    pub fn of(visit: &Visit) -> Facts {
        let millis = |at: Timestamp| at.as_millis().min(MILLIS_MAX);
        let state = match visit.outcome {
            VisitOutcome::Page | VisitOutcome::Unchanged => PAGE,
            VisitOutcome::Redirect => 2,
            VisitOutcome::Gone => 3,
            VisitOutcome::Refused | VisitOutcome::OutOfScope => 4,
            VisitOutcome::Failed => FAILED,
        };
        Facts {
            state,
            visits: 1,
            last_visit: millis(visit.at),
            last_change: if visit.changed { millis(visit.at) } else { 0 },
            hash: visit.content_hash.0,
            file: visit.position.map_or(NO_FILE, |position| position.file),
            offset: visit.position.map_or(0, |position| position.offset),
            download: u32::try_from(visit.download.as_millis()).unwrap_or(u32::MAX),
            due: millis(visit.due),
            failures: u8::from(state == FAILED),
            depth: 0,
        }
    }

    /// This history and then a later one. What the later one does not know stays.
    pub fn then(self, later: Facts) -> Facts {
        let failed = later.state == FAILED;
        Facts {
            state: if failed && self.state == PAGE { PAGE } else { later.state },
            visits: self.visits.saturating_add(later.visits),
            last_change: if later.last_change == 0 { self.last_change } else { later.last_change },
            hash: if later.hash == ContentHash::default().0 { self.hash } else { later.hash },
            file: if later.file == NO_FILE { self.file } else { later.file },
            offset: if later.file == NO_FILE { self.offset } else { later.offset },
            failures: if failed { self.failures.saturating_add(later.failures) } else { 0 },
            depth: self.depth,
            ..later
        }
    }

    pub fn is_page(&self) -> bool {
        self.state == PAGE
    }

    pub fn write(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.push(self.state);
        into.extend_from_slice(&self.visits.to_le_bytes());
        into.extend_from_slice(&self.last_visit.to_le_bytes()[..6]);
        into.extend_from_slice(&self.last_change.to_le_bytes()[..6]);
        into.extend_from_slice(&self.hash.to_le_bytes());
        into.extend_from_slice(&self.file.to_le_bytes());
        into.extend_from_slice(&self.offset.to_le_bytes()[..5]);
        into.extend_from_slice(&self.download.to_le_bytes());
        into.extend_from_slice(&self.due.to_le_bytes()[..6]);
        into.push(self.failures);
        into.extend_from_slice(&self.depth.to_le_bytes());
        debug_assert_eq!(into.len() - start, FACTS_BYTES);
    }

    /// Reads what [`write`](Facts::write) wrote.
    ///
    /// # Panics
    /// Where there are fewer than [`FACTS_BYTES`] bytes.
    pub fn read(bytes: &[u8]) -> Facts {
        let mut at = 0;
        let mut number = |count: usize| {
            let mut wide = [0u8; 16];
            wide[..count].copy_from_slice(&bytes[at..at + count]);
            at += count;
            u128::from_le_bytes(wide)
        };
        Facts {
            state: number(1) as u8,
            visits: number(2) as u16,
            last_visit: number(6) as u64,
            last_change: number(6) as u64,
            hash: number(16),
            file: number(4) as u32,
            offset: number(5) as u64,
            download: number(4) as u32,
            due: number(6) as u64,
            failures: number(1) as u8,
            depth: number(2) as u16,
        }
    }
}

/// Counts of a store that learns of each URL's old and new facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub known: u64,
    pub visited: u64,
    pub pages: u64,
}

impl Tally {
    /// Records that a URL became known, or that its facts changed.
    pub fn moved(&mut self, new: bool, old: Option<Facts>, now: Option<Facts>) {
        self.known += u64::from(new);
        self.visited += u64::from(old.is_none() && now.is_some());
        self.pages += u64::from(now.is_some_and(|facts| facts.is_page()));
        self.pages -= u64::from(old.is_some_and(|facts| facts.is_page()));
    }

    pub fn counts(&self, bytes_on_disk: u64) -> Counts {
        Counts {
            known: self.known,
            collected: self.pages,
            waiting: self.known - self.visited,
            bytes_on_disk,
            ..Counts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::{Load, LoadConfig};
    use super::*;

    #[test]
    fn facts_survive_writing_and_agree_with_records() {
        let mut load = Load::generated(LoadConfig { collected: 1, new: 1, repeats: 0, seed: 2 });
        load.begin_cycle();
        let mut bytes = Vec::new();
        for _ in 0..200 {
            let visits = [load.visit(), load.visit(), load.visit()];
            let facts = visits.iter().map(Facts::of).reduce(Facts::then).unwrap();
            bytes.clear();
            facts.write(&mut bytes);
            assert_eq!(Facts::read(&bytes), facts);
            // The store's own rules, through the store that is nothing but rules.
            let mut store = farol_store::urls::Naive::new();
            let url = farol_base::CanonicalUrl::parse("http://h/").unwrap();
            for visit in &visits {
                farol_store::urls::UrlStore::visited(&mut store, &url, visit).unwrap();
            }
            let record = farol_store::urls::UrlStore::get(&store, &url).unwrap().unwrap();
            assert_eq!(u32::from(facts.visits), record.visits);
            assert_eq!(facts.is_page(), record.state == farol_store::urls::State::Collected);
            assert_eq!(facts.hash, record.content_hash.0);
            assert_eq!(
                (facts.failures, facts.last_change),
                (record.failures, record.last_change.as_millis())
            );
            assert_eq!(Some((facts.file, facts.offset)), record.position.map(|at| (at.file, at.offset)));
        }
    }
}
