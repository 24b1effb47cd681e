//! The ring of nodes with movable borders [Gomez14 §2.2, §5.1, §5.2].
//!
//! A key's hash is its point on the circle of 64-bit numbers. Each node owns one contiguous range, up to and with
//! its end point; the owner of a point is the first end point clockwise, found by binary search.
//!
//! INVARIANT: the ranges tile the circle: no hole, no overlap, one per node.
//!
//! Does not know how old it is: that is said by the [`crate::tables::Epoch`] of what is published.

use crate::error::Error;

/// Names a node; says nothing on where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// Nodes on a ring at most: a ring then fits 64 KiB.
pub const NODES_MAX: usize = 4096;

/// No node's range becomes narrower than this part of an equal share.
const WIDTH_MIN: f64 = 0.01;

const CIRCLE: f64 = 18_446_744_073_709_551_616.0;

/// Nodes on a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// End points, growing, with their nodes.
    ends: Vec<(u64, NodeId)>,
}

impl Ring {
    /// So many nodes, numbered from 0, at equal distances.
    pub fn equal(nodes: u16) -> Ring {
        let all: Vec<NodeId> = (0..nodes).map(NodeId).collect();
        Ring::even(&all)
    }

    /// These nodes at equal distances. A node that stands twice is taken once.
    pub fn even(nodes: &[NodeId]) -> Ring {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let step = CIRCLE / nodes.len().max(1) as f64;
        let end = |place: usize| match place + 1 == nodes.len() {
            true => u64::MAX,
            false => (step * (place + 1) as f64) as u64,
        };
        Ring { ends: nodes.iter().enumerate().map(|(place, node)| (end(place), *node)).collect() }
    }

