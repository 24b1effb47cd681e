//! Checks that documents are true and files are in order.
//!
//! Every path that our documents name must exist, every crate must be on the map, every file of ours must
//! be free of what belongs to one machine only. [`arrows`] compares the dependencies between crates with the map,
//! [`citations`] follows the keys of papers, [`names`] looks for types of one crate that share a name, [`history`] at the
//! subjects of commits.

mod arrows;
mod citations;
mod history;
mod names;

use std::path::{Path, PathBuf};

/// Documents whose paths are checked.
const DOCUMENTS: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "CHANGELOG.md"];

/// A file with more lines holds more than one idea.
const LINES_MAX: usize = 700;

pub fn check() -> Result<(), String> {
    let root = root();
    let mut problems = Vec::new();
    let mut documents: Vec<PathBuf> = DOCUMENTS.iter().map(|name| root.join(name)).collect();
    documents.extend(files(&root.join("docs"), "md"));
    let papers = citations::keys(&root);
    for document in &documents {
        match std::fs::read_to_string(document) {
            Ok(text) => {
                check_paths(&root, document, &text, &mut problems);
                citations::check(document, &text, &papers, &mut problems);
            }
            Err(_) => problems.push(format!("{} is missing", document.display())),
        }
    }
    check_map(&root, &mut problems);
    arrows::check(&root, &mut problems);
    names::check(&root, &mut problems);
    history::check(&root, &mut problems);
    for file in sources(&root) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        check_source(&file, &text, &mut problems);
        citations::check(&file, &text, &papers, &mut problems);
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("tidy found {} problems:\n  {}", problems.len(), problems.join("\n  ")))
}

/// Paths in documents stand between backticks and begin with a folder of ours.
fn check_paths(root: &Path, document: &Path, text: &str, problems: &mut Vec<String>) {
    const BEGINNINGS: &[&str] = &["crates/", "docs/", "bench/", "fuzz/", "xtask/", ".ci/"];
    for quoted in text.split('`').skip(1).step_by(2) {
        let path = quoted.trim_end_matches('/');
        let is_path = BEGINNINGS.iter().any(|beginning| quoted.starts_with(beginning));
        // A pattern or a command is not a path.
        if is_path && !path.contains(['*', ' ', '{', '<', '…']) && !root.join(path).exists() {
            problems.push(format!("{} names {path}, which does not exist", document.display()));
        }
    }
}

/// Each crate has a paragraph in ARCHITECTURE.md.
fn check_map(root: &Path, problems: &mut Vec<String>) {
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    for entry in std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !map.contains(&format!("`crates/{name}")) {
            problems.push(format!("ARCHITECTURE.md does not name `crates/{name}`"));
        }
    }
}

fn check_source(file: &Path, text: &str, problems: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        problems.push(format!(
            "{} has {lines} lines; more than {LINES_MAX} want to be two ideas",
            file.display()
        ));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        problems.push(format!("{} does not open with a word on its job (//!)", file.display()));
    }
    // Written in two pieces, so that this file passes its own check.
    for mark in [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("dbg", "!("),
        concat!("/", "root/"),
        concat!("../", "shared"),
    ] {
        if text.contains(mark) {
            problems.push(format!("{} contains {mark:?}", file.display()));
        }
    }
}

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = files(&root.join("crates"), "rs");
    for folder in ["xtask/src", "bench", "fuzz"] {
        found.extend(files(&root.join(folder), "rs"));
    }
    found
}

pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let mut problems = Vec::new();
        let text = "See `crates/base/src/url.rs`, `crates/nowhere.rs`, `docs/*.md` and `cargo run`.";
        check_paths(&root(), Path::new("README.md"), text, &mut problems);
        assert_eq!(problems, ["README.md names crates/nowhere.rs, which does not exist"]);
    }

    #[test]
    fn a_source_without_a_header_is_found() {
        let mut problems = Vec::new();
        check_source(Path::new("x.rs"), "fn main() {}", &mut problems);
        assert_eq!(problems.len(), 1);
    }
}
