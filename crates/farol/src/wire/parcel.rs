//! Parcels: hosts on their way from one agent to another, in parts that fit into a log. Drawn in
//! `docs/formats/handover.md`.
//!
//! FROZEN, as [`super::v1`]: what must change goes into another version, which the first byte tells.
//!
//! Nothing here is believed: sizes are bounded before anything is unpacked, hosts and addresses are parsed again, and
//! what means nothing is refused with a sentence or left out.

use super::WireError;
use farol_base::{CanonicalUrl, ContentHash, Host, Timestamp};
use farol_store::urls::{KnownUrl, Record, State};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

/// First byte of everything that [`pack`] makes.
const VERSION: u8 = 1;
/// What goes into a log is no larger than this.
pub const PART_BYTES_MAX: usize = 256 << 10;
/// A part unpacks to no more: a robots.txt at its limit, and as many URLs as a writer puts beside it.
pub const UNPACKED_BYTES_MAX: usize = 4 << 20;
/// A frame wants no more memory than what it unpacks to: 2²² bytes.
const WINDOW_LOG_MAX: u32 = UNPACKED_BYTES_MAX.ilog2();
/// Parts of one parcel: with what a blob may hold, some billions of URLs.
pub const PARTS_MAX: u32 = 1 << 20;
/// Parts of a parcel from here on travel through a blob, in pieces of this size at most.
pub const BLOB_BYTES_MAX: usize = 8 << 20;
/// A page that was visited later than this ahead of the receiver's clock was not visited.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);

/// Which parcel something belongs to. A host that is handed over again under the same epoch, as after a restart of its
/// giver, has a greater attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ParcelId {
    pub epoch: u64,
    pub attempt: u64,
    /// Number of the agent that gives the host away.
    pub from: u16,
}

/// What travels through the log of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Envelope {
    Part(ParcelPart),
    Blob(PartsInBlob),
}

/// A part of a parcel. The parts of a parcel may be taken in any order, and twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParcelPart {
    pub parcel: ParcelId,
    pub host: String,
    /// Number of the part, from 0.
    pub part: u32,
    /// How many parts there are; told by the last one.
    pub of: Option<u32>,
    /// With the first part.
    pub head: Option<Box<ParcelHead>>,
    pub urls: Vec<WireUrl>,
}

/// Parts of a parcel that are in a blob, whose name follows from the rest: see [`PartsInBlob::name`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsInBlob {
    pub parcel: ParcelId,
    pub host: String,
    /// The first part in it, and how many there are.
    pub first: u32,
    pub count: u32,
    pub bytes: u64,
    /// CRC-32 of all of them.
    pub crc: u32,
}

/// All that is known of a host besides its URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParcelHead {
    /// The receiver may ask the host under this epoch. Never from one who is not a member.
    pub right: Option<u64>,
    /// Where the host was last reached, for a host that its address takes to another agent; and until when that counts.
    pub address: Option<(IpAddr, u64)>,
    pub row: Option<WireHostRow>,
    /// robots.txt as it was sent.
    pub robots: Option<Vec<u8>>,
}

/// What is remembered of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireHostRow {
    pub robots_status: u16,
    pub robots_fetched: u64,
    pub crawl_delay: Option<u64>,
    pub not_before: u64,
    pub failures: u32,
    pub asked_to_wait: u64,
    pub bytes_fetched: u64,
    pub errors: Vec<(String, u64)>,
    pub address: Option<IpAddr>,
    pub connects: Vec<(u64, u32)>,
}

/// A URL of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireUrl {
    pub path: String,
    pub depth: u16,
    pub visits: Option<Box<WireVisits>>,
}

/// What the visits of a URL left behind; instants in milliseconds. Where the page is archived is of no use elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireVisits {
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

impl WireUrl {
    pub fn of(path: &str, record: &Record) -> WireUrl {
        let visits = record.is_visited().then(|| {
            Box::new(WireVisits {
                state: state_byte(record.state),
                visits: record.visits,
                last_visit: record.last_visit.as_millis(),
                last_change: record.last_change.as_millis(),
                content_hash: record.content_hash.0,
                download: u32::try_from(record.download.as_millis()).unwrap_or(u32::MAX),
                due: record.due.as_millis(),
                failures: record.failures,
                memo: record.memo,
            })
        });
        WireUrl { path: path.to_string(), depth: record.depth, visits }
    }

    /// Bytes that it takes before it is compressed, roughly.
    pub fn bytes(&self) -> usize {
        self.path.len() + if self.visits.is_some() { 64 } else { 4 }
    }

