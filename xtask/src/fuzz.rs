//! Runs the fuzz targets of `fuzz/`, with nothing but the toolchain: no nightly compiler, no cargo-fuzz.
//!
//! libFuzzer needs to see which edges of the program an input takes. The coverage pass that tells it is part
//! of LLVM and is asked for through RUSTFLAGS, as `cargo fuzz run --sanitizer none` does; the target triple
//! is named, so that build scripts and macros are built without it. AddressSanitizer needs a nightly
//! compiler, and is an option.
//!
//! Inputs that a run found interesting stay in `fuzz/target/corpus`; `fuzz/corpus` is the small part of them
//! that is kept in the repository, and is only read here.

use crate::run;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "cargo xtask fuzz [TARGET] [OPTIONS]

Without TARGET all are run, one after the other.

  --minutes N           how long each is run; default 1
  --list                only name the targets
  --address-sanitizer   also look for bad memory accesses; needs a nightly toolchain (rustup toolchain install nightly)";

/// Coverage of edges, comparisons as hints for the mutator, and panics where arithmetic overflows.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
];

/// An input that takes longer than this many seconds is a finding: the slowest honest one takes a hundredth
/// of it.
const TIMEOUT_SECS: u32 = 10;

/// A target that takes more memory than this is a finding. A WARC record may have 64 MiB, three times over
/// while its codings are undone, and the fuzzer itself takes some tens.
const RSS_LIMIT_MB: u32 = 1024;

/// Longest inputs in bytes: long enough for every structure, short enough for thousands a second.
const MAX_LEN: u32 = 4096;

/// What is known of a target after its run.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    target: String,
    executions: u64,
    per_second: u64,
    edges: u64,
    /// How to see each finding again.
    findings: Vec<String>,
}

pub fn run(arguments: &[&str]) -> Result<(), String> {
    let Some(order) = read(arguments, &targets()?) else { return Err(USAGE.to_string()) };
    if order.lists {
        order.targets.iter().for_each(|target| println!("{target}"));
        return Ok(());
    }
    let triple = host_triple()?;
    build(&order, &triple)?;
    let mut outcomes = Vec::new();
    for target in &order.targets {
        outcomes.push(fuzz(target, &order, &triple)?);
    }
    print!("{}", table(&outcomes));
    let findings: Vec<String> = outcomes.into_iter().flat_map(|outcome| outcome.findings).collect();
    if findings.is_empty() {
        Ok(())
    } else {
        Err(format!("findings, each with what replays it:\n{}", findings.join("\n")))
    }
}

/// What was asked for.
struct Order {
    targets: Vec<String>,
    minutes: u32,
    sanitizer: bool,
    lists: bool,
}

/// Reads the command line; `None` where it is not understood.
fn read(arguments: &[&str], known: &[String]) -> Option<Order> {
    let mut order = Order { targets: Vec::new(), minutes: 1, sanitizer: false, lists: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--minutes" => order.minutes = rest.next()?.parse().ok().filter(|minutes| *minutes > 0)?,
            "--address-sanitizer" => order.sanitizer = true,
            "--list" => order.lists = true,
            target if known.iter().any(|known| known == target) => order.targets.push(target.to_string()),
            _ => return None,
        }
    }
    if order.targets.is_empty() {
        order.targets = known.to_vec();
    }
    Some(order)
}

/// All targets, by the files that drive them.
fn targets() -> Result<Vec<String>, String> {
    let folder = std::fs::read_dir("fuzz/fuzz_targets")
        .map_err(|error| format!("cannot list fuzz/fuzz_targets: {error}"))?;
    let mut names: Vec<String> = folder
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().strip_suffix(".rs")?.to_string()))
        .collect();
    names.sort();
    Ok(names)
}

fn host_triple() -> Result<String, String> {
    let version = run::output("rustc", &["-vV"])?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_string).ok_or("rustc -vV does not name its host".to_string())
}

fn build(order: &Order, triple: &str) -> Result<(), String> {
    let mut flags = COVERAGE.join(" ");
    let mut arguments = Vec::new();
    if order.sanitizer {
        if !run::quietly("cargo", &["+nightly", "--version"]) {
            return Err(
                "--address-sanitizer needs a nightly toolchain: rustup toolchain install nightly".to_string()
            );
        }
        arguments.push("+nightly".to_string());
        flags.push_str(" -Zsanitizer=address");
    }
    arguments.extend(
        ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", triple].map(String::from),
    );
    arguments.extend(["--target-dir".to_string(), target_dir(order).to_string()]);
    for target in &order.targets {
        arguments.extend(["--bin".to_string(), target.clone()]);
    }
    run::announce("building the fuzz targets");
    let status = Command::new("cargo").args(&arguments).env("RUSTFLAGS", flags).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("building failed: cargo {}", arguments.join(" "))),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// Programs with and without the sanitizer are kept apart: they would be built anew each time.
fn target_dir(order: &Order) -> &'static str {
    if order.sanitizer { "fuzz/target/address-sanitizer" } else { "fuzz/target" }
}

