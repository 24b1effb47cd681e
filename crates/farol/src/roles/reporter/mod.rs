//! Tells the planner what this agent knows of its hosts: pages, addresses, round-trip times, links, and how many links
//! went to other agents.
//!
//! A thread of its own: it reads the table of hosts in pieces and the graph of links from a snapshot, asks the crawl how
//! many URLs it knows of some hosts at a time, and uploads reports. Only what is news is told, and now and then all of
//! it. Nothing waits for it: a report that cannot be uploaded is gathered again the next time.
//!
//! INVARIANT: memory is that of one pass over [`gather::PASS_HOSTS`] hosts, however many there are.
//! INVARIANT: no more than [`WAITING_MAX`] reports lie in shared storage; where the planner is away, agents stop telling.

mod counted;
mod gather;
mod peers;

use crate::exchange::ExchangeDesk;
use crate::fabric::Tables;
use crate::graph::news::News;
use crate::graph::{FOLDER, report_name};
use crate::handles::cluster::ClusterHandle;
use crate::handles::order::Order;
use crate::wire::batch::pack;
use crate::wire::graph::WireGraphReport;
use anyhow::Result;
use counted::Counted;
use farol_base::sync::Mutex;
use farol_cluster::NodeNo;
use farol_fabric::blobs::Blobs;
use farol_links::Links;
use farol_partition::replan::Report;
use peers::Peers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Reports of one agent that may wait for the planner.
const WAITING_MAX: usize = 64;
/// Time between two reports, as a multiple of the time that the last one took: a fiftieth of a thread.
const IDLE_FACTOR: u32 = 50;
/// Everything is told again after this, since the planner forgets what nobody tells.
const ALL_EVERY: Duration = Duration::from_secs(20 * 3600);
const TICK: Duration = Duration::from_millis(200);

/// What the reporter looks at.
pub struct ReporterSources {
    pub me: NodeNo,
    pub tables: Arc<dyn Tables>,
    pub links: Arc<Mutex<Links>>,
    /// Asks the crawl.
    pub crawl: Arc<dyn Fn(Order) -> Result<()> + Send + Sync>,
    /// Hosts that it knows.
    pub hosts: Box<dyn Fn() -> u64 + Send>,
    pub desk: Arc<ExchangeDesk>,
    pub cluster: Arc<ClusterHandle>,
    pub blobs: Arc<Blobs>,
    pub every: Duration,
}

/// The running reporter.
pub struct Reporter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    pub fn start(sources: ReporterSources) -> Result<Reporter> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut worker = ReporterWorker {
            number: 0,
            lost: 0,
            counted: Counted::default(),
            news: News::default(),
            peers: Peers::default(),
            atlas: String::new(),
            all_told: None,
            stop: stop.clone(),
            sources,
        };
        let thread = std::thread::Builder::new().name("reporter".to_string()).spawn(move || {
            crate::process::be_nice();
            worker.run();
        })?;
        Ok(Reporter { stop, thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

struct ReporterWorker {
    sources: ReporterSources,
    /// Of the last report: the incarnation and a count, so that it grows with every start.
    number: u64,
    /// Reports that the planner could not take in.
    lost: u64,
    counted: Counted,
    news: News,
    peers: Peers,
    /// The collection that was told everything.
    atlas: String,
    all_told: Option<Instant>,
    stop: Arc<AtomicBool>,
}

impl ReporterWorker {
    fn run(&mut self) {
        let mut due = Instant::now() + self.sources.every;
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
            let epoch = self.sources.cluster.view().route.as_ref().map_or(0, |route| route.epoch().0);
            self.counted.look(&self.sources.desk, epoch);
            if Instant::now() < due {
                continue;
            }
            let begun = Instant::now();
            if let Err(error) = self.tell() {
                tracing::debug!(error = %format!("{error:#}"), "the planner is told later");
            }
            due = Instant::now() + self.sources.every.max(begun.elapsed() * IDLE_FACTOR);
        }
    }

    /// Gathers what is news, and uploads it.
    fn tell(&mut self) -> Result<()> {
        let own = format!("{FOLDER}{}/", self.sources.me);
        if self.sources.blobs.list(&own)?.len() >= WAITING_MAX {
            anyhow::bail!("{WAITING_MAX} reports wait for the planner already");
        }
        let view = self.sources.cluster.view();
        let incarnation = view.nodes.get(&view.me).map_or(0, |node| node.incarnation);
        self.number = self.number.max(incarnation << 32);
        let atlas = view.plan.as_ref().map(|plan| plan.atlas.clone()).unwrap_or_default();
        let told = view.plan.as_ref().and_then(|plan| plan.agents.get(&self.sources.me));
        let lost = told.map_or(self.lost, |told| told.lost);
        let is_old = self.all_told.is_none_or(|at| at.elapsed() >= ALL_EVERY);
        if is_old || self.atlas != atlas || self.lost != lost {
            self.news.forget();
            (self.atlas, self.lost, self.all_told) = (atlas, lost, Some(Instant::now()));
        }
        self.peers.measure(&view);
        for (epoch, exchanged) in self.counted.finished() {
            self.upload(Report { version: epoch, exchanged, ..Report::default() })?;
        }
        let told = self.gather();
        if told.is_err() {
            // Some of it may not have been uploaded.
            self.news.forget();
        }
        told
    }

    /// Uploads a report under the next number.
    fn upload(&mut self, report: Report) -> Result<()> {
        self.number += 1;
        let report = WireGraphReport::of(self.sources.me.0, &Report { number: self.number, ..report });
        self.sources.blobs.put(&report_name(self.sources.me, self.number), &pack(&report)?)?;
        Ok(())
    }
}
