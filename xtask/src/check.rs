//! The quick loop: format, tidy, lints and unit tests of the crates that changed. Installs nothing.
//!
//! Changed means: differs from where the branch left the main one, committed or not. Crates that *use* a changed one are
//! left to `cargo xtask test`, as are integration tests.

use crate::{run, tidy};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Branches that a change is compared with, the first there is.
const UPSTREAM: &[&str] = &["origin/main", "main"];

pub fn changed() -> Result<(), String> {
    run::step("format", "cargo", &["fmt", "--all", "--check"])?;
    run::announce("tidy");
    tidy::check()?;
    let folders = folders(&changed_files()?);
    let folders: Vec<&String> =
        folders.iter().filter(|folder| Path::new(folder).join("Cargo.toml").exists()).collect();
    if folders.is_empty() {
        println!("No crate differs from the main branch; `cargo xtask test` looks at all of them.");
        return Ok(());
    }
    let packages: Vec<String> =
        folders.iter().flat_map(|folder| ["-p".to_string(), package(folder)]).collect();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    let has_lib = folders.iter().any(|folder| Path::new(folder).join("src/lib.rs").exists());
    let targets: &[&str] = if has_lib { &["--lib", "--bins"] } else { &["--bins"] };
    let lints = [&["clippy", "--quiet", "--all-targets"], &packages[..], &["--", "-D", "warnings"]].concat();
    run::step(&format!("lints of {}", names(&folders)), "cargo", &lints)?;
    let tests = if run::exists("cargo-nextest") {
        [&["nextest", "run", "--no-tests=pass", "--status-level=fail"], &packages[..], targets].concat()
    } else {
        [&["test", "--quiet"], &packages[..], targets].concat()
    };
    run::step(&format!("unit tests of {}", names(&folders)), "cargo", &tests)
}

fn changed_files() -> Result<String, String> {
    let base = UPSTREAM.iter().find_map(|branch| git(&["merge-base", "HEAD", branch]).ok());
    let base = base.as_deref().map_or("HEAD", str::trim);
    Ok(git(&["diff", "--name-only", base])? + &git(&["ls-files", "--others", "--exclude-standard"])?)
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new("git").args(arguments).output().map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {} failed", arguments.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The crates' folders that changed files lie in.
fn folders(files: &str) -> BTreeSet<String> {
    let folder = |file: &str| {
        let mut parts = file.split('/');
        match (parts.next()?, parts.next()?) {
            ("crates", name) => Some(format!("crates/{name}")),
            ("xtask", _) => Some("xtask".to_string()),
            _ => None,
        }
    };
    files.lines().filter_map(folder).collect()
}

fn package(folder: &str) -> String {
    match folder.strip_prefix("crates/") {
        Some("farol") => "farol".to_string(),
        Some(name) => format!("farol-{name}"),
        None => folder.to_string(),
    }
}

fn names(folders: &[&String]) -> String {
    folders.iter().map(|folder| folder.trim_start_matches("crates/")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_crates_once() {
        let files =
            "crates/base/src/url.rs\ncrates/base/Cargo.toml\nREADME.md\nxtask/src/main.rs\nbench/src/a.rs\n";
        assert_eq!(folders(files).into_iter().collect::<Vec<_>>(), ["crates/base", "xtask"]);
        assert_eq!(["crates/base", "crates/farol", "xtask"].map(package), ["farol-base", "farol", "xtask"]);
    }
}
