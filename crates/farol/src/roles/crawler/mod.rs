//! Crawls: runs the [`core`] over an opened data folder.
//!
//! Life of a page here: a host is due and [`supply`] brings it to the frontier → the frontier leases it → [`visit`] asks
//! the server and interprets the answer, while [`under_way`] keeps the lease → the [`core`] archives it → [`intake`] has
//! [`crate::archive`] write what follows from it, and the fabric carries the document to the indexer.

mod agent;
mod core;
mod intake;
mod luggage;
mod seed_trouble;
mod supply;
mod sweep;
mod under_way;
mod visit;

use crate::archive::Opened;
use crate::config::{Config, DelayRuleKind};
use crate::disk::{OnFullDisk, is_full};
use crate::exchange::packer::{Packer, PackerSources};
use crate::folder::Folder;
use crate::handles::crawl::{CrawlHandle, CrawlSnapshot, Totals, is_open, set_full, set_open};
pub use agent::AgentSources;
use agent::AgentWork;
use anyhow::{Context, Result};
use core::{Core, Event};
use farol_base::status::EngineState;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Clock, SystemClock};
use farol_fetch::{FetchConfig, Fetcher, Override};
use farol_frontier::polite::{Constant, DelayRule, Density, DownloadTime};
use farol_frontier::{Frontier, Limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use under_way::UnderWay;
use visit::Visitor;

/// A crawl that runs on its own threads.
pub struct Crawler {
    sender: Sender<Event>,
    stopping: Arc<AtomicBool>,
    snapshot: Arc<Mutex<CrawlSnapshot>>,
    thread: Option<JoinHandle<Result<()>>>,
    // Dropped last: visits under way end with it.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Crawler {
    /// Starts crawling from these seeds, and from those of earlier runs.
    pub fn start(
        opened: Opened,
        folder: &Folder,
        config: Arc<Config>,
        seeds: &[CanonicalUrl],
        ends_when_done: bool,
    ) -> Result<Crawler> {
        Crawler::start_agent(opened, folder, config, seeds, ends_when_done, None)
    }

    /// The same as an agent of a cluster, if it is one.
    pub fn start_agent(
        opened: Opened,
        folder: &Folder,
        config: Arc<Config>,
        seeds: &[CanonicalUrl],
        ends_when_done: bool,
        agent: Option<AgentSources>,
    ) -> Result<Crawler> {
        let Opened { archive, mut followers, interpreter, .. } = opened;
        let is_recalled = match followers.recall(SystemClock.now()) {
            // The crawler's thread waits for room and tries again, while people are answered.
            Err(error) if is_full(&error) => false,
            recalled => recalled.map(|()| true)?,
        };
        for seed in seeds {
            followers.add_seed(seed)?;
            followers.wake_seed(seed, SystemClock.now())?;
        }
        followers.find_seeds()?;
        match followers.flush(archive.end()) {
            // The seeds wait in memory, and are written with what comes next.
            Err(error) if is_full(&error) => tracing::warn!("crawling waits for room on the disk: {error:#}"),
            flushed => flushed?,
        }
        let stopping = Arc::new(AtomicBool::new(false));
        let (sender, events) = channel();
        let snapshot = Arc::new(Mutex::new(CrawlSnapshot::default()));
        let runtime = runtime(&config)?;
        let now = SystemClock.now();
        let visitor = Visitor {
            fetcher: fetcher(&config)?,
            interpreter,
            archive: archive.reader(),
            compression: config.archive.compression,
            ids: AtomicU64::new(now.as_millis() << 20 ^ u64::from(std::process::id())),
        };
        let tables = followers.fabric.tables.clone();
        let crashed_before = is_open(&*tables)?.then_some(now);
        set_open(&*tables, true)?;
        let totals = Totals::read(&*followers.fabric.tables, followers.urls.counts().collected)?;
        let wait_for_room = || -> OnFullDisk {
            let (shown, stopping) = (snapshot.clone(), stopping.clone());
            Box::new(move |message| {
                set_full(&shown, message);
                !stopping.load(Ordering::SeqCst)
            })
        };
        followers.on_full_disk = wait_for_room();
        followers.linker.on_full_disk(wait_for_room());
        let agent = match agent {
            Some(sources) => {
                let told = sender.clone();
                let packer = Packer::start(PackerSources {
                    desk: sources.desk.clone(),
                    tables: followers.fabric.tables.clone(),
                    blobs: sources.blobs.clone(),
                    gate: sources.gate.clone(),
                    // The core has ended when nobody listens; the next one packs anew.
                    packed: Box::new(move |packed| drop(told.send(Event::Packed(packed)))),
                })?;
                Some(AgentWork::new(sources, packer))
            }
            None => None,
        };
        let mut core = Core {
            frontier: Frontier::new(delay_rule(&config), limits(&config)),
            archive,
            followers,
            visitor: Arc::new(visitor),
            runtime: runtime.handle().clone(),
            events,
            sender: sender.clone(),
            snapshot: snapshot.clone(),
            totals,
            ends_when_done,
            under_way: UnderWay::new(runtime.handle().clone(), sender.clone()),
            crashed_before,
            sent_away: 0,
            summed_up: Instant::now(),
            disk_path: folder.path().to_path_buf(),
            stopping: stopping.clone(),
            agent,
            config,
        };
        let (shown, asked_to_stop) = (snapshot.clone(), stopping.clone());
        let thread = std::thread::Builder::new().name("crawler".to_string()).spawn(move || {
            crate::process::be_nice();
            let recalled = if is_recalled { Ok(()) } else { core.recall() };
            let result = match recalled.and_then(|()| core.run()) {
                Err(error) if is_full(&error) && asked_to_stop.load(Ordering::SeqCst) => {
                    tracing::warn!(
                        "stopped on a full disk: what was not written is fetched again ({error:#})"
                    );
                    Ok(())
                }
                result => result,
            };
            if let Err(error) = &result {
                let mut snapshot = shown.lock();
                snapshot.state = EngineState::Failed;
                snapshot.message = format!("crawling stopped: {error:#}; search goes on, run `farol check`");
                tracing::error!(error = %format!("{error:#}"), "crawling stopped");
            }
            result
        })?;
        Ok(Crawler { sender, stopping, snapshot, thread: Some(thread), runtime: Some(runtime) })
    }

    /// The crawl at this moment.
    pub fn snapshot(&self) -> CrawlSnapshot {
        self.snapshot.lock().clone()
    }

    /// A way to talk to the crawl from elsewhere.
    pub fn handle(&self) -> CrawlHandle {
        let sender = self.sender.clone();
        CrawlHandle::new(self.snapshot.clone(), move |order| {
            sender.send(Event::Order(order)).map_err(|_| anyhow::anyhow!("the crawler has stopped"))
        })
    }

    /// Whether it has come to its end by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the crawl to end, waits until everything is written, and says how it went.
    pub fn stop(mut self) -> Result<()> {
        self.stopping.store(true, Ordering::SeqCst);
        // The core has already ended when nobody takes this.
        let _ = self.sender.send(Event::Stop);
        let result = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => {
                Err(anyhow::anyhow!("the crawler broke down; run `farol check`, then start again"))
            }
            None => Ok(()),
        };
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        result
    }
}

