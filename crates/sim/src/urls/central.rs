//! One repository, hosts in order, rewritten every cycle: what VEUNI's author gave up for VEUNI (his Programme 7).
//!
//! Two files: a directory with each host's name, counts and bytes, and the hosts' paths, each host's sorted and
//! front-coded. A cycle sorts what came by host, passes both files once and writes new ones; hosts of which
//! nothing came are copied as they are. URLs are *scheduled* by VEUNI's rules: the 1,000 shortest of a new host, and
//! 1,000 more in order when fewer than 10 are left to collect. Scheduled URLs go to a queue, and are marked.
//!
//! Exact: texts are compared, not hashes. As [`super::drum`], it does not open again after the process ends.

use super::batch::{Batch, BatchUrl, HostPart};
use super::facts::Tally;
use super::front::FrontMerge;
use super::queue::Queue;
use farol_base::{CanonicalUrl, Timestamp};
use farol_store::Error;
use farol_store::urls::{Counts, Found, Verifier, Visit};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// URLs that are scheduled at a time, and how few may be left before that.
const SCHEDULED: usize = 1000;
const LEFT_MIN: u64 = 10;
const BUFFER_BYTES: usize = 1 << 20;

/// The structure.
#[derive(Debug)]
pub struct Central {
    folder: PathBuf,
    batch: Batch,
    queue: Queue,
    tally: Tally,
    /// Number of the newest files; 0 where there are none.
    generation: u64,
    hosts: u64,
}

/// A host as the directory has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DirectoryRow {
    host: String,
    urls: u64,
    /// Bytes of its paths.
    bytes: u64,
    /// Scheduled, not collected yet.
    left: u64,
    /// Neither scheduled nor collected.
    waiting: u64,
}

/// One pass over directory and paths.
struct Pass<'a> {
    old: Option<BufReader<File>>,
    /// The directory's next host.
    next: Option<DirectoryRow>,
    new: BufWriter<File>,
    paths: FrontMerge,
    queue: &'a mut Queue,
    tally: &'a mut Tally,
    hosts: u64,
    text: Vec<u8>,
}

impl Central {
    /// An empty repository in this folder.
    pub fn new(folder: &Path) -> Result<Central, Error> {
        fs::create_dir_all(folder).map_err(failed)?;
        Ok(Central {
            folder: folder.to_path_buf(),
            batch: Batch::default(),
            queue: Queue::new(folder),
            tally: Tally::default(),
            generation: 0,
            hosts: 0,
        })
    }

    fn merge(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let name = |kind: &str, generation: u64| self.folder.join(format!("{kind}-{generation}"));
        let old = |kind: &str| {
            let open = (self.generation > 0).then(|| File::open(name(kind, self.generation)));
            open.transpose().map_err(failed)
        };
        let new = |kind: &str| File::create(name(kind, self.generation + 1)).map_err(failed);
        let mut pass = Pass {
            old: old("hosts")?.map(|file| BufReader::with_capacity(BUFFER_BYTES, file)),
            next: None,
            new: BufWriter::with_capacity(BUFFER_BYTES, new("hosts")?),
            paths: FrontMerge::new(old("paths")?, new("paths")?),
            queue: &mut self.queue,
            tally: &mut self.tally,
            hosts: 0,
            text: Vec::new(),
        };
        pass.read_server()?;
        let sorted = self.batch.sort();
        for part in sorted.hosts() {
            pass.merge_host(&part)?;
        }
        self.hosts = pass.end()?;
        if self.generation > 0 {
            fs::remove_file(name("hosts", self.generation)).map_err(failed)?;
            fs::remove_file(name("paths", self.generation)).map_err(failed)?;
        }
        self.generation += 1;
        self.queue.flush()
    }
}

