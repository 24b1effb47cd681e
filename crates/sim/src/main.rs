//! `farol-sim`: the lab on the command line.

use anyhow::Context;
use clap::{Parser, Subcommand};
use farol_sim::urls::{ChildArgs, STORES, UrlsArgs, compare, run_one};
use farol_synthetic::check::{CheckRules, check};
use farol_synthetic::{LogSink, Page, Scope, Walk, WebConfig, World, read_log, serve};
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A synthetic Web to crawl, a checker of how it was crawled, and experiments.
#[derive(Parser)]
#[command(name = "farol-sim", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves a synthetic Web on loopback until Ctrl-C.
    Web(WebArgs),
    /// Judges a crawl by the log of `farol-sim web`; takes the same options for the Web as that took.
    ///
    /// Exit code 1 means that the crawl was not clean, 2 that it could not be judged.
    Check(CheckArgs),
    /// Measures how fresh each revisit rule keeps a repository.
    Revisit(farol_sim::revisit::RevisitArgs),
    /// Runs a real crawler on a synthetic Web that changes, and says how fresh it is.
    Live(farol_sim::live::LiveArgs),
    /// Says whether a real crawler keeps its pace as it comes to know millions of URLs.
    Steady(farol_sim::live::steady::SteadyArgs),
    /// Runs the result cache's mechanisms under streams of queries, failures and bursts.
    Cache(farol_sim::cache::CacheArgs),
    /// Runs whole clusters, each in one thread from one seed, with everything going wrong.
    ///
    /// Exit code 1 means that a promise was broken, or that a rule that was switched off was not missed.
    Cluster(farol_sim::cluster::ClusterArgs),
    /// Runs agents that own hosts, each cluster in one thread from one seed, with everything going wrong.
    ///
    /// Exit code 1 means that a promise was broken, or that a rule that was switched off was not missed.
    Hold(farol_sim::hold::HoldArgs),
    /// Engines of different owners: their agreements, with everything going wrong.
    Federation(farol_sim::federation::FederationArgs),
    /// Splits hosts between agents: model and simulator of [Exposto08 ch. 5], and more.
    Partition(farol_sim::partition::PartitionArgs),
    /// Compares URL stores on the cycles of a long crawl, each in a process of its own.
    Urls(UrlsArgs),
    /// Runs one store for `urls`.
    #[command(hide = true, name = farol_sim::urls::CHILD)]
    UrlsOneStore(ChildArgs),
}

#[derive(clap::Args)]
struct WebArgs {
    /// Loopback address and port; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Writes each request as a JSON line to this file.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Threads that serve.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[command(flatten)]
    world: WorldArgs,
}

#[derive(clap::Args)]
struct WorldArgs {
    /// Takes all trouble out: plain pages only, no rules, nothing changes. For measuring speed.
    #[arg(long)]
    tame: bool,
    #[command(flatten)]
    config: WebConfig,
}

#[derive(clap::Args)]
struct CheckArgs {
    /// Log of `farol-sim web`.
    #[arg(long)]
    log: PathBuf,
    /// Least time between two requests to a host or address, in seconds.
    #[arg(long, default_value_t = 0.0)]
    delay_min: f64,
    /// Doubt that is the crawler's, in milliseconds.
    #[arg(long, default_value_t = 20)]
    slack_millis: u64,
    /// The crawl was meant to be complete: pages never asked for are an offence.
    #[arg(long)]
    complete: bool,
    /// How far the crawl was meant to go.
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Number of a host whose front page was a seed; may be given more than once.
    #[arg(long = "seed-host", default_value = "0")]
    seed_hosts: Vec<u32>,
    /// The crawler does not read sitemaps.
    #[arg(long)]
    no_sitemaps: bool,
    /// Pages of endless places that are forgiven; any number where it is not given.
    #[arg(long)]
    traps_max: Option<u64>,
    /// Repeated requests that are forgiven.
    #[arg(long, default_value_t = 0)]
    doubles_max: u64,
    #[command(flatten)]
    world: WorldArgs,
}

impl WorldArgs {
    fn config(self) -> WebConfig {
        if self.tame { self.config.tamed() } else { self.config }
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let outcome = match Cli::parse().command {
        Command::Web(args) => web(args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => judge(args),
        Command::Revisit(args) => {
            farol_sim::revisit::run(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Live(args) => farol_sim::live::run(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Steady(args) => {
            farol_sim::live::steady::run(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Cache(args) => farol_sim::cache::run(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Cluster(args) => farol_sim::cluster::run(&args)
            .map(|is_fine| if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            .map_err(Into::into),
        Command::Hold(args) => farol_sim::hold::run(&args)
            .map(|is_fine| if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            .map_err(Into::into),
        Command::Federation(args) => farol_sim::federation::run(&args)
            .map(|is_fine| if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        Command::Partition(args) => {
            farol_sim::partition::run(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Urls(args) => compare(&args, STORES).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::UrlsOneStore(args) => run_one(&args, STORES).map(|()| ExitCode::SUCCESS).map_err(Into::into),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("farol-sim: {error:#}");
        ExitCode::from(2)
    })
}

fn web(args: WebArgs) -> anyhow::Result<()> {
    raise_file_limit();
    let log = match &args.log {
        Some(path) => LogSink::file(path).with_context(|| format!("cannot write {}", path.display()))?,
        None => LogSink::off(),
    };
    let threads = args.threads.clamp(1, 1024);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let server = serve(args.world.config(), args.listen, log)
            .await
            .with_context(|| format!("cannot serve on {}; is the port taken?", args.listen))?;
        let world = server.world();
        println!(
            "A synthetic Web of {} hosts and {} pages, seed {}, on {}\n\nCrawl it with\n  \
             farol crawl http://{}/ --scope domain --resolve '{}'\nor through it as a proxy with\n  \
             http_proxy=http://{} wget2 -r -H -D {} http://{}/\n\nCtrl-C stops it.",
            world.hosts(),
            world.pages(),
            world.config().seed,
            server.address(),
            world.host_name(0),
            server.resolve(),
            server.address(),
            world.config().domain,
            world.host_name(0),
        );
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed?,
            _ = terminate.recv() => {}
        }
        let counts = server.counts();
        server.stop().await;
        println!("{} requests, {} pages, {} bytes", counts.requests, counts.pages, counts.bytes);
        Ok(())
    })
}

fn judge(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let world = World::new(args.world.config())?;
    let file = File::open(&args.log).with_context(|| format!("cannot read {}", args.log.display()))?;
    let log = read_log(BufReader::new(file))?;
    let delay_min =
        Duration::try_from_secs_f64(args.delay_min).context("--delay-min is a number of seconds")?;
    let rules = CheckRules {
        delay_min,
        slack: Duration::from_millis(args.slack_millis),
        complete: args.complete,
        traps_max: args.traps_max,
        doubles_max: args.doubles_max,
        walk: Walk {
            seeds: args.seed_hosts.iter().map(|host| Page { host: *host, number: 0 }).collect(),
            scope: args.scope,
            sitemaps: !args.no_sitemaps,
        },
        ..CheckRules::default()
    };
    let report = check(&world, log.into_iter(), &rules);
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A crawler keeps a connection per host open; the usual limit of 1,024 files is too few for a large Web.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
