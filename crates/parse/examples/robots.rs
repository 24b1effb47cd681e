//! Prints what a robots.txt says about paths: `robots FILE AGENT < paths`, one verdict per line.
//!
//! Each line of the answer is `allowed` or `refused`, a tab, and the rule (if any); used to compare our
//! verdicts with other parsers'.

use farol_parse::robots::{Robots, Verdict};
use std::io::{BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(agent)) = (args.next(), args.next()) else {
        eprintln!("usage: robots FILE AGENT < paths");
        return ExitCode::from(2);
    };
    match run(&file, &agent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &str, agent: &str) -> std::io::Result<()> {
    let robots = Robots::parse(&std::fs::read(file)?, agent);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::io::stdin().lock().lines() {
        match robots.verdict(&path?) {
            Verdict::Allowed { rule } => writeln!(out, "allowed\t{}", rule.unwrap_or_default())?,
            Verdict::Refused { rule } => writeln!(out, "refused\t{rule}")?,
        }
    }
    out.flush()
}
