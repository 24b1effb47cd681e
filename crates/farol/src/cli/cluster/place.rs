//! Where a cluster is: flags, settings, or the folder of a whole cluster on this machine.

use crate::cli::Place;
use crate::config::Config;
use crate::config::cluster::is_name;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// File in the folder of `farol cluster up` that says how its cluster is joined.
const FILE: &str = "cluster.json";

/// How a cluster is joined.
#[derive(Args, Clone, Default)]
pub struct Joining {
    /// NATS servers, such as nats://user:password@10.0.0.1:4222,10.0.0.2:4222
    #[arg(long, value_name = "URL,...", env = "FAROL_JOIN", hide_env_values = true)]
    pub join: Option<String>,
    /// Name of the cluster [default: farol]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// File with USER:PASSWORD for the NATS servers, or a NATS account's .creds
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<String>,
}

/// A cluster that a command is about.
#[derive(Args, Clone)]
pub struct ClusterPlace {
    /// Folder of a cluster that `farol cluster up` runs, or of a node
    #[arg(long, value_name = "DIR", default_value = "farol-cluster", env = "FAROL_DATA")]
    pub data: PathBuf,
    /// Settings [default: farol.toml in the folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub joining: Joining,
}

/// How the cluster of a folder is joined, as its file says.
#[derive(Default, Serialize, Deserialize)]
pub struct JoinFile {
    pub name: String,
    pub join: String,
    /// Process numbers of its nodes, by name.
    #[serde(default)]
    pub processes: BTreeMap<String, u32>,
}

impl JoinFile {
    /// Writes it for the owner alone: the address has a password in it.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path).with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(file, "{}", serde_json::to_string_pretty(self)?)?;
        Ok(())
    }

    pub fn read(folder: &Path) -> Result<Option<JoinFile>> {
        let path = folder.join(FILE);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let file = serde_json::from_slice(&bytes);
        file.map(Some).with_context(|| format!("{} cannot be read; delete it", path.display()))
    }
}

impl Joining {
    /// Puts the flags over the settings, and what the folder's file says below them.
    pub fn apply(&self, config: &mut Config, folder: &Path) -> Result<()> {
        let cluster = &mut config.cluster;
        let is_named = self.join.is_some() || !cluster.join.is_empty();
        if !is_named && let Some(file) = JoinFile::read(folder)? {
            (cluster.name, cluster.join) = (file.name, file.join);
        }
        if let Some(join) = &self.join {
            cluster.join.clone_from(join);
        }
        if let Some(name) = &self.cluster {
            ensure!(
                is_name(name),
                "{name:?} is no name of a cluster; use letters, digits and dashes, 32 at most"
            );
            cluster.name.clone_from(name);
        }
        if let Some(file) = &self.credentials {
            cluster.credentials.clone_from(file);
        }
        if cluster.join.is_empty() {
            bail!(
                "no NATS server is named: add --join nats://user:password@HOST:4222, set join under [cluster] in \
                 farol.toml, or name the folder of a `farol cluster up` with --data"
            );
        }
        Ok(())
    }
}

impl ClusterPlace {
    /// The settings with the flags on top.
    pub fn settings(&self) -> Result<Config> {
        let place = Place { data: self.data.clone(), config: self.config.clone() };
        let mut config = place.settings()?;
        self.joining.apply(&mut config, &self.data)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_settings_and_settings_over_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let of = |joining: &Joining, toml: &str| {
            let mut config = Config::parse(toml).unwrap();
            joining.apply(&mut config, dir.path()).map(|()| (config.cluster.name, config.cluster.join))
        };
        let none = Joining::default();
        assert!(format!("{:#}", of(&none, "").unwrap_err()).contains("--join"));
        let file = JoinFile { name: "here".into(), join: "nats://a".into(), processes: BTreeMap::new() };
        file.write(dir.path()).unwrap();
        assert_eq!(of(&none, "").unwrap(), ("here".into(), "nats://a".into()));
        let toml = "[cluster]\njoin = 'nats://b'";
        assert_eq!(of(&none, toml).unwrap(), ("farol".into(), "nats://b".into()));
        let flags = Joining { join: Some("nats://c".into()), cluster: Some("x".into()), credentials: None };
        assert_eq!(of(&flags, toml).unwrap(), ("x".into(), "nats://c".into()));
        let wrong = Joining { cluster: Some("a b".into()), ..Joining::default() };
        assert!(of(&wrong, toml).is_err());
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    }
}
