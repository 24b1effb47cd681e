//! What an agent tells the planner of its hosts, and why something of it is not believed.
//!
//! A [`Report`] is plain data: transports make twins of it. Counts are totals since the crawl began, not steps, so that a
//! report that is lost, doubled or late does no harm. Hosts that are linked to stand by fingerprint: whoever owns them
//! tells their names.
//!
//! Does not decide what is believed; see [`super::Atlas`].

use crate::Position;
use std::net::IpAddr;

/// One batch of an agent's knowledge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub agent: String,
    /// Version of the routing table that the agent goes by; 0 before the first.
    pub version: u64,
    /// Greater than in the agent's report before.
    pub number: u64,
    pub hosts: Vec<HostFacts>,
    /// Round-trip times to other agents, by name.
    pub peers: Vec<(String, RttMedian)>,
    pub exchanged: Exchanged,
}

/// A host, as the agent that crawls it knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFacts {
    /// Scheme, name and port, as in `https://example.org`.
    pub host: String,
    /// Where it was last connected to.
    pub address: IpAddr,
    /// URLs that are known of it.
    pub pages: u64,
    /// By times to connect to that address.
    pub rtt: Option<RttMedian>,
    /// From a LOC record of the DNS ([`crate::geo::loc`]).
    pub position: Option<Position>,
    /// ISO 639-1 code of the language that most of its pages are in.
    pub language: Option<[u8; 2]>,
    /// Fingerprints ([`crate::table::host_key`]) of hosts that its pages link to, and how many links there are.
    pub links: Vec<(u64, u32)>,
}

/// A median, and of how many samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttMedian {
    pub micros: u32,
    pub samples: u16,
}

/// Links that an agent found under the table of its report's version, from the pages of its hosts to other hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    pub links: u64,
    /// Those whose target belongs to another agent.
    pub forwarded: u64,
}

/// Why something was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The sender is no member.
    UnknownAgent,
    /// A report of this number, or a later one, was taken before.
    Doubled,
    /// The sender goes by a table that is too old, or that there is not.
    WrongVersion,
    /// More hosts or links than a report may have.
    TooLarge,
    /// More than an agent may tell in a minute.
    Flood,
    /// The host belongs to another agent.
    NotYours,
    /// The agent has told of as many hosts as it may, or all have.
    Full,
    /// No host, no address that a server can have, or a number that cannot be.
    Malformed,
    /// The agent's times contradict physics or what the others measured, so that none of them is believed.
    Disbelieved,
}

impl Reason {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Reason::UnknownAgent => "the sender is no member",
            Reason::Doubled => "it was told before",
            Reason::WrongVersion => "it goes by a table that is not in force",
            Reason::TooLarge => "it is larger than a report may be",
            Reason::Flood => "more was told in a minute than may be",
            Reason::NotYours => "the host belongs to another agent",
            Reason::Full => "there is no room for more hosts",
            Reason::Malformed => "it is malformed",
            Reason::Disbelieved => "the agent's round-trip times contradict physics or those of others",
        }
    }
}

/// What became of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Hosts that were taken in.
    pub taken: usize,
    /// What was not, and why; a report that is refused as a whole counts once.
    pub refused: Vec<(Reason, u64)>,
}

impl Receipt {
    /// Whether nothing of the report was looked at.
    pub fn is_refused(&self) -> bool {
        let whole = [Reason::UnknownAgent, Reason::WrongVersion, Reason::TooLarge, Reason::Flood];
        self.taken == 0 && self.refused.iter().any(|(reason, _)| whole.contains(reason))
    }

    pub(super) fn refuse(&mut self, reason: Reason) {
        match self.refused.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((reason, 1)),
        }
    }
}
