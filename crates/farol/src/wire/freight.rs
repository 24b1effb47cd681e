//! What agents send each other through their logs: URLs, words on who may ask a host, and hosts with all that is known of
//! them. Drawn in `docs/formats/handover.md`.
//!
//! A batch is a head in the clear, a byte that says what it carries, and that, packed. The head stands before what is
//! packed, so that a batch whose rest is damaged is still known by its number: it is passed over and counted, and nobody
//! asks for it again and again.
//!
//! FROZEN as `wire::v1` is. Nothing here is believed: sizes are bounded before anything is unpacked, and names are parsed
//! again.

use super::WireError;
use super::batch::{pack, unpack_within};
use super::parcel::{self, Envelope};
use super::urls::UrlBody;
use anyhow::Result;
use farol_base::Host;
use farol_cluster::{Epoch, NodeNo};
use farol_partition::hold::{AgentId, Note, NoteBody};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// First byte of every batch.
const VERSION: u8 = 1;
/// URLs and notes unpack to no more: a thousand addresses at their longest.
const UNPACKED_BYTES_MAX: usize = 4 << 20;
/// Notes of one batch at most.
pub const NOTES_MAX: usize = 1_000;

const URLS: u8 = 1;
const NOTES: u8 = 2;
const PARCEL: u8 = 3;

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreightHead {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freight {
    Urls(UrlBody),
    Notes(NoteBatch),
    Parcel(Envelope),
}

/// Notes of one agent, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteBatch {
    /// The start of the agent that wrote them, which need not be the one that sends them.
    pub incarnation: u64,
    pub notes: Vec<Note>,
}

impl NoteBatch {
    /// Who wrote them.
    pub fn from(&self, no: NodeNo) -> AgentId {
        AgentId { no, incarnation: self.incarnation }
    }
}

#[derive(Serialize, Deserialize)]
struct WireNotes {
    incarnation: u64,
    notes: Vec<WireNote>,
}

#[derive(Serialize, Deserialize)]
struct WireNote {
    epoch: u64,
    body: WireNoteBody,
}

#[derive(Serialize, Deserialize)]
enum WireNoteBody {
    Free { address: IpAddr },
    Grant { host: String, address: IpAddr, grant: u64, is_last: bool },
    Back { host: String, address: Option<IpAddr>, grant: Option<u64>, with_right: bool },
    Placed { host: String, by: u16 },
    Claim { host: String, address: IpAddr },
    Moved { address: IpAddr, to: u16 },
}

impl From<&Note> for WireNote {
    fn from(note: &Note) -> WireNote {
        let body = match note.body.clone() {
            NoteBody::Free { address } => WireNoteBody::Free { address },
            NoteBody::Grant { host, address, grant, is_last } => {
                WireNoteBody::Grant { host, address, grant, is_last }
            }
            NoteBody::Back { host, address, grant, with_right } => {
                WireNoteBody::Back { host, address, grant, with_right }
            }
            NoteBody::Placed { host, by } => WireNoteBody::Placed { host, by: by.0 },
            NoteBody::Claim { host, address } => WireNoteBody::Claim { host, address },
            NoteBody::Moved { address, to } => WireNoteBody::Moved { address, to: to.0 },
        };
        WireNote { epoch: note.epoch.0, body }
    }
}

impl WireNote {
    /// The note; `None` where it names no host.
    fn read(self) -> Option<Note> {
        let is_host = |text: &str| Host::parse(text).is_ok_and(|host| host.as_str() == text);
        let body = match self.body {
            WireNoteBody::Free { address } => NoteBody::Free { address },
            WireNoteBody::Grant { host, address, grant, is_last } => {
                NoteBody::Grant { host, address, grant, is_last }
            }
            WireNoteBody::Back { host, address, grant, with_right } => {
                NoteBody::Back { host, address, grant, with_right }
            }
            WireNoteBody::Placed { host, by } => NoteBody::Placed { host, by: NodeNo(by) },
            WireNoteBody::Claim { host, address } => NoteBody::Claim { host, address },
            WireNoteBody::Moved { address, to } => NoteBody::Moved { address, to: NodeNo(to) },
        };
        let names_host = match &body {
            NoteBody::Free { .. } | NoteBody::Moved { .. } => true,
            NoteBody::Grant { host, .. }
            | NoteBody::Back { host, .. }
            | NoteBody::Placed { host, .. }
            | NoteBody::Claim { host, .. } => is_host(host),
        };
        names_host.then_some(Note { epoch: Epoch(self.epoch), body })
    }
}

