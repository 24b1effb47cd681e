//! F, protection (thesis ch. 7): each node's best entries are copied to the node that would inherit its traffic.
//!
//! Algorithm 5: every few minutes the top share of `cache` goes to the next live node clockwise, in several steps,
//! without waiting and without an acknowledgement. What a node does with copies is in [`crate::node`].

use crate::area::Entry;
use crate::node::CacheNode;
use crate::ring::{NodeId, Ring};
use std::time::Duration;

/// How much is protected, how often, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Protection {
    /// Share of a node's entries that are copied, which is also the share of its room that is kept for copies. The
    /// good zone is 1 to 10 % (§7.2, §7.5).
    pub share: f64,
    pub every: Duration,
    /// Successors that get copies: with `s`, the copies survive `s` neighbours failing at once (§7.3).
    pub successors: usize,
}

impl Default for Protection {
    fn default() -> Protection {
        Protection { share: 0.05, every: Duration::from_secs(300), successors: 1 }
    }
}

impl Protection {
    /// Who gets a node's copies: its next nodes clockwise, itself excepted.
    pub fn keepers(&self, ring: &Ring, node: NodeId) -> Vec<NodeId> {
        let mut keepers = Vec::new();
        let mut at = node;
        while keepers.len() < self.successors {
            match ring.successor(at) {
                Some(next) if next != node => keepers.push(next),
                _ => break,
            }
            at = keepers[keepers.len() - 1];
        }
        keepers
    }

    /// The copies of one round, in steps of at most so many, best first.
    pub fn round<K: Eq + Clone, V: Clone>(
        &self,
        node: &CacheNode<K, V>,
        step: usize,
    ) -> Vec<Vec<Entry<K, V>>> {
        // Copies for several successors share each keeper's room.
        let share = self.share / self.successors.max(1) as f64;
        let top: Vec<Entry<K, V>> = node.top(share).cloned().collect();
        top.chunks(step.max(1)).map(<[Entry<K, V>]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::{Life, Present};
    use crate::node::{Lookup, NodeOptions};
    use crate::replace::Policy;
    use farol_base::Timestamp;
    use farol_base::random::mix;

    type Node = CacheNode<u64, u64>;

    fn node() -> Node {
        let life = Life::ENDLESS;
        Node::new(&NodeOptions {
            limit: 200,
            in_entries: true,
            protected_share: 0.1,
            policy: Policy::Lru,
            life,
        })
    }

    fn fill(node: &mut Node, keys: std::ops::Range<u64>) {
        for key in keys {
            let made = Timestamp::EPOCH;
            node.insert(Entry { hash: mix(key), key, value: key, weight: 1, made, generation: 0 });
        }
    }

    fn send(protection: &Protection, round: u64, ring: &Ring, nodes: &mut [Node], from: u16) {
        let steps = protection.round(&nodes[usize::from(from)], 3);
        for keeper in protection.keepers(ring, NodeId(from)) {
            for entry in steps.iter().flatten() {
                nodes[usize::from(keeper.0)].protect(NodeId(from), round, entry.clone());
            }
            nodes[usize::from(keeper.0)].round_done(NodeId(from), round);
        }
    }

    #[test]
    fn the_backup_of_a_node_follows_the_ring() {
        // Test vector 10: u → v → p; after v dies u has no backup until the next round, then it is p.
        let mut ring = Ring::equal(3);
        let mut nodes = [node(), node(), node()];
        let protection = Protection { share: 0.1, ..Protection::default() };
        fill(&mut nodes[0], 0..100);
        fill(&mut nodes[1], 1000..1100);
        send(&protection, 1, &ring, &mut nodes, 0);
        send(&protection, 1, &ring, &mut nodes, 1);
        // The newest tenth is protected.
        assert!(nodes[1].holds(mix(95), &95).1 && !nodes[1].holds(mix(50), &50).1);
        assert!(nodes[2].holds(mix(1095), &1095).1);
        ring.leave(NodeId(1));
        assert!(!nodes[2].holds(mix(95), &95).1, "nobody protects node 0 now");
        let now = Present::default();
        assert_eq!(nodes[2].lookup(mix(1095), &1095, &now), Lookup::Adopted(1095));
        assert_eq!(nodes[2].lookup(mix(1095), &1095, &now), Lookup::Hit(1095));
        send(&protection, 2, &ring, &mut nodes, 0);
        assert!(nodes[2].holds(mix(95), &95).1);
        // What nobody asked for stays one round more, and is gone after that; what was adopted stays.
        assert!(nodes[2].holds(mix(1096), &1096).1);
        send(&protection, 3, &ring, &mut nodes, 0);
        assert!(!nodes[2].holds(mix(1096), &1096).1 && nodes[2].holds(mix(1095), &1095).0);
    }

    #[test]
    fn copies_on_two_successors_survive_two_failures() {
        let ring = Ring::equal(4);
        let two = Protection { successors: 2, ..Protection::default() };
        assert_eq!(two.keepers(&ring, NodeId(3)), [NodeId(0), NodeId(1)]);
        assert_eq!(Protection::default().keepers(&ring, NodeId(3)), [NodeId(0)]);
        let many = Protection { successors: 9, ..two };
        assert_eq!(many.keepers(&ring, NodeId(0)).len(), 3);
        assert!(two.keepers(&Ring::equal(1), NodeId(0)).is_empty());
        assert!(two.keepers(&ring, NodeId(77)).is_empty());
    }

    #[test]
    fn a_round_is_sent_in_steps() {
        let mut node = node();
        fill(&mut node, 0..100);
        let steps = Protection { share: 0.1, ..Protection::default() }.round(&node, 4);
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(steps[0][0].key, 99, "the best first");
    }
}
