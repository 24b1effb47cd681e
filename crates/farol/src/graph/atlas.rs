//! What the planner knows, kept for the next leader.
//!
//! INVARIANT: the file that names the parts is written last, so that an atlas whose writer died is none.

use super::FOLDER;
use crate::wire::batch::{pack, unpack};
use crate::wire::graph::{WireAtlas, WireAtlasPart, read_memory, write_memory};
use anyhow::{Context, Result};
use farol_fabric::blobs::Blobs;
use farol_partition::replan::{Atlas, Bounds, Memory};

/// Hosts of a part: with their links some megabytes.
const PART_HOSTS: usize = 20_000;
/// Parts of an atlas at most: hosts and addresses of a full one.
const PARTS_MAX: u32 = 1_000;
const WHOLE: &str = "all.zst";

/// The place of an atlas; the greatest is the newest.
fn folder(term: u64, n: u64) -> String {
    format!("{FOLDER}atlas/{term:020}-{n:06}/")
}

fn part(folder: &str, at: usize) -> String {
    format!("{folder}{at:06}.zst")
}

/// Writes an atlas, and removes those before it.
pub fn save(blobs: &Blobs, term: u64, n: u64, memory: Memory) -> Result<()> {
    let (atlas, parts) = write_memory(memory, PART_HOSTS);
    let own = folder(term, n);
    for (at, piece) in parts.iter().enumerate() {
        blobs.put(&part(&own, at), &pack(piece)?)?;
    }
    blobs.put(&format!("{own}{WHOLE}"), &pack(&atlas)?)?;
    for name in blobs.list(&format!("{FOLDER}atlas/"))? {
        if name < own {
            // What stays behind is deleted the next time.
            let _ = blobs.delete(&name);
        }
    }
    Ok(())
}

/// The newest atlas that is whole and can be read; `None` where there is none.
pub fn newest(blobs: &Blobs, bounds: Bounds) -> Result<Option<Atlas>> {
    let mut all = blobs.list(&format!("{FOLDER}atlas/"))?;
    all.retain(|name| name.ends_with(WHOLE));
    for name in all.iter().rev() {
        match read(blobs, name.trim_end_matches(WHOLE), bounds) {
            Ok(atlas) => return Ok(Some(atlas)),
            Err(error) => {
                tracing::warn!(error = %format!("{error:#}"), name, "what was known of hosts cannot be read")
            }
        }
    }
    Ok(None)
}

fn read(blobs: &Blobs, own: &str, bounds: Bounds) -> Result<Atlas> {
    let whole: WireAtlas = unpack(&blobs.get(&format!("{own}{WHOLE}"))?)?;
    anyhow::ensure!(whole.parts <= PARTS_MAX, "it names {} parts, more than there can be", whole.parts);
    let parts = (0..whole.parts as usize).map(|at| {
        let name = part(own, at);
        unpack::<WireAtlasPart>(&blobs.get(&name)?).with_context(|| format!("in {name}"))
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    Ok(Atlas::restore(bounds, read_memory(whole, parts))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Timestamp;
    use farol_partition::replan::{HostFacts, Owners, Report};

    #[test]
    fn the_newest_whole_atlas_counts_and_older_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path().to_str().unwrap()).unwrap();
        assert!(newest(&blobs, Bounds::default()).unwrap().is_none());
        let mut atlas = Atlas::new(Bounds::default());
        let facts = HostFacts {
            host: "http://a.test".into(),
            address: [10, 0, 0, 1].into(),
            pages: 12,
            rtt: None,
            position: None,
            language: None,
            links: vec![(1, 1)],
        };
        let report = Report { agent: "1".into(), number: 1, hosts: vec![facts], ..Report::default() };
        let at = Timestamp::from_secs(1_700_000_000);
        assert_eq!(atlas.take(at, &report, &["1".to_string()], &Owners::default()).taken, 1);
        save(&blobs, 7, 1, atlas.memory()).unwrap();
        save(&blobs, 7, 2, atlas.memory()).unwrap();
        assert_eq!(blobs.list("graph/atlas/").unwrap().len(), 2, "one part and the file that names it");
        let known = newest(&blobs, Bounds::default()).unwrap().unwrap();
        assert_eq!(known.memory(), atlas.memory());
        // A part without its whole, and a whole that is garbage: the one before counts.
        blobs.put("graph/atlas/00000000000000000009-000001/000000.zst", b"x").unwrap();
        blobs.put("graph/atlas/00000000000000000008-000001/all.zst", b"x").unwrap();
        assert_eq!(newest(&blobs, Bounds::default()).unwrap().unwrap().memory(), atlas.memory());
    }
}
