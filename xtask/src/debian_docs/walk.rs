//! Has the pages counted by somebody else: `walk.py`, which uses Python's standard library only.

use super::log::spelling;
use super::nginx::Server;
use super::packages::SITES;
use crate::run;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const SCRIPT: &str = include_str!("walk.py");

/// What links lead to.
pub struct Walk {
    /// URLs answered with 200 and HTML.
    pub pages: BTreeSet<String>,
    /// How often there was which other answer, as `404 text/html`.
    pub others: BTreeMap<String, usize>,
    /// How long it took; `None` where it is taken from an earlier run.
    pub seconds: Option<f64>,
}

pub fn walk(dir: &Path, server: &Server, reuse: bool) -> Result<Walk, String> {
    let file = dir.join("walk.tsv");
    let begun = Instant::now();
    let again = !(reuse && file.is_file());
    if again {
        run_script(dir, server, &file)?;
    }
    let seconds = again.then(|| begun.elapsed().as_secs_f64());
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(Walk { seconds, ..read(&text)? })
}

fn run_script(dir: &Path, server: &Server, file: &Path) -> Result<(), String> {
    if !run::exists("python3") {
        return Err("python3 is missing; `cargo xtask install` brings it".to_string());
    }
    let (script, sites) = (dir.join("walk.py"), dir.join("sites.txt"));
    let mut lines = String::new();
    for site in SITES {
        let _ = writeln!(lines, "{} {} {} {}", site.host(), site.address(), server.walk_port, site.front);
    }
    let part = file.with_extension("part");
    let trouble = |error: std::io::Error| format!("cannot walk: {error}");
    std::fs::write(&script, SCRIPT).map_err(trouble)?;
    std::fs::write(&sites, lines).map_err(trouble)?;
    let status = Command::new("python3")
        .arg(&script)
        .stdin(Stdio::from(std::fs::File::open(&sites).map_err(trouble)?))
        .stdout(Stdio::from(std::fs::File::create(&part).map_err(trouble)?))
        .status()
        .map_err(trouble)?;
    if !status.success() {
        return Err("the link walk failed".to_string());
    }
    std::fs::rename(&part, file).map_err(trouble)
}

fn read(text: &str) -> Result<Walk, String> {
    let mut walk = Walk { pages: BTreeSet::new(), others: BTreeMap::new(), seconds: None };
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["200", "text/html", url] => {
                walk.pages.insert(spelling(url));
            }
            [status, media_type, _] => {
                *walk.others.entry(format!("{status} {media_type}").trim().to_string()).or_default() += 1;
            }
            _ => return Err(format!("not a line of the walk: {line}")),
        }
    }
    Ok(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_other_answers_are_told_apart() {
        let walk =
            read("200\ttext/html\thttp://h/%7Ea\n404\ttext/html\thttp://h/b\n301\t\thttp://h/c\n").unwrap();
        assert_eq!(walk.pages, BTreeSet::from(["http://h/~a".to_string()]));
        assert_eq!(walk.others, BTreeMap::from([("301".to_string(), 1), ("404 text/html".to_string(), 1)]));
        assert!(read("nonsense").is_err());
    }
}
