//! `farol check`: reads everything in a data folder and says what is wrong with it.
//!
//! Only the archive cannot be built again from something else. With `--repair` whatever else is damaged is
//! removed, for the next start to build it anew from the pages; and what the archive has lost is noted, so that
//! the next crawl fetches it again.
//!
//! PROMISE: "fine" means that nothing is lost, but for URLs that were found and not visited yet, where a whole file of
//! the URL store's newest writes is gone: nothing else tells of them. Checking needs no room on the disk, and memory for
//! what is wrong, not for what is there: each page is compared with the URL store as it is read.

use super::Place;
use crate::archive::confirmed::{self, Confirmed, LostPages};
use crate::archive::position::read_position;
use crate::archive::{is_damage, open_links, open_urls};
use crate::disk::is_full;
use crate::fabric::{LocalTables, Table, Tables};
use crate::folder::Folder;
use crate::operator::removed_in;
use crate::progress::counted;
use anyhow::{Context, Result, anyhow, bail, ensure};
use farol_base::{CanonicalUrl, Clock, Host, PagePosition, SystemClock};
use farol_index::Searcher;
use farol_links::Links;
use farol_store::pages::{Archive, ArchiveOptions, Archived, file_number, lengths};
use farol_store::urls::{Found, UrlStore, Veuni, Walk};
use std::collections::{BTreeMap, HashMap};
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

/// What was in the tables and nowhere else, and how it comes back.
const TABLES_ADVICE: &str = "Run `farol check --repair`. Your seeds, the hosts that you removed and a pause are lost with \
    the tables: name the seeds again when you start, as in `farol up https://example.org/`; all else is read from the pages.";

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
    let state = as_mut(&mut urls).and_then(settle);
    let scanned = scan(&folder, &tables, &urls, &links);
    let end = scanned.as_ref().map_or(PagePosition::default(), |scanned| scanned.end);
    report.say(
        "pages",
        scanned.as_ref().map_err(|error| anyhow!("{error:#}")).and_then(Scanned::tell),
        "Run `farol check --repair`, then crawl on: lost pages are fetched again; the others are fine.",
    );
    let unknown = scanned.as_ref().ok().and_then(|scanned| scanned.unknown.as_deref());
    let told = state.and_then(|state| tell_urls(as_mut(&mut urls)?, state, unknown, end));
    report.say("urls", told, REPAIR);
    report.say("links", links.and_then(|links| check_links(&links, end)), REPAIR);
    report.say("index", check_index(&folder, end), REPAIR);
    report.say("tables", tables.and_then(|tables| check_tables(&tables, end)), TABLES_ADVICE);
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
            println!(
                "         Your seeds, the hosts that you removed and a pause are lost with them: name the seeds again when \
                 you start,\n         as in `farol up https://example.org/`. The damaged file is kept as {}.",
                aside.display()
            );
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
    let state = as_mut(&mut urls).and_then(settle);
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
    } else if let Err(error) =
        state.and_then(|state| tell_urls(store, state, scanned.unknown.as_deref(), scanned.end))
    {
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
        if record.position.is_some_and(|at| scanned.is_lost(at))
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
    /// Why the URL store does not know the first page that it should know.
    unknown: Option<String>,
    /// The files of the archive, and their lengths.
    lengths: BTreeMap<u32, u64>,
    /// Between these two places no whole record begins.
    gaps: Vec<(Option<PagePosition>, Option<PagePosition>)>,
    lost: Vec<LostPages>,
    /// Damaged records that nobody has noted yet.
    damaged: BTreeMap<PagePosition, String>,
    noted: u64,
}

impl Scanned {
    /// Whether the record that began here is not there any more.
    fn is_lost(&self, at: PagePosition) -> bool {
        self.lengths.get(&at.file).is_none_or(|length| at.offset >= *length)
            || self.gaps.iter().any(|(whole, next)| {
                whole.is_none_or(|whole| whole < at) && next.is_none_or(|next| at < next)
            })
    }

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
    let removed = match tables.as_ref().map(removed_hosts) {
        Ok(Ok(removed)) => removed,
        _ => HashMap::new(),
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
        unknown: None,
        lengths: archive.lengths()?.into_iter().collect(),
        gaps: Vec::new(),
        lost: confirmed.lost(&files),
        damaged: BTreeMap::new(),
        noted: 0,
    };
    // Pages after the watermark are taken in at the next start; before it, each must be known.
    let urls = urls.as_ref().ok().filter(|urls| urls.watermark() >= scanned.end);
    let (mut whole, mut is_gap) = (None, false);
    for record in archive.reader().scan(PagePosition::default()) {
        match record {
            Ok((position, _, archived)) => {
                scanned.records += 1;
                if std::mem::take(&mut is_gap) {
                    scanned.gaps.push((whole, Some(position)));
                }
                whole = Some(position);
                let is_page = match &archived {
                    Archived::Exchange(exchange) => {
                        exchange.revisit_of.is_none() && exchange.url.path() != "/robots.txt"
                    }
                    Archived::Conversion(_) => true,
                };
                let url = archived.url();
                if let Some(urls) = urls.filter(|_| is_page && scanned.unknown.is_none()) {
                    let stays_out = removed.get(&url.host()).is_some_and(|end| position < *end);
                    if !stays_out {
                        scanned.unknown = unknown(urls, url)?;
                    }
                }
            }
            Err(error) => {
                is_gap = true;
                match place_of(&error) {
                    Some(at) if confirmed.damaged.contains(&at) => scanned.noted += 1,
                    Some(at) => drop(scanned.damaged.insert(at, error.to_string())),
                    None => return Err(error.into()),
                }
            }
        }
    }
    if is_gap {
        scanned.gaps.push((whole, None));
    }
    Ok(scanned)
}

