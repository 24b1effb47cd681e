//! Keeps watch: samples for the dashboard, link ranks from time to time.

use crate::roles::crawler::keep::lock;
use crate::roles::crawler::view::View;
use crate::roles::indexer::Progress;
use farol_base::sync::{Mutex, RwLock};
use farol_base::{Clock, PageId, SystemClock};
use farol_front::{History, Sample};
use farol_links::{Budget, Links, RankTable};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two samples.
pub const STEP: Duration = Duration::from_secs(2);
/// Samples kept: 1,024 × 2 s = 34 minutes, 152 KiB.
const SAMPLES_MAX: usize = 1024;
/// Query times kept for the percentiles: 4,096 × 8 bytes.
const LATENCIES_MAX: usize = 4096;
/// So many times as long as computing ranks took, they are left alone: a growing crawl spends a fiftieth of a thread on them.
const RANK_RESTS: u32 = 50;

/// Times of answered queries.
#[derive(Default)]
pub struct Queries {
    total: AtomicU64,
    recent: Mutex<VecDeque<Duration>>,
}

impl Queries {
    pub fn took(&self, time: Duration) {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock();
        if recent.len() == LATENCIES_MAX {
            recent.pop_front();
        }
        recent.push_back(time);
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Times that half and 99 % of the recent queries took at most.
    pub fn percentiles(&self) -> (Duration, Duration) {
        let recent = self.recent.lock();
        let mut times: Vec<Duration> = recent.iter().copied().collect();
        drop(recent);
        times.sort_unstable();
        let at = |share: f64| {
            times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)))
        };
        (at(0.5).copied().unwrap_or_default(), at(0.99).copied().unwrap_or_default())
    }
}

/// Ranks that change under their readers' feet without disturbing them.
#[derive(Default)]
pub struct Ranks {
    table: RwLock<Option<Arc<RankTable>>>,
    version: AtomicU64,
}

impl Ranks {
    pub fn set(&self, table: Arc<RankTable>) {
        *self.table.write() = Some(table);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Grows with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The ranks of this moment, for one query.
    pub fn now(&self) -> RanksNow {
        RanksNow(self.table.read().clone())
    }
}

/// Ranks as the index asks for them.
pub struct RanksNow(Option<Arc<RankTable>>);

impl farol_index::Ranks for RanksNow {
    fn page(&self, page: PageId) -> f32 {
        self.0.as_ref().map_or(0.0, |table| table.page(page))
    }

    fn host(&self, host: &str) -> f32 {
        self.0.as_ref().map_or(0.0, |table| table.host(farol_base::HostHash::of(host)))
    }
}

/// What the watch looks at.
pub struct Watched {
    pub view: Box<dyn Fn() -> View + Send>,
    pub index: Option<Arc<Progress>>,
    pub queries: Arc<Queries>,
    pub links: Arc<Mutex<Links>>,
    pub ranks: Arc<Ranks>,
    pub rank_every: Duration,
}

/// The running watch.
pub struct Control {
    history: Arc<Mutex<VecDeque<Sample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    pub fn start(watched: Watched) -> std::io::Result<Control> {
        let history = Arc::new(Mutex::new(VecDeque::new()));
        let stop = Arc::new(AtomicBool::new(false));
        watched.ranks.set(lock(&watched.links).ranks());
        let mut work =
            Work { watched, history: history.clone(), stop: stop.clone(), ranked_pages: 0, rank_rests: None };
        let thread = std::thread::Builder::new().name("control".to_string()).spawn(move || {
            crate::process::be_nice();
            work.run();
        })?;
        Ok(Control { history, stop, thread: Some(thread) })
    }

    /// A way to read the samples from elsewhere.
    pub fn samples(&self) -> Samples {
        Samples(self.history.clone())
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

/// The samples taken so far.
#[derive(Clone)]
pub struct Samples(Arc<Mutex<VecDeque<Sample>>>);

impl Samples {
    pub fn history(&self) -> History {
        let samples = self.0.lock();
        History { step: STEP, samples: samples.iter().copied().collect() }
    }

    pub fn newest(&self) -> Sample {
        let samples = self.0.lock();
        samples.back().copied().unwrap_or_default()
    }
}

struct Work {
    watched: Watched,
    history: Arc<Mutex<VecDeque<Sample>>>,
    stop: Arc<AtomicBool>,
    ranked_pages: u64,
    /// Ranks are not computed before.
    rank_rests: Option<Instant>,
}

impl Work {
    fn run(&mut self) {
        let mut before = ((self.watched.view)().totals, self.watched.queries.total());
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

    fn sample(
        &mut self,
        before: (crate::roles::crawler::view::Totals, u64),
    ) -> (crate::roles::crawler::view::Totals, u64) {
        let view = (self.watched.view)();
        let queries = self.watched.queries.total();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / STEP.as_secs_f64();
        let (classes, classes_before) = (view.totals.by_class(), before.0.by_class());
        let (p50, p99) = self.watched.queries.percentiles();
        let searcher = self.watched.index.as_ref().map(|index| index.searcher());
        let sample = Sample {
            at: SystemClock.now(),
            pages_per_second: rate(view.totals.pages, before.0.pages),
            outcomes_per_second: std::array::from_fn(|i| rate(classes[i], classes_before[i])),
            queue: view.queue,
            index_documents: searcher.as_ref().map_or(0, |searcher| searcher.documents()),
            index_bytes: searcher.as_ref().map_or(0, |searcher| searcher.bytes_on_disk()),
            queries_per_second: rate(queries, before.1),
            query_p50: p50,
            query_p99: p99,
            freshness: view.freshness,
        };
        let mut history = self.history.lock();
        if history.len() == SAMPLES_MAX {
            history.pop_front();
        }
        history.push_back(sample);
        (view.totals, queries)
    }

    /// Computes ranks where the graph has grown by a tenth since the last time and the last time is long enough ago;
    /// says whether it did.
    fn rank(&mut self) -> bool {
        let pages = lock(&self.watched.links).counts().pages;
        if pages < self.ranked_pages + self.ranked_pages / 10 + 1 {
            return false;
        }
        if self.rank_rests.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let begun = Instant::now();
        let job = lock(&self.watched.links).snapshot_for_ranks();
        let ranked = job.run(Budget::default()).and_then(|ranking| {
            let mut links = lock(&self.watched.links);
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
        self.rank_rests = Some(Instant::now() + begun.elapsed() * RANK_RESTS);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_recent_queries() {
        let queries = Queries::default();
        assert_eq!(queries.percentiles(), (Duration::ZERO, Duration::ZERO));
        for millis in 1..=100 {
            queries.took(Duration::from_millis(millis));
        }
        assert_eq!(queries.percentiles(), (Duration::from_millis(51), Duration::from_millis(100)));
        for _ in 0..LATENCIES_MAX {
            queries.took(Duration::from_millis(7));
        }
        assert_eq!(queries.percentiles().1, Duration::from_millis(7));
        assert_eq!(queries.total(), 100 + LATENCIES_MAX as u64);
    }
}
