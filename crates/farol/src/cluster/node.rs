//! One node: its membership, its replicas, and the calls of other nodes; [`super::work`] has what it does once it is
//! a member.

use super::Refusal;
use super::caches;
use super::door::Door;
use super::identity;
use super::metrics::{self, NodeMetrics};
use super::serving;
use super::work::NodeWork;
use crate::broker::ask_again;
use crate::broker::table::TableSource;
use crate::config::Config;
use crate::engine::Listening;
use crate::folder::{Folder, FolderLock};
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::planner::PlannerDesk;
use crate::handles::ranks::Ranks;
use crate::handles::replicas::Replicas;
use crate::handles::tables_copy::TablesCopy;
use crate::ring::tables::{RingTables, TableFollower};
use crate::roles::cacheleader::RunningCacheLeader;
use crate::roles::cachenode::RunningCacheNode;
use crate::roles::desk::{Desk, IndexDesk};
use crate::roles::member::{Membership, RunningMember};
use crate::roles::planner::{PlannerSources, RunningPlanner};
use crate::roles::ranker::{RankerService, RunningRanker};
use crate::roles::replica::{IndexService, RunningIndexService};
use crate::wire::WIRE;
use anyhow::{Context, Result};
use farol_base::CanonicalUrl;
use farol_cluster::record::Role;
use farol_cluster::{NodeId, NodeRecord, Phase, Times};
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use farol_index::ShardOptions;
use farol_rpc::{Client, ClientSettings, Here, Limits, Server, TlsSettings};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long calls under way may take to end when the node stops.
const GRACE: Duration = Duration::from_secs(5);

/// Calls that may wait at a node that keeps answers and has no shards.
const CACHE_WAITING: usize = 1024;

/// What a node is started with.
pub struct NodeOptions {
    pub config: Arc<Config>,
    pub data: PathBuf,
    pub roles: BTreeSet<Role>,
    /// For people.
    pub name: String,
    pub seeds: Vec<CanonicalUrl>,
}

/// What all parts of a node share.
pub struct Shared {
    pub options: NodeOptions,
    pub folder: Folder,
    pub fabric: Arc<dyn Fabric>,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    pub replicas: Arc<Replicas>,
    /// What questions to the replicas of this node are ranked by.
    pub ranks: Arc<Ranks>,
    /// Answers the calls of other nodes.
    pub desk: Arc<Desk>,
    /// Who serves what.
    pub table: TableSource,
    /// Which cache node keeps what.
    pub ring: Arc<RingTables>,
    pub client: Client,
    pub metrics: Arc<NodeMetrics>,
    /// This node's own calls, once it serves.
    pub here: OnceLock<Here>,
    pub runtime: tokio::runtime::Handle,
}

/// A running node.
pub struct RunningNode {
    shared: Arc<Shared>,
    member: Option<RunningMember>,
    planner: Option<RunningPlanner>,
    index: Option<RunningIndexService>,
    ranker: Option<RunningRanker>,
    cache_leader: Option<RunningCacheLeader>,
    cache: Option<RunningCacheNode>,
    ring: Option<TableFollower>,
    server: Option<Server>,
    rpc_address: SocketAddr,
    work: Option<NodeWork>,
    runtime: Option<tokio::runtime::Runtime>,
    // Given back last.
    _lock: FolderLock,
}

