//! Numbers and texts as bytes, and what is known of a visited URL.
//!
//! Reading never trusts a length or a value: whatever does not fit is a [`DecodeError`], and the bytes count
//! as damaged.

use crate::urls::{Memo, Record, State, Visit, VisitOutcome};
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_instant, put_varint};
use farol_base::{ContentHash, PagePosition, Timestamp};
use std::time::Duration;

/// Bytes that two texts have in common at their beginning.
pub fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    // What differs in eight bytes, the first of them lowest.
    let differ = |at: usize| match (a[at..].first_chunk(), b[at..].first_chunk()) {
        (Some(a), Some(b)) => u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b),
        _ => u64::MAX,
    };
    if len < 8 {
        return a.iter().zip(b).take_while(|(a, b)| a == b).count();
    }
    // The last eight may overlap those before, which are the same.
    let words = (0..len - 8).step_by(8).chain([len - 8]);
    let first = words.map(|at| (at, differ(at))).find(|(_, differ)| *differ != 0);
    first.map_or(len, |(at, differ)| at + differ.trailing_zeros() as usize / 8)
}

/// Number of a state in files; [`State::Known`], never visited, is 0.
pub fn state_byte(state: State) -> u8 {
    match state {
        State::Known => 0,
        State::Collected => 1,
        State::Redirect => 2,
        State::Gone => 3,
        State::Refused => 4,
        State::Failed => 6,
        State::OutOfScope => 7,
    }
}

pub fn state_of(byte: u8) -> Result<State, DecodeError> {
    Ok(match byte {
        0 => State::Known,
        1 => State::Collected,
        2 => State::Redirect,
        3 => State::Gone,
        4 => State::Refused,
        6 => State::Failed,
        7 => State::OutOfScope,
        _ => return Err("an unknown state"),
    })
}

/// Writes what the visits of a URL left behind; its state and depth are stored elsewhere.
///
/// The times come first, so that [`due_of`] need not read the rest.
pub fn put_visits(out: &mut Vec<u8>, record: &Record) {
    put_varint(out, record.last_visit.as_millis());
    put_due(out, record.due, record.last_visit);
    // Close to the visit, or at it: a short number.
    put_instant(
        out,
        if record.last_change == Timestamp::EPOCH {
            Timestamp::NEVER
        } else {
            Timestamp::from_millis(record.last_visit.as_millis().wrapping_sub(record.last_change.as_millis()))
        },
    );
    put_varint(out, u64::from(record.visits));
    out.push(record.failures);
    put_varint(out, u64::try_from(record.download.as_millis()).unwrap_or(u64::MAX));
    match record.position {
        None => out.push(0),
        Some(position) => {
            put_varint(out, u64::from(position.file) + 1);
            put_varint(out, position.offset);
        }
    }
    if record.content_hash != ContentHash::default() {
        out.extend_from_slice(&record.content_hash.0.to_le_bytes());
    }
    if record.memo != Memo::default() {
        out.extend_from_slice(&record.memo);
    }
}

/// Reads what [`put_visits`] wrote; the bytes must be exactly that.
pub fn visits_of(bytes: &[u8], state: State, depth: u16) -> Result<Record, DecodeError> {
    let mut bytes = Decoder::of(bytes);
    let last_visit = Timestamp::from_millis(bytes.varint()?);
    let due = read_due(&mut bytes, last_visit)?;
    let last_change = match bytes.instant()? {
        Timestamp::NEVER => Timestamp::EPOCH,
        ago => Timestamp::from_millis(last_visit.as_millis().wrapping_sub(ago.as_millis())),
    };
    let (visits, failures) = (bytes.varint_as()?, bytes.byte()?);
    let download = Duration::from_millis(bytes.varint()?);
    let position = match bytes.varint()? {
        0 => None,
        file => {
            let file = u32::try_from(file - 1).map_err(|_| "a file number that is too large")?;
            Some(PagePosition { file, offset: bytes.varint()? })
        }
    };
    let content_hash = if bytes.len() < size_of::<ContentHash>() {
        ContentHash::default()
    } else {
        ContentHash(u128::from_le_bytes(bytes.fixed()?))
    };
    let memo = if bytes.is_empty() { Memo::default() } else { bytes.fixed()? };
    let whole = bytes.is_empty();
    let record = Record {
        state,
        visits,
        last_visit,
        last_change,
        content_hash,
        position,
        download,
        due,
        failures,
        depth,
        memo,
    };
    if whole { Ok(record) } else { Err("more bytes than a visit has") }
}

