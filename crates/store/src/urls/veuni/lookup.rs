//! Answers about what is known.

use super::compaction::delta::HostDelta;
use super::compaction::join::apply_events;
use super::dispatch::active::text;
use super::run::{RunReader, UrlDelta};
use super::{Veuni, split};
use crate::Error;
use crate::urls::{Counts, HostCounts, Record, UrlStore, Walk};
use farol_base::HostHash;
use farol_base::{CanonicalUrl, Host};

/// A file that is not as it was written, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    pub what: String,
    /// Hosts that stand still.
    pub hosts: u64,
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged { file: damage.file, offset: damage.offset, what: damage.what }
    }
}

impl Veuni {
    /// What is known of a URL, with what came in for it since its bucket was written.
    pub(super) fn lookup(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        if let Some(in_flight) = self.in_flight.get(url) {
            return Ok(Some(in_flight.known.clone().into_record()));
        }
        let (host, path) = split(url);
        let hash = HostHash::of(host);
        let bucket = &self.buckets[self.bucket_of(hash)];
        let mut record = None;
        if let Some(file) = &bucket.file
            && let Some((_, meta)) = file.host_meta(hash, host)?
        {
            record = file.get(&meta, path.as_bytes())?;
        }
        for run in &bucket.runs {
            // The host may begin in the block before the first that begins with its hash.
            let first = run.index.partition_point(|(start, _)| *start < hash).saturating_sub(1);
            let end = run.index.partition_point(|(start, _)| *start <= hash);
            let offsets: Vec<u64> = run.index[first..end].iter().map(|(_, offset)| *offset).collect();
            let mut reader = RunReader::file(self.disk.clone(), &bucket.level0_file(), offsets)?;
            while let Some(next) = reader.peek() {
                let mut delta = HostDelta::default();
                let is_it = next == (hash, host);
                reader.read_host(&mut delta)?;
                if is_it {
                    let deltas = (0..delta.len()).map(|at| delta.get(at));
                    let deltas: Vec<UrlDelta> = deltas
                        .filter(|deltas| deltas.path == path.as_bytes())
                        .map(|deltas| UrlDelta {
                            depth: deltas.depth,
                            visit_first: deltas.visit_first,
                            events: deltas.events.to_vec(),
                        })
                        .collect();
                    take(&mut record, delta.tombstone, deltas);
                }
            }
        }
        for memtable in bucket.immutable.as_deref().into_iter().chain([&bucket.memtable]) {
            let (tombstone, item) = memtable.get(hash, host, path);
            take(&mut record, tombstone, item.into_iter().collect());
        }
        Ok(record)
    }

    /// Forgets a host at once: a rare order, so whoever gives it waits.
    pub(super) fn forget(&mut self, host: &Host) -> Result<u64, Error> {
        UrlStore::compact_all(self)?;
        let known = UrlStore::host_counts(self, host).map_or(0, |counts| counts.known);
        self.memtable_of(host.as_str(), self.wal.next_seqno).delete_host(host.as_str());
        self.wal.batch.delete_host(host.as_str());
        self.seen_cache.clear();
        self.in_flight.delete_host(host.as_str());
        self.due_queue.delete_host(host.as_str());
        UrlStore::release_host(self, host);
        UrlStore::compact_all(self)?;
        Ok(known)
    }

    pub(super) fn list_hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        let hosts =
            self.buckets.iter().filter_map(|bucket| bucket.file.as_ref()).flat_map(|file| file.hosts());
        // A damaged bucket is told of by whoever merges or checks it.
        let matching = hosts.filter_map(Result::ok).filter(|meta| meta.host.contains(filter));
        let hosts = matching.filter_map(|meta| Some((Host::parse(&meta.host).ok()?, meta.counts)));
        hosts.skip(first).take(count).collect()
    }

    pub(super) fn totals(&self) -> Counts {
        let mut counts = Counts { bytes_on_disk: self.wal.bytes(), ..Counts::default() };
        for bucket in &self.buckets {
            counts.bytes_on_disk += bucket.bytes() + bucket.level0_bytes();
            counts.unmerged += bucket.memtable.len() as u64;
            counts.unmerged += bucket.immutable.as_ref().map_or(0, |memtable| memtable.len() as u64);
            // Runs say their bytes only: a URL takes some ten of them.
            counts.unmerged += bucket.level0_bytes() / 10;
            if let Some(file) = &bucket.file {
                counts.hosts += file.totals.hosts;
                counts.known += file.totals.known;
                counts.collected += file.totals.collected;
                counts.waiting += file.totals.waiting;
            }
        }
        counts
    }

    pub(super) fn walk_buckets(
        &self,
        which: Walk,
        take: &mut dyn FnMut(&Host, &str, &Record),
    ) -> Result<(), Error> {
        let whole = self.buckets.iter().filter(|bucket| bucket.damage.is_none());
        for file in whole.filter_map(|bucket| bucket.file.as_ref()) {
            let mut cursor = file.cursor(1 << 20);
            for meta in file.hosts() {
                let meta = meta?;
                let Ok(host) = Host::parse(&meta.host) else { continue };
                // Most hosts of a large crawl have nothing visited.
                if which == Walk::Visited && meta.visited == 0 {
                    continue;
                }
                for range in [meta.remaining, meta.prescheduled].into_iter().filter(|range| range.len > 0) {
                    cursor.seek(range.at)?;
                    for _ in 0..range.len {
                        let entry = cursor.advance()?;
                        if which == Walk::All || entry.state != 0 {
                            match entry.record() {
                                Ok(record) => take(&host, text(entry.path), &record),
                                Err(what) => return Err(cursor.damaged(what)),
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Buckets whose files are damaged, as far as that was noticed.
    pub fn damage(&self) -> Vec<Damage> {
        self.buckets.iter().filter_map(|bucket| bucket.damage.clone()).collect()
    }

    /// Reads every file, and says what is damaged.
    pub fn check(&mut self) -> Vec<Damage> {
        for bucket in &mut self.buckets {
            if let Some(file) = &bucket.file
                && bucket.damage.is_none()
                && let Err(error) = file.check()
            {
                bucket.damage = Some(damage_of(error, &file.file, file.totals.hosts));
            }
            for run in &bucket.runs {
                let offsets = run.index.iter().map(|(_, offset)| *offset).collect();
                let mut reader = RunReader::file(self.disk.clone(), &bucket.level0_file(), offsets);
                while let Ok(run) = &mut reader
                    && run.peek().is_some()
                {
                    if let Err(error) = run.read_host(&mut HostDelta::default()) {
                        reader = Err(error);
                    }
                }
                if let Err(error) = reader {
                    bucket.damage = Some(damage_of(error, &bucket.level0_file(), 0));
                }
            }
        }
        self.damage()
    }
}

pub(super) fn damage_of(error: Error, file: &str, hosts: u64) -> Damage {
    match error {
        Error::Damaged { file, offset, what } => Damage { file, offset, what, hosts },
        other => Damage { file: file.to_string(), offset: 0, what: other.to_string(), hosts },
    }
}

/// Brings a record up to date with what came in.
fn take(record: &mut Option<Record>, tombstone: bool, deltas: Vec<UrlDelta>) {
    if tombstone {
        *record = None;
    }
    for item in deltas {
        let depth = if item.visit_first { 0 } else { item.depth };
        let record = record.get_or_insert_with(|| Record { depth, ..Record::default() });
        apply_events(record, item.depth, &item.events);
    }
}
