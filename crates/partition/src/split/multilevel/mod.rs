//! The multilevel method: coarsen, split the small graph, and refine while it grows back.
//!
//! Vertices that belong together are merged ([`coarsen`]), level by level, until a few hundred are left. Those are split
//! by recursive bisection, several times ([`initial`]); the best is projected back, and at each level vertices at the
//! border move to where they have most neighbours ([`super::refine`]). A further *cycle* does it all again without ever
//! merging across the border, so that whole groups can change sides.
//!
//! After \[Karypis98\] (the scheme), \[Meyerhenke14\] (clusters instead of matchings for graphs of the Web)
//! and \[Fiduccia82\] (refinement). METIS could not fix vertices, which made the thesis give the scheme up
//! [Exposto08 §5.1]; here agents are affinities, and coarsening adds those up.

pub(super) mod coarsen;
pub(super) mod initial;

use super::fixed::split_free;
use super::refine::{Budget, Effort, Refiner};
use super::{Balance, Loads, Problem, Split};
use crate::{Error, Graph};
use coarsen::{Merging, cluster, contract};
use farol_base::Seeded;
use std::borrow::Cow;

/// Splitting the coarsest graph may cost so many visits of an edge, or so many for each edge of the whole graph.
const SPLITS_MIN: usize = 500_000;
/// The same for a graph that needs no coarsening: all depends on it, and it takes some milliseconds.
const SPLITS_SMALL: usize = 4_000_000;
const SPLITS_SHARE: usize = 3;
/// Runs times parts that are cheap together, and runs at most.
const RUNS_PARTS: usize = 16;
const RUNS_MAX: usize = 4;
/// A graph with fewer vertices is not coarsened.
const COARSEST_MIN: usize = 100;
/// Refining is cheap as long as moves visit fewer edges than so many times what there are.
const WORK_SHARE: usize = 2;
/// Cycles that are added where refining is cheap.
const CYCLES_CHEAP: usize = 1;

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
    /// Times that the whole is done anew where that is cheap, of which the best is kept.
    pub runs: usize,
    /// Vertices left per part when coarsening ends.
    pub coarsest: usize,
    /// Where searches begin.
    pub start: Start,
    pub seed: u64,
}

/// Where a search begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// All parts at once, on the coarsest graph: quick, and best where links go everywhere.
    Coarsest,
    /// The whole graph in two, each half in two, and so on: best where the graph is many separate sites.
    Bisection,
    /// Both; the better one is refined.
    #[default]
    Both,
}

impl Default for Multilevel {
    fn default() -> Multilevel {
        Multilevel {
            trials: 3,
            grown: 4,
            passes: 8,
            patience: 100,
            cycles: 0,
            runs: 2,
            coarsest: 15,
            start: Start::default(),
            seed: 1,
        }
    }
}

/// A graph on its way from fine to coarse.
#[derive(Clone)]
pub(super) struct Level<'a> {
    pub graph: Cow<'a, Graph>,
    pub loads: Cow<'a, Loads>,
    pub affinities: Option<Cow<'a, [u32]>>,
    /// Where each vertex was before; only vertices from the same part are merged.
    pub home: Option<Vec<u32>>,
}

