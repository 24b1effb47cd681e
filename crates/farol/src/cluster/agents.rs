//! What makes a node's crawl an agent of the cluster: whose hosts are whose, when it may ask, and what it tells of itself.

use crate::exchange::ExchangeDesk;
use crate::exchange::route::{RouteSource, Routing};
use crate::graph::tables::TableStore;
use crate::handles::cluster::{AgentFace, ClusterHandle, ReportBoard};
use crate::handles::crawl::CrawlHandle;
use crate::roles::member::now;
use farol_base::sync::Mutex;
use farol_cluster::record::AgentReport;
use farol_cluster::route::TableBlob;
use farol_cluster::{Epoch, NodeNo, NodeReport, RouteRecord};
use farol_fabric::Topic;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Pages are counted over this time.
const MINUTE: Duration = Duration::from_secs(60);

/// A table whose file is missing is looked at again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// The routing table in force, as this node last heard of it.
#[derive(Default)]
struct KnownRouting {
    of: Option<Arc<RouteRecord>>,
    routing: Option<Arc<Routing>>,
    /// A newer record whose file could not be had, and when.
    missing: Option<(Arc<RouteRecord>, Instant)>,
}

/// The routing table in force. Where the file of a newer one cannot be had, the one before stays: to everybody else it is
/// as if this node had not heard of the newer one yet, which is not settled without it.
pub fn routes(
    cluster: Arc<ClusterHandle>,
    me: NodeNo,
    files: TableStore,
    board: Arc<ReportBoard>,
) -> RouteSource {
    let known: Mutex<KnownRouting> = Mutex::default();
    Arc::new(move || {
        let view = cluster.view();
        let record = view.route.as_ref()?;
        let mut known = known.lock();
        let is_known = known.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, record));
        let rests = known
            .missing
            .as_ref()
            .is_some_and(|(missing, at)| Arc::ptr_eq(missing, record) && at.elapsed() < AGAIN);
        if !is_known && !rests {
            let file = |blob: &TableBlob| files.get(blob).map(|table| (*table).clone());
            match Routing::of(me, record, &file) {
                Some(routing) => {
                    *known = KnownRouting {
                        of: Some(record.clone()),
                        routing: Some(Arc::new(routing)),
                        missing: None,
                    };
                }
                None => known.missing = Some((record.clone(), Instant::now())),
            }
            board.complain("table", &files.trouble());
        }
        known.routing.clone()
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
