//! The commands of a cluster's operator, on real processes: backup and restore, certificates, several NATS servers,
//! replicas that come and go.

use crate::cluster_fixture::{Cluster, ask, at_rest, holds, questions, up_state};
use crate::fixture::{PATIENCE, Web, binary, get};
use farol_fabric::nats::server::find_nats_server;
use farol_synthetic::WebConfig;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn small_web() -> Web {
    Web::start(WebConfig { hosts: 2, pages: 60, ..WebConfig::tame() })
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

#[track_caller]
fn worked(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

#[track_caller]
fn refused(output: &Output, want: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(want), "{said}");
}

/// What is answered to each question; asked again while a loaded machine answers in part.
#[track_caller]
fn answers(front: SocketAddr, questions: &[String]) -> Vec<(Vec<String>, u64)> {
    let begun = Instant::now();
    let answer = |question: &String| loop {
        if let Some(answer) = ask(front, question) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{question} is not answered");
        std::thread::sleep(Duration::from_millis(100));
    };
    questions.iter().map(answer).collect()
}

#[test]
fn a_cluster_made_of_a_backup_gives_the_same_answers() {
    let web = small_web();
    let size = words("--nodes 2 --shards 2 --replicas 1 --delay 0");
    let mut cluster = Cluster::up(&[size.clone(), web.flags(), vec![web.seed()]].concat());
    let front = cluster.front("node-1");
    cluster.wait_for("every page", |status| holds(status, 60));
    let questions = questions(front, "a");
    assert!(questions.len() >= 10, "{questions:?}");
    let before = at_rest(|| answers(front, &questions));
    let copies = tempfile::tempdir().unwrap();
    let place = |name: &str| copies.path().join(name);
    let [backup, later] = ["backup", "later"].map(place);
    worked(&cluster.command(&["backup", backup.to_str().unwrap()]));
    refused(&cluster.command(&["backup", backup.to_str().unwrap()]), "not empty");
    // What the operator removes is not in the archive, and must not come back.
    let gone = before[0].0[0].clone();
    worked(&binary().args(["remove", &gone, "--data"]).arg(cluster.node("node-1")).output().unwrap());
    cluster.wait_for("the page to be gone", |status| holds(status, 59));
    worked(&cluster.command(&["backup", later.to_str().unwrap()]));
    drop(cluster);
    drop(web);

    let restore = |from: &Path, to: &Path| {
        binary().args(["cluster", "restore"]).arg(from).arg("--data").arg(to).output().unwrap()
    };
    let said = worked(&restore(&backup, &place("new")));
    assert!(said.contains("--nodes 2 --shards 2 --replicas 1"), "{said}");
    refused(&restore(&backup, &place("new")), "not empty");
    let mut cluster = Cluster::up_in(new_dir(&place("new")), &size);
    let front = cluster.front("node-1");
    cluster.wait_for("every page that was there", |status| holds(status, 60));
    // As soon as the new cluster has ranked its links, too.
    let (begun, mut now) = (Instant::now(), answers(front, &questions));
    while now != before && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(200));
        now = answers(front, &questions);
    }
    assert_eq!(now, before);
    drop(cluster);

    // Scores may differ a little here: an index counts a removed page until it merges.
    worked(&restore(&later, &place("newer")));
    let mut cluster = Cluster::up_in(new_dir(&place("newer")), &words("--nodes 1 --shards 2 --delay 0"));
    let front = cluster.front("node-1");
    cluster.wait_for("every page but one", |status| holds(status, 59));
    let after = answers(front, &questions);
    assert!(after.iter().all(|(urls, _)| !urls.contains(&gone)), "{gone} is back");
    assert_eq!(after[0].1, before[0].1 - 1);
}

/// A folder that was restored, as a test's own.
fn new_dir(restored: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::remove_dir(dir.path()).unwrap();
    std::fs::rename(restored, dir.path()).unwrap();
    dir
}

#[test]
fn replicas_come_and_go_on_three_nats_servers_as_the_operator_says() {
    let web = small_web();
    let size = words("--nodes 3 --nats 3 --shards 2 --replicas 1 --delay 0");
    let mut cluster = Cluster::up(&[size, web.flags(), vec![web.seed()]].concat());
    let front = cluster.front("node-1");
    let copies =
        |status: &Value, shard: usize| status["shards"][shard]["replicas"].as_array().map_or(0, Vec::len);
    cluster.wait_for("every page", |status| holds(status, 60));
    worked(&cluster.command(&["replicas", "3"]));
    cluster.wait_for("three replicas", |status| {
        holds(status, 60) && copies(status, 0) == 3 && copies(status, 1) == 3
    });
    refused(&cluster.command(&["add-replica", "0"]), "on every node already");
    refused(&cluster.command(&["add-replica", "9"]), "there is no shard 9");
    refused(&cluster.command(&["move", "0", "--from", "node-1", "--to", "node-2"]), "node-2 has a replica");
    refused(&cluster.command(&["remove", "node-3"]), "node-3 is alive");
    refused(&cluster.command(&["remove", "nobody"]), "node-1, node-2, node-3");
    worked(&cluster.command(&["replicas", "1"]));
    cluster.wait_for("one replica", |status| {
        holds(status, 60) && copies(status, 0) == 1 && copies(status, 1) == 1
    });
    worked(&cluster.command(&["add-replica", "1"]));
    cluster.wait_for("one more", |status| holds(status, 60) && copies(status, 1) == 2);
    worked(&cluster.command(&["rebalance"]));
    worked(&cluster.command(&["rebuild", "0"]));
    // Whoever drains gives its replicas away, and answers go on.
    worked(&cluster.command(&["drain", "node-3"]));
    cluster.wait_for("node-3 to leave", |status| {
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let has_left = nodes.iter().any(|node| node["name"] == "node-3" && node["state"] == "left");
        has_left && holds(status, 60)
    });
    assert!(!answers(front, &["the".to_string()])[0].0.is_empty());
    assert!(up_state(&cluster.status(), "node-2"));
}