impl<'a> Level<'a> {
    pub fn of(problem: &Problem<'a>) -> Level<'a> {
        Level {
            graph: Cow::Borrowed(problem.graph),
            loads: Cow::Borrowed(problem.loads),
            affinities: problem.affinities.map(Cow::Borrowed),
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

/// A split of the whole graph.
pub(super) struct Refined {
    pub part: Vec<u32>,
    /// What parts bear too much, and the cut: less is better.
    pub worth: (u64, i64),
    /// Edges that moves visited.
    work: usize,
}

impl Refined {
    pub(super) fn or_better(self, other: Refined) -> Refined {
        if other.worth < self.worth { other } else { self }
    }
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
        let is_cheap = |work: usize| work < WORK_SHARE * problem.graph.edges();
        let mut best = match self.start {
            Start::Bisection => self.bisected(problem, &mut random),
            Start::Coarsest => self.at_once(problem, &mut random),
            Start::Both => {
                let best = self.at_once(problem, &mut random);
                best.or_better(self.bisected(problem, &mut random))
            }
        };
        let mut work = best.work;
        for cycle in 0..self.cycles.max(CYCLES_CHEAP) {
            if cycle < self.cycles || is_cheap(work) {
                let level = Level { home: Some(best.part.clone()), ..Level::of(problem) };
                let tower = coarsen_to(level, enough(self.coarsest, k), &mut random);
                let before = tower.project_up(&best.part);
                best = tower.refine(before, problem.balance, None, self, &mut random);
                work += best.work;
            }
        }
        best.part
    }

    /// Splits the coarsest graph into all parts, as often as is cheap, and refines on the way back.
    fn at_once(&self, problem: &Problem<'_>, random: &mut Seeded) -> Refined {
        let k = problem.parts();
        // The first step is the dearest; what follows may be tried more than once.
        let (step, rest) =
            coarsen_steps(Level::of(problem), enough(self.coarsest, k), 1, Merging::CLUSTERS, random)
                .parted();
        let mut best = self.run(&rest, problem, self.coarsest, random);
        let mut work = best.work;
        // What a run costs grows with the number of parts.
        for again in 1..self.runs.max((RUNS_PARTS / k).min(RUNS_MAX)) {
            // Where little moves after the coarsest graph was split, that split decides all, and is worth another try.
            if work < WORK_SHARE * problem.graph.edges() {
                // A finer one, for another view of the same graph.
                let other = self.run(&rest, problem, self.coarsest * (1 + 2 * again), random);
                work += other.work;
                best = best.or_better(other);
            }
        }
        if let Some(step) = step {
            best = step.refine(best.part, problem.balance, None, self, random);
        }
        best.work += work;
        best
    }

    /// Bisects the whole graph down to single parts, and refines them all together.
    fn bisected(&self, problem: &Problem<'_>, random: &mut Seeded) -> Refined {
        let level = Level::of(problem);
        let part = initial::bisected(&level, problem.balance, self, random);
        let tower = Tower { levels: vec![level], maps: Vec::new() };
        tower.refine(part, problem.balance, None, self, random)
    }

    fn run(&self, level: &Level<'_>, problem: &Problem<'_>, coarsest: usize, random: &mut Seeded) -> Refined {
        let tower = coarsen_to(level.clone(), enough(coarsest, problem.parts()), random);
        let least =
            if tower.coarsest().vertices() == problem.graph.vertices() { SPLITS_SMALL } else { SPLITS_MIN };
        let cost = least.max(SPLITS_SHARE * problem.graph.edges());
        let part = initial::best(tower.coarsest(), problem.balance, self, cost, random);
        tower.refine(part, problem.balance, None, self, random)
    }
}

/// Vertices that are left when coarsening ends.
pub(super) fn enough(coarsest: usize, parts: usize) -> usize {
    (coarsest * parts).max(COARSEST_MIN)
}

/// Coarsens until about `enough` vertices are left or no more can be merged.
pub(super) fn coarsen_to<'a>(level: Level<'a>, enough: usize, random: &mut Seeded) -> Tower<'a> {
    coarsen_steps(level, enough, usize::MAX, Merging::CLUSTERS, random)
}

/// The same, in so many steps at most.
fn coarsen_steps<'a>(
    level: Level<'a>,
    enough: usize,
    steps: usize,
    merging: Merging,
    random: &mut Seeded,
) -> Tower<'a> {
    let total = level.loads.total(0);
    let mut tower = Tower { levels: vec![level], maps: Vec::new() };
    while tower.maps.len() < steps {
        let finest = tower.coarsest();
        let n = finest.vertices();
        // Without edges nothing belongs together, and merging would only blur who belongs to whom.
        if n <= enough || (finest.graph.edges() == 0 && finest.affinities.is_some()) {
            break;
        }
        // No vertex may become so heavy that parts cannot be balanced any more.
        let most = (total * 3 / 2).div_ceil(enough as u64).max(1);
        let labels = cluster(finest, most, merging.least(n, enough), merging, random);
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

impl<'a> Tower<'a> {
    /// The last level, and the tower below it, if there is any.
    fn parted(mut self) -> (Option<Tower<'a>>, Level<'a>) {
        let last = self.levels.len() - 1;
        let level = if last > 0 { self.levels.swap_remove(last) } else { self.levels[last].clone() };
        ((last > 0).then_some(self), level)
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
    ) -> Refined {
        let (mut work, mut worth) = (0, (0, 0));
        for (depth, level) in self.levels.iter().enumerate().rev() {
            if depth < self.maps.len() {
                part = self.maps[depth].iter().map(|coarse| part[*coarse as usize]).collect();
            }
            if let Some(budget) = &mut budget {
                budget.enter(level, &part);
            }
            let mut refiner = Refiner::new(level, balance, &mut part, budget.take());
            refiner.rebalance();
            refiner.refine(Effort { passes: search.passes, patience: search.patience }, random);
            refiner.rebalance();
            work += refiner.work;
            worth = (refiner.excess(), refiner.cost());
            budget = refiner.into_budget();
        }
        Refined { part, worth, work }
    }
}

#[cfg(test)]
mod tests;
