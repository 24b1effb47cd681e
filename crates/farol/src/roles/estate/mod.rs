//! What an agent leaves behind: keeps its own backup, and brings what dead agents had to their heirs.
//!
//! Two threads. One makes a backup every few minutes, and whenever hosts with visited pages are to leave ([`keeper`]). The
//! other looks whether this agent was named the undertaker of a dead one ([`undertaker`]).
//!
//! INVARIANT: an agent's log is trimmed only up to what its newest backup holds, so that backup and log together are
//! everything that it was ever told.

mod keeper;
mod undertaker;

use crate::config::Config;
use crate::exchange::ExchangeDesk;
use crate::exchange::gate::BackupGate;
use crate::exchange::rights::Rights;
use crate::fabric::Tables;
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::crawl::CrawlHandle;
use crate::handover::backup::BackupRules;
use anyhow::Result;
use farol_cluster::NodeNo;
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What an agent's estate needs.
#[derive(Clone)]
pub struct EstateSources {
    pub me: NodeNo,
    pub config: Arc<Config>,
    pub desk: Arc<ExchangeDesk>,
    pub rights: Arc<Rights>,
    pub gate: Arc<BackupGate>,
    pub blobs: Arc<Blobs>,
    pub fabric: Arc<dyn Fabric>,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    pub crawl: CrawlHandle,
    /// Where hosts are remembered.
    pub tables: Arc<dyn Tables>,
    /// The archive's folder, and one for what dead agents had.
    pub pages: PathBuf,
    pub estates: PathBuf,
    pub rules: BackupRules,
}

/// The running threads.
pub struct Estates {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Estates {
    pub fn start(sources: EstateSources) -> Result<Estates> {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |name: &str, run: fn(&EstateSources, &AtomicBool)| {
            let (sources, stop) = (sources.clone(), stop.clone());
            std::thread::Builder::new().name(name.to_string()).spawn(move || run(&sources, &stop))
        };
        let threads = vec![start("backs up", keeper::run)?, start("undertakes", undertaker::run)?];
        Ok(Estates { stop, threads })
    }

    /// Ends soon: a backup under way is broken off at the next file.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}
