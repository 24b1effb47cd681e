//! Agents that come, go, die, freeze and lose their disks while they crawl one Web together, on which DNS tells each of them
//! something else of some hosts: minutes of real processes. Run by `cargo xtask agents`, which keeps the table that this
//! writes.

use crate::cluster_fixture::Cluster;
use crate::fixture::{Web, binary, request};
use farol_synthetic::WebConfig;
use farol_synthetic::check::{CheckRules, Offence, check};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What a run is like; from the environment, so that a command can say it.
struct Size {
    hosts: u32,
    pages: u64,
    delay_ms: u64,
    minutes: u64,
    /// Times that an agent is ended and begun again, which makes a new table each.
    tables: u64,
}

/// Hosts that are somewhere else for each agent.
const MOOT: u32 = 10;

impl Size {
    fn told() -> Size {
        let number = |name: &str, usual| {
            std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(usual)
        };
        Size {
            hosts: number("FAROL_AGENTS_HOSTS", 200) as u32,
            pages: number("FAROL_AGENTS_PAGES", 6000),
            delay_ms: number("FAROL_AGENTS_DELAY_MS", 500),
            minutes: number("FAROL_AGENTS_MINUTES", 12),
            tables: number("FAROL_AGENTS_TABLES", 20),
        }
    }
}

struct Lab {
    cluster: Cluster,
    web: Web,
    size: Size,
    agents: BTreeMap<String, Child>,
    begun: Instant,
    rows: Vec<(String, String)>,
}

impl Lab {
    fn start(size: Size) -> Lab {
        let web = Web::start(WebConfig { hosts: size.hosts, pages: size.pages, ..WebConfig::tame() });
        let delay = format!("{}ms", size.delay_ms);
        let words =
            ["--nodes", "2", "--crawlers", "0", "--shards", "2", "--replicas", "1", "--delay", &delay];
        let dir = tempfile::tempdir().unwrap();
        let settings = "[index]\ncommit_every = '300ms'\nrank_every = '1s'\n[serve]\nrate_per_minute = 1000000\n\
                        [cluster]\nbackup_every = '5s'\n[crawl]\nallow_private = true\n";
        std::fs::write(dir.path().join("farol.toml"), settings).unwrap();
        let cluster = Cluster::up_in(dir, &[words.map(String::from).to_vec(), web.flags()].concat());
        Lab { cluster, web, size, agents: BTreeMap::new(), begun: Instant::now(), rows: Vec::new() }
    }

    /// Starts an agent, or the same one again.
    fn agent(&mut self, name: &str) {
        let dir = self.cluster.dir.path();
        let text = std::fs::read_to_string(dir.join("cluster.json")).unwrap();
        let join: Value = serde_json::from_str(&text).unwrap();
        let log = std::fs::OpenOptions::new();
        let log = { log }.create(true).append(true).open(dir.join(format!("{name}.log"))).unwrap();
        let mut command = binary();
        command.args(["node", "--roles", "crawl", "--name", name, "--listen-rpc", "127.0.0.1:0"]);
        command.args(["--join", join["join"].as_str().unwrap(), "--config"]).arg(self.settings(name));
        command.arg("--data").arg(self.cluster.node(name));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.agents.insert(name.to_string(), child);
    }

    /// The settings of an agent, for which some hosts are where they are for no other.
    fn settings(&self, name: &str) -> std::path::PathBuf {
        let dir = self.cluster.dir.path();
        let text = std::fs::read_to_string(dir.join("node.toml")).unwrap();
        let nth: u8 = name.rsplit('-').next().and_then(|nth| nth.parse().ok()).unwrap();
        let (world, port) = (self.web.server.world(), self.web.server.address().port());
        let moot =
            (1..=MOOT).map(|host| format!("\"{}=127.77.{nth}.{host}:{port}\", ", world.host_name(host)));
        let moot: String = moot.collect();
        let with_moot = text.replacen("resolve = [", &format!("resolve = [{moot}"), 1);
        assert_ne!(text, with_moot, "{text}");
        let path = dir.join(format!("{name}.toml"));
        std::fs::write(&path, with_moot).unwrap();
        path
    }

    /// kill -9.
    fn kill(&mut self, name: &str) {
        self.signal(name, Signal::KILL);
        let _ = self.agents.get_mut(name).unwrap().wait();
    }

