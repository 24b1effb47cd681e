//! The multilevel method: coarsen, split the small graph, and refine while it grows back.
//!
//! Vertices that belong together are merged ([`coarsen`]), level by level, until a few hundred are left. Those are split
//! by recursive bisection, several times ([`initial`]); the best is projected back, and at each level vertices at the
//! border move to where they have most neighbours ([`super::refine`]). A further *cycle* does it all again without ever
//! merging across the border, so that whole groups can change sides.
//!
//! After Karypis and Kumar 1998 (the scheme), Meyerhenke, Sanders, Schulz 2014 (clusters instead of matchings for
//! graphs of the Web) and Fiduccia, Mattheyses 1982 (refinement). METIS could not fix vertices, which made the thesis
//! give the scheme up (spec §2.4); here agents are pulls, and coarsening adds those up.

pub(super) mod coarsen;
pub(super) mod initial;

use super::fixed::split_free;
use super::refine::{Budget, Effort, Refiner};
use super::{Balance, Loads, Problem, Split};
use crate::{Error, Graph};
use coarsen::{cluster, contract};
use farol_base::Seeded;
use std::borrow::Cow;

/// How thoroughly to search.
#[derive(Clone, Copy, Debug)]
pub struct Multilevel {
    /// Times that the coarsest graph is split anew, of which the best is kept.
    pub trials: usize,
    /// Times that each bisection is grown from another vertex.
    pub grown: usize,
    /// Passes of refinement at each level, at most.
    pub passes: usize,
    /// Moves without gain after which a search for better places ends.
    pub patience: usize,
    /// Times that the whole is coarsened and refined again with what was found.
    pub cycles: usize,
    /// Vertices left per part when coarsening ends.
    pub coarsest: usize,
    pub seed: u64,
}

impl Default for Multilevel {
    fn default() -> Multilevel {
        Multilevel { trials: 3, grown: 4, passes: 4, patience: 30, cycles: 0, coarsest: 30, seed: 1 }
    }
}

/// A graph on its way from fine to coarse.
#[derive(Clone)]
pub(super) struct Level<'a> {
    pub graph: Cow<'a, Graph>,
    pub loads: Cow<'a, Loads>,
    pub pulls: Option<Cow<'a, [u32]>>,
    /// Where each vertex was before; only vertices from the same part are merged.
    pub home: Option<Vec<u32>>,
}

impl<'a> Level<'a> {
    pub fn of(problem: &Problem<'a>) -> Level<'a> {
        Level {
            graph: Cow::Borrowed(problem.graph),
            loads: Cow::Borrowed(problem.loads),
            pulls: problem.pulls.map(Cow::Borrowed),
            home: None,
        }
    }

    pub fn vertices(&self) -> usize {
        self.graph.vertices()
    }
}

/// Coarser and coarser graphs, and which vertex of each its finer vertices went to.
pub(super) struct Tower<'a> {
    pub levels: Vec<Level<'a>>,
    pub maps: Vec<Vec<u32>>,
}

impl Multilevel {
    /// Splits.
    ///
    /// # Errors
    /// Where the problem does not fit together; see [`Problem::check`].
    pub fn split(&self, problem: &Problem<'_>) -> Result<Split, Error> {
        split_free(problem, |problem| self.free(problem))
    }

    /// Splits where nothing is fixed.
    fn free(&self, problem: &Problem<'_>) -> Vec<u32> {
        let (n, k) = (problem.graph.vertices(), problem.parts());
        if k == 1 || n == 0 {
            return vec![0; n];
        }
        let mut random = Seeded::new(self.seed);
        let tower = self.coarsen(Level::of(problem), k, &mut random);
        let part = initial::best(tower.coarsest(), problem.balance, self, &mut random);
        let mut part = tower.refine(part, problem.balance, None, self, &mut random);
        drop(tower);
        for _ in 0..self.cycles {
            let level = Level { home: Some(part.clone()), ..Level::of(problem) };
            let tower = self.coarsen(level, k, &mut random);
            let before = tower.project_up(&part);
            part = tower.refine(before, problem.balance, None, self, &mut random);
        }
        part
    }

    /// Coarsens until few vertices are left or no more can be merged.
    pub(super) fn coarsen<'a>(&self, level: Level<'a>, parts: usize, random: &mut Seeded) -> Tower<'a> {
        let enough = (self.coarsest * parts).max(200);
        let total = level.loads.total(0);
        let mut tower = Tower { levels: vec![level], maps: Vec::new() };
        loop {
            let finest = tower.coarsest();
            let n = finest.vertices();
            // Without edges nothing belongs together, and merging would only blur who pulls whom.
            if n <= enough || (finest.graph.edges() == 0 && finest.pulls.is_some()) {
                break;
            }
            // No vertex may become so heavy that parts cannot be balanced any more.
            let most = (total * 3 / 2).div_ceil(enough as u64).max(1);
            let labels = cluster(finest, most, (enough / 2).max(n / 8), random);
            let (coarser, map) = contract(finest, &labels);
            // A level that saves next to nothing costs more than it brings.
            if coarser.vertices() as f64 > 0.95 * n as f64 {
                break;
            }
            tower.levels.push(coarser);
            tower.maps.push(map);
        }
        tower
    }
}

impl Tower<'_> {
    pub fn coarsest(&self) -> &Level<'_> {
        &self.levels[self.levels.len() - 1]
    }

    /// What a split that coarsening respected looks like at the top.
    pub fn project_up(&self, part: &[u32]) -> Vec<u32> {
        let mut part = part.to_vec();
        for (level, map) in self.levels[1..].iter().zip(&self.maps) {
            let mut coarse = vec![0; level.vertices()];
            part.iter().zip(map).for_each(|(part, to)| coarse[*to as usize] = *part);
            part = coarse;
        }
        part
    }

    /// Carries a split from the coarsest graph to the finest, refining at each level.
    pub fn refine(
        &self,
        mut part: Vec<u32>,
        balance: &Balance,
        mut budget: Option<Budget>,
        search: &Multilevel,
        random: &mut Seeded,
    ) -> Vec<u32> {
        for (depth, level) in self.levels.iter().enumerate().rev() {
            if depth + 1 < self.levels.len() {
                part = self.maps[depth].iter().map(|coarse| part[*coarse as usize]).collect();
            }
            if let Some(budget) = &mut budget {
                budget.enter(level, &part);
            }
            let mut refiner = Refiner::new(level, balance, &mut part, budget.take());
            refiner.rebalance();
            refiner.refine(Effort { passes: search.passes, patience: search.patience }, random);
            refiner.rebalance();
            budget = refiner.into_budget();
        }
        part
    }
}

#[cfg(test)]
mod tests;
