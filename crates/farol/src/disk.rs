//! The disk: folders on it, and room.

use anyhow::{Context, Result};
use farol_base::disk::{Disk, File};
use std::path::Path;
use std::sync::Arc;

/// A folder as the stores see it, made where it does not exist.
pub fn at(path: &Path) -> Result<Arc<dyn Disk>> {
    let disk = File::at(path)
        .with_context(|| format!("cannot open the folder {}; check who owns it", path.display()))?;
    Ok(Arc::new(disk))
}

/// Bytes that may still be written where this path lies; `None` where the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