    /// Waits until an agent's log says something; seconds.
    fn told(&mut self, what: &str, most: u64) -> f64 {
        let begun = Instant::now();
        loop {
            let logs = self.agents.keys().map(|name| self.cluster.dir.path().join(format!("{name}.log")));
            if logs.filter_map(|log| std::fs::read_to_string(log).ok()).any(|log| log.contains(what)) {
                return begun.elapsed().as_secs_f64();
            }
            assert!(begun.elapsed().as_secs() < most, "nobody says: {what}");
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// The number of an agent.
    fn number(&self, name: &str) -> u64 {
        let status = self.cluster.status();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let node = nodes.iter().find(|node| node["name"] == name && node["state"] == "up");
        node.and_then(|node| node["no"].as_u64()).unwrap_or_else(|| panic!("no {name}: {status:#}"))
    }

    fn signal(&self, name: &str, signal: Signal) {
        kill_process(Pid::from_child(&self.agents[name]), signal).unwrap();
    }

    fn note(&mut self, what: &str, value: String) {
        println!("{:>6.1} s  {what}: {value}", self.begun.elapsed().as_secs_f64());
        self.rows.push((what.to_string(), value));
    }

    /// Waits for something of the cluster's status; seconds that it took.
    fn wait(&mut self, what: &str, most: u64, mut holds: impl FnMut(&Value) -> bool) -> f64 {
        let begun = Instant::now();
        loop {
            let status = self.cluster.status();
            if holds(&status) {
                return begun.elapsed().as_secs_f64();
            }
            let agents = &status["agents"];
            assert!(begun.elapsed().as_secs() < most, "in vain for {what}: {agents:#} {:#}", status["route"]);
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// Waits until the table is settled and has so many agents; seconds.
    fn settled(&mut self, what: &str, count: usize, after: u64) -> f64 {
        self.wait(what, 150, |status| {
            let route = &status["route"];
            let agents = status["agents"].as_array().map_or(0, Vec::len);
            route["settled"] == true && route["epoch"].as_u64() > Some(after) && agents == count
        })
    }

    fn epoch(&self) -> u64 {
        self.cluster.status()["route"]["epoch"].as_u64().unwrap_or(0)
    }

    /// Pages that were asked for so far.
    fn asked(&self) -> u64 {
        self.web.server.counts().requests
    }

    fn wait_until_asked(&mut self, share: f64) {
        let want = (self.size.pages as f64 * share) as u64;
        let begun = Instant::now();
        while self.asked() < want {
            let limit = Duration::from_secs(60 * self.size.minutes);
            assert!(begun.elapsed() < limit, "only {} of {want} requests", self.asked());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.agents.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
#[ignore = "minutes long; run by cargo xtask agents"]
fn agents_that_die_join_leave_and_freeze() {
    let mut lab = Lab::start(Size::told());
    let front = lab.cluster.front("node-1");
    for nth in 1..=4 {
        lab.agent(&format!("agent-{nth}"));
    }
    let took = lab.settled("four agents", 4, 0);
    lab.note("four agents share a table", format!("after {took:.1} s"));
    let key = std::fs::read_to_string(lab.cluster.node("node-1").join("admin.key")).unwrap();
    let headers = ["Content-Type: application/json", &format!("Authorization: Bearer {}", key.trim())];
    let seed = serde_json::json!({ "url": lab.web.seed() }).to_string();
    assert_eq!(request(front, "POST /api/v1/admin/seeds HTTP/1.0", &headers, &seed).status, 200);

    lab.wait_until_asked(0.1);
    let epoch = lab.epoch();
    lab.kill("agent-1");
    std::thread::sleep(Duration::from_secs(2));
    lab.agent("agent-1");
    let took = lab.settled("the killed agent to be back", 4, epoch);
    lab.note("kill -9, back after 2 s: new table settled", format!("{took:.1} s"));

    lab.wait_until_asked(0.25);
    let epoch = lab.epoch();
    lab.agent("agent-5");
    let took = lab.settled("a fifth agent", 5, epoch);
    lab.note("a fifth joins: new table settled", format!("{took:.1} s"));

    lab.wait_until_asked(0.4);
    let begun = Instant::now();
    let drained = lab.cluster.command(&["drain", "agent-3"]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    while lab.agents.get_mut("agent-3").unwrap().try_wait().unwrap().is_none() {
        assert!(begun.elapsed().as_secs() < 180, "agent-3 does not leave");
        std::thread::sleep(Duration::from_millis(100));
    }
    lab.note("an agent is drained: it has left", format!("{:.1} s", begun.elapsed().as_secs_f64()));

    lab.wait_until_asked(0.55);
    let epoch = lab.epoch();
    lab.signal("agent-4", Signal::STOP);
    let took = lab.settled("the frozen agent to be buried", 3, epoch);
    lab.note("SIGSTOP: buried and its table settled", format!("{took:.1} s"));
    std::thread::sleep(Duration::from_secs(10));
    let epoch = lab.epoch();
    lab.signal("agent-4", Signal::CONT);
    let took = lab.settled("the frozen agent to be back", 4, epoch);
    lab.note("SIGCONT: it is a member again", format!("{took:.1} s"));

    lab.wait_until_asked(0.7);
    let status = lab.cluster.status();
    let (leader, term) = (status["leader"]["node"].clone(), status["leader"]["term"].as_u64());
    let nodes = status["nodes"].as_array().unwrap();
    let name = nodes.iter().find(|node| node["id"] == leader).unwrap()["name"].as_str().unwrap().to_string();
    let before = lab.asked();
    lab.cluster.kill(&name);
    let took = lab.wait("another leader", 120, |status| status["leader"]["term"].as_u64() > term);
    let went_on = lab.asked() - before;
    lab.note("the leader is killed: another leads", format!("{took:.1} s; {went_on} requests meanwhile"));

    lab.wait_until_asked(0.75);
    let (dead, epoch) = (lab.number("agent-2"), lab.epoch());
    lab.kill("agent-2");
    let took = lab.settled("the dead agent to be buried", 3, epoch);
    lab.note("kill -9 for good: buried and its table settled", format!("{took:.1} s"));
    let took = lab.told(&format!("what agent {dead} had is with its heirs"), 180);
    lab.note("what it had is with its heirs, after that", format!("{took:.1} s"));

    lab.wait_until_asked(0.8);
    let (dead, epoch) = (lab.number("agent-5"), lab.epoch());
    lab.kill("agent-5");
    std::fs::remove_dir_all(lab.cluster.node("agent-5")).unwrap();
    lab.agent("agent-5");
    let took = lab.settled("the wiped agent to be another one", 3, epoch);
    lab.note("disk wiped, begun again: new table settled", format!("{took:.1} s"));
    let took = lab.told(&format!("what agent {dead} had is with its heirs"), 180);
    lab.note("what was on its disk is with its heirs, after that", format!("{took:.1} s"));

    let (begun, first) = (Instant::now(), lab.epoch());
    for _ in 0..lab.size.tables {
        let epoch = lab.epoch();
        lab.kill("agent-1");
        lab.agent("agent-1");
        lab.settled("an agent to be back", 3, epoch);
    }
    let (tables, took) = (lab.epoch() - first, begun.elapsed().as_secs());
    lab.note("one after the other, each settled", format!("{tables} tables in {took} s"));

    // All that can be found: nothing new for longer than the first pause of a host that failed.
    let (mut last, mut since) = (lab.asked(), Instant::now());
    let limit = Instant::now() + Duration::from_secs(60 * lab.size.minutes);
    while since.elapsed() < Duration::from_secs(300) && Instant::now() < limit {
        std::thread::sleep(Duration::from_secs(1));
        if lab.asked() != last {
            (last, since) = (lab.asked(), Instant::now());
        }
    }
    let rules = CheckRules {
        delay_min: Duration::from_millis(lab.size.delay_ms),
        complete: true,
        ..CheckRules::default()
    };
    let entries = lab.web.server.log().entries();
    let robots = entries.iter().filter(|entry| entry.path == "/robots.txt").count() as u64;
    let report = check(lab.web.server.world(), entries.into_iter(), &rules);
    for offence in Offence::ALL {
        let count = report.count(offence);
        lab.note(&format!("offences: {offence:?}"), count.to_string());
    }
    let again = robots.saturating_sub(u64::from(lab.size.hosts));
    lab.note("of these, robots.txt read again by a host's next agent, at most", again.to_string());
    let mut table = format!(
        "| what | seen |\n|---|---|\n| hosts, pages, delay | {}, {}, {} ms |\n",
        lab.size.hosts, lab.size.pages, lab.size.delay_ms
    );
    for (what, value) in &lab.rows {
        let _ = writeln!(table, "| {what} | {value} |");
    }
    if let Ok(path) = std::env::var("FAROL_AGENTS_TABLE") {
        std::fs::write(path, &table).unwrap();
    }
    println!("{table}\n{report}");
    let at_once = report.count(Offence::HostOverlap) + report.count(Offence::AddressOverlap);
    assert_eq!(at_once, 0, "two agents asked one server at once");
    assert_eq!(report.count(Offence::NeverFetched), 0, "URLs were lost");
}
