//! Runs a peer and measures what it costs: CPU time and memory of the process and its children, from /proc.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a process tree has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all its processes, of ended children too.
    pub cpu: Duration,
    /// Largest memory seen, summed over the processes alive at that moment.
    pub peak_rss_bytes: u64,
}

/// Clock ticks per second in /proc; fixed on Linux for every architecture that we run on.
const TICKS_PER_SECOND: u64 = 100;
/// How often memory is looked at; also the error of the CPU time of a peer that ends by itself.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// A peer that is asked to stop has this long before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// A running peer. It is killed when dropped.
pub struct Running {
    child: Child,
    begun: Instant,
    usage: Usage,
}

impl Running {
    /// Starts a command, its output thrown away unless it is wanted.
    pub fn start(command: &mut Command, show_output: bool) -> Result<Running> {
        command.stdin(Stdio::null());
        if !show_output {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Running { child, begun: Instant::now(), usage: Usage::default() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Watches until the peer ends or this much time since its start has passed; whether it has ended.
    pub fn watch_until(&mut self, limit: Duration) -> Result<bool> {
        loop {
            self.sample();
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            let Some(left) = limit.checked_sub(self.elapsed()) else { return Ok(false) };
            std::thread::sleep(left.min(SAMPLE_EVERY));
        }
    }

    /// What it has used up to the last look.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Looks at the process tree now.
    pub fn sample(&mut self) -> Usage {
        let now = usage_of(self.child.id());
        self.usage.cpu = self.usage.cpu.max(now.cpu);
        self.usage.peak_rss_bytes = self.usage.peak_rss_bytes.max(now.peak_rss_bytes);
        self.usage
    }

    /// Asks the peer to stop as Ctrl-C does, waits, and ends it if it does not.
    pub fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        let deadline = Instant::now() + STOP_PATIENCE;
        while asked.success() && Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(SAMPLE_EVERY);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process and all below it use now.
pub fn usage_of(root: u32) -> Usage {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut stats = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let Some(stat) =
            fs::read_to_string(entry.path().join("stat")).ok().and_then(|text| Stat::parse(&text))
        else {
            continue;
        };
        children.entry(stat.parent).or_default().push(pid);
        stats.insert(pid, stat);
    }
    let mut usage = Usage::default();
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        if let Some(stat) = stats.get(&pid) {
            usage.cpu += Duration::from_millis(stat.ticks * 1000 / TICKS_PER_SECOND);
            usage.peak_rss_bytes += resident_bytes(pid);
        }
        todo.extend(children.get(&pid).into_iter().flatten());
    }
    usage
}

/// The fields of /proc/PID/stat that matter.
struct Stat {
    parent: u32,
    /// User and system time, with that of children that were waited for.
    ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The command's name stands in brackets and may have spaces and brackets in it.
        let rest = &text[text.rfind(')')? + 2..];
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat { parent: number(4)? as u32, ticks: number(14)? + number(15)? + number(16)? + number(17)? })
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_a_strange_name() {
        let stat = Stat::parse("12 (a) b (c)) S 7 1 1 0 -1 4 5 6 7 8 100 20 3 1 20 0 4 0 99").unwrap();
        assert_eq!((stat.parent, stat.ticks), (7, 124));
    }

    #[test]
    fn work_is_seen() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 10000000 ]; do i=$((i+1)); done"]);
        let mut running = Running::start(&mut busy, false).unwrap();
        assert!(!running.watch_until(Duration::from_millis(600)).unwrap());
        let usage = running.sample();
        assert!(usage.cpu > Duration::from_millis(50) && usage.peak_rss_bytes > 100_000, "{usage:?}");
        drop(running);
    }
}
