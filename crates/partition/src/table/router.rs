//! Looking up, millions of times a second.
//!
//! Nested blocks are flattened into ranges that do not overlap; the owner of an address is found by bisection. Hosts
//! with exceptions stand in an open table of fingerprints.

use super::{Filter, Owner, RoutingTable, Unknown};
use crate::geo::as_number;
use crate::split::consistent::{POINTS, Ring};
use farol_base::CanonicalUrl;
use farol_base::fingerprint::hash64;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where a URL goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    To(Owner),
    /// No entry; the URL waits for the next table.
    Hold,
}

/// A table ready for look-ups.
#[derive(Clone, Debug, Default)]
pub struct Router {
    version: u64,
    unknown: Unknown,
    /// For hosts that no entry names.
    ring: Ring,
    /// First addresses of ranges, in rising order, and their owners; [`NOBODY`] in gaps.
    four: Vec<(u32, Owner)>,
    six: Vec<(u128, Owner)>,
    /// Where in `four` addresses with the same first 16 bits begin.
    four_at: Vec<u32>,
    hosts: Hosts,
    /// Domains of filters, by fingerprint of their name.
    domains: BTreeMap<u64, Owner>,
}

const NOBODY: Owner = Owner::MAX;
const MAPPED: u128 = 0xFFFF_0000_0000;

