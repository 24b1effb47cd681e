//! Names and numbers of things in a cluster.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// A node's name for ever: 64 random bits, kept in its data folder; written in base32 of small letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<NodeId> {
        let bytes = data_encoding::BASE32_DNSSEC.decode(text.as_bytes()).ok()?;
        let id = NodeId(u64::from_be_bytes(bytes.try_into().ok()?));
        // One spelling each, so that a key names one node.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::BASE32_DNSSEC.encode(&self.0.to_be_bytes()))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeId, D::Error> {
        let text = String::deserialize(deserializer)?;
        NodeId::parse(&text).ok_or_else(|| de::Error::custom(format!("{text:?} is no id of a node")))
    }
}

/// A node's short number, given by the leader and never given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeNo(pub u16);

impl fmt::Display for NodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A shard of the index. Its halves after a split have ids of their own; no id is given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u32);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Version of a key in the shared tables; it grows with every change of any key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Of a key that does not exist.
    pub const NONE: Revision = Revision(0);
}

/// A place in an agent's archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArchivePosition {
    pub file: u64,
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_has_one_spelling() {
        for id in [NodeId(0), NodeId(1), NodeId(u64::MAX), NodeId(0x0123_4567_89ab_cdef)] {
            let text = id.to_string();
            assert_eq!(text.len(), 13);
            assert_eq!(NodeId::parse(&text), Some(id));
            assert_eq!(serde_json::from_str::<NodeId>(&format!("{text:?}")).unwrap(), id);
        }
        let text = NodeId(u64::MAX).to_string();
        for wrong in [text.to_uppercase(), String::new(), "xyz".to_string(), format!("{text}0")] {
            assert_eq!(NodeId::parse(&wrong), None, "{wrong:?}");
        }
    }
}
