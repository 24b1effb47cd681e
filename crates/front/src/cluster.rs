//! What a cluster is at one moment, as plain values: its nodes, shards, logs and servers, and what needs a look.
//!
//! Filled in by the binary from the tables that a node watches; a process that is no member of a cluster has none of
//! this. Nothing here is `Serialize`; what goes over the wire are the twins in `api`.

use farol_base::Timestamp;
use std::net::SocketAddr;
use std::time::Duration;

/// A cluster as one of its nodes last heard of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub name: String,
    /// The node that tells this.
    pub me: String,
    /// Who plans for all, where somebody does.
    pub leader: Option<ClusterLeader>,
    /// All nodes that are known, those that left lately too.
    pub nodes: Vec<ClusterNode>,
    /// The parts of the index, in the order of their ranges.
    pub shards: Vec<ClusterShard>,
    /// Nodes that crawl, each with hosts of its own.
    pub agents: Vec<ClusterAgent>,
    /// The table by which they share hosts, where there is one.
    pub route: Option<ClusterRoute>,
    /// What the planner of that table says, where one has said something.
    pub plan: Option<ClusterPlan>,
    /// The logs between nodes.
    pub logs: Vec<ClusterLog>,
    /// The servers that carry logs and tables.
    pub servers: Vec<FabricServer>,
    /// Whether these servers have each message on disk before they acknowledge it; `None` where they do not say.
    pub sync_always: Option<bool>,
    /// What somebody should look at, the gravest first.
    pub warnings: Vec<ClusterWarning>,
    /// The tables that this node goes by, each with its version: `shards`, `ranks`, `ring`.
    pub maps: Vec<(String, u64)>,
}

/// Who plans for a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLeader {
    /// Its [`ClusterNode::id`].
    pub node: String,
    /// Grows with each leader.
    pub term: u64,
}

/// A node, by what it last told of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterNode {
    /// Its name for programs, which it has for life.
    pub id: String,
    /// The number that the leader gave it.
    pub no: Option<u16>,
    /// Its name for people.
    pub name: String,
    /// Where it stands.
    pub state: NodeState,
    /// What it does: `crawl`, `index`, `front`, …
    pub roles: Vec<String>,
    /// What may fail with it: a machine, a rack, a room. Empty where nobody said.
    pub zone: String,
    /// Where the other nodes reach it.
    pub address: Option<SocketAddr>,
    /// The program's version.
    pub version: String,
    /// The oldest and the newest wire version that it speaks.
    pub wire: (u16, u16),
    /// Time since it was last heard of, by the clock of the node that tells this.
    pub age: Duration,
    /// Share of its processors that is in use, 0 to 1.
    pub load: f64,
    /// Room left where its data folder is, where it is known.
    pub free_bytes: Option<u64>,
    /// What is wrong with it, a sentence each.
    pub trouble: Vec<String>,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It has its place, and gets its work ready.
    #[default]
    Joining,
    /// It works.
    Up,
    /// It gives its work away.
    Draining,
    /// It has gone, with all its work handed over.
    Left,
    /// It was not heard of for so long that others have its work.
    Dead,
}

impl NodeState {
    /// All of them, in the order of a life.
    pub const ALL: [NodeState; 5] =
        [NodeState::Joining, NodeState::Up, NodeState::Draining, NodeState::Left, NodeState::Dead];

    /// Its name in the API.
    pub fn code(self) -> &'static str {
        match self {
            NodeState::Joining => "joining",
            NodeState::Up => "up",
            NodeState::Draining => "draining",
            NodeState::Left => "left",
            NodeState::Dead => "dead",
        }
    }

    /// Whether the node can be asked to leave.
    pub fn can_drain(self) -> bool {
        matches!(self, NodeState::Joining | NodeState::Up)
    }
}

