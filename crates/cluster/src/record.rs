//! What nodes tell each other through the shared tables: JSON, because people read it.
//!
//! Each record begins with `v`, the version of its layout. A field that is added later has a default, so that nodes of
//! two neighbouring versions live together; `v` grows only when an older program would misread a record.

use crate::{ArchivePosition, NodeId, NodeNo, ShardId};
use farol_base::PagePosition;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::route::Epoch;
use crate::stretch::{Fit, Reached, Stretch};

/// Layout of all records.
pub const RECORD_VERSION: u16 = 1;

/// Bytes that are no record of this version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    #[error(
        "{key} was written by a newer program (layout {found}, this one reads up to {RECORD_VERSION}): upgrade this node"
    )]
    Newer { key: String, found: u16 },
    #[error("{key} cannot be read: {source}")]
    Damaged { key: String, source: serde_json::Error },
}

/// Reads a record.
///
/// # Errors
/// A sentence that names the key.
pub fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u16,
    }
    let damaged = |source| RecordError::Damaged { key: key.to_string(), source };
    let Versioned { v } = serde_json::from_slice(value).map_err(damaged)?;
    if v > RECORD_VERSION {
        return Err(RecordError::Newer { key: key.to_string(), found: v });
    }
    serde_json::from_slice(value).map_err(damaged)
}

/// Writes a record.
///
/// # Panics
/// Where a type cannot be JSON, which none here is.
pub fn write<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have fields and maps of plain names only")
}

/// What the cluster is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    pub v: u16,
    /// Random: a node that has seen another cluster does not join this one.
    pub id: String,
    /// When it was made, milliseconds since 1970; for people.
    pub created: u64,
    /// Version of the wire in which its logs are written, whoever writes them.
    pub wire: u16,
    /// Shards at birth.
    pub shards: u32,
    /// Replicas of each at birth.
    pub replicas: u32,
}

/// The leader's lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRecord {
    pub v: u16,
    pub node: NodeId,
    pub incarnation: u64,
    /// Tells one write from another where an answer got lost.
    pub nonce: u64,
    /// Revision under which it took its lease; 0 until it has renewed it.
    pub term: u64,
    /// It leads no more: the next one need not wait.
    #[serde(default)]
    pub resigned: bool,
}

impl LeaderRecord {
    /// With its term, which the write that takes the lease cannot know: it is the revision of that very write.
    pub fn with_term(mut self, revision: u64) -> LeaderRecord {
        if self.term == 0 && !self.resigned {
            self.term = revision;
        }
        self
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Crawl,
    Index,
    Cache,
    Front,
    Control,
    Rank,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It is there and waits for its number.
    Joining,
    Up,
    /// It gives its work away.
    Draining,
    /// It has left by itself.
    Left,
    /// It was silent for so long that the leader has buried it.
    Dead,
}

impl NodeState {
    /// Nobody is there any more.
    pub fn is_gone(self) -> bool {
        matches!(self, NodeState::Left | NodeState::Dead)
    }
}

/// Greatest versions that a node has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    pub term: u64,
    pub numbers: u64,
    pub shards: u64,
    pub ranks: u64,
    pub state: u64,
    pub epoch: Epoch,
}

/// A node, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub v: u16,
    pub id: NodeId,
    pub no: Option<NodeNo>,
    /// For people.
    pub name: String,
    /// Grows with every start.
    pub incarnation: u64,
    /// Tells one write from another where an answer got lost.
    pub nonce: u64,
    /// Hash of the machine's boot id: nodes on one machine die together.
    pub machine: u64,
    /// Hash of device and inode of the data folder: a copy of it has another.
    pub folder: u64,
    /// Where it answers calls.
    pub rpc: SocketAddr,
    pub roles: BTreeSet<Role>,
    /// Nodes of one zone share power or network; empty where nobody said.
    pub zone: String,
    /// Where it stands, as far as somebody said.
    #[serde(default)]
    pub place: Place,
    /// How much it can bear, compared with others; 100 is usual.
    pub capacity: u32,
    /// Version of the program.
    pub program: String,
    /// Least and greatest version of the wire that it speaks.
    pub wire: (u16, u16),
    pub state: NodeState,
    pub seen: Seen,
    pub report: NodeReport,
}

