//! Who does what in a cluster: membership, the leader, the shard map, snapshots, and what the logs between them mean.
//!
//! The life of a node: it starts with its folder and waits out whoever had its name before on another machine; it takes
//! its record by compare-and-set with the next incarnation ([`Member`]) and renews it every five seconds; the leader
//! gives it a number and replicas. It may act for the cluster while its lease is valid, and stops by itself when it is
//! not. Drained, it waits until others have what it has, and leaves. Silent for too long, it is buried by the leader:
//! its next renewal meets the conflict, and it joins again as a new incarnation.
//!
//! The life of a decision: nodes' reports, operators' orders and silences reach every candidate; the one that holds the
//! leader's lease ([`Control`]) plans the next step, and writes it as one value with its term, by compare-and-set. The
//! planner ([`shards`]) has a fixed point: where nothing changes outside, nothing is written.
//!
//! Who crawls what is such a decision too: [`route`] tells the life of an epoch.
//!
//! Everything here is a state machine: `heard` what is in the tables, `tick` for what to write, `wrote` what came of it.
//!
//! INVARIANT: no I/O, no clock, no threads, no global random numbers. Time is handed in as [`Monotonic`], and two
//! machines' times are never compared.

mod control;
mod ids;
mod key;
pub mod lane;
mod leader;
mod lease;
mod member;
pub mod order;
pub mod planned;
mod reads;
pub mod record;
pub mod route;
pub mod shards;
pub mod snapshot;
pub mod stretch;
mod time;
pub mod version;

pub use control::{Control, Trim};
pub use ids::{ArchivePosition, NodeId, NodeNo, Revision, ShardId};
pub use key::Key;
pub use member::{Member, MemberDisk, Phase};
pub use record::{NodeRecord, NodeReport, NodeState, Role};
pub use route::{Epoch, RouteRecord};
pub use shards::{ReplicaEntry, ReplicaState, ShardEntry, ShardMap, ShardState};
pub use time::{Monotonic, Times};

/// A write that a state machine wants done, by compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub key: String,
    /// The new value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
    /// The key's revision that it must meet.
    pub expected: Revision,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It happened; for a deletion the revision means nothing.
    Written(Revision),
    /// The key had another revision: nothing happened.
    Conflict,
    /// Nobody knows.
    Unknown,
}

/// Rules that the simulator switches off one at a time, to see whether its checkers notice. The product keeps them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A leader looks at its lease before each write.
    pub lease_checked: bool,
    /// A node is buried before its replicas are given away.
    pub burial_first: bool,
    /// Who begins to lead starts all silences anew.
    pub silence_anew: bool,
    /// A node that meets another incarnation of itself stops.
    pub incarnation_conflict: bool,
    /// An epoch is settled only when every member has released it.
    pub released_first: bool,
    /// Who begins to lead keeps members that it has not heard yet.
    pub unheard_kept: bool,
    /// Who has turned a leader out decides nothing until that one has surely stopped.
    pub dead_waited: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            lease_checked: true,
            burial_first: true,
            silence_anew: true,
            incarnation_conflict: true,
            released_first: true,
            unheard_kept: true,
            dead_waited: true,
        }
    }
}
