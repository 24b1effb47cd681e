//! A whole cluster of real processes: three NATS servers, a made-up Web, one crawler, index nodes, two fronts.
//!
//! Each process has a loopback address of its own, out of a block that this program's number chooses, so that two runs
//! do not meet. `farol cluster up` is not used: it starts what has ended again by itself, and here the dead stay dead
//! for as long as a scenario says. Where nodes are to be cut off each has a network namespace, an address beyond loopback
//! and a certificate.

use super::net::{self, Net};
use super::process::Process;
use super::relay::Relay;
use super::status::Status;
use super::{Options, Stage};
use crate::debian_docs::http;
use crate::json::Json;
use crate::run;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// What opens the pages that are the operator's; the cluster is thrown away afterwards.
const KEY: &str = "a-key-for-a-run-on-loopback";
const PASSWORD: &str = "a-password-for-a-run-on-loopback";

pub const INDEX_NODES: usize = 4;
pub const FRONTS: usize = 2;
/// Nodes that keep answers, where there are some.
const CACHES: usize = 2;
/// Crawlers, where there are several.
pub const AGENTS: usize = 4;
pub const SHARDS: usize = 4;
pub const REPLICAS: usize = 2;
const SERVERS: usize = 3;

/// Nothing in a cluster that is well takes longer.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// A crawl that brought nothing new for so long is over.
const REST: Duration = Duration::from_secs(10);
/// Who gives orders: a folder like a node's.
const OPERATOR: &str = "operator";
/// The last number of the address of a node that runs in a copy of a folder.
const COPY: usize = 41;
/// Of the one process that does all alone.
const ALONE: usize = 42;
/// Where nodes answer each other, and people.
const PORTS: (u16, u16) = (7800, 8080);

/// Per shard its replicas: the node, its pages and a number for all that they are.
pub type Digests = BTreeMap<u32, Vec<(String, u64, String)>>;

pub struct Lab {
    pub dir: PathBuf,
    farol: PathBuf,
    /// What nodes are started as at first, where that is another version.
    before: Option<PathBuf>,
    pub servers: Vec<Process>,
    /// Nodes by name: `index-1` …, `front-1` …, `crawl-1`.
    pub nodes: BTreeMap<String, Process>,
    pub(super) block: u32,
    pub(super) stage: Stage,
    pub(super) sim: PathBuf,
    pub(super) pages: u64,
    pub(super) relay: Option<Relay>,
    /// What leads a crawler to the Web: flags, and a seed.
    crawl: Vec<String>,
    alone: Option<Process>,
    // Ended last.
    pub(super) web: Process,
    /// Beyond loopback; taken away after all that ran in it.
    net: Option<Net>,
}

impl Lab {
    /// Starts everything, with an empty index; the crawl begins at once.
    pub fn start(options: &Options, pages: u64, stage: Stage) -> Result<Lab, String> {
        let dir = std::path::absolute(&options.dir).map_err(|error| format!("{error}"))?;
        if dir.exists() {
            std::fs::remove_dir_all(&dir)
                .map_err(|error| format!("cannot empty {}: {error}", dir.display()))?;
        }
        std::fs::create_dir_all(dir.join("blobs"))
            .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let block = 100 + std::process::id() % 100;
        let (nothing, farol) = (Process::new("web", &options.sim, Vec::new(), &dir), options.farol.clone());
        let farol = std::path::absolute(farol).map_err(|error| format!("{error}"))?;
        let before = options.before.as_ref().filter(|_| stage == Stage::Before);
        let before = before.map(std::path::absolute).transpose().map_err(|error| format!("{error}"))?;
        let (servers, nodes) = (Vec::new(), BTreeMap::new());
        let mut lab = Lab {
            dir,
            farol,
            before,
            servers,
            nodes,
            block,
            stage,
            sim: options.sim.clone(),
            pages,
            relay: None,
            crawl: Vec::new(),
            alone: None,
            web: nothing,
            net: None,
        };
        if stage.is_in_net() {
            lab.make_net()?;
        }
        lab.crawl = lab.serve_web()?;
        lab.start_servers()?;
        lab.make_cluster()?;
        for nth in 1..=INDEX_NODES {
            let roles = if stage == Stage::Ranked { "index,control,rank" } else { "index,control" };
            lab.add_node(&format!("index-{nth}"), roles, nth, &[])?;
        }
        for nth in 1..=FRONTS {
            lab.add_node(&format!("front-{nth}"), "front", 10 + nth, &[])?;
        }
        for nth in 1..=if stage == Stage::Cached { CACHES } else { 0 } {
            lab.add_node(&format!("cache-{nth}"), "cache", 15 + nth, &[])?;
        }
        let mut words = lab.crawl.clone();
        lab.add_node("crawl-1", "crawl", 20, &words)?;
        // One seed is told at one node, and is the whole crawl's.
        words.pop();
        for nth in 2..=if stage == Stage::Several { AGENTS } else { 1 } {
            lab.add_node(&format!("crawl-{nth}"), "crawl", 19 + nth, &words)?;
        }
        Ok(lab)
    }

