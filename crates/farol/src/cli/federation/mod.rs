//! `farol federation`: what engines of different owners agree on.

mod view;

use anyhow::Result;
use std::process::ExitCode;

#[derive(clap::Subcommand)]
pub enum FederationCommand {
    /// Read a view of the Web, compare two, and try pages on one
    #[command(subcommand)]
    View(view::ViewCommand),
}

pub fn run(command: &FederationCommand) -> Result<ExitCode> {
    match command {
        FederationCommand::View(command) => view::run(command),
    }
}
