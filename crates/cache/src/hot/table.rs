//! What is hot now, on which nodes, and whose turn it is [Gomez14 §4.3.2, §4.3.3].
//!
//! A degree rises at once and falls one step at a time, each after it was not needed for a while (\[Gomez14\]'s `A`).
//! INVARIANT: never more queries than the table has room for; the set of a query holds live nodes only.

use super::degree::Degree;
use super::sequence::{Sequence, prefix, sequence};
use crate::ring::{NodeId, Ring};
use farol_base::Timestamp;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// Which of a hot query's nodes gets a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Each in turn (\[Gomez14\]'s).
    #[default]
    RoundRobin,
    /// The one that this front has sent least to in this interval (ours).
    LeastSent,
}

/// Hot queries.
pub struct HotTable {
    hot: HashMap<u64, Hot, BuildHasherDefault<Same>>,
    sequence: Sequence,
    /// How long a degree stays after it was needed last.
    ageing: Duration,
    room: usize,
}

#[derive(Debug)]
struct Hot {
    nodes: Vec<NodeId>,
    degree: usize,
    /// When the degree was needed last, or fell last.
    since: Timestamp,
    turn: usize,
}

impl HotTable {
    pub fn new(sequence: Sequence, ageing: Duration, room: usize) -> HotTable {
        HotTable { hot: HashMap::default(), sequence, ageing, room }
    }

    /// Takes the degrees of an interval over: those that rose at once, those that fell by their age.
    pub fn renew(&mut self, required: &[Degree], ring: &Ring, loads: &[f64], now: Timestamp) {
        let wanted: HashMap<u64, usize> = required.iter().map(|degree| (degree.hash, degree.nodes)).collect();
        let ageing = self.ageing;
        self.hot.retain(|hash, hot| {
            let needed = wanted.get(hash).copied().unwrap_or(1);
            if needed >= hot.degree {
                (hot.degree, hot.since) = (needed, now);
            } else if now.since(hot.since) >= ageing {
                (hot.degree, hot.since) = (hot.degree - 1, now);
            }
            hot.degree > 1
        });
        for degree in required {
            if !self.hot.contains_key(&degree.hash) {
                self.raise(*degree, ring, loads, now);
            }
        }
        self.refit(ring, loads);
    }

    /// Makes a query hot at once, whoever has to make room: that which needed its nodes longest ago.
    pub fn raise_now(&mut self, degree: Degree, ring: &Ring, now: Timestamp) {
        if self.hot.len() >= self.room && !self.hot.contains_key(&degree.hash) {
            let oldest = self.hot.iter().min_by_key(|(hash, hot)| (hot.since, hot.degree, **hash));
            if let Some(hash) = oldest.map(|(hash, _)| *hash) {
                self.hot.remove(&hash);
            }
        }
        self.raise(degree, ring, &[], now);
    }

    /// Makes a query hot, or hotter, if there is room.
    pub fn raise(&mut self, degree: Degree, ring: &Ring, loads: &[f64], now: Timestamp) {
        if degree.nodes < 2 || (self.hot.len() >= self.room && !self.hot.contains_key(&degree.hash)) {
            return;
        }
        let order = sequence(self.sequence, ring, degree.hash, loads);
        let hot =
            self.hot.entry(degree.hash).or_insert(Hot { nodes: Vec::new(), degree: 0, since: now, turn: 0 });
        if degree.nodes >= hot.degree {
            (hot.degree, hot.since) = (degree.nodes, now);
            hot.nodes = prefix(&order, degree.nodes, |_| true);
        }
    }

    /// The ring changed: every set again, over the live nodes.
    pub fn refit(&mut self, ring: &Ring, loads: &[f64]) {
        for (hash, hot) in &mut self.hot {
            hot.nodes = prefix(&sequence(self.sequence, ring, *hash, loads), hot.degree, |_| true);
        }
    }

