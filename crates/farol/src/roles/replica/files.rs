//! The files of an index as of its last commit.
//!
//! Files of a segment never change and have names of their own for ever; `meta.json` says which segments count. So a
//! copy is a handful of hard links, taken beside a replica that goes on.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// Which segments count.
const META: &str = "meta.json";
/// Which files the index may delete once nobody needs them.
const MANAGED: &str = ".managed.json";
/// Which layout the folder has.
const FORMAT: &str = "FORMAT";
/// A merge may delete files while they are being linked; then it is done again.
const TRIES: usize = 10;

/// Links the files of the last commit into a new folder.
pub fn link(from: &Path, to: &Path) -> Result<()> {
    for _ in 0..TRIES {
        match link_once(from, to) {
            Err(error) if is_gone(&error) => continue,
            result => return result,
        }
    }
    bail!("{} changes faster than it can be copied", from.display());
}

fn is_gone(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound)
}

fn link_once(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    let meta = std::fs::read(from.join(META))?;
    let segments = segments(&meta)?;
    let mut managed = vec![META.to_string()];
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let of_segment =
            name.split('.').next().is_some_and(|id| segments.iter().any(|segment| segment == id));
        if of_segment {
            std::fs::hard_link(from.join(&name), to.join(&name))?;
            managed.push(name);
        }
    }
    // Every segment has one file at least that is not a list of deletions.
    for segment in &segments {
        let has_file =
            managed.iter().any(|name| name.starts_with(segment.as_str()) && !name.ends_with(".del"));
        if !has_file {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        }
    }
    std::fs::copy(from.join(FORMAT), to.join(FORMAT))?;
    std::fs::write(to.join(META), &meta)?;
    write_managed(to, &managed)
}

/// Writes the list that says which files the index may delete.
fn write_managed(dir: &Path, names: &[String]) -> Result<()> {
    Ok(std::fs::write(dir.join(MANAGED), serde_json::to_vec(names)?)?)
}

/// Completes a folder that was filled from elsewhere: all that is there is the index's own.
pub fn complete(dir: &Path) -> Result<()> {
    let entries = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = entries.collect::<std::io::Result<_>>()?;
    let managed: Vec<String> = names.into_iter().filter(|name| is_copied(name) && name != FORMAT).collect();
    write_managed(dir, &managed)
}

/// Whether a file is a part of a copy; the index's list of its files is made anew.
pub fn is_copied(name: &str) -> bool {
    name != MANAGED
}

/// Names of the segments that count, as their files begin with them.
fn segments(meta: &[u8]) -> Result<Vec<String>> {
    let meta: serde_json::Value = serde_json::from_slice(meta).context("meta.json cannot be read")?;
    let list = meta["segments"].as_array().context("meta.json has no list of segments")?;
    let id = |segment: &serde_json::Value| {
        let id = segment["segment_id"].as_str().context("a segment has no name")?;
        Ok(id.replace('-', ""))
    };
    list.iter().map(id).collect()
}
