//! The routing table: who owns what is behind a URL [Exposto08 §3.4.2].
//!
//! A table maps blocks of addresses to owners, with exceptions for single hosts, and filters of the operator above
//! everything. `build` makes it of a split; [`RoutingTable::condense`] makes a parent's table of its children's;
//! [`Router`] looks up; [`binary`] is how it travels.
//!
//! INVARIANT: a look-up with the same table, host and address has the same answer everywhere.

pub mod binary;
mod block;
mod build;
mod router;

pub use block::Block;
pub use build::{Builder, Placed};
pub use router::{Route, Router};

use crate::Error;
use farol_base::fingerprint::hash64;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A destination of a table: its number in [`RoutingTable::destinations`].
pub type Owner = u32;

/// What becomes of URLs that no entry knows [Exposto08 §5].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// They wait for the next table.
    Hold,
    /// They go where a consistent hash of the address says, or of the host while that has none: an agent that comes
    /// takes about its share from the others, and nothing moves between those.
    #[default]
    Hash,
}

/// A host that does not go where its address goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    pub owner: Owner,
    /// Where it was when the table was made.
    pub address: Option<IpAddr>,
}

/// A rule of the operator, which overrides whatever the partitioner says [Exposto08 §3.2.2].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A host name and everything below it: `example.org`.
    Domain(String),
    /// A block of addresses.
    Block(Block),
}

/// Who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutingTable {
    /// Later tables have greater versions.
    pub version: u64,
    pub unknown: Unknown,
    /// Names of owners.
    pub destinations: Vec<String>,
    /// The block that fits most narrowly counts.
    pub blocks: BTreeMap<Block, Owner>,
    /// By the fingerprint of the host's text.
    pub hosts: BTreeMap<u64, Exception>,
    /// The first that fits counts.
    pub filters: Vec<(Filter, Owner)>,
}

/// The fingerprint of a host's text, such as `https://example.org`.
pub fn host_key(host: &str) -> u64 {
    hash64(host.as_bytes())
}

impl RoutingTable {
    /// Says what does not fit together.
    ///
    /// # Errors
    /// Where an entry names a destination that there is not.
    pub fn check(&self) -> Result<(), Error> {
        let hosts = self.hosts.values().map(|exception| exception.owner);
        let filters = self.filters.iter().map(|(_, owner)| *owner);
        let owners = self.blocks.values().copied().chain(hosts).chain(filters);
        match owners.max() {
            Some(most) if most as usize >= self.destinations.len() => {
                Err(Error::Table("an entry leads to a destination that is not named"))
            }
            _ => Ok(()),
        }
    }

    /// Drops blocks that lie in a wider one of the same owner, and merges neighbours into wider blocks, without
    /// changing any answer.
    pub fn aggregate(&mut self) {
        self.blocks = aggregated(&self.blocks);
    }

    /// The table of a parent: `to` says which of the parent's destinations each owner belongs to. Entries of one
    /// destination merge, and exceptions within one destination vanish.
    ///
    /// # Errors
    /// Where `to` has not one entry for each destination, or leads nowhere.
    pub fn condense(&self, to: &[Owner], destinations: Vec<String>) -> Result<RoutingTable, Error> {
        if to.len() != self.destinations.len() {
            let (given, wanted) = (to.len(), self.destinations.len());
            return Err(Error::Count { what: "destination", given, wanted });
        }
        let led = |owner: &Owner| to[*owner as usize];
        let mut table = RoutingTable {
            blocks: self.blocks.iter().map(|(block, owner)| (*block, led(owner))).collect(),
            filters: self.filters.iter().map(|(filter, owner)| (filter.clone(), led(owner))).collect(),
            hosts: BTreeMap::new(),
            destinations,
            ..*self
        };
        table.aggregate();
        for (host, exception) in &self.hosts {
            let owner = led(&exception.owner);
            let by_block = exception.address.and_then(|address| table.by_block(address));
            if by_block != Some(owner) {
                table.hosts.insert(*host, Exception { owner, ..*exception });
            }
        }
        table.check()?;
        Ok(table)
    }

    /// The owner of the narrowest block around an address. Slow; [`Router`] is for many look-ups.
    pub fn by_block(&self, address: IpAddr) -> Option<Owner> {
        let mut block = Block::single(address);
        loop {
            if let Some(owner) = self.blocks.get(&block) {
                return Some(*owner);
            }
            block = block.wider()?;
        }
    }
}

/// See [`RoutingTable::aggregate`].
fn aggregated(blocks: &BTreeMap<Block, Owner>) -> BTreeMap<Block, Owner> {
    let mut kept = without_contained(blocks);
    // Narrow blocks first: merged ones may find a neighbour again.
    let mut by_length: BTreeMap<u8, Vec<Block>> = BTreeMap::new();
    for block in kept.keys() {
        by_length.entry(block.length()).or_default().push(*block);
    }
    while let Some((_, narrow)) = by_length.pop_last() {
        for block in narrow {
            let (Some(owner), Some(twin), Some(wider)) =
                (kept.get(&block).copied(), block.twin(), block.wider())
            else {
                continue;
            };
            if kept.get(&twin) == Some(&owner) {
                kept.remove(&block);
                kept.remove(&twin);
                // Both halves together hide whatever the wider block said.
                if kept.insert(wider, owner).is_none() {
                    by_length.entry(wider.length()).or_default().push(wider);
                }
            }
        }
    }
    without_contained(&kept)
}

/// Blocks in order come before those that lie in them; a stack holds those around the current one.
fn without_contained(blocks: &BTreeMap<Block, Owner>) -> BTreeMap<Block, Owner> {
    let mut around: Vec<(Block, Owner)> = Vec::new();
    let mut kept = BTreeMap::new();
    for (block, owner) in blocks {
        while around.last().is_some_and(|(outer, _)| !outer.contains(block)) {
            around.pop();
        }
        if around.last().is_none_or(|(_, outer)| outer != owner) {
            kept.insert(*block, *owner);
            around.push((*block, *owner));
        }
    }
    kept
}

#[cfg(test)]
mod tests;
