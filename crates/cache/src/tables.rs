//! What the leader of a service publishes and what it is told: plain values.
//!
//! A table is as new as its [`Epoch`]. Readers take only what is newer than what they have, so a deposed leader's last
//! words, and tables that come twice or late, change nothing.

use crate::balance::DensityDelta;
use crate::error::Error;
use crate::hot::{Degree, Summary};
use crate::ring::{NodeId, Ring};
use farol_base::Timestamp;

/// Names a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontId(pub u64);

/// How new a published table is: the leader's term, and within it a number that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    pub term: u64,
    pub version: u64,
}

/// A node as the ring's table lists it. Where it is reached is membership's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingNode {
    pub id: NodeId,
    /// Which start of its program: what an earlier one held is gone.
    pub incarnation: u64,
    /// What it bears beside the others; 1000 is usual.
    pub capacity: u32,
}

/// The ring in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingDoc {
    pub epoch: Epoch,
    /// Of keys' hashes: nobody outside knows it, so nobody can choose queries that fall on one node.
    pub seed: u64,
    /// In the order of their ids; those on the ring.
    pub nodes: Vec<RingNode>,
    pub ring: Ring,
}

impl RingDoc {
    /// Refuses a table whose nodes are not those of its ring.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(pair) = self.nodes.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            return Err(Error::Twice(pair[1].id.0));
        }
        if self.nodes.len() != self.ring.len() || !self.nodes.iter().all(|node| self.ring.contains(node.id)) {
            let (what, count, max) = ("nodes beside the ring", self.nodes.len(), self.ring.len());
            return Err(Error::TooMany { what, count, max });
        }
        Ok(())
    }
}

/// A hot query as it is published: no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotKey {
    pub degree: Degree,
    /// Of its burst, from 1 to 4; 0 where it does not burst.
    pub severity: u8,
}

/// Queries at most: 1,500 × 16 bytes.
pub const HOT_MAX: usize = 1_500;

/// What is hot now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotDoc {
    pub epoch: Epoch,
    /// Fronts that report: each sees so small a part of the traffic.
    pub fronts: u16,
    /// Asked so often in a minute, by all together, a query is hot at once; 0: nothing is.
    pub at_once: u32,
    pub hot: Vec<HotKey>,
}

impl HotDoc {
    pub fn check(&self) -> Result<(), Error> {
        match self.hot.len() > HOT_MAX {
            true => Err(Error::TooMany { what: "hot queries", count: self.hot.len(), max: HOT_MAX }),
            false => Ok(()),
        }
    }
}

/// What a node says of itself every 1.2 seconds. Counts are since it started, so that a beat lost, or come twice, does no
/// harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub incarnation: u64,
    pub ring: Epoch,
    pub capacity: u32,
    pub lookups: u64,
    pub hits: u64,
    pub adopted: u64,
    pub misses: u64,
    pub inserts: u64,
    pub refused: u64,
    pub protects: u64,
    pub handed: u64,
    /// How busy it is, per mille.
    pub busy: u16,
    pub bytes: u64,
    pub entries: u64,
}

impl Beat {
    /// Every request that it served.
    pub fn served(&self) -> u64 {
        [self.lookups, self.inserts, self.protects, self.handed]
            .iter()
            .fold(0, |sum, one| sum.saturating_add(*one))
    }
}

/// What a front sent to a node, since the front started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTally {
    pub node: NodeId,
    pub sent: u64,
    /// Of these, because the node owns their range.
    pub owned: u64,
    pub late: u64,
    pub refused: u64,
    /// It refuses connections since so many milliseconds; `None` while it answers.
    pub refusing_ms: Option<u32>,
}

/// What a front says every ten seconds, and at once when a node refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontReport<K> {
    pub front: FrontId,
    /// Which start of its program; its numbers begin anew with each.
    pub incarnation: u64,
    /// Grows with each report: what comes twice or late is passed over.
    pub number: u64,
    pub ring: Epoch,
    pub nodes: Vec<NodeTally>,
    pub density: DensityDelta,
    /// The minute that has ended since the last report.
    pub minute: Option<Summary<K>>,
    /// Queries that it spread at once, with their counts.
    pub raised: Vec<(u64, u32)>,
}

/// A burst as people may see it.
#[derive(Clone, Debug, PartialEq)]
pub struct BurstNews<K> {
    pub at: Timestamp,
    pub hash: u64,
    /// Its query; `None` where it is not counted any more.
    pub key: Option<K>,
    /// 0: it has ended.
    pub severity: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_term_is_newer_than_any_version_of_an_earlier_one() {
        let epoch = |term, version| Epoch { term, version };
        assert!(epoch(2, 1) > epoch(1, 900) && epoch(2, 2) > epoch(2, 1));
    }

    #[test]
    fn a_table_with_other_nodes_than_its_ring_is_refused() {
        let node = |id| RingNode { id: NodeId(id), incarnation: 1, capacity: 1000 };
        let doc = |ids: &[u16]| RingDoc {
            epoch: Epoch::default(),
            seed: 0,
            nodes: ids.iter().map(|id| node(*id)).collect(),
            ring: Ring::equal(3),
        };
        assert!(doc(&[0, 1, 2]).check().is_ok());
        for wrong in [&[0, 1][..], &[0, 1, 3], &[0, 1, 1], &[2, 1, 0], &[0, 1, 2, 3]] {
            assert!(doc(wrong).check().is_err(), "{wrong:?}");
        }
    }
}
