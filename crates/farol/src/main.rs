//! Farol: a web search engine that people run themselves.
//!
//! The binary is thin: it reads the command line and the config, opens a data folder, and starts roles that
//! meet through the fabric. What the roles decide lies in the crates beside this one.

mod admin_key;
mod anchor_text;
mod archive;
mod broker;
mod cli;
mod clicks;
mod cluster;
mod config;
mod disk;
mod engine;
mod exchange;
mod fabric;
mod federation;
mod folder;
mod graph;
mod handles;
mod handover;
mod in_order;
mod notify;
mod operator;
mod page_set;
mod plan;
mod process;
mod progress;
mod ring;
mod roles;
mod seed;
mod telemetry;
mod wire;

use clap::Parser;
use farol_base::{Clock, SystemClock};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    if let Err(sentence) = log(cli.verbose) {
        eprintln!("farol: {sentence}");
        return ExitCode::from(2);
    }
    process::allow_many_files();
    process::keep_private();
    match cli::run(cli) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("farol: {error:#}");
            // What only the operator can mend, before anything was begun.
            let is_refusal = error.downcast_ref::<cluster::Refusal>().is_some();
            if is_refusal { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Warnings and errors go to standard error; more where asked for, by `-v` or FAROL_LOG. Steps of questions go to a
/// collector of traces, where one is named.
fn log(verbose: u8) -> Result<(), String> {
    let default = match verbose {
        0 => "farol=warn,farol_store=warn,farol_links=warn,farol_index=warn,farol_front=warn",
        1 => "warn,farol=info",
        _ => "warn,farol=debug,farol_store=info,farol_links=info,farol_index=info,farol_front=info",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("FAROL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match verbose {
        0 => lines.boxed(),
        _ => lines.with_timer(HourMinuteSecond).boxed(),
    };
    let steps = telemetry::exporter()?;
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(steps).init();
    Ok(())
}

/// The time of day in UTC, for those who watch: the date they know.
struct HourMinuteSecond;

impl tracing_subscriber::fmt::time::FormatTime for HourMinuteSecond {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        let secs = SystemClock.now().as_millis() / 1000 % 86_400;
        write!(w, "{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
    }
}

/// Whether the reader of our output has gone, as `farol export | head` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
