//! What passes between the frontier and whoever does the work: steps out, answers in.

use crate::addresses::AddressId;
use crate::hosts::{HostId, HostMemory};
use farol_base::{CanonicalUrl, Host, Scheduled, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// What to do next.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// Find this host's address and answer with [`crate::Frontier::resolved`]. Said once until answered.
    Resolve(Host),
    /// Make this request and answer with [`crate::Frontier::done`].
    Fetch(Lease),
    /// Find up to `want` pages of this host that are due and answer with [`crate::Frontier::offer`]. Said once
    /// until answered.
    Refill { host: Host, want: usize },
    /// This host has left: it was here only because another's robots.txt led to it. This is what it should remember.
    Left { host: Host, memory: HostMemory },
    /// Nothing before this instant, unless something is added or answered.
    WaitUntil(Timestamp),
    /// Nothing until something is added or answered.
    Idle,
}

/// The right to make one request to one host. It is not `Clone`, and `done` consumes it, so that no host can be
/// released twice; one that is dropped keeps its host and address for ever.
#[derive(Debug)]
#[must_use = "a lease that is dropped blocks its host for ever"]
pub struct Lease {
    pub(crate) host: Host,
    pub(crate) task: Task,
    pub(crate) address: IpAddr,
    pub(crate) host_id: HostId,
    pub(crate) address_id: AddressId,
    /// Failed tries of this page so far.
    pub(crate) tries: u8,
}

impl Lease {
    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The address to connect to; the frontier keeps others away from it meanwhile.
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

/// What a lease is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Read the host's robots.txt: first, and again when its validity ends.
    Robots,
    /// Ask this host for a robots.txt that was moved here: a redirect is a request of its target host, in its turn.
    MovedRobots(MovedRobots),
    /// Visit a page.
    Page(Scheduled),
}

/// A robots.txt that is not where it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRobots {
    /// Whose it is.
    pub of: Host,
    /// Where to ask for it.
    pub url: CanonicalUrl,
    /// Redirects that led there.
    pub hops: u8,
    /// Tells this request from all others of its kind.
    pub(crate) serial: u64,
}

/// What [`crate::Frontier::add_host`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The host starts its life here.
    New,
    /// It was here; if it slept for want of pages, it is awake now.
    Known,
    /// There is no room ([`crate::Limits::hosts_max`]): add it again later, or make room with
    /// [`crate::Frontier::retire`].
    Full,
    /// Its registrable domain has its share of the places ([`crate::Limits::hosts_share`]): add it again then.
    Crowded { until: Timestamp },
}

/// What [`crate::Frontier::resolved`] made of an address.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Resolved {
    /// The host goes on.
    Taken,
    /// Its address has its share of the places ([`crate::Limits::hosts_share`]): the host has left. Add it again then,
    /// with this memory; these pages are as unvisited as they were.
    Crowded { until: Timestamp, memory: HostMemory, pages: Vec<Scheduled> },
}

/// A host's address, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Address(IpAddr),
    /// The name has no address, for now (`transient`) or as far as anybody knows.
    Failed {
        transient: bool,
    },
    /// The address guard forbids it.
    Refused,
}

/// What became of an offer.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered {
    /// The pages are queued, or the host sleeps until its next page is due.
    Taken,
    /// There was nothing to fetch, so the host has left. This is what it should remember when it is added again.
    Left(HostMemory),
    /// The host is not here (any more): these pages were not taken.
    GivenBack(Vec<Scheduled>),
}

/// What came of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// robots.txt was read, or the host has none (4xx). `delay` is its Crawl-delay.
    Robots { delay: Option<Duration>, valid_until: Timestamp, download: Duration },
    /// robots.txt is elsewhere. `memory` is what is remembered of the host there, as for
    /// [`crate::Frontier::add_host`].
    RobotsMoved { to: CanonicalUrl, memory: Box<HostMemory> },
    /// robots.txt could not be had (5xx, unreachable): no page is asked for until it can.
    RobotsUnavailable { retry_after: Option<Duration>, download: Duration },
    /// The page was answered, whatever the answer was.
    Fetched { download: Duration, bytes: u64 },
    /// The server said 429 or 503: the page is kept and the host rests longer.
    Throttled { retry_after: Option<Duration> },
    /// No answer: a transient error is tried again, the host backs off.
    Failed { transient: bool },
    /// No request was made (refused by robots.txt, a trap, or out of scope): the host needs no rest.
    NotAsked,
}

/// What the frontier made of an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// The visit is over: record it. (Also said of robots.txt, of which there is nothing to record.)
    Finished,
    /// The page stays queued and will be leased again: record nothing.
    Requeued,
    /// The page failed too often: record that.
    GaveUp(Scheduled),
    /// The page was not answered and its host has left meanwhile: it is as unvisited as it was.
    GivenBack(Scheduled),
}
