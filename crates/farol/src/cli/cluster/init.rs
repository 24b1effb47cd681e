//! `farol cluster init`: makes a cluster, once.

use super::place::ClusterPlace;
use crate::cluster::adopt::Adopted;
use crate::cluster::birth::{Birth, bear};
use crate::cluster::door::Door;
use crate::progress::counted;
use anyhow::{Result, bail};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct InitArgs {
    #[command(flatten)]
    place: ClusterPlace,
    /// Parts of the index at the beginning; `farol cluster split` makes more
    #[arg(long, value_name = "P", default_value_t = 4)]
    shards: u32,
    /// Copies of each part, on different nodes
    #[arg(long, value_name = "D", default_value_t = 2)]
    replicas: u16,
    /// Folder of a `farol up` that is to be the first agent: what it has fetched is sent to the shards, and not fetched again
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

pub fn run(args: &InitArgs) -> Result<ExitCode> {
    let config = args.place.settings()?;
    let door = Door::connect(&config)?;
    let adopted = args.from.as_deref().map(Adopted::open).transpose()?;
    let (cluster, is_new) = bear(&door, Birth { shards: args.shards, replicas: args.replicas })?;
    let what = format!(
        "{} with {} of {}",
        config.cluster.name,
        counted(u64::from(cluster.replicas), "replica"),
        counted(u64::from(cluster.shards), "shard")
    );
    let mut out = std::io::stdout();
    let from = args.from.as_deref().unwrap_or(Path::new("DIR")).display();
    match (adopted, is_new) {
        (Some(_), false) => bail!(
            "the cluster {what} was made before, and a folder becomes the first agent of a new one only; choose another name \
             with --cluster"
        ),
        (Some(adopted), true) => {
            if let Some(aside) = adopted.enroll(&door)? {
                let aside = aside.display();
                writeln!(out, "Its index lies in {aside} now; delete it once the cluster has all pages.")?;
            }
        }
        (None, _) => {}
    }
    match is_new {
        true => writeln!(
            out,
            "The cluster {what} is made. Start its nodes, each on its machine:\n  farol node --join {} --cluster {} \
             --listen-rpc ADDR:7800 --blobs SHARED --data {from}",
            without_password(&config.cluster.join),
            config.cluster.name
        )?,
        false => writeln!(out, "The cluster {what} was made before; nothing is changed.")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An address to be shown: people see it over one's shoulder.
fn without_password(join: &str) -> String {
    let hide = |part: &str| match (part.split_once("://"), part.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://USER:PASSWORD@{host}"),
        _ => part.to_string(),
    };
    join.split(',').map(hide).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("nats://u:p@a:1,b:2"), "nats://USER:PASSWORD@a:1,b:2");
        assert_eq!(without_password("nats://a:1"), "nats://a:1");
    }
}
