//! Consistent hashing, for hosts that no routing table names; with bounded loads also the stronger baseline for
//! experiments [Exposto08 §2.2.4], decision D-13.
//!
//! Each agent stands at many points of a ring; a key belongs to the next agent on it that has room
//! \[Karger97\]; bounds after \[Mirrokni18\]. When an agent comes or goes only its neighbours' keys move.

use farol_base::fingerprint::hash64;
use farol_base::random::mix;
use std::net::IpAddr;

/// Points of each agent: 128 keep loads within about a tenth of each other, at 2 KiB an agent.
pub const POINTS: usize = 128;

/// Agents on a ring.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// Points in rising order.
    points: Vec<(u64, u32)>,
    agents: usize,
}

impl Ring {
    /// A ring of agents, which keep their points whatever others come and go as long as they keep their names.
    pub fn new<S: AsRef<str>>(names: &[S], points_each: usize) -> Ring {
        let mut points: Vec<(u64, u32)> = Vec::with_capacity(names.len() * points_each);
        for (agent, name) in names.iter().enumerate() {
            let hash = hash64(name.as_ref().as_bytes());
            points.extend((0..points_each.max(1) as u64).map(|k| (mix(hash ^ mix(k)), agent as u32)));
        }
        points.sort_unstable();
        Ring { points, agents: names.len() }
    }

    /// The agent of a key; `None` where there is no agent.
    pub fn of(&self, key: &str) -> Option<u32> {
        self.from(hash64(key.as_bytes())).next()
    }

    /// The agent of a server's address.
    pub fn of_address(&self, address: IpAddr) -> Option<u32> {
        self.from(match address {
            IpAddr::V4(four) => hash64(&four.octets()),
            IpAddr::V6(six) => hash64(&six.octets()),
        })
        .next()
    }

    /// Assigns keys with weights so that no agent bears more than `bound` times its share, in the order given.
    pub fn bounded<'a>(&self, keys: impl Iterator<Item = (&'a str, u64)> + Clone, bound: f64) -> Vec<u32> {
        let total: u64 = keys.clone().map(|(_, weight)| weight).sum();
        let limit = (total as f64 * bound.max(1.0) / self.agents.max(1) as f64).ceil() as u64;
        let mut loads = vec![0u64; self.agents];
        keys.map(|(key, weight)| {
            let mut agents = self.from(hash64(key.as_bytes()));
            // A key heavier than any room goes to its own agent.
            let fits = |agent: &u32| loads[*agent as usize] + weight <= limit;
            let agent = agents.clone().find(fits).or_else(|| agents.next()).unwrap_or(0);
            if let Some(load) = loads.get_mut(agent as usize) {
                *load += weight;
            }
            agent
        })
        .collect()
    }

    /// Agents in the order of the ring from a hash on.
    fn from(&self, hash: u64) -> impl Iterator<Item = u32> + Clone + '_ {
        let at = self.points.partition_point(|point| point.0 < hash);
        self.points[at..].iter().chain(&self.points[..at]).map(|point| point.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_agent_takes_its_share_and_nothing_else_moves() {
        let names: Vec<String> = (0..9).map(|n| format!("agent {n}")).collect();
        let (before, after) = (Ring::new(&names[..8], 128), Ring::new(&names, 128));
        let keys: Vec<String> = (0..20_000).map(|n| format!("http://h{n}.test")).collect();
        let mut moved = 0;
        for key in &keys {
            let (old, new) = (before.of(key).unwrap(), after.of(key).unwrap());
            assert!(old == new || new == 8, "{key} moved between old agents");
            moved += usize::from(old != new);
        }
        assert!((1600..2900).contains(&moved), "{moved}");
    }

    #[test]
    fn bounds_hold() {
        let ring = Ring::new(&["a", "b", "c"], 64);
        let keys: Vec<String> = (0..3000).map(|n| n.to_string()).collect();
        let parts = ring.bounded(keys.iter().map(|key| (key.as_str(), 2)), 1.05);
        for agent in 0..3 {
            let load = 2 * parts.iter().filter(|part| **part == agent).count();
            assert!(load <= 2100, "{load}");
        }
        // One key heavier than all room.
        assert_eq!(ring.bounded([("x", 100), ("y", 1)].into_iter(), 1.0).len(), 2);
        let none = Ring::new::<&str>(&[], 8);
        assert_eq!((none.of("x"), none.bounded([("x", 1)].into_iter(), 1.0)), (None, vec![0]));
    }
}