/// Appends all that is known of a visited URL but its depth, after its state and the length of the rest.
pub fn put_record(out: &mut Vec<u8>, record: &Record) {
    let mut visits = Vec::with_capacity(64);
    put_visits(&mut visits, record);
    out.push(state_byte(record.state));
    put_bytes(out, &visits);
}

/// Reads what [`put_record`] wrote.
pub fn record_of(bytes: &mut Decoder<'_>, depth: u16) -> Result<Record, DecodeError> {
    let state = state_of(bytes.byte()?)?;
    let record = visits_of(bytes.bytes()?, state, depth)?;
    if record.is_visited() { Ok(record) } else { Err("a record without a visit") }
}

/// The due time among bytes of [`put_visits`].
pub fn due_of(bytes: &[u8]) -> Result<Timestamp, DecodeError> {
    let mut bytes = Decoder::of(bytes);
    let last_visit = Timestamp::from_millis(bytes.varint()?);
    read_due(&mut bytes, last_visit)
}

/// Appends when a URL is due as the time from its last visit on: 0 = never, else one more than that.
pub fn put_due(out: &mut Vec<u8>, due: Timestamp, last_visit: Timestamp) {
    let wait = due.as_millis().wrapping_sub(last_visit.as_millis());
    match (due, wait) {
        (Timestamp::NEVER, _) => put_varint(out, 0),
        // One of all times does not fit, the millisecond before a last visit: it is stored as a millisecond earlier.
        (_, u64::MAX) => put_varint(out, u64::MAX),
        (_, wait) => put_varint(out, wait + 1),
    }
}

fn read_due(bytes: &mut Decoder<'_>, last_visit: Timestamp) -> Result<Timestamp, DecodeError> {
    Ok(match bytes.varint()? {
        0 => Timestamp::NEVER,
        wait => Timestamp::from_millis(last_visit.as_millis().wrapping_add(wait - 1)),
    })
}

pub fn put_visit(out: &mut Vec<u8>, visit: &Visit) {
    let outcome = match visit.outcome {
        VisitOutcome::Page => 0,
        VisitOutcome::Unchanged => 1,
        VisitOutcome::Redirect => 2,
        VisitOutcome::Gone => 3,
        VisitOutcome::Refused => 4,
        VisitOutcome::Failed => 6,
        VisitOutcome::OutOfScope => 7,
    };
    let has_hash = visit.content_hash != ContentHash::default();
    out.push(
        outcome
            | u8::from(visit.changed) << 4
            | u8::from(has_hash) << 5
            | u8::from(visit.position.is_some()) << 6
            | u8::from(visit.memo != Memo::default()) << 7,
    );
    put_varint(out, visit.at.as_millis());
    put_instant(out, visit.due);
    put_varint(out, u64::try_from(visit.download.as_millis()).unwrap_or(u64::MAX));
    if let Some(position) = visit.position {
        put_varint(out, u64::from(position.file));
        put_varint(out, position.offset);
    }
    if has_hash {
        out.extend_from_slice(&visit.content_hash.0.to_le_bytes());
    }
    if visit.memo != Memo::default() {
        out.extend_from_slice(&visit.memo);
    }
}

