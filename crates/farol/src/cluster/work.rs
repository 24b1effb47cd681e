//! What a node does once it is a member: it crawls and sends what it finds, and it answers people.
//!
//! Every node has an archive of its own, which stays empty where it does not crawl. Nodes that crawl are agents: each
//! asks the hosts that the routing table gives to it, and sends what it finds of others to their agents.

use super::node::Shared;
use super::{agents, caches, crawl_orders, orders};
use crate::archive::Opened;
use crate::archive::page_orders::OrderReply;
use crate::broker::table::ServedShard;
use crate::broker::{BrokerSettings, RemoteIndex, ask_again};
use crate::engine::{Listening, orders as order_taker, snapshots};
use crate::exchange::gate::BackupGate;
use crate::exchange::orders::CrawlOrder;
use crate::exchange::outboxes::Outboxes;
use crate::exchange::{Exchange, ExchangeDesk};
use crate::fabric::{Fabric as LocalFabric, Tables};
use crate::graph::tables::TableStore;
use crate::handles::cluster::ClusterFace;
use crate::handles::cluster_status::status_of;
use crate::handles::crawl::CrawlHandle;
use crate::handles::queries::Queries;
use crate::handles::ranks::Ranks;
use crate::handles::ring_status::ring_status_of;
use crate::handles::still::StillCrawl;
use crate::handover::backup::BackupRules;
use crate::ring::reporter::RingReporter;
use crate::roles::control::{Control, Watched};
use crate::roles::courier::{Courier, CourierSources, OrderReader, PER_MINUTE};
use crate::roles::crawler::{AgentSources, Crawler};
use crate::roles::desk::BackupDesk;
use crate::roles::estate::{EstateSources, Estates};
use crate::roles::front::{LiveEngine, ResultCache, RingCache, RuleFiles};
use crate::roles::reporter::{Reporter, ReporterSources};
use crate::roles::sender::{ArchiveSender, SenderSources, ShardLog};
use anyhow::Result;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Clock, SystemClock};
use farol_cluster::order::{Order, OrderId};
use farol_cluster::record::Role;
use farol_cluster::{NodeId, NodeNo, ShardState};
use farol_fabric::blobs::Blobs;
use farol_front::{ClusterOrder, EngineError};
use farol_links::Links;
use std::sync::Arc;

/// Where files of routing tables stay, in the data folder.
pub const TABLES: &str = "routes";

/// Crawl, sender and front of a node.
pub struct NodeWork {
    listens: bool,
    crawler: Option<Crawler>,
    still: Option<Arc<StillCrawl>>,
    sender: Option<ArchiveSender>,
    courier: Option<Courier>,
    reporter: Option<Reporter>,
    estates: Option<Estates>,
    reader: Option<OrderReader>,
    control: Option<Control>,
    engine: Option<Arc<LiveEngine>>,
    /// Tells the leader of the cache service what this front has seen.
    ring_reporter: Option<RingReporter>,
    /// What opening the folder had to mend.
    pub notes: Vec<String>,
}

