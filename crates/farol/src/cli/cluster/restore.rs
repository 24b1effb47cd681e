//! `farol cluster restore`: makes the folders of a new cluster from a backup; shards are filled from the archives.
//!
//! The nodes are new ones, with new ids: whatever is left of the old cluster cannot be taken for them.

use super::backup::{Contents, FILE, LAYOUT, SETTINGS, new_folder};
use crate::progress::size;
use anyhow::{Context, Result, ensure};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct RestoreArgs {
    /// Folder of the backup
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Folder of the new cluster; it must not exist yet, or be empty
    #[arg(long, value_name = "DIR", default_value = "farol-cluster")]
    data: PathBuf,
}

pub fn run(args: &RestoreArgs) -> Result<ExitCode> {
    let contents = read(&args.dir)?;
    new_folder(&args.data)?;
    let mut out = std::io::stdout();
    for (nth, node) in contents.folders.iter().enumerate() {
        let to = args.data.join(format!("node-{}", nth + 1));
        copy(&args.dir.join(&node.folder), &to)?;
        writeln!(out, "{}: what {} had, {} of archive", to.display(), node.folder, size(node.bytes))?;
    }
    let settings = args.dir.join(SETTINGS);
    if settings.exists() {
        copy(&settings, &args.data.join(SETTINGS))?;
    }
    let archives = contents.folders.iter().filter(|node| node.bytes > 0).count() as u64;
    let (shards, replicas) = (contents.shards, contents.replicas);
    // Folders with an archive come first, and so do the nodes that crawl.
    let crawlers = if archives > 1 { format!(" --crawlers {archives}") } else { String::new() };
    let crawling = match archives {
        0 | 1 => "node-1 as the data folder of the one that crawls".to_string(),
        count => format!("node-1 to node-{count} as the data folders of those that crawl"),
    };
    writeln!(
        out,
        "On this machine, with the flags of before but no seeds:\n  farol cluster up --data {} --nodes {} --shards {shards} \
         --replicas {replicas}{crawlers}\nOn several: `farol cluster init --shards {shards} --replicas {replicas}` on empty NATS \
         servers, then `farol node` with an empty shared folder, and {crawling}.",
        args.data.display(),
        contents.nodes
    )?;
    Ok(ExitCode::SUCCESS)
}

/// What a backup says of itself.
fn read(dir: &Path) -> Result<Contents> {
    let path = dir.join(FILE);
    let text = std::fs::read(&path).with_context(|| {
        format!(
            "{} cannot be read: {} is no backup, or one that was not finished",
            path.display(),
            dir.display()
        )
    })?;
    let contents: Contents =
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
    ensure!(
        contents.v == LAYOUT,
        "the backup has layout {}, and this program reads {LAYOUT}: use the one that made it",
        contents.v
    );
    for node in &contents.folders {
        let is_plain = Path::new(&node.folder).components().eq([Component::Normal(node.folder.as_ref())]);
        ensure!(is_plain, "{} names a folder {:?}", path.display(), node.folder);
    }
    Ok(contents)
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        new_folder(to)?;
        for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
            let entry = entry?;
            // A process that looked into the backup may have left this.
            if entry.file_name() != "lock" {
                copy(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
        return Ok(());
    }
    let copied = std::fs::copy(from, to);
    copied.map(drop).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_backup_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (backup, data) = (dir.path().join("b"), dir.path().join("d"));
        std::fs::create_dir(&backup).unwrap();
        let refused = |text: &str, want: &str| {
            if !text.is_empty() {
                std::fs::write(backup.join(FILE), text).unwrap();
            }
            let error = run(&RestoreArgs { dir: backup.clone(), data: data.clone() }).map(drop).unwrap_err();
            assert!(format!("{error:#}").contains(want), "{error:#}");
            assert!(!data.exists());
        };
        refused("", "not finished");
        refused("{}", "damaged");
        let of = |v: u16, folder: &str| {
            format!(
                r#"{{"v":{v},"name":"a","begun":0,"shards":1,"replicas":1,"nodes":1,"folders":[{{"folder":"{folder}","bytes":1}}]}}"#
            )
        };
        refused(&of(2, "a"), "layout 2");
        refused(&of(1, "../a"), "names a folder");
    }
}
