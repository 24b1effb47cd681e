//! The strategies that are compared, and spaces to compare them on.

use super::input::Cities;
use farol_base::{Random, Seeded};
use farol_partition::objective::{Geography, Links, Normalisation, Objective, Planner, RoundTrips, Wish};
use farol_partition::split::{FREE, Flat, Incremental, Multilevel, Problem, consistent::Ring, hash};
use farol_partition::{Agent, Error, Graph, Server, Space};

/// How hosts are given to agents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// A hash of the host's name.
    Hash,
    /// Consistent hashing with loads bounded by 1.25.
    Consistent,
    /// Ours: links and round-trip times.
    LinksRtt,
    /// Ours: links and distances on the globe.
    LinksGeo,
    /// Ours: links alone.
    Links,
    /// The flat method of \[Exposto08\] on links and round-trip times.
    Flat,
    /// The same with round-trip times as weights, to the letter.
    Literal,
}

impl Strategy {
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Hash => "hash of host",
            Strategy::Consistent => "consistent hash",
            Strategy::LinksRtt => "links + RTT",
            Strategy::LinksGeo => "links + geo",
            Strategy::Links => "links alone",
            Strategy::Flat => "flat KL/FM, links + RTT",
            Strategy::Literal => "links + RTT, literal",
        }
    }
}

/// Preference of links and of distances, and the rest of what a plan takes.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    pub links: f64,
    pub distance: f64,
    pub slack: f64,
    pub seed: u64,
}

impl Weights {
    fn planner(&self) -> Planner {
        Planner {
            slack: self.slack,
            search: Multilevel { seed: self.seed, cycles: 1, ..Multilevel::default() },
            ..Planner::default()
        }
    }

    fn wishes<'a>(&self, links: &'a Links, distance: &'a dyn Objective) -> [Wish<'a>; 2] {
        [
            Wish { objective: links, preference: self.links },
            Wish { objective: distance, preference: self.distance },
        ]
    }
}

/// Assigns every server of a space.
pub fn assign(space: &Space, strategy: Strategy, weights: &Weights) -> Result<Vec<u32>, Error> {
    let k = space.parts();
    let rtt = RoundTrips::default();
    let planned = |distance: &dyn Objective| {
        Ok(weights.planner().plan(space, &weights.wishes(&Links, distance))?.split.part)
    };
    match strategy {
        Strategy::Hash => Ok(space.servers.iter().map(|server| hash::of_text(&server.name, k)).collect()),
        Strategy::Consistent => {
            let names: Vec<&str> = space.agents.iter().map(|agent| agent.name.as_str()).collect();
            let keys = space.servers.iter().map(|server| (server.name.as_str(), server.pages));
            Ok(Ring::new(&names, 128).bounded(keys, 1.25))
        }
        Strategy::LinksRtt => planned(&rtt),
        Strategy::LinksGeo => planned(&Geography::default()),
        Strategy::Links => {
            let wish = Wish { objective: &Links, preference: 1.0 };
            Ok(matched(space, &weights.planner().plan(space, &[wish])?.split.part))
        }
        Strategy::Flat => {
            let plan = weights.planner().plan(space, &weights.wishes(&Links, &rtt))?;
            let problem = Problem {
                affinities: Some(&plan.combined.affinities),
                ..Problem::new(&plan.combined.graph, &plan.loads, &plan.balance)
            };
            Ok(Flat::default().split(&problem)?.part)
        }
        Strategy::Literal => {
            let literal = RoundTrips { sense: farol_partition::objective::Sense::Literal, per_server: true };
            let planner = Planner { normalisation: Normalisation::Cut, ..weights.planner() };
            Ok(planner.plan(space, &weights.wishes(&Links, &literal))?.split.part)
        }
    }
}

