//! The ranker: one node, named by the leader, that keeps the graph of all agents' links.
//!
//! The life of a link in a cluster: an agent fetches a page and appends what it links to to the log of links; the ranker
//! takes that into its [`farol_links::Links`], and tells the shards of the pages linked to what they are called by others
//! ([`pending`]). Now and then it ranks all pages and hosts ([`schedule`]) and uploads to each shard its slice of the
//! ranks ([`publish`]); the leader says which are the newest, and the replicas load them.
//!
//! Nothing has its only copy here: a ranker whose folder is empty has every agent send all links again from its
//! archive. While nobody ranks, search goes on with the last ranks.
//!
//! INVARIANT: the mark on disk is never beyond a link whose anchors have not been told, nor beyond the links on disk.

mod mark;
mod pending;
mod publish;
mod schedule;
#[cfg(test)]
mod tests;
mod worker;

use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::replicas::AskAgain;
use anyhow::Result;
use farol_cluster::NodeId;
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::RankerWorker;

/// How often a node looks whether it is the one that ranks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What the ranker needs.
#[derive(Clone)]
pub struct RankerService {
    pub me: NodeId,
    /// Its folder: the graph of links, and how far it has come.
    pub dir: PathBuf,
    pub fabric: Arc<dyn Fabric>,
    pub blobs: Arc<Blobs>,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    pub ask_again: AskAgain,
    /// Least time between two computations of ranks.
    pub rank_every: Duration,
}

impl RankerService {
    /// Whether the leader names this node, as far as it has heard.
    fn is_named(&self) -> bool {
        self.cluster.view().ranks.as_ref().is_some_and(|table| table.node == Some(self.me))
    }
}

/// Ranks while the leader names this node.
pub struct RunningRanker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningRanker {
    pub fn start(service: RankerService) -> Result<RunningRanker> {
        std::fs::create_dir_all(&service.dir)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("ranker".to_string()).spawn(move || {
            crate::process::be_nice();
            follow_leader(&service, &stopped);
        })?;
        Ok(RunningRanker { stop, thread: Some(thread) })
    }

    /// Ends; what was read and not made durable is read again.
    pub fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

/// Works whenever this node is named; what goes wrong is told, and tried again from what is durable.
fn follow_leader(service: &RankerService, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let mut trouble = String::new();
        if service.is_named()
            && let Err(error) = RankerWorker::open(service).and_then(|mut worker| worker.run(stop))
        {
            trouble = format!("ranks and anchor texts wait: {error:#}");
        }
        *service.board.ranker.lock() = None;
        service.board.complain("ranks", &trouble);
        for _ in 0..if trouble.is_empty() { 1 } else { 5 } {
            if !stop.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}