/// A process of a test; killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn log_file(dir: &Path, name: &str) -> Stdio {
    std::fs::File::create(dir.join(format!("{name}.log"))).unwrap().into()
}

/// An address of loopback that is this test's own.
fn free(ip: &str) -> SocketAddr {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

#[test]
fn nodes_and_servers_with_certificates_are_a_cluster_and_others_are_not_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let farol = |arguments: &[&str]| {
        binary().current_dir(dir).env_remove("FAROL_JOIN").args(arguments).output().unwrap()
    };
    let nats = "127.0.41.1";
    worked(&farol(&["cluster", "certs", "--server", nats]));
    let tls = dir.join("farol-authority").join(nats);
    let store = dir.join("js");
    let config = worked(&farol(&[
        "cluster",
        "nats-config",
        "--servers",
        nats,
        "--password",
        "SECRET",
        "--store",
        store.to_str().unwrap(),
        "--store-max",
        "8GiB",
        "--tls",
        tls.to_str().unwrap(),
    ]));
    // The ports of the configuration may be taken on this machine.
    let listen = free(nats);
    let config = config.replace(&format!("{nats}:4222"), &listen.to_string());
    let config = config.replace("127.0.0.1:8222", &free("127.0.41.2").to_string());
    assert!(config.contains("sync_interval: always") && config.contains(&listen.to_string()), "{config}");
    std::fs::write(dir.join("nats.conf"), config).unwrap();
    let mut server = Command::new(find_nats_server().unwrap());
    server.arg("-c").arg(dir.join("nats.conf")).stdout(Stdio::null()).stderr(log_file(dir, "nats"));
    let _server = Process(server.spawn().unwrap());

    let node_data = ["one", "two"].map(|name| {
        let said = worked(&farol(&["cluster", "certs", "--node", name]));
        let settings = said.split("farol.toml:\n").nth(1).unwrap();
        let settings = format!("{settings}log_max = '64MiB'\n[index]\ncommit_every = '300ms'\n");
        std::fs::write(dir.join(name).join("farol.toml"), settings).unwrap();
        dir.join(name)
    });
    let join = format!("tls://farol:SECRET@{listen}");
    let cluster = |data: &str, arguments: &[&str]| {
        farol(&[&["cluster"], arguments, &["--join", &join, "--data", data]].concat())
    };
    let begun = Instant::now();
    while !cluster("one", &["init", "--shards", "2", "--replicas", "2"]).status.success() {
        let log = std::fs::read_to_string(dir.join("nats.log")).unwrap_or_default();
        assert!(begun.elapsed() < PATIENCE, "{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Without a certificate nobody gets in.
    refused(&cluster("nowhere", &["status"]), "TLS");

    let web = small_web();
    let node = |nth: usize, roles: &str, more: Vec<String>| {
        let mut command = binary();
        command.env_remove("FAROL_JOIN").args([
            "node",
            "--join",
            &join,
            "--roles",
            roles,
            "--listen",
            "127.0.0.1:0",
        ]);
        command.args(["--name", ["one", "two"][nth], "--listen-rpc", &format!("127.0.41.{}:0", nth + 3)]);
        command.args(["--drain", "0", "--blobs"]).arg(dir.join("blobs")).arg("--data").arg(&node_data[nth]);
        command.args(more).stdout(Stdio::null()).stderr(log_file(dir, &format!("node-{nth}")));
        Process(command.spawn().unwrap())
    };
    std::fs::create_dir(dir.join("blobs")).unwrap();
    let first = [web.flags(), words("--delay 0"), vec![web.seed()]].concat();
    let _one = node(0, "crawl,index,front,control", first);
    let mut two = node(1, "index,front,control", Vec::new());
    let begun = Instant::now();
    loop {
        let said = cluster("two", &["status", "--json"]);
        let status: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        let replicas = |shard: usize| status["shards"][shard]["replicas"].as_array().map_or(0, Vec::len);
        if holds(&status, 60) && replicas(0) == 2 && replicas(1) == 2 {
            break;
        }
        let logs = ["node-0", "node-1"]
            .map(|name| std::fs::read_to_string(dir.join(format!("{name}.log"))).unwrap());
        assert!(begun.elapsed() < PATIENCE, "{status:#} {logs:?} {}", String::from_utf8_lossy(&said.stderr));
        std::thread::sleep(Duration::from_millis(200));
    }
    let said = worked(&cluster("two", &["doctor"]));
    assert!(said.contains("the certificate is that of node") && !said.contains("WRONG"), "{said}");
    let running = std::fs::read_to_string(node_data[1].join("running.json")).unwrap();
    let running: Value = serde_json::from_str(&running).unwrap();
    let front: SocketAddr = running["listen"].as_str().unwrap().parse().unwrap();
    assert_eq!(get(front, "/api/v1/search?q=the", &[]).status, 200);
    // It comes back soon, says the flag: nothing is given away, and it ends at once.
    let pid = rustix::process::Pid::from_child(&two.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let begun = Instant::now();
    while two.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(30), "SIGTERM does not end the node");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(two.0.try_wait().unwrap().and_then(|status| status.code()), Some(0));
}
