//! Keeps watch: samples for the dashboard, link ranks from time to time.

use crate::handles::crawl::{CrawlSnapshot, Totals};
use crate::handles::queries::Queries;
use crate::handles::ranks::Ranks;
use crate::handles::samples::{STEP, Samples};
use farol_base::sync::Mutex;
use farol_base::{Clock, SystemClock};
use farol_front::Sample;
use farol_links::{Budget, Links};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time until ranks are computed again, as a multiple of the time that it took: a growing crawl spends a fiftieth of a
/// thread on them.
const RANK_IDLE_FACTOR: u32 = 50;

/// What the watch looks at.
pub struct Watched {
    pub snapshot: Box<dyn Fn() -> CrawlSnapshot + Send>,
    /// Pages that can be found, and the bytes that they take.
    pub index: Box<dyn Fn() -> (u64, u64) + Send>,
    pub queries: Arc<Queries>,
    pub links: Arc<Mutex<Links>>,
    pub ranks: Arc<Ranks>,
    pub rank_every: Duration,
}

/// The running watch.
pub struct Control {
    samples: Samples,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    pub fn start(watched: Watched) -> std::io::Result<Control> {
        let samples = Samples::default();
        let stop = Arc::new(AtomicBool::new(false));
        watched.ranks.set(watched.links.lock().ranks());
        let mut work = ControlWorker {
            watched,
            samples: samples.clone(),
            stop: stop.clone(),
            ranked_pages: 0,
            rank_rests: None,
        };
        let thread = std::thread::Builder::new().name("control".to_string()).spawn(move || {
            crate::process::be_nice();
            work.run();
        })?;
        Ok(Control { samples, stop, thread: Some(thread) })
    }

    /// A way to read the samples from elsewhere.
    pub fn samples(&self) -> Samples {
        self.samples.clone()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A watch that broke down has nothing more to tell.
            let _ = thread.join();
        }
    }
}

struct ControlWorker {
    watched: Watched,
    samples: Samples,
    stop: Arc<AtomicBool>,
    ranked_pages: u64,
    /// Ranks are not computed before.
    rank_rests: Option<Instant>,
}

impl ControlWorker {
    fn run(&mut self) {
        let mut before = ((self.watched.snapshot)().totals, self.watched.queries.total());
        let mut ranked: Option<Instant> = None;
        let mut next = Instant::now() + STEP;
        while !self.stop.load(Ordering::SeqCst) {
            if Instant::now() < next {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            next += STEP;
            before = self.sample(before);
            if ranked.is_none_or(|at| at.elapsed() >= self.watched.rank_every) && self.rank() {
                ranked = Some(Instant::now());
            }
        }
    }

    fn sample(&mut self, before: (Totals, u64)) -> (Totals, u64) {
        let snapshot = (self.watched.snapshot)();
        let queries = self.watched.queries.total();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / STEP.as_secs_f64();
        let (classes, classes_before) = (snapshot.totals.by_class(), before.0.by_class());
        let (p50, p99) = self.watched.queries.percentiles();
        let (index_documents, index_bytes) = (self.watched.index)();
        let sample = Sample {
            at: SystemClock.now(),
            pages_per_second: rate(snapshot.totals.pages, before.0.pages),
            outcomes_per_second: std::array::from_fn(|i| rate(classes[i], classes_before[i])),
            queue: snapshot.queue,
            index_documents,
            index_bytes,
            queries_per_second: rate(queries, before.1),
            query_p50: p50,
            query_p99: p99,
            freshness: snapshot.freshness,
        };
        self.samples.push(sample);
        (snapshot.totals, queries)
    }

    /// Computes ranks where the graph has grown by a tenth since the last time and the last time is long enough ago;
    /// says whether it did.
    fn rank(&mut self) -> bool {
        let pages = self.watched.links.lock().counts().pages;
        if pages < self.ranked_pages + self.ranked_pages / 10 + 1 {
            return false;
        }
        if self.rank_rests.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let begun = Instant::now();
        let job = self.watched.links.lock().snapshot_for_ranks();
        let ranked = job.run(Budget::default()).and_then(|ranking| {
            let mut links = self.watched.links.lock();
            links.install(ranking.table)?;
            Ok(links.ranks())
        });
        match ranked {
            Ok(table) => {
                self.watched.ranks.set(table);
                self.ranked_pages = pages;
            }
            // A full disk, most likely; the ranks of before stay in use.
            Err(error) => tracing::warn!(error = %error, "ranks wait"),
        }
        self.rank_rests = Some(Instant::now() + begun.elapsed() * RANK_IDLE_FACTOR);
        true
    }
}
