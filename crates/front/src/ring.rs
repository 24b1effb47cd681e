//! How the cache service of a cluster fares, as plain values: its nodes and what they own, what is hot, what bursts, and how
//! the ring changed.
//!
//! Filled in by the binary from what the leader published; where there are no cache nodes there is none of this.

use farol_base::Timestamp;
use std::time::Duration;

/// The service as its leader told of it last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RingStatus {
    /// Term of the leader that published the ring, and the ring's number under it.
    pub term: u64,
    /// See `term`.
    pub version: u64,
    /// Number of the table of hot questions.
    pub hot_version: u64,
    /// When the leader told this; `None` where nobody has yet.
    pub told: Option<Timestamp>,
    /// Fronts that report.
    pub fronts: u64,
    /// Mean over greatest load of the nodes, 0 to 1, by their own counters over the last minute.
    pub efficiency: f64,
    /// Share of the last minute's lookups that found an answer, 0 to 1.
    pub hit_rate: f64,
    /// In the order of their ranges; those that are not on the ring behind.
    pub nodes: Vec<RingMember>,
    /// Questions that several nodes answer, the most asked first.
    pub hot: Vec<RingHot>,
    /// Bursts, the newest first.
    pub bursts: Vec<RingBurst>,
    /// New rings, the newest first.
    pub changes: Vec<RingChange>,
}

/// A cache node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RingMember {
    /// Its number in the cluster.
    pub no: u16,
    /// Its name for people; empty where nobody knows it any more.
    pub name: String,
    /// Whether it is on the ring.
    pub is_on_ring: bool,
    /// Whether the front that tells this asks it now; `None` where no front tells this.
    pub is_asked: Option<bool>,
    /// Its share of the circle, 0 to 1.
    pub share: f64,
    /// Where its range ends, 0 to 1.
    pub end: f64,
    /// Requests of every kind per second, over the last minute.
    pub per_second: f64,
    /// Share of the last minute's lookups that found an answer, 0 to 1.
    pub hit_rate: f64,
    /// Since it started, here and below: lookups,
    pub lookups: u64,
    /// those that found an answer,
    pub hits: u64,
    /// and of these, in copies of another node's.
    pub adopted: u64,
    /// Answers handed in.
    pub inserts: u64,
    /// Batches of copies, and of a former owner's answers, that it took in.
    pub protects: u64,
    /// See `protects`.
    pub handed: u64,
    /// Answers that it keeps.
    pub entries: u64,
    /// Memory of the answers that it keeps.
    pub bytes: u64,
    /// Share of its processors that it uses, 0 to 1.
    pub busy: f64,
    /// Time since its last beat, when this was told.
    pub silent: Duration,
}

/// A question that several nodes answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingHot {
    /// As somebody asked it.
    pub text: String,
    /// On how many nodes.
    pub nodes: u64,
    /// How often it was asked in the last minute, at least.
    pub count: u64,
    /// Of its burst, from 1 to 4; 0 where it does not burst.
    pub severity: u8,
}

/// A burst that began, changed or ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingBurst {
    /// When.
    pub at: Timestamp,
    /// As somebody asked it; empty where it is not counted any more.
    pub text: String,
    /// From 1 to 4; 0: it has ended.
    pub severity: u8,
}

/// A new ring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RingChange {
    /// When.
    pub at: Timestamp,
    /// Its number under its leader.
    pub version: u64,
    /// Names of nodes that came.
    pub joined: Vec<String>,
    /// Names of nodes that went.
    pub left: Vec<String>,
    /// Share of the circle that changed its owner, 0 to 1.
    pub moved: f64,
}
