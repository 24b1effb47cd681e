//! The made-up Web of a cluster: how crawlers are led there, who asked it when, and what its own log says.

use super::Stage;
use super::lab::Lab;
use super::net;
use super::process::Process;
use super::relay::Relay;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

/// Hosts of the Web where there are several crawlers, and the least time between two requests to one of them.
const HOSTS_OF_SEVERAL: &str = "100";
const DELAY_OF_SEVERAL: &str = "1s";

impl Lab {
    /// Starts the Web; the flags that lead a crawler there, with a seed.
    pub(super) fn serve_web(&mut self) -> Result<Vec<String>, String> {
        // On loopback of the crawler's machine where there are several; with several crawlers at the bridge, where each
        // host has an address of its own.
        let is_shared = self.stage == Stage::Several;
        let (hosts, delay, listen) = match is_shared {
            true => (HOSTS_OF_SEVERAL, DELAY_OF_SEVERAL, "127.0.0.1:0".to_string()),
            false => ("20", "0", format!("127.{}.0.40:0", self.block)),
        };
        let (pages, log) = (self.pages.to_string(), self.dir.join("web.requests").display().to_string());
        let mut words =
            vec!["web", "--tame", "--hosts", hosts, "--pages", &pages, "--threads", "1", "--listen", &listen];
        if is_shared {
            words.extend(["--log", &log]);
        }
        let web = Process::new("web", &self.sim, words.into_iter().map(String::from).collect(), &self.dir);
        self.web = if is_shared { web } else { web.by(self.words_at("crawl-1")) };
        self.web.start()?;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            // farol crawl http://…/ --scope domain --resolve '*.domain=…'
            let said = self.web.said();
            let line = said.lines().find_map(|line| line.trim().strip_prefix("farol crawl "));
            let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
            if let [seed, .., resolve] = words[..]
                && said.contains("Ctrl-C")
            {
                let resolve = self.led(resolve.trim_matches('\''))?;
                let flags = ["--scope", "domain", "--delay", delay, "--resolve", &resolve, seed];
                return Ok(flags.map(String::from).to_vec());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the made-up Web does not start: {}", self.web.said()))
    }

    /// Where hosts are: at the Web itself, or at what leads there.
    fn led(&mut self, resolve: &str) -> Result<String, String> {
        if self.stage != Stage::Several {
            return Ok(resolve.to_string());
        }
        let found = resolve.rsplit_once(':').and_then(|(hosts, port)| Some((hosts, port.parse().ok()?)));
        let (hosts, port) = found.ok_or(format!("the Web is nowhere: {resolve}"))?;
        let relay = Relay::start(port).map_err(|error| format!("nothing can lead to the Web: {error}"))?;
        let resolve = format!("{hosts}:{}", relay.port);
        self.relay = Some(relay);
        Ok(resolve)
    }

    /// How often a machine, or anybody, has sent something to the Web after an instant, and when last.
    pub fn asked_after(&self, name: Option<&str>, since: Instant) -> (usize, Option<Instant>) {
        let who = name.and_then(Lab::address_at).map(IpAddr::V4);
        self.relay.as_ref().map_or((0, None), |relay| relay.asked_after(who, since))
    }

    /// The same, up to another instant.
    pub fn asked_between(&self, name: &str, since: Instant, upto: Instant) -> usize {
        self.asked_after(Some(name), since).0 - self.asked_after(Some(name), upto).0
    }

    fn address_at(name: &str) -> Option<Ipv4Addr> {
        let (_, last) = Lab::machines().find(|(machine, _)| machine == name)?;
        Some(net::address(last))
    }

    /// Ends the Web, and has its log judged: offences, and how many of each.
    pub fn judge_web(&mut self) -> Result<Vec<(String, u64)>, String> {
        self.web.end(Duration::from_secs(20))?;
        let (log, pages) = (self.dir.join("web.requests"), self.pages.to_string());
        let done = Command::new(&self.sim)
            .args(["check", "--tame", "--hosts", HOSTS_OF_SEVERAL, "--pages", &pages, "--complete", "--log"])
            .arg(log)
            .output();
        let done = done.map_err(|error| format!("cannot run {}: {error}", self.sim.display()))?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let mut lines = said.lines().skip_while(|line| !line.starts_with("offence")).skip(1);
        let mut found = Vec::new();
        while let Some(line) = lines.next().filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.trim_end_matches('!').split_whitespace().collect();
            let [what @ .., count, _allowed] = words.as_slice() else { continue };
            let count = count.parse().map_err(|_| format!("not a count: {line}"))?;
            found.push((what.join(" "), count));
        }
        if found.is_empty() { Err(format!("the Web's log cannot be judged: {said}")) } else { Ok(found) }
    }
}
