//! `farol import`: pages from WARC files of any origin, those that other engines fetched for a Farol included.
//!
//! What counts is when a page was fetched, not when it is imported: only what is newer than all that is known of a page
//! is appended to the archive, so that each page's records stand there in the order of their dates, and reading them
//! again comes to the same. Importing a file once more changes nothing. A date in the future counts as now.
//!
//! A robots.txt is passed over: what a site asks of us is heard from the site itself.
//!
//! Pages are read on one thread, interpreted and packed on one per core, and written by a single one, in the order of
//! the file. Memory: 16 MiB of pages, or one larger record, and as much again packed ([`crate::in_order`]).

use super::Place;
use crate::archive::conversion;
use crate::archive::interpret::Interpreted;
use crate::archive::replay::{self, depth_of_archived};
use crate::archive::{self, FollowerSet, Opened};
use crate::engine::Roles;
use crate::fabric::Fabric;
use crate::folder::Folder;
use crate::in_order::{Permit, ReadAhead, Workers};
use crate::progress::{counted, grouped};
use anyhow::{Context, Result, bail};
use farol_base::random::mix;
use farol_base::{Clock, PageId, SystemClock};
use farol_store::pages::{Archived, Encoded, Encoder, warc};
use std::collections::HashSet;
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
        let roles = Roles { crawl: false, index: true, serve: false, federates: false, ends_when_done: true };
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

/// Pages whose answers are read and packed beside the thread that writes them.
const UNDER_WAY_MAX: usize = 256;
/// Pages written in one go.
const BATCH_MAX: usize = 64;

/// What was read of a file.
type ReadRecord = Result<Option<Archived>, warc::Complaint>;

/// A page that is read and packed for the archive.
struct ReadyPage {
    page: Archived,
    encoded: Encoded,
    interpreted: Interpreted,
    permit: Permit,
}

struct Importer {
    opened: Opened,
    workers: Workers<(Archived, Permit), ReadyPage>,
    /// Pages that the workers have.
    under_way: HashSet<PageId>,
    sums: Sums,
    path: PathBuf,
    _lock: crate::folder::FolderLock,
}

impl Importer {
    fn open(folder: &Folder, config: &crate::config::Config) -> Result<Importer> {
        let (lock, path) = (folder.lock()?, folder.path().to_path_buf());
        let fabric = Fabric::local(&folder.tables())?;
        let opened = archive::open(folder, config, fabric, false)?;
        let seed = SystemClock.now().as_millis() ^ u64::from(std::process::id()) << 44;
        let (interpreter, level) = (opened.interpreter.clone(), config.archive.compression);
        let workers = Workers::start(|number| {
            let interpreter = interpreter.clone();
            let mut ids = farol_base::Seeded::new(mix(seed ^ number as u64));
            let mut encoder = Encoder::new(level);
            move |(page, permit): (Archived, Permit)| ReadyPage {
                encoded: encoder.encode_archived(&page, &mut ids),
                interpreted: interpreter.interpret_archived(&page, depth_of_archived(&page)),
                page,
                permit,
            }
        })?;
        Ok(Importer { opened, workers, under_way: HashSet::new(), sums: Sums::default(), path, _lock: lock })
    }

    fn take(&mut self, file: &PathBuf) -> Result<()> {
        let input: Box<dyn BufRead + Send> = match file.as_os_str() == "-" {
            true => Box::new(BufReader::new(std::io::stdin())),
            false => Box::new(BufReader::with_capacity(
                1 << 16,
                std::fs::File::open(file).context("cannot open it")?,
            )),
        };
        let records = warc::Records::new(input)
            .map(|record| record.and_then(|record| warc::to_archived(record, conversion::is_ours)));
        for (record, permit) in ReadAhead::start(records, bytes_of)? {
            match record {
                Ok(Some(page)) if page.url().path_and_query() != "/robots.txt" => {
                    self.offer(page, permit)?;
                }
                Ok(_) => self.sums.passed += 1,
                Err(complaint) => {
                    self.sums.complaints += 1;
                    tracing::info!(file = %file.display(), "{complaint}");
                }
            }
        }
        self.write_all()
    }

    /// Takes a page that is news.
    fn offer(&mut self, mut page: Archived, permit: Permit) -> Result<()> {
        match &mut page {
            Archived::Exchange(page) => page.fetched = page.fetched.min(SystemClock.now()),
            Archived::Conversion(page) => {
                page.fetched = page.fetched.min(SystemClock.now());
                crate::folder::grow_format(&self.path)?;
            }
        }
        // What is known of it may be under way.
        if self.under_way.contains(&page.url().id()) {
            self.write_all()?;
        }
        let archive = self.opened.archive.reader();
        if !self.opened.followers.is_news(page.url(), page.fetched(), &archive)? {
            self.sums.known += 1;
            return Ok(());
        }
        self.sums.pages += 1;
        self.under_way.insert(page.url().id());
        self.workers.give((page, permit));
        while self.workers.len() >= UNDER_WAY_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write_all(&mut self) -> Result<()> {
        while self.workers.len() > 0 {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the pages that were given first: archive, then everything that follows.
    fn write(&mut self) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while batch.len() < BATCH_MAX
            && let Some(ready) = self.workers.take()
        {
            batch.push(ready?);
        }
        let (mut encoded, mut pages) = (Vec::new(), Vec::new());
        for ReadyPage { page, encoded: records, interpreted, permit } in batch {
            encoded.push(records);
            pages.push((page, interpreted, permit));
        }
        let positions = self.opened.archive.append(&encoded)?;
        drop(encoded);
        for ((page, interpreted, _permit), position) in pages.into_iter().zip(positions) {
            self.under_way.remove(&page.url().id());
            let followers = &mut self.opened.followers;
            replay::apply_read(followers, &page, interpreted, position, FollowerSet::ALL)?;
        }
        self.opened.followers.flush(self.opened.archive.end())
    }

    fn finish(mut self) -> Result<Sums> {
        let Opened { archive, followers, .. } = &mut self.opened;
        archive.sync()?;
        // Counts are of what has been compacted.
        followers.urls.compact_all()?;
        followers.urls.sync()?;
        followers.confirm(archive)?;
        followers.linker.sync()?;
        Ok(self.sums)
    }
}

/// Memory that a page takes until it is written: as it was read, and packed.
fn bytes_of(record: &ReadRecord) -> usize {
    match record {
        Ok(Some(Archived::Exchange(page))) => {
            page.body.len() + page.response_head.len() + page.request_head.len()
        }
        Ok(Some(page)) => page.bytes(),
        _ => 0,
    }
}
