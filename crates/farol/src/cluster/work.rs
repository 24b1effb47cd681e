//! What a node does once it is a member: it crawls and sends what it finds, and it answers people.
//!
//! Every node has an archive of its own, which stays empty where it does not crawl. Until agents share hosts, one node
//! crawls: the one with the least number of those that have the role.

use super::node::Shared;
use super::orders;
use crate::archive::Opened;
use crate::broker::table::ServedShard;
use crate::broker::{BrokerSettings, RemoteIndex};
use crate::engine::{Listening, orders as order_taker, snapshots};
use crate::fabric::Fabric as LocalFabric;
use crate::handles::cluster::{ClusterFace, ClusterView};
use crate::handles::cluster_status::status_of;
use crate::handles::queries::Queries;
use crate::handles::ranks::Ranks;
use crate::handles::still::StillCrawl;
use crate::roles::control::{Control, Watched};
use crate::roles::crawler::Crawler;
use crate::roles::desk::BackupDesk;
use crate::roles::front::{LiveEngine, ResultCache, RuleFiles};
use crate::roles::sender::{ArchiveSender, SenderSources, ShardLog};
use anyhow::Result;
use farol_base::{Clock, SystemClock};
use farol_cluster::order::{Order, OrderId};
use farol_cluster::record::Role;
use farol_cluster::{NodeId, NodeNo, ShardState};
use farol_front::{ClusterOrder, EngineError};
use std::sync::Arc;

/// Crawl, sender and front of a node.
pub struct NodeWork {
    crawler: Option<Crawler>,
    still: Option<Arc<StillCrawl>>,
    sender: Option<ArchiveSender>,
    control: Option<Control>,
    engine: Option<Arc<LiveEngine>>,
    /// What opening the folder had to mend.
    pub notes: Vec<String>,
}

impl NodeWork {
    /// Opens the node's archive, and starts what its roles say.
    pub fn begin(shared: &Arc<Shared>, no: NodeNo) -> Result<NodeWork> {
        let config = shared.options.config.clone();
        let local = LocalFabric::local(&shared.folder.tables())?;
        let crawls =
            shared.options.roles.contains(&Role::Crawl) && is_first_agent(&shared.cluster.view(), no);
        let mut opened = crate::archive::open(&shared.folder, &config, local.clone(), crawls)?;
        let (archive, links, interpreter) =
            (opened.archive.reader(), opened.links.clone(), opened.interpreter.clone());
        shared.desk.open_archive(archive.clone());
        shared.desk.open_backup(BackupDesk {
            pages: shared.folder.pages(),
            archive: archive.clone(),
            tables: local.tables.clone(),
        });
        let (clicks, notes) = (opened.followers.clicks.clone(), opened.notes.clone());
        let last_snapshot = opened.snapshot()?;
        let ranked = ranker_is_there(shared);
        // Always: what the crawl has told before a ranker comes could not be told again.
        opened.followers.exports_links = true;
        let (crawler, still) = match crawls && !opened.is_behind {
            true => (Some(start_crawl(shared, opened)?), None),
            false => (None, Some(Arc::new(StillCrawl::new(opened)))),
        };
        let sender = match &crawler {
            Some(_) => {
                let sender = ArchiveSender::start(SenderSources {
                    node: no.0,
                    local,
                    archive: archive.clone(),
                    interpreter: interpreter.clone(),
                    logs: shared.fabric.clone(),
                    shards: shard_logs(shared),
                    has_ranker: ranked,
                })?;
                *shared.board.sender.lock() = Some(sender.progress());
                shared.desk.open_sender(sender.progress());
                Some(sender)
            }
            None => None,
        };
        let crawl = crawler.as_ref().map(Crawler::handle);
        let queries = Arc::new(Queries::default());
        let control = Control::start(Watched {
            snapshot: snapshots(crawl.clone(), last_snapshot.clone()),
            index: sizes(shared),
            queries: queries.clone(),
            links: links.clone(),
            ranks: Arc::new(Ranks::default()),
            rank_every: config.index.rank_every.get(),
        })?;
        let index = Arc::new(remote_index(shared));
        let engine = match shared.options.roles.contains(&Role::Front) {
            true => Some(Arc::new(LiveEngine {
                cluster: Some(face(shared, &index)),
                index,
                queries,
                samples: control.samples(),
                rules: RuleFiles::open(&config.search)?,
                cache: ResultCache::new(&config.cache),
                archive,
                links,
                interpreter,
                clicks,
                orders: order_taker(crawl.clone(), still.clone()),
                crawl,
                started: SystemClock.now(),
                last_snapshot,
                disk_path: shared.folder.path().to_path_buf(),
                config,
            })),
            false => None,
        };
        Ok(NodeWork { crawler, still, sender, control: Some(control), engine, notes })
    }

