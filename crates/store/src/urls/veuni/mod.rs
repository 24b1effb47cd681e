//! VEUNI: a disk-based URL-seen sieve, organised as a range-partitioned, single-level LSM: WAL, per-bucket
//! memtables, sorted runs, whole-bucket compaction.
//!
//! After W. F. Henrique, "Verificação de unicidade de URLs em coletores de páginas Web" (UFMG, 2011), and
//! beyond it. Hosts are range-partitioned by the hash of their names into *buckets* (DRUM's word). Everything
//! known of a bucket's hosts is in one immutable, sorted file; there are no levels but L0, where sorted runs
//! of deltas gather per bucket. A write is blind: nobody asks whether a URL is known. Compaction merges a
//! bucket's file, runs and memtable into a new file and so settles it, exactly, by the URL's text. A bucket
//! that outgrows its bounds is split by its own compaction, and no other bucket is touched. So the cost per
//! URL is constant, however many are known.
//!
//! ```text
//!  found, visited                                                         hosts_due, draw
//!        │                                                                       ▲
//!        ▼                                                            ┌──────────┴──────────┐
//!   seen cache ── hit: dropped                                        │ dispatcher:         │
//!        │ miss                                                       │ active buckets,     │
//!        ├────────────► WAL, one batch per flush                      │ leased hosts,       │
//!        ▼                                                            │ URLs in flight,     │
//!   memtable of the host's bucket ── full: flush ──► level-0 runs     │ due queue           │
//!        │                                                │           └──────────┬──────────┘
//!        └──────────────── compaction ◄───────────────────┘                      │ reads immutable files,
//!                       (the bucket's file too)                                  │ asks for compactions
//!                               └──────► new bucket file, or several by a split ─┘
//! ```
//!
//! Two halves, owned by [`Veuni`]. The engine is everything on the left: it knows URLs, and nothing of leases
//! or of what is due. The dispatcher is on the right: of each host up to [`VeuniOptions::prescheduled`] URLs
//! are stored together, and drawn while the bucket is active, by policy (`host_order`, `url_order`). When the
//! active buckets run dry it activates the next, and asks for its compaction first where deltas are pending,
//! so the work is done when its fruit is needed. A page that is due again within the hour of its visit waits
//! in a queue in memory, not for a compaction.
//!
//! PROMISE: as [`UrlStore`]; what was written comes up after the flush that follows. A damaged file is named,
//! and only its bucket's hosts stand still. A full disk in the middle of a compaction leaves the old file as
//! it is.
//! INVARIANT: bucket file + L0 runs + WAL batches beyond `flushed_seqno` = everything written, at any moment
//! of a crash.
//!
//! Memory: memtables ([`VeuniOptions::memtable_bytes`], at most half as much again where flushes lag behind),
//! [`VeuniOptions::seen_cache_bytes`], URLs in flight, the due queue (23 MB at most), the hosts of active
//! buckets, 8 bytes per two thousand URLs and 16 bytes per 64 hosts. The paths of a host are never in memory
//! at once.

mod block_frame;
mod bucket;
mod bucket_index;
mod codec;
mod compaction;
mod dispatch;
mod engine;
mod export;
mod files;
mod lookup;
mod manifest;
mod memtable;
mod recovery;
mod repair;
mod run;
pub mod seen_cache;
mod wal;

#[cfg(test)]
mod tests;

use super::{Counts, Drawn, Export, Found, HostCounts, KnownUrl, Record, Source, UrlStore, Visit, Walk};
use crate::{Cut, Error};
use dispatch::Dispatcher;
use engine::Engine;
use farol_base::disk::Disk;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use host_order::{Fifo, HostOrder};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use url_order::{Breadth, UrlOrder};

pub use bucket::Damage;
pub use dispatch::{host_order, url_order};
pub use files::{StoreFile, StoreFiles};

/// How the store is kept.
#[derive(Clone, Debug)]
pub struct VeuniOptions {
    /// Memory of all memtables. Default: 64 MiB, some 800,000 URLs.
    pub memtable_bytes: u64,
    /// Memory for recognising URLs that were written recently. Default: 64 MiB, some 7 million URLs.
    pub seen_cache_bytes: u64,
    /// A bucket larger than this is split, in a small store sooner. Default: 32 MiB, some 2 million URLs.
    pub bucket_bytes: u64,
    /// A bucket with more hosts than this is split. Default: 100,000, as in \[Henrique11\].
    pub bucket_hosts: u64,
    /// URLs of a host that may be drawn between two compactions. Default: 1,000, as in \[Henrique11\].
    pub prescheduled: usize,
    /// L0 runs, with what memtables will add to them, may be this large for each byte of bucket files before
    /// buckets are compacted to shrink them. Default: 0.75.
    pub level0_share: f64,
    /// L0 runs may always be this large together. Default: 128 MiB.
    pub level0_min: u64,
    /// Buckets that are active at a time; of smaller ones as many more. Default: 4.
    pub active_buckets_max: usize,
    /// Background threads; of several, one only flushes. 0 = all work is done by the caller, which is what
    /// tests want. Default: 1.
    pub threads: usize,
    pub url_order: Arc<dyn UrlOrder>,
    pub host_order: Arc<dyn HostOrder>,
}

