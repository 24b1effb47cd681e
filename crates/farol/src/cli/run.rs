//! `farol up`, `farol crawl`, `farol serve`: the commands that stay.

use super::seed_news::{SeedNews, summed_up};
use super::{Crawling, Serving, need_seeds};
use crate::config::Config;
use crate::engine::{Listening, Roles, Running};
use crate::folder::Folder;
use crate::progress::{ProgressLine, counted, size};
use anyhow::{Context, Result};
use farol_base::CanonicalUrl;
use farol_base::status::EngineState;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `crawl` takes.
#[derive(clap::Args, Clone)]
pub struct CrawlOnly {
    #[command(flatten)]
    pub crawling: Crawling,
    /// Index the pages as well
    #[arg(long)]
    pub index: bool,
}

pub fn up(args: &Crawling) -> Result<ExitCode> {
    let config = args.settings()?;
    let seeds = args.seeds(&config)?;
    need_seeds(&args.place, &seeds, "up")?;
    let folder = Folder::open_or_create(&args.place.data)?;
    let roles = Roles { crawl: true, index: true, serve: true, federates: true, ends_when_done: false };
    run_until_stopped(folder, config, &seeds, roles)
}

pub fn crawl(args: &CrawlOnly) -> Result<ExitCode> {
    let config = args.crawling.settings()?;
    let seeds = args.crawling.seeds(&config)?;
    need_seeds(&args.crawling.place, &seeds, "crawl")?;
    let folder = Folder::open_or_create(&args.crawling.place.data)?;
    let roles =
        Roles { crawl: true, index: args.index, serve: false, federates: false, ends_when_done: true };
    run_until_stopped(folder, config, &seeds, roles)
}

pub fn serve(args: &Serving) -> Result<ExitCode> {
    let mut config = args.place.settings()?;
    config.serve.listen = args.listen.clone().unwrap_or(config.serve.listen);
    let folder = Folder::open(&args.place.data)?;
    let roles = Roles { crawl: false, index: true, serve: true, federates: false, ends_when_done: false };
    run_until_stopped(folder, config, &[], roles)
}

/// Runs the roles until Ctrl-C, SIGTERM, or their own end.
pub fn run_until_stopped(
    folder: Folder,
    config: Config,
    seeds: &[CanonicalUrl],
    roles: Roles,
) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("front")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let anonymous = config.identity.contact.is_empty() && config.identity.public_url.is_empty();
    let begun = Instant::now();
    let mut progress = ProgressLine::new();
    let running = Running::start(folder, config, seeds, roles)?;
    running.notes.iter().for_each(|note| tracing::warn!("{note}"));
    let listening = match runtime.block_on(running.listen()) {
        Ok(listening) => listening,
        Err(error) => {
            running.stop()?;
            return Err(error);
        }
    };
    if let Some(Listening { address, dashboard }) = listening {
        progress.say(&format!("Search at http://{address} — Ctrl-C stops"));
        progress.say(&format!("Dashboard at {dashboard}"));
    }
    if let Some(address) = running.federation_address() {
        progress.say(&format!("Other engines reach this one at {address}"));
    }
    if roles.crawl && anonymous {
        progress.say(
            "Site owners cannot see who you are: set contact or public_url under [identity] in farol.toml",
        );
    }
    crate::notify::ready();
    let before = running.snapshot().totals.pages;
    let mut news = SeedNews::default();
    runtime.block_on(watch(&running, &mut progress, &mut news));
    progress.clear();
    let snapshot = running.snapshot();
    news.lines(&snapshot.seeds).iter().for_each(|line| progress.say(line));
    // A crawl that could not begin anywhere has failed, as far as whoever started it is concerned.
    let in_vain = roles.ends_when_done && snapshot.totals.pages == 0 && snapshot.seeds.troubled() > 0;
    let failed = snapshot.state == EngineState::Failed || in_vain;
    crate::notify::stopping();
    second_signal_ends_at_once(&runtime);
    let result = running.stop();
    // What was told long ago has scrolled away.
    if roles.ends_when_done && begun.elapsed() > TOLD_AGAIN {
        summed_up(&snapshot.seeds).iter().for_each(|line| eprintln!("{line}"));
    }
    if in_vain {
        eprintln!("No page was fetched. Run the same command again when that is mended.");
    } else if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        let took = begun.elapsed().as_secs_f64();
        eprintln!(
            "{} in {took:.0} s, {} known, {} on disk. Run the same command again to go on.",
            counted(snapshot.totals.pages.saturating_sub(before), "page"),
            counted(snapshot.urls_known, "URL"),
            size(snapshot.archive_bytes + snapshot.urls_bytes + snapshot.links_bytes),
        );
    }
    result?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What came of the seeds is told again at the end of a crawl that took longer than this.
const TOLD_AGAIN: Duration = Duration::from_secs(30);

/// Waits for the end, showing how things are meanwhile.
async fn watch(running: &Running, progress: &mut ProgressLine, news: &mut SeedNews) {
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    let ended = ended();
    tokio::pin!(ended);
    let mut last = (EngineState::Crawling, String::new());
    loop {
        tokio::select! {
            _ = &mut ended => return,
            _ = ticks.tick() => {
                progress.update(running);
                let snapshot = running.snapshot();
                news.lines(&snapshot.seeds).iter().for_each(|line| progress.say(line));
                // Where there is no terminal, trouble must still be told, once.
                if snapshot.message != last.1 && matches!(snapshot.state, EngineState::DiskFull | EngineState::Failed) {
                    tracing::warn!("{}", snapshot.message);
                }
                if last.0 == EngineState::DiskFull && snapshot.state == EngineState::Crawling {
                    tracing::warn!("there is room on the disk again; crawling goes on");
                }
                last = (snapshot.state, snapshot.message);
                if running.is_finished() {
                    return;
                }
            }
        }
    }
}

/// Ctrl-C or SIGTERM.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// Watches for Ctrl-C and SIGTERM from now on; what it gives tells whether one has come. A second one ends the process.
pub fn told_to_end() -> Result<impl Fn() -> bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("signals")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let told = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let heard = told.clone();
    runtime.spawn(async move {
        ended().await;
        heard.store(true, std::sync::atomic::Ordering::SeqCst);
        ended().await;
        std::process::exit(130);
    });
    // The runtime lives as long as somebody asks.
    Ok(move || {
        let _ = &runtime;
        told.load(std::sync::atomic::Ordering::SeqCst)
    })
}

/// Somebody who presses Ctrl-C twice does not want to wait; the next run mends what is unfinished.
fn second_signal_ends_at_once(runtime: &tokio::runtime::Runtime) {
    runtime.spawn(async {
        ended().await;
        std::process::exit(130);
    });
}
