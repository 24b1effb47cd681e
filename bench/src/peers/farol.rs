//! `farol crawl`: one request at a time per host and address, pages to WARC.

use super::Peer;
use crate::web::Web;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Farol {
    pub binary: PathBuf,
    pub index: bool,
}

impl Peer for Farol {
    fn name(&self) -> String {
        if self.index { "farol crawl --index".to_string() } else { "farol crawl".to_string() }
    }

    fn work(&self) -> &'static str {
        if self.index {
            "parses, keeps URLs on disk, writes WARC, text to the index"
        } else {
            "parses, keeps URLs on disk, writes WARC"
        }
    }

    fn prepare(&mut self) -> Result<()> {
        let path = self.binary.display();
        ensure!(
            self.binary.exists(),
            "{path} is missing; build it: cargo build --release -p farol -p farol-sim"
        );
        Ok(())
    }

    fn command(&self, web: &Web, folder: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(["crawl", &web.seed, "--scope", "domain", "--delay", "0s", "--data"])
            .arg(folder.join("data"));
        command.arg("--resolve").arg(format!("*.web.test=127.0.0.0/8:{}", web.address.port()));
        if self.index {
            command.arg("--index");
        }
        command
    }
}
