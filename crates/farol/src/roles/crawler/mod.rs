//! Crawls: opens what is on disk, brings it up to the archive, and runs the [core](core).
//!
//! Life of a page here: a host is due → the frontier leases it → [`visit`] asks the server and
//! [`reading`] reads the answer → the [core](core) archives it → [`keep`] writes what follows from it → the
//! fabric carries the document to the indexer.

pub mod core;
pub mod graph;
pub mod hosts;
pub mod keep;
mod linker;
pub mod orders;
pub mod reading;
pub mod replay;
pub mod revisit;
pub mod scope;
pub mod view;
mod visit;

use crate::config::{Config, DelayRuleKind};
use crate::fabric::Fabric;
use crate::folder::Folder;
use crate::roles::clicks::ClickBook;
use anyhow::{Context, Result};
use core::{Core, Event};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Clock, SystemClock};
use farol_fetch::{FetchConfig, Fetcher, Override};
use farol_frontier::polite::{Constant, DelayRule, Density, DownloadTime};
use farol_frontier::trap::TrapRules;
use farol_frontier::{Frontier, Limits};
use farol_links::{Links, LinksOptions};
use farol_parse::Wants;
use farol_store::pages::{Archive, ArchiveOptions, Recovery};
use farol_store::urls::veuni::url_order::Refresh;
use farol_store::urls::{Found, Veuni, VeuniOptions};
use keep::{Keep, Shapes};
use linker::Linker;
use orders::{Order, Orders};
use reading::Reader;
use revisit::Revisits;
use scope::Scope;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use view::{Totals, View};
use visit::Visitor;

/// The disk side of a crawl, opened and brought up to date.
pub struct Opened {
    pub archive: Archive,
    pub keep: Keep,
    pub orders: Orders,
    pub links: Arc<Mutex<Links>>,
    pub reader: Reader,
    /// What opening had to mend or read again, in sentences for the operator.
    pub notes: Vec<String>,
}

impl Opened {
    /// The crawl as it was left, for a process that does not crawl.
    pub fn view(&self) -> Result<View> {
        let counts = self.keep.urls.counts();
        Ok(View {
            state: farol_front::State::Serving,
            totals: Totals::read(&*self.keep.fabric, counts.collected)?,
            queue: counts.waiting,
            urls_known: counts.known,
            hosts_known: counts.hosts,
            archive_bytes: self.archive.bytes(),
            urls_bytes: counts.bytes_on_disk,
            links_bytes: keep::lock(&self.links).counts().bytes,
            ..View::default()
        })
    }
}

/// Opens everything in the folder. `indexing` says whether documents are taken from the fabric.
///
/// Parts of the URL store that cannot be opened are built anew from the archive.
pub fn open(folder: &Folder, config: &Config, fabric: Arc<dyn Fabric>, indexing: bool) -> Result<Opened> {
    let mut urls = open_urls(folder)?;
    let mut notes = Vec::new();
    let (archive, recovery) = open_archive(folder, config)?;
    if let Some(cut) = &recovery.cut {
        notes.push(format!(
            "the last run ended in the middle of a write: cut {} bytes off the end of WARC file {} at byte {}",
            cut.bytes, cut.file, cut.offset
        ));
    }
    let damage = urls.damage();
    let rebuilt = if damage.is_empty() { Vec::new() } else { urls.empty_damaged()? };
    let links = Links::open(crate::disk::at(&folder.links())?, LinksOptions::default())
        .with_context(|| format!("cannot open the link graph in {}", folder.links().display()))?;
    let links = Arc::new(Mutex::new(links));
    let orders = Orders::open(fabric.clone())?;
    let mut scope = Scope::new(config.crawl.scope);
    orders.removed().keys().for_each(|host| scope.remove_host(host.clone()));
    orders.seeds().iter().for_each(|seed| scope.add_seed(seed));
    let reader = Reader {
        agent: config.crawl.agent.clone(),
        wants: if indexing { Wants::Everything } else { Wants::LinksOnly },
    };
    let mut keep = Keep {
        urls: Box::new(urls),
        linker: Linker::start(links.clone())?,
        clicks: Arc::new(ClickBook::open(fabric.clone(), SystemClock.now())?),
        hosts: hosts::Hosts::open(fabric.clone(), &config.crawl.agent)?,
        fabric,
        scope,
        traps: trap_rules(config),
        shapes: Shapes::default(),
        revisits: Revisits::new(config),
        depth_max: config.crawl.max_depth,
        redirects_max: config.crawl.redirects_max,
        hops: HashMap::new(),
        indexing,
        only: None,
        on_full_disk: Box::new(|message| tracing::warn!("{message}")),
        now: SystemClock.now(),
    };
    if !rebuilt.is_empty() {
        let count = replay::rebuild(&archive.reader(), &mut keep, &reader, &orders, rebuilt)?;
        let files: Vec<String> = damage.into_iter().map(|damage| damage.file).collect();
        notes.push(format!(
            "{} of the URL store could not be read; read {count} pages of the archive to build it anew",
            files.join(", ")
        ));
    }
    let read_again = replay::catch_up(&archive.reader(), archive.end(), &mut keep, &reader, &orders)?;
    if read_again > 0 {
        notes.push(format!(
            "read {read_again} pages of the archive again that the last run had not finished with"
        ));
    }
    Ok(Opened { archive, keep, orders, links, reader, notes })
}

