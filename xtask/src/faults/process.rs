//! A program that is started, and started again in the same way.
//!
//! Promise: it is ended by its own number, also when this program fails half-way, and also while it stands still.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub struct Process {
    pub name: String,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    pub fn new(name: &str, program: &Path, arguments: Vec<String>, logs: &Path) -> Process {
        Process {
            name: name.to_string(),
            program: program.to_path_buf(),
            arguments,
            log: logs.join(format!("{name}.log")),
            child: None,
        }
    }

    /// To be started by another program, which becomes this one: `ip netns exec …`.
    pub fn by(mut self, words: Vec<String>) -> Process {
        let mut words = words.into_iter();
        if let Some(first) = words.next() {
            let program = std::mem::replace(&mut self.program, first.into());
            let inner = std::mem::take(&mut self.arguments);
            self.arguments = words.chain([program.display().to_string()]).chain(inner).collect();
        }
        self
    }

    /// Another program is started in its place from now on, with the same words.
    pub fn become_program(&mut self, program: &Path) {
        self.program = program.to_path_buf();
    }

    /// Starts it; what it says goes behind what it said before.
    pub fn start(&mut self) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("cannot start {}: {error}", self.name);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).map_err(cannot)?;
        let errors = log.try_clone().map_err(cannot)?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_remove("FAROL_DATA").env_remove("FAROL_JOIN");
        // Held open as long as this program runs: whoever looks at it ends together with it.
        let child = command.stdin(Stdio::piped()).stdout(log).stderr(errors).spawn();
        self.child = Some(child.map_err(cannot)?);
        Ok(())
    }

    /// Its number, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) -> Result<(), String> {
        let child = self.child.as_ref().ok_or(format!("{} does not run", self.name))?;
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("{} has ended before it was sent {signal}", self.name)),
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended a moment ago.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits.
    pub fn end(&mut self, patience: Duration) -> Result<(), String> {
        self.signal("TERM")?;
        let begun = Instant::now();
        while begun.elapsed() < patience {
            match self.has_ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{} ended with {status}", self.name)),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        self.kill();
        Err(format!("{} does not end within {} s", self.name, patience.as_secs()))
    }

    /// How it ended, if it did by itself.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        Some(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
