//! Every known URL exactly once, with the history of its visits.
//!
//! [`UrlStore`] is the question; each file here is one answer:
//!
//! - [`naive`]: plain maps and full scans, in memory only; the judge of all the others;
//! - [`veuni`]: buckets of hosts on disk, compacted one at a time; constant memory, flat cost.
//!
//! PROMISE: the answer is exact. A false "known" would lose a page for ever, a false "new" would fetch it
//! twice. What was written before a [`flush`](UrlStore::flush) that returned `Ok` survives the end of the
//! process, at any moment; what was written before a [`sync`](UrlStore::sync) survives a power cut.
//!
//! A URL that was drawn is *in flight* until it is visited or released; a host that was handed to the caller
//! is *leased* until it is released. Neither promises anything about requests: see *who is the authority* in
//! `crates/frontier/src/lib.rs`.
//!
//! Does not know hosts' delays or robots.txt, and never reads the clock.

pub mod naive;
mod record;
mod verifier;
pub mod veuni;

use crate::Error;
use farol_base::{CanonicalUrl, Host, PagePosition, Scheduled, Timestamp};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub use naive::Naive;
pub use record::{Counts, HostCounts, Memo, Record, State, Visit, VisitOutcome};
pub use verifier::Verifier;
pub use veuni::seen_cache::SeenCache;
pub use veuni::{StoreFile, StoreFiles, Veuni, VeuniOptions};

/// A URL that was seen somewhere: in a link, a sitemap, a feed, or among the seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub url: CanonicalUrl,
    /// Links from the nearest seed. Where a URL is found again, the smallest one counts.
    pub depth: u16,
    /// When the page says (in a sitemap) that it changed: it is due again where that is after its last visit.
    pub hint: Option<Timestamp>,
}

/// What a draw gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    pub urls: Vec<Scheduled>,
    /// When the next draw from this host will give something: at once (`now`) where more was waiting than was
    /// asked for, `None` where nothing waits. URLs in flight do not count.
    pub next_due: Option<Timestamp>,
}

/// Who sent something that the store took in, and over which way: numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(pub u64);

/// A URL and what is known of it, on its way from one store to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownUrl {
    pub url: CanonicalUrl,
    pub record: Record,
}

/// What a store knew of some hosts at one moment. Can be read on another thread, while the store goes on.
pub trait Export: Send {
    /// Hands over every URL, host by host in the order of their hashes, each host's in that of their paths, until there
    /// are no more or `take` breaks off. Memory does not grow with the size of a host.
    ///
    /// # Errors
    /// Where a file cannot be read: what was handed over until then is right, and not all.
    fn walk(
        self: Box<Self>,
        take: &mut dyn FnMut(&Host, &str, &Record) -> ControlFlow<()>,
    ) -> Result<(), Error>;
}

/// Which URLs a [`walk`](UrlStore::walk) goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    All,
    Visited,
    /// Those that were asked for and are not there: [`State::Gone`] and [`State::Failed`].
    Missing,
}

impl Walk {
    fn goes_to(self, state: State) -> bool {
        match self {
            Walk::All => true,
            Walk::Visited => state != State::Known,
            Walk::Missing => matches!(state, State::Gone | State::Failed),
        }
    }
}

/// Keeps each known URL once, and answers what to visit next on a host.
///
/// Calls between two [`flush`](UrlStore::flush)es are one batch: after a crash all of it is there or none.
/// That suits stores that compact in bulk. What a single call brings is never split; a batch that has grown
/// very large may be ended before the next call, as if by a flush.
pub trait UrlStore: Send {
    /// Learns URLs. Those that are known already stay as they are, but for a smaller depth and a hint.
    fn found(&mut self, found: &[Found]) -> Result<(), Error>;

    /// Records a visit; a URL that was not known becomes known, at depth 0. The URL is no longer in flight.
    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error>;

    /// Takes URLs of a host to visit now: first those never visited, in the order that the store stands for,
    /// then those that are due again, longest due first.
    ///
    /// They are in flight, and no later draw gives them, until they are visited or released. Also leases the
    /// host, as [`hosts_due`](UrlStore::hosts_due) does. Neither outlives the process: after opening again
    /// all are back.
    fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Result<Drawn, Error>;

    /// Gives drawn URLs back unvisited.
    fn release(&mut self, urls: &[CanonicalUrl]) -> Result<(), Error>;

