//! `farol cluster drain`, `remove`, `move`, `add-replica`, `replicas`, `split`, `rebalance`: orders that the leader
//! carries out.

use super::place::ClusterPlace;
use crate::cluster::door::Door;
use crate::cluster::orders::{give, shard_map};
use anyhow::{Result, ensure};
use farol_cluster::ShardId;
use farol_cluster::order::Order;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct NodeOrder {
    /// The node: its name, its number or its id
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    place: ClusterPlace,
}

#[derive(clap::Args)]
pub struct ShardOrder {
    /// The shard's number
    #[arg(value_name = "SHARD")]
    shard: u32,
    #[command(flatten)]
    place: ClusterPlace,
}

#[derive(clap::Args)]
pub struct MoveOrder {
    /// The shard's number
    #[arg(value_name = "SHARD")]
    shard: u32,
    /// The node that has the replica
    #[arg(long, value_name = "NODE")]
    from: String,
    /// The node that gets it
    #[arg(long, value_name = "NODE")]
    to: String,
    #[command(flatten)]
    place: ClusterPlace,
}

#[derive(clap::Args)]
pub struct AddReplicaOrder {
    /// The shard's number
    #[arg(value_name = "SHARD")]
    shard: u32,
    /// The node that gets it [default: the one that has least]
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    #[command(flatten)]
    place: ClusterPlace,
}

#[derive(clap::Args)]
pub struct ReplicasOrder {
    /// Copies of each shard
    #[arg(value_name = "D")]
    copies: u32,
    #[command(flatten)]
    place: ClusterPlace,
}

pub fn drain(args: &NodeOrder) -> Result<ExitCode> {
    let door = open(&args.place)?;
    let node = door.find(&args.node)?;
    give(&door, Order::Drain { node: node.id })?;
    say(&format!(
        "{} gives its work away and leaves when others have it; `farol cluster status` shows how far it is.",
        node.name
    ))
}

pub fn remove(args: &NodeOrder) -> Result<ExitCode> {
    let door = open(&args.place)?;
    let node = door.find(&args.node)?;
    give(&door, Order::Remove { node: node.id })?;
    say(&format!("{} is given up; its replicas are filled again on other nodes.", node.name))
}

pub fn move_replica(args: &MoveOrder) -> Result<ExitCode> {
    let door = open(&args.place)?;
    let (shard, from, to) = (known(&door, args.shard)?, door.find(&args.from)?, door.find(&args.to)?);
    give(&door, Order::Move { shard, from: from.id, to: to.id })?;
    say(&format!("Shard {shard} is being copied to {}; it leaves {} when that is done.", to.name, from.name))
}

pub fn add_replica(args: &AddReplicaOrder) -> Result<ExitCode> {
    let door = open(&args.place)?;
    let shard = known(&door, args.shard)?;
    let to = args.to.as_ref().map(|to| door.find(to)).transpose()?;
    give(&door, Order::AddReplica { shard, node: to.map(|node| node.id) })?;
    say(&format!("Shard {shard} gets one more replica."))
}

pub fn replicas(args: &ReplicasOrder) -> Result<ExitCode> {
    ensure!((1..=16).contains(&args.copies), "{} replicas are not possible: 1 to 16", args.copies);
    give(&open(&args.place)?, Order::Replicas { copies: args.copies })?;
    say(&format!(
        "Every shard gets {} replicas, each on a node of its own: as many as there are nodes, where those are fewer.",
        args.copies
    ))
}

pub fn split(args: &ShardOrder) -> Result<ExitCode> {
    let door = open(&args.place)?;
    let shard = known(&door, args.shard)?;
    give(&door, Order::Split { shard })?;
    say(&format!("Shard {shard} becomes two; it answers until they do."))
}

pub fn rebalance(place: &ClusterPlace) -> Result<ExitCode> {
    give(&open(place)?, Order::Rebalance)?;
    say("Replicas are spread evenly over all nodes, one after the other.")
}

fn open(place: &ClusterPlace) -> Result<Door> {
    let door = Door::connect(&place.settings()?)?;
    door.enter()?;
    Ok(door)
}

/// The shard, if there is one of that number.
pub fn known(door: &Door, shard: u32) -> Result<ShardId> {
    let map = shard_map(&*door.fabric)?;
    let shards: Vec<u32> = map.iter().flat_map(|map| map.read()).map(|entry| entry.id.0).collect();
    ensure!(shards.contains(&shard), "there is no shard {shard}; there are {shards:?}");
    Ok(ShardId(shard))
}

fn say(sentence: &str) -> Result<ExitCode> {
    writeln!(std::io::stdout(), "{sentence}")?;
    Ok(ExitCode::SUCCESS)
}
