//! Batches of URLs that agents send each other, as they travel: a head in the clear, and a packed body.
//!
//! The head stands before what is packed, so that a batch whose body is damaged is still known by its number: it is
//! passed over and counted, and nobody asks for it again and again.
//!
//! FROZEN as `wire::v1` is. Nothing here is believed: addresses are parsed again, and counts are bounded.

use super::WireError;
use super::batch::{pack, unpack};
use farol_base::{ContentHash, Timestamp};
use farol_store::urls::{Record, State};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// First byte of every batch.
const VERSION: u8 = 1;

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlHead {
    /// Number of the agent that sends.
    pub from: u16,
    /// Its start.
    pub incarnation: u64,
    /// One more than that of the batch before, over all starts.
    pub number: u64,
    /// The least number that the sender can send again: what is below it, nobody has any more.
    pub kept: u64,
    /// The routing table by which it was addressed.
    pub epoch: u64,
}

/// What a batch carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlBody {
    pub hosts: Vec<WireHost>,
    /// Hosts, by their hash, of which the receiver had sent URLs, and whose they are.
    pub learned: Vec<(u64, u16)>,
}

/// URLs of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireHost {
    /// Such as `http://a.org:81`.
    pub host: String,
    /// Where it is, as far as the sender knows.
    pub address: Option<IpAddr>,
    /// How many agents have passed these on.
    pub hops: u8,
    /// Nobody may be asked before this instant (milliseconds); 0 where nothing is known of that.
    pub rest: u64,
    pub urls: Vec<WireFound>,
    /// What is known of URLs that were visited: the host has changed hands.
    pub visited: Vec<WireVisited>,
}

/// What follows the host, links from the nearest seed, and when a sitemap says that it changed (milliseconds).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFound {
    pub path: String,
    pub depth: u16,
    pub hint: Option<u64>,
}

/// What the visits of a URL left behind; instants in milliseconds. Where the page is archived is of no use elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireVisited {
    pub path: String,
    pub depth: u16,
    pub state: u8,
    pub visits: u32,
    pub last_visit: u64,
    pub last_change: u64,
    pub content_hash: u128,
    pub download: u32,
    pub due: u64,
    pub failures: u8,
    pub memo: [u8; 8],
}

const STATES: [State; 7] = [
    State::Known,
    State::Collected,
    State::Redirect,
    State::Gone,
    State::Refused,
    State::OutOfScope,
    State::Failed,
];

impl WireVisited {
    pub fn of(path: &str, record: &Record) -> WireVisited {
        WireVisited {
            path: path.to_string(),
            depth: record.depth,
            state: STATES.iter().position(|state| *state == record.state).unwrap_or(0) as u8,
            visits: record.visits,
            last_visit: record.last_visit.as_millis(),
            last_change: record.last_change.as_millis(),
            content_hash: record.content_hash.0,
            download: u32::try_from(record.download.as_millis()).unwrap_or(u32::MAX),
            due: record.due.as_millis(),
            failures: record.failures,
            memo: record.memo,
        }
    }

    /// The record; `None` where it means nothing.
    pub fn read(&self) -> Option<Record> {
        Some(Record {
            state: *STATES.get(usize::from(self.state))?,
            visits: self.visits,
            last_visit: Timestamp::from_millis(self.last_visit),
            last_change: Timestamp::from_millis(self.last_change),
            content_hash: ContentHash(self.content_hash),
            position: None,
            download: Duration::from_millis(u64::from(self.download)),
            due: Timestamp::from_millis(self.due),
            failures: self.failures,
            depth: self.depth,
            memo: self.memo,
        })
    }
}

/// A head before a body that is packed.
pub fn write(head: &UrlHead, packed: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(head, vec![VERSION])?;
    bytes.extend_from_slice(packed);
    Ok(bytes)
}

/// Packs a body.
pub fn pack_body(body: &UrlBody) -> anyhow::Result<Vec<u8>> {
    pack(body)
}

/// The head, and the body if it can be read.
pub fn read(bytes: &[u8]) -> Result<(UrlHead, Result<UrlBody, WireError>), WireError> {
    let damaged = |error: &dyn std::fmt::Display| WireError::Damaged(error.to_string());
    let (version, rest) = bytes.split_first().ok_or_else(|| damaged(&"it is empty"))?;
    if *version != VERSION {
        return Err(WireError::Version { found: *version, known: VERSION });
    }
    let (head, packed) = postcard::take_from_bytes(rest).map_err(|error| damaged(&error))?;
    Ok((head, unpack(packed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> UrlHead {
        UrlHead { from: 3, incarnation: 2, number: 300, kept: 7, epoch: 1 }
    }

    fn body() -> UrlBody {
        let found = WireFound { path: "/a".into(), depth: 4, hint: Some(9) };
        let host = WireHost {
            host: "http://h".into(),
            address: Some([127, 0, 0, 1].into()),
            hops: 1,
            rest: 8,
            urls: vec![found],
            visited: vec![WireVisited::of(
                "/v",
                &Record { state: State::Gone, depth: 2, ..Record::default() },
            )],
        };
        UrlBody { hosts: vec![host], learned: vec![(5, 6)] }
    }

    #[test]
    fn the_first_version_is_frozen() {
        assert_eq!(postcard::to_stdvec(&head()).unwrap(), [3, 2, 0xac, 2, 7, 1]);
        assert_eq!(
            postcard::to_stdvec(&body()).unwrap(),
            b"\x01\x08http://h\x01\x00\x7f\x00\x00\x01\x01\x08\x01\x02/a\x04\x01\x09\
              \x01\x02/v\x02\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x05\x06"
        );
        let bytes = write(&head(), &pack_body(&body()).unwrap()).unwrap();
        assert_eq!(read(&bytes), Ok((head(), Ok(body()))));
    }

    #[test]
    fn visits_are_read_as_they_were_written() {
        let record = Record { state: State::Failed, visits: 3, failures: 2, depth: 7, ..Record::default() };
        let wire = WireVisited::of("/x", &record);
        assert_eq!(wire.read(), Some(record));
        assert_eq!(WireVisited { state: 7, ..wire }.read(), None);
    }

    #[test]
    fn a_damaged_body_is_still_known_by_its_number() {
        let mut bytes = write(&head(), &pack_body(&body()).unwrap()).unwrap();
        bytes.truncate(bytes.len() - 3);
        let (read_head, read_body) = read(&bytes).unwrap();
        assert_eq!(read_head, head());
        assert!(read_body.is_err());
        assert_eq!(read(&[9]), Err(WireError::Version { found: 9, known: VERSION }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