    /// Hosts with something to draw now that are not leased, those that wait longest first; each is leased
    /// from now on. Takes time in proportion to the answer.
    fn hosts_due(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Host>, Error> {
        self.hosts_due_but(now, limit, &mut |_| None)
    }

    /// The same, but for hosts that are not wanted yet: `until` is asked about each, and one for which it names a
    /// later instant is passed over, so that it does not stand in the way of others. It comes up again then at
    /// the latest; a store may ask earlier.
    fn hosts_due_but(
        &mut self,
        now: Timestamp,
        limit: usize,
        until: &mut dyn FnMut(&Host) -> Option<Timestamp>,
    ) -> Result<Vec<Host>, Error>;

    /// Leased hosts that have something to draw now and had not when they were drawn from last: links that
    /// were found meanwhile. A caller that waits for a later page of theirs need not wait. Each is named
    /// once; a store whose [`draw`](UrlStore::draw) is never behind what was found has nothing to say here.
    fn newly_ready(&mut self) -> Vec<Host> {
        Vec::new()
    }

    /// Ends the lease of a host; it comes up again as soon as it has something to draw.
    fn release_host(&mut self, host: &Host) {
        self.release_host_until(host, Timestamp::EPOCH);
    }

    /// Ends the lease of a host, which need not come up again before this instant; a store may be earlier.
    fn release_host_until(&mut self, host: &Host, until: Timestamp);

    /// The earliest instant at which [`hosts_due`](UrlStore::hosts_due) may have an answer:
    /// [`Timestamp::EPOCH`] where it has one already, `None` where all are leased or nothing waits.
    fn next_host_due(&mut self) -> Option<Timestamp>;

    /// What is known of a URL; `None` where it is not known, or what was known of its host is damaged. Depth
    /// and due time of one in flight may be as they were when it was drawn.
    fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error>;

    /// Whether the URL is surely known. "No" may be wrong: only [`get`](UrlStore::get) knows, and takes
    /// longer.
    fn knows(&self, url: &CanonicalUrl) -> bool;

    /// Deletes a host and all of its URLs, and returns how many they were.
    fn delete_host(&mut self, host: &Host) -> Result<u64, Error>;

    /// Forgets hosts and all of their URLs, without waiting for it: the next draw gives none of them. What is found or
    /// imported of them afterwards is known again.
    fn forget(&mut self, hosts: &[Host]) -> Result<(), Error>;

    /// What is known of some hosts now, with all that was written so far. What is written of them afterwards is not in
    /// it.
    fn export(&mut self, hosts: &[Host]) -> Result<Box<dyn Export>, Error>;

    /// Learns what another store knew, by [`Record::merge`]: later visits win, the least depth counts, known URLs stay
    /// known. Doing it twice, or in another order, changes nothing.
    fn import(&mut self, urls: &[KnownUrl]) -> Result<(), Error>;

    /// Notes, together with the rest of the batch, that everything up to this number of a sender was taken in. A
    /// number below the last one says nothing.
    fn note(&mut self, source: Source, number: u64) -> Result<(), Error>;

    /// The last number of each sender. Those that a flush made durable may be told to their senders.
    fn numbers(&self) -> BTreeMap<Source, u64>;

    /// Flushes, and answers the files that make up the store now; they stay as they are until the answer is dropped.
    /// `None` where a store keeps nothing on disk.
    ///
    /// # Errors
    /// Where a part of the store is damaged: that is no state to go back to.
    fn files(&mut self) -> Result<Option<StoreFiles>, Error> {
        self.flush().map(|()| None)
    }

    /// URLs of a host by state; `None` where the host is not known.
    fn host_counts(&self, host: &Host) -> Option<HostCounts>;

    /// URLs of a host that can be known at most: those counted, and all that may still join them. A store that counts
    /// at once knows exactly.
    fn known_at_most(&self, host: &Host) -> u64 {
        self.host_counts(host).map_or(0, |counts| counts.known)
    }

    /// Known hosts whose text contains `filter`, in the order in which they were met: `count` of them, after
    /// skipping `first`.
    fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)>;

    /// Sums over everything. A store that compacts in bulk may be behind what was written last, until
    /// [`compact_all`](UrlStore::compact_all).
    fn counts(&self) -> Counts;

    /// Goes through all known URLs, or only some, host by host, as of the last
    /// [`compact_all`](UrlStore::compact_all) at least. A URL is given as its host and what follows.
    fn walk(&self, which: Walk, take: &mut dyn FnMut(&Host, &str, &Record)) -> Result<(), Error>;

    /// Waits until all that was written is compacted, so that the next answers take it into account.
    fn compact_all(&mut self) -> Result<(), Error>;

    /// Waits for work that goes on beside the caller, if there is any, and returns whether there was.
    fn wait(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Tells the store that what it had lost was written again.
    fn rebuilt(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// End of what was taken in of the archive.
    fn watermark(&self) -> PagePosition;

    /// Moves the watermark, together with the rest of the batch.
    fn mark(&mut self, upto: PagePosition) -> Result<(), Error>;

    /// Ends the batch: once this returns `Ok`, all that was written survives the end of the process.
    ///
    /// # Errors
    /// Where the disk is full ([`Error::is_disk_full`]) the batch stays pending, and a later flush that finds
    /// room writes it.
    fn flush(&mut self) -> Result<(), Error>;

    /// Flushes, and returns once everything would survive a power cut.
    fn sync(&mut self) -> Result<(), Error>;
}
