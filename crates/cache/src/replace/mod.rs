//! Which entry goes when room is needed: one policy per file.
//!
//! A policy knows entries by their *slot*, a small number that an [`crate::store::Store`] gives them, by the hash of
//! their key and by their weight (bytes, or 1 where entries are counted). It orders slots and names victims; keys
//! and values stay in the store.
//!
//! INVARIANT: a slot is in the policy from `insert` to `evict` or `remove`, and `evict` names each slot once.

mod adaptive;
mod lfu;
mod links;
mod lru;
mod s3fifo;
mod sdc;
mod sketch;
mod tinylfu;

pub use adaptive::Adaptive;
pub use lfu::Lfu;
pub use lru::Lru;
pub use s3fifo::S3Fifo;
pub use sdc::Sdc;
pub use sketch::Sketch;
pub use tinylfu::TinyLfu;

/// Orders entries by what keeping them is worth.
pub trait Replace: Send {
    /// Takes a new entry in.
    fn insert(&mut self, slot: u32, hash: u64, weight: u32);

    /// Takes in an entry that has proven itself elsewhere, behind none of those taken in before.
    fn insert_proven(&mut self, slot: u32, hash: u64, weight: u32) {
        self.insert(slot, hash, weight);
    }

    /// An entry was asked for.
    fn hit(&mut self, slot: u32);

    /// An entry's value was replaced, and weighs this now; its place stays.
    fn reweigh(&mut self, _slot: u32, _weight: u32) {}

    /// Something was asked for that is not here.
    fn miss(&mut self, _hash: u64) {}

    /// Names the entry to give up and forgets it; `None` where there is none. It may be the newest one.
    fn evict(&mut self) -> Option<u32>;

    /// Forgets an entry that was taken out for another reason.
    fn remove(&mut self, slot: u32);

    /// The most important entries, best first, at most `count`.
    fn top(&self, count: usize) -> Vec<u32>;

    /// The store holds weights up to this from now on.
    fn resize(&mut self, _limit: u64) {}
}

/// The policies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    Lru,
    Lfu,
    /// A static half for proven entries, LRU for the rest.
    Sdc,
    S3Fifo,
    /// W-TinyLFU.
    TinyLfu,
    /// The default: whichever of W-TinyLFU, LRU and S3-FIFO hits most, tried out while it runs.
    #[default]
    Adaptive,
}

impl Policy {
    pub const ALL: [Policy; 6] =
        [Policy::Lru, Policy::Lfu, Policy::Sdc, Policy::S3Fifo, Policy::TinyLfu, Policy::Adaptive];

    pub fn name(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::Lfu => "lfu",
            Policy::Sdc => "sdc",
            Policy::S3Fifo => "s3fifo",
            Policy::TinyLfu => "tinylfu",
            Policy::Adaptive => "adaptive",
        }
    }

    pub fn parse(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// A policy for a store of so many bytes.
    pub fn of_bytes(self, limit: u64) -> Box<dyn Replace> {
        match self {
            Policy::Adaptive => Box::new(Adaptive::of_bytes(limit)),
            other => other.of_entries(limit),
        }
    }

    /// A policy for a store of so many entries.
    pub fn of_entries(self, limit: u64) -> Box<dyn Replace> {
        match self {
            Policy::Lru => Box::new(Lru::default()),
            Policy::Lfu => Box::new(Lfu::default()),
            Policy::Sdc => Box::new(Sdc::new(limit)),
            Policy::S3Fifo => Box::new(S3Fifo::new(limit)),
            Policy::TinyLfu => Box::new(TinyLfu::new(limit)),
            Policy::Adaptive => Box::new(Adaptive::of_entries(limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8),
        Hit(u8),
        Evict,
        Remove(u8),
        Miss(u8),
        Reweigh(u8, u8),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => (0u8..40).prop_map(Op::Insert),
            4 => (0u8..40).prop_map(Op::Hit),
            2 => Just(Op::Evict),
            1 => (0u8..40).prop_map(Op::Remove),
            1 => (0u8..40).prop_map(Op::Miss),
            1 => (0u8..40, 1u8..9).prop_map(|(slot, weight)| Op::Reweigh(slot, weight)),
        ];
        proptest::collection::vec(op, 0..300)
    }

    proptest! {
        /// Whatever happens, each policy holds exactly the slots that a plain set holds.
        #[test]
        fn every_policy_keeps_exactly_what_it_was_given(ops in ops()) {
            for policy in Policy::ALL {
                let mut tried = policy.of_entries(20);
                let mut held = BTreeSet::new();
                for op in &ops {
                    match *op {
                        Op::Insert(slot) => {
                            if held.insert(u32::from(slot)) {
                                tried.insert(u32::from(slot), farol_base::random::mix(u64::from(slot)), 1);
                            }
                        }
                        Op::Hit(slot) => {
                            if held.contains(&u32::from(slot)) {
                                tried.hit(u32::from(slot));
                            }
                        }
                        Op::Evict => match tried.evict() {
                            Some(slot) => prop_assert!(held.remove(&slot), "{} named {slot} twice", policy.name()),
                            None => prop_assert!(held.is_empty(), "{} lost entries", policy.name()),
                        },
                        Op::Remove(slot) => {
                            if held.remove(&u32::from(slot)) {
                                tried.remove(u32::from(slot));
                            }
                        }
                        Op::Reweigh(slot, weight) => {
                            if held.contains(&u32::from(slot)) {
                                tried.reweigh(u32::from(slot), u32::from(weight));
                            }
                        }
                        Op::Miss(slot) => tried.miss(farol_base::random::mix(u64::from(slot))),
                    }
                    let top = tried.top(usize::MAX);
                    prop_assert_eq!(top.len(), held.len());
                    prop_assert_eq!(top.into_iter().collect::<BTreeSet<_>>(), held.clone());
                }
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for policy in Policy::ALL {
            assert_eq!(Policy::parse(policy.name()), Some(policy));
        }
        assert_eq!(Policy::parse("arc"), None);
    }
}
