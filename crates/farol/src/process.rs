//! This process: memory, and threads that step back for others.

/// Lets threads that answer people go first. Where the system refuses, nothing changes.
pub fn be_nice() {
    let thread = rustix::thread::gettid();
    let _ = rustix::process::setpriority_process(Some(thread), 10);
}

/// Bytes of this process that are in RAM; 0 where the system does not say.
pub fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
