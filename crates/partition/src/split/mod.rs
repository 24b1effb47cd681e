//! Splitting: which part each vertex goes to.
//!
//! A [`Problem`] is a graph whose edges should not be cut, what each vertex weighs, how much each part bears, and how
//! strongly each vertex belongs to each agent (its *affinities*). [`Multilevel`] answers well; [`Flat`] is the thesis' method, [`hash`] and
//! [`consistent`] are what everybody else does. A [`Split`] tells what an answer is worth.
//!
//! Agents are fixed vertices, one in each part, joined to every other vertex [Exposto08 §5.1]. An edge to an
//! agent is therefore cut unless the vertex is in the agent's part, and a vertex needs no more of all those edges than
//! one number per part: its *affinities*. So agents never stand in the way of coarsening, and they never move.

mod balance;
pub mod consistent;
mod fixed;
mod flat;
pub mod hash;
mod heap;
mod incremental;
mod multilevel;
mod refine;

pub use balance::{Balance, Loads};
pub use flat::Flat;
pub use incremental::{Change, Incremental};
pub use multilevel::{Multilevel, Start};

use crate::{Error, Graph};

/// In a list of fixed vertices: this one may go anywhere.
pub const FREE: u32 = u32::MAX;

/// What is to be split, and between whom.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    pub graph: &'a Graph,
    pub loads: &'a Loads,
    pub balance: &'a Balance,
    /// Affinity of each vertex to the agent of each part, vertex by vertex; `None` where no agent has a wish. The
    /// greatest affinities of all vertices together stay below [`crate::graph::WEIGHT_SUM_MAX`].
    pub affinities: Option<&'a [u32]>,
    /// Parts of vertices that must not move; [`FREE`] for others.
    pub fixed: Option<&'a [u32]>,
}

impl<'a> Problem<'a> {
    /// Edges and balance only.
    pub fn new(graph: &'a Graph, loads: &'a Loads, balance: &'a Balance) -> Problem<'a> {
        Problem { graph, loads, balance, affinities: None, fixed: None }
    }

    pub fn parts(&self) -> usize {
        self.balance.parts()
    }

    /// Says what does not fit together.
    ///
    /// # Errors
    /// Where a list has the wrong length or names a part that there is not.
    pub fn check(&self) -> Result<(), Error> {
        let n = self.graph.vertices();
        let count = |what, given, wanted| {
            if given == wanted { Ok(()) } else { Err(Error::Count { what, given, wanted }) }
        };
        if self.parts() == 0 {
            return Err(Error::NoAgents);
        }
        count("weight", self.loads.vertices(), n)?;
        count("balance", self.balance.kinds(), self.loads.kinds())?;
        if let Some(affinities) = self.affinities {
            count("affinity", affinities.len(), n * self.parts())?;
        }
        if let Some(fixed) = self.fixed {
            count("fixed part", fixed.len(), n)?;
            if let Some(part) = fixed.iter().find(|part| **part != FREE && **part as usize >= self.parts()) {
                return Err(Error::NoPart { what: "a fixed vertex", part: *part, parts: self.parts() });
            }
        }
        Ok(())
    }

    /// What this answer is worth.
    pub fn judge(&self, part: Vec<u32>) -> Split {
        let k = self.parts();
        let cut = self.graph.cut(&part);
        let affinity_cut = self.affinities.map_or(0, |affinities| {
            let rows = affinities.chunks_exact(k).zip(&part);
            rows.map(|(row, own)| {
                row.iter().map(|affinity| u64::from(*affinity)).sum::<u64>() - u64::from(row[*own as usize])
            })
            .sum()
        });
        let loads = self.loads.by_part(&part, k);
        let overload = self.balance.overload(&loads);
        Split { part, cut, affinity_cut, loads, overload }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Part of each vertex.
    pub part: Vec<u32>,
    /// Weight of the edges between parts.
    pub cut: u64,
    /// Weight of the edges to agents of other parts.
    pub affinity_cut: u64,
    /// Load of each part, by kind.
    pub loads: Vec<Vec<u64>>,
    /// Greatest load of a part as a share of its fair share: 1.03 is 3 % too much.
    pub overload: f64,
}

impl Split {
    /// Everything that is cut.
    pub fn cost(&self) -> u64 {
        self.cut + self.affinity_cut
    }
}
