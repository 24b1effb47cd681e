//! Puts the roles of one process together.

use crate::admin_key;
use crate::config::Config;
use crate::fabric::Fabric;
use crate::folder::{Folder, FolderLock};
use crate::handles::crawl::{CrawlHandle, CrawlSnapshot};
use crate::handles::index::LocalIndex;
use crate::handles::queries::Queries;
use crate::handles::ranks::Ranks;
use crate::handles::still::StillCrawl;
use crate::roles::control::{Control, Watched};
use crate::roles::crawler::Crawler;
use crate::roles::federation::{self, FederationParts, FederationRole};
use crate::roles::front::{self, LiveEngine, Orders, ResultCache, RuleFiles};
use crate::roles::indexer::{Indexer, Sources};
use anyhow::Result;
use farol_base::{CanonicalUrl, Clock, SystemClock};
use farol_index::ShardOptions;
use std::net::SocketAddr;
use std::sync::Arc;

/// Which roles run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    pub crawl: bool,
    pub index: bool,
    pub serve: bool,
    /// It shares with engines of other owners, where the settings say so.
    pub federates: bool,
    /// The crawl ends by itself when there is nothing left to do.
    pub ends_when_done: bool,
}

/// A running engine.
pub struct Running {
    crawler: Option<Crawler>,
    /// What an earlier crawl has left, where none runs.
    still: Option<Arc<StillCrawl>>,
    indexer: Option<Indexer>,
    federation: Option<FederationRole>,
    control: Option<Control>,
    engine: Option<Arc<LiveEngine>>,
    /// The crawl as it was before this run.
    last_snapshot: CrawlSnapshot,
    /// What opening the folder had to mend.
    pub notes: Vec<String>,
    folder: Folder,
    config: Arc<Config>,
    // Given back last.
    _lock: FolderLock,
}

/// Where people are answered.
pub struct Listening {
    pub address: SocketAddr,
    /// The link that opens the dashboard.
    pub dashboard: String,
}

impl Running {
    /// Opens the folder and starts the roles.
    pub fn start(folder: Folder, config: Config, seeds: &[CanonicalUrl], roles: Roles) -> Result<Running> {
        if roles.serve {
            crate::process::answers_people();
        }
        let config = Arc::new(config);
        let lock = folder.lock()?;
        let fabric = Fabric::local(&folder.tables())?;
        let mut opened = crate::archive::open(&folder, &config, fabric.clone(), roles.index)?;
        let (links, archive, mut notes) =
            (opened.links.clone(), opened.archive.reader(), opened.notes.clone());
        // Searching needs no room; crawling without room would only fall further behind.
        let crawls = roles.crawl && !opened.is_behind;
        if opened.is_behind && !roles.serve {
            anyhow::bail!("{}", notes.join("; "));
        }
        if roles.crawl && !crawls {
            notes.push("search goes on, crawling does not begin".to_string());
        }
        if crawls {
            notes.extend(opened.followers.compare_settings(&config, seeds, SystemClock.now())?);
        }
        let indexer = match roles.index {
            true => Some(Indexer::start(Sources {
                dir: folder.index(),
                options: ShardOptions {
                    writer_memory_bytes: usize::try_from(config.index.memory.get()).unwrap_or(usize::MAX),
                    ..ShardOptions::default()
                },
                fabric: fabric.clone(),
                links: links.clone(),
                archive: archive.clone(),
                interpreter: opened.interpreter.clone(),
                commit_every: config.index.commit_every.get(),
            })?),
            false => None,
        };
        let last_snapshot = opened.snapshot()?;
        let left = opened.followers.left.clone();
        let (clicks, interpreter) = (opened.followers.clicks.clone(), opened.interpreter.clone());
        let (crawler, still) = match crawls {
            true => {
                let crawler = Crawler::start(opened, &folder, config.clone(), seeds, roles.ends_when_done)?;
                (Some(crawler), None)
            }
            false => (None, Some(Arc::new(StillCrawl::new(opened, folder.path().to_path_buf())))),
        };
        let crawl = crawler.as_ref().map(Crawler::handle);
        let (queries, ranks) = (Arc::new(Queries::default()), Arc::new(Ranks::default()));
        let control = Control::start(Watched {
            snapshot: snapshots(crawl.clone(), last_snapshot.clone()),
            index: sizes(indexer.as_ref()),
            queries: queries.clone(),
            links: links.clone(),
            ranks: ranks.clone(),
            rank_every: config.index.rank_every.get(),
        })?;
        // Who only answers one question of a command must not take the door from the engine that runs.
        let federation = match roles.federates {
            true => FederationRole::start(FederationParts {
                config: config.clone(),
                folder: folder.path().to_path_buf(),
                tables: fabric.tables.clone(),
                seeds: federation::seeds_of(&*fabric.tables)?,
                left,
                archive: archive.clone(),
                interpreter: interpreter.clone(),
                orders: orders(crawl.clone(), still.clone()),
                is_outdated: outdated(indexer.as_ref()),
            })?,
            false => None,
        };
        let rules = RuleFiles::open(&config.search)?;
        let engine = indexer.as_ref().filter(|_| roles.serve).map(|indexer| {
            Arc::new(LiveEngine {
                config: config.clone(),
                index: Arc::new(LocalIndex {
                    progress: indexer.progress(),
                    ranks,
                    hits_per_host: config.serve.hits_per_host,
                }),
                queries,
                samples: control.samples(),
                rules,
                cache: ResultCache::new(&config.cache),
                ring: None,
                archive,
                links,
                interpreter,
                clicks,
                orders: orders(crawl.clone(), still.clone()),
                crawl,
                cluster: None,
                federation: federation.as_ref().map(FederationRole::face),
                started: SystemClock.now(),
                last_snapshot: last_snapshot.clone(),
                disk_path: folder.path().to_path_buf(),
            })
        });
        Ok(Running {
            crawler,
            still,
            indexer,
            federation,
            control: Some(control),
            engine,
            last_snapshot,
            notes,
            folder,
            config,
            _lock: lock,
        })
    }

