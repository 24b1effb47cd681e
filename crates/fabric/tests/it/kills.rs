//! Three servers that die in turn: the short form of `examples/log_under_kills.rs`.

use farol_fabric::testing::servers::TestServers;
use farol_fabric::testing::under_kills::{Trial, check_under_kills};
use std::time::Duration;

#[test]
fn servers_killed_in_turn_lose_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut servers = TestServers::cluster(folder.path(), 3);
    let trial = Trial { batches: 1000, every: Duration::from_secs(5), deaths: Some(3) };
    let outcome = check_under_kills(&mut servers, trial);
    println!("{outcome:?}");
    assert!(outcome.written >= trial.batches && outcome.deaths == 3, "{outcome:?}");
    assert!(outcome.longest_append < Duration::from_secs(30), "{outcome:?}");
}