fn runtime(config: &Config) -> Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
    let threads = if config.crawl.threads == 0 { cores } else { config.crawl.threads };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("visit")
        .on_thread_start(crate::process::be_nice)
        .enable_all()
        .build()
        .context("cannot start the crawler's threads")
}

/// The door to the Web as the config describes it.
pub fn fetcher(config: &Config) -> Result<Fetcher> {
    let crawl = &config.crawl;
    let overrides: Result<Vec<Override>> = crawl
        .resolve
        .iter()
        .map(|text| text.parse().map_err(|error| anyhow::anyhow!("--resolve {text}: {error}")))
        .collect();
    let nameservers: Result<Vec<std::net::SocketAddr>> = crawl
        .nameservers
        .iter()
        .map(|text| {
            text.parse()
                .with_context(|| format!("crawl.nameservers: {text:?} is not ADDR:PORT, such as 9.9.9.9:53"))
        })
        .collect();
    let contact = &config.identity.contact;
    let fetch = FetchConfig {
        user_agent: config.user_agent(),
        from: (contact.contains('@') && !contact.contains(['\r', '\n'])).then(|| contact.clone()),
        connect_timeout: crawl.connect_timeout.get(),
        first_byte_timeout: crawl.first_byte_timeout.get(),
        total_timeout: crawl.total_timeout.get(),
        body_bytes_max: crawl.body_max.get(),
        allow_private: crawl.allow_private,
        overrides: overrides?,
        nameservers: nameservers?,
        idle_connections_max: idle_connections_max(config),
        http2: crawl.http2,
        accept_language: (!crawl.accept_language.is_empty()).then(|| crawl.accept_language.clone()),
        ..FetchConfig::default()
    };
    Fetcher::new(fetch).context("cannot open the door to the Web")
}

