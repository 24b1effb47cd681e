//! Looks at everything that is built in: whether its licence lets us give it away, and where it comes from.
//!
//! Reads `cargo metadata`, so that it needs no tool that takes minutes to build; deny.toml says the same to
//! cargo-deny, which is run as well where it is installed, and alone knows of advisories. A test keeps the
//! two lists the same.

use crate::json::Json;
use crate::run;
use std::collections::BTreeMap;

/// Licences that ask for no more than to be named. Others, copyleft above all, are refused.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Where dependencies may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check() -> Result<(), String> {
    let text = run::output("cargo", &["metadata", "--format-version", "1", "--locked"])?;
    if text.is_empty() {
        return Err("cargo metadata --locked failed; run it by hand to see why".to_string());
    }
    let metadata = Json::read(&text)?;
    let complaints = complaints(&metadata);
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    let twice = twice(&metadata);
    if !twice.is_empty() {
        println!("In several versions: {}.", twice.join(", "));
    }
    cargo_deny()
}

/// Runs cargo-deny where it is installed; it never fails for want of a network.
fn cargo_deny() -> Result<(), String> {
    if !run::exists("cargo-deny") {
        println!("Advisories were not looked at: cargo-deny is not installed (cargo install cargo-deny).");
        return Ok(());
    }
    run::step("cargo deny", "cargo", &["deny", "check", "bans", "licenses", "sources"])?;
    if !run::quietly("cargo", &["deny", "fetch"]) {
        println!("Advisories were not looked at: their database cannot be had from here.");
        return Ok(());
    }
    run::step("advisories", "cargo", &["deny", "check", "advisories"])
}

/// What is wrong with packages, a sentence each.
fn complaints(metadata: &Json) -> Vec<String> {
    let root = metadata.get("workspace_root").text();
    let mut complaints = Vec::new();
    for package in metadata.get("packages").list() {
        let [name, source, licence, manifest] =
            ["name", "source", "license", "manifest_path"].map(|key| package.get(key).text());
        let is_ours = source.is_empty() && !root.is_empty() && manifest.starts_with(root);
        if source != REGISTRY && !is_ours {
            let from = if source.is_empty() { manifest } else { source };
            complaints.push(format!("{name} comes from {from}; take it from crates.io or leave it out"));
        }
        if !is_allowed(licence) {
            let said = if licence.is_empty() { "no licence" } else { licence };
            complaints.push(format!(
                "{name} has {said}, which xtask/src/dependencies.rs does not allow; leave it out"
            ));
        }
    }
    complaints
}

/// Packages that are there in several versions.
fn twice(metadata: &Json) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata.get("packages").list() {
        versions.entry(package.get("name").text()).or_default().push(package.get("version").text());
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| format!("{name} {}", versions.join(" and "))).collect()
}

/// Whether an SPDX expression leaves a choice that is allowed. Old ones have a slash for `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any(&mut rest) == Some(true) && rest.is_empty()
}

/// Reads `A OR B`; `None` where it is no expression.
fn any(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = all(words)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        allowed |= all(words)?;
    }
    Some(allowed)
}

/// Reads `A AND B`, which binds more closely.
fn all(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(words)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    match **words {
        ["(", ref rest @ ..] => {
            *words = rest;
            let allowed = any(words)?;
            *words = words.strip_prefix(&[")"])?;
            Some(allowed)
        }
        [licence, "WITH", exception, ref rest @ ..] => {
            *words = rest;
            Some(ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()))
        }
        [licence, ref rest @ ..] if !["OR", "AND", "WITH", ")"].contains(&licence) => {
            *words = rest;
            Some(ALLOWED.contains(&licence))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_enough_and_a_demand_is_not() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "GPL-3.0 OR MIT",
            "Apache-2.0 / MIT / MPL-2.0",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "AGPL-3.0-only",
            "MIT AND GPL-2.0",
            "MPL-2.0",
            "(MIT",
            "MIT OR",
            "MIT WITH x",
            "NONE",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn copyleft_and_foreign_sources_are_named() {
        let package = |name: &str, version: u32, licence: &str, source: &str, manifest: &str| {
            format!(
                r#"{{"name": "{name}", "version": "{version}", "license": {licence}, "source": {source},
                    "manifest_path": "{manifest}"}}"#
            )
        };
        let registry = format!("\"{REGISTRY}\"");
        let packages = [
            package("ours", 1, "\"MIT\"", "null", "/w/Cargo.toml"),
            package("good", 1, "\"ISC\"", &registry, "/c/a"),
            package("good", 2, "\"ISC\"", &registry, "/c/b"),
            package("left", 1, "\"GPL-3.0\"", &registry, "/c/c"),
            package("none", 1, "null", &registry, "/c/d"),
            package("git", 1, "\"MIT\"", "\"git+https://h/x\"", "/c/e"),
            package("path", 1, "\"MIT\"", "null", "/elsewhere/x"),
        ];
        let metadata = format!(r#"{{"workspace_root": "/w", "packages": [{}]}}"#, packages.join(","));
        let metadata = Json::read(&metadata);
        let metadata = metadata.unwrap();
        let named: Vec<String> =
            complaints(&metadata).iter().map(|text| text.split(' ').next().unwrap().to_string()).collect();
        assert_eq!(named, ["left", "none", "git", "path"]);
        assert_eq!(twice(&metadata), ["good 1 and 2"]);
    }

    #[test]
    fn cargo_deny_is_told_the_same_licences() {
        let file = include_str!("../../deny.toml");
        let list = file.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let told: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(told, ALLOWED);
    }
}
