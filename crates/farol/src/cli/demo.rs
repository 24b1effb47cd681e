//! `farol demo`: a small library on loopback, crawled and searchable, for people with no site at hand.
//!
//! It has a data folder of its own, which it marks, and refuses any other: nobody's index gets the demo's pages.

use crate::config::{Config, ScopeKind, Span};
use crate::engine::Roles;
use crate::folder::Folder;
use anyhow::{Context, Result, ensure};
use farol_synthetic::{Library, LogSink, library};
use std::path::PathBuf;
use std::process::ExitCode;

/// Questions that have good answers in the library, one for each of its languages.
const QUESTIONS: [&str; 3] = ["olhos de ressaca", "combate de Trafalgar", "mad tea party"];

/// The file that tells a demo's folder from somebody's own.
const MARK: &str = "demo";

#[derive(clap::Args, Clone)]
pub struct Demo {
    /// Data folder of the demo
    // Not FAROL_DATA: that is where one's own pages are.
    #[arg(long, value_name = "DIR", default_value = "farol-demo")]
    data: PathBuf,
    /// Address and port of the search page [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
}

pub fn run(args: &Demo) -> Result<ExitCode> {
    let folder = own_folder(args)?;
    let library = Library::open().context("cannot open the library")?;
    let seed = crate::seed::read_seed(&library.seed()).map_err(anyhow::Error::msg)?;
    let pages = library.pages();
    // The library runs on a thread of its own, as if it were far away.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("library")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let server = runtime
        .block_on(farol_synthetic::serve_site(library, "127.0.0.1:0".parse()?, LogSink::off()))
        .context("cannot serve the library on loopback")?;
    let mut config = Config::default();
    config.identity.name = "Farol, a demo".to_string();
    config.identity.contact = format!("demo@{}", library::DOMAIN);
    config.serve.listen = args.listen.clone().unwrap_or(config.serve.listen);
    config.crawl.scope = ScopeKind::Domain.into();
    // These servers are ours: no need to be slow.
    config.crawl.delay_min = Span::from(std::time::Duration::from_millis(10));
    config.crawl.resolve = vec![server.resolve()];
    tell(args, pages, &config.serve.listen);
    let code = super::run::run_until_stopped(
        folder,
        config,
        &[seed],
        Roles { crawl: true, index: true, serve: true, federates: false, ends_when_done: false },
    );
    drop(server);
    runtime.shutdown_background();
    code
}

/// The demo's folder, new or from the last time.
fn own_folder(args: &Demo) -> Result<Folder> {
    let known = Folder::open(&args.data).is_ok();
    ensure!(
        !known || args.data.join(MARK).exists(),
        "{} holds pages of your own, and the demo does not mix with them; name another folder with --data",
        args.data.display()
    );
    let folder = Folder::open_or_create(&args.data)?;
    let said = "This folder is a demo's. It may be deleted.\n";
    std::fs::write(args.data.join(MARK), said)
        .with_context(|| format!("cannot write to {}", args.data.display()))?;
    Ok(folder)
}

/// Says what is here, what to ask it, and how to be rid of it.
fn tell(args: &Demo, pages: usize, listen: &str) {
    let data = args.data.display();
    eprintln!("A library of {pages} pages, in Portuguese, Spanish and English. Ask it, for example:");
    for question in QUESTIONS {
        eprintln!("  http://{listen}/search?q={}", question.replace(' ', "+"));
    }
    eprintln!("or: farol search --data {data} \"{}\"", QUESTIONS[0]);
    eprintln!(
        "It is kept in the folder {data}, apart from your own pages; delete the folder to be rid of it."
    );
}
