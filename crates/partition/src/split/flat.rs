//! The thesis' method: one graph, no levels, Kernighan and Lin's passes over the whole border [Exposto08 §5.1].
//!
//! What the thesis leaves open is ours (decisions D-2, D-3): servers in falling order of pages, each to the part that it
//! has most to do with and that has room; then passes until none helps.

use super::fixed::split_free;
use super::multilevel::{Level, initial::greedy};
use super::refine::Refiner;
use super::{Problem, Split};
use crate::Error;
use farol_base::Seeded;

/// Kernighan and Lin, Fiduccia and Mattheyses, without levels.
#[derive(Clone, Copy, Debug)]
pub struct Flat {
    /// Moves without gain after which a pass ends.
    pub patience: usize,
    pub seed: u64,
}

impl Default for Flat {
    fn default() -> Flat {
        Flat { patience: 1000, seed: 1 }
    }
}

impl Flat {
    /// Splits.
    ///
    /// # Errors
    /// Where the problem does not fit together; see [`Problem::check`].
    pub fn split(&self, problem: &Problem<'_>) -> Result<Split, Error> {
        split_free(problem, |problem| self.free(problem))
    }

    fn free(&self, problem: &Problem<'_>) -> Vec<u32> {
        let level = Level::of(problem);
        let mut part = greedy(&level, problem.balance);
        let mut random = Seeded::new(self.seed);
        let mut refiner = Refiner::new(&level, problem.balance, &mut part, None);
        refiner.rebalance();
        while refiner.pass(usize::MAX, self.patience, &mut random) > 0 {}
        part
    }
}
