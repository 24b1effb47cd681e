//! Bodies of the verbs of the cache service, its beats, reports and tables.
//!
//! Ages and waits are durations: no instant crosses the wire, since each node reckons by a clock of its own. Hashes do not
//! cross it either: a receiver makes them of the key under the ring's seed, so that nobody can name a wrong one. What an
//! entry weighs is the receiver's to reckon. Each verb may be called twice, and bodies may come in any order: what decides
//! which answer is newer is in them.
//!
//! Values are opaque to nodes: [`WireKept`] holds an encoded [`WireAnswer`], which only fronts read.

use super::super::WireError;
use super::node::bytes_of;
use super::question::{WireHit, WireQuery};
use farol_base::Timestamp;
use farol_base::query::{Answer, Hit, Query};
use farol_cache::balance::DensityDelta;
use farol_cache::copies::RoundMark;
use farol_cache::freshness::made;
use farol_cache::hot::{Degree, Summary, TALLIES_MAX, Tally};
use farol_cache::key::QueryKey;
use farol_cache::ring::NODES_MAX;
use farol_cache::store::{Entry, Proven, USES_MAX};
use farol_cache::tables::{
    Beat, Epoch, FrontId, FrontReport, HOT_MAX, HotDoc, HotKey, NodeTally, RingDoc, RingNode,
};
use farol_cache::{NodeId, Ring};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Verbs of cache nodes, paths below `/v1/` as in [`super::verb`].
pub mod verb {
    /// A kept answer, or a lease for making it.
    pub const LOOKUP: &str = "lookup";
    /// An answer to keep.
    pub const INSERT: &str = "insert";
    /// A lease that came to nothing.
    pub const RELEASE: &str = "release";
    /// Failover copies.
    pub const PROTECT: &str = "protect";
    /// Entries of a range that is another node's now.
    pub const HAND_OVER: &str = "hand-over";
}

/// Bytes of a key: a question is not longer.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Bytes of an encoded answer; a page of a hundred hits has about 100 KiB.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Entries of a batch, and its bytes, the last entry excepted.
pub const BATCH_ENTRIES_MAX: usize = 256;
pub const BATCH_BYTES_MAX: usize = 64 << 10;
/// Queries that a report names as raised.
const RAISED_MAX: usize = 1_000;

/// Twin of [`Epoch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireEpoch {
    pub term: u64,
    pub version: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireSender {
    Front(u64),
    Node { id: u16, incarnation: u64 },
}

/// Begins every request. Another epoch than one's own is no error: the reply's tail tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheHead {
    pub ring: WireEpoch,
    pub from: WireSender,
}

/// Begins every reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTail {
    pub node: u16,
    pub incarnation: u64,
    pub ring: WireEpoch,
    /// How busy the node is, per mille.
    pub busy: u16,
}

/// What a node keeps of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireKept {
    /// An encoded [`WireAnswer`].
    #[serde(with = "bytes_of")]
    pub answer: Vec<u8>,
    /// Fingerprint of the question's spelling, where the answer repeats it: then it is for those alone who spell it so.
    pub spelling: Option<u64>,
}

/// A kept answer with its age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireAged {
    pub kept: WireKept,
    pub age_ms: u64,
    pub state: u64,
}

/// Asks for a kept answer; the reply is a [`LookupReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupRequest {
    pub head: CacheHead,
    pub key: String,
    /// The least state that the asker takes for current.
    pub need: u64,
    /// Whether the asker would make the answer, or wait for who does.
    pub lease_wanted: bool,
}

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireLookup {
    Hit(WireAged),
    /// From another's copies.
    Adopted(WireAged),
    /// Superseded, within the grace; with a lease this asker makes it anew.
    Stale(WireAged, Option<u64>),
    /// Nothing. With a lease this asker makes the answer; without one somebody does, and one may ask again after the wait.
    Miss {
        lease: Option<u64>,
        wait_ms: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupReply {
    pub tail: CacheTail,
    pub found: WireLookup,
}

/// Hands an answer to the node that did not have it; the reply is an [`InsertReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsertRequest {
    pub head: CacheHead,
    pub entry: WireEntry,
    pub lease: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsertReply {
    pub tail: CacheTail,
    pub kept: bool,
}

/// Gives a lease back; the reply is a [`CacheTail`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRequest {
    pub head: CacheHead,
    pub key: String,
    pub lease: u64,
}

/// Twin of a [`Proven`] entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireEntry {
    pub key: String,
    pub aged: WireAged,
    /// How often it was asked for where it stood; 0 for a new one.
    pub uses: u8,
}

/// A part of a round of failover copies; the reply is a [`CacheTail`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectRequest {
    pub head: CacheHead,
    pub round: u64,
    /// All of the round has been sent.
    pub last: bool,
    pub entries: Vec<WireEntry>,
}

