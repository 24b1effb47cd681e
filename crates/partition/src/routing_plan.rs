//! From a space to a routing table: units, objectives, split, table; and how little may move from the table in force.

use crate::objective::{Geography, Links, Objective, Planner, RoundTrips, Sense, Wish};
use crate::split::{FREE, Incremental, Multilevel, hash};
use crate::table::{Builder, Placed, Route, Router, Unknown};
use crate::{Block, Error, Measure, RoutingTable, Space, Unit};

/// How a routing table is planned. The first three are the planner's choice, the others are settled: `farol-sim
/// partition plan` measures what they are worth.
#[derive(Clone, Debug)]
pub struct RoutingPlanner {
    /// How much links between agents matter.
    pub links: f64,
    /// How much round-trip times matter.
    pub round_trips: f64,
    /// How much distances on the globe matter.
    pub distance: f64,
    /// What has one owner.
    pub unit: Unit,
    pub sense: Sense,
    /// How much more than its share of pages an agent may get.
    pub slack: f64,
    /// Address blocks as registries assign them; may be empty.
    pub registered: Vec<Block>,
    pub seed: u64,
}

impl Default for RoutingPlanner {
    fn default() -> RoutingPlanner {
        RoutingPlanner {
            links: 4.0,
            round_trips: 1.0,
            distance: 0.0,
            unit: Unit::default(),
            sense: Sense::default(),
            slack: 0.05,
            registered: Vec::new(),
            seed: 1,
        }
    }
}

/// An owner for every server, and the table that says so.
#[derive(Clone, Debug)]
pub struct RoutingPlan {
    pub space: Space,
    /// The owner of each server.
    pub part: Vec<u32>,
    /// The owner of each server by the table in force, [`FREE`] where it names none of today's agents.
    pub before: Option<Vec<u32>>,
    pub table: RoutingTable,
}

impl RoutingPlanner {
    /// Plans a table for a space; little is moved from the table `in_force`, and the new version follows its.
    ///
    /// # Errors
    /// Where the space does not fit together.
    pub fn plan(&self, space: Space, in_force: Option<&RoutingTable>) -> Result<RoutingPlan, Error> {
        let (units, map) = space.by(self.unit);
        let before = in_force.map(|table| owners_before(&space, table));
        let unit_before = before.as_ref().map(|before| by_unit(before, &map, &space, units.servers.len()));
        let unit_part = self.split(&units, unit_before)?;
        let part: Vec<u32> = map.iter().map(|unit| unit_part[*unit as usize]).collect();
        let table = self.table(&space, &part, in_force.map_or(1, |table| table.version + 1))?;
        Ok(RoutingPlan { space, part, before, table })
    }

    fn split(&self, units: &Space, before: Option<Vec<u32>>) -> Result<Vec<u32>, Error> {
        let rtt = RoundTrips { sense: self.sense, ..RoundTrips::default() };
        let geo = Geography { sense: self.sense, ..Geography::default() };
        let objectives: [(&dyn Objective, f64); 3] =
            [(&Links, self.links), (&rtt, self.round_trips), (&geo, self.distance)];
        let wishes = objectives.map(|(objective, preference)| Wish { objective, preference });
        let search = Multilevel { seed: self.seed, cycles: 1, ..Multilevel::default() };
        let planner = Planner { search, slack: self.slack, ..Planner::default() };
        let plan = match before {
            None => planner.plan(units, &wishes)?,
            Some(before) => {
                planner.replan(units, &wishes, &before, &Incremental { search, ..Incremental::default() })?
            }
        };
        Ok(plan.split.part)
    }

    fn table(&self, space: &Space, part: &[u32], version: u64) -> Result<RoutingTable, Error> {
        let builder = Builder { registered: self.registered.clone(), ..Builder::default() };
        let placed: Vec<Placed<'_>> = space
            .servers
            .iter()
            .zip(part)
            .map(|(server, owner)| Placed {
                host: &server.name,
                address: server.address,
                pages: server.pages,
                owner: *owner,
            })
            .collect();
        let names = space.agents.iter().map(|agent| agent.name.clone()).collect();
        builder.build(names, &placed, version, Unknown::Hash)
    }
}

impl RoutingPlan {
    /// What the plan is worth.
    pub fn measure(&self) -> Measure {
        self.space.measure(&self.part)
    }

