//! Making a table of a split: hosts to addresses, addresses to blocks, blocks to owners [Exposto08 §3.4.2].
//!
//! A block goes to whoever has most of its pages; what lies in it and belongs to others becomes an exception: a narrower
//! block where all hosts of an address agree, the host where they do not. Where a block would need too many exceptions
//! its halves are looked at on their own (decision D-9). Hosts whose address is unknown stand in the table by name.

use super::{Block, Exception, Owner, RoutingTable, Unknown, host_key};
use crate::Error;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A host and who owns it.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    /// `https://example.org`
    pub host: &'a str,
    pub address: Option<IpAddr>,
    pub pages: u64,
    pub owner: Owner,
}

/// How tables are made.
#[derive(Clone, Debug)]
pub struct Builder {
    /// Blocks as registries assign them; in any order, they may lie in one another.
    pub registered: Vec<Block>,
    /// Length of the block of an address that no registered one holds.
    pub length_four: u8,
    pub length_six: u8,
    /// Exceptions of a block beyond which its halves are looked at.
    pub exceptions_max: usize,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { registered: Vec::new(), length_four: 24, length_six: 48, exceptions_max: 4 }
    }
}

impl Builder {
    /// Makes a table.
    ///
    /// # Errors
    /// Where a host is owned by a destination that there is not.
    pub fn build(
        &self,
        destinations: Vec<String>,
        placed: &[Placed<'_>],
        version: u64,
        unknown: Unknown,
    ) -> Result<RoutingTable, Error> {
        let mut table = RoutingTable { version, unknown, destinations, ..RoutingTable::default() };
        let mut registered: Vec<Block> = self.registered.clone();
        registered.sort_unstable();
        registered.dedup();
        let mut by_address: BTreeMap<IpAddr, Votes> = BTreeMap::new();
        for host in placed {
            match host.address {
                Some(address) => by_address.entry(address).or_default().add(host.owner, host.pages),
                None => {
                    let exception = Exception { owner: host.owner, address: None };
                    table.hosts.insert(host_key(host.host), exception);
                }
            }
        }
        let mut by_block: BTreeMap<Block, Vec<(IpAddr, Owner, u64)>> = BTreeMap::new();
        for (address, votes) in &by_address {
            let block = self.block_of(&registered, *address);
            by_block.entry(block).or_default().push((*address, votes.winner(), votes.sum()));
        }
        for (block, addresses) in &by_block {
            self.assign(*block, addresses, None, &mut table.blocks);
        }
        table.aggregate();
        for host in placed {
            if let Some(address) = host.address
                && by_address.get(&address).is_some_and(|votes| votes.winner() != host.owner)
            {
                table
                    .hosts
                    .insert(host_key(host.host), Exception { owner: host.owner, address: Some(address) });
            }
        }
        table.check()?;
        Ok(table)
    }

    /// The narrowest registered block around an address.
    fn block_of(&self, registered: &[Block], address: IpAddr) -> Block {
        let single = Block::single(address);
        let at = registered.partition_point(|block| *block <= single);
        // Blocks around an address all come before it; those that do not hold it lie between them.
        let held = registered[..at].iter().rev().take(256).find(|block| block.contains(&single));
        let length = if address.is_ipv4() { self.length_four } else { self.length_six };
        held.copied().unwrap_or_else(|| Block::of(address, length))
    }

    /// Gives a block to whoever has most of it; of equals, to the owner of the block around it.
    fn assign(
        &self,
        block: Block,
        addresses: &[(IpAddr, Owner, u64)],
        around: Option<Owner>,
        blocks: &mut BTreeMap<Block, Owner>,
    ) {
        let mut votes = Votes::default();
        addresses.iter().for_each(|(_, owner, pages)| votes.add(*owner, *pages));
        let winner = around.filter(|around| votes.is_first(*around)).unwrap_or_else(|| votes.winner());
        blocks.insert(block, winner);
        let others = addresses.iter().filter(|(_, owner, _)| *owner != winner);
        let halves = block.halves().filter(|_| others.clone().count() > self.exceptions_max);
        match halves {
            None => others.for_each(|(address, owner, _)| {
                blocks.insert(Block::single(*address), *owner);
            }),
            Some(halves) => {
                for half in halves {
                    let inside: Vec<_> =
                        addresses.iter().filter(|(address, ..)| half.holds(*address)).copied().collect();
                    if !inside.is_empty() {
                        self.assign(half, &inside, Some(winner), blocks);
                    }
                }
            }
        }
    }
}

/// Pages by owner.
#[derive(Clone, Debug, Default)]
struct Votes(BTreeMap<Owner, u64>);

impl Votes {
    fn add(&mut self, owner: Owner, pages: u64) {
        *self.0.entry(owner).or_default() += pages.max(1);
    }

    /// Whoever has most; of equals the one with the least number.
    fn winner(&self) -> Owner {
        let most = self.0.iter().max_by_key(|(owner, pages)| (**pages, std::cmp::Reverse(**owner)));
        most.map_or(0, |(owner, _)| *owner)
    }

    /// Whether nobody has more.
    fn is_first(&self, owner: Owner) -> bool {
        self.0.get(&owner).copied() == self.0.values().copied().max()
    }

    fn sum(&self) -> u64 {
        self.0.values().sum()
    }
}
