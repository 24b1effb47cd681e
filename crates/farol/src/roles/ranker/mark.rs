//! How far the ranker has come, on disk beside the graph that it speaks of.

use anyhow::{Context, Result};
use farol_cluster::record::ReplicaMark;
use std::fs::File;
use std::path::Path;

const FILE: &str = "mark.json";

/// Reads the mark; none is the beginning.
pub fn read_mark(dir: &Path) -> Result<ReplicaMark> {
    let path = dir.join(FILE);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!("{} cannot be read; delete the folder to have all links sent again", path.display())
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(ReplicaMark::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Makes the mark survive a power cut.
pub fn write_mark(dir: &Path, mark: &ReplicaMark) -> Result<()> {
    let (path, new) = (dir.join(FILE), dir.join("mark.json.new"));
    std::fs::write(&new, serde_json::to_vec(mark)?)?;
    File::open(&new)?.sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(dir)?.sync_all()?;
    Ok(())
}
