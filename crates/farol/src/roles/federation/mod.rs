//! Shares the Web with engines of other owners: agreements, and pages that travel under them.
//!
//! The life of a shared part here: a letter comes in at the door ([`answers`]), or an operator orders something ([`orders`]);
//! the [`keeper`] of the book takes it in, writes down what follows, and has letters sent ([`post`]). Where we provide, the
//! distribution agent ([`ship`]) follows the archive, packs what is new, and sends it ([`push`]) or keeps it to be fetched
//! ([`serve`]). Where we are the consumer, packets are checked and taken in ([`receive`]), fetched where that was agreed
//! ([`pull`]), and the crawl passes over what is left to others ([`crate::handles::left`]).
//!
//! INVARIANT: nothing here holds up indexing or crawling: the distribution agent reads the archive behind them, and all that
//! goes to a partner waits on the disk, within a bound.

mod answers;
mod files;
mod fill;
mod gather;
mod intake;
mod keeper;
mod orders;
mod partner_desk;
mod partners;
mod post;
mod pull;
mod purge;
mod push;
mod receive;
mod serve;
mod ship;
mod ship_mark;
mod status;

use crate::archive::interpret::Interpreter;
use crate::config::{Config, CrawlScope, ScopeKind};
use crate::fabric::{Table, Tables};
use crate::federation::call::EngineCalls;
use crate::federation::door;
use crate::federation::key::EngineKey;
use crate::federation::tls::TlsIdentity;
use crate::handles::federation::FederationFace;
use crate::handles::left::LeftParts;
use crate::handles::order::Order;
use anyhow::{Context, Result, bail};
use farol_base::CanonicalUrl;
use farol_base::sync::{Mutex, RwLock};
use farol_federation::View;
use farol_federation::agreement::{Book, Rules, Timers};
use farol_federation::message::Card;
use farol_front::{EngineError, FederationOrder, FederationStatus};
use farol_store::pages::ArchiveReader;
pub use gather::IsOutdated;
use gather::PageGatherer;
use intake::Intake;
use keeper::{Keeper, PartnerEvent};
use orders::Ordered;
use partner_desk::PartnerDesk;
use ship::{Shipped, Shipper};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an order may wait for its turn.
const ORDER_MAX: Duration = Duration::from_secs(8);
/// Threads for the door and for calls.
const THREADS: usize = 2;

/// What the role is given.
pub struct FederationParts {
    pub config: Arc<Config>,
    /// The data folder.
    pub folder: PathBuf,
    pub tables: Arc<dyn Tables>,
    /// Seeds of all runs, which say what a crawl around its seeds is about.
    pub seeds: Vec<CanonicalUrl>,
    /// Where it is said what is left to others.
    pub left: LeftParts,
    pub archive: ArchiveReader,
    pub interpreter: Interpreter,
    /// Takes orders to the crawl.
    pub orders: Arc<dyn Fn(Order) -> Result<()> + Send + Sync>,
    /// Tells whether the index has a newer version of a page.
    pub is_outdated: IsOutdated,
}

