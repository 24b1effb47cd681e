//! `farol federation`: what engines of different owners agree on.

mod packets;
mod partners;
mod view;

use anyhow::Result;
use std::process::ExitCode;

#[derive(clap::Subcommand)]
pub enum FederationCommand {
    /// Read a view of the Web, compare two, and try pages on one
    #[command(subcommand)]
    View(view::ViewCommand),
    /// Write the pages of a view into packets, for another engine to import
    #[command(after_help = packets::EXAMPLES)]
    Export(packets::ExportPackets),
    /// Take in packets that another engine wrote
    #[command(after_help = packets::EXAMPLES)]
    Import(packets::ImportPackets),
    /// Show what is in a packet
    Inspect(packets::InspectPacket),
    /// Tell the key by which other engines know this one
    Id(partners::IdArgs),
    /// Write this engine's signed card
    Card(partners::CardArgs),
    /// Get to know another engine, and confirm its key
    Join(partners::JoinArgs),
    /// Forget an engine with which nothing is agreed
    Forget(partners::ForgetArgs),
    /// List the engines that are known
    Partners(partners::ListArgs),
    /// Propose that one engine crawls pages for the other
    Propose(partners::ProposeArgs),
    /// Agree to what another engine proposed
    Accept(partners::AgreementArgs),
    /// Do not agree to what another engine proposed
    Refuse(partners::AgreementArgs),
    /// Propose other pages for an agreement in force
    Amend(partners::AmendArgs),
    /// End an agreement
    End(partners::EndArgs),
    /// Show what was agreed on and how it goes; exit code 3 where something waits for an answer
    Status(partners::ListArgs),
}

pub fn run(command: &FederationCommand) -> Result<ExitCode> {
    match command {
        FederationCommand::View(command) => view::run(command),
        FederationCommand::Export(args) => packets::export(args),
        FederationCommand::Import(args) => packets::import(args),
        FederationCommand::Inspect(args) => packets::inspect(args),
        FederationCommand::Id(args) => partners::id(args),
        FederationCommand::Card(args) => partners::card(args),
        FederationCommand::Join(args) => partners::join(args),
        FederationCommand::Forget(args) => partners::forget(args),
        FederationCommand::Partners(args) => partners::partners(args),
        FederationCommand::Propose(args) => partners::propose(args),
        FederationCommand::Accept(args) => partners::accept(args),
        FederationCommand::Refuse(args) => partners::refuse(args),
        FederationCommand::Amend(args) => partners::amend(args),
        FederationCommand::End(args) => partners::end(args),
        FederationCommand::Status(args) => partners::status(args),
    }
}
