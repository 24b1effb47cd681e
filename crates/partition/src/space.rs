//! What is split: servers with their pages, links between them, agents, and round-trip times from agents to servers.
//!
//! A server is a host, or an address with all its hosts ([`Unit`]) [Exposto08 §5.1].

use crate::geo::Position;
use crate::split::{Balance, Loads};
use crate::{Error, Graph};
use std::collections::HashMap;
use std::net::IpAddr;

/// What has one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Each host by itself. Hosts at one address may have different owners; politeness towards the address is then
    /// only as good as the agents' own.
    Host,
    /// All hosts at an address (decision D-19); hosts without a known address stand by themselves.
    #[default]
    Address,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Server {
    /// Scheme, name and port, as in `https://example.org`; of an address with many hosts, the name of one.
    pub name: String,
    pub address: Option<IpAddr>,
    pub pages: u64,
    pub position: Option<Position>,
}

/// An agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub name: String,
    /// Connections that it can have at a time; its share of pages goes by them (decision D-3).
    pub connections: f64,
    pub position: Option<Position>,
}

impl Agent {
    pub fn named(name: impl Into<String>) -> Agent {
        Agent { name: name.into(), connections: 50.0, position: None }
    }
}

/// Everything that a split goes by.
#[derive(Clone, Debug, Default)]
pub struct Space {
    pub servers: Vec<Server>,
    /// Links between pages of different servers: from, to, how many.
    pub links: Vec<(u32, u32, u32)>,
    pub agents: Vec<Agent>,
    /// Milliseconds from each agent to each server, server by server; what is not a number above 0 is unknown.
    pub rtt: Vec<f32>,
}

impl Space {
    /// Says what does not fit together.
    ///
    /// # Errors
    /// Where there is no agent, a capacity is no number, or there are not as many round-trip times as there should be.
    pub fn check(&self) -> Result<(), Error> {
        if self.agents.is_empty() {
            return Err(Error::NoAgents);
        }
        for agent in &self.agents {
            if !(agent.connections.is_finite() && agent.connections > 0.0) {
                return Err(Error::Number {
                    what: "number of connections",
                    whose: agent.name.clone(),
                    value: agent.connections,
                });
            }
        }
        let wanted = self.servers.len() * self.agents.len();
        if !self.rtt.is_empty() && self.rtt.len() != wanted {
            return Err(Error::Count { what: "round-trip time", given: self.rtt.len(), wanted });
        }
        Ok(())
    }

    pub fn parts(&self) -> usize {
        self.agents.len()
    }

    /// Milliseconds from an agent to a server, where they are known and can be.
    pub fn rtt(&self, server: usize, agent: usize) -> Option<f64> {
        let rtt = f64::from(*self.rtt.get(server * self.agents.len() + agent)?);
        (rtt.is_finite() && rtt > 0.0).then(|| {
            // Nothing is faster than light in glass: an agent that claims to be is not believed.
            let least = match (self.servers[server].position, self.agents[agent].position) {
                (Some(there), Some(here)) => there.rtt_least(here),
                _ => 0.0,
            };
            rtt.max(least)
        })
    }

    /// The link graph.
    ///
    /// # Errors
    /// Where a link names a server that there is not.
    pub fn graph(&self) -> Result<Graph, Error> {
        Graph::from_edges(self.servers.len(), &self.links)
    }

    /// Pages of servers, and which of those are dense: so large that one of them fills a connection of its agent for
    /// longer than all the agent's other pages keep the others busy.
    pub fn loads(&self) -> Loads {
        let pages: Vec<u64> = self.servers.iter().map(|server| server.pages.max(1)).collect();
        let connections: f64 = self.agents.iter().map(|agent| agent.connections).sum();
        let fair = pages.iter().sum::<u64>() as f64 / connections.max(1.0);
        Loads::with_dense(pages, fair.ceil() as u64 + 1)
    }

    /// Shares by agents' connections.
    ///
    /// # Errors
    /// As for [`Space::check`].
    pub fn balance(&self, loads: &Loads, slack: f64) -> Result<Balance, Error> {
        self.check()?;
        let capacities: Vec<f64> = self.agents.iter().map(|agent| agent.connections).collect();
        Balance::new(loads, &capacities, slack)
    }

    /// Merges servers that have one owner; answers the space of units and which unit each server is in.
    pub fn by(&self, unit: Unit) -> (Space, Vec<u32>) {
        let mut units: Vec<Server> = Vec::new();
        let mut by_address: HashMap<IpAddr, u32> = HashMap::new();
        let mut map = Vec::with_capacity(self.servers.len());
        let k = self.agents.len();
        let mut rtt: Vec<f32> = Vec::new();
        for (s, server) in self.servers.iter().enumerate() {
            let known = match (unit, server.address) {
                (Unit::Address, Some(address)) => {
                    Some(*by_address.entry(address).or_insert(units.len() as u32))
                }
                _ => None,
            };
            match known {
                Some(at) if (at as usize) < units.len() => {
                    let into = &mut units[at as usize];
                    into.pages += server.pages;
                    into.position = into.position.or(server.position);
                    map.push(at);
                    for j in 0..if self.rtt.is_empty() { 0 } else { k } {
                        let (old, new) = (self.rtt(s, j), &mut rtt[at as usize * k + j]);
                        if let Some(old) = old
                            && new.is_nan()
                        {
                            *new = old as f32;
                        }
                    }
                }
                _ => {
                    map.push(units.len() as u32);
                    units.push(server.clone());
                    if !self.rtt.is_empty() {
                        rtt.extend((0..k).map(|j| self.rtt(s, j).map_or(f32::NAN, |rtt| rtt as f32)));
                    }
                }
            }
        }
        let links = self.links.iter().map(|(a, b, n)| (map[*a as usize], map[*b as usize], *n));
        let links = links.filter(|(a, b, _)| a != b).collect();
        (Space { servers: units, links, agents: self.agents.clone(), rtt }, map)
    }

