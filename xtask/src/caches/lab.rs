//! A cluster that has cache nodes and nothing else: a NATS server, two candidates for the leadership, the nodes.

use super::CacheOptions;
use crate::faults::process::Process;
use crate::json::Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PASSWORD: &str = "a-password-for-a-run-on-loopback";
/// Nothing in a cluster that is well takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct CacheLab {
    dir: PathBuf,
    farol: PathBuf,
    block: u32,
    /// The file of all nodes' settings.
    settings: String,
    nodes: BTreeMap<String, Process>,
    /// Processor time of cache nodes that were killed, in seconds.
    worked_before: f64,
    /// Ended last.
    server: Process,
}

impl CacheLab {
    /// Starts everything, and waits until all nodes are on the ring. `settings`: lines under `[cache]`.
    pub fn start(options: &CacheOptions, nodes: usize, settings: &str) -> Result<CacheLab, String> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(|error| format!("{error}"));
        let dir = absolute(&options.dir)?;
        if dir.exists() {
            std::fs::remove_dir_all(&dir)
                .map_err(|error| format!("cannot empty {}: {error}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let block = 100 + std::process::id() % 100;
        let config = dir.join("nats.conf");
        let text = format!(
            "listen: 127.{block}.1.31:4222\njetstream {{ store_dir: '{}', sync_interval: always }}\n\
             authorization {{ user: farol, password: '{PASSWORD}' }}\n",
            dir.join("nats").display()
        );
        std::fs::write(&config, text).map_err(|error| format!("cannot write settings: {error}"))?;
        let words = vec!["-c".to_string(), config.display().to_string()];
        let mut server = Process::new("nats", &crate::faults::nats_server()?, words, &dir);
        server.start()?;
        let farol = absolute(&options.farol)?;
        let settings = write_settings(&dir, block, settings)?;
        let mut lab =
            CacheLab { dir, farol, block, settings, nodes: BTreeMap::new(), worked_before: 0.0, server };
        lab.wait("the cluster to be made", |lab| {
            lab.farol(&["cluster", "init", "--shards", "1", "--replicas", "1"]).map(|_| true)
        })?;
        for nth in 1..=2 {
            lab.add(&format!("control-{nth}"), "control", 20 + nth)?;
        }
        for nth in 1..=nodes {
            lab.add(&format!("cache-{nth}"), "cache", nth)?;
        }
        lab.wait_for_ring(nodes)?;
        Ok(lab)
    }

    fn add(&mut self, name: &str, roles: &str, last: usize) -> Result<(), String> {
        let rpc = format!("127.{}.1.{last}:7800", self.block);
        let data = self.dir.join(name).display().to_string();
        let words = ["node", "--config", &self.settings, "--data", &data, "--name", name, "--roles", roles];
        let more = ["--listen-rpc", &rpc, "--drain", "0", "--while-stdin"];
        let words = words.into_iter().chain(more).map(String::from).collect();
        let mut node = Process::new(name, &self.farol, words, &self.dir);
        node.start()?;
        self.nodes.insert(name.to_string(), node);
        Ok(())
    }

    /// Starts one more cache node.
    pub fn add_cache(&mut self, nth: usize) -> Result<(), String> {
        self.add(&format!("cache-{nth}"), "cache", nth)
    }

    pub fn node(&mut self, name: &str) -> Result<&mut Process, String> {
        self.nodes.get_mut(name).ok_or(format!("there is no node {name}"))
    }

    /// `kill -9`; what it worked is not forgotten.
    pub fn kill(&mut self, name: &str) -> Result<(), String> {
        let node = self.node(name)?;
        let before = node.id().filter(|_| name.starts_with("cache")).map_or(0.0, worked);
        node.kill();
        self.worked_before += before;
        Ok(())
    }

    pub fn server(&mut self) -> &mut Process {
        &mut self.server
    }

    /// Runs `farol …` on this cluster; what it wrote.
    pub fn farol(&self, arguments: &[&str]) -> Result<String, String> {
        let data = self.dir.join("operator").display().to_string();
        let mut command = Command::new(&self.farol);
        command.args(arguments).args(["--config", &self.settings, "--data", &data]);
        let done = command.env_remove("FAROL_DATA").env_remove("FAROL_JOIN").output();
        let done = done.map_err(|error| format!("cannot run {}: {error}", self.farol.display()))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!(
                "farol {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&done.stderr).trim()
            )),
        }
    }

    /// Asks as two fronts do, beside whatever the trial does meanwhile.
    pub fn replay(&self, arguments: &[String]) -> Result<Replay, String> {
        self.replay_as("replay", arguments)
    }

