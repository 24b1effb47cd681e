//! Splitting again with little moved: an agent joined or left, hosts came, pages grew (decision D-7).
//!
//! What was together stays together while coarsening, so that whole groups change hands. A joined agent gets a group
//! carved out of all parts; a departed agent's hosts go where they have most to do. Refinement then may take no more
//! away from where it was than the *budget* allows; what goes back home is free.

use super::fixed::reduce;
use super::multilevel::{Level, Multilevel, Refined, coarsen_to, enough};
use super::refine::{Budget, Effort, Refiner};
use super::{FREE, Problem, Split};
use crate::Error;
use farol_base::Seeded;

/// How agents changed, for those who number parts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An agent came; its part has the greatest number.
    Joined,
    /// The agent of this part went; parts with greater numbers move down by one.
    Left(u32),
}

impl Change {
    /// A split as it looks after the change: parts by their new numbers, [`FREE`] for what has no agent.
    pub fn renumber(self, part: &[u32]) -> Vec<u32> {
        let number = |part: &u32| match self {
            Change::Joined => *part,
            Change::Left(gone) if *part == gone => FREE,
            Change::Left(gone) if *part > gone && *part != FREE => part - 1,
            Change::Left(_) => *part,
        };
        part.iter().map(number).collect()
    }
}

/// Times that all is done, of which the best is kept.
const TRIES: u64 = 3;

/// Splits again.
#[derive(Clone, Copy, Debug)]
pub struct Incremental {
    pub search: Multilevel,
    /// Pages that may change hands, as a multiple of a fair share; those of departed agents are not counted.
    pub budget: f64,
    /// Times that room for a new agent is carved, of which the best is kept.
    pub trials: usize,
}

impl Default for Incremental {
    fn default() -> Incremental {
        Incremental { search: Multilevel::default(), budget: 1.25, trials: 24 }
    }
}

impl Incremental {
    /// Splits again; `before` is what was, [`FREE`] for vertices that are new or whose agent has gone.
    ///
    /// # Errors
    /// Where the problem does not fit together, or `before` names a part that there is not.
    pub fn split(&self, problem: &Problem<'_>, before: &[u32]) -> Result<Split, Error> {
        problem.check()?;
        let (n, k) = (problem.graph.vertices(), problem.parts());
        if before.len() != n {
            return Err(Error::Count { what: "part before", given: before.len(), wanted: n });
        }
        if let Some(part) = before.iter().find(|part| **part != FREE && **part as usize >= k) {
            return Err(Error::NoPart { what: "the split before", part: *part, parts: k });
        }
        let part = match reduce_around(problem, before) {
            Some((reduced, before)) => {
                let part = self.free(&reduced.problem(), &before);
                reduced.whole(&part)
            }
            None => self.free(problem, before),
        };
        Ok(problem.judge(part))
    }

    fn free(&self, problem: &Problem<'_>, before: &[u32]) -> Vec<u32> {
        let (n, k) = (problem.graph.vertices(), problem.parts());
        if k == 1 || n == 0 {
            return vec![0; n];
        }
        // Each time other groups are carved.
        let tries = (0..TRIES).map(|offset| self.attempt(problem, before, self.search.seed + offset));
        tries.min_by_key(|tried| tried.worth).map_or_else(|| vec![0; n], |best| best.part)
    }

