//! The project's own tools. Plain std, so that `cargo xtask test` needs nothing but Rust.

mod debian_docs;
mod install;
mod run;
mod tidy;
mod unreached;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

  test        install what the tests need, then check format, lints, docs and run every test
  tidy        check that the project's documents are true
  install     only install what the tests need
  unreached   list functions of product crates that the binary does not contain
  debian-docs crawl Debian's documentation packages and judge the crawl (--help for its options)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test(),
        ["tidy"] => tidy::check(),
        ["install"] => install::everything(),
        ["unreached"] => unreached::list(),
        ["debian-docs", ref rest @ ..] => debian_docs::prove(rest),
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

/// Everything that must hold before a change lands; what CI runs.
fn test() -> Result<(), String> {
    install::everything()?;
    run::step("format", "cargo", &["fmt", "--all", "--check"])?;
    run::announce("tidy");
    tidy::check()?;
    run::step(
        "lints",
        "cargo",
        &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    )?;
    if run::exists("cargo-nextest") {
        run::step("tests", "cargo", &["nextest", "run", "--workspace", "--no-fail-fast"])?;
    } else {
        run::step("tests", "cargo", &["test", "--workspace", "--no-fail-fast", "--all-targets"])?;
    }
    run::step("examples in the documentation", "cargo", &["test", "--workspace", "--doc", "--quiet"])
}
