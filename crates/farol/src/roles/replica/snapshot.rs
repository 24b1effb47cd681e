//! Copies of a replica in shared storage, so that a new one need not read everything that ever happened.
//!
//! What to upload and what to delete is decided by `farol_cluster::snapshot`. The files are linked beside the replica,
//! which goes on, and uploaded by a thread of their own.

use super::{IndexService, birth, files};
use anyhow::{Context, Result, bail};
use farol_base::{Clock, SystemClock};
use farol_cluster::record::{ReplicaMark, read, write};
use farol_cluster::snapshot::{
    LocalFile, SnapshotFile, SnapshotManifest, SnapshotPointer, deletable, manifest_name, next_pointer,
    next_snapshot,
};
use farol_cluster::{Key, ShardId};
use farol_fabric::Revision;
use std::io::Read;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A snapshot that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(30);

/// When the next snapshot is due, and the one under way.
pub struct Schedule {
    every: Duration,
    /// Bytes of the log that may be in no snapshot.
    unsaved_max: u64,
    next: Instant,
    /// A failure rests until then, however much has come since.
    rests_until: Instant,
    /// What the last one holds.
    mark: Option<ReplicaMark>,
    under_way: Option<(JoinHandle<Result<()>>, ReplicaMark)>,
}

impl Schedule {
    pub fn new(every: Duration, unsaved_max: u64) -> Schedule {
        // The first one soon: until there is one, the log keeps everything.
        let now = Instant::now();
        Schedule { every, unsaved_max, next: now + every / 10, rests_until: now, mark: None, under_way: None }
    }

    /// Whether there is something new to upload, and it is time, or so much that the log fills up.
    pub fn is_due(&self, mark: &ReplicaMark, unsaved: u64) -> bool {
        let now = Instant::now();
        let is_time = now >= self.next || unsaved >= self.unsaved_max && now >= self.rests_until;
        self.under_way.is_none() && is_time && self.mark.as_ref() != Some(mark)
    }

    /// Links the files of the last commit, and uploads them beside whatever else happens.
    pub fn begin(&mut self, service: &IndexService, id: ShardId, mark: &ReplicaMark) -> Result<()> {
        self.next = Instant::now() + RETRY;
        self.rests_until = self.next;
        let staged = service.dir.join(format!("{id}.snapshot"));
        files::link(&service.folder(id), &staged)?;
        let (service, upload_mark) = (service.clone(), mark.clone());
        let thread = std::thread::Builder::new().name(format!("snapshot {id}")).spawn(move || {
            crate::process::be_nice();
            let uploaded = upload(&service, id, &staged, upload_mark);
            let _ = std::fs::remove_dir_all(&staged);
            uploaded
        })?;
        self.under_way = Some((thread, mark.clone()));
        Ok(())
    }

    /// What came of an upload that has ended since the last time.
    pub fn ended(&mut self) -> Option<Result<()>> {
        let (thread, mark) = self.under_way.take_if(|(thread, _)| thread.is_finished())?;
        let result = thread.join().unwrap_or_else(|_| bail!("uploading broke down"));
        if result.is_ok() {
            self.next = Instant::now() + self.every;
            self.rests_until = Instant::now();
            self.mark = Some(mark);
        }
        Some(result)
    }
}

fn pointer_of(service: &IndexService, id: ShardId) -> Result<Option<(SnapshotPointer, Revision)>> {
    let key = Key::Snapshot(id).to_string();
    let Some((value, revision)) = service.fabric.get(&key)? else { return Ok(None) };
    let pointer = read(&key, &value).map_err(anyhow::Error::msg)?;
    Ok(Some((pointer, revision)))
}

fn manifest_of(service: &IndexService, name: &str) -> Result<SnapshotManifest> {
    let bytes = service.blobs.get(name)?;
    serde_json::from_slice(&bytes).with_context(|| format!("{name} cannot be read"))
}

