//! What Linux says of this machine and of a process.

use std::process::Command;

/// Clock ticks per second in `/proc`; fixed by Linux for programs.
const TICKS: f64 = 100.0;

/// Cores and memory, as `2 cores (…), 23 GiB`.
pub fn describe() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let model = field(&cpus, "model name").unwrap_or("unknown processor");
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: f64 = field(&memory, "MemTotal").and_then(first_number).unwrap_or(0.0);
    format!("{cores} cores ({model}), {:.0} GiB of memory", kib / 1_048_576.0)
}

/// Load average of the last minute, before and beside our own work.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_string()
}

/// Most memory that a process ever held.
pub fn memory_high_kib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    field(&text, "VmHWM").and_then(first_number).unwrap_or(0.0) as u64
}

/// Processor time of a process, its own and the system's for it.
pub fn cpu_seconds(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in brackets may hold blanks; fields 14 and 15 are counted from what follows it.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// The day, as `2024-05-31`.
pub fn today() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        assert!(memory_high_kib(std::process::id()) > 100);
        assert!(cpu_seconds(std::process::id()) >= 0.0);
        assert!(describe().contains("cores"));
    }
}
