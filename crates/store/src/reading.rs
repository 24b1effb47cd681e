//! Reads a file of a [`Disk`] from front to back, and always knows at which byte it is.

use farol_base::disk::Disk;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

/// A file as a buffered reader, up to a chosen end.
#[derive(Debug)]
pub(crate) struct DiskReader {
    disk: Arc<dyn Disk>,
    name: String,
    /// Offset of the byte after the buffer.
    next: u64,
    end: u64,
    buffer: Vec<u8>,
    used: usize,
    piece_bytes: usize,
}

impl DiskReader {
    /// Reads from `start` up to `end` or the end of the file, `piece_bytes` at a time.
    pub fn new(disk: Arc<dyn Disk>, name: &str, start: u64, end: u64, piece_bytes: usize) -> DiskReader {
        DiskReader {
            disk,
            name: name.to_string(),
            next: start,
            end,
            buffer: Vec::new(),
            used: 0,
            piece_bytes,
        }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> u64 {
        self.next - (self.buffer.len() - self.used) as u64
    }

    /// Changes the end up to which it reads.
    pub fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Goes elsewhere in the same file.
    pub fn seek(&mut self, offset: u64) {
        let buffered = self.next - self.buffer.len() as u64;
        match offset.checked_sub(buffered).and_then(|skip| usize::try_from(skip).ok()) {
            Some(skip) if skip <= self.buffer.len() => self.used = skip,
            _ => {
                self.buffer.clear();
                (self.used, self.next) = (0, offset);
            }
        }
    }
}

impl BufRead for DiskReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.buffer.len() {
            let room = usize::try_from(self.end.saturating_sub(self.next)).unwrap_or(usize::MAX);
            self.used = 0;
            self.buffer.resize(self.piece_bytes.min(room), 0);
            let count = if self.buffer.is_empty() {
                0
            } else {
                match self.disk.read_at(&self.name, self.next, &mut self.buffer) {
                    Ok(count) => count,
                    Err(error) => {
                        self.buffer.clear();
                        return Err(error);
                    }
                }
            };
            self.buffer.truncate(count);
            self.next += count as u64;
        }
        Ok(&self.buffer[self.used..])
    }

    fn consume(&mut self, count: usize) {
        self.used = (self.used + count).min(self.buffer.len());
    }
}

impl Read for DiskReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let buffered = self.fill_buf()?;
        let count = buffered.len().min(into.len());
        into[..count].copy_from_slice(&buffered[..count]);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;

    #[test]
    fn it_knows_where_it_is() {
        let disk = Mem::new();
        disk.append("x", b"0123456789").unwrap();
        let mut reader = DiskReader::new(Arc::new(disk), "x", 2, 9, 3);
        let mut two = [0; 2];
        reader.read_exact(&mut two).unwrap();
        assert_eq!((&two, reader.position()), (b"23", 4));
        reader.seek(2);
        reader.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"23");
        reader.seek(7);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!((rest.as_slice(), reader.position()), (b"78".as_slice(), 9)); // Up to its end, not the file's.
        reader.seek(0);
        assert_eq!(reader.fill_buf().unwrap(), b"012");
    }
}
