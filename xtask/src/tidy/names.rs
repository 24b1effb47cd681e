//! A type's name is unique in its crate: who searches for `Entry` finds one.
//!
//! Looks at `struct`, `enum`, `trait` and `type` in a crate's `src`, private ones too. Tests may use a name again; so may
//! associated types. Reads lines as rustfmt leaves them, no syntax: a block ends where its indentation comes back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn check(root: &Path, problems: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let source = entry.path().join("src");
        let files: Vec<(PathBuf, String)> = super::files(&source, "rs")
            .into_iter()
            .map(|file| (file.clone(), std::fs::read_to_string(&file).unwrap_or_default()))
            .collect();
        check_crate(root, &files, problems);
    }
}

fn check_crate(root: &Path, files: &[(PathBuf, String)], problems: &mut Vec<String>) {
    let mut places: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    let scans: Vec<Scan> = files.iter().map(|(_, text)| scan(text)).collect();
    let tests: Vec<PathBuf> = files
        .iter()
        .zip(&scans)
        .flat_map(|((file, _), scan)| scan.test_modules.iter().map(|module| folder_of(file).join(module)))
        .collect();
    for ((file, _), scan) in files.iter().zip(scans) {
        // A test module is a file, or a folder with everything in it.
        if tests.iter().any(|module| file.with_extension("") == *module || file.starts_with(module)) {
            continue;
        }
        for name in scan.types {
            places.entry(name).or_default().push(file.strip_prefix(root).unwrap_or(file));
        }
    }
    for (name, files) in places.iter().filter(|(_, files)| files.len() > 1) {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        problems.push(format!(
            "{name} names {} types of one crate: rename all but one, each by what it is ({})",
            files.len(),
            files.join(", ")
        ));
    }
}

/// Where the modules that a file declares lie.
fn folder_of(file: &Path) -> PathBuf {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| file.ends_with(name));
    if is_root { file.parent().unwrap_or(file).to_path_buf() } else { file.with_extension("") }
}

#[derive(Default)]
struct Scan {
    types: Vec<String>,
    /// Modules in files of their own that only tests have.
    test_modules: Vec<String>,
}

fn scan(text: &str) -> Scan {
    let mut found = Scan::default();
    let mut test_next = false;
    // What ends the block that is skipped, and the one whose `type`s belong to an impl or trait.
    let (mut skipped, mut owned): (Option<String>, Option<String>) = (None, None);
    for line in text.lines() {
        if let Some(end) = &skipped {
            if line == end {
                skipped = None;
            }
            continue;
        }
        if owned.as_deref() == Some(line) {
            owned = None;
        }
        let item = line.trim_start();
        let indent = &line[..line.len() - item.len()];
        if item.starts_with("#[cfg(test)]") {
            test_next = true;
            continue;
        }
        if item.starts_with("#[") || item.starts_with("//") {
            continue;
        }
        let item = without_visibility(item);
        if test_next {
            test_next = false;
            if let Some(module) = item.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
                found.test_modules.push(module.to_string());
            } else if item.ends_with('{') {
                skipped = Some(format!("{indent}}}"));
            }
            continue;
        }
        let mut words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
        let keyword = words.next().unwrap_or_default();
        let is_type = match keyword {
            "struct" | "enum" | "trait" => true,
            "type" => owned.is_none(),
            _ => false,
        };
        // In a macro's pattern the name is a variable, and so there is no word.
        if let Some(name) = words.next().filter(|name| is_type && !name.is_empty()) {
            found.types.push(name.to_string());
        }
        if ["impl", "trait"].contains(&keyword) && owned.is_none() && !item.ends_with('}') {
            owned = Some(format!("{indent}}}"));
        }
    }
    found
}

fn without_visibility(item: &str) -> &str {
    let Some(rest) = item.strip_prefix("pub") else { return item };
    let rest = match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')').map_or(rest, |(_, after)| after),
        None => rest,
    };
    rest.strip_prefix(' ').unwrap_or(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], want: &[&str]) {
        let files: Vec<(PathBuf, String)> =
            files.iter().map(|(name, text)| (PathBuf::from(name), text.to_string())).collect();
        let mut problems = Vec::new();
        check_crate(Path::new(""), &files, &mut problems);
        let names: Vec<&str> = problems.iter().filter_map(|problem| problem.split(' ').next()).collect();
        assert_eq!(names, want);
    }

    #[test]
    fn a_name_given_twice_is_found() {
        check(&[("a.rs", "pub struct Entry;\n"), ("b.rs", "pub(super) enum Entry {\n}\n")], &["Entry"]);
        check(&[("a.rs", "type Place = u64;\nfn f() {\n    struct Place;\n}\n")], &["Place"]);
        check(&[("a.rs", "struct Entry<'a>(&'a str);\n"), ("b.rs", "struct EntryRange;\n")], &[]);
    }

    #[test]
    fn associated_types_may_repeat() {
        let one = "impl Iterator for A {\n    type Item = u8;\n}\n";
        check(&[("a.rs", one), ("b.rs", one)], &[]);
        check(&[("a.rs", "trait T {\n    type Item;\n}\n"), ("b.rs", "type Item = u8;\n")], &[]);
    }

    #[test]
    fn tests_may_repeat() {
        let inside = "struct Op;\n\n#[cfg(test)]\nmod tests {\n    enum Op {\n    }\n}\n";
        check(&[("a.rs", inside)], &[]);
        let declared = "struct Op;\n#[cfg(test)]\nmod race;\n";
        check(
            &[("x/mod.rs", declared), ("x/race.rs", "enum Op {\n}\n"), ("x/race/a.rs", "struct Op;\n")],
            &[],
        );
        check(&[("x.rs", declared), ("x/race.rs", "struct Op;\n")], &[]);
        check(&[("x.rs", declared), ("race.rs", "struct Op;\n")], &["Op"]);
    }
}
