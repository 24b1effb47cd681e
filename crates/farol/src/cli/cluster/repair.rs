//! `farol cluster repair`: makes the tables anew where the servers have lost them, from the newest copies that nodes have.
//!
//! Revisions go on behind the greatest one that any node has seen: so the terms of leaders and the leases of nodes still
//! grow, nodes that run take up what is new, and whoever led before stands down.

use super::place::ClusterPlace;
use crate::cluster::Refusal;
use crate::cluster::calls::Calls;
use crate::cluster::door::Door;
use crate::config::Config;
use crate::handles::tables_copy::{FILE, TABLE, TablesCopy};
use crate::progress::counted;
use crate::wire::v1::backup::{ToldEntries, ToldRequest};
use crate::wire::v1::verb;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use farol_cluster::record::{ClusterRecord, LeaderRecord, read, write};
use farol_cluster::{Key, NodeRecord};
use farol_fabric::{Fabric, Revision};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest time for a node to give a page of its copy.
const PATIENCE: Duration = Duration::from_secs(3);
/// Changes that nobody may have seen before the tables were lost: some centuries of them.
const UNSEEN: u64 = 1 << 32;

pub fn run(place: &ClusterPlace) -> Result<ExitCode> {
    let config = place.settings()?;
    let door = Door::connect(&config)?;
    if let Some(cluster) = door.cluster()? {
        writeln!(std::io::stdout(), "The tables of cluster {} are there; nothing is changed.", cluster.id)?;
        return Ok(ExitCode::SUCCESS);
    }
    let copy = copies_in(&place.data)?;
    let asked = ask_nodes(&config, &place.data, &copy)?;
    let (values, leader) = prepared(&copy)?;
    let first = copy.revision() + UNSEEN;
    door.fabric.renew_tables(first).map_err(anyhow::Error::msg)?;
    for (key, value) in &values {
        put(&door, key, value)?;
    }
    // Last but one who leads next, and last what says that all is there.
    put(&door, &Key::Leader.to_string(), &leader)?;
    let cluster = copy.values().remove(&Key::Cluster.to_string()).unwrap_or_default();
    put(&door, &Key::Cluster.to_string(), &cluster)?;
    writeln!(
        std::io::stdout(),
        "The tables are made anew from {} and {}: {}. Nodes go on by themselves within a minute; look with \
         `farol cluster status`.",
        place.data.display(),
        counted(asked, "running node"),
        counted(values.len() as u64 + 2, "key")
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The copies of a node's folder, or of those of a whole cluster on this machine.
fn copies_in(folder: &Path) -> Result<TablesCopy> {
    let copy = TablesCopy::read(folder)?;
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.join(FILE).exists() {
            copy.merge(&TablesCopy::read(&path)?);
        }
    }
    if copy.values().is_empty() {
        bail!(
            "{} has no copy of the tables; name the data folder of a node that was a member with --data",
            folder.display()
        );
    }
    Ok(copy)
}

/// Takes what nodes that run have seen; how many answered.
fn ask_nodes(config: &Config, folder: &Path, copy: &TablesCopy) -> Result<u64> {
    let calls = Calls::new(config, folder)?;
    let mut asked = 0;
    for (key, value) in copy.values() {
        let Some(Key::Node(_)) = Key::parse(&key) else { continue };
        let Ok(node) = read::<NodeRecord>(&key, &value) else { continue };
        if node.state.is_gone() {
            continue;
        }
        match copy_of(&calls, &node) {
            Ok(theirs) => {
                copy.merge(&theirs);
                asked += 1;
            }
            Err(error) => eprintln!("{} does not answer, and is done without: {error:#}", node.name),
        }
    }
    Ok(asked)
}

fn copy_of(calls: &Calls, node: &NodeRecord) -> Result<TablesCopy> {
    let (copy, mut after) = (TablesCopy::default(), String::new());
    loop {
        let request = ToldRequest { table: TABLE.to_string(), after: after.clone() };
        let deadline = Instant::now() + PATIENCE;
        let page: ToldEntries = calls.caller().call(&calls.peer(node)?, verb::TOLD, &request, deadline)?;
        let Some((last, _)) = page.entries.last() else { return Ok(copy) };
        after.clone_from(last);
        copy.take_page(page.entries);
    }
}

/// What is written besides the cluster's record, and a lease that nobody holds: whoever comes next need not wait.
fn prepared(copy: &TablesCopy) -> Result<(BTreeMap<String, Bytes>, Bytes)> {
    let mut values = copy.values();
    let (cluster, leader) = (Key::Cluster.to_string(), Key::Leader.to_string());
    let Some(record) = values.remove(&cluster) else {
        return Err(Refusal::of(
            "no copy says what the cluster is; name the folder of another node with --data",
        ));
    };
    read::<ClusterRecord>(&cluster, &record)?;
    let resigned = values.remove(&leader).and_then(|value| read::<LeaderRecord>(&leader, &value).ok());
    let resigned = match resigned {
        Some(leader) => LeaderRecord { resigned: true, nonce: leader.nonce.wrapping_add(1), ..leader },
        None => bail!("no copy says who led; name the folder of another node with --data"),
    };
    Ok((values, Bytes::from(write(&resigned))))
}

fn put(door: &Door, key: &str, value: &[u8]) -> Result<()> {
    match door.fabric.set(key, value, Revision::NONE) {
        Ok(_) => Ok(()),
        // An answer got lost, or the node itself was faster: then it says more than the copy.
        Err(lost) => match door.fabric.get(key)? {
            Some(_) => Ok(()),
            None => bail!("{key} could not be written ({lost}); run `farol cluster repair` again"),
        },
    }
}