    /// The same beside others, under a name of its own.
    pub fn replay_as(&self, name: &str, arguments: &[String]) -> Result<Replay, String> {
        let data = self.dir.join("operator").display().to_string();
        let mut words: Vec<String> =
            ["cache", "replay", "--json", "--config", &self.settings, "--data", &data]
                .map(String::from)
                .to_vec();
        words.extend(arguments.iter().cloned());
        let mut process = Process::new(name, &self.farol, words, &self.dir);
        let before = process.said().lines().count();
        process.start()?;
        Ok(Replay { process, before, begun: Instant::now() })
    }

    /// The ring as `farol cache status` tells it.
    pub fn ring(&self) -> Result<Json, String> {
        Json::read(&self.farol(&["cache", "status", "--json"])?)
    }

    /// Waits until so many nodes are on the ring, and told of; seconds that it took.
    pub fn wait_for_ring(&self, nodes: usize) -> Result<f64, String> {
        let begun = Instant::now();
        self.wait(&format!("{nodes} nodes on the ring"), |lab| Ok(on_ring(&lab.ring()?).len() == nodes))?;
        Ok(begun.elapsed().as_secs_f64())
    }

    pub fn wait(
        &self,
        what: &str,
        mut holds: impl FnMut(&CacheLab) -> Result<bool, String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < PATIENCE {
            match holds(self) {
                Ok(true) => return Ok(()),
                Ok(false) => last.clear(),
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Err(format!("waited {} s in vain for {what} {last}; see {}", PATIENCE.as_secs(), self.dir.display()))
    }

    /// Names of the nodes on the ring, in the order of their ranges.
    pub fn names(&self) -> Result<Vec<String>, String> {
        Ok(on_ring(&self.ring()?))
    }

    /// Who leads.
    pub fn leader(&self) -> Result<String, String> {
        let status = Json::read(&self.farol(&["cluster", "status", "--json"])?)?;
        let id = status.get("leader.node").text().to_string();
        let node = status.get("nodes").list().iter().find(|node| node.get("id").text() == id);
        node.map(|node| node.get("name").text().to_string()).ok_or("nobody leads".to_string())
    }

    /// The processes of the cache nodes.
    fn caches(&self) -> impl Iterator<Item = (&str, u32)> {
        let caches = self.nodes.iter().filter(|(name, _)| name.starts_with("cache"));
        caches.filter_map(|(name, node)| Some((name.as_str(), node.id()?)))
    }

    /// Processor time of all cache nodes so far, in seconds.
    pub fn worked(&self) -> f64 {
        self.worked_before + self.caches().map(|(_, id)| worked(id)).sum::<f64>()
    }

    /// Memory of each cache node, in MiB.
    pub fn memory(&self) -> Vec<(String, f64)> {
        self.caches().map(|(name, id)| (name.to_string(), memory_mib(id))).collect()
    }
}

/// Writes the settings of all nodes, once: who starts must not find half of them.
fn write_settings(dir: &Path, block: u32, cache: &str) -> Result<String, String> {
    let text = format!(
        "[cluster]\njoin = 'nats://farol:{PASSWORD}@127.{block}.1.31:4222'\ncopies = 1\nlog_max = '64MiB'\n[cache]\n{cache}\n"
    );
    let path = dir.join("node.toml");
    std::fs::write(&path, text).map_err(|error| format!("cannot write settings: {error}"))?;
    Ok(path.display().to_string())
}

fn on_ring(ring: &Json) -> Vec<String> {
    let nodes = ring.get("nodes").list().iter().filter(|node| *node.get("on_ring") == Json::Bool(true));
    nodes.map(|node| node.get("name").text().to_string()).collect()
}

/// Processor time of a process, in seconds.
pub fn worked(id: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    // A tick is a hundredth of a second on Linux.
    ticks.sum::<f64>() / 100.0
}

/// Memory of a process that is in RAM.
fn memory_mib(id: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// A load under way.
pub struct Replay {
    process: Process,
    /// Lines that an earlier one said.
    before: usize,
    begun: Instant,
}

impl Replay {
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until so much time has passed since it began.
    pub fn until(&self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.begun.elapsed()));
    }

    /// Waits for its end; its lines, the last with all of it.
    pub fn end(mut self) -> Result<(Vec<Json>, Json), String> {
        while self.process.has_ended().is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = self.process.said();
        let mut lines: Vec<Json> =
            said.lines().skip(self.before).filter_map(|line| Json::read(line).ok()).collect();
        match lines.pop().filter(|last| *last.get("total") == Json::Bool(true)) {
            Some(total) => Ok((lines, total)),
            None => Err(format!("the load broke off: {said}")),
        }
    }
}
