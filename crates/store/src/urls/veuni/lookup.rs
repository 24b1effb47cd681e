//! Answers about what is known.

use super::compaction::delta::Incoming;
use super::compaction::merge::settle;
use super::dispatch::active::text;
use super::run::{Item, RunReader};
use super::{Veuni, split};
use crate::Error;
use crate::urls::{Counts, HostCounts, Record, UrlStore, Walk};
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Host};

/// A file that is not as it was written, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    pub what: String,
    /// Servers that stand still.
    pub servers: u64,
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged { file: damage.file, offset: damage.offset, what: damage.what }
    }
}

impl Veuni {
    /// What is known of a URL, with what came in for it since its block was written.
    pub(super) fn look_up(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        if let Some(out) = self.out.get(url) {
            return Ok(Some(out.known.clone().into_record()));
        }
        let (host, path) = split(url);
        let hash = hash64(host.as_bytes());
        let block = &self.blocks[self.route(hash)];
        let mut record = None;
        if let Some(file) = &block.file
            && let Some((_, server)) = file.server(hash, host)?
        {
            record = file.get(&server, path.as_bytes())?;
        }
        for run in &block.runs {
            // The server may begin in the piece before the first that begins with its hash.
            let first = run.index.partition_point(|(start, _)| *start < hash).saturating_sub(1);
            let end = run.index.partition_point(|(start, _)| *start <= hash);
            let offsets: Vec<u64> = run.index[first..end].iter().map(|(_, offset)| *offset).collect();
            let mut reader = RunReader::file(self.disk.clone(), &block.pending_file(), offsets)?;
            while let Some(next) = reader.peek() {
                let mut incoming = Incoming::default();
                let is_it = next == (hash, host);
                reader.read_server(&mut incoming)?;
                if is_it {
                    let came = (0..incoming.len()).map(|at| incoming.get(at));
                    let items: Vec<Item> = came
                        .filter(|came| came.path == path.as_bytes())
                        .map(|came| Item {
                            depth: came.depth,
                            visit_first: came.visit_first,
                            events: came.events.to_vec(),
                        })
                        .collect();
                    take(&mut record, incoming.forgotten, items);
                }
            }
        }
        for stage in block.frozen.as_deref().into_iter().chain([&block.stage]) {
            let (forgotten, item) = stage.get(hash, host, path);
            take(&mut record, forgotten, item.into_iter().collect());
        }
        Ok(record)
    }

    /// Forgets a host at once: a rare order, so whoever gives it waits.
    pub(super) fn forget(&mut self, host: &Host) -> Result<u64, Error> {
        UrlStore::settle(self)?;
        let known = UrlStore::host_counts(self, host).map_or(0, |counts| counts.known);
        self.stage_of(host.as_str(), self.log.next).forget(host.as_str());
        self.log.batch.forget(host.as_str());
        self.lately.forget();
        self.out.forget_host(host.as_str());
        self.soon.forget_host(host.as_str());
        UrlStore::let_go(self, host);
        UrlStore::settle(self)?;
        Ok(known)
    }

    pub(super) fn list_hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        let servers =
            self.blocks.iter().filter_map(|block| block.file.as_ref()).flat_map(|file| file.servers());
        // A damaged block is told of by whoever merges or checks it.
        let matching = servers.filter_map(Result::ok).filter(|server| server.host.contains(filter));
        let hosts = matching.filter_map(|server| Some((Host::parse(&server.host).ok()?, server.counts)));
        hosts.skip(first).take(count).collect()
    }

    pub(super) fn sums(&self) -> Counts {
        let mut counts = Counts { bytes_on_disk: self.log.bytes(), ..Counts::default() };
        for block in &self.blocks {
            counts.bytes_on_disk += block.bytes() + block.pending_bytes();
            counts.unsettled += block.stage.len() as u64;
            counts.unsettled += block.frozen.as_ref().map_or(0, |stage| stage.len() as u64);
            // Runs say their bytes only: a URL takes some ten of them.
            counts.unsettled += block.pending_bytes() / 10;
            if let Some(file) = &block.file {
                counts.hosts += file.totals.servers;
                counts.known += file.totals.known;
                counts.collected += file.totals.collected;
                counts.waiting += file.totals.waiting;
            }
        }
        counts
    }

    pub(super) fn walk_blocks(
        &self,
        which: Walk,
        take: &mut dyn FnMut(&Host, &str, &Record),
    ) -> Result<(), Error> {
        let whole = self.blocks.iter().filter(|block| block.damage.is_none());
        for file in whole.filter_map(|block| block.file.as_ref()) {
            let mut cursor = file.cursor(1 << 20);
            for server in file.servers() {
                let server = server?;
                let Ok(host) = Host::parse(&server.host) else { continue };
                // Most servers of a large crawl have nothing visited.
                if which == Walk::Visited && server.visited == 0 {
                    continue;
                }
                for group in [server.remaining, server.prescheduled].into_iter().filter(|group| group.len > 0)
                {
                    cursor.seek(group.at)?;
                    for _ in 0..group.len {
                        let entry = cursor.advance()?;
                        if which == Walk::All || entry.state != 0 {
                            take(&host, text(entry.path), &super::compaction::merge::record_of(&entry)?);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Blocks whose files are damaged, as far as that was noticed.
    pub fn damage(&self) -> Vec<Damage> {
        self.blocks.iter().filter_map(|block| block.damage.clone()).collect()
    }

    /// Reads every file, and says what is damaged.
    pub fn check(&mut self) -> Vec<Damage> {
        for block in &mut self.blocks {
            if let Some(file) = &block.file
                && block.damage.is_none()
                && let Err(error) = file.check()
            {
                block.damage = Some(damage_of(error, &file.file, file.totals.servers));
            }
            for run in &block.runs {
                let offsets = run.index.iter().map(|(_, offset)| *offset).collect();
                let mut reader = RunReader::file(self.disk.clone(), &block.pending_file(), offsets);
                while let Ok(run) = &mut reader
                    && run.peek().is_some()
                {
                    if let Err(error) = run.read_server(&mut Incoming::default()) {
                        reader = Err(error);
                    }
                }
                if let Err(error) = reader {
                    block.damage = Some(damage_of(error, &block.pending_file(), 0));
                }
            }
        }
        self.damage()
    }
}

pub(super) fn damage_of(error: Error, file: &str, servers: u64) -> Damage {
    match error {
        Error::Damaged { file, offset, what } => Damage { file, offset, what, servers },
        other => Damage { file: file.to_string(), offset: 0, what: other.to_string(), servers },
    }
}

/// Brings a record up to date with what came in.
fn take(record: &mut Option<Record>, forgotten: bool, items: Vec<Item>) {
    if forgotten {
        *record = None;
    }
    for item in items {
        let depth = if item.visit_first { 0 } else { item.depth };
        let record = record.get_or_insert_with(|| Record { depth, ..Record::default() });
        settle(record, item.depth, &item.events);
    }
}
