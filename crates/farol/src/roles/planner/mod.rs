//! The partitioner of a running crawl, on the node that leads: reports of agents in, tables out.
//!
//! A thread of its own, so that planning never keeps a lease waiting: it sees from a [`PlannerDesk`] whether its node
//! leads, and leaves its proposals there. What is believed, when a plan is due and whether a table is worth its moves is
//! decided by [`farol_partition::replan::Replanner`]; this does the reading and writing.
//!
//! INVARIANT: nothing is written but under the term under which this node leads now, and what it knows is on disk before
//! the reports that it came from are deleted.

mod leading;
mod told;

use crate::config::Config;
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::planner::PlannerDesk;
use anyhow::Result;
use farol_cluster::NodeId;
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use leading::Leading;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(200);
/// After something went wrong it is tried again after this.
const AGAIN: Duration = Duration::from_secs(2);

/// What the planner works with.
pub struct PlannerSources {
    pub me: NodeId,
    pub fabric: Arc<dyn Fabric>,
    pub cluster: Arc<ClusterHandle>,
    pub desk: Arc<PlannerDesk>,
    pub blobs: Arc<Blobs>,
    pub board: Arc<ReportBoard>,
    pub config: Arc<Config>,
    /// Where files of tables stay.
    pub folder: PathBuf,
}

/// The running planner.
pub struct RunningPlanner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningPlanner {
    /// Begins to plan whenever the node leads.
    pub fn start(sources: PlannerSources) -> Result<RunningPlanner> {
        // What cannot be is told at the start, not when the node begins to lead.
        let places = crate::graph::known::places(&sources.config)?;
        let rules = sources.config.partition.rules()?;
        let traces = crate::graph::known::traces(&sources.config)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name("planner".to_string()).spawn(move || {
            crate::process::be_nice();
            let sources = Arc::new(sources);
            let mut leading: Option<Leading> = None;
            let mut rests = Instant::now();
            while !told.load(Ordering::SeqCst) {
                std::thread::sleep(TICK);
                let term = sources.desk.term();
                if leading.as_ref().is_some_and(|leading| leading.term() != term) {
                    leading = None;
                }
                if term == 0 {
                    sources.board.complain("planner", "");
                }
                if term == 0 || Instant::now() < rests {
                    continue;
                }
                let done = match &mut leading {
                    Some(leading) => leading.tick(),
                    None => Leading::begin(&sources, term, places.clone(), &traces, rules.clone())
                        .map(|begun| leading = Some(begun)),
                };
                let trouble = done.as_ref().err().map(|error| {
                    format!("the routing table is not planned ({error:#}): hosts stay as they are; look at cluster.blobs")
                });
                if trouble.is_some() {
                    rests = Instant::now() + AGAIN;
                }
                sources.board.complain("planner", &trouble.unwrap_or_default());
            }
        })?;
        Ok(RunningPlanner { stop, thread: Some(thread) })
    }

    pub fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}
