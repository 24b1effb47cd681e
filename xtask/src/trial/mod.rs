//! Asks what a person would ask of documentation that was never used while Farol was made.
//!
//! The life of one run: packages are unpacked and served as hosts ([`sites`], with the tools of
//! [`crate::debian_docs`]), crawled by the real binary, and asked written questions ([`questions`]), each with the
//! pages that answer it. The report says where the first of these stands ([`report`]).
//!
//! Promise: the questions and their answers were written from the pages, before any answer of Farol was seen. There
//! are three sets: `a` and `b`, about the same sites, were looked at while ranking was mended; `c`, about others, was not.
//! Needs Debian 12 (for the packages) and nginx; speaks to loopback only, once the packages are there.

mod questions;
mod report;
mod sites;

use crate::debian_docs::{self, crawl, log, nginx, packages};
use crate::run;
use questions::Question;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

const USAGE: &str = "cargo xtask trial [OPTIONS]

  --set NAME        questions to ask: a, b, both of these, or c [default: a]
  --farol FILE      the binary to try [default: target/release/farol]
  --dir DIR         where packages, logs and data go [default: target/trial]
  --report FILE     where the report is written [default: docs/results/trial.md]
  --address ADDR    ask a Farol that has crawled the sites and still runs; writes no report";

/// What was asked for on the command line.
struct Options {
    sets: &'static [&'static str],
    farol: PathBuf,
    dir: PathBuf,
    report: PathBuf,
    address: Option<SocketAddr>,
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            sets: &["a"],
            farol: "target/release/farol".into(),
            dir: "target/trial".into(),
            report: "docs/results/trial.md".into(),
            address: None,
        };
        let mut rest = arguments.iter();
        while let Some(&name) = rest.next() {
            let mut value = || rest.next().copied().ok_or(format!("{name} needs a value\n\n{USAGE}"));
            match name {
                "--farol" => options.farol = value()?.into(),
                "--dir" => options.dir = value()?.into(),
                "--report" => options.report = value()?.into(),
                "--set" => {
                    options.sets = match value()? {
                        "a" => &["a"],
                        "b" => &["b"],
                        "both" => &["a", "b"],
                        "c" => &["c"],
                        other => return Err(format!("there is no set {other}; use a, b, both or c")),
                    };
                }
                "--address" => {
                    let text = value()?;
                    let address =
                        text.parse().map_err(|_| format!("{text} is no address; write 127.0.0.1:8080"))?;
                    options.address = Some(address);
                }
                _ => return Err(USAGE.to_string()),
            }
        }
        Ok(options)
    }
}

pub fn run(arguments: &[&str]) -> Result<(), String> {
    let mut options = Options::read(arguments)?;
    let questions = questions::read()?;
    let chosen: Vec<&Question> =
        questions.iter().filter(|question| options.sets.contains(&question.set)).collect();
    if let Some(address) = options.address {
        println!("{}", report::answers(options.sets, &questions::ask_all(address, &chosen)?));
        return Ok(());
    }
    let sites = sites::of_set(options.sets[0]);
    options.dir = debian_docs::prepare(&options.farol, &options.dir)?;

    run::announce("packages");
    packages::unpack_all(&options.dir, sites)?;
    run::announce("crawl");
    let server = nginx::Server::start(&options.dir, sites)?;
    let mut crawl = crawl::crawl(&options.farol, &options.dir, sites, &server)?;
    println!("idle after {:.0} s", crawl.seconds);
    crawl.settle()?;
    run::announce("questions");
    let answers = questions::ask_all(crawl.address, &chosen)?;
    let (crawl, requests) = (crawl.finish()?, log::read(&server.crawl_log())?);
    drop(server);

    let mut pages: BTreeMap<String, usize> = BTreeMap::new();
    for seen in requests.iter().filter(|seen| seen.is_page()) {
        *pages.entry(seen.host.clone()).or_default() += 1;
    }
    let text = report::write(options.sets, sites, &pages, &crawl, &answers);
    println!("{text}");
    std::fs::write(&options.report, &text)
        .map_err(|error| format!("cannot write {}: {error}", options.report.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::read(&["--set", "both", "--address", "127.0.0.1:80"]).unwrap();
        assert_eq!(options.sets, ["a", "b"]);
        assert_eq!(options.address, Some(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(Options::read(&["--set", "c"]).unwrap().sets, ["c"]);
        for wrong in [&["--set", "d"][..], &["--address", "here"], &["--dir"], &["--unknown"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
