//! What makes a node's crawl an agent of the cluster: whose hosts are whose, when it may ask, and what it tells of itself.

use crate::exchange::ExchangeDesk;
use crate::exchange::gate::BackupGate;
use crate::exchange::rights::Rights;
use crate::graph::tables::TableStore;
use crate::handles::cluster::{AgentFace, ClusterHandle, ReportBoard};
use crate::handles::crawl::CrawlHandle;
use crate::roles::crawler::AgentSources;
use crate::roles::member::now;
use farol_base::sync::Mutex;
use farol_cluster::record::AgentReport;
use farol_cluster::route::TableBlob;
use farol_cluster::{Epoch, NodeNo, NodeReport, Phase};
use farol_fabric::Topic;
use farol_fabric::blobs::Blobs;
use farol_partition::RoutingTable;
use farol_partition::hold::{AgentId, HoldSettings};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Pages are counted over this time.
const MINUTE: Duration = Duration::from_secs(60);

/// Who this node is, while it is a member.
fn present(cluster: &ClusterHandle, no: NodeNo) -> Option<AgentId> {
    let view = cluster.view();
    let is_member = matches!(view.phase, Phase::Up | Phase::Draining);
    is_member.then_some(AgentId { no, incarnation: view.incarnation })
}

/// What this agent may ask, as far as it knows when it begins.
pub fn rights(cluster: Arc<ClusterHandle>, no: NodeNo, inherit_max: Duration) -> Arc<Rights> {
    let me = AgentId { no, incarnation: cluster.view().incarnation };
    let inherit_max_ms = u64::try_from(inherit_max.as_millis()).unwrap_or(u64::MAX);
    let settings = HoldSettings { inherit_max_ms, ..HoldSettings::default() };
    let lease = move |me: AgentId| {
        let view = cluster.view();
        view.active_until.filter(|_| view.incarnation == me.incarnation)
    };
    Arc::new(Rights::new(me, settings, Arc::new(lease), now))
}

/// What a crawl needs of its cluster to be an agent of it.
pub fn sources(
    cluster: Arc<ClusterHandle>,
    no: NodeNo,
    desk: Arc<ExchangeDesk>,
    rights: Arc<Rights>,
    (blobs, gate): (Option<Arc<Blobs>>, Arc<BackupGate>),
    (tables, board): (TableStore, Arc<ReportBoard>),
) -> AgentSources {
    let (record, present_of, gone) = (cluster.clone(), cluster.clone(), cluster);
    let file = move |blob: &TableBlob| -> Option<RoutingTable> {
        let table = tables.get(blob).map(|table| (*table).clone());
        board.complain("table", &tables.trouble());
        table
    };
    AgentSources {
        desk,
        rights,
        record: Arc::new(move || record.view().route.clone()),
        files: Arc::new(file),
        present: Arc::new(move || present(&present_of, no)),
        is_gone: Arc::new(move |no| {
            let view = gone.view();
            let mut nodes = view.nodes.values().filter(|node| node.no == Some(no));
            nodes.all(|node| node.state.is_gone())
        }),
        blobs,
        gate,
    }
}

/// What the node tells of itself as an agent.
pub fn face(me: NodeNo, desk: Arc<ExchangeDesk>, crawl: CrawlHandle) -> AgentFace {
    let counted: Mutex<VecDeque<(Instant, u64)>> = Mutex::default();
    Box::new(move || {
        let snapshot = crawl.snapshot();
        let pages = snapshot.totals.pages;
        let minute = {
            let mut counted = counted.lock();
            counted.push_back((Instant::now(), pages));
            while counted.front().is_some_and(|(at, _)| at.elapsed() > MINUTE) && counted.len() > 1 {
                counted.pop_front();
            }
            counted.front().map_or(0, |(_, before)| pages.saturating_sub(*before))
        };
        let next = |(from, number): (&NodeNo, &u64)| (*from, number + 1);
        let received: BTreeMap<NodeNo, u64> = desk.received.lock().iter().map(next).collect();
        let counters = &desk.counters;
        NodeReport {
            outbox: desk.outboxes.lock().bytes(),
            expects: [(Topic::Urls(me.0).to_string(), received)].into(),
            released: Epoch(desk.released.load(Ordering::SeqCst)),
            busy: desk.is_busy.load(Ordering::SeqCst),
            agent: AgentReport {
                hosts: snapshot.hosts_known,
                pages,
                pages_minute: minute,
                urls_sent: counters.sent.load(Ordering::Relaxed),
                urls_received: counters.received.load(Ordering::Relaxed),
                hosts_leaving: desk.leaving.load(Ordering::Relaxed),
                hosts_coming: desk.coming.load(Ordering::Relaxed),
            },
            ..NodeReport::default()
        }
    })
}
