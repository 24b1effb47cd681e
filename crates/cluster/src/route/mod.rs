//! Who crawls what, as the leader publishes it: epochs of the routing table.
//!
//! The life of an epoch: an agent has come, gone, begun to leave or died, or somebody has worked out a better table
//! ([`Proposal`]); the leader writes the next epoch. Each agent that sees it stops what it has lost, and says in its
//! record that it has *released* the epoch once nothing of that is under way any more. When every member has, the epoch
//! is *settled*: whatever it gives to an agent, nobody else is busy with. The next one waits for that, except after a
//! death, since the dead release nothing. Until then the record names all tables from the last settled one on, so that
//! every agent, whatever it has missed, works out from the same tables what it has kept ([`RouteRecord::steps`]).
//!
//! A table needs no file: without one, addresses and hosts go to the members by consistent hashing of their numbers and
//! shares, so that a newcomer takes its share from all and nothing else moves. A file ([`TableBlob`]) comes before that
//! for what it names; what it gives to somebody who is no member goes by the hash as well.
//!
//! INVARIANT: an epoch is settled only when every member has released it, and a member is dropped only when it was buried,
//! has left by itself, or has come back as another incarnation.

mod plan;

pub use plan::{AgentAtHand, RouteSituation, plan, undertaker};

use crate::NodeNo;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Tables between the last settled one and the newest at most; with more of them nobody keeps anything until all have
/// released the newest.
pub const STEPS_MAX: usize = 8;
/// Agents at most. 8 steps × 512 members × 40 bytes are 160 KiB of a key's 256.
pub const AGENTS_MAX: usize = 512;

/// Version of the routing table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An agent in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteMember {
    pub incarnation: u64,
    /// How much it gets of what no file names, compared with others; 0 for one that gives all away.
    pub share: u32,
}

/// A file of addresses, hosts and filters in shared storage; names are never used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableBlob {
    pub name: String,
    pub digest: String,
}

/// The routing table of one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStep {
    pub epoch: Epoch,
    pub members: BTreeMap<NodeNo, RouteMember>,
    /// Comes before the hash for what it names. Its destinations are numbers of nodes.
    #[serde(default)]
    pub table: Option<TableBlob>,
}

impl RouteStep {
    /// Whether this incarnation of an agent is a member.
    pub fn has(&self, no: NodeNo, incarnation: u64) -> bool {
        self.members.get(&no).is_some_and(|member| member.incarnation == incarnation)
    }
}

/// What a dead agent had, which others wait for: its newest backup is on its way to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bequest {
    pub no: NodeNo,
    pub incarnation: u64,
    /// The tables that may have given it something, oldest first.
    pub steps: Vec<RouteStep>,
}

/// Who crawls what; the leader's, under `table.route`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteRecord {
    pub v: u16,
    pub term: u64,
    /// Every member has released the newest table.
    pub settled: bool,
    pub newest: RouteStep,
    /// Tables before it, from the last settled one on, oldest first; empty where the newest is settled.
    pub before: Vec<RouteStep>,
    /// Of the consistent hash; never changes.
    pub seed: u64,
    /// Dead agents whose backups have not arrived yet.
    #[serde(default)]
    pub bequests: Vec<Bequest>,
    /// Why there is this epoch; for people.
    pub why: String,
}

impl RouteRecord {
    pub fn epoch(&self) -> Epoch {
        self.newest.epoch
    }

    /// Its tables, from the last settled one on.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &RouteStep> {
        self.before.iter().chain([&self.newest])
    }

    /// Members that get something.
    pub fn owners(&self) -> impl Iterator<Item = NodeNo> {
        self.newest.members.iter().filter(|(_, member)| member.share > 0).map(|(no, _)| *no)
    }
}

/// A table that somebody has worked out, and worth its moves. Whoever measures hands it to the leader; it becomes the
/// next epoch once the present one is settled, if its members are those of then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// `None` goes back to the hash alone.
    pub table: Option<TableBlob>,
    /// Agents that it was made for.
    pub members: BTreeSet<NodeNo>,
    /// A sentence: gain and moves.
    pub why: String,
}

/// Who brings what a dead agent had to its heirs; `undertake.<no>`. Named by the leader, done by the undertaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndertakeRecord {
    pub v: u16,
    pub term: u64,
    /// The dead agent.
    pub no: NodeNo,
    pub incarnation: u64,
    /// The undertaker.
    pub by: NodeNo,
    pub by_incarnation: u64,
    /// Every heir has told that it has all of it.
    #[serde(default)]
    pub done: bool,
}

/// The newest backup of an agent; `back.<no>`, written by the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRecord {
    pub v: u16,
    pub no: NodeNo,
    /// Grows with every backup of the agent.
    pub number: u64,
    /// Name of the manifest in shared storage.
    pub manifest: String,
    /// The manifest before it, which somebody may be reading.
    #[serde(default)]
    pub before: Option<String>,
    /// The archive is in shared storage up to here.
    pub archive: crate::ArchivePosition,
    /// The next number from each sender that the backup lacks: logs may be trimmed up to it.
    #[serde(default)]
    pub expects: crate::record::Expected,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