/// The role, running.
pub struct FederationRole {
    desk: Arc<PartnerDesk>,
    keeper: Option<JoinHandle<()>>,
    shipper: Option<JoinHandle<()>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl FederationRole {
    /// Opens the door and takes up what earlier runs have left; `None` where federation is off.
    pub fn start(parts: FederationParts) -> Result<Option<FederationRole>> {
        let settings = &parts.config.federation;
        if !settings.enabled {
            return Ok(None);
        }
        let key = EngineKey::read_or_draw(&parts.folder)?;
        let identity = TlsIdentity::of(&key)?;
        let tls = if settings.behind_proxy { None } else { Some(identity.server()?) };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("federation")
            .on_thread_start(crate::process::be_nice)
            .enable_all()
            .build()
            .context("cannot start the threads of federation")?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(&settings.listen)).with_context(|| {
            format!(
                "cannot listen for other engines on {}; set listen under [federation] to another ADDRESS:PORT",
                settings.listen
            )
        })?;
        let bound = listener.local_addr()?;
        let address = match settings.address.as_str() {
            "" => format!("https://{bound}"),
            address => address.trim_end_matches('/').to_string(),
        };
        let view = view_of(&parts.config, &parts.seeds)?;
        let card = Card {
            name: parts.config.identity.name.clone(),
            address: address.clone(),
            behind_proxy: settings.behind_proxy,
            view: view.clone(),
            agent: parts.config.crawl.agent.clone(),
            contact: parts.config.identity.contact.clone(),
        };
        let (me, (events, heard)) = (key.id(), channel());
        let (shipped, to_ship) = channel();
        let status = FederationStatus {
            id: me.to_string(),
            name: card.name.clone(),
            address,
            view: view.to_string(),
            ..FederationStatus::default()
        };
        let desk = Arc::new(PartnerDesk {
            calls: EngineCalls::new(identity, parts.config.crawl.allow_private),
            key,
            folder: parts.folder.join("federation"),
            tables: parts.tables,
            seen: Mutex::default(),
            events: Mutex::new(events),
            told: RwLock::default(),
            flows: Mutex::default(),
            fills: Mutex::default(),
            turns: Mutex::default(),
            unpacking: Mutex::default(),
            intake: Intake { orders: parts.orders },
            shipped: Mutex::new(shipped),
            refused: Mutex::default(),
            status: RwLock::new(Arc::new(status)),
            card: card.to_json(),
            config: parts.config.clone(),
        });
        let settings = &parts.config.federation;
        let timers = Timers { takeback_after: settings.takeback_after.get(), ..Timers::default() };
        let book = Book::new(me, view, timers, Rules::default());
        let places = parts.left.places().cloned();
        let keeper = {
            // What it sends at once needs the runtime.
            let _entered = runtime.enter();
            Keeper::open(desk.clone(), book, parts.left, runtime.handle().clone())?
        };
        let thread = std::thread::Builder::new().name("agreements".to_string()).spawn(move || {
            crate::process::be_nice();
            keeper.run(heard);
        })?;
        let offers_copies = !parts.config.identity.public_url.is_empty();
        let gatherer =
            PageGatherer::new(me, parts.archive, places, parts.interpreter, offers_copies, parts.is_outdated);
        let shipper = Shipper::new(desk.clone(), runtime.handle().clone(), gatherer)?;
        let shipping = std::thread::Builder::new().name("distribution".to_string()).spawn(move || {
            crate::process::be_nice();
            shipper.run(to_ship);
        })?;
        pull::start(desk.clone(), runtime.handle());
        let answering: door::Answering = {
            let desk = desk.clone();
            Arc::new(move |asked| Box::pin(answers::answer(desk.clone(), asked)))
        };
        let counting: door::Counting = {
            let desk = desk.clone();
            Arc::new(move |why| desk.refuse(why))
        };
        runtime.block_on(async { door::open(listener, tls, answering, counting) });
        tracing::info!(id = %me, address = %bound, "other engines are listened to");
        Ok(Some(FederationRole {
            desk,
            keeper: Some(thread),
            shipper: Some(shipping),
            runtime: Some(runtime),
        }))
    }

    /// A way to look at it and to give orders from elsewhere.
    pub fn face(&self) -> FederationFace {
        let (shown, ordered, counted) = (self.desk.clone(), self.desk.clone(), self.desk.clone());
        FederationFace {
            status: Arc::new(move || FederationStatus {
                card: answers::card(&shown),
                ..(**shown.status.read()).clone()
            }),
            order: Arc::new(move |order| give(&ordered, order)),
            metrics: Arc::new(move || status::metrics(&counted.status.read().clone())),
        }
    }

    /// Where it listens, for people.
    pub fn address(&self) -> String {
        self.desk.status.read().address.clone()
    }