    /// Listens for people; says where.
    pub async fn listen(&self, shared: &Shared) -> Result<Option<Listening>> {
        match &self.engine {
            Some(engine) => {
                let is_crawling = self.crawler.is_some();
                crate::engine::listen(engine, &shared.folder, &shared.options.config, is_crawling)
                    .await
                    .map(Some)
            }
            None => Ok(None),
        }
    }

    /// Ends everything in order: what was fetched is archived, what was archived is sent as far as the logs take it.
    pub fn stop(mut self, shared: &Shared) -> Result<()> {
        drop(self.control.take());
        let crawled = self.crawler.take().map_or(Ok(()), Crawler::stop);
        let crawled = crawled.and(self.still.take().map_or(Ok(()), |still| still.close()));
        let sent = self.sender.take().map_or(Ok(()), ArchiveSender::stop);
        *shared.board.sender.lock() = None;
        let clicked = self.engine.as_ref().map_or(Ok(()), |engine| engine.clicks.flush());
        crawled.and(sent).and(clicked)
    }
}

/// Whether no other node that has the role crawl has a lesser number.
fn is_first_agent(view: &ClusterView, no: NodeNo) -> bool {
    let agents =
        view.nodes.values().filter(|node| !node.state.is_gone() && node.roles.contains(&Role::Crawl));
    agents.filter_map(|node| node.no).all(|other| other >= no)
}

fn start_crawl(shared: &Shared, opened: Opened) -> Result<Crawler> {
    let options = &shared.options;
    Crawler::start(opened, &shared.folder, options.config.clone(), &options.seeds, false)
}

/// Tells whether somebody in the cluster keeps the graph of links.
fn ranker_is_there(shared: &Arc<Shared>) -> Arc<dyn Fn() -> bool + Send + Sync> {
    let cluster = shared.cluster.clone();
    Arc::new(move || {
        let view = cluster.view();
        view.nodes.values().any(|node| !node.state.is_gone() && node.roles.contains(&Role::Rank))
    })
}

/// The logs that documents go to, by the newest map.
fn shard_logs(shared: &Arc<Shared>) -> crate::roles::sender::ShardLogs {
    let cluster = shared.cluster.clone();
    Arc::new(move || {
        let view = cluster.view();
        let Some(map) = &view.shards else { return Vec::new() };
        let log = |entry: &farol_cluster::ShardEntry| ShardLog {
            shard: entry.id.0,
            pages: entry.from..=entry.to,
            parent: match entry.state {
                ShardState::Forming { parent } => Some(parent.0),
                _ => entry.born_of.map(|parent| parent.0),
            },
        };
        map.written().map(log).collect()
    })
}

/// Pages in all shards, and the bytes of one replica of each.
fn sizes(shared: &Shared) -> Box<dyn Fn() -> (u64, u64) + Send> {
    let table = shared.table.clone();
    Box::new(move || {
        let table = table();
        let sum = |of: fn(&ServedShard) -> u64| table.shards.iter().map(of).sum();
        (sum(|shard| shard.documents), sum(|shard| shard.bytes))
    })
}

fn remote_index(shared: &Shared) -> RemoteIndex {
    let settings = BrokerSettings {
        hits_per_host: shared.options.config.serve.hits_per_host,
        ..BrokerSettings::default()
    };
    RemoteIndex::new(shared.table.clone(), shared.client.blocking(), settings)
}

/// What the pages show of the cluster, and the orders that they take.
fn face(shared: &Arc<Shared>, index: &Arc<RemoteIndex>) -> ClusterFace {
    let (status, order, counted, index) = (shared.clone(), shared.clone(), index.clone(), index.clone());
    ClusterFace {
        status: Box::new(move || {
            let name = &status.options.config.cluster.name;
            status_of(name, &status.cluster.view(), &status.fabric.state())
        }),
        order: Box::new(move |what| give_order(&order, what)),
        metrics: Box::new(move || counted.metrics_text()),
        copy: Box::new(move |url, at| index.copy(url, at)),
    }
}

fn give_order(shared: &Shared, order: ClusterOrder) -> Result<String, EngineError> {
    let ClusterOrder::Drain(id) = order;
    let view = shared.cluster.view();
    let node = NodeId::parse(&id).and_then(|id| view.nodes.get(&id));
    let node = node.ok_or_else(|| EngineError::Invalid(format!("no node has the id {id}")))?;
    let random = getrandom::u64().map_err(|_| EngineError::Busy)?;
    orders::place_order(&*shared.fabric, OrderId(random), Order::Drain { node: node.id })
        .map_err(|error| EngineError::Unavailable(format!("{error:#}")))?;
    Ok(format!("{} gives its work away and leaves when others have it.", node.name))
}
