//! Crawls real documentation that nobody here wrote, and judges the crawl by what others saw.
//!
//! The life of one run: Debian's `-doc` packages are downloaded and unpacked ([`packages`]); nginx serves each
//! under a host name and an address of its own ([`nginx`]); a small walker in Python, which shares no line of code
//! with Farol, writes down every page that links lead to ([`walk`]); the real binary crawls the same
//! hosts ([`crawl`]); nginx's own log then says what was asked and when, and is held against the walk, the robots
//! rules and the promised pauses ([`judge`]); at last 30 written questions are asked ([`queries`], [`ask`]).
//!
//! Promise: a page that is missing, or one request that breaks a rule, makes the command fail.
//! Needs Debian 12 (for the packages), nginx and Python 3; speaks to loopback only, once the packages are there.

pub mod ask;
pub mod crawl;
pub mod http;
mod judge;
pub mod log;
pub mod machine;
pub mod nginx;
pub mod packages;
mod queries;
pub mod report;
mod walk;

use std::path::{Path, PathBuf};

use crate::run;

pub const USAGE: &str = "cargo xtask debian-docs [OPTIONS]

  --farol FILE      the binary to try [default: target/release/farol]
  --dir DIR         where packages, logs and data go [default: target/debian-docs]
  --pages-min N     least number of pages that the walk must reach [default: 15000]
  --report FILE     where the report is written [default: docs/results/debian-docs.md]
  --reuse-walk      take the last run's walk instead of walking again";

/// Least number of packages and of languages; the pages are an option.
const PACKAGES_MIN: usize = 12;
const LANGUAGES_MIN: usize = 8;

/// What was asked for on the command line.
pub struct Options {
    pub farol: PathBuf,
    pub dir: PathBuf,
    pub pages_min: usize,
    pub report: PathBuf,
    pub reuse_walk: bool,
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            farol: "target/release/farol".into(),
            dir: "target/debian-docs".into(),
            pages_min: 15_000,
            report: "docs/results/debian-docs.md".into(),
            reuse_walk: false,
        };
        let mut rest = arguments.iter();
        while let Some(&name) = rest.next() {
            let mut value = || rest.next().copied().ok_or(format!("{name} needs a value\n\n{USAGE}"));
            match name {
                "--farol" => options.farol = value()?.into(),
                "--dir" => options.dir = value()?.into(),
                "--report" => options.report = value()?.into(),
                "--pages-min" => {
                    let text = value()?;
                    options.pages_min =
                        text.parse().map_err(|_| format!("{text} is not a number of pages"))?;
                }
                "--reuse-walk" => options.reuse_walk = true,
                _ => return Err(USAGE.to_string()),
            }
        }
        Ok(options)
    }
}

/// Sees that the binary is there and makes the folder; answers its whole path, because nginx reads relative ones
/// against a folder of its own.
pub fn prepare(farol: &Path, dir: &Path) -> Result<PathBuf, String> {
    if !farol.is_file() {
        return Err(format!("{} is not there; run `cargo build --release` first", farol.display()));
    }
    std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    dir.canonicalize().map_err(|error| format!("cannot read {}: {error}", dir.display()))
}

pub fn prove(arguments: &[&str]) -> Result<(), String> {
    let mut options = Options::read(arguments)?;
    options.dir = prepare(&options.farol, &options.dir)?;

    run::announce("packages");
    packages::unpack_all(&options.dir, packages::SITES)?;
    run::announce("nginx");
    let server = nginx::Server::start(&options.dir, packages::SITES)?;
    run::announce("link walk");
    let walk = walk::walk(&options.dir, &server, options.reuse_walk)?;
    println!("{} pages by links", walk.pages.len());
    run::announce("crawl");
    let mut crawl = crawl::crawl(&options.farol, &options.dir, packages::SITES, &server)?;
    println!("idle after {:.0} s", crawl.seconds);
    run::announce("questions");
    crawl.settle()?;
    let answers = ask::ask_all(crawl.address)?;
    let (crawl, requests) = (crawl.finish()?, log::read(&server.crawl_log())?);
    drop(server);

    let mut verdict = judge::judge(&walk, &requests);
    verdict.require("packages", packages::SITES.len(), PACKAGES_MIN);
    verdict.require("pages reached by links", walk.pages.len(), options.pages_min);
    verdict.require("languages found by Farol", crawl.languages.len(), LANGUAGES_MIN);
    let text = report::write(&options, &walk, &crawl, &verdict, &answers);
    println!("{text}");
    std::fs::write(&options.report, &text)
        .map_err(|error| format!("cannot write {}: {error}", options.report.display()))?;
    if verdict.holds() { Ok(()) } else { Err("the crawl broke a promise; see the report".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::read(&["--farol", "f", "--pages-min", "7", "--reuse-walk"]).unwrap();
        assert_eq!((options.farol, options.pages_min, options.reuse_walk), ("f".into(), 7, true));
        for wrong in [&["--pages-min", "many"][..], &["--farol"], &["--unknown"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
