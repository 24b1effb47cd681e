//! Tends the cache node of this process: beats, copies of its best answers for its successor, hand-overs after borders
//! have moved, hot answers for those who are to serve them too, and clearing up.
//!
//! Two threads: one beats, and waits for nobody; the other sends, at a pace that the receiver names. Both look at some
//! hundred slots at a time, so that no lookup waits for them.

mod beats;
mod carry;

use crate::handles::cache_node::CacheShelf;
use crate::handles::cluster::ReportBoard;
use crate::ring::PeerOf;
use farol_cache::failover::FailoverCopies;
use farol_fabric::Fabric;
use farol_rpc::CallerHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often both look whether something is due.
const TICK: Duration = Duration::from_millis(50);

/// What a cache node needs.
pub struct CacheNodeParts {
    pub shelf: Arc<CacheShelf>,
    pub fabric: Arc<dyn Fabric>,
    pub board: Arc<ReportBoard>,
    pub peer_of: PeerOf,
    pub caller: CallerHandle,
    /// `None`: no copies are sent.
    pub copies: Option<FailoverCopies>,
}

/// The running cache node.
pub struct RunningCacheNode {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningCacheNode {
    pub fn start(parts: CacheNodeParts) -> std::io::Result<RunningCacheNode> {
        let stop = Arc::<AtomicBool>::default();
        let (shelf, fabric, stops) = (parts.shelf.clone(), parts.fabric.clone(), stop.clone());
        let beating = std::thread::Builder::new()
            .name("cache beats".to_string())
            .spawn(move || beats::beat(&shelf, &*fabric, &stops))?;
        let mut carrier = carry::Carrier::new(parts, stop.clone());
        let carrying =
            std::thread::Builder::new().name("cache carrier".to_string()).spawn(move || carrier.run())?;
        Ok(RunningCacheNode { stop, threads: vec![beating, carrying] })
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}