/// A part of a range that is the receiver's now; the reply is a [`HandOverReply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOverRequest {
    pub head: CacheHead,
    pub last: bool,
    pub entries: Vec<WireEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOverReply {
    pub tail: CacheTail,
    /// Bytes that the receiver takes in the next second.
    pub room: u32,
}

/// Twin of an [`Answer`], with the order of its hits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireAnswer {
    pub hits: Vec<WireRankedHit>,
    pub total: u64,
    pub more: bool,
    pub suggestion: Option<WireQuery>,
    pub corrected: Option<WireQuery>,
    pub generation: u64,
    pub missing: Vec<String>,
}

/// Twin of a [`Hit`] with what the broker knows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireRankedHit {
    pub hit: WireHit,
    pub score: f32,
    pub duplicates: u32,
    pub more_from_host: bool,
    pub pinned: bool,
    pub strict: bool,
}

/// Twin of a [`Beat`], with the number of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireBeat {
    pub node: u16,
    pub incarnation: u64,
    pub ring: WireEpoch,
    pub capacity: u32,
    pub lookups: u64,
    pub hits: u64,
    pub adopted: u64,
    pub misses: u64,
    pub inserts: u64,
    pub refused: u64,
    pub protects: u64,
    pub handed: u64,
    pub busy: u16,
    pub bytes: u64,
    pub entries: u64,
}

/// Twin of a [`NodeTally`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTally {
    pub node: u16,
    pub sent: u64,
    pub owned: u64,
    pub late: u64,
    pub refused: u64,
    pub refusing_ms: Option<u32>,
}

/// A counted query: its text, its count, and how much of that may be others'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounted {
    pub hash: u64,
    pub text: String,
    pub count: u32,
    pub error: u32,
}

/// Twin of a [`Summary`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireSummary {
    pub seen: u64,
    pub rest: u32,
    pub counted: Vec<WireCounted>,
}

/// Twin of a [`FrontReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireReport {
    pub front: u64,
    pub incarnation: u64,
    pub number: u64,
    pub ring: WireEpoch,
    pub nodes: Vec<WireTally>,
    /// Cells that have something, with how much.
    pub density: Vec<(u32, u16)>,
    pub minute: Option<WireSummary>,
    pub raised: Vec<(u64, u32)>,
}

/// Twin of a [`RingNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireRingNode {
    pub id: u16,
    pub incarnation: u64,
    pub capacity: u32,
}

/// Twin of a [`RingDoc`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireRing {
    pub epoch: WireEpoch,
    pub seed: u64,
    pub nodes: Vec<WireRingNode>,
    /// End points, growing, with their nodes.
    pub ends: Vec<(u64, u16)>,
}

/// Twin of a [`HotDoc`]: hash, degree, severity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireHot {
    pub epoch: WireEpoch,
    pub fronts: u16,
    pub at_once: u32,
    pub hot: Vec<(u64, u16, u8)>,
}

fn damaged(error: impl std::fmt::Display) -> WireError {
    WireError::Damaged(error.to_string())
}

fn bounded(what: &str, count: usize, max: usize) -> Result<(), WireError> {
    match count > max {
        true => Err(WireError::Damaged(format!("{what}: {count} are more than {max}"))),
        false => Ok(()),
    }
}

/// The key that was sent, under one's own seed.
pub fn read_key(key: &str, seed: u64) -> Result<QueryKey, WireError> {
    bounded("bytes of a key", key.len(), KEY_BYTES_MAX)?;
    Ok(QueryKey::of_sent(key, seed))
}

impl CacheHead {
    /// The round that a sender of copies means; only nodes have rounds.
    pub fn mark(&self, round: u64) -> Result<RoundMark, WireError> {
        match self.from {
            WireSender::Node { id, incarnation } => Ok(RoundMark { source: NodeId(id), incarnation, round }),
            WireSender::Front(_) => Err(WireError::Damaged("a front has no copies to send".to_string())),
        }
    }
}

impl From<Epoch> for WireEpoch {
    fn from(epoch: Epoch) -> WireEpoch {
        WireEpoch { term: epoch.term, version: epoch.version }
    }
}

impl From<WireEpoch> for Epoch {
    fn from(wire: WireEpoch) -> Epoch {
        Epoch { term: wire.term, version: wire.version }
    }
}

impl WireEntry {
    /// An entry on its way, with its age.
    pub fn of(entry: &Entry<QueryKey, WireKept>, uses: u8, now: Timestamp) -> WireEntry {
        let age = now.since(entry.made);
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let aged = WireAged { kept: entry.value.clone(), age_ms, state: entry.state };
        WireEntry { key: entry.key.text().to_string(), aged, uses }
    }