fn upload(service: &IndexService, id: ShardId, staged: &Path, mark: ReplicaMark) -> Result<()> {
    let present = pointer_of(service, id)?;
    let last = present.as_ref().map(|(pointer, _)| manifest_of(service, &pointer.manifest)).transpose();
    // A manifest that cannot be read is as good as none: everything is uploaded.
    let last = last.unwrap_or_else(|error| {
        tracing::warn!("the last snapshot of shard {id} cannot be read: {error:#}");
        None
    });
    let mut local = Vec::new();
    for entry in std::fs::read_dir(staged)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !files::is_copied(&name) {
            continue;
        }
        local.push(LocalFile { name, bytes: entry.metadata()?.len(), digest: digest(&entry.path())? });
    }
    let floor = present.as_ref().map_or(0, |(pointer, _)| pointer.number);
    let (mut manifest, uploads) = next_snapshot(id, service.me, &local, mark, last.as_ref());
    manifest.number = manifest.number.max(floor + 1);
    for file in &uploads {
        service.blobs.put_file(&file.blob, &staged.join(&file.name))?;
    }
    let name = manifest_name(id, manifest.number, service.me);
    service.blobs.put(&name, &serde_json::to_vec(&manifest)?)?;
    let (pointer, revision) = match &present {
        Some((pointer, revision)) => (Some(pointer), *revision),
        None => (None, Revision::NONE),
    };
    if let Some(mut next) = next_pointer(&manifest, service.me, pointer) {
        next.at = SystemClock.now().as_millis();
        service.fabric.set(&Key::Snapshot(id).to_string(), &write(&next), revision)?;
        tidy_up(service, id, &next, &manifest, last.as_ref());
    }
    Ok(())
}

/// Deletes what no snapshot needs any more; what stays behind is deleted the next time.
fn tidy_up(
    service: &IndexService,
    id: ShardId,
    pointer: &SnapshotPointer,
    newest: &SnapshotManifest,
    before: Option<&SnapshotManifest>,
) {
    let blobs = service.blobs.list(&format!("index/{id}/")).unwrap_or_default();
    for blob in deletable(id, &blobs, pointer, newest, before) {
        if let Err(error) = service.blobs.delete(&blob) {
            tracing::debug!(%error, blob, "stays behind");
        }
    }
}

/// Fills a folder with the newest snapshot; whether there is one.
pub fn download(service: &IndexService, id: ShardId, dir: &Path) -> Result<bool> {
    let Some((pointer, _)) = pointer_of(service, id)? else { return Ok(false) };
    let manifest = manifest_of(service, &pointer.manifest)?;
    let new = birth::new_folder(service, id);
    if new.exists() {
        std::fs::remove_dir_all(&new)?;
    }
    std::fs::create_dir_all(&new)?;
    for file in &manifest.files {
        fetch(service, file, &new)?;
    }
    files::complete(&new)?;
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::rename(&new, dir)?;
    tracing::info!(shard = id.0, number = manifest.number, "filled from a snapshot");
    Ok(true)
}

fn fetch(service: &IndexService, file: &SnapshotFile, to: &Path) -> Result<()> {
    // Names of files come from another node.
    let is_plain = !file.name.is_empty() && !file.name.contains(['/', '\\']) && file.name != "..";
    anyhow::ensure!(is_plain, "a snapshot names a file {:?}", file.name);
    let path = to.join(&file.name);
    service.blobs.get_file(&file.blob, &path)?;
    let found = (std::fs::metadata(&path)?.len(), digest(&path)?);
    anyhow::ensure!(
        found == (file.bytes, file.digest.clone()),
        "{} is damaged in shared storage: {} bytes with digest {} instead of {} with {}",
        file.blob,
        found.0,
        found.1,
        file.bytes,
        file.digest
    );
    Ok(())
}

/// CRC-32 of a file: tells a torn or flipped copy, as the archive's own checksums do.
fn digest(path: &Path) -> Result<String> {
    let (mut file, mut hasher) = (std::fs::File::open(path)?, crc32fast::Hasher::new());
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(format!("{:08x}", hasher.finalize())),
            count => hasher.update(&chunk[..count]),
        }
    }
}
