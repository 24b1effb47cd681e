//! The project's own tools. Plain std, so that `cargo xtask test` needs nothing but Rust.

mod agents;
mod caches;
mod check;
mod debian_docs;
mod dependencies;
mod extraction;
mod faults;
mod fuzz;
mod install;
mod install_nats;
mod json;
mod run;
mod tidy;
mod trial;
mod unreached;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

  check       format, tidy, lints and unit tests of the crates that changed; installs nothing
  test        install what the tests need, then check format, lints, docs and run every test
              (--no-browser: without Chromium and the tests that steer it)
  tidy        check that the project's documents are true
  dependencies check licences and sources of everything that is built in
  install     only install what the tests need
  fuzz        run the fuzz targets, all or one (--help for its options)
  unreached   list functions of product crates that the binary does not contain
  debian-docs crawl Debian's documentation packages and judge the crawl (--help for its options)
  extraction  measure the text that is made of pages (--help for its options)
  trial       ask written questions about other documentation (--help for its options)
  faults      break a cluster of real processes while people ask (--help for its options)
  caches      kill cache nodes and their leader while people ask (--help for its options)
  agents      have agents die, join, leave and freeze while they crawl (--help for its options)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check::changed(),
        ["test"] => test(Browser::Wanted),
        ["test", "--no-browser"] => test(Browser::Missing),
        ["tidy"] => tidy::check(),
        ["install"] => install::everything(true),
        ["dependencies"] => dependencies::check(),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["unreached"] => unreached::list(),
        ["debian-docs", ref rest @ ..] => debian_docs::prove(rest),
        ["extraction", ref rest @ ..] => extraction::measure(rest),
        ["trial", ref rest @ ..] => trial::run(rest),
        ["faults", ref rest @ ..] => faults::run(rest),
        ["caches", ref rest @ ..] => caches::run(rest),
        ["agents", ref rest @ ..] => agents::run(rest),
        _ => Err(USAGE.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Whether there is a browser for the tests that steer one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Browser {
    Wanted,
    Missing,
}

/// Examples that teach, each run once: what they claim they assert.
const EXAMPLES: &[(&str, &str)] = &[
    ("farol-frontier", "host_life"),
    ("farol-store", "known_urls"),
    ("farol-parse", "page_to_text"),
    ("farol-index", "put_and_search"),
    ("farol-cache", "small_stream"),
];

/// Everything that must hold before a change lands; what CI runs.
fn test(browser: Browser) -> Result<(), String> {
    install::everything(browser == Browser::Wanted)?;
    run::step("format", "cargo", &["fmt", "--all", "--check"])?;
    run::announce("tidy");
    tidy::check()?;
    run::announce("licences and sources");
    dependencies::check()?;
    run::step(
        "lints",
        "cargo",
        &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    )?;
    // A link that leads nowhere is an error. Beside the lints, whose metadata it shares: what is cheap fails first.
    let pages = ["RUSTDOCFLAGS=-D warnings", "cargo", "doc", "--workspace", "--no-deps", "--quiet"];
    run::step("pages of the documentation", "env", &pages)?;
    let (mut nextest, mut plain) = (
        vec!["nextest", "run", "--workspace", "--no-fail-fast"],
        vec!["test", "--workspace", "--no-fail-fast", "--all-targets"],
    );
    if browser == Browser::Missing {
        // The module of `crates/farol/tests/it`.
        nextest.extend(["-E", "not test(/^browser::/)"]);
        plain.extend(["--", "--skip", "browser::"]);
    }
    let tests = if run::exists("cargo-nextest") { nextest } else { plain };
    run::step("tests", "cargo", &tests)?;
    // Off by default, so nothing above builds it.
    let with_s3 = ["test", "-p", "farol-fabric", "--features", "s3", "--lib", "--quiet", "blobs"];
    run::step("blobs in S3", "cargo", &with_s3)?;
    for (package, example) in EXAMPLES {
        let name = format!("example {example} of {package}");
        run::step(&name, "cargo", &["run", "--quiet", "-p", package, "--example", example])?;
    }
    run::step("examples in the documentation", "cargo", &["test", "--workspace", "--doc", "--quiet"])
}
