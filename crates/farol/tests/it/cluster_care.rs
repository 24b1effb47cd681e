//! What an operator has to do with a cluster, on real nodes and a real NATS server: numbers of every role, tables that were
//! lost, a folder that becomes an agent, nodes of another version.

use crate::cluster_fixture::{at_rest, holds};
use crate::fixture::{Data, Farol, PATIENCE, Web, binary, get};
use farol_cluster::record::{ClusterRecord, RECORD_VERSION, write};
use farol_cluster::{NodeId, NodeRecord, NodeState};
use farol_fabric::nats::server::{LocalServer, ServerSettings, find_nats_server};
use farol_fabric::nats::{Nats, NatsOptions};
use farol_fabric::{Fabric, Revision};
use farol_synthetic::WebConfig;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A NATS server of a test's own, and a folder for everything.
struct Ground {
    dir: tempfile::TempDir,
    server: LocalServer,
}

/// A node; killed when dropped.
struct Node {
    child: Child,
    data: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    fn log(&self) -> String {
        std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default()
    }

    /// Where it answers people.
    #[track_caller]
    fn front(&self) -> SocketAddr {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.data.join("running.json")).unwrap_or_default();
            let json: Value = serde_json::from_str(&text).unwrap_or_default();
            if let Some(address) = json["listen"].as_str() {
                return address.parse().unwrap();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Ground {
    fn new() -> Ground {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = ServerSettings::new("n1", free(), &dir.path().join("js"));
        settings.store_bytes_max = 2 << 30;
        let server = LocalServer::start(&find_nats_server().unwrap(), dir.path(), settings).unwrap();
        std::fs::create_dir(dir.path().join("blobs")).unwrap();
        std::fs::write(
            dir.path().join("farol.toml"),
            "[cluster]\nlog_max = '64MiB'\n[index]\ncommit_every = '200ms'\nrank_every = '1s'\n[serve]\nrate_per_minute = \
             1000000\n",
        )
        .unwrap();
        Ground { dir, server }
    }

    fn join(&self) -> String {
        self.server.settings().address()
    }

    fn command(&self, words: &str, more: &[&str]) -> Output {
        let mut command = binary();
        command.env_remove("FAROL_JOIN").current_dir(self.dir.path()).args(words.split(' '));
        command.args(["--join", &self.join(), "--config", "farol.toml"]).args(more).output().unwrap()
    }

    #[track_caller]
    fn works(&self, words: &str, more: &[&str]) -> String {
        let output = self.command(words, more);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{words}: {out} {err}");
        out.into_owned()
    }

    fn node(&self, name: &str, roles: &str, more: &[String]) -> Node {
        self.node_in(&self.dir.path().join(name), name, roles, more)
    }

    fn node_in(&self, data: &Path, name: &str, roles: &str, more: &[String]) -> Node {
        // An address of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(data.join("running.json"));
        let log = std::fs::File::create(data.with_extension("log")).unwrap();
        let mut command = binary();
        command.env_remove("FAROL_JOIN").current_dir(self.dir.path());
        command.args(["node", "--config", "farol.toml", "--join", &self.join(), "--blobs", "blobs"]);
        command.args(["--name", name, "--roles", roles, "--drain", "0"]);
        command.args(["--listen", "127.0.0.1:0", "--listen-rpc", "127.0.0.1:0", "--data"]).arg(data);
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify")).args(more);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Node { child, data: data.to_path_buf() }
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.command("cluster status", &["--json"]).stdout).unwrap_or_default()
    }

    #[track_caller]
    fn wait_for(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A connection of the test's own to the tables.
    fn tables(&self) -> Nats {
        Nats::connect(&NatsOptions::new("farol", &self.join()).with_copies(1)).unwrap()
    }

    /// What no operator should do: deletes the tables.
    fn lose_tables(&self) {
        let mut stream = TcpStream::connect(self.server.settings().listen).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("INFO"));
        let ask = "CONNECT {\"verbose\":false}\r\nSUB reply 1\r\nPUB $JS.API.STREAM.DELETE.KV_farol_farol reply 0\r\n\r\n";
        stream.write_all(ask.as_bytes()).unwrap();
        let told = lines.map(Result::unwrap).find(|line| line.contains("success")).unwrap();
        assert!(told.contains("\"success\":true"), "{told}");
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

fn found(front: SocketAddr, question: &str) -> Value {
    serde_json::from_str(&get(front, &format!("/api/v1/search?q={question}&count=40"), &[]).body).unwrap()
}

/// Addresses of what is found, in order.
fn urls(answer: &Value) -> Vec<String> {
    let hits = answer["hits"].as_array().cloned().unwrap_or_default();
    hits.iter().map(|hit| hit["url"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_node_of_another_wire_is_refused_in_one_sentence() {
    let ground = Ground::new();
    ground.works("cluster init", &["--shards", "1", "--replicas", "1"]);
    let refused = |want: &str| {
        let data = ground.dir.path().join("newcomer");
        let rest = ["--blobs", "blobs", "--listen-rpc", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        let output = ground.command("node", &rest);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(want) && said.trim().lines().count() == 1, "{said}");
        assert!(!data.exists(), "something was written");
    };
    let tables = ground.tables();
    let mut foreign = NodeRecord::new(NodeId(7), "later", "127.0.0.1:9".parse().unwrap());
    (foreign.wire, foreign.program, foreign.state) = ((7, 9), "9.1.0".to_string(), NodeState::Up);
    let key = format!("node.{}", foreign.id);
    let revision = tables.set(&key, &write(&foreign), Revision::NONE).unwrap();
    refused("this node speaks versions 1 to 1 of the wire, node later 7 to 9: upgrade this node first");
    foreign.wire = (0, 0);
    let revision = tables.set(&key, &write(&foreign), revision).unwrap();
    refused("upgrade node later (farol 9.1.0) first");
    // Who has gone need not be spoken to; what lies in the logs must still be read.
    foreign.state = NodeState::Left;
    tables.set(&key, &write(&foreign), revision).unwrap();
    let (value, revision) = tables.get("cluster").unwrap().unwrap();
    let cluster: ClusterRecord = serde_json::from_slice(&value).unwrap();
    assert_eq!((cluster.v, cluster.wire), (RECORD_VERSION, 1));
    let later = ClusterRecord { wire: 2, ..cluster.clone() };
    let revision = tables.set("cluster", &write(&later), revision).unwrap();
    refused("the logs of this cluster are written in version 2 of the wire");
    let later = ClusterRecord { v: RECORD_VERSION + 1, ..cluster };
    tables.set("cluster", &write(&later), revision).unwrap();
    refused("was written by a newer program");
}

#[test]
fn nodes_of_every_role_tell_their_numbers() {
    let ground = Ground::new();
    ground.works("cluster init", &["--shards", "1", "--replicas", "1"]);
    let notified = UnixDatagram::bind(ground.dir.path().join("notify")).unwrap();
    notified.set_read_timeout(Some(PATIENCE)).unwrap();
    let web = Web::start(WebConfig { hosts: 3, pages: 40, ..WebConfig::tame() });
    let (crawls, indexes, caches) = (free(), free(), free());
    let told = |address: SocketAddr| get(address, "/metrics", &[]);
    let metrics = |address: SocketAddr| vec!["--metrics".to_string(), address.to_string()];
    let more = [web.flags(), words("--delay 0"), metrics(crawls), vec![web.seed()]].concat();
    let crawler = ground.node("crawler", "crawl,control,rank", &more);
    // On a busy machine it may say before that it waits.
    let mut state = [0; 1024];
    while &state[..7] != b"READY=1" {
        notified.recv(&mut state).unwrap_or_else(|error| panic!("{error}: {}", crawler.log()));
    }
    let _index = ground.node("index", "index", &metrics(indexes));
    let _cache = ground.node("cache", "cache", &metrics(caches));
    ground.wait_for("all pages", |status| holds(status, 40));
    let has = |address: SocketAddr, lines: &[&str]| {
        let begun = Instant::now();
        loop {
            let reply = told(address);
            let missing: Vec<&&str> = lines.iter().filter(|line| !reply.body.contains(**line)).collect();
            if reply.status == 200 && missing.is_empty() {
                return reply.body;
            }
            assert!(begun.elapsed() < PATIENCE, "{missing:?} are missing in {}", reply.body);
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let text = has(
        crawls,
        &[
            "farol_member_info{name=\"crawler\",no=\"1\",roles=\"crawl,control,rank\"",
            "farol_member_active 1\n",
            "farol_sender_batches_total ",
            "farol_ranker_pages ",
            "# TYPE farol_rpc_server_calls_total counter\n",
            "farol_rpc_server_connections ",
            "farol_pages_fetched_total ",
            "farol_exchange_urls_total{what=\"links\"}",
        ],
    );
    assert!(!text.contains("farol_sender_batches_total 0\n"), "{text}");
    let text = has(
        indexes,
        &[
            "farol_replica_pages{shard=\"0\"} 40\n",
            "farol_replica_lag_seconds{shard=\"0\"}",
            "farol_dead_batches_kept 0\n",
        ],
    );
    assert!(text.contains("roles=\"index\"") && !text.contains("farol_sender"), "{text}");
    // Each name is declared once.
    for text in [&text, &told(crawls).body] {
        let mut names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{text}");
    }
    has(caches, &["roles=\"cache\"", "farol_cache_own_entries 0\n", "farol_cache_own_lookups_total 0\n"]);
    assert_eq!((get(caches, "/healthz", &[]).status, get(caches, "/", &[]).status), (200, 404));
    // One that finds its port taken says so, and begins nothing.
    let rest = [
        "--metrics",
        &caches.to_string(),
        "--blobs",
        "blobs",
        "--listen-rpc",
        "127.0.0.1:0",
        "--data",
        "late",
    ];
    let late = ground.command("node", &rest);
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(late.status.code() == Some(2) && said.contains("--metrics"), "{said}");
}

#[test]
fn tables_that_the_servers_have_lost_are_made_anew_from_the_nodes() {
    let ground = Ground::new();
    let said =
        String::from_utf8_lossy(&ground.command("cluster repair", &["--data", "."]).stderr).into_owned();
    assert!(said.contains("no copy of the tables"), "{said}");
    ground.works("cluster init", &["--shards", "2", "--replicas", "2"]);
    let web = Web::start(WebConfig { hosts: 4, pages: 60, ..WebConfig::tame() });
    let more = [web.flags(), words("--delay 0"), vec![web.seed()]].concat();
    let one = ground.node("one", "crawl,index,front,control,rank", &more);
    let mut two = ground.node("two", "index,front,control", &[]);
    let before = ground.wait_for("all pages in both", |status| {
        let replicas = |shard: usize| status["shards"][shard]["replicas"].as_array().map_or(0, Vec::len);
        holds(status, 60) && replicas(0) == 2 && replicas(1) == 2
    });
    let said = ground.works("cluster repair", &["--data", "one"]);
    assert!(said.contains("nothing is changed"), "{said}");
    let answer = at_rest(|| urls(&found(one.front(), "the")));
    assert!(!answer.is_empty());

    ground.lose_tables();
    // Search goes on, while nobody is sure of anything.
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(urls(&found(one.front(), "the")), answer);
    // One of them is started again meanwhile: it waits, and says for what.
    two.child.kill().unwrap();
    two.child.wait().unwrap();
    let refused =
        ground.command("node", &["--blobs", "blobs", "--listen-rpc", "127.0.0.1:0", "--data", "two"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("farol cluster repair"), "{said}");
    let said = ground.works("cluster repair", &["--data", "one"]);
    assert!(said.contains("1 running node"), "{said}");
    let two = ground.node("two", "index,front,control", &[]);
    let after = ground.wait_for("the cluster as it was", |status| {
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let up = nodes.iter().filter(|node| node["state"] == "up").count();
        holds(status, 60) && up == 2 && status["leader"].is_object()
    });
    // The same shards on the same nodes, under the same numbers; and a leader whose term is greater than all before.
    let numbers = |status: &Value| -> Vec<(String, u64)> {
        let mut numbers: Vec<(String, u64)> = status["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["name"].as_str().unwrap().to_string(), node["no"].as_u64().unwrap()))
            .collect();
        numbers.sort();
        numbers
    };
    assert_eq!(numbers(&after), numbers(&before));
    assert!(after["leader"]["term"].as_u64() > before["leader"]["term"].as_u64(), "{after:#}");
    assert_eq!(urls(&found(two.front(), "the")), answer);
    // And it crawls on: a page that comes now is found.
    let pages = ground.works("cluster agents", &[]);
    assert!(pages.contains("one"), "{pages}");
}

#[test]
fn a_folder_of_one_engine_becomes_the_first_agent_and_fetches_nothing_again() {
    let web = Web::start(WebConfig { hosts: 4, pages: 60, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    let front = farol.address();
    let questions = ["the", "site:web.test", "a"];
    let alone: Vec<(Value, usize)> = questions
        .iter()
        .map(|question| {
            let answer = found(front, question);
            (answer["total"].clone(), urls(&answer).len())
        })
        .collect();
    assert!(alone[1].0.as_u64() > Some(0), "{alone:?}");
    farol.interrupt();
    let fetched = web.server.counts().requests;

    let ground = Ground::new();
    let from = data.path();
    ground.works("cluster init", &["--shards", "2", "--replicas", "1", "--from", from.to_str().unwrap()]);
    assert!(from.join("index.before").exists());
    // A second time it is no folder of one engine; nor does it join a cluster that others have begun.
    let again = ground.command("cluster init", &["--from", from.to_str().unwrap()]);
    assert!(!again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let more = [web.flags(), words("--delay 0")].concat();
    let agent = ground.node_in(&from, "agent", "crawl,index,front,control,rank", &more);
    let status = ground.wait_for("all pages", |status| holds(status, 60));
    assert_eq!(status["nodes"][0]["no"], 1);
    let begun = Instant::now();
    loop {
        let now: Vec<(Value, usize)> = questions
            .iter()
            .map(|question| {
                let answer = found(agent.front(), question);
                (answer["total"].clone(), urls(&answer).len())
            })
            .collect();
        if now == alone {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{now:?} instead of {alone:?}: {}", agent.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    // What it asks again are robots.txt files at most, if anything.
    let asked = web.server.log().entries();
    let pages = asked.iter().skip(fetched as usize).filter(|entry| entry.path != "/robots.txt").count();
    assert_eq!(pages, 0, "pages were fetched again");
    assert!(get(agent.front(), "/api/v1/status", &[]).status != 500);
}
