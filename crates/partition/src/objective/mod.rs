//! What a split should be good at: one small trait, one file per objective.
//!
//! An objective draws its own graph of the space: edges that should not be cut, and affinities of agents on servers (edges
//! to the fixed vertices). [`combine`] puts several together, each as important as its preference says.

mod combine;
mod geography;
mod links;
mod round_trips;

pub use combine::{Asked, Combined, Normalisation, Plan, Planner, Wish, combine};
pub use geography::Geography;
pub use links::Links;
pub use round_trips::RoundTrips;

use crate::{Error, Space};

/// The sense of distances (decision D-1 of `docs/decisions/partition.md`, as all of this crate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sense {
    /// A server has an affinity to each agent in the measure of how much nearer they are than the farthest.
    #[default]
    Affinity,
    /// Edges weigh what the distance is, as \[Exposto08\] has it. Least cut then means farthest agent; for
    /// comparison only.
    Literal,
}

/// An objective's graph.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Edges between servers.
    pub edges: Vec<(u32, u32, f64)>,
    /// Affinity of each server to each agent, server by server; empty where no agent does.
    pub affinities: Vec<f64>,
}

impl Terms {
    /// Whether it is the same wherever a server goes.
    pub fn says_nothing(&self) -> bool {
        self.edges.iter().all(|edge| edge.2 <= 0.0) && self.affinities.iter().all(|affinity| *affinity == 0.0)
    }

    /// Adds another objective's graph, so many times as strong.
    pub fn add(&mut self, other: &Terms, factor: f64) {
        self.edges.extend(other.edges.iter().map(|(a, b, weight)| (*a, *b, weight * factor)));
        if !other.affinities.is_empty() {
            self.affinities.resize(other.affinities.len(), 0.0);
            self.affinities
                .iter_mut()
                .zip(&other.affinities)
                .for_each(|(sum, affinity)| *sum += affinity * factor);
        }
    }

    /// Weight of what an assignment to `k` parts cuts.
    pub fn cut(&self, part: &[u32], k: usize) -> f64 {
        let edges = self.edges.iter().filter(|(a, b, _)| part[*a as usize] != part[*b as usize]);
        let affinities = self.affinities.chunks_exact(k.max(1)).zip(part);
        let away = affinities.map(|(row, own)| row.iter().sum::<f64>() - row[*own as usize]);
        edges.map(|edge| edge.2).sum::<f64>() + away.sum::<f64>()
    }

    /// What an assignment that knows nothing cuts in the mean.
    pub fn cut_blindly(&self, k: usize) -> f64 {
        let all: f64 = self.edges.iter().filter(|(a, b, _)| a != b).map(|edge| edge.2).sum();
        (all + self.affinities.iter().sum::<f64>()) * (1.0 - 1.0 / k.max(1) as f64)
    }
}

/// Something that a split should be good at.
pub trait Objective {
    fn name(&self) -> &'static str;

    /// Its graph of a space.
    ///
    /// # Errors
    /// Where the space does not fit together.
    fn terms(&self, space: &Space) -> Result<Terms, Error>;
}

/// Affinities by distance: for each server, distances to all agents where known.
///
/// An unknown distance is taken as the mean of the server's known ones, so that it neither draws nor repels.
/// An agent that reports the same distance for all servers says nothing, and is taken as unknown.
fn affinities_by_distance(
    space: &Space,
    sense: Sense,
    distance: impl Fn(usize, usize) -> Option<f64>,
    weight: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let (n, k) = (space.servers.len(), space.agents.len());
    let mut says_nothing = vec![false; k];
    for (j, nothing) in says_nothing.iter_mut().enumerate() {
        let mut seen = (0..n).filter_map(|s| distance(s, j));
        let first = seen.next();
        *nothing = n > 1 && first.is_none_or(|first| seen.all(|other| other == first));
    }
    let mut affinities = vec![0.0; n * k];
    for s in 0..n {
        let row = &mut affinities[s * k..(s + 1) * k];
        let known: Vec<Option<f64>> = (0..k).map(|j| distance(s, j).filter(|_| !says_nothing[j])).collect();
        let count = known.iter().flatten().count();
        if count == 0 {
            continue;
        }
        let mean = known.iter().flatten().sum::<f64>() / count as f64;
        let most = known.iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
        for (affinity, known) in row.iter_mut().zip(known) {
            let distance = known.unwrap_or(mean);
            *affinity = weight(s) * if sense == Sense::Literal { distance } else { most - distance };
        }
    }
    affinities
}
