//! A network of its own, in which single nodes can be cut off: one bridge, and each machine in a network namespace.
//!
//! Promise: nothing of it is seen outside. This program runs itself again in a network and a mount namespace without a
//! name, and makes all others within: with its last process the kernel takes everything away, also after `kill -9`.

use std::net::Ipv4Addr;
use std::process::Command;

/// Before a program, it ends with whoever started it, however that ends.
const TOGETHER: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];
const UNSEEN: [&str; 3] = ["unshare", "--net", "--mount"];
/// Says to this program that it runs inside, and the number of the one outside.
const INSIDE: &str = "FAROL_FAULTS_INSIDE";
const BRIDGE: &str = "hub";
/// Whoever asks and watches sits at the bridge; machines are 10.83.0.1 and so on.
const HERE: u8 = 254;

/// What is missing to make namespaces, in a sentence.
pub fn missing() -> Option<String> {
    let told = |program: &str, flag: &str| {
        let done = Command::new(program).arg(flag).output().ok().filter(|done| done.status.success());
        done.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_string())
    };
    if told("id", "-u").as_deref() != Some("0") {
        return Some("cutting nodes off needs network namespaces, which only root may make".to_string());
    }
    if told("ip", "-Version").is_none() {
        return Some("cutting nodes off needs `ip`: `apt-get install iproute2` brings it".to_string());
    }
    let tried = command(&[&UNSEEN[..], &TOGETHER, &["true"]].concat());
    tried
        .err()
        .map(|error| format!("cutting nodes off needs network namespaces, which cannot be made: {error}"))
}

pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Inside, loopback is there and down.
pub fn wake_loopback() -> Result<(), String> {
    ip(&["link", "set", "lo", "up"])
}

/// Runs this program again, with the same arguments, where nobody sees the network that it makes.
pub fn run_inside() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(UNSEEN[0]);
    command.args(&UNSEEN[1..]).args(TOGETHER).arg(program).args(std::env::args_os().skip(1));
    let status = command.env(INSIDE, std::process::id().to_string()).status();
    match status.map_err(|error| format!("cannot run unshare: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("what ran in namespaces ended with {status}")),
    }
}

/// The bridge and the machines at it.
pub struct Net {
    machines: Vec<String>,
}

impl Net {
    pub fn start() -> Result<Net, String> {
        // The list of namespaces of this machine stays as it is: ours is another one, that nobody else sees.
        command(&["mkdir", "-p", "/run/netns"])?;
        command(&["mount", "-t", "tmpfs", "tmpfs", "/run/netns"])?;
        let net = Net { machines: Vec::new() };
        ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["address", "add", &format!("{}/24", address(HERE)), "dev", BRIDGE])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        Ok(net)
    }

    /// Puts a machine at the bridge.
    pub fn add(&mut self, name: &str, last: u8) -> Result<(), String> {
        let (space, port) = (space(name), format!("port-{last}"));
        ip(&["netns", "add", &space])?;
        self.machines.push(space.clone());
        ip(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &space])?;
        ip(&["link", "set", &port, "master", BRIDGE, "up"])?;
        ip(&["-n", &space, "address", "add", &format!("{}/24", address(last)), "dev", "eth0"])?;
        ip(&["-n", &space, "link", "set", "eth0", "up"])?;
        ip(&["-n", &space, "link", "set", "lo", "up"])
    }

    /// Has a machine find at the bridge what others find on their own loopback; 127.0.0.1 stays its own.
    pub fn lead_loopback_here(&self, name: &str) -> Result<(), String> {
        let space = space(name);
        let may = |device: &str| format!("echo 1 > /proc/sys/net/ipv4/conf/{device}/route_localnet");
        command(&["sh", "-c", &may(BRIDGE)])?;
        command(&["ip", "netns", "exec", &space, "sh", "-c", &may("eth0")])?;
        let all = "127.0.0.0/8";
        ip(&["-n", &space, "route", "delete", "local", all, "dev", "lo", "table", "local"])?;
        let here = address(HERE).to_string();
        ip(&["-n", &space, "route", "add", all, "via", &here, "dev", "eth0"])
    }

    /// Words before a program that is to run at a machine.
    pub fn words_at(name: &str) -> Vec<String> {
        let space = space(name);
        let words = ["ip", "netns", "exec", &space].into_iter().chain(TOGETHER);
        words.map(String::from).collect()
    }

    /// Pulls a machine's cable, or plugs it in again. Nobody is told: what is sent is lost.
    pub fn plug(last: u8, is_in: bool) -> Result<(), String> {
        ip(&["link", "set", &format!("port-{last}"), if is_in { "up" } else { "down" }])
    }
}

impl Net {
    /// Has a machine and some others lose what they send each other; nobody is told, and all else goes on.
    pub fn part(name: &str, last: u8, others: &[(String, u8)], is_parted: bool) -> Result<(), String> {
        let what = if is_parted { "add" } else { "delete" };
        others.iter().try_for_each(|(other, other_last)| {
            let lose = |space: &str, last: u8| {
                ip(&["-n", space, "route", what, "blackhole", &format!("{}/32", address(last))])
            };
            lose(&space(name), *other_last)?;
            lose(&space(other), last)
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.machines {
            // What is left goes with this process.
            let _ = ip(&["netns", "delete", space]);
        }
        let _ = ip(&["link", "delete", BRIDGE]);
        let _ = command(&["umount", "/run/netns"]);
    }
}

/// The address of a machine.
pub fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 83, 0, last)
}

/// The namespace of a machine, with the number of the program that was called.
fn space(name: &str) -> String {
    format!("farol-{}-{name}", std::env::var(INSIDE).unwrap_or_default())
}

fn ip(words: &[&str]) -> Result<(), String> {
    command(&[&["ip"], words].concat())
}

/// Runs a program of the system.
pub fn command(words: &[&str]) -> Result<(), String> {
    let done = Command::new(words[0]).args(&words[1..]).output();
    let done = done.map_err(|error| format!("cannot run {}: {error}", words[0]))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("`{}`: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}
