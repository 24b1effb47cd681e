//! `farol cluster up`: a whole cluster on this machine, in one folder, to try it.
//!
//! ```text
//! farol-cluster/
//!   cluster.json   how to join it, and the process numbers of its nodes
//!   node.toml      settings of all nodes
//!   lock           held by this process
//!   nats-1/ …      what the NATS servers keep
//!   blobs/         snapshots of shards
//!   node-1/ …      data folders of the nodes; the first ones crawl
//!   cache-1/ …     of nodes that keep answers
//! ```

use super::place::JoinFile;
use super::processes::{self, NodeProcess};
use super::servers::Servers;
use crate::cli::{CrawlFlags, Place};
use crate::cluster::birth::{Birth, bear};
use crate::cluster::door::Door;
use crate::config::Config;
use anyhow::{Context, Result, ensure};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often the nodes are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A front that does not answer after this is told of.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub struct UpArgs {
    /// Where to start crawling; https:// may be left out
    #[arg(value_name = "SEED")]
    seeds: Vec<String>,
    /// Folder of the whole cluster
    #[arg(long, value_name = "DIR", default_value = "farol-cluster")]
    data: PathBuf,
    /// Settings of all nodes [default: farol.toml in the folder, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,
    /// Nodes that crawl, each with hosts of its own; 0 where others join to do that
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=16))]
    crawlers: u16,
    /// Nodes besides that keep answers for all fronts; 0: each front keeps its own
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=16))]
    caches: u16,
    /// NATS servers: 1, or 3 to see one of them fail
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    nats: u16,
    /// Parts of the index [default: one for each node]
    #[arg(long, value_name = "P")]
    shards: Option<u32>,
    /// Copies of each part [default: 2, or 1 for a single node]
    #[arg(long, value_name = "D")]
    replicas: Option<u16>,
    /// Address and port of the first node's search page; the others take the ports that follow [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    flags: CrawlFlags,
}

pub fn run(args: &UpArgs) -> Result<ExitCode> {
    ensure!(matches!(args.nats, 1 | 3 | 5), "--nats is {}: servers vote, so take 1 or 3", args.nats);
    ensure!(
        args.crawlers <= args.nodes,
        "--crawlers is {}, more than the {} nodes: raise --nodes as well",
        args.crawlers,
        args.nodes
    );
    let _lock = own_folder(&args.data)?;
    let mut config = settings(args)?;
    let shards = args.shards.unwrap_or(u32::from(args.nodes));
    // Room for every shard to be split once, and for what all share.
    let store_bytes = config.cluster.log_max.get().saturating_mul(u64::from(shards) * 2 + 4);
    let mut servers = Servers::start(&args.data, args.nats, store_bytes)?;
    config.cluster.join.clone_from(&servers.join);
    config.cluster.copies = usize::from(args.nats.min(3));
    config.cluster.blobs = absolute(&args.data.join("blobs"))?;
    let birth = Birth { shards, replicas: args.replicas.unwrap_or(args.nodes.min(2)) };
    bear(&Door::connect(&config)?, birth)?;
    let file = args.data.join("node.toml");
    private_file(&file)?.write_all(toml::to_string(&config)?.as_bytes())?;
    let mut nodes = nodes(args, &config, &file)?;
    let join = JoinFile {
        name: config.cluster.name.clone(),
        join: config.cluster.join.clone(),
        ..JoinFile::default()
    };
    let ran = start_and_watch(&mut nodes, usize::from(args.nodes), &mut servers, &args.data, &join);
    processes::end(&mut nodes);
    servers.stop();
    JoinFile { processes: Default::default(), ..join }.write(&args.data)?;
    ran.map(|()| ExitCode::SUCCESS)
}

/// Makes the folder, and takes it for this process.
fn own_folder(path: &Path) -> Result<File> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the folder {}; choose another with --data", path.display()))?;
    ensure!(
        !path.join("FAROL").exists(),
        "{} is the data folder of one engine; name a new folder for the cluster with --data",
        path.display()
    );
    let lock = private_file(&path.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => anyhow::bail!(
            "another `farol cluster up` is using {}; stop it first, or name another folder with --data",
            path.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock the cluster's folder"),
    }
}

