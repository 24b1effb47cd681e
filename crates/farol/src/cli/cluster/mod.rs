//! `farol cluster`: what concerns a cluster as a whole, one file per command.

mod agents;
mod backup;
mod certs;
mod digest;
mod doctor;
mod init;
mod nats_config;
mod orders;
pub mod place;
mod processes;
mod rebuild;
mod repair;
mod replan;
mod restore;
mod servers;
pub mod status;
mod up;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Run a whole cluster on this machine, to try it
    Up(up::UpArgs),
    /// Make a cluster, once, on NATS servers that run
    Init(init::InitArgs),
    /// Tell how the cluster is doing
    Status(status::ClusterStatusArgs),
    /// Look for what is wrong with servers, folders and certificates, and say what to do
    Doctor(place::ClusterPlace),
    /// Have a node give its work away and leave
    Drain(orders::NodeOrder),
    /// Give up a node that is lost for good
    Remove(orders::NodeOrder),
    /// Move a replica of a shard from one node to another
    Move(orders::MoveOrder),
    /// Add a replica of a shard
    AddReplica(orders::AddReplicaOrder),
    /// Set how many replicas every shard has
    Replicas(orders::ReplicasOrder),
    /// Make two shards of one, while it answers
    Split(orders::ShardOrder),
    /// Spread replicas evenly over all nodes
    Rebalance(place::ClusterPlace),
    /// Have a shard's log written again from the archives
    Rebuild(rebuild::RebuildArgs),
    /// Make the tables anew from what nodes last saw of them, where the NATS servers have lost them
    Repair(place::ClusterPlace),
    /// Copy what cannot be found again into a folder: archives and the operator's orders
    Backup(backup::BackupArgs),
    /// Make a cluster's folders anew from a backup
    Restore(restore::RestoreArgs),
    /// Tell what the replicas of a node hold, as a number each: equal ones hold the same pages
    Digest(digest::DigestArgs),
    /// Make the cluster's authority and its nodes' certificates
    Certs(certs::CertsArgs),
    /// Show who crawls what, and what agents exchange
    Agents(agents::ClusterAgentsArgs),
    /// Have the planner plan now who crawls what, and tell what came of it
    Replan(place::ClusterPlace),
    /// Print the configuration of a NATS server
    NatsConfig(nats_config::NatsConfigArgs),
}

pub fn run(command: &ClusterCommand) -> Result<ExitCode> {
    match command {
        ClusterCommand::Up(args) => up::run(args),
        ClusterCommand::Init(args) => init::run(args),
        ClusterCommand::Status(args) => status::run(args),
        ClusterCommand::Agents(args) => agents::run(args),
        ClusterCommand::Replan(args) => replan::run(args),
        ClusterCommand::Doctor(args) => doctor::run(args),
        ClusterCommand::Drain(args) => orders::drain(args),
        ClusterCommand::Remove(args) => orders::remove(args),
        ClusterCommand::Move(args) => orders::move_replica(args),
        ClusterCommand::AddReplica(args) => orders::add_replica(args),
        ClusterCommand::Replicas(args) => orders::replicas(args),
        ClusterCommand::Split(args) => orders::split(args),
        ClusterCommand::Rebalance(args) => orders::rebalance(args),
        ClusterCommand::Rebuild(args) => rebuild::run(args),
        ClusterCommand::Repair(args) => repair::run(args),
        ClusterCommand::Backup(args) => backup::run(args),
        ClusterCommand::Restore(args) => restore::run(args),
        ClusterCommand::Digest(args) => digest::run(args),
        ClusterCommand::Certs(args) => certs::run(args),
        ClusterCommand::NatsConfig(args) => nats_config::run(args),
    }
}
