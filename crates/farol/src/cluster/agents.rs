//! What makes a node's crawl an agent of the cluster: whose hosts are whose, when it may ask, and what it tells of itself.

use crate::exchange::ExchangeDesk;
use crate::exchange::route::{RouteSource, Routing};
use crate::handles::cluster::{AgentFace, ClusterHandle};
use crate::handles::crawl::CrawlHandle;
use crate::roles::member::now;
use farol_base::sync::Mutex;
use farol_cluster::record::AgentReport;
use farol_cluster::route::TableBlob;
use farol_cluster::{Epoch, NodeNo, NodeReport, RouteRecord};
use farol_fabric::Topic;
use farol_fabric::blobs::Blobs;
use farol_partition::RoutingTable;
use farol_partition::table::binary;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Pages are counted over this time.
const MINUTE: Duration = Duration::from_secs(60);

/// The routing table in force, as this node last heard of it.
pub fn routes(cluster: Arc<ClusterHandle>, me: NodeNo, blobs: Option<Arc<Blobs>>) -> RouteSource {
    let known: Mutex<Option<(Arc<RouteRecord>, Arc<Routing>)>> = Mutex::new(None);
    let file = move |blob: &TableBlob| -> Option<RoutingTable> {
        let bytes = blobs.as_ref()?.get(&blob.name).ok()?;
        binary::read(&bytes).ok()
    };
    Arc::new(move || {
        let view = cluster.view();
        let record = view.route.as_ref()?;
        let mut known = known.lock();
        if known.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, record)) {
            // A file that cannot be had yet: nobody is asked until it can.
            *known = Routing::of(me, record, &file).map(|routing| (record.clone(), Arc::new(routing)));
        }
        known.as_ref().map(|(_, routing)| routing.clone())
    })
}

/// Whether the node may act for the cluster at this instant, by its own clock and whatever else hangs.
pub fn is_member(cluster: Arc<ClusterHandle>, me: NodeNo) -> Arc<dyn Fn() -> bool + Send + Sync> {
    Arc::new(move || {
        let view = cluster.view();
        let is_active = view.active_until.is_some_and(|until| now() < until);
        let incarnation = view.nodes.get(&view.me).map(|node| node.incarnation);
        let is_named =
            |record: &RouteRecord| incarnation.is_some_and(|incarnation| record.newest.has(me, incarnation));
        is_active && view.route.as_deref().is_some_and(is_named)
    })
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
                hosts_coming: 0,
            },
            ..NodeReport::default()
        }
    })
}