fn delay_rule(config: &Config) -> Box<dyn DelayRule> {
    let crawl = &config.crawl;
    match crawl.delay_rule {
        DelayRuleKind::Constant => Box::new(Constant(crawl.delay_min.get())),
        DelayRuleKind::DownloadTime => Box::new(DownloadTime::default()),
        DelayRuleKind::Density => Box::new(Density { longest: crawl.delay_max.get(), ..Density::default() }),
    }
}

/// Visits at a time: at most half of the files that may be open are connections of the crawler, the rest is for search,
/// index and stores.
fn visits_max(config: &Config) -> usize {
    config.crawl.concurrency.min(crate::process::files_max() / 2).max(1)
}

/// Connections kept open between visits: what is left of that half, 1,024 at most.
fn idle_connections_max(config: &Config) -> usize {
    let left = (crate::process::files_max() / 2).saturating_sub(visits_max(config));
    left.min(FetchConfig::default().idle_connections_max)
}

fn limits(config: &Config) -> Limits {
    Limits {
        hosts_max: config.crawl.hosts_max,
        in_flight_max: visits_max(config),
        delay_min: config.crawl.delay_min.get(),
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use farol_base::disk::{Faulty, Mem};
    use farol_store::urls::{Found, UrlStore, Veuni, VeuniOptions};
    use std::time::Instant;

    #[track_caller]
    fn wait_until(crawler: &Crawler, is_so: impl Fn(&CrawlSnapshot) -> bool) {
        let begun = Instant::now();
        while !is_so(&crawler.snapshot()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", crawler.snapshot().state);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_crawl_that_begins_on_a_full_disk_waits_for_room_and_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        let fabric = Fabric::local(&folder.tables()).unwrap();
        for is_room_made in [true, false] {
            let mut opened =
                crate::archive::open(&folder, &Config::default(), fabric.clone(), false).unwrap();
            let disk = Arc::new(Faulty::new(Arc::new(Mem::new())));
            let (mut urls, _) = Veuni::open(disk.clone(), VeuniOptions::default()).unwrap();
            let url = CanonicalUrl::parse("http://a.test/").unwrap();
            urls.found(&[Found { url, depth: 0, hint: None }]).unwrap();
            opened.followers.urls = Box::new(urls);
            disk.fill_up(0);
            let config = Arc::new(Config::default());
            let crawler = Crawler::start(opened, &folder, config, &[], false).unwrap();
            wait_until(&crawler, |snapshot| snapshot.state == EngineState::DiskFull);
            if is_room_made {
                disk.make_room();
                wait_until(&crawler, |snapshot| snapshot.state != EngineState::DiskFull);
            }
            crawler.stop().unwrap();
        }
    }
}
