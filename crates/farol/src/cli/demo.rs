//! `farol demo`: a made-up Web on loopback, for people with no site at hand.

use super::Place;
use crate::config::{ScopeKind, Span};
use crate::engine::Roles;
use crate::folder::Folder;
use anyhow::{Context, Result};
use farol_synthetic::{LogSink, WebConfig};
use std::process::ExitCode;

#[derive(clap::Args, Clone)]
pub struct Demo {
    #[command(flatten)]
    place: Place,
    /// Address and port of the search page [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Hosts of the made-up Web
    #[arg(long, default_value_t = 50)]
    hosts: u32,
    /// Pages of the made-up Web
    #[arg(long, default_value_t = 2000)]
    pages: u64,
    /// The same seed makes the same Web
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(args: &Demo) -> Result<ExitCode> {
    // The made-up Web runs on a thread of its own, as if it were far away.
    let world = WebConfig { seed: args.seed, hosts: args.hosts, pages: args.pages, ..WebConfig::default() };
    let domain = world.domain.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("made-up-web")
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let server = runtime
        .block_on(farol_synthetic::serve(world, "127.0.0.1:0".parse()?, LogSink::off()))
        .context("cannot serve the made-up Web on loopback")?;
    let first = server.world().host_name(0);
    let mut config = args.place.settings()?;
    config.serve.listen = args.listen.clone().unwrap_or(config.serve.listen);
    config.crawl.scope = ScopeKind::Domain;
    // These servers are ours: no need to be slow.
    config.crawl.delay_min = Span::from(std::time::Duration::from_millis(50));
    config.crawl.resolve = vec![format!("*.{domain}=127.0.0.0/8:{}", server.address().port())];
    let folder = Folder::open_or_create(&args.place.data)?;
    let seed = crate::seed::read_seed(&format!("http://{first}/")).map_err(anyhow::Error::msg)?;
    let code = super::run::run_until_stopped(
        folder,
        config,
        &[seed],
        Roles { crawl: true, index: true, serve: true, ends_when_done: false },
    );
    runtime.shutdown_background();
    code
}