/// A node that crawls, by what it last told of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterAgent {
    /// Its [`ClusterNode::id`].
    pub node: String,
    /// Where it stands on the globe, as a country; empty where nobody said.
    pub place: String,
    /// The same as degrees north and east.
    pub position: Option<(f64, f64)>,
    /// How much it is to bear, compared with others; 100 is usual.
    pub capacity: u32,
    /// Pages of its hosts by the table in force, as far as the planner was told.
    pub planned_pages: u64,
    /// These over its share of all, by capacities: 1 where it has just what it is to bear.
    pub balance: Option<f64>,
    /// Hosts that it knows.
    pub hosts: u64,
    /// Pages that it has.
    pub pages: u64,
    /// Pages that it fetched in the last minute.
    pub pages_minute: u64,
    /// URLs that it has sent to other agents since it began.
    pub urls_sent: u64,
    /// URLs that it has got from them.
    pub urls_received: u64,
    /// Bytes that wait on its disk for other agents.
    pub outbox: u64,
    /// Hosts that it hands over to others at the moment.
    pub hosts_leaving: u64,
    /// Hosts that it is being handed.
    pub hosts_coming: u64,
    /// The version of the routing table that it goes by.
    pub epoch: u64,
    /// The newest version under which it asks nobody that is another's.
    pub released: u64,
}

/// The table by which agents share hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRoute {
    /// Its version.
    pub epoch: u64,
    /// Whether all agents have released it.
    pub is_settled: bool,
    /// Why there is this version, in a sentence.
    pub why: String,
}

/// What the planner of the routing table knows, did last, and has seen come of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterPlan {
    /// The last plan, where one was made.
    pub last: Option<LastPlan>,
    /// Hosts that agents have told of.
    pub hosts: u64,
    /// Pages of these.
    pub pages: u64,
    /// Links between these.
    pub links: u64,
    /// Addresses of these, at the last plan.
    pub addresses: u64,
    /// Where round-trip times come from: pairs of an agent and an address.
    pub times: Vec<(String, u64)>,
    /// What was not believed: who told it, why, how often.
    pub refused: Vec<(String, String, u64)>,
    /// Tables that were published, the newest last.
    pub outcomes: Vec<PlanOutcome>,
    /// Versions of the table with their reasons, the newest last.
    pub epochs: Vec<PlanEpoch>,
    /// Where pages are.
    pub cells: Vec<PlanCell>,
    /// What keeps the planner, a sentence; empty where nothing does.
    pub trouble: String,
}

/// What a plan came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastPlan {
    /// Plans up to this one.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// Why it was made.
    pub trigger: String,
    /// It became a table.
    pub is_published: bool,
    /// Why it was published or not.
    pub why: String,
    /// What its table was expected to bring.
    pub gain: PlanGain,
    /// From, to ([`ClusterNode::id`]), pages; nobody where the owner had gone.
    pub moves: Vec<(Option<String>, String, u64)>,
    /// Time that planning took.
    pub took: Duration,
}

/// What a table is expected to bring. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlanGain {
    /// Links between hosts that lead to another agent, by the table before.
    pub exchange_before: f64,
    /// The same by the new table.
    pub exchange_after: f64,
    /// Mean milliseconds of round trip for a page, by the table before.
    pub rtt_before: Option<f64>,
    /// The same by the new table.
    pub rtt_after: Option<f64>,
    /// Pages that were known.
    pub pages: u64,
    /// Pages that change hands, those of agents that have gone among them.
    pub pages_moved: u64,
    /// Greatest load of an agent over its share, by the table before.
    pub load_before: f64,
    /// The same by the new table.
    pub load_after: f64,
}

/// A table, what it promised, and what agents counted under it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanOutcome {
    /// The version from which on it is in force.
    pub version: u64,
    /// When it was planned.
    pub at: Timestamp,
    /// What it promised.
    pub expected: PlanGain,
    /// Links between hosts that were found under it.
    pub links: u64,
    /// Those of them that went to another agent.
    pub forwarded: u64,
}

