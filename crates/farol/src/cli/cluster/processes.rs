//! The processes of a whole cluster on this machine: starts them, starts them again, ends them.

use crate::cli::cluster::place::JoinFile;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A node that ended is started again after this.
const REST: Duration = Duration::from_secs(1);
/// Time that nodes have to end by themselves.
const END_MAX: Duration = Duration::from_secs(20);

/// One node: a process of this same program.
pub struct NodeProcess {
    pub name: String,
    pub data: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
    ended: Option<Instant>,
}

impl NodeProcess {
    pub fn new(name: &str, data: &Path, arguments: Vec<String>) -> NodeProcess {
        NodeProcess { name: name.to_string(), data: data.to_path_buf(), arguments, child: None, ended: None }
    }

    /// Starts it; what it says is said here under its name.
    pub fn start(&mut self) -> Result<()> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.arg("node").args(&self.arguments).arg("--data").arg(&self.data);
        // It joins the cluster of this folder, whichever other one whoever started this works with.
        command.env_remove("FAROL_JOIN");
        // The node ends when its standard input does: killed, this process leaves nobody behind.
        command.arg("--while-stdin").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is told to this process alone, which ends the others in order.
        command.process_group(0);
        let mut child = command.spawn().context("cannot start a process")?;
        if let Some(stderr) = child.stderr.take() {
            let name = self.name.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    eprintln!("{name}: {line}");
                }
            });
        }
        self.child = Some(child);
        self.ended = None;
        Ok(())
    }

    /// Number of the process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts it again where it has ended; whether it did. An exit with code 2 is a refusal, which is an error.
    pub fn look_after(&mut self) -> Result<bool> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            anyhow::ensure!(status.code() != Some(2), "{} could not join its own cluster", self.name);
            self.child = None;
            if status.success() {
                eprintln!("{} has left; the next `farol cluster up` brings it back", self.name);
            } else {
                eprintln!("{} ended with {status}; it is started again", self.name);
                self.ended = Some(Instant::now());
            }
        }
        if self.ended.is_some_and(|ended| ended.elapsed() >= REST) {
            self.start()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // It may have ended a moment ago.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    fn wait_until(&mut self, deadline: Instant) {
        let Some(child) = &mut self.child else { return };
        while Instant::now() < deadline {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} does not end and is killed; the next start mends what is unfinished", self.name);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Ends all of them, those that crawl and index at the same time.
pub fn end(nodes: &mut [NodeProcess]) {
    nodes.iter().for_each(|node| node.signal(Signal::TERM));
    let deadline = Instant::now() + END_MAX;
    nodes.iter_mut().for_each(|node| node.wait_until(deadline));
}

/// Says in the cluster's folder how it is joined and which process is which.
pub fn announce(folder: &Path, join: &JoinFile, nodes: &[NodeProcess]) -> Result<()> {
    let processes = nodes.iter().filter_map(|node| Some((node.name.clone(), node.pid()?))).collect();
    JoinFile { name: join.name.clone(), join: join.join.clone(), processes }.write(folder)
}