    /// The URL of a host; `None` where this is none, as the receiver spells them.
    pub fn read(self, host: &Host, now: Timestamp) -> Option<KnownUrl> {
        let url = CanonicalUrl::parse(&format!("{}{}", host.as_str(), self.path)).ok()?;
        if url.host() != *host || url.path_and_query() != self.path {
            return None;
        }
        let found = Record { depth: self.depth, ..Record::default() };
        let visited = self.visits.and_then(|visits| visits.read(self.depth));
        let record = visited.filter(|record| record.last_visit <= now + AHEAD_MAX).unwrap_or(found);
        Some(KnownUrl { url, record })
    }
}

impl WireVisits {
    fn read(self, depth: u16) -> Option<Record> {
        let record = Record {
            state: state_of(self.state)?,
            visits: self.visits,
            last_visit: Timestamp::from_millis(self.last_visit),
            last_change: Timestamp::from_millis(self.last_change),
            content_hash: ContentHash(self.content_hash),
            position: None,
            download: Duration::from_millis(u64::from(self.download)),
            due: Timestamp::from_millis(self.due),
            failures: self.failures,
            depth,
            memo: self.memo,
        };
        record.is_visited().then_some(record)
    }
}

fn state_byte(state: State) -> u8 {
    match state {
        State::Known => 0,
        State::Collected => 1,
        State::Redirect => 2,
        State::Gone => 3,
        State::Refused => 4,
        State::OutOfScope => 5,
        State::Failed => 6,
    }
}

fn state_of(byte: u8) -> Option<State> {
    use State::*;
    [Known, Collected, Redirect, Gone, Refused, OutOfScope, Failed]
        .into_iter()
        .find(|state| state_byte(*state) == byte)
}

impl ParcelPart {
    /// Its host, where the part makes sense.
    pub fn host(&self) -> Result<Host, WireError> {
        let host = read_host(&self.host)?;
        if self.part >= self.of.unwrap_or(PARTS_MAX) || self.of.is_some_and(|of| of > PARTS_MAX) {
            return Err(WireError::Damaged(format!(
                "it is part {} of {:?} of {}",
                self.part, self.of, self.host
            )));
        }
        Ok(host)
    }
}

impl PartsInBlob {
    /// Its host, where it makes sense.
    pub fn host(&self) -> Result<Host, WireError> {
        let host = read_host(&self.host)?;
        let end = self.first.checked_add(self.count);
        if self.count == 0 || end.is_none_or(|end| end > PARTS_MAX) || self.bytes > BLOB_BYTES_MAX as u64 {
            let PartsInBlob { first, count, bytes, .. } = self;
            let what =
                format!("{count} parts of {} from {first} on are said to take {bytes} bytes", self.host);
            return Err(WireError::Damaged(what));
        }
        Ok(host)
    }

    /// The name of the blob, which nobody else's parcel has.
    pub fn name(&self) -> Result<String, WireError> {
        let ParcelId { epoch, attempt, from } = self.parcel;
        Ok(format!("parcels/{from}/{epoch}-{attempt}-{:016x}-{}", self.host()?.hash().0, self.first))
    }

    /// The parts that are in the blob, one after the other, so that no more than one is in memory.
    pub fn parts<'a>(
        &'a self,
        blob: &'a [u8],
    ) -> Result<impl Iterator<Item = Result<ParcelPart, WireError>> + 'a, WireError> {
        let host = self.host()?;
        if blob.len() as u64 != self.bytes || crc32fast::hash(blob) != self.crc {
            return Err(WireError::Damaged(format!(
                "the blob of {} is not what was announced",
                host.as_str()
            )));
        }
        let (mut rest, mut next, end) = (blob, self.first, self.first + self.count);
        Ok(std::iter::from_fn(move || {
            if next == end {
                return (!std::mem::take(&mut rest).is_empty()).then(|| Err(short(&host)));
            }
            let read = self.read_part(&mut rest, next).ok_or_else(|| short(&host)).flatten();
            next = if read.is_ok() { next + 1 } else { end };
            if read.is_err() {
                rest = &[];
            }
            Some(read)
        }))
    }

    /// Takes a part off the front of a blob; `None` where the blob ends too early.
    fn read_part(&self, rest: &mut &[u8], number: u32) -> Option<Result<ParcelPart, WireError>> {
        let (len, behind) = rest.split_first_chunk::<4>()?;
        let (bytes, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        *rest = behind;
        Some(match unpack(bytes) {
            Ok(Envelope::Part(part))
                if (part.parcel, &part.host, part.part) == (self.parcel, &self.host, number) =>
            {
                Ok(part)
            }
            Ok(_) => Err(WireError::Damaged(format!("part {number} of {:?} is something else", self.host))),
            Err(error) => Err(error),
        })
    }
}

