//! Reads: what is known of a URL or a host, sums, walks, checks.

use super::bucket::Damage;
use super::compaction::delta::HostDelta;
use super::compaction::join::apply_events;
use super::engine::Engine;
use super::run::{RunReader, UrlDelta};
use super::{path_text, split};
use crate::Error;
use crate::urls::{Counts, HostCounts, Record, Walk};
use farol_base::{CanonicalUrl, Host};

impl Engine {
    /// What is known of a URL, as far as it can be read. Damage that is found here is told at the next flush.
    pub fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        let bucket = &self.buckets[self.bucket_of(url.host_hash())];
        match self.read(url) {
            Err(error) if error.is_damage() => {
                self.failed_reads.lock().push((bucket.number, error));
                Ok(None)
            }
            result => result,
        }
    }

    /// A bucket's entry with all pending deltas applied.
    fn read(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        let (host, path) = split(url);
        let hash = url.host_hash();
        let bucket = &self.buckets[self.bucket_of(hash)];
        let mut record = None;
        if let Some(file) = bucket.file()
            && let Some((_, meta)) = file.host_meta(hash, host)?
        {
            record = file.get(&meta, path.as_bytes())?;
        }
        for run in &bucket.runs {
            let mut reader = RunReader::file(self.disk.clone(), &bucket.level0_file(), run.blocks_of(hash))?;
            while let Some(next) = reader.peek() {
                let mut delta = HostDelta::default();
                let is_it = next == (hash, host);
                reader.read_host(&mut delta)?;
                if is_it {
                    let entries = (0..delta.len()).map(|at| delta.get(at));
                    let deltas: Vec<UrlDelta> = entries
                        .filter(|entry| entry.path == path.as_bytes())
                        .map(|entry| UrlDelta {
                            depth: entry.depth,
                            visit_first: entry.visit_first,
                            events: entry.events.to_vec(),
                        })
                        .collect();
                    apply_deltas(&mut record, delta.tombstone, deltas);
                }
            }
        }
        let sealed = bucket.state.sealed().map(|memtable| &**memtable);
        for memtable in sealed.into_iter().chain([&bucket.memtable]) {
            let (tombstone, delta) = memtable.get(hash, host, path);
            apply_deltas(&mut record, tombstone, delta.into_iter().collect());
        }
        Ok(record)
    }

    /// URLs of a host by state, as of its bucket's last compaction.
    pub fn host_counts(&self, host: &Host) -> Option<HostCounts> {
        let file = self.buckets[self.bucket_of(host.hash())].file()?;
        // A damaged bucket is reported when it is compacted or checked.
        file.host_meta(host.hash(), host.as_str()).ok().flatten().map(|(_, meta)| meta.counts)
    }

    /// Those counted, and whatever of the bucket is not compacted yet.
    pub fn known_at_most(&self, host: &Host) -> u64 {
        let counted = self.host_counts(host).map_or(0, |counts| counts.known);
        counted + self.buckets[self.bucket_of(host.hash())].unmerged()
    }

    pub fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        let metas = self.buckets.iter().filter_map(|bucket| bucket.file()).flat_map(|file| file.hosts());
        // A damaged bucket is reported when it is compacted or checked.
        let matching = metas.filter_map(Result::ok).filter(|meta| meta.host.contains(filter));
        let hosts = matching.filter_map(|meta| Some((Host::parse(&meta.host).ok()?, meta.counts)));
        hosts.skip(first).take(count).collect()
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts { bytes_on_disk: self.wal.bytes(), ..Counts::default() };
        for bucket in &self.buckets {
            counts.bytes_on_disk += bucket.bytes() + bucket.level0_bytes();
            counts.unmerged += bucket.unmerged();
            if let Some(file) = bucket.file() {
                counts.hosts += file.totals.hosts;
                counts.known += file.totals.known;
                counts.collected += file.totals.collected;
                counts.waiting += file.totals.waiting;
            }
        }
        counts
    }

    /// Scans all buckets that are not damaged.
    pub fn walk(&self, which: Walk, take: &mut dyn FnMut(&Host, &str, &Record)) -> Result<(), Error> {
        let whole = self.buckets.iter().filter(|bucket| bucket.damage.is_none());
        for file in whole.filter_map(|bucket| bucket.file()) {
            let mut cursor = file.cursor(1 << 20);
            for meta in file.hosts() {
                let meta = meta?;
                let Ok(host) = Host::parse(&meta.host) else { continue };
                // Most hosts of a large crawl have nothing visited.
                let is_empty = match which {
                    Walk::All => false,
                    Walk::Visited => meta.visited == 0,
                    Walk::Missing => meta.counts.gone + meta.counts.failed == 0,
                };
                if is_empty {
                    continue;
                }
                for range in [meta.remaining, meta.prescheduled].into_iter().filter(|range| range.len > 0) {
                    cursor.seek(range.at)?;
                    for _ in 0..range.len {
                        let entry = cursor.advance()?;
                        if which == Walk::All || entry.state != 0 {
                            match entry.record() {
                                Ok(record) if !which.goes_to(record.state) => {}
                                Ok(record) => take(&host, path_text(entry.path), &record),
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

    /// Reads every file, and returns what is damaged.
    pub fn check(&mut self) -> Vec<Damage> {
        for bucket in &mut self.buckets {
            if let Some(file) = bucket.file()
                && bucket.damage.is_none()
                && let Err(error) = file.check()
            {
                bucket.damage = Some(Damage::of(error, &file.file, file.totals.hosts));
            }
            for run in &bucket.runs {
                let mut reader = RunReader::file(self.disk.clone(), &bucket.level0_file(), run.blocks());
                while let Ok(run) = &mut reader
                    && run.peek().is_some()
                {
                    if let Err(error) = run.read_host(&mut HostDelta::default()) {
                        reader = Err(error);
                    }
                }
                if let Err(error) = reader {
                    bucket.damage = Some(Damage::of(error, &bucket.level0_file(), 0));
                }
            }
        }
        self.damage()
    }
}

/// Brings a record up to date with deltas, in their order.
fn apply_deltas(record: &mut Option<Record>, tombstone: bool, deltas: Vec<UrlDelta>) {
    if tombstone {
        *record = None;
    }
    for delta in deltas {
        let depth = if delta.visit_first { 0 } else { delta.depth };
        let record = record.get_or_insert_with(|| Record { depth, ..Record::default() });
        apply_events(record, delta.depth, &delta.events);
    }
}
