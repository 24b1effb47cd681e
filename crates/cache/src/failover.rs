//! Failover copies (F in [Gomez14 ch. 7]): each node's best entries are copied to the node that would inherit its
//! traffic. The product does not run it yet: it has one node.
//!
//! Algorithm 5: every few minutes the top share of `cache` goes to the next live node clockwise, in several steps,
//! without waiting and without an acknowledgement. What a node does with copies is in [`crate::node`].

use crate::node::CacheNode;
use crate::ring::{NodeId, Ring};
use crate::store::Entry;
use farol_base::random::mix;
use std::time::Duration;

/// How much is protected, how often, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverCopies {
    /// Share of a node's entries that are copied, which is also the share of its room that is kept for
    /// copies. The good zone is 1 to 10 % [Gomez14 §7.2, §7.5].
    pub share: f64,
    pub every: Duration,
    pub keepers: Keepers,
}

/// Who keeps a node's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keepers {
    /// So many successors, who would inherit its traffic and adopt its copies [Gomez14 §7.3]: with `s`,
    /// copies survive `s - 1` neighbours failing at once.
    Successors(usize),
    /// All others, each a part (ours): whichever nodes fail together, few copies are lost. They go to whoever has the
    /// range when a node is gone. What was asked for again comes first: the newest entries are mostly queries that nobody
    /// repeats.
    All,
}

impl Default for FailoverCopies {
    fn default() -> FailoverCopies {
        FailoverCopies { share: 0.05, every: Duration::from_secs(300), keepers: Keepers::Successors(1) }
    }
}

impl FailoverCopies {
    /// Who gets the copy of an entry, its node excepted.
    pub fn keepers(&self, ring: &Ring, node: NodeId, hash: u64) -> Vec<NodeId> {
        match self.keepers {
            Keepers::All => {
                // Entries of one range have similar hashes; mixed, they spread.
                let ends = ring.ends();
                let from = (mix(hash) % ends.len().max(1) as u64) as usize;
                let others = ends[from..].iter().chain(&ends[..from]).map(|(_, other)| *other);
                others.filter(|other| *other != node).take(1).collect()
            }
            Keepers::Successors(count) => {
                let next = |at: &NodeId| ring.successor(*at).filter(|next| *next != node);
                std::iter::successors(next(&node), next).take(count).collect()
            }
        }
    }

