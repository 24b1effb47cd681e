//! What is known of an entity, and which of two accounts of it counts.

/// What an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A node that crawls: one or more machines that look like one.
    Robot,
    /// A node that splits its group's part of the Web among the group's children.
    Partitioner,
    /// Agents of one network with one link to the Internet.
    LocalGroup,
    /// groups in different places.
    WideGroup,
}

impl Kind {
    /// Whether it is made of machines, not of other entities.
    pub fn is_node(self) -> bool {
        matches!(self, Kind::Robot | Kind::Partitioner)
    }
}

/// An entity, as one member knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity {
    pub name: String,
    pub kind: Kind,
    pub parent: Option<String>,
    /// Addresses of machines; of other nodes only some.
    pub machines: Vec<String>,
    /// nodes that answer for a group.
    pub representatives: Vec<String>,
    /// Grows with each change (decision D-18).
    pub epoch: u64,
    /// Left or failed.
    pub gone: bool,
    /// Milliseconds of response times load in per cent: the less, the better it answers for others.
    pub burden: u32,
}

/// Machines of another node that are worth knowing.
const MACHINES_KNOWN_MAX: usize = 3;

impl Entity {
    pub fn new(name: &str, kind: Kind) -> Entity {
        Entity {
            name: name.to_string(),
            kind,
            parent: None,
            machines: Vec::new(),
            representatives: Vec::new(),
            epoch: 1,
            gone: false,
            burden: 0,
        }
    }

    /// Whether this account replaces another of the same entity. Any order of accounts ends with the same one.
    pub fn replaces(&self, other: &Entity) -> bool {
        (self.epoch, self.gone, self) > (other.epoch, other.gone, other)
    }

    /// As others are told of it.
    pub fn for_others(&self) -> Entity {
        let mut told = self.clone();
        told.machines.truncate(MACHINES_KNOWN_MAX);
        told
    }
}

/// Representatives that a group of so many nodes should have (decision D-17): ceil(log2 n) + 1.
pub fn representatives_wanted(nodes: usize) -> usize {
    (nodes.max(1) as f64).log2().ceil() as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_account_counts_whatever_comes_first() {
        let old = Entity::new("Node 1", Kind::Robot);
        let left = Entity { epoch: 2, gone: true, ..old.clone() };
        let back = Entity { epoch: 3, ..old.clone() };
        let twin = Entity { burden: 7, ..old.clone() };
        assert!(left.replaces(&old) && back.replaces(&left) && !old.replaces(&back));
        assert!(twin.replaces(&old) != old.replaces(&twin));
        assert!(!old.replaces(&old));
    }

    #[test]
    fn representatives_grow_with_the_logarithm() {
        for (nodes, wanted) in [(0, 1), (1, 1), (2, 2), (3, 3), (8, 4), (1000, 11)] {
            assert_eq!(representatives_wanted(nodes), wanted);
        }
    }
}