    fn attempt(&self, problem: &Problem<'_>, before: &[u32], seed: u64) -> Refined {
        let k = problem.parts();
        let mut random = Seeded::new(seed);
        let level = Level { home: Some(before.to_vec()), ..Level::of(problem) };
        let tower = coarsen_to(level, enough(self.search.coarsest, k), &mut random);
        let top = tower.coarsest();
        let home = top.home.clone().unwrap_or_default();
        let mut taken = vec![false; k];
        home.iter().filter(|part| **part != FREE).for_each(|part| taken[*part as usize] = true);
        let share = problem.loads.total(0) as f64 / k as f64;
        // A change of agents moves a share for each; without one there is nothing that must move.
        let joined = taken.iter().filter(|taken| !**taken).count().max(1);
        let most = (share * joined as f64 * self.budget.max(0.0)) as u64;
        let settled = settle(top, &home, problem);
        let fair = problem.balance.fair();
        let total: f64 = fair.iter().sum::<f64>().max(1.0);
        let mut best: Option<((u64, i64), Vec<u32>)> = None;
        for trial in 0..self.trials.max(1) {
            let mut part = settled.clone();
            let mut budget = Budget::new(most);
            budget.enter(top, &part);
            let mut refiner = Refiner::new(top, problem.balance, &mut part, Some(budget));
            // Fair shares of what is really there; what is fixed elsewhere does not count.
            let there = problem.loads.total(0) as f64 / total;
            let keep: Vec<u64> = fair.iter().map(|fair| (fair * there) as u64).collect();
            for empty in (0..k as u32).filter(|part| !taken[*part as usize]) {
                let size = fair[empty as usize] * there * (0.8 + 0.04 * (trial % 6) as f64);
                refiner.carve(empty, size as u64, &keep, &mut random);
            }
            refiner.rebalance();
            refiner.refine(Effort { passes: 4, patience: 60 }, &mut random);
            refiner.rebalance();
            let worth = (refiner.excess(), refiner.cost());
            if best.as_ref().is_none_or(|(least, _)| worth < *least) {
                best = Some((worth, part));
            }
            // Without a new agent nothing is left to chance.
            if taken.iter().all(|taken| *taken) {
                break;
            }
        }
        let part = best.map_or(settled, |(_, part)| part);
        tower.refine(part, problem.balance, Some(Budget::new(most)), &self.search, &mut random)
    }
}

/// Gives vertices without a home a part: heaviest first, where they have most to do and there is room.
fn settle(level: &Level<'_>, home: &[u32], problem: &Problem<'_>) -> Vec<u32> {
    let k = problem.parts();
    let mut part = home.to_vec();
    let mut loads = vec![0u64; k];
    let mut homeless: Vec<u32> = Vec::new();
    for (v, part) in part.iter().enumerate() {
        match loads.get_mut(*part as usize) {
            Some(load) => *load += level.loads.first(v),
            None => homeless.push(v as u32),
        }
    }
    homeless.sort_by_key(|v| std::cmp::Reverse(level.loads.first(*v as usize)));
    for v in homeless {
        let v = v as usize;
        let mut attached = vec![0u64; k];
        if let Some(affinities) = &level.affinities {
            attached
                .iter_mut()
                .zip(&affinities[v * k..])
                .for_each(|(sum, affinity)| *sum += u64::from(*affinity));
        }
        for arc in level.graph.arcs(v) {
            if let Some(sum) = attached.get_mut(part[arc.to as usize] as usize) {
                *sum += u64::from(arc.weight);
            }
        }
        let weight = level.loads.first(v);
        let limits = problem.balance.limits();
        let filled = |j: usize| (loads[j] + weight) as f64 / limits[j].max(1) as f64;
        let fitting = (0..k).filter(|j| loads[*j] + weight <= limits[*j]);
        let best =
            fitting.max_by(|a, b| attached[*a].cmp(&attached[*b]).then(filled(*b).total_cmp(&filled(*a))));
        let to = best.or_else(|| (0..k).min_by(|a, b| filled(*a).total_cmp(&filled(*b)))).unwrap_or(0);
        part[v] = to as u32;
        loads[to] += weight;
    }
    part
}

