//! `wget2 -r`: many threads, one file per page.

use super::Peer;
use crate::web::Web;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

pub struct Wget2;

/// Threads that download. More of them did not make it faster on two cores.
const THREADS: u32 = 64;

impl Peer for Wget2 {
    fn name(&self) -> String {
        "wget2 -r".to_string()
    }

    fn work(&self) -> &'static str {
        "extracts links, keeps URLs in memory, writes each page to a file"
    }

    fn prepare(&mut self) -> Result<()> {
        let found = Command::new("wget2").arg("--version").stdout(Stdio::null()).status();
        ensure!(
            found.is_ok_and(|status| status.success()),
            "wget2 is missing; on Debian: apt-get install wget2"
        );
        Ok(())
    }

    fn command(&self, web: &Web, folder: &Path) -> Command {
        let mut command = Command::new("wget2");
        command.args(["--recursive", "--level=inf", "--span-hosts", "--domains=web.test", "--quiet"]);
        command.args([format!("--max-threads={THREADS}"), format!("--http-proxy={}", web.proxy())]);
        command.args(["--tries=1", "--no-hsts", "--directory-prefix"]).arg(folder).arg(&web.seed);
        command
    }
}