impl NodeWork {
    /// Opens the node's archive, and starts what its roles say.
    pub fn begin(shared: &Arc<Shared>, no: NodeNo) -> Result<NodeWork> {
        let config = shared.options.config.clone();
        let local = LocalFabric::local(&shared.folder.tables())?;
        let crawls = shared.options.roles.contains(&Role::Crawl);
        let blobs = match crawls {
            true => blobs(shared)?,
            false => None,
        };
        let exchange = match crawls {
            true => Some(open_exchange(shared, no, &local)?),
            false => None,
        };
        let agent = exchange.as_ref().map(|exchange| {
            let gate = Arc::new(BackupGate::new(blobs.is_some()));
            let tables = TableStore::new(blobs.clone(), Some(shared.folder.path().join(TABLES)));
            let (desk, rights) = (exchange.desk(), exchange.rights());
            let (stored, told) = ((blobs, gate), (tables, shared.board.clone()));
            agents::sources(shared.cluster.clone(), no, desk, rights, stored, told)
        });
        let desk = exchange.as_ref().map(Exchange::desk);
        let mut opened =
            crate::archive::open_in_cluster(&shared.folder, &config, local.clone(), crawls, exchange)?;
        let (archive, links, interpreter) =
            (opened.archive.reader(), opened.links.clone(), opened.interpreter.clone());
        shared.desk.open_archive(archive.clone());
        shared.desk.open_backup(BackupDesk {
            pages: shared.folder.pages(),
            archive: archive.clone(),
            tables: local.tables.clone(),
        });
        let (clicks, mut notes) = (opened.followers.clicks.clone(), opened.notes.clone());
        let last_snapshot = opened.snapshot()?;
        let ranked = ranker_is_there(shared);
        // Always: what the crawl has told before a ranker comes could not be told again.
        opened.followers.exports_links = true;
        let (told, known_seeds) = (opened.followers.told()?, known_seeds(shared, &opened));
        let (crawler, still) = match agent.clone().filter(|_| !opened.is_behind) {
            Some(agent) => {
                let now = SystemClock.now();
                notes.extend(opened.followers.compare_settings(&config, &known_seeds, now)?);
                (Some(start_crawl(shared, no, opened, agent, &known_seeds)?), None)
            }
            None => (None, Some(Arc::new(StillCrawl::new(opened, shared.folder.path().to_path_buf())))),
        };
        let sender = match &crawler {
            Some(_) => {
                let sender = ArchiveSender::start(SenderSources {
                    node: no.0,
                    local: local.clone(),
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
        let courier = match (&crawl, &agent) {
            (Some(crawl), Some(agent)) => Some(start_courier(shared, no, agent, crawl.clone())?),
            _ => None,
        };
        let estates = match (&crawl, &agent) {
            (Some(crawl), Some(agent)) => {
                start_estates(shared, no, agent, crawl.clone(), local.tables.clone())?
            }
            _ => None,
        };
        let reporter = match (&crawl, &desk) {
            (Some(crawl), Some(desk)) => {
                start_reporter(shared, no, desk.clone(), crawl.clone(), (&local, &links))?
            }
            _ => None,
        };
        let here = order_taker(crawl.clone(), still.clone());
        let given = desk.clone();
        let reader = OrderReader::start(
            shared.fabric.clone(),
            told,
            here.clone(),
            Arc::new(move || given.as_ref()?.orders.lock().pop_front()),
        )?;
        let place = Arc::new(reader.placer());
        tell_seeds(shared, &known_seeds, &*place)?;
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
        let listens = shared.options.roles.contains(&Role::Front);
        let (ring, ring_reporter) = match listens {
            true => caches::start_front(shared).map(|(ring, reporter)| (Some(ring), Some(reporter)))?,
            false => (None, None),
        };
        // A node that crawls explains its pages to others, whether it answers people or not.
        let engine = match listens || crawls {
            true => Some(Arc::new(LiveEngine {
                cluster: Some(face(shared, &index, desk.clone(), ring.as_ref())),
                federation: None,
                index: index.clone(),
                queries,
                samples: control.samples(),
                rules: RuleFiles::open(&config.search)?,
                cache: ResultCache::new(&config.cache),
                ring,
                archive,
                links,
                interpreter,
                clicks,
                orders: crawl_orders::orders(here.clone(), place, index.clone()),
                crawl,
                started: SystemClock.now(),
                last_snapshot,
                disk_path: shared.folder.path().to_path_buf(),
                config,
            })),
            false => None,
        };
        if let Some(engine) = &engine {
            let _ = shared.metrics.engine.set(Arc::downgrade(engine));
        }
        if let Some(engine) = engine.clone().filter(|_| crawls) {
            shared.desk.open_pages(crawl_orders::page_desk(engine, here));
        }
        Ok(NodeWork {
            listens,
            crawler,
            still,
            sender,
            courier,
            reporter,
            estates,
            reader: Some(reader),
            control: Some(control),
            engine,
            ring_reporter,
            notes,
        })
    }

    /// Listens for people; says where.
    pub async fn listen(&self, shared: &Shared) -> Result<Option<Listening>> {
        match self.engine.as_ref().filter(|_| self.listens) {
            Some(engine) => {
                // Orders are those of the whole crawl, whoever takes them.
                crate::engine::listen(engine, &shared.folder, &shared.options.config, true).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Ends everything in order: what was fetched is archived, what was archived is sent as far as the logs take it.
    pub fn stop(mut self, shared: &Shared) -> Result<()> {
        drop(self.control.take());
        drop(self.reporter.take());
        drop(self.ring_reporter.take());
        if let Some(reader) = self.reader.take() {
            reader.stop();
        }
        if let Some(courier) = self.courier.take() {
            courier.stop();
        }
        if let Some(estates) = self.estates.take() {
            estates.stop();
        }
        let crawled = self.crawler.take().map_or(Ok(()), Crawler::stop);
        let crawled = crawled.and(self.still.take().map_or(Ok(()), |still| still.close()));
        let sent = self.sender.take().map_or(Ok(()), ArchiveSender::stop);
        *shared.board.sender.lock() = None;
        *shared.board.agent.lock() = None;
        let clicked = self.engine.as_ref().map_or(Ok(()), |engine| engine.clicks.flush());
        crawled.and(sent).and(clicked)
    }
}

/// What all nodes share, where somebody has named it.
fn blobs(shared: &Shared) -> Result<Option<Arc<Blobs>>> {
    let place = &shared.options.config.cluster.blobs;
    Ok(if place.is_empty() { None } else { Some(Arc::new(Blobs::open(place)?)) })
}

/// Tells the planner of the routing table what this agent knows.
fn start_reporter(
    shared: &Shared,
    no: NodeNo,
    desk: Arc<ExchangeDesk>,
    crawl: CrawlHandle,
    (local, links): (&LocalFabric, &Arc<Mutex<Links>>),
) -> Result<Option<Reporter>> {
    let Some(blobs) = blobs(shared)? else { return Ok(None) };
    let snapshot = crawl.clone();
    let sources = ReporterSources {
        me: no,
        tables: local.tables.clone(),
        links: links.clone(),
        crawl: Arc::new(move |order| crawl.order(order)),
        hosts: Box::new(move || snapshot.snapshot().hosts_known),
        desk,
        cluster: shared.cluster.clone(),
        blobs,
        every: shared.options.config.partition.report_every.get(),
    };
    Reporter::start(sources).map(Some)
}

/// The exchange of URLs with other agents, as this node's folder has it.
fn open_exchange(shared: &Shared, no: NodeNo, local: &LocalFabric) -> Result<Exchange> {
    let room = shared.options.config.cluster.outbox_max.get();
    let outboxes = Outboxes::open(&shared.folder.outbox(), no, room)?;
    let inherit_max = shared.options.config.cluster.inherit_max.get();
    let rights = agents::rights(shared.cluster.clone(), no, inherit_max);
    Exchange::open(rights, outboxes, &*local.tables)
}

/// Seeds that were named and that this node knows of already, with their hosts still in the crawl.
fn known_seeds(shared: &Shared, opened: &Opened) -> Vec<CanonicalUrl> {
    let operator = opened.followers.operator();
    let is_known = |seed: &&CanonicalUrl| {
        operator.seeds().contains(seed) && !opened.followers.is_host_removed(&seed.host())
    };
    shared.options.seeds.iter().filter(is_known).cloned().collect()
}

/// Tells the whole crawl of seeds that it may not know.
fn tell_seeds(
    shared: &Shared,
    known: &[CanonicalUrl],
    place: &dyn Fn(&CrawlOrder) -> Result<OrderReply>,
) -> Result<()> {
    let news = shared.options.seeds.iter().filter(|seed| !known.contains(seed)).cloned();
    for order in crate::exchange::orders::seeds(&news.collect::<Vec<_>>()) {
        // What the crawl answers is told by its pages; that it was placed is what counts.
        let _reply = place(&order)?;
    }
    Ok(())
}

fn start_crawl(
    shared: &Shared,
    no: NodeNo,
    opened: Opened,
    agent: AgentSources,
    seeds: &[CanonicalUrl],
) -> Result<Crawler> {
    let desk = agent.desk.clone();
    let config = shared.options.config.clone();
    let crawler = Crawler::start_agent(opened, &shared.folder, config, seeds, false, Some(agent))?;
    *shared.board.agent.lock() = Some(agents::face(no, desk.clone(), crawler.handle()));
    shared.desk.open_exchange(desk);
    Ok(crawler)
}

fn start_courier(shared: &Shared, no: NodeNo, agent: &AgentSources, crawl: CrawlHandle) -> Result<Courier> {
    Courier::start(CourierSources {
        me: no,
        desk: agent.desk.clone(),
        rights: agent.rights.clone(),
        blobs: agent.blobs.clone(),
        fabric: shared.fabric.clone(),
        cluster: shared.cluster.clone(),
        board: shared.board.clone(),
        crawl,
        per_minute: PER_MINUTE,
        ask_again: ask_again(shared.table.clone(), shared.client.blocking()),
    })
}

/// Keeps a backup of the agent, and buries others, where there is a place for backups.
fn start_estates(
    shared: &Shared,
    no: NodeNo,
    agent: &AgentSources,
    crawl: CrawlHandle,
    tables: Arc<dyn Tables>,
) -> Result<Option<Estates>> {
    let Some(blobs) = agent.blobs.clone() else { return Ok(None) };
    let config = shared.options.config.clone();
    let rules = BackupRules {
        every: config.cluster.backup_every.get(),
        archive_bytes: config.cluster.backup_bytes.get(),
    };
    Estates::start(EstateSources {
        me: no,
        config,
        desk: agent.desk.clone(),
        rights: agent.rights.clone(),
        gate: agent.gate.clone(),
        blobs,
        fabric: shared.fabric.clone(),
        cluster: shared.cluster.clone(),
        board: shared.board.clone(),
        crawl,
        tables,
        pages: shared.folder.pages(),
        estates: shared.folder.estates(),
        rules,
    })
    .map(Some)
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
        .with_own(shared.here.get().cloned())
}

/// What the pages show of the cluster, and the orders that they take.
fn face(
    shared: &Arc<Shared>,
    index: &Arc<RemoteIndex>,
    desk: Option<Arc<ExchangeDesk>>,
    ring: Option<&RingCache>,
) -> ClusterFace {
    let ring = ring.map(|ring| ring.client().clone());
    let (shown, asked_by, searched) = (shared.clone(), ring.clone(), shared.clone());
    let (status, order, node, counted, asked, index) =
        (shared.clone(), shared.clone(), shared.metrics.clone(), index.clone(), index.clone(), index.clone());
    ClusterFace {
        status: Box::new(move || {
            let name = &status.options.config.cluster.name;
            status_of(name, &status.cluster.view(), &status.fabric.state())
        }),
        order: Box::new(move |what| give_order(&order, what)),
        metrics: Box::new(move || {
            let exchanged = desk.as_ref().map_or_else(String::new, |desk| desk.metrics_text());
            let cached = ring.as_ref().map_or_else(String::new, |ring| ring.metrics_text());
            counted.metrics_text() + &searched.desk.metrics_text() + &exchanged + &cached + &node.node_text()
        }),
        ring: Box::new(move || {
            let open = asked_by.as_ref().map(|ring| ring.nodes()).unwrap_or_default();
            let is_asked = |node| open.iter().find(|(known, _)| *known == node).map(|(_, is_open)| *is_open);
            ring_status_of(&shown.ring.now(), &shown.cluster.view(), is_asked)
        }),
        copy: Box::new(move |url, at| index.copy(url, at)),
        explain: crawl_orders::explainer(asked),
    }
}

fn give_order(shared: &Shared, order: ClusterOrder) -> Result<String, EngineError> {
    let id = match order {
        ClusterOrder::Drain(id) => id,
        ClusterOrder::Replan => {
            orders::wish_for_plan(&*shared.fabric)
                .map_err(|error| EngineError::Unavailable(format!("{error:#}")))?;
            return Ok(
                "The planner plans as soon as all agents have released the table in force.".to_string()
            );
        }
    };
    let view = shared.cluster.view();
    let node = NodeId::parse(&id).and_then(|id| view.nodes.get(&id));
    let node = node.ok_or_else(|| EngineError::Invalid(format!("no node has the id {id}")))?;
    let random = getrandom::u64().map_err(|_| EngineError::Busy)?;
    orders::place_order(&*shared.fabric, OrderId(random), Order::Drain { node: node.id })
        .map_err(|error| EngineError::Unavailable(format!("{error:#}")))?;
    Ok(format!("{} gives its work away and leaves when others have it.", node.name))
}
