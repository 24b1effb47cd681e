//! The fabric on real servers. They are found by themselves; `cargo xtask install` gets one.

mod contract;
mod kills;
mod lost_stream;
mod refusals;
mod tls;
mod traps;

use farol_fabric::testing::servers::TestServers;

/// A folder, with one server in it.
fn one() -> (tempfile::TempDir, TestServers) {
    let folder = tempfile::tempdir().unwrap();
    let servers = TestServers::one(folder.path());
    (folder, servers)
}

/// Changes nobody else can make: by a client of one's own.
fn by_hand<T>(servers: &TestServers, what: impl AsyncFnOnce(async_nats::Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = servers.all[0].settings().address();
    runtime.block_on(async { what(async_nats::connect(address).await.unwrap()).await })
}

/// Asks JetStream by hand.
fn ask(servers: &TestServers, verb: &str, question: &str) -> serde_json::Value {
    let (subject, question) = (format!("$JS.API.{verb}"), question.to_string());
    by_hand(servers, async |client| {
        let answer = client.request(subject, question.into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    })
}

/// Sends a signal to a server's process.
fn signal(servers: &TestServers, which: usize, name: &str) {
    let pid = servers.all[which].pid().unwrap().to_string();
    assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
}
