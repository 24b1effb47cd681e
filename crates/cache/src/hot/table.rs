//! What is hot now, on which nodes, and whose turn it is [Gomez14 §4.3.2, §4.3.3], as a front sees it.
//!
//! Degrees are published by the leader; the nodes of a query follow from them and the ring, so all fronts find the same.
//! What a front sees rise by itself it may spread at once; that lasts until the leader has had time to decide.
//!
//! INVARIANT: never more queries than the table has room for; the set of a query holds nodes of the ring only.

use super::degree::Degree;
use super::sequence::{Sequence, prefix, sequence};
use crate::ring::{NodeId, Ring};
use farol_base::Timestamp;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// What a front raised by itself lasts so long if the leader does not publish it: two of its minutes.
const RAISED_FOR: Duration = Duration::from_secs(120);

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
    room: usize,
}

#[derive(Debug)]
struct Hot {
    nodes: Vec<NodeId>,
    degree: usize,
    turn: usize,
    /// Raised here, and when that ends; `None` where it was published.
    raised_until: Option<Timestamp>,
}

impl HotTable {
    pub fn new(sequence: Sequence, room: usize) -> HotTable {
        HotTable { hot: HashMap::default(), sequence, room }
    }

    /// Takes over what the leader published. What was raised here stays for a while.
    pub fn install(&mut self, published: &[Degree], ring: &Ring, now: Timestamp) {
        let mut before = std::mem::take(&mut self.hot);
        for degree in published.iter().take(self.room) {
            let known = before.remove(&degree.hash);
            let (turn, nodes) = known
                .filter(|hot| hot.degree == degree.nodes)
                .map_or_else(|| (0, self.nodes_of(degree, ring)), |hot| (hot.turn, hot.nodes));
            self.hot.insert(degree.hash, Hot { nodes, degree: degree.nodes, turn, raised_until: None });
        }
        for (hash, hot) in before {
            if hot.raised_until.is_some_and(|until| until > now) && self.hot.len() < self.room {
                self.hot.insert(hash, hot);
            }
        }
    }

    /// Makes a query hot at once. Where there is no room, the one of those raised here that ends first makes some.
    pub fn raise(&mut self, degree: Degree, ring: &Ring, now: Timestamp) {
        if degree.nodes < 2 || self.contains(degree.hash) {
            return;
        }
        if self.hot.len() >= self.room {
            let first = self.hot.iter().filter_map(|(hash, hot)| Some((hot.raised_until?, *hash))).min();
            let Some((_, hash)) = first else { return };
            self.hot.remove(&hash);
        }
        let raised_until = Some(now + RAISED_FOR);
        let nodes = self.nodes_of(&degree, ring);
        self.hot.insert(degree.hash, Hot { nodes, degree: degree.nodes, turn: 0, raised_until });
    }

    fn nodes_of(&self, degree: &Degree, ring: &Ring) -> Vec<NodeId> {
        prefix(&sequence(self.sequence, ring, degree.hash), degree.nodes, |_| true)
    }

    /// The ring changed: every set again.
    pub fn refit(&mut self, ring: &Ring) {
        for (hash, hot) in &mut self.hot {
            hot.nodes = prefix(&sequence(self.sequence, ring, *hash), hot.degree, |_| true);
        }
    }

    /// The node for one question, where it is hot. `sent` says how much a node was sent, or that it is not to be asked.
    pub fn pick(
        &mut self,
        hash: u64,
        choice: Choice,
        sent: impl Fn(NodeId) -> Option<u64>,
    ) -> Option<NodeId> {
        let hot = self.hot.get_mut(&hash)?;
        match choice {
            Choice::RoundRobin => {
                let len = hot.nodes.len().max(1);
                let place = (1..=len).map(|step| (hot.turn + step) % len);
                let open = |place: &usize| hot.nodes.get(*place).is_some_and(|node| sent(*node).is_some());
                let place = place.into_iter().find(open)?;
                hot.turn = place;
                hot.nodes.get(place).copied()
            }
            Choice::LeastSent => hot
                .nodes
                .iter()
                .filter_map(|node| Some((sent(*node)?, *node)))
                .min_by_key(|(sent, _)| *sent)
                .map(|(_, node)| node),
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

    const NOW: Timestamp = Timestamp::EPOCH;

    fn table(degree: usize, ring: &Ring) -> HotTable {
        let mut table = HotTable::new(Sequence::Random, 100);
        table.install(&[Degree { hash: 42, nodes: degree }], ring, NOW);
        table
    }

    #[test]
    fn turns_differ_by_at_most_one() {
        let ring = Ring::equal(10);
        let mut table = table(7, &ring);
        let mut counts = [0u32; 10];
        for _ in 0..1000 {
            counts[usize::from(table.pick(42, Choice::RoundRobin, |_| Some(0)).unwrap().0)] += 1;
        }
        let used: Vec<u32> = counts.into_iter().filter(|count| *count > 0).collect();
        assert_eq!(used.len(), 7);
        assert!(used.iter().max().unwrap() - used.iter().min().unwrap() <= 1);
        assert_eq!(table.pick(43, Choice::RoundRobin, |_| Some(0)), None);
    }

    #[test]
    fn who_is_not_to_be_asked_is_passed_over() {
        let ring = Ring::equal(4);
        let mut table = table(4, &ring);
        let sent = |node: NodeId| [Some(9u64), Some(3), Some(5), None][usize::from(node.0)];
        assert_eq!(table.pick(42, Choice::LeastSent, sent), Some(NodeId(1)));
        assert_eq!(table.pick(42, Choice::LeastSent, |_| None), None);
        assert!(
            (0..9).all(|_| table.pick(42, Choice::RoundRobin, sent).is_some_and(|node| node != NodeId(3)))
        );
        assert_eq!(table.pick(42, Choice::RoundRobin, |_| None), None);
        let mut smaller = ring.clone();
        smaller.leave(NodeId(1));
        table.refit(&smaller);
        assert_eq!(table.pick(42, Choice::LeastSent, sent), Some(NodeId(2)));
    }

    #[test]
    fn what_was_raised_here_lasts_until_the_leader_could_decide() {
        let ring = Ring::equal(4);
        let mut table = table(2, &ring);
        table.raise(Degree { hash: 7, nodes: 4 }, &ring, NOW);
        table.install(&[], &ring, Timestamp::from_secs(60));
        assert!(table.contains(7) && !table.contains(42));
        table.install(&[], &ring, Timestamp::from_secs(120));
        assert!(table.is_empty());
        // Published meanwhile, it is the leader's.
        table.raise(Degree { hash: 7, nodes: 4 }, &ring, NOW);
        table.install(&[Degree { hash: 7, nodes: 2 }], &ring, NOW);
        assert_eq!(table.nodes(7).len(), 2);
        table.install(&[], &ring, NOW);
        assert!(table.is_empty());
    }

    #[test]
    fn the_table_has_a_limit() {
        let ring = Ring::equal(4);
        let mut table = HotTable::new(Sequence::Random, 3);
        let many: Vec<Degree> = (0..10).map(|hash| Degree { hash, nodes: 2 }).collect();
        table.install(&many, &ring, NOW);
        assert_eq!(table.len(), 3);
        table.raise(Degree { hash: 99, nodes: 4 }, &ring, NOW);
        assert!(!table.contains(99), "what the leader published is not pushed out");
        table.install(&many[..2], &ring, NOW);
        (100..110).for_each(|hash| table.raise(Degree { hash, nodes: 4 }, &ring, Timestamp::from_secs(hash)));
        assert!(table.len() == 3 && table.contains(109) && table.contains(0));
    }
}
