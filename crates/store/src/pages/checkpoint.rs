//! Remembers up to where the archive was synced, so that opening need not read a whole file.
//!
//! Only a hint: where it is missing, damaged or ahead of the file, the last file is read from its start.

use farol_base::PagePosition;
use farol_base::disk::Disk;
use std::io;

/// Name of its file.
pub(super) const FILE: &str = "archive.checkpoint";

const MAGIC: &[u8; 8] = b"FAROLCP1";
const BYTES: usize = 8 + 4 + 8 + 4;

/// Reads the position; `None` where there is none to be trusted.
pub(super) fn read(disk: &dyn Disk) -> Option<PagePosition> {
    let mut bytes = [0; BYTES];
    let count = disk.read_at(FILE, 0, &mut bytes).ok()?;
    let (content, checksum) = bytes.split_at(BYTES - 4);
    let whole = count == BYTES && content.starts_with(MAGIC);
    if !whole || crc32fast::hash(content).to_le_bytes() != checksum {
        return None;
    }
    let file = u32::from_le_bytes(content[8..12].try_into().ok()?);
    let offset = u64::from_le_bytes(content[12..20].try_into().ok()?);
    Some(PagePosition { file, offset })
}

/// Replaces the position.
pub(super) fn write(disk: &dyn Disk, position: PagePosition) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&position.file.to_le_bytes());
    bytes.extend_from_slice(&position.offset.to_le_bytes());
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    let tmp = format!("{FILE}.tmp");
    disk.remove(&tmp)?;
    disk.append(&tmp, &bytes)?;
    disk.rename(&tmp, FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;

    #[test]
    fn a_checkpoint_comes_back_whole_or_not_at_all() {
        let disk = Mem::new();
        assert_eq!(read(&disk), None);
        for file in 0..3 {
            let position = PagePosition { file, offset: 1 << 33 };
            write(&disk, position).unwrap();
            assert_eq!(read(&disk), Some(position));
        }
        disk.truncate(FILE, 20).unwrap();
        assert_eq!(read(&disk), None);
        disk.append(FILE, &[1, 2, 3, 4]).unwrap();
        assert_eq!(read(&disk), None);
    }
}
