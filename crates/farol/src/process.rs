//! This process: memory, open files, and threads that step back for others.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether people are answered by this process.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Says that people are answered by this process: its other threads then step back.
pub fn answers_people() {
    ANSWERS.store(true, Ordering::SeqCst);
}

/// Lets threads that answer people go first. Where the system refuses, nothing changes.
pub fn be_nice() {
    if !ANSWERS.load(Ordering::SeqCst) {
        return;
    }
    let thread = rustix::thread::gettid();
    let _ = rustix::process::setpriority_process(Some(thread), 10);
}

/// Lets nobody else on this machine read what this process writes.
pub fn keep_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Allows as many open files as the system lets us have: each connection is one.
pub fn allow_many_files() {
    let now = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
}

/// Files and connections that this process may have open at a time.
pub fn files_max() -> usize {
    // Where there is no limit, memory sets one long before.
    getrlimit(Resource::Nofile).current.map_or(1 << 20, |files| files.min(1 << 20) as usize)
}

/// Processor time that this process has used so far; nothing where the system does not say.
pub fn worked() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before may have spaces in it; behind it user and system time are the 12th and the 13th.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks: u64 =
        behind.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    std::time::Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Bytes of this process that are in RAM; 0 where the system does not say.
pub fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
