//! `farol cluster backup`: copies what cannot be found again, while the cluster goes on.
//!
//! ```text
//! DIR/
//!   cluster.json   how large the cluster was, and whose folders follow; written last
//!   farol.toml     settings, if the folder has some
//!   node-1/ …      for each node that has something: a data folder with its archive and what it was told
//! ```
//! The archive is the log: shards, link graph and known URLs are made from it again. Nobody's key and password is here.

use super::place::ClusterPlace;
use crate::cluster::calls::Calls;
use crate::cluster::door::Door;
use crate::cluster::orders::shard_map;
use crate::config::cluster::is_name;
use crate::fabric::{Fabric, Table};
use crate::folder::Folder;
use crate::progress::{counted, size};
use crate::roles::desk::TOLD;
use crate::wire::v1::backup::{ArchiveFiles, PieceRequest, ToldEntries, ToldRequest, WirePiece};
use crate::wire::v1::verb;
use anyhow::{Context, Result, bail, ensure};
use farol_base::{Clock, SystemClock};
use farol_cluster::record::Role;
use farol_cluster::{NodeRecord, NodeState};
use farol_rpc::Peer;
use farol_store::pages::file_name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What says that a backup is whole.
pub const FILE: &str = "cluster.json";
/// Settings beside it.
pub const SETTINGS: &str = "farol.toml";
/// Layout of a backup.
pub const LAYOUT: u16 = 1;
/// Bytes that are asked for at once.
const PIECE_BYTES: u32 = 1 << 20;
/// Longest time for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub struct BackupArgs {
    /// Folder of the backup; it must not exist yet, or be empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    place: ClusterPlace,
}

/// What a backup holds.
#[derive(Serialize, Deserialize)]
pub struct Contents {
    pub v: u16,
    /// Name of the cluster.
    pub name: String,
    /// When it was begun, milliseconds since 1970; for people.
    pub begun: u64,
    pub shards: u32,
    pub replicas: u32,
    /// Nodes there were, those with nothing to keep too.
    pub nodes: u16,
    /// Folders of nodes; those with an archive first.
    pub folders: Vec<NodeFolder>,
}

/// The folder of a node in a backup.
#[derive(Serialize, Deserialize)]
pub struct NodeFolder {
    pub folder: String,
    /// Bytes of its archive.
    pub bytes: u64,
}