    /// Listens for people; returns where.
    pub async fn listen(&self) -> Result<Option<Listening>> {
        let Some(engine) = &self.engine else { return Ok(None) };
        listen(engine, &self.folder, &self.config, self.crawler.is_some()).await.map(Some)
    }

    /// Where engines of other owners reach this one.
    pub fn federation_address(&self) -> Option<String> {
        self.federation.as_ref().map(FederationRole::address)
    }

    /// The crawl at this moment.
    pub fn snapshot(&self) -> CrawlSnapshot {
        match &self.crawler {
            Some(crawler) => crawler.snapshot(),
            None => self.last_snapshot.clone(),
        }
    }

    /// Pages that can be found.
    pub fn documents(&self) -> Option<u64> {
        self.indexer.as_ref().map(|indexer| indexer.progress().searcher().documents())
    }

    /// Whether everything archived before the start can be found.
    pub fn caught_up(&self) -> bool {
        let progress = self.indexer.as_ref().map(Indexer::progress);
        progress.is_none_or(|progress| progress.caught_up.load(std::sync::atomic::Ordering::SeqCst))
    }

    /// Whether the crawl has come to its end.
    pub fn is_finished(&self) -> bool {
        self.crawler.as_ref().is_some_and(Crawler::is_finished)
    }

    /// Ends everything in order: what was fetched is written, what was written is indexed.
    pub fn stop(mut self) -> Result<()> {
        drop(self.control.take());
        self.federation.take().into_iter().for_each(FederationRole::stop);
        let crawled = self.crawler.take().map_or(Ok(()), Crawler::stop);
        let crawled = crawled.and(self.still.take().map_or(Ok(()), |still| still.close()));
        let indexed = self.indexer.take().map_or(Ok(()), Indexer::stop);
        let clicked = match self.engine.as_ref().map_or(Ok(()), |engine| engine.clicks.flush()) {
            Err(error) if crate::disk::is_full(&error) => {
                tracing::warn!("the last clicks are lost: {error:#}");
                Ok(())
            }
            result => result,
        };
        crawled.and(indexed).and(clicked)
    }
}

/// Has an engine answer people; `crawls` says whether orders to the crawl make sense.
pub async fn listen(
    engine: &Arc<LiveEngine>,
    folder: &Folder,
    config: &Config,
    crawls: bool,
) -> Result<Listening> {
    let wanted = &config.serve.listen;
    let listener = tokio::net::TcpListener::bind(wanted).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "something else listens on {wanted} already; choose another with --listen 127.0.0.1:PORT"
            )
        }
        std::io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("not allowed to listen on {wanted}; choose a port above 1023 with --listen")
        }
        _ => {
            anyhow::anyhow!("cannot listen on {wanted} ({error}); choose an address with --listen ADDR:PORT")
        }
    })?;
    let address = listener.local_addr()?;
    let token = admin_key::draw(folder.path(), config)?;
    let dashboard = admin_key::dashboard(address, config, &token);
    let settings = front::settings(config, token, crawls);
    tokio::spawn(farol_front::serve(listener, engine.clone(), settings));
    if let Err(error) = folder.announce(address) {
        tracing::warn!("other commands will not find this engine: {error:#}");
    }
    Ok(Listening { address, dashboard })
}

/// Tells whether the index has a newer version of a page than the one at a position of the archive.
fn outdated(indexer: Option<&Indexer>) -> federation::IsOutdated {
    let Some(progress) = indexer.map(Indexer::progress) else { return Arc::new(|_, _| false) };
    Arc::new(move |url, position| {
        let found = progress.searcher().document(url);
        found.is_ok_and(|found| found.is_some_and(|document| document.position > position))
    })
}

/// How large the index is at any moment.
fn sizes(indexer: Option<&Indexer>) -> Box<dyn Fn() -> (u64, u64) + Send> {
    match indexer.map(Indexer::progress) {
        Some(progress) => Box::new(move || {
            let searcher = progress.searcher();
            (searcher.documents(), searcher.bytes_on_disk())
        }),
        None => Box::new(|| (0, 0)),
    }
}

/// Where questions and orders go.
pub fn orders(crawl: Option<CrawlHandle>, still: Option<Arc<StillCrawl>>) -> Orders {
    Arc::new(move |order| match (&crawl, &still) {
        (Some(crawl), _) => crawl.order(order),
        (None, Some(still)) => still.order(order),
        (None, None) => anyhow::bail!("the engine is stopping"),
    })
}

/// The crawl at any moment: of a running one as it is, otherwise as it was left.
pub fn snapshots(crawl: Option<CrawlHandle>, last: CrawlSnapshot) -> Box<dyn Fn() -> CrawlSnapshot + Send> {
    match crawl {
        Some(crawl) => Box::new(move || crawl.snapshot()),
        None => Box::new(move || last.clone()),
    }
}