impl NodeRecord {
    /// A node with the usual values; membership fills in number, incarnation, nonce, state, seen and report.
    pub fn new(id: NodeId, name: &str, rpc: SocketAddr) -> NodeRecord {
        NodeRecord {
            v: RECORD_VERSION,
            id,
            no: None,
            name: name.to_string(),
            incarnation: 0,
            nonce: 0,
            machine: 0,
            folder: 0,
            rpc,
            roles: BTreeSet::new(),
            zone: String::new(),
            place: Place::default(),
            capacity: 100,
            program: String::new(),
            wire: (1, 1),
            state: NodeState::Joining,
            seen: Seen::default(),
            report: NodeReport::default(),
        }
    }
}

/// Where a node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// ISO 3166 alpha-2, small letters; empty where nobody said.
    pub country: String,
    /// Millionths of a degree: north, and east.
    pub position: Option<(i32, i32)>,
}

/// The next number that a receiver expects, by topic and sender: what is below it may leave the sender's outbox.
pub type Expected = BTreeMap<String, BTreeMap<NodeNo, u64>>;

/// How an agent fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentReport {
    pub hosts: u64,
    /// Pages that it has.
    pub pages: u64,
    /// Pages that it fetched in the last minute.
    pub pages_minute: u64,
    /// URLs that it has sent to others, and got from them, since it began.
    pub urls_sent: u64,
    pub urls_received: u64,
    /// Hosts that it is handing over, and is being handed.
    pub hosts_leaving: u64,
    pub hosts_coming: u64,
}

/// How a node fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    pub replicas: BTreeMap<ShardId, ReplicaReport>,
    /// How far its archive is in the log of each shard.
    pub sent: BTreeMap<ShardId, ArchivePosition>,
    /// Calls under way.
    pub load: u32,
    /// Free bytes on its disk.
    pub room: u64,
    /// Something must be finished before it may leave.
    pub busy: bool,
    /// As a ranker, what it has uploaded.
    pub ranks: Option<RanksReport>,
    /// Version of the ranks that it answers by; 0 for none.
    pub ranked_by: u64,
    /// Bytes that wait to be sent to other agents.
    pub outbox: u64,
    /// The newest epoch under which nothing that it has lost is under way any more.
    pub released: Epoch,
    pub expects: Expected,
    /// How far it has read in each log, by topic.
    pub marks: BTreeMap<String, u64>,
    pub agent: AgentReport,
    /// Sentences.
    pub trouble: Vec<String>,
}

/// How a replica fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaReport {
    /// What it has made durable.
    pub mark: ReplicaMark,
    pub documents: u64,
    pub bytes: u64,
    /// How long ago it had all that its log holds; `None` while it has not, or knows of a gap.
    pub lag_ms: Option<u64>,
    pub trouble: Option<String>,
}

/// How far a replica has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaMark {
    /// The stream that the number belongs to.
    pub stream: String,
    /// Number of the last batch it has taken.
    pub seq: u64,
    /// How far it has come with each agent.
    pub from: BTreeMap<NodeNo, AgentMark>,
}

/// How far a replica has come with one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentMark {
    /// It has everything up to here in the agent's archive.
    pub position: ArchivePosition,
    /// And so much of the stretch behind it: cut × 65,536 + pieces.
    pub number: u64,
}

impl ReplicaMark {
    /// How far it has come with an agent.
    pub fn reached(&self, agent: NodeNo) -> Reached {
        let Some(mark) = self.from.get(&agent) else { return Reached::default() };
        let file = u32::try_from(mark.position.file).unwrap_or(u32::MAX);
        Reached {
            position: PagePosition { file, offset: mark.position.offset },
            cut: (mark.number >> 16) as u32,
            pieces: mark.number as u16,
        }
    }

    /// What to do with a batch; where it is taken, this is how far it has come.
    pub fn take(&mut self, stretch: &Stretch) -> Fit {
        let agent = NodeNo(stretch.from);
        let fit = stretch.fits(self.reached(agent));
        if let Fit::Take(Reached { position, cut, pieces }) = fit {
            let position = ArchivePosition { file: u64::from(position.file), offset: position.offset };
            let number = u64::from(cut) << 16 | u64::from(pieces);
            self.from.insert(agent, AgentMark { position, number });
        }
        fit
    }

    /// Whether it has everything that another has.
    pub fn covers(&self, other: &ReplicaMark) -> bool {
        let has = |agent: &NodeNo, mark: &AgentMark| {
            self.from.get(agent).map_or(ArchivePosition::default(), |at| at.position) >= mark.position
        };
        other.from.iter().all(|(agent, mark)| has(agent, mark))
    }
}

/// Ranks that a ranker has uploaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RanksReport {
    /// Greater than that of all before.
    pub version: u64,
    pub digest: String,
}

