//! Opens a data folder: the archive, and all that follows it brought up to its end.

use super::confirmed::{self, Confirmed};
use super::followers::Followers;
use super::interpret::Interpreter;
use super::replay;
use crate::config::Config;
use crate::disk::is_full;
use crate::exchange::Exchange;
use crate::fabric::Fabric;
use crate::folder::Folder;
use crate::handles::crawl::{CrawlSnapshot, Totals};
use crate::handover::import::ParcelImporter;
use crate::progress::counted;
use anyhow::{Context, Result};
use farol_base::PagePosition;
use farol_base::status::EngineState;
use farol_base::sync::Mutex;
use farol_links::{Links, LinksOptions};
use farol_parse::Wants;
use farol_store::pages::{Archive, ArchiveOptions, Recovery, lengths};
use farol_store::urls::veuni::url_order::Refresh;
use farol_store::urls::{UrlStore, Veuni, VeuniOptions};
use std::sync::Arc;

/// The disk side of a crawl, opened and brought up to date.
pub struct Opened {
    pub archive: Archive,
    pub followers: Followers,
    pub links: Arc<Mutex<Links>>,
    pub interpreter: Interpreter,
    /// What opening had to mend or read again, in sentences for the operator.
    pub notes: Vec<String>,
    /// There was no room on the disk to bring everything up to the end of the archive.
    pub is_behind: bool,
}

impl Opened {
    /// The crawl as it was left, for a process that does not crawl.
    pub fn snapshot(&self) -> Result<CrawlSnapshot> {
        let counts = self.followers.urls.counts();
        Ok(CrawlSnapshot {
            state: EngineState::Serving,
            totals: Totals::read(&*self.followers.fabric.tables, counts.collected)?,
            queue: counts.waiting,
            urls_known: counts.known,
            hosts_known: counts.hosts,
            archive_bytes: self.archive.bytes(),
            urls_bytes: counts.bytes_on_disk,
            links_bytes: self.links.lock().counts().bytes,
            seeds: Arc::new(self.followers.seeds.summary()),
            ..CrawlSnapshot::default()
        })
    }
}

/// Opens everything in the folder. `indexing` says whether documents are taken from the fabric.
///
/// Parts of the URL store that cannot be opened are built anew from the archive. Where the archive itself has
/// become shorter, it goes on in a new file: what is lost is lost, and no position is used for another page.
pub fn open(folder: &Folder, config: &Config, fabric: Fabric, indexing: bool) -> Result<Opened> {
    open_in_cluster(folder, config, fabric, indexing, None)
}

