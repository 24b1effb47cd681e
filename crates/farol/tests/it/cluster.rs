//! A whole cluster of real processes on loopback, with a real nats-server: the same answers as one engine, and none
//! lost while nodes are killed.

use crate::cluster_fixture::{Cluster, ask, at_rest, holds, questions, up_state};
use crate::fixture::{Data, Farol, Web, binary, get};
use farol_synthetic::WebConfig;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// People who ask without pause, until told to stop.
struct Crowd {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crowd {
    fn ask(fronts: &[SocketAddr], questions: &[String]) -> Crowd {
        let (stop, asked, failed) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::default());
        let mut threads = Vec::new();
        for (nth, front) in fronts.iter().copied().enumerate() {
            let (stop, asked, failed) = (stop.clone(), asked.clone(), Arc::<AtomicU64>::clone(&failed));
            let questions = questions.to_vec();
            threads.push(std::thread::spawn(move || {
                for at in nth.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    // Each question is a new one, so that no answer is a kept one.
                    let question = format!("{} -x{nth}y{at}", questions[at % questions.len()]);
                    if ask(front, &question).is_none() {
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                    asked.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }));
        }
        Crowd { stop, asked, failed, threads }
    }

    /// How many were asked, and how many of them failed.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        (self.asked.load(Ordering::SeqCst), self.failed.load(Ordering::SeqCst))
    }
}

#[test]
fn a_cluster_answers_as_one_engine_and_loses_no_question_when_nodes_are_killed() {
    let web = Web::start(WebConfig { hosts: 3, pages: 240, ..WebConfig::tame() });
    let flags = || [web.flags(), vec!["--delay".to_string(), "0".to_string()]].concat();
    let alone = Data::new();
    let mut single = Farol::up(&alone, &web, &["--delay", "0"]);
    let pages = single.wait_until_idle()["index"]["documents"].as_u64().unwrap();

    let size = ["--nodes", "3", "--shards", "2", "--replicas", "2"].map(String::from).to_vec();
    let mut cluster = Cluster::up(&[size, flags(), vec![web.seed()]].concat());
    let fronts = ["node-1", "node-3"].map(|name| cluster.front(name));
    cluster.wait_for("every page in every replica", |status| holds(status, pages));

    // What one engine answers, the cluster answers: the same pages, in the same order.
    let questions = questions(single.address(), "the");
    assert!(questions.len() >= 10, "{questions:?}");
    // Ranks of links change while pages come in, in the one engine as in the cluster (their end is compared in
    // `cluster_ranks`); so the pages are compared, and the order among the fronts, once all nodes rank alike.
    let answered = |question: &String| {
        fronts.map(|front| ask(front, question).unwrap_or_else(|| panic!("{question} failed")))
    };
    let answers = at_rest(|| questions.iter().map(answered).collect::<Vec<_>>());
    for (question, answers) in questions.iter().zip(answers) {
        let (one, total) = ask(single.address(), question).unwrap();
        assert_eq!(answers[0], answers[1], "{question}: the fronts differ");
        assert_eq!(answers[0].1, total, "{question}: {one:?} and {:?}", answers[0].0);
    }
    single.interrupt();

    // kill -9 of a node that indexes, while people ask: nobody notices.
    let crowd = Crowd::ask(&fronts, &questions);
    std::thread::sleep(Duration::from_secs(1));
    cluster.kill("node-2");
    std::thread::sleep(Duration::from_secs(4));
    cluster.wait_for("the killed node to come back", |status| {
        up_state(status, "node-2") && holds(status, pages)
    });
    let (asked, failed) = crowd.end();
    assert!(asked > 100, "{asked}");
    assert_eq!(failed, 0, "of {asked} questions: {}", cluster.log());

    // The leader is killed: another one leads, and people are answered meanwhile.
    let before = cluster.status();
    let leader = before["leader"]["node"].as_str().unwrap().to_string();
    let nodes = before["nodes"].as_array().unwrap();
    let name = nodes.iter().find(|node| node["id"] == leader.as_str()).unwrap()["name"].as_str().unwrap();
    let asks = if name == "node-1" { fronts[1] } else { fronts[0] };
    let crowd = Crowd::ask(&[asks], &questions);
    cluster.kill(name);
    let term = before["leader"]["term"].as_u64();
    cluster.wait_for("a new leader", |status| status["leader"]["term"].as_u64() > term);
    let (asked, failed) = crowd.end();
    assert_eq!(failed, 0, "of {asked} questions: {}", cluster.log());
}

