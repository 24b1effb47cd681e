//! Runs the real binary on the served packages until it has nothing left to do.

use super::nginx::Server;
use super::packages::Site;
use super::{http, machine};
use crate::json::Json;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Least time between two requests to one server. Short, because these servers are ours.
pub const DELAY_MS: u64 = 10;

/// A crawl that makes no progress for so long is given up.
const PATIENCE: Duration = Duration::from_secs(300);

/// After the last page: the index takes in the rest and link ranks are computed anew, at most once a minute.
const SETTLE: Duration = Duration::from_secs(75);

/// A crawl that is idle for so long is over.
const REST: Duration = Duration::from_secs(3);

/// A crawl that is over, with the process still there to answer questions.
pub struct Running {
    child: Child,
    pub address: SocketAddr,
    /// From the start of the process until it was idle.
    pub seconds: f64,
    /// Opens what is the operator's.
    key: String,
}

/// What Farol says of itself when all is done.
pub struct Crawled {
    pub seconds: f64,
    pub status: Json,
    /// Languages with the number of pages in each.
    pub languages: Vec<(String, u64)>,
    /// Most memory held at once, in KiB.
    pub memory_kib: u64,
    /// Processor time used, in seconds.
    pub cpu_seconds: f64,
}

/// Crawls the sites anew, into `dir/data`, and waits until nothing is left to fetch.
pub fn crawl(farol: &Path, dir: &Path, sites: &[Site], server: &Server) -> Result<Running, String> {
    let data = dir.join("data");
    if data.exists() {
        std::fs::remove_dir_all(&data)
            .map_err(|error| format!("cannot empty {}: {error}", data.display()))?;
    }
    let log = std::fs::File::create(dir.join("farol.log"));
    let log = log.map_err(|error| format!("cannot write farol.log: {error}"))?;
    let mut command = Command::new(farol);
    command.arg("up").arg("--data").arg(&data).args(["--listen", "127.0.0.1:0", "--allow-private"]);
    command.args(["--delay", &format!("{DELAY_MS}ms")]);
    for site in sites {
        command.args(["--resolve", &format!("{}={}:{}", site.host(), site.address(), server.crawl_port)]);
    }
    let errors = log.try_clone().map_err(|error| format!("cannot write farol.log: {error}"))?;
    let begun = Instant::now();
    let child = command
        .args(sites.iter().map(|site| site.seed()))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", farol.display()))?;
    let mut running =
        Running { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), seconds: 0.0, key: String::new() };
    running.address = running.wait_until_listening(&data)?;
    running.key = std::fs::read_to_string(data.join("admin.key")).unwrap_or_default().trim().to_string();
    running.wait_until_idle(begun)?;
    Ok(running)
}

impl Running {
    fn wait_until_listening(&mut self, data: &Path) -> Result<SocketAddr, String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.check_alive()?;
            let text = std::fs::read_to_string(data.join("running.json")).unwrap_or_default();
            let listening = Json::read(&text).ok().and_then(|json| json.get("listen").text().parse().ok());
            if let Some(address) = listening {
                return Ok(address);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("farol does not say where it listens".to_string())
    }

    fn wait_until_idle(&mut self, begun: Instant) -> Result<(), String> {
        let (mut last, mut progress, mut said) = (0.0, Instant::now(), Instant::now());
        let mut idle_since: Option<Instant> = None;
        loop {
            self.check_alive()?;
            // A busy engine may answer late; only silence for long is a failure.
            if let Ok(status) = self.status() {
                let fetched = status.get("crawl.pages_fetched").number();
                let is_idle =
                    status.get("state").text() == "idle" && status.get("crawl.queue").number() == 0.0;
                idle_since = idle_since.filter(|_| is_idle).or_else(|| is_idle.then(Instant::now));
                // Before the first page it is idle as well, and between two for a moment.
                if fetched > 0.0 && idle_since.is_some_and(|since| since.elapsed() > REST) {
                    self.seconds = (begun.elapsed() - REST).as_secs_f64();
                    return Ok(());
                }
                if fetched > last {
                    (last, progress) = (fetched, Instant::now());
                }
                if said.elapsed() > Duration::from_secs(15) {
                    said = Instant::now();
                    println!("{fetched} pages, {} waiting", status.get("crawl.queue").number());
                }
            }
            if progress.elapsed() > PATIENCE {
                return Err(format!("the crawl stands still after {last} pages"));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn status(&self) -> Result<Json, String> {
        http::get(self.address, "/api/v1/status", &self.key)
    }

    fn check_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("farol ended ({status}); see farol.log")),
            Err(error) => Err(format!("cannot watch farol: {error}")),
        }
    }

    /// Waits until the index is at rest.
    pub fn settle(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < SETTLE {
            self.check_alive()?;
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    /// Reads the last figures and stops the process in the clean way.
    pub fn finish(mut self) -> Result<Crawled, String> {
        let status = self.status()?;
        let languages = status.get("index.languages").list().iter().map(|row| {
            let name = [row.get("name"), row.get("key"), row.get("code")].map(Json::text).concat();
            (name, row.get("count").number() as u64)
        });
        let crawled = Crawled {
            seconds: self.seconds,
            languages: languages.collect(),
            memory_kib: machine::memory_high_kib(self.child.id()),
            cpu_seconds: machine::cpu_seconds(self.child.id()),
            status,
        };
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(crawled),
                Ok(Some(status)) => return Err(format!("farol did not stop cleanly ({status})")),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        Err("farol does not stop within a minute".to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
