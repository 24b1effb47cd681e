//! `farol import`: pages from WARC files of any origin.

use super::Place;
use crate::archive::{self, FollowerSet, Opened};
use crate::engine::Roles;
use crate::fabric::Fabric;
use crate::folder::Folder;
use crate::progress::grouped;
use anyhow::{Context, Result, bail};
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

/// Pages written in one go.
const BATCH: usize = 64;

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
        eprintln!("{} pages stored, {} other records passed over", grouped(sums.pages), grouped(sums.passed));
    }
    if sums.complaints > 0 {
        eprintln!("farol: {} damaged records were left out", grouped(sums.complaints));
    }
    if !args.no_index {
        let roles = Roles { crawl: false, index: true, serve: false, ends_when_done: true };
        let running = crate::engine::Running::start(folder, config, &[], roles)?;
        while !running.caught_up() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        if shown {
            eprintln!("{} pages can be found", grouped(running.documents().unwrap_or(0)));
        }
        running.stop()?;
    }
    // Files that held no page at all are likely a mistake; scripts should notice.
    Ok(if sums.pages > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Default)]
struct Sums {
    pages: u64,
    passed: u64,
    complaints: u64,
}

struct Importer {
    opened: Opened,
    batch: Vec<farol_store::pages::Exchange>,
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
        use farol_base::Clock;
        let seed = farol_base::SystemClock.now().as_millis() ^ u64::from(std::process::id()) << 44;
        Ok(Importer {
            opened,
            batch: Vec::new(),
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
        for record in farol_store::pages::warc::Records::new(input) {
            match record {
                Ok(record) => match farol_store::pages::warc::to_exchange(&record) {
                    Some(exchange) => {
                        self.batch.push(exchange);
                        self.sums.pages += 1;
                        if self.batch.len() >= BATCH {
                            self.write()?;
                        }
                    }
                    None => self.sums.passed += 1,
                },
                Err(complaint) => {
                    self.sums.complaints += 1;
                    tracing::info!(file = %file.display(), "{complaint}");
                }
            }
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let (ids, level) = (&mut self.ids, self.compression);
        let encoded: Vec<_> =
            self.batch.iter().map(|exchange| farol_store::pages::encode(exchange, ids, level)).collect();
        let positions = self.opened.archive.append(&encoded)?;
        for (exchange, position) in self.batch.drain(..).zip(positions) {
            let Opened { followers, interpreter, .. } = &mut self.opened;
            archive::replay::apply(followers, interpreter, &exchange, position, FollowerSet::ALL)?;
        }
        self.opened.followers.flush(self.opened.archive.end())
    }

    fn finish(mut self) -> Result<Sums> {
        self.opened.archive.sync()?;
        self.opened.followers.urls.sync()?;
        self.opened.followers.hosts.write(self.opened.archive.end())?;
        self.opened.followers.linker.sync()?;
        Ok(self.sums)
    }
}