fn short(host: &Host) -> WireError {
    WireError::Damaged(format!("the blob of {} does not end where its parts do", host.as_str()))
}

/// A host that another node names; it is not believed.
fn read_host(text: &str) -> Result<Host, WireError> {
    match Host::parse(text) {
        Ok(host) if host.as_str() == text => Ok(host),
        _ => Err(WireError::Damaged(format!("{:?} is no host", text.chars().take(200).collect::<String>()))),
    }
}

/// Appends a packed part to a blob.
pub fn put_in_blob(blob: &mut Vec<u8>, part: &[u8]) {
    blob.extend_from_slice(&(part.len() as u32).to_le_bytes());
    blob.extend_from_slice(part);
}

/// Packs what goes into a log or a blob; it may be larger than a log takes.
pub fn pack(envelope: &Envelope) -> anyhow::Result<Vec<u8>> {
    let plain = postcard::to_stdvec(envelope)?;
    let mut bytes = vec![VERSION];
    zstd::stream::copy_encode(&plain[..], &mut bytes, 1)?;
    Ok(bytes)
}

/// Reads what [`pack`] wrote.
pub fn unpack(bytes: &[u8]) -> Result<Envelope, WireError> {
    let damaged = |error: &dyn std::fmt::Display| WireError::Damaged(error.to_string());
    if bytes.len() > PART_BYTES_MAX {
        return Err(WireError::Damaged(format!("a part has {} bytes", bytes.len())));
    }
    let (version, packed) = bytes.split_first().ok_or_else(|| damaged(&"it is empty"))?;
    if *version != VERSION {
        return Err(WireError::Version { found: *version, known: VERSION });
    }
    let mut plain = Vec::new();
    let mut reader = zstd::stream::read::Decoder::new(packed).map_err(|error| damaged(&error))?;
    // A frame says itself how much memory it wants.
    reader.window_log_max(WINDOW_LOG_MAX).map_err(|error| damaged(&error))?;
    let mut reader = reader.take(UNPACKED_BYTES_MAX as u64 + 1);
    reader.read_to_end(&mut plain).map_err(|error| damaged(&error))?;
    if plain.len() > UNPACKED_BYTES_MAX {
        return Err(WireError::TooLarge { max: UNPACKED_BYTES_MAX });
    }
    let (envelope, rest) = postcard::take_from_bytes(&plain).map_err(|error| damaged(&error))?;
    if rest.is_empty() { Ok(envelope) } else { Err(damaged(&"something follows its end")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn part() -> ParcelPart {
        let head = ParcelHead {
            right: Some(5),
            row: Some(WireHostRow { robots_status: 200, connects: vec![(300, 9)], ..WireHostRow::default() }),
            robots: Some(b"x".to_vec()),
            address: None,
        };
        let visits = WireVisits {
            state: 1,
            visits: 2,
            last_visit: 300,
            last_change: 0,
            content_hash: 7,
            download: 4,
            due: 301,
            failures: 0,
            memo: [1; 8],
        };
        ParcelPart {
            parcel: ParcelId { epoch: 5, attempt: 1, from: 3 },
            host: "http://h".into(),
            part: 0,
            of: Some(1),
            head: Some(Box::new(head)),
            urls: vec![
                WireUrl { path: "/".into(), depth: 0, visits: None },
                WireUrl { path: "/a".into(), depth: 1, visits: Some(Box::new(visits)) },
            ],
        }
    }

    #[test]
    fn the_first_version_is_frozen() {
        let envelope = Envelope::Part(part());
        let golden = [
            &[0, 5, 1, 3, 8][..],
            b"http://h",
            &[0, 1, 1, 1, 1, 5, 0, 1, 200, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 172, 2, 9],
            &[1, 1, b'x', 2, 1, b'/', 0, 0, 2, b'/', b'a', 1, 1, 1, 2, 172, 2, 0, 7, 4, 173, 2, 0],
            &[1; 8],
        ]
        .concat();
        assert_eq!(postcard::to_stdvec(&envelope).unwrap(), golden);
        assert_eq!(unpack(&pack(&envelope).unwrap()), Ok(envelope));
        let parcel = part().parcel;
        let blob = PartsInBlob { parcel, host: "http://h".into(), first: 0, count: 2, bytes: 300, crc: 1 };
        assert_eq!(
            postcard::to_stdvec(&Envelope::Blob(blob.clone())).unwrap(),
            [&[1, 5, 1, 3, 8][..], b"http://h", &[0, 2, 172, 2, 1]].concat()
        );
        assert!(blob.name().unwrap().starts_with("parcels/3/5-1-"));
    }

    #[test]
    fn garbage_is_refused_with_a_sentence() {
        let refused = |part: ParcelPart| part.host().unwrap_err().to_string();
        assert!(refused(ParcelPart { host: "http://H/x".into(), ..part() }).contains("is no host"));
        assert!(refused(ParcelPart { part: 1, ..part() }).contains("it is part 1 of Some(1)"));
        assert!(refused(ParcelPart { of: Some(PARTS_MAX + 1), ..part() }).contains("part 0"));
        let long = unpack(&vec![VERSION; PART_BYTES_MAX + 1]).unwrap_err().to_string();
        assert!(long.contains("262145 bytes"), "{long}");
        assert_eq!(unpack(&[9, 1]), Err(WireError::Version { found: 9, known: 1 }));
        let mut bomb = vec![VERSION];
        zstd::stream::copy_encode(std::io::repeat(0).take(80 << 20), &mut bomb, 1).unwrap();
        assert_eq!(unpack(&bomb), Err(WireError::TooLarge { max: UNPACKED_BYTES_MAX }));
        // A frame that wants 128 MiB for a few bytes.
        let mut wide = zstd::stream::Encoder::new(vec![VERSION], 1).unwrap();
        wide.window_log(27).unwrap();
        for _ in 0..2 {
            wide.write_all(b"some bytes").unwrap();
            wide.flush().unwrap();
        }
        let wide = unpack(&wide.finish().unwrap()).unwrap_err().to_string();
        assert!(wide.contains("memory"), "{wide}");
        let blob = PartsInBlob {
            parcel: part().parcel,
            host: "http://h".into(),
            first: 0,
            count: 1,
            bytes: BLOB_BYTES_MAX as u64 + 1,
            crc: 0,
        };
        assert!(blob.name().unwrap_err().to_string().contains("are said to take"));
    }

    #[test]
    fn a_blob_is_its_parts_and_nothing_else() {
        let parts: Vec<ParcelPart> =
            (3..6).map(|number| ParcelPart { part: number, of: None, ..part() }).collect();
        let mut bytes = Vec::new();
        for part in &parts {
            put_in_blob(&mut bytes, &pack(&Envelope::Part(part.clone())).unwrap());
        }
        let announced = |bytes: &[u8], first: u32, count: u32| PartsInBlob {
            parcel: part().parcel,
            host: "http://h".into(),
            first,
            count,
            bytes: bytes.len() as u64,
            crc: crc32fast::hash(bytes),
        };
        let read = |blob: &PartsInBlob, bytes: &[u8]| -> Result<Vec<ParcelPart>, WireError> {
            blob.parts(bytes)?.collect()
        };
        assert_eq!(read(&announced(&bytes, 3, 3), &bytes), Ok(parts));
        for (first, count) in [(3, 2), (3, 4), (2, 3)] {
            assert!(read(&announced(&bytes, first, count), &bytes).is_err());
        }
        assert!(read(&announced(&bytes, 3, 3), &bytes[..bytes.len() - 1]).is_err());
        let mut flipped = bytes.clone();
        flipped[20] ^= 1;
        assert!(read(&announced(&bytes, 3, 3), &flipped).is_err());
    }

    #[test]
    fn addresses_and_times_are_not_believed() {
        let (host, now) = (Host::parse("http://h").unwrap(), Timestamp::from_secs(1_000_000));
        let [known, visited] = &part().urls[..] else { panic!("two URLs") };
        assert!(known.clone().read(&host, now).is_some());
        for wrong in ["", "x", "/a/../b", "/ä", "/a#b", "@g/"] {
            let url = WireUrl { path: wrong.into(), ..known.clone() };
            assert_eq!(url.read(&host, now), None, "{wrong:?}");
        }
        let read = |change: fn(&mut WireVisits)| {
            let mut url = visited.clone();
            change(url.visits.as_mut().unwrap());
            url.read(&host, now).unwrap().record.is_visited()
        };
        assert!(read(|_| {}));
        // It is known, and no more.
        assert!(!read(|visits| visits.state = 77) && !read(|visits| visits.visits = 0));
        assert!(
            read(|visits| visits.last_visit = 1_080_000_000)
                && !read(|visits| visits.last_visit = 1_090_000_000)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
            let _ = postcard::from_bytes::<Envelope>(&bytes);
        }
    }
}