impl PlanOutcome {
    /// Share of links that went to another agent; `None` before anybody told.
    pub fn measured(&self) -> Option<f64> {
        (self.links > 0).then(|| self.forwarded as f64 / self.links as f64)
    }
}

/// A version of the routing table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanEpoch {
    /// Its number.
    pub epoch: u64,
    /// When it was first seen.
    pub at: Timestamp,
    /// Why there is it.
    pub why: String,
}

/// Pages of an agent around a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanCell {
    /// The agent's [`ClusterNode::id`].
    pub node: String,
    /// Degrees north.
    pub north: f64,
    /// Degrees east.
    pub east: f64,
    /// Pages of the agent's hosts there.
    pub pages: u64,
}

/// A part of the index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterShard {
    /// Its number.
    pub id: u32,
    /// Share of all page ids that are its own, 0 to 1.
    pub share: f64,
    /// Where it stands.
    pub state: ShardState,
    /// Pages that can be found in it, by the replica that has read furthest.
    pub pages: u64,
    /// Its copies.
    pub replicas: Vec<ClusterReplica>,
    /// The node whose replica uploads its snapshots.
    pub keeper: Option<String>,
    /// Time since the newest snapshot was made; `None` where there is none.
    pub snapshot_age: Option<Duration>,
}

impl ClusterShard {
    /// Whether somebody answers for it.
    pub fn is_answered(&self) -> bool {
        self.replicas.iter().any(|replica| replica.state == ReplicaState::Serving)
    }

    /// How far its slowest serving replica is behind.
    pub fn lag(&self) -> Option<Duration> {
        self.replicas.iter().filter(|replica| replica.state == ReplicaState::Serving).map(|it| it.lag).max()
    }
}

/// Where a shard stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardState {
    /// It answers for its range.
    #[default]
    Serving,
    /// It comes into being beside the shard whose half it takes over.
    Forming,
    /// It still answers, and two others take its range over.
    Splitting,
    /// Others have its range; its files go soon.
    Retired,
}

impl ShardState {
    /// Its name in the API.
    pub fn code(self) -> &'static str {
        match self {
            ShardState::Serving => "serving",
            ShardState::Forming => "forming",
            ShardState::Splitting => "splitting",
            ShardState::Retired => "retired",
        }
    }
}

/// A copy of a shard on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterReplica {
    /// The [`ClusterNode::id`] of its node.
    pub node: String,
    /// Where it stands.
    pub state: ReplicaState,
    /// How long the newest document that it has not taken in has waited.
    pub lag: Duration,
    /// Position in the shard's log up to which it has taken in everything, for good.
    pub mark: u64,
    /// Pages that can be found in it.
    pub pages: u64,
}

/// Where a replica stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaState {
    /// It catches up and is not asked yet.
    #[default]
    Joining,
    /// It answers.
    Serving,
    /// Another takes its place.
    Leaving,
}

impl ReplicaState {
    /// Its name in the API.
    pub fn code(self) -> &'static str {
        match self {
            ReplicaState::Joining => "joining",
            ReplicaState::Serving => "serving",
            ReplicaState::Leaving => "leaving",
        }
    }
}

/// A log between nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLog {
    /// Its name: `docs.3`, `links`.
    pub name: String,
    /// Messages in it.
    pub messages: u64,
    /// What they take.
    pub bytes: u64,
    /// What they may take; it refuses more.
    pub bytes_max: u64,
}

impl ClusterLog {
    /// How full it is, 0 to 1.
    pub fn fill(&self) -> f64 {
        self.bytes as f64 / self.bytes_max.max(1) as f64
    }
}

/// A server that carries logs and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricServer {
    /// Its name.
    pub name: String,
    /// Its address, without credentials.
    pub address: String,
    /// Its version, where it is known.
    pub version: String,
    /// Whether it answers.
    pub is_reached: bool,
}

