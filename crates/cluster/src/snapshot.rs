//! Snapshots of replicas in shared storage: what to upload, what the newest is, what may be deleted.
//!
//! Files of an index never change, so a snapshot uploads what the last one lacks, then its manifest, then moves the
//! pointer by compare-and-set. Names are never used again.
//!
//! INVARIANT: nothing is deleted that the newest manifest or the one before it names.

use crate::record::{RECORD_VERSION, ReplicaMark};
use crate::{NodeId, ShardId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A file of a replica, as it lies on its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    pub name: String,
    pub bytes: u64,
    pub digest: String,
}

/// A file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    pub name: String,
    /// Its name in shared storage.
    pub blob: String,
    pub bytes: u64,
    pub digest: String,
}

/// What a snapshot consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    pub v: u16,
    pub shard: ShardId,
    /// Grows with every snapshot of the shard.
    pub number: u64,
    pub node: NodeId,
    /// What the snapshot holds.
    pub mark: ReplicaMark,
    pub files: Vec<SnapshotFile>,
}

/// Which snapshot of a shard is the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPointer {
    pub v: u16,
    pub number: u64,
    pub node: NodeId,
    /// Name of the manifest in shared storage.
    pub manifest: String,
    /// The manifest before it, which somebody may be reading.
    pub before: Option<String>,
    /// What the snapshot holds: the log may be trimmed up to here.
    pub mark: ReplicaMark,
    /// When it was made, milliseconds since 1970; for people, and 0 where nobody said.
    #[serde(default)]
    pub at: u64,
}

/// Name of a manifest.
pub fn manifest_name(shard: ShardId, number: u64, node: NodeId) -> String {
    format!("index/{shard}/{number:010}-{node}.manifest")
}

/// The snapshot of these files, and which of them must be uploaded.
pub fn next_snapshot(
    shard: ShardId,
    me: NodeId,
    local: &[LocalFile],
    mark: ReplicaMark,
    last: Option<&SnapshotManifest>,
) -> (SnapshotManifest, Vec<SnapshotFile>) {
    let number = last.map_or(0, |last| last.number) + 1;
    let mut uploads = Vec::new();
    let mut files = Vec::new();
    for file in local {
        let is_same = |old: &&SnapshotFile| {
            old.name == file.name && old.bytes == file.bytes && old.digest == file.digest
        };
        let known = last.and_then(|last| last.files.iter().find(is_same));
        let next = known.cloned().unwrap_or_else(|| {
            let blob = format!("index/{shard}/{number:010}-{me}/{}", file.name);
            let new = SnapshotFile {
                name: file.name.clone(),
                blob,
                bytes: file.bytes,
                digest: file.digest.clone(),
            };
            uploads.push(new.clone());
            new
        });
        files.push(next);
    }
    (SnapshotManifest { v: RECORD_VERSION, shard, number, node: me, mark, files }, uploads)
}

/// The pointer that follows, unless there is a newer one already.
pub fn next_pointer(
    manifest: &SnapshotManifest,
    me: NodeId,
    present: Option<&SnapshotPointer>,
) -> Option<SnapshotPointer> {
    if present.is_some_and(|present| present.number >= manifest.number) {
        return None;
    }
    Some(SnapshotPointer {
        v: RECORD_VERSION,
        number: manifest.number,
        node: me,
        manifest: manifest_name(manifest.shard, manifest.number, me),
        before: present.map(|present| present.manifest.clone()),
        mark: manifest.mark.clone(),
        at: 0,
    })
}

