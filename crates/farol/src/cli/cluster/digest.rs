//! `farol cluster digest`: what the replicas of a node hold, as a number each: replicas of a shard that hold the same
//! pages of the same visits have the same one, whatever their files look like.
//!
//! Reads all that was committed, in a node's own folder; the node may run meanwhile.

use anyhow::{Context, Result};
use farol_index::Searcher;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct DigestArgs {
    /// Data folder of a node
    #[arg(value_name = "DIR")]
    data: PathBuf,
}

pub fn run(args: &DigestArgs) -> Result<ExitCode> {
    let folder = args.data.join("index");
    let entries = std::fs::read_dir(&folder).with_context(|| {
        format!("{} has no replicas; name the data folder of a node", args.data.display())
    })?;
    let mut shards: Vec<u32> = Vec::new();
    for entry in entries {
        // A replica that is being filled has another name.
        shards.extend(entry?.file_name().to_string_lossy().parse::<u32>().ok());
    }
    shards.sort_unstable();
    for shard in shards {
        let searcher = Searcher::open(&folder.join(shard.to_string()))?;
        writeln!(std::io::stdout(), "{shard} {} {:016x}", searcher.documents(), searcher.digest()?)?;
    }
    Ok(ExitCode::SUCCESS)
}
