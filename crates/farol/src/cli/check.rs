//! `farol check`: reads everything in a data folder and says what is wrong with it.

use super::Place;
use crate::archive::open_urls;
use crate::archive::position::read_position;
use crate::archive::replay::is_damage;
use crate::fabric::{LocalTables, Table, Tables};
use crate::folder::Folder;
use crate::progress::grouped;
use anyhow::Result;
use farol_base::PagePosition;
use farol_index::{Shard, ShardOptions};
use farol_links::{Links, LinksOptions};
use farol_store::pages::{Archive, ArchiveOptions};
use farol_store::urls::UrlStore;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Check {
    #[command(flatten)]
    place: Place,
    /// Empty damaged parts of the URL store, so that the next crawl builds them anew from the archived pages
    #[arg(long)]
    repair: bool,
}

/// What the check found so far.
#[derive(Default)]
struct CheckReport {
    damaged: bool,
}

impl CheckReport {
    fn say(&mut self, part: &str, result: Result<String>, advice: &str) {
        match result {
            Ok(text) => println!("{part:<8} fine: {text}"),
            Err(error) => {
                self.damaged = true;
                println!("{part:<8} DAMAGED: {error:#}\n         {advice}");
            }
        }
    }
}

pub fn run(args: &Check) -> Result<ExitCode> {
    let folder = Folder::open(&args.place.data)?;
    let _lock = folder.lock()?;
    if args.repair {
        return repair(&folder);
    }
    let mut report = CheckReport::default();
    let mut pages = Vec::new();
    let archive = check_archive(&folder, &mut pages);
    let end = archive.as_ref().map_or(PagePosition::default(), |(_, end)| *end);
    report.say(
        "pages",
        archive.map(|(text, _)| text),
        "The other pages are fine; delete the urls folder to have the damaged ones fetched again.",
    );
    report.say(
        "urls",
        check_urls(&folder, &pages, end),
        "Run `farol check --repair`, then crawl on: what is damaged is built anew from the pages, the rest stays.",
    );
    report.say(
        "links",
        check_links(&folder, end),
        "Delete the links folder: the next run builds it from the pages.",
    );
    report.say(
        "index",
        check_index(&folder, end),
        "Delete the index folder: the next run builds it from the pages.",
    );
    report.say("tables", check_tables(&folder, end), "Delete tables.redb and name your seeds again.");
    Ok(if report.damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Empties damaged parts of the URL store. The next crawl, which knows its scope, reads them from the archive again.
fn repair(folder: &Folder) -> Result<ExitCode> {
    let mut urls = open_urls(folder)?;
    let damage = urls.check();
    if damage.is_empty() {
        println!("urls     nothing to repair");
        return Ok(ExitCode::SUCCESS);
    }
    urls.empty_damaged()?;
    urls.sync()?;
    for damage in damage {
        println!("urls     emptied: {} (damaged at byte {}: {})", damage.file, damage.offset, damage.what);
    }
    println!("         The next `farol up` or `farol crawl` builds it anew from the archived pages.");
    Ok(ExitCode::SUCCESS)
}

fn check_archive(
    folder: &Folder,
    pages: &mut Vec<farol_base::CanonicalUrl>,
) -> Result<(String, PagePosition)> {
    let (archive, recovery) = Archive::open(crate::disk::at(&folder.pages())?, ArchiveOptions::default())?;
    let mut records = 0;
    let mut damaged = Vec::new();
    for record in archive.reader().scan(PagePosition::default()) {
        let exchange = match record {
            Ok((_, _, exchange)) => exchange,
            Err(error) if is_damage(&error) => {
                damaged.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        records += 1;
        if exchange.revisit_of.is_none() && exchange.url.path() != "/robots.txt" {
            pages.push(exchange.url);
        }
    }
    if let Some(first) = damaged.first() {
        anyhow::bail!(
            "damage in {} places among {} whole pages; the first: {first}",
            damaged.len(),
            grouped(records)
        );
    }
    let cut = recovery
        .cut
        .map_or(String::new(), |cut| format!("; {} bytes of an unfinished write were cut off", cut.bytes));
    Ok((format!("{} visits in {} files{cut}", grouped(records), archive.end().file + 1), archive.end()))
}

fn check_urls(folder: &Folder, pages: &[farol_base::CanonicalUrl], end: PagePosition) -> Result<String> {
    let mut urls = open_urls(folder)?;
    let damage = urls.check();
    if let Some(first) = damage.first() {
        let hosts: u64 = damage.iter().map(|damage| damage.hosts).sum();
        anyhow::bail!(
            "{} is damaged at byte {}: {} ({} of the store's files, {hosts} hosts stand still)",
            first.file,
            first.offset,
            first.what,
            damage.len()
        );
    }
    urls.compact_all()?;
    let counts = urls.counts();
    // Pages after the watermark are taken in at the next start; before it, each must be known.
    if urls.watermark() >= end {
        let hosts: std::collections::HashMap<_, _> = urls.hosts(0, usize::MAX, "").into_iter().collect();
        for url in pages {
            // A host that the operator removed is rightly unknown.
            if hosts.contains_key(&url.host()) && urls.get(url)?.is_none() {
                anyhow::bail!("{url} is among the pages but not among the known URLs");
            }
        }
    }
    Ok(format!(
        "{} URLs of {} hosts{}",
        grouped(counts.known),
        grouped(counts.hosts),
        behind(urls.watermark(), end)
    ))
}

fn check_links(folder: &Folder, end: PagePosition) -> Result<String> {
    let links = Links::open(crate::disk::at(&folder.links())?, LinksOptions::default())?;
    links.verify()?;
    let counts = links.counts();
    Ok(format!(
        "{} links of {} pages{}",
        grouped(counts.links),
        grouped(counts.pages),
        behind(links.watermark(), end)
    ))
}

fn check_index(folder: &Folder, end: PagePosition) -> Result<String> {
    if !folder.index().exists() {
        return Ok("none yet; `farol up` and `farol serve` build it from the pages".to_string());
    }
    let shard = Shard::open(&folder.index(), ShardOptions::default())?;
    let documents = shard.searcher().verify()?;
    Ok(format!("{} pages{}", grouped(documents), behind(shard.watermark(), end)))
}

fn check_tables(folder: &Folder, end: PagePosition) -> Result<String> {
    let tables = LocalTables::open(&folder.tables())?;
    let mut entries = 0;
    for table in Table::ALL {
        entries += tables.scan(table)?.len() as u64;
    }
    let mark =
        tables.get(Table::Marks, "hosts")?.map_or(PagePosition::default(), |bytes| read_position(&bytes));
    Ok(format!("{} entries{}", grouped(entries), behind(mark, end)))
}

fn behind(watermark: PagePosition, end: PagePosition) -> String {
    match watermark < end {
        true => "; the newest pages are taken in at the next start".to_string(),
        false => String::new(),
    }
}