impl RunningNode {
    /// Joins the cluster. A [`Refusal`] comes before anything is written.
    pub fn start(options: NodeOptions) -> Result<RunningNode> {
        let config = options.config.clone();
        let settings = &config.cluster;
        let is_index = options.roles.contains(&Role::Index);
        let is_ranker = options.roles.contains(&Role::Rank);
        if (is_index || is_ranker) && settings.blobs.is_empty() {
            return Err(Refusal::of(
                "no folder for snapshots and ranks: name one that all nodes share with --blobs, or blobs under [cluster]",
            ));
        }
        let listener = bind(&settings.listen_rpc, !settings.tls_cert.is_empty())?;
        let rpc_address = listener.local_addr()?;
        let metrics_listener = metrics::bind(settings.metrics_address()?)?;
        let door = Door::connect(&config)?;
        door.enter()?;
        let folder = Folder::open_or_create(&options.data)?;
        let lock = folder.lock()?;
        let id = identity::read_or_draw(folder.path())?;
        let tls = read_tls(&config, id)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("calls")
            .enable_all()
            .build()
            .context("cannot start threads")?;
        let client_settings =
            ClientSettings { node: Some(id.to_string()), tls: tls.clone(), ..ClientSettings::default() };
        let cluster = Arc::new(ClusterHandle::with_copy(id, TablesCopy::read(folder.path())?));
        let board = Arc::new(ReportBoard::of_node(&options.data));
        let (replicas, ranks) = (Arc::new(Replicas::default()), Arc::new(Ranks::default()));
        let desk = IndexDesk::new(replicas.clone(), cluster.clone(), ranks.clone());
        let client = Client::new(client_settings, runtime.handle().clone());
        let node_metrics = NodeMetrics {
            name: options.name.clone(),
            roles: options.roles.clone(),
            cluster: cluster.clone(),
            board: board.clone(),
            client: client.clone(),
            begun: Instant::now(),
            server: OnceLock::new(),
            shelf: OnceLock::new(),
            engine: OnceLock::new(),
        };
        let shared = Arc::new(Shared {
            folder,
            fabric: door.fabric.clone(),
            table: serving::source(cluster.clone()),
            ring: Arc::default(),
            desk: Arc::new(Desk::new(cluster.clone(), board.clone(), desk)),
            cluster,
            board,
            replicas,
            ranks,
            client,
            metrics: Arc::new(node_metrics),
            here: OnceLock::new(),
            runtime: runtime.handle().clone(),
            options,
        });
        let server = {
            let _guard = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let limits = limits(&shared.options.roles);
            let server = farol_rpc::serve(listener, tls, shared.desk.clone(), limits)?;
            let _ = shared.metrics.server.set(server.metrics());
            metrics_listener.map_or(Ok(()), |listener| metrics::serve(listener, shared.metrics.clone()))?;
            server
        };
        let _ = shared.here.set(server.here(id.to_string()));
        let planner_desk = Arc::new(PlannerDesk::default());
        let member = RunningMember::start(Membership {
            fabric: shared.fabric.clone(),
            profile: profile(&shared, id, rpc_address)?,
            folder: shared.folder.path().to_path_buf(),
            times: Times::default(),
            cluster: shared.cluster.clone(),
            board: shared.board.clone(),
            controls: shared.options.roles.contains(&Role::Control),
            planner: planner_desk.clone(),
        })?;
        let planner = match shared.options.roles.contains(&Role::Control) && !settings.blobs.is_empty() {
            true => Some(RunningPlanner::start(planner_sources(&shared, id, planner_desk)?)?),
            false => None,
        };
        let index = match is_index {
            true => Some(RunningIndexService::start(index_service(&shared, id)?)?),
            false => None,
        };
        let ranker = match is_ranker {
            true => Some(RunningRanker::start(ranker_service(&shared, id)?)?),
            false => None,
        };
        let cache_leader = match shared.options.roles.contains(&Role::Control) {
            true => Some(caches::start_leader(&shared)?),
            false => None,
        };
        let ring = TableFollower::start(shared.fabric.clone(), shared.ring.clone())?;
        Ok(RunningNode {
            cache_leader,
            cache: None,
            ring: Some(ring),
            shared,
            member: Some(member),
            planner,
            index,
            ranker,
            server: Some(server),
            rpc_address,
            work: None,
            runtime: Some(runtime),
            _lock: lock,
        })
    }

    /// Where other nodes reach it.
    pub fn rpc_address(&self) -> SocketAddr {
        self.rpc_address
    }

    /// Begins to crawl and to answer as soon as the node is a member; says then where it answers.
    pub fn tick(&mut self) -> Result<Option<Listening>> {
        let view = self.shared.cluster.view();
        if let Phase::Refused(sentence) = &view.phase {
            return Err(Refusal::of(sentence));
        }
        if self.work.is_some() || view.phase != Phase::Up {
            return Ok(None);
        }
        let Some(no) = view.no else { return Ok(None) };
        if self.shared.options.roles.contains(&Role::Cache) {
            self.cache = Some(caches::start_node(&self.shared, no)?);
        }
        let work = self.work.insert(NodeWork::begin(&self.shared, no)?);
        self.shared.runtime.block_on(work.listen(&self.shared))
    }

    /// Where the node stands, and what keeps it.
    pub fn stands(&self) -> (Phase, Option<String>) {
        let view = self.shared.cluster.view();
        (view.phase.clone(), view.trouble.clone())
    }

    /// Whether it is a member, and does what its roles say.
    pub fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// What opening the folder had to mend.
    pub fn notes(&self) -> &[String] {
        self.work.as_ref().map_or(&[], |work| &work.notes)
    }

    /// Has the node give its work away and leave.
    pub fn drain(&self) {
        self.shared.cluster.drain();
    }

    /// Whether it has given everything away.
    pub fn has_left(&self) -> bool {
        self.shared.cluster.view().phase == Phase::Left
    }