fn private_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).with_context(|| format!("cannot write {}", path.display()))
}

fn absolute(path: &Path) -> Result<String> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))?;
    Ok(path.canonicalize()?.display().to_string())
}

fn settings(args: &UpArgs) -> Result<Config> {
    let mut config = Place { data: args.data.clone(), config: args.config.clone() }.settings()?;
    args.flags.apply(&mut config);
    config.serve.listen = args.listen.clone().unwrap_or(config.serve.listen);
    config.cluster.listen_rpc = "127.0.0.1:0".to_string();
    config.check()?;
    Ok(config)
}

/// The nodes, each with its own folder and port. The first ones crawl; whom seeds are told makes no difference.
fn nodes(args: &UpArgs, config: &Config, file: &Path) -> Result<Vec<NodeProcess>> {
    let listen: SocketAddr = config.serve.listen.parse().with_context(|| {
        format!("--listen {:?} is not ADDR:PORT, such as 127.0.0.1:8080", config.serve.listen)
    })?;
    let node = |nth: u16| {
        let name = format!("node-{}", nth + 1);
        let port = if listen.port() == 0 { 0 } else { listen.port().saturating_add(nth) };
        let roles =
            if nth < args.crawlers { "crawl,index,front,control,rank" } else { "index,front,control,rank" };
        let mut arguments: Vec<String> = vec![
            "--config".into(),
            file.display().to_string(),
            "--name".into(),
            name.clone(),
            "--roles".into(),
            roles.into(),
            "--listen".into(),
            SocketAddr::new(listen.ip(), port).to_string(),
            // All nodes end together: there is nobody to give anything away to.
            "--drain".into(),
            "0".into(),
        ];
        if nth == 0 {
            arguments.extend(args.seeds.iter().cloned());
        }
        NodeProcess::new(&name, &args.data.join(&name), arguments)
    };
    let cache = |nth: u16| {
        let name = format!("cache-{}", nth + 1);
        let arguments =
            ["--config", &file.display().to_string(), "--name", &name, "--roles", "cache", "--drain", "0"];
        NodeProcess::new(&name, &args.data.join(&name), arguments.map(String::from).to_vec())
    };
    Ok((0..args.nodes).map(node).chain((0..args.caches).map(cache)).collect())
}

/// Starts the nodes, and looks after them until Ctrl-C or SIGTERM.
fn start_and_watch(
    nodes: &mut [NodeProcess],
    fronts: usize,
    servers: &mut Servers,
    folder: &Path,
    join: &JoinFile,
) -> Result<()> {
    let ended = crate::cli::run::told_to_end()?;
    for node in nodes.iter_mut() {
        // An address of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(node.data.join("running.json"));
        node.start()?;
    }
    processes::announce(folder, join, nodes)?;
    let begun = Instant::now();
    let mut said = false;
    while !ended() {
        servers.look_after()?;
        let mut restarted = false;
        for node in nodes.iter_mut() {
            restarted |= node.look_after()?;
        }
        if restarted {
            processes::announce(folder, join, nodes)?;
        }
        if !said {
            said = tell(nodes, fronts, folder, begun.elapsed() > PATIENCE);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Says where the cluster answers, once all of its fronts do; or that some do not. Whether it was said.
fn tell(nodes: &[NodeProcess], fronts: usize, folder: &Path, impatient: bool) -> bool {
    let listening = |node: &NodeProcess| {
        let folder = crate::folder::Folder::open(&node.data).ok()?;
        folder.listening().map(|address| format!("  {}  http://{address}", node.name))
    };
    let lines: Vec<String> = nodes.iter().filter_map(listening).collect();
    if lines.len() < fronts && !impatient {
        return false;
    }
    eprintln!(
        "A cluster of {} nodes — Ctrl-C stops all of them. Search at\n{}",
        nodes.len(),
        lines.join("\n")
    );
    eprintln!("How it is: farol cluster status --data {}", folder.display());
    true
}