pub fn run(args: &BackupArgs) -> Result<ExitCode> {
    let config = args.place.settings()?;
    let door = Door::connect(&config)?;
    let cluster = door.enter()?;
    let map = shard_map(&*door.fabric)?;
    let begun = SystemClock.now().as_millis();
    let (shards, replicas) = match &map {
        Some(map) => (u32::try_from(map.read().count())?, map.copies),
        None => (cluster.shards, cluster.replicas),
    };
    let calls = Calls::new(&config, &args.place.data)?;
    let nodes = door.nodes()?;
    let there: Vec<&NodeRecord> = nodes.iter().filter(|node| !node.state.is_gone()).collect();
    ensure!(!there.is_empty(), "no node is there; start them, and then make the backup");
    new_folder(&args.dir)?;
    let mut out = std::io::stdout();
    let mut folders: Vec<NodeFolder> = Vec::new();
    for node in &there {
        let is_free = is_name(&node.name) && folders.iter().all(|other| other.folder != node.name);
        let folder = if is_free { node.name.clone() } else { node.id.to_string() };
        let peer = Source { calls: &calls, peer: calls.peer(node)? };
        let copied = copy_node(&peer, &args.dir.join(&folder));
        if let Some(bytes) = copied.with_context(|| format!("cannot copy {}", node.name))? {
            writeln!(out, "{}: {} of archive", node.name, size(bytes))?;
            folders.push(NodeFolder { folder, bytes });
        }
    }
    let lost = nodes.iter().filter(|node| node.state == NodeState::Dead && node.roles.contains(&Role::Crawl));
    for node in lost {
        writeln!(
            out,
            "{} is dead: what it alone has is not in the backup; where it can, start it and do this again",
            node.name
        )?;
    }
    folders.sort_by(|a, b| (a.bytes == 0).cmp(&(b.bytes == 0)).then(a.folder.cmp(&b.folder)));
    let settings = args.place.config.clone().unwrap_or_else(|| args.place.data.join(SETTINGS));
    if settings.exists() {
        std::fs::copy(&settings, args.dir.join(SETTINGS))
            .with_context(|| format!("cannot copy {}", settings.display()))?;
    }
    let count = u16::try_from(there.len())?;
    let contents =
        Contents { v: LAYOUT, name: door.name.clone(), begun, shards, replicas, nodes: count, folders };
    write_durably(&args.dir.join(FILE), &serde_json::to_vec_pretty(&contents)?)?;
    writeln!(
        out,
        "The backup of {} is in {}. A cluster is made of it with\n  farol cluster restore {} --data NEW",
        counted(u64::from(count), "node"),
        args.dir.display(),
        args.dir.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a folder for its owner alone; one with something in it is refused.
pub fn new_folder(dir: &Path) -> Result<()> {
    let mut private = std::fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    let mut entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    ensure!(entries.next().is_none(), "{} is not empty; name a new folder", dir.display());
    Ok(())
}

/// Writes a file that is there after a crash too.
fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A node that is copied.
struct Source<'a> {
    calls: &'a Calls,
    peer: Peer,
}

impl Source<'_> {
    fn ask<Q: Serialize, A: DeserializeOwned>(&self, verb: &str, question: &Q) -> Result<A> {
        Ok(self.calls.caller().call(&self.peer, verb, question, Instant::now() + PATIENCE)?)
    }

    /// All entries of a table.
    fn told(&self, table: Table) -> Result<Vec<(String, Vec<u8>)>> {
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |(key, _)| key.clone());
            let request = ToldRequest { table: table.name().to_string(), after };
            let ToldEntries { entries } = self.ask(verb::TOLD, &request)?;
            if entries.is_empty() {
                return Ok(all);
            }
            all.extend(entries);
        }
    }

    fn copy_file(&self, file: u32, bytes: u64, to: &Path) -> Result<()> {
        let mut copy = std::fs::File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
        let mut offset = 0;
        while offset < bytes {
            let request = PieceRequest { file, offset, bytes: PIECE_BYTES };
            let WirePiece { bytes: mut piece } = self.ask(verb::PIECE, &request)?;
            if piece.is_empty() {
                bail!(
                    "file {file} of the archive has become shorter while it was copied; run `farol check` there"
                );
            }
            // What was appended since then is the next backup's.
            piece.truncate(usize::try_from(bytes - offset).unwrap_or(usize::MAX));
            copy.write_all(&piece).with_context(|| format!("cannot write {}", to.display()))?;
            offset += piece.len() as u64;
        }
        copy.sync_all().with_context(|| format!("cannot write {}", to.display()))
    }
}

/// Copies a node into a data folder; how much archive it has, or `None` where it has nothing to keep.
fn copy_node(source: &Source<'_>, dir: &Path) -> Result<Option<u64>> {
    // First what was told: it speaks of positions in the archive.
    let told = TOLD.map(|table| source.told(table).map(|entries| (table, entries)));
    let told = told.into_iter().collect::<Result<Vec<_>>>()?;
    let ArchiveFiles { files } = source.ask(verb::ARCHIVE, &())?;
    if files.is_empty() && told.iter().all(|(_, entries)| entries.is_empty()) {
        return Ok(None);
    }
    let folder = Folder::open_or_create(dir)?;
    crate::disk::at(&folder.pages())?;
    for (file, bytes) in &files {
        source.copy_file(*file, *bytes, &folder.pages().join(file_name(*file)))?;
    }
    let tables = Fabric::local(&folder.tables())?.tables;
    for (table, entries) in &told {
        let entries: Vec<_> =
            entries.iter().map(|(key, value)| (*table, key.as_str(), value.as_slice())).collect();
        tables.put(&entries)?;
    }
    Ok(Some(files.iter().map(|(_, bytes)| bytes).sum()))
}
