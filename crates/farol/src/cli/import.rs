//! `farol import`: pages from WARC files of any origin.
//!
//! What counts is when a page was fetched, not when it is imported: only what is newer than all that is known of a page
//! is appended to the archive, so that each page's records stand there in the order of their dates, and reading them
//! again comes to the same. Importing a file once more changes nothing. A date in the future counts as now.
//!
//! A robots.txt is passed over: what a site asks of us is heard from the site itself.
//!
//! Memory: a batch of at most 8 MiB and a record, whatever is in the file; see [`Batch`].

use super::Place;
use crate::archive::{self, FollowerSet, Opened};
use crate::engine::Roles;
use crate::fabric::Fabric;
use crate::folder::Folder;
use crate::progress::{counted, grouped};
use anyhow::{Context, Result, bail};
use farol_base::{Clock, SystemClock};
use farol_store::pages::{Exchange, warc};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Import {
    /// WARC files: .warc, .warc.gz or .warc.zst; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// Only store the pages; they are indexed by a later `up` or `serve`
    #[arg(long)]
    no_index: bool,
}

pub fn run(args: &Import) -> Result<ExitCode> {
    // A misspelt name should not be noticed after an hour of importing.
    if let Some(missing) = args.files.iter().find(|file| file.as_os_str() != "-" && !file.exists()) {
        bail!("there is no file {}", missing.display());
    }
    let config = args.place.settings()?;
    let folder = Folder::open_or_create(&args.place.data)?;
    let mut importer = Importer::open(&folder, &config)?;
    for file in &args.files {
        importer.take(file).with_context(|| format!("while importing {}", file.display()))?;
    }
    let sums = importer.finish()?;
    let shown = std::io::stderr().is_terminal();
    if shown {
        eprintln!(
            "{} stored, {} not newer than what is known, {} passed over",
            counted(sums.pages, "page"),
            grouped(sums.known),
            counted(sums.passed, "other record")
        );
    }
    if sums.complaints > 0 {
        eprintln!("farol: left out {}; -v names them", counted(sums.complaints, "damaged record"));
    }
    if !args.no_index {
        let roles = Roles { crawl: false, index: true, serve: false, ends_when_done: true };
        let running = crate::engine::Running::start(folder, config, &[], roles)?;
        while !running.caught_up() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        if shown {
            eprintln!("{} can be found", counted(running.documents().unwrap_or(0), "page"));
        }
        running.stop()?;
    }
    // Files that held no page at all are likely a mistake; scripts should notice.
    Ok(if sums.pages + sums.known > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Default)]
struct Sums {
    pages: u64,
    /// Of pages that are known as they were then or later.
    known: u64,
    passed: u64,
    complaints: u64,
}

/// Pages to be written in one go.
///
/// Holds at most 8 MiB and the record that went beyond: 8 + 64 MiB. Encoding, writing and reading it take as much again
/// each, one after the other: 64 records of 47 MB were imported within 290 MiB.
#[derive(Default)]
struct Batch {
    pages: Vec<Exchange>,
    bytes: usize,
}

impl Batch {
    const PAGES_MAX: usize = 64;
    const BYTES_MAX: usize = 8 << 20;

    fn push(&mut self, page: Exchange) {
        self.bytes += page.body.len() + page.response_head.len();
        self.pages.push(page);
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= Batch::PAGES_MAX || self.bytes >= Batch::BYTES_MAX
    }
}

struct Importer {
    opened: Opened,
    batch: Batch,
    ids: farol_base::Seeded,
    compression: u32,
    sums: Sums,
    _lock: crate::folder::FolderLock,
}

impl Importer {
    fn open(folder: &Folder, config: &crate::config::Config) -> Result<Importer> {
        let lock = folder.lock()?;
        let fabric = Fabric::local(&folder.tables())?;
        let opened = archive::open(folder, config, fabric, false)?;
        let seed = SystemClock.now().as_millis() ^ u64::from(std::process::id()) << 44;
        Ok(Importer {
            opened,
            batch: Batch::default(),
            ids: farol_base::Seeded::new(seed),
            compression: config.archive.compression,
            sums: Sums::default(),
            _lock: lock,
        })
    }

    fn take(&mut self, file: &PathBuf) -> Result<()> {
        let input: Box<dyn BufRead> = match file.as_os_str() == "-" {
            true => Box::new(BufReader::new(std::io::stdin())),
            false => Box::new(BufReader::with_capacity(
                1 << 16,
                std::fs::File::open(file).context("cannot open it")?,
            )),
        };
        for record in warc::Records::new(input) {
            match record.and_then(warc::to_exchange) {
                Ok(Some(exchange)) if exchange.url.path_and_query() != "/robots.txt" => {
                    self.offer(exchange)?;
                }
                Ok(_) => self.sums.passed += 1,
                Err(complaint) => {
                    self.sums.complaints += 1;
                    tracing::info!(file = %file.display(), "{complaint}");
                }
            }
        }
        self.write()
    }

    /// Takes a page that is news.
    fn offer(&mut self, mut page: Exchange) -> Result<()> {
        page.fetched = page.fetched.min(SystemClock.now());
        // What is known of it may wait in this very batch.
        if self.batch.pages.iter().any(|waiting| waiting.url == page.url) {
            self.write()?;
        }
        let archive = self.opened.archive.reader();
        if !self.opened.followers.is_news(&page.url, page.fetched, &archive)? {
            self.sums.known += 1;
            return Ok(());
        }
        self.sums.pages += 1;
        self.batch.push(page);
        if self.batch.is_full() { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let (ids, level) = (&mut self.ids, self.compression);
        let pages = std::mem::take(&mut self.batch).pages;
        let encoded: Vec<_> = pages.iter().map(|page| farol_store::pages::encode(page, ids, level)).collect();
        let positions = self.opened.archive.append(&encoded)?;
        drop(encoded);
        let Opened { followers, interpreter, .. } = &mut self.opened;
        for (page, position) in pages.into_iter().zip(positions) {
            archive::replay::apply(followers, interpreter, &page, position, FollowerSet::ALL)?;
        }
        self.opened.followers.flush(self.opened.archive.end())
    }

    fn finish(mut self) -> Result<Sums> {
        self.opened.archive.sync()?;
        self.opened.followers.urls.sync()?;
        self.opened.followers.confirm(&self.opened.archive)?;
        self.opened.followers.linker.sync()?;
        Ok(self.sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_by_its_bytes_and_by_its_pages() {
        let page = |bytes: usize| Exchange {
            url: farol_base::CanonicalUrl::parse("http://a.org/").unwrap(),
            fetched: farol_base::Timestamp::EPOCH,
            address: None,
            status: 200,
            request_head: Vec::new(),
            response_head: Vec::new(),
            body: vec![0; bytes].into(),
            truncated: None,
            protocol: String::new(),
            revisit_of: None,
            metadata: Vec::new(),
        };
        for (bytes, want) in [(10, 64), (1 << 20, 8), (3 << 20, 3), (20 << 20, 1)] {
            let mut batch = Batch::default();
            while !batch.is_full() {
                batch.push(page(bytes));
            }
            assert_eq!(batch.pages.len(), want, "pages of {bytes} bytes");
            assert!(batch.bytes < Batch::BYTES_MAX + bytes);
        }
    }
}