impl Pass<'_> {
    fn merge_host(&mut self, part: &HostPart<'_>) -> Result<(), Error> {
        while let Some(before) = self.next.take_if(|next| *next.host < *part.host) {
            self.paths.copy(before.bytes).map_err(failed)?;
            self.write_row(&before)?;
            self.read_server()?;
        }
        let known = self.next.take_if(|next| *next.host == *part.host);
        let is_new = known.is_none();
        let mut row =
            known.unwrap_or_else(|| DirectoryRow { host: part.host.to_string(), ..DirectoryRow::default() });
        let start = self.paths.bytes();
        self.paths.begin(row.urls);
        if is_new {
            self.insert_all(&mut row, part)?;
        } else {
            self.merge_paths(&mut row, part)?;
        }
        row.bytes = self.paths.bytes() - start;
        self.write_row(&row)?;
        if is_new { Ok(()) } else { self.read_server() }
    }

    fn merge_paths(&mut self, row: &mut DirectoryRow, part: &HostPart<'_>) -> Result<(), Error> {
        let collected = part.urls().filter(|url| url.facts.is_some()).count() as u64;
        let is_short = row.left.saturating_sub(collected) < LEFT_MIN;
        self.paths.quota = if is_short { SCHEDULED } else { 0 };
        let quota_before = self.paths.quota;
        let (queue, text) = (&mut *self.queue, &mut self.text);
        let mut schedule = |path: &[u8]| -> Result<(), io::Error> {
            text.clear();
            text.extend_from_slice(part.host.as_bytes());
            text.extend_from_slice(path);
            queue.push(text).map_err(io::Error::other)
        };
        let (mut added, mut collected, mut strays) = (0, 0, 0);
        for url in part.urls() {
            let known = self.paths.seek(url.path, &mut schedule).map_err(failed)?;
            match url.facts {
                Some(facts) if known => {
                    let (before, now) = self.paths.update(facts);
                    let first = before.facts.is_none();
                    collected += u64::from(first && before.scheduled);
                    strays += u64::from(first && !before.scheduled);
                    self.tally.moved(false, before.facts, Some(now));
                }
                facts if !known => {
                    let scheduled = facts.is_none() && self.paths.quota > 0;
                    self.paths.insert(url.path, scheduled, facts);
                    self.tally.moved(true, None, facts);
                    row.urls += 1;
                    added += u64::from(facts.is_none());
                    if scheduled {
                        self.paths.quota -= 1;
                        schedule(url.path).map_err(failed)?;
                    }
                }
                _ => {}
            }
        }
        self.paths.finish(&mut schedule).map_err(failed)?;
        let promoted = (quota_before - self.paths.quota) as u64;
        row.left = row.left + promoted - collected;
        row.waiting = row.waiting + added - promoted - strays;
        Ok(())
    }

    /// A host that was not known: its shortest paths are scheduled.
    fn insert_all(&mut self, row: &mut DirectoryRow, part: &HostPart<'_>) -> Result<(), Error> {
        let mut lengths: Vec<usize> =
            part.urls().filter(|url| url.facts.is_none()).map(|url| url.path.len()).collect();
        lengths.sort_unstable();
        let longest = lengths.get(SCHEDULED - 1).copied().unwrap_or(usize::MAX);
        // Of those as long as the longest only as many as fit.
        let mut ties = SCHEDULED - lengths.iter().take(SCHEDULED).filter(|len| **len < longest).count();
        for BatchUrl { path, facts } in part.urls() {
            let fits = path.len() < longest || path.len() == longest && ties > 0;
            let scheduled = facts.is_none() && fits;
            ties -= usize::from(scheduled && path.len() == longest);
            self.paths.insert(path, scheduled, facts);
            self.tally.moved(true, None, facts);
            row.urls += 1;
            row.left += u64::from(scheduled);
            row.waiting += u64::from(facts.is_none() && !scheduled);
            if scheduled {
                self.text.clear();
                self.text.extend_from_slice(part.host.as_bytes());
                self.text.extend_from_slice(path);
                self.queue.push(&self.text)?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<u64, Error> {
        while let Some(row) = self.next.take() {
            self.paths.copy(row.bytes).map_err(failed)?;
            self.write_row(&row)?;
            self.read_server()?;
        }
        self.paths.close().map_err(failed)?;
        self.new.flush().map_err(failed)?;
        Ok(self.hosts)
    }

    /// Reads the directory's next host.
    fn read_server(&mut self) -> Result<(), Error> {
        let Some(old) = &mut self.old else { return Ok(()) };
        let mut head = [0; 34];
        match old.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.old = None;
                return Ok(());
            }
            other => other.map_err(failed)?,
        }
        let number =
            |at: usize| head[at..at + 8].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let mut host = vec![0; usize::from(u16::from_le_bytes([head[0], head[1]]))];
        old.read_exact(&mut host).map_err(failed)?;
        let host = String::from_utf8(host).map_err(io::Error::other).map_err(failed)?;
        self.next = Some(DirectoryRow {
            host,
            urls: number(2),
            bytes: number(10),
            left: number(18),
            waiting: number(26),
        });
        Ok(())
    }

    fn write_row(&mut self, row: &DirectoryRow) -> Result<(), Error> {
        self.hosts += 1;
        let mut write = || {
            self.new.write_all(&(row.host.len() as u16).to_le_bytes())?;
            for number in [row.urls, row.bytes, row.left, row.waiting] {
                self.new.write_all(&number.to_le_bytes())?;
            }
            self.new.write_all(row.host.as_bytes())
        };
        write().map_err(failed)
    }
}

impl Verifier for Central {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        found.iter().for_each(|found| self.batch.push(&found.url, None));
        if self.batch.is_full() { self.merge() } else { Ok(()) }
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.batch.push(url, Some(visit));
        Ok(())
    }

    fn take(&mut self, limit: usize, _now: Timestamp) -> Result<Vec<CanonicalUrl>, Error> {
        if self.queue.len() < limit as u64 {
            self.merge()?;
        }
        self.queue.take(limit)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.merge()
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        self.merge()
    }

    fn counts(&self) -> Counts {
        Counts { hosts: self.hosts, ..self.tally.counts(0) }
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io { action: "merge", file: "the central repository".to_string(), source }
}