/// Opens the URL store.
pub fn open_urls(folder: &Folder) -> Result<Veuni> {
    // What is due again comes before what is new: prices see to it that there is room for both.
    let options = VeuniOptions { url_order: Arc::new(Refresh), ..VeuniOptions::default() };
    let (urls, _) = Veuni::open(crate::disk::at(&folder.urls())?, options)
        .with_context(|| format!("cannot open the URL store in {}", folder.urls().display()))?;
    Ok(urls)
}

fn open_archive(folder: &Folder, config: &Config) -> Result<(Archive, Recovery)> {
    let options = ArchiveOptions {
        file_bytes_max: config.archive.file_max.get(),
        software: format!("Farol/{}", env!("CARGO_PKG_VERSION")),
        operator: config.identity.operator.clone(),
        user_agent: config.user_agent(),
    };
    Archive::open(crate::disk::at(&folder.pages())?, options)
        .with_context(|| format!("cannot open the archive in {}", folder.pages().display()))
}

fn trap_rules(config: &Config) -> TrapRules {
    TrapRules {
        path_depth_max: config.crawl.path_depth_max,
        pages_per_host_max: config.crawl.pages_per_host_max,
        ..TrapRules::default()
    }
}

/// A crawl that runs on its own threads.
pub struct Crawler {
    sender: Sender<Event>,
    view: Arc<Mutex<View>>,
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
        let Opened { archive, mut keep, mut orders, reader, .. } = opened;
        keep.revisits.recall(&mut *keep.urls, SystemClock.now())?;
        for seed in seeds {
            orders.add_seed(seed)?;
            keep.scope.add_seed(seed);
        }
        let found =
            orders.seeds().iter().map(|seed| Found { url: seed.clone(), depth: 0, hint: None }).collect();
        keep.find(found)?;
        keep.flush(archive.end())?;
        let (sender, events) = channel();
        let view = Arc::new(Mutex::new(View::default()));
        let runtime = runtime(&config)?;
        let now = SystemClock.now();
        let visitor = Visitor {
            fetcher: fetcher(&config)?,
            reader,
            archive: archive.reader(),
            compression: config.archive.compression,
            pause: config.crawl.delay_min.get(),
            ids: AtomicU64::new(now.as_millis() << 20 ^ u64::from(std::process::id())),
        };
        let totals = Totals::read(&*keep.fabric, keep.urls.counts().collected)?;
        let shown = view.clone();
        keep.on_full_disk = Box::new(move |message| View::set_full(&shown, message));
        let shown = view.clone();
        keep.linker.on_full_disk(Box::new(move |message| View::set_full(&shown, message)));
        let mut core = Core {
            frontier: Frontier::new(delay_rule(&config), limits(&config)),
            archive,
            keep,
            orders,
            visitor: Arc::new(visitor),
            runtime: runtime.handle().clone(),
            events,
            sender: sender.clone(),
            view: view.clone(),
            totals,
            ends_when_done,
            in_flight: 0,
            disk_path: folder.path().to_path_buf(),
            config,
        };
        let shown = view.clone();
        let thread = std::thread::Builder::new().name("crawler".to_string()).spawn(move || {
            crate::process::be_nice();
            let result = core.run();
            if let Err(error) = &result {
                let mut view = shown.lock();
                view.state = farol_front::State::Failed;
                view.message = format!("crawling stopped: {error:#}; search goes on, run `farol check`");
                tracing::error!(error = %format!("{error:#}"), "crawling stopped");
            }
            result
        })?;
        Ok(Crawler { sender, view, thread: Some(thread), runtime: Some(runtime) })
    }

    /// The crawl at this moment.
    pub fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// A way to talk to the crawl from elsewhere.
    pub fn line(&self) -> Line {
        Line { sender: self.sender.clone(), view: self.view.clone() }
    }

    /// Whether it has come to its end by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the crawl to end, waits until everything is written, and says how it went.
    pub fn stop(mut self) -> Result<()> {
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

/// A way to talk to a running crawl.
#[derive(Clone)]
pub struct Line {
    sender: Sender<Event>,
    view: Arc<Mutex<View>>,
}

impl Line {
    pub fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// Gives an order; an error means that the crawl has ended.
    pub fn order(&self, order: Order) -> Result<()> {
        self.sender.send(Event::Order(order)).map_err(|_| anyhow::anyhow!("the crawler has stopped"))
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

fn limits(config: &Config) -> Limits {
    Limits {
        hosts_max: config.crawl.hosts_max,
        in_flight_max: config.crawl.concurrency,
        delay_min: config.crawl.delay_min.get(),
        ..Limits::default()
    }
}
