//! Input files of the experiments: plain, gzipped (`.gz`) or with zstd (`.zst`).

use crate::Error;
use std::io::Read;
use std::path::Path;

/// Reads a text file of any compression.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let bytes = match path.extension().and_then(|ending| ending.to_str()) {
        Some("zst") => zstd::decode_all(&*bytes).map_err(Error::file("read", path))?,
        Some("gz") => {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&*bytes)
                .read_to_end(&mut plain)
                .map_err(Error::file("read", path))?;
            plain
        }
        _ => bytes,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
