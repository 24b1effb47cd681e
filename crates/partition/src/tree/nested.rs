//! Splitting level by level: each group's part of the Web among its direct children only [Exposto08 §3.3].

use crate::objective::{Planner, Wish};
use crate::{Agent, Error, Space};

/// A tree of agents, by their numbers in a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Branch {
    Agent(u32),
    Group(Vec<Branch>),
}

impl Branch {
    /// Agents below, from left to right.
    pub fn agents(&self) -> Vec<u32> {
        match self {
            Branch::Agent(agent) => vec![*agent],
            Branch::Group(children) => children.iter().flat_map(Branch::agents).collect(),
        }
    }
}

/// Splits a space between the agents of a tree, one level at a time. A child counts as one agent: its connections are
/// those of all its agents together, and it is as near to a server as the nearest of them.
///
/// # Errors
/// Where the tree names an agent that there is not, a group is empty, or the space does not fit together.
pub fn split(
    space: &Space,
    tree: &Branch,
    planner: &Planner,
    wishes: &[Wish<'_>],
) -> Result<Vec<u32>, Error> {
    space.check()?;
    if let Some(agent) = tree.agents().into_iter().find(|agent| *agent as usize >= space.parts()) {
        return Err(Error::NoPart { what: "the tree", part: agent, parts: space.parts() });
    }
    let mut part = vec![0; space.servers.len()];
    let all: Vec<u32> = (0..space.servers.len() as u32).collect();
    down(space, tree, &all, planner, wishes, &mut part)?;
    Ok(part)
}

fn down(
    space: &Space,
    tree: &Branch,
    servers: &[u32],
    planner: &Planner,
    wishes: &[Wish<'_>],
    part: &mut [u32],
) -> Result<(), Error> {
    let children = match tree {
        Branch::Agent(agent) => {
            servers.iter().for_each(|s| part[*s as usize] = *agent);
            return Ok(());
        }
        Branch::Group(children) if children.is_empty() => {
            return Err(Error::Tree("a group has no children; give it one, or take it out".to_string()));
        }
        Branch::Group(children) => children,
    };
    let level = restricted(space, servers, children);
    let split = planner.plan(&level, wishes)?.split;
    for (number, child) in children.iter().enumerate() {
        let own = servers.iter().zip(&split.part).filter(|(_, part)| **part as usize == number);
        let own: Vec<u32> = own.map(|(s, _)| *s).collect();
        down(space, child, &own, planner, wishes, part)?;
    }
    Ok(())
}

/// Some servers, with each child as an agent.
fn restricted(space: &Space, servers: &[u32], children: &[Branch]) -> Space {
    let mut number = vec![u32::MAX; space.servers.len()];
    servers.iter().enumerate().for_each(|(new, old)| number[*old as usize] = new as u32);
    let below: Vec<Vec<u32>> = children.iter().map(Branch::agents).collect();
    let agents = below.iter().map(|agents| {
        let own = || agents.iter().map(|agent| &space.agents[*agent as usize]);
        Agent {
            name: own().next().map_or(String::new(), |agent| agent.name.clone()),
            connections: own().map(|agent| agent.connections).sum::<f64>().max(f64::MIN_POSITIVE),
            // A child in several places has none; round trips say how near it is.
            position: if agents.len() == 1 { own().next().and_then(|agent| agent.position) } else { None },
        }
    });
    let nearest = |s: u32, agents: &[u32]| {
        let known = agents.iter().filter_map(|agent| space.rtt(s as usize, *agent as usize));
        known.fold(f64::INFINITY, f64::min)
    };
    let rtt = match space.rtt.is_empty() {
        true => Vec::new(),
        false => {
            let rows =
                servers.iter().flat_map(|s| below.iter().map(move |agents| nearest(*s, agents) as f32));
            rows.collect()
        }
    };
    let links = space.links.iter().map(|(a, b, n)| (number[*a as usize], number[*b as usize], *n));
    Space {
        servers: servers.iter().map(|s| space.servers[*s as usize].clone()).collect(),
        links: links.filter(|(a, b, _)| *a != u32::MAX && *b != u32::MAX).collect(),
        agents: agents.collect(),
        rtt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::objective::{Links, RoundTrips};

    #[test]
    fn each_level_is_split_on_its_own() {
        // 2 groups of 2 agents; servers in 4 groups of 10, each near one agent.
        let servers = (0..40).map(|_| Server { pages: 10, ..Server::default() }).collect();
        let links = (0..40u32).filter(|s| s % 10 != 9).map(|s| (s, s + 1, 5)).collect();
        let rtt = (0..40)
            .flat_map(|s| (0..4).map(move |a| if s / 10 == a { 10.0 } else { 20.0 + (s / 10 + a) as f32 }));
        let space = Space {
            servers,
            links,
            agents: (0..4).map(|a| Agent::named(a.to_string())).collect(),
            rtt: rtt.collect(),
        };
        let pair = |a, b| Branch::Group(vec![Branch::Agent(a), Branch::Agent(b)]);
        let tree = Branch::Group(vec![pair(0, 1), pair(2, 3)]);
        let rtt = RoundTrips::default();
        let wishes = [Wish { objective: &Links, preference: 1.0 }, Wish { objective: &rtt, preference: 1.0 }];
        let part = split(&space, &tree, &Planner::default(), &wishes).unwrap();
        let want: Vec<u32> = (0..40).map(|s| s / 10).collect();
        assert_eq!(part, want);
        assert!(split(&space, &Branch::Agent(9), &Planner::default(), &wishes).is_err());
        assert!(split(&space, &Branch::Group(vec![]), &Planner::default(), &wishes).is_err());
    }
}