    /// Bytes that it travels with, about.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.aged.kept.answer.len() + 32
    }

    /// The entry by one's own clock and seed, weighed as it will be kept.
    pub fn read(self, now: Timestamp, seed: u64) -> Result<Proven<QueryKey, WireKept>, WireError> {
        let WireEntry { key, aged: WireAged { kept, age_ms, state }, uses } = self;
        let key = read_key(&key, seed)?;
        bounded("bytes of an answer", kept.answer.len(), ANSWER_BYTES_MAX)?;
        bounded("uses", usize::from(uses), usize::from(USES_MAX))?;
        let made = made(Duration::from_millis(age_ms), now)
            .ok_or_else(|| WireError::Damaged(format!("an answer cannot be {age_ms} ms old")))?;
        let weight = u32::try_from(key.text().len() + kept.answer.len() + 64).unwrap_or(u32::MAX);
        let entry = Entry { hash: key.hash(), key, value: kept, weight, made, state };
        Ok(Proven { uses, entry })
    }
}

/// The entries of a batch.
pub fn read_batch(
    entries: Vec<WireEntry>,
    now: Timestamp,
    seed: u64,
) -> Result<Vec<Proven<QueryKey, WireKept>>, WireError> {
    bounded("entries of a batch", entries.len(), BATCH_ENTRIES_MAX)?;
    entries.into_iter().map(|entry| entry.read(now, seed)).collect()
}

impl From<&Answer> for WireAnswer {
    fn from(answer: &Answer) -> WireAnswer {
        let ranked = |hit: &Hit| WireRankedHit {
            hit: WireHit::from(hit),
            score: hit.score,
            duplicates: hit.duplicates,
            more_from_host: hit.more_from_host,
            pinned: hit.pinned,
            strict: hit.strict,
        };
        WireAnswer {
            hits: answer.hits.iter().map(ranked).collect(),
            total: answer.total as u64,
            more: answer.more,
            suggestion: answer.suggestion.as_ref().map(WireQuery::from),
            corrected: answer.corrected.as_ref().map(WireQuery::from),
            generation: answer.generation,
            missing: answer.missing.clone(),
        }
    }
}

impl TryFrom<WireAnswer> for Answer {
    type Error = WireError;

    /// A whole answer; parts are not kept. Its time and age are the reader's to fill in.
    fn try_from(wire: WireAnswer) -> Result<Answer, WireError> {
        let ranked = |wire: WireRankedHit| {
            let (score, duplicates) = (wire.score, wire.duplicates);
            let (more_from_host, pinned, strict) = (wire.more_from_host, wire.pinned, wire.strict);
            Hit::try_from(wire.hit).map(|hit| Hit {
                score,
                duplicates,
                more_from_host,
                pinned,
                strict,
                ..hit
            })
        };
        Ok(Answer {
            hits: wire.hits.into_iter().map(ranked).collect::<Result<_, _>>()?,
            total: usize::try_from(wire.total).map_err(damaged)?,
            more: wire.more,
            suggestion: wire.suggestion.map(Query::try_from).transpose()?,
            corrected: wire.corrected.map(Query::try_from).transpose()?,
            generation: wire.generation,
            missing: wire.missing,
            ..Answer::default()
        })
    }
}

impl WireBeat {
    pub fn of(node: NodeId, beat: &Beat) -> WireBeat {
        WireBeat {
            node: node.0,
            incarnation: beat.incarnation,
            ring: beat.ring.into(),
            capacity: beat.capacity,
            lookups: beat.lookups,
            hits: beat.hits,
            adopted: beat.adopted,
            misses: beat.misses,
            inserts: beat.inserts,
            refused: beat.refused,
            protects: beat.protects,
            handed: beat.handed,
            busy: beat.busy,
            bytes: beat.bytes,
            entries: beat.entries,
        }
    }

    pub fn read(self) -> (NodeId, Beat) {
        let beat = Beat {
            incarnation: self.incarnation,
            ring: self.ring.into(),
            capacity: self.capacity,
            lookups: self.lookups,
            hits: self.hits,
            adopted: self.adopted,
            misses: self.misses,
            inserts: self.inserts,
            refused: self.refused,
            protects: self.protects,
            handed: self.handed,
            busy: self.busy.min(1000),
            bytes: self.bytes,
            entries: self.entries,
        };
        (NodeId(self.node), beat)
    }
}

impl<K: AsRef<str>> From<&FrontReport<K>> for WireReport {
    fn from(report: &FrontReport<K>) -> WireReport {
        let tally = |tally: &NodeTally| WireTally {
            node: tally.node.0,
            sent: tally.sent,
            owned: tally.owned,
            late: tally.late,
            refused: tally.refused,
            refusing_ms: tally.refusing_ms,
        };
        let counted = |tally: &Tally<K>| WireCounted {
            hash: tally.hash,
            text: tally.key.as_ref().to_string(),
            count: tally.count,
            error: tally.error,
        };
        let summary = |minute: &Summary<K>| WireSummary {
            seen: minute.seen,
            rest: minute.rest,
            counted: minute.tallies.iter().map(counted).collect(),
        };
        WireReport {
            front: report.front.0,
            incarnation: report.incarnation,
            number: report.number,
            ring: report.ring.into(),
            nodes: report.nodes.iter().map(tally).collect(),
            density: report.density.counts().collect(),
            minute: report.minute.as_ref().map(summary),
            raised: report.raised.clone(),
        }
    }
}

