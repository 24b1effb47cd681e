//! Input files of commands: plain, gzipped (`.gz`) or with zstd (`.zst`).

use anyhow::{Context, Result};
use std::io::Read;
use std::path::Path;

/// Reads a text file of any compression.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_bytes(path)?).with_context(|| format!("{} is no text", path.display()))
}

/// Reads a file of any compression.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let plain = match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut plain).map(|_| plain)
        }
        Some("zst") => zstd::decode_all(&*bytes),
        _ => Ok(bytes),
    };
    plain.with_context(|| format!("{} is damaged", path.display()))
}