    /// Ends it; what waits for partners waits on the disk.
    pub fn stop(mut self) {
        self.desk.tell(PartnerEvent::Stop);
        self.desk.ship(Shipped::Stop);
        // A thread that broke down has nothing more to write.
        let threads = [self.keeper.take(), self.shipper.take()];
        threads.into_iter().flatten().for_each(|thread| drop(thread.join()));
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

fn give(desk: &PartnerDesk, order: FederationOrder) -> Result<String, EngineError> {
    let (reply, answer) = sync_channel(1);
    if !desk.tell(PartnerEvent::Ordered(Ordered::New(order, reply))) {
        return Err(EngineError::Unavailable("the engine is stopping".into()));
    }
    answer.recv_timeout(ORDER_MAX).map_err(|_| {
        EngineError::Unavailable(
            "no answer came in time; `farol federation status` shows what came of it".into(),
        )
    })?
}

/// The pages that an engine is about: as its settings say, or what it crawls.
pub fn view_of(config: &Config, seeds: &[CanonicalUrl]) -> Result<View> {
    if !config.federation.view.is_empty() {
        return View::parse(&config.federation.view).map_err(|error| anyhow::anyhow!("{}", error.pointed()));
    }
    let kind = match &config.crawl.scope {
        CrawlScope::Pages(view) => return Ok(view.clone().within_limits()?),
        CrawlScope::Listed(file) => {
            bail!("set view under [federation]: the list of {} is not told to other engines", file.display())
        }
        CrawlScope::Around(kind) => *kind,
    };
    let text = |seed: &CanonicalUrl| match kind {
        ScopeKind::Domain => format!("domain:{}", seed.host().registrable_domain()),
        ScopeKind::Prefix => {
            let end = seed.path().rfind('/').unwrap_or(0);
            format!(
                "prefix:{}{}",
                seed.host().as_str().split("//").last().unwrap_or_default(),
                &seed.path()[..end]
            )
        }
        ScopeKind::Host | ScopeKind::Web => {
            format!("host:{}", seed.host().as_str().split("//").last().unwrap_or_default())
        }
    };
    if kind == ScopeKind::Web {
        return Ok(View::all());
    }
    let mut view = View::none();
    for seed in seeds {
        let part =
            View::parse(&text(seed)).with_context(|| format!("what {seed} stands for cannot be told"))?;
        view = view.or(&part);
    }
    view.within_limits()
        .context("set view under [federation]: the seeds are too many to be told to other engines")
}

/// Seeds of all runs.
pub fn seeds_of(tables: &dyn Tables) -> Result<Vec<CanonicalUrl>> {
    let orders = tables.scan(Table::Orders)?;
    let seeds = orders.iter().filter_map(|(key, _)| key.strip_prefix("seed "));
    Ok(seeds.filter_map(|seed| CanonicalUrl::parse(seed).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_about_what_it_crawls() {
        let seeds =
            ["https://www.a.co.uk/docs/x", "http://b.org:8080/"].map(|url| CanonicalUrl::parse(url).unwrap());
        let about = |toml: &str| {
            let config = Config::parse(toml).unwrap();
            view_of(&config, &seeds).map(|view| view.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(about("").unwrap(), "host:b.org:8080 or host:www.a.co.uk");
        assert_eq!(about("[crawl]\nscope = 'domain'").unwrap(), "domain:a.co.uk or domain:b.org");
        assert_eq!(about("[crawl]\nscope = 'prefix'").unwrap(), "host:b.org:8080 or prefix:www.a.co.uk/docs");
        assert_eq!(about("[crawl]\nscope = 'web'").unwrap(), "all");
        assert_eq!(about("[crawl]\nscope = '.pt'").unwrap(), "domain:pt");
        assert_eq!(about("[federation]\nview = '.br'").unwrap(), "domain:br");
        assert!(about("[crawl]\nscope = '@hosts'").unwrap_err().contains("set view under [federation]"));
    }
}
