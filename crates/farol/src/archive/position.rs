//! Positions of the archive as bytes in tables.

use farol_base::PagePosition;

/// Writes a position as 12 bytes, big end first.
pub fn write_position(at: PagePosition) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&at.file.to_be_bytes());
    bytes[4..].copy_from_slice(&at.offset.to_be_bytes());
    bytes
}

/// Reads what [`write_position`] wrote; anything else is the beginning.
pub fn read_position(bytes: &[u8]) -> PagePosition {
    match (bytes.get(..4).and_then(|b| b.try_into().ok()), bytes.get(4..12).and_then(|b| b.try_into().ok())) {
        (Some(file), Some(offset)) => {
            PagePosition { file: u32::from_be_bytes(file), offset: u64::from_be_bytes(offset) }
        }
        _ => PagePosition::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_writing() {
        let at = PagePosition { file: 3, offset: 1 << 40 };
        assert_eq!(read_position(&write_position(at)), at);
        assert_eq!(read_position(b"short"), PagePosition::default());
    }
}
