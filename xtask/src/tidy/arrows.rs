//! The arrows between our crates are those of ARCHITECTURE.md, no more and no fewer.
//!
//! The real ones come from `cargo metadata`: normal dependencies, because those are what the product builds. Tests may use more.

use crate::json::Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The section of ARCHITECTURE.md with the table.
const SECTION: &str = "## Who may use whom";

/// Crate to the crates that it uses, by the names of their folders.
type Arrows = BTreeMap<String, BTreeSet<String>>;

pub fn check(root: &Path, problems: &mut Vec<String>) {
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    match (drawn(&map), real(root)) {
        (Ok(drawn), Ok(real)) => compare(&drawn, &real, problems),
        (Err(problem), _) | (_, Err(problem)) => problems.push(problem),
    }
}

/// The table's rows: "| `store` | `base` |".
fn drawn(map: &str) -> Result<Arrows, String> {
    let Some((_, section)) = map.split_once(SECTION) else {
        return Err(format!("ARCHITECTURE.md has no section {SECTION:?}"));
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    Ok(rows
        .map(|row| {
            let mut names = row.split('`').skip(1).step_by(2).map(String::from);
            (names.next().unwrap_or_default(), names.collect())
        })
        .collect())
}

fn real(root: &Path) -> Result<Arrows, String> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new("cargo")
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    arrows(&Json::read(&String::from_utf8_lossy(&output.stdout))?)
}

fn arrows(metadata: &Json) -> Result<Arrows, String> {
    let packages = metadata.get("packages").list();
    if packages.is_empty() {
        return Err("cargo metadata names no packages".to_string());
    }
    let ours = packages.iter().filter_map(|package| Some((folder(package.get("name").text())?, package)));
    Ok(ours
        .map(|(name, package)| {
            let used = package.get("dependencies").list().iter();
            // A normal dependency has no kind; "dev" and "build" are the others.
            let used = used.filter(|dependency| *dependency.get("kind") == Json::Null);
            (name, used.filter_map(|dependency| folder(dependency.get("name").text())).collect())
        })
        .collect())
}

/// The folder of a package of ours, `None` of others'.
fn folder(package: &str) -> Option<String> {
    if package == "farol" {
        Some(package.to_string())
    } else {
        package.strip_prefix("farol-").map(String::from)
    }
}

fn compare(drawn: &Arrows, real: &Arrows, problems: &mut Vec<String>) {
    let nothing = BTreeSet::new();
    let names: BTreeSet<&String> = drawn.keys().chain(real.keys()).collect();
    for name in names {
        if !real.contains_key(name) {
            problems.push(format!(
                "ARCHITECTURE.md ({SECTION}) has a row for `{name}`, which is no crate of ours: remove the row"
            ));
            continue;
        }
        if !drawn.contains_key(name) {
            problems.push(format!("ARCHITECTURE.md ({SECTION}) has no row for `{name}`: add one"));
        }
        let (drawn, real) = (drawn.get(name).unwrap_or(&nothing), real.get(name).unwrap_or(&nothing));
        for used in real.difference(drawn) {
            problems.push(format!(
                "crates/{name} uses `{used}`, which ARCHITECTURE.md ({SECTION}) does not allow: a new arrow is a \
                 decision, so either do without it or add it to the table in a commit that says why"
            ));
        }
        for used in drawn.difference(real) {
            problems.push(format!(
                "ARCHITECTURE.md ({SECTION}) says that `{name}` uses `{used}`, but crates/{name}/Cargo.toml does \
                 not: remove it from the table"
            ));
        }
    }
    if real.get("farol").is_some_and(|used| used.contains("sim")) {
        problems
            .push("crates/farol depends on the experiments (`sim`): the product must not build them".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(table: &str, metadata: &str, want: &[&str]) {
        let mut problems = Vec::new();
        let drawn = drawn(&format!("# Map\n\n{SECTION}\n\n{table}\n\n## Next\n| `x` | `y` |\n")).unwrap();
        compare(&drawn, &arrows(&Json::read(metadata).unwrap()).unwrap(), &mut problems);
        assert_eq!(problems.len(), want.len(), "{problems:?}");
        for (problem, want) in problems.iter().zip(want) {
            assert!(problem.contains(want), "{problem}");
        }
    }

    const TWO: &str = r#"{"packages": [
        {"name": "farol-base", "dependencies": [{"name": "url", "kind": null}]},
        {"name": "farol-store", "dependencies": [
            {"name": "farol-base", "kind": null}, {"name": "farol-parse", "kind": "dev"}]},
        {"name": "xtask", "dependencies": []}]}"#;

    #[test]
    fn a_true_table_passes() {
        check("| `base` | |\n| `store` | `base` |", TWO, &[]);
    }

    #[test]
    fn differences_are_told_both_ways() {
        check("| `base` | |\n| `store` | |", TWO, &["store uses `base`"]);
        check("| `base` | `store` |\n| `store` | `base` |", TWO, &["says that `base` uses `store`"]);
        check("| `store` | `base` |", TWO, &["no row for `base`"]);
        check("| `base` | |\n| `old` | |\n| `store` | `base` |", TWO, &["row for `old`"]);
    }

    #[test]
    fn the_product_does_without_the_experiments() {
        let lab = r#"{"packages": [
            {"name": "farol", "dependencies": [{"name": "farol-sim", "kind": null}]},
            {"name": "farol-sim", "dependencies": []}]}"#;
        check("| `farol` | `sim` |\n| `sim` | |", lab, &["must not build"]);
    }
}
