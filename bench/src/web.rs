//! The synthetic Web that all peers crawl: one server process for the whole run.

use crate::process::{Running, Usage, usage_of};
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A running `farol-sim web`.
pub struct Web {
    _running: Running,
    pid: u32,
    pub address: SocketAddr,
    /// Front page from which everything can be reached.
    pub seed: String,
}

impl Web {
    /// Starts a Web without trouble: plain pages, no rules.
    pub fn start(sim: &Path, hosts: u32, pages: u64, seed: u64) -> Result<Web> {
        // The port is free now; nobody else on this machine wants it within the next millisecond.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(sim);
        command.args(["web", "--tame", "--listen", &address.to_string()]);
        command.args([
            "--hosts",
            &hosts.to_string(),
            "--pages",
            &pages.to_string(),
            "--seed",
            &seed.to_string(),
        ]);
        let running = Running::start(&mut command, false)?;
        for _ in 0..100 {
            if let Ok(about) = get(address, "/") {
                let seed = about.split_once("It starts at ").and_then(|(_, rest)| rest.split_once(','));
                let seed = seed.context("the synthetic Web does not say where it starts")?.0.to_string();
                return Ok(Web { pid: running.id(), _running: running, address, seed });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("{} does not serve on {address}", sim.display())
    }

    /// HTML pages served so far, status 200.
    pub fn pages(&self) -> Result<u64> {
        let counters: serde_json::Value = serde_json::from_str(&get(self.address, "/counters")?)?;
        counters["pages"].as_u64().context("the synthetic Web does not count")
    }

    /// What the server itself has used.
    pub fn usage(&self) -> Usage {
        usage_of(self.pid)
    }

    pub fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("not an HTTP answer")?;
    Ok(body.to_string())
}
