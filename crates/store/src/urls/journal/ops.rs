//! What stands inside a block of the URL journal: operations, one after the other.
//!
//! Reading never trusts a length or a value: whatever does not fit is an error, and the block counts as damaged.

use crate::urls::{Record, State, Visit, VisitOutcome};
use farol_base::url::URL_BYTES_MAX;
use farol_base::{ContentHash, PagePosition, Timestamp};
use std::time::Duration;

const HOST: u8 = 1;
const FOUND: u8 = 2;
const HINT: u8 = 3;
const VISIT: u8 = 4;
const RECORD: u8 = 5;
const FORGET: u8 = 6;
const MARK: u8 = 7;
const END: u8 = 8;

/// One operation. Paths belong to the host that the last [`Op::Host`] of the block named.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op<'a> {
    Host(&'a str),
    Found {
        path: &'a str,
        depth: u16,
    },
    Hint {
        path: &'a str,
        at: Timestamp,
    },
    Visit {
        path: &'a str,
        visit: Visit,
    },
    Record {
        path: &'a str,
        record: Record,
    },
    Forget,
    Mark(PagePosition),
    /// The snapshot at the start of a file is complete.
    End,
}

/// Writes operations.
pub(super) trait Write {
    fn number(&mut self, value: u64);
    fn text(&mut self, parts: [&str; 2]);
    fn host(&mut self, host: &str);
    fn found(&mut self, path: [&str; 2], depth: u16);
    fn hint(&mut self, path: [&str; 2], at: Timestamp);
    fn visit(&mut self, path: [&str; 2], visit: &Visit);
    fn record(&mut self, path: [&str; 2], record: &Record);
    fn forget(&mut self);
    fn mark(&mut self, upto: PagePosition);
    fn end(&mut self);
    fn position(&mut self, position: Option<PagePosition>);
    fn due(&mut self, due: Timestamp);
}

impl Write for Vec<u8> {
    /// LEB128: seven bits a byte, the lowest first.
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn text(&mut self, parts: [&str; 2]) {
        self.number((parts[0].len() + parts[1].len()) as u64);
        parts.iter().for_each(|part| self.extend_from_slice(part.as_bytes()));
    }

    fn host(&mut self, host: &str) {
        self.push(HOST);
        self.text([host, ""]);
    }

    fn found(&mut self, path: [&str; 2], depth: u16) {
        self.push(FOUND);
        self.text(path);
        self.number(u64::from(depth));
    }

    fn hint(&mut self, path: [&str; 2], at: Timestamp) {
        self.push(HINT);
        self.text(path);
        self.number(at.as_millis());
    }

    fn visit(&mut self, path: [&str; 2], visit: &Visit) {
        self.push(VISIT);
        self.text(path);
        self.push(outcome_byte(visit.outcome));
        self.push(u8::from(visit.changed));
        self.number(visit.at.as_millis());
        self.extend_from_slice(&visit.content_hash.0.to_le_bytes());
        self.position(visit.position);
        self.number(u64::try_from(visit.download.as_millis()).unwrap_or(u64::MAX));
        self.due(visit.due);
    }

    fn record(&mut self, path: [&str; 2], record: &Record) {
        self.push(RECORD);
        self.text(path);
        self.number(u64::from(record.depth));
        self.push(state_byte(record.state));
        self.number(u64::from(record.visits));
        self.push(record.failures);
        self.number(record.last_visit.as_millis());
        self.number(record.last_change.as_millis());
        self.extend_from_slice(&record.content_hash.0.to_le_bytes());
        self.position(record.position);
        self.number(u64::try_from(record.download.as_millis()).unwrap_or(u64::MAX));
        self.due(record.due);
    }

    fn forget(&mut self) {
        self.push(FORGET);
    }

    fn mark(&mut self, upto: PagePosition) {
        self.push(MARK);
        self.position(Some(upto));
    }

    fn end(&mut self) {
        self.push(END);
    }

    fn position(&mut self, position: Option<PagePosition>) {
        match position {
            None => self.push(0),
            Some(position) => {
                self.push(1);
                self.number(u64::from(position.file));
                self.number(position.offset);
            }
        }
    }

    /// Most URLs that are not visited again say so in one byte.
    fn due(&mut self, due: Timestamp) {
        self.number(due.as_millis().wrapping_add(1));
    }
}

fn outcome_byte(outcome: VisitOutcome) -> u8 {
    match outcome {
        VisitOutcome::Page => 0,
        VisitOutcome::Unchanged => 1,
        VisitOutcome::Redirect => 2,
        VisitOutcome::Gone => 3,
        VisitOutcome::Refused => 4,
        VisitOutcome::Duplicate => 5,
        VisitOutcome::Failed => 6,
    }
}

fn state_byte(state: State) -> u8 {
    match state {
        State::Known => 0,
        State::Collected => 1,
        State::Redirect => 2,
        State::Gone => 3,
        State::Refused => 4,
        State::Duplicate => 5,
        State::Failed => 6,
    }
}

/// Reads the operations of a block; `None` ends them, and an error tells what does not fit.
pub(super) struct Ops<'a> {
    rest: &'a [u8],
}

/// What was wrong with an operation.
pub(super) type Misfit = &'static str;