    /// The node for one question, where it is hot.
    pub fn pick(&mut self, hash: u64, choice: Choice, sent: &[u32]) -> Option<NodeId> {
        let hot = self.hot.get_mut(&hash)?;
        match choice {
            Choice::RoundRobin => {
                hot.turn = (hot.turn + 1) % hot.nodes.len().max(1);
                hot.nodes.get(hot.turn).copied()
            }
            Choice::LeastSent => {
                let load = |node: &&NodeId| sent.get(usize::from(node.0)).copied().unwrap_or(0);
                hot.nodes.iter().min_by_key(load).copied()
            }
        }
    }

    /// `real(q)`; empty where the query is not hot.
    pub fn nodes(&self, hash: u64) -> &[NodeId] {
        self.hot.get(&hash).map_or(&[], |hot| &hot.nodes)
    }

    pub fn contains(&self, hash: u64) -> bool {
        self.hot.contains_key(&hash)
    }

    pub fn len(&self) -> usize {
        self.hot.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hot.is_empty()
    }
}

/// Keys are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(count: u64) -> Timestamp {
        Timestamp::from_secs(60 * count)
    }

    fn degree(nodes: usize) -> Vec<Degree> {
        if nodes == 0 { Vec::new() } else { vec![Degree { hash: 42, nodes }] }
    }

    #[test]
    fn degrees_rise_at_once_and_fall_one_by_one() {
        let ring = Ring::equal(10);
        let mut table = HotTable::new(Sequence::Random, Duration::from_secs(180), 100);
        let sizes: Vec<usize> = [3, 7, 2, 2, 2, 2, 0, 0, 6, 0, 0, 0]
            .iter()
            .enumerate()
            .map(|(minute, nodes)| {
                table.renew(&degree(*nodes), &ring, &[], minutes(minute as u64));
                table.nodes(42).len()
            })
            .collect();
        //               needed: 3  7  2  2  2  2  -  -  6  -  -  -
        assert_eq!(sizes, [3, 7, 7, 7, 6, 6, 6, 5, 6, 6, 6, 5]);
        for minute in 12..40 {
            table.renew(&[], &ring, &[], minutes(minute));
        }
        assert!(table.is_empty());
    }

    #[test]
    fn turns_differ_by_at_most_one() {
        let ring = Ring::equal(10);
        let mut table = HotTable::new(Sequence::Random, Duration::from_secs(180), 100);
        table.renew(&degree(7), &ring, &[], minutes(0));
        let mut counts = [0u32; 10];
        for _ in 0..1000 {
            counts[usize::from(table.pick(42, Choice::RoundRobin, &[]).unwrap().0)] += 1;
        }
        let used: Vec<u32> = counts.into_iter().filter(|count| *count > 0).collect();
        assert_eq!(used.len(), 7);
        assert!(used.iter().max().unwrap() - used.iter().min().unwrap() <= 1);
        assert_eq!(table.pick(43, Choice::RoundRobin, &[]), None);
    }

    #[test]
    fn the_least_sent_node_is_taken_and_the_dead_are_not() {
        let mut ring = Ring::equal(4);
        let mut table = HotTable::new(Sequence::Random, Duration::from_secs(180), 100);
        table.renew(&degree(4), &ring, &[], minutes(0));
        assert_eq!(table.pick(42, Choice::LeastSent, &[9, 3, 5, 7]), Some(NodeId(1)));
        ring.leave(NodeId(1));
        table.refit(&ring, &[]);
        assert_eq!(table.pick(42, Choice::LeastSent, &[9, 3, 5, 7]), Some(NodeId(2)));
    }

    #[test]
    fn the_table_has_a_limit() {
        let ring = Ring::equal(4);
        let mut table = HotTable::new(Sequence::Random, Duration::from_secs(180), 3);
        let many: Vec<Degree> = (0..10).map(|hash| Degree { hash, nodes: 2 }).collect();
        table.renew(&many, &ring, &[], minutes(0));
        assert_eq!(table.len(), 3);
        table.raise_now(Degree { hash: 99, nodes: 4 }, &ring, minutes(1));
        assert!(table.len() == 3 && table.contains(99));
    }
}
