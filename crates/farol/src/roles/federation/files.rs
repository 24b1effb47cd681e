//! Packets on disk: `federation/out/AGREEMENT/SEQUENCE.idx`.

use anyhow::{Context, Result};
use farol_base::Timestamp;
use farol_federation::agreement::AgreementId;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingPackets {
    pub packets: u64,
    pub bytes: u64,
    /// Since when the oldest does.
    pub since: Option<Timestamp>,
}

fn dir(folder: &Path, id: AgreementId) -> PathBuf {
    folder.join("out").join(id.to_string())
}

fn path(folder: &Path, id: AgreementId, sequence: u64) -> PathBuf {
    dir(folder, id).join(format!("{sequence}.idx"))
}

/// Makes the folder of an agreement.
pub fn open(folder: &Path, id: AgreementId) -> Result<()> {
    let dir = dir(folder, id);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))
}

/// Numbers of the packets that are there, in their order.
pub fn numbers(folder: &Path, id: AgreementId) -> Result<Vec<u64>> {
    let dir = dir(folder, id);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", dir.display())),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".idx")?.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Deletes all packets but these.
pub fn keep_only(folder: &Path, id: AgreementId, kept: RangeInclusive<u64>) -> Result<()> {
    for number in numbers(folder, id)?.into_iter().filter(|number| !kept.contains(number)) {
        remove(folder, id, number);
    }
    Ok(())
}

/// Writes a packet so that it survives a power cut.
pub fn write(folder: &Path, id: AgreementId, sequence: u64, packet: &[u8]) -> Result<()> {
    let path = path(folder, id, sequence);
    let begun = path.with_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&begun)?;
        file.write_all(packet)?;
        file.sync_all()?;
        std::fs::rename(&begun, &path)?;
        std::fs::File::open(dir(folder, id))?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a packet.
pub fn read(folder: &Path, id: AgreementId, sequence: u64) -> Result<Vec<u8>> {
    let path = path(folder, id, sequence);
    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Deletes a packet; one that cannot be deleted is deleted at the next start.
pub fn remove(folder: &Path, id: AgreementId, sequence: u64) {
    let _ = std::fs::remove_file(path(folder, id, sequence));
}

/// Deletes all of an agreement.
pub fn clear(folder: &Path, id: AgreementId) {
    let _ = std::fs::remove_dir_all(dir(folder, id));
}

/// How much waits.
pub fn waiting(folder: &Path, id: AgreementId) -> Result<WaitingPackets> {
    let mut waiting = WaitingPackets::default();
    for number in numbers(folder, id)? {
        // One that was acknowledged just now is gone.
        let Ok(file) = std::fs::metadata(path(folder, id, number)) else { continue };
        waiting.packets += 1;
        waiting.bytes += file.len();
        let written = file.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let written = written.map(|since| Timestamp::from_millis(since.as_millis() as u64));
        waiting.since = match (waiting.since, written) {
            (Some(oldest), Some(written)) => Some(oldest.min(written)),
            (oldest, written) => oldest.or(written),
        };
    }
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_kept_in_their_order_until_they_are_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let id = AgreementId([1; 16]);
        assert!(numbers(dir.path(), id).unwrap().is_empty());
        open(dir.path(), id).unwrap();
        for number in [2, 10, 1] {
            write(dir.path(), id, number, &[number as u8; 10]).unwrap();
        }
        assert_eq!(numbers(dir.path(), id).unwrap(), [1, 2, 10]);
        let waiting = waiting(dir.path(), id).unwrap();
        assert_eq!((waiting.packets, waiting.bytes), (3, 30));
        assert_eq!(read(dir.path(), id, 2).unwrap(), [2; 10]);
        keep_only(dir.path(), id, 2..=9).unwrap();
        assert_eq!(numbers(dir.path(), id).unwrap(), [2]);
        clear(dir.path(), id);
        assert!(numbers(dir.path(), id).unwrap().is_empty());
    }
}