/// Takes fixed vertices and giants out; giants stay where they were.
fn reduce_around(problem: &Problem<'_>, before: &[u32]) -> Option<(super::fixed::Reduced, Vec<u32>)> {
    let most = problem.balance.limits()[..problem.parts()].iter().copied().max().unwrap_or(0);
    let mut fixed = problem.fixed.map_or_else(|| vec![FREE; before.len()], <[u32]>::to_vec);
    for (v, fixed) in fixed.iter_mut().enumerate() {
        if *fixed == FREE && problem.loads.first(v) > most {
            *fixed = before[v];
        }
    }
    let reduced = reduce(&Problem { fixed: Some(&fixed), ..*problem })?;
    let before = reduced.free.iter().map(|v| before[*v as usize]).collect();
    Some((reduced, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::{Balance, Loads};
    use crate::{Graph, split::Multilevel};
    use farol_base::Random;

    /// Groups of 30 with a few edges to anywhere: no group is nearer to another than to the rest.
    fn groups(count: u32, seed: u64) -> Graph {
        let (n, mut random) = (count * 30, Seeded::new(seed));
        let mut edges = Vec::new();
        for v in 0..n {
            let group = v / 30 * 30;
            (0..6).for_each(|_| edges.push((v, group + random.below(30) as u32, 1)));
            edges.push((v, random.below(u64::from(n)) as u32, 1));
        }
        Graph::from_edges(n as usize, &edges).unwrap()
    }

    fn away(before: &[u32], after: &[u32]) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    #[test]
    fn a_joining_agent_moves_little_and_cuts_hardly_more() {
        let graph = groups(100, 2);
        let loads = Loads::equal(3000);
        let few = Balance::equal(&loads, 8, 0.05).unwrap();
        let before = Multilevel::default().split(&Problem::new(&graph, &loads, &few)).unwrap();
        let many = Balance::equal(&loads, 9, 0.05).unwrap();
        let problem = Problem::new(&graph, &loads, &many);
        let after = Incremental::default().split(&problem, &Change::Joined.renumber(&before.part)).unwrap();
        let scratch = Multilevel::default().split(&problem).unwrap();
        let moved = away(&before.part, &after.part) as f64 / 3000.0;
        assert!(moved <= 1.3 / 9.0, "{moved} moved");
        assert!(after.overload <= 1.051 && after.loads[0][8] > 200, "{:?}", after.loads);
        assert!(after.cut as f64 <= 1.05 * scratch.cut as f64, "{} against {}", after.cut, scratch.cut);
    }

    #[test]
    fn a_departed_agents_hosts_are_shared_out_and_others_stay() {
        let graph = groups(40, 3);
        let loads = Loads::equal(1200);
        let many = Balance::equal(&loads, 6, 0.05).unwrap();
        let before = Multilevel::default().split(&Problem::new(&graph, &loads, &many)).unwrap();
        let left = Change::Left(2).renumber(&before.part);
        let orphans = left.iter().filter(|part| **part == FREE).count();
        let few = Balance::equal(&loads, 5, 0.05).unwrap();
        let problem = Problem::new(&graph, &loads, &few);
        let after = Incremental { budget: 0.2, ..Incremental::default() }.split(&problem, &left).unwrap();
        assert!(after.overload <= 1.051, "{}", after.overload);
        let moved = away(&left, &after.part) - orphans;
        assert!(moved as f64 <= 0.2 * 1200.0 / 5.0, "{moved} of others' moved");
    }

    #[test]
    fn nothing_moves_where_nothing_may() {
        let graph = groups(20, 4);
        let loads = Loads::equal(600);
        let balance = Balance::equal(&loads, 4, 0.05).unwrap();
        let problem = Problem::new(&graph, &loads, &balance);
        let before: Vec<u32> = (0..600).map(|v| v % 4).collect();
        let still = Incremental { budget: 0.0, ..Incremental::default() };
        assert_eq!(still.split(&problem, &before).unwrap().part, before);
        // New hosts among them find a place.
        let mut some = before.clone();
        (0..30).for_each(|v| some[v * 7] = FREE);
        let after = still.split(&problem, &some).unwrap();
        assert!(after.part.iter().all(|part| *part < 4));
        assert!((0..600).all(|v| some[v] == FREE || some[v] == after.part[v]));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let graph = Graph::empty(3);
        let loads = Loads::equal(3);
        let balance = Balance::equal(&loads, 2, 0.05).unwrap();
        let problem = Problem::new(&graph, &loads, &balance);
        assert!(Incremental::default().split(&problem, &[0]).is_err());
        let error = Incremental::default().split(&problem, &[0, 1, 2]).unwrap_err();
        assert_eq!(error.to_string(), "the split before names part 2, but there are only 2 parts");
        assert_eq!(Change::Left(1).renumber(&[0, 1, 2, FREE]), [0, FREE, 1, FREE]);
    }
}
