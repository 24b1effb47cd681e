//! `farol export`: what the engine knows, in plain formats.

use super::Place;
use crate::archive::replay::is_damage;
use crate::folder::Folder;
use anyhow::{Context, Result};
use farol_index::Searcher;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Export {
    /// What to write
    #[arg(value_enum)]
    what: ExportKind,
    #[command(flatten)]
    place: Place,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With `graph`: where addresses are, a CSV table of DB-IP, GeoLite2 or IP2Location, plain, .gz or .zst
    #[arg(long, value_name = "FILE")]
    geo: Option<PathBuf>,
    /// With `graph`: what this agent is called
    #[arg(long, value_name = "NAME", default_value = "here")]
    agent: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ExportKind {
    /// Indexed pages with their text, one JSON object per line
    Pages,
    /// Addresses of indexed pages, one per line
    Urls,
    /// Archived visits: time, status, bytes, WARC file, offset and URL, separated by tabs
    Visits,
    /// Hosts with pages, addresses and round-trip times, and links between them, for `farol partition plan`
    Graph,
}

pub fn run(args: &Export) -> Result<ExitCode> {
    let folder = Folder::open(&args.place.data)?;
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(BufWriter::new(
            File::create(path).with_context(|| format!("cannot write to {}", path.display()))?,
        )),
        None => Box::new(BufWriter::new(std::io::stdout().lock())),
    };
    match args.what {
        ExportKind::Pages => pages(&searcher(&folder)?, &mut out)?,
        ExportKind::Urls => {
            for url in searcher(&folder)?.all_urls() {
                writeln!(out, "{}", url?)?;
            }
        }
        ExportKind::Visits => visits(&folder, &mut out)?,
        ExportKind::Graph => {
            let _lock = folder.lock().context("the graph is read from a folder that nobody writes to")?;
            let mut graph = super::host_graph::read(&folder, &args.agent)?;
            if let Some(path) = &args.geo {
                super::host_graph::locate(&mut graph, &super::partition::read_geo(path)?);
            }
            out.write_all(graph.write().as_bytes())?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn searcher(folder: &Folder) -> Result<Searcher> {
    Searcher::open(&folder.index())
        .context("there is no index yet; run `farol serve` or `farol up` once to make it")
}

fn pages(searcher: &Searcher, out: &mut dyn Write) -> Result<()> {
    for document in searcher.all_documents() {
        let document = document?;
        let json = serde_json::json!({
            "url": document.url.as_str(),
            "title": document.title,
            "description": document.description,
            "headings": document.headings,
            "text": document.body,
            "anchors": document.anchors,
            "language": document.language.map(|language| language.to_string()),
            "type": document.file_type,
            "fetched": document.fetched.to_string(),
            "dated": document.dated.map(|dated| dated.to_string()),
            "warc": { "file": document.position.file, "offset": document.position.offset },
        });
        writeln!(out, "{json}")?;
    }
    Ok(())
}

fn visits(folder: &Folder, out: &mut dyn Write) -> Result<()> {
    let archive = farol_store::pages::ArchiveReader::open(crate::disk::at(&folder.pages())?)?;
    for record in archive.scan(farol_base::PagePosition::default()) {
        let (position, _, archived) = match record {
            Ok(record) => record,
            Err(error) if is_damage(&error) => {
                eprintln!("farol: {error}; left out");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{}",
            archived.fetched(),
            // What was received of others had no status here.
            archived.exchange_ref().map_or(0, |exchange| exchange.status),
            archived.bytes(),
            position.file,
            position.offset,
            archived.url()
        )?;
    }
    Ok(())
}
