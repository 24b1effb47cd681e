//! Who a node is: `node.id` in its data folder, drawn once.

use anyhow::{Context, Result};
use farol_base::fingerprint::hash64;
use farol_cluster::NodeId;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Name of the file in the data folder.
pub const FILE: &str = "node.id";

/// The id of the folder's node; drawn and written where it has none yet.
pub fn read_or_draw(folder: &Path) -> Result<NodeId> {
    let path = folder.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => NodeId::parse(text.trim()).with_context(|| {
            format!(
                "{} holds no node id; delete it to have the node join as a new one, with a new certificate",
                path.display()
            )
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => draw(&path),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn draw(path: &Path) -> Result<NodeId> {
    let id = NodeId(getrandom::u64().context("the system has no random numbers")?);
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        writeln!(file, "{id}")?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(id)
}

/// Tells this machine, since it was started, from others.
pub fn machine() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    hash64(&boot)
}

/// Tells this folder from a copy of it.
pub fn folder(path: &Path) -> Result<u64> {
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (device, inode) = (metadata.dev().to_le_bytes(), metadata.ino().to_le_bytes());
    Ok(hash64(&[device, inode].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_draws_its_id_once_and_a_copy_of_it_is_told_apart() {
        let (one, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = read_or_draw(one.path()).unwrap();
        assert_eq!(read_or_draw(one.path()).unwrap(), id);
        std::fs::copy(one.path().join(FILE), copy.path().join(FILE)).unwrap();
        assert_eq!(read_or_draw(copy.path()).unwrap(), id);
        assert_ne!(folder(one.path()).unwrap(), folder(copy.path()).unwrap());
        assert_eq!(folder(one.path()).unwrap(), folder(one.path()).unwrap());
        std::fs::write(one.path().join(FILE), "who knows").unwrap();
        assert!(format!("{:#}", read_or_draw(one.path()).unwrap_err()).contains("delete it"));
    }
}
