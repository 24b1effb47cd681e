//! Lists functions of product crates that the binary `farol` does not contain: code that no command can reach.
//!
//! The linker drops functions that nothing calls (`--gc-sections`). So we build `farol` without optimisation, read the
//! symbols of what is left, and compare them with the functions in the sources: one whose module and name are in no
//! symbol is not reached. Errs on both sides by a little: a `const fn` that only runs in the compiler counts as not
//! reached; of two functions of one name in one file, one reached counts for both.

use crate::run;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

/// The laboratory, which is not meant to be in the binary.
const LAB: &[&str] = &["sim", "synthetic"];

pub fn list() -> Result<(), String> {
    let root = crate::tidy::root();
    let binary = build(&root)?;
    let symbols = Symbols::read(&run::output("nm", &["-C", &binary])?);
    let mut by_file: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let mut all = 0;
    for file in crate::tidy::files(&root.join("crates"), "rs") {
        let path = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        let Some(name) = product_crate(&path) else { continue };
        let text = std::fs::read_to_string(&file).map_err(|error| format!("cannot read {path}: {error}"))?;
        let module = module_path(&path);
        for function in functions(&text) {
            let lines = function.last - function.first + 1;
            all += lines;
            let is_reached = symbols.have(&module, &function.name);
            if !is_reached && !is_test_file(&path) {
                let entry = by_file.entry(format!("{name:<10} {path}")).or_default();
                entry.0 += lines;
                entry.1.push(function.name);
            }
        }
    }
    for (file, (lines, names)) in &by_file {
        println!("{lines:>5}  {file}: {}", names.join(", "));
    }
    let sum: usize = by_file.values().map(|(lines, _)| lines).sum();
    println!("{sum} of {all} lines in functions of product crates are not reached by farol");
    Ok(())
}

/// Builds `farol` so that nothing is inlined away, and tells where it is.
fn build(root: &Path) -> Result<String, String> {
    let status = Command::new("cargo")
        .args(["build", "-p", "farol"])
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root.join("target"), Into::into);
    let binary = target.join("debug/farol").to_string_lossy().into_owned();
    if status.success() { Ok(binary) } else { Err("farol does not build".to_string()) }
}

fn product_crate(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    (rest.starts_with("src/") && !LAB.contains(&name)).then_some(name)
}

/// Files that are only compiled for tests: the module's attribute stands in another file.
fn is_test_file(path: &str) -> bool {
    const NAMES: &[&str] =
        &["tests", "race", "crash", "damage", "fake", "faulty", "simulated", "naive", "testing"];
    path.trim_end_matches(".rs").split('/').any(|part| NAMES.contains(&part) || part.ends_with("_tests"))
}

/// `crates/store/src/pages/mod.rs` is `farol_store::pages`.
fn module_path(path: &str) -> String {
    let inside = path.trim_start_matches("crates/").trim_end_matches(".rs");
    let (name, rest) = inside.split_once("/src/").unwrap_or((inside, ""));
    let name = if name == "farol" { name.to_string() } else { format!("farol_{name}") };
    let parts = rest.split('/').filter(|part| !["mod", "lib", "main", ""].contains(part));
    parts.fold(name, |path, part| path + "::" + part)
}

/// Demangled symbols of our crates, by the last name in each.
struct Symbols(HashMap<String, Vec<String>>);

impl Symbols {
    fn read(listing: &str) -> Symbols {
        let mut by_name: HashMap<String, Vec<String>> = HashMap::new();
        for symbol in listing.lines().filter(|line| line.contains("farol")) {
            // `a::b::f::{{closure}}` and `a::b::f<T>` both tell that `f` is there, so each name in it counts.
            for name in
                symbol.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
            {
                by_name.entry(name.to_string()).or_default().push(symbol.to_string());
            }
        }
        Symbols(by_name)
    }

    fn have(&self, module: &str, name: &str) -> bool {
        let within = format!("{module}::");
        self.0.get(name).is_some_and(|symbols| symbols.iter().any(|symbol| symbol.contains(&within)))
    }
}

/// A function with a body, and its lines from `fn` to the closing brace.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    first: usize,
    last: usize,
}

/// Functions of a source in our format (rustfmt): the closing brace stands at the indent of the line with `fn`. What is
/// inside a module of tests is left out; a function inside a function belongs to the outer one.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let indent = line.len() - line.trim_start().len();
        if line.trim() == "#[cfg(test)]"
            && lines.get(at + 1).is_some_and(|next| next.trim_end().ends_with('{'))
        {
            at = closing(&lines, at + 1, indent) + 1;
            continue;
        }
        if let Some(name) = function_name(line) {
            // A declaration without a body ends in a semicolon before any brace.
            let head = (at..lines.len()).find(|&i| lines[i].trim_end().ends_with(['{', ';', '}']));
            let Some(head) = head else { break };
            if !lines[head].trim_end().ends_with(';') {
                let is_one_line = lines[head].trim_end().ends_with('}');
                let last = if is_one_line { head } else { closing(&lines, head, indent) };
                found.push(Function { name, first: at + 1, last: last + 1 });
                at = last;
            }
        }
        at += 1;
    }
    found
}

/// The line of the brace that closes what was opened on `from`, at the given indent.
fn closing(lines: &[&str], from: usize, indent: usize) -> usize {
    let ends = |line: &&str| {
        line.len() > indent && line.starts_with(&" ".repeat(indent)) && line[indent..].starts_with('}')
    };
    let after = lines[from + 1..].iter().position(ends);
    after.map_or(lines.len() - 1, |n| from + 1 + n)
}

fn function_name(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    let (before, after) = trimmed.split_once("fn ")?;
    const WORDS: &[&str] = &["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe"];
    if !before
        .split_whitespace()
        .all(|word| WORDS.contains(&word) || word.starts_with("pub(") || word == "in")
    {
        return None;
    }
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_lines_and_tests_are_not() {
        let text = "pub fn one() {\n    two();\n}\n\ntrait T {\n    fn declared(&self) -> usize;\n    \
                    fn short(&self) {}\n}\n\n#[cfg(test)]\nmod tests {\n    fn hidden() {\n    }\n}\n";
        let names: Vec<_> = functions(text).into_iter().map(|f| (f.name, f.first, f.last)).collect();
        assert_eq!(names, [("one".to_string(), 1, 3), ("short".to_string(), 7, 7)]);
    }

    #[test]
    fn a_function_is_reached_where_a_symbol_has_its_module_and_name() {
        let symbols =
            Symbols::read("01 t <farol_a::x::T as farol_b::U>::put\n02 T farol_a::y::get::{{closure}}\n");
        assert!(symbols.have("farol_a::x", "put") && symbols.have("farol_a::y", "get"));
        assert!(!symbols.have("farol_a::x", "get") && !symbols.have("farol_a::y", "put"));
        assert_eq!(module_path("crates/store/src/pages/mod.rs"), "farol_store::pages");
    }
}