    /// What a hash of the host would be worth.
    pub fn measure_by_hash(&self) -> Measure {
        let k = self.space.parts();
        let part: Vec<u32> = self.space.servers.iter().map(|server| hash::of_text(&server.name, k)).collect();
        self.space.measure(&part)
    }

    /// Pages that would change hands, and all whose owner is known; `None` where no table is in force.
    pub fn moved(&self) -> Option<(u64, u64)> {
        let before = self.before.as_ref()?;
        let (mut moved, mut known) = (0, 0);
        for (s, server) in self.space.servers.iter().enumerate().filter(|(s, _)| before[*s] != FREE) {
            known += server.pages;
            moved += if before[s] == self.part[s] { 0 } else { server.pages };
        }
        Some((moved, known))
    }
}

/// Who owns each host by the table in force, by the numbers of today's agents.
fn owners_before(space: &Space, old: &RoutingTable) -> Vec<u32> {
    let router = Router::new(old);
    let number = |name: &String| space.agents.iter().position(|agent| agent.name == *name);
    let numbers: Vec<Option<usize>> = old.destinations.iter().map(number).collect();
    let owner = |server: &crate::Server| match router.route_host(&server.name, server.address) {
        Route::To(owner) => numbers.get(owner as usize).copied().flatten().map_or(FREE, |agent| agent as u32),
        Route::Hold => FREE,
    };
    space.servers.iter().map(owner).collect()
}

/// The owner before of each unit: whoever had most of its pages.
fn by_unit(before: &[u32], map: &[u32], space: &Space, units: usize) -> Vec<u32> {
    let k = space.parts();
    let mut pages = vec![0u64; units * k];
    for (s, owner) in before.iter().enumerate().filter(|(_, owner)| **owner != FREE) {
        pages[map[s] as usize * k + *owner as usize] += space.servers[s].pages.max(1);
    }
    let most = |row: &[u64]| {
        let best = row.iter().enumerate().max_by_key(|(_, pages)| **pages);
        best.filter(|(_, pages)| **pages > 0).map_or(FREE, |(owner, _)| owner as u32)
    };
    pages.chunks_exact(k).map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Agent, Server};

    /// Two communities of six hosts, two hosts to an address.
    fn space(agents: usize) -> Space {
        let server = |n: u32| Server {
            name: format!("http://h{n}.example"),
            address: format!("192.0.{}.{}", n / 6, n / 2 + 1).parse().ok(),
            pages: 10,
            position: None,
        };
        let within = |a: u32, b: u32| a / 6 == b / 6 && a != b;
        let pairs = (0..12).flat_map(|a| (0..12).map(move |b| (a, b)));
        let mut links: Vec<(u32, u32, u32)> =
            pairs.filter(|(a, b)| within(*a, *b)).map(|(a, b)| (a, b, 5)).collect();
        links.push((0, 6, 1));
        Space {
            servers: (0..12).map(server).collect(),
            links,
            agents: (1..=agents).map(|n| Agent::named(format!("agent {n}"))).collect(),
            rtt: Vec::new(),
        }
    }

    #[test]
    fn communities_stay_together_and_the_table_says_so() {
        let plan = RoutingPlanner::default().plan(space(2), None).unwrap();
        assert_eq!((plan.measure().links_cut, plan.table.version, plan.moved()), (1, 1, None));
        assert!(plan.measure_by_hash().links_cut > 1);
        assert_eq!(owners_before(&plan.space, &plan.table), plan.part);
        // An address has one owner.
        assert!(plan.part.chunks(2).all(|pair| pair[0] == pair[1]), "{:?}", plan.part);
    }

    #[test]
    fn little_moves_from_the_table_in_force() {
        let old = RoutingPlanner::default().plan(space(2), None).unwrap();
        let same = RoutingPlanner::default().plan(space(2), Some(&old.table)).unwrap();
        assert_eq!((same.moved(), same.table.version), (Some((0, 120)), 2));
        // An agent that is no longer there owns nothing, so that its pages do not count as moved.
        let alone = RoutingPlanner::default().plan(space(1), Some(&old.table)).unwrap();
        assert_eq!(alone.moved(), Some((0, 60)));
        assert!(alone.part.iter().all(|owner| *owner == 0));
    }
}