impl Router {
    pub fn new(table: &RoutingTable) -> Router {
        let mut blocks = table.blocks.clone();
        let mut domains = BTreeMap::new();
        // The first filter that fits counts, so later ones are laid down first.
        for (filter, owner) in table.filters.iter().rev() {
            match filter {
                Filter::Domain(name) => drop(domains.insert(hash64(name.to_lowercase().as_bytes()), *owner)),
                Filter::Block(block) => {
                    // A filter overrides everything that lies in it.
                    blocks.retain(|inner, _| !block.contains(inner));
                    blocks.insert(*block, *owner);
                }
            }
        }
        let ranges =
            flatten(&blocks.iter().map(|(block, owner)| (block.range(), *owner)).collect::<Vec<_>>());
        let is_four = |first: &u128| first >> 32 == MAPPED >> 32;
        let mut four: Vec<(u32, Owner)> = vec![(0, NOBODY)];
        let mut six: Vec<(u128, Owner)> = vec![(0, NOBODY)];
        for (first, owner) in ranges {
            match is_four(&first) {
                true => push(&mut four, first as u32, owner),
                false => push(&mut six, first, owner),
            }
        }
        let four_at = (0..=1u32 << 16)
            .map(|high| four.partition_point(|(first, _)| u64::from(*first) < u64::from(high) << 16) as u32)
            .collect();
        let hosts = Hosts::new(table.hosts.iter().map(|(key, exception)| (*key, exception.owner)));
        Router {
            version: table.version,
            unknown: table.unknown,
            ring: match table.unknown {
                Unknown::Hash => Ring::new(&table.destinations, POINTS),
                Unknown::Hold => Ring::default(),
            },
            four,
            six,
            four_at,
            hosts,
            domains,
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes a newer table; an older one is refused, so that tables that overtake each other do no harm.
    pub fn replace(&mut self, table: &RoutingTable) -> bool {
        let is_newer = table.version > self.version;
        if is_newer {
            *self = Router::new(table);
        }
        is_newer
    }

    /// The owner of a URL whose server is at this address; `None` while that is unknown.
    pub fn route(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> Route {
        self.route_host(url.host_str(), address)
    }

    /// The owner of a host, as in `https://example.org`.
    pub fn route_host(&self, host: &str, address: Option<IpAddr>) -> Route {
        if let Some(owner) = self.named(host, address) {
            return Route::To(owner);
        }
        let hashed = match (self.unknown, address) {
            (Unknown::Hold, _) => None,
            (Unknown::Hash, Some(address)) => self.ring.of_address(address),
            (Unknown::Hash, None) => self.ring.of(host),
        };
        hashed.map_or(Route::Hold, Route::To)
    }

    /// The owner by an entry of the table; `None` where only a hash could tell.
    pub fn named(&self, host: &str, address: Option<IpAddr>) -> Option<Owner> {
        self.by_host(host).or_else(|| self.by_address(address?))
    }

    /// The owner by a filter of domains or an exception, whatever the address.
    pub fn by_host(&self, host: &str) -> Option<Owner> {
        self.by_domain(host).or_else(|| self.hosts.find(hash64(host.as_bytes())))
    }

    /// The owner by the block that an address lies in.
    pub fn by_address(&self, address: IpAddr) -> Option<Owner> {
        let owner = match address {
            IpAddr::V4(four) => {
                let number = u32::from(four);
                let high = (number >> 16) as usize;
                let (from, to) = (self.four_at.get(high)?, self.four_at.get(high + 1)?);
                let among = &self.four[*from as usize..*to as usize];
                let at = *from as usize + among.partition_point(|(first, _)| *first <= number);
                self.four.get(at.checked_sub(1)?)?.1
            }
            IpAddr::V6(_) => {
                let number = as_number(address);
                let at = self.six.partition_point(|(first, _)| *first <= number);
                self.six.get(at.checked_sub(1)?)?.1
            }
        };
        (owner != NOBODY).then_some(owner)
    }

    /// The owner by a filter of domains.
    pub fn by_domain(&self, host: &str) -> Option<Owner> {
        if self.domains.is_empty() {
            return None;
        }
        let name = host.split_once("://").map_or(host, |(_, rest)| rest);
        let mut name = name.rsplit_once(':').map_or(name, |(name, _)| name);
        loop {
            if let Some(owner) = self.domains.get(&hash64(name.as_bytes())) {
                return Some(*owner);
            }
            name = name.split_once('.')?.1;
        }
    }
}

fn push<T: Copy + PartialEq>(ranges: &mut Vec<(T, Owner)>, first: T, owner: Owner) {
    match ranges.last_mut() {
        Some(last) if last.0 == first => last.1 = owner,
        Some(last) if last.1 == owner => {}
        _ => ranges.push((first, owner)),
    }
}

/// Nested ranges in order, wider ones first, become ranges one after the other.
fn flatten(nested: &[((u128, u128), Owner)]) -> Vec<(u128, Owner)> {
    let mut flat: Vec<(u128, Owner)> = Vec::with_capacity(2 * nested.len() + 1);
    let mut open: Vec<(u128, Owner)> = Vec::new();
    let close_until = |flat: &mut Vec<(u128, Owner)>, open: &mut Vec<(u128, Owner)>, before: Option<u128>| {
        while let Some((last, _)) = open.last().copied()
            && before.is_none_or(|before| last < before)
        {
            open.pop();
            if let Some(next) = last.checked_add(1) {
                flat.push((next, open.last().map_or(NOBODY, |(_, owner)| *owner)));
            }
        }
    };
    for ((first, last), owner) in nested {
        close_until(&mut flat, &mut open, Some(*first));
        flat.push((*first, *owner));
        open.push((*last, *owner));
    }
    close_until(&mut flat, &mut open, None);
    // Where two begin at one address the later, narrower or outer one that follows, counts.
    let mut clean: Vec<(u128, Owner)> = Vec::with_capacity(flat.len());
    for (first, owner) in flat {
        match clean.last_mut() {
            Some(last) if last.0 == first => last.1 = owner,
            _ => clean.push((first, owner)),
        }
    }
    clean
}

/// Fingerprints and owners in an open table, at most half full.
#[derive(Clone, Debug, Default)]
struct Hosts {
    /// Fingerprint and owner; [`NOBODY`] where free.
    places: Vec<(u64, Owner)>,
}

impl Hosts {
    fn new(hosts: impl Iterator<Item = (u64, Owner)> + Clone) -> Hosts {
        let count = hosts.clone().count();
        let size = if count == 0 { 0 } else { (2 * count).next_power_of_two() };
        let mut places = vec![(0, NOBODY); size];
        for (key, owner) in hosts {
            let mut at = key as usize & (size - 1);
            while places[at].1 != NOBODY && places[at].0 != key {
                at = (at + 1) & (size - 1);
            }
            places[at] = (key, owner);
        }
        Hosts { places }
    }

    fn find(&self, key: u64) -> Option<Owner> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = key as usize & mask;
        loop {
            match self.places[at] {
                (_, NOBODY) => return None,
                (found, owner) if found == key => return Some(owner),
                _ => at = (at + 1) & mask,
            }
        }
    }
}
