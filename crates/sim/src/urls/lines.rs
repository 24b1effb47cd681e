//! A load from files of URLs, one a line: plain, gzip (`.gz`) or zstd (`.zst`).
//!
//! Lines come in their order as extracted URLs, a fixed number per cycle. Does not look for doubles; lines that are no
//! URLs to crawl are counted and skipped.

use super::load::BATCH;
use crate::Error;
use farol_base::CanonicalUrl;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Reads files of URLs.
pub struct Lines {
    files: VecDeque<PathBuf>,
    current: Option<(PathBuf, Box<dyn BufRead>)>,
    per_cycle: u64,
    left: u64,
    skipped: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Reads these files one after the other, `per_cycle` URLs in each cycle.
    pub fn open(files: &[PathBuf], per_cycle: u64) -> Result<Lines, Error> {
        let mut lines = Lines {
            files: files.iter().cloned().collect(),
            current: None,
            per_cycle,
            left: 0,
            skipped: 0,
            line: Vec::new(),
        };
        lines.next_file()?;
        Ok(lines)
    }

    /// Begins a cycle; `None` where nothing is left.
    pub fn begin_cycle(&mut self) -> Option<()> {
        self.left = self.per_cycle;
        self.current.is_some().then_some(())
    }

    /// Hands over the next URLs of this cycle.
    pub fn extract(&mut self, push: &mut impl FnMut(CanonicalUrl)) -> Result<(), Error> {
        let mut count = self.left.min(BATCH as u64);
        self.left -= count;
        while count > 0 {
            let Some((path, reader)) = &mut self.current else { return Ok(()) };
            self.line.clear();
            let read = reader.read_until(b'\n', &mut self.line).map_err(Error::file("read", path))?;
            if read == 0 {
                self.next_file()?;
                continue;
            }
            let url = std::str::from_utf8(&self.line).ok().map(str::trim).map(CanonicalUrl::parse);
            match url {
                Some(Ok(url)) => {
                    push(url);
                    count -= 1;
                }
                _ => self.skipped += u64::from(!self.line.trim_ascii().is_empty()),
            }
        }
        Ok(())
    }

    /// Lines that were no URLs so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn next_file(&mut self) -> Result<(), Error> {
        self.current = match self.files.pop_front() {
            Some(path) => {
                let reader = open(&path).map_err(Error::file("open", &path))?;
                Some((path, reader))
            }
            None => None,
        };
        Ok(())
    }
}

fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    let file = File::open(path)?;
    let reader: Box<dyn Read> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Box::new(flate2::read::MultiGzDecoder::new(file)),
        Some("zst") => Box::new(zstd::Decoder::new(file)?),
        _ => Box::new(file),
    };
    Ok(Box::new(BufReader::with_capacity(1 << 18, reader)))
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let current = self.current.as_ref().map(|(path, _)| path);
        f.debug_struct("Lines").field("current", &current).field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_are_read_in_turn_and_bad_lines_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, gzip, zst) =
            (folder.path().join("a.txt"), folder.path().join("b.gz"), folder.path().join("c.zst"));
        std::fs::write(&plain, "http://h/1\nnot a url\n\nHTTP://H/2").unwrap();
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&gzip).unwrap(), flate2::Compression::fast());
        encoder.write_all(b"http://h/3\nmailto:x@y\n").unwrap();
        encoder.finish().unwrap();
        std::fs::write(&zst, zstd::encode_all(&b"http://h/4\n\xFF\nhttp://h/5\n"[..], 1).unwrap()).unwrap();
        let mut lines = Lines::open(&[plain, gzip, zst], 3).unwrap();
        let mut cycles = Vec::new();
        while lines.begin_cycle().is_some() {
            let mut texts = Vec::new();
            lines.extract(&mut |url| texts.push(url.path()[1..].to_string())).unwrap();
            cycles.push(texts.concat());
        }
        assert_eq!((cycles, lines.skipped()), (vec!["123".to_string(), "45".to_string()], 3));
    }
}
