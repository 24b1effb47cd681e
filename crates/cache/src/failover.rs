//! Failover copies (F in [Gomez14 ch. 7]): each node's best entries are copied to the node that would inherit its
//! traffic.
//!
//! Algorithm 5: every few minutes the top share of `cache` goes to the next live node clockwise, in several steps,
//! without waiting and without an acknowledgement. So a front that passes over a dead node finds its best answers before
//! anybody has declared it dead. What a node does with copies is in [`crate::node`].

use crate::node::{CacheNode, RoundWalk};
use crate::ring::{NodeId, Ring};
use crate::store::Entry;
use farol_base::Timestamp;
use farol_base::random::mix;
use std::time::Duration;

/// How much is protected, how often, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverCopies {
    /// Share of a node's entries that are copied, which is also the share of its room that is kept for
    /// copies. The good zone is 1 to 10 % [Gomez14 §7.2, §7.5].
    pub share: f64,
    pub every: Duration,
    pub best: Best,
    pub keepers: Keepers,
}

/// Which entries are a node's best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// The first by its replacement policy: with LRU the newest [Gomez14 §7.2].
    ByPolicy,
    /// Those asked for most lately (ours): the newest are mostly queries that nobody repeats.
    Proven,
}

/// Who keeps a node's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keepers {
    /// So many successors, who would inherit its traffic and adopt its copies [Gomez14 §7.3]: with `s`,
    /// copies survive `s - 1` neighbours failing at once.
    Successors(usize),
    /// All others, each a part: whichever nodes fail together, few copies are lost. They have to go to whoever has the
    /// range when a node is gone, and nobody finds them before.
    All,
}

impl Default for FailoverCopies {
    fn default() -> FailoverCopies {
        FailoverCopies {
            share: 0.05,
            every: Duration::from_secs(300),
            best: Best::Proven,
            keepers: Keepers::Successors(1),
        }
    }
}

/// A round under way.
#[derive(Debug)]
pub enum Round<K, V> {
    Listed(std::vec::IntoIter<Entry<K, V>>),
    Walking(RoundWalk),
}

impl FailoverCopies {
    /// As \[Gomez14\] has it.
    pub fn thesis() -> FailoverCopies {
        FailoverCopies { best: Best::ByPolicy, ..FailoverCopies::default() }
    }

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

    /// Begins a round.
    pub fn begin<K: Eq + Clone, V: Clone>(&self, node: &CacheNode<K, V>) -> Round<K, V> {
        // Copies for several successors share each keeper's room.
        let share = match self.keepers {
            Keepers::Successors(count) => self.share / count.max(1) as f64,
            Keepers::All => self.share,
        };
        match self.best {
            Best::ByPolicy => Round::Listed(node.top(share).cloned().collect::<Vec<_>>().into_iter()),
            Best::Proven => Round::Walking(node.begin_round(share)),
        }
    }
}

impl<K: Eq + Clone, V: Clone> Round<K, V> {
    /// The next entries: what is found in about so many slots. `None` at the end.
    pub fn step(
        &mut self,
        node: &mut CacheNode<K, V>,
        budget: usize,
        now: Timestamp,
    ) -> Option<Vec<Entry<K, V>>> {
        match self {
            Round::Listed(entries) => {
                let step: Vec<Entry<K, V>> = entries.take(budget.max(1)).collect();
                (!step.is_empty()).then_some(step)
            }
            Round::Walking(walk) => (!walk.is_done()).then(|| node.step_round(walk, budget, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::RoundMark;
    use crate::freshness::Now;
    use crate::node::{NodeLookup, NodeOptions};
    use crate::replace::Policy;

    type Node = CacheNode<u64, u64>;
    const NOW: Timestamp = Timestamp::EPOCH;

    fn node() -> Node {
        Node::new(&NodeOptions { copies_share: 0.1, ..NodeOptions::of_entries(200, Policy::Lru) })
    }

    fn fill(node: &mut Node, keys: std::ops::Range<u64>) {
        for key in keys {
            node.insert(Entry { hash: mix(key), key, value: key, weight: 1, made: NOW, state: 0 });
        }
    }

    fn send(copies: &FailoverCopies, number: u64, ring: &Ring, nodes: &mut [Node], from: u16) {
        let mark = RoundMark { source: NodeId(from), incarnation: 1, round: number };
        let mut round = copies.begin(&nodes[usize::from(from)]);
        while let Some(step) = round.step(&mut nodes[usize::from(from)], 3, NOW) {
            for entry in step {
                for keeper in copies.keepers(ring, NodeId(from), entry.hash) {
                    nodes[usize::from(keeper.0)].keep_copy(mark, entry.clone(), NOW);
                }
            }
        }
        nodes.iter_mut().for_each(|node| node.round_done(mark, NOW));
    }

    #[test]
    fn the_backup_of_a_node_follows_the_ring() {
        // u → v → p; after v dies u has no backup until the next round, then it is p.
        let mut ring = Ring::equal(3);
        let mut nodes = [node(), node(), node()];
        let copies = FailoverCopies { share: 0.1, ..FailoverCopies::thesis() };
        fill(&mut nodes[0], 0..100);
        fill(&mut nodes[1], 1000..1100);
        send(&copies, 1, &ring, &mut nodes, 0);
        send(&copies, 1, &ring, &mut nodes, 1);
        // The newest tenth is protected.
        assert!(nodes[1].holds(mix(95), &95).1 && !nodes[1].holds(mix(50), &50).1);
        assert!(nodes[2].holds(mix(1095), &1095).1);
        ring.leave(NodeId(1));
        assert!(!nodes[2].holds(mix(95), &95).1, "nobody protects node 0 now");
        let ask = |node: &mut Node, key: u64| node.lookup(mix(key), &key, &Now::default(), false);
        assert!(matches!(ask(&mut nodes[2], 1095), NodeLookup::Adopted(found) if found.value == 1095));
        assert!(matches!(ask(&mut nodes[2], 1095), NodeLookup::Hit(found) if found.value == 1095));
        send(&copies, 2, &ring, &mut nodes, 0);
        assert!(nodes[2].holds(mix(95), &95).1);
        // What nobody asked for of the dead node's stays until it has been silent for two intervals; what was adopted stays.
        assert!(nodes[2].holds(mix(1096), &1096).1);
        nodes[2].clear_up(Timestamp::from_secs(600), usize::MAX);
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
    fn a_round_is_sent_in_steps_by_either_order() {
        for (best, first) in [(Best::ByPolicy, 99), (Best::Proven, 7)] {
            let mut node = node();
            fill(&mut node, 0..100);
            // The oldest, and the one that somebody asked for.
            node.lookup(mix(7), &7, &Now::default(), false);
            fill(&mut node, 99..100);
            let copies = FailoverCopies { share: 0.1, best, ..FailoverCopies::default() };
            let mut round = copies.begin(&node);
            let mut sent = Vec::new();
            while let Some(step) = round.step(&mut node, 4, NOW) {
                assert!(step.len() <= 4);
                sent.extend(step.into_iter().map(|entry| entry.key));
            }
            assert_eq!(sent.len(), 10, "{best:?}");
            assert!(sent.contains(&first), "{best:?} {sent:?}");
        }
    }
}
