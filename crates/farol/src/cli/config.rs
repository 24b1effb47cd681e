//! `farol config`: the settings and their manual.

use super::Place;
use crate::config::Config;
use anyhow::Result;
use std::io::Write;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    place: Place,
    /// Print every key with its meaning and default
    #[arg(long)]
    explain: bool,
}

pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let text = match args.explain {
        true => Config::explain(),
        // What is in force: the file over the defaults.
        false => toml::to_string(&args.place.settings()?)?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
