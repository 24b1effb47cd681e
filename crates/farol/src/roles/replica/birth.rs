//! How a replica comes to its folder: it has it, divides it off its parent, downloads a snapshot, or begins empty.

use super::{IndexService, files, mark, snapshot};
use anyhow::{Context, Result};
use farol_cluster::record::ReplicaMark;
use farol_cluster::{ShardEntry, ShardId, ShardState};
use farol_fabric::blobs::BlobError;
use farol_index::{Error, Shard};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A half whose parent is not here, and whoever misses a snapshot that should be there, waits so long for it before the
/// replica is filled from the archives.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens the replica; `None` where it was told to stop first, or is wanted no more.
pub fn open(service: &IndexService, id: ShardId, stop: &AtomicBool) -> Result<Option<Shard>> {
    let dir = service.folder(id);
    if dir.join("meta.json").exists() {
        match Shard::open(&dir, service.options.clone()) {
            Ok(shard) => return Ok(Some(shard)),
            Err(error) if error.is_earlier_format() || matches!(error, Error::Damaged { .. }) => {
                tracing::warn!("shard {id} cannot be used and is built anew: {error}");
                std::fs::remove_dir_all(&dir)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let begun = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let Some(entry) = service.entry(id) else { return Ok(None) };
        if let ShardState::Forming { parent } = entry.state
            && divide(service, &entry, parent, begun.elapsed())?
        {
            break;
        }
        match snapshot::download(service, id, &dir) {
            Ok(true) => break,
            Ok(false) => (),
            // Shared storage may be mounted in a moment; where it was lost, agents send everything again.
            Err(error) if is_missing(&error) => {
                if begun.elapsed() > PATIENCE {
                    tracing::warn!("shard {id} is filled from the archives: its snapshot is gone: {error:#}");
                    break;
                }
                std::thread::sleep(Duration::from_millis(500));
                continue;
            }
            Err(error) => return Err(error),
        }
        let is_forming = matches!(entry.state, ShardState::Forming { .. });
        if entry.born_of.is_none() || (!is_forming && begun.elapsed() > PATIENCE) {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    if stop.load(Ordering::SeqCst) {
        return Ok(None);
    }
    Ok(Some(Shard::open(&dir, service.options.clone())?))
}

/// Whether a snapshot, or a part of it, is not there, whereas its place can be read.
fn is_missing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(BlobError::Missing(_))))
}

/// Makes this half out of the parent's replica on this node, once it may. Whether it did.
fn divide(service: &IndexService, entry: &ShardEntry, parent: ShardId, waited: Duration) -> Result<bool> {
    let view = service.cluster.view();
    let Some(whole) = view.shards.as_ref().and_then(|map| map.shard(parent)) else { return Ok(false) };
    let known = service.board.replicas.lock().get(&parent).map(|report| report.mark.clone());
    let Some(mark) = known.filter(|_| service.folder(parent).join("meta.json").exists()) else {
        return Ok(false);
    };
    if !whole.may_divide(&mark, u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)) {
        return Ok(false);
    }
    let (dir, new) = (service.folder(entry.id), new_folder(service, entry.id));
    files::link(&service.folder(parent), &new).context("the parent cannot be copied")?;
    let mut half = Shard::open(&new, service.options.clone())?;
    if let Some(last) = entry.from.checked_sub(1) {
        half.delete_range(0..=last)?;
    }
    if let Some(next) = entry.to.checked_add(1) {
        half.delete_range(next..=u64::MAX)?;
    }
    // Its own log begins where the parent's ends; where the parent's replica lacks something of that, so does it, and
    // misses it there.
    let own = ReplicaMark { stream: String::new(), seq: 0, from: mark::read(half.mark())?.from };
    half.commit(mark::write(&own).as_str())?;
    drop(half);
    std::fs::rename(&new, &dir)?;
    tracing::info!(shard = entry.id.0, parent = parent.0, "divided off");
    Ok(true)
}

/// Where a folder is put together before it gets its name.
pub fn new_folder(service: &IndexService, id: ShardId) -> PathBuf {
    service.dir.join(format!("{id}.new"))
}
