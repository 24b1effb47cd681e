//! Carries what agents exchange between this agent's disk and the logs of the cluster.
//!
//! Two threads. One appends batches to the logs of the agents that they are for, as long as it takes ([`send`]); the
//! other reads this agent's own log and hands each batch to the crawl once, in order ([`receive`]). The orders of the
//! whole crawl are read by every node, crawling or not ([`orders`]).
//!
//! INVARIANT: a batch that a sender has on its disk reaches its receiver's URL store, whatever the log loses or doubles.

mod inbox;
mod orders;
mod quota;
mod receive;
mod send;

pub use orders::OrderReader;
pub use quota::PER_MINUTE;

use crate::exchange::ExchangeDesk;
use crate::exchange::rights::Rights;
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::crawl::CrawlHandle;
use crate::handles::replicas::AskAgain;
use anyhow::Result;
use farol_cluster::NodeNo;
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What the courier of an agent needs.
#[derive(Clone)]
pub struct CourierSources {
    pub me: NodeNo,
    pub desk: Arc<ExchangeDesk>,
    pub rights: Arc<Rights>,
    /// Where large hosts lie that come from others.
    pub blobs: Option<Arc<Blobs>>,
    pub fabric: Arc<dyn Fabric>,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    pub crawl: CrawlHandle,
    /// Has another agent send its batches again.
    pub ask_again: AskAgain,
    /// What one sender may send in a minute, in URLs.
    pub per_minute: u64,
}

/// A running courier.
pub struct Courier {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Courier {
    pub fn start(sources: CourierSources) -> Result<Courier> {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |name: &str, run: fn(&CourierSources, &AtomicBool)| {
            let (sources, stop) = (sources.clone(), stop.clone());
            std::thread::Builder::new().name(name.to_string()).spawn(move || run(&sources, &stop))
        };
        let threads = vec![start("sends urls", send::run)?, start("takes urls", receive::run)?];
        Ok(Courier { stop, threads })
    }

    /// Ends at once: what was not carried is on the disk.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
