//! Segments: the files of the WAL, named after the sequence number of their first batch.

use crate::Error;
use farol_base::PagePosition;
use farol_base::disk::Disk;

const MAGIC: &[u8; 8] = b"FAROLLOG";
pub const VERSION: u32 = 2;
/// Magic, version, first batch, watermark (file, offset), checksum of these.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 8 + 4;

/// A file of the WAL.
#[derive(Debug)]
pub struct WalSegment {
    pub file: String,
    /// Sequence number of its first batch.
    pub first: u64,
    pub len: u64,
}

pub fn segment_name(first: u64) -> String {
    format!("log-{first:012}")
}

/// Returns when these files, up to these lengths, would survive a power cut; one that is no longer needed may
/// be deleted.
pub fn sync(disk: &dyn Disk, files: &[(String, u64)]) -> Result<(), Error> {
    for (file, len) in files {
        match disk.sync(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            result => {
                result.map_err(Error::io("sync", file))?;
                // Nobody reads it but after a crash. Dropped from the page cache, its pages serve for what is appended
                // next; fresh ones can take the producer several times as long.
                disk.drop_cache(file, *len);
            }
        }
    }
    Ok(())
}

pub fn header(first: u64, watermark: PagePosition) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&first.to_le_bytes());
    header.extend_from_slice(&watermark.file.to_le_bytes());
    header.extend_from_slice(&watermark.offset.to_le_bytes());
    header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
    header
}

pub fn read_header(file: &str, head: &[u8; HEADER_BYTES]) -> Result<(u64, PagePosition), Error> {
    // The checksum first: a flipped bit is damage, not another version.
    if crc32fast::hash(&head[..HEADER_BYTES - 4]).to_le_bytes() != head[HEADER_BYTES - 4..] {
        return Err(Error::Damaged {
            file: file.to_string(),
            offset: 0,
            what: "its header does not fit".to_string(),
        });
    }
    if &head[..8] != MAGIC {
        return Err(Error::NotOurs { file: file.to_string() });
    }
    let version = u32::from_le_bytes(std::array::from_fn(|i| head[8 + i]));
    if version != VERSION {
        return Err(Error::Version { file: file.to_string(), found: version, known: VERSION });
    }
    let first = u64::from_le_bytes(std::array::from_fn(|i| head[12 + i]));
    let file_number = u32::from_le_bytes(std::array::from_fn(|i| head[20 + i]));
    let offset = u64::from_le_bytes(std::array::from_fn(|i| head[24 + i]));
    Ok((first, PagePosition { file: file_number, offset }))
}
