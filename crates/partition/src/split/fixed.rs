//! Fixed vertices become affinities: what is left is a smaller problem in which everything may move.
//!
//! An edge between a free vertex and a fixed one is cut unless the free one goes to the fixed one's part. That is the
//! same as an affinity of that part, so the answer of the smaller problem is the answer of the whole one.

use super::{Balance, FREE, Loads, Problem, Split};
use crate::graph::Arc;
use crate::{Error, Graph};

/// A problem without its fixed vertices.
pub(super) struct Reduced {
    pub graph: Graph,
    pub loads: Loads,
    pub balance: Balance,
    pub affinities: Vec<u32>,
    /// The free vertices, by their numbers in the whole problem.
    pub free: Vec<u32>,
    /// Parts of all vertices; [`FREE`] where that is to be found.
    pub fixed: Vec<u32>,
}

impl Reduced {
    pub fn problem(&self) -> Problem<'_> {
        Problem {
            graph: &self.graph,
            loads: &self.loads,
            balance: &self.balance,
            affinities: Some(&self.affinities),
            fixed: None,
        }
    }

    /// Puts the free vertices' parts beside the fixed ones.
    pub fn whole(self, part: &[u32]) -> Vec<u32> {
        let mut whole = self.fixed;
        for (v, part) in self.free.iter().zip(part) {
            whole[*v as usize] = *part;
        }
        whole
    }
}

/// Splits with a method for problems in which nothing is fixed and nothing too heavy.
pub(super) fn split_free(
    problem: &Problem<'_>,
    free: impl FnOnce(&Problem<'_>) -> Vec<u32>,
) -> Result<Split, Error> {
    problem.check()?;
    let part = match reduce(problem) {
        Some(reduced) => {
            let part = free(&reduced.problem());
            reduced.whole(&part)
        }
        None => free(problem),
    };
    Ok(problem.judge(part))
}

/// Takes out fixed vertices, and *giants*: vertices heavier than what any part bears. A giant gets a part that has no
/// other yet, the one that bears most and then the one of greatest affinity, and the rest is shared fairly among the others.
/// `None` where there are neither.
pub(super) fn reduce(problem: &Problem<'_>) -> Option<Reduced> {
    let (n, k) = (problem.graph.vertices(), problem.parts());
    let mut fixed = problem.fixed.map_or_else(|| vec![FREE; n], <[u32]>::to_vec);
    let balance = place_giants(problem, &mut fixed);
    if fixed.iter().all(|part| *part == FREE) {
        return None;
    }
    let free: Vec<u32> = (0..n as u32).filter(|v| fixed[*v as usize] == FREE).collect();
    let mut number = vec![FREE; n];
    free.iter().enumerate().for_each(|(new, old)| number[*old as usize] = new as u32);
    let mut affinities = vec![0u32; free.len() * k];
    let (mut offsets, mut arcs) = (vec![0], Vec::new());
    let (kinds, mut weights) =
        (problem.loads.kinds(), Vec::with_capacity(free.len() * problem.loads.kinds()));
    for (new, old) in free.iter().enumerate() {
        let row = &mut affinities[new * k..(new + 1) * k];
        if let Some(affinities) = problem.affinities {
            row.copy_from_slice(&affinities[*old as usize * k..(*old as usize + 1) * k]);
        }
        for arc in problem.graph.arcs(*old as usize) {
            match fixed[arc.to as usize] {
                FREE => arcs.push(Arc { to: number[arc.to as usize], weight: arc.weight }),
                part => row[part as usize] += arc.weight,
            }
        }
        offsets.push(arcs.len());
        weights.extend_from_slice(problem.loads.of(*old as usize));
    }
    // What fixed vertices weigh is borne already.
    let mut limits = balance.limits().to_vec();
    for (v, part) in fixed.iter().enumerate().filter(|(_, part)| **part != FREE) {
        for (kind, weight) in problem.loads.of(v).iter().enumerate() {
            let limit = &mut limits[kind * k + *part as usize];
            *limit = limit.saturating_sub(*weight);
        }
    }
    Some(Reduced {
        graph: Graph::from_rows(offsets, arcs),
        loads: Loads::from_rows(kinds, weights),
        balance: balance.with_limits(limits),
        affinities,
        free,
        fixed,
    })
}

fn place_giants(problem: &Problem<'_>, fixed: &mut [u32]) -> Balance {
    let (k, balance) = (problem.parts(), problem.balance);
    let most = balance.limits()[..k].iter().copied().max().unwrap_or(0);
    let mut giants: Vec<usize> =
        (0..fixed.len()).filter(|v| fixed[*v] == FREE && problem.loads.first(*v) > most).collect();
    if giants.is_empty() || k < 2 {
        return balance.clone();
    }
    giants.sort_by_key(|v| std::cmp::Reverse(problem.loads.first(*v)));
    // Each giant is heavier than a fair share, so there are fewer of them than parts.
    giants.truncate(k - 1);
    let mut taken = vec![false; k];
    for v in &giants {
        let affinity = |j: usize| problem.affinities.map_or(0, |affinities| affinities[v * k + j]);
        let best = (0..k).filter(|j| !taken[*j]).max_by_key(|j| (balance.limits()[*j], affinity(*j)));
        if let Some(best) = best {
            taken[best] = true;
            fixed[*v] = best as u32;
        }
    }
    let giants_weigh: u64 = giants.iter().map(|v| problem.loads.first(*v)).sum();
    let rest = problem.loads.total(0).saturating_sub(giants_weigh) as f64;
    let others: f64 = (0..k).filter(|j| !taken[*j]).map(|j| balance.fair()[j]).sum();
    let mut limits = balance.limits().to_vec();
    for j in (0..k).filter(|j| !taken[*j]) {
        let slack = balance.limits()[j] as f64 / balance.fair()[j].max(1.0);
        let share = (rest * balance.fair()[j] / others.max(1.0) * slack).ceil() as u64;
        limits[j] = limits[j].min(share);
    }
    balance.with_limits(limits)
}
