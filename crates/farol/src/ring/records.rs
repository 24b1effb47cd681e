//! The tables of the cache service as they stand in the shared tables: JSON, because people read it.

use crate::wire::WireError;
use crate::wire::v1::cache::{WireHot, WireRing};
use farol_cache::tables::{HotDoc, RingDoc};
use farol_cluster::record::{RECORD_VERSION, read, write};
use serde::{Deserialize, Serialize};

/// The value of `table.ring`.
#[derive(Serialize, Deserialize)]
struct RingRecord {
    v: u16,
    ring: WireRing,
}

/// The value of `table.hot`.
#[derive(Serialize, Deserialize)]
struct HotRecord {
    v: u16,
    hot: WireHot,
}

pub fn write_ring(doc: &RingDoc) -> Vec<u8> {
    write(&RingRecord { v: RECORD_VERSION, ring: WireRing::from(doc) })
}

pub fn read_ring(key: &str, value: &[u8]) -> Result<RingDoc, String> {
    let record: RingRecord = read(key, value).map_err(|error| error.to_string())?;
    RingDoc::try_from(record.ring).map_err(|error| damaged(key, &error))
}

pub fn write_hot(doc: &HotDoc) -> Vec<u8> {
    write(&HotRecord { v: RECORD_VERSION, hot: WireHot::from(doc) })
}

pub fn read_hot(key: &str, value: &[u8]) -> Result<HotDoc, String> {
    let record: HotRecord = read(key, value).map_err(|error| error.to_string())?;
    HotDoc::try_from(record.hot).map_err(|error| damaged(key, &error))
}

fn damaged(key: &str, error: &WireError) -> String {
    format!("{key} cannot be read: {error}")
}

/// The value of `table.caches`: how the service fares, for people. Questions stand in it as people asked them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CachesRecord {
    pub v: u16,
    pub term: u64,
    /// Version of the ring under this term, and of the hot questions.
    pub ring: u64,
    pub hot_version: u64,
    /// When it was written, milliseconds since 1970.
    pub at: u64,
    /// What the leader decides by.
    pub rules: String,
    /// Fronts that report.
    pub fronts: u16,
    /// Mean over greatest load of the last minute, by the nodes' own counters: 1 where all bear the same.
    pub efficiency: f64,
    /// Of all lookups of the last minute.
    pub hit_rate: f64,
    pub nodes: Vec<NodeLine>,
    /// The most asked first.
    pub hot: Vec<HotLine>,
    /// The newest first.
    pub bursts: Vec<BurstLine>,
    pub changes: Vec<ChangeLine>,
}

/// How a cache node fares; counts since it started, rates over the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLine {
    pub no: u16,
    pub incarnation: u64,
    pub is_on_ring: bool,
    /// How long ago its last beat came.
    pub silent_ms: u64,
    pub lookups: u64,
    pub hits: u64,
    pub adopted: u64,
    pub misses: u64,
    pub inserts: u64,
    pub refused: u64,
    pub protects: u64,
    pub handed: u64,
    pub entries: u64,
    pub bytes: u64,
    /// How busy it is, per mille.
    pub busy: u16,
    /// Requests of every kind per second.
    pub per_second: f64,
    pub hit_rate: f64,
    /// Version of the ring that it goes by.
    pub ring: u64,
}

/// A question that several nodes answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HotLine {
    pub text: String,
    /// On how many nodes.
    pub nodes: usize,
    /// How often it was asked in the last minute, at least.
    pub count: u32,
    /// Of its burst, from 1 to 4; 0 where it does not burst.
    pub severity: u8,
}

/// A burst that began, changed or ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BurstLine {
    pub at: u64,
    pub text: String,
    /// 0: it has ended.
    pub severity: u8,
}

/// A new ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeLine {
    pub at: u64,
    pub version: u64,
    pub joined: Vec<u16>,
    pub left: Vec<u16>,
    /// Share of the circle that changed its owner.
    pub moved: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_cache::hot::Degree;
    use farol_cache::tables::{Epoch, HotKey, RingNode};
    use farol_cache::{NodeId, Ring};

    #[test]
    fn tables_are_read_as_they_are_written() {
        let node = |id| RingNode { id: NodeId(id), incarnation: u64::MAX, capacity: 1000 };
        let epoch = Epoch { term: u64::MAX - 1, version: 3 };
        let ring = Ring::even(&[NodeId(2), NodeId(7)]);
        let doc = RingDoc { epoch, seed: u64::MAX, nodes: vec![node(2), node(7)], ring };
        assert_eq!(read_ring("table.ring", &write_ring(&doc)), Ok(doc.clone()));
        let mut broken = write_ring(&doc);
        let at = broken.windows(4).position(|four| four == b"ends").unwrap();
        broken[at..at + 4].copy_from_slice(b"ende");
        assert!(read_ring("table.ring", &broken).unwrap_err().contains("table.ring cannot be read"));
        let lacking = RingDoc { nodes: vec![node(2)], ..doc };
        assert!(read_ring("table.ring", &write_ring(&lacking)).is_err());
        let degree = Degree { hash: u64::MAX, nodes: 4 };
        let hot = HotDoc { epoch, fronts: 2, at_once: 9, hot: vec![HotKey { degree, severity: 3 }] };
        assert_eq!(read_hot("table.hot", &write_hot(&hot)), Ok(hot));
        let newer = br#"{"v":99,"hot":{}}"#;
        assert!(read_hot("table.hot", newer).unwrap_err().contains("upgrade this node"));
    }
}
