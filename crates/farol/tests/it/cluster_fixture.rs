//! A cluster of real processes on loopback, and questions to it.

use crate::fixture::{PATIENCE, binary, get};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// `farol cluster up`, with its folder; ended when dropped.
pub struct Cluster {
    pub child: Child,
    pub dir: tempfile::TempDir,
}

impl Cluster {
    /// In a new folder.
    pub fn up(arguments: &[String]) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("farol.toml"),
            "[index]\ncommit_every = '300ms'\nrank_every = '1s'\n[serve]\nrate_per_minute = 1000000\n",
        )
        .unwrap();
        Cluster::up_in(dir, arguments)
    }

    /// In a folder that has its settings already.
    pub fn up_in(dir: tempfile::TempDir, arguments: &[String]) -> Cluster {
        let mut command = binary();
        // Whoever tries a cluster may work with another one in the same shell.
        command.env("FAROL_JOIN", "nats://127.0.0.1:1");
        command.args(["cluster", "up", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path()).args(arguments);
        let log = std::fs::File::create(dir.path().join("up.log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Cluster { child, dir }
    }

    /// Ends it; its folder.
    pub fn end(mut self) -> tempfile::TempDir {
        // A folder that nobody uses goes away in its place.
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("up.log")).unwrap_or_default()
    }

    pub fn node(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Number of a node's process.
    pub fn pid(&self, name: &str) -> u32 {
        let text = std::fs::read_to_string(self.dir.path().join("cluster.json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        file["processes"][name].as_u64().unwrap_or_else(|| panic!("{name} does not run: {file}")) as u32
    }

    /// kill -9.
    pub fn kill(&self, name: &str) {
        let pid = rustix::process::Pid::from_raw(self.pid(name) as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Where a node answers people.
    #[track_caller]
    pub fn front(&mut self, name: &str) -> SocketAddr {
        let path = self.node(name).join("running.json");
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let json: Option<Value> = serde_json::from_str(&text).ok();
            if let Some(address) = json.and_then(|json| json["listen"].as_str()?.parse().ok()) {
                return address;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the cluster ended with {ended:?}: {}", self.log());
            assert!(begun.elapsed() < PATIENCE, "{name} does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The header that opens what is the operator's on a node.
    pub fn bearer(&self, name: &str) -> String {
        let key = std::fs::read_to_string(self.node(name).join("admin.key")).unwrap_or_default();
        format!("Authorization: Bearer {}", key.trim())
    }

    pub fn command(&self, arguments: &[&str]) -> Output {
        let mut command = binary();
        command.env_remove("FAROL_JOIN").arg("cluster").args(arguments).arg("--data").arg(self.dir.path());
        command.output().unwrap()
    }

    /// What `farol partition` says of this cluster.
    pub fn partition(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = binary();
        command.env_remove("FAROL_JOIN").arg("partition").args(arguments).arg("--data").arg(self.dir.path());
        command.output().unwrap().stdout
    }

    pub fn status(&self) -> Value {
        let output = self.command(&["status", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Waits until the cluster is as it should be.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {status:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It ends its own processes; killed, it would leave them behind.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
    }
}

/// Ranks of links follow the pages: they wait for a node's record, are computed, stored, and loaded by every node. After
/// each computation they rest for fifty times as long as it took, which on a busy machine is a while.
const REST: Duration = Duration::from_secs(20);

/// What is seen once it has not changed for some time.
#[track_caller]
pub fn at_rest<T: PartialEq>(mut look: impl FnMut() -> T) -> T {
    let (begun, mut since) = (Instant::now(), Instant::now());
    let mut last = look();
    while since.elapsed() < REST {
        assert!(begun.elapsed() < PATIENCE, "it never comes to rest");
        std::thread::sleep(Duration::from_millis(200));
        let now = look();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// Addresses of the results of a question, best first, and how many there are in all; `None` where it failed or was
/// answered in part.
pub fn ask(front: SocketAddr, question: &str) -> Option<(Vec<String>, u64)> {
    let path = format!("/api/v1/search?q={}", question.replace(' ', "+"));
    let reply = std::panic::catch_unwind(|| get(front, &path, &[])).ok()?;
    let json: Value = serde_json::from_str(&reply.body).ok()?;
    if reply.status != 200 || json["shards"]["answered"] != json["shards"]["total"] {
        return None;
    }
    let urls = json["hits"].as_array()?.iter().map(|hit| hit["url"].as_str().unwrap_or("").to_string());
    Some((urls.collect(), json["total"].as_u64()?))
}

/// Questions that the pages of the made-up Web answer: words of titles of pages with this word, one and two at a time.
pub fn questions(front: SocketAddr, word: &str) -> Vec<String> {
    let reply = get(front, &format!("/api/v1/search?q={word}&count=40"), &[]);
    let json: Value = serde_json::from_str(&reply.body).unwrap();
    let titles = json["hits"].as_array().cloned().unwrap_or_default();
    let mut questions = Vec::new();
    for title in titles.iter().filter_map(|hit| hit["title"].as_str()) {
        let words: Vec<&str> =
            title.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).take(3).collect();
        questions.extend(words.first().map(|word| word.to_string()));
        questions.extend((words.len() > 1).then(|| words[..2].join(" ")));
    }
    questions.sort();
    questions.dedup();
    questions.truncate(40);
    questions
}

/// Whether all shards have so many pages in all, in every replica, and all replicas answer.
pub fn holds(status: &Value, pages: u64) -> bool {
    let shards = status["shards"].as_array().cloned().unwrap_or_default();
    let sum: u64 = shards.iter().filter_map(|shard| shard["pages"].as_u64()).sum();
    let replicas = |shard: &Value| shard["replicas"].as_array().cloned().unwrap_or_default();
    let alike = shards.iter().all(|shard| {
        replicas(shard)
            .iter()
            .all(|replica| replica["state"] == "serving" && replica["pages"] == shard["pages"])
    });
    sum == pages && alike
}

pub fn up_state(status: &Value, name: &str) -> bool {
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().any(|node| node["name"] == name && node["state"] == "up")
}
