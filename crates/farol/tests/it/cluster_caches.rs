//! Cache nodes as real processes: every front finds what another has asked, and no question fails while nodes and leaders
//! are killed.

use crate::cluster_fixture::{Cluster, ask, holds, questions};
use crate::fixture::{PATIENCE, Web, get, request};
use farol_synthetic::WebConfig;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The ring as `farol cache status` tells it.
fn ring(cluster: &Cluster) -> Value {
    let mut command = crate::fixture::binary();
    command.env_remove("FAROL_JOIN").args(["cache", "status", "--json", "--data"]).arg(cluster.dir.path());
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap_or(Value::Null)
}

fn names_on_ring(ring: &Value) -> Vec<String> {
    let nodes = ring["nodes"].as_array().cloned().unwrap_or_default();
    let on = nodes.iter().filter(|node| node["on_ring"] == true);
    on.map(|node| node["name"].as_str().unwrap_or_default().to_string()).collect()
}

#[track_caller]
fn wait_for_ring(cluster: &Cluster, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let ring = ring(cluster);
        if holds(&ring) {
            return ring;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {ring:#}\n{}", cluster.log());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A counter of a front's calls to cache nodes.
fn counter(front: SocketAddr, bearer: &str, name: &str) -> u64 {
    let text = get(front, "/metrics", &[bearer]).body;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("farol_ring_{name}_total ")));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Whether the front answered, and how old its answer was.
fn age_of(front: SocketAddr, question: &str) -> Option<u64> {
    let reply = get(front, &format!("/api/v1/search?q={}", question.replace(' ', "+")), &[]);
    let json: Value = serde_json::from_str(&reply.body).ok()?;
    if reply.status == 200 { json["age_ms"].as_u64() } else { None }
}

/// People who ask a few questions over and over, at all fronts, until told to stop.
struct Regulars {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Regulars {
    fn ask(fronts: &[SocketAddr], questions: &[String]) -> Regulars {
        let (stop, asked, failed) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let ask_at = |(nth, front): (usize, &SocketAddr)| {
            let (stop, asked, failed) = (stop.clone(), asked.clone(), failed.clone());
            let (front, questions) = (*front, questions.to_vec());
            std::thread::spawn(move || {
                for at in nth.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    if ask(front, &questions[at % questions.len()]).is_none() {
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                    asked.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        };
        let threads = fronts.iter().enumerate().map(ask_at).collect();
        Regulars { stop, asked, failed, threads }
    }

    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        (self.asked.load(Ordering::SeqCst), self.failed.load(Ordering::SeqCst))
    }
}

#[test]
fn fronts_share_cache_nodes_and_lose_no_question_when_these_are_killed() {
    let web = Web::start(WebConfig { hosts: 3, pages: 120, ..WebConfig::tame() });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("farol.toml"),
        "[index]\ncommit_every = '300ms'\nrank_every = '1h'\n[serve]\nrate_per_minute = 1000000\n\
         [cache]\nttl = '24h'\ngrace = '4s'\ncopies = 0.5\ncopies_every = '2s'\n",
    )
    .unwrap();
    let size = ["--nodes", "2", "--shards", "1", "--replicas", "2", "--caches", "3", "--delay", "0"];
    let size = size.map(String::from).to_vec();
    let mut cluster = Cluster::up_in(dir, &[size, web.flags(), vec![web.seed()]].concat());
    let fronts = ["node-1", "node-2"].map(|name| cluster.front(name));
    let bearers = ["node-1", "node-2"].map(|name| cluster.bearer(name));
    cluster.wait_for("every page in every replica", |status| holds(status, 120));
    let whole = ["cache-1", "cache-2", "cache-3"];
    let has_all = |ring: &Value| whole.iter().all(|name| names_on_ring(ring).iter().any(|on| on == name));
    wait_for_ring(&cluster, "three cache nodes on the ring", has_all);

    // What one front has asked, the other finds at the same node: no spelling apart, no question twice.
    let questions = questions(fronts[0], "a");
    assert!(questions.len() >= 8, "{questions:?}");
    let begun = Instant::now();
    let share = loop {
        let before = counter(fronts[1], &bearers[1], "hits");
        questions.iter().for_each(|question| assert!(age_of(fronts[0], question).is_some(), "{question}"));
        // Answers are handed in behind the asker's back.
        std::thread::sleep(Duration::from_millis(300));
        let aged = questions.iter().filter(|question| age_of(fronts[1], question) > Some(0)).count();
        let hits = (counter(fronts[1], &bearers[1], "hits") - before) as usize;
        // A loaded machine may be late now and then, and the first front may not know yet that it is not alone.
        if (aged == questions.len() && hits == aged) || begun.elapsed() > PATIENCE {
            break (aged, hits);
        }
    };
    assert_eq!(share, (questions.len(), questions.len()), "{:#}", ring(&cluster));
    let page = get(fronts[0], "/admin/ring?hl=en", &[&bearers[0]]);
    assert!(page.status == 200 && page.body.contains("cache-2"), "{}", page.body);
    let api: Value = serde_json::from_str(&get(fronts[0], "/api/v1/ring", &[&bearers[0]]).body).unwrap();
    assert_eq!(names_on_ring(&api).len(), 3, "{api:#}");

    // A page that was removed is gone from all fronts within the grace, though it is asked for all the time.
    let host = web.server.world().host_name(1);
    let site = format!("site:{host}");
    assert!(fronts.iter().all(|front| ask(*front, &site).is_some_and(|(_, total)| total > 0)));
    let people = Regulars::ask(&fronts, std::slice::from_ref(&site));
    let order = serde_json::json!({ "host": format!("http://{host}") }).to_string();
    let headers = [&*bearers[0], "Content-Type: application/json"];
    let reply = request(fronts[0], "POST /api/v1/admin/remove-host HTTP/1.0", &headers, &order);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let begun = Instant::now();
    while !fronts.iter().all(|front| ask(*front, &site).is_some_and(|(_, total)| total == 0)) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", fronts.map(|front| ask(front, &site)));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(people.end().1, 0);

    // kill -9 of a cache node and of the leader together, while people ask: nobody notices. The ring stays as it was until
    // another leads; then the node has its place again, under a new start of its program.
    let status = cluster.status();
    let id = status["leader"]["node"].clone();
    let nodes = status["nodes"].as_array().unwrap();
    let name = nodes.iter().find(|node| node["id"] == id).unwrap()["name"].as_str().unwrap().to_string();
    let other = if name == "node-1" { fronts[1] } else { fronts[0] };
    let term = ring(&cluster)["term"].as_u64();
    // Questions that are asked once lie at one node each, and half of them at its neighbour: two rounds of copies go by.
    let pairs = |one: &String| questions.iter().map(|two| format!("{one} {two}")).collect::<Vec<_>>();
    let quiet: Vec<String> = questions.iter().flat_map(pairs).take(60).collect();
    let at_other = bearers[usize::from(other == fronts[1])].clone();
    quiet.iter().for_each(|question| assert!(ask(other, question).is_some(), "{question}"));
    std::thread::sleep(Duration::from_secs(5));
    let adopted = counter(other, &at_other, "adopted");
    let people = Regulars::ask(&[other, other], &questions);
    std::thread::sleep(Duration::from_secs(1));
    cluster.kill("cache-2");
    cluster.kill(&name);
    // Nobody leads, so nobody has taken the dead node out: its neighbour gives its copies to who passes it over.
    quiet.iter().for_each(|question| assert!(ask(other, question).is_some(), "{question}"));
    let adopted = counter(other, &at_other, "adopted") - adopted;
    assert!(adopted > 0, "of {} questions none was answered from copies", quiet.len());
    wait_for_ring(&cluster, "the ring of the next leader", |ring| {
        ring["term"].as_u64() > term && has_all(ring)
    });
    let (asked, failed) = people.end();
    assert!(asked > 50, "{asked}");
    assert_eq!(failed, 0, "of {asked} questions: {}", cluster.log());
}