impl Default for VeuniOptions {
    fn default() -> VeuniOptions {
        VeuniOptions {
            memtable_bytes: 64 << 20,
            seen_cache_bytes: 64 << 20,
            bucket_bytes: 32 << 20,
            bucket_hosts: 100_000,
            prescheduled: 1000,
            level0_share: 0.75,
            level0_min: 128 << 20,
            active_buckets_max: 4,
            threads: 1,
            url_order: Arc::new(Breadth),
            host_order: Arc::new(Fifo),
        }
    }
}

/// The URL store.
#[derive(Debug)]
pub struct Veuni {
    engine: Engine,
    dispatcher: Dispatcher,
}

/// Prefetches scattered byte strings by loading their first, middle and last byte. One load pulls in a
/// 64-byte line, so three cover most URLs; a data-dependent number of loads would mispredict.
fn prefetch<'a>(texts: impl Iterator<Item = &'a [u8]>) {
    let byte = |text: &[u8], at: usize| text.get(at).copied().unwrap_or(0);
    let three =
        |text: &[u8]| byte(text, 0) ^ byte(text, text.len() / 2) ^ byte(text, text.len().wrapping_sub(1));
    std::hint::black_box(texts.fold(0, |all, text| all ^ three(text)));
}

/// Host, and what follows it.
fn split(url: &CanonicalUrl) -> (&str, &str) {
    let text = url.as_str();
    text.split_at(url.host_str().len())
}

/// A stored path. Only whole texts were written, and checksums say that they are as they were.
fn path_text(path: &[u8]) -> &str {
    std::str::from_utf8(path).unwrap_or_default()
}

impl Veuni {
    /// Opens the store of a folder, or begins one.
    ///
    /// Answers also with the tail of the WAL that was cut off, where a crash had left one. A bucket that
    /// cannot be read does not keep the store from opening; [`Veuni::damage`] reports it.
    ///
    /// # Errors
    /// Where the manifest or the WAL cannot be read, are not ours, are missing while other files are there, or are damaged
    /// anywhere but at the end. Where that is damage ([`Error::is_damage`]) no part of the store can be trusted:
    /// [`Veuni::remove_all`] lets it begin anew, to be filled again from the archive.
    pub fn open(disk: Arc<dyn Disk>, options: VeuniOptions) -> Result<(Veuni, Option<Cut>), Error> {
        let dispatcher = Dispatcher::new(options.clone());
        let (engine, cut) = Engine::open(disk, options)?;
        Ok((Veuni { engine, dispatcher }, cut))
    }

    /// Removes all files of the store of a folder, so that it can begin anew.
    pub fn remove_all(disk: &dyn Disk) -> Result<(), Error> {
        manifest::remove_all(disk)
    }

    /// Buckets whose files are damaged, as far as that was noticed.
    pub fn damage(&self) -> Vec<Damage> {
        self.engine.damage()
    }

    /// Reads every file, and returns what is damaged.
    pub fn check(&mut self) -> Vec<Damage> {
        self.engine.check()
    }

    /// Empties buckets whose files are damaged; answers with their ranges of host hashes
    /// ([`farol_base::HostHash`]), whose URLs the caller must now write again, and then say so
    /// ([`UrlStore::rebuilt`]).
    pub fn empty_damaged(&mut self) -> Result<Vec<RangeInclusive<u64>>, Error> {
        self.engine.empty_damaged(&mut self.dispatcher)
    }
}

