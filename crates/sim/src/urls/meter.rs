//! What the system says about this process: time, memory, bytes written.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A stopwatch of wall time, this thread's CPU time and the whole process' CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    wall: Instant,
    thread: Duration,
    process: Duration,
}

/// What a [`Watch`] read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lap {
    pub wall: Duration,
    pub thread: Duration,
    pub process: Duration,
}

impl Watch {
    pub fn start() -> Watch {
        // The process first: its span then holds the thread's.
        let process = cpu(ClockId::ProcessCPUTime);
        Watch { wall: Instant::now(), thread: cpu(ClockId::ThreadCPUTime), process }
    }

    pub fn lap(&self) -> Lap {
        Lap {
            wall: self.wall.elapsed(),
            thread: cpu(ClockId::ThreadCPUTime).saturating_sub(self.thread),
            process: cpu(ClockId::ProcessCPUTime).saturating_sub(self.process),
        }
    }
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Memory of this process now, and at most so far, in bytes.
pub fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (field(&status, "VmRSS:") * 1024, field(&status, "VmHWM:") * 1024)
}

/// Bytes that this process handed to the system to write, and those that it made the disk write.
pub fn written() -> (u64, u64) {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    (field(&io, "wchar:"), field(&io, "write_bytes:"))
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Sum of the sizes of all files below a folder.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        // Removed while we looked.
        Err(_) => 0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        let watch = Watch::start();
        let (now, most) = memory();
        assert!(now > 1 << 20 && most >= now, "{now} {most}");
        assert_eq!(field("a: 5 kB\nwchar: 77\n", "wchar:"), 77);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("in/a"), [0; 10]).unwrap();
        fs::write(folder.path().join("b"), [0; 5]).unwrap();
        assert_eq!(folder_bytes(folder.path()), 15);
        let lap = watch.lap();
        assert!(lap.wall > Duration::ZERO && lap.process >= lap.thread);
    }
}