/// Which of a shard's blobs nobody needs any more. Those of later numbers are somebody's upload under way.
pub fn deletable(
    shard: ShardId,
    blobs: &[String],
    pointer: &SnapshotPointer,
    newest: &SnapshotManifest,
    before: Option<&SnapshotManifest>,
) -> Vec<String> {
    let files = newest.files.iter().chain(before.into_iter().flat_map(|before| &before.files));
    let mut needed: BTreeSet<&str> = files.map(|file| file.blob.as_str()).collect();
    needed.insert(&pointer.manifest);
    needed.extend(pointer.before.as_deref());
    let prefix = format!("index/{shard}/");
    let is_past = |blob: &str| {
        let rest = blob.strip_prefix(&prefix)?;
        let number: u64 = rest.split_once('-')?.0.parse().ok()?;
        Some(number < pointer.number)
    };
    let is_over = |blob: &&String| !needed.contains(blob.as_str()) && is_past(blob) == Some(true);
    blobs.iter().filter(is_over).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn files(names: &[&str]) -> Vec<LocalFile> {
        let file = |name: &&str| LocalFile { name: name.to_string(), bytes: 1, digest: format!("d-{name}") };
        names.iter().map(file).collect()
    }

    /// Uploads and deletes as a keeper does.
    #[derive(Default)]
    struct Store {
        blobs: BTreeSet<String>,
        last: Option<SnapshotManifest>,
        pointer: Option<SnapshotPointer>,
    }

    impl Store {
        fn snapshot(&mut self, me: NodeId, names: &[&str]) -> usize {
            let local = files(names);
            let (manifest, uploads) =
                next_snapshot(SHARD, me, &local, ReplicaMark::default(), self.last.as_ref());
            self.blobs.extend(uploads.iter().map(|file| file.blob.clone()));
            self.blobs.insert(manifest_name(SHARD, manifest.number, me));
            let pointer = next_pointer(&manifest, me, self.pointer.as_ref()).unwrap();
            let blobs: Vec<String> = self.blobs.iter().cloned().collect();
            for blob in deletable(SHARD, &blobs, &pointer, &manifest, self.last.as_ref()) {
                self.blobs.remove(&blob);
            }
            for manifest in [Some(&manifest), self.last.as_ref()].into_iter().flatten() {
                assert!(manifest.files.iter().all(|file| self.blobs.contains(&file.blob)));
            }
            (self.last, self.pointer) = (Some(manifest), Some(pointer));
            uploads.len()
        }
    }

    #[test]
    fn only_what_is_new_is_uploaded_and_only_what_is_old_deleted() {
        let mut store = Store::default();
        assert_eq!(store.snapshot(NodeId(1), &["a", "b"]), 2);
        assert_eq!(store.snapshot(NodeId(1), &["a", "b", "c"]), 1);
        assert_eq!(store.snapshot(NodeId(2), &["c", "d"]), 1);
        assert_eq!(store.blobs.len(), 4 + 2); // a and b are the last but one's.
        assert_eq!(store.snapshot(NodeId(2), &["d"]), 0);
        assert_eq!(store.blobs.len(), 2 + 2);
    }

    #[test]
    fn an_upload_under_way_stays() {
        let (newest, _) = next_snapshot(SHARD, NodeId(1), &files(&["a"]), ReplicaMark::default(), None);
        let pointer = next_pointer(&newest, NodeId(1), None).unwrap();
        let other = NodeId(2);
        let blobs = [
            format!("index/3/0000000000-{other}/x"),
            format!("index/3/0000000001-{other}/x"),
            format!("index/3/0000000002-{other}/x"),
            "index/3/strange".to_string(),
            format!("index/33/0000000000-{other}/x"),
        ];
        assert_eq!(deletable(SHARD, &blobs, &pointer, &newest, None), [blobs[0].clone()]);
    }

    #[test]
    fn the_pointer_never_goes_back() {
        let (old, _) = next_snapshot(SHARD, NodeId(1), &files(&["a"]), ReplicaMark::default(), None);
        let (new, _) = next_snapshot(SHARD, NodeId(1), &files(&["b"]), ReplicaMark::default(), Some(&old));
        let pointer = next_pointer(&new, NodeId(1), None).unwrap();
        assert_eq!(next_pointer(&old, NodeId(1), Some(&pointer)), None);
        assert_eq!(next_pointer(&new, NodeId(1), Some(&pointer)), None);
    }
}