impl UrlStore for Veuni {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        self.engine.make_room(&mut self.dispatcher)?;
        let dispatcher = &mut self.dispatcher;
        self.engine.found(found, |url, hint| {
            let (host, path) = split(url);
            dispatcher.hint(host, path, hint);
        });
        Ok(())
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        self.engine.make_room(&mut self.dispatcher)?;
        let (host, path) = split(url);
        self.engine.visited(host, path, visit);
        self.dispatcher.visited(&self.engine, url, visit);
        Ok(())
    }

    fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Result<Drawn, Error> {
        self.dispatcher.draw(&mut self.engine, host, limit, now)
    }

    fn release(&mut self, urls: &[CanonicalUrl]) -> Result<(), Error> {
        urls.iter().for_each(|url| self.dispatcher.release(&self.engine, url));
        Ok(())
    }

    fn hosts_due_but(
        &mut self,
        now: Timestamp,
        limit: usize,
        until: &mut dyn FnMut(&Host) -> Option<Timestamp>,
    ) -> Result<Vec<Host>, Error> {
        self.dispatcher.hosts_due(&mut self.engine, now, limit, until)
    }

    fn newly_ready(&mut self) -> Vec<Host> {
        self.dispatcher.newly_ready()
    }

    fn release_host_until(&mut self, host: &Host, until: Timestamp) {
        self.dispatcher.release_host(host, until);
    }

    fn next_host_due(&mut self) -> Option<Timestamp> {
        self.dispatcher.next_host_due(&self.engine)
    }

    fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        match self.dispatcher.in_flight.get(url) {
            Some(drawn) => Ok(Some(drawn.known.clone().into_record())),
            None => self.engine.get(url),
        }
    }

    fn knows(&self, url: &CanonicalUrl) -> bool {
        self.engine.was_seen(url) || self.dispatcher.in_flight.get(url).is_some()
    }

    /// A rare order, so the caller waits until the tombstone is merged.
    fn delete_host(&mut self, host: &Host) -> Result<u64, Error> {
        self.engine.compact_all(&mut self.dispatcher)?;
        let known = self.engine.host_counts(host).map_or(0, |counts| counts.known);
        self.forget(std::slice::from_ref(host))?;
        self.engine.compact_all(&mut self.dispatcher)?;
        Ok(known)
    }

    fn forget(&mut self, hosts: &[Host]) -> Result<(), Error> {
        self.engine.make_room(&mut self.dispatcher)?;
        self.engine.delete_hosts(hosts.iter().map(Host::as_str));
        for host in hosts {
            let number = self.engine.bucket_number(host.hash());
            self.dispatcher.delete_host(number, host);
        }
        Ok(())
    }

    fn export(&mut self, hosts: &[Host]) -> Result<Box<dyn Export>, Error> {
        self.engine.poll_jobs(&mut self.dispatcher);
        self.engine.export(hosts).map(|export| Box::new(export) as Box<dyn Export>)
    }

    fn import(&mut self, urls: &[KnownUrl]) -> Result<(), Error> {
        self.engine.make_room(&mut self.dispatcher)?;
        let (visited, found): (Vec<&KnownUrl>, Vec<&KnownUrl>) =
            urls.iter().partition(|known| known.record.is_visited());
        for KnownUrl { url, record } in visited {
            let ((host, path), record) = (split(url), record.handed_over());
            self.engine.imported(host, path, &record);
            self.dispatcher.imported(self.engine.bucket_number(url.host_hash()), url, &record);
        }
        let found: Vec<Found> = found
            .into_iter()
            .map(|known| Found { url: known.url.clone(), depth: known.record.depth, hint: None })
            .collect();
        self.engine.found(&found, |_, _| {});
        Ok(())
    }

    fn note(&mut self, source: Source, number: u64) -> Result<(), Error> {
        self.engine.wal.note(source, number);
        Ok(())
    }

    fn numbers(&self) -> BTreeMap<Source, u64> {
        self.engine.wal.numbers()
    }

    fn files(&mut self) -> Result<Option<StoreFiles>, Error> {
        self.engine.flush(&mut self.dispatcher)?;
        self.engine.files().map(Some)
    }

    fn host_counts(&self, host: &Host) -> Option<HostCounts> {
        self.engine.host_counts(host)
    }

    fn known_at_most(&self, host: &Host) -> u64 {
        self.engine.known_at_most(host)
    }

    fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        self.engine.hosts(first, count, filter)
    }

    fn counts(&self) -> Counts {
        self.engine.counts()
    }

    fn walk(&self, which: Walk, take: &mut dyn FnMut(&Host, &str, &Record)) -> Result<(), Error> {
        self.engine.walk(which, take)
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        self.engine.compact_all(&mut self.dispatcher)
    }

    fn wait(&mut self) -> Result<bool, Error> {
        Ok(self.engine.wait_for_job(&mut self.dispatcher))
    }

    fn rebuilt(&mut self) -> Result<(), Error> {
        self.engine.end_rebuilding()
    }

    fn watermark(&self) -> PagePosition {
        self.engine.wal.marked.unwrap_or(self.engine.wal.watermark)
    }

    fn mark(&mut self, upto: PagePosition) -> Result<(), Error> {
        self.engine.wal.marked = Some(upto);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.engine.flush(&mut self.dispatcher)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.engine.flush(&mut self.dispatcher)?;
        self.engine.wal.sync()
    }
}