/// Assigns again after an agent joined as the last one, with little moved.
pub fn assign_again(
    space: &Space,
    before: &[u32],
    strategy: Strategy,
    weights: &Weights,
) -> Result<Vec<u32>, Error> {
    let rtt = RoundTrips::default();
    let geo = Geography::default();
    let distance: &dyn Objective = if strategy == Strategy::LinksGeo { &geo } else { &rtt };
    match strategy {
        Strategy::Hash | Strategy::Consistent | Strategy::Flat | Strategy::Literal => {
            assign(space, strategy, weights)
        }
        Strategy::Links => {
            let wish = Wish { objective: &Links, preference: 1.0 };
            let plan = weights.planner().replan(space, &[wish], before, &Incremental::default())?;
            Ok(plan.split.part)
        }
        Strategy::LinksRtt | Strategy::LinksGeo => {
            let wishes = weights.wishes(&Links, distance);
            Ok(weights.planner().replan(space, &wishes, before, &Incremental::default())?.split.part)
        }
    }
}

/// Both objectives, links first: used beside partitioners that only know links.
pub fn both(space: &Space, slack: f64, seed: u64) -> Result<Vec<u32>, Error> {
    let weights = Weights { links: 12.0, distance: 1.0, slack, seed };
    let planner = Planner { share_dense: false, ..weights.planner() };
    Ok(planner.plan(space, &weights.wishes(&Links, &RoundTrips::default()))?.split.part)
}

/// Gives each part to the agent with whom round trips are shortest: greedily, then by swapping two at a time.
pub fn matched(space: &Space, part: &[u32]) -> Vec<u32> {
    let k = space.parts();
    let mut cost = vec![0.0; k * k];
    for (s, server) in space.servers.iter().enumerate() {
        for j in 0..k {
            cost[part[s] as usize * k + j] += server.pages as f64 * space.rtt(s, j).unwrap_or(0.0);
        }
    }
    let mut agent: Vec<usize> = (0..k).collect();
    let mut swapped = true;
    while swapped {
        swapped = false;
        for a in 0..k {
            for b in 0..a {
                let now = cost[a * k + agent[a]] + cost[b * k + agent[b]];
                let then = cost[a * k + agent[b]] + cost[b * k + agent[a]];
                if then < now - 1e-9 {
                    agent.swap(a, b);
                    swapped = true;
                }
            }
        }
    }
    part.iter().map(|part| agent[*part as usize] as u32).collect()
}

/// A real graph put into cities: neighbours, as far as walks along edges tell, tend to share one.
pub fn placed_space(graph: &Graph, pages: &[u64], cities: &Cities, k: usize, seed: u64) -> Space {
    let mut random = Seeded::new(seed);
    let people: Vec<f64> = cities.people.iter().map(|people| (*people as f64).sqrt()).collect();
    let by_people = super::web::Draw::new(&people);
    let n = graph.vertices();
    let mut city = vec![FREE; n];
    for v in 0..n {
        // Half of all servers are where one of their neighbours is.
        let arcs = graph.arcs(v);
        let near = (!arcs.is_empty() && random.below(2) == 0)
            .then(|| city[arcs[random.below(arcs.len() as u64) as usize].to as usize])
            .filter(|city| *city != FREE);
        city[v] = near.unwrap_or_else(|| by_people.draw(&mut random));
    }
    let agents: Vec<u32> = (0..k).map(|_| by_people.draw(&mut random)).collect();
    let position = |city: u32| cities.positions.get(city as usize).copied();
    let server = |v: usize| Server {
        name: format!("v{v}"),
        pages: pages[v],
        position: position(city[v]),
        ..Server::default()
    };
    Space {
        servers: (0..n).map(server).collect(),
        links: graph.each_edge().collect(),
        agents: agents
            .iter()
            .enumerate()
            .map(|(j, city)| Agent { position: position(*city), ..Agent::named(format!("agent {j}")) })
            .collect(),
        rtt: (0..n)
            .flat_map(|v| agents.iter().map(move |agent| (v, *agent)))
            .map(|(v, agent)| cities.rtt(city[v] as usize, agent as usize) as f32)
            .collect(),
    }
}