    /// The copies of one round, in steps of at most so many, best first.
    pub fn round<K: Eq + Clone, V: Clone>(
        &self,
        node: &CacheNode<K, V>,
        step: usize,
    ) -> Vec<Vec<Entry<K, V>>> {
        let top: Vec<Entry<K, V>> = match self.keepers {
            // Copies for several successors share each keeper's room.
            Keepers::Successors(count) => node.top(self.share / count.max(1) as f64).cloned().collect(),
            Keepers::All => node.top_proven(self.share).cloned().collect(),
        };
        top.chunks(step.max(1)).map(<[Entry<K, V>]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{NodeLookup, NodeOptions};
    use crate::replace::Policy;
    use crate::store::{Expiry, Now};
    use farol_base::Timestamp;
    use farol_base::random::mix;

    type Node = CacheNode<u64, u64>;

    fn node() -> Node {
        let expiry = Expiry::NEVER;
        Node::new(&NodeOptions {
            limit: 200,
            in_entries: true,
            copies_share: 0.1,
            policy: Policy::Lru,
            expiry,
        })
    }

    fn fill(node: &mut Node, keys: std::ops::Range<u64>) {
        for key in keys {
            let made = Timestamp::EPOCH;
            node.insert(Entry { hash: mix(key), key, value: key, weight: 1, made, generation: 0 });
        }
    }

    fn send(copies: &FailoverCopies, round: u64, ring: &Ring, nodes: &mut [Node], from: u16) {
        let steps = copies.round(&nodes[usize::from(from)], 3);
        for entry in steps.iter().flatten() {
            for keeper in copies.keepers(ring, NodeId(from), entry.hash) {
                nodes[usize::from(keeper.0)].keep_copy(NodeId(from), round, entry.clone());
            }
        }
        nodes.iter_mut().for_each(|node| node.round_done(&[NodeId(from)], round));
    }

    #[test]
    fn the_backup_of_a_node_follows_the_ring() {
        // u → v → p; after v dies u has no backup until the next round, then it is p.
        let mut ring = Ring::equal(3);
        let mut nodes = [node(), node(), node()];
        let copies = FailoverCopies { share: 0.1, ..FailoverCopies::default() };
        fill(&mut nodes[0], 0..100);
        fill(&mut nodes[1], 1000..1100);
        send(&copies, 1, &ring, &mut nodes, 0);
        send(&copies, 1, &ring, &mut nodes, 1);
        // The newest tenth is protected.
        assert!(nodes[1].holds(mix(95), &95).1 && !nodes[1].holds(mix(50), &50).1);
        assert!(nodes[2].holds(mix(1095), &1095).1);
        ring.leave(NodeId(1));
        assert!(!nodes[2].holds(mix(95), &95).1, "nobody protects node 0 now");
        let now = Now::default();
        assert_eq!(nodes[2].lookup(mix(1095), &1095, &now), NodeLookup::Adopted(1095));
        assert_eq!(nodes[2].lookup(mix(1095), &1095, &now), NodeLookup::Hit(1095));
        send(&copies, 2, &ring, &mut nodes, 0);
        assert!(nodes[2].holds(mix(95), &95).1);
        // What nobody asked for stays one round more, and is gone after that; what was adopted stays.
        assert!(nodes[2].holds(mix(1096), &1096).1);
        send(&copies, 3, &ring, &mut nodes, 0);
        assert!(!nodes[2].holds(mix(1096), &1096).1 && nodes[2].holds(mix(1095), &1095).0);
    }

    #[test]
    fn copies_on_two_successors_survive_two_failures() {
        let ring = Ring::equal(4);
        let two = FailoverCopies { keepers: Keepers::Successors(2), ..FailoverCopies::default() };
        assert_eq!(two.keepers(&ring, NodeId(3), 1), [NodeId(0), NodeId(1)]);
        assert_eq!(FailoverCopies::default().keepers(&ring, NodeId(3), 1), [NodeId(0)]);
        let many = FailoverCopies { keepers: Keepers::Successors(9), ..two };
        assert_eq!(many.keepers(&ring, NodeId(0), 1).len(), 3);
        assert!(two.keepers(&Ring::equal(1), NodeId(0), 1).is_empty());
        assert!(two.keepers(&ring, NodeId(77), 1).is_empty());
    }

    #[test]
    fn copies_kept_by_all_others_outlast_neighbours_that_fail_together() {
        let ring = Ring::equal(10);
        let all = FailoverCopies { share: 0.5, keepers: Keepers::All, ..FailoverCopies::default() };
        let mut nodes: Vec<Node> = (0..10).map(|_| node()).collect();
        fill(&mut nodes[3], 0..100);
        send(&all, 1, &ring, &mut nodes, 3);
        assert_eq!(nodes[3].len().1, 0);
        let kept = |nodes: &[Node]| nodes.iter().map(|node| node.len().1).sum::<usize>();
        assert_eq!(kept(&nodes), 50);
        // Its successor held the only copies under [Gomez14]'s rule; here it held few.
        nodes[4].clear();
        assert!(kept(&nodes) >= 35, "{}", kept(&nodes));
        assert!(all.keepers(&Ring::equal(1), NodeId(0), 1).is_empty());
    }

    #[test]
    fn a_round_is_sent_in_steps() {
        let mut node = node();
        fill(&mut node, 0..100);
        let steps = FailoverCopies { share: 0.1, ..FailoverCopies::default() }.round(&node, 4);
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(steps[0][0].key, 99, "the best first");
    }
}
