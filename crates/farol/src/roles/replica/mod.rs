//! The index service of a node: replicas of shards, each of which takes in the log of its shard.
//!
//! The life of a replica: the shard map names this node; its folder is filled from the newest snapshot, or divided off
//! the shard it is a half of, or begins empty; it reads the log from its mark on until it has caught up, says so in the
//! node's record, and the leader lets fronts ask it. When the map names it no more, it answers for another minute and
//! its folder is deleted.
//!
//! All replicas of a shard take the same log in the same order. Each change says what a page is now, and the mark is
//! committed with what it stands for, so that taking something twice changes nothing, and a crash loses nothing.
//!
//! INVARIANT: a replica that knows of a gap does not say that it has caught up.

mod birth;
mod files;
mod mark;
mod ranks;
mod snapshot;
#[cfg(test)]
mod tests;
mod worker;

use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::ranks::Ranks;
use crate::handles::replicas::{AskAgain, Replicas};
use anyhow::Result;
use farol_cluster::{NodeId, ShardEntry, ShardId};
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use farol_index::ShardOptions;
use ranks::RankLoader;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use worker::ReplicaWorker;

/// How long a replica answers after the map has ceased to name it: fronts may still have the map before.
const FAREWELL: Duration = Duration::from_secs(60);

/// What all replicas of a node share.
#[derive(Clone)]
pub struct IndexService {
    pub me: NodeId,
    /// Folder of the replicas, one below it for each.
    pub dir: PathBuf,
    pub options: ShardOptions,
    pub fabric: Arc<dyn Fabric>,
    pub blobs: Arc<Blobs>,
    pub cluster: Arc<ClusterHandle>,
    pub board: Arc<ReportBoard>,
    pub replicas: Arc<Replicas>,
    /// What questions to them are ranked by.
    pub ranks: Arc<Ranks>,
    pub ask_again: AskAgain,
    pub commit_every: Duration,
    pub snapshot_every: Duration,
    /// Bytes of the log between two snapshots at most.
    pub snapshot_bytes: u64,
}

impl IndexService {
    fn folder(&self, shard: ShardId) -> PathBuf {
        self.dir.join(shard.to_string())
    }

    /// The shard as the map has it, if this node has a replica of it.
    fn entry(&self, shard: ShardId) -> Option<ShardEntry> {
        let view = self.cluster.view();
        let map = view.shards.as_ref()?;
        map.replicas_of(self.me).find(|entry| entry.id == shard).cloned()
    }
}

/// Starts and ends the replicas that the map gives this node.
pub struct RunningIndexService {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

struct RunningReplica {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// Since when the map names it no more.
    unwanted: Option<Instant>,
}

impl RunningIndexService {
    pub fn start(service: IndexService) -> Result<RunningIndexService> {
        std::fs::create_dir_all(&service.dir)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, ranks_stopped) = (stop.clone(), stop.clone());
        let mut ranks = RankLoader::start(service.clone());
        let loader = std::thread::Builder::new().name("load ranks".to_string()).spawn(move || {
            crate::process::be_nice();
            while !ranks_stopped.load(Ordering::SeqCst) {
                ranks.look();
                std::thread::sleep(Duration::from_millis(200));
            }
        })?;
        let thread = std::thread::Builder::new().name("index service".to_string()).spawn(move || {
            let mut running = BTreeMap::new();
            while !stopped.load(Ordering::SeqCst) {
                follow_map(&service, &mut running);
                std::thread::sleep(Duration::from_millis(200));
            }
            for (_, replica) in running {
                end(replica);
            }
        })?;
        Ok(RunningIndexService { stop, threads: vec![loader, thread] })
    }

    /// Commits what was taken in, and ends.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

fn end(replica: RunningReplica) {
    replica.stop.store(true, Ordering::SeqCst);
    let _ = replica.thread.join();
}

/// One look at the map.
fn follow_map(service: &IndexService, running: &mut BTreeMap<ShardId, RunningReplica>) {
    let view = service.cluster.view();
    let Some(map) = &view.shards else { return };
    let wanted: Vec<ShardId> = map.replicas_of(service.me).map(|entry| entry.id).collect();
    for shard in &wanted {
        let ended = running.get(shard).is_some_and(|replica| replica.thread.is_finished());
        if ended && let Some(replica) = running.remove(shard) {
            end(replica);
        }
        if let Some(replica) = running.get_mut(shard) {
            replica.unwanted = None;
            continue;
        }
        match begin(service, *shard) {
            Ok(replica) => drop(running.insert(*shard, replica)),
            Err(error) => service.board.complain("index", &format!("a replica cannot be started: {error:#}")),
        }
    }
    let now = Instant::now();
    let over: Vec<ShardId> = running
        .iter_mut()
        .filter(|(shard, _)| !wanted.contains(shard))
        .filter_map(|(shard, replica)| {
            let since = *replica.unwanted.get_or_insert(now);
            (now.duration_since(since) >= FAREWELL).then_some(*shard)
        })
        .collect();
    for shard in over {
        if let Some(replica) = running.remove(&shard) {
            end(replica);
        }
        service.replicas.set(shard, None);
        service.board.replicas.lock().remove(&shard);
        if let Err(error) = std::fs::remove_dir_all(service.folder(shard)) {
            tracing::warn!(%error, shard = shard.0, "the folder of a replica that has left stays behind");
        }
    }
}

fn begin(service: &IndexService, shard: ShardId) -> Result<RunningReplica> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut worker = ReplicaWorker::new(service.clone(), shard, stop.clone());
    let thread = std::thread::Builder::new().name(format!("shard {shard}")).spawn(move || {
        crate::process::be_nice();
        worker.run();
    })?;
    Ok(RunningReplica { stop, thread, unwanted: None })
}
