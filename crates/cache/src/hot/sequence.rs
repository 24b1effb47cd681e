//! In which order nodes are taken for a hot query [Gomez14 §4.3.2]: `sec(q)`, of which `real(q)` is a prefix.
//!
//! The order is the query's own and does not change, so a longer or shorter prefix changes few nodes, and a dead node
//! is simply passed over. The owner always comes first.

use crate::ring::{NodeId, Ring};
use farol_base::random::mix;

/// Ways to build the order (Figure 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequence {
    /// By a hash of query and node: \[Gomez14\]'s choice, as rendezvous hashing \[Thaler98\].
    #[default]
    Random,
    /// The next nodes clockwise: close queries overlap.
    Neighbours,
}

/// `sec(q)` over the live nodes: of ring and hash alone, so that all who have the ring find the same. (The thesis' third
/// way, the least loaded first, needs loads that only one knows.)
pub fn sequence(how: Sequence, ring: &Ring, hash: u64) -> Vec<NodeId> {
    let Some(owner) = ring.owner(hash) else { return Vec::new() };
    let at = ring.place(owner).unwrap_or(0);
    let mut nodes: Vec<NodeId> = ring.nodes().collect();
    match how {
        Sequence::Neighbours => nodes.rotate_left(at),
        Sequence::Random => {
            nodes.sort_by_key(|node| std::cmp::Reverse(mix(hash ^ mix(u64::from(node.0) + 1))))
        }
    }
    if let Some(place) = nodes.iter().position(|node| *node == owner) {
        nodes[..=place].rotate_right(1);
    }
    nodes
}

/// The first so many nodes of a fixed order that are alive: `real(q)`.
pub fn prefix(sequence: &[NodeId], count: usize, alive: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    sequence.iter().copied().filter(|node| alive(*node)).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_figure_4_3() {
        // The figure of [Gomez14] counts the nodes besides the owner.
        let sequence: Vec<NodeId> = [0, 6, 2, 7, 1, 5, 3, 4].map(NodeId).to_vec();
        let check = |besides: usize, dead: Option<u16>, want: &[u16]| {
            let got = prefix(&sequence, besides + 1, |node| Some(node.0) != dead);
            assert_eq!(got.iter().map(|node| node.0).collect::<Vec<_>>(), want);
        };
        check(3, None, &[0, 6, 2, 7]);
        check(5, None, &[0, 6, 2, 7, 1, 5]);
        check(2, None, &[0, 6, 2]);
        check(5, Some(7), &[0, 6, 2, 1, 5, 3]);
    }

    #[test]
    fn neighbours_are_those_of_figure_4_4() {
        let ring = Ring::equal(8);
        let point = 5; // In the first node's range.
        let nodes: Vec<NodeId> = sequence(Sequence::Neighbours, &ring, point).into_iter().take(4).collect();
        assert_eq!(nodes, [0, 1, 2, 3].map(NodeId));
    }

    #[test]
    fn the_random_order_is_frozen() {
        // Fronts of different programs must find the same nodes: this order is part of what is agreed on the wire.
        let ring = Ring::equal(8);
        let order =
            |hash: u64| sequence(Sequence::Random, &ring, hash).iter().map(|node| node.0).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 3, 4, 2, 6, 1, 5, 7]);
        assert_eq!(order(u64::MAX), [7, 0, 5, 2, 1, 6, 3, 4]);
        assert_eq!(order(0x0123_4567_89AB_CDEF), [0, 7, 5, 3, 4, 2, 1, 6]);
    }

    #[test]
    fn the_random_order_is_stable_under_failures() {
        let whole = Ring::equal(20);
        for i in 0..50u64 {
            let hash = mix(i);
            let before = sequence(Sequence::Random, &whole, hash);
            assert_eq!(before.len(), 20);
            assert_eq!(before[0], whole.owner(hash).unwrap());
            let dead = before[3];
            let mut ring = whole.clone();
            ring.leave(dead);
            let after = sequence(Sequence::Random, &ring, hash);
            let passed_over: Vec<NodeId> = before.iter().copied().filter(|node| *node != dead).collect();
            assert_eq!(after, passed_over);
        }
        assert!(sequence(Sequence::Random, &Ring::equal(0), 1).is_empty());
    }
}
