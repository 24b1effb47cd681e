//! The crate `spider`, through our small binary beside this one.

use super::{CONCURRENCY, Peer};
use crate::web::Web;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Spider {
    /// Set by `prepare`.
    pub binary: PathBuf,
}

impl Peer for Spider {
    fn name(&self) -> String {
        "spider 2.53.9".to_string()
    }

    fn work(&self) -> &'static str {
        "extracts links, keeps URLs in memory, hands pages to a counter"
    }

    fn prepare(&mut self) -> Result<()> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = Command::new("cargo")
            .args(["build", "--release", "--quiet", "--manifest-path"])
            .arg(here.join("spider-peer/Cargo.toml"))
            .arg("--target-dir")
            .arg(here.join("target"))
            .status()?;
        ensure!(built.success(), "spider-peer does not build");
        self.binary = here.join("target/release/spider-peer");
        Ok(())
    }

    fn command(&self, web: &Web, folder: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command.args([&web.seed, &web.proxy(), &CONCURRENCY.to_string()]).current_dir(folder);
        command
    }
}
