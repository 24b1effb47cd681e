//! The secret that opens the admin pages where the settings name none.
//!
//! It is drawn once per data folder and kept there in `admin.key`, readable by the owner alone: whoever may read the
//! data folder may run the engine. Being on the same machine does not do, because a proxy on this machine passes
//! strangers on.

use crate::config::Config;
use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Name of the file in the data folder.
const FILE: &str = "admin.key";

/// The admin token in force: that of the settings, otherwise the folder's own, drawn where it has none yet.
///
/// On a disk without room it is drawn for this process alone; commands of other processes then cannot ask.
pub fn draw(folder: &Path, config: &Config) -> Result<String> {
    let known = read(folder, config);
    if !known.is_empty() {
        return Ok(known);
    }
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes).context("the system has no random numbers")?;
    let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(folder.join(FILE)).and_then(|mut file| writeln!(file, "{key}"));
    if let Err(error) = written {
        tracing::warn!(%error, "cannot keep the admin token in {FILE}; it holds for this run only");
    }
    Ok(key)
}

/// The admin token in force, as another process reads it; empty where there is none yet.
pub fn read(folder: &Path, config: &Config) -> String {
    if !config.serve.admin_token.is_empty() {
        return config.serve.admin_token.clone();
    }
    std::fs::read_to_string(folder.join(FILE)).unwrap_or_default().trim().to_string()
}

/// Where the dashboard of an engine opens. A key that the folder has drawn is in the link; a token of the operator's own
/// is not shown, since whoever set it knows it.
pub fn dashboard(address: SocketAddr, config: &Config, key: &str) -> String {
    match config.serve.admin_token.as_str() {
        "" => format!("http://{address}/admin/enter?key={key}"),
        _ => format!("http://{address}/admin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_draws_its_key_once_and_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        assert_eq!(read(folder.path(), &config), "");
        let key = draw(folder.path(), &config).unwrap();
        assert!(key.len() >= farol_front::TOKEN_BYTES_MIN);
        assert_eq!(draw(folder.path(), &config).unwrap(), key);
        assert_eq!(read(folder.path(), &config), key);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(draw(other.path(), &config).unwrap(), key);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        assert!(dashboard(address, &config, &key).ends_with(&format!("/admin/enter?key={key}")));
        config.serve.admin_token = "that of the settings".into();
        assert_eq!(dashboard(address, &config, &key), "http://127.0.0.1:8080/admin");
        assert_eq!(draw(folder.path(), &config).unwrap(), "that of the settings");
    }
}
