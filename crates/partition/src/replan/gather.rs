//! From what agents told to a space whose servers are addresses, each with all its hosts.

use super::atlas::Atlas;
use super::fill::{Filled, Source, fill};
use super::rules::Ruled;
use crate::geo::GeoTable;
use crate::rtt::Routes;
use crate::{Agent, Position, Server, Space};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A host at an address.
#[derive(Clone, Debug)]
pub(super) struct AtAddress {
    pub host: String,
    pub pages: u64,
    pub language: Option<[u8; 2]>,
}

/// A space of addresses.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    /// One server for each address; it is called as the first of its hosts.
    pub space: Space,
    /// Hosts of each server.
    pub hosts: Vec<Vec<AtAddress>>,
    pub countries: Vec<Option<[u8; 2]>>,
    pub sources: Vec<Source>,
    pub counts: BTreeMap<Source, u64>,
    pub disbelieved: Vec<u32>,
}

/// What is known beside what agents told.
#[derive(Default)]
pub(super) struct Beside<'a> {
    pub places: Option<&'a GeoTable>,
    pub routes: Option<(&'a mut Routes, &'a BTreeMap<String, IpAddr>)>,
    pub seed: u64,
}

pub(super) fn gather(atlas: &Atlas, agents: &[Agent], beside: Beside<'_>) -> Gathered {
    let mut at: BTreeMap<IpAddr, u32> = BTreeMap::new();
    for (_, known) in atlas.hosts() {
        at.insert(known.told[0].address, 0);
    }
    for (number, unit) in at.values_mut().enumerate() {
        *unit = number as u32;
    }
    let mut servers: Vec<Server> =
        at.keys().map(|address| Server { address: Some(*address), ..Server::default() }).collect();
    let mut hosts: Vec<Vec<AtAddress>> = servers.iter().map(|_| Vec::new()).collect();
    let mut unit_of: HashMap<u64, u32> = HashMap::with_capacity(atlas.hosts().len());
    let mut own_account: Vec<Option<Position>> = vec![None; servers.len()];
    for (key, known) in atlas.hosts() {
        let newest = &known.told[0];
        let unit = at[&newest.address];
        unit_of.insert(key, unit);
        // Whoever took a host over has only begun to count.
        let pages = known.told.iter().map(|told| told.pages).max().unwrap_or(0);
        let server = &mut servers[unit as usize];
        if server.name.is_empty() {
            server.name.clone_from(&known.name);
        }
        server.pages = server.pages.saturating_add(pages);
        let position = known.told.iter().find_map(|told| told.position);
        own_account[unit as usize] = own_account[unit as usize].or(position);
        hosts[unit as usize].push(AtAddress { host: known.name.clone(), pages, language: newest.language });
    }
    let mut countries = vec![None; servers.len()];
    for (server, (country, told)) in servers.iter_mut().zip(countries.iter_mut().zip(own_account)) {
        let located = server.address.and_then(|address| beside.places?.find(address));
        *country = located.map(|located| located.country).filter(|country| country != b"??");
        server.position = told.or(located.and_then(|located| located.position));
    }
    let links = links(atlas, &unit_of);
    let places: Vec<(IpAddr, Option<Position>)> =
        at.keys().copied().zip(servers.iter().map(|server| server.position)).collect();
    let Filled { rtt, sources, counts, disbelieved } =
        fill(atlas, agents, &places, beside.routes, beside.seed);
    let space = Space { servers, links, agents: agents.to_vec(), rtt };
    Gathered { space, hosts, countries, sources, counts, disbelieved }
}

/// Links between addresses. Of two accounts of a host's links to another the greater counts.
fn links(atlas: &Atlas, unit_of: &HashMap<u64, u32>) -> Vec<(u32, u32, u32)> {
    let mut sums: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (key, known) in atlas.hosts() {
        let Some(from) = unit_of.get(&key) else { continue };
        let mut most: BTreeMap<u64, u32> = BTreeMap::new();
        for (to, count) in known.told.iter().flat_map(|told| &told.links) {
            let known = most.entry(*to).or_default();
            *known = (*known).max(*count);
        }
        for (to, count) in most {
            if let Some(to) = unit_of.get(&to).filter(|to| *to != from) {
                let sum = sums.entry((*from, *to)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    sums.into_iter().map(|((from, to), count)| (from, to, count)).collect()
}

impl Gathered {
    /// An address as rules see it.
    pub fn ruled(&self, unit: usize) -> Vec<Ruled<'_>> {
        let address = self.space.servers[unit].address;
        let Some(address) = address else { return Vec::new() };
        self.hosts[unit]
            .iter()
            .map(|at| Ruled {
                host: &at.host,
                address,
                country: self.countries[unit],
                language: at.language,
                pages: at.pages,
            })
            .collect()
    }

    /// Whether the time of an agent to an address is known better than by distance.
    pub fn measured(&self, unit: usize, agent: u32) -> bool {
        let source = self.sources.get(unit * self.space.parts() + agent as usize);
        source.is_some_and(|source| *source < Source::Distance)
    }
}
