//! What agents tell each other about rights. Notes go through numbered logs: each arrives once and in the order of its
//! sender, however late, doubled or lost on the way ([`Numbers`]).

use farol_cluster::{Epoch, NodeNo};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// An incarnation of an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId {
    pub no: NodeNo,
    pub incarnation: u64,
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.no, self.incarnation)
    }
}

/// One agent's word to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The newest epoch that the sender knew.
    pub epoch: Epoch,
    pub body: NoteBody,
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteBody {
    /// To the new owner of an address: nothing of mine is under way there any more, it is yours under this epoch.
    Free { address: IpAddr },
    /// From a host's home: ask it, at this address and no other.
    Grant {
        host: String,
        address: IpAddr,
        /// Names the grant; greater than that of all before from this incarnation.
        grant: u64,
        /// It changed its asker twice under this epoch: the address counts whatever DNS says, until the next.
        is_last: bool,
    },
    /// To a host's home: what I know of it is here; who asks it now?
    Back {
        host: String,
        /// Where it is, as far as the sender knows.
        address: Option<IpAddr>,
        /// The grant that ends hereby.
        grant: Option<u64>,
        /// The right to the host comes with this, under this epoch.
        with_right: bool,
    },
    /// From a host's home: this agent asks it, and should get what you know of it.
    Placed { host: String, by: NodeNo },
    /// To the owner of an address: the operator has given me a host that is there; may I have the address?
    Claim { host: String, address: IpAddr },
    /// From the owner of an address: under this epoch it is this agent's.
    Moved { address: IpAddr, to: NodeNo },
}

/// What becomes of a numbered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Take,
    /// It came before.
    Known,
    /// Those from this number on are missing: the sender has to send again.
    Gap(u64),
}

/// The next number from each sender; part of what a receiver makes durable together with what it has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(BTreeMap<NodeNo, u64>);

impl Numbers {
    /// The next one that is expected; numbers begin with 1.
    pub fn next(&self, from: NodeNo) -> u64 {
        self.0.get(&from).copied().unwrap_or(1)
    }

    pub fn arrives(&self, from: NodeNo, number: u64) -> Arrival {
        let next = self.next(from);
        match number.cmp(&next) {
            std::cmp::Ordering::Equal => Arrival::Take,
            std::cmp::Ordering::Less => Arrival::Known,
            std::cmp::Ordering::Greater => Arrival::Gap(next),
        }
    }

    pub fn took(&mut self, from: NodeNo, number: u64) {
        let next = self.0.entry(from).or_insert(1);
        *next = (*next).max(number + 1);
    }

    /// As told in the node's record.
    pub fn all(&self) -> &BTreeMap<NodeNo, u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_and_in_order() {
        let (mut numbers, from) = (Numbers::default(), NodeNo(3));
        assert_eq!(numbers.arrives(from, 2), Arrival::Gap(1));
        for number in 1..4 {
            assert_eq!(numbers.arrives(from, number), Arrival::Take);
            numbers.took(from, number);
            assert_eq!(numbers.arrives(from, number), Arrival::Known);
        }
        assert_eq!((numbers.arrives(from, 9), numbers.next(NodeNo(4))), (Arrival::Gap(4), 1));
        assert_eq!(numbers.all()[&from], 4);
    }
}
