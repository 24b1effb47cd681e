//! Which batch of each sender comes next.
//!
//! Pure. Numbers grow by one for each sender and receiver, over all starts of both. INVARIANT: each number is taken once,
//! in order; one is passed over only where its sender says that nobody can send it again.

use farol_cluster::NodeNo;
use std::collections::BTreeMap;

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Take {
        /// Batches before it that nobody has any more.
        lost: u64,
    },
    /// It was taken before.
    Known,
    /// Batches from this number on are missing.
    Gap(u64),
}

/// The next number of each sender.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    taken: BTreeMap<NodeNo, u64>,
}

impl Inbox {
    /// Goes on behind the last batches that were taken.
    pub fn new(taken: BTreeMap<NodeNo, u64>) -> Inbox {
        Inbox { taken }
    }

    /// What to do with a batch of this number, whose sender can send everything from `kept` on again.
    pub fn turn(&mut self, from: NodeNo, number: u64, kept: u64) -> Turn {
        let taken = self.taken.get(&from).copied().unwrap_or(0);
        let next = taken + 1;
        if number < next {
            return Turn::Known;
        }
        if number > next && kept <= next {
            return Turn::Gap(next);
        }
        // A sender that never had anything for this agent begins with 1.
        if number > next && kept < number {
            return Turn::Gap(kept);
        }
        self.taken.insert(from, number);
        Turn::Take { lost: number - next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: NodeNo = NodeNo(1);

    #[test]
    fn each_number_is_taken_once_and_gaps_are_seen() {
        let mut inbox = Inbox::new([(A, 4)].into());
        assert_eq!(inbox.turn(A, 4, 1), Turn::Known);
        assert_eq!(inbox.turn(A, 6, 1), Turn::Gap(5));
        assert_eq!(inbox.turn(A, 5, 1), Turn::Take { lost: 0 });
        assert_eq!(inbox.turn(NodeNo(2), 1, 1), Turn::Take { lost: 0 });
        // The sender's disk was lost: it goes on with what it has.
        assert_eq!(inbox.turn(A, 9, 8), Turn::Gap(8));
        assert_eq!(inbox.turn(A, 8, 8), Turn::Take { lost: 2 });
        assert_eq!(inbox.taken.get(&A), Some(&8));
    }

    proptest! {
        /// Whatever is lost, doubled or out of order: with enough repeats all is taken, once each and in order.
        #[test]
        fn a_log_that_loses_and_doubles_costs_repeats_alone(
            fates in proptest::collection::vec(0usize..3, 1..60),
        ) {
            let mut inbox = Inbox::default();
            let mut taken = Vec::new();
            for round in 0..2 {
                for (at, fate) in fates.iter().enumerate() {
                    let copies = if round == 0 { *fate } else { 1 };
                    for _ in 0..copies {
                        if let Turn::Take { lost } = inbox.turn(A, at as u64 + 1, 1) {
                            prop_assert_eq!(lost, 0);
                            taken.push(at);
                        }
                    }
                }
            }
            prop_assert_eq!(taken, (0..fates.len()).collect::<Vec<_>>());
        }
    }
}
