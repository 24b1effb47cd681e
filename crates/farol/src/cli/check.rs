//! `farol check`: reads everything in a data folder and says what is wrong with it.
//!
//! Only the archive cannot be built again from something else. With `--repair` whatever else is damaged is
//! removed, for the next start to build it anew from the pages; and what the archive has lost is noted, so that
//! the next crawl fetches it again.
//!
//! PROMISE: "fine" means that nothing is lost. Checking needs no room on the disk.

use super::Place;
use crate::archive::confirmed::{self, Confirmed, LostPages};
use crate::archive::position::read_position;
use crate::archive::{is_damage, open_links, open_urls};
use crate::disk::is_full;
use crate::fabric::{LocalTables, Table, Tables};
use crate::folder::Folder;
use crate::progress::counted;
use anyhow::{Context, Result, anyhow, bail, ensure};
use farol_base::{CanonicalUrl, Clock, PagePosition, SystemClock};
use farol_index::Searcher;
use farol_links::Links;
use farol_store::pages::{Archive, ArchiveOptions, file_number, lengths};
use farol_store::urls::{Found, UrlStore, Veuni, Walk};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Check {
    #[command(flatten)]
    place: Place,
    /// Remove what is damaged, so that the next start builds it anew from the archived pages; of the archive
    /// itself note what is lost, so that the next crawl fetches it again
    #[arg(long)]
    repair: bool,
}

/// Characters of an error that are told: three lines of a terminal.
const ERROR_CHARS_MAX: usize = 240;

const REPAIR: &str =
    "Run `farol check --repair`, then start again: what is damaged is built anew from the pages.";

/// What the check found so far.
#[derive(Default)]
struct CheckReport {
    damaged: bool,
}

impl CheckReport {
    fn say(&mut self, part: &str, result: Result<String>, advice: &str) {
        match result {
            Ok(text) => println!("{part:<8} fine: {text}"),
            Err(error) if is_full(&error) => {
                self.damaged = true;
                println!("{part:<8} not checked, for want of room on the disk: {error:#}");
            }
            Err(error) => {
                self.damaged = true;
                println!("{part:<8} DAMAGED: {}\n         {advice}", short(&error));
            }
        }
    }
}