#[test]
fn a_shard_that_nobody_answers_for_is_said() {
    let web = Web::start(WebConfig { hosts: 1, pages: 60, ..WebConfig::tame() });
    let size =
        ["--nodes", "2", "--shards", "2", "--replicas", "1", "--delay", "0"].map(String::from).to_vec();
    let mut cluster = Cluster::up(&[size, web.flags(), vec![web.seed()]].concat());
    let front = cluster.front("node-1");
    cluster.front("node-2");
    let status = cluster.wait_for("every page", |status| holds(status, 60));
    assert!(ask(front, "a").is_some());
    // Whoever came first may have both shards: one goes to the other node, while people ask.
    let holder = |status: &Value, shard: usize| {
        let id = status["shards"][shard]["replicas"][0]["node"].clone();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["id"] == id).unwrap()["name"].as_str().unwrap().to_string()
    };
    if holder(&status, 0) == holder(&status, 1) {
        let from = holder(&status, 1);
        let to = if from == "node-1" { "node-2" } else { "node-1" };
        let crowd = Crowd::ask(&[front], &["a".to_string()]);
        let moved = cluster.command(&["move", "1", "--from", &from, "--to", to]);
        assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
        cluster.wait_for("the shard to have moved", |status| {
            status["shards"][1]["replicas"].as_array().is_some_and(|replicas| replicas.len() == 1)
                && holder(status, 1) == to
                && holds(status, 60)
        });
        let (asked, failed) = crowd.end();
        assert_eq!(failed, 0, "of {asked} questions while a shard moved: {}", cluster.log());
    }
    let pid = rustix::process::Pid::from_raw(cluster.pid("node-2") as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let ask_now = |question: &str| -> (u16, Value) {
        let reply = get(front, &format!("/api/v1/search?q={}", question.replace(' ', "+")), &[]);
        (reply.status, serde_json::from_str(&reply.body).unwrap_or(Value::Null))
    };
    // A word that only the other shard has would rightly find nothing: what to ask for is read from what answers.
    let host = web.seed().trim_start_matches("http://").trim_end_matches('/').to_string();
    let listed = ask_now(&format!("site:{host}"));
    let word = longest_title_word(&listed.1);
    let found = ask_now(&format!("{word} -nothing"));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    for (status, json) in [listed, found] {
        let shards = (&json["shards"]["total"], &json["shards"]["answered"]);
        assert_eq!((status, shards), (200, (&2.into(), &1.into())), "{json}");
        assert!(!json["hits"].as_array().unwrap().is_empty(), "{word}: {json}");
    }
}

/// The longest plain word in the titles of an answer.
fn longest_title_word(answer: &Value) -> String {
    let hits = answer["hits"].as_array().cloned().unwrap_or_default();
    let titles = hits.iter().filter_map(|hit| hit["title"].as_str());
    let words = titles.flat_map(|title| title.split(|c: char| !c.is_alphanumeric()));
    words.filter(|word| word.is_ascii()).max_by_key(|word| word.len()).unwrap_or_default().to_string()
}

/// Runs `farol node` and expects it to refuse: exit code 2, one sentence, nothing written.
#[track_caller]
fn refused(arguments: &[&str], data: &Path, want: &str) {
    let mut command = binary();
    command.arg("node").args(arguments).args([
        "--listen",
        "127.0.0.1:0",
        "--listen-rpc",
        "127.0.0.1:0",
        "--data",
    ]);
    let output = command.arg(data).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(said.contains(want), "{arguments:?}: {said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(!data.exists(), "{} was made", data.display());
}

#[test]
fn a_node_that_cannot_join_says_why_and_writes_nothing() {
    let mut cluster = Cluster::up(&["--nodes", "1"].map(String::from));
    cluster.front("node-1");
    let file: Value =
        serde_json::from_slice(&std::fs::read(cluster.dir.path().join("cluster.json")).unwrap()).unwrap();
    let join = file["join"].as_str().unwrap();
    let blobs = cluster.dir.path().join("blobs");
    let blobs = blobs.to_str().unwrap();
    let data = cluster.dir.path().join("stranger");
    refused(&["--join", "nats://127.0.0.1:1", "--blobs", blobs], &data, "127.0.0.1:1");
    refused(&["--join", join, "--cluster", "other", "--blobs", blobs], &data, "farol cluster init");
    let (scheme, rest) = join.split_once("://").unwrap();
    let (_, address) = rest.rsplit_once('@').unwrap();
    refused(&["--join", &format!("{scheme}://farol:wrong@{address}"), "--blobs", blobs], &data, "password");
    // Beyond loopback nothing is said in the clear.
    let mut command = binary();
    command
        .args(["node", "--join", join, "--blobs", blobs, "--listen-rpc", "0.0.0.0:0", "--data"])
        .arg(&data);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!data.exists());
    // A second process on a folder that is in use.
    let mut command = binary();
    command.args([
        "node",
        "--join",
        join,
        "--blobs",
        blobs,
        "--listen",
        "127.0.0.1:0",
        "--listen-rpc",
        "127.0.0.1:0",
    ]);
    let output = command.arg("--data").arg(cluster.node("node-1")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("another Farol"), "{said}");
}