/// Something that somebody should look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterWarning {
    /// What is the matter, in a sentence.
    pub text: String,
    /// What to do about it, in a sentence.
    pub advice: String,
}

/// What an operator can ask of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterOrder {
    /// Have the node with this [`ClusterNode::id`] give its work away and leave.
    Drain(String),
    /// Plan now who crawls what.
    Replan,
}

/// A cluster in a handful of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSummary {
    /// The cluster's name.
    pub name: String,
    /// Nodes that have not left.
    pub nodes: u64,
    /// Of these, nodes that work.
    pub nodes_up: u64,
    /// Shards that have a range of their own.
    pub shards: u64,
    /// Of these, shards for which somebody answers.
    pub shards_answered: u64,
    /// Pages in these shards: while a shard is split, those of its halves are the same pages.
    pub pages: u64,
    /// How far the slowest serving replica is behind.
    pub lag: Option<Duration>,
    /// Things to look at.
    pub warnings: u64,
}

impl ClusterStatus {
    /// The cluster in a handful of numbers.
    pub fn summary(&self) -> ClusterSummary {
        let count = |state| self.nodes.iter().filter(|node| node.state == state).count() as u64;
        let own = || {
            self.shards.iter().filter(|it| matches!(it.state, ShardState::Serving | ShardState::Splitting))
        };
        ClusterSummary {
            name: self.name.clone(),
            nodes: self.nodes.len() as u64 - count(NodeState::Left),
            nodes_up: count(NodeState::Up),
            shards: own().count() as u64,
            shards_answered: own().filter(|shard| shard.is_answered()).count() as u64,
            pages: own().map(|shard| shard.pages).sum(),
            lag: own().filter_map(ClusterShard::lag).max(),
            warnings: self.warnings.len() as u64,
        }
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&ClusterNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// What people call the node with this id: its name, or the id itself where it is not known.
    pub fn name_of<'a>(&'a self, id: &'a str) -> &'a str {
        self.node(id).map(|node| &*node.name).filter(|name| !name.is_empty()).unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_summed_up_by_those_who_work() {
        let node = |state| ClusterNode { state, ..ClusterNode::default() };
        let replica = |state, secs| ClusterReplica {
            state,
            lag: Duration::from_secs(secs),
            ..ClusterReplica::default()
        };
        let shard = |state, replicas: &[ClusterReplica]| ClusterShard {
            state,
            replicas: replicas.to_vec(),
            pages: 10,
            ..ClusterShard::default()
        };
        let status = ClusterStatus {
            nodes: NodeState::ALL.map(node).to_vec(),
            shards: vec![
                shard(
                    ShardState::Serving,
                    &[replica(ReplicaState::Serving, 1), replica(ReplicaState::Joining, 90)],
                ),
                shard(ShardState::Splitting, &[replica(ReplicaState::Serving, 3)]),
                shard(ShardState::Serving, &[replica(ReplicaState::Leaving, 50)]),
                shard(ShardState::Forming, &[replica(ReplicaState::Serving, 70)]),
                shard(ShardState::Retired, &[]),
            ],
            ..ClusterStatus::default()
        };
        let summary = status.summary();
        assert_eq!((summary.nodes, summary.nodes_up), (4, 1));
        assert_eq!((summary.shards, summary.shards_answered), (3, 2));
        assert_eq!(summary.pages, 30);
        assert_eq!(summary.lag, Some(Duration::from_secs(3)));
        assert_eq!(ClusterStatus::default().summary().lag, None);
    }

    #[test]
    fn a_log_without_a_limit_does_not_divide_by_nothing() {
        assert!(ClusterLog { bytes: 5, ..ClusterLog::default() }.fill().is_finite());
        assert_eq!(ClusterLog { bytes: 5, bytes_max: 20, ..ClusterLog::default() }.fill(), 0.25);
    }
}
