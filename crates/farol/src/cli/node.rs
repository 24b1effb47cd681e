//! `farol node`: one node of a cluster.

use super::Crawling;
use super::cluster::place::Joining;
use crate::cluster::node::{NodeOptions, RunningNode};
use crate::config::Span;
use anyhow::{Result, bail};
use farol_cluster::{Phase, Role};
use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the node looks whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A node that is no member after this says why.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What `node` takes.
#[derive(clap::Args)]
pub struct NodeArgs {
    #[command(flatten)]
    crawling: Crawling,
    #[command(flatten)]
    joining: Joining,
    /// What it does: crawl, index, cache (keep answers), front (answer people), control (may lead), rank (may compute link
    /// ranks)
    #[arg(
        long,
        value_name = "ROLE,...",
        value_delimiter = ',',
        default_value = "crawl,index,front,control,rank"
    )]
    roles: Vec<String>,
    /// Its name for people [default: that of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What fails together with it, such as a rack
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Address and port where other nodes reach it [default: 127.0.0.1:7800]
    #[arg(long, value_name = "ADDR:PORT")]
    listen_rpc: Option<String>,
    /// Where it tells its numbers to Prometheus, at /metrics; a port alone is one of 127.0.0.1 [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<String>,
    /// Folder that all nodes share
    #[arg(long, value_name = "DIR")]
    blobs: Option<String>,
    /// Time that Ctrl-C and SIGTERM leave for giving its work away; 0 when it comes back soon
    #[arg(long, value_name = "TIME", default_value = "60s")]
    drain: Span,
    /// End when standard input does
    #[arg(long, hide = true)]
    while_stdin: bool,
}

pub fn run(args: &NodeArgs) -> Result<ExitCode> {
    let (mut config, data) = (args.crawling.settings()?, &args.crawling.place.data);
    args.joining.apply(&mut config, data)?;
    let cluster = &mut config.cluster;
    cluster.zone = args.zone.clone().unwrap_or(std::mem::take(&mut cluster.zone));
    cluster.listen_rpc = args.listen_rpc.clone().unwrap_or(std::mem::take(&mut cluster.listen_rpc));
    cluster.metrics = args.metrics.clone().unwrap_or(std::mem::take(&mut cluster.metrics));
    cluster.check()?;
    cluster.blobs = args.blobs.clone().unwrap_or(std::mem::take(&mut cluster.blobs));
    let options = NodeOptions {
        roles: args.roles.iter().map(|role| read_role(role)).collect::<Result<_>>()?,
        name: args.name.clone().unwrap_or_else(machine_name),
        seeds: args.crawling.seeds(&config)?,
        data: data.clone(),
        config: Arc::new(config),
    };
    let told = super::run::told_to_end()?;
    let orphaned = args.while_stdin.then(watch_stdin);
    let ended = || told() || orphaned.as_ref().is_some_and(|orphaned| orphaned.load(Ordering::SeqCst));
    if options.config.federation.enabled {
        tracing::warn!(
            "engines of other owners are not reached from a cluster yet: enabled = true under [federation] does nothing on \
             this node; share pages from an engine of its own, started by `farol up`"
        );
    }
    let mut node = RunningNode::start(options)?;
    eprintln!("Nodes meet at {}", node.rpc_address());
    let (begun, mut waits, mut is_ready) = (Instant::now(), true, false);
    while !ended() && !node.has_left() {
        let listening = node.tick()?;
        if !is_ready && node.is_working() {
            is_ready = true;
            crate::notify::ready();
        }
        if let Some(listening) = listening {
            node.notes().iter().for_each(|note| tracing::warn!("{note}"));
            eprintln!("Search at http://{}; dashboard at {}", listening.address, listening.dashboard);
        }
        if waits && begun.elapsed() > WAIT_MAX {
            waits = false;
            tell_wait(&node);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    crate::notify::stopping();
    let deadline = Instant::now() + args.drain.get();
    if !node.has_left() && Instant::now() < deadline {
        eprintln!("Giving its work away, for {} at most; Ctrl-C again ends it at once", args.drain);
        node.drain();
        while !node.has_left() && Instant::now() < deadline {
            node.tick()?;
            std::thread::sleep(LOOK_EVERY);
        }
    }
    node.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// Says what keeps a node from becoming a member.
fn tell_wait(node: &RunningNode) {
    let why = match node.stands() {
        (Phase::Up | Phase::Draining | Phase::Left, _) => return,
        (_, Some(trouble)) => trouble,
        (Phase::Waiting, None) => {
            "another machine holds this node's name; where the folder was copied, delete node.id in this copy"
                .to_string()
        }
        _ => "there is no leader yet; start a node with the role control".to_string(),
    };
    eprintln!("Waiting to become a member: {why}");
    crate::notify::status(&format!("waiting to become a member: {why}"));
}

fn read_role(text: &str) -> Result<Role> {
    Ok(match text.trim() {
        "crawl" => Role::Crawl,
        "index" => Role::Index,
        "cache" => Role::Cache,
        "front" => Role::Front,
        "control" => Role::Control,
        "rank" => Role::Rank,
        _ => {
            bail!(
                "{text:?} is no role; roles are crawl, index, cache, front, control and rank, with commas between"
            )
        }
    })
}

/// What the machine is called, for a node that nobody has named.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_string();
    if name.is_empty() { "node".to_string() } else { name }
}

/// Tells when standard input ends.
fn watch_stdin() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
        seen.store(true, Ordering::SeqCst);
    });
    ended
}