/// Which number each node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberTable {
    pub v: u16,
    pub version: u64,
    pub term: u64,
    /// The next number that is given.
    pub next: u16,
    pub numbers: BTreeMap<NodeId, NodeNo>,
}

/// Who ranks, and which ranks are the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankTable {
    pub v: u16,
    pub version: u64,
    pub term: u64,
    /// The one node that ranks.
    pub node: Option<NodeId>,
    pub ranks: Option<RanksReport>,
}

/// Grows when answers may have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    pub v: u16,
    pub version: u64,
    pub term: u64,
    /// Hash of what answers depend on.
    pub fingerprint: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_was_just_taken_has_the_term_of_its_revision() {
        let taken =
            LeaderRecord { v: 1, node: NodeId(1), incarnation: 1, nonce: 7, term: 0, resigned: false };
        assert_eq!(taken.clone().with_term(9).term, 9);
        assert_eq!(LeaderRecord { term: 5, ..taken.clone() }.with_term(9).term, 5);
        assert_eq!(LeaderRecord { resigned: true, ..taken }.with_term(9).term, 0);
    }

    fn node() -> NodeRecord {
        let mut record = NodeRecord::new(NodeId(5), "a", "127.0.0.1:9000".parse().unwrap());
        record.roles = [Role::Crawl, Role::Index].into();
        let mut mark = ReplicaMark { stream: "00ff".to_string(), seq: 9, ..ReplicaMark::default() };
        let position = ArchivePosition { file: 1, offset: 2 };
        mark.from.insert(NodeNo(3), AgentMark { position, number: 65_537 });
        let replica = ReplicaReport { mark, documents: 7, lag_ms: Some(3), ..ReplicaReport::default() };
        record.report.replicas.insert(ShardId(2), replica);
        record
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let record = node();
        let bytes = write(&record);
        assert_eq!(read::<NodeRecord>("node.x", &bytes).unwrap(), record);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(r#"{"v":1,"id":"000000000000a""#), "{text}");
        assert!(text.contains(r#""from":{"3":{"position":{"file":1,"offset":2},"number":65537}}"#), "{text}");
        assert!(text.contains(r#""roles":["crawl","index"]"#), "{text}");
    }

    #[test]
    fn a_later_program_may_add_fields_and_roles() {
        let text = String::from_utf8(write(&node())).unwrap();
        let later = text.replace(r#""roles":["crawl""#, r#""colour":"red","roles":["brew""#);
        let record: NodeRecord = read("node.x", later.as_bytes()).unwrap();
        assert_eq!(record.roles, [Role::Index, Role::Other].into());
        let newer = text.replacen(r#""v":1"#, r#""v":2"#, 1);
        let error = read::<NodeRecord>("node.x", newer.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("node.x was written by a newer program"), "{error}");
        assert!(read::<NodeRecord>("node.x", b"{}").is_err());
    }

    #[test]
    fn a_mark_covers_what_it_has_passed() {
        let mark = |entries: &[(u16, u64)]| ReplicaMark {
            from: entries
                .iter()
                .map(|(agent, offset)| {
                    let position = ArchivePosition { file: 0, offset: *offset };
                    (NodeNo(*agent), AgentMark { position, number: 0 })
                })
                .collect(),
            ..ReplicaMark::default()
        };
        assert!(mark(&[(1, 5)]).covers(&mark(&[(1, 5)])));
        assert!(mark(&[(1, 5)]).covers(&mark(&[])));
        assert!(!mark(&[(1, 5)]).covers(&mark(&[(1, 6)])));
        assert!(!mark(&[(1, 5)]).covers(&mark(&[(1, 5), (2, 1)])));
        assert!(mark(&[]).covers(&mark(&[(2, 0)])));
    }

    #[test]
    fn a_mark_moves_with_what_is_taken() {
        let mut mark = ReplicaMark::default();
        let at = |offset| PagePosition { file: 0, offset };
        let piece = |piece, upto| Stretch { from: 4, prev: at(0), upto: at(upto), cut: 70_000, piece };
        assert!(matches!(mark.take(&piece(0, 0)), Fit::Take(_)));
        let mut mark: ReplicaMark = serde_json::from_slice(&write(&mark)).unwrap();
        assert!(matches!(mark.take(&piece(1, 7)), Fit::Take(_)));
        assert_eq!(mark.reached(NodeNo(4)).position, at(7));
        assert_eq!(mark.take(&piece(1, 7)), Fit::Known);
        assert_eq!(mark.reached(NodeNo(5)), Reached::default());
    }
}