/// The same for an agent of a cluster, where what is found may be another's.
pub fn open_in_cluster(
    folder: &Folder,
    config: &Config,
    fabric: Fabric,
    indexing: bool,
    exchange: Option<Exchange>,
) -> Result<Opened> {
    let mut notes = Vec::new();
    let mut urls = open_or_renew_urls(folder, &mut notes)?;
    let links = open_links(folder)?;
    let confirmed = Confirmed::read(&*fabric.tables, [urls.watermark(), links.watermark()])?;
    let files = lengths(&*crate::disk::at(&folder.pages())?)?;
    let lost = confirmed.lost(&files);
    confirmed::remember(&*fabric.tables, &lost)?;
    notes.extend(lost.iter().map(|lost| {
        format!(
            "{lost}; copies of the pages behind that are lost, search still finds them, and crawling goes on in a new \
             file. `farol check --repair` has them fetched again"
        )
    }));
    let (archive, recovery) = open_archive(folder, config, confirmed.upto)?;
    if let Some(cut) = &recovery.cut {
        notes.push(format!(
            "the last run ended in the middle of a write: cut {} bytes off the end of WARC file {} at byte {}",
            cut.bytes, cut.file, cut.offset
        ));
    }
    let damage = urls.damage();
    let rebuilt = if damage.is_empty() { Vec::new() } else { urls.empty_damaged()? };
    let links = Arc::new(Mutex::new(links));
    let mut followers = Followers::open(config, Box::new(urls), links.clone(), fabric, indexing)?;
    let view = followers.view();
    // A view of languages or titles decides by the text which links are followed, whoever indexes it.
    let reads_all = indexing || view.as_ref().is_some_and(|view| view.needs_visit());
    let interpreter = Interpreter {
        agent: config.crawl.agent.clone(),
        wants: if reads_all { Wants::Everything } else { Wants::LinksOnly },
        view,
    };
    let received = followers.received();
    if let Some(mut exchange) = exchange {
        exchange.resume(received);
        followers.exchange = Some(exchange);
        let numbers = followers.urls.numbers();
        followers.importer = Some(ParcelImporter::open(followers.fabric.tables.clone(), &numbers)?);
    }
    let bring_up = || -> Result<()> {
        if !rebuilt.is_empty() {
            let count = replay::rebuild(&archive.reader(), &mut followers, &interpreter, rebuilt)?;
            let files: Vec<String> = damage.into_iter().map(|damage| damage.file).collect();
            notes.push(format!(
                "{} of the URL store could not be read; read {} of the archive to build it anew",
                files.join(", "),
                counted(count, "page")
            ));
        }
        let read_again = replay::catch_up(&archive.reader(), archive.end(), &mut followers, &interpreter)?;
        if read_again > 0 {
            notes.push(format!(
                "read {} of the archive again that the last run had not finished with",
                counted(read_again, "page")
            ));
        }
        followers.confirm(&archive)
    };
    let is_behind = match bring_up() {
        Err(error) if is_full(&error) => {
            notes.push(format!(
                "no room on the disk to take in the newest pages: {error:#}; make room and start again"
            ));
            true
        }
        result => result.map(|()| false)?,
    };
    Ok(Opened { archive, followers, links, interpreter, notes, is_behind })
}

/// Opens the URL store, or begins it anew where no part of it can be trusted.
fn open_or_renew_urls(folder: &Folder, notes: &mut Vec<String>) -> Result<Veuni> {
    match open_urls(folder) {
        Err(error) if is_damage(&error) => {
            notes.push(format!("{error:#}; the URL store is built anew from the archive"));
            Veuni::remove_all(&*crate::disk::at(&folder.urls())?)?;
            open_urls(folder)
        }
        result => result,
    }
}

/// Whether a store's file is damaged or gone, rather than out of reach for now.
pub fn is_damage(error: &anyhow::Error) -> bool {
    let of_store = error.downcast_ref::<farol_store::Error>().is_some_and(farol_store::Error::is_damage);
    of_store || matches!(error.downcast_ref(), Some(farol_links::Error::Damaged { .. }))
}

/// Opens the link graph.
pub fn open_links(folder: &Folder) -> Result<Links> {
    Links::open(crate::disk::at(&folder.links())?, LinksOptions::default()).with_context(|| {
        format!(
            "cannot open the link graph in {}; run `farol check --repair` if it is damaged",
            folder.links().display()
        )
    })
}

/// Opens the URL store.
pub fn open_urls(folder: &Folder) -> Result<Veuni> {
    // What is due again comes before what is new: prices see to it that there is room for both.
    let options = VeuniOptions { url_order: Arc::new(Refresh), ..VeuniOptions::default() };
    let (urls, _) = Veuni::open(crate::disk::at(&folder.urls())?, options)
        .with_context(|| format!("cannot open the URL store in {}", folder.urls().display()))?;
    Ok(urls)
}

fn open_archive(folder: &Folder, config: &Config, confirmed: PagePosition) -> Result<(Archive, Recovery)> {
    let options = ArchiveOptions {
        file_bytes_max: config.archive.file_max.get(),
        software: format!("Farol/{}", env!("CARGO_PKG_VERSION")),
        operator: config.identity.operator.clone(),
        user_agent: config.user_agent(),
        confirmed,
    };
    Archive::open(crate::disk::at(&folder.pages())?, options)
        .with_context(|| format!("cannot open the archive in {}", folder.pages().display()))
}
