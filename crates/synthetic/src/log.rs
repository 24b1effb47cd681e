//! The request log: one entry per request, written when its answer is done.
//!
//! The file is JSON lines, so that other tools read it too. Writing is a copy into a buffer under a lock; a crawl
//! benchmark may also switch the log off.

use super::answer::Served;
use crate::Error;
use farol_base::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

/// One request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When the request had arrived: microseconds since 1970.
    pub start_us: u64,
    /// When the last bytes of the answer were handed to the network; a client cannot have had all of it before.
    pub end_us: u64,
    /// The address that the client connected to.
    pub address: IpAddr,
    /// Host name that was asked for, without port, in lower case.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Status that was sent; 0 where the answer was not HTTP at all.
    pub status: u16,
    /// Bytes sent, head included.
    pub bytes: u64,
    pub served: Served,
    /// `Retry-After` that was sent, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_secs: Option<u32>,
    /// The request had `If-None-Match` or `If-Modified-Since`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conditional: bool,
    /// The request came as to a proxy, so its address says nothing about the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxied: bool,
    /// The client left before the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Where entries go. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct LogSink(Arc<Sink>);

#[derive(Debug)]
enum Sink {
    Off,
    Memory(Mutex<Vec<Entry>>),
    File(Mutex<BufWriter<File>>),
}

/// Entries that a log in memory keeps: 2 million × about 200 bytes = 400 MB. Later ones are dropped.
const MEMORY_ENTRIES_MAX: usize = 2_000_000;
const FILE_BUFFER_BYTES: usize = 256 << 10;

impl LogSink {
    /// Keeps nothing.
    pub fn off() -> LogSink {
        LogSink(Arc::new(Sink::Off))
    }

    /// Keeps entries in memory, at most two million; see [`LogSink::entries`].
    pub fn memory() -> LogSink {
        LogSink(Arc::new(Sink::Memory(Mutex::new(Vec::new()))))
    }

    /// Writes entries to a new file.
    pub fn file(path: &Path) -> io::Result<LogSink> {
        let file = BufWriter::with_capacity(FILE_BUFFER_BYTES, File::create(path)?);
        Ok(LogSink(Arc::new(Sink::File(Mutex::new(file)))))
    }

    /// Whether entries are kept at all.
    pub fn is_on(&self) -> bool {
        !matches!(*self.0, Sink::Off)
    }

    /// Takes an entry.
    pub fn write(&self, entry: Entry) {
        match &*self.0 {
            Sink::Off => {}
            Sink::Memory(entries) => {
                let mut entries = lock(entries);
                if entries.len() < MEMORY_ENTRIES_MAX {
                    entries.push(entry);
                }
            }
            Sink::File(file) => {
                let mut line = serde_json::to_vec(&entry).unwrap_or_default();
                line.push(b'\n');
                if let Err(error) = lock(file).write_all(&line) {
                    tracing::warn!(%error, "the request log cannot be written");
                }
            }
        }
    }

    /// The entries so far of a log in memory, in the order in which answers were done; none for other logs.
    pub fn entries(&self) -> Vec<Entry> {
        match &*self.0 {
            Sink::Memory(entries) => lock(entries).clone(),
            Sink::Off | Sink::File(_) => Vec::new(),
        }
    }

    /// Hands buffered entries to the file.
    pub fn flush(&self) -> io::Result<()> {
        match &*self.0 {
            Sink::File(file) => lock(file).flush(),
            Sink::Off | Sink::Memory(_) => Ok(()),
        }
    }
}

/// Reads a log file. A last line without its end, as a killed server leaves it, is passed over.
///
/// # Errors
/// [`Error::Log`] for a line that is no entry, [`Error::Read`] where reading fails.
pub fn read_log(mut from: impl BufRead) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        // The longest entry has a request head of 16 KiB in it, twice as long when escaped.
        let read = io::Read::take(&mut from, 1 << 20).read_until(b'\n', &mut line).map_err(Error::Read)?;
        if read == 0 || line.last() != Some(&b'\n') {
            break;
        }
        entries.push(serde_json::from_slice(&line).map_err(|source| Error::Log { line: number, source })?);
    }
    Ok(entries)
}

/// A thread that panicked while it held the lock left a whole entry or none.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Entry {
        Entry {
            start_us: 5,
            end_us: 9,
            address: IpAddr::from([127, 1, 2, 3]),
            host: "h".to_string(),
            path: path.to_string(),
            status: 200,
            bytes: 10,
            served: Served::Page,
            retry_after_secs: None,
            conditional: true,
            proxied: false,
            cut: false,
        }
    }

    #[test]
    fn a_file_reads_back_and_a_torn_end_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let sink = LogSink::file(&path).unwrap();
        let entries = [entry("/"), entry("/é?\"x\"")];
        entries.iter().for_each(|entry| sink.write(entry.clone()));
        sink.flush().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!(read_log(&bytes[..]).unwrap(), entries);
        bytes.truncate(bytes.len() - 3);
        assert_eq!(read_log(&bytes[..]).unwrap(), entries[..1]);
        assert!(matches!(read_log(&b"{}\n"[..]), Err(Error::Log { line: 1, .. })));
        assert!(read_log(&b""[..]).unwrap().is_empty());
    }

    #[test]
    fn sinks_keep_what_they_say() {
        let memory = LogSink::memory();
        memory.clone().write(entry("/"));
        assert_eq!(memory.entries().len(), 1);
        assert!(memory.is_on() && !LogSink::off().is_on());
        LogSink::off().write(entry("/"));
        assert!(LogSink::off().entries().is_empty());
    }
}