    /// A ring as it was published: end points that grow, each of another node.
    pub fn from_ends(ends: Vec<(u64, NodeId)>) -> Result<Ring, Error> {
        if ends.len() > NODES_MAX {
            return Err(Error::TooMany { what: "nodes", count: ends.len(), max: NODES_MAX });
        }
        if let Some(pair) = ends.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(Error::Unordered { before: pair[0].0, after: pair[1].0 });
        }
        let mut nodes: Vec<NodeId> = ends.iter().map(|(_, node)| *node).collect();
        nodes.sort_unstable();
        match nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::Twice(pair[0].0)),
            None => Ok(Ring { ends }),
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The nodes, clockwise.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.ends.iter().map(|(_, node)| *node)
    }

    /// End points with their nodes, clockwise: what a ring update carries.
    pub fn ends(&self) -> &[(u64, NodeId)] {
        &self.ends
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.place(node).is_some()
    }

    /// Whose point this is; `None` only where there is no node at all.
    pub fn owner(&self, point: u64) -> Option<NodeId> {
        let at = self.ends.partition_point(|(end, _)| *end < point);
        self.ends.get(at).or(self.ends.first()).map(|(_, node)| *node)
    }

    /// The nodes clockwise from the owner of a point on, each once.
    pub fn from_point(&self, point: u64) -> impl Iterator<Item = NodeId> + '_ {
        let at = self.ends.partition_point(|(end, _)| *end < point);
        let (before, after) = self.ends.split_at(at);
        after.iter().chain(before).map(|(_, node)| *node)
    }

    /// Where a node stands, clockwise from 0.
    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.ends.iter().position(|(_, known)| *known == node)
    }

    /// The next node clockwise, which inherits this one's range when it goes.
    pub fn successor(&self, node: NodeId) -> Option<NodeId> {
        let at = self.place(node)?;
        (self.ends.len() > 1).then(|| self.ends[(at + 1) % self.ends.len()].1)
    }

    pub fn predecessor(&self, node: NodeId) -> Option<NodeId> {
        let at = self.place(node)?;
        (self.ends.len() > 1).then(|| self.ends[(at + self.ends.len() - 1) % self.ends.len()].1)
    }

    /// Width of the range of the node at a place, as a share of the circle.
    pub fn width(&self, place: usize) -> f64 {
        match self.ends.len() {
            0 => 0.0,
            1 => 1.0,
            len => {
                let before = self.ends[(place + len - 1) % len].0;
                self.ends[place % len].0.wrapping_sub(before) as f64 / CIRCLE
            }
        }
    }

    /// Where the range of the node at a place begins; the point itself belongs to the node before.
    pub fn start(&self, place: usize) -> u64 {
        let len = self.ends.len().max(1);
        self.ends.get((place + len - 1) % len).map_or(0, |(end, _)| *end)
    }

    /// Takes a node out; its successor absorbs its range. Answers whether it was there.
    pub fn leave(&mut self, node: NodeId) -> bool {
        let Some(at) = self.place(node) else { return false };
        self.ends.remove(at);
        true
    }

    /// Puts a new node into the first half of another's range, whose end stays where it is. Answers whether there
    /// was such a node, and the new one was not there yet.
    pub fn join(&mut self, node: NodeId, victim: NodeId) -> bool {
        let Some(at) = self.place(victim) else { return false };
        if self.ends.len() == 1 {
            let opposite = self.ends[0].0.wrapping_add(1 << 63);
            return self.insert(node, opposite);
        }
        let before = self.start(at);
        let width = self.ends[at].0.wrapping_sub(before);
        self.insert(node, before.wrapping_add(width / 2))
    }

    /// Puts a node at a given end point, such as its old one. Answers whether neither was taken.
    pub fn insert(&mut self, node: NodeId, end: u64) -> bool {
        let at = self.ends.partition_point(|(known, _)| *known < end);
        if self.contains(node) || self.ends.get(at).is_some_and(|(known, _)| *known == end) {
            return false;
        }
        self.ends.insert(at, (end, node));
        true
    }

    /// Moves end points: the `i`-th by `shifts[i]` of the circle, clockwise where positive. Moves that would make a
    /// range too narrow are cut. Answers how much of the circle changed owner.
    pub fn shift(&mut self, shifts: &[f64]) -> f64 {
        let len = self.ends.len();
        if len < 2 || shifts.len() != len || shifts.iter().any(|shift| !shift.is_finite()) {
            return 0.0;
        }
        let least = WIDTH_MIN / len as f64;
        let widths: Vec<f64> = (0..len).map(|place| self.width(place)).collect();
        let mut shifts = shifts.to_vec();
        let narrow = |shifts: &[f64]| {
            (0..len).find(|i| {
                let new = widths[*i] + shifts[*i] - shifts[(*i + len - 1) % len];
                // A range that is narrow already may stay as it is.
                new < least.min(widths[*i]) * 0.999_999
            })
        };
        for _ in 0..4 * len {
            let Some(i) = narrow(&shifts) else { break };
            let before = (i + len - 1) % len;
            let taken = shifts[before].max(0.0) + (-shifts[i]).max(0.0);
            let scale = ((widths[i] - least).max(0.0) / taken).min(1.0) * 0.999;
            if shifts[before] > 0.0 {
                shifts[before] *= scale;
            }
            if shifts[i] < 0.0 {
                shifts[i] *= scale;
            }
        }
        if narrow(&shifts).is_some() {
            return 0.0;
        }
        let moved: f64 = shifts.iter().map(|shift| shift.abs()).sum();
        if moved == 0.0 {
            return 0.0;
        }
        for ((end, _), shift) in self.ends.iter_mut().zip(&shifts) {
            let by = (shift.abs() * CIRCLE) as u64;
            *end = if *shift >= 0.0 { end.wrapping_add(by) } else { end.wrapping_sub(by) };
        }
        // Where an end point passed zero the order begins elsewhere; the circle is the same.
        self.ends.sort_unstable_by_key(|(end, _)| *end);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;
    use proptest::prelude::*;

    /// The owner by looking at every range.
    fn owner_by_scan(ring: &Ring, point: u64) -> Option<NodeId> {
        let ends = ring.ends();
        (0..ends.len())
            .find(|place| {
                let start = ring.start(*place);
                ends.len() == 1
                    || point.wrapping_sub(start).wrapping_sub(1) < ends[*place].0.wrapping_sub(start)
            })
            .map(|place| ends[place].1)
    }

    fn check_tiling(ring: &Ring) {
        let widths: f64 = (0..ring.len()).map(|place| ring.width(place)).sum();
        assert!((widths - 1.0).abs() < 1e-9, "widths add up to {widths}");
        assert!(ring.ends().windows(2).all(|pair| pair[0].0 < pair[1].0));
        for i in 0..200u64 {
            assert_eq!(ring.owner(mix(i)), owner_by_scan(ring, mix(i)));
        }
        for (end, node) in ring.ends() {
            assert_eq!(ring.owner(*end), Some(*node), "an end point belongs to its node");
        }
    }

    #[test]
    fn equal_rings_give_equal_shares() {
        for nodes in [1u16, 2, 3, 7, 30, 80] {
            let ring = Ring::equal(nodes);
            check_tiling(&ring);
            let wants = 1.0 / f64::from(nodes);
            assert!((0..ring.len()).all(|place| (ring.width(place) - wants).abs() < 1e-9));
        }
        assert_eq!(Ring::equal(0).owner(5), None);
    }

    #[test]
    fn leaving_and_joining_move_only_the_keys_concerned() {
        let before = Ring::equal(10);
        let mut after = before.clone();
        assert!(after.leave(NodeId(4)) && !after.leave(NodeId(4)));
        for i in 0..2000u64 {
            let (old, new) = (before.owner(mix(i)), after.owner(mix(i)));
            assert_eq!(new, if old == Some(NodeId(4)) { Some(NodeId(5)) } else { old });
        }
        let mut joined = before.clone();
        assert!(joined.join(NodeId(10), NodeId(7)) && !joined.join(NodeId(10), NodeId(2)));
        let at = joined.place(NodeId(10)).unwrap();
        assert!((joined.width(at) - 0.05).abs() < 1e-9);
        for i in 0..2000u64 {
            let (old, new) = (before.owner(mix(i)), joined.owner(mix(i)));
            assert!(new == old || (new == Some(NodeId(10)) && old == Some(NodeId(7))));
        }
        assert_eq!(joined.successor(NodeId(10)), Some(NodeId(7)));
        // The node that left comes back to its old place, and everything is as it was.
        after.insert(NodeId(4), before.ends()[4].0);
        assert_eq!(after, before);
    }

    #[test]
    fn a_shift_that_would_leave_nothing_is_cut() {
        let mut ring = Ring::equal(4);
        ring.shift(&[0.4, 0.0, 0.0, 0.0]);
        check_tiling(&ring);
        assert!(ring.width(1) >= WIDTH_MIN / 4.0 * 0.99 && ring.width(0) > 0.45);
        let before = ring.clone();
        assert_eq!(ring.shift(&[f64::NAN; 4]), 0.0);
        assert_eq!(ring.shift(&[0.1]), 0.0);
        assert_eq!(ring.shift(&[0.0; 4]), 0.0);
        assert_eq!(ring, before);
    }

    #[test]
    fn a_published_ring_is_checked() {
        let ring = Ring::even(&[7, 3, 900, 3].map(NodeId));
        assert_eq!(ring.nodes().collect::<Vec<_>>(), [3, 7, 900].map(NodeId));
        assert_eq!(Ring::from_ends(ring.ends().to_vec()), Ok(ring));
        let read = |ends: &[(u64, u16)]| {
            Ring::from_ends(ends.iter().map(|(end, node)| (*end, NodeId(*node))).collect())
        };
        assert_eq!(read(&[(5, 1), (5, 2)]), Err(Error::Unordered { before: 5, after: 5 }));
        assert_eq!(read(&[(5, 1), (4, 2)]), Err(Error::Unordered { before: 5, after: 4 }));
        assert_eq!(read(&[(5, 1), (6, 1)]), Err(Error::Twice(1)));
        assert!(read(&[]).is_ok_and(|ring| ring.owner(1).is_none()));
        let many: Vec<(u64, u16)> = (0..5000u16).map(|node| (u64::from(node), node)).collect();
        assert!(matches!(read(&many), Err(Error::TooMany { .. })));
    }

    #[test]
    fn from_a_point_on_every_node_comes_once_its_owner_first() {
        let ring = Ring::equal(7);
        for i in 0..50u64 {
            let nodes: Vec<NodeId> = ring.from_point(mix(i)).collect();
            assert_eq!((nodes.len(), Some(nodes[0])), (7, ring.owner(mix(i))));
            assert_eq!(ring.successor(nodes[0]), Some(nodes[1]));
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Shift(Vec<f64>),
        Leave(u16),
        Join(u16, u16),
        Return(u16, u64),
    }

    proptest! {
        /// After any sequence the ranges still tile the circle.
        #[test]
        fn any_history_leaves_a_whole_circle(
            nodes in 1u16..12,
            ops in proptest::collection::vec(prop_oneof![
                proptest::collection::vec(-0.3f64..0.3, 1..14).prop_map(Op::Shift),
                (0u16..16).prop_map(Op::Leave),
                (0u16..16, 0u16..16).prop_map(|(node, victim)| Op::Join(node, victim)),
                (0u16..16, any::<u64>()).prop_map(|(node, end)| Op::Return(node, end)),
            ], 0..40)
        ) {
            let mut ring = Ring::equal(nodes);
            for op in ops {
                match op {
                    Op::Shift(mut shifts) => {
                        shifts.resize(ring.len(), 0.1);
                        ring.shift(&shifts);
                    }
                    Op::Leave(node) if ring.len() > 1 => {
                        ring.leave(NodeId(node));
                    }
                    Op::Leave(_) => {}
                    Op::Join(node, victim) => {
                        ring.join(NodeId(node), NodeId(victim));
                    }
                    Op::Return(node, end) => {
                        ring.insert(NodeId(node), end);
                    }
                }
                check_tiling(&ring);
            }
        }
    }
}
