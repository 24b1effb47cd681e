//! Uploads ranks: to each shard its slice, as `ranks/<version>/<shard>` in shared storage.
//!
//! INVARIANT: no two nodes ever write the same name: the last digits of a version are the number of the node that ranked.

use super::RankerService;
use anyhow::{Context, Result};
use farol_cluster::record::RanksReport;
use farol_cluster::{NodeNo, ShardEntry, ShardId, ShardMap};
use farol_links::{RankSlice, RankTable};
use std::collections::BTreeSet;

/// Shards that have pages now, or will have.
pub fn shards_of(map: &ShardMap) -> impl Iterator<Item = &ShardEntry> {
    map.shards.iter().filter(|entry| entry.is_read() || entry.is_written())
}

/// Uploads ranks, unless they are there already; what to tell of them.
pub fn publish(service: &RankerService, table: &RankTable) -> Result<Option<RanksReport>> {
    let view = service.cluster.view();
    let Some(map) = view.shards.as_deref().filter(|_| table.pages() > 0) else { return Ok(None) };
    let no = view.no.context("this node has no number yet")?;
    let digest = table.digest();
    let shown = format!("{digest:08x}");
    let known = view.ranks.as_ref().and_then(|table| table.ranks.clone()).unwrap_or_default();
    let there = service.blobs.list("ranks/")?;
    let has_slice = |shard: ShardId| there.contains(&slice_name(known.version, shard));
    if known.digest == shown && shards_of(map).all(|entry| has_slice(entry.id)) {
        return Ok(Some(known));
    }
    let told = service.board.ranks.lock().as_ref().map_or(0, |ranks| ranks.version);
    let version = next_version(known.version.max(told), no);
    for blob in old(&there, known.version) {
        // What stays behind is deleted the next time.
        if let Err(error) = service.blobs.delete(blob) {
            tracing::debug!(%error, blob, "stays behind");
        }
    }
    for entry in shards_of(map) {
        let slice = RankSlice::of(table, version, digest, entry.from..=entry.to);
        service.blobs.put(&slice_name(version, entry.id), &slice.write())?;
    }
    tracing::info!(version, pages = table.pages(), hosts = table.hosts(), "ranks are uploaded");
    Ok(Some(RanksReport { version, digest: shown }))
}

/// The shards that a publication speaks to.
pub fn shard_ids(map: &ShardMap) -> BTreeSet<ShardId> {
    shards_of(map).map(|entry| entry.id).collect()
}

fn slice_name(version: u64, shard: ShardId) -> String {
    format!("ranks/{version}/{shard}")
}

/// A version after this one, which no other node gives.
fn next_version(known: u64, no: NodeNo) -> u64 {
    ((known >> 16) + 1) << 16 | u64::from(no.0)
}

/// Slices of versions before this one, which nobody loads any more.
fn old(blobs: &[String], known: u64) -> impl Iterator<Item = &String> {
    blobs.iter().filter(move |blob| {
        let version = blob.strip_prefix("ranks/").and_then(|rest| rest.split('/').next()?.parse().ok());
        version.is_some_and(|version: u64| version < known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_and_are_a_nodes_own() {
        let first = next_version(0, NodeNo(7));
        assert_eq!(first, 65_536 + 7);
        let second = next_version(first, NodeNo(3));
        assert!(second > first && second != next_version(first, NodeNo(4)));
        assert!(next_version(second, NodeNo(1)) > second);
    }

    #[test]
    fn only_slices_before_the_known_ones_go() {
        let blobs = ["ranks/5/0", "ranks/9/0", "ranks/10/1", "ranks/x", "index/3"].map(String::from);
        let gone: Vec<&String> = old(&blobs, 9).collect();
        assert_eq!(gone, ["ranks/5/0"]);
    }
}
