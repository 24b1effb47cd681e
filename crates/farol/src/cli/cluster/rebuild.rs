//! `farol cluster rebuild`: has a shard's log written again from the archives, for a shard whose replicas lost pages.

use super::place::ClusterPlace;
use crate::cluster::calls::Calls;
use crate::cluster::door::Door;
use crate::wire::v1::node::Resend;
use crate::wire::v1::verb;
use anyhow::{Result, ensure};
use farol_cluster::record::Role;
use farol_fabric::Topic;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest time for an agent to take note.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct RebuildArgs {
    /// The shard's number
    #[arg(value_name = "SHARD")]
    shard: u32,
    #[command(flatten)]
    place: ClusterPlace,
}

pub fn run(args: &RebuildArgs) -> Result<ExitCode> {
    let config = args.place.settings()?;
    let door = Door::connect(&config)?;
    door.enter()?;
    let shard = super::orders::known(&door, args.shard)?;
    let nodes = door.nodes()?;
    let agents: Vec<_> =
        nodes.iter().filter(|node| !node.state.is_gone() && node.roles.contains(&Role::Crawl)).collect();
    ensure!(!agents.is_empty(), "no node with an archive is there; start the one that crawls");
    let calls = Calls::new(&config, &args.place.data)?;
    let resend = Resend { topic: Topic::Docs(shard.0).to_string(), from: (0, 0) };
    for agent in &agents {
        let deadline = Instant::now() + PATIENCE;
        calls.caller().call::<_, ()>(&calls.peer(agent)?, verb::RESEND, &resend, deadline)?;
        writeln!(std::io::stdout(), "{} sends all of shard {shard} again.", agent.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
