//! Three servers, each stream on all of them, killed in turn every 15 s under 100,000 numbered batches: all must be
//! read, once and in order.
//!
//! `cargo run --release -p farol-fabric --example log_under_kills [BATCHES [SECONDS]]`

use farol_fabric::testing::servers::TestServers;
use farol_fabric::testing::under_kills::{Trial, check_under_kills};
use std::time::Duration;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let batches = arguments.next().unwrap_or(100_000);
    let every = Duration::from_secs(arguments.next().unwrap_or(15));
    let folder = tempfile::tempdir().expect("a folder for the servers");
    let mut servers = TestServers::cluster(folder.path(), 3);
    let outcome = check_under_kills(&mut servers, Trial { batches, every, deaths: None });
    println!("complete, once, in order: {outcome:#?}");
}
