//! Citations lead somewhere: every key in brackets, such as \[Lee08\], is one of `docs/papers.md`.
//!
//! Looks at documents and at comments of sources. A key is a name with a capital letter and two digits of the year, and a
//! letter where an author has several works of that year; a section may follow it.

use std::collections::BTreeSet;
use std::path::Path;

const PAPERS: &str = "docs/papers.md";

/// The keys that there are.
pub fn keys(root: &Path) -> BTreeSet<String> {
    let papers = std::fs::read_to_string(root.join(PAPERS)).unwrap_or_default();
    papers.lines().filter_map(|line| key(line.strip_prefix("**[")?)).map(String::from).collect()
}

pub fn check(file: &Path, text: &str, known: &BTreeSet<String>, problems: &mut Vec<String>) {
    let is_source = file.extension().is_some_and(|extension| extension == "rs");
    let prose = |line: &&str| !is_source || line.trim_start().starts_with("//");
    for line in text.lines().filter(prose) {
        for cited in line.split('[').skip(1).filter_map(key) {
            if !known.contains(cited) {
                problems.push(format!("{} cites [{cited}], which {PAPERS} does not have", file.display()));
            }
        }
    }
}

/// The key that a text begins with, if it ends there or a section follows.
fn key(text: &str) -> Option<&str> {
    let name = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let digits = text[name..].bytes().take_while(u8::is_ascii_digit).count();
    let letter = usize::from(text[name + digits..].starts_with(|c: char| c.is_ascii_lowercase()));
    let (key, rest) = text.split_at(name + digits + letter);
    let is_key = name > 1 && digits == 2 && key.starts_with(|c: char| c.is_ascii_uppercase());
    (is_key && rest.starts_with([']', '\\', ' ', ','])).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_leads_nowhere_is_found() {
        let known = BTreeSet::from(["Lee08".to_string(), "Cho03a".to_string()]);
        let mut problems = Vec::new();
        let text =
            "//! DRUM \\[Lee08\\], [Cho03a §2], [`Lee09`], [Key99](x)\n/// [Cho03c §2]\nlet a = [Max64];\n";
        check(Path::new("x.rs"), text, &known, &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("[Key99]") && problems[1].contains("[Cho03c]"), "{problems:?}");
    }

    #[test]
    fn the_papers_have_their_keys() {
        let keys = keys(&super::super::root());
        assert!(keys.contains("Henrique11") && keys.len() > 30, "{keys:?}");
    }
}