    /// Ends everything in order: what was fetched is archived and sent, what was read is committed, calls under way are
    /// answered.
    pub fn stop(mut self) -> Result<()> {
        let worked = self.work.take().map_or(Ok(()), |work| work.stop(&self.shared));
        if let (Some(server), Some(runtime)) = (self.server.take(), &self.runtime) {
            runtime.block_on(server.drain(GRACE));
        }
        if let Some(leader) = self.cache_leader.take() {
            leader.stop();
        }
        if let Some(cache) = self.cache.take() {
            cache.stop();
        }
        drop(self.ring.take());
        if let Some(ranker) = self.ranker.take() {
            ranker.stop();
        }
        if let Some(index) = self.index.take() {
            index.stop();
        }
        if let Some(planner) = self.planner.take() {
            planner.stop();
        }
        if let Some(member) = self.member.take() {
            member.stop();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        worked
    }
}

/// How much a node takes on at a time. Calls to a cache node are done in microseconds: many may wait.
fn limits(roles: &BTreeSet<Role>) -> Limits {
    let limits = Limits { wire: WIRE.0..=WIRE.1, ..Limits::default() };
    match roles.contains(&Role::Cache) && !roles.contains(&Role::Index) {
        true => Limits { waiting: CACHE_WAITING, ..limits },
        false => limits,
    }
}

/// Listens for other nodes.
fn bind(wanted: &str, has_tls: bool) -> Result<TcpListener> {
    let address: SocketAddr = wanted.parse().map_err(|_| {
        Refusal::of(format!("--listen-rpc {wanted:?} is not ADDR:PORT, such as 10.0.0.5:7800"))
    })?;
    if !address.ip().is_loopback() && !has_tls {
        return Err(Refusal::of(format!(
            "nodes meet at {address} in the clear, which is for loopback only: make certificates with \
             `farol cluster certs` and name them under [cluster]"
        )));
    }
    if address.ip().is_unspecified() {
        return Err(Refusal::of(format!(
            "--listen-rpc {address} is no address that other nodes could call; name this machine's own"
        )));
    }
    let listener = TcpListener::bind(address).map_err(|error| {
        Refusal::of(format!(
            "cannot listen on {address} for other nodes ({error}); choose another with --listen-rpc"
        ))
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The certificate of a node, where the cluster has certificates.
pub fn read_tls(config: &Config, id: NodeId) -> Result<Option<TlsSettings>> {
    let cluster = &config.cluster;
    if cluster.tls_cert.is_empty() {
        return Ok(None);
    }
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|error| Refusal::of(format!("cannot read {path}: {error}")))
    };
    let (ca, cert, key) = (read(&cluster.tls_ca)?, read(&cluster.tls_cert)?, read(&cluster.tls_key)?);
    TlsSettings::from_pem(&id.to_string(), &ca, &cert, &key).map(Some).map_err(|error| {
        Refusal::of(format!("{error}; make this node's certificate with `farol cluster certs --node`"))
    })
}

fn profile(shared: &Shared, id: NodeId, rpc: SocketAddr) -> Result<NodeRecord> {
    let mut record = NodeRecord::new(id, &shared.options.name, rpc);
    record.machine = identity::machine();
    record.folder = identity::folder(shared.folder.path())?;
    record.roles.clone_from(&shared.options.roles);
    let settings = &shared.options.config.cluster;
    record.zone.clone_from(&settings.zone);
    record.place.country.clone_from(&settings.country);
    record.place.position = crate::config::cluster::position(&settings.position);
    record.capacity = u32::try_from(settings.capacity).unwrap_or(u32::MAX);
    record.program = env!("CARGO_PKG_VERSION").to_string();
    record.wire = WIRE;
    Ok(record)
}

fn index_service(shared: &Arc<Shared>, me: NodeId) -> Result<IndexService> {
    let config = &shared.options.config;
    Ok(IndexService {
        me,
        dir: shared.folder.index(),
        options: ShardOptions {
            writer_memory_bytes: usize::try_from(config.index.memory.get()).unwrap_or(usize::MAX),
            ..ShardOptions::default()
        },
        fabric: shared.fabric.clone(),
        blobs: Arc::new(blobs(config)?),
        cluster: shared.cluster.clone(),
        board: shared.board.clone(),
        replicas: shared.replicas.clone(),
        ranks: shared.ranks.clone(),
        ask_again: ask_again(shared.table.clone(), shared.client.blocking()),
        commit_every: config.index.commit_every.get(),
        snapshot_every: config.cluster.snapshot_every.get(),
        snapshot_bytes: config.cluster.snapshot_bytes.get(),
    })
}

fn planner_sources(shared: &Arc<Shared>, me: NodeId, desk: Arc<PlannerDesk>) -> Result<PlannerSources> {
    Ok(PlannerSources {
        me,
        fabric: shared.fabric.clone(),
        cluster: shared.cluster.clone(),
        desk,
        blobs: Arc::new(blobs(&shared.options.config)?),
        board: shared.board.clone(),
        config: shared.options.config.clone(),
        folder: shared.folder.path().join(super::work::TABLES),
    })
}

fn ranker_service(shared: &Arc<Shared>, me: NodeId) -> Result<RankerService> {
    let config = &shared.options.config;
    Ok(RankerService {
        me,
        dir: shared.folder.rank(),
        fabric: shared.fabric.clone(),
        blobs: Arc::new(blobs(config)?),
        cluster: shared.cluster.clone(),
        board: shared.board.clone(),
        ask_again: ask_again(shared.table.clone(), shared.client.blocking()),
        rank_every: config.index.rank_every.get(),
    })
}

/// What all nodes share.
fn blobs(config: &Config) -> Result<Blobs> {
    let place = &config.cluster.blobs;
    Blobs::open(place).with_context(|| format!("cannot use the folder {place} for snapshots and ranks"))
}
