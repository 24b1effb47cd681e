//! A node of the simulated cluster: what is on its disk, its clock, and the process that runs on it.

use super::checkers::SeenChecker;
use super::documents::{Agent, AgentDisk, Replica, ReplicaDisk};
use farol_cluster::{Control, Member, MemberDisk, Monotonic, NodeId, NodeRecord, Role, ShardId, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub struct NodeDisk {
    pub member: MemberDisk,
    pub agent: AgentDisk,
    pub replicas: BTreeMap<ShardId, ReplicaDisk>,
}

/// A clock that is off and goes up to a tenth too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset: u64,
    /// Millionths of true time.
    pub rate: u64,
}

impl Clock {
    pub fn now(&self, at: u64) -> Monotonic {
        Monotonic::from_millis(self.offset + at * self.rate / 1_000_000)
    }
}

/// A folder on a machine, and what runs on it.
#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub folder: u64,
    pub machine: usize,
    pub roles: BTreeSet<Role>,
    pub disk: NodeDisk,
    pub clock: Clock,
    pub process: Option<Process>,
    /// RunCounts processes, so that what was meant for an earlier one reaches nobody.
    pub generation: u64,
    pub paused_until: u64,
    pub cut_until: u64,
    /// It is not started again.
    pub is_over: bool,
    /// A copy of another node's folder.
    pub is_twin: bool,
}

/// The one or the other thread of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    Member,
    Control,
}

/// A running process.
#[derive(Debug)]
pub struct Process {
    pub member: Member,
    pub control: Option<Control>,
    /// Up to which revision each thread has heard.
    pub heard: [u64; 2],
    /// A write is under way.
    pub busy: [bool; 2],
    /// What the leader has decided and not yet written.
    pub queue: VecDeque<Write>,
    pub seen: SeenChecker,
    pub agent: Agent,
    pub replicas: BTreeMap<ShardId, Replica>,
    /// Since when a replica waits for its files.
    pub births: BTreeMap<ShardId, u64>,
    /// Since when the map does not name a replica that is here.
    pub unwanted: BTreeMap<ShardId, u64>,
}

impl Node {
    pub fn profile(&self, boot: u64) -> NodeRecord {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9000 + self.folder as u16));
        let mut record = NodeRecord::new(self.id, &format!("n{}", self.folder), address);
        record.roles = self.roles.clone();
        record.machine = boot;
        record.folder = self.folder;
        record
    }

    pub fn is_awake(&self, at: u64) -> bool {
        self.process.is_some() && at >= self.paused_until
    }

    /// Whether it may act for the cluster, as it believes itself.
    pub fn is_active(&self, at: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.member.is_active(self.clock.now(at)))
    }

    pub fn term(&self, at: u64) -> Option<u64> {
        self.process.as_ref()?.control.as_ref()?.term(self.clock.now(at))
    }
}
