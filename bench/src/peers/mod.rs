//! The crawlers to compare: how each is installed and started, tuned as its own documentation advises.
//!
//! All of them crawl without a delay, read robots.txt, follow links to all hosts of the synthetic Web and throw
//! nothing else at it. What each does with a page differs, and is said in its [`Peer::work`].

mod farol;
mod scrapy;
mod spider;
mod wget2;

use crate::web::Web;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crawler.
pub trait Peer {
    /// Name in the table.
    fn name(&self) -> String;
    /// What it does with each page.
    fn work(&self) -> &'static str;
    /// Makes it ready; may install or build.
    fn prepare(&mut self) -> Result<()>;
    /// The command that crawls this Web, with an empty folder for its files.
    fn command(&self, web: &Web, folder: &Path) -> Command;
}

/// Requests that a peer may have under way at one time.
pub const CONCURRENCY: u32 = 256;

/// All peers, in the order of the table.
pub fn all(farol: &Path, tools: &Path) -> Vec<Box<dyn Peer>> {
    let tools: PathBuf = tools.to_path_buf();
    vec![
        Box::new(farol::Farol { binary: farol.to_path_buf(), index: false }),
        Box::new(farol::Farol { binary: farol.to_path_buf(), index: true }),
        Box::new(scrapy::Scrapy { venv: tools.join("venv") }),
        Box::new(wget2::Wget2),
        Box::new(spider::Spider { binary: PathBuf::new() }),
    ]
}
