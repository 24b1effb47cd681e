//! Power iteration over any graph that can hand rank along its links.

use crate::error::Error;

/// Share of a page's rank that its links pass on.
pub(crate) const DAMPING: f64 = 0.85;

/// When to stop iterating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Most passes over the links.
    pub iterations_max: u32,
    /// Stop once one pass changes all ranks together by less than this; ranks add up to 1.
    pub tolerance: f64,
}

/// 60 passes at most; a change of 0.00001 in all moves no page in a result list.
impl Default for Budget {
    fn default() -> Budget {
        Budget { iterations_max: 60, tolerance: 1e-5 }
    }
}

/// A graph, wherever its links are kept.
pub(crate) trait Graph {
    fn nodes(&self) -> usize;

    /// Adds to `next` what each node gets of `rank` along its links, undamped; answers the rank of all nodes that
    /// have links.
    fn spread(&mut self, rank: &[f32], next: &mut [f64]) -> Result<f64, Error>;
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub rank: Vec<f32>,
    pub iterations: u32,
    /// Change by the last pass, summed over all nodes.
    pub residual: f64,
}

/// Iterates from `rank` until the budget is used up.
///
/// 12 bytes per node: sums are kept in double precision while they grow, ranks in single precision between passes.
pub(crate) fn iterate(graph: &mut impl Graph, mut rank: Vec<f32>, budget: Budget) -> Result<Outcome, Error> {
    let nodes = graph.nodes();
    debug_assert_eq!(nodes, rank.len());
    let mut outcome = Outcome { rank: Vec::new(), iterations: 0, residual: 0.0 };
    if nodes == 0 {
        return Ok(outcome);
    }
    normalise(&mut rank);
    let mut next = vec![0f64; nodes];
    while outcome.iterations < budget.iterations_max {
        next.fill(0.0);
        let total: f64 = rank.iter().map(|r| f64::from(*r)).sum();
        let linked = graph.spread(&rank, &mut next)?;
        let dangling = (total - linked).max(0.0);
        let base = (1.0 - DAMPING + DAMPING * dangling) / nodes as f64;
        outcome.residual = 0.0;
        for (rank, got) in rank.iter_mut().zip(&next) {
            let new = base + DAMPING * got;
            outcome.residual += (new - f64::from(*rank)).abs();
            *rank = new as f32;
        }
        outcome.iterations += 1;
        if outcome.residual < budget.tolerance {
            break;
        }
    }
    outcome.rank = rank;
    Ok(outcome)
}

/// Makes ranks add up to 1; ranks that cannot (all zero, not numbers) become equal.
fn normalise(rank: &mut [f32]) {
    let sum: f64 = rank.iter().map(|r| f64::from(*r)).sum();
    let equal = 1.0 / rank.len() as f64;
    for r in rank {
        *r = if sum.is_normal() && sum > 0.0 { (f64::from(*r) / sum) as f32 } else { equal as f32 };
    }
}