impl TryFrom<WireReport> for FrontReport<String> {
    type Error = WireError;

    fn try_from(wire: WireReport) -> Result<FrontReport<String>, WireError> {
        wire.read(|_, text| text)
    }
}

impl WireReport {
    /// The report, with its questions as the reader tells them apart: by hash and text.
    pub fn read<K: Eq + Clone>(
        self,
        question: impl Fn(u64, String) -> K,
    ) -> Result<FrontReport<K>, WireError> {
        let wire = self;
        bounded("nodes of a report", wire.nodes.len(), NODES_MAX)?;
        bounded("raised queries", wire.raised.len(), RAISED_MAX)?;
        let tally = |wire: WireTally| NodeTally {
            node: NodeId(wire.node),
            sent: wire.sent,
            owned: wire.owned,
            late: wire.late,
            refused: wire.refused,
            refusing_ms: wire.refusing_ms,
        };
        let minute = wire.minute.map(|wire| {
            bounded("counters", wire.counted.len(), TALLIES_MAX)?;
            let long = wire.counted.iter().map(|counted| counted.text.len()).max().unwrap_or(0);
            bounded("bytes of a query", long, KEY_BYTES_MAX)?;
            let counted = |wire: WireCounted| Tally {
                hash: wire.hash,
                key: question(wire.hash, wire.text),
                count: wire.count,
                error: wire.error,
            };
            let tallies = wire.counted.into_iter().map(counted).collect();
            let minute = Summary { seen: wire.seen, rest: wire.rest, tallies };
            minute.check().map_err(damaged).map(|()| minute)
        });
        Ok(FrontReport {
            front: FrontId(wire.front),
            incarnation: wire.incarnation,
            number: wire.number,
            ring: wire.ring.into(),
            nodes: wire.nodes.into_iter().map(tally).collect(),
            density: DensityDelta::from_counts(wire.density).map_err(damaged)?,
            minute: minute.transpose()?,
            raised: wire.raised,
        })
    }
}

impl From<&RingDoc> for WireRing {
    fn from(doc: &RingDoc) -> WireRing {
        let node = |node: &RingNode| WireRingNode {
            id: node.id.0,
            incarnation: node.incarnation,
            capacity: node.capacity,
        };
        WireRing {
            epoch: doc.epoch.into(),
            seed: doc.seed,
            nodes: doc.nodes.iter().map(node).collect(),
            ends: doc.ring.ends().iter().map(|(end, node)| (*end, node.0)).collect(),
        }
    }
}

impl TryFrom<WireRing> for RingDoc {
    type Error = WireError;

    fn try_from(wire: WireRing) -> Result<RingDoc, WireError> {
        let ends = wire.ends.into_iter().map(|(end, node)| (end, NodeId(node))).collect();
        let node = |wire: WireRingNode| RingNode {
            id: NodeId(wire.id),
            incarnation: wire.incarnation,
            capacity: wire.capacity,
        };
        let doc = RingDoc {
            epoch: wire.epoch.into(),
            seed: wire.seed,
            nodes: wire.nodes.into_iter().map(node).collect(),
            ring: Ring::from_ends(ends).map_err(damaged)?,
        };
        doc.check().map_err(damaged)?;
        Ok(doc)
    }
}

impl From<&HotDoc> for WireHot {
    fn from(doc: &HotDoc) -> WireHot {
        let hot = |hot: &HotKey| {
            (hot.degree.hash, u16::try_from(hot.degree.nodes).unwrap_or(u16::MAX), hot.severity)
        };
        WireHot {
            epoch: doc.epoch.into(),
            fronts: doc.fronts,
            at_once: doc.at_once,
            hot: doc.hot.iter().map(hot).collect(),
        }
    }
}

impl TryFrom<WireHot> for HotDoc {
    type Error = WireError;

    fn try_from(wire: WireHot) -> Result<HotDoc, WireError> {
        bounded("hot queries", wire.hot.len(), HOT_MAX)?;
        let hot = |(hash, nodes, severity): (u64, u16, u8)| HotKey {
            degree: Degree { hash, nodes: usize::from(nodes) },
            severity,
        };
        Ok(HotDoc {
            epoch: wire.epoch.into(),
            fronts: wire.fronts,
            at_once: wire.at_once,
            hot: wire.hot.into_iter().map(hot).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
