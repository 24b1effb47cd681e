//! Splitting the coarsest graph: recursive bisection by growing, and greedily by greatest affinity; the best is kept.

use super::Level;
use super::coarsen::Merging;
use super::{Multilevel, Refined, coarsen_steps};
use crate::Graph;
use crate::graph::Arc;
use crate::split::heap::Heap;
use crate::split::refine::{Effort, Refiner};
use crate::split::{Balance, Loads};
use farol_base::{Random, Seeded};
use std::borrow::Cow;
use std::ops::Range;

/// What a trial costs for each edge and vertex, in visits.
const TRIAL_COST: usize = 60;
const TRIALS_MAX: usize = 60;
/// Vertices left when a half is coarsened before it is split in two.
const BISECTED: usize = 80;
/// A halving is done so often that all cost so many edges and vertices, at most [`BISECTIONS_MAX`] times.
const BISECTIONS_COST: usize = 100_000;
const BISECTIONS_MAX: usize = 3;

/// The best of some splits of a small graph: of more than `search` asks for while all together cost less than `cost_max`
/// visits of an edge, because luck decides much.
pub(in crate::split) fn best(
    level: &Level<'_>,
    balance: &Balance,
    search: &Multilevel,
    cost_max: usize,
    random: &mut Seeded,
) -> Vec<u32> {
    let cheap = (cost_max / (TRIAL_COST * (level.graph.edges() + level.vertices()).max(1))).min(TRIALS_MAX);
    let trials = search.trials.max(cheap).max(1);
    let mut best: Option<((u64, i64), Vec<u32>)> = None;
    for trial in 0..trials + 1 {
        let mut part = if trial < trials {
            bisected(level, balance, search, random)
        } else if level.affinities.is_some() {
            greedy(level, balance)
        } else {
            break;
        };
        let mut refiner = Refiner::new(level, balance, &mut part, None);
        refiner.rebalance();
        let effort = Effort { passes: search.passes, patience: search.patience };
        refiner.refine(effort, random);
        refiner.rebalance();
        refiner.refine_small(effort, random);
        let worth = (refiner.excess(), refiner.cost());
        if best.as_ref().is_none_or(|(least, _)| worth < *least) {
            best = Some((worth, part));
        }
    }
    best.map_or_else(|| vec![0; level.vertices()], |(_, part)| part)
}

/// Splits in two, then each half, down to single parts.
pub(in crate::split) fn bisected(
    level: &Level<'_>,
    balance: &Balance,
    search: &Multilevel,
    random: &mut Seeded,
) -> Vec<u32> {
    let mut part = vec![0; level.vertices()];
    let all: Vec<u32> = (0..level.vertices() as u32).collect();
    bisect_down(level, balance, &all, 0..balance.parts(), search, &mut part, random);
    part
}

/// Splits some vertices between the parts `from..to`, half of them at a time.
fn bisect_down(
    level: &Level<'_>,
    balance: &Balance,
    vertices: &[u32],
    parts: Range<usize>,
    search: &Multilevel,
    part: &mut [u32],
    random: &mut Seeded,
) {
    let Range { start: from, end: to } = parts;
    if to - from == 1 || vertices.is_empty() {
        vertices.iter().for_each(|v| part[*v as usize] = from as u32);
        return;
    }
    let middle = from + (to - from) / 2;
    let (sub, halves) = halves(level, balance, vertices, from, middle, to);
    let side = bisect(sub, &halves, search, random);
    let pick = |wanted: u32| -> Vec<u32> {
        vertices.iter().zip(&side).filter(|(_, side)| **side == wanted).map(|(v, _)| *v).collect()
    };
    bisect_down(level, balance, &pick(0), from..middle, search, part, random);
    bisect_down(level, balance, &pick(1), middle..to, search, part, random);
}

/// The problem of splitting some vertices in two, for the parts `from..middle` and `middle..to`.
fn halves(
    level: &Level<'_>,
    balance: &Balance,
    vertices: &[u32],
    from: usize,
    middle: usize,
    to: usize,
) -> (Level<'static>, Balance) {
    let k = balance.parts();
    let mut number = vec![u32::MAX; level.vertices()];
    vertices.iter().enumerate().for_each(|(new, old)| number[*old as usize] = new as u32);
    let (mut offsets, mut arcs) = (vec![0], Vec::new());
    let mut weights = Vec::new();
    let mut affinities = level.affinities.as_ref().map(|_| Vec::with_capacity(vertices.len() * 2));
    for old in vertices {
        let near = level.graph.arcs(*old as usize).iter();
        let near = near.filter(|arc| number[arc.to as usize] != u32::MAX);
        arcs.extend(near.map(|arc| Arc { to: number[arc.to as usize], weight: arc.weight }));
        offsets.push(arcs.len());
        weights.extend_from_slice(level.loads.of(*old as usize));
        if let (Some(affinities), Some(all)) = (&mut affinities, &level.affinities) {
            let row = &all[*old as usize * k..(*old as usize + 1) * k];
            // Later halvings can still choose the best agent of a half.
            affinities.push(row[from..middle].iter().copied().max().unwrap_or(0));
            affinities.push(row[middle..to].iter().copied().max().unwrap_or(0));
        }
    }
    let loads = Loads::from_rows(level.loads.kinds(), weights);
    let rounds = ((to - from) as f64).log2().ceil().max(1.0);
    let fair = |range: std::ops::Range<usize>| balance.limits()[range].iter().sum::<u64>().max(1) as f64;
    let capacities = [fair(from..middle), fair(middle..to)];
    // What is given away here is missing in the halvings to come.
    let room: f64 = capacities.iter().sum::<f64>() / (loads.total(0) as f64).max(1.0);
    let slack = room.max(1.0).powf(1.0 / rounds) - 1.0;
    let two = Balance::new(&loads, &capacities, slack).unwrap_or_else(|_| balance.clone());
    let sub = Level {
        graph: Cow::Owned(Graph::from_rows(offsets, arcs)),
        loads: Cow::Owned(loads),
        affinities: affinities.map(Cow::Owned),
        home: None,
    };
    (sub, two)
}

