//! Batches that travel through the logs: documents to the replicas of a shard, links to the ranker.
//!
//! Each says which stretch of its sender's archive it covers. A receiver that has taken in everything up to `prev` (or
//! further) may take it; what it has already, it passes over; where it lacks something in between, it asks the sender
//! to send again. So nothing depends on the log keeping its promises: see [`farol_cluster::stretch`].

use super::WireError;
use super::values::{WireDocument, WireLink, WirePosition, position, read_position};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// First byte of every batch.
const VERSION: u8 = 1;
/// No batch unpacks to more: 64 documents at their limits.
const UNPACKED_BYTES_MAX: usize = 64 << 20;

/// What happened to pages of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireChange {
    Put(Box<WireDocument>),
    Delete(String),
    DeleteHost(String),
    DeleteUnder(String),
    /// What pages that link to this one call it; by the ranker, which has no archive.
    Anchors {
        page: u64,
        text: String,
    },
}

/// Changes for one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentBatch {
    /// `None` for what comes from no archive: the ranker's anchors, which are always taken.
    pub stretch: Option<Stretch>,
    pub changes: Vec<WireChange>,
}

/// What changed in the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkChange {
    Put { page: u64, host: u64, at: WirePosition, links: Vec<WireLink> },
    Remove { page: u64 },
}

/// Changes of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBatch {
    pub stretch: Stretch,
    pub changes: Vec<LinkChange>,
}

/// A [`farol_cluster::stretch::Stretch`] as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Number of the node that sends.
    pub from: u16,
    /// What was sent before ends here.
    pub prev: WirePosition,
    /// Everything up to here is sent with this batch; `prev` itself where more of the same stretch follows.
    pub upto: WirePosition,
    /// Which pieces belong together: a stretch that is sent again is cut anew.
    pub cut: u32,
    /// Number of this piece, from 0.
    pub piece: u16,
}

impl From<&Stretch> for farol_cluster::stretch::Stretch {
    fn from(wire: &Stretch) -> farol_cluster::stretch::Stretch {
        farol_cluster::stretch::Stretch {
            from: wire.from,
            prev: read_position(wire.prev),
            upto: read_position(wire.upto),
            cut: wire.cut,
            piece: wire.piece,
        }
    }
}

impl From<&farol_cluster::stretch::Stretch> for Stretch {
    fn from(stretch: &farol_cluster::stretch::Stretch) -> Stretch {
        Stretch {
            from: stretch.from,
            prev: position(stretch.prev),
            upto: position(stretch.upto),
            cut: stretch.cut,
            piece: stretch.piece,
        }
    }
}

/// Packs a batch for a log.
pub fn pack(batch: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let plain = postcard::to_stdvec(batch)?;
    let mut bytes = vec![VERSION];
    zstd::stream::copy_encode(&plain[..], &mut bytes, 1)?;
    Ok(bytes)
}

/// Reads what [`pack`] wrote.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    unpack_within(bytes, UNPACKED_BYTES_MAX)
}

/// The same where it may not unpack to more than this.
pub fn unpack_within<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T, WireError> {
    let damaged = |error: &dyn std::fmt::Display| WireError::Damaged(error.to_string());
    let (version, packed) = bytes.split_first().ok_or_else(|| damaged(&"it is empty"))?;
    if *version != VERSION {
        return Err(WireError::Version { found: *version, known: VERSION });
    }
    let mut plain = Vec::new();
    let mut reader = zstd::stream::read::Decoder::new(packed).map_err(|error| damaged(&error))?;
    // A frame says itself how much memory it wants.
    reader.window_log_max(max.ilog2()).map_err(|error| damaged(&error))?;
    let mut reader = std::io::Read::take(reader, max as u64 + 1);
    std::io::Read::read_to_end(&mut reader, &mut plain).map_err(|error| damaged(&error))?;
    if plain.len() > max {
        return Err(WireError::TooLarge { max });
    }
    postcard::from_bytes(&plain).map_err(|error| damaged(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_version_is_frozen() {
        let stretch = Stretch { from: 3, prev: (0, 300), upto: (1, 2), cut: 9, piece: 1 };
        assert_eq!(Stretch::from(&farol_cluster::stretch::Stretch::from(&stretch)), stretch);
        let batch = DocumentBatch {
            stretch: Some(stretch),
            changes: vec![WireChange::Delete("a".into()), WireChange::Anchors { page: 5, text: "b".into() }],
        };
        let golden = [1, 3, 0, 0xac, 2, 1, 2, 9, 1, 2, 1, 1, b'a', 4, 5, 1, b'b'];
        assert_eq!(postcard::to_stdvec(&batch).unwrap(), golden);
        assert_eq!(unpack::<DocumentBatch>(&pack(&batch).unwrap()), Ok(batch));
        let links = LinkBatch {
            stretch,
            changes: vec![
                LinkChange::Remove { page: 7 },
                LinkChange::Put { page: 1, host: 2, at: (0, 4), links: vec![] },
            ],
        };
        assert_eq!(
            postcard::to_stdvec(&links).unwrap(),
            [3, 0, 0xac, 2, 1, 2, 9, 1, 2, 1, 7, 0, 1, 2, 0, 4, 0]
        );
        assert_eq!(unpack::<LinkBatch>(&pack(&links).unwrap()), Ok(links));
    }

    #[test]
    fn another_version_and_a_bomb_are_refused() {
        assert_eq!(unpack::<LinkBatch>(&[9, 1]), Err(WireError::Version { found: 9, known: 1 }));
        let mut bomb = vec![VERSION];
        zstd::stream::copy_encode(std::io::Read::take(std::io::repeat(0), 80 << 20), &mut bomb, 1).unwrap();
        assert_eq!(unpack::<LinkBatch>(&bomb), Err(WireError::TooLarge { max: UNPACKED_BYTES_MAX }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack::<DocumentBatch>(&bytes);
            let _ = postcard::from_bytes::<DocumentBatch>(&bytes);
        }
    }
}