pub fn run(args: &Check) -> Result<ExitCode> {
    let folder = match args.repair {
        true => {
            let (folder, mended) = Folder::open_and_mend(&args.place.data)?;
            if mended {
                println!("folder   marked as Farol's again");
            }
            folder
        }
        false => Folder::open(&args.place.data)?,
    };
    let _lock = folder.lock()?;
    if args.repair {
        return repair(&folder);
    }
    let mut report = CheckReport::default();
    if let Some(mode) = folder.is_open_to_others() {
        let path = folder.path().display();
        println!("folder   open to others on this machine (mode {mode:o}); `chmod -R go= {path}` closes it");
    }
    let tables = open_tables(&folder);
    let mut urls = open_urls(&folder);
    let links = open_links(&folder);
    let scanned = scan(&folder, &tables, &urls, &links);
    let end = scanned.as_ref().map_or(PagePosition::default(), |scanned| scanned.end);
    report.say(
        "pages",
        scanned.as_ref().map_err(|error| anyhow!("{error:#}")).and_then(Scanned::tell),
        "Run `farol check --repair`, then crawl on: lost pages are fetched again; the others are fine.",
    );
    let pages = scanned.as_ref().map_or(&[][..], |scanned| &scanned.pages);
    report.say("urls", as_mut(&mut urls).and_then(|urls| check_urls(urls, pages, end)), REPAIR);
    report.say("links", links.and_then(|links| check_links(&links, end)), REPAIR);
    report.say("index", check_index(&folder, end), REPAIR);
    let advice = "Run `farol check --repair`, then name your seeds again; hosts are read from the pages.";
    report.say("tables", tables.and_then(|tables| check_tables(&tables, end)), advice);
    Ok(if report.damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Mends what is damaged, as far as that can be done without crawling.
fn repair(folder: &Folder) -> Result<ExitCode> {
    let mut nothing = true;
    let mut say = |text: String| {
        nothing = false;
        println!("{text}");
    };
    // Tables first: what was lost of the archive is noted in them.
    let tables = match open_tables(folder).and_then(|tables| check_tables(&tables, PagePosition::default())) {
        Ok(_) => open_tables(folder)?,
        Err(error) => {
            refuse_passing_trouble(&error)?;
            let aside = folder.tables().with_extension("redb.damaged");
            if folder.tables().exists() {
                std::fs::rename(folder.tables(), &aside).context("cannot move tables.redb away")?;
            }
            say(format!("tables   begun anew: {}", short(&error)));
            println!("         Name your seeds again at the next start.");
            LocalTables::open(&folder.tables())?
        }
    };
    let tables = Ok(tables);
    let mut links = open_links(folder);
    if let Err(error) = links
        .as_ref()
        .map_err(|error| anyhow!("{error:#}"))
        .and_then(|links| check_links(links, PagePosition::default()))
    {
        refuse_passing_trouble(links.as_ref().err().unwrap_or(&error))?;
        drop(links);
        std::fs::remove_dir_all(folder.links()).context("cannot remove the link graph")?;
        say(format!("links    removed: {}", short(&error)));
        links = open_links(folder);
    }
    let mut urls = match open_urls(folder) {
        Err(error) if is_damage(&error) => {
            Veuni::remove_all(&*crate::disk::at(&folder.urls())?)?;
            say(format!("urls     removed: {}", short(&error)));
            open_urls(folder)
        }
        urls => urls,
    };
    let scanned = scan(folder, &tables, &urls, &links)?;
    drop(links);
    let store = as_mut(&mut urls)?;
    let damage: Vec<_> = store.check().into_iter().filter(|damage| !damage.is_emptied).collect();
    if !damage.is_empty() {
        store.empty_damaged()?;
        store.sync()?;
        for damage in damage {
            say(format!(
                "urls     emptied: {} (damaged at byte {}: {})",
                damage.file, damage.offset, damage.what
            ));
        }
    } else if let Err(error) = check_urls(store, &scanned.pages, scanned.end) {
        refuse_passing_trouble(&error)?;
        drop(urls);
        Veuni::remove_all(&*crate::disk::at(&folder.urls())?)?;
        say(format!("urls     removed: {}", short(&error)));
        urls = open_urls(folder);
    }
    if scanned.tell().is_err() {
        let again = fetch_again(as_mut(&mut urls)?, &scanned)?;
        let damaged: Vec<PagePosition> = scanned.damaged.keys().copied().collect();
        let tables = tables.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        confirmed::accept(tables, &scanned.lost, &damaged, scanned.end)?;
        for lost in &scanned.lost {
            say(format!("pages    noted: {lost}"));
        }
        for what in scanned.damaged.values() {
            say(format!("pages    noted: {what}"));
        }
        say(format!("         fetched again by the next crawl: {}", counted(again, "known page")));
    }
    if let Err(error) = check_index(folder, PagePosition::default()) {
        refuse_passing_trouble(&error)?;
        std::fs::remove_dir_all(folder.index()).context("cannot remove the index")?;
        say(format!("index    removed: {}", short(&error)));
    }
    println!("{}", if nothing { "nothing to repair" } else { "The next start builds anew what is missing." });
    Ok(ExitCode::SUCCESS)
}

/// Nothing is removed because of what will pass: a full disk, files that belong to somebody else.
fn refuse_passing_trouble(error: &anyhow::Error) -> Result<()> {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    let denied = io.is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied);
    ensure!(!denied && !is_full(error), "{error:#}; nothing was repaired");
    Ok(())
}

/// Has pages fetched again whose copies are lost; answers how many.
fn fetch_again(urls: &mut Veuni, scanned: &Scanned) -> Result<u64> {
    let (mut again, now) = (Vec::new(), SystemClock.now());
    urls.compact_all()?;
    urls.walk(Walk::Visited, &mut |host, path, record| {
        if record.position.is_some_and(|at| !scanned.positions.contains(&at))
            && let Ok(url) = host.stored_page(path)
        {
            again.push(Found { url, depth: record.depth, hint: Some(now) });
        }
    })?;
    urls.found(&again)?;
    urls.sync()?;
    Ok(again.len() as u64)
}

/// What reading the archive brought.
struct Scanned {
    records: u64,
    files: usize,
    end: PagePosition,
    cut_bytes: u64,
    pages: Vec<CanonicalUrl>,
    /// Where whole records begin; only where something is wrong.
    positions: HashSet<PagePosition>,
    lost: Vec<LostPages>,
    /// Damaged records that nobody has noted yet.
    damaged: BTreeMap<PagePosition, String>,
    noted: u64,
}

impl Scanned {
    fn tell(&self) -> Result<String> {
        let (lost, visits) = (&self.lost, counted(self.records, "visit"));
        if let Some(first) = lost.first() {
            let more = if lost.len() > 1 { format!(" ({} files in all)", lost.len()) } else { String::new() };
            bail!("{first}{more}; {visits} left");
        }
        if let Some(first) = self.damaged.values().next() {
            let places = counted(self.damaged.len() as u64, "place");
            bail!("damage in {places} among {visits}; the first: {first}");
        }
        let cut = match self.cut_bytes {
            0 => String::new(),
            bytes => format!("; {bytes} bytes of an unfinished write were cut off"),
        };
        let noted = match self.noted {
            0 => String::new(),
            noted => format!("; {} found damaged earlier and left out", counted(noted, "record")),
        };
        Ok(format!("{visits} in {}{cut}{noted}", counted(self.files as u64, "file")))
    }
}

fn scan(
    folder: &Folder,
    tables: &Result<LocalTables>,
    urls: &Result<Veuni>,
    links: &Result<Links>,
) -> Result<Scanned> {
    let watermarks = [
        urls.as_ref().map_or(PagePosition::default(), |urls| urls.watermark()),
        links.as_ref().map_or(PagePosition::default(), |links| links.watermark()),
    ];
    // Tables that cannot be read are told of elsewhere.
    let confirmed = match tables.as_ref().map(|tables| Confirmed::read(tables, watermarks)) {
        Ok(Ok(confirmed)) => confirmed,
        _ => Confirmed::upto(watermarks[0].max(watermarks[1])),
    };
    let disk = crate::disk::at(&folder.pages())?;
    let files = lengths(&*disk)?;
    let options = ArchiveOptions { confirmed: confirmed.upto, ..ArchiveOptions::default() };
    let (archive, recovery) = Archive::open(disk, options)?;
    let mut scanned = Scanned {
        records: 0,
        files: files.len(),
        end: archive.end(),
        cut_bytes: recovery.cut.map_or(0, |cut| cut.bytes),
        pages: Vec::new(),
        positions: HashSet::new(),
        lost: confirmed.lost(&files),
        damaged: BTreeMap::new(),
        noted: 0,
    };
    for record in archive.reader().scan(PagePosition::default()) {
        match record {
            Ok((position, _, exchange)) => {
                scanned.records += 1;
                scanned.positions.insert(position);
                if exchange.revisit_of.is_none() && exchange.url.path() != "/robots.txt" {
                    scanned.pages.push(exchange.url);
                }
            }
            Err(error) => match place_of(&error) {
                Some(at) if confirmed.damaged.contains(&at) => scanned.noted += 1,
                Some(at) => drop(scanned.damaged.insert(at, error.to_string())),
                None => return Err(error.into()),
            },
        }
    }
    Ok(scanned)
}

/// Where a damaged record stands.
fn place_of(error: &farol_store::Error) -> Option<PagePosition> {
    match error {
        farol_store::Error::Damaged { file, offset, .. } | farol_store::Error::Torn { file, offset } => {
            Some(PagePosition { file: file_number(file)?, offset: *offset })
        }
        _ => None,
    }
}

fn check_urls(urls: &mut Veuni, pages: &[CanonicalUrl], end: PagePosition) -> Result<String> {
    let damage = urls.check();
    if let Some(first) = damage.iter().find(|damage| !damage.is_emptied) {
        let hosts: u64 = damage.iter().map(|damage| damage.hosts).sum();
        bail!(
            "{} is damaged at byte {}: {} ({} of the store's files, {hosts} hosts stand still)",
            first.file,
            first.offset,
            first.what,
            damage.len()
        );
    }
    if !damage.is_empty() {
        return Ok("what a repair has emptied is built anew at the next start".to_string());
    }
    match urls.compact_all() {
        // Only the counts are behind then.
        Err(error) if error.is_disk_full() => {}
        compacted => compacted?,
    }
    let counts = urls.counts();
    // Pages after the watermark are taken in at the next start; before it, each must be known.
    if urls.watermark() >= end {
        let hosts: HashMap<_, _> = urls.hosts(0, usize::MAX, "").into_iter().collect();
        for url in pages {
            // A host that the operator removed is rightly unknown.
            if hosts.contains_key(&url.host()) && urls.get(url)?.is_none() {
                bail!("{url} is among the pages but not among the known URLs");
            }
        }
    }
    Ok(format!(
        "{} of {}{}",
        counted(counts.known, "URL"),
        counted(counts.hosts, "host"),
        behind(urls.watermark(), end)
    ))
}

fn check_links(links: &Links, end: PagePosition) -> Result<String> {
    links.verify()?;
    let counts = links.counts();
    Ok(format!(
        "{} of {}{}",
        counted(counts.links, "link"),
        counted(counts.pages, "page"),
        behind(links.watermark(), end)
    ))
}

fn check_index(folder: &Folder, end: PagePosition) -> Result<String> {
    if !folder.index().exists() {
        return Ok("none yet; `farol up` and `farol serve` build it from the pages".to_string());
    }
    unbroken("the index", || {
        let searcher = Searcher::open(&folder.index())?;
        let documents = searcher.verify()?;
        Ok(format!("{}{}", counted(documents, "page"), behind(searcher.watermark()?, end)))
    })
}

fn open_tables(folder: &Folder) -> Result<LocalTables> {
    // A file without a byte would be taken for a new one, and the seeds that were in it for none.
    let is_there = std::fs::metadata(folder.tables()).is_ok_and(|file| file.len() > 0);
    ensure!(is_there || !folder.pages().exists(), "tables.redb is missing or empty");
    unbroken("tables.redb", || LocalTables::open(&folder.tables()))
}

fn check_tables(tables: &LocalTables, end: PagePosition) -> Result<String> {
    unbroken("tables.redb", || {
        tables.verify()?;
        let mut entries = 0;
        for table in Table::ALL {
            entries += tables.scan(table)?.len() as u64;
        }
        let mark = tables.get(Table::Marks, "hosts")?;
        let mark = mark.map_or(PagePosition::default(), |bytes| read_position(&bytes));
        Ok(format!("{}{}", counted(entries, "entry"), behind(mark, end)))
    })
}

/// Does work with a library that may panic over damaged bytes: that is damage too, and no more.
fn unbroken<T>(part: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    result.unwrap_or_else(|_| Err(anyhow!("{part} makes no sense")))
}

/// An error in one line: libraries like to tell whole files.
fn short(error: &anyhow::Error) -> String {
    let text = format!("{error:#}").replace('\n', " ");
    match text.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn as_mut<T>(result: &mut Result<T>) -> Result<&mut T> {
    result.as_mut().map_err(|error| anyhow!("{error:#}"))
}

fn behind(watermark: PagePosition, end: PagePosition) -> String {
    match watermark < end {
        true => "; the newest pages are taken in at the next start".to_string(),
        false => String::new(),
    }
}