impl<'a> Ops<'a> {
    pub fn of(block: &'a [u8]) -> Ops<'a> {
        Ops { rest: block }
    }

    fn op(&mut self) -> Result<Op<'a>, Misfit> {
        Ok(match self.byte()? {
            HOST => Op::Host(self.text()?),
            FOUND => Op::Found { path: self.path()?, depth: self.small()? },
            HINT => Op::Hint { path: self.path()?, at: self.instant()? },
            VISIT => Op::Visit { path: self.path()?, visit: self.visit()? },
            RECORD => Op::Record { path: self.path()?, record: self.record()? },
            FORGET => Op::Forget,
            MARK => Op::Mark(self.position()?.ok_or("a mark without a position")?),
            END => Op::End,
            _ => return Err("an unknown operation"),
        })
    }

    fn visit(&mut self) -> Result<Visit, Misfit> {
        let outcome = match self.byte()? {
            0 => VisitOutcome::Page,
            1 => VisitOutcome::Unchanged,
            2 => VisitOutcome::Redirect,
            3 => VisitOutcome::Gone,
            4 => VisitOutcome::Refused,
            5 => VisitOutcome::Duplicate,
            6 => VisitOutcome::Failed,
            _ => return Err("an unknown outcome"),
        };
        Ok(Visit {
            outcome,
            changed: self.byte()? != 0,
            at: self.instant()?,
            content_hash: self.hash()?,
            position: self.position()?,
            download: self.millis()?,
            due: self.due()?,
        })
    }

    fn record(&mut self) -> Result<Record, Misfit> {
        let depth = self.small()?;
        let state = match self.byte()? {
            0 => State::Known,
            1 => State::Collected,
            2 => State::Redirect,
            3 => State::Gone,
            4 => State::Refused,
            5 => State::Duplicate,
            6 => State::Failed,
            _ => return Err("an unknown state"),
        };
        Ok(Record {
            depth,
            state,
            visits: self.small()?,
            failures: self.byte()?,
            last_visit: self.instant()?,
            last_change: self.instant()?,
            content_hash: self.hash()?,
            position: self.position()?,
            download: self.millis()?,
            due: self.due()?,
        })
    }

    fn position(&mut self) -> Result<Option<PagePosition>, Misfit> {
        match self.byte()? {
            0 => Ok(None),
            1 => Ok(Some(PagePosition { file: self.small()?, offset: self.number()? })),
            _ => Err("an unknown kind of position"),
        }
    }

    fn path(&mut self) -> Result<&'a str, Misfit> {
        self.text()
            .and_then(|text| if text.starts_with('/') { Ok(text) } else { Err("a path without a slash") })
    }

    fn text(&mut self) -> Result<&'a str, Misfit> {
        let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if len > URL_BYTES_MAX {
            return Err("a text longer than a URL");
        }
        std::str::from_utf8(self.bytes(len)?).map_err(|_| "a text that is not UTF-8")
    }

    fn hash(&mut self) -> Result<ContentHash, Misfit> {
        let bytes: [u8; 16] = self.bytes(16)?.try_into().map_err(|_| "a short hash")?;
        Ok(ContentHash(u128::from_le_bytes(bytes)))
    }

    fn instant(&mut self) -> Result<Timestamp, Misfit> {
        self.number().map(Timestamp::from_millis)
    }

    fn due(&mut self) -> Result<Timestamp, Misfit> {
        self.number().map(|due| Timestamp::from_millis(due.wrapping_sub(1)))
    }

    fn millis(&mut self) -> Result<Duration, Misfit> {
        self.number().map(Duration::from_millis)
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Misfit> {
        T::try_from(self.number()?).map_err(|_| "a number that is too large")
    }

    fn number(&mut self) -> Result<u64, Misfit> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits")
    }

    fn byte(&mut self) -> Result<u8, Misfit> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Misfit> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("an operation cut short")?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>, Misfit>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let op = self.op();
        if op.is_err() {
            self.rest = &[];
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn operations_come_back() {
        let visit = Visit {
            at: Timestamp::from_millis(1_700_000_000_123),
            outcome: VisitOutcome::Duplicate,
            content_hash: ContentHash(u128::MAX / 3),
            changed: true,
            position: Some(PagePosition { file: 7, offset: 1 << 40 }),
            download: Duration::from_millis(250),
            due: Timestamp::NEVER,
        };
        let record = Record { visits: 3, failures: 2, depth: 9, due: Timestamp::EPOCH, ..Record::default() };
        let mut block = Vec::new();
        block.host("http://h");
        block.found(["/a/", "b"], 300);
        block.hint(["/a/", "b"], Timestamp::from_secs(5));
        block.visit(["/", ""], &visit);
        block.record(["/r", ""], &record);
        block.forget();
        block.mark(PagePosition { file: 1, offset: 2 });
        block.end();
        let ops: Result<Vec<Op>, Misfit> = Ops::of(&block).collect();
        let want = vec![
            Op::Host("http://h"),
            Op::Found { path: "/a/b", depth: 300 },
            Op::Hint { path: "/a/b", at: Timestamp::from_secs(5) },
            Op::Visit { path: "/", visit },
            Op::Record { path: "/r", record },
            Op::Forget,
            Op::Mark(PagePosition { file: 1, offset: 2 }),
            Op::End,
        ];
        assert_eq!(ops, Ok(want));
        for cut in 0..block.len() {
            // A block cut anywhere is shorter or wrong, and never anything else.
            assert!(Ops::of(&block[..cut]).count() <= 8);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(block in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Ops::of(&block).count() <= block.len());
        }

        #[test]
        fn numbers_come_back(value: u64) {
            let mut block = Vec::new();
            block.number(value);
            prop_assert_eq!(Ops::of(&block).number(), Ok(value));
        }
    }
}