    /// The machines, by name and the end of the address.
    pub(super) fn machines() -> impl Iterator<Item = (String, u8)> {
        let index = (1..=INDEX_NODES).map(|nth| (format!("index-{nth}"), nth as u8));
        let fronts = (1..=FRONTS).map(|nth| (format!("front-{nth}"), 10 + nth as u8));
        let servers = (1..=SERVERS).map(|nth| (format!("nats-{nth}"), 30 + nth as u8));
        let crawlers = (1..=AGENTS).map(|nth| (format!("crawl-{nth}"), 19 + nth as u8));
        index.chain(fronts).chain(crawlers).chain(servers)
    }

    /// A namespace and a certificate for each machine, and one for orders.
    fn make_net(&mut self) -> Result<(), String> {
        let mut net = Net::start()?;
        let mut words: Vec<String> = ["cluster", "certs", "--authority"].map(String::from).to_vec();
        words.push(self.data("authority").display().to_string());
        for (name, last) in Lab::machines() {
            net.add(&name, last)?;
            if self.stage == Stage::Several && name.starts_with("crawl") {
                net.lead_loopback_here(&name)?;
            }
            words.extend(match name.starts_with("nats") {
                true => ["--server".to_string(), net::address(last).to_string()],
                false => ["--node".to_string(), self.data(&name).display().to_string()],
            });
        }
        words.extend(["--node".to_string(), self.data(OPERATOR).display().to_string()]);
        self.net = Some(net);
        self.farol(&words.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
    }

    /// Pulls the cable of a machine, or plugs it in again.
    pub fn plug(&self, name: &str, is_in: bool) -> Result<(), String> {
        let machine = Lab::machines().find(|(machine, _)| machine == name && self.net.is_some());
        let (_, last) = machine.ok_or(format!("{name} has no cable"))?;
        Net::plug(last, is_in)
    }

    /// Parts a machine from the servers, or lets them meet again; it reaches all others.
    pub fn part_from_servers(&self, name: &str, is_parted: bool) -> Result<(), String> {
        self.part(name, is_parted, |other| other.starts_with("nats"))
    }

    /// Parts a machine from all others of the cluster, or lets them meet again; the Web it reaches.
    pub fn part_from_cluster(&self, name: &str, is_parted: bool) -> Result<(), String> {
        self.part(name, is_parted, |other| other != name)
    }

    fn part(&self, name: &str, is_parted: bool, from: impl Fn(&str) -> bool) -> Result<(), String> {
        let machine = Lab::machines().find(|(machine, _)| machine == name && self.net.is_some());
        let (_, last) = machine.ok_or(format!("{name} has no cable"))?;
        let others: Vec<_> = Lab::machines().filter(|(other, _)| from(other)).collect();
        Net::part(name, last, &others, is_parted)
    }

    /// Where the crawl is to end.
    pub fn pages_wanted(&self) -> u64 {
        self.pages
    }

    /// Words before a program that runs at a machine.
    pub(super) fn words_at(&self, name: &str) -> Vec<String> {
        if self.net.is_some() { Net::words_at(name) } else { Vec::new() }
    }

    fn start_servers(&mut self) -> Result<(), String> {
        let program = nats_server()?;
        let addresses: Vec<String> = (1..=SERVERS).map(|nth| self.address(30 + nth)).collect();
        for nth in 1..=SERVERS {
            let store = self.dir.join(format!("nats-{nth}"));
            let (this, store) = (nth.to_string(), store.display().to_string());
            let servers = addresses.join(",");
            let arguments =
                ["cluster", "nats-config", "--servers", &servers, "--this", &this, "--password", PASSWORD];
            let tls = self.data("authority").join(&addresses[nth - 1]).display().to_string();
            let tls: &[&str] = if self.net.is_some() { &["--tls", &tls] } else { &[] };
            let mut text =
                self.farol(&[&arguments[..], &["--store", &store, "--store-max", "8GiB"], tls].concat())?;
            if self.net.is_some() {
                // For who watches from the bridge, without a certificate; nodes insist on theirs.
                text.push_str("allow_non_tls: true\n");
            }
            // The monitors of three servers on one machine would meet at one port.
            let text: String = text
                .lines()
                .filter(|line| !line.starts_with("http:"))
                .map(|line| format!("{line}\n"))
                .collect();
            let file = self.dir.join(format!("nats-{nth}.conf"));
            std::fs::write(&file, text)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            let arguments = vec!["-c".to_string(), file.display().to_string()];
            let name = format!("nats-{nth}");
            let mut server = Process::new(&name, &program, arguments, &self.dir).by(self.words_at(&name));
            server.start()?;
            self.servers.push(server);
        }
        Ok(())
    }

    /// Writes the settings of a node; where they are.
    fn write_settings(&self, name: &str) -> Result<PathBuf, String> {
        let cache = if self.stage == Stage::Cached { "64MiB" } else { "0B" };
        let snapshot_every = if self.stage == Stage::NoSnapshots { "100d" } else { "1m" };
        let mut text = format!(
            "[index]\ncommit_every = '500ms'\nmemory = '32MiB'\nrank_every = '5s'\n[cache]\nmemory = '{cache}'\n\
             [crawl]\nallow_private = true\n[serve]\nrate_per_minute = 100000000\nadmin_token = '{KEY}'\n\
             [cluster]\njoin = '{}'\nblobs = '{}'\ncopies = 3\nlog_max = '256MiB'\nsnapshot_every = '{snapshot_every}'\n\
             backup_every = '10s'\n",
            self.join(),
            self.dir.join("blobs").display()
        );
        if self.net.is_some() {
            let file = |file: &str| self.data(name).join(file).display().to_string();
            let (ca, cert, key) = (file("ca.pem"), file("node.pem"), file("node.key"));
            text.push_str(&format!("tls_ca = '{ca}'\ntls_cert = '{cert}'\ntls_key = '{key}'\n"));
        }
        let settings = self.dir.join(format!("{name}.toml"));
        std::fs::write(&settings, text).map_err(|error| format!("cannot write settings: {error}"))?;
        Ok(settings)
    }

    /// Makes the cluster as soon as the servers have found each other.
    fn make_cluster(&self) -> Result<(), String> {
        let (shards, replicas) = (SHARDS.to_string(), REPLICAS.to_string());
        let begun = Instant::now();
        loop {
            match self.order(&["init", "--shards", &shards, "--replicas", &replicas]) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(500)),
            }
        }
    }

    fn add_node(&mut self, name: &str, roles: &str, last: usize, more: &[String]) -> Result<(), String> {
        let (address, settings) = (self.address(last), self.write_settings(name)?.display().to_string());
        let (rpc, people) = (format!("{address}:{}", PORTS.0), format!("{address}:{}", PORTS.1));
        let data = self.data(name).display().to_string();
        let arguments = ["node", "--config", &settings, "--data", &data, "--name", name, "--roles", roles];
        let addresses = ["--listen", &people, "--listen-rpc", &rpc, "--drain", "0", "--while-stdin"];
        let words = arguments.into_iter().chain(addresses).map(String::from).chain(more.iter().cloned());
        let program = self.before.as_ref().unwrap_or(&self.farol);
        let mut node = Process::new(name, program, words.collect(), &self.dir).by(self.words_at(name));
        node.start()?;
        self.nodes.insert(name.to_string(), node);
        Ok(())
    }

    /// Starts one process that crawls the same Web and answers alone; where it answers.
    pub fn start_alone(&mut self) -> Result<SocketAddr, String> {
        let (name, address) = ("alone", format!("{}:{}", self.address(ALONE), PORTS.1));
        let text = format!(
            "[index]\ncommit_every = '500ms'\nmemory = '32MiB'\nrank_every = '5s'\n[cache]\nmemory = '0B'\n\
             [crawl]\nallow_private = true\n[serve]\nrate_per_minute = 100000000\nadmin_token = '{KEY}'\n"
        );
        let settings = self.dir.join("alone.toml");
        std::fs::write(&settings, text).map_err(|error| format!("cannot write settings: {error}"))?;
        let (settings, data) = (settings.display().to_string(), self.data(name).display().to_string());
        let words = ["up", "--config", &settings, "--data", &data, "--listen", &address];
        let words = words.map(String::from).into_iter().chain(self.crawl.iter().cloned()).collect();
        let mut alone = Process::new(name, &self.farol, words, &self.dir);
        alone.start()?;
        self.alone = Some(alone);
        address.parse().map_err(|_| format!("no address: {address}"))
    }

    /// Ends it.
    pub fn end_alone(&mut self) -> Result<(), String> {
        self.alone.take().map_or(Ok(()), |mut alone| alone.end(Duration::from_secs(60)))
    }

    /// Where snapshots go.
    pub fn blobs(&self) -> PathBuf {
        self.dir.join("blobs")
    }

    pub fn runs_another_version(&self) -> bool {
        self.before.is_some()
    }

    /// Starts a node that has ended as the present version.
    pub fn upgrade(&mut self, name: &str) -> Result<(), String> {
        let farol = self.farol.clone();
        let node = self.node(name)?;
        node.become_program(&farol);
        node.start()
    }

    /// Starts a node under the name of another one, in a copy of its folder.
    pub fn start_copy(&mut self, name: &str, copy: &str) -> Result<(), String> {
        let (address, settings) = (self.address(COPY), self.write_settings(name)?.display().to_string());
        let (rpc, people) = (format!("{address}:{}", PORTS.0), format!("{address}:{}", PORTS.1));
        let data = self.data(copy).display().to_string();
        let words =
            ["node", "--config", &settings, "--data", &data, "--name", name, "--roles", "index,control"];
        let more = ["--listen", &people, "--listen-rpc", &rpc, "--drain", "0", "--while-stdin"];
        let words = words.into_iter().chain(more).map(String::from).collect();
        let mut node = Process::new(copy, &self.farol, words, &self.dir);
        node.start()?;
        self.nodes.insert(copy.to_string(), node);
        Ok(())
    }

    /// Ends it; what it said.
    pub fn end_copy(&mut self, copy: &str) -> String {
        let Some(mut node) = self.nodes.remove(copy) else { return String::new() };
        node.kill();
        node.said()
    }

    fn address(&self, last: usize) -> String {
        match self.net {
            Some(_) => net::address(last as u8).to_string(),
            None => format!("127.{}.0.{last}", self.block),
        }
    }

    pub fn data(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where NATS is, for nodes.
    fn join(&self) -> String {
        let servers: Vec<String> = self.server_addresses().iter().map(ToString::to_string).collect();
        let scheme = if self.net.is_some() { "tls" } else { "nats" };
        format!("{scheme}://farol:{PASSWORD}@{}", servers.join(","))
    }

    pub fn server_addresses(&self) -> Vec<SocketAddr> {
        (1..=SERVERS).filter_map(|nth| format!("{}:4222", self.address(30 + nth)).parse().ok()).collect()
    }

    /// User and password of the servers.
    pub fn nats_login() -> (&'static str, &'static str) {
        ("farol", PASSWORD)
    }

    pub fn fronts(&self) -> Vec<SocketAddr> {
        (1..=FRONTS)
            .filter_map(|nth| format!("{}:{}", self.address(10 + nth), PORTS.1).parse().ok())
            .collect()
    }

    pub fn node(&mut self, name: &str) -> Result<&mut Process, String> {
        self.nodes.get_mut(name).ok_or(format!("there is no node {name}"))
    }

    pub fn index_nodes() -> Vec<String> {
        (1..=INDEX_NODES).map(|nth| format!("index-{nth}")).collect()
    }

    /// Runs `farol cluster …` on this cluster; what it wrote.
    pub fn order(&self, arguments: &[&str]) -> Result<String, String> {
        let settings = self.write_settings(OPERATOR)?.display().to_string();
        let data = self.data(OPERATOR).display().to_string();
        self.farol(&[&["cluster"], arguments, &["--config", &settings, "--data", &data]].concat())
    }

    /// What each replica holds.
    pub fn digests(&self) -> Result<Digests, String> {
        let mut shards = Digests::new();
        for name in Lab::index_nodes() {
            let text = self.farol(&["cluster", "digest", &self.data(&name).display().to_string()])?;
            for line in text.lines() {
                let cells: Vec<&str> = line.split_whitespace().collect();
                let [shard, pages, digest] = cells[..] else { return Err(format!("not a digest: {line}")) };
                let number = |text: &str| text.parse::<u64>().map_err(|_| format!("not a digest: {line}"));
                let row = (name.clone(), number(pages)?, digest.to_string());
                shards.entry(number(shard)? as u32).or_default().push(row);
            }
        }
        Ok(shards)
    }

    /// Addresses of pages that the crawlers have archived.
    pub fn archived(&self) -> Result<u64, String> {
        let mut visits = String::new();
        for name in self.nodes.keys().filter(|name| name.starts_with("crawl")) {
            visits += &self.farol(&["export", "visits", "--data", &self.data(name).display().to_string()])?;
        }
        let mut urls = BTreeSet::new();
        for line in visits.lines() {
            // Time, status, bytes, file, offset and URL.
            let cells: Vec<&str> = line.split('\t').collect();
            if let [_, "200", .., url] = cells[..]
                && !url.ends_with("/robots.txt")
            {
                urls.insert(url.to_string());
            }
        }
        Ok(urls.len() as u64)
    }

    fn farol(&self, arguments: &[&str]) -> Result<String, String> {
        let done = Command::new(&self.farol)
            .args(arguments)
            .env_remove("FAROL_DATA")
            .env_remove("FAROL_JOIN")
            .output();
        let done = done.map_err(|error| format!("cannot run {}: {error}", self.farol.display()))?;
        if !done.status.success() {
            return Err(format!(
                "farol {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&done.stderr).trim()
            ));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// The cluster as the first front that answers sees it.
    pub fn status(&self) -> Result<Status, String> {
        let mut told = Err("there is no front".to_string());
        for front in self.fronts() {
            let asked = Instant::now();
            told = http::get(front, "/api/v1/cluster", KEY).map(|json| Status { json, asked });
            if told.is_ok() {
                break;
            }
        }
        told
    }

    /// What one process that does all alone tells of itself.
    pub fn status_alone(alone: SocketAddr) -> Result<Json, String> {
        http::get(alone, "/api/v1/status", KEY)
    }

    /// Waits until the cluster is as it should be; seconds that it took.
    pub fn wait_for(&mut self, what: &str, mut holds: impl FnMut(&Status) -> bool) -> Result<f64, String> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < PATIENCE {
            match self.status() {
                Ok(status) if holds(&status) => return Ok(begun.elapsed().as_secs_f64()),
                Ok(status) => last = status.told(),
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Err(format!("waited {} s in vain for {what}: {last}", PATIENCE.as_secs()))
    }

    /// Waits until the crawl brings nothing new and everything is everywhere; pages in the index.
    pub fn wait_for_crawl(&mut self) -> Result<u64, String> {
        let (mut pages, mut changed, mut begun) = (0, Instant::now(), Instant::now());
        let mut said = Instant::now();
        let nodes = self.nodes.len();
        self.wait_for("every node", |status| status.nodes_up() == nodes)?;
        while changed.elapsed() < REST || pages == 0 {
            std::thread::sleep(Duration::from_millis(500));
            let Ok(status) = self.status() else { continue };
            if status.pages() > pages {
                (pages, changed, begun) = (status.pages(), Instant::now(), Instant::now());
            }
            if said.elapsed() > Duration::from_secs(15) {
                said = Instant::now();
                println!("{pages} pages");
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!(
                    "the crawl stands still after {pages} pages; see {}",
                    self.dir.display()
                ));
            }
        }
        self.wait_for("every page in every replica", |status| status.is_whole(REPLICAS, None))?;
        self.status().map(|status| status.pages())
    }

    /// Words of the pages, one and two at a time.
    pub fn questions(&self) -> Result<Vec<String>, String> {
        let front = *self.fronts().first().ok_or("there is no front")?;
        // A cluster that has just begun may answer nothing yet.
        let begun = Instant::now();
        let json = loop {
            match http::get(front, "/api/v1/search?q=the&count=40", "") {
                Ok(json) => break json,
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(500)),
            }
        };
        let mut questions = Vec::new();
        for hit in json.get("hits").list() {
            let words =
                hit.get("title").text().split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
            let words: Vec<&str> = words.take(3).collect();
            questions.extend(words.first().map(|word| word.to_string()));
            questions.extend((words.len() > 1).then(|| words[..2].join(" ")));
        }
        questions.sort();
        questions.dedup();
        if questions.len() < 5 { Err(format!("too few questions: {questions:?}")) } else { Ok(questions) }
    }

    /// Ends all processes in order, as an operator would.
    pub fn end(mut self) -> Result<(), String> {
        let mut troubles = Vec::new();
        let order = |name: &&String| !name.starts_with("crawl");
        let mut names: Vec<&String> = self.nodes.keys().collect();
        names.sort_by_key(order);
        for name in names.into_iter().cloned().collect::<Vec<String>>() {
            troubles.extend(self.node(&name)?.end(Duration::from_secs(60)).err());
        }
        for server in &mut self.servers {
            // What it says of its own end is no matter of ours.
            let _ = server.end(Duration::from_secs(20));
        }
        if troubles.is_empty() { Ok(()) } else { Err(troubles.join("; ")) }
    }
}

/// The program that `cargo xtask install` brings, or another one.
pub fn nats_server() -> Result<PathBuf, String> {
    let named = std::env::var("FAROL_NATS_SERVER").map(PathBuf::from).ok();
    let brought = PathBuf::from("target/nats/unpacked/usr/sbin/nats-server");
    let known = named.into_iter().chain([brought, "/usr/sbin/nats-server".into()]);
    let found = known.into_iter().find(|path| run::quietly(&path.display().to_string(), &["--version"]));
    found.ok_or("nats-server is missing: `cargo xtask install` brings it".to_string())
}