fn fuzz(target: &str, order: &Order, triple: &str) -> Result<Outcome, String> {
    let program = PathBuf::from(target_dir(order)).join(triple).join("release").join(target);
    let (found, kept) = (format!("fuzz/target/corpus/{target}"), format!("fuzz/corpus/{target}"));
    let artifacts = format!("fuzz/artifacts/{target}/");
    for folder in [&found, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {folder}: {error}"))?;
    }
    run::announce(&format!("{target}, {} min", order.minutes));
    let mut arguments = vec![
        format!("-max_total_time={}", 60 * order.minutes),
        format!("-timeout={TIMEOUT_SECS}"),
        format!("-rss_limit_mb={RSS_LIMIT_MB}"),
        format!("-max_len={MAX_LEN}"),
        format!("-artifact_prefix={artifacts}"),
        "-print_final_stats=1".to_string(),
    ];
    let dictionary = format!("fuzz/dictionaries/{target}.txt");
    if Path::new(&dictionary).exists() {
        arguments.push(format!("-dict={dictionary}"));
    }
    arguments.push(found);
    arguments.extend(Path::new(&kept).is_dir().then_some(kept));
    let output = with_environment(&program, order).args(&arguments).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let mut outcome = Outcome { target: target.to_string(), ..outcome(&log) };
    if let Some(artifact) = written_artifact(&log) {
        let smallest = minimized(&program, order, &artifact);
        outcome.findings.push(format!("  {} {smallest}", program.display()));
        log.lines()
            .filter(|line| line.contains("panicked at") || line.contains("ERROR: "))
            .for_each(|line| println!("{line}"));
    } else if !output.status.success() {
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        return Err(format!(
            "{target} ended without an input to blame:\n{}",
            last.into_iter().rev().collect::<Vec<_>>().join("\n")
        ));
    }
    Ok(outcome)
}

fn with_environment(program: &Path, order: &Order) -> Command {
    let mut command = Command::new(program);
    if order.sanitizer {
        // libdeflate has tables of one name in several files, which are no trouble and reported as such.
        command.env("ASAN_OPTIONS", "detect_odr_violation=0");
    }
    command
}

/// Lets the fuzzer make a finding smaller for a minute; the finding itself where that does not work.
fn minimized(program: &Path, order: &Order, artifact: &str) -> String {
    let smaller = format!("{artifact}.min");
    let arguments =
        ["-minimize_crash=1", "-max_total_time=60", &format!("-exact_artifact_path={smaller}"), artifact]
            .map(String::from);
    let done = with_environment(program, order).args(arguments).output();
    if done.is_ok() && Path::new(&smaller).exists() { smaller } else { artifact.to_string() }
}

/// The file that a finding was written to, as the fuzzer's log names it.
fn written_artifact(log: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.contains("Test unit written to "))?;
    Some(line.split("Test unit written to ").nth(1)?.trim().to_string())
}

/// Reads the fuzzer's log: its final figures, and the edges that its last status line counts.
fn outcome(log: &str) -> Outcome {
    let figure = |name: &str| {
        let value = log.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    let edges = log.lines().rev().find_map(|line| {
        let mut words = line.strip_prefix('#')?.split_whitespace().skip_while(|word| *word != "cov:");
        words.nth(1)?.parse().ok()
    });
    Outcome {
        executions: figure("stat::number_of_executed_units:"),
        per_second: figure("stat::average_exec_per_sec:"),
        edges: edges.unwrap_or(0),
        ..Outcome::default()
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text =
        format!("\n{:<10} {:>12} {:>8} {:>7} {:>9}\n", "target", "executions", "exec/s", "edges", "findings");
    for Outcome { target, executions, per_second, edges, findings } in outcomes {
        text.push_str(&format!(
            "{target:<10} {executions:>12} {per_second:>8} {edges:>7} {:>9}\n",
            findings.len()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_figures_and_findings() {
        let log = "#2\tINITED cov: 12 ft: 13 corp: 1/1b\n#99\tREDUCE cov: 345 ft: 9 corp: 1/1b lim: 4\n\
                   Test unit written to fuzz/artifacts/url/crash-1\n\
                   stat::number_of_executed_units: 99\nstat::average_exec_per_sec:     33\n";
        let want = Outcome { executions: 99, per_second: 33, edges: 345, ..Outcome::default() };
        assert_eq!(outcome(log), want);
        assert_eq!(written_artifact(log).as_deref(), Some("fuzz/artifacts/url/crash-1"));
        assert_eq!(written_artifact("#1\tDONE"), None);
    }

    #[test]
    fn orders_are_read_or_refused() {
        let known = ["html", "url"].map(String::from);
        let targets = |arguments: &[&str]| {
            read(arguments, &known).map(|order| (order.targets.join(" "), order.minutes))
        };
        assert_eq!(targets(&[]), Some(("html url".to_string(), 1)));
        assert_eq!(targets(&["url", "--minutes", "10"]), Some(("url".to_string(), 10)));
        for wrong in [&["urls"][..], &["--minutes"], &["--minutes", "0"], &["--fast"]] {
            assert_eq!(targets(wrong), None, "{wrong:?}");
        }
    }
}