/// Packs URLs, as they lie in an outbox and travel behind a head.
pub fn pack_urls(body: &UrlBody) -> Result<Vec<u8>> {
    Ok([vec![URLS], pack(body)?].concat())
}

/// Packs notes.
pub fn pack_notes(incarnation: u64, notes: &[Note]) -> Result<Vec<u8>> {
    let notes = notes.iter().map(WireNote::from).collect();
    Ok([vec![NOTES], pack(&WireNotes { incarnation, notes })?].concat())
}

/// A part of a parcel, as [`parcel::pack`] has packed it.
pub fn pack_parcel(packed: &[u8]) -> Vec<u8> {
    [&[PARCEL], packed].concat()
}

/// Reads what the three functions above have packed.
pub fn unpack_freight(bytes: &[u8]) -> Result<Freight, WireError> {
    let damaged = |what: &str| WireError::Damaged(what.to_string());
    let (kind, packed) = bytes.split_first().ok_or_else(|| damaged("it is empty"))?;
    match *kind {
        URLS => {
            let body: UrlBody = unpack_within(packed, UNPACKED_BYTES_MAX)?;
            body.check()?;
            Ok(Freight::Urls(body))
        }
        NOTES => {
            let read: WireNotes = unpack_within(packed, UNPACKED_BYTES_MAX)?;
            if read.notes.len() > NOTES_MAX {
                return Err(WireError::Damaged(format!(
                    "it has {} notes, and no batch has more than {NOTES_MAX}",
                    read.notes.len()
                )));
            }
            let notes = read.notes.into_iter().filter_map(WireNote::read).collect();
            Ok(Freight::Notes(NoteBatch { incarnation: read.incarnation, notes }))
        }
        PARCEL => parcel::unpack(packed).map(Freight::Parcel),
        other => Err(WireError::Damaged(format!("it carries something unknown ({other})"))),
    }
}

/// Whether what is packed are URLs.
pub fn is_urls(packed: &[u8]) -> bool {
    packed.first() == Some(&URLS)
}

/// A head before what is packed.
pub fn write(head: &FreightHead, packed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(head, vec![VERSION])?;
    bytes.extend_from_slice(packed);
    Ok(bytes)
}

/// The head, and what stands behind it if it can be read.
pub fn read(bytes: &[u8]) -> Result<(FreightHead, Result<Freight, WireError>), WireError> {
    let damaged = |error: &dyn std::fmt::Display| WireError::Damaged(error.to_string());
    let (version, rest) = bytes.split_first().ok_or_else(|| damaged(&"it is empty"))?;
    if *version != VERSION {
        return Err(WireError::Version { found: *version, known: VERSION });
    }
    let (head, packed) = postcard::take_from_bytes(rest).map_err(|error| damaged(&error))?;
    Ok((head, unpack_freight(packed)))
}

#[cfg(test)]
mod tests {
    use super::super::parcel::{ParcelId, ParcelPart};
    use super::super::urls::{WireFound, WireHost};
    use super::*;
    use proptest::prelude::*;

    fn head() -> FreightHead {
        FreightHead { from: 3, incarnation: 2, number: 300, kept: 7, epoch: 1 }
    }

    fn urls() -> UrlBody {
        let found = WireFound { path: "/a".into(), depth: 4, hint: Some(9) };
        UrlBody {
            hosts: vec![WireHost { host: "http://h".into(), hops: 1, urls: vec![found] }],
            learned: vec![],
        }
    }