/// What the URL store should know of an archived page and does not.
fn unknown(urls: &Veuni, url: &CanonicalUrl) -> Result<Option<String>> {
    let (record, hint) = (urls.get(url)?, "some of its files (log-*, pending-*) may be gone");
    Ok(match record {
        // A host that was removed, by tables that are lost, is rightly unknown.
        None if urls.host_counts(&url.host()).is_none() => None,
        None => Some(format!("{url} is among the pages but not among the known URLs; {hint}")),
        Some(record) if record.visits == 0 => {
            Some(format!("{url} is among the pages but its visit is not known; {hint}"))
        }
        Some(_) => None,
    })
}

/// Hosts that the operator has removed, each with the end of the archive at that time.
fn removed_hosts(tables: &LocalTables) -> Result<HashMap<Host, PagePosition>> {
    unbroken("tables.redb", || Ok(removed_in(tables.scan(Table::Orders)?)))
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

/// Whether the URL store can be compared with the pages.
enum UrlsState {
    Whole,
    /// A repair has emptied parts of it, which are not filled again yet.
    Emptied,
}

/// Looks for damage in the URL store, and compacts it where there is none.
fn settle(urls: &mut Veuni) -> Result<UrlsState> {
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
        return Ok(UrlsState::Emptied);
    }
    match urls.compact_all() {
        // Only the counts are behind then.
        Err(error) if error.is_disk_full() => {}
        compacted => compacted?,
    }
    Ok(UrlsState::Whole)
}

fn tell_urls(urls: &Veuni, state: UrlsState, unknown: Option<&str>, end: PagePosition) -> Result<String> {
    match (state, unknown) {
        (UrlsState::Emptied, _) => {
            return Ok("what a repair has emptied is built anew at the next start".to_string());
        }
        (UrlsState::Whole, Some(unknown)) => bail!("{unknown}"),
        (UrlsState::Whole, None) => {}
    }
    let counts = urls.counts();
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

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;
    use farol_store::urls::VeuniOptions;
    use std::sync::Arc;

    #[test]
    fn lost_is_what_lies_in_a_gap_or_beyond_its_file() {
        let at = |file, offset| PagePosition { file, offset };
        let scanned = Scanned {
            records: 0,
            files: 3,
            end: at(3, 50),
            cut_bytes: 0,
            unknown: None,
            lengths: BTreeMap::from([(0, 100), (1, 100), (3, 50)]),
            gaps: vec![(None, Some(at(0, 20))), (Some(at(0, 60)), Some(at(1, 30))), (Some(at(3, 10)), None)],
            lost: Vec::new(),
            damaged: BTreeMap::new(),
            noted: 0,
        };
        for (position, want) in [
            (at(0, 0), true),
            (at(0, 20), false),
            (at(0, 60), false),
            (at(0, 61), true),
            (at(0, 100), true),
            (at(1, 0), true),
            (at(1, 30), false),
            (at(1, 99), false),
            (at(1, 100), true),
            (at(2, 0), true), // The file is gone.
            (at(3, 10), false),
            (at(3, 11), true),
        ] {
            assert_eq!(scanned.is_lost(position), want, "{position:?}");
        }
    }

    #[test]
    fn a_page_that_the_url_store_has_not_visited_is_missed() {
        let (mut urls, _) = Veuni::open(Arc::new(Mem::new()), VeuniOptions::default()).unwrap();
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        urls.found(&[Found { url: url("http://a.org/found"), depth: 0, hint: None }]).unwrap();
        urls.flush().unwrap();
        urls.compact_all().unwrap();
        for (page, want) in [
            ("http://a.org/found", Some("its visit is not known")),
            ("http://a.org/other", Some("not among the known URLs")),
            ("http://removed.org/", None),
        ] {
            let told = unknown(&urls, &url(page)).unwrap();
            assert_eq!(told.is_some(), want.is_some(), "{told:?}");
            assert!(told.is_none_or(|told| told.contains(want.unwrap()) && told.contains("log-*")));
        }
    }
}
