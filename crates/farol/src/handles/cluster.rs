//! What a node knows of its cluster, and what it tells of itself.

use crate::handles::dead::DeadLetters;
use crate::handles::sender::SendProgress;
use crate::handles::tables_copy::TablesCopy;
use farol_base::sync::{Mutex, RwLock};
use farol_base::{CanonicalUrl, PagePosition};
use farol_cluster::planned::PlanRecord;
use farol_cluster::record::{
    ClusterRecord, LeaderRecord, RankTable, RanksReport, ReplicaReport, StateRecord,
};
use farol_cluster::snapshot::SnapshotPointer;
use farol_cluster::{
    ArchivePosition, Monotonic, NodeId, NodeNo, NodeRecord, NodeReport, Phase, RouteRecord, ShardId, ShardMap,
};
use farol_fabric::Topic;
use farol_front::{ClusterOrder, ClusterStatus, EngineError, PageDetail, RingStatus};
use farol_store::pages::Exchange;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// The cluster as this node last heard of it. Where the tables are out of reach it stays as it was: search goes on.
#[derive(Clone, Debug)]
pub struct ClusterView {
    pub me: NodeId,
    pub no: Option<NodeNo>,
    /// Which start of this node the cluster knows, or was to know last.
    pub incarnation: u64,
    pub phase: Phase,
    pub cluster: Option<ClusterRecord>,
    pub leader: Option<LeaderRecord>,
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// When each was last heard of, by the own clock.
    pub heard: BTreeMap<NodeId, Instant>,
    pub shards: Option<Arc<ShardMap>>,
    /// Who crawls what.
    pub route: Option<Arc<RouteRecord>>,
    /// What the planner of that says.
    pub plan: Option<Arc<PlanRecord>>,
    /// The last wish for a plan; 0 where nobody had one.
    pub plan_wish: u64,
    pub ranks: Option<RankTable>,
    /// The newest snapshot of each shard.
    pub snapshots: BTreeMap<ShardId, SnapshotPointer>,
    pub state: Option<StateRecord>,
    /// Whether this node may act for the cluster: its lease is valid.
    pub is_active: bool,
    /// Until when that is sure, by the monotonic clock of this machine.
    pub active_until: Option<Monotonic>,
    pub trouble: Option<String>,
}

impl ClusterView {
    pub fn new(me: NodeId) -> ClusterView {
        ClusterView {
            me,
            no: None,
            incarnation: 0,
            phase: Phase::Starting,
            cluster: None,
            leader: None,
            nodes: BTreeMap::new(),
            heard: BTreeMap::new(),
            shards: None,
            route: None,
            plan: None,
            plan_wish: 0,
            ranks: None,
            snapshots: BTreeMap::new(),
            state: None,
            is_active: false,
            active_until: None,
            trouble: None,
        }
    }
}

/// The newest [`ClusterView`], for everybody in the process.
pub struct ClusterHandle {
    view: RwLock<Arc<ClusterView>>,
    drain: AtomicBool,
    /// The tables as they are written.
    pub copy: TablesCopy,
}

impl ClusterHandle {
    #[cfg(test)]
    pub fn new(me: NodeId) -> ClusterHandle {
        ClusterHandle::with_copy(me, TablesCopy::default())
    }

    /// With the tables as they were seen before.
    pub fn with_copy(me: NodeId, copy: TablesCopy) -> ClusterHandle {
        ClusterHandle {
            view: RwLock::new(Arc::new(ClusterView::new(me))),
            drain: AtomicBool::new(false),
            copy,
        }
    }

    pub fn view(&self) -> Arc<ClusterView> {
        self.view.read().clone()
    }

    pub fn set(&self, view: ClusterView) {
        *self.view.write() = Arc::new(view);
    }

    /// Has the node give its work away and leave.
    pub fn drain(&self) {
        self.drain.store(true, Ordering::SeqCst);
    }

    pub fn is_to_drain(&self) -> bool {
        self.drain.load(Ordering::SeqCst)
    }
}

/// Where stored copies of pages come from.
pub type CopySource =
    Box<dyn Fn(&CanonicalUrl, PagePosition) -> Result<Option<Exchange>, String> + Send + Sync>;

/// Who tells what is known of a page; `None` where no agent answers.
pub type Explainer = Box<dyn Fn(&CanonicalUrl) -> Option<PageDetail> + Send + Sync>;