    fn notes() -> Vec<Note> {
        let (host, address) = ("http://h".to_string(), IpAddr::from([127, 0, 0, 1]));
        let bodies = [
            NoteBody::Free { address },
            NoteBody::Grant { host: host.clone(), address, grant: 7, is_last: true },
            NoteBody::Back { host: host.clone(), address: None, grant: Some(7), with_right: true },
            NoteBody::Placed { host: host.clone(), by: NodeNo(9) },
            NoteBody::Claim { host, address },
            NoteBody::Moved { address, to: NodeNo(9) },
        ];
        bodies.map(|body| Note { epoch: Epoch(4), body }).into()
    }

    #[test]
    fn the_first_version_is_frozen() {
        assert_eq!(postcard::to_stdvec(&head()).unwrap(), [3, 2, 0xac, 2, 7, 1]);
        let wire = WireNotes { incarnation: 2, notes: notes().iter().map(WireNote::from).collect() };
        assert_eq!(
            postcard::to_stdvec(&wire).unwrap(),
            b"\x02\x06\
              \x04\x00\x00\x7f\x00\x00\x01\
              \x04\x01\x08http://h\x00\x7f\x00\x00\x01\x07\x01\
              \x04\x02\x08http://h\x00\x01\x07\x01\
              \x04\x03\x08http://h\x09\
              \x04\x04\x08http://h\x00\x7f\x00\x00\x01\
              \x04\x05\x00\x7f\x00\x00\x01\x09"
        );
    }

    #[test]
    fn whatever_is_carried_arrives() {
        let part = ParcelPart {
            parcel: ParcelId { epoch: 1, attempt: 2, from: 3 },
            host: "http://h".into(),
            part: 0,
            of: Some(1),
            head: None,
            urls: Vec::new(),
        };
        let envelope = Envelope::Part(part);
        let all = [
            (pack_urls(&urls()).unwrap(), Freight::Urls(urls())),
            (pack_notes(5, &notes()).unwrap(), Freight::Notes(NoteBatch { incarnation: 5, notes: notes() })),
            (pack_parcel(&parcel::pack(&envelope).unwrap()), Freight::Parcel(envelope)),
        ];
        for (packed, freight) in all {
            assert_eq!(is_urls(&packed), matches!(freight, Freight::Urls(_)));
            let bytes = write(&head(), &packed).unwrap();
            assert_eq!(read(&bytes), Ok((head(), Ok(freight))));
        }
    }

    #[test]
    fn a_damaged_body_is_still_known_by_its_number() {
        let mut bytes = write(&head(), &pack_urls(&urls()).unwrap()).unwrap();
        bytes.truncate(bytes.len() - 3);
        let (read_head, rest) = read(&bytes).unwrap();
        assert_eq!(read_head, head());
        assert!(rest.is_err());
        assert_eq!(read(&[9]), Err(WireError::Version { found: 9, known: VERSION }));
    }

    #[test]
    fn what_no_agent_of_ours_would_write_is_refused() {
        let many = vec![notes().remove(0); NOTES_MAX + 1];
        let refused = unpack_freight(&pack_notes(1, &many).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("1001 notes"), "{refused}");
        // A body that unpacks to far more than it takes.
        let bomb = UrlBody {
            hosts: vec![WireHost { host: "h".repeat(UNPACKED_BYTES_MAX), hops: 0, urls: Vec::new() }],
            learned: Vec::new(),
        };
        let bomb = pack_urls(&bomb).unwrap();
        assert!(bomb.len() < 4096);
        assert_eq!(unpack_freight(&bomb), Err(WireError::TooLarge { max: UNPACKED_BYTES_MAX }));
        // A note on something that is no host is left out, and the others are not.
        let strange =
            Note { epoch: Epoch(1), body: NoteBody::Placed { host: "http://H/../x".into(), by: NodeNo(1) } };
        let read = unpack_freight(&pack_notes(1, &[strange, notes().remove(0)]).unwrap());
        assert_eq!(read, Ok(Freight::Notes(NoteBatch { incarnation: 1, notes: vec![notes().remove(0)] })));
        assert!(unpack_freight(&[7, 1, 2]).is_err() && unpack_freight(&[]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = unpack_freight(&bytes);
        }
    }
}
