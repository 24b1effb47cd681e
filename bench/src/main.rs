//! Farol beside its peers: same machine, same input, one after another in one run.
//!
//! ```text
//! cargo build --release -p farol -p farol-sim
//! cargo run --release --manifest-path bench/Cargo.toml -- crawlers
//! cargo run --release --manifest-path bench/Cargo.toml -- urls --stores veuni,drum,drum-lazy,fjall
//! cargo run --release --manifest-path bench/Cargo.toml -- caches
//! cargo run --release --manifest-path bench/Cargo.toml -- partition --graph FILE
//! ```

mod caches;
mod crawlers;
mod partition;
mod peers;
mod process;
mod queries;
mod urls;
mod web;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Farol beside its peers.
#[derive(Parser)]
#[command(name = "farol-bench", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Crawls a synthetic Web with each crawler in turn and prints pages per second and per CPU-second.
    Crawlers(crawlers::Args),
    /// Asks a running engine at a steady rate and prints how long answers took.
    Queries(queries::Args),
    /// Compares replacement policies with the crate `moka` on one stream; options as `farol-sim cache` has them.
    Caches(farol_sim::cache::CacheArgs),
    /// Splits graphs with METIS and with our partitioner.
    Partition(partition::Args),
    /// Compares URL stores as `farol-sim urls` does, with the key-value engine `fjall` as one more store.
    Urls(farol_sim::urls::UrlsArgs),
    /// Runs one store for `urls`.
    #[command(hide = true, name = farol_sim::urls::CHILD)]
    UrlsOneStore(farol_sim::urls::ChildArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Crawlers(args) => crawlers::run(&args),
        Command::Queries(args) => queries::run(&args),
        Command::Caches(args) => caches::compare(&args),
        Command::Partition(args) => partition::run(&args),
        Command::Urls(args) => urls::compare(&args),
        Command::UrlsOneStore(args) => urls::run_one(&args),
    }
}