    /// What an assignment of servers to agents is worth.
    pub fn measure(&self, part: &[u32]) -> Measure {
        let k = self.agents.len();
        let mut measure = Measure {
            pages: vec![0; k],
            servers: vec![0; k],
            links_out: vec![0; k],
            rtt: vec![f64::NAN; k],
            ..Measure::default()
        };
        let (mut sums, mut known) = (vec![0.0; k], vec![0u64; k]);
        for (s, server) in self.servers.iter().enumerate() {
            let j = part[s] as usize;
            measure.pages[j] += server.pages;
            measure.servers[j] += 1;
            if let Some(rtt) = self.rtt(s, j) {
                sums[j] += rtt * server.pages as f64;
                known[j] += server.pages;
            }
        }
        for (a, b, links) in self.links.iter().filter(|(a, b, _)| a != b) {
            let (from, to) = (part[*a as usize], part[*b as usize]);
            measure.links += u64::from(*links);
            if from != to {
                measure.links_cut += u64::from(*links);
                measure.links_out[from as usize] += u64::from(*links);
            }
        }
        for j in 0..k {
            measure.rtt[j] = sums[j] / known[j] as f64;
        }
        measure.rtt_mean = sums.iter().sum::<f64>() / known.iter().sum::<u64>() as f64;
        let (pages, capacity): (u64, f64) =
            (measure.pages.iter().sum(), self.agents.iter().map(|agent| agent.connections).sum());
        let fair = |j: usize| pages as f64 * self.agents[j].connections / capacity;
        measure.overload = (0..k).map(|j| measure.pages[j] as f64 / fair(j).max(1e-9)).fold(0.0, f64::max);
        measure
    }
}

/// An assignment in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure {
    pub pages: Vec<u64>,
    pub servers: Vec<u64>,
    /// Links from each agent's servers to others' servers.
    pub links_out: Vec<u64>,
    /// Mean round-trip time per page, where known; not a number where nothing is.
    pub rtt: Vec<f64>,
    pub rtt_mean: f64,
    /// Links between servers.
    pub links: u64,
    /// Those between agents.
    pub links_cut: u64,
    /// Greatest share of pages in fair shares.
    pub overload: f64,
}

impl Measure {
    /// Share of links between servers that lead to another agent.
    pub fn exchange(&self) -> f64 {
        if self.links == 0 { 0.0 } else { self.links_cut as f64 / self.links as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let server = |name: &str, address: &str, pages| Server {
            name: name.to_string(),
            address: address.parse().ok(),
            pages,
            position: None,
        };
        Space {
            servers: vec![
                server("a", "192.0.2.1", 5),
                server("b", "192.0.2.1", 3),
                server("c", "2001:db8::1", 2),
            ],
            links: vec![(0, 1, 4), (0, 2, 1), (2, 1, 2)],
            agents: vec![Agent::named("x"), Agent::named("y")],
            rtt: vec![10.0, 90.0, f32::NAN, 80.0, -5.0, f32::INFINITY],
        }
    }

    #[test]
    fn hosts_at_an_address_become_one() {
        let (units, map) = space().by(Unit::Address);
        assert_eq!(map, [0, 0, 1]);
        assert_eq!((units.servers[0].pages, units.servers.len()), (8, 2));
        assert_eq!(units.links, [(0, 1, 1), (1, 0, 2)]);
        assert_eq!((units.rtt(0, 0), units.rtt(0, 1), units.rtt(1, 0)), (Some(10.0), Some(90.0), None));
        assert_eq!(space().by(Unit::Host).1, [0, 1, 2]);
    }

    #[test]
    fn an_assignment_is_measured() {
        let measure = space().measure(&[0, 0, 1]);
        assert_eq!((measure.pages, measure.links, measure.links_cut), (vec![8, 2], 7, 3));
        assert_eq!((measure.links_out, measure.rtt_mean, measure.overload), (vec![1, 2], 10.0, 1.6));
        assert!(measure.rtt[1].is_nan());
    }

    #[test]
    fn nobody_is_faster_than_light() {
        let mut space = space();
        space.servers[0].position = Position::new(38.7, -9.1);
        space.agents[0].position = Position::new(-33.9, 151.2);
        space.rtt[0] = 0.001;
        assert!(space.rtt(0, 0).unwrap() > 150.0);
        space.agents[0].connections = f64::NAN;
        assert!(space.check().unwrap_err().to_string().starts_with("the number of connections of x is NaN"));
        space.agents.clear();
        assert_eq!(space.check(), Err(Error::NoAgents));
    }
}
