//! Cache nodes as real processes under trouble: nodes and leaders are killed, questions come out of nowhere, nodes come and
//! go, while `farol cache replay` asks as fronts do.
//!
//! Each trial ([`trials`], [`loads`]) has a cluster of its own ([`lab`]): one NATS server, two candidates for the leadership, and
//! cache nodes; the fronts, and the index behind them, are those of `replay`. Beside memcached, one node alone is asked as
//! fast as it answers ([`speed`]).
//!
//! Promise: it speaks to loopback only, ends what it started, and fails where a question did.

mod lab;
mod loads;
mod questions;
mod seen;
mod speed;
mod trials;

use std::path::PathBuf;
use std::time::Duration;
use trials::{TRIALS, Trial};

const USAGE: &str = "cargo xtask caches [OPTIONS]

  --only NAME,...   trials to run [default: all]
  --list            names of the trials
  --seconds N       how long a phase of a trial lasts [default: 60]
  --rate N          questions a second, from two fronts [default: 200]
  --farol FILE      the binary to try [default: target/release/farol]
  --memcached FILE  to compare one node with [default: memcached]
  --dir DIR         where data and logs go; emptied first [default: target/caches]";

/// What was asked for on the command line.
pub struct CacheOptions {
    chosen: Vec<&'static Trial>,
    /// Of one phase of a trial.
    phase: Duration,
    rate: f64,
    farol: PathBuf,
    memcached: PathBuf,
    dir: PathBuf,
}

impl CacheOptions {
    fn read(arguments: &[&str]) -> Result<CacheOptions, String> {
        let mut options = CacheOptions {
            chosen: TRIALS.iter().collect(),
            phase: Duration::from_secs(60),
            rate: 200.0,
            farol: "target/release/farol".into(),
            memcached: "memcached".into(),
            dir: "target/caches".into(),
        };
        let mut rest = arguments.iter();
        while let Some(&name) = rest.next() {
            let mut value = || rest.next().copied().ok_or(format!("{name} needs a value\n\n{USAGE}"));
            match name {
                "--only" => options.chosen = choose(value()?)?,
                "--seconds" => options.phase = Duration::from_secs_f64(number(name, value()?)?),
                "--rate" => options.rate = number(name, value()?)?,
                "--farol" => options.farol = value()?.into(),
                "--memcached" => options.memcached = value()?.into(),
                "--dir" => options.dir = value()?.into(),
                _ => return Err(USAGE.to_string()),
            }
        }
        Ok(options)
    }
}

fn number(name: &str, text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (1.0..=1e6).contains(number));
    number.ok_or(format!("{name} {text} is no number from 1 to 1000000"))
}

fn choose(names: &str) -> Result<Vec<&'static Trial>, String> {
    let find = |name: &str| TRIALS.iter().find(|trial| trial.name == name);
    names
        .split(',')
        .map(|name| find(name).ok_or(format!("there is no trial {name}; --list names them")))
        .collect()
}

pub fn run(arguments: &[&str]) -> Result<(), String> {
    if arguments == ["--list"] {
        TRIALS.iter().for_each(|trial| println!("{:<12} {}", trial.name, trial.what));
        return Ok(());
    }
    let options = CacheOptions::read(arguments)?;
    if !options.farol.exists() {
        let path = options.farol.display();
        return Err(format!("{path} is missing: `cargo build --release -p farol` makes it"));
    }
    let mut broken = Vec::new();
    for trial in &options.chosen {
        crate::run::announce(trial.name);
        match (trial.run)(&options) {
            Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
            Err(error) => {
                println!("broken: {error}");
                broken.push(trial.name);
            }
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("trials broke: {}", broken.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options =
            CacheOptions::read(&["--only", "flash,kill", "--seconds", "5", "--rate", "90"]).unwrap();
        assert_eq!(options.chosen.iter().map(|one| one.name).collect::<Vec<_>>(), ["flash", "kill"]);
        assert_eq!((options.phase, options.rate), (Duration::from_secs(5), 90.0));
        for wrong in [&["--only", "none"][..], &["--rate", "0"], &["--dir"], &["--unknown"]] {
            assert!(CacheOptions::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