pub fn visit_of(bytes: &mut Decoder<'_>) -> Result<Visit, DecodeError> {
    let flags = bytes.byte()?;
    let outcome = match flags & 0x0F {
        0 => VisitOutcome::Page,
        1 => VisitOutcome::Unchanged,
        2 => VisitOutcome::Redirect,
        3 => VisitOutcome::Gone,
        4 => VisitOutcome::Refused,
        6 => VisitOutcome::Failed,
        7 => VisitOutcome::OutOfScope,
        _ => return Err("an unknown outcome"),
    };
    let at = Timestamp::from_millis(bytes.varint()?);
    let due = bytes.instant()?;
    let download = Duration::from_millis(bytes.varint()?);
    let position = match flags & 0x40 {
        0 => None,
        _ => Some(PagePosition { file: bytes.varint_as()?, offset: bytes.varint()? }),
    };
    let content_hash = match flags & 0x20 {
        0 => ContentHash::default(),
        _ => ContentHash(u128::from_le_bytes(bytes.fixed()?)),
    };
    let memo = if flags & 0x80 != 0 { bytes.fixed()? } else { Memo::default() };
    Ok(Visit { at, outcome, content_hash, changed: flags & 0x10 != 0, position, download, due, memo })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timestamp() -> impl Strategy<Value = Timestamp> {
        prop_oneof![Just(0), Just(u64::MAX), any::<u64>()].prop_map(Timestamp::from_millis)
    }

    proptest! {
        #[test]
        fn shared_bytes_are_counted(
            both in proptest::collection::vec(0u8..3, 0..30),
            (a, b) in (proptest::collection::vec(0u8..3, 0..20), proptest::collection::vec(0u8..3, 0..20)),
        ) {
            let (a, b) = ([&both[..], &a].concat(), [&both[..], &b].concat());
            let expected = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(shared_bytes(&a, &b), expected);
        }

        #[test]
        fn numbers_come_back(value in any::<u64>()) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_instant(&mut out, Timestamp::from_millis(value));
            let mut bytes = Decoder::of(&out);
            prop_assert_eq!(bytes.varint(), Ok(value));
            prop_assert_eq!(bytes.instant(), Ok(Timestamp::from_millis(value)));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn records_and_visits_come_back(
            times in (timestamp(), timestamp(), timestamp()),
            numbers in (any::<u32>(), any::<u8>(), any::<u32>(), any::<u128>()),
            position in proptest::option::of((any::<u32>(), any::<u64>())),
            (changed, memo) in any::<(bool, [u8; 8])>(),
        ) {
            // A record that was visited at the very end of time could not have changed at the beginning.
            let position = position.map(|(file, offset)| PagePosition { file, offset });
            let download = Duration::from_millis(u64::from(numbers.2));
            let content_hash = ContentHash(numbers.3);
            let due = if times.0.as_millis().wrapping_sub(times.1.as_millis()) == u64::MAX { times.1 } else { times.0 };
            let last_change = if times.1.as_millis().wrapping_sub(times.2.as_millis()) == u64::MAX { times.1 } else { times.2 };
            let record = Record {
                state: State::Gone, visits: numbers.0, last_visit: times.1, last_change, content_hash, position,
                download, due, failures: numbers.1, depth: 7, memo,
            };
            let mut out = Vec::new();
            put_visits(&mut out, &record);
            prop_assert_eq!(due_of(&out), Ok(record.due));
            prop_assert_eq!(visits_of(&out, State::Gone, 7), Ok(record.clone()));
            let (record, mut stored) = (Record { visits: record.visits.max(1), ..record }, Vec::new());
            put_record(&mut stored, &record);
            let mut bytes = Decoder::of(&stored);
            prop_assert_eq!(record_of(&mut bytes, 7), Ok(record));
            prop_assert!(bytes.is_empty());
            let visit = Visit {
                at: times.1, outcome: VisitOutcome::OutOfScope, content_hash, changed, position, download, due: times.0, memo,
            };
            out.clear();
            put_visit(&mut out, &visit);
            prop_assert_eq!(visit_of(&mut Decoder::of(&out)), Ok(visit));
        }

        #[test]
        fn no_bytes_break_reading(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = visits_of(&bytes, State::Gone, 0);
            let _ = visit_of(&mut Decoder::of(&bytes));
            let _ = record_of(&mut Decoder::of(&bytes), 0);
            let _ = Decoder::of(&bytes).text();
        }
    }
}