/// What the pages show of the cluster, and the orders that they take.
pub struct ClusterFace {
    pub status: Box<dyn Fn() -> ClusterStatus + Send + Sync>,
    pub order: Box<dyn Fn(ClusterOrder) -> Result<String, EngineError> + Send + Sync>,
    /// Numbers of the calls to shards, in Prometheus' text format.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// The cache nodes; `None` where there are none.
    pub ring: Box<dyn Fn() -> Option<RingStatus> + Send + Sync>,
    /// A page as it was fetched, from the node that has it.
    pub copy: CopySource,
    /// What is known of a page, by the agent whose it is.
    pub explain: Explainer,
}

/// What a node tells of itself as an agent.
pub type AgentFace = Box<dyn Fn() -> NodeReport + Send + Sync>;

/// Where roles write what the node tells of itself.
#[derive(Default)]
pub struct ReportBoard {
    pub replicas: Mutex<BTreeMap<ShardId, ReplicaReport>>,
    pub sender: Mutex<Option<Arc<SendProgress>>>,
    /// How the node fares as an agent that crawls.
    pub agent: Mutex<Option<AgentFace>>,
    pub ranks: Mutex<Option<RanksReport>>,
    /// Version of the ranks that replicas answer by.
    pub ranked_by: AtomicU64,
    /// Troubles by who has them.
    pub trouble: Mutex<BTreeMap<&'static str, String>>,
    pub load: AtomicU64,
    /// Something must be finished before the node may leave.
    pub busy: AtomicBool,
    /// Batches of logs that could not be read.
    pub dead: DeadLetters,
    /// Pages that were passed over because they are dated too far ahead of this machine's clock.
    pub pages_ahead: AtomicU64,
    /// How the ranker fares, where this node is the one.
    pub ranker: Mutex<Option<RankerFigures>>,
    pub disk_path: PathBuf,
}

/// How a ranker fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankerFigures {
    /// Pages whose links it knows, and links on them.
    pub pages: u64,
    pub links: u64,
    /// Bytes of the graph on disk.
    pub bytes: u64,
    /// Pages whose anchor texts wait to be told to their shards.
    pub anchors_waiting: u64,
    /// Number of the last batch of the log that it has made durable.
    pub mark: u64,
    pub is_ranking: bool,
}

impl ReportBoard {
    /// For the node of this data folder.
    pub fn of_node(data: &Path) -> ReportBoard {
        ReportBoard {
            dead: DeadLetters::in_folder(data),
            disk_path: data.to_path_buf(),
            ..ReportBoard::default()
        }
    }

    /// Notes what is wrong with one part of the node; empty where all is well.
    pub fn complain(&self, who: &'static str, sentence: &str) {
        let mut trouble = self.trouble.lock();
        if sentence.is_empty() {
            trouble.remove(who);
        } else if trouble.get(who).map(String::as_str) != Some(sentence) {
            tracing::warn!("{sentence}");
            trouble.insert(who, sentence.to_string());
        }
    }

    pub fn report(&self) -> NodeReport {
        let sender = self.sender.lock().clone();
        let mut trouble: Vec<String> = self.trouble.lock().values().cloned().collect();
        trouble.extend(self.dead.trouble());
        let mut sent = BTreeMap::new();
        if let Some(sender) = &sender {
            trouble.extend(Some(sender.trouble.lock().clone()).filter(|text| !text.is_empty()));
            for (topic, at) in sender.sent.lock().iter() {
                if let Topic::Docs(shard) = topic {
                    let at = ArchivePosition { file: u64::from(at.file), offset: at.offset };
                    sent.insert(ShardId(*shard), at);
                }
            }
        }
        let agent = self.agent.lock().as_ref().map(|agent| agent()).unwrap_or_default();
        NodeReport {
            replicas: self.replicas.lock().clone(),
            sent,
            load: u32::try_from(self.load.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
            room: crate::disk::free_bytes(&self.disk_path).unwrap_or(0),
            busy: self.busy.load(Ordering::SeqCst) || agent.busy,
            ranks: self.ranks.lock().clone(),
            ranked_by: self.ranked_by.load(Ordering::SeqCst),
            trouble,
            ..agent
        }
    }
}