/// Splits in two, multilevel as well; more than once where that is cheap, because each halving decides all that follow.
fn bisect(level: Level<'_>, two: &Balance, search: &Multilevel, random: &mut Seeded) -> Vec<u32> {
    let search = Multilevel { passes: 2, patience: search.patience / 2 + 1, ..*search };
    let cost = (level.graph.edges() + level.vertices()).max(1);
    let mut best: Option<Refined> = None;
    for _ in 0..(BISECTIONS_COST / cost).clamp(1, BISECTIONS_MAX) {
        let tower = coarsen_steps(level.clone(), BISECTED, usize::MAX, Merging::PAIRS, random);
        let side = grow_best(tower.coarsest(), two, &search, random);
        let refined = tower.refine(side, two, None, &search, random);
        best = Some(match best {
            Some(best) => best.or_better(refined),
            None => refined,
        });
    }
    best.map_or_else(Vec::new, |best| best.part)
}

fn grow_best(level: &Level<'_>, two: &Balance, search: &Multilevel, random: &mut Seeded) -> Vec<u32> {
    let mut best: Option<((u64, i64), Vec<u32>)> = None;
    for _ in 0..search.grown.max(1) {
        let mut side = grow(level, two.fair()[0] as u64, random);
        let mut refiner = Refiner::new(level, two, &mut side, None);
        refiner.rebalance();
        refiner.refine(Effort { passes: 2, patience: search.patience / 2 + 1 }, random);
        let worth = (refiner.excess(), refiner.cost());
        if best.as_ref().is_none_or(|(least, _)| worth < *least) {
            best = Some((worth, side));
        }
    }
    best.map_or_else(Vec::new, |(_, side)| side)
}

/// Grows side 0 around a vertex, always by the vertex that cuts least.
fn grow(level: &Level<'_>, wanted: u64, random: &mut Seeded) -> Vec<u32> {
    let n = level.vertices();
    let mut side = vec![1u32; n];
    let mut grown = 0;
    let mut heap = Heap::new(n);
    let mut inside = vec![0i64; n];
    let affinity = |v: usize| {
        level
            .affinities
            .as_ref()
            .map_or(0, |affinities| i64::from(affinities[v * 2]) - i64::from(affinities[v * 2 + 1]))
    };
    let degree: Vec<i64> =
        (0..n).map(|v| level.graph.arcs(v).iter().map(|arc| i64::from(arc.weight)).sum()).collect();
    let mut passed_over = 0;
    while grown < wanted && passed_over < 20 {
        let next = heap.pop().map(|(_, v)| v).or_else(|| {
            let from = random.below(n as u64) as usize;
            (from..n).chain(0..from).find(|v| side[*v] == 1).map(|v| v as u32)
        });
        let Some(v) = next else { break };
        let weight = level.loads.first(v as usize);
        // The last step may overshoot; it is taken where it brings us nearer.
        if grown + weight > wanted && grown + weight - wanted > wanted - grown && grown > 0 {
            passed_over += 1;
            continue;
        }
        side[v as usize] = 0;
        grown += weight;
        for arc in level.graph.arcs(v as usize) {
            let u = arc.to as usize;
            if side[u] == 1 {
                inside[u] += i64::from(arc.weight);
                heap.set(arc.to, 2 * inside[u] - degree[u] + affinity(u));
            }
        }
    }
    side
}

/// Vertices in falling order of weight, each to the part that it has most to do with and that has room [Exposto08 §5.1].
pub(in crate::split) fn greedy(level: &Level<'_>, balance: &Balance) -> Vec<u32> {
    let (n, k) = (level.vertices(), balance.parts());
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|v| std::cmp::Reverse(level.loads.first(*v as usize)));
    let mut part = vec![u32::MAX; n];
    let mut loads = vec![0u64; k];
    let mut attached = vec![0u64; k];
    for v in order {
        let v = v as usize;
        attached.fill(0);
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
        let fits = |j: &usize| loads[*j] + weight <= balance.limits()[*j];
        let filled = |j: usize| (loads[j] + weight) as f64 / balance.limits()[j].max(1) as f64;
        let fitting = (0..k)
            .filter(fits)
            .max_by(|a, b| attached[*a].cmp(&attached[*b]).then(filled(*b).total_cmp(&filled(*a))));
        let least = || (0..k).min_by(|a, b| filled(*a).total_cmp(&filled(*b))).unwrap_or(0);
        let to = fitting.unwrap_or_else(least);
        part[v] = to as u32;
        loads[to] += weight;
    }
    part
}
