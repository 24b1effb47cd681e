//! URLs that wait to be collected, first in, first out, in files of 64 MiB that are removed once they are read.
//!
//! IRLbot's and Mercator's way: what the structure found to be new leaves it as text. Does not open again after the
//! process ends; it serves yardsticks only.

use farol_base::CanonicalUrl;
use farol_base::url::BaseUrl;
use farol_store::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

const SEGMENT_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 18;

/// A queue of URLs on disk.
#[derive(Debug)]
pub struct Queue {
    folder: PathBuf,
    writer: Option<BufWriter<File>>,
    writing: u64,
    written_bytes: u64,
    reader: Option<BufReader<File>>,
    reading: u64,
    waiting: u64,
    text: Vec<u8>,
    /// Reads plain texts quickly; whole addresses do not depend on it.
    base: BaseUrl,
}

impl Queue {
    /// An empty queue in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Queue {
        Queue {
            folder: folder.into(),
            writer: None,
            writing: 0,
            written_bytes: 0,
            reader: None,
            reading: 0,
            waiting: 0,
            text: Vec::new(),
            base: CanonicalUrl::parse("http://base/").expect("a constant URL is valid").to_base(),
        }
    }

    pub fn len(&self) -> u64 {
        self.waiting
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Puts a canonical URL at the end.
    pub fn push(&mut self, text: &[u8]) -> Result<(), Error> {
        if self.writer.is_none() || self.written_bytes >= SEGMENT_BYTES {
            self.flush()?;
            self.writing += 1;
            let file = File::create(self.path(self.writing)).map_err(failed("make"))?;
            self.writer = Some(BufWriter::with_capacity(BUFFER_BYTES, file));
            self.written_bytes = 0;
        }
        if let Some(writer) = &mut self.writer {
            writer.write_all(&(text.len() as u16).to_le_bytes()).map_err(failed("write to"))?;
            writer.write_all(text).map_err(failed("write to"))?;
        }
        self.written_bytes += 2 + text.len() as u64;
        self.waiting += 1;
        Ok(())
    }

    /// Takes the URLs that wait longest.
    pub fn take(&mut self, limit: usize) -> Result<Vec<CanonicalUrl>, Error> {
        self.flush()?;
        let count = self.waiting.min(limit as u64);
        let mut urls = Vec::with_capacity(count as usize);
        for _ in 0..count {
            while !self.read_next().map_err(failed("read"))? {
                self.next_segment().map_err(failed("read"))?;
            }
            let damaged = |what: String| Error::Damaged { file: "queue".into(), offset: 0, what };
            let text = std::str::from_utf8(&self.text).map_err(|error| damaged(error.to_string()))?;
            let url = self.base.join(text).map_err(|error| damaged(error.to_string()))?;
            if url.as_str() != text {
                return Err(damaged(format!("{text} is not canonical")));
            }
            urls.push(url);
        }
        self.waiting -= count;
        Ok(urls)
    }

    /// Hands everything to the system.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.flush().map_err(failed("write to")))
    }

    /// Reads a text; `false` at a segment's end.
    fn read_next(&mut self) -> io::Result<bool> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let mut len = [0; 2];
        match reader.read_exact(&mut len) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        self.text.resize(usize::from(u16::from_le_bytes(len)), 0);
        reader.read_exact(&mut self.text)?;
        Ok(true)
    }

    fn next_segment(&mut self) -> io::Result<()> {
        if self.reader.take().is_some() {
            fs::remove_file(self.path(self.reading))?;
        }
        self.reading += 1;
        self.reader = Some(BufReader::with_capacity(BUFFER_BYTES, File::open(self.path(self.reading))?));
        Ok(())
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("queue-{segment:06}"))
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, file: "queue".to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_and_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::new(folder.path());
        let long = "x".repeat(2000);
        let url = |i: usize| format!("http://h/{i}/{long}");
        let (mut pushed, mut taken) = (0, 0);
        for count in [10, 40_000, 1, 30_000] {
            for _ in 0..count {
                queue.push(url(pushed).as_bytes()).unwrap();
                pushed += 1;
            }
            for got in queue.take(count / 2 + 1).unwrap() {
                assert_eq!(got.as_str(), url(taken));
                taken += 1;
            }
        }
        assert_eq!(queue.len(), (pushed - taken) as u64);
        assert_eq!(queue.take(usize::MAX).unwrap().len(), pushed - taken);
        assert!(queue.is_empty() && queue.take(1).unwrap().is_empty());
        // 140 MB were written in three files; the one that was read last may stay.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
