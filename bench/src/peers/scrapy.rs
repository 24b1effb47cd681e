//! Scrapy, tuned as its page on broad crawls says, and told to log and store nothing.

use super::{CONCURRENCY, Peer};
use crate::web::Web;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Scrapy {
    /// Its virtual environment.
    pub venv: PathBuf,
}

const VERSION: &str = "2.19.0";
const SCRIPT: &str = include_str!("scrapy_peer.py");

impl Peer for Scrapy {
    fn name(&self) -> String {
        format!("Scrapy {VERSION}")
    }

    fn work(&self) -> &'static str {
        "extracts links (LinkExtractor), keeps URLs in memory, stores nothing"
    }

    fn prepare(&mut self) -> Result<()> {
        if !self.venv.join("bin/scrapy").exists() {
            let made = Command::new("python3").args(["-m", "venv"]).arg(&self.venv).status();
            ensure!(made.context("python3 is missing")?.success(), "cannot make a virtual environment");
            let pip = Command::new(self.venv.join("bin/pip"))
                .args(["install", "--quiet", &format!("scrapy=={VERSION}")])
                .status();
            ensure!(pip?.success(), "cannot install Scrapy {VERSION} from PyPI");
        }
        Ok(std::fs::write(self.venv.join("scrapy_peer.py"), SCRIPT)?)
    }

    fn command(&self, web: &Web, folder: &Path) -> Command {
        let mut command = Command::new(self.venv.join("bin/python"));
        command.arg(self.venv.join("scrapy_peer.py")).args([&web.seed, "web.test", &CONCURRENCY.to_string()]);
        command.env("http_proxy", web.proxy()).current_dir(folder);
        command
    }
}
